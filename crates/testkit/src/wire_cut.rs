//! A TCP proxy that breaks connections: it delays, cuts, falls silent, and loses answers (K-9).
//!
//! It does not know the protocol that passes through it. An *exchange* is one turn of a connection:
//! data from the client, then data from the server.

use crate::seed::Seeded;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum bytes passed on at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// The state of the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weather {
    /// Everything passes.
    #[default]
    Clear,
    /// Every answer is delayed by this time.
    Slow(Duration),
    /// Connections end, and new ones are refused.
    Cut,
    /// Nothing passes, and neither side is notified. Connections that were open at this time, or opened
    /// during it, stay silent forever.
    HalfOpen,
    /// One in this many chunks ends its connection instead of passing.
    Resets { one_in: usize },
    /// One in this many exchanges happens, but the connection ends before the answer.
    LosesAnswers { one_in: usize },
}

/// A proxy for one address. When dropped, it closes its port and all connections.
#[derive(Debug)]
pub struct WireCut {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    exchanges: AtomicU64,
    lost: AtomicU64,
    is_closed: AtomicBool,
}

#[derive(Debug)]
struct State {
    weather: Weather,
    random: Seeded,
    links: Vec<Arc<Link>>,
}

/// One connection through the proxy.
#[derive(Debug)]
struct Link {
    client: TcpStream,
    server: TcpStream,
    /// Whether it has fallen silent.
    is_silent: AtomicBool,
    /// Whether the last chunk came from the client.
    is_asked: AtomicBool,
}

/// What happens to a chunk.
enum Fate {
    Pass(Duration),
    Swallow,
    End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Client,
    Server,
}

impl WireCut {
    /// Listens on a free port, and forwards everything to `target`; random choices come from `seed`.
    pub fn before(target: SocketAddr, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = State { weather: Weather::Clear, random: Seeded::new(seed), links: Vec::new() };
        let shared = Arc::new(Shared {
            target,
            state: Mutex::new(state),
            exchanges: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        std::thread::Builder::new()
            .name("wire-cut".to_owned())
            .spawn(move || accepting.accept(&listener))?;
        Ok(Self { address, shared })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the state of the line.
    pub fn set(&self, weather: Weather) {
        let mut state = self.shared.state();
        state.weather = weather;
        match weather {
            Weather::Cut => state.links.drain(..).for_each(|link| link.end()),
            Weather::HalfOpen => {
                for link in &state.links {
                    link.is_silent.store(true, Ordering::SeqCst);
                }
            }
            _ => {}
        }
    }

    /// Exchanges so far.
    pub fn exchanges(&self) -> u64 {
        self.shared.exchanges.load(Ordering::SeqCst)
    }

    /// Chunks and answers lost so far.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::SeqCst)
    }
}

impl Drop for WireCut {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        self.shared.state().links.drain(..).for_each(|link| link.end());
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    /// No code under the lock can panic halfway.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.is_closed.load(Ordering::SeqCst) {
                return;
            }
            // If a connection fails, the client tries again.
            if let Ok(client) = client {
                let _ = self.clone().open(client);
            }
        }
    }

    fn open(self: Arc<Self>, client: TcpStream) -> io::Result<()> {
        let weather = self.state().weather;
        if weather == Weather::Cut {
            return client.shutdown(Shutdown::Both);
        }
        let server = TcpStream::connect(self.target)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let link = Arc::new(Link {
            client,
            server,
            is_silent: AtomicBool::new(weather == Weather::HalfOpen),
            is_asked: AtomicBool::new(false),
        });
        self.state().links.push(link.clone());
        for from in [From::Client, From::Server] {
            let (shared, link) = (self.clone(), link.clone());
            let pump = move || {
                // An error ends the connection.
                let _ = shared.pump(&link, from);
                link.end();
                shared.state().links.retain(|other| !Arc::ptr_eq(other, &link));
            };
            std::thread::Builder::new().name("wire-cut-link".to_owned()).spawn(pump)?;
        }
        Ok(())
    }

    fn pump(&self, link: &Link, from: From) -> io::Result<()> {
        let (mut source, mut sink) = match from {
            From::Client => (&link.client, &link.server),
            From::Server => (&link.server, &link.client),
        };
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = source.read(&mut chunk)?;
            if read == 0 {
                return Ok(());
            }
            match self.fate(link, from) {
                Fate::Pass(delay) => {
                    wait(delay);
                    sink.write_all(chunk.get(..read).unwrap_or_default())?;
                }
                Fate::Swallow => {}
                Fate::End => {
                    self.lost.fetch_add(1, Ordering::SeqCst);
                    return Ok(());
                }
            }
        }
    }

    fn fate(&self, link: &Link, from: From) -> Fate {
        if link.is_silent.load(Ordering::SeqCst) {
            self.lost.fetch_add(1, Ordering::SeqCst);
            return Fate::Swallow;
        }
        let was_asked = link.is_asked.swap(from == From::Client, Ordering::SeqCst);
        let is_answer = from == From::Server && was_asked;
        if is_answer {
            self.exchanges.fetch_add(1, Ordering::SeqCst);
        }
        let mut state = self.state();
        let weather = state.weather;
        match weather {
            Weather::Slow(delay) if from == From::Server => Fate::Pass(delay),
            Weather::Resets { one_in } if state.random.one_in(one_in) => Fate::End,
            Weather::LosesAnswers { one_in } if is_answer && state.random.one_in(one_in) => {
                Fate::End
            }
            _ => Fate::Pass(Duration::ZERO),
        }
    }
}

impl Link {
    fn end(&self) {
        // Both fail only if the connection has already ended.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

#[expect(clippy::disallowed_methods, reason = "a slow line is a matter of time alone")]
fn wait(delay: Duration) {
    if !delay.is_zero() {
        std::thread::sleep(delay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// A server that answers every byte with its successor, and counts the requests.
    fn successor() -> (SocketAddr, Arc<AtomicU64>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
        let counted = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, counted) = (stream.unwrap(), counted.clone());
                std::thread::spawn(move || {
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).is_ok() {
                        counted.fetch_add(1, Ordering::SeqCst);
                        if stream.write_all(&[byte[0] + 1]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        (address, asked)
    }

    fn ask(stream: &mut TcpStream, byte: u8) -> io::Result<u8> {
        stream.write_all(&[byte])?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        Ok(answer[0])
    }

    fn connect(proxy: &WireCut) -> TcpStream {
        TcpStream::connect(proxy.address()).unwrap()
    }

    #[test]
    fn exchanges_pass_and_are_counted() {
        let proxy = WireCut::before(successor().0, 1).unwrap();
        let mut stream = connect(&proxy);
        for byte in 0..10 {
            assert_eq!(ask(&mut stream, byte).unwrap(), byte + 1);
        }
        assert_eq!((proxy.exchanges(), proxy.lost()), (10, 0));
    }

    #[test]
    fn an_answer_is_lost_after_the_server_has_done_its_work() {
        let (server, asked) = successor();
        let proxy = WireCut::before(server, 1).unwrap();
        proxy.set(Weather::LosesAnswers { one_in: 1 });
        assert!(ask(&mut connect(&proxy), 1).is_err());
        assert_eq!((asked.load(Ordering::SeqCst), proxy.lost()), (1, 1));
    }

    #[test]
    fn a_cut_line_ends_connections_and_refuses_others_until_it_is_mended() {
        let proxy = WireCut::before(successor().0, 1).unwrap();
        let mut stream = connect(&proxy);
        assert_eq!(ask(&mut stream, 1).unwrap(), 2);
        proxy.set(Weather::Cut);
        assert!(ask(&mut stream, 1).is_err());
        assert!(ask(&mut connect(&proxy), 1).is_err());
        proxy.set(Weather::Clear);
        assert_eq!(ask(&mut connect(&proxy), 1).unwrap(), 2);
    }

    #[test]
    fn a_half_open_line_says_nothing_and_stays_silent() {
        let proxy = WireCut::before(successor().0, 1).unwrap();
        let mut stream = connect(&proxy);
        assert_eq!(ask(&mut stream, 1).unwrap(), 2);
        proxy.set(Weather::HalfOpen);
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(ask(&mut stream, 1).is_err());
        proxy.set(Weather::Clear);
        assert!(ask(&mut stream, 1).is_err());
        assert_eq!(ask(&mut connect(&proxy), 1).unwrap(), 2);
    }

    #[test]
    fn a_slow_line_takes_its_time() {
        let proxy = WireCut::before(successor().0, 1).unwrap();
        let mut stream = connect(&proxy);
        proxy.set(Weather::Slow(Duration::from_millis(20)));
        let before = Instant::now();
        assert_eq!(ask(&mut stream, 1).unwrap(), 2);
        assert!(before.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_line_with_resets_ends_some_connections() {
        let proxy = WireCut::before(successor().0, 1).unwrap();
        proxy.set(Weather::Resets { one_in: 4 });
        let failed = (0..40).filter(|_| ask(&mut connect(&proxy), 1).is_err()).count();
        assert!((1..40).contains(&failed), "{failed}");
    }
}
