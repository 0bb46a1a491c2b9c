//! The indexes of a table as JSON: `?comp=lazuli-indexes`.

use crate::error::{ApiError, ApiResult};
use crate::http::reply::Reply;
use crate::table::api::TableApi;
use lazuli_model::{AccountName, IndexDefinition, IndexDefinitions, IndexError, TableName};
use lazuli_table::{IndexState, IndexStatus};
use serde::{Deserialize, Serialize};

pub(crate) async fn set(
    api: &TableApi,
    account: &AccountName,
    table: &TableName,
    body: &[u8],
) -> ApiResult<Reply> {
    api.tables.declare_indexes(account, table, &definitions(body)?).await?;
    api.tables.build_for(api.first_build_ms).await;
    shown(api, account, table, 202).await
}

pub(crate) async fn remove(
    api: &TableApi,
    account: &AccountName,
    table: &TableName,
) -> ApiResult<Reply> {
    api.tables.declare_indexes(account, table, &IndexDefinitions::default()).await?;
    Ok(Reply::odata(204))
}

pub(crate) async fn shown(
    api: &TableApi,
    account: &AccountName,
    table: &TableName,
    status: u16,
) -> ApiResult<Reply> {
    let indexes = api.tables.indexes(account, table).await?;
    let shown = Shown { indexes: indexes.iter().map(ShownIndex::from).collect() };
    Reply::json_of(status, &shown)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    indexes: Vec<DeclaredIndex>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredIndex {
    name: String,
    on: Vec<String>,
    #[serde(default)]
    unique: bool,
}

fn definitions(body: &[u8]) -> ApiResult<IndexDefinitions> {
    let declared: Declared = serde_json::from_slice(body)
        .map_err(|error| ApiError::invalid_input(format!("The indexes are not valid: {error}.")))?;
    let refused = |error: IndexError| ApiError::invalid_input(format!("{error}."));
    let definition =
        |index: &DeclaredIndex| IndexDefinition::new(&index.name, &index.on, index.unique);
    let definitions = declared.indexes.iter().map(definition).collect::<Result<_, _>>();
    IndexDefinitions::new(definitions.map_err(refused)?).map_err(refused)
}

#[derive(Serialize)]
struct Shown<'i> {
    indexes: Vec<ShownIndex<'i>>,
}

#[derive(Serialize)]
struct ShownIndex<'i> {
    name: &'i str,
    on: Vec<&'i str>,
    unique: bool,
    state: &'static str,
    done: u64,
    total: u64,
    since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'i str>,
    #[serde(skip_serializing_if = "is_false")]
    automatic: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl<'i> From<&'i IndexStatus> for ShownIndex<'i> {
    fn from(index: &'i IndexStatus) -> Self {
        let (state, error) = match &index.state {
            IndexState::Building => ("building", index.trouble.as_deref()),
            IndexState::Ready => ("ready", None),
            IndexState::Failed(reason) => ("failed", Some(reason.as_str())),
        };
        Self {
            name: index.definition.name().as_str(),
            on: index.definition.on().iter().map(|property| property.name()).collect(),
            unique: index.definition.is_unique(),
            state,
            done: index.done,
            total: index.total,
            since: index.since.to_string(),
            error,
            automatic: index.is_automatic,
        }
    }
}
