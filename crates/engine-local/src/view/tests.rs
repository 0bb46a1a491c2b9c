use crate::{LocalEngine, LocalOptions};
use lazuli_engine::{Commit, Engine, Key, Revision, Write};

/// A value that is read twice is the same memory twice: it was not copied.
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
    let commit = Commit { not_before: Revision(0), checks: vec![], writes: vec![put] };
    engine.commit(commit).await.unwrap();
    check_not_copied(&engine).await;
    engine.store.flush();
    check_not_copied(&engine).await;
}
