//! A server in this process; every panic of such a server is counted.

use lazuli_engine::MemoryEngine;
use lazuli_testkit::http::Connection;
use lazuli_testkit::live::LiveServer;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

/// The name of the threads that servers run on.
const THREADS: &str = "live-server";
static PANICS: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    live: LiveServer,
}

impl Server {
    pub(crate) fn start() -> Self {
        count_panics();
        let live = LiveServer::start(Arc::new(MemoryEngine::default()), THREADS).unwrap();
        Self { address: live.address(), live }
    }

    /// A server of queues.
    pub(crate) fn start_queues() -> Self {
        count_panics();
        let live = LiveServer::start_queues(Arc::new(MemoryEngine::default()), THREADS).unwrap();
        Self { address: live.address(), live }
    }

    pub(crate) fn connect(&self) -> Connection {
        self.live.connect().unwrap()
    }

    /// Asserts that no server has panicked: a task that panics takes no other down, and would go
    /// unnoticed.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "something panicked");
    }
}

fn count_panics() {
    static COUNT_PANICS: Once = Once::new();
    COUNT_PANICS.call_once(|| {
        let print_panic = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name() == Some(THREADS) {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            print_panic(panic);
        }));
    });
}
