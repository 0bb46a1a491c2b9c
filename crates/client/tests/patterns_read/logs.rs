//! P-7.

use lazuli_client::patterns::log_tail::{LogEntry, LogTail};
use lazuli_client::prelude::*;
use lazuli_client::{BoxFuture, Credential, Dialect, Env, Environment, ErrorKind, Timestamp, iter};
use lazuli_model::{Clock, SystemClock};
use lazuli_test::crash::{self, TestClient, chosen_seeds};
use lazuli_test::{FaultyServer, TestServer};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(name = "EmployeeExpense", partition = "{employee}", row = "{at:rev}_{id:08}")]
struct Expense {
    employee: String,
    at: Timestamp,
    id: u32,
    amount: i32,
}

/// The same without an id in its key.
#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(name = "EmployeeExpense", partition = "{employee}", row = "{at:rev}")]
struct Bare {
    employee: String,
    at: Timestamp,
    amount: i32,
}

impl LogEntry for Expense {
    fn stamp(&mut self, at: Timestamp) {
        self.at = at;
    }
}

impl LogEntry for Bare {
    fn stamp(&mut self, at: Timestamp) {
        self.at = at;
    }
}

fn at(ticks: u64) -> Timestamp {
    Timestamp::from_ticks(Timestamp::parse("2014-08-22T00:50:32Z").unwrap().ticks() + ticks)
        .unwrap()
}

fn expense(id: u32, at: Timestamp) -> Expense {
    Expense { employee: "empid".into(), at, id, amount: id as i32 }
}

async fn server() -> (FaultyServer, Table<Expense>) {
    let server = TestServer::with_faults().await.unwrap();
    let table = server.account().tables().create("EmployeeExpense").await.unwrap().retyped();
    server.faults().take();
    (server, table)
}

#[tokio::test]
async fn the_newest_ten_are_one_request() {
    // PS-7.2.
    let (server, table) = server().await;
    let log = LogTail::new(&table);
    for id in 0..25 {
        log.append(&mut expense(id, Timestamp::MIN)).await.unwrap();
    }
    assert_eq!(server.faults().take().len(), 25, "an append is one write");
    let ten = log.latest("empid", 10).await.unwrap();
    let ids: Vec<_> = ten.iter().map(|claim| claim.id).collect();
    assert_eq!(ids, (15..25).rev().collect::<Vec<_>>());
    let sent = server.faults().take();
    assert_eq!(sent.len(), 1);
    assert!(sent.iter().all(|exchange| format!("{exchange:?}").contains("top=10")), "{sent:?}");
}

#[tokio::test]
async fn a_range_has_its_start_and_not_its_end() {
    // PS-7.3: the derived range and the log's range agree.
    let (_server, table) = server().await;
    let entries = [(0, 1), (0, 2), (1, 3), (9, 4), (10, 5), (10, 6)];
    let entries = entries.map(|(ticks, id)| expense(id, at(ticks)));
    assert_eq!(table.bulk().insert(iter(entries)).await.unwrap().into_result().unwrap(), 6);
    let ids = |rows: Vec<Loaded<Expense>>| -> Vec<u32> { rows.iter().map(|row| row.id).collect() };
    for (from, to, expect) in
        [(0, 10, vec![4, 3, 1, 2]), (1, 10, vec![4, 3]), (0, 1, vec![1, 2]), (5, 5, vec![])]
    {
        let of_log = LogTail::new(&table).between("empid", at(from)..at(to));
        assert_eq!(ids(of_log.collect_at_most(9).await.unwrap()), expect, "{from}..{to}");
        if from < to {
            let derived = table.query(Expense::range("empid").at(at(from)..at(to)));
            assert_eq!(ids(derived.collect_at_most(9).await.unwrap()), expect, "{from}..{to}");
        }
    }
}

/// A clock that stands still, as clocks do between two ticks.
struct Still(Timestamp);

impl Environment for Still {
    fn now(&self) -> Timestamp {
        self.0
    }
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
    fn random(&self) -> u64 {
        // A new GUID for every write.
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(0)
    }
    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(pause))
    }
}

#[tokio::test]
async fn entries_of_one_tick_all_have_a_row() {
    // PS-7.4, P-7.2: four processes whose clocks show one time, and keys without an id.
    let server = TestServer::start().await.unwrap();
    server.account().tables().create("EmployeeExpense").await.unwrap();
    let now = SystemClock.now();
    let builder = server.account_builder().unwrap().env(Env::new(Still(now)));
    let table = builder.build().unwrap().tables().of::<Bare>().unwrap();
    let append = async || {
        let log = LogTail::new(&table);
        for amount in 0..25 {
            let mut entry = Bare { employee: "empid".into(), at: Timestamp::MIN, amount };
            log.append(&mut entry).await.unwrap();
        }
    };
    tokio::join!(append(), append(), append(), append());
    let rows = table.query(partition("empid")).collect_at_most(1000).await.unwrap();
    assert_eq!(rows.len(), 100);
    let ticks: BTreeSet<_> = rows.iter().map(|row| row.at.ticks() - now.ticks()).collect();
    assert!(ticks.iter().all(|tick| *tick < 100), "{ticks:?}");
}

#[tokio::test]
async fn entries_have_the_time_of_the_service_and_never_go_back() {
    // P-7.3: by a clock that is an hour slow, and stands still.
    let server = TestServer::start().await.unwrap();
    server.account().tables().create("EmployeeExpense").await.unwrap();
    let hour = 36_000_000_000;
    let slow = Timestamp::from_ticks(SystemClock.now().ticks() - hour).unwrap();
    let builder = server.account_builder().unwrap().env(Env::new(Still(slow)));
    let table = builder.build().unwrap().tables().of::<Bare>().unwrap();
    let log = LogTail::new(&table).server_time().await.unwrap();
    let append = async |log: LogTail<Bare>| {
        let mut entry = Bare { employee: "empid".into(), at: Timestamp::MIN, amount: 1 };
        log.append(&mut entry).await.unwrap();
        entry.at
    };
    let (first, second) = (append(log.clone()).await, append(log).await);
    assert!(first.ticks() - slow.ticks() > hour / 2, "{first}");
    assert_eq!(second.ticks(), first.ticks() + 1);
}

#[tokio::test]
async fn heads_of_buckets_are_merged_by_time() {
    // PS-7.5.
    #[derive(TableEntity, Debug, Clone)]
    #[table(partition = "{id:bucket(16)}", row = "{at:rev}_{id:08}")]
    struct Spread {
        id: u32,
        at: Timestamp,
    }
    let (_server, table) = server().await;
    let one = LogTail::new(&table);
    let spread = table.retyped::<Spread>();
    let entries = (0..1000).map(|id| (id, at(u64::from(id) * 37 % 1000)));
    let entries: Vec<_> = entries.collect();
    let both = entries.iter().map(|(id, at)| Spread { id: *id, at: *at });
    assert_eq!(spread.bulk().insert(iter(both.collect::<Vec<_>>())).await.unwrap().written, 1000);
    let plain = entries.iter().map(|(id, at)| expense(*id, *at));
    assert_eq!(table.bulk().insert(iter(plain.collect::<Vec<_>>())).await.unwrap().written, 1000);
    let expect: Vec<_> = one.latest("empid", 10).await.unwrap().iter().map(|e| e.id).collect();
    let heads = LogTail::new(&spread).latest_of_buckets(16, 10).await.unwrap();
    assert_eq!(heads.iter().map(|e| e.id).collect::<Vec<_>>(), expect);
}

#[tokio::test]
async fn every_entry_is_followed_once() {
    // PS-7.6, P-7.4.
    let (server, table) = server().await;
    let log = LogTail::new(&table);
    log.append(&mut expense(9_999, Timestamp::MIN)).await.unwrap();
    let mut live = log.follow("empid", Duration::from_secs(2));
    live.begin().await.unwrap();
    let writer = async |number: u32| {
        // Each in its own process, with its own connections.
        let table = server.direct().tables().table_of::<Expense>("EmployeeExpense").unwrap();
        let log = LogTail::new(&table);
        for n in 0..250 {
            log.append(&mut expense(number * 250 + n, Timestamp::MIN)).await.unwrap();
        }
    };
    let reader = async {
        let mut seen = Vec::new();
        while seen.len() < 1000 {
            seen.push(live.next().await.unwrap().id);
        }
        seen
    };
    let (seen, ..) = tokio::join!(reader, writer(0), writer(1), writer(2), writer(3));
    let distinct: BTreeSet<_> = seen.iter().copied().collect();
    assert_eq!(distinct, (0..1000).collect::<BTreeSet<_>>());
    let all = log.follow("empid", Duration::ZERO).since(Timestamp::MIN).next().await.unwrap();
    assert_eq!(all.id, 9_999, "from the beginning");
}

#[tokio::test]
async fn a_service_that_does_not_sort_has_no_tail() {
    // P-7.5.
    let account = Account::builder("http://127.0.0.1:1/a").dialect(Dialect::Cosmos);
    let account = account.credential(Credential::shared_key("a", "a2V5").unwrap()).build().unwrap();
    let log = LogTail::new(&account.tables().of::<Expense>().unwrap());
    assert_eq!(*log.latest("e", 1).await.unwrap_err().kind(), ErrorKind::NotSorted);
    assert_eq!(
        *log.follow("e", Duration::ZERO).next().await.unwrap_err().kind(),
        ErrorKind::NotSorted
    );
}

#[tokio::test]
async fn a_crash_leaves_an_entry_or_none() {
    // P-0.7. Nothing to heal: an entry is one insert.
    let setup = async |client: &TestClient| {
        client.tables().create("EmployeeExpense").await.unwrap();
    };
    let tail = |client: &TestClient| LogTail::new(&client.tables().of::<Expense>().unwrap());
    let requests = crash::every_point(
        setup,
        async |client, ()| tail(client).append(&mut expense(1, Timestamp::MIN)).await.unwrap(),
        async |_, ()| {},
        async |client, (), outcome| {
            let rows = tail(client).latest("empid", 9).await.unwrap().len();
            assert!(rows <= 1 && (outcome.is_none() || rows == 1));
        },
    );
    assert_eq!(requests.await.unwrap(), 1);
    crash::seeds(
        chosen_seeds(20),
        async |client| {
            setup(client).await;
            Mutex::new(BTreeSet::new())
        },
        async |client, acknowledged: &Mutex<BTreeSet<u32>>, writer| {
            for n in 0..6 {
                let id = writer.number as u32 * 100 + n;
                if tail(client).append(&mut expense(id, Timestamp::MIN)).await.is_ok() {
                    acknowledged.lock().unwrap().insert(id);
                }
            }
        },
        async |_, _| {},
        async |client, acknowledged, _| {
            let rows = tail(client).latest("empid", 99).await.unwrap();
            let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
            let distinct: BTreeSet<_> = ids.iter().copied().collect();
            assert_eq!(distinct.len(), ids.len(), "no entry is there twice");
            assert!(acknowledged.lock().unwrap().is_subset(&distinct));
        },
    )
    .await
    .unwrap();
}
