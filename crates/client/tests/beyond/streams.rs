//! P-23.1 and P-23.2.

use crate::{SEEDS, counted, methods, setup, table};
use lazuli_client::patterns::stream::{Event, EventStream, Recorded};
use lazuli_client::patterns::view::View;
use lazuli_client::{Entity, Error, ErrorKind, Table, Transaction};
use lazuli_test::TestServer;
use lazuli_test::crash::{self, TestClient, chosen_seeds};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

fn event(number: i64) -> Event {
    Event::new().with("Number", number)
}

fn stream(table: &Table) -> EventStream {
    EventStream::new(table, "order-17")
}

/// Adds `number` to the row `sum` of a partition.
async fn add(tx: Transaction, partition: &str, number: i64) -> Result<(), Error> {
    match tx.get((partition, "sum")).await? {
        Some(mut row) => {
            let sum: i64 = row.get("Sum")?;
            row.set("Sum", sum + number);
            tx.replace(&row)
        }
        None => tx.insert(&Entity::new(partition, "sum").with("Sum", number)),
    }
}

/// Appends events, and keeps their sum in the stream's own partition.
async fn append(stream: &EventStream, numbers: &[i64]) -> Result<i64, Error> {
    let total: i64 = numbers.iter().sum();
    let partition = stream.partition().to_owned();
    let partition = &partition;
    let events = numbers.iter().map(|number| event(*number).id(&format!("id {number}")));
    let project = move |tx: Transaction, _first: i64| add(tx, partition, total);
    stream.append_with(None, events, project).await.map(|appended| appended.first)
}

async fn all(stream: &EventStream) -> Vec<Recorded> {
    stream.read(1, 20_000).await.unwrap()
}

/// Versions without gaps, unique numbers, and a projection that equals a replay.
async fn check(table: &Table) -> BTreeSet<i64> {
    let stream = stream(table);
    let events = all(&stream).await;
    assert!(events.iter().map(|event| event.version).eq(1..=events.len() as i64));
    assert_eq!(stream.version().await.unwrap(), events.len() as i64);
    let number = |event: &Recorded| event.entity.get::<i64>("Number").unwrap();
    let numbers: BTreeSet<i64> = events.iter().map(number).collect();
    assert_eq!(numbers.len(), events.len(), "an event twice");
    let sum = table.get((stream.partition(), "sum")).await.unwrap();
    let sum = sum.map_or(0, |row| row.get::<i64>("Sum").unwrap());
    assert_eq!(sum, numbers.iter().sum::<i64>());
    numbers
}

#[tokio::test]
async fn an_append_is_a_read_and_a_transaction() {
    let (server, table) = counted().await;
    let stream = stream(&table);
    assert_eq!(stream.version().await.unwrap(), 0);
    methods(&server);
    let appended = stream.append([event(1), event(2).id("x")]).await.unwrap();
    assert_eq!((appended.first, appended.last, appended.is_repeated), (1, 2, false));
    let exchanges = server.faults().take();
    assert_eq!(exchanges.len(), 2);
    assert_eq!(exchanges[1].operations(), 4, "head, two events, one id");
    let conflict = stream.append_after(1, [event(3)]).await.unwrap_err();
    assert_eq!(*conflict.kind(), ErrorKind::StreamConflict { expected: 1, actual: 2 });
    assert_eq!(stream.append_after(2, [event(3)]).await.unwrap().last, 3);
    let again = stream.append([event(2).id("x")]).await.unwrap();
    assert_eq!((again.first, again.is_repeated), (2, true));
    methods(&server);
    let slice = stream.read(2, 1).await.unwrap();
    assert_eq!((slice.len(), slice[0].version), (1, 2));
    assert_eq!(methods(&server), ["GET"]);
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_not_split() {
    let (server, table) = counted().await;
    let stream = stream(&table);
    let events = |count: i64| (0..count).map(event);
    assert!(stream.append(events(100)).await.is_err());
    assert_eq!(methods(&server), ["GET"]);
    assert_eq!(stream.append(events(99)).await.unwrap().last, 99);
    assert!(matches!(stream.append([]).await.unwrap_err().kind(), ErrorKind::Config(_)));
    let partly = stream.append([event(1).id("a"), event(2).id("b")]).await;
    assert!(partly.is_ok());
    let mixed = stream.append([event(1).id("a"), event(3).id("c")]).await.unwrap_err();
    assert!(mixed.is_conflict(), "{mixed}");
}

#[tokio::test]
async fn the_newest_snapshot_is_found_by_one_query() {
    let (server, table) = counted().await;
    let stream = EventStream::spread(&table, "order/17", 16);
    assert!(stream.snapshot().await.unwrap().is_none());
    stream.append((0..12).map(event)).await.unwrap();
    for version in [9, 10, 2] {
        stream.save_snapshot(version, Event::new().with("Sum", version)).await.unwrap();
    }
    methods(&server);
    let newest = stream.snapshot().await.unwrap().unwrap();
    assert_eq!((newest.version, newest.entity.get::<i64>("Sum").unwrap()), (10, 10));
    assert_eq!(methods(&server), ["GET"]);
    assert_eq!(stream.read(11, 100).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_writers_append_ten_thousand_events() {
    // PS-23.1.
    const WRITERS: i64 = 8;
    const APPENDS: i64 = 50;
    const EVENTS: i64 = 25;
    let server = TestServer::start().await.unwrap();
    let table = server.account().tables().create("Beyond").await.unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let stream = stream(&table);
        tokio::spawn(async move {
            for round in 0..APPENDS {
                let first = (writer * APPENDS + round) * EVENTS;
                let numbers: Vec<i64> = (first..first + EVENTS).collect();
                // Other writers nearly always interfere: retry until the append succeeds.
                while let Err(error) = append(&stream, &numbers).await {
                    assert!(matches!(error.kind(), ErrorKind::Contended { .. }), "{error}");
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let numbers = check(&table).await;
    assert!(numbers.into_iter().eq(0..WRITERS * APPENDS * EVENTS));
}

#[tokio::test]
async fn an_append_that_dies_is_there_whole_or_not_at_all() {
    let requests = crash::every_point(
        setup,
        async |client: &TestClient, ()| append(&stream(&table(client)), &[1, 2, 3]).await.unwrap(),
        async |_, ()| {},
        async |client, (), outcome| {
            let before = check(&table(client)).await;
            assert!(before.is_empty() || before.len() == 3);
            assert!(outcome.is_none() || before.len() == 3);
            // The next writer sends it again.
            append(&stream(&table(client)), &[1, 2, 3]).await.unwrap();
            assert_eq!(check(&table(client)).await.len(), 3);
        },
    );
    assert_eq!(requests.await.unwrap(), 3, "head, projection, transaction");
}

#[tokio::test]
async fn three_writers_with_faults_keep_what_they_acknowledged() {
    crash::seeds(
        chosen_seeds(SEEDS),
        async |client| {
            setup(client).await;
            Mutex::new(Vec::new())
        },
        async |client, acknowledged: &Mutex<Vec<i64>>, writer| {
            for round in 0..4 {
                let number = writer.number as i64 * 100 + round;
                if append(&stream(&table(client)), &[number]).await.is_ok() {
                    acknowledged.lock().unwrap().push(number);
                }
            }
        },
        async |_, _| {},
        async |client, acknowledged, _| {
            let numbers = check(&table(client)).await;
            for number in &*acknowledged.lock().unwrap() {
                assert!(numbers.contains(number), "{number}");
            }
        },
    )
    .await
    .unwrap();
}

/// Updates the view of the stream: the sum of its numbers, in another partition.
async fn catch_up(table: &Table) -> Result<i64, Error> {
    let view = View::new(&stream(table), table, "views", "sums").events(4);
    view.catch_up(async |tx: Transaction, event: Recorded| {
        let number: i64 = event.entity.get("Number")?;
        add(tx, "views", number).await
    })
    .await
}

#[tokio::test]
async fn a_view_applies_each_event_once_whoever_dies() {
    // P-23.2.
    let requests = crash::every_point(
        async |client| {
            setup(client).await;
            stream(&table(client)).append((1..=10).map(event)).await.unwrap();
        },
        async |client: &TestClient, ()| catch_up(&table(client)).await.unwrap(),
        async |client, ()| {
            assert_eq!(catch_up(&table(client)).await.unwrap(), 10);
        },
        async |client, (), outcome| {
            assert!(outcome.is_none_or(|version| version == 10));
            let row = table(client).get(("views", "sum")).required().await.unwrap();
            assert_eq!(row.get::<i64>("Sum").unwrap(), 55);
        },
    );
    // The checkpoint; three times events, checkpoint, sum and transaction; and a read that finds no more.
    assert_eq!(requests.await.unwrap(), 1 + 3 * 4 + 1);
}

#[tokio::test]
async fn two_workers_at_one_view_apply_each_event_once() {
    crash::seeds(
        chosen_seeds(SEEDS),
        async |client| {
            setup(client).await;
            stream(&table(client)).append((1..=30).map(event)).await.unwrap();
        },
        async |client, (), _| catch_up(&table(client)).await,
        async |client, ()| {
            catch_up(&table(client)).await.unwrap();
        },
        async |client, (), _| {
            let row = table(client).get(("views", "sum")).required().await.unwrap();
            assert_eq!(row.get::<i64>("Sum").unwrap(), 465);
        },
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn a_view_that_is_removed_meanwhile_is_made_again_from_the_first_event() {
    // P-23.2: it went on with the events at hand once, and missed those before them.
    let (_server, table) = counted().await;
    let stream = stream(&table);
    stream.append((1..=10).map(event)).await.unwrap();
    assert_eq!(catch_up(&table).await.unwrap(), 10);
    stream.append((11..=12).map(event)).await.unwrap();
    let (rows, removed) = (&table, &AtomicBool::new(false));
    let view = View::new(&stream, &table, "views", "sums").events(4);
    let version = view.catch_up(move |tx: Transaction, event: Recorded| async move {
        if !removed.swap(true, Ordering::Relaxed) {
            for row in ["!view_sums", "sum"] {
                rows.delete_key(("views", row)).await?;
            }
        }
        add(tx, "views", event.entity.get("Number")?).await
    });
    assert_eq!(version.await.unwrap(), 12);
    let row = table.get(("views", "sum")).required().await.unwrap();
    assert_eq!(row.get::<i64>("Sum").unwrap(), 78);
}
