//! Single requests, one at a time: tables created and deleted, queues too, answers recorded.

use crate::answer::{Answer, Receiver};
use crate::request::{Plain, Signer};
use anyhow::{Context, Result, bail, ensure};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long one response may take.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn create_table(address: SocketAddr, table: &str) -> Result<()> {
    let body = format!("{{\"TableName\":\"{table}\"}}");
    let request = Plain::json("POST", "/Tables", &body).headers("Prefer: return-no-content\r\n");
    expect_status(address, &request, 204).with_context(|| format!("create table {table}"))
}

pub(crate) fn delete_table(address: SocketAddr, table: &str) -> Result<()> {
    let target = format!("/Tables('{table}')");
    let request = Plain { method: "DELETE", ..Plain::get(&target) };
    expect_status(address, &request, 204).with_context(|| format!("delete table {table}"))
}

pub(crate) fn expect_status(address: SocketAddr, request: &Plain<'_>, expected: u16) -> Result<()> {
    let (bytes, _) = Signer::new(address)?.sign(request);
    exchange(address, &bytes, |answer| {
        let text = String::from_utf8_lossy(answer.body);
        ensure!(answer.status == expected, "the server answered {}: {text}", answer.status);
        Ok(())
    })
}

/// Sends `request` on a new connection and passes the response to `look`.
pub(crate) fn exchange<T>(
    address: SocketAddr,
    request: &[u8],
    look: impl FnOnce(Answer<'_>) -> Result<T>,
) -> Result<T> {
    let mut stream = TcpStream::connect(address).context("connect")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request).context("send a request")?;
    let mut receiver = Receiver::default();
    while !receiver.receive(&mut stream).context("receive an answer")? {}
    match receiver.answer() {
        Some(answer) => look(answer),
        None => bail!("no answer came"),
    }
}
