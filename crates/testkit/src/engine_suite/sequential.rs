//! Promises that a single caller can test.

use super::*;
use lazuli_engine::{ClockSource, Reclaimed};

pub fn view_sees_every_acknowledged_commit(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        for round in 0..100_u32 {
            let revision = write(engine, [put("k", round.to_be_bytes())]).await;
            let found = find(engine, "k").await.unwrap();
            assert_eq!(found, Found { value: round.to_be_bytes().to_vec().into(), revision });
        }
        write(engine, [delete("k")]).await;
        assert_eq!(find(engine, "k").await, None);
    });
}

pub fn kept_view_does_not_change(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        write(engine, [put("changed", "old"), put("deleted", "old")]).await;
        let view = engine.view().await.unwrap();
        let before = entries(view.as_ref(), everything()).await;
        write(engine, [put("changed", "new"), delete("deleted"), put("added", "new")]).await;
        assert_eq!(entries(view.as_ref(), everything()).await, before);
        let found = view.get(key("changed").as_slice()).await.unwrap().unwrap();
        assert_eq!(found.value, "old");
        assert_eq!(view.get(key("added").as_slice()).await.unwrap(), None);
    });
}

pub fn failed_check_names_its_index_and_what_was_found(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let there = write(engine, [put("there", "x")]).await;
        let holds = || [check("there", Expect::Present), check("missing", Expect::Absent)];
        let cases = [
            (check("there", Expect::Absent), Some(there)),
            (check("missing", Expect::Present), None),
            (check("there", Expect::At(Revision(there.0 + 1))), Some(there)),
            (check("missing", Expect::At(there)), None),
        ];
        for (failing, expected) in cases {
            let checks = holds().into_iter().chain([failing.clone()]);
            match engine.commit(commit(checks, [put("new", "x")])).await {
                Err(CommitError::CheckFailed { index: 2, found }) => assert_eq!(found, expected),
                other => panic!("{failing:?} answered {other:?}"),
            }
        }
        let checks = holds().into_iter().chain([check("there", Expect::At(there))]);
        engine.commit(commit(checks, [put("new", "x")])).await.unwrap();
        // A store may judge inserts by itself, in another order than the caller's (K-6.7).
        write(engine, [put("also", "x")]).await;
        let inserted = ["one", "there", "also"];
        let checks = inserted.map(|key| check(key, Expect::Absent));
        match engine.commit(commit(checks, inserted.map(|key| put(key, "x")))).await {
            Err(CommitError::CheckFailed { index: 1, found }) => assert_eq!(found, Some(there)),
            other => panic!("{other:?}"),
        }
    });
}

pub fn failed_check_writes_nothing(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        write(engine, [put("a", "old")]).await;
        let before = entries(engine.view().await.unwrap().as_ref(), everything()).await;
        let writes = [put("a", "new"), put("b", "new"), modify("c", Append(b"new".to_vec()))];
        let result = engine.commit(commit([check("b", Expect::Present)], writes)).await;
        assert!(is_check_failed(&result), "{result:?}");
        assert_eq!(entries(engine.view().await.unwrap().as_ref(), everything()).await, before);
    });
}

pub fn multi_get_answers_in_order(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        write(engine, [put("a", "1"), put("b", "2")]).await;
        let view = engine.view().await.unwrap();
        let keys = ["b", "missing", "a", "b"].map(key);
        let found = view.multi_get(&keys).await.unwrap();
        let values: Vec<_> = found.into_iter().map(|found| found.map(|f| f.value)).collect();
        assert_eq!(values, [Some("2".into()), None, Some("1".into()), Some("2".into())]);
        assert!(view.multi_get(&[]).await.unwrap().is_empty());
    });
}

pub fn empty_range_is_done_at_once(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        write(engine, [put("a", "1"), put("b", "2")]).await;
        let view = engine.view().await.unwrap();
        let ranges = [("La", "La"), ("Lb", "La"), ("Laa", "Lab"), ("Lx", "Ly"), ("", "")];
        for (start, end) in ranges {
            for direction in [Direction::Forward, Direction::Backward] {
                let range = KeyRange::new(start, end);
                let (shown, end) = page(view.as_ref(), range, direction, (1, 1)).await;
                assert!(shown.is_empty(), "{shown:?}");
                assert_eq!(end, ScanEnd::Done);
            }
        }
    });
}

pub fn scan_resumes_exactly_within_rows(make: Make<'_>) {
    check_resumption(make, [0, 1, 2, 3, 7, 99, 100, 101].map(|rows_max| (rows_max, usize::MAX)));
}

pub fn scan_resumes_exactly_within_bytes(make: Make<'_>) {
    check_resumption(make, [0, 1, 50, 333, 10_000].map(|bytes_max| (usize::MAX, bytes_max)));
}

/// Keys that are as close together as possible, and their neighbours outside the range.
fn check_resumption(make: Make<'_>, bounds: impl IntoIterator<Item = (usize, usize)>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let inside = (0..100).map(|n| put([b"m", vec![0; n].as_slice()].concat(), vec![b'v'; 10]));
        write(engine, inside.chain([put("l", "x"), put("n", "x")])).await;
        let view = engine.view().await.unwrap();
        let range = KeyRange::prefix(b"Lm");
        let forward = entries(view.as_ref(), range.clone()).await;
        assert_eq!(forward.len(), 100);
        let backward: Vec<Entry> = forward.iter().rev().cloned().collect();
        for bounds in bounds {
            for (direction, expected) in
                [(Direction::Forward, &forward), (Direction::Backward, &backward)]
            {
                let shown = collect(view.as_ref(), range.clone(), direction, bounds).await;
                assert_eq!(&shown, expected, "within {bounds:?}");
            }
        }
    });
}

/// A range in as many scans as needed. Each must respect its bounds and make progress.
pub(crate) async fn collect(
    view: &dyn View,
    mut range: KeyRange,
    direction: Direction,
    bounds: (usize, usize),
) -> Vec<Entry> {
    let mut all = Vec::new();
    loop {
        let (shown, end) = page(view, range, direction, bounds).await;
        assert!(shown.len() <= bounds.0.max(1));
        let bytes =
            |entries: &[Entry]| entries.iter().map(|e| e.0.len() + e.1.len()).sum::<usize>();
        if let Some((_, but_last)) = shown.split_last() {
            assert!(but_last.is_empty() || bytes(but_last) < bounds.1);
        }
        let progress = !shown.is_empty();
        all.extend(shown);
        match end {
            ScanEnd::Done => return all,
            ScanEnd::More(rest) if progress => range = rest,
            other => panic!("{other:?} without progress"),
        }
    }
}

pub fn scan_that_shows_all_is_done(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        write(engine, ["a", "b", "c"].map(|text| put(text, "v"))).await;
        let view = engine.view().await.unwrap();
        for direction in [Direction::Forward, Direction::Backward] {
            let (shown, end) = page(view.as_ref(), everything(), direction, (3, usize::MAX)).await;
            assert_eq!((shown.len(), end), (3, ScanEnd::Done));
        }
    });
}

pub fn stopped_scan_shows_nothing_more(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        write(engine, ["a", "b", "c"].map(|text| put(text, "v"))).await;
        let view = engine.view().await.unwrap();
        for (direction, expected) in
            [(Direction::Forward, ["La", "Lb"]), (Direction::Backward, ["Lc", "Lb"])]
        {
            let mut shown = Vec::new();
            let scan = Scan {
                range: everything(),
                direction,
                rows_max: 9,
                bytes_max: usize::MAX,
                rows_expected: 9,
            };
            let end = view
                .scan(scan, &mut |key, _, _| {
                    shown.push(String::from_utf8(key.to_vec()).unwrap());
                    if shown.len() == 2 { Visit::StopBefore } else { Visit::Continue }
                })
                .await;
            assert_eq!(end.unwrap(), ScanEnd::Stopped);
            assert_eq!(shown, expected);
        }
    });
}

pub fn revisions_increase_when_the_clock_steps_back(make: Make<'_>) {
    run(async {
        let fixture = make();
        let mut last = Revision(0);
        for clock in [1000, 1000, 999, 1, 0, 5000, 4999, 5000] {
            let commit = Commit { not_before: Revision(clock), ..commit([], [put("k", "v")]) };
            let revision = fixture.engine.commit(commit).await.unwrap();
            assert!(revision > last, "{revision:?} after {last:?}");
            last = revision;
        }
    });
}

pub fn revisions_increase_across_deletion(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let first = Commit { not_before: Revision(1000), ..commit([], [put("k", "v")]) };
        let mut last = engine.commit(first).await.unwrap();
        for _ in 0..10 {
            let deleted = write(engine, [delete("k")]).await;
            let written = write(engine, [put("k", "v")]).await;
            assert!(last < deleted && deleted < written);
            last = written;
        }
    });
}

/// K-3.1: for engines that use the caller's clock. K-2.5: gateways whose clocks are 10 s apart take turns.
/// An engine with its own clock ignores theirs.
pub fn revisions_increase_for_callers_with_different_clocks(make: Make<'_>) {
    const TEN_SECONDS: u64 = 100_000_000;
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let first = write(engine, [put("k", "v")]).await;
        let mut last = first;
        for round in 0..20 {
            let wrong = if round % 2 == 0 { last.0 + TEN_SECONDS } else { last.0 / 2 };
            let commit = Commit { not_before: Revision(wrong), ..commit([], [put("k", "v")]) };
            let revision = engine.commit(commit).await.unwrap();
            assert!(revision > last, "{revision:?} after {last:?}");
            last = revision;
        }
        let followed = last.0 - first.0 >= 10 * TEN_SECONDS;
        assert_eq!(followed, engine.nature().clock == ClockSource::Caller);
    });
}

pub fn revision_does_not_lie_before_the_clock(make: Make<'_>) {
    run(async {
        let fixture = make();
        if fixture.engine.nature().clock == ClockSource::Store {
            return;
        }
        for clock in [10, 1_000_000, 999_999_999_999] {
            let commit = Commit { not_before: Revision(clock), ..commit([], [put("k", "v")]) };
            let revision = fixture.engine.commit(commit).await.unwrap();
            assert!(revision >= Revision(clock));
            assert_eq!(find(fixture.engine.as_ref(), "k").await.unwrap().revision, revision);
        }
    });
}

pub fn refused_modify_leaves_nothing(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        write(engine, [put("a", "old"), put("b", "old")]).await;
        let before = entries(engine.view().await.unwrap().as_ref(), everything()).await;
        let writes = [put("a", "new"), put("c", "new"), modify("b", Refuse), delete("a")];
        match engine.commit(commit([], writes)).await {
            Err(CommitError::Refused { index: 2, reason }) => {
                assert_eq!(reason.to_string(), "refused");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(entries(engine.view().await.unwrap().as_ref(), everything()).await, before);
    });
}

pub fn modify_sees_value_before_the_commit(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        write(engine, [modify("k", Append(b"a".to_vec()))]).await;
        assert_eq!(value(engine, "k").await.unwrap(), "a");
        write(engine, [modify("k", Append(b"b".to_vec()))]).await;
        assert_eq!(value(engine, "k").await.unwrap(), "ab");
        write(engine, [delete("k")]).await;
        write(engine, [modify("k", Append(b"c".to_vec()))]).await;
        assert_eq!(value(engine, "k").await.unwrap(), "c");
    });
}

pub fn too_large_is_refused(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let limits = engine.limits();
        let long_key = vec![b'k'; limits.key_bytes_max];
        let long_value = vec![b'v'; limits.value_bytes_max + 1];
        let many = |n: usize| (0..n).map(|n| n.to_string());
        let too_large = [
            commit([], [put(&long_key, "v")]),
            commit([], [delete(&long_key)]),
            commit([check(&long_key, Expect::Absent)], []),
            commit([], [put("k", long_value.clone())]),
            commit([], [modify("k", Append(long_value))]),
            commit([], many(limits.commit_writes_max + 1).map(|n| put(n, "v"))),
            commit(many(limits.commit_writes_max + 1).map(|n| check(n, Expect::Absent)), []),
        ];
        for commit in too_large {
            let result = engine.commit(commit).await;
            assert!(matches!(result, Err(CommitError::TooLarge { .. })), "{result:?}");
        }
        assert!(entries(engine.view().await.unwrap().as_ref(), everything()).await.is_empty());
        let largest_key = &long_key[1..];
        let largest_value = vec![b'v'; limits.value_bytes_max];
        write(engine, [put(largest_key, largest_value.clone())]).await;
        assert_eq!(value(engine, largest_key).await.unwrap(), largest_value);
    });
}

pub fn reclaim_empties_the_range_and_nothing_else(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        for chunk in 0..30 {
            let inside = (0..1000).map(|n| put(format!("m{chunk:02}{n:03}"), vec![b'v'; 100]));
            write(engine, inside).await;
        }
        write(engine, [put("l\u{ff}", "before"), put("n", "after")]).await;
        let range = KeyRange::prefix(b"Lm");
        for _ in 0..2 {
            while engine.reclaim(range.clone()).await.unwrap() == Reclaimed::Partly {}
            let view = engine.view().await.unwrap();
            assert!(entries(view.as_ref(), range.clone()).await.is_empty());
        }
        assert_eq!(value(engine, "l\u{ff}").await.unwrap(), "before");
        assert_eq!(value(engine, "n").await.unwrap(), "after");
    });
}

pub fn reclaim_of_nothing_is_full(make: Make<'_>) {
    run(async {
        let fixture = make();
        for range in [KeyRange::prefix(b"Lnone"), KeyRange::new("b", "a"), KeyRange::new("", "")] {
            assert_eq!(fixture.engine.reclaim(range).await.unwrap(), Reclaimed::Fully);
        }
    });
}

/// K-3.5: a view may take its snapshot at its first read, but not before it was opened.
pub fn lazy_view_sees_what_was_acknowledged_before_it(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let early = engine.view().await.unwrap();
        write(engine, [put("a", "1")]).await;
        let view = engine.view().await.unwrap();
        assert_eq!(view.get(key("a").as_slice()).await.unwrap().unwrap().value, "1");
        write(engine, [put("a", "2"), put("b", "2")]).await;
        let found = view.multi_get(&["a", "b"].map(key)).await.unwrap();
        let values: Vec<_> = found.into_iter().map(|found| found.map(|f| f.value)).collect();
        assert_eq!(values, [Some("1".into()), None]);
        // Whichever moment it chose, it keeps it.
        let seen = entries(early.as_ref(), everything()).await;
        write(engine, [put("c", "3")]).await;
        assert_eq!(entries(early.as_ref(), everything()).await, seen);
    });
}

/// Rows of very different sizes are shown up to the limit and not beyond, whatever an engine prefetches.
pub fn wide_scan_stays_within_its_bytes(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        for n in 0..40 {
            let size = if n % 8 == 7 { 300_000 } else { 10 };
            write(engine, [put(format!("{n:02}"), vec![b'v'; size])]).await;
        }
        let view = engine.view().await.unwrap();
        let forward = entries(view.as_ref(), everything()).await;
        let backward: Vec<Entry> = forward.iter().rev().cloned().collect();
        for bytes_max in [1, 299_000, 301_000, 700_000] {
            let bounds = (1000, bytes_max);
            let shown = collect(view.as_ref(), everything(), Direction::Forward, bounds).await;
            assert!(shown == forward, "within {bytes_max}");
            let shown = collect(view.as_ref(), everything(), Direction::Backward, bounds).await;
            assert!(shown == backward, "backward within {bytes_max}");
        }
    });
}

/// Keys that differ only beyond what a store may index (K-7.0), as keys of the services can.
pub fn keys_that_begin_alike_for_long_are_in_order(make: Make<'_>) {
    run(async {
        let fixture = make();
        let engine = fixture.engine.as_ref();
        let long = |length: usize, rest: &str| [&vec![b'm'; length][..], rest.as_bytes()].concat();
        let mut texts = vec![b"a".to_vec(), b"z".to_vec()];
        for length in [1998, 1999, 2000, 2001, 3000] {
            texts.extend(["", "a", "b", "c", "mb", "z"].map(|rest| long(length, rest)));
        }
        texts.sort();
        texts.dedup();
        // In a different order from that of the keys.
        for text in texts.iter().rev().step_by(2).chain(texts.iter().rev().skip(1).step_by(2)) {
            write(engine, [put(text, text.as_slice())]).await;
        }
        let expected: Vec<_> = texts.iter().map(|text| key(text).as_slice().to_vec()).collect();
        let view = engine.view().await.unwrap();
        for bounds in [(1, usize::MAX), (3, usize::MAX), (1000, usize::MAX), (1000, 5000)] {
            let names = |shown: Vec<Entry>| shown.into_iter().map(|e| e.0).collect::<Vec<_>>();
            let shown = collect(view.as_ref(), everything(), Direction::Forward, bounds).await;
            assert!(names(shown) == expected, "within {bounds:?}");
            let shown = collect(view.as_ref(), everything(), Direction::Backward, bounds).await;
            assert!(names(shown).into_iter().rev().eq(expected.iter().cloned()), "{bounds:?}");
        }
        let (from, to) = (key(long(2000, "a")), key(long(2000, "c")));
        let range = KeyRange::new(from.as_slice(), to.as_slice());
        let part = entries(view.as_ref(), range.clone()).await;
        let inside = expected.iter().filter(|key| range.contains(key));
        assert!(part.iter().map(|entry| &entry.0).eq(inside));
        let keys: Vec<Key> = texts.iter().map(key).collect();
        let found = engine.read(&keys).await.unwrap();
        let values = found.iter().map(|found| found.as_ref().map(|found| found.value.to_vec()));
        assert!(values.eq(texts.iter().cloned().map(Some)));
        let swap = |text: &Vec<u8>| put(text, "new");
        write(engine, texts.iter().map(swap)).await;
        write(engine, [delete(long(2000, "b"))]).await;
        assert_eq!(find(engine, long(2000, "b")).await, None);
        assert_eq!(value(engine, long(2000, "c")).await.unwrap(), "new");
        while engine.reclaim(range.clone()).await.unwrap() == Reclaimed::Partly {}
        assert_eq!(find(engine, long(2000, "a")).await, None);
        assert!(find(engine, long(2000, "c")).await.is_some());
    });
}
