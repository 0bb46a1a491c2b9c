//! Who sends a request, what they may do, and why they may not.

pub(crate) mod accounts;
pub(crate) mod authenticate;
pub(crate) mod bearer;
pub(crate) mod delegation;
pub(crate) mod explain;
pub(crate) mod permit;
