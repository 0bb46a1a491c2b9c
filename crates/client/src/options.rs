//! What a caller may say of any verb (C-3.1, C-3.6, C-3.8), and the builder of verbs without options of
//! their own.

use crate::BoxFuture;
use crate::error::Error;
use crate::throttle::Throttle;
use http::{HeaderName, HeaderValue};
use lazuli_wire::uri::percent_encode;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

/// What a caller may say of any operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallOptions {
    pub(crate) timeout: Option<Duration>,
    pub(crate) read_from: ReadFrom,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Percent-encoded, without a leading `&`; empty if there is none.
    pub(crate) query: String,
    /// Shared by requests that slow down together. A throttled one is then sent again until its time is
    /// over: fewer requests spare the server, so neither attempts nor budget need to (C-12.5).
    pub(crate) throttle: Option<Arc<Throttle>>,
}

impl CallOptions {
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

/// Which location is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadFrom {
    /// The primary.
    #[default]
    Primary,
    /// The secondary: what is there may be some minutes old.
    Secondary,
    /// The primary first, the secondary from the second attempt on.
    PrimaryThenSecondary,
}

/// The methods that every builder of a verb has. The builder holds its [`CallOptions`] in `options`.
macro_rules! verb_options {
    () => {
        /// Sets how long the verb may take with all its attempts.
        pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
            self.options.timeout = Some(timeout);
            self
        }

        /// Sends one more header, for what this library does not know.
        pub fn header(mut self, name: http::HeaderName, value: http::HeaderValue) -> Self {
            self.options.headers.push((name, value));
            self
        }

        /// Sends one more parameter in the query, for what this library does not know.
        pub fn query_parameter(mut self, name: &str, value: &str) -> Self {
            self.options.add_query(name, value);
            self
        }
    };
}

/// For builders of verbs that read.
macro_rules! read_options {
    () => {
        verb_options!();

        /// Chooses the location that is asked.
        pub fn read_from(mut self, location: crate::ReadFrom) -> Self {
            self.options.read_from = location;
            self
        }
    };
}

pub(crate) use {read_options, verb_options};

type Run<R> = Box<dyn FnOnce(CallOptions) -> BoxFuture<'static, Result<R, Error>> + Send>;

/// A verb that is described and not yet sent: `.await` sends it.
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

    /// Chooses the location that is asked; a verb that writes always goes to the primary.
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
