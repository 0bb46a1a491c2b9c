//! Three gateways of the real binary on one store, each through a line that can be made unreliable.

use super::Store;
use super::script::Fault;
use super::tikv::Tikv;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use lazuli_testkit::processes::{fake_time, signal_family};
use lazuli_testkit::server::Server;
use lazuli_testkit::stores::postgres::{self, Instance, Pair};
use lazuli_testkit::wire_cut::{Weather, WireCut};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// How many gateways share the store.
pub(crate) const GATEWAYS: usize = 3;

pub(crate) struct Cluster {
    binary: PathBuf,
    pub(crate) gateways: Vec<Gateway>,
    beneath: Beneath,
}

/// The store that the gateways share.
enum Beneath {
    Postgres(postgres::Server),
    PostgresPair(Pair),
    Tikv(Tikv),
}

impl Beneath {
    fn start(store: Store, fault: Fault) -> Result<Self> {
        match (store, fault) {
            (Store::Postgres, Fault::PrimaryLost) => {
                Ok(Self::PostgresPair(Pair::try_start().context("start a primary and a standby")?))
            }
            (Store::Postgres, _) => {
                let server = postgres::Server::try_start("").context("start PostgreSQL")?;
                Ok(Self::Postgres(server))
            }
            (Store::Tikv, _) => Ok(Self::Tikv(Tikv::start()?)),
        }
    }

    /// The address for one gateway, and the lines between the two.
    fn engine(&mut self, seed: u64) -> Result<(String, Vec<WireCut>)> {
        match self {
            Self::Tikv(tikv) => tikv.engine(seed),
            Self::PostgresPair(pair) => Ok((pair.address(), Vec::new())),
            Self::Postgres(server) => {
                let store = SocketAddr::from(([127, 0, 0, 1], server.instance.port));
                let line = WireCut::before(store, seed)?;
                Ok((format!("postgres://lazuli@{}/postgres", line.address()), vec![line]))
            }
        }
    }

    /// The PostgreSQL server that accepts writes at first.
    fn primary(&self) -> Result<&Instance> {
        match self {
            Self::Postgres(server) => Ok(&server.instance),
            Self::PostgresPair(pair) => Ok(&pair.primary),
            Self::Tikv(_) => bail!("the store is not PostgreSQL"),
        }
    }
}

pub(crate) struct Gateway {
    /// `None` once it has been killed.
    pub(crate) server: Option<Server>,
    /// The lines between the gateway and the store; empty if the gateway knows two addresses.
    lines: Vec<WireCut>,
    pub(crate) tables: SocketAddr,
    pub(crate) queues: SocketAddr,
}

impl Cluster {
    pub(crate) fn start(
        workspace: &Workspace,
        store: Store,
        fault: Fault,
        seed: u64,
    ) -> Result<Self> {
        let beneath = Beneath::start(store, fault)?;
        let binary = workspace.binary()?.to_owned();
        let mut cluster = Self { binary, gateways: Vec::new(), beneath };
        for number in 0..GATEWAYS {
            let gateway = cluster.start_gateway(number, fault, seed);
            cluster.gateways.push(gateway.with_context(|| format!("start gateway {number}"))?);
        }
        Ok(cluster)
    }

    fn start_gateway(&mut self, number: usize, fault: Fault, seed: u64) -> Result<Gateway> {
        let (engine, lines) = self.beneath.engine(seed ^ number as u64)?;
        let mut command = Command::new(&self.binary);
        if let Some(clock) = fault.clock(number) {
            command.envs(fake_time(clock));
        }
        command.env("RUST_BACKTRACE", "1");
        let server = Server::start_gateway(command, &engine, &[])?;
        let queues = server.queue().context("the gateway has no queues")?;
        Ok(Gateway { tables: server.address(), queues, server: Some(server), lines })
    }

    pub(crate) fn primary(&self) -> Result<&Instance> {
        self.beneath.primary()
    }

    pub(crate) fn standby(&self) -> Result<&Instance> {
        match &self.beneath {
            Beneath::PostgresPair(pair) => Ok(&pair.standby),
            _ => bail!("there is no standby"),
        }
    }

    pub(crate) fn tikv(&self) -> Result<&Tikv> {
        match &self.beneath {
            Beneath::Tikv(tikv) => Ok(tikv),
            _ => bail!("the store is not TiKV"),
        }
    }

    /// Sends a signal to all processes of the store.
    pub(crate) fn signal_store(&self, name: &str) -> Result<()> {
        let pid = match &self.beneath {
            Beneath::Tikv(tikv) => tikv.pid(),
            _ => self.primary()?.pid()?,
        };
        Ok(signal_family(pid, name)?)
    }

    /// Kills the store.
    pub(crate) fn kill_store(&mut self) -> Result<()> {
        match &mut self.beneath {
            Beneath::Tikv(tikv) => {
                tikv.kill();
                Ok(())
            }
            postgres => Ok(postgres.primary()?.kill()?),
        }
    }

    /// Restarts the store with its data.
    pub(crate) fn resume_store(&mut self) -> Result<()> {
        match &mut self.beneath {
            Beneath::Tikv(tikv) => {
                tikv.resume();
                Ok(())
            }
            postgres => Ok(postgres.primary()?.resume(None)?),
        }
    }

    /// Advances the store's clock, where that is possible at run time, by more than the index builder
    /// waits for writes that do not know of a new index. Elsewhere it waits.
    pub(crate) fn pass_time_of_store(&self) {
        if let Beneath::Tikv(tikv) = &self.beneath {
            tikv.forward(Duration::from_secs(45));
        }
    }

    pub(crate) fn kill_gateway(&mut self, number: usize) -> Result<()> {
        let gateway = self.gateways.get_mut(number).context("no such gateway")?;
        Ok(gateway.server.take().context("it was killed already")?.kill()?)
    }

    pub(crate) fn tables(&self) -> Vec<SocketAddr> {
        self.gateways.iter().map(|gateway| gateway.tables).collect()
    }

    pub(crate) fn queues(&self) -> Vec<SocketAddr> {
        self.gateways.iter().map(|gateway| gateway.queues).collect()
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &WireCut> {
        self.gateways.iter().flat_map(|gateway| &gateway.lines)
    }

    /// Changes the lines of one gateway.
    pub(crate) fn set_lines_of(&self, number: usize, weather: Weather) -> Result<()> {
        let gateway = self.gateways.get(number).context("no such gateway")?;
        ensure!(!gateway.lines.is_empty(), "the gateway has no line");
        gateway.lines.iter().for_each(|line| line.set(weather));
        Ok(())
    }

    pub(crate) fn server(&self, number: usize) -> Result<&Server> {
        let gateway = self.gateways.get(number).context("no such gateway")?;
        gateway.server.as_ref().context("the gateway was killed")
    }

    /// Stops the gateways that still run: they must not have panicked, and must stop cleanly.
    pub(crate) fn stop(&mut self) -> Result<()> {
        for gateway in &mut self.gateways {
            if let Some(server) = gateway.server.take() {
                let log = server.log();
                ensure!(!log.contains("panicked"), "a gateway panicked; its log ends:\n{log}");
                ensure!(server.terminate()?.success(), "a gateway did not stop cleanly:\n{log}");
            }
        }
        Ok(())
    }
}
