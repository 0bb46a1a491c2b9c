//! Who sends a request, what they may do, and why they may not.
//!
//! What differs from service to service, such as the string that a request signs, is asked through
//! [`credentials::Credentials`].

pub(crate) mod accounts;
pub(crate) mod authenticate;
pub(crate) mod bearer;
pub(crate) mod credentials;
pub(crate) mod delegation;
pub(crate) mod explain;
pub(crate) mod permit;
