//! The engine below the server of a test: memory, a schema of the PostgreSQL server that the environment names,
//! or a stand-in TiKV cluster, so that the recorded traffic can be replayed on every engine (K-10.4).

use lazuli_engine::{Engine, MemoryEngine, Revision};
use lazuli_engine_postgres::{Address, PostgresEngine, PostgresOptions};
use lazuli_engine_tikv::{TikvEngine, TikvOptions};
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::stores::postgres::in_name_space;
use lazuli_testkit::stores::tikv::StandIn;
use lazuli_testkit::stores::{TestPace, name_space};
use std::cell::RefCell;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The environment variable with the address of the store, or `tikv`.
const ENGINE: &str = "LAZULI_TEST_ENGINE";

thread_local! {
    /// The clusters of this test, which end with its thread.
    static CLUSTERS: RefCell<Vec<StandIn>> = const { RefCell::new(Vec::new()) };
}

/// An empty engine, to be used in `runtime`.
pub(super) fn fresh(runtime: &Runtime) -> Arc<dyn Engine> {
    let Ok(store) = std::env::var(ENGINE) else { return Arc::new(MemoryEngine::default()) };
    if store == "tikv" {
        return Arc::new(on_tikv());
    }
    let address = Address::parse(&in_name_space(&store, &name_space())).unwrap();
    let options = PostgresOptions::new(address, Arc::new(TestPace::default()));
    let now = || Revision(SystemClock.now().ticks());
    let (engine, _) = runtime.block_on(PostgresEngine::open(options, now)).unwrap();
    Arc::new(engine)
}

fn on_tikv() -> TikvEngine {
    let cluster = StandIn::start();
    let address = cluster.engine().parse().unwrap();
    CLUSTERS.with_borrow_mut(|clusters| clusters.push(cluster));
    TikvEngine::new(&TikvOptions::new(address, Arc::new(TestPace::default()))).unwrap()
}
