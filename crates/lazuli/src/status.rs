//! `lazuli status`: the gateways of a shared store, which one runs the chores, and whether the store is well. It reads
//! the store directly, without a gateway, and changes nothing.

use crate::stores;
use anyhow::{Context, Result};
use clap::Args;
use lazuli_cli::Exit;
use lazuli_cli::failure;
use lazuli_engine::{Engine, Revision};
use lazuli_model::{SystemClock, Timestamp};
use lazuli_service::{ChoreLease, Gateway, Store};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A gateway that has been silent for this long is not well: three announcements.
const SILENT_SECONDS: u64 = 45;

#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArguments {
    /// The address of the store (postgres://…, tikv://…)
    #[arg(long, value_name = "STORE", env = "LAZULI_ENGINE")]
    engine: String,

    /// File with the password of the store
    #[arg(long, value_name = "FILE", env = "LAZULI_ENGINE_PASSWORD_FILE")]
    engine_password_file: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The state of the store.
struct Status {
    store: String,
    answered: Duration,
    /// The gateway that runs the chores, and how long it has been silent.
    holder: Option<(String, u64)>,
    gateways: Vec<Shown>,
}

struct Shown {
    gateway: Gateway,
    /// Time since its last announcement, by the store's clock.
    silent_seconds: u64,
}

impl Shown {
    fn is_well(&self) -> bool {
        self.silent_seconds < SILENT_SECONDS
    }
}

/// Prints the status; exits with 0 if a gateway is well, 1 if none is, 5 if the store cannot be reached.
pub(crate) fn run(arguments: &StatusArguments) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let status = runtime.block_on(look(arguments));
    runtime.shutdown_timeout(Duration::from_secs(1));
    let status = match status {
        Ok(status) => status,
        Err(error) if failure::exit_of(&error) == Exit::Usage => return Err(error),
        Err(error) => {
            failure::report(&error);
            return Ok(Exit::Unreachable);
        }
    };
    let text = if arguments.json { status.json() } else { status.text() };
    std::io::stdout().write_all(text.as_bytes()).context("write to standard output")?;
    let is_well = status.gateways.iter().any(Shown::is_well);
    Ok(if is_well { Exit::Done } else { Exit::Failed })
}

async fn look(arguments: &StatusArguments) -> Result<Status> {
    let password = arguments.engine_password_file.as_deref();
    let stores::Opened { engine, clock } =
        stores::open(&arguments.engine, stores::Role::Shared, password).await?;
    let began = Instant::now();
    engine.health().await.context("ask the store")?;
    let answered = began.elapsed();
    let store = Store::new(engine.clone() as Arc<dyn Engine>, Arc::new(SystemClock));
    let lease = ChoreLease::holder(&store).await?;
    let gateways = store.gateways().await?;
    engine.close().await.context("close the store")?;
    // A store without a clock of its own has no gateways.
    let now = clock.unwrap_or(Revision(0));
    let shown = |gateway: Gateway| {
        let silent_seconds = seconds_between(gateway.revision, now);
        Shown { gateway, silent_seconds }
    };
    Ok(Status {
        store: stores::shown(&arguments.engine),
        answered,
        holder: lease.map(|(record, last)| (record.holder, seconds_between(last, now))),
        gateways: gateways.into_iter().map(shown).collect(),
    })
}

/// By the clock that stamps the revisions: the newest revision would show the time only while somebody writes.
fn seconds_between(then: Revision, now: Revision) -> u64 {
    let time = |revision: Revision| Timestamp::from_ticks(revision.0);
    match (time(then), time(now)) {
        (Some(then), Some(now)) => now.millis_since(then) / 1000,
        _ => 0,
    }
}

impl Status {
    fn text(&self) -> String {
        let well = self.gateways.iter().filter(|shown| shown.is_well()).count();
        let ms = self.answered.as_millis();
        let mut text = format!("store     {}, answered in {ms} ms\n", self.store);
        let holder = match &self.holder {
            None => "nobody".to_owned(),
            Some((id, silent)) if *silent < SILENT_SECONDS => id.clone(),
            Some((id, silent)) => format!("{id}, SILENT for {silent} s"),
        };
        text +=
            &format!("chores    {holder}\ngateways  {well} of {} healthy\n", self.gateways.len());
        for shown in &self.gateways {
            let Gateway { id, record, .. } = &shown.gateway;
            let listens: Vec<String> =
                record.listens.iter().map(|(name, address)| format!("{name} {address}")).collect();
            let silent = match shown.is_well() {
                true => String::new(),
                false => format!(", SILENT for {} s", shown.silent_seconds),
            };
            text += &format!(
                "  {id}  {}, since {}, {}{silent}\n",
                record.version,
                record.started,
                listens.join(", ")
            );
        }
        text
    }

    fn json(&self) -> String {
        let gateways: Vec<_> = self
            .gateways
            .iter()
            .map(|shown| {
                let Gateway { id, record, .. } = &shown.gateway;
                let listens: serde_json::Map<_, _> = record
                    .listens
                    .iter()
                    .map(|(name, address)| (name.clone(), address.clone().into()))
                    .collect();
                serde_json::json!({
                    "id": id,
                    "version": record.version,
                    "started": record.started.to_string(),
                    "listens": listens,
                    "silentSeconds": shown.silent_seconds,
                    "well": shown.is_well(),
                })
            })
            .collect();
        let status = serde_json::json!({
            "store": self.store,
            "storeMs": u64::try_from(self.answered.as_millis()).unwrap_or(u64::MAX),
            "chores": self.holder.as_ref().map(|(id, _)| id),
            "choresSilentSeconds": self.holder.as_ref().map(|(_, silent)| silent),
            "gateways": gateways,
        });
        format!("{status}\n")
    }
}
