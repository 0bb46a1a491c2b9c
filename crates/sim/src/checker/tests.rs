//! The checker accepts correct histories and rejects wrong ones: each test is a handwritten
//! history.

use super::*;
use crate::history::{Change, ChangeKind, Condition, EntityId, Refusal, Scan, Slots, Span, Stored};

const X: EntityId = EntityId::new(0, 1);
const Y: EntityId = EntityId::new(0, 2);
const ELSEWHERE: EntityId = EntityId::new(1, 1);

fn slots(a: u32) -> Slots {
    [Some(a), None, None]
}

fn change(entity: EntityId, kind: ChangeKind, a: u32) -> Change {
    Change { entity, kind, slots: slots(a) }
}

fn insert(entity: EntityId, a: u32) -> Request {
    Request::Change(change(entity, ChangeKind::Insert, a))
}

fn upsert(entity: EntityId, a: u32) -> Request {
    Request::Change(change(entity, ChangeKind::InsertOrReplace, a))
}

fn replace_at(entity: EntityId, version: u64, a: u32) -> Request {
    Request::Change(change(entity, ChangeKind::Replace(Condition::At(version)), a))
}

fn delete(entity: EntityId) -> Request {
    Request::Change(change(entity, ChangeKind::Delete(Condition::Any), 0))
}

fn both(a: u32) -> Request {
    let kind = ChangeKind::InsertOrReplace;
    Request::Batch(vec![change(X, kind, a), change(Y, kind, a)])
}

fn scan() -> Request {
    Request::Scan(Scan { partition: Some(0), from: None, top: 10, value: None })
}

fn written(version: u64) -> Response {
    Response::Written(Some(version))
}

fn found(version: u64, a: u32) -> Response {
    Response::Entity(Some(Stored { version, slots: slots(a) }))
}

fn page(entities: &[(EntityId, u64, u32)], next: Option<EntityId>) -> Response {
    let stored = |(id, version, a): &(EntityId, u64, u32)| {
        (*id, Stored { version: *version, slots: slots(*a) })
    };
    Response::Page { entities: entities.iter().map(stored).collect(), next }
}

const EXISTS: Response = Response::Refused { index: 0, reason: Refusal::EntityAlreadyExists };
const MISSING: Response = Response::Refused { index: 0, reason: Refusal::EntityNotFound };
const UNMET: Response = Response::Refused { index: 0, reason: Refusal::ConditionNotMet };
const NOTHING: Response = Response::Entity(None);

/// A history of calls, each from one moment to another.
fn history(calls: &[(u64, u64, Request, Response)]) -> Vec<Call> {
    let call = |(client, (invoked, answered, request, response)): (usize, &(u64, u64, _, _))| {
        let (request, response) = (Request::clone(request), Response::clone(response));
        Call { client, request, response, invoked: *invoked, answered: *answered, span: Span::ALL }
    };
    calls.iter().enumerate().map(call).collect()
}

#[track_caller]
fn good(calls: &[(u64, u64, Request, Response)]) {
    let verdict = check(&Table::created(), &history(calls));
    assert!(matches!(verdict, Verdict::Linearizable), "{verdict:?}");
}

#[track_caller]
fn bad(calls: &[(u64, u64, Request, Response)]) {
    let verdict = check(&Table::created(), &history(calls));
    assert!(matches!(verdict, Verdict::Violation(_)), "{verdict:?}");
}

#[test]
fn one_after_the_other_is_good() {
    good(&[
        (1, 2, insert(X, 1), written(10)),
        (3, 4, Request::Get(X), found(10, 1)),
        (5, 6, replace_at(X, 10, 2), written(20)),
        (7, 8, replace_at(X, 10, 3), UNMET),
        (9, 10, insert(X, 4), EXISTS),
        (11, 12, delete(X), Response::Written(None)),
        (13, 14, Request::Get(X), NOTHING),
        (15, 16, delete(X), MISSING),
        (17, 18, insert(X, 5), written(30)),
    ]);
}

#[test]
fn calls_at_once_may_take_effect_in_either_order() {
    for seen in [found(10, 1), found(20, 2)] {
        good(&[
            (1, 10, upsert(X, 1), written(10)),
            (2, 11, upsert(X, 2), written(20)),
            (3, 9, Request::Get(X), seen),
        ]);
    }
    good(&[(1, 10, upsert(X, 1), written(10)), (2, 3, Request::Get(X), NOTHING)]);
}

/// The order that the invocations suggest is not the one that explains the responses.
#[test]
fn the_search_turns_back() {
    good(&[
        (1, 20, upsert(X, 1), written(30)),
        (2, 19, upsert(X, 2), written(10)),
        (3, 18, upsert(X, 3), written(20)),
        (21, 22, Request::Get(X), found(30, 1)),
    ]);
}

#[test]
fn a_lost_update_is_noticed() {
    // Both replaced the version that both had read: one of them is lost.
    bad(&[
        (1, 2, insert(X, 1), written(10)),
        (3, 8, replace_at(X, 10, 2), written(20)),
        (4, 9, replace_at(X, 10, 3), written(30)),
    ]);
    // An acknowledged write that no one sees.
    bad(&[
        (1, 2, upsert(X, 1), written(10)),
        (3, 4, upsert(X, 2), written(20)),
        (5, 6, Request::Get(X), found(10, 1)),
    ]);
    bad(&[(1, 2, insert(X, 1), written(10)), (3, 4, Request::Get(X), NOTHING)]);
}

#[test]
fn a_stale_read_is_noticed() {
    let old = (7, 8, Request::Get(X), found(10, 1));
    bad(&[
        (1, 2, upsert(X, 1), written(10)),
        (3, 20, upsert(X, 2), written(20)),
        // The new state was seen, so no one may see the old one any more.
        (5, 6, Request::Get(X), found(20, 2)),
        old.clone(),
    ]);
    good(&[
        (1, 2, upsert(X, 1), written(10)),
        (3, 20, upsert(X, 2), written(20)),
        old,
        (9, 10, Request::Get(X), found(20, 2)),
    ]);
}

#[test]
fn half_a_batch_is_noticed() {
    let before = [(1, 2, both(1), written(10)), (3, 20, both(2), written(20))];
    let with = |more: &[(u64, u64, Request, Response)]| [&before, more].concat();
    good(&with(&[(5, 6, scan(), page(&[(X, 10, 1), (Y, 10, 1)], None))]));
    good(&with(&[(5, 6, scan(), page(&[(X, 20, 2), (Y, 20, 2)], None))]));
    bad(&with(&[(5, 6, scan(), page(&[(X, 20, 2), (Y, 10, 1)], None))]));
    bad(&with(&[(5, 6, scan(), page(&[(X, 20, 2)], None))]));
    // Two point reads are not one snapshot, but they are ordered.
    bad(&with(&[(5, 6, Request::Get(X), found(20, 2)), (7, 8, Request::Get(Y), found(10, 1))]));
    // A refused batch has done nothing, not even its first half.
    let kind = ChangeKind::Insert;
    let refused = Response::Refused { index: 1, reason: Refusal::EntityAlreadyExists };
    let half = Request::Batch(vec![change(X, kind, 7), change(Y, kind, 7)]);
    good(&[
        (1, 2, insert(Y, 1), written(10)),
        (3, 4, half.clone(), refused.clone()),
        (5, 6, Request::Get(X), NOTHING),
    ]);
    bad(&[
        (1, 2, insert(Y, 1), written(10)),
        (3, 4, half, refused),
        (5, 6, Request::Get(X), found(20, 7)),
    ]);
}

#[test]
fn a_batch_blames_the_first_change_that_fails() {
    let kind = ChangeKind::Insert;
    let batch = Request::Batch(vec![change(X, kind, 7), change(Y, kind, 7)]);
    let blames = |index| Response::Refused { index, reason: Refusal::EntityAlreadyExists };
    good(&[(1, 2, insert(X, 1), written(10)), (3, 4, batch.clone(), blames(0))]);
    bad(&[(1, 2, insert(X, 1), written(10)), (3, 4, batch, blames(1))]);
}

#[test]
fn two_winners_of_one_insert_are_noticed() {
    good(&[(1, 8, insert(X, 1), written(10)), (2, 9, insert(X, 2), EXISTS)]);
    bad(&[(1, 8, insert(X, 1), written(10)), (2, 9, insert(X, 2), written(20))]);
    bad(&[(1, 8, insert(X, 1), EXISTS), (2, 9, insert(X, 2), EXISTS)]);
}

#[test]
fn a_phantom_after_a_delete_is_noticed() {
    let before = [(1, 2, insert(X, 1), written(10)), (3, 4, delete(X), Response::Written(None))];
    let with = |more: (u64, u64, Request, Response)| [&before[..], &[more]].concat();
    bad(&with((5, 6, Request::Get(X), found(10, 1))));
    bad(&with((5, 6, scan(), page(&[(X, 10, 1)], None))));
    bad(&with((5, 6, insert(X, 2), EXISTS)));
    bad(&with((5, 6, delete(X), Response::Written(None))));
    good(&with((5, 6, insert(X, 2), written(20))));
}

#[test]
fn versions_only_grow() {
    bad(&[(1, 2, upsert(X, 1), written(10)), (3, 4, upsert(X, 2), written(9))]);
    bad(&[(1, 2, upsert(X, 1), written(10)), (3, 4, upsert(X, 2), written(10))]);
    bad(&[
        (1, 2, insert(X, 1), written(10)),
        (3, 4, delete(X), Response::Written(None)),
        (5, 6, insert(X, 2), written(10)),
    ]);
    // Versions of other entities need not increase.
    good(&[(1, 2, upsert(X, 1), written(10)), (3, 4, upsert(Y, 2), written(9))]);
}

#[test]
fn a_merge_keeps_what_it_does_not_name() {
    let kind = ChangeKind::Merge(Condition::Any);
    let merge = Change { entity: X, kind, slots: [None, Some(2), None] };
    let show = |slots| Response::Entity(Some(Stored { version: 20, slots }));
    let before = [(1, 2, insert(X, 1), written(10)), (3, 4, Request::Change(merge), written(20))];
    let with = |slots| [&before[..], &[(5, 6, Request::Get(X), show(slots))]].concat();
    good(&with([Some(1), Some(2), None]));
    bad(&with([None, Some(2), None]));
    bad(&with([Some(1), None, None]));
}

#[test]
fn a_write_of_unknown_outcome_happened_or_not() {
    let lost = (3, 0, upsert(X, 2), Response::Unknown);
    let before = [(1, 2, upsert(X, 1), written(10)), lost];
    let with = |more: &[(u64, u64, Request, Response)]| [&before[..], more].concat();
    let old = |at: u64| (at, at + 1, Request::Get(X), found(10, 1));
    let new = |at: u64| (at, at + 1, Request::Get(X), found(20, 2));
    good(&with(&[old(5)]));
    good(&with(&[new(5)]));
    // It may happen long after.
    good(&with(&[old(5), new(7)]));
    bad(&with(&[new(5), old(7)]));
    // It cannot have happened before it was sent, nor twice.
    bad(&[(1, 2, Request::Get(X), found(20, 2)), (3, 0, upsert(X, 2), Response::Unknown)]);
    bad(&with(&[new(5), (7, 8, upsert(X, 3), written(30)), new(9)]));
    // A client that saw its version may build on it; no one sees two of them.
    good(&with(&[new(5), (7, 8, replace_at(X, 20, 3), written(30))]));
    bad(&with(&[new(5), (7, 8, Request::Get(X), found(21, 2))]));
    good(&with(&[(5, 6, replace_at(X, 10, 3), UNMET)]));
}

/// All entities of a batch have one version, even if its response was lost.
#[test]
fn a_batch_of_unknown_outcome_has_one_version() {
    let lost = (1, 0, both(2), Response::Unknown);
    good(&[lost.clone(), (3, 4, scan(), page(&[(X, 20, 2), (Y, 20, 2)], None))]);
    bad(&[lost.clone(), (3, 4, scan(), page(&[(X, 20, 2), (Y, 21, 2)], None))]);
    bad(&[lost, (3, 4, scan(), page(&[(X, 20, 2)], None))]);
}

#[test]
fn what_was_not_done_is_not_seen() {
    good(&[(1, 2, insert(X, 1), Response::NotDone), (3, 4, Request::Get(X), NOTHING)]);
    bad(&[(1, 2, insert(X, 1), Response::NotDone), (3, 4, Request::Get(X), found(10, 1))]);
}

#[test]
fn a_page_shows_a_state_the_partition_had() {
    let before = [
        (1, 2, insert(X, 1), written(10)),
        (3, 4, insert(Y, 2), written(20)),
        (5, 6, insert(ELSEWHERE, 3), written(30)),
    ];
    let with =
        |scan: Scan, response| [&before[..], &[(7, 8, Request::Scan(scan), response)]].concat();
    let all = Scan { partition: None, from: None, top: 10, value: None };
    let whole = [(X, 10, 1), (Y, 20, 2), (ELSEWHERE, 30, 3)];
    good(&with(all, page(&whole, None)));
    bad(&with(all, page(&whole[..2], None)));
    let first = Scan { top: 1, ..all };
    good(&with(first, page(&whole[..1], Some(Y))));
    bad(&with(first, page(&whole[..1], None)));
    bad(&with(first, page(&whole[..1], Some(ELSEWHERE))));
    bad(&with(first, page(&whole[..2], Some(ELSEWHERE))));
    let rest = Scan { partition: Some(0), from: Some(Y), top: 5, value: None };
    good(&with(rest, page(&whole[1..2], None)));
    bad(&with(rest, page(&whole[..2], None)));
}

/// One page over several partitions is one snapshot of all of them.
#[test]
fn a_page_over_partitions_is_one_snapshot() {
    let all = Request::Scan(Scan { partition: None, from: None, top: 10, value: None });
    let torn = page(&[(ELSEWHERE, 20, 2)], None);
    bad(&[
        (1, 2, insert(X, 1), written(10)),
        (3, 4, insert(ELSEWHERE, 2), written(20)),
        (0, 9, all, torn),
    ]);
}

#[test]
fn a_dropped_table_takes_its_entities_along() {
    let drop = |from, to| (from, to, Request::DeleteTable, Response::TableDeleted);
    let create = |from, to| (from, to, Request::CreateTable, Response::TableCreated);
    good(&[
        (1, 2, insert(X, 1), written(10)),
        drop(3, 4),
        (5, 6, Request::Get(X), Response::TableNotFound),
        create(7, 8),
        (9, 10, Request::Get(X), NOTHING),
        (11, 12, insert(X, 2), written(20)),
    ]);
    // An insert that was acknowledged although its table was gone.
    bad(&[drop(1, 2), (3, 4, insert(X, 1), written(10))]);
    // One that slipped past the drop into the new table.
    bad(&[
        (1, 2, insert(X, 1), written(10)),
        drop(3, 4),
        create(5, 6),
        (7, 8, Request::Get(X), found(10, 1)),
    ]);
    bad(&[create(1, 2)]);
    bad(&[(1, 2, Request::Get(X), Response::TableNotFound)]);
    good(&[(1, 9, Request::DeleteTable, Response::Unknown), (3, 4, Request::Get(X), NOTHING)]);
}

/// Twelve clients at once, with responses in every order: the search must stay small.
#[test]
fn many_calls_at_once_are_checked_in_time() {
    let mut calls = Vec::new();
    for number in 0..12_u32 {
        let (version, base) = (u64::from(number) + 1, 100);
        calls.push((
            u64::from(number),
            base + 12 - u64::from(number),
            upsert(X, number),
            written(version),
        ));
    }
    calls.push((200, 201, Request::Get(X), found(12, 11)));
    good(&calls);
    calls.push((202, 203, Request::Get(X), found(11, 10)));
    bad(&calls);
}

#[test]
fn a_violation_tells_what_cannot_be_explained() {
    let calls = history(&[(1, 2, insert(X, 1), written(10)), (3, 4, Request::Get(X), NOTHING)]);
    let Verdict::Violation(violation) = check(&Table::created(), &calls) else { panic!() };
    let text = violation.to_string();
    assert!(text.contains("[3..4] client 1: Get"), "{text}");
}

/// a table whose entities live 100 ticks, with calls at given clock times.
fn expiring(calls: &[(u64, u64, Request, Response)]) -> Verdict {
    // Each call ends at the time at which it was invoked.
    let at = |call: Call| Call { span: Span { from: call.invoked, to: call.invoked }, ..call };
    let calls: Vec<Call> = history(calls).into_iter().map(at).collect();
    check(&Table::created().with_life(100), &calls)
}

#[track_caller]
fn good_expiring(calls: &[(u64, u64, Request, Response)]) {
    let verdict = expiring(calls);
    assert!(matches!(verdict, Verdict::Linearizable), "{verdict:?}");
}

#[track_caller]
fn bad_expiring(calls: &[(u64, u64, Request, Response)]) {
    let verdict = expiring(calls);
    assert!(matches!(verdict, Verdict::Violation(_)), "{verdict:?}");
}

#[test]
fn an_expired_entity_is_gone() {
    let first = (10, 11, insert(X, 1), written(10));
    good_expiring(&[first.clone(), (109, 110, Request::Get(X), found(10, 1))]);
    bad_expiring(&[first.clone(), (110, 111, Request::Get(X), found(10, 1))]);
    bad_expiring(&[first.clone(), (109, 110, Request::Get(X), NOTHING)]);
    good_expiring(&[first.clone(), (110, 111, scan(), page(&[], None))]);
    bad_expiring(&[first.clone(), (110, 111, scan(), page(&[(X, 10, 1)], None))]);
    good_expiring(&[first.clone(), (110, 111, insert(X, 2), written(110))]);
    bad_expiring(&[first.clone(), (110, 111, insert(X, 2), EXISTS)]);
    good_expiring(&[first.clone(), (110, 111, replace_at(X, 10, 2), MISSING)]);
    bad_expiring(&[first.clone(), (110, 111, replace_at(X, 10, 2), written(110))]);
    bad_expiring(&[first, (110, 111, delete(X), Response::Written(None))]);
}

#[test]
fn a_merge_into_an_expired_entity_begins_anew() {
    let set = |kind, slots| Request::Change(Change { entity: X, kind, slots });
    let first = (10, 11, set(ChangeKind::Insert, [Some(1), None, None]), written(10));
    let merge = |at| {
        let merge = set(ChangeKind::InsertOrMerge, [None, Some(2), None]);
        (at, at + 1, merge, written(at))
    };
    let shown = |at, version, a| {
        let stored = Stored { version, slots: [a, Some(2), None] };
        (at, at + 1, Request::Get(X), Response::Entity(Some(stored)))
    };
    good_expiring(&[first.clone(), merge(50), shown(140, 50, Some(1))]);
    good_expiring(&[first.clone(), merge(110), shown(120, 110, None)]);
    bad_expiring(&[first, merge(110), shown(120, 110, Some(1))]);
}
