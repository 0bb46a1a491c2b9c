//! A client for Azure Table Storage, Cosmos DB for Table, Azurite and Lazuli.
//!
//! Declare a struct and the templates of its keys:
//!
//! ```no_run
//! use lazuli_client::prelude::*;
//! use lazuli_client::Change;
//!
//! #[derive(TableEntity)]
//! #[table(name = "Employees", partition = "{department}", row = "{id:06}", rename_all = "PascalCase")]
//! struct Employee { department: String, id: u32, name: String, age: i32 }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     let tables = Account::from_connection_string("UseDevelopmentStorage=true")?.tables();
//!     tables.create_if_missing("Employees").await?;
//!     let employees = tables.of::<Employee>()?;
//!     for (id, name, age) in [(152, "Kwok", 23), (223, "Jones", 41)] {
//!         employees.upsert(&Employee { department: "Sales".into(), id, name: name.into(), age }).await?;
//!     }
//!     employees.update_with(Employee::key("Sales", 152)?, |e| { e.age += 1; Ok(Change::Write) }).await?;
//!     let mut young = employees.query(Employee::range("Sales").filter(Employee::AGE.lt(30))).stream();
//!     while let Some(e) = young.try_next().await? { println!("{:06} {} {}", e.id, e.name, e.age); }
//!     Ok(())
//! }
//! ```
//!
//! Or without a type: an [`Entity`] has any properties, `tables.table("People")?` is a table of them, and a key is
//! a pair, `people.get(("Marketing", "00001"))`.
//!
//! # Where things are
//!
//! | to | see |
//! | --- | --- |
//! | connect, with a key, a signature or tokens | [`Account`], [`Credential`], [`TokenCredential`] |
//! | read by key, one or many | [`Table::get`], [`Table::get_many`] |
//! | query, in pages, with tokens that can be stored | [`Table::query`], [`Query`], [`PageToken`] |
//! | write one entity | [`Table::insert`], [`Table::replace`], [`Table::merge`], [`Table::upsert`] |
//! | change an entity that others change too | [`Table::update_with`] |
//! | write several, all or none | [`Table::batch`], [`Table::transact`]; across partitions, on Lazuli, [`Account::atomically`] |
//! | write very many, not atomically | [`Table::bulk`] |
//! | give others limited access | [`Table::sas`], [`Table::sas_issuer`] |
//! | see what is sent | [`Account::meter`], spans of `tracing` |
//! | test a program | the crate `lazuli-test`: a server in one line, and a proxy that loses answers |
//!
//! Verbs return builders: `.await` sends them. If a future is dropped, its request may or may not have been
//! carried out.
//!
//! # Lost answers
//!
//! The library retries a request when that may help. If an earlier attempt may have been carried out, it checks
//! before it reports that a write failed: an insert whose answer was lost does not conflict with itself. [`Proof`]
//! says how a success is known, [`Error::may_have_been_applied`] whether a failed write may still have happened.
//!
//! # Patterns of the table design guide
//!
//! | pattern | here |
//! | --- | --- |
//! | compound keys, padded and inverted numbers and times | templates of `#[derive(TableEntity)]`, [`key_part`] |
//! | several types in one table, versions of a type | `#[derive(TableUnion)]`, `version` and `upgrade` |
//! | secondary indexes in the same partition | `#[index(..)]` on the type: every write verb keeps them |
//! | secondary indexes in other partitions | the same attribute, and `patterns::eventual` |
//! | transactions across partitions, tables and blobs | `patterns::jobs`: messages, workers, repeatable steps |
//! | parents, collections, links both ways, client-side joins | [`Link`], `patterns::relations` |
//! | values too large for an entity | [`Large`], `patterns::large` |
//! | the newest entries first | `patterns::log_tail` |
//! | lists of the entities that have a value | `#[index_list(..)]` on the type, `patterns::lists` |
//! | counts and copies kept next to their source | `count`, `sum`, `latest`, `copy` on fields, `patterns::summary` |
//! | deleting by age, a table at a time | `patterns::periodic` |
//! | series of values, one row per day | `#[derive(DataSeries)]`, `patterns::series` |
//! | entities of more than 252 properties or 1 MiB | `#[table(wide(..))]` on the type, `patterns::wide` |
//! | inserts in time order, spread over partitions | `patterns::spread` |
//! | logs in blobs | `patterns::blob_log` |
//! | large result sets | [`Query::pages`], [`PageToken`], `patterns::job` |
//! | projection on the server | [`Query::select`], `#[derive(Projection)]` |
//! | optimistic concurrency | [`Table::update_with`], [`Table::transact`] |
//! | parallel and many operations | [`Table::bulk`], [`Table::get_many`], `query_partitions` |
//! | one signature per user | [`Table::sas_issuer`] |
//! | choice of keys | `patterns::advisor`: advice from the program's own traffic |
//! | event streams, views, counters, leases, sequences, once | the module `patterns` |
//!
//! `patterns` is a module and a feature. `docs/patterns/README.md` in the repository has a page for each.
//!
//! # Features
//!
//! | feature | default | adds |
//! | --- | --- | --- |
//! | `derive` | yes | `#[derive(TableEntity, TableUnion, TableValue, Projection)]` |
//! | `rustls` | yes | HTTPS with rustls and the system's roots; `webpki-roots`: Mozilla's roots |
//! | `uuid`, `serde` | yes | `uuid::Uuid` as Edm.Guid; JSON in properties |
//! | `time`, `chrono`, `jiff`, `decimal` | | their types as values and key parts |
//! | `queue`, `blob` | | small clients for the two other services |
//! | `patterns` | | the module `patterns` |
//! | `encryption` | | client-side encryption of properties |
//! | `key-vault` | | encryption keys in Azure Key Vault |
//! | `blocking` | | the same verbs without `async` |
//! | `azure-core` | | credentials from `azure_core` |

#![warn(missing_docs)]

/// The pages of `docs/patterns`: their code is compiled with the examples of the documentation.
#[cfg(all(doctest, feature = "patterns"))]
mod pages {
    #[doc = include_str!("../../../docs/patterns/01-intra-partition-index.md")]
    struct P01;
    #[doc = include_str!("../../../docs/patterns/02-inter-partition-index.md")]
    struct P02;
    #[doc = include_str!("../../../docs/patterns/03-eventual-transactions.md")]
    struct P03;
    #[doc = include_str!("../../../docs/patterns/04-index-entities.md")]
    struct P04;
    #[doc = include_str!("../../../docs/patterns/05-denormalization.md")]
    struct P05;
    #[doc = include_str!("../../../docs/patterns/06-compound-key.md")]
    struct P06;
    #[doc = include_str!("../../../docs/patterns/07-log-tail.md")]
    struct P07;
    #[doc = include_str!("../../../docs/patterns/08-high-volume-delete.md")]
    struct P08;
    #[doc = include_str!("../../../docs/patterns/09-data-series.md")]
    struct P09;
    #[doc = include_str!("../../../docs/patterns/10-wide-entities.md")]
    struct P10;
    #[doc = include_str!("../../../docs/patterns/11-large-entities.md")]
    struct P11;
    #[doc = include_str!("../../../docs/patterns/12-relationships.md")]
    struct P12;
    #[doc = include_str!("../../../docs/patterns/13-prepend-append.md")]
    struct P13;
    #[doc = include_str!("../../../docs/patterns/14-logs-in-blobs.md")]
    struct P14;
    #[doc = include_str!("../../../docs/patterns/15-several-types.md")]
    struct P15;
    #[doc = include_str!("../../../docs/patterns/16-large-results.md")]
    struct P16;
    #[doc = include_str!("../../../docs/patterns/17-projection.md")]
    struct P17;
    #[doc = include_str!("../../../docs/patterns/18-optimistic-concurrency.md")]
    struct P18;
    #[doc = include_str!("../../../docs/patterns/19-parallel-reads.md")]
    struct P19;
    #[doc = include_str!("../../../docs/patterns/20-design-advisor.md")]
    struct P20;
    #[doc = include_str!("../../../docs/patterns/21-sorting.md")]
    struct P21;
    #[doc = include_str!("../../../docs/patterns/22-shared-access-signatures.md")]
    struct P22;
    #[doc = include_str!("../../../docs/patterns/23-beyond-the-guide.md")]
    struct P23;
}

// Derived code names the crate, also in its own tests.
#[cfg(test)]
extern crate self as lazuli_client;

mod account;
#[cfg(feature = "azure-core")]
mod azure_core;
mod batch;
#[cfg(feature = "blob")]
pub mod blob;
#[cfg(feature = "blocking")]
pub mod blocking;
mod bulk;
#[cfg(any(feature = "chrono", feature = "jiff", feature = "time"))]
mod calendar;
mod call;
mod chunks;
mod codec;
mod column;
mod credential;
mod dialect;
pub mod encryption;
mod entity;
mod env;
mod error;
mod extensions;
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
mod large;
mod layout;
mod link;
mod list;
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
#[cfg(feature = "serde")]
mod serde_bridge;
mod series;
mod settings;
mod shape;
mod table;
mod tables;
mod throttle;
mod transaction;
mod transport;
mod union;
mod update;
mod value;
mod wide;
mod write;
mod write_ids;

pub use account::{Account, AccountBuilder, Checked, Timeouts};
pub use batch::{Atomically, Batch, BatchError, BatchFault, Commit, Committed, WriteOp};
pub use bulk::{Bulk, BulkFailure, BulkProgress, BulkReport, BulkRun, Iter, OnError, iter};
pub use codec::encoded_size;
pub use column::{
    ColumnArg, Encrypted, KeyColumn, Open, Optional, Projection, Required, Scattered, Select,
    Settable, TypedColumn,
};
pub use credential::{AccessToken, Credential, Secret, TokenCredential};
pub use dialect::Dialect;
pub use entity::{ETag, Entity, Loaded, Properties, TableEntity};
pub use env::{Env, Environment};
pub use error::{Error, ErrorKind};
#[cfg(feature = "serde")]
pub use extensions::{
    FeedImages, IndexDisagreement, IndexVerification, ServerAdvice, ServerChange, ServerChanges,
    ServerCost, ServerFeed, ServerFinding, ServerIndex, ServerIndexState, ServerIndexStatus,
    ServerJson, ServerTtl,
};
pub use fields::{Fields, TableFields, Upgrade};
pub use filter::{Column, Filter, col, partition, row, timestamp};
pub use get_many::GetMany;
pub use index::{
    Cost, Costs, GetBy, Index, IndexDef, IndexKey, IndexProjection, IndexQuery, Indexed,
};
pub use key::{IntoKey, Key, KeyError};
pub use key_range::{KeyBound, KeyRange, Ranged};
pub use kind::Kind;
pub use large::{Large, LargeRule};
pub use layout::{Layout, TypeLayout};
#[cfg(all(feature = "derive", feature = "patterns"))]
pub use lazuli_client_derive::DataSeries;
#[cfg(feature = "derive")]
pub use lazuli_client_derive::{
    Projection, TableEntity, TableFields, TableUnion, TableValue, filter,
};
pub use lazuli_model::service_properties::{CorsRule, Logging, Metrics, Retention};
pub use lazuli_model::{
    AccessPolicies, AccessPolicy, EdmType, EntityKey, Guid, Metadata, ServiceProperties,
    ServicePropertiesPatch, Timestamp,
};
pub use lazuli_wire::sas::{Permissions, ResourceTypes};
pub use lazuli_wire::xml::GeoReplication;
pub use link::{HasParent, Link};
pub use list::{ListDef, ListHome, ListKey};
pub use meter::{Counts, Meter};
pub use observe::{Attempt, Observe};
pub use options::{ReadFrom, Request};
pub use page_token::{PageToken, TokenKey};
pub use property::{PropertyDef, Storage};
pub use query::{
    Entities, Hint, Page, Pages, Plan, Query, QueryClass, ScanRange, Selection, Split,
};
pub use retry::{Failed, Retry};
#[cfg(feature = "blob")]
pub use sas::BlobSasBuilder;
#[cfg(feature = "queue")]
pub use sas::QueueSasBuilder;
pub use sas::{
    AccountSasBuilder, SasIssuer, SasServices, SasToken, TableSasBuilder, UserDelegationKey,
};
#[cfg(feature = "serde")]
pub use serde_bridge::{SerdeTable, serde_guid, serde_timestamp};
pub use series::{PointColumn, Series, SeriesColumn};
pub use table::{Get, Table};
pub use tables::Tables;
pub use transaction::{Transact, Transaction, TransactionGet};
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

/// Called by derived code. Not for direct use.
#[doc(hidden)]
pub mod __private {
    pub use crate::chunks::push_chunked;
    pub use crate::column::edm_of;
    pub use crate::fields::prefixed;
    pub use crate::filter::{FilterValue, checked_filter};
    pub use crate::index::check_prefixes;
    pub use crate::key_cursor::{KeyCursor, width_or_zero};
    pub use crate::key_range::Part;
    pub use crate::layout::{are_apart, begins_with, same};
    pub use crate::list::check_lists;
    #[cfg(feature = "patterns")]
    pub use crate::patterns::summary::derived::*;
    pub use crate::property::{check_names, check_properties};
    pub use crate::shape::{Shape, concat};
    pub use crate::union::{Member, foreign_kind, is_kind, member_of};
    pub use crate::value::wrong_type;
    pub use crate::wide::check_wide;
    pub use lazuli_model::key_text::escape;
}

/// A boxed future.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An error of any kind.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
