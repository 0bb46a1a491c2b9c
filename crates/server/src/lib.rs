//! The HTTP front of Lazuli: the only crate that knows hyper.
//!
//! A request passes `http::listen` → `http::front` (id, limits, route, authenticate, handle, answer) →
//! a handler in `table`, which decodes, calls the service, and encodes. Handlers give a
//! `http::reply::Reply`, which `front` turns into an HTTP response and `batch` into one part of a
//! multipart body.

mod auth;
mod http;
mod table;

pub use auth::accounts::{Account, Accounts, AccountsError, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
pub use auth::authenticate::AuthOptions;
pub use auth::bearer::{
    IssuerOptions, KeySource, KeySourceError, KeysError, RoleGrant, RoleMap, RoleMapError,
    TokenIssuer,
};
pub use http::analytics::{Analytics, Extent};
pub use http::front::{Front, FrontOptions, VersionCheck};
pub use http::listen::{ListenOptions, serve};
pub use http::profile::Profile;
pub use http::simulate::SimulateOptions;
pub use http::tls::{Certificate, CertificateError, SelfSigned, Tls};
