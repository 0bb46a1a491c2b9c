//! Secondary indexes that a Lazuli server maintains: declare, watch, verify, rebuild.

use super::settings::read;
use crate::call::{Answer, Call};
use crate::entity::TableEntity;
use crate::error::Error;
use crate::options::Request;
use crate::query::parameter;
use crate::table::Table;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};

/// The declaration of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerIndex {
    /// 3 to 63 letters and digits, beginning with a letter; case-insensitive.
    pub name: String,
    /// One to four properties. `PartitionKey` may come first.
    pub on: Vec<String>,
    /// Whether no two entities may have the same values.
    pub unique: bool,
}

impl ServerIndex {
    /// An index on some properties.
    pub fn new(name: impl Into<String>, on: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name: name.into(), on: on.into_iter().map(Into::into).collect(), unique: false }
    }

    /// Makes the index unique: no two entities may have the same values.
    pub fn unique(self) -> Self {
        Self { unique: true, ..self }
    }
}

/// An index and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerIndexStatus {
    /// The declaration.
    #[serde(flatten)]
    pub index: ServerIndex,
    /// Whether queries use it.
    pub state: ServerIndexState,
    /// Entities examined so far.
    pub done: u64,
    /// Entities to examine, estimated.
    pub total: u64,
    /// When it entered its state.
    pub since: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The state of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ServerIndexState {
    /// Queries do not use it yet.
    Building,
    /// Queries use it.
    Ready,
    /// Entities share values that should be unique. The index does not refuse any write.
    Failed,
}

/// The result of a verification so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IndexVerification {
    /// Entities compared.
    pub entities: u64,
    /// Entries compared.
    pub entries: u64,
    /// The differences between indexes and entities.
    pub found: Vec<IndexDisagreement>,
    /// Where to continue; `None` when everything was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A difference between an index and an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IndexDisagreement {
    /// The name of the index.
    pub index: String,
    /// The entity's partition key.
    #[serde(rename = "PartitionKey")]
    pub partition_key: String,
    /// The entity's row key.
    #[serde(rename = "RowKey")]
    pub row_key: String,
    /// `missing`, `surplus` or `not-owner`.
    pub kind: String,
}

/// All indexes of a table, in the server's format.
#[derive(Serialize, Deserialize)]
struct Indexes<I> {
    indexes: Vec<I>,
}

impl<T: TableEntity> Table<T> {
    /// The indexes that the server maintains for this table.
    pub fn server_indexes(&self) -> Request<Vec<ServerIndexStatus>> {
        let table = self.clone();
        Request::new(move |options| async move {
            let call = table.setting("list indexes", Method::GET, "lazuli-indexes", Bytes::new());
            let answer = table.account.exchange(&Call { options, ..call }).await?;
            listed(answer, "list indexes", StatusCode::OK)
        })
    }

    /// Declares all indexes of this table: the server builds new ones, and drops those that are not listed.
    pub fn set_server_indexes(
        &self,
        indexes: impl IntoIterator<Item = ServerIndex>,
    ) -> Request<Vec<ServerIndexStatus>> {
        let (table, indexes) = (self.clone(), indexes.into_iter().collect());
        Request::new(move |options| async move {
            let body = serde_json::to_vec(&Indexes::<ServerIndex> { indexes });
            let body = Bytes::from(body.map_err(Error::protocol)?);
            let call = table.setting("declare indexes", Method::PUT, "lazuli-indexes", body);
            let answer = table.account.exchange(&Call { options, ..call }).await?;
            listed(answer, "declare indexes", StatusCode::ACCEPTED)
        })
    }

    /// Has the server rebuild an index from the entities.
    pub fn rebuild_server_index(&self, name: &str) -> Request<Vec<ServerIndexStatus>> {
        let (table, name) = (self.clone(), name.to_owned());
        Request::new(move |options| async move {
            let body = Bytes::new();
            let mut call = table.setting("rebuild index", Method::PUT, "lazuli-rebuild", body);
            parameter(&mut call.query, "index", &name);
            let answer = table.account.exchange(&Call { options, ..call }).await?;
            listed(answer, "rebuild index", StatusCode::ACCEPTED)
        })
    }

    /// Has the server compare its indexes with the entities, for as long as a query may run. `from` is the `next` of
    /// the previous comparison; without it, the comparison starts from the beginning.
    pub fn verify_server_indexes(&self, from: Option<&str>) -> Request<IndexVerification> {
        let (table, from) = (self.clone(), from.map(str::to_owned));
        Request::new(move |options| async move {
            let body = Bytes::new();
            let mut call = table.setting("verify indexes", Method::GET, "lazuli-verify", body);
            parameter(&mut call.query, "from", from.as_deref().unwrap_or_default());
            let answer = table.account.exchange(&Call { options, ..call }).await?;
            read(answer, "verify indexes", StatusCode::OK)
        })
    }
}

fn listed(
    answer: Answer,
    operation: &'static str,
    expected: StatusCode,
) -> Result<Vec<ServerIndexStatus>, Error> {
    Ok(read::<Indexes<ServerIndexStatus>>(answer, operation, expected)?.indexes)
}
