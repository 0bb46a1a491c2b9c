//! A connection check that says in words what is wrong (C-2.11).

use super::Account;
use crate::call::{Call, SKEW_SECONDS_MAX, header};
use crate::credential::Kind;
use crate::error::{Error, ErrorKind};
use crate::options::Request;
use crate::tables;
use http::header::DATE;
use http::{HeaderMap, Uri};
use lazuli_model::Timestamp;
use lazuli_wire::connection_string::StorageService;
use std::io;

/// An account that is usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Seconds that the service's clock is ahead of ours; negative if it is behind. A difference of more than 15
    /// minutes is corrected in requests signed by key, but breaks tokens that expire.
    pub clock_ahead_seconds: i64,
}

impl Account {
    /// Sends one cheap read and says in words what is wrong: host not found, connection refused, TLS, the
    /// credential with the service's reason, or the clock.
    pub fn check(&self) -> Request<Checked> {
        let account = self.clone();
        Request::new(|options| async move {
            let call = Call { options, ..account.cheap_read() };
            let answer = account.exchange(&call).await.map_err(|error| account.explain(error))?;
            let ahead = account.clock_ahead(&answer.headers);
            if answer.status.is_success() || answer.status.as_u16() == 404 {
                return Ok(Checked { clock_ahead_seconds: ahead });
            }
            let error = answer.into_error("check");
            let is_authentic = matches!(
                error.code(),
                Some("AuthorizationPermissionMismatch" | "AuthorizationResourceTypeMismatch")
            );
            if is_authentic {
                // The service accepts the credential, but not for reading this.
                return Ok(Checked { clock_ahead_seconds: ahead });
            }
            Err(match clock_hint(ahead) {
                Some(hint) => error.with(|context| context.hint = Some(hint)),
                None => account.explain(error),
            })
        })
    }

    /// A read of one table's name, or of one entity of the table that a token is for.
    fn cheap_read(&self) -> Call {
        let credential = self.0.credential.load();
        match &credential.0 {
            Kind::Sas(_, grant) if grant.may_read() => match grant.table() {
                Some(table) => tables::read("check", format!("/{table}()"), "$top=1".to_owned()),
                None => tables::read("check", "/Tables".to_owned(), "$top=1".to_owned()),
            },
            _ => tables::read("check", "/Tables".to_owned(), "$top=1".to_owned()),
        }
    }

    fn clock_ahead(&self, headers: &HeaderMap) -> i64 {
        let theirs = header(headers, &DATE).and_then(Timestamp::parse_rfc1123);
        theirs.map_or(0, |theirs| {
            let ours = self.0.env.now().unix_seconds();
            theirs.unix_seconds().cast_signed() - ours.cast_signed()
        })
    }

    /// Explains an error to somebody who sets up a connection.
    fn explain(&self, error: Error) -> Error {
        let endpoint = self.0.endpoint(StorageService::Table).map(|endpoint| &*endpoint.primary);
        let uri: Uri = endpoint.and_then(|text| text.parse().ok()).unwrap_or_default();
        let host = uri.host().unwrap_or_default();
        let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(default);
        let hint = match error.kind() {
            ErrorKind::Transport => match cause(&error) {
                Cause::NotFound => format!("no host {host} was found: is the address right?"),
                Cause::Refused => format!("nothing listens at {host}:{port}: is the server up?"),
                #[cfg(feature = "rustls")]
                Cause::Tls(reason) => format!("TLS with {host}:{port} failed: {reason}"),
                Cause::Other => format!("{host}:{port} cannot be reached"),
            },
            ErrorKind::Timeout => format!("{host}:{port} did not answer in time"),
            ErrorKind::Forbidden { .. } => match error.details() {
                [] => "is the key that of this account, and is it still in use?".to_owned(),
                details => details.iter().map(|(_, text)| &**text).collect::<Vec<_>>().join("; "),
            },
            _ => return error,
        };
        error.with(|context| context.hint = Some(hint))
    }
}

fn clock_hint(ahead_seconds: i64) -> Option<String> {
    let minutes = ahead_seconds.unsigned_abs() / 60;
    let direction = if ahead_seconds > 0 { "behind" } else { "ahead of" };
    (ahead_seconds.unsigned_abs() > SKEW_SECONDS_MAX)
        .then(|| format!("this computer's clock is {minutes} minutes {direction} the service's"))
}

enum Cause {
    NotFound,
    Refused,
    #[cfg(feature = "rustls")]
    Tls(String),
    Other,
}

/// Why a connection could not be made.
fn cause(error: &Error) -> Cause {
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        #[cfg(feature = "rustls")]
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return Cause::Tls(tls.to_string());
        }
        // A failed name resolution has no error kind of its own.
        if cause.to_string().contains("dns error") {
            return Cause::NotFound;
        }
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            #[cfg(feature = "rustls")]
            if let Some(tls) = io.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
                return Cause::Tls(tls.to_string());
            }
            if io.kind() == io::ErrorKind::ConnectionRefused {
                return Cause::Refused;
            }
        }
        next = cause.source();
    }
    Cause::Other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BoxFuture, transport::*};
    use crate::{Retry, Transport};
    use bytes::Bytes;

    /// Gives every request the same answer.
    #[derive(Clone)]
    struct Says(u16, &'static str, &'static str);

    impl Transport for Says {
        fn send(
            &self,
            _request: http::Request<Bytes>,
        ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
            let answer = http::Response::builder().status(self.0).header(DATE, self.1);
            let answer = answer.header("x-ms-error-code", self.2);
            let answer = answer.body(Bytes::new().into()).unwrap();
            Box::pin(std::future::ready(Ok(answer)))
        }
    }

    #[tokio::test]
    async fn it_says_what_is_wrong_in_words() {
        // C-2.11.
        let builder = |address: &str| Account::builder(address).retry(Retry::none());
        let nobody = builder("http://127.0.0.1:1/acct").build().unwrap();
        let error = nobody.check().await.unwrap_err().to_string();
        assert!(error.contains("nothing listens at 127.0.0.1:1"), "{error}");

        let now = Timestamp::from_unix_seconds(crate::Env::system().now().unix_seconds());
        let late: &'static str = now.plus_seconds(3600).rfc1123().leak();
        let refused = Says(403, late, "AuthenticationFailed");
        let account = builder("http://h/a").transport(refused).build().unwrap();
        let error = account.check().await.unwrap_err().to_string();
        assert!(error.contains("minutes behind the service's"), "{error}");

        let date: &'static str = now.rfc1123().leak();
        let refused = Says(403, date, "AuthenticationFailed");
        let account = builder("http://h/a").transport(refused).build().unwrap();
        let error = account.check().await.unwrap_err().to_string();
        assert!(error.contains("is the key that of this account"), "{error}");

        let other = Says(403, date, "AuthorizationPermissionMismatch");
        let account = builder("http://h/a").transport(other).build().unwrap();
        assert!(account.check().await.unwrap().clock_ahead_seconds.abs() < 10);
    }
}
