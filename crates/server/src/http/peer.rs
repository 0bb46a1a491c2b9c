//! Who is at the other end of a connection.

use std::net::SocketAddr;

/// Who is at the other end of a connection, and how it came.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) https: bool,
}

impl Peer {
    /// An IPv4 client of a socket that takes both families is known by its IPv4 address.
    pub fn new(address: SocketAddr, https: bool) -> Self {
        Self { address: SocketAddr::new(address.ip().to_canonical(), address.port()), https }
    }

    pub(crate) const fn scheme(self) -> &'static str {
        if self.https { "https" } else { "http" }
    }
}
