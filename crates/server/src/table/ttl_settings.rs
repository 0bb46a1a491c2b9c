//! When entities of a table expire, as JSON: `?comp=lazuli-ttl`.

use crate::error::{ApiError, ApiResult};
use crate::http::reply::Reply;
use crate::table::api::TableApi;
use lazuli_model::{AccountName, Expiry, Property, PropertyLimits, TableName};
use serde::{Deserialize, Serialize};

pub(crate) async fn set(
    api: &TableApi,
    account: &AccountName,
    table: &TableName,
    body: &[u8],
) -> ApiResult<Reply> {
    api.tables.set_expiry(account, table, &declared(body)?).await?;
    shown(api, account, table).await
}

pub(crate) async fn remove(
    api: &TableApi,
    account: &AccountName,
    table: &TableName,
) -> ApiResult<Reply> {
    api.tables.drop_expiry(account, table).await?;
    Ok(Reply::odata(204))
}

pub(crate) async fn shown(
    api: &TableApi,
    account: &AccountName,
    table: &TableName,
) -> ApiResult<Reply> {
    let expiry = api.tables.expiry(account, table).await?;
    let setting = match &expiry {
        Expiry::Seconds(seconds) => Setting { seconds: Some(*seconds), property: None },
        Expiry::Property(name) => Setting { seconds: None, property: Some(name.to_string()) },
    };
    Reply::json_of(200, &setting)
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    property: Option<String>,
}

fn declared(body: &[u8]) -> ApiResult<Expiry> {
    let setting: Setting = serde_json::from_slice(body)
        .map_err(|error| ApiError::invalid_input(format!("The expiry is not valid: {error}.")))?;
    match setting {
        Setting { seconds: Some(0), property: None } => {
            Err(ApiError::invalid_input("The seconds of an expiry are 1 or more."))
        }
        Setting { seconds: Some(seconds), property: None } => Ok(Expiry::Seconds(seconds)),
        Setting { seconds: None, property: Some(name) } => property(name),
        _ => Err(ApiError::invalid_input(
            "An expiry has either 'seconds' or 'property', and not both.",
        )),
    }
}

/// A name that a property of an entity can have.
fn property(name: String) -> ApiResult<Expiry> {
    let is_custom = matches!(Property::from_name(&name), Property::Custom(_));
    match PropertyLimits::Service.check_name(&name) {
        Ok(()) if is_custom => Ok(Expiry::Property(name.into())),
        _ => Err(ApiError::invalid_input(format!(
            "'{name}' is not a property that entities can expire by."
        ))),
    }
}
