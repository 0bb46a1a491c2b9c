//! Options of every verb (C-3.1, C-3.6, C-3.8), and the builder of verbs that have no others.

use crate::BoxFuture;
use crate::env::Env;
use crate::error::Error;
use crate::throttle::Throttle;
use http::{HeaderName, HeaderValue};
use lazuli_wire::uri::percent_encode;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

/// Options of any operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallOptions {
    pub(crate) timeout: Option<Duration>,
    pub(crate) read_from: ReadFrom,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Percent-encoded, without a leading `&`; may be empty.
    pub(crate) query: String,
    /// Shared by requests that slow down together. A throttled one is retried until its time is up, outside the limits
    /// on attempts and retry budget: sending fewer requests already spares the server (C-12.5).
    pub(crate) throttle: Option<Arc<Throttle>>,
}

impl CallOptions {
    /// For one of several requests of a verb that ends at `deadline`, by the clock of [`Env::elapsed`].
    pub(crate) fn until(&self, deadline: Option<Duration>, env: &Env) -> Self {
        let left = deadline.map(|deadline| deadline.saturating_sub(env.elapsed()));
        Self { timeout: left.or(self.timeout), ..self.clone() }
    }

    /// When a verb that begins now ends, if its caller said so.
    pub(crate) fn deadline(&self, env: &Env) -> Option<Duration> {
        self.timeout.map(|timeout| env.elapsed().saturating_add(timeout))
    }

    /// Adds a parameter to the query.
    pub(crate) fn add_query(&mut self, name: &str, value: &str) {
        let mut query = std::mem::take(&mut self.query).into_bytes();
        if !query.is_empty() {
            query.push(b'&');
        }
        percent_encode(&mut query, name);
        query.push(b'=');
        percent_encode(&mut query, value);
        self.query = String::from_utf8(query).unwrap_or_default();
    }
}

/// The location that answers a read.
///
/// ```no_run
/// use http::{HeaderName, HeaderValue};
/// use lazuli_client::ReadFrom;
/// use std::time::Duration;
///
/// # async fn run(people: lazuli_client::Table) -> Result<(), lazuli_client::Error> {
/// let don = people
///     .get(("Marketing", "00001"))
///     .read_from(ReadFrom::PrimaryThenSecondary)
///     .timeout(Duration::from_secs(5))
///     // What the service has learnt since this library was written:
///     .header(HeaderName::from_static("x-ms-new-option"), HeaderValue::from_static("on"))
///     .query_parameter("newoption", "on")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadFrom {
    /// The primary.
    #[default]
    Primary,
    /// The secondary: its data may be some minutes old.
    Secondary,
    /// The primary first, then the secondary from the second attempt on.
    PrimaryThenSecondary,
}

/// The methods common to all builders of verbs. The builder keeps its [`CallOptions`] in `options`.
macro_rules! verb_options {
    () => {
        /// Limits the time of the operation with all its attempts.
        pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
            self.options.timeout = Some(timeout);
            self
        }

        /// Adds a header that this library has no method for.
        pub fn header(mut self, name: http::HeaderName, value: http::HeaderValue) -> Self {
            self.options.headers.push((name, value));
            self
        }

        /// Adds a query parameter that this library has no method for.
        pub fn query_parameter(mut self, name: &str, value: &str) -> Self {
            self.options.add_query(name, value);
            self
        }
    };
}

/// The methods of builders that read.
macro_rules! read_options {
    () => {
        verb_options!();

        /// Chooses the location to read from.
        pub fn read_from(mut self, location: crate::ReadFrom) -> Self {
            self.options.read_from = location;
            self
        }
    };
}

pub(crate) use {read_options, verb_options};

type Run<R> = Box<dyn FnOnce(CallOptions) -> BoxFuture<'static, Result<R, Error>> + Send>;

/// An operation that has not been sent yet: `.await` sends it.
#[must_use = "nothing is sent before `.await`"]
pub struct Request<R> {
    options: CallOptions,
    run: Run<R>,
}

impl<R> Request<R> {
    pub(crate) fn new<W>(run: impl FnOnce(CallOptions) -> W + Send + 'static) -> Self
    where
        W: Future<Output = Result<R, Error>> + Send + 'static,
    {
        let run: Run<R> = Box::new(move |options| Box::pin(run(options)));
        Self { options: CallOptions::default(), run }
    }

    verb_options!();

    /// Chooses the location to read from; writes always go to the primary.
    pub fn read_from(mut self, location: ReadFrom) -> Self {
        self.options.read_from = location;
        self
    }
}

impl<R> IntoFuture for Request<R> {
    type Output = Result<R, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        (self.run)(self.options)
    }
}

impl<R> std::fmt::Debug for Request<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("options", &self.options).finish_non_exhaustive()
    }
}
