//! Bearer tokens: issuer, audience, validity, and what the roles permit.
//!
//! A token is a signed JSON document (RFC 7519, RFC 7515 compact form). Its signature is checked
//! before its content is trusted, with the algorithm of the key, never with one that the token
//! chooses (RFC 8725, 3.1). The time comes from the server's clock, as everywhere.

mod error;
mod keys;
mod roles;
mod source;

pub use error::KeysError;
pub use roles::{RoleGrant, RoleMap, RoleMapError, RoleNames};
pub use source::{KeySource, KeySourceError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use error::{TOKEN_BYTES_MAX, TokenError};
use keys::KeySet;
use lazuli_model::{AccountName, Timestamp};
use serde::Deserialize;
use std::borrow::Cow;

/// The audience of tokens for any storage account.
const STORAGE: &str = "https://storage.azure.com";
/// The suffix of hosts whose first labels are an account and a service.
const CLOUD: &str = ".core.windows.net";
/// Maximum clock skew between issuer and server.
const LEEWAY_SECONDS: u64 = 60;

/// Whose tokens are accepted, and what they must contain.
#[derive(Clone, Debug)]
pub struct IssuerOptions {
    /// The exact value of `iss`.
    pub issuer: String,
    /// The accepted values of `aud`. If empty, those of the service.
    pub audiences: Vec<String>,
    /// Where the issuer's public keys are.
    pub keys: KeySource,
    /// What the values of role claims permit.
    pub roles: RoleMap,
}

/// An issuer whose tokens are accepted. Its keys are reread when a token names an unknown one.
#[derive(Debug)]
pub struct TokenIssuer {
    issuer: String,
    audiences: Vec<String>,
    roles: RoleMap,
    keys: KeySet,
}

/// The holder of a valid token, and what the roles permit.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) object_id: String,
    pub(crate) tenant_id: String,
    pub(crate) grant: RoleGrant,
}

impl TokenIssuer {
    /// Accepts tokens of an issuer; its keys are read when the first token arrives.
    pub fn new(options: IssuerOptions) -> Self {
        Self {
            issuer: options.issuer,
            audiences: options.audiences,
            roles: options.roles,
            keys: KeySet::new(options.keys),
        }
    }

    /// Reads the keys now, so that errors are reported at start.
    pub async fn load_keys(&self, now: Timestamp) -> Result<usize, KeysError> {
        self.keys.load(now).await
    }

    /// Accepts a token, or returns why not.
    pub(crate) async fn check(
        &self,
        token: &str,
        account: &AccountName,
        service: &RoleNames,
        now: Timestamp,
    ) -> Result<Identity, TokenError> {
        let token = Token::parse(token)?;
        let header = token.header()?;
        let key = self.keys.find(header.kid.as_deref(), now).await?;
        if key.algorithm != header.alg {
            let found = header.alg.into_owned();
            return Err(TokenError::Algorithm { expected: key.algorithm, found });
        }
        key.verify(token.signed.as_bytes(), &token.signature)?;
        self.judge(token.claims()?, account, service, now)
    }

    /// Checks the content of a token with a valid signature.
    fn judge(
        &self,
        claims: Claims<'_>,
        account: &AccountName,
        service: &RoleNames,
        now: Timestamp,
    ) -> Result<Identity, TokenError> {
        if claims.iss.as_deref() != Some(self.issuer.as_str()) {
            let (expected, found) = (self.issuer.clone(), claims.iss.unwrap_or_default());
            return Err(TokenError::Issuer { expected, found: found.into_owned() });
        }
        if !claims.aud.iter().any(|audience| self.is_audience(audience, account, service)) {
            let expected = match self.audiences.as_slice() {
                [] => format!("{STORAGE}' or 'https://{account}.{}{CLOUD}", service.service),
                ours => ours.join("' or '"),
            };
            return Err(TokenError::Audience { expected, found: claims.aud.join("', '") });
        }
        if let Some(start) = claims.nbf.map(numeric_date)
            && now.plus_seconds(LEEWAY_SECONDS) < start
        {
            return Err(TokenError::NotYetValid(start));
        }
        let expiry = claims.exp.map(numeric_date).ok_or(TokenError::Malformed("it has no exp"))?;
        if now >= expiry.plus_seconds(LEEWAY_SECONDS) {
            return Err(TokenError::Expired(expiry));
        }
        let grant = self.roles.grant(claims.role_values(), service);
        let object_id = claims.oid.or(claims.sub).unwrap_or_default().into_owned();
        let tenant_id = claims.tid.unwrap_or_default().into_owned();
        Ok(Identity { object_id, tenant_id, grant })
    }

    /// An audience matches with or without a trailing slash.
    fn is_audience(&self, audience: &str, account: &AccountName, service: &RoleNames) -> bool {
        let audience = audience.strip_suffix('/').unwrap_or(audience);
        if self.audiences.is_empty() {
            let host = audience.strip_prefix("https://").unwrap_or_default();
            let host = host.strip_suffix(CLOUD).and_then(|host| host.strip_suffix(service.service));
            let label = host.and_then(|host| host.strip_suffix('.'));
            return audience == STORAGE || label == Some(account.as_str());
        }
        self.audiences.iter().any(|ours| ours.strip_suffix('/').unwrap_or(ours) == audience)
    }
}

/// The three parts of a token.
struct Token<'a> {
    header: &'a str,
    /// Header and content as sent: the signed text.
    signed: &'a str,
    content: Vec<u8>,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    #[serde(borrow)]
    kid: Option<Cow<'a, str>>,
    /// Extensions that must be understood; we understand none.
    crit: Option<serde::de::IgnoredAny>,
}

/// The claims that are read; others are ignored.
#[derive(Deserialize)]
struct Claims<'a> {
    #[serde(borrow)]
    iss: Option<Cow<'a, str>>,
    #[serde(default)]
    aud: Texts,
    exp: Option<f64>,
    nbf: Option<f64>,
    #[serde(borrow)]
    oid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    sub: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tid: Option<Cow<'a, str>>,
    #[serde(default)]
    roles: Texts,
    #[serde(default)]
    groups: Texts,
    #[serde(default)]
    scp: Texts,
    #[serde(default)]
    scope: Texts,
}

impl Claims<'_> {
    /// Roles and groups as given; scopes word by word.
    fn role_values(&self) -> impl Iterator<Item = &str> {
        let named = self.roles.iter().chain(self.groups.iter());
        let scopes = self.scp.iter().chain(self.scope.iter());
        named.chain(scopes.flat_map(str::split_ascii_whitespace))
    }
}

/// A claim that may be one string or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Default for Texts {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Texts {
    fn as_slice(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        self.as_slice().iter().map(String::as_str)
    }

    fn join(&self, separator: &str) -> String {
        self.as_slice().join(separator)
    }
}

impl<'a> Token<'a> {
    fn parse(text: &'a str) -> Result<Self, TokenError> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        let malformed = || TokenError::Malformed("it is not three parts of base64");
        let (signed, signature) = text.rsplit_once('.').ok_or_else(malformed)?;
        let (header, content) = signed.split_once('.').ok_or_else(malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed());
        Ok(Self { header, signed, content: decode(content)?, signature: decode(signature)? })
    }

    fn header(&self) -> Result<Header<'static>, TokenError> {
        let malformed = |_| TokenError::Malformed("its header does not say how it is signed");
        let bytes = URL_SAFE_NO_PAD.decode(self.header);
        let bytes = bytes.map_err(|_| TokenError::Malformed("its header is not base64"))?;
        let header: Header<'_> = serde_json::from_slice(&bytes).map_err(malformed)?;
        if header.crit.is_some() {
            return Err(TokenError::Malformed("it has extensions that must be understood"));
        }
        let alg = header.alg.into_owned().into();
        let kid = header.kid.map(|kid| kid.into_owned().into());
        Ok(Header { alg, kid, crit: None })
    }

    fn claims(&self) -> Result<Claims<'_>, TokenError> {
        let malformed = |_| TokenError::Malformed("its content is not that of a token");
        serde_json::from_slice(&self.content).map_err(malformed)
    }
}

/// Seconds since 1970, truncated; values outside the calendar are clamped.
fn numeric_date(seconds: f64) -> Timestamp {
    Timestamp::UNIX_EPOCH.plus_seconds(seconds as u64).min(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
