//! Transactions of entities and messages, on any engine: what one of them writes is there
//! entirely or not at all, whoever wants the same entities at the same time.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::engine_suite::{self, Make};
use crate::seed::Seeded;
use lazuli_engine::{Commit, Engine, Writers};
use lazuli_model::{
    AccountName, EntityKey, MessageText, Metadata, Properties, PutTimes, QueueName, SystemClock,
    TableName, Value, ValueRef, VisibilityTimeout,
};
use lazuli_queue::{NewMessage, PeekedMessage, PutFailure, QueueService};
use lazuli_table::{
    Companion, CompanionCommit, EntityQuery, EntityRef, Mutation, MutationKind, TableError,
    TableService,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

const ACCOUNT: &str = "acct1";
/// Each transaction inserts an entity of its own into the first table, and one that others want too into
/// the second.
const TABLES: [&str; 2] = ["Sent", "Wanted"];
const EXISTING: [&str; 2] = ["mails", "bills"];
/// A transaction that puts a message into it is refused.
const MISSING: &str = "missing";
const WANTED_ROWS: usize = 12;
/// Longer than any test.
const HIDDEN_SECONDS: i64 = 7 * 24 * 3600;

/// Gateways that write at the same time, and what each sends.
const WRITERS: u64 = 4;
const TRANSACTIONS: u64 = 10;

/// Several gateways send transactions at once, and one looks at the messages meanwhile.
pub fn messages_come_with_their_entities(make: Make<'_>, rounds: u64) {
    engine_suite::run(async {
        for round in 0..rounds {
            let store = make();
            race(&store.engine, round).await;
        }
    });
}

async fn race(engine: &Arc<dyn Engine>, round: u64) {
    let gateways = gateways(engine, round);
    let of = |number: u64| gateways[number as usize % gateways.len()].clone();
    of(0).set_up().await.unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let (gateway, mut random) = (of(writer), Seeded::new(round).stream(writer));
        tokio::spawn(async move {
            let mut sent = Vec::new();
            for number in writer * TRANSACTIONS..(writer + 1) * TRANSACTIONS {
                let transaction = Transaction::random(number, &mut random);
                let outcome = gateway.send(&transaction).await;
                sent.push((transaction, outcome));
            }
            sent
        })
    });
    let writers: Vec<_> = writers.collect();
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        of(1).look().await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut sent = Vec::new();
    for writer in writers {
        sent.extend(writer.await.unwrap());
    }
    of(2).check(&sent).await.unwrap();
    let count = |wanted| sent.iter().filter(|(_, outcome)| *outcome == wanted).count();
    assert!(count(Outcome::Done) > 0 && count(Outcome::Refused) > 0, "{sent:?}");
}

/// One for each writer if the store allows it.
fn gateways(engine: &Arc<dyn Engine>, round: u64) -> Vec<Gateway> {
    let count = match engine.nature().writers {
        Writers::Sole => 1,
        Writers::Many => WRITERS,
    };
    let gateway = |number| {
        let ids = Mutex::new(Seeded::new(round).stream(1_000 + number));
        let ids = move || ids.lock().unwrap_or_else(PoisonError::into_inner).next_u64();
        let clock = Arc::new(SystemClock);
        let tables = TableService::new(engine.clone(), clock.clone());
        Gateway::new(tables, QueueService::new(engine.clone(), clock, Arc::new(ids)))
    };
    (0..count).map(gateway).collect()
}

/// A transaction: two entities, and a message for each of some queues. All of them say its number.
#[derive(Clone, Debug)]
pub struct Transaction {
    number: u64,
    /// The row of the second table that it wants.
    wanted: u64,
    queues: Vec<&'static str>,
}

impl Transaction {
    pub fn random(number: u64, random: &mut Seeded) -> Self {
        let mut queues: Vec<_> = EXISTING.into_iter().take(1 + random.below(2)).collect();
        if random.one_in(6) {
            queues.push(MISSING);
        }
        Self { number, wanted: random.below(WANTED_ROWS) as u64, queues }
    }
}

/// What a gateway says of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Refused,
    /// It may have happened, or may still happen.
    Unknown,
}

/// A process that serves tables and queues.
#[derive(Clone)]
pub struct Gateway {
    tables: TableService,
    queues: QueueService,
    account: AccountName,
}

impl Gateway {
    pub fn new(tables: TableService, queues: QueueService) -> Self {
        Self { tables, queues, account: AccountName::parse(ACCOUNT).unwrap() }
    }

    /// Sends a transaction. In every other one the entity that others want too comes first.
    pub async fn send(&self, transaction: &Transaction) -> Outcome {
        let Transaction { number, wanted, queues } = transaction;
        let [sent, wants] = TABLES.map(|name| TableName::parse(name).unwrap());
        let mut operations =
            vec![(&sent, insert(*number, *number)), (&wants, insert(*wanted, *number))];
        if number % 2 == 0 {
            operations.reverse();
        }
        let message = |queue: &&str| NewMessage {
            queue: QueueName::parse(queue).unwrap(),
            text: MessageText::new(number.to_string()).unwrap(),
            times: PutTimes::default(),
        };
        let messages = Messages { gateway: self, messages: queues.iter().map(message).collect() };
        match self.tables.transact_any(&self.account, &operations, Some(&messages)).await {
            Ok(_) => Outcome::Done,
            Err(failure) => match failure.error {
                TableError::EntityAlreadyExists | TableError::Busy => Outcome::Refused,
                _ => Outcome::Unknown,
            },
        }
    }

    /// Creates the tables and the queues.
    pub async fn set_up(&self) -> Result<(), String> {
        for name in TABLES {
            let table = TableName::parse(name).unwrap();
            self.tables.create_table(&self.account, &table).await.map_err(text)?;
        }
        for queue in existing_queues() {
            let metadata = Metadata::default();
            self.queues.create_queue(&self.account, &queue, &metadata).await.map_err(text)?;
        }
        Ok(())
    }

    /// Looks at the messages: the entity of each is there, too. What cannot be read is not looked at.
    pub async fn look(&self) -> Result<(), String> {
        let table = TableName::parse(TABLES[0]).unwrap();
        for queue in existing_queues() {
            let Ok(seen) = self.queues.peek_messages(&self.account, &queue, 32).await else {
                return Ok(());
            };
            for message in seen {
                let number = number_of(&message)?;
                let found = self.tables.get(&self.account, &table, &key(number)).await;
                if matches!(found, Err(TableError::EntityNotFound)) {
                    return Err(format!("message {number} is there before its entity"));
                }
            }
        }
        Ok(())
    }

    /// Takes all messages out, and compares them with the entities and with what was said.
    pub async fn check(&self, sent: &[(Transaction, Outcome)]) -> Result<(), String> {
        let numbers = self.rows(TABLES[0]).await?;
        let wanted = self.rows(TABLES[1]).await?;
        let mut taken = BTreeSet::new();
        for queue in existing_queues() {
            self.take_all(&queue, &mut taken).await?;
        }
        let mut expected = BTreeSet::new();
        for (transaction, outcome) in sent {
            let Transaction { number, queues, .. } = transaction;
            let happened = numbers.contains_key(number);
            let is_possible = match outcome {
                Outcome::Done => happened,
                Outcome::Refused => !happened,
                Outcome::Unknown => true,
            };
            let has_wanted = wanted.get(&transaction.wanted) == Some(number);
            if !is_possible || has_wanted != happened {
                return Err(format!("{transaction:?} {outcome:?}: {happened}, {has_wanted}"));
            }
            if happened {
                expected.extend(queues.iter().map(|queue| ((*queue).to_owned(), *number)));
            }
        }
        match taken == expected {
            true => Ok(()),
            false => Err(format!("messages {taken:?} instead of {expected:?}")),
        }
    }

    /// The numbers that the entities of a table say, by their rows.
    async fn rows(&self, table: &str) -> Result<BTreeMap<u64, u64>, String> {
        let table = TableName::parse(table).unwrap();
        let mut rows = BTreeMap::new();
        let mut sink = |entity: EntityRef<'_>| {
            if let [("By", ValueRef::Int64(by))] = entity.properties {
                rows.insert(entity.row_key.parse().unwrap(), *by as u64);
            }
        };
        let query = EntityQuery::default();
        self.tables.query(&self.account, &table, query, &mut sink).await.map_err(text)?;
        Ok(rows)
    }

    async fn take_all(
        &self,
        queue: &QueueName,
        taken: &mut BTreeSet<(String, u64)>,
    ) -> Result<(), String> {
        let hidden = VisibilityTimeout::of_get(HIDDEN_SECONDS).unwrap();
        loop {
            let got = self.queues.get_messages(&self.account, queue, 32, hidden);
            let got = got.await.map_err(text)?;
            if got.is_empty() {
                return Ok(());
            }
            for message in got {
                let number = number_of(&message.message)?;
                if !taken.insert((queue.as_str().to_owned(), number)) {
                    return Err(format!("message {number} came twice"));
                }
            }
        }
    }
}

/// Puts the messages of a transaction.
struct Messages<'a> {
    gateway: &'a Gateway,
    messages: Vec<NewMessage>,
}

impl Companion for Messages<'_> {
    fn commit(&self, commit: Commit) -> CompanionCommit<'_> {
        Box::pin(async move {
            let Gateway { queues, account, .. } = self.gateway;
            match queues.put_with(account, &self.messages, commit).await {
                Ok((revision, _)) => Ok(revision),
                Err(PutFailure::Commit(error)) => Err(Some(error)),
                Err(PutFailure::Message(..)) => Err(None),
            }
        })
    }
}

fn existing_queues() -> impl Iterator<Item = QueueName> {
    EXISTING.into_iter().map(|queue| QueueName::parse(queue).unwrap())
}

fn number_of(message: &PeekedMessage) -> Result<u64, String> {
    message.text.as_str().parse().map_err(text)
}

fn key(row: u64) -> EntityKey {
    EntityKey::parse("p", &row.to_string()).unwrap()
}

fn insert(row: u64, number: u64) -> Mutation<'static> {
    let by = vec![(Cow::Borrowed("By"), Value::from(number as i64))];
    Mutation::new(key(row), MutationKind::Insert, Properties::new(by).unwrap()).unwrap()
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
