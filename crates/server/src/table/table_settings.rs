//! The settings of a table that exist only as extensions, as JSON: `?comp=lazuli-…`.

use crate::auth::permit::Principal;
use crate::error::ApiResult;
use crate::http::extensions::Used;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::table::advice::{Indexed, advised, document};
use crate::table::api::TableApi;
use crate::table::call::Call;
use crate::table::operation::{Operation, Resource, Setting};
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
        Resource::Advice => return advice(api, context).await,
        _ => return Err(ErrorCode::UnsupportedHttpVerb.into()),
    };
    principal.permit_whole_table()?;
    let account = &context.account.name;
    let mut reply = match (setting, Action::of(call)?) {
        (Setting::Indexes, Action::Show) => index_settings::shown(api, account, table, 200).await,
        (Setting::Indexes, Action::Set(body)) => {
            index_settings::set(api, account, table, body).await
        }
        (Setting::Indexes, Action::Remove) => index_settings::remove(api, account, table).await,
        (Setting::Verify, Action::Show) => {
            index_upkeep::verify(api, account, table, call.query).await
        }
        (Setting::Rebuild, Action::Set(_)) => {
            index_upkeep::rebuild(api, account, table, call.query).await
        }
        (Setting::Verify, _) | (Setting::Rebuild, _) => Err(ErrorCode::UnsupportedHttpVerb.into()),
        (Setting::Feed, Action::Show) => feed_settings::shown(api, account, table).await,
        (Setting::Feed, Action::Set(body)) => feed_settings::set(api, account, table, body).await,
        (Setting::Feed, Action::Remove) => feed_settings::remove(api, account, table).await,
        (Setting::Ttl, Action::Show) => ttl_settings::shown(api, account, table).await,
        (Setting::Ttl, Action::Set(body)) => ttl_settings::set(api, account, table, body).await,
        (Setting::Ttl, Action::Remove) => ttl_settings::remove(api, account, table).await,
    }?;
    Used::also(&mut reply, setting.name());
    Ok(reply)
}

/// What a request does with a setting.
enum Action<'b> {
    Show,
    /// Replaces it by what the body declares.
    Set(&'b [u8]),
    Remove,
}

impl<'b> Action<'b> {
    fn of(call: &Call<'b>) -> ApiResult<Self> {
        match call.operation {
            Operation::GetTableSetting => Ok(Self::Show),
            Operation::SetTableSetting => Ok(Self::Set(call.body)),
            Operation::DeleteTableSetting => Ok(Self::Remove),
            _ => Err(ErrorCode::UnsupportedHttpVerb.into()),
        }
    }
}

/// `GET /?comp=lazuli-advice`: advice on the tables of the account.
async fn advice(api: &TableApi, context: &RequestContext<'_>) -> ApiResult<Reply> {
    let account = &context.account.name;
    let advised = api.advice.with_advisor(account, advised);
    let indexed = Indexed::read(&api.tables, account, advised).await;
    let mut reply = api.advice.with_advisor(account, |advisor| {
        Reply::json_of(200, &document(account.as_str(), context.now, advisor, &indexed))
    })?;
    Used::also(&mut reply, "advice");
    Ok(reply)
}
