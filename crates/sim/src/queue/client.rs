//! What the clients of a queue do: each produces its next request and learns from the response.

use super::history::{Held, Mark, Request, Response, Text};
use lazuli_testkit::seed::Seeded;

/// Receipts that a client remembers.
const HELD_MAX: usize = 12;
/// The longest time that a message stays invisible, in seconds, unless a client is configured
/// otherwise.
const SECONDS_MAX: usize = 20;

/// A client that uses every operation, with valid and invalid receipts.
pub struct Client {
    random: Seeded,
    /// The last number assigned to a message or a text.
    last: u32,
    /// Receipts, the latest last.
    held: Vec<Held>,
    /// Whether the queue is deleted, cleared and recreated.
    comes_and_goes: bool,
    is_missing: bool,
    seconds_max: usize,
}

impl Client {
    pub fn new(number: usize, random: Seeded, comes_and_goes: bool) -> Self {
        let last = (number as u32 + 1) << 20;
        let (held, seconds_max) = (Vec::new(), SECONDS_MAX);
        Self { random, last, held, comes_and_goes, is_missing: false, seconds_max }
    }

    /// Limits visibility timeouts to this many seconds.
    pub fn within_seconds(self, seconds_max: usize) -> Self {
        Self { seconds_max, ..self }
    }

    pub fn next_request(&mut self) -> Request {
        if self.is_missing && self.random.one_in(2) {
            return self.create();
        }
        match self.random.below(100) {
            0..=27 => self.put(),
            28..=53 => self.get(),
            54..=61 => Request::Peek { max: self.max() },
            62..=70 => self.update(),
            71..=85 => self.delete(),
            86..=91 => Request::GetMetadata,
            92 | 93 => Request::SetMetadata(self.random.below(3) as u32),
            94 => Request::SetAcl(1 + self.random.below(9) as u32),
            95 => Request::GetAcl,
            96 => self.create(),
            _ if !self.comes_and_goes => self.get(),
            97 | 98 => Request::Clear,
            _ => Request::DeleteQueue,
        }
    }

    pub fn learn(&mut self, request: &Request, response: &Response) {
        self.is_missing = *response == Response::QueueNotFound;
        match (request, response) {
            (Request::Put { mark, .. }, Response::Put { id, receipt }) => {
                self.hold(Held { mark: *mark, id: *id, receipt: *receipt });
            }
            (Request::Update { held, .. }, Response::Updated(receipt)) => {
                self.hold(Held { receipt: *receipt, ..*held });
            }
            (_, Response::Messages(messages)) => {
                for shown in messages {
                    if let Some(receipt) = shown.receipt {
                        self.hold(Held { mark: shown.mark, id: shown.id, receipt });
                    }
                }
            }
            _ => {}
        }
    }

    fn hold(&mut self, held: Held) {
        if self.held.len() >= HELD_MAX {
            self.held.remove(0);
        }
        self.held.push(held);
    }

    const fn number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    fn text(&mut self) -> Text {
        Text { number: self.number(), is_long: self.random.one_in(4) }
    }

    fn create(&mut self) -> Request {
        Request::CreateQueue { metadata: self.random.below(3) as u32 }
    }

    fn put(&mut self) -> Request {
        let mark: Mark = self.number();
        let delay =
            if self.random.one_in(3) { self.random.below(self.seconds_max) as u32 } else { 0 };
        let lives = self.random.one_in(3);
        let time_to_live =
            lives.then(|| delay + 1 + self.random.below(3 * self.seconds_max) as u32);
        Request::Put { mark, text: self.text(), delay, time_to_live }
    }

    fn get(&mut self) -> Request {
        let max = self.max();
        Request::Get { max, visibility: 1 + self.random.below(self.seconds_max) as u32 }
    }

    fn max(&mut self) -> usize {
        match self.random.below(4) {
            0 | 1 => 1,
            2 => 2 + self.random.below(3),
            _ => 32,
        }
    }

    /// Usually the last receipt; others may be void.
    fn receipt(&mut self) -> Option<Held> {
        let back = if self.random.one_in(4) { self.random.below(self.held.len()) } else { 0 };
        self.held.get(self.held.len().checked_sub(1 + back)?).copied()
    }

    fn update(&mut self) -> Request {
        let Some(held) = self.receipt() else { return self.put() };
        let visibility = self.random.below(self.seconds_max) as u32;
        let text = self.random.one_in(2).then(|| self.text());
        Request::Update { held, visibility, text }
    }

    fn delete(&mut self) -> Request {
        self.receipt().map_or_else(|| self.get(), Request::Delete)
    }
}
