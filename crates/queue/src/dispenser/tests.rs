use super::*;
use lazuli_engine::CommitError;
use lazuli_layout::QueueId;
use lazuli_layout::queue::StoredText;
use lazuli_model::{MessageId, MessageText};

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_seconds(seconds)
}

fn position(seconds: u64) -> Position {
    Position { next_visible: at(seconds), id: MessageId::new(at(seconds), seconds) }
}

fn record(seconds: u64) -> MessageRecord {
    MessageRecord {
        inserted: at(seconds),
        expires: at(10_000),
        dequeue_count: 0,
        voided: Vec::new(),
        text: StoredText::Inline(MessageText::default()),
    }
}

fn taken(seconds: u64) -> Taken {
    let stored = Stored { record: record(seconds), revision: Revision(seconds) };
    Taken { position: position(seconds), stored }
}

fn dispenser() -> Arc<Dispenser> {
    dispenser_within(QueueBounds::default())
}

fn dispenser_within(bounds: QueueBounds) -> Arc<Dispenser> {
    let generation = Generation { queue: QueueId(1), epoch: 0 };
    Arc::new(Dispenser::new(generation, Arc::new(BufferMemory::new(bounds)), Arc::new(|| 0)))
}

fn refill(dispenser: &Arc<Dispenser>, now: u64, found: &[u64]) {
    let found = found.iter().map(|seconds| taken(*seconds)).collect();
    finish(dispenser, dispenser.begin_refill(at(now)), found, None);
}

/// Finishes a scan without a waiting request.
fn finish(
    dispenser: &Arc<Dispenser>,
    refill: Refill<'_>,
    found: Vec<Taken>,
    reached: Option<Position>,
) {
    refill.finish(found, reached, &mut dispenser.claim(0, at(0)), 0);
}

fn claimed(claim: &Claim) -> Vec<Timestamp> {
    claim.taken().iter().map(|taken| taken.position.next_visible).collect()
}

fn send(dispenser: &Arc<Dispenser>, seconds: u64, clock: u64) -> Sending {
    let written = vec![(position(seconds), record(seconds))];
    Sending::new(dispenser, written, Some(Delta::Added(at(10_000))), at(clock))
}

#[test]
fn claims_share_nothing_and_come_in_order() {
    let dispenser = dispenser();
    refill(&dispenser, 9, &[1, 2, 3, 4]);
    let first = dispenser.claim(2, at(9));
    let second = dispenser.claim(9, at(9));
    assert_eq!((claimed(&first), claimed(&second)), (vec![at(1), at(2)], vec![at(3), at(4)]));
    assert_eq!(dispenser.floor(), position(1));
    first.delivered();
    assert_eq!(dispenser.floor(), position(3));
}

#[test]
fn a_dropped_claim_goes_back_without_what_was_stale() {
    let dispenser = dispenser();
    refill(&dispenser, 9, &[1, 2, 3]);
    let mut claim = dispenser.claim(3, at(9));
    claim.forget(1);
    drop(claim);
    assert_eq!(claimed(&dispenser.claim(9, at(9))), [at(1), at(3)]);
}

/// A commit of unknown outcome had written a message; a scan found it, and a get claimed it. Then the
/// same get looked the message up, needed more, and claimed it again: one commit delivered it, but the
/// answer showed it twice.
#[test]
fn a_claimed_message_that_is_looked_up_is_not_claimed_again() {
    let dispenser = dispenser();
    drop(send(&dispenser, 5, 0));
    refill(&dispenser, 9, &[5]);
    let mut claim = dispenser.claim(2, at(9));
    dispenser.looked_up(position(5), Some(taken(5).stored), at(9));
    claim.top_up(2, at(9));
    assert_eq!(claimed(&claim), [at(5)]);
    drop(claim);
    assert_eq!(claimed(&dispenser.claim(9, at(9))), [at(5)]);
}

#[test]
fn what_is_invisible_or_expired_is_not_claimed() {
    let dispenser = dispenser();
    refill(&dispenser, 9, &[1, 8]);
    assert_eq!(claimed(&dispenser.claim(9, at(7))), [at(1)]);
    assert!(dispenser.claim(9, at(10_000)).taken().is_empty());
}

#[test]
fn a_scan_goes_on_where_the_last_one_ended() {
    let dispenser = dispenser();
    refill(&dispenser, 9, &[]);
    let next = dispenser.begin_refill(at(20));
    assert_eq!(next.start, Position::first_at(next_tick(at(9))));
    finish(&dispenser, next, Vec::new(), Some(position(15)));
    assert_eq!(dispenser.begin_refill(at(20)).start, position(15));
    // That scan was dropped before it finished.
    assert_eq!(dispenser.begin_refill(at(20)).start, position(15));
}

#[test]
fn the_floor_stays_where_a_scan_began_until_it_has_ended() {
    let dispenser = dispenser();
    refill(&dispenser, 9, &[]);
    let start = Position::first_at(next_tick(at(9)));
    let scan = dispenser.begin_refill(at(20));
    assert_eq!(dispenser.floor(), start);
    finish(&dispenser, scan, vec![taken(15)], None);
    assert_eq!(dispenser.floor(), position(15));
}

#[test]
fn a_message_written_during_a_scan_is_handed_over() {
    let dispenser = dispenser();
    let sending = send(&dispenser, 5, 5);
    let scan = dispenser.begin_refill(at(9));
    sending.ended(&Ok(Revision(5)));
    assert_eq!(claimed(&dispenser.claim(1, at(9))), [at(5)]);
    // The scan may have seen it too: it is buffered only once.
    finish(&dispenser, scan, vec![taken(5)], None);
    assert_eq!(claimed(&dispenser.claim(9, at(9))), [at(5)]);
}

#[test]
fn a_message_that_a_scan_finds_while_it_is_claimed_is_not_offered_again() {
    let dispenser = dispenser();
    refill(&dispenser, 9, &[5]);
    let claim = dispenser.claim(1, at(9));
    finish(&dispenser, dispenser.begin_refill(at(9)), vec![taken(5)], None);
    assert!(dispenser.claim(1, at(9)).taken().is_empty());
    claim.delivered();
    assert!(dispenser.claim(1, at(9)).taken().is_empty());
}

#[test]
fn what_an_abandoned_commit_may_have_written_is_looked_up_until_it_must_have_ended() {
    let dispenser = dispenser();
    refill(&dispenser, 9, &[]);
    drop(send(&dispenser, 5, 9));
    assert_eq!(dispenser.doubts_to_look_up(at(9)), [position(5)]);
    dispenser.looked_up(position(5), None, at(9));
    assert_eq!(dispenser.doubts_to_look_up(at(9)), []);
    assert_eq!(dispenser.doubts_to_look_up(at(10)), [position(5)]);
    dispenser.looked_up(position(5), Some(taken(5).stored), at(10));
    assert_eq!(claimed(&dispenser.claim(1, at(10))), [at(5)]);
    assert!(!dispenser.is_needed());
    drop(send(&dispenser, 6, 10));
    dispenser.looked_up(position(6), None, at(10 + DOUBT_MS / 1000 + 1));
    assert!(!dispenser.is_needed());
}

#[test]
fn a_buffer_has_bounds_and_what_is_left_out_is_scanned_again() {
    let bounds = QueueBounds { ready_messages_max: 100, ..QueueBounds::default() };
    let dispenser = dispenser_within(bounds);
    let many: Vec<u64> = (0..110).collect();
    refill(&dispenser, 9_000, &many);
    assert_eq!(dispenser.state().buffer.len(), 100);
    assert_eq!(dispenser.begin_refill(at(9_000)).start, position(100));
}

#[test]
fn with_too_many_doubts_the_next_scan_begins_at_the_oldest() {
    let dispenser = dispenser_within(QueueBounds { doubts_max: 3, ..QueueBounds::default() });
    refill(&dispenser, 9_000, &[]);
    for seconds in 0..5 {
        drop(send(&dispenser, seconds, 1));
    }
    assert_eq!(dispenser.state().doubts.len(), 3);
    assert_eq!(dispenser.begin_refill(at(9_000)).start, position(0));
}

#[test]
fn a_count_is_not_kept_while_a_commit_is_in_doubt() {
    let dispenser = dispenser();
    dispenser.begins_empty();
    send(&dispenser, 1, 1).ended(&Ok(Revision(1)));
    send(&dispenser, 2, 2).ended(&Err(CommitError::Busy));
    assert_eq!(dispenser.known_count(at(2)), Some(1));
    send(&dispenser, 3, 3).ended(&Err(CommitError::Undetermined("lost".into())));
    assert_eq!(dispenser.known_count(at(3)), None);
    let mut tally = Tally::default();
    tally.add(at(10_000));
    assert_eq!(dispenser.begin_count(at(4)).finish(tally, at(4)), 1);
    assert_eq!(dispenser.known_count(at(4)), None);
    let later = at(3 + DOUBT_MS / 1000);
    dispenser.begin_count(later).finish(Tally::default(), later);
    assert_eq!(dispenser.known_count(later), Some(0));
}

#[test]
fn the_cursor_of_an_empty_queue_follows_the_clock() {
    let dispenser = dispenser();
    dispenser.begins_empty();
    let tick = dispenser.tick(at(50));
    send(&dispenser, 50, 50).ended(&Ok(Revision(1)));
    assert_eq!(dispenser.begin_refill(at(60)).start, Position::first_at(tick));
    assert!(!dispenser.is_empty(at(60)));
    assert!(dispenser.is_empty(at(10_001)));
}

/// A message that is gone by the time its put is known to have been done. The one that is left is another.
#[test]
fn a_message_that_expires_while_it_is_put_hides_no_other() {
    let dispenser = dispenser();
    dispenser.begins_empty();
    send(&dispenser, 20, 0).ended(&Ok(Revision(1)));
    dispenser.tick(at(30));
    let put = send(&dispenser, 30, 30);
    dispenser.counted(Delta::Removed(at(10_000)));
    put.ended(&Ok(Revision(2)));
    assert!(dispenser.begin_refill(at(40)).start <= position(20));
}

/// The one that is left was put later, and is before the one that expired: that had a delay.
#[test]
fn a_message_that_expires_while_it_is_put_hides_none_that_was_put_after_it() {
    let dispenser = dispenser();
    dispenser.begins_empty();
    let delayed = send(&dispenser, 25, 20);
    send(&dispenser, 21, 21).ended(&Ok(Revision(1)));
    dispenser.tick(at(30));
    dispenser.counted(Delta::Removed(at(10_000)));
    delayed.ended(&Ok(Revision(2)));
    assert!(dispenser.begin_refill(at(40)).start <= position(21));
}

#[test]
fn ticks_only_grow() {
    let dispenser = dispenser();
    let first = dispenser.tick(at(5));
    let second = dispenser.tick(at(4));
    assert_eq!((first, second), (at(5), next_tick(at(5))));
    assert_eq!((dispenser.now(at(4)), dispenser.now(at(6))), (second, at(6)));
}

#[test]
fn who_scanned_gets_messages_before_all_others() {
    let dispenser = dispenser();
    let mut claim = dispenser.claim(2, at(9));
    let found = [1, 2, 3].map(taken).into();
    dispenser.begin_refill(at(9)).finish(found, None, &mut claim, 2);
    assert_eq!(claimed(&claim), [at(1), at(2)]);
    assert_eq!(claimed(&dispenser.claim(9, at(9))), [at(3)]);
}

/// What requests hold from before a loss changes nothing after it.
#[test]
fn after_a_loss_everything_is_found_again() {
    let losses = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let lose = || losses.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let generation = Generation { queue: QueueId(1), epoch: 0 };
    let seen = losses.clone();
    let seen = Arc::new(move || seen.load(std::sync::atomic::Ordering::SeqCst));
    let dispenser = Arc::new(Dispenser::new(generation, Arc::default(), seen));
    let beginning = Position::first_at(Timestamp::MIN);
    dispenser.begins_empty();
    refill(&dispenser, 20, &[3, 5]);
    let claim = dispenser.claim(1, at(20));
    let sending = send(&dispenser, 7, 20);
    let scan = dispenser.begin_refill(at(30));
    lose();
    assert_eq!((dispenser.floor(), dispenser.known_count(at(30))), (beginning, None));
    // The scan of the old store, its message and that of the claim are all void.
    assert!(!scan.finish(vec![taken(9)], None, &mut dispenser.claim(0, at(0)), 0));
    drop(claim);
    assert!(dispenser.claim(9, at(30)).taken().is_empty());
    assert_eq!(dispenser.floor(), beginning);
    // The commit may have happened before the loss, or after it.
    sending.ended(&Ok(Revision(7)));
    assert_eq!(dispenser.doubts_to_look_up(at(30)), [position(7)]);
    refill(&dispenser, 30, &[1, 3]);
    assert_eq!(claimed(&dispenser.claim(9, at(30))), [at(1), at(3)]);
}
