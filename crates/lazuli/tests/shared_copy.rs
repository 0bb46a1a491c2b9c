//! Copies between a data directory and a store that gateways share, the status of gateways, and newer formats: on
//! a real PostgreSQL, and on the stand-in of a TiKV cluster (O-12, K-12).

#![cfg(all(feature = "postgres", feature = "tikv"))]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests may")]

use lazuli_engine::{Commit, Engine, Key, Revision, Write};
use lazuli_engine_tikv::{TikvEngine, TikvOptions};
use lazuli_testkit::http::Request;
use lazuli_testkit::server::Server;
use lazuli_testkit::stores::TestPace;
use lazuli_testkit::stores::postgres::{self as database, is_installed};
use lazuli_testkit::stores::tikv::StandIn;
use lazuli_testkit::wire_cut::{Weather, WireCut};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_lazuli");
const ENTITIES: usize = 1_500;

/// A store that gateways share.
enum Shared {
    Postgres(database::Server),
    Tikv(StandIn),
}

/// What is not installed: nothing is tested then, which is reported, and is a failure in CI.
fn skip(missing: &str) -> Option<Shared> {
    assert!(std::env::var_os("CI").is_none(), "{missing} is not installed");
    eprintln!("skipped: {missing} is not installed");
    None
}

fn postgres() -> Option<Shared> {
    match is_installed() {
        true => Some(Shared::Postgres(database::Server::start(""))),
        false => skip("PostgreSQL"),
    }
}

fn tikv() -> Option<Shared> {
    match lazuli_testkit::stores::tikv::is_installed() {
        true => Some(Shared::Tikv(StandIn::start())),
        false => skip("Go"),
    }
}

impl Shared {
    fn address(&self) -> String {
        match self {
            Self::Postgres(database) => database.address(),
            Self::Tikv(cluster) => cluster.engine(),
        }
    }

    /// What a newer version would write.
    fn write_format(&self, format: &str) {
        match self {
            Self::Postgres(database) => {
                let update =
                    format!("update lazuli_meta set value = '{format}' where name = 'format'");
                database.instance.query(&update).unwrap();
            }
            Self::Tikv(cluster) => {
                let record = Write::Put(format_key(), format.to_owned().into());
                let commit = Commit::new(Revision(0), vec![record]);
                run(async { engine_on(cluster).commit(commit).await.unwrap() });
            }
        }
    }

    /// Whether it was never written to.
    fn is_empty(&self) -> bool {
        match self {
            Self::Postgres(database) => {
                let tables = "select count(*) from pg_class where relname like 'lazuli%'";
                database.instance.query(tables).unwrap().trim() == "0"
            }
            Self::Tikv(cluster) => {
                run(async { engine_on(cluster).read(&[format_key()]).await.unwrap() })
                    .into_iter()
                    .all(|found| found.is_none())
            }
        }
    }

    /// As if everything had been written that much earlier.
    fn let_time_pass(&self, time: Duration) {
        match self {
            Self::Postgres(database) => {
                let ticks = time.as_secs() * 10_000_000;
                let earlier = format!("update lazuli_kv set r = r - {ticks}");
                database.instance.sql(&earlier).unwrap();
            }
            Self::Tikv(cluster) => {
                cluster.control(&format!("forward {}", time.as_millis()));
            }
        }
    }

    fn format(&self) -> String {
        match self {
            Self::Postgres(database) => {
                let format = "select value from lazuli_meta where name = 'format'";
                database.instance.query(format).unwrap().trim().to_owned()
            }
            Self::Tikv(cluster) => {
                let found = run(async { engine_on(cluster).read(&[format_key()]).await.unwrap() });
                let found = found.into_iter().flatten().next().unwrap();
                String::from_utf8(found.value.to_vec()).unwrap()
            }
        }
    }
}

fn format_key() -> Key {
    Key::from(b"L\0format".to_vec())
}

fn engine_on(cluster: &StandIn) -> TikvEngine {
    let pace = Arc::new(TestPace::default());
    TikvEngine::new(&TikvOptions::new(cluster.engine().parse().unwrap(), pace)).unwrap()
}

fn run<T>(action: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(action)
}

fn lazuli(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn gateway(address: &str) -> Server {
    Server::start_gateway(Command::new(BINARY), address, &[]).unwrap()
}

fn fill(server: &Server) {
    let mut connection = server.connect().unwrap();
    let table = Request::new("POST", "/Tables").json("{\"TableName\":\"Orders\"}");
    assert_eq!(connection.send(&table).unwrap().status, 201);
    for first in (0..ENTITIES).step_by(100) {
        let put = |row: usize| lazuli_testkit::http::Operation {
            method: "PUT",
            path: format!("/Orders(PartitionKey='p',RowKey='{row:05}')"),
            headers: Vec::new(),
            body: format!("{{\"n\":{row}}}"),
        };
        let rows: Vec<_> = (first..first + 100).map(put).collect();
        assert_eq!(connection.send_batch(&rows).unwrap().status, 202);
    }
}

/// Rows of a page, without their timestamps.
fn page(server: &Server) -> String {
    let headers = [("Accept", "application/json;odata=nometadata")];
    let path = "/Orders()?$select=RowKey,n";
    let mut connection = server.connect().unwrap();
    let page = connection.send(&Request::new("GET", path).headers(&headers)).unwrap();
    assert_eq!(page.status, 200);
    page.text()
}

fn copy_to_the_store_and_back(store: &Shared) {
    let address = store.address();
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let server = Server::start(Path::new(BINARY), &from, &[]).unwrap();
    fill(&server);
    let expected = page(&server);
    assert!(server.terminate().unwrap().success());

    let copied = lazuli(&["copy", "--from", from.to_str().unwrap(), "--to", &address]);
    assert_eq!(copied.status.code(), Some(0), "{}", said(&copied));
    let server = gateway(&address);
    assert_eq!(page(&server), expected);
    // The gateway's own records in the store are not copied.
    let copied = lazuli(&["copy", "--from", &address, "--to", to.to_str().unwrap(), "--json"]);
    assert_eq!(copied.status.code(), Some(0), "{}", said(&copied));
    assert!(said(&copied).contains("\"extra\":0"), "{}", said(&copied));
    assert!(server.terminate().unwrap().success());
    let server = Server::start(Path::new(BINARY), &to, &[]).unwrap();
    assert_eq!(page(&server), expected);

    let full = lazuli(&["copy", "--from", from.to_str().unwrap(), "--to", &address]);
    assert_eq!(full.status.code(), Some(6), "{}", said(&full));
}

/// `status` and the source of a copy only read: an empty store stays empty, and is distinguished from a healthy one.
fn look_at_an_empty_store(store: &Shared) {
    let address = store.address();
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    for arguments in [
        ["status", "--engine", &address].as_slice(),
        &["copy", "--from", &address, "--to", to.to_str().unwrap()],
    ] {
        let looked = lazuli(arguments);
        assert!(!looked.status.success());
        assert!(said(&looked).contains("holds no data of lazuli"), "{}", said(&looked));
        assert!(said(&looked).contains("hint:"), "{}", said(&looked));
    }
    assert!(!to.exists(), "nothing was created");
    assert!(store.is_empty());
}

/// All gateways were killed: the newest of their records is old by the store's clock, and only by that.
fn killed_gateways_are_not_healthy(store: &Shared) {
    let address = store.address();
    let server = gateway(&address);
    let status = || lazuli(&["status", "--engine", &address]);
    let patience = Instant::now() + Duration::from_secs(60);
    while !said(&status()).contains("1 of 1 healthy") {
        assert!(Instant::now() < patience, "{}", said(&status()));
    }
    drop(server);
    store.let_time_pass(Duration::from_secs(100));
    let dead = status();
    assert_eq!(dead.status.code(), Some(1), "{}", said(&dead));
    assert!(said(&dead).contains("0 of 1 healthy"), "{}", said(&dead));
    assert_eq!(said(&dead).matches("SILENT for 1").count(), 2, "{}", said(&dead));
}

fn status_until_gateways_leave(store: &Shared) {
    let address = store.address();
    let status = || lazuli(&["status", "--engine", &address, "--json"]);
    let (one, other) = (gateway(&address), gateway(&address));
    // Both announce that they are well right after their start, which is after they listen.
    let patience = Instant::now() + Duration::from_secs(60);
    let mut both = status();
    while said(&both).matches("\"well\":true").count() < 2 {
        assert!(Instant::now() < patience, "{}", said(&both));
        both = status();
    }
    assert_eq!(both.status.code(), Some(0), "{}", said(&both));
    assert!(said(&both).contains(&one.address().to_string()), "{}", said(&both));
    assert!(!said(&both).contains("\"chores\":null"), "{}", said(&both));
    assert!(one.terminate().unwrap().success() && other.terminate().unwrap().success());
    let none = status();
    assert_eq!(none.status.code(), Some(1), "{}", said(&none));
    assert!(said(&none).contains("\"gateways\":[]"), "{}", said(&none));
    assert!(said(&none).contains("\"chores\":null"), "{}", said(&none));
}

/// K-10.7: an older gateway refuses a store that a newer one has changed, and says what to do.
fn refuse_a_newer_format(store: &Shared) {
    let address = store.address();
    assert!(gateway(&address).terminate().unwrap().success());
    store.write_format("999");
    for arguments in [
        ["serve", "--engine", &address, "--table-port", "0", "--queue-port", "0", "--admin", "off"]
            .as_slice(),
        &["status", "--engine", &address],
    ] {
        let refused = lazuli(arguments);
        assert!(!refused.status.success());
        assert!(said(&refused).contains("format 999"), "{}", said(&refused));
        assert!(said(&refused).contains("hint:"), "{}", said(&refused));
    }
    // The attempt has changed nothing.
    assert_eq!(store.format(), "999");
}

/// Each promise on each store.
macro_rules! on_stores {
    ($($store:ident)+) => {
        $(
            mod $store {
                #[test]
                fn copied_to_the_store_and_back_everything_is_the_same() {
                    super::$store().iter().for_each(super::copy_to_the_store_and_back);
                }

                #[test]
                fn an_empty_store_is_looked_at_and_stays_empty() {
                    super::$store().iter().for_each(super::look_at_an_empty_store);
                }

                #[test]
                fn gateways_that_were_killed_are_not_healthy() {
                    super::$store().iter().for_each(super::killed_gateways_are_not_healthy);
                }

                #[test]
                fn status_shows_gateways_until_they_leave() {
                    super::$store().iter().for_each(super::status_until_gateways_leave);
                }

                #[test]
                fn store_of_a_newer_format_is_refused() {
                    super::$store().iter().for_each(super::refuse_a_newer_format);
                }
            }
        )+
    };
}

on_stores! { postgres tikv }

/// O-12.6: a copy that is killed resumes, whenever that was: before and after its first write, in the middle,
/// and while it compares.
#[test]
fn a_copy_that_is_killed_goes_on_from_any_moment() {
    let Some(Shared::Postgres(database)) = postgres() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (from, state) = (dir.path().join("from"), dir.path().join("state"));
    let server = Server::start(Path::new(BINARY), &from, &[]).unwrap();
    fill(&server);
    assert!(server.terminate().unwrap().success());

    let address = database.address();
    let (_, rest) = address.split_once('@').unwrap();
    let (target, _) = rest.split_once('/').unwrap();
    let proxy = WireCut::before(target.parse().unwrap(), 1).unwrap();
    // Slow enough to stop at each exchange.
    proxy.set(Weather::Slow(Duration::from_millis(30)));
    let slow = address.replace(target, &proxy.address().to_string());
    let (from, state) = (from.to_str().unwrap(), state.to_str().unwrap());
    let arguments = ["copy", "--from", from, "--to", &slow, "--state", state];
    let mut moments = 0;
    while !is_killed_after(moments, &proxy, &arguments) {
        moments += 1;
    }
    // Connection, tables, the check that it is empty, two commits, the comparison.
    assert!(moments > 8, "it ended after {moments} exchanges");
}

/// Runs a copy and kills it after this many exchanges with the store. Returns whether it completed before.
fn is_killed_after(exchanges: u64, proxy: &WireCut, arguments: &[&str]) -> bool {
    let began = proxy.exchanges();
    let mut command = Command::new(BINARY);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut copy = command.spawn().unwrap();
    while copy.try_wait().unwrap().is_none() {
        if proxy.exchanges() - began > exchanges {
            copy.kill().unwrap();
        }
        std::thread::yield_now();
    }
    let ended = copy.wait_with_output().unwrap();
    // It may be killed after it has reported completion.
    let is_complete = said(&ended).contains("all the same");
    let was_killed = ended.status.code().is_none();
    assert!(is_complete || was_killed, "after {exchanges}: {}", said(&ended));
    is_complete
}
