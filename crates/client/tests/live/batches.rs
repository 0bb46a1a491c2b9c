//! Transactions: all or nothing, and the operation that failed.

use crate::TestServer;
use crate::faults::FaultyTransport;
use lazuli_client::{BatchFault, Entity, ErrorKind, WriteOp, partition};
use lazuli_model::EntityError;

fn employee(number: usize) -> Entity {
    Entity::new("Sales", format!("{number:05}")).with("Number", number as i32)
}

#[tokio::test]
async fn a_transaction_happens_entirely_or_not_at_all() {
    // CS-11, C-11.2.
    let server = TestServer::start();
    let table = server.table("Employees").await;
    let mut batch = table.batch("Sales");
    for number in 0..100 {
        batch = batch.insert(&employee(number));
    }
    let committed = batch.commit().await.unwrap();
    assert_eq!(committed.len(), 100);
    let read = table.get(("Sales", "00042")).required().await.unwrap();
    assert_eq!(committed.etag(42), Some(read.etag()));

    let batch = table.batch("Sales").insert(&employee(100)).insert(&employee(7));
    let error = batch.commit().await.unwrap_err();
    assert_eq!((error.batch_index(), error.code()), (Some(1), Some("EntityAlreadyExists")));
    assert_eq!(error.key().map(|key| key.row.as_str()), Some("00007"));
    assert!(error.is_conflict() && error.to_string().contains("operation 1"), "{error}");
    assert!(table.get(("Sales", "00100")).await.unwrap().is_none());
}

#[tokio::test]
async fn every_verb_is_part_of_a_transaction() {
    let server = TestServer::start();
    let table = server.table("Employees").await;
    for number in 0..6 {
        table.insert(&employee(number)).await.unwrap();
    }
    let read = |number: usize| {
        let table = table.clone();
        async move { table.get(("Sales", format!("{number:05}"))).required().await.unwrap() }
    };
    let (mut first, second) = (read(0).await, read(1).await);
    first.set("Name", "changed");
    let batch = table
        .batch("Sales")
        .replace(&first)
        .delete(&second)
        .delete_key(("Sales", "00002"))
        .overwrite(&employee(3).with("Name", "over"))
        .upsert(&employee(9))
        .upsert_merge(&Entity::new("Sales", "00004").with("Name", "merged"))
        .merge(("Sales", "00005"), |merge| merge.set("Name", "set"));
    let committed = batch.commit().await.unwrap();
    assert!(committed.etag(0).is_some() && committed.etag(1).is_none());
    let rows = table.query(partition("Sales")).collect_at_most(10).await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| row.row_key()).collect();
    assert_eq!(rows, ["00000", "00003", "00004", "00005", "00009"]);
    let set = read(5).await;
    assert_eq!((set.str("Name"), set.get::<i32>("Number")), (Ok("set"), Ok(5)));
    // A merge of an entity that was read requires that version, alone and in a transaction.
    let stale = table.batch("Sales").merge(&first, |merge| merge.set("Name", "late")).commit();
    assert!(stale.await.unwrap_err().is_precondition_failed());
    let stale = table.merge(&first).set("Name", "late").await;
    assert!(stale.unwrap_err().is_precondition_failed());
    table.merge(&set).set("Name", "again").await.unwrap();
    let merged = read(4).await;
    assert_eq!((merged.str("Name"), merged.get("Number")), (Ok("merged"), Ok(4)));

    let stale = table.batch("Sales").upsert(&employee(20)).replace(&first);
    let error = stale.commit().await.unwrap_err();
    assert_eq!(error.batch_index(), Some(1));
    assert!(error.is_precondition_failed());
}

#[tokio::test]
async fn what_cannot_be_one_transaction_is_refused_before_any_request() {
    // C-11.1.
    let server = TestServer::start();
    let table = server.table("Employees").await;
    let over = (0..101).fold(table.batch("Sales"), |batch, n| batch.insert(&employee(n)));
    let other = table.batch("Sales").insert(&Entity::new("Marketing", "1"));
    let twice = table.batch("Sales").insert(&employee(1)).upsert(&employee(1));
    let large = (0..9).fold(table.batch("Sales"), |batch, n| {
        let big = (0..8).fold(employee(n), |e, i| e.with(format!("P{i}"), "x".repeat(30_000)));
        batch.insert(
            &big.with("Q", vec![0_u8; 60_000])
                .with("R", vec![0_u8; 60_000])
                .with("S", vec![0_u8; 60_000])
                .with("T", vec![0_u8; 60_000])
                .with("U", vec![0_u8; 60_000]),
        )
    });
    let wide = table.batch("Sales").insert(&employee(0)).insert(
        &(0..253).fold(employee(1), |entity, number| entity.with(format!("P{number}"), number)),
    );
    let too_wide = ErrorKind::LimitExceeded(EntityError::TooManyProperties);
    let mut bytes = 0;
    for (batch, index, reason) in [
        (over, 100, Some(BatchFault::TooManyOperations)),
        (other, 0, Some(BatchFault::OtherPartition)),
        (twice, 1, Some(BatchFault::NamedTwice)),
        (wide, 1, Some(BatchFault::Write(Box::new(too_wide)))),
        (large, 6, None),
    ] {
        let error = batch.commit().await.unwrap_err();
        assert_eq!((error.batch_index(), error.attempts()), (Some(index), 0), "{error}");
        assert!(error.key().is_some(), "{error}");
        let ErrorKind::InvalidBatch(refused) = error.kind() else { panic!("{error}") };
        match (reason, &refused.reason) {
            (Some(reason), found) => assert_eq!(*found, reason),
            (None, BatchFault::TooLarge { bytes: found }) => bytes = *found,
            (None, other) => panic!("{other}"),
        }
    }
    assert!(bytes > 4 * 1024 * 1024);
    assert!(table.batch("Sales").commit().await.unwrap().is_empty());
    assert_eq!(table.scan().collect_at_most(1).await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_batch_knows_its_size_to_the_byte() {
    // C-11.5.
    let server = TestServer::start();
    let recorded = FaultyTransport::new();
    let account = server.builder().transport(recorded.clone()).build().unwrap();
    let table = account.tables().create("Sizes").await.unwrap();
    let batch =
        table.batch("Sales").insert(&employee(1)).upsert(&employee(2).with("Name", "\u{e9}'\""));
    let bytes = batch.bytes();
    recorded.next(&[]);
    batch.commit().await.unwrap();
    assert_eq!(recorded.sent()[0].body_bytes, bytes);

    let mut batch = table.batch("Sales");
    let mut number = 0;
    loop {
        let entity = employee(number).with("Data", vec![0_u8; 60_000]);
        let write = WriteOp::upsert(&entity);
        if !batch.fits(&write) {
            break;
        }
        batch = batch.write(write);
        number += 1;
    }
    assert!(!batch.fits(&WriteOp::insert(&Entity::new("Marketing", "1"))));
    assert!(!batch.fits(&WriteOp::insert(&employee(0))), "it is there already");
    assert!(batch.bytes() <= 4 * 1024 * 1024 && batch.bytes() > 4 * 1024 * 1024 - 90_000);
    assert_eq!(batch.commit().await.unwrap().len(), number);
}

#[tokio::test]
async fn no_version_of_a_part_ends_its_line() {
    // C-11.1: an ETag that is not a valid header value once injected headers, and requests, into the body.
    use lazuli_client::ETag;
    let server = lazuli_test::TestServer::start().await.unwrap();
    let table = server.account().tables().create("Parts").await.unwrap();
    table.insert(&Entity::new("p", "1")).await.unwrap();
    let stored = || async {
        let rows = table.scan().collect_at_most(10).await.unwrap();
        rows.iter().map(|row| row.row_key().to_owned()).collect::<Vec<_>>()
    };
    for text in ["*\r\nPrefer: x", "*\n", "W/\"a\u{0}\"", "\u{7f}", "*\r"] {
        let etag = ETag::new(text);
        let merge = || table.merge(("p", "1")).set("a", 1).if_match(&etag);
        let refused = table.batch("p").write(WriteOp::merge(merge())).commit().await.unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::InvalidBatch(_)), "{refused}");
        assert_eq!(refused.attempts(), 0);
        let bulk = table.bulk().run(lazuli_client::iter([Ok(WriteOp::merge(merge()))])).await;
        assert_eq!(bulk.unwrap().failed.len(), 1);
        assert_eq!(merge().await.unwrap_err().attempts(), 0);
        assert_eq!(table.delete_if_match(("p", "1"), &etag).await.unwrap_err().attempts(), 0);
    }
    assert_eq!(stored().await, ["1"]);
}
