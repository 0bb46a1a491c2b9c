//! Verifies and rebuilds indexes: `?comp=lazuli-verify` and `?comp=lazuli-rebuild` (X-3.12a).

use crate::error::{ApiError, ApiResult};
use crate::http::reply::Reply;
use crate::table::api::TableApi;
use crate::table::index_settings;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lazuli_model::{AccountName, IndexName, TableName};
use lazuli_table::{Disagreement, VerifyPage, VerifyPlace};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::uri::Query;
use serde::Serialize;

/// One page of a comparison of the indexes with the entities.
pub(crate) async fn verify(
    api: &TableApi,
    account: &AccountName,
    table: &TableName,
    query: &Query<'_>,
) -> ApiResult<Reply> {
    let from = query.get("from").map(place).transpose()?;
    let page = api.tables.verify_indexes(account, table, from).await?;
    Reply::json_of(200, &PageJson::of(&page))
}

/// Drops the entries of an index, and builds it again.
pub(crate) async fn rebuild(
    api: &TableApi,
    account: &AccountName,
    table: &TableName,
    query: &Query<'_>,
) -> ApiResult<Reply> {
    let name = query.get("index").filter(|name| !name.is_empty());
    let name = name.ok_or(ErrorCode::MissingRequiredQueryParameter)?;
    let unknown = || {
        let text = format!("The table has no index '{name}'.");
        ApiError::with_text(ErrorCode::ResourceNotFound, text)
    };
    let index = IndexName::parse(name).map_err(|_| unknown())?;
    if !api.tables.rebuild_index(account, table, &index).await? {
        return Err(unknown());
    }
    index_settings::shown(api, account, table, 202).await
}

#[derive(Serialize)]
struct PageJson<'p> {
    entities: u64,
    entries: u64,
    found: Vec<DisagreementJson<'p>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DisagreementJson<'p> {
    #[serde(rename = "index")]
    index: &'p str,
    partition_key: &'p str,
    row_key: &'p str,
    #[serde(rename = "kind")]
    kind: &'static str,
}

impl<'p> PageJson<'p> {
    fn of(page: &'p VerifyPage) -> Self {
        let found = |found: &'p Disagreement| DisagreementJson {
            index: &found.index,
            partition_key: &found.partition_key,
            row_key: &found.row_key,
            kind: found.kind.name(),
        };
        Self {
            entities: page.entities,
            entries: page.entries,
            found: page.found.iter().map(found).collect(),
            next: page.next.as_ref().map(token),
        }
    }
}

/// Part and key, as text for a URL. Nothing secret: a client that may read the table may read its indexes.
fn token(place: &VerifyPlace) -> String {
    let mut bytes = place.part.to_be_bytes().to_vec();
    bytes.extend_from_slice(&place.from);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key outside the part is moved into it by the comparison, so a forged token reads nothing else.
fn place(token: &str) -> ApiResult<VerifyPlace> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let split = bytes.as_deref().and_then(|bytes| bytes.split_first_chunk());
    let (part, from) = split.ok_or_else(|| {
        ApiError::with_text(
            ErrorCode::InvalidQueryParameterValue,
            "The value of 'from' is not one that an earlier response gave as 'next'.",
        )
    })?;
    Ok(VerifyPlace { part: u32::from_be_bytes(*part), from: from.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back() {
        let at = VerifyPlace { part: 3, from: b"Li\0\xFF".to_vec() };
        assert_eq!(place(&token(&at)).unwrap(), at);
        for forged in ["", "a", "AAA", "!!!!!!!!"] {
            assert!(place(forged).is_err(), "{forged}");
        }
    }
}
