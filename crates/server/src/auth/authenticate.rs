//! Authenticates a request: Shared Key, Shared Key Lite, shared access signatures, bearer tokens.

use crate::auth::accounts::{Account, Accounts};
use crate::auth::bearer::TokenIssuer;
use crate::auth::credentials::{BearerRefusal, Credentials, Presented, Sas};
use crate::auth::explain;
use crate::auth::keyring::Keyring;
use crate::auth::permit::Principal;
use crate::error::{ApiError, ApiResult, sentence};
use crate::refusal::Refusal;
use http::HeaderValue;
use lazuli_model::Timestamp;
use lazuli_model::limits::REQUEST_DATE_SKEW_MINUTES_MAX;
use lazuli_wire::error_code::{ErrorCode, message};
use lazuli_wire::sas::SasError;
use lazuli_wire::shared_key::{Authorization, Scheme};
use std::sync::Arc;

/// The default place where clients get a token: a tenant that does not exist.
const AUTHORIZATION_URI: &str =
    "https://login.microsoftonline.com/00000000-0000-0000-0000-000000000000/oauth2/authorize";

const OVER_HTTPS_ONLY: &str = "Bearer tokens are accepted only over https.";

/// Which credentials are accepted in addition to account keys and the tokens signed with them.
#[derive(Clone, Debug)]
pub struct AuthOptions {
    /// The issuer of accepted bearer tokens; `None` accepts no tokens.
    pub issuer: Option<Arc<TokenIssuer>>,
    /// Whether they are also accepted over plain HTTP, where others can read them.
    pub bearer_over_http: bool,
    /// Where the challenge sends clients for a token.
    pub authorization_uri: String,
    /// Whether keys for user delegation are issued, and tokens signed with them accepted.
    pub user_delegation: bool,
    /// Whether responses say why a credential was refused, for client authors.
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
    /// The challenge of a 401; a URI that is not a valid header value is replaced by the default.
    pub(crate) fn challenge(&self) -> HeaderValue {
        let challenge = |uri: &str| {
            let resource = "https://storage.azure.com";
            HeaderValue::try_from(format!("Bearer authorization_uri={uri} resource_id={resource}"))
        };
        let ours = challenge(&self.authorization_uri).or_else(|_| challenge(AUTHORIZATION_URI));
        ours.unwrap_or_else(|_| HeaderValue::from_static("Bearer"))
    }
}

/// The known accounts and the accepted credentials.
pub(crate) struct Authenticator<'a, S> {
    pub(crate) service: &'a S,
    pub(crate) accounts: &'a Accounts,
    pub(crate) options: &'a AuthOptions,
}

impl<S: Credentials> Authenticator<'_, S> {
    /// Identifies the caller, or refuses the request.
    pub(crate) async fn authenticate(
        &self,
        account: &Account,
        presented: &Presented<'_>,
    ) -> ApiResult<Principal<S::Grant>> {
        let header = presented.headers.authorization;
        // Most requests carry no token; avoid moving a value of its size around for them.
        let sas = match presented.query.contains("sig") {
            false => None,
            true => S::parse_sas(presented).map_err(|error| {
                ApiError::refused(error.code(), error).explained(format!("{}.", sentence(error)))
            })?,
        };
        match (header, &sas) {
            (None, None) => {
                let code = S::missing_credential(presented);
                Err(ApiError::refused(code, Refusal::NoCredential).explained(
                    "The request has neither an Authorization header nor a shared access \
                     signature.",
                ))
            }
            (Some(header), None) => self.by_header(account, presented, header).await,
            (None, Some(sas)) => match self.by_sas(account, presented, sas).await? {
                Ok(principal) => Ok(principal),
                Err(error) => Err(self.refused(error, account, presented, sas)),
            },
            // A request with two credentials is refused.
            (Some(_), Some(_)) => Err(failed(Refusal::TwoCredentials).explained(
                "The request has both an Authorization header and a shared access signature.",
            )),
        }
    }

    async fn by_header(
        &self,
        account: &Account,
        presented: &Presented<'_>,
        text: &str,
    ) -> ApiResult<Principal<S::Grant>> {
        let malformed = |_| {
            let code = ErrorCode::InvalidAuthenticationInfo;
            ApiError::refused(code, Refusal::MalformedHeader).explained(
                "The Authorization header is neither 'SharedKey account:signature' nor \
                 'SharedKeyLite account:signature' nor 'Bearer token'.",
            )
        };
        match Authorization::parse(text).map_err(malformed)? {
            Authorization::Signed { scheme, account: named, signature } => {
                if named != account.name.as_str() {
                    return Err(failed(Refusal::OtherAccount).explained(format!(
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
    ) -> ApiResult<Principal<S::Grant>> {
        let (date, now) = (presented.date(), presented.caller.now);
        if presented.date_check && !date_is_near(date, now) {
            let seconds_max = REQUEST_DATE_SKEW_MINUTES_MAX * 60;
            return Err(failed(Refusal::Date).explained(explain::date(date, now, seconds_max)));
        }
        if let Some(key) = S::signing_key(account, presented, scheme, signature) {
            return Ok(Principal::Owner { key });
        }
        let detail = S::signature_detail(account, presented, scheme, signature);
        Err(self.explained(failed(Refusal::Signature).with_detail(detail), || {
            S::explain_signature(presented, scheme, signature, &self.keys(account))
        }))
    }

    async fn by_token(
        &self,
        account: &Account,
        presented: &Presented<'_>,
        token: &str,
    ) -> ApiResult<Principal<S::Grant>> {
        let refused = |reason| {
            let code = S::refused_bearer(presented, BearerRefusal::Token);
            ApiError::refused(code, reason)
        };
        let not_taken = || {
            let code = S::refused_bearer(presented, BearerRefusal::NotTaken);
            ApiError::refused(code, Refusal::BearerNotTaken)
        };
        let is_private = presented.caller.https || self.options.bearer_over_http;
        if !S::takes_bearer(presented, is_private) {
            let reason = match is_private {
                true => "This version does not support bearer tokens.",
                false => OVER_HTTPS_ONLY,
            };
            return Err(not_taken().explained(reason));
        }
        let Some(issuer) = &self.options.issuer else {
            return Err(
                refused(Refusal::NoIssuer).explained("No issuer of bearer tokens is configured.")
            );
        };
        if !is_private {
            return Err(not_taken().explained(OVER_HTTPS_ONLY));
        }
        let now = presented.caller.now;
        match issuer.check(token, &account.name, S::ROLES, now).await {
            Ok(identity) => Ok(Principal::Bearer(identity, S::ROLES)),
            Err(error) => {
                let text = format!("The bearer token is refused: {error}; the time is {now}.");
                Err(refused(Refusal::BearerToken).explained(text))
            }
        }
    }

    async fn by_sas(
        &self,
        account: &Account,
        presented: &Presented<'_>,
        sas: &Sas<'_, S::Token<'_>>,
    ) -> ApiResult<Result<Principal<S::Grant>, SasError>> {
        let (name, caller) = (account.name.as_str(), &presented.caller);
        match sas {
            Sas::Account(sas) => Ok(sas
                .verify(name, &account.keys)
                .and_then(|()| sas.grant(caller, S::LETTER))
                .map(Principal::Account)),
            Sas::Service(token) => {
                let grant = self.service.grant(account, token, caller).await?;
                Ok(grant.map(Principal::Service))
            }
        }
    }

    fn refused(
        &self,
        error: SasError,
        account: &Account,
        presented: &Presented<'_>,
        sas: &Sas<'_, S::Token<'_>>,
    ) -> ApiError {
        let answer = match error {
            SasError::SourceIp => {
                let text = message::source_ip_mismatch(presented.caller.address);
                ApiError { text: Some(text.into()), ..ApiError::refused(error.code(), error) }
            }
            _ => ApiError::refused(error.code(), error),
        };
        let detail = S::token_detail(account, sas, error, presented.caller.now);
        self.explained(answer.with_detail(detail), || {
            explain::sas_error(error, presented).unwrap_or_else(|| match sas {
                Sas::Account(sas) => explain::account_sas(sas, &self.keys(account)),
                Sas::Service(token) => S::explain_token(token, &self.keys(account)),
            })
        })
    }

    /// Adds an explanation, which is expensive, if anyone will read it.
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

fn failed(reason: Refusal) -> ApiError {
    ApiError::refused(ErrorCode::AuthenticationFailed, reason)
}

/// Whether an RFC 1123 date is within 15 minutes of `now`, either way.
fn date_is_near(date: &str, now: Timestamp) -> bool {
    let Some(date) = Timestamp::parse_rfc1123(date) else { return false };
    let skew_ms = date.millis_since(now).max(now.millis_since(date));
    skew_ms <= REQUEST_DATE_SKEW_MINUTES_MAX * 60_000
}
