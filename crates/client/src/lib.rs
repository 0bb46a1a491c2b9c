//! A client for Azure Table Storage, Cosmos DB for Table, Azurite and Lazuli.
//!
//! ```no_run
//! use lazuli_client::prelude::*;
//!
//! # async fn run() -> Result<(), Error> {
//! let account = Account::from_env()?;
//! let people = account.tables().create_if_missing("People").await?;
//! people.insert(&Entity::new("Marketing", "00001").with("FirstName", "Don").with("Age", 34)).await?;
//! let don = people.get(("Marketing", "00001")).await?.expect("just written");
//! println!("{} {}", don.str("FirstName")?, don.etag());
//! # Ok(())
//! # }
//! ```
//!
//! Verbs return builders: `.await` sends them. Retries look at what happened before they say that a write
//! failed: see [`Proof`] and [`Error::may_have_been_applied`].

#![warn(missing_docs)]

mod account;
#[cfg(feature = "azure-core")]
mod azure_core;
mod batch;
#[cfg(feature = "blob")]
pub mod blob;
#[cfg(feature = "blocking")]
pub mod blocking;
mod bulk;
mod call;
mod chunks;
mod codec;
mod column;
mod credential;
mod dialect;
mod entity;
mod env;
mod error;
mod fields;
mod filter;
pub mod form;
mod get_many;
mod grant;
mod index;
mod key;
mod key_cursor;
pub mod key_part;
mod key_range;
mod kind;
mod layout;
mod meter;
mod observe;
mod options;
mod page_token;
#[cfg(feature = "patterns")]
pub mod patterns;
mod property;
mod query;
#[cfg(feature = "queue")]
pub mod queue;
#[cfg(any(feature = "queue", feature = "blob"))]
mod rest;
mod retry;
mod sas;
mod settings;
mod table;
mod tables;
mod throttle;
mod transaction;
mod transport;
mod union;
mod update;
mod value;
mod write;
mod write_ids;

pub use account::{Account, AccountBuilder, Checked, Timeouts};
pub use batch::{Batch, BatchError, BatchFault, Commit, Committed, WriteOp};
pub use bulk::{Bulk, BulkFailure, BulkProgress, BulkReport, BulkRun, Iter, OnError, iter};
pub use column::{
    ColumnArg, Encrypted, KeyColumn, Open, Optional, Projection, Required, Scattered, Select,
    Settable, TypedColumn,
};
pub use credential::{AccessToken, Credential, Secret, TokenCredential};
pub use dialect::Dialect;
pub use entity::{ETag, Entity, Loaded, Properties, TableEntity};
pub use env::{Env, Environment};
pub use error::{Error, ErrorKind};
pub use fields::{Fields, TableFields, Upgrade};
pub use filter::{Column, Filter, col, partition, row, timestamp};
pub use get_many::GetMany;
pub use index::{
    Cost, Costs, GetBy, Index, IndexDef, IndexKey, IndexProjection, IndexQuery, Indexed,
};
pub use key::{IntoKey, Key, KeyError};
pub use key_range::{KeyBound, KeyRange, Ranged};
pub use kind::Kind;
pub use layout::Layout;
#[cfg(feature = "derive")]
pub use lazuli_client_derive::{Projection, TableEntity, TableFields, TableUnion, TableValue};
pub use lazuli_model::service_properties::{CorsRule, Logging, Metrics, Retention};
pub use lazuli_model::{
    AccessPolicies, AccessPolicy, EdmType, EntityKey, Guid, Metadata, ServiceProperties,
    ServicePropertiesPatch, Timestamp,
};
pub use lazuli_wire::sas::{Permissions, ResourceTypes};
pub use lazuli_wire::xml::GeoReplication;
pub use meter::{Counts, Meter};
pub use observe::{Attempt, Observe};
pub use options::{ReadFrom, Request};
pub use page_token::{PageToken, TokenKey};
pub use property::{PropertyDef, Storage};
pub use query::{
    Entities, Hint, Page, Pages, Plan, Query, QueryClass, ScanRange, Selection, Split,
};
pub use retry::{Failed, Retry};
pub use sas::{AccountSasBuilder, SasIssuer, SasServices, SasToken, TableSasBuilder};
pub use table::{Get, Table};
pub use tables::Tables;
pub use transaction::{Transact, Transaction};
pub use transport::{
    Body, HttpTransport, Proxy, Recording, Replay, Sent, Transport, TransportError,
};
pub use union::Union;
pub use update::{Change, Update, Updated};
pub use value::{DecodeError, EncodeError, IntoValue, TableValue, Value, ValueError};
pub use write::{Delete, Deleted, Merge, Proof, Write, Written};

/// What most programs use.
pub mod prelude {
    pub use crate::{
        Account, Credential, ETag, Entity, Error, ErrorKind, Filter, Key, Loaded, Projection,
        Table, TableEntity, TableFields, TableValue, Tables, Timestamp, Union, col, partition, row,
        timestamp,
    };

    #[cfg(feature = "derive")]
    pub use crate::TableUnion;
}

/// What derived code calls. Not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use crate::chunks::push_chunked;
    pub use crate::column::edm_of;
    pub use crate::fields::prefixed;
    pub use crate::index::check_prefixes;
    pub use crate::key_cursor::{KeyCursor, width_or_zero};
    pub use crate::key_range::Part;
    pub use crate::layout::{are_apart, begins_with, same};
    pub use crate::property::check_properties;
    pub use crate::union::{Member, foreign_kind, is_kind, member_of};
    pub use crate::value::wrong_type;
    pub use lazuli_model::key_text::escape;
}

/// A future on the heap.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An error of any kind.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
