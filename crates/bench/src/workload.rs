//! The workloads: what each sends, what a good answer is, and what its figures mean.

use crate::entity::{self, Dataset, PARTITION_ROWS, QUANTITIES};
use crate::request::{Plain, Signer, entity_target, query_target};
use crate::script::{Expect, PARTITION_MARK, Pool, ROW_MARK, Script, Spread, Template};
use clap::ValueEnum;
use lazuli_testkit::seed::Seeded;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The table that is loaded in advance, for reads and updates.
pub(crate) const TABLE: &str = "Bench";
/// Operations of one entity group transaction.
pub(crate) const BATCH: usize = 100;

/// Partitions that inserts go to in turn.
const INSERT_PARTITIONS: u64 = 1_000;
/// Rows that a range query returns: one full page.
const RANGE_ROWS: usize = 1_000;
/// Keys that `or-keys` asks for.
const OR_KEYS: usize = 10;
/// Different requests that connections draw from.
const READS: usize = 32 * 1024;
const WRITES: usize = 8 * 1024;
const QUERIES: usize = 256;
/// Different entities that one connection inserts again and again under new keys.
const INSERT_TEMPLATES: usize = 16;
/// One in this many operations of `mixed` is a write.
const MIXED_WRITE_ONE_IN: usize = 20;

/// The service that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Service {
    Table,
    Queue,
}

impl Service {
    /// The name of its contents, in the plural.
    pub(crate) fn items(self) -> &'static str {
        match self {
            Self::Table => "entities",
            Self::Queue => "messages",
        }
    }
}

/// What the connections do, in the order of the run: workloads that only read come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// Read one entity by its keys.
    Point,
    /// Read 1,000 entities of one partition by a range of row keys.
    #[value(name = "range1000")]
    #[serde(rename = "range1000")]
    Range1000,
    /// Search one partition of 5,000 entities by a property; 5 match.
    PartitionScan,
    /// Search the whole table by a property; one in 1,000 matches.
    TableScan,
    /// Read ten entities of one partition by a filter that names their keys.
    OrKeys,
    /// Read one entity, and in one of twenty operations replace one.
    Mixed,
    /// Insert or replace one of the entities.
    Upsert,
    /// Merge two properties into one of the entities.
    Merge,
    /// Merge two properties into always the same entity.
    HotEntity,
    /// Insert an entity, spread over 1,000 partitions.
    Insert,
    /// Insert an entity, all into one partition.
    HotPartition,
    /// Insert 100 entities in one transaction, each time into a new partition.
    #[value(name = "egt100")]
    #[serde(rename = "egt100")]
    Egt100,
    /// Read the first message of a queue.
    Peek,
    /// Put a message into a queue.
    Put,
    /// Get a message of a queue; it stays, invisible.
    Get,
    /// Get a message of a queue and delete it.
    GetDelete,
    /// Get a message and delete it, each connection in its own queue.
    OwnQueues,
}

/// What a rate of entities counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Counted {
    Written,
    Returned,
    Examined,
}

impl Workload {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    pub(crate) fn service(self) -> Service {
        match self {
            Self::Peek | Self::Put | Self::Get | Self::GetDelete | Self::OwnQueues => {
                Service::Queue
            }
            _ => Service::Table,
        }
    }

    /// Whether it leaves the data unchanged.
    pub(crate) fn only_reads(self) -> bool {
        self.is_heavy() || matches!(self, Self::Point | Self::Peek)
    }

    /// Whether it hides messages, so that it ends when there are no more.
    pub(crate) fn takes_messages(self) -> bool {
        matches!(self, Self::Get | Self::GetDelete | Self::OwnQueues)
    }

    /// Whether it needs its own empty table.
    pub(crate) fn inserts(self) -> bool {
        matches!(self, Self::Insert | Self::HotPartition | Self::Egt100)
    }

    /// Connections to measure it on. Where a server must examine every entity, 256 queries at once
    /// would mostly measure its queue.
    pub(crate) fn connections(self) -> &'static [usize] {
        match self {
            // These are compared with each other at one number of connections; others would add nothing.
            Self::Get | Self::OwnQueues => &[64],
            _ if self.is_heavy() => &[1, 16],
            _ => &[1, 16, 64, 256],
        }
    }

    /// The connections whose figures are compared between servers.
    pub(crate) fn compared_connections(self) -> usize {
        if self.is_heavy() { 16 } else { 64 }
    }

    fn is_heavy(self) -> bool {
        matches!(self, Self::Range1000 | Self::PartitionScan | Self::TableScan | Self::OrKeys)
    }

    /// Operations of one measurement at most: bounds the data that a server must store.
    pub(crate) fn operations_max(self) -> u64 {
        if self == Self::Egt100 { 5_000 } else { 500_000 }
    }

    /// What one operation does, and to how many entities.
    pub(crate) fn entities(self, dataset: Dataset) -> Option<(Counted, usize)> {
        match self {
            Self::Range1000 => Some((Counted::Returned, RANGE_ROWS)),
            Self::OrKeys => Some((Counted::Returned, OR_KEYS)),
            Self::PartitionScan => Some((Counted::Examined, PARTITION_ROWS)),
            Self::TableScan => Some((Counted::Examined, dataset.entities())),
            Self::Egt100 => Some((Counted::Written, BATCH)),
            _ => None,
        }
    }

    /// For tables: the scripts of `connections` connections to a server whose [`TABLE`] holds `dataset`.
    /// Inserts go to `own_table`.
    pub(crate) fn scripts(
        self,
        signer: &Signer,
        connections: usize,
        dataset: Dataset,
        own_table: &str,
    ) -> Vec<Script> {
        if self.inserts() {
            let numbers = Arc::new(AtomicU64::new(0));
            let script = |connection| self.inserting(signer, own_table, connection, &numbers);
            return (0..connections).map(script).collect();
        }
        let mut draw = Draw { signer, dataset, pool: Pool::default(), random: Seeded::new(1) };
        self.draw(&mut draw);
        let pool = Arc::new(draw.pool);
        (0..connections).map(|seed| Script::drawing(pool.clone(), seed as u64)).collect()
    }

    fn draw(self, draw: &mut Draw<'_>) {
        match self {
            Self::Point => (0..READS).for_each(|_| draw.point()),
            Self::Upsert => (0..WRITES).for_each(|version| draw.upsert(version)),
            Self::Merge => (0..WRITES).for_each(|version| draw.merge(None, version)),
            Self::HotEntity => (0..QUERIES).for_each(|version| draw.merge(Some(0), version)),
            Self::Mixed => (0..READS).for_each(|version| match version % MIXED_WRITE_ONE_IN {
                0 => draw.upsert(version),
                _ => draw.point(),
            }),
            Self::Range1000 => (0..QUERIES).for_each(|_| draw.range()),
            Self::OrKeys => (0..QUERIES).for_each(|_| draw.or_keys()),
            Self::PartitionScan => (0..QUERIES).for_each(|_| draw.partition_scan()),
            Self::TableScan => (0..QUERIES).for_each(|_| draw.table_scan()),
            // Inserts are stamped, and the requests to queues are made in `queue.rs`.
            Self::Insert | Self::HotPartition | Self::Egt100 => {}
            Self::Peek | Self::Put | Self::Get | Self::GetDelete | Self::OwnQueues => {}
        }
    }

    fn inserting(
        self,
        signer: &Signer,
        table: &str,
        connection: usize,
        numbers: &Arc<AtomicU64>,
    ) -> Script {
        let (templates, spread) = match self {
            Self::Egt100 => (vec![batch_template(signer, table, connection)], Spread::Own),
            Self::HotPartition => (insert_templates(signer, table, connection), Spread::Over(1)),
            _ => {
                let spread = Spread::Over(INSERT_PARTITIONS);
                (insert_templates(signer, table, connection), spread)
            }
        };
        Script::stamping(templates, numbers.clone(), spread)
    }
}

/// Scripts that fill [`TABLE`] with the entities `from..to` in transactions of 100, and how many
/// of those there are. Both ends are multiples of 100.
pub(crate) fn load_scripts(
    signer: &Arc<Signer>,
    connections: usize,
    from: usize,
    to: usize,
) -> (Vec<Script>, u64) {
    let numbers = Arc::new(AtomicU64::new(0));
    let script = |_| {
        let signer = signer.clone();
        let make = move |number: u64| {
            let first = from + number as usize * BATCH;
            let body = |number| {
                let (partition, row) = entity::key(number);
                entity::body(&partition, &row, number, 0)
            };
            signer.sign_batch(TABLE, &(first..first + BATCH).map(body).collect::<Vec<_>>())
        };
        Script::making(make, numbers.clone(), Expect::Parts(BATCH))
    };
    ((0..connections).map(script).collect(), ((to - from) / BATCH) as u64)
}

/// A transaction whose partition is stamped.
fn batch_template(signer: &Signer, table: &str, connection: usize) -> Template {
    let body = |row| entity::body(PARTITION_MARK, &entity::row(row), connection * BATCH + row, 1);
    let bodies: Vec<_> = (0..BATCH).map(body).collect();
    Template::new(signer.sign_batch(table, &bodies), Expect::Parts(BATCH))
}

/// Inserts whose keys are stamped.
fn insert_templates(signer: &Signer, table: &str, connection: usize) -> Vec<Template> {
    let target = format!("/{table}");
    let template = |version| {
        let number = connection * INSERT_TEMPLATES + version;
        let body = entity::body(PARTITION_MARK, ROW_MARK, number, 1);
        let request = Plain::json("POST", &target, &body).headers("Prefer: return-no-content\r\n");
        Template::new(signer.sign(&request).0, Expect::Status(204))
    };
    (0..INSERT_TEMPLATES).map(template).collect()
}

/// Draws the requests of a pool.
struct Draw<'a> {
    signer: &'a Signer,
    dataset: Dataset,
    pool: Pool,
    random: Seeded,
}

impl Draw<'_> {
    fn number(&mut self) -> usize {
        self.random.below(self.dataset.entities())
    }

    fn partition(&mut self) -> String {
        entity::partition(self.random.below(self.dataset.partitions))
    }

    fn point(&mut self) {
        let target = entity_target(TABLE, &entity::key(self.number()));
        self.push(&Plain::get(&target), Expect::Status(200));
    }

    fn upsert(&mut self, version: usize) {
        let number = self.number();
        let key = entity::key(number);
        let body = entity::body(&key.0, &key.1, number, version as u64);
        let target = entity_target(TABLE, &key);
        self.push(&Plain::json("PUT", &target, &body), Expect::Status(204));
    }

    /// Merges into entity `number`, or into any.
    fn merge(&mut self, number: Option<usize>, version: usize) {
        let number = number.unwrap_or_else(|| self.number());
        let body = entity::merge_body(number, version as u64);
        let target = entity_target(TABLE, &entity::key(number));
        let request = Plain::json("PATCH", &target, &body).headers("If-Match: *\r\n");
        self.push(&request, Expect::Status(204));
    }

    fn range(&mut self) {
        let partition = self.partition();
        let first = self.random.below(PARTITION_ROWS - RANGE_ROWS + 1);
        let (low, high) = (entity::row(first), entity::row(first + RANGE_ROWS));
        let rows = format!("RowKey ge '{low}' and RowKey lt '{high}'");
        self.query(&format!("PartitionKey eq '{partition}' and {rows}"), RANGE_ROWS);
    }

    fn or_keys(&mut self) {
        const TENTH: usize = PARTITION_ROWS / OR_KEYS;
        let partition = self.partition();
        // One row of each tenth of the partition, so that they differ.
        let mut row = |tenth| entity::row(tenth * TENTH + self.random.below(TENTH));
        let keys: Vec<_> =
            (0..OR_KEYS).map(|tenth| format!("RowKey eq '{}'", row(tenth))).collect();
        let keys = keys.join(" or ");
        self.query(&format!("PartitionKey eq '{partition}' and ({keys})"), OR_KEYS);
    }

    fn partition_scan(&mut self) {
        let (partition, quantity) = (self.partition(), self.random.below(QUANTITIES));
        let filter = format!("PartitionKey eq '{partition}' and Quantity eq {quantity}");
        self.query(&filter, PARTITION_ROWS / QUANTITIES);
    }

    fn table_scan(&mut self) {
        let filter = format!("Quantity eq {}", self.random.below(QUANTITIES));
        self.query(&filter, self.dataset.entities() / QUANTITIES);
    }

    fn query(&mut self, filter: &str, rows: usize) {
        self.push(&Plain::get(&query_target(TABLE, filter)), Expect::Rows(rows));
    }

    fn push(&mut self, request: &Plain<'_>, expect: Expect) {
        self.pool.push(self.signer.sign(request), expect);
    }
}

#[cfg(test)]
mod tests;
