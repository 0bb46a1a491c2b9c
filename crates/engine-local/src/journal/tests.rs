use super::*;
use crate::{LocalEngine, LocalOptions};
use lazuli_engine::{Commit, Engine, Key, Revision, Write};

/// A closed store whose journal has one batch per value; each value is its own key.
async fn journal(values: &[Vec<u8>]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(dir.path(), LocalOptions::default()).unwrap();
    for value in values {
        let key = Key::from([b"L", &value[..1]].concat());
        let writes = vec![Write::Put(key, value.clone().into())];
        let commit = Commit::new(Revision(0), writes);
        engine.commit(commit).await.unwrap();
    }
    drop(engine);
    let path = list(&dir.path().join("store")).unwrap().remove(0).1;
    (dir, path)
}

/// Text that does not compress.
fn noise(key: u8, bytes: usize) -> Vec<u8> {
    let mut state = u32::from(key);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::once(key).chain(std::iter::from_fn(|| Some(next()))).take(bytes).collect()
}

/// Where the batches of a journal end.
fn ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut end = 0;
    while let Some(batch) = Batch::read(&bytes[end..]) {
        end += batch.bytes;
        ends.push(end);
    }
    ends
}

async fn values(dir: &Path) -> Vec<u8> {
    let engine = LocalEngine::open(dir, LocalOptions::default()).unwrap();
    let view = engine.view().await.unwrap();
    let mut found = Vec::new();
    for key in b'a'..=b'z' {
        if view.get(&[b'L', key]).await.unwrap().is_some() {
            found.push(key);
        }
    }
    found
}

#[tokio::test]
async fn journal_that_fjall_wrote_is_sound() {
    let (dir, path) = journal(&[vec![b'a'; 10], noise(b'b', 30_000), vec![b'c'; 100]]).await;
    let bytes = fs::read(&path).unwrap();
    // The last one was written by the close.
    assert_eq!(ends(&bytes).len(), 4);
    inspect(&dir.path().join("store")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

/// The device wrote the end of the last batch but not its middle. fjall treated that as damage and
/// did not open.
#[tokio::test]
async fn batch_with_a_hole_at_the_end_is_cut_off() {
    let (dir, path) = journal(&[vec![b'a'; 10], noise(b'b', 30_000)]).await;
    let mut bytes = fs::read(&path).unwrap();
    let end = ends(&bytes)[1];
    bytes.truncate(end);
    bytes[end - 20_000..end - 10_000].fill(0);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(values(dir.path()).await, b"a");
}

/// fjall ended the journal there, and all later batches were lost.
#[tokio::test]
async fn damage_before_other_batches_is_told_with_its_place() {
    let (dir, path) = journal(&[vec![b'a'; 10], vec![b'b'; 10], vec![b'c'; 10]]).await;
    let bytes = fs::read(&path).unwrap();
    let [first, second, ..] = ends(&bytes)[..] else { panic!("too few batches") };
    for at in first..second {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        fs::write(&path, &damaged).unwrap();
        let error = match LocalEngine::open(dir.path(), LocalOptions::default()) {
            Ok(_) => panic!("damage at byte {at} was not noticed"),
            Err(error) => error.to_string(),
        };
        let place = format!("{} is damaged at byte ", path.display());
        assert!(error.contains(&place), "{error}");
    }
    fs::write(&path, &bytes).unwrap();
    assert_eq!(values(dir.path()).await, b"abc");
}

/// Without a sync between them, a later batch may be on disk and an earlier one not.
#[tokio::test]
async fn hole_between_batches_that_were_not_synced_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let durability = crate::Durability::Memory;
    let options = || LocalOptions { durability, ..LocalOptions::default() };
    let engine = LocalEngine::open(dir.path(), options()).unwrap();
    for key in ["La", "Lb", "Lc"] {
        let writes = vec![Write::Put(Key::from(key.as_bytes().to_vec()), "v".into())];
        let commit = Commit::new(Revision(0), writes);
        engine.commit(commit).await.unwrap();
    }
    let path = list(&dir.path().join("store")).unwrap().remove(0).1;
    let mut bytes = fs::read(&path).unwrap();
    let [first, second, ..] = ends(&bytes)[..] else { panic!("too few batches") };
    drop(engine);
    bytes[first..second].fill(0);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(values(dir.path()).await, b"a");
}
