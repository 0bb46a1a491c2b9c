//! Checks disk, engine and certificate every second, and updates the server's readiness.

use crate::options::MIB;
use lazuli_admin::{Readiness, Reason};
use lazuli_engine::{Engine, Writers};
use lazuli_meter::{Family, Source, Value};
use lazuli_model::{Clock, SystemClock, Timestamp};
use lazuli_server::{DiskGuard, Tls};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The pause between two checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// An engine that takes longer to answer counts as unreachable.
const ENGINE_PATIENCE: Duration = Duration::from_secs(5);

/// What is checked.
pub(crate) struct Watch {
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) data: PathBuf,
    /// Free space below which writes are refused.
    pub(crate) reserve_bytes: u64,
    pub(crate) disk: Arc<DiskGuard>,
    /// Set once the engine is open.
    pub(crate) engine: OnceLock<Arc<dyn Engine>>,
    /// Set once the certificate is loaded, if HTTPS is on.
    pub(crate) https: OnceLock<Https>,
}

/// The certificate, and the listeners that use it.
pub(crate) struct Https {
    pub(crate) tls: Arc<Tls>,
    pub(crate) listeners: Vec<&'static str>,
}

impl Https {
    fn not_after(&self) -> Option<Timestamp> {
        self.tls.not_after()
    }
}

impl Watch {
    pub(crate) async fn run(self: Arc<Self>) {
        let disk = async {
            loop {
                let watch = self.clone();
                let _ = tokio::task::spawn_blocking(move || watch.look_at_disk()).await;
                tokio::time::sleep(INTERVAL).await;
            }
        };
        self.run_beside(disk).await;
    }

    /// Runs the other checks alongside `disk`. A call to a hanging disk does not return, and must not stop them.
    async fn run_beside(&self, disk: impl Future<Output = ()>) {
        let rest = async {
            loop {
                self.look_at_engine().await;
                self.look_at_certificate();
                tokio::time::sleep(INTERVAL).await;
            }
        };
        tokio::join!(disk, rest);
    }

    /// Compares the free space with the reserve. If the free space is unknown, nothing is refused.
    pub(crate) fn look_at_disk(&self) {
        let Some(free) = free_bytes(&self.data) else { return };
        self.disk.note(free, self.reserve_bytes);
        let (free, reserve) = (free / MIB, self.reserve_bytes / MIB);
        let detail = format!("{free} MiB are free; writes are refused below {reserve} MiB");
        self.readiness.set(Reason::DiskFull, self.disk.is_full().then_some(detail));
    }

    async fn look_at_engine(&self) {
        let Some(engine) = self.engine.get() else { return };
        let health = tokio::time::timeout(ENGINE_PATIENCE, engine.health()).await;
        let (refuses, unreachable) = match health {
            Ok(Ok(())) => (None, None),
            // A sole writer always reaches its store, so an error means that it refuses writes.
            Ok(Err(error)) if engine.nature().writers == Writers::Sole => {
                (Some(error.to_string()), None)
            }
            Ok(Err(error)) => (None, Some(error.to_string())),
            Err(_) => (None, Some(format!("no answer within {} s", ENGINE_PATIENCE.as_secs()))),
        };
        self.readiness.set(Reason::StoreRefusesWrites, refuses);
        self.readiness.set(Reason::EngineUnreachable, unreachable);
    }

    fn look_at_certificate(&self) {
        let end = self.https.get().and_then(Https::not_after);
        self.readiness.set(Reason::CertificateExpired, expired(end, SystemClock.now()));
    }
}

impl Source for Watch {
    fn report(&self) -> Vec<Family> {
        let family = Family::new(
            "lazuli_tls_certificate_expiry_timestamp_seconds",
            "When the certificate expires, in Unix time",
        );
        let Some(https) = self.https.get() else { return vec![family] };
        let Some(end) = https.not_after() else { return vec![family] };
        let value = Value::Gauge(end.unix_seconds() as f64);
        vec![https.listeners.iter().fold(family, |family, listener| {
            family.with(vec![("listener", (*listener).into())], &value)
        })]
    }
}

fn expired(end: Option<Timestamp>, now: Timestamp) -> Option<String> {
    let end = end.filter(|end| *end <= now)?;
    let mut buffer = [0; Timestamp::TEXT_BYTES_MAX];
    Some(format!("the certificate expired at {}", end.text(&mut buffer)))
}

/// Free space for this user on the file system of `path`, or of its nearest existing ancestor.
fn free_bytes(path: &Path) -> Option<u64> {
    let found = path.ancestors().find_map(|path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        rustix::fs::statvfs(path).ok()
    })?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_admin::{Admin, AdminOptions};
    use lazuli_engine::{
        BoxFuture, Commit, EngineError, Key, MemoryEngine, MemoryOptions, Revision, Write,
    };
    use lazuli_engine_local::{Faults, LocalOptions, ReopeningEngine};
    use lazuli_testkit::http::get;
    use lazuli_testkit::layer::{Layer, Layered};
    use std::future::{pending, poll_fn};
    use std::io;
    use std::net::TcpListener;
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Poll;

    fn watch(data: &Path, reserve_bytes: u64) -> Watch {
        let readiness = Arc::new(Readiness::new(Arc::new(SystemClock)));
        readiness.set(Reason::Starting, None);
        let (disk, engine, https) = Default::default();
        Watch { readiness, data: data.to_path_buf(), reserve_bytes, disk, engine, https }
    }

    #[test]
    fn a_disk_below_the_reserve_is_not_ready() {
        let data = tempfile::tempdir().unwrap();
        let full = watch(data.path(), u64::MAX);
        full.look_at_disk();
        assert!(full.disk.is_full() && !full.readiness.is_ready());
        let roomy = watch(&data.path().join("not/there/yet"), 1);
        roomy.look_at_disk();
        assert!(!roomy.disk.is_full() && roomy.readiness.is_ready());
    }

    /// A listener's answer to `GET /readyz`.
    fn readyz(watch: &Watch) -> (u16, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = AdminOptions {
            names: Vec::new(),
            tls: None,
            tokens: None,
            readiness: watch.readiness.clone(),
            metrics: Arc::default(),
        };
        let admin = Admin::start(listener, options, pending()).unwrap();
        get(admin.address(), "/readyz", "").unwrap()
    }

    /// A listener's answer after a check of a closed engine.
    async fn look_at_closed(writers: Writers) -> (u16, String) {
        let data = tempfile::tempdir().unwrap();
        let engine =
            Arc::new(MemoryEngine::new(MemoryOptions { writers, ..MemoryOptions::default() }));
        let watch = watch(data.path(), 0);
        assert!(watch.engine.set(engine.clone()).is_ok());
        watch.look_at_engine().await;
        assert_eq!(readyz(&watch).0, 200);
        engine.close().await.unwrap();
        watch.look_at_engine().await;
        readyz(&watch)
    }

    /// O-2.2.
    #[tokio::test]
    async fn an_engine_that_refuses_is_not_ready() {
        for (writers, code) in [
            (Writers::Sole, r#""code":"store-refuses-writes""#),
            (Writers::Many, r#""code":"engine-unreachable""#),
        ] {
            let (status, answer) = look_at_closed(writers).await;
            assert_eq!(status, 503);
            assert!(answer.contains(code) && answer.matches("code").count() == 1, "{answer}");
        }
    }

    /// Fails writes while it is set.
    #[derive(Debug, Default)]
    struct Broken(AtomicBool);

    impl Faults for Broken {
        fn before_write(&self) -> io::Result<()> {
            match self.0.load(Ordering::SeqCst) {
                true => Err(io::Error::other("broken")),
                false => Ok(()),
            }
        }
    }

    /// O-2.2: from the failed write until the store is open again.
    #[tokio::test]
    async fn a_local_store_that_refuses_writes_is_not_ready() {
        let data = tempfile::tempdir().unwrap();
        let faults = Arc::new(Broken::default());
        let options = LocalOptions { faults: Some(faults.clone()), ..LocalOptions::default() };
        let engine = Arc::new(ReopeningEngine::open(data.path(), options).unwrap());
        let watch = watch(data.path(), 0);
        assert!(watch.engine.set(engine.clone()).is_ok());
        watch.look_at_engine().await;
        assert_eq!(readyz(&watch).0, 200);
        faults.0.store(true, Ordering::SeqCst);
        let write = || {
            let put = Write::Put(Key::from(b"Lk".to_vec()), "value".into());
            engine.commit(Commit::new(Revision(0), vec![put]))
        };
        write().await.unwrap_err();
        watch.look_at_engine().await;
        let (status, answer) = readyz(&watch);
        assert_eq!(status, 503);
        assert!(answer.contains(r#""code":"store-refuses-writes""#), "{answer}");
        faults.0.store(false, Ordering::SeqCst);
        while write().await.is_err() {
            tokio::task::yield_now().await;
        }
        watch.look_at_engine().await;
        assert_eq!(readyz(&watch).0, 200);
    }

    /// An engine that never reports its health.
    struct Silent(MemoryEngine);

    impl Layer for Silent {
        fn below(&self) -> &dyn Engine {
            &self.0
        }

        fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
            Box::pin(pending())
        }
    }

    /// O-2.2.
    #[tokio::test(start_paused = true)]
    async fn an_engine_that_does_not_answer_is_not_ready() {
        let data = tempfile::tempdir().unwrap();
        let watch = watch(data.path(), 0);
        assert!(watch.engine.set(Arc::new(Layered::new(Silent(MemoryEngine::default())))).is_ok());
        watch.look_at_engine().await;
        let (status, answer) = readyz(&watch);
        assert_eq!(status, 503);
        assert!(answer.contains(r#""code":"engine-unreachable""#), "{answer}");
        assert!(answer.contains("no answer within 5 s"), "{answer}");
    }

    #[tokio::test]
    async fn a_hanging_disk_does_not_hide_the_engine() {
        let data = tempfile::tempdir().unwrap();
        let watch = watch(data.path(), 0);
        let engine = Arc::new(MemoryEngine::default());
        engine.close().await.unwrap();
        assert!(watch.engine.set(engine).is_ok());
        let mut run = pin!(watch.run_beside(pending()));
        let is_running = poll_fn(|task| Poll::Ready(run.as_mut().poll(task).is_pending())).await;
        assert!(is_running);
        assert_eq!(format!("{:?}", watch.readiness), "{StoreRefusesWrites}");
    }

    #[test]
    fn a_certificate_expires_at_its_end() {
        let end = Timestamp::from_unix_seconds(100);
        assert_eq!(expired(Some(end), Timestamp::from_unix_seconds(99)), None);
        assert_eq!(expired(None, end), None);
        let expect = "the certificate expired at 1970-01-01T00:01:40Z";
        assert_eq!(expired(Some(end), end).as_deref(), Some(expect));
    }
}
