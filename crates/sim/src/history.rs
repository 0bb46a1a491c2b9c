//! The requests of clients, the responses, and their order: the input of every checker.
//!
//! Entities are small on purpose. Few partitions and rows make clients conflict; three numbers are
//! enough to distinguish a replace from a merge; and every write carries unique numbers, so that a
//! read identifies the writes it saw.

use std::fmt;

/// One of the few entities of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId {
    pub partition: u8,
    pub row: u8,
}

impl EntityId {
    pub const fn new(partition: u8, row: u8) -> Self {
        Self { partition, row }
    }

    pub fn partition_key(self) -> String {
        format!("p{:02x}", self.partition)
    }

    pub fn row_key(self) -> String {
        format!("r{:02x}", self.row)
    }

    /// The id that these keys belong to.
    pub fn parse(partition_key: &str, row_key: &str) -> Option<Self> {
        let number = |text: &str, prefix| u8::from_str_radix(text.strip_prefix(prefix)?, 16).ok();
        Some(Self { partition: number(partition_key, 'p')?, row: number(row_key, 'r')? })
    }
}

/// The properties of an entity: `A`, `B` and `C`, each optional.
pub type Slots = [Option<u32>; 3];

/// The names of the [`Slots`].
pub const SLOT_NAMES: [&str; 3] = ["A", "B", "C"];

/// The version of an entity: the ticks of its Timestamp, which its ETag spells.
pub type Version = u64;

/// An entity as a read shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    pub version: Version,
    pub slots: Slots,
}

/// The condition of a write to an entity that must exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Any,
    At(Version),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Insert,
    InsertOrReplace,
    Replace(Condition),
    InsertOrMerge,
    Merge(Condition),
    Delete(Condition),
}

/// A change of one entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub entity: EntityId,
    pub kind: ChangeKind,
    pub slots: Slots,
}

/// The indexes of an indexed table: one on `A`, whose values several entities share, and one on `C`,
/// whose values are written once.
pub const INDEXES: [Index; 2] = [
    Index { name: "byA", on: "A", is_unique: false },
    Index { name: "byC", on: "C", is_unique: true },
];

/// An index on one property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    pub name: &'static str,
    pub on: &'static str,
    pub is_unique: bool,
}

/// How long an entity of an expiring table lives after its last write.
pub const LIFE_SECONDS: u64 = 300;

/// One page of a query in key order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// `None` is the whole table.
    pub partition: Option<u8>,
    /// The first entity of the page, which need not exist.
    pub from: Option<EntityId>,
    pub top: usize,
    /// Only entities whose `A` is this: what an index finds.
    pub value: Option<u32>,
}

impl Scan {
    /// Whether the scan would return an entity if its page were long enough.
    pub fn covers(&self, entity: EntityId) -> bool {
        self.partition.is_none_or(|partition| partition == entity.partition)
            && self.from.is_none_or(|from| from <= entity)
    }

    /// Whether it would return an entity with these properties.
    pub fn selects(&self, slots: &Slots) -> bool {
        let [a, ..] = slots;
        self.value.is_none() || self.value == *a
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Get(EntityId),
    Change(Change),
    /// All or nothing; entities of one partition, without duplicates.
    Batch(Vec<Change>),
    Scan(Scan),
    CreateTable,
    DeleteTable,
    /// Declares [`INDEXES`], or rebuilds the first of them.
    Index(IndexUpkeep),
    /// Entities expire [`LIFE_SECONDS`] after their last write.
    SetExpiry,
}

/// A change of indexes. No response may show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexUpkeep {
    Declare,
    Rebuild,
}

impl Request {
    /// Whether its outcome changes what others see.
    pub const fn writes(&self) -> bool {
        !matches!(self, Self::Get(_) | Self::Scan(_) | Self::Index(_) | Self::SetExpiry)
    }

    /// The changes it makes to entities.
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::Change(change) => std::slice::from_ref(change),
            Self::Batch(changes) => changes,
            _ => &[],
        }
    }
}

/// Why a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    EntityNotFound,
    EntityAlreadyExists,
    ConditionNotMet,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// A point read; `None` when there is no such entity.
    Entity(Option<Stored>),
    Page {
        entities: Vec<(EntityId, Stored)>,
        /// The first entity that does not fit the page.
        next: Option<EntityId>,
    },
    /// The changes were made. The response to a deletion has no version.
    Written(Option<Version>),
    /// Nothing was done, because of the change at `index`.
    Refused {
        index: usize,
        reason: Refusal,
    },
    TableCreated,
    TableDeleted,
    TableAlreadyExists,
    TableNotFound,
    /// Settings of the table are changed, or an index is rebuilt.
    SettingsChanged,
    /// The service was busy: nothing was done.
    NotDone,
    /// It may have been done, or may be done later.
    Unknown,
}

/// A request, its response, and the order of both among all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub client: usize,
    pub request: Request,
    pub response: Response,
    /// Numbers that order all invocations and responses: a response with a smaller number than an
    /// invocation came before it.
    pub invoked: u64,
    /// Meaningless if the response is [`Response::Unknown`].
    pub answered: u64,
    /// What the servers' clock showed during the call.
    pub span: Span,
}

/// The first and the last time that a clock showed, in ticks; the clock never steps back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: u64,
    pub to: u64,
}

impl Span {
    /// Any time at all, where time does not matter.
    pub const ALL: Self = Self { from: 0, to: u64::MAX };
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, request, response, invoked, answered, span } = self;
        write!(f, "[{invoked}..{answered}] client {client}: {request:?} -> {response:?}")?;
        match span {
            &Span::ALL => Ok(()),
            Span { from, to } => write!(f, ", clock {from}..{to}"),
        }
    }
}
