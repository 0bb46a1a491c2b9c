//! Authentication, authorization, and explanations of refusals.
//!
//! Differences between services, such as the string to sign, come from
//! [`credentials::Credentials`].

pub(crate) mod accounts;
pub(crate) mod authenticate;
pub(crate) mod bearer;
pub(crate) mod credentials;
pub(crate) mod delegation;
pub(crate) mod explain;
pub(crate) mod keyring;
pub(crate) mod permit;
