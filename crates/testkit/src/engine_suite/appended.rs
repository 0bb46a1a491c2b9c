//! Promises about appended values: the commit creates their keys, in commit order.

use super::*;
use lazuli_engine::Writers;
use tokio::task::JoinSet;

fn append(text: &str, value: impl Into<Vec<u8>>) -> Write {
    Write::Append(key(text), Bytes::from(value.into()))
}

/// Revision, position and value of what was appended under `prefix`.
async fn log(view: &dyn View, prefix: &str) -> Vec<(Revision, u32, Vec<u8>)> {
    let prefix = key(prefix);
    let found = entries(view, KeyRange::prefix(prefix.as_slice())).await;
    let parts = |(key, value, at): Entry| {
        let (found, revision, position) = Key::split_appended(&key).expect("an appended key");
        assert_eq!((found, revision), (prefix.as_slice(), at), "the key carries the revision");
        (revision, position, value)
    };
    found.into_iter().map(parts).collect()
}

pub fn appended_key_is_prefix_revision_and_position(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let writes = [append("f", "a"), put("k", "v"), append("g", "b"), append("f", "c")];
        let revision = write(engine, writes).await;
        let view = engine.view().await.unwrap();
        let expected = |parts: &[(u32, &str)]| -> Vec<_> {
            parts.iter().map(|(at, value)| (revision, *at, value.as_bytes().to_vec())).collect()
        };
        assert_eq!(log(view.as_ref(), "f").await, expected(&[(0, "a"), (2, "c")]));
        assert_eq!(log(view.as_ref(), "g").await, expected(&[(1, "b")]));
        let stored = Key::appended(&key("f"), revision, 2);
        assert_eq!(view.get(stored.as_slice()).await.unwrap().unwrap().value, "c");
    });
}

pub fn append_of_a_failed_commit_leaves_nothing(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let failing = commit([check("missing", Expect::Present)], [append("f", "x")]);
        assert!(is_check_failed(&engine.commit(failing).await));
        let long = vec![b'p'; engine.limits().key_bytes_max - 12];
        let too_long = commit([], [Write::Append(key(long), "x".into())]);
        let result = engine.commit(too_long).await;
        assert!(matches!(result, Err(CommitError::TooLarge { .. })), "{result:?}");
        assert!(entries(engine.view().await.unwrap().as_ref(), everything()).await.is_empty());
    });
}

/// Writers append while a reader reads: with one writing process, the log in one view is a prefix
/// of the log in the next. Nothing ever appears before entries that were already seen.
pub fn appended_keys_are_in_commit_order_under_races(make: Make<'_>) {
    const APPENDS: usize = 50;
    run(async {
        let fixture = make();
        let in_order = fixture.engine.nature().writers == Writers::Sole;
        let mut writers = JoinSet::new();
        for writer in 0..8_u8 {
            let engine = fixture.engine.clone();
            writers.spawn(async move {
                let mut last = Revision(0);
                for n in 0..APPENDS {
                    let entry = vec![writer, n as u8];
                    let at =
                        write(engine.as_ref(), [append("f", entry.clone()), append("f", entry)]);
                    let at = at.await;
                    assert!(at > last);
                    last = at;
                }
            });
        }
        let mut seen = Vec::new();
        while !writers.is_empty() {
            while writers.try_join_next().is_some() {}
            let now = log(fixture.engine.view().await.unwrap().as_ref(), "f").await;
            assert!(!in_order || now.starts_with(&seen), "{seen:?} is not how {now:?} begins");
            seen = now;
            tokio::task::yield_now().await;
        }
        let all = log(fixture.engine.view().await.unwrap().as_ref(), "f").await;
        assert_eq!(all.len(), 8 * APPENDS * 2);
        for writer in 0..8_u8 {
            let own = all.iter().filter(|(_, _, entry)| entry[0] == writer);
            let numbers: Vec<_> = own.map(|(_, _, entry)| usize::from(entry[1])).collect();
            assert!(numbers.is_sorted() && numbers.len() == APPENDS * 2, "{numbers:?}");
        }
    });
}
