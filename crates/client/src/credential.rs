//! Credentials: account keys, shared access signatures, tokens (C-2.6 to C-2.10).

use crate::error::{Error, ErrorKind};
use crate::{BoxError, BoxFuture};
use lazuli_model::Timestamp;
use lazuli_wire::shared_key::SigningKey;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A text that is not shown by `Debug`.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A token, and until when it is good.
#[derive(Clone, Debug)]
pub struct AccessToken {
    /// What follows `Bearer`.
    pub secret: Secret,
    /// When it ends.
    pub expires: Timestamp,
}

/// A source of bearer tokens. Tokens are cached: it is asked when the last one is about to end.
pub trait TokenCredential: Send + Sync + fmt::Debug + 'static {
    /// A token for `scope`, such as `https://storage.azure.com/.default`.
    fn token<'a>(&'a self, scope: &'a str) -> BoxFuture<'a, Result<AccessToken, BoxError>>;
}

/// How requests are authorized.
#[derive(Clone, Debug)]
pub struct Credential(pub(crate) Kind);

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    SharedKey { account: Arc<str>, key: Arc<SigningKey> },
    Sas(Secret),
    Token(Arc<CachedToken>),
    Anonymous,
}

impl Credential {
    /// An account's name and one of its keys, as base64 text.
    pub fn shared_key(account: &str, key: &str) -> Result<Self, Error> {
        let key = SigningKey::from_base64(key).map_err(|error| Error::config(error.to_string()))?;
        Ok(Self(Kind::SharedKey { account: account.into(), key: Arc::new(key) }))
    }

    /// A shared access signature: the text of the query, with or without a question mark.
    pub fn sas(token: &str) -> Result<Self, Error> {
        let token = token.strip_prefix('?').unwrap_or(token);
        let has_signature = token.split('&').any(|part| part.starts_with("sig="));
        if !has_signature {
            return Err(Error::config("a shared access signature has a parameter `sig`"));
        }
        Ok(Self(Kind::Sas(Secret::new(token))))
    }

    /// Bearer tokens.
    pub fn token(source: impl TokenCredential) -> Self {
        Self(Kind::Token(Arc::new(CachedToken {
            source: Box::new(source),
            last: Mutex::new(None),
        })))
    }

    /// No credential.
    pub fn anonymous() -> Self {
        Self(Kind::Anonymous)
    }
}

/// A source of tokens and the last one it gave.
#[derive(Debug)]
pub(crate) struct CachedToken {
    source: Box<dyn TokenCredential>,
    /// Locked while a token is fetched, so that all who wait get that one.
    last: Mutex<Option<AccessToken>>,
}

impl CachedToken {
    /// Tokens are renewed so long before their end.
    const MARGIN_SECONDS: u64 = 300;

    /// A token that is good for a while. `refused` is one that the service did not take.
    pub(crate) async fn get(
        &self,
        scope: &str,
        now: Timestamp,
        refused: Option<&Secret>,
    ) -> Result<Secret, Error> {
        let mut last = self.last.lock().await;
        if let Some(token) = &*last {
            let is_good = token.expires > now.plus_seconds(Self::MARGIN_SECONDS);
            let is_refused = refused.is_some_and(|secret| secret.0 == token.secret.0);
            if is_good && !is_refused {
                return Ok(token.secret.clone());
            }
        }
        let token = self.source.token(scope).await.map_err(|source| {
            Error::new(ErrorKind::Credential).with(|context| context.source = Some(source))
        })?;
        Ok(last.insert(token).secret.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Debug, Default)]
    struct Counted(Arc<AtomicU64>);

    impl TokenCredential for Counted {
        fn token<'a>(&'a self, _scope: &'a str) -> BoxFuture<'a, Result<AccessToken, BoxError>> {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            let expires = Timestamp::UNIX_EPOCH.plus_seconds(3600 * (number + 1));
            let secret = Secret::new(format!("token {number}"));
            Box::pin(std::future::ready(Ok(AccessToken { secret, expires })))
        }
    }

    #[tokio::test]
    async fn a_token_is_renewed_before_its_end_and_when_it_was_refused() {
        // C-2.8.
        let Credential(Kind::Token(cached)) = Credential::token(Counted::default()) else {
            panic!("a token")
        };
        let at = |seconds| Timestamp::UNIX_EPOCH.plus_seconds(seconds);
        let get = |now, refused| cached.get("scope", now, refused);
        let first = get(at(0), None).await.unwrap();
        assert_eq!(first.expose(), "token 0");
        assert_eq!(get(at(3299), None).await.unwrap().expose(), "token 0");
        assert_eq!(get(at(3300), None).await.unwrap().expose(), "token 1");
        let second = get(at(3300), Some(&first)).await.unwrap();
        assert_eq!(second.expose(), "token 1", "another token was refused");
        assert_eq!(get(at(3300), Some(&second)).await.unwrap().expose(), "token 2");
    }

    #[test]
    fn credentials_show_no_secret() {
        // C-2.10.
        let key = "c2VjcmV0";
        for credential in [
            Credential::shared_key("acct", key).unwrap(),
            Credential::sas(&format!("?sv=1&sig={key}")).unwrap(),
        ] {
            assert!(!format!("{credential:?}").contains(key), "{credential:?}");
        }
        assert!(Credential::shared_key("acct", "not base64!").is_err());
        assert!(Credential::sas("sv=1").is_err());
    }
}
