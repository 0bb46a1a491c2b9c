use super::*;
use crate::directory::Directory;
use crate::options::Durability;
use lazuli_engine::{Commit, Engine, Write};
use std::path::Path;

const ROWS: usize = 3000;

fn options() -> LocalOptions {
    LocalOptions {
        durability: Durability::Memory,
        reclaim_rows_max: 500,
        ..LocalOptions::default()
    }
}

fn range() -> KeyRange {
    KeyRange::prefix(b"Lm")
}

/// An engine with many rows in the range, in their own file and still in the journal, and one after
/// it.
async fn filled(dir: &Path) -> LocalEngine {
    let engine = LocalEngine::open(dir, options()).unwrap();
    write(&engine, ["Ln".to_owned()]).await;
    engine.store.flush();
    for thousand in 0..ROWS / 1000 {
        write(&engine, (0..1000).map(|n| format!("Lm{thousand:02}{n:03}"))).await;
    }
    engine.store.flush();
    assert!(engine.store.file_bytes() > 1_000_000);
    engine
}

async fn write(engine: &LocalEngine, keys: impl IntoIterator<Item = String>) {
    let put = |key: String| Write::Put(Key::from(key.into_bytes()), vec![b'v'; 1000].into());
    let writes = keys.into_iter().map(put).collect();
    engine.commit(Commit::new(Revision(0), writes)).await.unwrap();
}

async fn reclaim_all(engine: &LocalEngine) {
    while engine.reclaim(range()).await.unwrap() == Reclaimed::Partly {}
}

fn rows(store: &Store) -> usize {
    store.snapshot().keys(range(), usize::MAX).unwrap().0.len()
}

#[tokio::test]
async fn files_of_a_large_range_go_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let engine = filled(dir.path()).await;
    reclaim_all(&engine).await;
    assert_eq!(rows(&engine.store), 0);
    assert!(engine.store.file_bytes() < 10_000, "{}", engine.store.file_bytes());
}

#[tokio::test]
async fn what_the_journal_brings_back_is_deleted_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let engine = filled(dir.path()).await;
    reclaim_all(&engine).await;
    drop(engine);
    {
        let directory = Directory::open(dir.path()).unwrap();
        let store = Store::open(&directory, &options()).unwrap();
        assert!(rows(&store) > 0, "the journal brought nothing back: is the note still needed?");
    }
    for _ in 0..2 {
        let engine = LocalEngine::open(dir.path(), options()).unwrap();
        assert_eq!(rows(&engine.store), 0);
        assert_eq!(engine.store.dropped_ranges().unwrap(), []);
        let view = engine.view().await.unwrap();
        assert!(view.get(b"Ln").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn rows_in_memory_are_deleted_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let engine = filled(dir.path()).await;
    write(&engine, (0..1000).map(|n| format!("Lm-{n:03}"))).await;
    reclaim_all(&engine).await;
    assert_eq!(rows(&engine.store), 0);
    drop(engine);
    let engine = LocalEngine::open(dir.path(), options()).unwrap();
    assert_eq!(rows(&engine.store), 0);
}

#[tokio::test]
async fn small_range_is_deleted_without_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let engine = filled(dir.path()).await;
    let small = KeyRange::prefix(b"Lm000");
    assert_eq!(engine.reclaim(small).await.unwrap(), Reclaimed::Fully);
    assert_eq!(rows(&engine.store), ROWS - 100);
    assert_eq!(engine.store.dropped_ranges().unwrap(), []);
}
