//! Chunks of scans are bounded in bytes, however small earlier rows were (K-3.4).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{commit, fresh, key};
use lazuli_engine::{Direction, Engine, KeyRange, Scan, ScanEnd, Visit, Write};
use lazuli_engine_postgres::PostgresEngine;
use lazuli_meter::{Source, Value};
use lazuli_testkit::stores::postgres::is_there;

const MIB: usize = 1024 * 1024;

/// The first chunk contains only these.
const SMALL_ROWS: usize = 40;

const LARGE_ROWS: usize = 24;

async fn fill(engine: &PostgresEngine) {
    let put = |at: usize, bytes| Write::Put(key(&format!("{at:03}")), vec![b'v'; bytes].into());
    let small = (0..SMALL_ROWS).map(|at| put(at, 10)).collect();
    engine.commit(commit(vec![], small)).await.unwrap();
    for at in 0..LARGE_ROWS {
        let large = vec![put(SMALL_ROWS + at, MIB)];
        engine.commit(commit(vec![], large)).await.unwrap();
    }
}

fn scan(direction: Direction, bytes_max: usize) -> Scan {
    let range = KeyRange::prefix(b"L");
    Scan { range, direction, rows_max: 1024, bytes_max, rows_expected: 1024 }
}

/// The rows of all chunks so far.
fn rows_fetched(engine: &PostgresEngine) -> u64 {
    let families = engine.report();
    let chunks = families.iter().find(|family| family.name == "lazuli_store_chunk_rows").unwrap();
    match &chunks.samples.first().unwrap().value {
        Value::Histogram(histogram) => histogram.sum as u64,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn large_rows_after_small_ones_come_in_small_chunks() {
    if !is_there() {
        return;
    }
    let engine = fresh();
    fill(&engine).await;
    let view = engine.view().await.unwrap();
    let mut shown = 0;
    let mut visitor = |_: &[u8], _: &[u8], _| {
        shown += 1;
        Visit::Continue
    };
    let end = view.scan(scan(Direction::Forward, 4 * MIB), &mut visitor).await.unwrap();
    assert!(matches!(end, ScanEnd::More(_)));
    assert_eq!(shown, SMALL_ROWS + 4);
    // Without the bound, the second chunk contains every remaining row.
    assert!(rows_fetched(&engine) <= SMALL_ROWS as u64 + 8, "{}", rows_fetched(&engine));
}

#[tokio::test]
async fn a_scan_of_many_chunks_shows_every_row_in_order() {
    if !is_there() {
        return;
    }
    let engine = fresh();
    fill(&engine).await;
    let view = engine.view().await.unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        let mut shown = Vec::new();
        let mut visitor = |key: &[u8], _: &[u8], _| {
            shown.push(key.to_vec());
            Visit::Continue
        };
        let end = view.scan(scan(direction, usize::MAX), &mut visitor).await.unwrap();
        assert!(matches!(end, ScanEnd::Done));
        if direction == Direction::Backward {
            shown.reverse();
        }
        let expected: Vec<Vec<u8>> =
            (0..SMALL_ROWS + LARGE_ROWS).map(|at| format!("L{at:03}").into_bytes()).collect();
        assert_eq!(shown, expected);
    }
}
