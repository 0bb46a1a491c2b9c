//! The account that a command uses: from flags, else a profile, else the environment, else the development account on
//! this machine (O-9.2).

use crate::failure::usage;
use crate::output::Output;
use crate::profiles;
use anyhow::{Context, Result};
use clap::Args;
use lazuli_client::{
    AccessToken, Account, AccountBuilder, BoxError, BoxFuture, Credential, Secret, Timestamp,
    TokenCredential,
};
use lazuli_wire::connection_string::{ConnectionCredential, ConnectionString, DEVELOPMENT_KEY};
use lazuli_wire::shared_key::SigningKey;

/// The account and its credential.
///
/// The ids are set apart from those of other arguments: a global argument of the same id as one of the server
/// would take its value.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// Connection string of the account; UseDevelopmentStorage=true is the emulator on this machine
    #[arg(short = 'c', id = "target-connection-string", long = "connection-string", global = true, value_name = "TEXT", value_parser = secret, help_heading = "Connection")]
    connection_string: Option<Secret>,

    /// Endpoint of the service that the command talks to
    #[arg(
        id = "target-endpoint",
        long = "endpoint",
        global = true,
        value_name = "URL",
        help_heading = "Connection"
    )]
    endpoint: Option<String>,

    /// Name of the account; without --endpoint it is one of Azure's
    #[arg(
        id = "target-account",
        long = "account",
        global = true,
        value_name = "NAME",
        help_heading = "Connection"
    )]
    account: Option<String>,

    /// Key of the account, in base64
    #[arg(id = "target-key", long = "key", global = true, value_name = "KEY", value_parser = secret, help_heading = "Connection")]
    key: Option<Secret>,

    /// Shared access signature to use instead of a key
    #[arg(id = "target-sas", long = "sas", global = true, value_name = "TOKEN", value_parser = secret, help_heading = "Connection")]
    sas: Option<Secret>,

    /// Bearer token to use instead of a key
    #[arg(id = "target-token", long = "token", global = true, value_name = "TOKEN", value_parser = secret, help_heading = "Connection")]
    token: Option<Secret>,

    /// Profile in ~/.config/lazuli/profiles.toml to take all this from
    #[arg(
        short = 'p',
        id = "target-profile",
        long = "profile",
        global = true,
        value_name = "NAME",
        help_heading = "Connection"
    )]
    profile: Option<String>,
}

#[expect(clippy::unnecessary_wraps, reason = "what clap calls")]
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

/// The account settings on the command line or in a profile.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) connection_string: Option<Secret>,
    pub(crate) endpoint: Option<String>,
    pub(crate) account: Option<String>,
    pub(crate) key: Option<Secret>,
    pub(crate) sas: Option<Secret>,
    pub(crate) token: Option<Secret>,
}

/// Where the account is configured.
enum Source {
    ConnectionString(Secret),
    /// The same, from a variable of the environment.
    Variable {
        name: &'static str,
        text: Secret,
    },
    Parts(Parts),
    Account {
        name: String,
        key: Option<Secret>,
    },
    Development,
}

const DEVELOPMENT: &str = "UseDevelopmentStorage=true";

/// The variables that `Account::from_env` reads, strings first (C-2.4).
const STRINGS: [&str; 2] = ["LAZULI_CONNECTION_STRING", "AZURE_STORAGE_CONNECTION_STRING"];
const ACCOUNT: &str = "AZURE_STORAGE_ACCOUNT";
const ACCOUNT_KEY: &str = "AZURE_STORAGE_KEY";

impl Target {
    /// The account. Makes no request.
    pub(crate) fn account(&self, out: &Output) -> Result<Account> {
        let builder = match self.source(out)? {
            Source::ConnectionString(text) => {
                AccountBuilder::from_connection_string(text.expose())?
            }
            Source::Variable { name, text } => {
                AccountBuilder::from_connection_string(text.expose()).context(name)?
            }
            Source::Parts(parts) => parts.builder()?,
            Source::Account { .. } => return Ok(Account::from_env()?),
            Source::Development => AccountBuilder::from_connection_string(DEVELOPMENT)?,
        };
        let account = builder.application(concat!("lazuli/", env!("CARGO_PKG_VERSION"))).build()?;
        for name in account.ignored_settings() {
            out.warn(format_args!("{name} in the connection string means nothing here"));
        }
        Ok(account)
    }

    /// The name and the key of the account, if given anywhere.
    pub(crate) fn signing_key(&self, out: &Output) -> Result<Option<(String, SigningKey)>> {
        let (name, key) = match self.source(out)? {
            Source::ConnectionString(text) => return key_in(text.expose()),
            Source::Variable { name, text } => return key_in(text.expose()).context(name),
            Source::Development => return key_in(DEVELOPMENT),
            Source::Parts(Parts { account: Some(name), key: Some(key), .. })
            | Source::Account { name, key: Some(key) } => (name, key),
            _ => return Ok(None),
        };
        let key = SigningKey::from_base64(key.expose())
            .map_err(|error| usage(format!("--key: {error}"), "a key is base64 text"))?;
        Ok(Some((name, key)))
    }

    /// Whether an account is given at all, so that it is not just the development account.
    pub(crate) fn is_given(&self) -> bool {
        let from_environment = || environment(|name| std::env::var(name).ok());
        self.profile.is_some()
            || !self.parts().is_empty()
            || !matches!(from_environment(), Source::Development)
    }

    fn parts(&self) -> Parts {
        let Self { connection_string, endpoint, account, key, sas, token, .. } = self.clone();
        Parts { connection_string, endpoint, account, key, sas, token }
    }

    fn source(&self, out: &Output) -> Result<Source> {
        let parts = self.parts();
        self.warn_of_visible_keys(out);
        match (&self.profile, parts.is_empty()) {
            (Some(_), false) => Err(usage(
                "the account is given twice: by a profile and by options",
                "use either -p or the other options",
            )),
            (Some(name), true) => {
                profiles::read(name, out)?.source().with_context(|| format!("profile {name:?}"))
            }
            (None, false) => parts.source(),
            (None, true) => Ok(environment(|name| std::env::var(name).ok())),
        }
    }

    /// Other users of the machine can read command lines. The development key is not secret.
    fn warn_of_visible_keys(&self, out: &Output) {
        let is_secret = |text: &str| !text.contains(DEVELOPMENT_KEY);
        let key = self.key.as_ref().is_some_and(|key| is_secret(key.expose()));
        let text = self
            .connection_string
            .as_ref()
            .is_some_and(|text| text.expose().contains("AccountKey=") && is_secret(text.expose()));
        if key || text {
            out.warn(
                "others on this machine can read a key on the command line; \
                 a profile or AZURE_STORAGE_CONNECTION_STRING hides it",
            );
        }
    }
}

/// The name and the key in a connection string.
fn key_in(text: &str) -> Result<Option<(String, SigningKey)>> {
    let parsed = ConnectionString::parse(text).map_err(lazuli_client::Error::from)?;
    Ok(match (parsed.account, parsed.credential) {
        (Some(name), ConnectionCredential::Key(key)) => Some((name, *key)),
        _ => None,
    })
}

fn environment(get: impl Fn(&str) -> Option<String>) -> Source {
    let get = |name: &str| get(name).filter(|value| !value.is_empty());
    let text = STRINGS.into_iter().find_map(|name| Some((name, get(name)?)));
    match (text, get(ACCOUNT)) {
        (Some((name, text)), _) => Source::Variable { name, text: Secret::new(text) },
        (None, Some(name)) => Source::Account { name, key: get(ACCOUNT_KEY).map(Secret::new) },
        (None, None) => Source::Development,
    }
}

impl Parts {
    fn is_empty(&self) -> bool {
        let Self { connection_string, endpoint, account, key, sas, token } = self;
        let secrets = [connection_string, key, sas, token];
        endpoint.is_none() && account.is_none() && secrets.iter().all(|secret| secret.is_none())
    }

    fn source(self) -> Result<Source> {
        let others = Self { connection_string: None, ..self.clone() };
        match (self.connection_string, others.is_empty()) {
            (Some(text), true) => Ok(Source::ConnectionString(text)),
            (None, _) => Ok(Source::Parts(others)),
            (Some(_), false) => Err(usage(
                "a connection string says everything; other options of the connection contradict it",
                "use either -c or --endpoint, --account, --key, --sas and --token",
            )),
        }
    }

    fn builder(self) -> Result<AccountBuilder> {
        let (address, in_address) = match &self.endpoint {
            Some(endpoint) => match endpoint.split_once('?') {
                Some((address, token)) => (Some(address), Some(Secret::new(token))),
                None => (Some(&**endpoint), None),
            },
            None => (None, None),
        };
        let sas = self.sas.or(in_address);
        let scheme = address.and_then(|address| address.split_once("://"));
        let is_clear = scheme.is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("http"));
        let credential = match (self.key, sas, self.token) {
            (Some(key), None, None) => match &self.account {
                Some(account) => Credential::shared_key(account, key.expose())?,
                None => return Err(usage("--key needs --account", "a key signs for an account")),
            },
            (None, Some(sas), None) => Credential::sas(sas.expose())?,
            (None, None, Some(_)) if is_clear => {
                return Err(usage("a token is not sent without TLS", "use an https endpoint"));
            }
            (None, None, Some(token)) => Credential::token(FixedToken(token)),
            (None, None, None) => {
                let advice = "give one of --key (with --account), --sas and --token";
                return Err(usage("the account is given without a credential", advice));
            }
            _ => return Err(usage("more than one credential", "use one of --key, --sas, --token")),
        };
        let builder = match (address, &self.account) {
            // The command uses one service, and this is its endpoint.
            (Some(address), _) => {
                Account::builder(address).queue_endpoint(address).blob_endpoint(address)
            }
            (None, Some(account)) => {
                AccountBuilder::from_connection_string(&format!("AccountName={account}"))?
            }
            (None, None) => {
                return Err(usage(
                    "a credential is given without an account",
                    "give --endpoint, or --account for one of Azure's",
                ));
            }
        };
        Ok(builder.credential(credential))
    }
}

/// A token that was obtained elsewhere.
#[derive(Debug)]
struct FixedToken(Secret);

impl TokenCredential for FixedToken {
    fn token<'a>(&'a self, _scope: &'a str) -> BoxFuture<'a, Result<AccessToken, BoxError>> {
        // Only the service knows when it expires.
        let expires = Timestamp::parse("9999-12-31T00:00:00Z").unwrap_or(Timestamp::UNIX_EPOCH);
        let token = AccessToken { secret: self.0.clone(), expires };
        Box::pin(std::future::ready(Ok(token)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(endpoint: &str, account: &str, key: &str, sas: &str, token: &str) -> Parts {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let hidden = |text: &str| given(text).map(Secret::new);
        Parts {
            connection_string: None,
            endpoint: given(endpoint),
            account: given(account),
            key: hidden(key),
            sas: hidden(sas),
            token: hidden(token),
        }
    }

    #[track_caller]
    fn endpoint_of(parts: Parts) -> String {
        let account = parts.builder().unwrap().build().unwrap();
        account.table_endpoint().unwrap().to_owned()
    }

    #[track_caller]
    fn problem(parts: Parts) -> String {
        parts.builder().and_then(|builder| Ok(builder.build()?)).unwrap_err().to_string()
    }

    #[test]
    fn an_account_is_described_in_parts() {
        let local = "http://127.0.0.1:10002/devstoreaccount1";
        assert_eq!(endpoint_of(parts(local, "a", "a2V5", "", "")), local);
        assert_eq!(
            endpoint_of(parts("", "acct", "a2V5", "", "")),
            "https://acct.table.core.windows.net"
        );
        assert_eq!(endpoint_of(parts(local, "", "", "?sv=1&sig=a", "")), local);
        assert_eq!(
            endpoint_of(parts("https://a.example/?sv=1&sig=a", "", "", "", "")),
            "https://a.example"
        );
        assert_eq!(endpoint_of(parts("https://a.example", "", "", "", "ey")), "https://a.example");
    }

    #[test]
    fn what_is_missing_or_too_much_is_told() {
        assert!(problem(parts("http://a", "", "a2V5", "", "")).contains("--account"));
        assert!(problem(parts("http://a", "", "", "", "")).contains("without a credential"));
        assert!(problem(parts("", "", "", "sig=a", "")).contains("without an account"));
        assert!(problem(parts("http://a", "b", "a2V5", "sig=a", "")).contains("more than one"));
        assert!(problem(parts("HTTP://a", "", "", "", "ey")).contains("without TLS"));
        let both = Parts {
            connection_string: Some(Secret::new("x")),
            ..parts("http://a", "", "", "", "")
        };
        assert!(both.source().is_err());
    }

    #[test]
    fn the_environment_names_an_account_or_it_is_the_development_account() {
        let source = |variables: &'static [(&str, &str)]| {
            environment(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(matches!(source(&[]), Source::Development));
        assert!(matches!(source(&[(STRINGS[0], "")]), Source::Development));
        let both = source(&[(STRINGS[1], "b"), (STRINGS[0], "a")]);
        assert!(matches!(both, Source::Variable { text, .. } if text.expose() == "a"));
        let account = source(&[(ACCOUNT, "a"), (ACCOUNT_KEY, "k")]);
        assert!(matches!(account, Source::Account { key: Some(_), .. }));
    }

    #[test]
    fn arguments_show_no_secret() {
        let target = Target {
            connection_string: Some(Secret::new("c2VjcmV0")),
            endpoint: None,
            account: None,
            key: Some(Secret::new("c2VjcmV0")),
            sas: None,
            token: None,
            profile: None,
        };
        assert!(!format!("{target:?}").contains("c2VjcmV0"));
    }
}
