//! A server in this process, on a free port; every panic of such a server is counted.

use lazuli_engine::MemoryEngine;
use lazuli_model::SystemClock;
use lazuli_server::{
    Accounts, Front, FrontOptions, ListenOptions, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY,
};
use lazuli_table::TableService;
use lazuli_testkit::http::Connection;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// The name of the threads that servers run on.
const THREAD: &str = "live-server";
static PANICS: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _runtime: Runtime,
}

impl Server {
    pub(crate) fn start() -> Self {
        static COUNT_PANICS: Once = Once::new();
        COUNT_PANICS.call_once(|| {
            let told = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if std::thread::current().name() == Some(THREAD) {
                    PANICS.fetch_add(1, Ordering::SeqCst);
                }
                told(panic);
            }));
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(THREAD)
            .enable_all()
            .build()
            .unwrap();
        let clock = Arc::new(SystemClock);
        let service = TableService::new(Arc::new(MemoryEngine::default()), clock.clone());
        let accounts = Accounts::parse(&format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}")).unwrap();
        let accounts = Arc::new(Accounts::new(accounts).unwrap());
        let front = Arc::new(Front::new(service, accounts, clock, FrontOptions::default()));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let limits = ListenOptions::default();
        runtime.spawn(lazuli_server::serve(listener, front, limits, std::future::pending()));
        Self { address, _runtime: runtime }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address).unwrap()
    }

    /// No server has panicked: a task that does takes no other down with it, and would go
    /// unnoticed.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        assert_eq!(PANICS.load(Ordering::SeqCst), 0, "something panicked");
    }
}
