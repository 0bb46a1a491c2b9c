//! The requests of one connection, and the checks of the responses.
//!
//! Measured requests are built and signed before the clock starts. An insert needs a new key each time, which is
//! written into the finished bytes; the signature does not cover the body. Only the deletion of a message is built
//! and signed when its turn comes, because it depends on the previous answer.

use crate::answer::Answer;
use crate::queue::{Consumer, Message};
use lazuli_testkit::seed::Seeded;
use memchr::memmem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Digits of a number that is written into a request.
pub(crate) const DIGITS: usize = 12;
/// Placeholder in a template for the number of the partition; the next one likewise.
pub(crate) const PARTITION_MARK: &str = "PPPPPPPPPPPP";
pub(crate) const ROW_MARK: &str = "RRRRRRRRRRRR";
/// The rows of the first answer and of every n-th are counted.
const ROWS_COUNTED_EVERY: u64 = 16;

/// The requests of one connection, one after another.
pub(crate) struct Script {
    source: Source,
    random: Seeded,
    operations: u64,
    /// The rows of the operation so far.
    rows: usize,
    /// The request that continues the operation: for the next page of a query, or for the deletion of the received
    /// message.
    following: Option<Vec<u8>>,
    /// Deletes the received messages, if set.
    consumer: Option<Consumer>,
    /// Operations that it may still begin.
    left: u64,
}

enum Source {
    Pool { pool: Arc<Pool>, chosen: usize },
    Stamped { templates: Vec<Template>, numbers: Arc<AtomicU64>, spread: Spread, chosen: usize },
    Made { make: Make, numbers: Arc<AtomicU64>, made: Vec<u8>, expect: Expect },
}

/// Makes the request of a given number.
type Make = Box<dyn Fn(u64) -> Vec<u8> + Send>;

/// Requests that may be sent any number of times.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    requests: Vec<Ready>,
}

#[derive(Debug)]
struct Ready {
    bytes: Vec<u8>,
    target_end: usize,
    expect: Expect,
}

/// A good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    Status(u16),
    /// 200 with this many entities, on any number of pages.
    Rows(usize),
    /// 202 with this many parts that say 204.
    Parts(usize),
    /// 200 with one message; 204 when it is then deleted.
    Message,
}

/// The partition for the entity with a given number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spread {
    /// One of this many, in turn.
    Over(u64),
    /// One of its own.
    Own,
}

/// A request with places for numbers.
#[derive(Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    partitions: Vec<usize>,
    rows: Vec<usize>,
    expect: Expect,
}

/// What to do after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The operation is done.
    Done,
    /// The operation continues with another request.
    More,
}

impl Pool {
    /// Adds a request; `target_end` is where a continuation would go.
    pub(crate) fn push(&mut self, (bytes, target_end): (Vec<u8>, usize), expect: Expect) {
        self.requests.push(Ready { bytes, target_end, expect });
    }
}

impl Template {
    /// Finds the marks in `bytes`.
    pub(crate) fn new(bytes: Vec<u8>, expect: Expect) -> Self {
        let partitions = memmem::find_iter(&bytes, PARTITION_MARK).collect();
        let rows = memmem::find_iter(&bytes, ROW_MARK).collect();
        Self { bytes, partitions, rows, expect }
    }

    fn stamp(&mut self, partition: u64, row: u64) {
        for (places, number) in [(&self.partitions, partition), (&self.rows, row)] {
            for place in places {
                let digits = self.bytes.get_mut(*place..*place + DIGITS).unwrap_or_default();
                write_number(digits, number);
            }
        }
    }
}

impl Script {
    /// Draws from `pool` at random; `seed` makes connections differ.
    pub(crate) fn drawing(pool: Arc<Pool>, seed: u64) -> Self {
        Self::new(Source::Pool { pool, chosen: 0 }, seed)
    }

    /// Stamps `templates` in turn with numbers that the connections share.
    pub(crate) fn stamping(
        templates: Vec<Template>,
        numbers: Arc<AtomicU64>,
        spread: Spread,
    ) -> Self {
        Self::new(Source::Stamped { templates, numbers, spread, chosen: 0 }, 0)
    }

    /// Makes each request when its turn comes, from numbers that the connections share.
    pub(crate) fn making(
        make: impl Fn(u64) -> Vec<u8> + Send + 'static,
        numbers: Arc<AtomicU64>,
        expect: Expect,
    ) -> Self {
        let made = Vec::new();
        Self::new(Source::Made { make: Box::new(make), numbers, made, expect }, 0)
    }

    fn new(source: Source, seed: u64) -> Self {
        let random = Seeded::new(0x6c61_7a75_6c69).stream(seed);
        Self {
            source,
            random,
            operations: 0,
            rows: 0,
            following: None,
            consumer: None,
            left: u64::MAX,
        }
    }

    /// The same script, with `consumer` to delete each received message.
    pub(crate) fn consumed_by(self, consumer: Consumer) -> Self {
        Self { consumer: Some(consumer), ..self }
    }

    /// The same script, limited to this many operations.
    pub(crate) fn at_most(self, operations: u64) -> Self {
        Self { left: operations, ..self }
    }

    /// Whether there are no more operations to begin.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Begins the next operation.
    pub(crate) fn advance(&mut self) {
        self.operations += 1;
        self.left = self.left.saturating_sub(1);
        self.rows = 0;
        self.following = None;
        match &mut self.source {
            Source::Pool { pool, chosen } => *chosen = self.random.below(pool.requests.len()),
            Source::Stamped { templates, numbers, spread, chosen } => {
                *chosen = (*chosen + 1) % templates.len().max(1);
                let row = numbers.fetch_add(1, Ordering::Relaxed);
                let partition = match spread {
                    Spread::Over(partitions) => row % *partitions,
                    Spread::Own => row,
                };
                if let Some(template) = templates.get_mut(*chosen) {
                    template.stamp(partition, row);
                }
            }
            Source::Made { make, numbers, made, .. } => {
                *made = make(numbers.fetch_add(1, Ordering::Relaxed));
            }
        }
    }

    /// The request to send now.
    pub(crate) fn request(&self) -> &[u8] {
        match &self.following {
            Some(request) => request,
            None => self.chosen().map_or(&[], |(bytes, _, _)| bytes),
        }
    }

    /// Whether `answer` is good, and what to do next.
    pub(crate) fn judge(&mut self, answer: &Answer<'_>) -> Result<Next, String> {
        let (bytes, target_end, expect) = self.chosen().ok_or("nothing was sent")?;
        let status = match expect {
            Expect::Status(status) => status,
            Expect::Rows(_) => 200,
            Expect::Parts(_) => 202,
            Expect::Message if self.following.is_some() => 204,
            Expect::Message => 200,
        };
        if answer.status != status {
            return Err(describe(answer));
        }
        match expect {
            Expect::Status(_) => Ok(Next::Done),
            Expect::Parts(parts) => {
                let found = memmem::find_iter(answer.body, "HTTP/1.1 204").count();
                if found == parts { Ok(Next::Done) } else { Err(describe(answer)) }
            }
            Expect::Rows(rows) => {
                let page = (!answer.continuation.is_empty())
                    .then(|| insert(bytes, target_end, answer.continuation));
                self.judge_rows(answer, rows, page)
            }
            Expect::Message => self.judge_message(answer),
        }
    }

    /// A message is followed by its deletion, if there is a consumer.
    fn judge_message(&mut self, answer: &Answer<'_>) -> Result<Next, String> {
        if self.following.is_some() {
            return Ok(Next::Done);
        }
        let message = Message::parse(answer.body).ok_or_else(|| describe(answer))?;
        self.following = self.consumer.as_ref().map(|consumer| consumer.deletion(&message));
        Ok(if self.following.is_some() { Next::More } else { Next::Done })
    }

    fn judge_rows(
        &mut self,
        answer: &Answer<'_>,
        rows: usize,
        page: Option<Vec<u8>>,
    ) -> Result<Next, String> {
        let counted = self.operations % ROWS_COUNTED_EVERY == 1;
        if counted {
            self.rows += memmem::find_iter(answer.body, "\"RowKey\":").count();
        }
        self.following = page;
        match self.following {
            Some(_) => Ok(Next::More),
            None if counted && self.rows != rows => {
                Err(format!("{} entities came back, not {rows}", self.rows))
            }
            None => Ok(Next::Done),
        }
    }

    fn chosen(&self) -> Option<(&[u8], usize, Expect)> {
        match &self.source {
            Source::Pool { pool, chosen } => {
                let ready = pool.requests.get(*chosen)?;
                Some((&ready.bytes, ready.target_end, ready.expect))
            }
            Source::Stamped { templates, chosen, .. } => {
                let template = templates.get(*chosen)?;
                Some((&template.bytes, 0, template.expect))
            }
            Source::Made { made, expect, .. } => Some((made, 0, *expect)),
        }
    }
}

fn insert(bytes: &[u8], at: usize, text: &str) -> Vec<u8> {
    let (before, after) = bytes.split_at_checked(at).unwrap_or((bytes, &[]));
    [before, text.as_bytes(), after].concat()
}

fn write_number(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// The report of an answer that is not the expected one.
fn describe(answer: &Answer<'_>) -> String {
    let body = String::from_utf8_lossy(answer.body.get(..400).unwrap_or(answer.body));
    format!("the server answered {}: {}", answer.status, body.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer<'a>(status: u16, body: &'a str, continuation: &'a str) -> Answer<'a> {
        Answer { status, head: &[], body: body.as_bytes(), continuation }
    }

    fn drawing(expect: Expect) -> Script {
        let mut pool = Pool::default();
        pool.push((b"GET /t HTTP/1.1".to_vec(), 6), expect);
        let mut script = Script::drawing(Arc::new(pool), 0);
        script.advance();
        script
    }

    #[test]
    fn a_query_is_followed_to_its_end_and_its_rows_are_counted() {
        let mut script = drawing(Expect::Rows(3));
        let two = "\"RowKey\":1 \"RowKey\":2";
        assert_eq!(script.judge(&answer(200, two, "&N=1")), Ok(Next::More));
        assert_eq!(script.request(), b"GET /t&N=1 HTTP/1.1");
        assert_eq!(script.judge(&answer(200, "", "&N=2")), Ok(Next::More));
        assert_eq!(script.request(), b"GET /t&N=2 HTTP/1.1");
        assert_eq!(script.judge(&answer(200, "\"RowKey\":3", "")), Ok(Next::Done));
        script.advance();
        assert_eq!(script.request(), b"GET /t HTTP/1.1");
    }

    #[test]
    fn a_wrong_number_of_rows_is_an_error() {
        let mut script = drawing(Expect::Rows(3));
        assert!(script.judge(&answer(200, "\"RowKey\":1", "")).is_err());
    }

    #[test]
    fn a_wrong_status_is_an_error() {
        let mut script = drawing(Expect::Status(200));
        assert_eq!(script.judge(&answer(200, "", "")), Ok(Next::Done));
        assert!(script.judge(&answer(204, "", "")).is_err());
    }

    #[test]
    fn a_batch_with_a_failed_part_is_an_error() {
        let mut script = drawing(Expect::Parts(2));
        let good = "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 204 No Content";
        assert_eq!(script.judge(&answer(202, good, "")), Ok(Next::Done));
        assert!(script.judge(&answer(202, "HTTP/1.1 409 Conflict", "")).is_err());
    }

    #[test]
    fn a_script_ends_after_its_operations() {
        let mut pool = Pool::default();
        pool.push((b"GET /t HTTP/1.1".to_vec(), 6), Expect::Status(200));
        let mut script = Script::drawing(Arc::new(pool), 0).at_most(2);
        for is_over in [false, true] {
            script.advance();
            assert_eq!(script.is_over(), is_over);
        }
    }

    #[test]
    fn templates_are_stamped_with_numbers_of_their_own() {
        let text = format!("{PARTITION_MARK} {ROW_MARK} {PARTITION_MARK}");
        let template = Template::new(text.into_bytes(), Expect::Status(204));
        let numbers = Arc::new(AtomicU64::new(123));
        let mut script = Script::stamping(vec![template], numbers, Spread::Over(10));
        script.advance();
        assert_eq!(script.request(), b"000000000003 000000000123 000000000003");
        script.advance();
        assert_eq!(script.request(), b"000000000004 000000000124 000000000004");
    }
}
