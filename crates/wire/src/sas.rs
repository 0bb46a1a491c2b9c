//! Shared access signatures: parses a token, checks its signature, determines what it permits; and
//! creates tokens.
//!
//! A token is authenticated in two steps, because stored policies are in the database: the
//! signature first, then the rest, with the policy it names, if any. The order of the checks is
//! that of: only a caller with a valid signature learns what the token does not permit.

mod account;
mod blob;
mod delegation;
mod permissions;
mod queue;
mod restrictions;
mod table;
mod terms;

pub use account::{AccountGrant, AccountSas};
pub use blob::{BLOB_SERVICE, BlobDelegationSas, BlobSas};
pub use delegation::{DELEGATED_SERVICE, UserDelegationKey, UserDelegationSas};
pub use permissions::{Permissions, ResourceTypes};
pub use queue::{QUEUE_SERVICE, QueueDelegationSas, QueueGrant, QueueSas};
pub use restrictions::Caller;
pub use table::{KeyRange, TableGrant, TableSas};

use crate::error_code::ErrorCode;
use crate::shared_key::{Signature, SigningKey};
use crate::uri::{Query, percent_encode};
use lazuli_model::Timestamp;

/// The token of a request, by its kind: each service has its own token `S` for one table, queue or
/// container, and another one, `D`.
#[derive(Clone, Copy, Debug)]
pub enum Sas<'a, S, D> {
    Account(AccountSas<'a>),
    Service(S),
    /// Like [`Sas::Service`], but not signed by an account key.
    UserDelegation(D),
}

/// The token of a request to the Table service.
pub type TableToken<'a> = Sas<'a, TableSas<'a>, UserDelegationSas<'a>>;
/// The token of a request to the Queue service.
pub type QueueToken<'a> = Sas<'a, QueueSas<'a>, QueueDelegationSas<'a>>;
/// The token of a request to the Blob service.
pub type BlobToken<'a> = Sas<'a, BlobSas<'a>, BlobDelegationSas<'a>>;

/// Why a token does not authorise a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SasError {
    #[error("the parameter {0} is missing")]
    Missing(&'static str),
    #[error("{0} is malformed")]
    Malformed(&'static str),
    #[error("the parameter {0} is given more than once")]
    Repeated(&'static str),
    #[error("the version in sv has no such tokens")]
    Version,
    #[error("the signature is not that of any key of the account")]
    Signature,
    #[error("there is no stored access policy of that name")]
    UnknownPolicy,
    #[error("{0} is given both in the token and in the stored access policy")]
    GivenTwice(&'static str),
    #[error("the token is not valid before {0}")]
    NotStarted(Timestamp),
    #[error("the token expired at {0}")]
    Expired(Timestamp),
    #[error("the token is for https only")]
    Protocol,
    #[error("the caller's address is outside the token's range")]
    SourceIp,
    #[error("the token is not for this service")]
    Service,
    #[error("the token is not for this type of resource")]
    ResourceType,
    #[error("the token lacks the permission")]
    Permission,
    #[error("the token is for another table or queue, or not for this resource at all")]
    Resource,
    #[error("the entity lies outside the token's range of keys")]
    KeyRange,
}

impl SasError {
    /// The error code of the response.
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::Missing(_)
            | Self::Malformed(_)
            | Self::Repeated(_)
            | Self::Version
            | Self::Signature
            | Self::UnknownPolicy
            | Self::GivenTwice(_)
            | Self::NotStarted(_)
            | Self::Expired(_) => ErrorCode::AuthenticationFailed,
            Self::Protocol => ErrorCode::AuthorizationProtocolMismatch,
            Self::SourceIp => ErrorCode::AuthorizationSourceIPMismatch,
            Self::Service => ErrorCode::AuthorizationServiceMismatch,
            Self::ResourceType => ErrorCode::AuthorizationResourceTypeMismatch,
            Self::Permission => ErrorCode::AuthorizationPermissionMismatch,
            Self::Resource | Self::KeyRange => ErrorCode::AuthorizationFailure,
        }
    }
}

/// A token of one service that a query may hold.
trait Parse<'a>: Sized {
    fn parse(query: &'a Query<'_>) -> Result<Self, SasError>;
}

#[expect(private_bounds, reason = "the tokens are those of this module; others only name them")]
impl<'a, S: Parse<'a>, D: Parse<'a>> Sas<'a, S, D> {
    /// The token in a request's query; `None` when there is no `sig`.
    pub fn parse(query: &'a Query<'_>) -> Result<Option<Self>, SasError> {
        if !query.contains("sig") {
            return Ok(None);
        }
        refuse_repeated(query)?;
        Ok(Some(if query.contains("ss") || query.contains("srt") {
            Self::Account(AccountSas::parse(query)?)
        } else if query.contains("skoid") {
            Self::UserDelegation(D::parse(query)?)
        } else {
            Self::Service(S::parse(query)?)
        }))
    }
}

/// Every parameter of a token of any kind.
const PARAMETERS: [&str; 30] = [
    "sv", "st", "se", "sp", "si", "sip", "spr", "sig", "tn", "spk", "srk", "epk", "erk", "ss",
    "srt", "ses", "skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid", "sr", "rscc",
    "rscd", "rsce", "rscl", "rsct",
];

/// A duplicate parameter would be ambiguous (A-4.15a).
fn refuse_repeated(query: &Query<'_>) -> Result<(), SasError> {
    let count = |wanted: &str| query.iter().filter(|(name, _)| *name == wanted).count();
    match PARAMETERS.into_iter().find(|name| count(name) > 1) {
        Some(name) => Err(SasError::Repeated(name)),
        None => Ok(()),
    }
}

/// A required, non-empty parameter.
fn required<'a>(query: &'a Query<'_>, name: &'static str) -> Result<&'a str, SasError> {
    query.get(name).filter(|value| !value.is_empty()).ok_or(SasError::Missing(name))
}

/// An optional parameter; a missing one counts as empty.
fn optional<'a>(query: &'a Query<'_>, name: &str) -> &'a str {
    query.get(name).unwrap_or_default()
}

/// Joins the fields of a string to sign. A line feed in a field is refused: otherwise two different
/// tokens could sign the same text.
fn join(fields: &[&str]) -> Result<String, SasError> {
    if fields.iter().any(|field| field.contains('\n')) {
        return Err(SasError::Malformed("a field that is signed"));
    }
    Ok(fields.join("\n"))
}

fn verify(text: &str, keys: &[SigningKey], signature: &str) -> Result<(), SasError> {
    let signature = Signature::parse(signature).ok_or(SasError::Signature)?;
    let signed = keys.iter().any(|key| key.verify(&[text.as_bytes()], &signature));
    if signed { Ok(()) } else { Err(SasError::Signature) }
}

/// The query string of a token: the parameters that have a value, and its signature.
fn write_token(parameters: &[(&str, Option<&str>)], signature: &Signature) -> String {
    let signature = signature.to_string();
    let mut out = Vec::new();
    for (name, value) in parameters.iter().chain([&("sig", Some(signature.as_str()))]) {
        let Some(value) = value else { continue };
        if !out.is_empty() {
            out.push(b'&');
        }
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        percent_encode(&mut out, value);
    }
    String::from_utf8(out).unwrap_or_default()
}

/// For [`write_token`]: an empty value is left out.
fn given(value: &str) -> Option<&str> {
    Some(value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
