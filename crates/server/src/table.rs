//! The Table service over HTTP: its operations, their routes and their handlers.

pub(crate) mod batch;
pub(crate) mod encode;
pub(crate) mod handlers;
pub(crate) mod operation;
pub(crate) mod properties;
pub(crate) mod route;
pub(crate) mod xml_resources;
