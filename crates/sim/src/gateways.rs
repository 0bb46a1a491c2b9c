//! The servers that a client may use: it stays with one until a connection breaks, then uses the next.

use lazuli_testkit::http::Connection;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Servers of one store, and the one in use.
#[derive(Clone, Debug)]
pub struct Gateways {
    addresses: Arc<[SocketAddr]>,
    asked: usize,
}

impl Gateways {
    /// The servers as client `number` uses them: clients spread over all.
    pub fn of_client(addresses: &[SocketAddr], number: usize) -> Self {
        Self { addresses: addresses.into(), asked: number }
    }

    /// Switches to the next one.
    pub(crate) fn turn(&mut self) {
        self.asked += 1;
    }

    /// A new connection to the one in use.
    pub(crate) fn connect(&self) -> io::Result<Connection> {
        let none = || io::Error::other("there is no server to ask");
        let index = self.asked.checked_rem(self.addresses.len()).ok_or_else(none)?;
        Connection::open(*self.addresses.get(index).ok_or_else(none)?)
    }
}

impl From<SocketAddr> for Gateways {
    fn from(address: SocketAddr) -> Self {
        Self::of_client(&[address], 0)
    }
}
