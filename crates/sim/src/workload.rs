//! What clients do: one small state machine per client that produces its next request and learns
//! from the response. The same machines run over HTTP and in simulation.

mod bank;
mod mix;
mod ring;

use crate::history::{
    Call, Change, ChangeKind, EntityId, IndexUpkeep, LIFE_SECONDS, Request, Response, Scan, Slots,
    Stored,
};
use crate::model::Table;
use lazuli_testkit::seed::Seeded;

const TICKS_PER_SECOND: u64 = 10_000_000;

/// One client's part of a workload.
pub trait Client: Send {
    /// The next request.
    fn next(&mut self) -> Request;

    /// Learns the response to it.
    fn learn(&mut self, request: &Request, response: &Response);
}

/// The workloads, each with its own invariant besides linearizability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Every kind of request at random, over few entities.
    Mix,
    /// Like [`Workload::Mix`], while the table is deleted and created.
    Tables,
    /// Like [`Workload::Mix`], on a table with indexes that queries use and that are rebuilt
    /// repeatedly. No response may differ from that of a table without them.
    Indexed,
    /// Like [`Workload::Mix`], on a table whose entities expire while they are used. An expired entity
    /// is gone for every request. Only where the clock can be controlled.
    Expiring,
    /// FoundationDB's cycle: entities that point to each other in a ring, rearranged in batches of
    /// three. Every reader sees one ring.
    Ring,
    /// Money moved between accounts, each transfer with an entry in a ledger. Every reader sees
    /// balances that match the ledger.
    Bank,
}

impl Workload {
    /// Those that run over HTTP, where the clock cannot be controlled.
    pub const ALL: [Self; 5] = [Self::Mix, Self::Tables, Self::Indexed, Self::Ring, Self::Bank];
    pub const SIMULATED: [Self; 6] =
        [Self::Mix, Self::Tables, Self::Indexed, Self::Ring, Self::Bank, Self::Expiring];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Mix => "mix",
            Self::Tables => "tables",
            Self::Indexed => "indexed",
            Self::Expiring => "expiring",
            Self::Ring => "ring",
            Self::Bank => "bank",
        }
    }

    /// The setup request for the table before the clients begin, if any.
    pub fn setup(self) -> Option<Request> {
        let entities = match self {
            Self::Mix | Self::Tables => return None,
            Self::Indexed => return Some(Request::Index(IndexUpkeep::Declare)),
            Self::Expiring => return Some(Request::SetExpiry),
            Self::Ring => ring::initial(),
            Self::Bank => bank::initial(),
        };
        let insert = |(entity, slots)| Change { entity, kind: ChangeKind::Insert, slots };
        Some(Request::Batch(entities.into_iter().map(insert).collect()))
    }

    /// The table before all requests.
    pub fn initial(self) -> Table {
        let table = Table::missing();
        if self == Self::Expiring {
            table.with_life(LIFE_SECONDS * TICKS_PER_SECOND)
        } else {
            table
        }
    }

    /// The machine of client `number`.
    pub fn client(self, number: usize, random: Seeded) -> Box<dyn Client> {
        let marks = Marks::of_client(number);
        match self {
            Self::Mix | Self::Expiring => Box::new(mix::Mix::new(random, marks, mix::Kind::Plain)),
            Self::Tables => Box::new(mix::Mix::new(random, marks, mix::Kind::Tables)),
            Self::Indexed => Box::new(mix::Mix::new(random, marks, mix::Kind::Indexed)),
            Self::Ring => Box::new(ring::Walker::new(random, marks)),
            Self::Bank => Box::new(bank::Teller::new(random, marks, number)),
        }
    }

    /// The clients that can work at once.
    pub const CLIENTS_MAX: usize = 12;

    /// Checks the workload's invariant in every full page that was read.
    pub fn check(self, history: &[Call]) -> Result<(), String> {
        let holds: fn(&[(EntityId, Stored)]) -> bool = match self {
            Self::Mix | Self::Tables | Self::Indexed | Self::Expiring => return Ok(()),
            Self::Ring => ring::is_one_ring,
            Self::Bank => bank::is_explained,
        };
        for call in history {
            if let (Request::Scan(scan), Response::Page { entities, next: None }) =
                (&call.request, &call.response)
                && scan.from.is_none()
                && !holds(entities)
            {
                return Err(format!("the {} does not hold in {call}", self.name()));
            }
        }
        Ok(())
    }
}

/// A page that shows a small partition, or table, whole.
pub const fn whole(partition: Option<u8>) -> Request {
    Request::Scan(Scan { partition, from: None, top: 1000, value: None })
}

/// Pages that show by index, whole, what indexed clients wrote.
pub fn whole_by_index() -> impl Iterator<Item = Request> {
    let scan = |value| Scan { partition: None, from: None, top: 1000, value: Some(value) };
    (0..mix::VALUES).map(move |value| Request::Scan(scan(value)))
}

/// Numbers that are written once, by this client only.
#[derive(Clone, Debug)]
struct Marks(u32);

impl Marks {
    const fn of_client(number: usize) -> Self {
        Self((number as u32 + 1) << 20)
    }

    const fn next(&mut self) -> Option<u32> {
        self.0 += 1;
        Some(self.0)
    }
}

/// An entity with a version, as a client remembers it.
type Seen = (EntityId, Stored);

/// Replaces an entity that was seen, if no other writer won.
fn replace(seen: &Seen, slots: Slots) -> Change {
    let kind = ChangeKind::Replace(crate::history::Condition::At(seen.1.version));
    Change { entity: seen.0, kind, slots }
}
