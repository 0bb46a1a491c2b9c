//! The settings of a table that exist only as extensions, as JSON: `?comp=lazuli-…`.

use crate::auth::permit::Principal;
use crate::error::ApiResult;
use crate::http::extensions::Used;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::table::advice::document;
use crate::table::api::TableApi;
use crate::table::call::Call;
use crate::table::operation::{Resource, Setting};
use crate::table::{feed_settings, index_settings, index_upkeep, ttl_settings};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::TableGrant;

/// Runs a permitted operation on a setting.
pub(crate) async fn handle(
    api: &TableApi,
    context: &RequestContext<'_>,
    call: &Call<'_>,
    principal: &Principal<TableGrant>,
) -> ApiResult<Reply> {
    let (table, setting) = match call.resource {
        Resource::Setting { table, setting } => (table, setting),
        Resource::Advice => return advice(api, context),
        _ => return Err(ErrorCode::UnsupportedHttpVerb.into()),
    };
    principal.permit_whole_table()?;
    let account = &context.account.name;
    let mut reply = match setting {
        Setting::Indexes => index_settings::handle(api, account, table, call).await,
        Setting::Verify => index_upkeep::verify(api, account, table, call).await,
        Setting::Rebuild => index_upkeep::rebuild(api, account, table, call).await,
        Setting::Feed => feed_settings::handle(api, account, table, call).await,
        Setting::Ttl => ttl_settings::handle(api, account, table, call).await,
    }?;
    Used::also(&mut reply, setting.name());
    Ok(reply)
}

/// `GET /?comp=lazuli-advice`: advice on the tables of the account.
fn advice(api: &TableApi, context: &RequestContext<'_>) -> ApiResult<Reply> {
    let account = &context.account.name;
    let mut reply = api.advice.with_advisor(account, |advisor| {
        Reply::json_of(200, &document(account.as_str(), context.now, advisor))
    })?;
    Used::also(&mut reply, "advice");
    Ok(reply)
}
