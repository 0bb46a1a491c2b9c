//! The checker accepts correct histories and rejects wrong ones: each test is a handwritten
//! history.

use super::super::history::{Held, Shown, Span, Text};
use super::*;
use lazuli_model::{MessageId, PopReceipt, Timestamp};

const MARK: Mark = 7;
const TEXT: Text = Text { number: 70, is_long: false };
const OTHER: Text = Text { number: 71, is_long: true };

/// Seconds after the beginning of the history.
fn at(seconds: u64) -> Ticks {
    Timestamp::from_unix_seconds(1_700_000_000 + seconds).ticks()
}

fn receipt(seconds: u64) -> PopReceipt {
    PopReceipt::of_get(Timestamp::from_ticks(at(seconds)).unwrap())
}

fn updated(seconds: u64, count: u32) -> PopReceipt {
    PopReceipt::of_update(Timestamp::from_ticks(at(seconds)).unwrap(), count)
}

fn id() -> MessageId {
    MessageId::from_bytes([1; 16])
}

fn held(receipt: PopReceipt) -> Held {
    Held { mark: MARK, id: id(), receipt }
}

/// Sequential calls, each at a second of the clock.
#[derive(Default)]
struct History(Vec<Call>);

impl History {
    /// A queue that exists, with the message put at second zero.
    fn with_message(time_to_live: Option<u32>) -> Self {
        let mut history = Self::default();
        history.add(0, Request::CreateQueue { metadata: 1 }, Response::Created);
        let put = Request::Put { mark: MARK, text: TEXT, delay: 0, time_to_live };
        history.add(0, put, Response::Put { id: id(), receipt: receipt(0) });
        history
    }

    fn add(&mut self, second: u64, request: Request, response: Response) -> &mut Self {
        let number = 10 * self.0.len() as u64;
        let before = self.0.last().map_or(0, |call: &Call| call.span.most);
        let span = Span { least: at(second), most: at(second).max(before) };
        let (invoked, answered) = (number, number + 5);
        let is_quiet = false;
        self.0.push(Call { client: 0, request, response, invoked, answered, span, is_quiet });
        self
    }

    /// The last call overlaps with the one before.
    fn at_once(&mut self) -> &mut Self {
        if let [.., before, last] = self.0.as_mut_slice() {
            before.answered = last.answered;
            last.invoked = before.invoked + 1;
            last.answered = before.answered - 1;
        }
        self
    }

    fn get(&mut self, second: u64, visibility: u32, shown: &[Shown]) -> &mut Self {
        let request = Request::Get { max: 1, visibility };
        self.add(second, request, Response::Messages(shown.to_vec()))
    }

    fn peek(&mut self, second: u64, shown: &[Shown]) -> &mut Self {
        self.add(second, Request::Peek { max: 32 }, Response::Messages(shown.to_vec()))
    }

    fn delete(&mut self, second: u64, receipt: PopReceipt, response: Response) -> &mut Self {
        self.add(second, Request::Delete(held(receipt)), response)
    }

    fn update(&mut self, second: u64, receipt: PopReceipt, response: Response) -> &mut Self {
        let request = Request::Update { held: held(receipt), visibility: 9, text: Some(OTHER) };
        self.add(second, request, response)
    }

    fn count(&mut self, second: u64, count: u64) -> &mut Self {
        self.add(second, Request::GetMetadata, Response::Metadata { metadata: 1, count })
    }

    #[track_caller]
    fn good(&self) {
        let report = check(Promise::OneWriter, &self.0).unwrap();
        assert_eq!((report.calls, report.undecided), (self.0.len(), 0));
    }

    #[track_caller]
    fn bad(&self, why: &str) {
        let failure = check(Promise::OneWriter, &self.0).unwrap_err();
        assert!(failure.contains(why), "{failure}");
    }
}

/// The message as returned by a get that makes it visible again at the given second.
fn got(dequeue_count: u32, visible: u64) -> Shown {
    Shown { receipt: Some(receipt(visible)), ..peeked(dequeue_count) }
}

fn peeked(dequeue_count: u32) -> Shown {
    let expires = Timestamp::MAX.ticks() / SECOND * SECOND;
    Shown { mark: MARK, id: id(), text: TEXT, dequeue_count, expires, receipt: None }
}

#[test]
fn one_after_the_other_is_good() {
    let mut history = History::with_message(None);
    history.peek(1, &[peeked(0)]).count(1, 1).get(2, 10, &[got(1, 12)]).peek(3, &[]);
    history.get(3, 10, &[]).get(13, 10, &[got(2, 23)]);
    history.delete(14, receipt(12), Response::MessageNotFound);
    history.update(14, receipt(23), Response::Updated(updated(23, 2)));
    history.0.last_mut().unwrap().span = Span { least: at(14), most: at(14) };
    history.bad("a receipt of message 7 came twice");
    history.0.pop();
    history.update(15, receipt(23), Response::Updated(updated(24, 2))).peek(16, &[]);
    history.peek(25, &[Shown { text: OTHER, ..peeked(2) }]).count(25, 1);
    history.delete(26, updated(24, 2), Response::Done).count(27, 0).peek(28, &[]).good();
}

#[test]
fn a_lost_message_is_noticed() {
    History::with_message(None).get(1, 10, &[]).bad("message 7");
    History::with_message(None).peek(1, &[]).bad("message 7");
    History::with_message(None).get(1, 10, &[got(1, 11)]).get(30, 10, &[]).bad("message 7");
    History::with_message(None).delete(1, receipt(0), Response::MessageNotFound).bad("message 7");
}

#[test]
fn two_holders_of_a_live_receipt_are_noticed() {
    let mut history = History::with_message(None);
    history.get(1, 10, &[got(1, 11)]).get(5, 10, &[got(2, 15)]).bad("message 7");
    // Even if both ask at once.
    let mut history = History::with_message(None);
    history.get(1, 10, &[got(1, 11)]).get(1, 12, &[got(1, 13)]).at_once().bad("message 7");
}

#[test]
fn void_receipts_that_work_are_noticed() {
    let mut history = History::with_message(None);
    history.get(1, 10, &[got(1, 11)]).delete(2, receipt(0), Response::Done).bad("message 7");
    let mut history = History::with_message(None);
    history.get(1, 10, &[got(1, 11)]).get(12, 10, &[got(2, 22)]);
    history.update(13, receipt(11), Response::Updated(updated(22, 2))).bad("message 7");
}

#[test]
fn wrong_dequeue_counts_are_noticed() {
    History::with_message(None).get(1, 10, &[got(0, 11)]).bad("message 7");
    History::with_message(None).get(1, 10, &[got(2, 11)]).bad("message 7");
    // A peek that counts as a get.
    History::with_message(None).peek(1, &[peeked(0)]).get(2, 9, &[got(2, 11)]).bad("message 7");
}

#[test]
fn a_receipt_that_says_another_time_is_noticed() {
    History::with_message(None).get(1, 10, &[got(1, 5)]).bad("message 7");
    History::with_message(None).get(1, 10, &[got(1, 20)]).bad("message 7");
}

#[test]
fn a_deleted_message_that_comes_back_is_noticed() {
    let mut history = History::with_message(None);
    history.delete(1, receipt(0), Response::Done).get(2, 9, &[got(1, 11)]).bad("message 7");
    let mut history = History::with_message(None);
    history.add(1, Request::Clear, Response::Done).peek(2, &[peeked(0)]).bad("message 7");
}

#[test]
fn a_text_or_an_id_of_another_is_noticed() {
    let shown = Shown { text: OTHER, ..peeked(0) };
    History::with_message(None).peek(1, &[shown]).bad("message 7");
    let shown = Shown { id: MessageId::from_bytes([2; 16]), ..peeked(0) };
    History::with_message(None).peek(1, &[shown]).bad("several ids");
}

#[test]
fn an_expired_message_is_gone_and_may_have_been_seen_until_then() {
    let shown = Shown { expires: at(20), ..peeked(0) };
    History::with_message(Some(20)).peek(19, &[shown]).peek(21, &[]).good();
    History::with_message(Some(20)).peek(19, &[]).bad("message 7");
    History::with_message(Some(20)).peek(21, &[shown]).bad("message 7");
    let deleted = Response::MessageNotFound;
    History::with_message(Some(20)).delete(21, receipt(0), deleted.clone()).good();
    // A clock that stepped back restores nothing.
    let mut history = History::with_message(Some(20));
    history.peek(30, &[]).delete(5, receipt(0), deleted).good();
}

#[test]
fn a_call_of_unknown_outcome_happened_or_not() {
    let unknown = || Response::Unknown;
    for shown in [vec![], vec![got(1, 11)]] {
        let mut history = History::with_message(None);
        history.delete(1, receipt(0), unknown()).get(2, 9, &shown).good();
    }
    // A get of unknown outcome took it; then it is hidden for as long as that get requested.
    let mut history = History::with_message(None);
    history.add(1, Request::Get { max: 1, visibility: 10 }, unknown());
    history.get(2, 9, &[]).get(12, 9, &[got(2, 21)]).good();
    let mut history = History::with_message(None);
    history.add(1, Request::Get { max: 1, visibility: 10 }, unknown());
    history.get(2, 9, &[]).get(5, 9, &[got(2, 14)]).bad("message 7");
    // A void receipt deletes nothing, whatever the response.
    let mut history = History::with_message(None);
    history
        .get(1, 9, &[got(1, 10)])
        .delete(2, receipt(0), unknown())
        .peek(11, &[])
        .bad("message 7");
    // A refused call did nothing.
    let mut history = History::with_message(None);
    history.delete(1, receipt(0), Response::NotDone).peek(2, &[]).bad("message 7");
}

#[test]
fn a_put_of_unknown_outcome_happened_or_not() {
    let put = Request::Put { mark: MARK, text: TEXT, delay: 0, time_to_live: None };
    for shown in [vec![], vec![peeked(0)]] {
        let mut history = History::default();
        history.add(0, Request::CreateQueue { metadata: 1 }, Response::Created);
        history.add(0, put.clone(), Response::Unknown).peek(1, &shown);
        history.count(1, shown.len() as u64).good();
    }
    // Once seen, it stays.
    let mut history = History::default();
    history.add(0, Request::CreateQueue { metadata: 1 }, Response::Created);
    history.add(0, put, Response::Unknown).get(1, 9, &[got(1, 10)]).peek(11, &[]);
    history.0.last_mut().unwrap().is_quiet = true;
    history.bad("message 7");
}

#[test]
fn wrong_counts_are_noticed() {
    History::with_message(None).count(1, 0).bad("had 1 to 1 messages");
    History::with_message(None).count(1, 2).bad("had 1 to 1 messages");
    let mut history = History::with_message(None);
    history.delete(1, receipt(0), Response::Done).count(2, 1).bad("had 0 to 0 messages");
    // Until the end of the second in which it expires.
    History::with_message(Some(20)).count(20, 1).count(22, 0).good();
    History::with_message(Some(20)).count(22, 1).bad("had 0 to 0 messages");
    // With many writers, a count may be a second old.
    let mut history = History::with_message(None);
    history.delete(5, receipt(0), Response::Done).count(5, 1);
    assert!(check(Promise::ManyWriters, &history.0).is_ok());
    history.count(9, 1);
    assert!(check(Promise::ManyWriters, &history.0).is_err());
}

/// A put is counted before it is done, and no longer once it has failed.
#[test]
fn a_count_may_hold_a_put_that_fails_meanwhile() {
    let put = Request::Put { mark: MARK, text: TEXT, delay: 0, time_to_live: None };
    let mut history = History::default();
    history.add(0, Request::CreateQueue { metadata: 1 }, Response::Created);
    history.add(1, put.clone(), Response::NotDone).count(1, 1).at_once().good();
    let mut history = History::default();
    history.add(0, Request::CreateQueue { metadata: 1 }, Response::Created);
    history.add(1, put, Response::NotDone).count(1, 1).bad("had 0 to 0 messages");
}

#[test]
fn a_put_into_a_deleted_queue_is_noticed() {
    let mut history = History::default();
    history.add(0, Request::CreateQueue { metadata: 1 }, Response::Created);
    history.add(1, Request::DeleteQueue, Response::Done);
    let put = Request::Put { mark: MARK, text: TEXT, delay: 0, time_to_live: None };
    history.add(2, put, Response::Put { id: id(), receipt: receipt(2) }).bad("the queue");
}

#[test]
fn metadata_and_policies_of_another_time_are_noticed() {
    let mut history = History::with_message(None);
    history.add(1, Request::SetMetadata(5), Response::Done);
    history.add(2, Request::SetAcl(3), Response::Done);
    history.add(3, Request::GetAcl, Response::Acl(3)).good();
    history.count(4, 1).bad("the queue");
    let mut history = History::with_message(None);
    history.add(1, Request::DeleteQueue, Response::Done);
    history.add(2, Request::CreateQueue { metadata: 2 }, Response::Created);
    history.add(3, Request::GetAcl, Response::Acl(3)).bad("the queue");
}
