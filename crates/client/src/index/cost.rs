//! What the writes of a type cost (P-0.6).

use super::IndexDef;

/// Requests of one operation. A transaction is one request, however many writes it contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// Reads of one entity.
    pub point_reads: usize,
    /// Writes of one entity outside transactions.
    pub writes: usize,
    /// Transactions.
    pub egts: usize,
    /// Writes within them at most.
    pub egt_ops: usize,
    /// Requests to a queue.
    pub queue_ops: usize,
    /// Requests to blobs.
    pub blob_ops: usize,
}

/// What the verbs of a type cost: `Employee::COST.insert()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    local: usize,
    is_wide: bool,
}

impl Costs {
    /// The costs of a type with these indexes; only those in the entity's partition count (P-1).
    #[doc(hidden)]
    pub const fn of(indexes: &[IndexDef]) -> Self {
        let (mut local, mut rest) = (0, indexes);
        while let [index, more @ ..] = rest {
            if index.is_local() {
                local += 1;
            }
            rest = more;
        }
        Self { local, is_wide: false }
    }

    /// The costs of a type whose entities have this many rows (P-10).
    #[doc(hidden)]
    pub const fn of_parts(parts: usize) -> Self {
        Self { local: parts.saturating_sub(1), is_wide: true }
    }

    const fn write(self, point_reads: usize, egt_ops: usize) -> Cost {
        let none = Cost { point_reads, writes: 0, egts: 0, egt_ops: 0, queue_ops: 0, blob_ops: 0 };
        if self.local == 0 && !self.is_wide {
            Cost { point_reads: 0, writes: 1, ..none }
        } else {
            Cost { egts: 1, egt_ops, ..none }
        }
    }

    /// An insert: the entity and its copies.
    pub const fn insert(self) -> Cost {
        self.write(0, 1 + self.local)
    }

    /// A replace of an entity that was read, with this many index keys changed.
    pub const fn replace(self, keys_changed: usize) -> Cost {
        self.write(0, 1 + self.local + keys_changed)
    }

    /// An upsert, an overwrite or a merge by key: the old index keys are read first (P-1.5).
    pub const fn upsert(self) -> Cost {
        if self.is_wide { self.insert() } else { self.write(1, 1 + 2 * self.local) }
    }

    /// A deletion of an entity that was read.
    pub const fn delete(self) -> Cost {
        self.write(0, 1 + self.local)
    }

    /// A deletion by key.
    pub const fn delete_key(self) -> Cost {
        self.write(1, 1 + self.local)
    }

    /// A read by index.
    pub const fn get_by(self) -> Cost {
        Cost { point_reads: 1, writes: 0, egts: 0, egt_ops: 0, queue_ops: 0, blob_ops: 0 }
    }

    /// How many times an entity is stored at most.
    pub const fn bytes_factor(self) -> usize {
        1 + self.local
    }
}
