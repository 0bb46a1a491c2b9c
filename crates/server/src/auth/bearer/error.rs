//! Why a token, or the keys of an issuer, cannot be used.

use lazuli_model::Timestamp;
use std::io;

/// Maximum bytes of a token. Tokens of a directory with many groups have a few thousand.
pub(super) const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("the token is longer than {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    #[error("the token is malformed: {0}")]
    Malformed(&'static str),
    #[error("the issuer has no key '{0}'")]
    UnknownKey(String),
    #[error("the token is signed with '{found}', but its key is for {expected}")]
    Algorithm { expected: &'static str, found: String },
    #[error("the signature is not the issuer's")]
    Signature,
    #[error("its issuer is '{found}' but must be '{expected}'")]
    Issuer { expected: String, found: String },
    #[error("its audience is '{found}' but must be '{expected}'")]
    Audience { expected: String, found: String },
    #[error("the token is not valid before {0}")]
    NotYetValid(Timestamp),
    #[error("the token expired at {0}")]
    Expired(Timestamp),
}

/// Why the keys of an issuer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("cannot read them")]
    Io(#[from] io::Error),
    #[error("the request timed out")]
    Timeout,
    #[error("the server returned status {0}")]
    Status(u16),
    #[error("the document is not a JSON Web Key Set")]
    Malformed,
    #[error("the document has no key for RS256, RS384, RS512, PS256, PS384, PS512, ES256 or ES384")]
    NoKey,
}
