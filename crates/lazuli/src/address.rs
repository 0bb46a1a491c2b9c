//! Which addresses to listen on, and which to show.

use anyhow::Result;
use lazuli_cli::failure::{usage, with_hint};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted; the system may allow fewer. A client that finds the
/// backlog full retries a second later.
const BACKLOG: u32 = 4096;

/// Listens on the port of a service; `flag` is the option that sets it.
pub(crate) async fn listen(host: &str, port: u16, flag: &str) -> Result<TcpListener> {
    let address = SocketAddr::new(resolve(host, "--host").await?, port);
    bind(address).map_err(|error| cannot_listen(address, error, "--host", flag))
}

/// Why nobody can listen on `address`, which the options `host` and `port` set.
pub(crate) fn cannot_listen(
    address: SocketAddr,
    error: io::Error,
    host: &str,
    port: &str,
) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::AddrInUse => with_hint(
            format!("port {} on {} is taken", address.port(), address.ip()),
            format!(
                "another lazuli or Azurite may be running; stop it, or set another port with \
                 {port} (0 picks a free one)"
            ),
        ),
        io::ErrorKind::PermissionDenied => usage(
            format!("not allowed to listen on {address}"),
            format!("ports below 1024 need privileges; set a higher one with {port}"),
        ),
        io::ErrorKind::AddrNotAvailable => usage(
            format!("{} is not an address of this machine", address.ip()),
            format!("use 127.0.0.1, or 0.0.0.0 for every address, with {host}"),
        ),
        _ => anyhow::Error::new(error).context(format!("listen on {address}")),
    }
}

/// As `TcpListener::bind`, with a longer backlog.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server can reuse its port immediately.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The address of the host that `flag` names. A name with several addresses resolves to the first IPv4 one: Azurite
/// listens there, and connection strings name it.
pub(crate) async fn resolve(host: &str, flag: &str) -> Result<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse() {
        return Ok(address);
    }
    let found = tokio::net::lookup_host((bare, 0)).await.map(Iterator::collect::<Vec<_>>);
    let first = found.unwrap_or_default().into_iter().min_by_key(SocketAddr::is_ipv6);
    first.map(|address| address.ip()).ok_or_else(|| {
        usage(
            format!("'{host}' is neither an address nor a name that this machine can resolve"),
            format!("use 127.0.0.1 or localhost, or 0.0.0.0 for every address, with {flag}"),
        )
    })
}

/// An address that clients on this machine can connect to.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_reported_with_a_hint() {
        let taken = listen("127.0.0.1", 0, "--queue-port").await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = listen("127.0.0.1", port, "--queue-port").await.unwrap_err();
        let hint = error.downcast_ref::<lazuli_cli::failure::Hint>().unwrap();
        assert!(hint.problem.contains("is taken") && hint.advice.contains("--queue-port"));
    }

    #[tokio::test]
    async fn hosts_are_addresses_or_names() {
        for (host, address) in
            [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("[::1]", "::1"), ("0.0.0.0", "0.0.0.0")]
        {
            assert_eq!(resolve(host, "--host").await.unwrap().to_string(), address);
        }
        assert!(resolve("localhost", "--host").await.unwrap().is_loopback());
        assert!(resolve("", "--host").await.is_err());
    }

    #[test]
    fn the_address_shown_can_be_reached() {
        let shown = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(shown("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(shown("[::]:1"), "[::1]:1");
        assert_eq!(shown("192.0.2.1:1"), "192.0.2.1:1");
    }
}
