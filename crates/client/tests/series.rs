//! Data series (P-9): their cost, and the effects of concurrent writers and lost answers.

#![expect(clippy::unwrap_used, reason = "tests may")]

use lazuli_client::patterns::series::{DataSeries as _, SeriesOf, SeriesPoint, SeriesTable};
use lazuli_client::prelude::*;
use lazuli_client::{DataSeries, EntityKey};
use lazuli_test::crash::{self, TestClient, chosen_seeds};
use lazuli_test::{Fault, FaultyServer, Match, Seeded, TestServer, When, model};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};

/// Seeds that a run without `LAZULI_SEEDS` tries; the full test has 1,000.
const SEEDS: u64 = 20;

#[derive(DataSeries, Debug, PartialEq)]
#[table(name = "MessageStats", partition = "{department}", row = "{employee:06}_{day:date}")]
#[series(points = 24, step = "hour", prefix = "H", value = i64)]
struct MessageCount {
    department: String,
    employee: u32,
    day: Timestamp,
}

#[derive(DataSeries)]
#[table(name = "MessageStats", partition = "{site}", row = "visits_{hour:hour}")]
#[series(points = 60, step = "minute", prefix = "M", value = i32, shards = 8)]
struct Visits {
    site: String,
    hour: Timestamp,
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn at(text: &str) -> SeriesPoint<MessageCount> {
    MessageCount::at("Sales", 123, time(text)).unwrap()
}

fn series() -> SeriesOf<MessageCount> {
    MessageCount::series("Sales", 123).unwrap()
}

fn hour(hour: usize) -> SeriesPoint<MessageCount> {
    at(&format!("2014-08-22T{hour:02}:17:00Z"))
}

fn stats(account: &Account) -> SeriesTable<MessageCount> {
    account.tables().series().unwrap()
}

async fn counted() -> (FaultyServer, SeriesTable<MessageCount>) {
    let server = TestServer::with_faults().await.unwrap();
    server.direct().tables().create("MessageStats").await.unwrap();
    let stats = stats(&server.account());
    (server, stats)
}

/// The methods of the requests since the last call.
fn methods(server: &FaultyServer) -> Vec<String> {
    server.faults().take().into_iter().map(|exchange| exchange.method.to_string()).collect()
}

#[tokio::test]
async fn a_day_is_one_row_and_one_read() {
    // PS-9.1, and its cost.
    let (server, stats) = counted().await;
    let mut random = Seeded::new(1);
    let mut hours: Vec<(u64, usize)> = (0..24).map(|hour| (random.next_u64(), hour)).collect();
    hours.sort_unstable();
    for (_, index) in hours {
        stats.set(&hour(index), index as i64 * 10).await.unwrap();
    }
    assert_eq!(methods(&server), ["PATCH"; 24]);
    let day: [Option<i64>; 24] = stats.row(&hour(3)).await.unwrap();
    assert_eq!(methods(&server), ["GET"]);
    assert_eq!(day, std::array::from_fn(|hour| Some(hour as i64 * 10)));
    let row = stats.rows().get(("Sales", "000123_20140822")).required().await.unwrap();
    assert_eq!(row.len(), 24);
    assert_eq!((row.get::<i64>("H00").unwrap(), row.get::<i64>("H23").unwrap()), (0, 230));
    // An increase: a read and a merge of one property.
    methods(&server);
    stats.add(&hour(5), 1).await.unwrap();
    assert_eq!(methods(&server), ["GET", "PATCH"]);
    assert_eq!(stats.row(&hour(5)).await.unwrap()[5], Some(51));
    let key = EntityKey::parse("Sales", "000123_20140822").unwrap();
    let parsed = MessageCount::parse(&key).unwrap();
    assert_eq!((parsed.employee, parsed.day), (123, time("2014-08-22T00:00:00Z")));
    assert_eq!(parsed.key().unwrap(), key);
}

#[tokio::test]
async fn two_clients_set_different_hours() {
    // PS-9.2, P-9.1.
    let (server, stats) = counted().await;
    let other = self::stats(&server.direct());
    for round in 0..20 {
        let (five, six) = (hour(5), hour(6));
        let (a, b) = tokio::join!(stats.set(&five, round), other.set(&six, round));
        a.unwrap();
        b.unwrap();
        let day = stats.row(&five).await.unwrap();
        assert_eq!((day[5], day[6], day[7]), (Some(round), Some(round), None));
    }
}

#[tokio::test]
async fn the_last_hours_cross_midnight() {
    // PS-9.4.
    let (server, stats) = counted().await;
    for (text, value) in [
        ("2014-08-21T13:59:59Z", 1),
        ("2014-08-21T14:00:00Z", 2),
        ("2014-08-21T23:59:59.9999999Z", 3),
        ("2014-08-22T00:00:00Z", 4),
        ("2014-08-22T13:00:00Z", 0),
        ("2014-08-22T14:00:00Z", 6),
    ] {
        stats.set(&at(text), value).await.unwrap();
    }
    methods(&server);
    let now = time("2014-08-22T13:30:00Z");
    let last = stats.last(&series(), now, 24).await.unwrap();
    assert_eq!(methods(&server), ["GET", "GET"]);
    assert_eq!(last.len(), 24);
    assert_eq!(last[0], (time("2014-08-21T14:00:00Z"), Some(2)));
    assert_eq!(last[23], (time("2014-08-22T13:00:00Z"), Some(0)), "zero is zero");
    assert!(last.is_sorted_by_key(|(time, _)| *time));
    let set: Vec<_> = last.iter().filter_map(|(_, value)| *value).collect();
    assert_eq!(set, [2, 3, 4, 0]);
    // P-9.5: any range is one query.
    methods(&server);
    let from = time("2014-08-20T12:00:00Z");
    let range = stats.range(&series(), from..time("2014-08-22T00:00:00.1Z")).await.unwrap();
    assert_eq!(methods(&server), ["GET"]);
    assert_eq!((range.len(), range[0].0), (12 + 24 + 1, from));
    let set: Vec<_> = range.iter().filter_map(|(_, value)| *value).collect();
    assert_eq!(set, [1, 2, 3, 4]);
    assert_eq!(stats.range(&series(), from..from).await.unwrap(), []);
    let too_many = stats.range(&series(), Timestamp::EDM_MIN..Timestamp::MAX).await;
    assert!(too_many.is_err());
}

#[tokio::test]
async fn shards_are_summed_by_one_query() {
    // P-9.2, P-9.3: a row of an hour has sixty minutes.
    let (server, _) = counted().await;
    let visits: SeriesTable<Visits> = server.account().tables().series().unwrap();
    let at = |text: &str| Visits::at("shop", time(text)).unwrap();
    // There are rows of other series around.
    for key in ["visits_2014082214", "visits_2014082215", "visits_201408221400"] {
        let row = Entity::new("shop", key).with("M05", 1000);
        visits.rows().insert(&row).await.unwrap();
    }
    for _ in 0..40 {
        visits.add(&at("2014-08-22T14:05:00Z"), 1).await.unwrap();
    }
    visits.add(&at("2014-08-22T13:59:00Z"), 7).await.unwrap();
    methods(&server);
    let hour = visits.row(&at("2014-08-22T14:00:00Z")).await.unwrap();
    assert_eq!(methods(&server), ["GET"]);
    assert_eq!(hour[5], Some(1040), "the row without a shard counts: it was one before");
    let rows = visits.rows().query(partition("shop")).collect_at_most(99).await.unwrap();
    assert!(rows.len() > 3 + 3, "{} rows share the increases", rows.len() - 3);
    let shop = Visits::series("shop").unwrap();
    let last = visits.last(&shop, time("2014-08-22T14:05:59Z"), 10);
    let last: Vec<_> = last.await.unwrap().into_iter().map(|(_, value)| value).collect();
    assert_eq!((last[3], last[4], last[9]), (Some(7), None, Some(1040)));
    assert!(visits.set(&at("2014-08-22T14:05:00Z"), 1).await.is_err());
}

#[tokio::test]
async fn a_sum_that_does_not_fit_is_refused() {
    let (server, stats) = counted().await;
    stats.set(&hour(1), i64::MAX).await.unwrap();
    methods(&server);
    assert!(stats.add(&hour(1), 1).await.is_err());
    assert_eq!(methods(&server), ["GET"]);
}

/// Increases that were acknowledged, and those with an unknown outcome.
#[derive(Default)]
struct Tally {
    done: AtomicI64,
    unknown: AtomicI64,
}

impl Tally {
    async fn add(&self, stats: &SeriesTable<MessageCount>) {
        let mut outcome = stats.add(&hour(5), 1).await;
        // Pauses take no time here, so other writers nearly always interfere: retry until it succeeds.
        while outcome.as_ref().is_err_and(|e| matches!(e.kind(), ErrorKind::Contended { .. })) {
            outcome = stats.add(&hour(5), 1).await;
        }
        match outcome {
            Ok(()) => self.done.fetch_add(1, Ordering::Relaxed),
            Err(error) if *error.kind() == ErrorKind::OutcomeUnknown => {
                self.unknown.fetch_add(1, Ordering::Relaxed)
            }
            Err(_) => 0,
        };
    }

    async fn check(&self, stats: &SeriesTable<MessageCount>) {
        let total = stats.row(&hour(5)).await.unwrap()[5].unwrap_or(0);
        let (done, unknown) =
            (self.done.load(Ordering::Relaxed), self.unknown.load(Ordering::Relaxed));
        assert!((done..=done + unknown).contains(&total), "{total}, {done} and {unknown}");
    }
}

/// Several tasks with some increases each, while one answer in ten is lost.
async fn race(tasks: usize, adds: usize) -> Tally {
    let (server, _) = counted().await;
    server.faults().add(Match::any(), When::OneIn(10), Fault::DropReply);
    let tally = Tally::default();
    let account = server.account();
    let runs = (0..tasks).map(|_| async {
        let stats = stats(&account);
        for _ in 0..adds {
            tally.add(&stats).await;
        }
    });
    futures_util::future::join_all(runs).await;
    tally.check(&stats(&server.direct())).await;
    tally
}

#[tokio::test]
async fn lost_replies_are_counted_once() {
    // PS-9.3. Answers are lost at once here: an increase checks before many others follow.
    // A hundred each in the full test.
    let adds = if chosen_seeds(SEEDS).end >= 1000 { 100 } else { 20 };
    let tally = race(10, adds).await;
    let total = |number: &AtomicI64| usize::try_from(number.load(Ordering::Relaxed)).unwrap();
    assert_eq!(total(&tally.done) + total(&tally.unknown), 10 * adds);
    let tally = race(8, adds).await;
    assert_eq!((total(&tally.done), total(&tally.unknown)), (8 * adds, 0));
}

async fn setup(client: &TestClient) {
    client.tables().create("MessageStats").await.unwrap();
}

#[tokio::test]
async fn a_client_that_dies_has_added_once_or_not() {
    // PS-9.6, P-0.7.
    let requests = crash::every_point(
        async |client| {
            setup(client).await;
            stats(client).set(&hour(5), 10).await.unwrap();
        },
        async |client, ()| stats(client).add(&hour(5), 5).await.unwrap(),
        async |_, ()| {},
        async |client, (), outcome| {
            let value = stats(client).row(&hour(5)).await.unwrap()[5];
            assert!(value == Some(15) || (value == Some(10) && outcome.is_none()), "{value:?}");
        },
    );
    assert_eq!(requests.await.unwrap(), 2);
}

#[tokio::test]
async fn three_writers_with_faults_count_what_they_acknowledged() {
    crash::seeds(
        chosen_seeds(SEEDS),
        async |client| {
            setup(client).await;
            Tally::default()
        },
        async |client, tally: &Tally, writer| {
            let stats = stats(client);
            for round in 0..5 {
                // A write that crashes may have been carried out.
                tally.unknown.fetch_add(1, Ordering::Relaxed);
                tally.add(&stats).await;
                tally.unknown.fetch_sub(1, Ordering::Relaxed);
                let _ = stats.set(&hour(10 + writer.number), round).await;
            }
        },
        async |_, _| {},
        async |client, tally, _| tally.check(&stats(client)).await,
    )
    .await
    .unwrap();
}

#[derive(Clone, Debug)]
enum Operation {
    Set(usize, i64),
    Add(usize, i64),
    Last(usize),
}

#[tokio::test]
async fn random_operations_do_what_a_plain_map_does() {
    // PS-9.6, P-0.8. Hours of four days.
    let moment = |hour: usize| time("2014-08-22T00:30:00Z").plus_seconds(hour as u64 * 3600);
    let choose = |random: &mut Seeded| {
        let (hour, value) = (random.below(96), random.below(100) as i64);
        match random.below(3) {
            0 => Operation::Set(hour, value),
            1 => Operation::Add(hour, value - 50),
            _ => Operation::Last(hour),
        }
    };
    let real = async |stats: &SeriesTable<MessageCount>, operation: &Operation| match operation {
        Operation::Set(hour, value) => {
            let point = MessageCount::at("Sales", 123, moment(*hour)).unwrap();
            stats.set(&point, *value).await.unwrap();
            Vec::new()
        }
        Operation::Add(hour, value) => {
            let point = MessageCount::at("Sales", 123, moment(*hour)).unwrap();
            stats.add(&point, *value).await.unwrap();
            Vec::new()
        }
        Operation::Last(hour) => {
            let last = stats.last(&series(), moment(*hour), *hour as u64 + 1).await.unwrap();
            last.into_iter().map(|(_, value)| value).collect()
        }
    };
    let plain = |hours: &mut BTreeMap<usize, i64>, operation: &Operation| match operation {
        Operation::Set(hour, value) => {
            hours.insert(*hour, *value);
            Vec::new()
        }
        Operation::Add(hour, value) => {
            *hours.entry(*hour).or_default() += value;
            Vec::new()
        }
        Operation::Last(hour) => (0..=*hour).map(|hour| hours.get(&hour).copied()).collect(),
    };
    let setup = async |client: &TestClient| {
        setup(client).await;
        stats(client)
    };
    model::compare(chosen_seeds(SEEDS), 40, choose, setup, real, plain).await.unwrap();
}
