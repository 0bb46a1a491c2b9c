//! Malformed HTTP against a live server, while an ordinary client must still be served.
//!
//! An [`Attack`] opens its own connections, sends what no client should, and accepts any response.
//! Others check that the server continues to work: a [`Witness`] sends ordinary requests during the
//! attacks, and the caller checks the server's memory and log.

mod attack;
mod witness;

pub use attack::{ATTACKS, Attack};
pub use witness::{Served, Witness};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// How long an attacker waits for a response that may never arrive.
const PATIENCE: Duration = Duration::from_millis(1500);

/// What an attack saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Responses with a success status.
    pub done: usize,
    /// Refusals.
    pub refused: usize,
    /// Connections that ended without a response, or timed out.
    pub silent: usize,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.done += other.done;
        self.refused += other.refused;
        self.silent += other.silent;
    }
}

/// Opens this many connections that send nothing, or as many as the system allows.
pub fn idle_connections(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current < maximum {
        // If that is not allowed, there will be fewer connections.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    (0..count).map_while(|_| TcpStream::connect(address).ok()).collect()
}

/// One connection of an attacker.
struct Raw(TcpStream);

impl Raw {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(stream))
    }

    /// Sends as much as the server reads: it may close the connection before the end.
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    /// Closes the sending side.
    fn end(&self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Reads until the server closes, falls silent, or sends too much.
    fn answers(mut self) -> Seen {
        const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
        let mut bytes = Vec::new();
        let mut buffer = [0; 16 * 1024];
        while bytes.len() < ANSWER_BYTES_MAX {
            match self.0.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(read) => bytes.extend(buffer.iter().take(read)),
            }
        }
        count_answers(&bytes)
    }
}

/// Counts status lines, which may follow a body without a line break.
fn count_answers(bytes: &[u8]) -> Seen {
    const STATUS_LINE: &[u8] = b"HTTP/1.1 ";
    let mut seen = Seen::default();
    let mut rest = bytes;
    while let Some(at) = rest.windows(STATUS_LINE.len()).position(|window| window == STATUS_LINE) {
        rest = rest.get(at + STATUS_LINE.len()..).unwrap_or_default();
        match rest.first() {
            Some(b'1' | b'2' | b'3') => seen.done += 1,
            _ => seen.refused += 1,
        }
    }
    if seen.done + seen.refused == 0 {
        seen.silent = 1;
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_where_they_stand() {
        let seen = count_answers(b"HTTP/1.1 200 OK\r\n\r\nbodyHTTP/1.1 403 Forbidden\r\n\r\n");
        assert_eq!((seen.done, seen.refused, seen.silent), (1, 1, 0));
        assert_eq!(count_answers(b"").silent, 1);
    }
}
