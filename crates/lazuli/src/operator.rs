//! What an operator sees of the server: readiness, metrics, and the listener that shows them.

use crate::admin::BoundAdmin;
use crate::announce::REVISION;
use crate::config::Settings;
use crate::logging::LogQueue;
use crate::options::MIB;
use crate::watch::Watch;
use anyhow::Result;
use lazuli_admin::{Admin, Metrics, ProcessMeter, Readiness};
use lazuli_engine::Engine;
use lazuli_meter::{Family, Source, Value};
use lazuli_model::{Clock, SystemClock};
use lazuli_server::{DiskGuard, Tls};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::signal::unix::Signal;

/// What an operator sees of the server.
#[derive(Clone)]
pub(crate) struct Operator {
    pub(crate) readiness: Arc<Readiness>,
    metrics: Arc<Metrics>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) disk: Arc<DiskGuard>,
}

impl Operator {
    pub(crate) fn new(settings: &Settings, data: &Path, log: LogQueue) -> Self {
        let clock = Arc::new(SystemClock);
        let readiness = Arc::new(Readiness::new(clock.clone()));
        let disk = Arc::new(DiskGuard::default());
        let watch = Arc::new(Watch {
            readiness: readiness.clone(),
            data: data.to_path_buf(),
            reserve_bytes: u64::from(settings.options.bounds.disk_reserve_mib) * MIB,
            disk: disk.clone(),
            engine: OnceLock::new(),
            tls: OnceLock::new(),
        });
        let metrics = Arc::new(Metrics::default());
        metrics.add(Arc::new(BuildInfo));
        metrics.add(readiness.clone());
        metrics.add(disk.clone());
        metrics.add(Arc::new(LogMeter(log)));
        metrics.add(watch.clone());
        metrics.add(Arc::new(ProcessMeter { started: clock.now() }));
        Self { readiness, metrics, watch, disk }
    }

    pub(crate) fn add_sources(&self, sources: impl IntoIterator<Item = Arc<dyn Source>>) {
        for source in sources {
            self.metrics.add(source);
        }
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

    /// From now on the server is ready only while the engine is.
    pub(crate) fn watch_engine(&self, engine: Arc<dyn Engine>) {
        // There is one engine for the life of the process.
        let _ = self.watch.engine.set(engine);
    }

    /// From now on the server is ready only while the certificate is valid.
    pub(crate) fn watch_certificate(&self, tls: Arc<Tls>) {
        // It replaces its certificate, and is never replaced itself.
        let _ = self.watch.tls.set(tls);
    }

    /// Begins to answer on `bound`.
    pub(crate) fn start(
        &self,
        bound: BoundAdmin,
        settings: &Settings,
        tls: Option<Arc<Tls>>,
    ) -> Result<Admin> {
        let names = &settings.options.admin_name;
        let (readiness, metrics) = (self.readiness.clone(), self.metrics.clone());
        bound.start(names, tls, readiness, metrics, self.watch.clone().run())
    }
}

/// Lines of the log that were lost.
struct LogMeter(LogQueue);

impl Source for LogMeter {
    fn report(&self) -> Vec<Family> {
        let dropped = Value::Counter(self.0.lines_dropped() as f64);
        let help = "Lines of the log that were dropped";
        vec![Family::of("lazuli_log_lines_dropped", help, &dropped)]
    }
}

/// Which program this is.
struct BuildInfo;

impl Source for BuildInfo {
    fn report(&self) -> Vec<Family> {
        let labels = vec![
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("revision", REVISION.into()),
            ("engine", "local".into()),
            ("data_format", lazuli_engine_local::FORMAT_VERSION.to_string().into()),
        ];
        let help = "The program and the format of its data";
        vec![Family::new("lazuli_build_info", help).with(labels, &Value::Gauge(1.0))]
    }
}
