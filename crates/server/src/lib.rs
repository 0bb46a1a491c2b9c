//! The HTTP front of Lazuli: the only crate that knows hyper.
//!
//! A request passes `listen` → `front::handle` (id, limits, route, authenticate, handle, answer) →
//! a handler in `table` or `batch`, which decodes, calls the service, and encodes. Handlers give a
//! [`reply::Reply`], which `front` turns into an HTTP response and `batch` into one part of a
//! multipart body.

mod accounts;
mod analytics;
mod answer_memory;
mod auth;
mod batch;
mod bearer;
mod body;
mod cors;
mod delegation;
mod encode;
mod error;
mod explain;
mod front;
mod listen;
mod memory;
mod operation;
mod permit;
mod profile;
mod properties;
mod reply;
mod request;
mod request_headers;
mod request_id;
mod respond;
mod route;
mod simulate;
mod stall;
mod table;
mod target;
mod tls;
mod xml_resources;

pub use accounts::{Account, Accounts, AccountsError, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
pub use analytics::{Analytics, Extent};
pub use auth::AuthOptions;
pub use bearer::{
    IssuerOptions, KeySource, KeySourceError, KeysError, RoleGrant, RoleMap, RoleMapError,
    TokenIssuer,
};
pub use front::{Front, FrontOptions, VersionCheck};
pub use listen::{ListenOptions, serve};
pub use profile::Profile;
pub use simulate::SimulateOptions;
pub use tls::{Certificate, CertificateError, SelfSigned, Tls};
