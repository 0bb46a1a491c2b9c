//! Repeatedly writes and reads one entity through one gateway, and measures how long that takes.

use lazuli_testkit::http::{Connection, Request};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);
/// The table of the probe.
const TABLE: &str = "FaultProbe";

/// What a gateway did during the probe.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probed {
    pub(crate) answered: u64,
    /// Responses that were not 2xx, and connections that broke.
    pub(crate) failed: u64,
    /// The longest time that any response took.
    pub(crate) slowest: Duration,
    /// The longest time between two successes.
    pub(crate) longest_gap: Duration,
}

/// Writes and reads until `is_over`. The values only grow, so that a read that shows an older one is noticed.
pub(crate) fn run(
    address: SocketAddr,
    gateway: usize,
    is_over: &AtomicBool,
) -> Result<Probed, String> {
    let mut probe = Probe { address, connection: None, row: gateway, acknowledged: 0, tried: 0 };
    let _ = probe.create_table();
    let mut probed = Probed::default();
    let mut last_success = Instant::now();
    while !is_over.load(Ordering::SeqCst) {
        let began = Instant::now();
        match probe.write_and_read() {
            Ok(true) => {
                probed.answered += 1;
                probed.longest_gap = probed.longest_gap.max(last_success.elapsed());
                last_success = Instant::now();
            }
            Ok(false) => probed.failed += 1,
            Err(Failed::Line) => {
                probe.connection = None;
                probed.failed += 1;
            }
            Err(Failed::Wrong(what)) => return Err(what),
        }
        probed.slowest = probed.slowest.max(began.elapsed());
        std::thread::park_timeout(PAUSE);
    }
    probed.longest_gap = probed.longest_gap.max(last_success.elapsed());
    Ok(probed)
}

struct Probe {
    address: SocketAddr,
    connection: Option<Connection>,
    row: usize,
    /// The greatest number whose write was acknowledged.
    acknowledged: u64,
    /// The greatest number that was sent.
    tried: u64,
}

enum Failed {
    Line,
    Wrong(String),
}

impl From<io::Error> for Failed {
    fn from(_: io::Error) -> Self {
        Self::Line
    }
}

impl Probe {
    fn connection(&mut self) -> io::Result<&mut Connection> {
        match &mut self.connection {
            Some(connection) => Ok(connection),
            none => Ok(none.insert(Connection::open(self.address)?)),
        }
    }

    fn create_table(&mut self) -> io::Result<()> {
        let body = format!("{{\"TableName\":\"{TABLE}\"}}");
        self.connection()?.send(&Request::new("POST", "/Tables").json(&body)).map(drop)
    }

    /// Whether both succeeded.
    fn write_and_read(&mut self) -> Result<bool, Failed> {
        let path = format!("/{TABLE}(PartitionKey='probe',RowKey='{}')", self.row);
        self.tried += 1;
        let tried = self.tried;
        let body = format!("{{\"n\":{tried}}}");
        let written = self.connection()?.send(&Request::new("PUT", &path).json(&body))?;
        match written.status {
            204 => self.acknowledged = tried,
            404 => {
                self.create_table()?;
                return Ok(false);
            }
            500 | 503 => return Ok(false),
            other => {
                return Err(Failed::Wrong(format!("PUT was answered {other}: {}", written.text())));
            }
        }
        let read = self.connection()?.send(&Request::new("GET", &path))?;
        match read.status {
            200 => {
                let text = read.text();
                let shown = text.split("\"n\":").nth(1).and_then(|rest| {
                    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
                });
                match shown {
                    Some(shown) if (self.acknowledged..=self.tried).contains(&shown) => Ok(true),
                    other => Err(Failed::Wrong(format!(
                        "{} was acknowledged, {} was sent, and {other:?} is shown: {text}",
                        self.acknowledged, self.tried
                    ))),
                }
            }
            500 | 503 => Ok(false),
            other => Err(Failed::Wrong(format!("GET was answered {other}: {}", read.text()))),
        }
    }
}
