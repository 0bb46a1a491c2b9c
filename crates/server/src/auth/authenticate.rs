//! Who sends a request: Shared Key, Shared Key Lite, shared access signatures, bearer tokens.

use crate::auth::accounts::{Account, Accounts};
use crate::auth::bearer::TokenIssuer;
use crate::auth::delegation;
use crate::auth::explain::{self, Keyring};
use crate::auth::permit::Principal;
use crate::http::error::{ApiError, ApiResult};
use crate::http::request_headers::RequestHeaders;
use http::HeaderValue;
use lazuli_model::limits::REQUEST_DATE_SKEW_MINUTES_MAX;
use lazuli_model::{AccessPolicies, TableName, Timestamp};
use lazuli_table::{TableError, TableService};
use lazuli_wire::error_code::{ErrorCode, message};
use lazuli_wire::sas::{Caller, Sas, SasError, TableSas};
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
    /// Whether callers are told why their credential was refused. For those who write clients.
    pub explain: bool,
}

impl Default for AuthOptions {
    fn default() -> Self {
        Self {
            issuer: None,
            bearer_over_http: false,
            authorization_uri: AUTHORIZATION_URI.to_owned(),
            user_delegation: false,
            explain: false,
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
    /// As sent.
    pub(crate) raw_query: &'a str,
    pub(crate) headers: &'a RequestHeaders<'a>,
    pub(crate) version: ApiVersion,
    pub(crate) caller: Caller,
    /// Whether the date must be near the clock's.
    pub(crate) date_check: bool,
}

impl<'a> Presented<'a> {
    pub(crate) fn header(&self, name: &str) -> &'a str {
        self.headers.all.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// `x-ms-date` wins over `Date`, whatever the other says.
    fn date(&self) -> &'a str {
        match self.headers.x_ms_date {
            None | Some("") => self.headers.date.unwrap_or_default(),
            Some(date) => date,
        }
    }
}

/// Whom the server knows, and what it believes.
pub(crate) struct Authenticator<'a> {
    pub(crate) service: &'a TableService,
    pub(crate) accounts: &'a Accounts,
    pub(crate) options: &'a AuthOptions,
}

impl Authenticator<'_> {
    /// Finds out who sends the request, or refuses it.
    pub(crate) async fn authenticate(
        &self,
        account: &Account,
        presented: &Presented<'_>,
    ) -> ApiResult<Principal> {
        let header = presented.headers.authorization;
        let sas = Sas::parse(presented.query).map_err(|error| {
            ApiError::from(error.code()).explained(format!("{}.", explain::sentence(error)))
        })?;
        match (header, sas) {
            (None, None) => Err(missing(presented)),
            (Some(header), None) => self.by_header(account, presented, header).await,
            (None, Some(sas)) => match self.by_sas(account, presented, &sas).await? {
                Ok(principal) => Ok(principal),
                Err(error) => Err(self.refused(error, account, presented, &sas)),
            },
            // Two credentials at once are none.
            (Some(_), Some(_)) => Err(ApiError::from(ErrorCode::AuthenticationFailed).explained(
                "The request has both an Authorization header and a shared access signature.",
            )),
        }
    }

    async fn by_header(
        &self,
        account: &Account,
        presented: &Presented<'_>,
        text: &str,
    ) -> ApiResult<Principal> {
        let malformed = |_| {
            ApiError::from(ErrorCode::InvalidAuthenticationInfo).explained(
                "The Authorization header is neither 'SharedKey account:signature' nor \
                 'SharedKeyLite account:signature' nor 'Bearer token'.",
            )
        };
        match Authorization::parse(text).map_err(malformed)? {
            Authorization::Signed { scheme, account: named, signature } => {
                if named != account.name.as_str() {
                    let failed = ApiError::from(ErrorCode::AuthenticationFailed);
                    return Err(failed.explained(format!(
                        "The Authorization header names the account '{named}', the URL the \
                         account '{}'.",
                        account.name
                    )));
                }
                self.by_signature(account, presented, scheme, signature)
            }
            Authorization::Bearer(token) => self.by_token(account, presented, token).await,
        }
    }

    fn by_signature(
        &self,
        account: &Account,
        presented: &Presented<'_>,
        scheme: Scheme,
        signature: &str,
    ) -> ApiResult<Principal> {
        let failed = || ApiError::from(ErrorCode::AuthenticationFailed);
        let (date, now) = (presented.date(), presented.caller.now);
        if presented.date_check && !date_is_near(date, now) {
            let seconds_max = REQUEST_DATE_SKEW_MINUTES_MAX * 60;
            return Err(failed().explained(explain::date(date, now, seconds_max)));
        }
        let request = SignedRequest {
            method: presented.method,
            content_md5: presented.headers.content_md5.unwrap_or_default(),
            content_type: presented.headers.content_type.unwrap_or_default(),
            date,
            account: account.name.as_str(),
            path: presented.path,
            comp: presented.query.get("comp"),
        };
        if request.is_signed_by(&account.keys, scheme, signature) {
            return Ok(Principal::Owner);
        }
        Err(self.explained(failed(), || {
            explain::shared_key(&request, scheme, signature, presented, &self.keys(account))
        }))
    }

    async fn by_token(
        &self,
        account: &Account,
        presented: &Presented<'_>,
        token: &str,
    ) -> ApiResult<Principal> {
        // Before the challenge existed a token was a bad signature like any other.
        let refused = || match presented.version.has_bearer_challenge() {
            true => ApiError::from(ErrorCode::InvalidBearerToken),
            false => ApiError::from(ErrorCode::AuthenticationFailed),
        };
        let Some(issuer) = &self.options.issuer else {
            return Err(refused().explained("No issuer of bearer tokens is configured."));
        };
        if !presented.caller.https && !self.options.bearer_over_http {
            // Another token would not help, so there is no challenge. The code is unverified.
            let failed = ApiError::from(ErrorCode::AuthenticationFailed);
            return Err(failed.explained("Bearer tokens are taken over https only."));
        }
        let now = presented.caller.now;
        match issuer.check(token, &account.name, now).await {
            Ok(identity) => Ok(Principal::Bearer(identity)),
            Err(error) => {
                let text = format!("The bearer token is refused: {error}; now it is {now}.");
                Err(refused().explained(text))
            }
        }
    }

    /// The signature is checked before the stored policy is read: strangers learn nothing of it.
    async fn by_sas(
        &self,
        account: &Account,
        presented: &Presented<'_>,
        sas: &Sas<'_>,
    ) -> ApiResult<Result<Principal, SasError>> {
        let (name, caller) = (account.name.as_str(), &presented.caller);
        match sas {
            Sas::Account(sas) => Ok(sas
                .verify(name, &account.keys)
                .and_then(|()| sas.grant(caller))
                .map(Principal::Account)),
            Sas::Table(sas) => {
                if let Err(error) = sas.verify(name, &account.keys) {
                    return Ok(Err(error));
                }
                let policies = self.policies(account, sas).await?;
                Ok(sas.grant(policies.find(sas.policy), caller).map(Principal::Table))
            }
            Sas::UserDelegation(sas) if self.options.user_delegation => {
                let owner = delegation::owner_permissions(account, sas);
                Ok(owner.and_then(|owner| Ok(Principal::Table(sas.grant(caller)?.within(owner)))))
            }
            // Nobody can have such a token: we give out no keys to sign it with.
            Sas::UserDelegation(_) => Ok(Err(SasError::Signature)),
        }
    }

    /// The stored policies of the table a token is for, if it names one of them.
    async fn policies(&self, account: &Account, sas: &TableSas<'_>) -> ApiResult<AccessPolicies> {
        let table = match (sas.policy, TableName::parse_any(sas.table)) {
            ("", _) | (_, Err(_)) => return Ok(AccessPolicies::default()),
            (_, Ok(table)) => table,
        };
        match self.service.access_policies(&account.name, &table).await {
            Err(TableError::TableNotFound) => Ok(AccessPolicies::default()),
            policies => Ok(policies?),
        }
    }

    fn refused(
        &self,
        error: SasError,
        account: &Account,
        presented: &Presented<'_>,
        sas: &Sas<'_>,
    ) -> ApiError {
        let answer = match error {
            SasError::SourceIp => {
                let text = message::source_ip_mismatch(presented.caller.address);
                ApiError::with_text(error.code(), text)
            }
            _ => error.code().into(),
        };
        self.explained(answer, || explain::sas(error, sas, presented, &self.keys(account)))
    }

    /// Adds an explanation that costs something to make, if anybody will read it.
    fn explained(&self, error: ApiError, explain: impl FnOnce() -> String) -> ApiError {
        match self.options.explain || tracing::enabled!(tracing::Level::DEBUG) {
            true => error.explained(explain()),
            false => error,
        }
    }

    fn keys<'k>(&self, account: &'k Account) -> Keyring<'k> {
        Keyring { account, all: self.accounts.all() }
    }
}

/// What a request without credentials is told. Older versions of the service treat the
/// batch resource as one that does not exist, as recorded; see docs/compat.md.
fn missing(presented: &Presented<'_>) -> ApiError {
    let code = if presented.version.has_bearer_challenge() {
        ErrorCode::NoAuthenticationInformation
    } else if presented.path.ends_with("/$batch") {
        ErrorCode::ResourceNotFound
    } else {
        ErrorCode::AuthenticationFailed
    };
    ApiError::from(code)
        .explained("The request has neither an Authorization header nor a shared access signature.")
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
    use crate::auth::accounts::{Accounts, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
    use http::HeaderMap;
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
            raw_query: "",
            headers: &RequestHeaders::of(&map),
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
        let (accounts, options) = (Accounts::new(vec![account()]).unwrap(), AuthOptions::default());
        let known = Authenticator { service: &service, accounts: &accounts, options: &options };
        let outcome = known.authenticate(&account(), &presented).await;
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
