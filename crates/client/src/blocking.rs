//! The same operations for programs that are not async (C-19.4).
//!
//! ```no_run
//! use lazuli_client::blocking::Blocking;
//! use lazuli_client::prelude::*;
//!
//! # fn main() -> Result<(), Error> {
//! let blocking = Blocking::new()?;
//! let people = blocking.wait(Account::from_env()?.tables().create_if_missing("People"))?;
//! blocking.wait(people.insert(&Entity::new("Marketing", "00001").with("FirstName", "Don")))?;
//! for person in blocking.iter(people.query(partition("Marketing")).stream()) {
//!     println!("{}", person?.str("FirstName")?);
//! }
//! # Ok(())
//! # }
//! ```

use crate::error::Error;
use futures_core::Stream;
use std::future::IntoFuture;
use std::pin::Pin;
use tokio::runtime::{Builder, Handle, Runtime};

/// A private runtime that waits for operations and turns streams into iterators. Its thread keeps the connections
/// of accounts used with it; use one for the whole program.
#[derive(Debug)]
pub struct Blocking {
    /// Taken on drop.
    runtime: Option<Runtime>,
}

impl Blocking {
    /// Starts a runtime with one thread.
    pub fn new() -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("lazuli-client")
            .enable_all()
            .build()
            .map_err(|source| {
                let error = Error::config("a thread cannot be started");
                error.with(|context| context.source = Some(source.into()))
            })?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Sends an operation and waits for its end. An error within an async function: use `.await` there.
    pub fn wait<R>(&self, verb: impl IntoFuture<Output = Result<R, Error>>) -> Result<R, Error> {
        self.runtime()?.block_on(verb.into_future())
    }

    /// The items of a stream.
    pub fn iter<T, S>(&self, stream: S) -> BlockingIter<'_, S>
    where
        S: Stream<Item = Result<T, Error>>,
    {
        BlockingIter { blocking: self, stream: Box::pin(stream) }
    }

    fn runtime(&self) -> Result<&Runtime, Error> {
        // Blocking here would stop the caller's runtime, perhaps forever.
        if Handle::try_current().is_ok() {
            let error = Error::config("Blocking cannot wait within an async function");
            return Err(error.with(|context| context.hint = Some("use .await".into())));
        }
        self.runtime.as_ref().ok_or_else(|| Error::config("the runtime has ended"))
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        // Dropping a runtime blocks, which an async function must not do.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The items of a stream, each waited for. After an error the iterator may continue: see the stream.
#[derive(Debug)]
pub struct BlockingIter<'b, S> {
    blocking: &'b Blocking,
    stream: Pin<Box<S>>,
}

impl<T, S> Iterator for BlockingIter<'_, S>
where
    S: Stream<Item = Result<T, Error>>,
{
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let runtime = match self.blocking.runtime() {
            Ok(runtime) => runtime,
            Err(error) => return Some(Err(error)),
        };
        let stream = &mut self.stream;
        runtime.block_on(std::future::poll_fn(|context| stream.as_mut().poll_next(context)))
    }
}
