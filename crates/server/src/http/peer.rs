//! The peer of a connection.

use std::net::SocketAddr;

/// The peer of a connection, and how it connected.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) https: bool,
}

impl Peer {
    /// An IPv4 client on a dual-stack socket is identified by its IPv4 address.
    pub fn new(address: SocketAddr, https: bool) -> Self {
        Self { address: SocketAddr::new(address.ip().to_canonical(), address.port()), https }
    }

    pub(crate) const fn scheme(self) -> &'static str {
        if self.https { "https" } else { "http" }
    }
}
