//! Who sends a request: Shared Key, Shared Key Lite, shared access signatures, bearer tokens.

use crate::accounts::Account;
use crate::bearer::TokenIssuer;
use crate::delegation;
use crate::error::{ApiError, ApiResult};
use crate::permit::Principal;
use http::{HeaderMap, HeaderValue, header};
use lazuli_model::limits::REQUEST_DATE_SKEW_MINUTES_MAX;
use lazuli_model::{AccessPolicies, TableName, Timestamp};
use lazuli_table::{TableError, TableService};
use lazuli_wire::error_code::{ErrorCode, message};
use lazuli_wire::sas::{Caller, Sas, SasError};
use lazuli_wire::shared_key::{Authorization, Scheme, SignedRequest};
use lazuli_wire::uri::Query;
use lazuli_wire::version::ApiVersion;
use std::sync::Arc;

/// Where clients are sent for a token unless the operator says otherwise: a tenant that is none.
const AUTHORIZATION_URI: &str =
    "https://login.microsoftonline.com/00000000-0000-0000-0000-000000000000/oauth2/authorize";

/// Which credentials are taken beside account keys and the tokens signed with them.
#[derive(Clone, Debug)]
pub struct AuthOptions {
    /// Whose bearer tokens are taken; without one, nobody's.
    pub issuer: Option<Arc<TokenIssuer>>,
    /// Whether they are also taken where others can read them.
    pub bearer_over_http: bool,
    /// Where the challenge sends clients for a token.
    pub authorization_uri: String,
    /// Whether keys for user delegation are given out, and tokens signed with them taken.
    pub user_delegation: bool,
}

impl Default for AuthOptions {
    fn default() -> Self {
        Self {
            issuer: None,
            bearer_over_http: false,
            authorization_uri: AUTHORIZATION_URI.to_owned(),
            user_delegation: false,
        }
    }
}

impl AuthOptions {
    /// The challenge of a 401; a URI that no header can hold is the default one.
    pub(crate) fn challenge(&self) -> HeaderValue {
        let challenge = |uri: &str| {
            let resource = "https://storage.azure.com";
            HeaderValue::try_from(format!("Bearer authorization_uri={uri} resource_id={resource}"))
        };
        let ours = challenge(&self.authorization_uri).or_else(|_| challenge(AUTHORIZATION_URI));
        ours.unwrap_or_else(|_| HeaderValue::from_static("Bearer"))
    }
}

/// The parts of a request that credentials speak of.
pub(crate) struct Presented<'a> {
    pub(crate) method: &'a str,
    /// As sent, with the account segment in path style.
    pub(crate) path: &'a str,
    pub(crate) query: &'a Query<'a>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) version: ApiVersion,
    pub(crate) caller: Caller,
    /// Whether the date must be near the clock's.
    pub(crate) date_check: bool,
}

impl<'a> Presented<'a> {
    fn header(&self, name: impl header::AsHeaderName) -> &'a str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// `x-ms-date` wins over `Date`, whatever the other says.
    fn date(&self) -> &'a str {
        match self.header("x-ms-date") {
            "" => self.header(header::DATE),
            date => date,
        }
    }
}

/// Finds out who sends the request, or refuses it.
pub(crate) async fn authenticate(
    service: &TableService,
    account: &Account,
    options: &AuthOptions,
    presented: &Presented<'_>,
) -> ApiResult<Principal> {
    let header = presented.headers.get(header::AUTHORIZATION);
    let sas = Sas::parse(presented.query).map_err(|error| refused(error, presented))?;
    match (header, sas) {
        (None, None) => Err(missing(presented).into()),
        (Some(header), None) => {
            let text = header.to_str().map_err(|_| ErrorCode::InvalidAuthenticationInfo)?;
            by_header(account, options, presented, text).await
        }
        (None, Some(sas)) => {
            let outcome = by_sas(service, account, options, presented, &sas).await?;
            outcome.map_err(|error| refused(error, presented))
        }
        // Two credentials at once are none.
        (Some(_), Some(_)) => Err(ErrorCode::AuthenticationFailed.into()),
    }
}

/// What a request without credentials is told. Older versions of the service treat the
/// batch resource as one that does not exist, as recorded; see docs/compat.md.
fn missing(presented: &Presented<'_>) -> ErrorCode {
    if presented.version.has_bearer_challenge() {
        ErrorCode::NoAuthenticationInformation
    } else if presented.path.ends_with("/$batch") {
        ErrorCode::ResourceNotFound
    } else {
        ErrorCode::AuthenticationFailed
    }
}

async fn by_header(
    account: &Account,
    options: &AuthOptions,
    presented: &Presented<'_>,
    text: &str,
) -> ApiResult<Principal> {
    match Authorization::parse(text).map_err(|_| ErrorCode::InvalidAuthenticationInfo)? {
        Authorization::Signed { scheme, account: named, signature } => {
            if named != account.name.as_str() {
                return Err(ErrorCode::AuthenticationFailed.into());
            }
            verify_signature(account, presented, scheme, signature)
        }
        Authorization::Bearer(token) => by_token(account, options, presented, token).await,
    }
}

async fn by_token(
    account: &Account,
    options: &AuthOptions,
    presented: &Presented<'_>,
    token: &str,
) -> ApiResult<Principal> {
    // Before the challenge existed a token was a bad signature like any other.
    let refused = || match presented.version.has_bearer_challenge() {
        true => ErrorCode::InvalidBearerToken,
        false => ErrorCode::AuthenticationFailed,
    };
    let issuer = options.issuer.as_ref().ok_or_else(refused)?;
    if !presented.caller.https && !options.bearer_over_http {
        // Another token would not help, so there is no challenge. The code is unverified.
        tracing::debug!("bearer tokens are taken over https only");
        return Err(ErrorCode::AuthenticationFailed.into());
    }
    let identity = issuer.check(token, &account.name, presented.caller.now).await;
    let identity = identity.map_err(|error| {
        tracing::debug!(%error, "bearer token refused");
        refused()
    })?;
    Ok(Principal::Bearer(identity))
}

/// The signature is checked before the stored policy is read: strangers learn nothing of it.
async fn by_sas(
    service: &TableService,
    account: &Account,
    options: &AuthOptions,
    presented: &Presented<'_>,
    sas: &Sas<'_>,
) -> ApiResult<Result<Principal, SasError>> {
    let name = account.name.as_str();
    match sas {
        Sas::Account(sas) => Ok(sas
            .verify(name, &account.keys)
            .and_then(|()| sas.grant(&presented.caller))
            .map(Principal::Account)),
        Sas::Table(sas) => {
            if let Err(error) = sas.verify(name, &account.keys) {
                return Ok(Err(error));
            }
            let policies = match (sas.policy, TableName::parse(sas.table)) {
                ("", _) | (_, Err(_)) => AccessPolicies::default(),
                (_, Ok(table)) => match service.access_policies(&account.name, &table).await {
                    Err(TableError::TableNotFound) => AccessPolicies::default(),
                    policies => policies?,
                },
            };
            let policy = policies.find(sas.policy);
            Ok(sas.grant(policy, &presented.caller).map(Principal::Table))
        }
        Sas::UserDelegation(sas) if options.user_delegation => {
            Ok(delegation::owner_permissions(account, sas).and_then(|owner| {
                Ok(Principal::Table(sas.grant(&presented.caller)?.within(owner)))
            }))
        }
        // Nobody can have such a token: we give out no keys to sign it with.
        Sas::UserDelegation(_) => Ok(Err(SasError::Signature)),
    }
}

fn refused(error: SasError, presented: &Presented<'_>) -> ApiError {
    tracing::debug!(%error, "shared access signature refused");
    match error {
        SasError::SourceIp => {
            let text = message::source_ip_mismatch(presented.caller.address);
            ApiError::with_text(error.code(), text)
        }
        _ => error.code().into(),
    }
}

fn verify_signature(
    account: &Account,
    presented: &Presented<'_>,
    scheme: Scheme,
    signature: &str,
) -> ApiResult<Principal> {
    let request = SignedRequest {
        method: presented.method,
        content_md5: presented.header("content-md5"),
        content_type: presented.header(header::CONTENT_TYPE),
        date: presented.date(),
        account: account.name.as_str(),
        path: presented.path,
        comp: presented.query.get("comp"),
    };
    let failed = ApiError::from(ErrorCode::AuthenticationFailed);
    if presented.date_check && !date_is_near(presented.date(), presented.caller.now) {
        tracing::debug!(date = presented.date(), now = %presented.caller.now, "date outside the window");
        return Err(failed);
    }
    if !request.is_signed_by(&account.keys, scheme, signature) {
        let text = request.string_to_sign(scheme).concat();
        tracing::debug!(string_to_sign = %String::from_utf8_lossy(&text), "signature mismatch");
        return Err(failed);
    }
    Ok(Principal::Owner)
}

/// Whether an RFC 1123 date lies within 15 minutes of `now`, either way.
fn date_is_near(date: &str, now: Timestamp) -> bool {
    let Some(date) = Timestamp::parse_rfc1123(date) else { return false };
    let skew_ms = date.millis_since(now).max(now.millis_since(date));
    skew_ms <= REQUEST_DATE_SKEW_MINUTES_MAX * 60_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::{Accounts, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
    use std::sync::Arc;

    const DATE: &str = "Thu, 09 Dec 2021 00:23:06 GMT";

    fn account() -> Account {
        let text = format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}");
        Accounts::parse(&text).unwrap().remove(0)
    }

    async fn check(headers: &[(&'static str, &str)], now: &str) -> Result<(), ErrorCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let presented = Presented {
            method: "GET",
            path: "/devstoreaccount1/Orders()",
            query: &Query::default(),
            headers: &map,
            version: ApiVersion::parse("2019-02-02").unwrap(),
            caller: Caller {
                now: Timestamp::parse_rfc1123(now).unwrap(),
                address: std::net::Ipv4Addr::LOCALHOST.into(),
                https: false,
            },
            date_check: true,
        };
        let engine = Arc::new(lazuli_engine::MemoryEngine::default());
        let service = TableService::new(engine, Arc::new(lazuli_model::SystemClock));
        let options = AuthOptions::default();
        let outcome = authenticate(&service, &account(), &options, &presented).await;
        outcome.map(|_| ()).map_err(|error| error.code)
    }

    /// The vector AV-2.
    const SIGNED: &str =
        "SharedKeyLite devstoreaccount1:BiXBNxcCbxj1LL6VyhNX12HqC5V/0FTVn3IJusRly+w=";

    #[tokio::test]
    async fn x_ms_date_wins_over_date() {
        // TR-94: an emulator takes Date first.
        let other = ("date", "Thu, 09 Dec 2021 00:20:00 GMT");
        let headers = [("x-ms-date", DATE), other, ("authorization", SIGNED)];
        assert_eq!(check(&headers, DATE).await, Ok(()));
        assert_eq!(check(&[("date", DATE), ("authorization", SIGNED)], DATE).await, Ok(()));
    }

    #[tokio::test]
    async fn the_date_must_be_within_fifteen_minutes() {
        let headers = [("x-ms-date", DATE), ("authorization", SIGNED)];
        let failed = Err(ErrorCode::AuthenticationFailed);
        assert_eq!(check(&headers, "Thu, 09 Dec 2021 00:38:06 GMT").await, Ok(()));
        assert_eq!(check(&headers, "Thu, 09 Dec 2021 00:38:07 GMT").await, failed);
        assert_eq!(check(&headers, "Thu, 09 Dec 2021 00:08:06 GMT").await, Ok(()));
        assert_eq!(check(&headers, "Thu, 09 Dec 2021 00:08:05 GMT").await, failed);
        assert_eq!(check(&[("authorization", SIGNED)], DATE).await, failed);
    }

    #[tokio::test]
    async fn anything_else_is_refused() {
        let failed = Err(ErrorCode::AuthenticationFailed);
        let malformed = Err(ErrorCode::InvalidAuthenticationInfo);
        async fn with(text: &str) -> Result<(), ErrorCode> {
            check(&[("x-ms-date", DATE), ("authorization", text)], DATE).await
        }
        assert_eq!(check(&[("x-ms-date", DATE)], DATE).await, failed);
        assert_eq!(with("SharedKeyLite devstoreaccount1:AAAA").await, failed);
        assert_eq!(with(&SIGNED.replace("devstoreaccount1", "other")).await, failed);
        assert_eq!(with(&SIGNED.replace("SharedKeyLite", "SharedKey")).await, failed);
        assert_eq!(with("SharedKey devstoreaccount1").await, malformed);
        assert_eq!(with("Basic abc").await, malformed);
    }
}
