//! Promises about derived writes: they are atomic with the commit, on every engine.

use super::derivations::{ByValue, FEED, Feed, INDEX, ROWS, UNIQUE, Unique};
use super::*;
use lazuli_engine::{Change, Derive, Derived, Refusal};
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::task::JoinSet;

/// Records its input.
#[derive(Debug, Default)]
struct Witness(Mutex<Vec<Seen>>);

/// Index, key, value and revision before, value after.
type Seen = (usize, Vec<u8>, Option<(Vec<u8>, Revision)>, Option<Vec<u8>>);

impl Derive for Witness {
    fn derive(&self, changes: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal> {
        let seen = changes.iter().map(|change| {
            let before = change.before.map(|before| (before.value.to_vec(), before.revision));
            (change.index, change.key.to_vec(), before, change.after.map(<[u8]>::to_vec))
        });
        *self.0.lock().unwrap() = seen.collect();
        derived.write(0, put("derived", "x"));
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

fn row(name: impl AsRef<str>) -> String {
    format!("{ROWS}{}", name.as_ref())
}

pub(crate) fn with(derive: impl Derive + 'static, commit: Commit) -> Commit {
    Commit { derive: Some(Arc::new(derive)), ..commit }
}

fn refusal(result: Result<Revision, CommitError>) -> (usize, String) {
    match result {
        Err(CommitError::Refused { index, reason }) => (index, reason.to_string()),
        other => panic!("{other:?}"),
    }
}

/// The entries below a prefix, without it.
async fn below(engine: &dyn Engine, prefix: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let view = engine.view().await.unwrap();
    let prefix = key(prefix);
    let found = entries(view.as_ref(), KeyRange::prefix(prefix.as_slice())).await;
    let cut = prefix.as_slice().len();
    found.into_iter().map(|(key, value, _)| (key[cut..].to_vec(), value)).collect()
}

pub fn derivation_is_shown_what_the_commit_changes(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let old = write(engine, [put("a", "1"), put("b", "2"), put("c", "3")]).await;
        let witness = Arc::new(Witness::default());
        let writes = [
            put("a", "new"),
            Write::Append(key("log"), "not shown".into()),
            delete("b"),
            modify("c", Append(b"+".to_vec())),
            put("d", "4"),
            delete("none"),
        ];
        let commit = Commit { derive: Some(witness.clone()), ..commit([], writes) };
        engine.commit(commit).await.unwrap();
        let seen = |index, name: &str, before: Option<&str>, after: Option<&str>| {
            let before = before.map(|value| (value.as_bytes().to_vec(), old));
            let after = after.map(|value| value.as_bytes().to_vec());
            (index, key(name).as_slice().to_vec(), before, after)
        };
        let expected = [
            seen(0, "a", Some("1"), Some("new")),
            seen(2, "b", Some("2"), None),
            seen(3, "c", Some("3"), Some("3+")),
            seen(4, "d", None, Some("4")),
            seen(5, "none", None, None),
        ];
        assert_eq!(*witness.0.lock().unwrap(), expected);
        assert_eq!(value(engine, "derived").await.unwrap(), "x");
    });
}

pub fn derived_writes_carry_the_revision_of_their_commit(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let commit = with(ByValue, commit([], [put(row("a"), "red"), put(row("b"), "red")]));
        let revision = engine.commit(commit).await.unwrap();
        let view = engine.view().await.unwrap();
        let all = entries(view.as_ref(), everything()).await;
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|(_, _, at)| *at == revision), "{all:?}");
    });
}

pub fn index_follows_every_kind_of_write(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let steps = [
            (vec![put(row("a"), "red"), put(row("b"), "red")], vec!["red/Lrow/a", "red/Lrow/b"]),
            (vec![put(row("a"), "blue")], vec!["blue/Lrow/a", "red/Lrow/b"]),
            (
                vec![modify(row("b"), Append(b"dish".to_vec()))],
                vec!["blue/Lrow/a", "reddish/Lrow/b"],
            ),
            (vec![delete(row("a")), delete(row("c"))], vec!["reddish/Lrow/b"]),
            (vec![modify(row("b"), Remove)], vec![]),
        ];
        for (writes, expected) in steps {
            engine.commit(with(ByValue, commit([], writes))).await.unwrap();
            let found = below(engine, INDEX).await;
            let found: Vec<_> =
                found.into_iter().map(|(entry, _)| String::from_utf8(entry).unwrap()).collect();
            assert_eq!(found, expected);
        }
    });
}

pub fn nothing_is_derived_from_derived_writes(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        engine.commit(with(ByValue, commit([], [put(row("a"), "red")]))).await.unwrap();
        assert_eq!(entries(engine.view().await.unwrap().as_ref(), everything()).await.len(), 2);
    });
}

pub fn refused_derivation_leaves_nothing(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        engine.commit(with(Unique, commit([], [put(row("a"), "red")]))).await.unwrap();
        let before = entries(engine.view().await.unwrap().as_ref(), everything()).await;
        let twice = [put(row("b"), "blue"), put(row("c"), "green"), put(row("d"), "blue")];
        let result = engine.commit(with(Unique, commit([], twice))).await;
        assert_eq!(refusal(result), (2, "twice in one commit".to_owned()));
        let taken = [put(row("b"), "blue"), put(row("c"), "red")];
        let result = engine.commit(with(Unique, commit([], taken))).await;
        assert_eq!(refusal(result), (1, "the value is taken".to_owned()));
        assert_eq!(entries(engine.view().await.unwrap().as_ref(), everything()).await, before);
    });
}

pub fn refused_function_of_a_derived_write_is_blamed_on_its_cause(make: Make<'_>) {
    #[derive(Debug)]
    struct DerivedRefusal;
    impl Derive for DerivedRefusal {
        fn derive(&self, changes: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal> {
            let last = changes.last().map_or(0, |change| change.index);
            derived.write(0, put("first", "x"));
            derived.write(last, modify("second", Refuse));
            Ok(())
        }
        fn held_bytes(&self) -> usize {
            0
        }
    }
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let commit = with(DerivedRefusal, commit([], ["a", "b", "c"].map(|name| put(name, "x"))));
        assert_eq!(refusal(engine.commit(commit).await), (2, "refused".to_owned()));
        assert!(entries(engine.view().await.unwrap().as_ref(), everything()).await.is_empty());
    });
}

/// Key conflicts are reported before value conflicts: guards, checks, then derived checks.
pub fn checks_of_the_commit_are_judged_before_what_is_derived(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        engine.commit(with(Unique, commit([], [put(row("a"), "red")]))).await.unwrap();
        let insert = || commit([check(row("a"), Expect::Absent)], [put(row("a"), "red")]);
        let result = engine.commit(with(Unique, insert())).await;
        assert!(is_check_failed(&result), "{result:?}");
        let guards = vec![check("gone", Expect::Present)];
        let result = engine.commit(with(Unique, Commit { guards, ..insert() })).await;
        assert!(matches!(result, Err(CommitError::GuardFailed { index: 0, found: None })));
    });
}

pub fn rows_of_one_commit_may_swap_unique_values(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let first = [put(row("a"), "red"), put(row("b"), "blue")];
        engine.commit(with(Unique, commit([], first))).await.unwrap();
        let swap = [put(row("a"), "blue"), put(row("b"), "red")];
        engine.commit(with(Unique, commit([], swap))).await.unwrap();
        let claims = below(engine, UNIQUE).await;
        let expected = [("blue", "Lrow/a"), ("red", "Lrow/b")];
        assert_eq!(claims, expected.map(|(value, row)| (value.into(), row.into())));
    });
}

///
pub fn derived_writes_count_against_the_limits(make: Make<'_>) {
    #[derive(Debug)]
    struct Many(usize, usize);
    impl Derive for Many {
        fn derive(&self, _: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal> {
            for n in 0..self.0 {
                derived.write(0, put(format!("derived{n}"), "x"));
            }
            for n in 0..self.1 {
                derived.check(0, check(format!("derived{n}"), Expect::Absent), "taken");
            }
            Ok(())
        }
        fn held_bytes(&self) -> usize {
            0
        }
    }
    #[derive(Debug)]
    struct One(Write);
    impl Derive for One {
        fn derive(&self, _: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal> {
            derived.write(0, self.0.clone());
            Ok(())
        }
        fn held_bytes(&self) -> usize {
            0
        }
    }
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let limits = engine.limits().clone();
        let most = limits.commit_writes_max;
        let own = || commit([], [put("own", "x")]);
        let too_large = [
            with(Many(most, 0), own()),
            with(Many(0, most + 1), own()),
            with(One(put(vec![b'k'; limits.key_bytes_max], "x")), own()),
            with(One(put("k", vec![b'v'; limits.value_bytes_max + 1])), own()),
        ];
        for commit in too_large {
            let result = engine.commit(commit).await;
            assert!(matches!(result, Err(CommitError::TooLarge { .. })), "{result:?}");
        }
        assert!(entries(engine.view().await.unwrap().as_ref(), everything()).await.is_empty());
        engine.commit(with(Many(most - 1, most), own())).await.unwrap();
    });
}

/// Writers race for a few values, each with its own rows: each value has one row, that of the
/// winner.
pub fn unique_value_has_one_row_under_races(make: Make<'_>) {
    run(async {
        let fixture = make();
        let mut tasks = JoinSet::new();
        for writer in 0..16_usize {
            let engine = fixture.engine.clone();
            tasks.spawn(async move {
                for round in 0..25_usize {
                    let value = format!("v{}", (writer * 7 + round * 3) % 20);
                    let writes = match round % 5 {
                        4 => vec![delete(row(writer.to_string()))],
                        _ => vec![put(row(writer.to_string()), value)],
                    };
                    let result = engine.commit(with(Unique, commit([], writes))).await;
                    let refused = matches!(result, Err(CommitError::Refused { index: 0, .. }));
                    assert!(result.is_ok() || refused, "{result:?}");
                }
            });
        }
        tasks.join_all().await;
        assert_unique(fixture.engine.as_ref()).await;
    });
}

/// Claims and rows mirror each other.
async fn assert_unique(engine: &dyn Engine) {
    let claims: BTreeMap<_, _> = below(engine, UNIQUE).await.into_iter().collect();
    let rows = below(engine, ROWS).await.into_iter();
    let rows: BTreeMap<_, _> =
        rows.map(|(name, value)| (value, [b"Lrow/", name.as_slice()].concat())).collect();
    assert_eq!(claims, rows);
}

/// Readers compare rows and index in one view while writers change both: they always agree.
pub fn index_never_differs_from_rows_under_races(make: Make<'_>) {
    run(async {
        let fixture = make();
        let mut writers = JoinSet::new();
        for writer in 0..8_usize {
            let engine = fixture.engine.clone();
            writers.spawn(async move {
                for round in 0..40_usize {
                    let name = row(((writer + round) % 5).to_string());
                    let write = match round % 4 {
                        0 | 1 => put(name, format!("{writer}-{round}")),
                        2 => modify(name, Append(b"+".to_vec())),
                        _ => delete(name),
                    };
                    let commit = with(ByValue, commit([], [write]));
                    settle(engine.as_ref(), commit).await.unwrap();
                }
            });
        }
        while !writers.is_empty() {
            while writers.try_join_next().is_some() {}
            assert_indexed(fixture.engine.as_ref()).await;
            tokio::task::yield_now().await;
        }
        assert_indexed(fixture.engine.as_ref()).await;
    });
}

/// The index by value holds exactly what follows from the rows of the same view.
pub(crate) async fn assert_indexed(engine: &dyn Engine) {
    let view = engine.view().await.unwrap();
    let rows = entries(view.as_ref(), KeyRange::prefix(key(ROWS).as_slice())).await;
    let index = entries(view.as_ref(), KeyRange::prefix(key(INDEX).as_slice())).await;
    let expected: BTreeMap<_, _> = rows
        .into_iter()
        .map(|(row, value, at)| {
            let entry = key([INDEX.as_bytes(), &value, b"/", &row].concat());
            (entry.as_slice().to_vec(), (row, at))
        })
        .collect();
    let index: BTreeMap<_, _> =
        index.into_iter().map(|(entry, row, at)| (entry, (row, at))).collect();
    assert_eq!(index, expected);
}

/// Replaying the feed gives the rows, and changes of one commit are adjacent.
pub fn feed_replays_to_the_rows_under_races(make: Make<'_>) {
    run(async {
        let fixture = make();
        let mut tasks = JoinSet::new();
        for writer in 0..8_usize {
            let engine = fixture.engine.clone();
            tasks.spawn(async move {
                for round in 0..25_usize {
                    let name = |n: usize| row(((writer + round + n) % 6).to_string());
                    let value = format!("{writer}-{round}");
                    let second =
                        if round % 3 == 0 { delete(name(1)) } else { put(name(1), &*value) };
                    let commit = commit([], [put(name(0), &*value), second]);
                    settle(engine.as_ref(), with(Feed, commit)).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        let mut replayed = BTreeMap::new();
        for (_, change) in below(fixture.engine.as_ref(), FEED).await {
            let at = change.iter().position(|byte| *byte == b'=').unwrap();
            let (row, value) = (change[b"Lrow/".len()..at].to_vec(), change[at + 1..].to_vec());
            match value.as_slice() {
                b"-" => replayed.remove(&row),
                _ => replayed.insert(row, value),
            };
        }
        let rows: BTreeMap<_, _> = below(fixture.engine.as_ref(), ROWS).await.into_iter().collect();
        assert_eq!(replayed, rows);
    });
}
