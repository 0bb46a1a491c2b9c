//! The steps of one client on its queue. Messages are visible, so that a peek shows them, or hidden by
//! a get for longer than any trial takes; an update shows them again.

use anyhow::{Result, ensure};
use lazuli_testkit::acknowledged::{Entries, Name, Step, Stored};
use lazuli_testkit::http::Connection;
use lazuli_testkit::queue::{self, Held, PEEK_MAX};
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::table::Outcome;
use std::collections::BTreeMap;

/// Messages of one queue, including those in doubt: fewer than a peek shows.
const MESSAGES_MAX: usize = PEEK_MAX - 8;
/// How long a received message stays hidden, in seconds: if a peek shows it, the get was lost.
const HIDDEN_SECONDS: u32 = 7 * 24 * 3600;
/// Length of a text too long to be stored within its message.
const LONG: usize = 900;

/// What a client does to its queue, and the receipts that it holds.
#[derive(Debug)]
pub(super) struct Queues {
    client: usize,
    random: Seeded,
    /// The queue, once its creation was requested.
    queue: Option<String>,
    queues_made: usize,
    marks: usize,
    texts: usize,
    /// The messages that it can change, by their marks.
    held: BTreeMap<String, Held>,
    /// Those that are visible, in the order in which they became visible.
    visible: Vec<String>,
    /// Messages of the queue that are in doubt.
    in_doubt: usize,
}

/// A request to the queue.
#[derive(Debug)]
pub(super) enum Asked {
    Create(String),
    Put {
        queue: String,
        mark: String,
        text: String,
    },
    Update {
        queue: String,
        mark: String,
        text: String,
    },
    Delete {
        queue: String,
        mark: String,
    },
    /// Hides the first visible message, which must be this one.
    Get {
        queue: String,
        mark: String,
    },
    Clear {
        queue: String,
    },
}

impl Queues {
    pub(super) fn new(client: usize, random: &Seeded) -> Self {
        Self {
            client,
            random: random.stream(1_000 + client as u64),
            queue: None,
            queues_made: 0,
            marks: 0,
            texts: 0,
            held: BTreeMap::new(),
            visible: Vec::new(),
            in_doubt: 0,
        }
    }

    /// The next request, and its intended effect.
    pub(super) fn choose(&mut self, entries: &Entries) -> (Asked, Step) {
        let Some(queue) = self.queue.clone() else { return self.create() };
        let is_full = self.held.len() + self.in_doubt >= MESSAGES_MAX;
        match (self.random.below(8), self.random.below(self.held.len())) {
            (0, _) if self.in_doubt == 0 => {
                let seen = entries.keys().filter(|name| is_message_of(&queue, name)).cloned();
                let held = self.held.keys().map(|mark| Name::message(&queue, mark));
                let step = seen.chain(held).map(|name| (name, None)).collect();
                (Asked::Clear { queue }, step)
            }
            // A message in doubt could come first.
            (4, _) if self.in_doubt == 0 && !self.visible.is_empty() => {
                let mark = self.visible.first().cloned().unwrap_or_default();
                let step = Step::from([(Name::message(&queue, &mark), None)]);
                (Asked::Get { queue, mark }, step)
            }
            (1 | 2, chosen) => match self.mark(chosen) {
                Some(mark) => {
                    let step = Step::from([(Name::message(&queue, &mark), None)]);
                    (Asked::Delete { queue, mark }, step)
                }
                None => self.put(queue),
            },
            (number, chosen) if number < 4 || is_full => match self.mark(chosen) {
                Some(mark) => {
                    let text = self.text(&mark);
                    let after = Some(queue::stored(&text));
                    let step = Step::from([(Name::message(&queue, &mark), after)]);
                    (Asked::Update { queue, mark, text }, step)
                }
                None => self.create(),
            },
            _ => self.put(queue),
        }
    }

    /// Sends a request, and remembers the receipt in its response.
    pub(super) fn send(&mut self, asked: &Asked, connection: &mut Connection) -> Result<Outcome> {
        let (mark, held) = match asked {
            Asked::Create(name) => return queue::create(connection, name),
            Asked::Clear { queue } => {
                let outcome = queue::clear(connection, queue)?;
                if matches!(outcome, Outcome::Done) {
                    self.held.clear();
                    self.visible.clear();
                }
                return Ok(outcome);
            }
            Asked::Get { queue, mark } => return self.get(queue, mark, connection),
            Asked::Delete { queue, mark } => {
                let Some(held) = self.held.get(mark) else { return Ok(Outcome::Done) };
                let outcome = queue::delete(connection, queue, held)?;
                if matches!(outcome, Outcome::Done) {
                    self.held.remove(mark);
                    self.visible.retain(|other| other != mark);
                }
                return Ok(outcome);
            }
            Asked::Put { queue, mark, text } => (mark, queue::put(connection, queue, text)?),
            Asked::Update { queue, mark, text } => match self.held.get(mark) {
                Some(held) => (mark, queue::update(connection, queue, held, text)?),
                None => return Ok(Outcome::Done),
            },
        };
        match held {
            Ok(held) => {
                self.held.insert(mark.clone(), held);
                self.visible.retain(|other| other != mark);
                self.visible.push(mark.clone());
                Ok(Outcome::Done)
            }
            Err(outcome) => Ok(outcome),
        }
    }

    fn get(&mut self, queue: &str, mark: &str, connection: &mut Connection) -> Result<Outcome> {
        let got = match queue::get(connection, queue, HIDDEN_SECONDS)? {
            Ok(got) => got,
            Err(outcome) => return Ok(outcome),
        };
        let came = got.as_ref().and_then(|(_, text)| text.split(' ').next());
        ensure!(came == Some(mark), "{queue}: {mark} is first, and a get returned {came:?}");
        self.visible.retain(|other| other != mark);
        self.held.extend(got.map(|(held, _)| (mark.to_owned(), held)));
        Ok(Outcome::Done)
    }

    /// Excludes everything that `step` names from later steps.
    pub(super) fn freeze(&mut self, step: &Step) {
        let Some(queue) = &self.queue else { return };
        if step.contains_key(&Name::queue(queue)) {
            self.queue = None;
            return;
        }
        for name in step.keys().filter(|name| is_message_of(queue, name)) {
            let mark = name.entity.as_ref().map_or("", |keys| &keys.row);
            self.held.remove(mark);
            self.visible.retain(|other| other != mark);
            self.in_doubt += 1;
        }
    }

    /// A queue whose creation is in doubt, or that is full of messages in doubt, is not used again.
    fn create(&mut self) -> (Asked, Step) {
        self.queues_made += 1;
        self.held.clear();
        self.visible.clear();
        self.in_doubt = 0;
        let queue = format!("client{}-queue{}", self.client, self.queues_made);
        self.queue = Some(queue.clone());
        let step = Step::from([(Name::queue(&queue), Some(Stored::default()))]);
        (Asked::Create(queue), step)
    }

    fn put(&mut self, queue: String) -> (Asked, Step) {
        self.marks += 1;
        let mark = format!("{}-{}", self.client, self.marks);
        let text = self.text(&mark);
        let step = Step::from([(Name::message(&queue, &mark), Some(queue::stored(&text)))]);
        (Asked::Put { queue, mark, text }, step)
    }

    fn mark(&self, chosen: usize) -> Option<String> {
        self.held.keys().nth(chosen).cloned()
    }

    /// A text unique to this message, sometimes long.
    fn text(&mut self, mark: &str) -> String {
        self.texts += 1;
        let padding = "x".repeat(if self.random.one_in(3) { LONG } else { 0 });
        format!("{mark} {}{padding}", self.texts)
    }
}

fn is_message_of(queue: &str, name: &Name) -> bool {
    name.entity.is_some() && name.table == Name::queue(queue).table
}
