//! The HTTP front of Lazuli: the only crate that knows hyper.
//!
//! A request passes `http::listen` → `http::front` (id, limits, account, authenticate, route,
//! permit, handle, respond) → a handler of its service, which decodes, calls the service, and
//! encodes.
//!
//! The folders depend on each other only in this order: `error`, `headers`, `request_id` and
//! `operation` (a row for each operation); `auth` (authentication and authorization); `http`
//! (everything that services share); `analytics` (the tables that store counts); and one folder for
//! each service, such as `table`.

mod analytics;
mod auth;
mod error;
mod headers;
mod http;
#[cfg(test)]
mod notes;
mod operation;
mod queue;
mod refusal;
mod request_id;
mod table;

pub use analytics::{Analytics, Extent};
pub use auth::accounts::{Account, Accounts, AccountsError, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
pub use auth::authenticate::AuthOptions;
pub use auth::bearer::{
    IssuerOptions, KeySource, KeySourceError, KeysError, RoleGrant, RoleMap, RoleMapError,
    RoleNames, TokenIssuer,
};
pub use http::access_log::{ACCESS, AccessLines, AccessLog};
pub use http::disk_guard::DiskGuard;
pub use http::extensions::ExtensionsMode;
pub use http::front::Front;
pub use http::listen::{ConnectionBound, ListenOptions, serve};
pub use http::meter::{ConnectionMeter, RequestMeter};
pub use http::peer::Peer;
pub use http::profile::Profile;
pub use http::respond::ResponseBody;
pub use http::shared::{FrontOptions, Shared};
pub use http::tls::{Certificate, CertificateError, SelfSigned, Tls};
pub use http::version::VersionCheck;
pub use queue::api::{QueueApi, QueueOptions};
pub use table::advice::{Advice, AdviceOptions};
pub use table::api::{TableApi, TableOptions};
pub use table::auto_index::AutoIndex;
pub use table::prices::{Prices, PricesError};
pub use table::query_log::QueryLogOptions;
pub use table::simulate::SimulateOptions;
pub use table::snapshots::{SnapshotOptions, Snapshots};

/// The roles and data actions of every service.
pub const ROLES: &[&RoleNames] = &[table::credentials::ROLES, queue::credentials::ROLES];
