//! The operator's view of the server: readiness, metrics, and the listener for them.

use crate::admin::{self, BoundAdmin};
use crate::announce::REVISION;
use crate::config::Settings;
use crate::engine_choice::EngineChoice;
use crate::logging::LogQueue;
use crate::options::MIB;
use crate::watch::{Https, Watch};
use anyhow::Result;
use lazuli_admin::{Admin, Metrics, ProcessMeter, Readiness, Reason, Tokens};
use lazuli_engine::Engine;
use lazuli_meter::{Family, Source, Value};
use lazuli_model::{Clock, SystemClock};
use lazuli_server::{DiskGuard, Tls};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::signal::unix::Signal;

/// The operator's view of the server.
#[derive(Clone)]
pub(crate) struct Operator {
    readiness: Arc<Readiness>,
    metrics: Arc<Metrics>,
    watch: Arc<Watch>,
    disk: Arc<DiskGuard>,
}

impl Operator {
    pub(crate) fn new(settings: &Settings, data: &Path, log: LogQueue) -> Self {
        let clock = Arc::new(SystemClock);
        let readiness = Arc::new(Readiness::new(clock.clone()));
        let disk = Arc::new(DiskGuard::default());
        let watch = Arc::new(Watch {
            readiness: readiness.clone(),
            data: data.to_path_buf(),
            // A shared store uses its own disks.
            reserve_bytes: match settings.engine.is_local() {
                true => u64::from(settings.options.bounds.disk_reserve_mib) * MIB,
                false => 0,
            },
            disk: disk.clone(),
            engine: OnceLock::new(),
            https: OnceLock::new(),
        });
        let metrics = Arc::new(Metrics::default());
        metrics.add(Arc::new(BuildInfo { engine: settings.engine.clone() }));
        metrics.add(readiness.clone());
        metrics.add(disk.clone());
        metrics.add(Arc::new(LogMeter(log)));
        metrics.add(watch.clone());
        metrics.add(Arc::new(ProcessMeter { started: clock.now() }));
        Self { readiness, metrics, watch, disk }
    }

    pub(crate) fn readiness(&self) -> Arc<Readiness> {
        self.readiness.clone()
    }

    /// Whether writes are refused because the disk is full.
    pub(crate) fn disk(&self) -> Arc<DiskGuard> {
        self.disk.clone()
    }

    /// Adds metrics that are counted elsewhere.
    pub(crate) fn add_sources(&self, sources: Vec<Arc<dyn Source>>) {
        for source in sources {
            self.metrics.add(source);
        }
    }

    /// Marks the server as accepting requests.
    pub(crate) fn started(&self) {
        self.watch.look_at_disk();
        self.readiness.set(Reason::Starting, None);
    }

    /// Logs a status dump at each signal.
    pub(crate) async fn log_status_at_each(self, mut signal: Signal, began: Instant) {
        while signal.recv().await.is_some() {
            tracing::info!(
                uptime_s = began.elapsed().as_secs(),
                ready = self.readiness.is_ready(),
                reasons = ?self.readiness,
                metrics = self.metrics.summary(),
                "status"
            );
        }
    }

    /// From now on the server is ready only while the engine is healthy.
    pub(crate) fn watch_engine(&self, engine: Arc<dyn Engine>) {
        // There is one engine for the life of the process.
        let _ = self.watch.engine.set(engine);
    }

    /// Starts serving on `bound`.
    fn start(
        &self,
        bound: BoundAdmin,
        settings: &Settings,
        tls: Option<&Arc<Tls>>,
    ) -> Result<Admin> {
        let names = &settings.options.admin_name;
        let (readiness, metrics) = (self.readiness.clone(), self.metrics.clone());
        bound.start(names, tls.cloned(), readiness, metrics, self.watch.clone().run())
    }
}

/// The admin listener during start-up: it serves health while the store opens, unless it needs a
/// certificate that must be generated and stored with the data.
pub(crate) struct AdminPort {
    waiting: Option<BoundAdmin>,
    running: Option<Admin>,
    is_https: bool,
    tokens: Option<Arc<Tokens>>,
}

impl AdminPort {
    /// Binds the port, and starts serving, with HTTPS only if there is a certificate already.
    pub(crate) async fn open(
        operator: &Operator,
        settings: &Settings,
        kept: Option<&Arc<Tls>>,
    ) -> Result<Self> {
        let bound = admin::bind(settings).await?;
        let is_https = bound.as_ref().is_some_and(|bound| bound.https);
        let tokens = bound.as_ref().and_then(BoundAdmin::tokens);
        let mut port = Self { waiting: bound, running: None, is_https, tokens };
        match port.waiting.take() {
            Some(bound) if is_https && kept.is_none() => port.waiting = Some(bound),
            Some(bound) => port.running = Some(operator.start(bound, settings, kept)?),
            // The disk must be watched without a listener too.
            None => drop(tokio::spawn(operator.watch.clone().run())),
        }
        Ok(port)
    }

    /// Reads the tokens, and starts serving if that waited for the certificate.
    pub(crate) fn store_is_open(
        &mut self,
        operator: &Operator,
        settings: &Settings,
        data: &Path,
        tls: Option<&Arc<Tls>>,
    ) -> Result<()> {
        if let Some(tls) = tls {
            let services = settings.options.services.iter().map(|name| name.as_str());
            let listeners = services.chain(self.is_https.then_some("admin")).collect();
            // A reload replaces the certificate inside `Tls`, never `Tls` itself.
            let _ = operator.watch.https.set(Https { tls: tls.clone(), listeners });
        }
        if let Some(tokens) = &self.tokens {
            tokens.replace(admin::load_tokens(settings, data)?);
        }
        if let Some(bound) = self.waiting.take() {
            self.running = Some(operator.start(bound, settings, tls)?);
        }
        Ok(())
    }

    /// The tokens for `/metrics`; `None` on loopback, which needs no token.
    pub(crate) fn tokens(&self) -> Option<Arc<Tokens>> {
        self.tokens.clone()
    }

    /// The address, and whether it uses HTTPS.
    pub(crate) fn address(&self) -> Option<(SocketAddr, bool)> {
        self.running.as_ref().map(|admin| (admin.address(), self.is_https))
    }
}

/// Counts dropped log lines.
struct LogMeter(LogQueue);

impl Source for LogMeter {
    fn report(&self) -> Vec<Family> {
        let dropped = Value::Counter(self.0.lines_dropped() as f64);
        let help = "Log lines that were dropped";
        vec![Family::of("lazuli_log_lines_dropped", help, &dropped)]
    }
}

/// The version of this program.
struct BuildInfo {
    engine: EngineChoice,
}

impl Source for BuildInfo {
    fn report(&self) -> Vec<Family> {
        let labels = vec![
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("revision", REVISION.into()),
            ("engine", self.engine.name().into()),
            ("data_format", self.engine.format().to_string().into()),
        ];
        let help = "The program and the format of its data";
        vec![Family::new("lazuli_build_info", help).with(labels, &Value::Gauge(1.0))]
    }
}
