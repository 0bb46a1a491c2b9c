//! Where the database is: `postgres://user@host1,host2/database?sslmode=verify-full`.

mod parameters;

use crate::tls::{Connector, Mode, TlsSetupError};
use parameters::Parameters;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// How long one host may take to accept a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(3);

/// How long the network may be silent while something is unacknowledged.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// How often, and how many times, an idle connection that has been silent is probed.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_RETRIES: u32 = 3;

/// Address, role and options of a database. Shown without the password.
#[derive(Clone)]
pub struct Address {
    config: Config,
    schema: Option<String>,
    tls: Connector,
}

/// Why a text is not a valid address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("'{shown}' is not an address of PostgreSQL: {reason}")]
    Unreadable { shown: String, reason: String },
    #[error("the address '{shown}' names no host")]
    NoHost { shown: String },
    #[error("the address '{shown}' names no user")]
    NoUser { shown: String },
    #[error("a host of the address '{shown}' has an @")]
    BadHost { shown: String },
    #[error("'{mode}' is no sslmode")]
    BadSslMode { mode: String },
    #[error("of sslcert and sslkey, one is missing")]
    HalfIdentity,
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    #[error("'{schema}' cannot be a schema: use lower-case letters, digits and _")]
    BadSchema { schema: String },
}

impl AddressError {
    /// What the operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoUser { .. } => "name the user: postgres://lazuli@host/database",
            Self::NoHost { .. } => "name the host: postgres://lazuli@host/database",
            Self::BadHost { .. } => {
                "in a password, write @ as %40, or put the password into --engine-password-file"
            }
            Self::BadSslMode { .. } => {
                "sslmode is one of disable, prefer, require, verify-ca and verify-full"
            }
            Self::HalfIdentity => "name both, the certificate and its key",
            Self::Tls(error) => error.hint(),
            Self::BadSchema { .. } => "use a name such as schema=lazuli",
            Self::Unreadable { .. } => {
                "an address looks like postgres://lazuli@db1,db2:5433/database?schema=lazuli"
            }
        }
    }
}

impl Address {
    /// Reads a URL, and the certificates that it names. The parameters are those of `libpq` that
    /// `tokio-postgres` or this crate supports, and `schema`, which names the schema of the tables.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let shown = without_password(text);
        let Parameters { rest, schema, tls } = Parameters::take_from(text)?;
        let mut config = Config::from_str(&rest).map_err(|error| AddressError::Unreadable {
            shown: shown.clone(),
            reason: crate::fault::chain(&error),
        })?;
        if config.get_hosts().is_empty() {
            return Err(AddressError::NoHost { shown });
        }
        // The password ends at the first @: what it has after that would be shown as a host.
        let has_at = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
        if config.get_hosts().iter().any(has_at) {
            return Err(AddressError::BadHost { shown });
        }
        if config.get_user().is_none() {
            return Err(AddressError::NoUser { shown });
        }
        config.ssl_mode(match tls.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WAIT);
        }
        // A replica may lack an acknowledged write (K-7.18).
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.keepalives_idle(SILENCE_MAX).tcp_user_timeout(SILENCE_MAX);
        config.keepalives_interval(KEEPALIVE_INTERVAL).keepalives_retries(KEEPALIVE_RETRIES);
        if let Some(schema) = &schema {
            let given = config.get_options().unwrap_or_default();
            let options = format!("{given} -csearch_path={schema}");
            config.options(options.trim_start());
        }
        Ok(Self { config, schema, tls: Connector::load(&tls)? })
    }

    /// The schema of the tables, if it is not the user's own.
    pub(crate) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.config.password(password);
        self
    }

    /// The name under which the database lists our sessions.
    #[must_use]
    pub(crate) fn with_gateway(mut self, gateway: &str) -> Self {
        self.config.application_name(format!("lazuli/{gateway}"));
        self
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn tls(&self) -> Connector {
        self.tls.clone()
    }
}

/// Shows hosts and database.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        let ports = self.config.get_ports();
        for (index, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) if name.contains(':') => write!(f, "{comma}[{name}]:{port}")?,
                Host::Tcp(name) => write!(f, "{comma}{name}:{port}")?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{comma}{}:{port}", path.display())?,
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())?;
        self.schema.iter().try_for_each(|schema| write!(f, "?schema={schema}"))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// A URL's text with anything that may be a password replaced.
///
/// It is shown for what is no address, too: what comes before the last `@` may be the password of somebody who
/// did not know that `/`, `?` and `@` must be written as `%2F`, `%3F` and `%40` in it.
pub fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let place = rest.rfind('@').map_or(0, |at| at + 1);
    let (user, place) = rest.split_at(place);
    let user = match user.split_once(':') {
        Some((name, _)) => format!("{name}:***@"),
        None => user.to_owned(),
    };
    let Some((place, query)) = place.split_once('?') else {
        return format!("{scheme}://{user}{place}");
    };
    let hide = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if name.eq_ignore_ascii_case("password") => format!("{name}=***"),
        _ => pair.to_owned(),
    };
    let query: Vec<String> = query.split('&').map(hide).collect();
    format!("{scheme}://{user}{place}?{}", query.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_shown_without_its_password() {
        let address = Address::parse("postgres://lazuli:secret@db1,db2:6432/data").unwrap();
        assert!(address.has_password());
        assert_eq!(address.to_string(), "postgres://db1:5432,db2:6432/data");
        assert!(!format!("{address:?}").contains("secret"));
        for (text, shown) in [
            ("postgres://u:p@h/d", "postgres://u:***@h/d"),
            ("postgres://u@h:1/d", "postgres://u@h:1/d"),
            ("postgres://h/d?user=u&password=p&a=b", "postgres://h/d?user=u&password=***&a=b"),
            ("postgres://u:p/a?s@s@h/d?a=b", "postgres://u:***@h/d?a=b"),
            ("tikv://pd1:2379,pd2", "tikv://pd1:2379,pd2"),
            ("some/directory", "some/directory"),
        ] {
            assert_eq!(without_password(text), shown);
        }
        let sixth = Address::parse("postgres://u@[::1]:7/d").unwrap();
        assert_eq!(sixth.to_string(), "postgres://[::1]:7/d");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let refused = |text| Address::parse(text).unwrap_err();
        assert!(matches!(refused("postgres:///data"), AddressError::NoHost { .. }));
        assert!(matches!(refused("postgres://db1/data"), AddressError::NoUser { .. }));
        let raw = refused("postgres://u:se@cret@h/d");
        assert!(matches!(raw, AddressError::BadHost { .. }));
        assert!(!raw.to_string().contains("cret"), "{raw}");
        let mode = refused("postgres://u@h/d?sslmode=maybe");
        assert!(matches!(mode, AddressError::BadSslMode { .. }));
        let half = refused("postgres://u@h/d?sslmode=require&sslcert=here.pem");
        assert_eq!(half, AddressError::HalfIdentity);
        let unknown = refused("postgres://u:secret@h/d?colour=blue");
        assert!(matches!(unknown, AddressError::Unreadable { .. }));
        assert!(!unknown.to_string().contains("secret"), "{unknown}");
    }

    #[test]
    fn schema_is_a_parameter_of_ours() {
        let address = Address::parse("postgres://u@h/d?schema=tables_1&connect_timeout=2").unwrap();
        assert_eq!(address.to_string(), "postgres://h:5432/d?schema=tables_1");
        assert_eq!(address.config().get_options(), Some("-csearch_path=tables_1"));
        assert_eq!(address.config().get_connect_timeout(), Some(&Duration::from_secs(2)));
        for bad in ["", "a;b", "A", "1a", "a%20b"] {
            let refused = Address::parse(&format!("postgres://u@h/d?schema={bad}")).unwrap_err();
            assert!(matches!(refused, AddressError::BadSchema { .. }), "{refused}");
        }
    }

    /// K-8.9
    #[test]
    fn what_would_verify_nothing_is_refused() {
        let refused = |parameters| {
            let address = Address::parse(&format!("postgres://u@h/d?{parameters}"));
            match address.unwrap_err() {
                AddressError::Tls(error) => error,
                other => panic!("{parameters}: {other}"),
            }
        };
        assert_eq!(refused("sslrootcert=root.pem"), TlsSetupError::Unverified);
        assert_eq!(refused("sslmode=prefer&sslrootcert=root.pem"), TlsSetupError::Unverified);
        assert_eq!(refused("sslmode=verify-ca"), TlsSetupError::EveryAuthority);
        let weak = refused("sslmode=require&sslrootcert=system");
        assert_eq!(weak, TlsSetupError::EveryAuthority);
        let none = refused("sslmode=verify-full&sslrootcert=%2Fno%2Fsuch%20file");
        assert!(matches!(&none, TlsSetupError::File { path, .. } if path == "/no/such file"));
    }

    /// K-8.9
    #[test]
    fn mode_of_tls_is_told_to_the_client_library() {
        let mode = |parameters: &str| {
            let address = Address::parse(&format!("postgres://u@h/d{parameters}")).unwrap();
            address.config().get_ssl_mode()
        };
        assert_eq!(mode(""), SslMode::Prefer);
        assert_eq!(mode("?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("?connect_timeout=2&sslmode=require"), SslMode::Require);
    }

    /// K-7.18
    #[test]
    fn only_a_server_that_takes_writes_is_used() {
        let address = Address::parse("postgres://u@h/d?target_session_attrs=any").unwrap();
        let wanted = address.config().get_target_session_attrs();
        assert_eq!(wanted, TargetSessionAttrs::ReadWrite);
    }
}
