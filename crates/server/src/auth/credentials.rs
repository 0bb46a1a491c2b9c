//! What authentication and authorization need from a service.

use crate::auth::accounts::Account;
use crate::auth::bearer::RoleNames;
use crate::auth::keyring::Keyring;
use crate::error::{ApiError, ApiResult};
use crate::headers::RequestHeaders;
use crate::operation::Facts;
use lazuli_model::Timestamp;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::{AccountSas, Caller, Permissions, SasError};
use lazuli_wire::shared_key::Scheme;
use lazuli_wire::uri::Query;
use lazuli_wire::version::ApiVersion;
use std::fmt;

/// The credentials of a service: how its requests are signed, what its own tokens look like, and which
/// roles it knows. Account keys, tokens for accounts and bearer tokens are the same for all services.
pub(crate) trait Credentials {
    /// The service SAS as parsed from a query.
    type Token<'q>: Send + Sync;
    /// What a valid token permits.
    type Grant: Grant;

    /// The letter of the service in `ss` and `sks`.
    const LETTER: char;
    /// The roles of the service, and the names of what they permit.
    const ROLES: &'static RoleNames;

    /// The error code for a request without a credential.
    fn missing_credential(presented: &Presented<'_>) -> ErrorCode;

    /// The error code for a refused bearer token.
    fn refused_bearer(presented: &Presented<'_>, refusal: BearerRefusal) -> ErrorCode;

    /// Whether the version of the request supports bearer tokens, on a connection that is private or not.
    fn takes_bearer(_: &Presented<'_>, _is_private: bool) -> bool {
        true
    }

    /// Which key of the account signed the request, if one did.
    fn signing_key(
        account: &Account,
        presented: &Presented<'_>,
        scheme: Scheme,
        signature: &str,
    ) -> Option<usize>;

    /// Why [`Credentials::signing_key`] found no key.
    fn explain_signature(
        presented: &Presented<'_>,
        scheme: Scheme,
        signature: &str,
        keys: &Keyring<'_>,
    ) -> String;

    /// The service's detail about such a signature, after the error message.
    fn signature_detail(
        _: &Account,
        _: &Presented<'_>,
        _: Scheme,
        _signature: &str,
    ) -> Option<String> {
        None
    }

    /// The shared access signature of a request; `None` when it has none.
    fn parse_sas<'q>(
        presented: &'q Presented<'_>,
    ) -> Result<Option<Sas<'q, Self::Token<'q>>>, SasError>;

    /// What a token permits. Its signature is checked before a stored access policy is read, so that
    /// clients without a valid token learn nothing about policies.
    fn grant(
        &self,
        account: &Account,
        token: &Self::Token<'_>,
        caller: &Caller,
    ) -> impl Future<Output = ApiResult<Result<Self::Grant, SasError>>> + Send;

    /// Why no key of the account signed the token.
    fn explain_token(token: &Self::Token<'_>, keys: &Keyring<'_>) -> String;

    /// The service's detail about a refused token, after the error message.
    fn token_detail(
        _: &Account,
        _: &Sas<'_, Self::Token<'_>>,
        _: SasError,
        _now: Timestamp,
    ) -> Option<String> {
        None
    }
}

/// Why a bearer token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BearerRefusal {
    /// It is invalid, or its issuer is unknown.
    Token,
    /// Tokens are not accepted on this connection, or in this version.
    NotTaken,
}

/// What a valid token of a service's own kind permits.
pub(crate) trait Grant: Clone + fmt::Debug + Send + Sync + 'static {
    /// What a request of the service addresses.
    type Resource: Send + Sync;

    /// Refuses an operation that the token does not cover.
    fn permit(&self, facts: &Facts, resource: &Self::Resource) -> ApiResult<()>;
}

/// What a token for one container, such as a table, permits.
pub(crate) struct ContainerGrant<'g> {
    /// What kind of container it is.
    pub(crate) kind: &'static str,
    pub(crate) name: &'g str,
    pub(crate) permissions: Permissions,
}

impl ContainerGrant<'_> {
    /// Refuses an operation that the token does not cover. `named` is the container that the request
    /// addresses, if any, and `is_own` whether the token is for the same one.
    pub(crate) fn permit(&self, facts: &Facts, named: Option<&str>, is_own: bool) -> ApiResult<()> {
        let (Some(named), Some(needed)) = (named, facts.service_sas) else {
            return Err(SasError::Resource.into());
        };
        let error = match (is_own, self.permissions.contains(needed)) {
            (true, true) => return Ok(()),
            (true, false) => SasError::Permission,
            (false, _) => SasError::Resource,
        };
        Err(ApiError::from(error).explained(format!(
            "The token permits '{}' on the {} '{}'; {} on '{named}' needs '{}'.",
            self.permissions.letters(),
            self.kind,
            self.name,
            facts.name,
            needed.letters(),
        )))
    }
}

/// A shared access signature, by its kind.
pub(crate) enum Sas<'q, T> {
    Account(AccountSas<'q>),
    Service(T),
}

/// The parts of a request that credentials cover.
pub(crate) struct Presented<'a> {
    pub(crate) method: &'a str,
    /// As sent, with the account segment in path style.
    pub(crate) path: &'a str,
    /// As sent, without the account.
    pub(crate) resource: &'a str,
    pub(crate) query: &'a Query<'a>,
    /// As sent.
    pub(crate) raw_query: &'a str,
    pub(crate) headers: &'a RequestHeaders<'a>,
    pub(crate) version: ApiVersion,
    pub(crate) caller: Caller,
    /// Whether the date must be close to the server's time.
    pub(crate) date_check: bool,
}

impl<'a> Presented<'a> {
    pub(crate) fn header(&self, name: &str) -> &'a str {
        self.headers.all.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// `x-ms-date` overrides `Date`, whatever its value.
    pub(crate) fn date(&self) -> &'a str {
        match self.headers.x_ms_date {
            None | Some("") => self.headers.date.unwrap_or_default(),
            Some(date) => date,
        }
    }
}
