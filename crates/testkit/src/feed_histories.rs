//! Random histories of a table with a change feed, on any engine: replaying the feed gives
//! the state of the table, for readers that follow it, start late, or start with a copy of the table.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod reader;

use crate::engine_suite::{self, Make};
use crate::seed::Seeded;
use lazuli_engine::Engine;
use lazuli_model::{
    AccountName, EntityKey, Feed, FeedRetention, IfMatch, Images, Properties, SystemClock,
    TableName, Value,
};
use lazuli_table::{After, Batch, Mutation, MutationKind, TableError, TableService};
use reader::Reader;
use std::borrow::Cow;
use std::sync::Arc;

const ROWS: usize = 6;
/// Steps of a history on one engine.
const STEPS: usize = 60;
/// Concurrent writers, and what each does.
const WRITERS: u64 = 4;
const WRITES: usize = 25;

/// Runs `histories` one after the other on one engine, each on its own table.
pub fn a_feed_replays_to_the_table(make: Make<'_>, histories: u64) {
    let (runtime, store) = engine_suite::on_one_thread(make);
    for seed in 0..histories {
        runtime.block_on(async {
            let mut history = History::new(&store.engine, seed).await;
            history.go_on(&store.engine, STEPS).await;
            history.end(&store.engine).await;
        });
    }
}

/// Several gateways write the same entities at once, alone and in transactions, while readers
/// follow: no reader misses a change, sees one twice, or sees two in the wrong order.
pub fn racing_writers_leave_one_order(make: Make<'_>, rounds: u64) {
    engine_suite::run(async {
        let store = make();
        for round in 0..rounds {
            race(&store.engine, round).await;
        }
    });
}

async fn race(engine: &Arc<dyn Engine>, round: u64) {
    let history = History::new(engine, round).await;
    let (account, table) = (history.account.clone(), history.table.clone());
    let writers = (0..WRITERS).map(|writer| {
        let service = service(engine);
        let (account, table) = (account.clone(), table.clone());
        let mut random = Seeded::new(round).stream(writer);
        tokio::spawn(async move {
            for _ in 0..WRITES {
                let changes = changes(&mut random);
                while let Err(TableError::Busy) = write(&service, &account, &table, &changes).await
                {
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let follower = service(engine);
    let mut reader = history.reader;
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        reader.follow(&follower, &account, &table).await;
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.expect("a writer does not panic");
    }
    reader.catch_up(&follower, &account, &table).await;
    reader.compare(&follower, &account, &table).await;
}

fn service(engine: &Arc<dyn Engine>) -> TableService {
    TableService::new(engine.clone(), Arc::new(SystemClock)).with_index_settles_ms(0)
}

/// A table whose feed is followed.
pub struct History {
    random: Seeded,
    account: AccountName,
    table: TableName,
    /// Follows from the beginning.
    reader: Reader,
    /// Started with a copy of the table.
    copier: Option<Reader>,
}

impl History {
    /// A new table on `engine`, with a feed.
    pub async fn new(engine: &Arc<dyn Engine>, seed: u64) -> Self {
        let history = Self::unrecorded(engine, seed).await;
        history.record(&service(engine), Images::Both).await;
        history
    }

    /// A new table without a feed, to compare with.
    pub async fn unrecorded(engine: &Arc<dyn Engine>, seed: u64) -> Self {
        let service = service(engine);
        let account = AccountName::parse("acct1").unwrap();
        let table = TableName::parse(&format!("Recorded{seed}")).unwrap();
        service.create_table(&account, &table).await.unwrap();
        Self {
            random: Seeded::new(seed),
            account,
            table,
            reader: Reader::new(After::Oldest),
            copier: None,
        }
    }

    /// Inserts one entity, whose change is recorded.
    pub async fn insert(&self, engine: &Arc<dyn Engine>, row: usize) -> Result<(), TableError> {
        let change = Change { row, kind: MutationKind::Insert, value: 1 };
        write(&service(engine), &self.account, &self.table, &[change]).await
    }

    async fn record(&self, service: &TableService, images: Images) {
        let retention = FeedRetention::from_hours(24).unwrap();
        let feed = Feed { images, retention };
        service.set_feed(&self.account, &self.table, feed).await.unwrap();
    }

    /// Changes, reads, and checks from another process, at random.
    pub async fn go_on(&mut self, engine: &Arc<dyn Engine>, steps: usize) {
        let mut service = service(engine);
        for _ in 0..steps {
            let (account, table) = (&self.account, &self.table);
            match self.random.below(12) {
                0 => self.reader.follow(&service, account, table).await,
                1 => service = self::service(engine),
                2 => {
                    let images = [Images::New, Images::Both];
                    let images = images[self.random.below(2)];
                    self.record(&service, images).await;
                }
                3 => self.copier = Some(Reader::of_copy(&service, account, table).await),
                _ => {
                    let changes = changes(&mut self.random);
                    match write(&service, account, table, &changes).await {
                        Ok(())
                        | Err(TableError::EntityNotFound | TableError::EntityAlreadyExists) => {}
                        Err(error) => panic!("{changes:?}: {error}"),
                    }
                }
            }
        }
    }

    /// All readers, and one that starts only now, find the state of the table.
    pub async fn end(mut self, engine: &Arc<dyn Engine>) {
        let service = service(engine);
        let readers = [Some(self.reader), self.copier.take(), Some(Reader::new(After::Oldest))];
        for mut reader in readers.into_iter().flatten() {
            reader.catch_up(&service, &self.account, &self.table).await;
            reader.compare(&service, &self.account, &self.table).await;
        }
        let page = service.verify_indexes(&self.account, &self.table, None).await.unwrap();
        assert_eq!((page.found, page.next), (vec![], None));
    }
}

#[derive(Clone, Debug)]
struct Change {
    row: usize,
    kind: MutationKind,
    value: i64,
}

/// One change, or several of different entities.
fn changes(random: &mut Seeded) -> Vec<Change> {
    let count = if random.one_in(3) { 2 + random.below(3) } else { 1 };
    let mut changes: Vec<Change> = Vec::new();
    for _ in 0..count {
        let kinds = [
            MutationKind::Insert,
            MutationKind::InsertOrReplace,
            MutationKind::InsertOrMerge,
            MutationKind::Merge(IfMatch::Any),
            MutationKind::Replace(IfMatch::Any),
            MutationKind::Delete(IfMatch::Any),
        ];
        let kind = kinds[random.below(kinds.len())];
        let change = Change { row: random.below(ROWS), kind, value: random.below(1000) as i64 };
        if changes.iter().all(|other| other.row != change.row) {
            changes.push(change);
        }
    }
    changes
}

async fn write(
    service: &TableService,
    account: &AccountName,
    table: &TableName,
    changes: &[Change],
) -> Result<(), TableError> {
    let mutation = |change: &Change| {
        let key = EntityKey::parse("p", &change.row.to_string()).unwrap();
        let name = if change.value % 2 == 0 { "Even" } else { "Odd" };
        let pairs = vec![(Cow::Borrowed(name), Value::from(change.value))];
        Mutation::new(key, change.kind, Properties::new(pairs).unwrap()).unwrap()
    };
    if let [change] = changes {
        return service.mutate(account, table, &mutation(change)).await.map(drop);
    }
    let operations = changes.iter().map(|change| (table, mutation(change))).collect();
    let batch = Batch::new(operations).unwrap();
    let done = service.transact(account, &batch).await;
    done.map(drop).map_err(|failure| failure.error)
}
