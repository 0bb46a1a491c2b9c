//! Rows so large that only a few fit one answer (K-3.4, K-3.10).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::engine_on;
use lazuli_engine::{
    Commit, Direction, Engine, Key, KeyRange, Revision, Scan, ScanEnd, Visit, Write,
};
use lazuli_engine_tikv::TikvEngine;
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::tikv::StandIn;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// Less than a commit takes.
const COMMIT_BYTES: usize = 48 * MIB;

fn key(number: usize) -> Key {
    Key::from(format!("L{number:05}").into_bytes())
}

/// Rows of these sizes, in this order.
async fn engine_with(cluster: &StandIn, sizes: &[usize]) -> TikvEngine {
    let engine = engine_on(cluster);
    let (mut writes, mut bytes) = (Vec::new(), 0);
    for (number, size) in sizes.iter().enumerate() {
        if bytes + size > COMMIT_BYTES {
            let full = std::mem::take(&mut writes);
            engine.commit(Commit::new(Revision(0), full)).await.unwrap();
            bytes = 0;
        }
        bytes += size;
        writes.push(Write::Put(key(number), vec![b'v'; *size].into()));
    }
    engine.commit(Commit::new(Revision(0), writes)).await.unwrap();
    engine
}

/// One scan shows all rows, in both directions.
fn assert_scanned(sizes: &[usize]) {
    let cluster = StandIn::start();
    run(async {
        let engine = engine_with(&cluster, sizes).await;
        for direction in [Direction::Forward, Direction::Backward] {
            let view = engine.view().await.unwrap();
            let scan = Scan {
                range: KeyRange::prefix(b"L"),
                direction,
                rows_max: sizes.len(),
                bytes_max: usize::MAX,
                rows_expected: sizes.len(),
            };
            let mut shown = Vec::new();
            let mut visit = |_: &[u8], value: &[u8], _: Revision| {
                shown.push(value.len());
                Visit::Continue
            };
            let end = view.scan(scan, &mut visit).await.unwrap();
            assert_eq!(end, ScanEnd::Done);
            if direction == Direction::Backward {
                shown.reverse();
            }
            assert_eq!(shown, sizes);
        }
    });
}

/// The second chunk is sized by the small rows before it: 128 rows exceed its memory.
#[test]
fn large_rows_after_small_ones_are_scanned() {
    for size in [40 * KIB, 300 * KIB] {
        assert_scanned(&[&[100; 40][..], &[size; 130]].concat());
    }
}

/// The first chunk is sized for entities. Changes with both images are twice as large.
#[test]
fn changes_with_both_images_are_scanned() {
    assert_scanned(&[2 * MIB + 4 * KIB; 34]);
}

#[test]
fn rows_of_the_largest_size_are_scanned_one_by_one() {
    assert_scanned(&[6 * MIB, 100, 6 * MIB, 6 * MIB, 100]);
}

/// Before and after small rows, so that chunks shrink, grow and shrink again.
#[test]
fn large_rows_among_small_ones_are_scanned() {
    let (small, large) = (vec![100; 200], vec![MIB; 12]);
    assert_scanned(&[&large[..], &small, &large, &[6 * MIB], &small].concat());
}

/// More than one answer can hold.
#[test]
fn large_rows_are_read_by_their_keys() {
    let cluster = StandIn::start();
    run(async {
        let sizes = [MIB; 24];
        let engine = engine_with(&cluster, &sizes).await;
        let keys: Vec<Key> = (0..sizes.len()).map(key).collect();
        let newest = engine.read(&keys).await.unwrap();
        let in_a_view = engine.view().await.unwrap().multi_get(&keys).await.unwrap();
        for found in [newest, in_a_view] {
            let found: Vec<usize> = found.iter().flatten().map(|row| row.value.len()).collect();
            assert_eq!(found, sizes);
        }
    });
}
