//! Keys that grow with time (P-13).

use futures_util::{StreamExt, stream};
use lazuli_client::patterns::advisor::{Code, Thresholds, Watch};
use lazuli_client::patterns::spread::Spread;
use lazuli_client::prelude::*;
use lazuli_client::{Retry, TableEntity};
use lazuli_test::crash::{self, TestClient};
use lazuli_test::{TestClock, TestServer};
use std::num::NonZeroU32;
use std::time::Duration;

/// All events of an hour in one partition.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "BadEvents", rename_all = "PascalCase", partition = "{hour}", row = "{id:08}")]
struct BadEvent {
    hour: String,
    id: u32,
}

/// Events by employee, time in the row.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "GoodEvents", rename_all = "PascalCase")]
#[table(partition = "Sales_{employee:06}", row = "{hour}_{id:08}")]
struct GoodEvent {
    employee: u32,
    hour: String,
    id: u32,
}

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Events", rename_all = "PascalCase")]
#[table(partition = "{id:bucket(16)}_{hour}", row = "{id:08}")]
pub(crate) struct Event16 {
    pub(crate) hour: String,
    pub(crate) id: u32,
}

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Events", rename_all = "PascalCase")]
#[table(partition = "{id:bucket(32)}_{hour}", row = "{id:08}")]
pub(crate) struct Event32 {
    pub(crate) hour: String,
    pub(crate) id: u32,
}

/// How many of 300 inserts in one second are refused.
async fn refused<T: TableEntity + Sync>(table: &Table<T>, event: impl Fn(u32) -> T) -> usize {
    let events: Vec<T> = (0..300).map(event).collect();
    let inserts = events.iter().map(|event| async move { table.insert(event).await });
    let outcomes: Vec<_> = stream::iter(inserts).buffer_unordered(8).collect().await;
    let is_throttled = |error: &Error| error.code() == Some("ServerBusy");
    let errors: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(errors.iter().all(is_throttled), "{errors:?}");
    errors.len()
}

#[tokio::test]
async fn one_partition_for_an_hour_is_throttled_and_many_are_not() {
    // PS-13.1, a tenth of the rates.
    let clock = TestClock::default();
    let servers = TestServer::builder().clock(clock.clone());
    let rate_max = NonZeroU32::new(200).unwrap();
    let server = servers.partition_rate_max(rate_max).start().await.unwrap();
    let account = server.account_builder().unwrap().retry(Retry::none()).build().unwrap();
    for name in ["BadEvents", "GoodEvents"] {
        account.tables().create(name).await.unwrap();
    }
    let hour = "2014082200".to_owned();
    let bad = account.tables().of::<BadEvent>().unwrap();
    let refused_bad = refused(&bad, |id| BadEvent { hour: hour.clone(), id }).await;
    assert!((90..=100).contains(&refused_bad), "{refused_bad}");
    let good = account.tables().of::<GoodEvent>().unwrap();
    let event = |id| GoodEvent { employee: id % 10, hour: hour.clone(), id };
    assert_eq!(refused(&good, event).await, 0);
}

#[tokio::test]
async fn the_advisor_tells_one_from_the_other() {
    // PS-13.2, P-13.3: an hour's worth of partitions, one a minute, for eight minutes.
    let server = TestServer::with_faults().await.unwrap();
    let (account, clock) = (server.account(), server.clock().unwrap());
    for name in ["BadEvents", "GoodEvents"] {
        account.tables().create(name).await.unwrap();
    }
    let watch = Watch::new(&account, Thresholds::default());
    let bad = account.tables().of::<BadEvent>().unwrap();
    let good = account.tables().of::<GoodEvent>().unwrap();
    for minute in 0..8 {
        for number in 0..20 {
            let id = minute * 20 + number;
            let hour = format!("20140822{minute:02}");
            bad.insert(&BadEvent { hour: hour.clone(), id }).await.unwrap();
            let employee = id.wrapping_mul(7919) % 1000;
            good.insert(&GoodEvent { employee, hour, id }).await.unwrap();
            clock.advance(Duration::from_secs(3));
        }
    }
    let found = watch.findings();
    let append: Vec<_> = found.iter().filter(|f| f.code == Code::AppendPartitions).collect();
    let [append] = &append[..] else { panic!("{found:?}") };
    assert_eq!(append.table, "BadEvents");
    assert!(append.evidence.starts_with("20 of 20 inserts"), "{}", append.evidence);
}

#[tokio::test]
async fn buckets_are_read_as_one_sequence_however_many_there_were() {
    // PS-13.3, P-13.2.
    let server = TestServer::with_faults().await.unwrap();
    let account = server.account();
    account.tables().create("Events").await.unwrap();
    let hour = "2014082200";
    let old: Table<Event16> = account.tables().of().unwrap();
    let spread = Spread::open(&old, 16).await.unwrap();
    let events = (0..200).map(|n| Event16 { hour: hour.into(), id: 2 * n });
    let report = old.bulk().insert(lazuli_client::iter(events)).await.unwrap();
    assert_eq!(report.written, 200);
    let latest = spread.latest(3, |bucket| format!("{bucket}_{hour}")).await.unwrap();
    assert_eq!(latest.iter().map(|event| event.id).collect::<Vec<_>>(), [0, 2, 4]);

    let new: Table<Event32> = account.tables().of().unwrap();
    let events = (0..200).map(|n| Event32 { hour: hour.into(), id: 2 * n + 1 });
    let report = new.bulk().insert(lazuli_client::iter(events)).await.unwrap();
    assert_eq!(report.written, 200);
    new.insert(&Event32 { hour: "2014082201".into(), id: 9999 }).await.unwrap();
    // A reader of rows with both templates reads them as they are stored.
    let rows: Table<Entity> = new.retyped();
    let spread = Spread::open(&rows, 32).await.unwrap();
    assert_eq!(spread.buckets().count(), 32);
    server.faults().take();
    let mut merged = spread.query(|bucket| format!("{bucket}_{hour}")).await.unwrap();
    assert_eq!(server.faults().take().len(), 32, "one query for each bucket");
    let mut rows_found = Vec::new();
    while let Some(row) = merged.try_next().await.unwrap() {
        rows_found.push(row.row_key().parse::<u32>().unwrap());
    }
    assert_eq!(rows_found, (0..400).collect::<Vec<_>>());
    // A reader whose template still has 16 reads all that were ever used.
    server.faults().take();
    let spread = Spread::open(&rows, 16).await.unwrap();
    assert_eq!((spread.buckets().count(), server.faults().methods()), (32, vec!["GET".to_owned()]));
    // Labels of another width are other buckets.
    let spread = Spread::open(&rows, 8).await.unwrap();
    assert_eq!(spread.buckets().count(), 32 + 8);
    assert!(Spread::open(&rows, 0).await.is_err());
    // The note is not an event.
    let typed = old.query(partition("!layout")).collect_at_most(10).await.unwrap();
    assert!(typed.is_empty());
}

#[tokio::test]
async fn a_crash_leaves_no_event_in_buckets_that_nobody_reads() {
    // P-13.2, P-0.7. Nothing to heal: a writer notes its number of buckets before it inserts.
    let write = async |client: &TestClient| {
        let events: Table<Event32> = client.tables().of().unwrap();
        Spread::open(&events, 32).await.unwrap();
        events.insert(&Event32 { hour: "2014082200".into(), id: 7 }).await.unwrap();
    };
    let requests = crash::every_point(
        async |client| {
            client.tables().create("Events").await.unwrap();
            let old: Table<Event16> = client.tables().of().unwrap();
            Spread::open(&old, 16).await.unwrap();
            old.insert(&Event16 { hour: "2014082200".into(), id: 6 }).await.unwrap();
        },
        async |client: &TestClient, ()| write(client).await,
        async |_, ()| {},
        async |client, (), outcome| {
            let rows = client.tables().table("Events").unwrap();
            let stored = rows.scan().collect_at_most(9).await.unwrap().len() - 1;
            // A reader that knows only the old number.
            let spread = Spread::open(&rows, 16).await.unwrap();
            let found = spread.latest(9, |bucket| format!("{bucket}_2014082200")).await.unwrap();
            assert_eq!(found.len(), stored);
            assert!(outcome.is_none() || stored == 2);
        },
    );
    assert_eq!(requests.await.unwrap(), 3, "the note, its change, the event");
}
