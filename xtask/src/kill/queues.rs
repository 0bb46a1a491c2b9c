//! Queues under the kill test: clients put, get, update and delete messages of one queue until the
//! server is killed. Once a later server has opened the directory, the remaining messages are taken
//! out, and the history checker examines everything the clients saw: see `crates/sim/src/queue`.

use anyhow::{Context, Result, anyhow};
use lazuli_sim::queue::checker::Promise;
use lazuli_sim::queue::client::Client;
use lazuli_sim::queue::history::Response;
use lazuli_sim::queue::record::{Line, Recorder, SECONDS_MAX};
use lazuli_sim::record::Report;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::server::Server;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Clients of one queue.
pub(crate) const CLIENTS: usize = 4;

/// The queues of all rounds: each has one.
pub(crate) struct Queues {
    random: Seeded,
    rounds: u64,
    /// Histories whose queue has not been emptied yet, with the time of their end.
    left: Vec<(Instant, Recorder)>,
    report: Report,
}

/// The queue of one round, and its clients.
pub(crate) struct Round {
    recorder: Recorder,
    clients: Vec<Client>,
    address: SocketAddr,
}

impl Queues {
    pub(crate) fn new(random: Seeded) -> Self {
        Self { random, rounds: 0, left: Vec::new(), report: Report::default() }
    }

    pub(crate) fn begin(&mut self, server: &Server) -> Result<Round> {
        self.rounds += 1;
        let (round, address) = (self.rounds, address(server)?);
        let recorder = Recorder::new(&format!("kill-{round}"));
        recorder.create(&mut Line::new(address)).map_err(|failure| anyhow!(failure))?;
        let client = |number: usize| {
            let random = self.random.stream(round).stream(number as u64);
            Client::new(number, random, round.is_multiple_of(3)).within_seconds(SECONDS_MAX)
        };
        Ok(Round { recorder, clients: (0..CLIENTS).map(client).collect(), address })
    }

    pub(crate) fn end(&mut self, round: Round) {
        self.left.push((Instant::now(), round.recorder));
    }

    /// Empties the queues whose messages are all visible again, and checks their histories.
    pub(crate) fn check(&mut self, server: &Server) -> Result<()> {
        let age = Duration::from_secs(SECONDS_MAX as u64 + 1);
        let (due, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.left)
            .into_iter()
            .partition(|(end, _): &(Instant, _)| end.elapsed() > age);
        self.left = left;
        let mut line = Line::new(address(server)?);
        for (_, recorder) in due {
            self.report += recorder
                .finish(Promise::OneWriter, &mut line)
                .map_err(|failure| anyhow!(failure))?;
        }
        Ok(())
    }

    /// Waits for the last messages to be visible, then checks the rest.
    pub(crate) fn check_all(&mut self, server: &Server) -> Result<()> {
        lazuli_sim::queue::record::wait_until_visible();
        self.check(server)
    }

    /// The result of the checks so far.
    pub(crate) fn report(&self) -> Report {
        self.report
    }
}

impl Round {
    /// Starts the clients; each sends one request after the other until one gets no response.
    pub(crate) fn start<'s>(
        &'s mut self,
        scope: &'s std::thread::Scope<'s, '_>,
        acknowledge: impl Fn() + Clone + Send + 's,
    ) -> Vec<std::thread::ScopedJoinHandle<'s, Result<()>>> {
        let Self { recorder, clients, address } = self;
        let (recorder, address) = (&*recorder, *address);
        let start = |(number, client): (usize, &'s mut Client)| {
            let acknowledge = acknowledge.clone();
            scope.spawn(move || {
                let mut line = Line::new(address);
                loop {
                    let request = client.next_request();
                    let answered = recorder.call(number, &mut line, request.clone(), false);
                    let response = answered.map_err(|failure| anyhow!(failure))?;
                    if response == Response::Unknown {
                        return Ok(());
                    }
                    client.learn(&request, &response);
                    acknowledge();
                }
            })
        };
        clients.iter_mut().enumerate().map(start).collect()
    }
}

fn address(server: &Server) -> Result<SocketAddr> {
    server.queue().context("the server has no queues")
}
