//! Credentials: account keys, shared access signatures, tokens (C-2.6 to C-2.10).

use crate::error::{Error, ErrorKind};
use crate::grant::Grant;
use crate::{BoxError, BoxFuture};
use lazuli_model::Timestamp;
use lazuli_wire::shared_key::{Scheme, SigningKey};
use std::fmt;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A text that `Debug` does not show.
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

/// A token and its expiry.
#[derive(Clone, Debug)]
pub struct AccessToken {
    /// The text after `Bearer`.
    pub secret: Secret,
    /// When it expires.
    pub expires: Timestamp,
}

/// A source of bearer tokens. Tokens are cached: the source is asked when the last one is about to expire.
///
/// ```
/// use lazuli_client::{AccessToken, BoxError, BoxFuture, Credential, Secret, Timestamp, TokenCredential};
///
/// /// Tokens from a file that another program keeps up to date.
/// #[derive(Debug)]
/// struct FromFile(std::path::PathBuf);
///
/// impl TokenCredential for FromFile {
///     fn token<'a>(&'a self, _scope: &'a str) -> BoxFuture<'a, Result<AccessToken, BoxError>> {
///         Box::pin(async {
///             let text = std::fs::read_to_string(&self.0)?;
///             let (token, expires) = text.split_once(' ').ok_or("a token and its expiry")?;
///             let expires = Timestamp::parse(expires.trim()).ok_or("not a time")?;
///             Ok(AccessToken { secret: Secret::new(token), expires })
///         })
///     }
/// }
///
/// let credential = Credential::token(FromFile("/run/secrets/storage-token".into()));
/// assert_eq!(Secret::new("hidden").expose(), "hidden");
/// assert_eq!(format!("{:?}", Secret::new("hidden")), "Secret(..)");
/// ```
pub trait TokenCredential: Send + Sync + fmt::Debug + 'static {
    /// A token for `scope`, such as `https://storage.azure.com/.default`.
    fn token<'a>(&'a self, scope: &'a str) -> BoxFuture<'a, Result<AccessToken, BoxError>>;
}

/// How requests are authorized.
///
/// ```
/// # use lazuli_client::{Credential, Error};
/// # fn run(key: &str) -> Result<(), Error> {
/// let key = Credential::shared_key("orders", key)?;
/// let scheme_of_old_proxies = key.clone().lite();
/// let guest = Credential::sas("sv=2019-02-02&tn=orders&sp=r&sig=c2VjcmV0")?;
/// let nobody = Credential::anonymous();
/// # Ok(())
/// # }
/// # run("c2VjcmV0").unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Credential(pub(crate) Kind);

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    SharedKey {
        account: Arc<str>,
        key: Arc<SigningKey>,
        scheme: Scheme,
    },
    /// A token, and its permissions as far as its text shows them (C-16.5).
    Sas(Secret, Arc<Grant>),
    SasFrom(Arc<Cached>),
    Token(Arc<Cached>),
    Anonymous,
}

impl Credential {
    /// An account's name and one of its keys, in base64.
    pub fn shared_key(account: &str, key: &str) -> Result<Self, Error> {
        let key = SigningKey::from_base64(key).map_err(|error| Error::config(error.to_string()))?;
        Ok(Self::of_key(account, key))
    }

    pub(crate) fn of_key(account: &str, key: SigningKey) -> Self {
        let (account, key) = (account.into(), Arc::new(key));
        Self(Kind::SharedKey { account, key, scheme: Scheme::SharedKey })
    }

    /// Signs requests by the scheme `SharedKeyLite`, which covers less of a request. Has no effect on other
    /// credentials.
    #[must_use]
    pub fn lite(self) -> Self {
        match self.0 {
            Kind::SharedKey { account, key, .. } => {
                Self(Kind::SharedKey { account, key, scheme: Scheme::SharedKeyLite })
            }
            _ => self,
        }
    }

    /// A shared access signature: the query string, with or without a question mark.
    pub fn sas(token: impl AsRef<str>) -> Result<Self, Error> {
        let token = sas_text(token.as_ref())?;
        let grant = Grant::parse(&token);
        Ok(Self(Kind::Sas(Secret::new(token), Arc::new(grant))))
    }

    /// Shared access signatures from a function, which is called again before the last one expires, and
    /// once more if the service refuses one.
    ///
    /// ```
    /// # use lazuli_client::{BoxError, Credential};
    /// # async fn ask_our_server() -> Result<String, BoxError> { Ok("sv=..&sig=..".into()) }
    /// let credential = Credential::sas_from(|| ask_our_server());
    /// ```
    pub fn sas_from<F, W>(provider: F) -> Self
    where
        F: Fn() -> W + Send + Sync + 'static,
        W: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        let provider = SasProvider(Box::new(move || Box::pin(provider())));
        Self(Kind::SasFrom(Arc::new(Cached::new(provider))))
    }

    /// Bearer tokens.
    pub fn token(source: impl TokenCredential) -> Self {
        Self(Kind::Token(Arc::new(Cached::new(source))))
    }

    /// No credential.
    pub fn anonymous() -> Self {
        Self(Kind::Anonymous)
    }
}

/// A token without its question mark.
fn sas_text(token: &str) -> Result<String, Error> {
    let token = token.trim();
    let token = token.strip_prefix('?').unwrap_or(token);
    let has_signature = token.split('&').any(|part| part.starts_with("sig="));
    let is_query = token.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if !has_signature || !is_query {
        return Err(Error::config("a shared access signature is a query with a parameter `sig`"));
    }
    Ok(token.to_owned())
}

type Fetch = dyn Fn() -> BoxFuture<'static, Result<String, BoxError>> + Send + Sync;

/// A function that returns shared access signatures.
struct SasProvider(Box<Fetch>);

impl fmt::Debug for SasProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SasProvider(..)")
    }
}

impl TokenCredential for SasProvider {
    fn token<'a>(&'a self, _scope: &'a str) -> BoxFuture<'a, Result<AccessToken, BoxError>> {
        Box::pin(async {
            let token = sas_text(&(self.0)().await?)?;
            // A token whose expiry is in a stored policy is valid until it is refused.
            let expires = Grant::parse(&token).expires().unwrap_or(Timestamp::MAX);
            Ok(AccessToken { secret: Secret::new(token), expires })
        })
    }
}

/// A source of secrets, and its last secret.
#[derive(Debug)]
pub(crate) struct Cached {
    source: Box<dyn TokenCredential>,
    /// Locked while a secret is fetched, so that all waiting requests get the same one.
    last: Mutex<Option<Fetched>>,
}

#[derive(Debug)]
struct Fetched {
    token: AccessToken,
    /// When to fetch the next one.
    renew_at: Timestamp,
}

/// Secrets are renewed this long before they expire (C-2.8), or halfway through a shorter life.
const MARGIN_SECONDS: u64 = 300;

impl Fetched {
    fn new(token: AccessToken, now: Timestamp) -> Self {
        let life = token.expires.millis_since(now) / 1000;
        let margin = MARGIN_SECONDS.min(life / 2);
        Self { token, renew_at: now.plus_seconds(life - margin) }
    }
}

impl Cached {
    pub(crate) fn new(source: impl TokenCredential) -> Self {
        Self { source: Box::new(source), last: Mutex::new(None) }
    }

    /// A valid secret. `refused` is one that the service did not accept.
    pub(crate) async fn get(
        &self,
        scope: &str,
        now: Timestamp,
        refused: Option<&Secret>,
    ) -> Result<Secret, Error> {
        let mut last = self.last.lock().await;
        let is_usable = |known: &&Fetched| {
            known.token.expires > now
                && refused.is_none_or(|secret| secret.0 != known.token.secret.0)
        };
        let usable = last.as_ref().filter(is_usable);
        if let Some(known) = usable.filter(|known| now < known.renew_at) {
            return Ok(known.token.secret.clone());
        }
        match self.source.token(scope).await {
            Ok(token) => Ok(last.insert(Fetched::new(token, now)).token.secret.clone()),
            // The last secret is still valid: the next request tries again.
            Err(source) => match usable {
                Some(known) => {
                    tracing::warn!(error = source, "the credential could not be renewed in time");
                    Ok(known.token.secret.clone())
                }
                None => {
                    Err(Error::new(ErrorKind::Credential)
                        .with(|context| context.source = Some(source)))
                }
            },
        }
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

    /// Returns signatures valid for these numbers of seconds, one after the other, then fails.
    fn provider(lives: &'static [u64]) -> (Credential, Arc<AtomicU64>) {
        let calls = Arc::new(AtomicU64::new(0));
        let counted = calls.clone();
        let credential = Credential::sas_from(move || {
            let number = counted.fetch_add(1, Ordering::Relaxed) as usize;
            let end = lives.get(..=number).map(|lives| lives.iter().sum::<u64>());
            std::future::ready(match end {
                Some(end) => {
                    let expiry = Timestamp::UNIX_EPOCH.plus_seconds(end);
                    Ok(format!("?sv=2019-02-02&tn=t&sp=r&se={expiry}&sig={number}"))
                }
                None => Err("the source is down".into()),
            })
        });
        (credential, calls)
    }

    #[tokio::test]
    async fn signatures_of_a_function_are_renewed_before_they_expire() {
        // C-2.6.
        let (Credential(Kind::SasFrom(cached)), calls) = provider(&[3600, 100]) else {
            panic!("a source")
        };
        let at = |seconds| Timestamp::UNIX_EPOCH.plus_seconds(seconds);
        let get = async |seconds| {
            let token = cached.get("", at(seconds), None).await.map_err(|e| e.kind().clone())?;
            Ok(token.expose().rsplit('=').next().unwrap_or_default().to_owned())
        };
        for (seconds, number) in [
            (0, "0"),
            (3299, "0"),
            // Renewed five minutes before it expires.
            (3300, "1"),
            // A short life is renewed halfway; the source is down, and the last signature is still valid.
            (3499, "1"),
            (3500, "1"),
            (3699, "1"),
        ] {
            assert_eq!(get(seconds).await, Ok(number.to_owned()), "{seconds}");
        }
        assert_eq!(calls.load(Ordering::Relaxed), 4);
        assert_eq!(get(3700).await, Err(ErrorKind::Credential));
    }

    #[test]
    fn credentials_show_no_secret() {
        // C-2.10.
        let key = "c2VjcmV0";
        for credential in [
            Credential::shared_key("acct", key).unwrap(),
            Credential::sas(format!("?sv=1&sig={key}")).unwrap(),
        ] {
            assert!(!format!("{credential:?}").contains(key), "{credential:?}");
        }
        assert!(Credential::shared_key("acct", "not base64!").is_err());
        assert!(Credential::sas("sv=1").is_err());
    }
}
