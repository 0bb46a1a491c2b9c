//! The promise about commits whose answer is lost.

use super::*;
use std::time::Duration;
use tokio::task::JoinSet;

const WRITERS: usize = 16;
/// How long an engine may take to recover.
const RECOVERY: Duration = Duration::from_secs(60);

/// What is stored of one writer's commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    Nothing,
    Whole,
}

/// A commit whose answer is lost is reported as undetermined, and has happened completely or not at
/// all; if it has not happened by then, it never will. `lose` makes the engine lose the answers to
/// commits, some of which happen, or stops that. The engine keeps what it has acknowledged.
pub fn undetermined_commit_is_whole_or_nothing(engine: &Arc<dyn Engine>, lose: impl Fn(bool)) {
    run(async {
        for round in 0..3 {
            let writers = || (0..WRITERS).map(move |writer| format!("{round}/{writer:02}/"));
            for writer in writers() {
                write(&**engine, [put(writer + "old", "x")]).await;
            }
            lose(true);
            let mut tasks = JoinSet::new();
            for writer in writers() {
                let engine = engine.clone();
                tasks.spawn(async move {
                    let answer = engine.commit(move_old_to_new(&writer)).await;
                    (writer, answer)
                });
            }
            let answers = tasks.join_all().await;
            lose(false);
            work_again(&**engine).await;
            let mut undetermined = 0;
            let mut seen = Vec::new();
            for (writer, answer) in answers {
                let there = what_is_there(&**engine, &writer).await;
                match answer {
                    Ok(_) => assert_eq!(there, There::Whole, "{writer}: it was acknowledged"),
                    Err(CommitError::Undetermined(_)) => undetermined += 1,
                    Err(error) => assert_eq!(there, There::Nothing, "{writer}: {error}"),
                }
                seen.push((writer, there));
            }
            assert!(undetermined > 0, "no answer was lost");
            work_again(&**engine).await;
            for (writer, there) in seen {
                assert_eq!(what_is_there(&**engine, &writer).await, there, "{writer}: later");
            }
        }
    });
}

/// A commit with each kind of write, all of them visible.
fn move_old_to_new(writer: &str) -> Commit {
    let old = format!("{writer}old");
    let writes = [
        delete(&old),
        put(format!("{writer}new"), "x"),
        modify(format!("{writer}count"), Increment),
        Write::Append(key(format!("{writer}feed/")), Bytes::from("x")),
    ];
    commit([check(&old, Expect::Present)], writes)
}

/// Waits until the engine takes commits.
async fn work_again(engine: &dyn Engine) {
    let works = async {
        while engine.commit(commit([], [put("probe", "x")])).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(RECOVERY, works).await.expect("the engine works again");
}

async fn what_is_there(engine: &dyn Engine, writer: &str) -> There {
    let view = engine.view().await.unwrap();
    let prefix = key(writer);
    let found = entries(view.as_ref(), KeyRange::prefix(prefix.as_slice())).await;
    let name_of = |key: &[u8]| {
        let name = String::from_utf8_lossy(&key[prefix.as_slice().len()..]).into_owned();
        name.split('/').next().unwrap().to_owned()
    };
    let names: Vec<String> = found.iter().map(|(key, ..)| name_of(key)).collect();
    match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["old"] => There::Nothing,
        ["count", "feed", "new"] => {
            assert_eq!(number(&found[0].1), 1, "{writer}: it happened once");
            There::Whole
        }
        _ => panic!("{writer}: half a commit: {names:?}"),
    }
}
