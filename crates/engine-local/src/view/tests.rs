use super::*;
use crate::{LocalEngine, LocalOptions};
use lazuli_engine::{Commit, Engine, Revision, Write};

/// Reading a value twice gives the same memory: it was not copied.
async fn check_not_copied(engine: &LocalEngine) {
    let view = engine.view().await.unwrap();
    let first = view.get(b"Lk").await.unwrap().unwrap();
    let second = view.get(b"Lk").await.unwrap().unwrap();
    assert_eq!(first.value, vec![b'v'; 1000]);
    assert_eq!(first.value.as_ptr(), second.value.as_ptr());
}

#[tokio::test]
async fn values_are_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(dir.path(), LocalOptions::default()).unwrap();
    let put = Write::Put(Key::from(b"Lk".to_vec()), vec![b'v'; 1000].into());
    let commit = Commit::new(Revision(0), vec![put]);
    engine.commit(commit).await.unwrap();
    check_not_copied(&engine).await;
    engine.store.flush();
    check_not_copied(&engine).await;
}

/// The numbers of the entries that a walk shows, over as many scans as it takes.
fn walk_all(view: &Snapshot, range: KeyRange, rows_max: usize) -> Vec<u32> {
    let mut shown = Vec::new();
    let mut next = Some(range);
    while let Some(range) = next {
        let scan = Scan {
            range,
            direction: Direction::Forward,
            rows_max,
            bytes_max: usize::MAX,
            rows_expected: rows_max,
        };
        let end = view.walk(scan, &mut |key, _, _| {
            shown.push(u32::from_be_bytes(key[1..].try_into().unwrap()));
            Visit::Continue
        });
        next = match end.unwrap() {
            ScanEnd::More(rest) => Some(rest),
            ScanEnd::Done | ScanEnd::Stopped => None,
        };
    }
    shown
}

#[tokio::test]
async fn a_walk_ends_with_its_range_however_long_it_is() {
    let key = |number: u32| [b"L", &number.to_be_bytes()[..]].concat();
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(dir.path(), LocalOptions::default()).unwrap();
    let writes = (0..400).map(|number| Write::Put(key(number).into(), "v".into())).collect();
    engine.commit(Commit::new(Revision(0), writes)).await.unwrap();
    for flush in [false, true] {
        if flush {
            engine.store.flush();
        }
        let view = engine.store.snapshot();
        let bounded = BOUNDED_ROWS_MAX as u32;
        for end in [1, bounded - 1, bounded, bounded + 1, 2 * bounded, 399, 400, 500] {
            for rows_max in [1, BOUNDED_ROWS_MAX, BOUNDED_ROWS_MAX + 1, 1000] {
                let shown = walk_all(&view, KeyRange::new(key(0), key(end)), rows_max);
                assert_eq!(shown, (0..end.min(400)).collect::<Vec<_>>(), "{end} {rows_max}");
            }
        }
    }
}
