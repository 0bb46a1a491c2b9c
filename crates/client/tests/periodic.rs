//! High-volume delete (P-8): a table for each period.

#![expect(clippy::unwrap_used, reason = "tests may")]

use lazuli_client::patterns::periodic::{Period, Periodic, Timed};
use lazuli_client::prelude::*;
use lazuli_test::crash::{self, TestClient, chosen_seeds};
use lazuli_test::{Fault, FaultyServer, Match, Seeded, TestClock, TestServer, When, model};
use std::collections::BTreeSet;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
/// Seeds that a run without `LAZULI_SEEDS` tries; the full test has 1,000.
const SEEDS: u64 = 10;

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(partition = "{user}", row = "{at:ticks}_{id:08}")]
struct Login {
    user: String,
    at: Timestamp,
    id: u32,
}

impl Timed for Login {
    fn time(&self) -> Timestamp {
        self.at
    }
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn login(user: &str, at: &str, id: u32) -> Login {
    Login { user: user.into(), at: time(at), id }
}

fn logins(account: &Account) -> Periodic<Login> {
    account.tables().periodic("Logins", Period::Day).unwrap().keep(60 * DAY)
}

/// A server with this time on its clock.
async fn server_at(now: &str) -> FaultyServer {
    let clock = TestClock::at(time(now));
    TestServer::builder().clock(clock).start_with_faults().await.unwrap()
}

/// The names of the 90 days from 2014-05-25 on.
fn ninety_days() -> Vec<String> {
    let names = (0..90).map(|day| {
        let at = time("2014-05-25T00:00:00Z").plus_seconds(day * 86_400).to_string();
        format!("Logins{}{}{}", &at[0..4], &at[5..7], &at[8..10])
    });
    names.collect()
}

#[tokio::test]
async fn sixty_days_are_kept() {
    // PS-8.1, PS-8.2, P-8.3, P-8.6.
    let server = server_at("2014-08-22T12:00:00Z").await;
    let tables = server.direct().tables();
    let days = ninety_days();
    assert_eq!((&*days[28], &*days[89]), ("Logins20140622", "Logins20140822"));
    // 1,000 logins each in the full test, a fifth of them by another user.
    let each: u32 = if chosen_seeds(SEEDS).end >= 1000 { 1000 } else { 150 };
    for name in &days {
        let table = tables.create(name).await.unwrap();
        let logins = (0..each)
            .map(|row| Entity::new(if row % 5 == 0 { "b" } else { "a" }, format!("{row:04}")));
        let report = table.bulk().insert(lazuli_client::iter(logins)).await.unwrap();
        assert_eq!(report.into_result().unwrap(), u64::from(each));
    }
    let foreign = ["Logins", "LoginsArchive", "Logins20141399", "Logins2014082"];
    for name in foreign {
        tables.create(name).await.unwrap();
    }
    tables.create("Logint20140601").await.unwrap();
    tables.create("Logins2014060100").await.unwrap();
    let logins = logins(&server.account());
    let cost = logins.explain_expiry().await.unwrap();
    let transactions = u64::from((each * 4 / 5).div_ceil(100) + (each / 5).div_ceil(100));
    assert_eq!(cost.tables, days[..29]);
    assert_eq!((cost.entities, cost.transactions), (29 * u64::from(each), 29 * transactions));

    server.faults().take();
    let gone = logins.expire().await.unwrap();
    assert_eq!(gone, days[..29]);
    let exchanges = server.faults().take();
    assert_eq!(exchanges.len(), 30, "a list, and one request a table");
    let query = exchanges[0].query.replace("%20", " ").replace("%27", "'");
    assert!(query.contains("TableName ge 'Logins' and TableName lt 'Logint'"), "{query}");
    assert!(logins.expire().await.unwrap().is_empty());
    let left = tables.list().await.unwrap();
    assert_eq!(left.len(), 61 + 6);
    assert!(days[29..].iter().all(|day| left.contains(day)), "{left:?}");
    assert!(foreign.iter().all(|name| left.iter().any(|left| left == name)));
}

#[tokio::test]
async fn a_period_expires_with_its_end() {
    // P-8.2: at midnight, sixty days after its end.
    let server = server_at("2014-08-21T23:59:50Z").await;
    let tables = server.direct().tables();
    for name in ["Logins20140622", "Logins20140623"] {
        tables.create(name).await.unwrap();
    }
    let logins = logins(&server.account());
    assert!(logins.expired_tables().await.unwrap().is_empty());
    server.clock().unwrap().advance(Duration::from_secs(10));
    assert_eq!(logins.expire().await.unwrap(), ["Logins20140622"]);
}

#[tokio::test]
async fn the_time_of_an_entity_says_its_table() {
    // PS-8.3, PS-8.4, P-8.1.
    let server = server_at("2014-08-22T12:00:00Z").await;
    let logins = logins(&server.account());
    logins.insert(&login("u", "2014-08-21T23:59:59.9999999Z", 1)).await.unwrap();
    logins.insert(&login("u", "2014-08-22T00:00:00Z", 2)).await.unwrap();
    let names = server.direct().tables().list().await.unwrap();
    assert_eq!(names, ["Logins20140821", "Logins20140822"]);
    // The first insert of a day creates its table; the others are one request.
    server.faults().take();
    logins.insert(&login("u", "2014-08-22T00:00:00Z", 3)).await.unwrap();
    assert_eq!(server.faults().take().len(), 1);
    logins.upsert(&login("u", "2014-08-20T00:00:00Z", 4)).await.unwrap();
    assert_eq!(server.faults().take().len(), 3, "not found, create, write");

    let late = logins.insert(&login("u", "2014-06-22T23:59:59Z", 5)).await.unwrap_err();
    let expired = ErrorKind::PeriodExpired { table: "Logins20140622".into() };
    assert_eq!(*late.kind(), expired);
    let range = time("2014-06-22T23:59:59Z")..time("2014-08-22T00:00:00Z");
    let read = logins.query(Login::range("u"), range).collect_at_most(9).await.unwrap_err();
    assert_eq!(*read.kind(), expired);
    assert_eq!(server.faults().take().len(), 0, "nothing was sent");

    logins.ensure_next().await.unwrap();
    assert!(server.direct().tables().exists("Logins20140823").await.unwrap());
}

#[tokio::test]
async fn a_table_that_expires_during_a_write_is_not_created() {
    // P-8.4: the retention is over when the answer arrives.
    let server = server_at("2014-08-21T23:59:55Z").await;
    let logins = logins(&server.account());
    server.faults().add(Match::any(), When::First(1), Fault::Delay(Duration::from_secs(10)));
    let late = logins.insert(&login("u", "2014-06-22T12:00:00Z", 1)).await.unwrap_err();
    assert!(matches!(late.kind(), ErrorKind::PeriodExpired { .. }), "{late}");
    assert!(server.direct().tables().list().await.unwrap().is_empty());
}

#[tokio::test]
async fn bases_that_could_be_taken_for_others_are_refused() {
    // PS-8.7.
    let server = server_at("2014-08-22T12:00:00Z").await;
    let tables = server.account().tables();
    for base in ["Logins20", "Logins2", "", "1ogins", "Log-ins", &"x".repeat(54)] {
        assert!(tables.periodic::<Login>(base, Period::Day).is_err(), "{base}");
    }
    // `Logs20` by day would have had a table `Logs2020120503`: an hour of `Logs`.
    let hours = tables.periodic::<Login>("Logs", Period::Hour).unwrap();
    assert_eq!(hours.name_at(time("2020-12-05T03:00:00Z")), "Logs2020120503");
    assert!(tables.periodic::<Login>(&"x".repeat(53), Period::Hour).is_ok());
    assert!(logins(&server.account()).keep(DAY).expire().await.unwrap().is_empty());
    let kept = tables.periodic::<Login>("Logins", Period::Day).unwrap();
    assert!(kept.expire().await.is_err(), "nothing said how long");
}

#[tokio::test]
async fn a_query_reads_several_tables_as_one() {
    // PS-8.5, P-8.5.
    let server = server_at("2014-08-22T12:00:00Z").await;
    let logins = logins(&server.account());
    for (at, id) in [
        ("2014-08-20T10:00:00Z", 1),
        ("2014-08-20T12:00:00Z", 2),
        ("2014-08-22T00:00:00Z", 3),
        ("2014-08-22T11:00:00Z", 4),
        ("2014-08-22T12:00:00Z", 5),
    ] {
        for user in ["a", "b"] {
            logins.insert(&login(user, at, id)).await.unwrap();
        }
    }
    let times = || time("2014-08-20T12:00:00Z")..time("2014-08-22T12:00:00Z");
    server.faults().take();
    let found = logins.query(Login::range("b"), times()).collect_at_most(9).await.unwrap();
    assert_eq!(server.faults().take().len(), 3, "one of which does not exist");
    assert_eq!(found.iter().map(|login| login.id).collect::<Vec<_>>(), [2, 3, 4]);
    let newest = logins.query(Login::range("b"), times()).newest_first();
    let mut newest = newest.stream();
    assert_eq!(newest.try_next().await.unwrap().unwrap().id, 3);
    assert_eq!(server.faults().take().len(), 1, "older tables are not opened");
    let oldest = logins.query(Login::range("b"), times()).oldest_first();
    let oldest = oldest.collect_at_most(9).await.unwrap();
    assert_eq!(oldest.iter().map(|login| login.id).collect::<Vec<_>>(), [2, 3, 4]);
    // Across two partitions, by key and not by time.
    let both = logins.query(partition("a").or(partition("b")), times());
    let both = both.collect_at_most(9).await.unwrap();
    let both: Vec<_> = both.iter().map(|login| (&*login.user, login.id)).collect();
    assert_eq!(both, [("a", 2), ("a", 3), ("a", 4), ("b", 2), ("b", 3), ("b", 4)]);
    // 401 days.
    let many = time("2014-06-23T00:00:00Z")..time("2015-07-29T00:00:00Z");
    let error = logins.query(Login::range("b"), many).collect_at_most(9).await.unwrap_err();
    assert!(error.to_string().contains("401"), "{error}");
    assert!(logins.query(Login::range("b"), times()).collect_at_most(2).await.is_err());
}

/// A login this many days ago.
fn before(client: &TestClient, days: u64, id: u32) -> Login {
    let now = client.clock.now().unix_seconds();
    let at = Timestamp::from_unix_seconds(now - days * 86_400);
    Login { user: "u".into(), at, id }
}

/// Ten days that are kept, ten that are expired, and a foreign table.
async fn setup(client: &TestClient) {
    let logins = logins(client);
    for day in (2..12).chain(63..73) {
        let name = logins.name_at(before(client, day, 0).at);
        client.tables().create(&name).await.unwrap();
    }
    client.tables().create("LoginsArchive").await.unwrap();
}

async fn check(client: &TestClient) {
    let left = client.tables().list().await.unwrap();
    assert_eq!(left.len(), 11, "{left:?}");
    let oldest = logins(client).name_at(before(client, 12, 0).at);
    assert!(left.iter().all(|name| *name >= oldest));
}

#[tokio::test]
async fn an_expiry_that_dies_is_run_again() {
    // PS-8.6, P-0.7.
    let requests = crash::every_point(
        setup,
        async |client, ()| logins(client).expire().await.unwrap().len(),
        async |client, ()| {
            logins(client).expire().await.unwrap();
        },
        async |client, (), outcome| {
            assert!(outcome.is_none_or(|count| count == 10));
            check(client).await;
        },
    );
    assert_eq!(requests.await.unwrap(), 11);
}

#[tokio::test]
async fn three_expire_at_once_while_others_write() {
    crash::seeds(
        chosen_seeds(SEEDS),
        setup,
        async |client, (), writer| {
            let logins = logins(client);
            for round in 0..3 {
                let id = writer.number as u32 * 10 + round;
                // Late inserts are refused, so no table is created again.
                let late = logins.insert(&before(client, 65, id)).await.unwrap_err();
                assert!(matches!(late.kind(), ErrorKind::PeriodExpired { .. }), "{late}");
                let _ = logins.insert(&before(client, 5, id)).await;
                let _ = logins.expire().await;
            }
        },
        async |client, ()| {
            logins(client).expire().await.unwrap();
        },
        async |client, (), _| check(client).await,
    )
    .await
    .unwrap();
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u64, u32),
    Query(u64, u64),
}

#[tokio::test]
async fn random_operations_do_what_one_table_does() {
    // P-0.8: by the month, with times from June to September.
    let start = time("2014-06-01T00:00:00Z");
    let at = move |hour: u64| start.plus_seconds(hour * 3600);
    let choose = |random: &mut Seeded| {
        let hour = |random: &mut Seeded| random.below(24 * 120) as u64;
        match random.below(3) {
            0 => Operation::Query(hour(random), hour(random)),
            _ => Operation::Insert(hour(random), random.below(3) as u32),
        }
    };
    let real = async |logins: &Periodic<Login>, operation: &Operation| match operation {
        Operation::Insert(hour, id) => {
            let login = Login { user: "u".into(), at: at(*hour), id: *id };
            (logins.insert(&login).await.is_ok(), Vec::new())
        }
        Operation::Query(from, to) => {
            let query = logins.query(Login::range("u"), at(*from)..at(*to));
            let found = query.collect_at_most(1000).await.unwrap();
            (true, found.iter().map(|login| (login.at, login.id)).collect())
        }
    };
    let plain = |rows: &mut BTreeSet<(Timestamp, u32)>, operation: &Operation| match operation {
        Operation::Insert(hour, id) => (rows.insert((at(*hour), *id)), Vec::new()),
        Operation::Query(from, to) => {
            let is_in = |row: &&(Timestamp, u32)| row.0 >= at(*from) && row.0 < at(*to);
            (true, rows.iter().filter(is_in).copied().collect())
        }
    };
    let setup = async |client: &TestClient| {
        client.tables().periodic::<Login>("Logins", Period::Month).unwrap()
    };
    model::compare(chosen_seeds(SEEDS), 40, choose, setup, real, plain).await.unwrap();
}
