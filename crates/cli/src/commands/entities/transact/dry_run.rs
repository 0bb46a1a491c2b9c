//! The account of a dry run: the client checks a transaction as ever, and can send nothing.

use crate::session::Session;
use anyhow::Result;
use bytes::Bytes;
use lazuli_client::{
    Account, Body, BoxFuture, Commit, Error, ErrorKind, Retry, Sent, Transport, TransportError,
};

/// The same account without a network and a credential.
pub(super) fn without_network(session: &Session) -> Result<Session> {
    let Session { account, out, interrupt } = session;
    let endpoint = account.table_endpoint().unwrap_or_default();
    let mut dry = Account::builder(endpoint).dialect(account.dialect());
    if let Some(endpoint) = account.queue_endpoint() {
        dry = dry.queue_endpoint(endpoint);
    }
    let account = dry.retry(Retry::none()).transport(Nowhere).build()?;
    Ok(Session { account, out: *out, interrupt: interrupt.clone() })
}

/// Does what a transaction does before its first request.
pub(super) async fn check(commit: Commit) -> Result<(), Error> {
    match commit.await {
        // The network, which is not there, is the first thing that it lacks.
        Err(error) if *error.kind() == ErrorKind::Transport => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Sends nothing.
struct Nowhere;

impl Transport for Nowhere {
    fn send(
        &self,
        _: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        let source = "a dry run sends nothing".into();
        Box::pin(std::future::ready(Err(TransportError { sent: Sent::No, source })))
    }
}
