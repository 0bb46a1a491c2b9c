//! Writes that wait to be sent, grouped by partition (C-12.1 to C-12.3).

use crate::account::Account;
use crate::batch::{BatchFault, ChangeSet, Operation, Refused, refusal};
use crate::error::Error;
use lazuli_model::limits::BATCH_OPERATIONS_MAX;
use lazuli_model::{PartitionKey, TableName};
use std::collections::{HashMap, VecDeque};

/// Limit for writes that have yet to be encrypted. Encryption makes them up to half as large again, and
/// another 1 MiB may be added.
const CLEAR_BYTES_MAX: usize = 1_500_000;

/// The writes of one transaction, with their positions in the input.
pub(super) struct Group {
    pub(super) partition: PartitionKey,
    pub(super) indexes: Vec<u64>,
    pub(super) changes: ChangeSet,
}

impl Group {
    fn begin(account: &Account, table: &TableName, partition: PartitionKey) -> Result<Self, Error> {
        let changes = ChangeSet::new(account, table)?;
        Ok(Self { partition, indexes: Vec::new(), changes })
    }

    fn len(&self) -> usize {
        self.indexes.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.changes.bytes()
    }
}

/// All waiting groups.
pub(super) struct Groups {
    account: Account,
    table: TableName,
    /// Groups that still grow, at most one per partition, except `last`.
    open: HashMap<PartitionKey, Group>,
    /// The group last written to. Most input comes partition by partition and needs no lookup.
    last: Option<Group>,
    /// Groups to be sent next, in order.
    closed: VecDeque<Group>,
    bytes: usize,
    /// Size of the last full group.
    full_bytes: usize,
}

impl Groups {
    pub(super) fn new(account: Account, table: TableName) -> Self {
        let (open, closed) = (HashMap::new(), VecDeque::new());
        Self { account, table, open, last: None, closed, bytes: 0, full_bytes: 0 }
    }

    /// Bytes of all groups.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of groups to be sent next.
    pub(super) fn closed(&self) -> usize {
        self.closed.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.last.is_none() && self.closed.is_empty()
    }

    /// Adds a write. A second write to an entity closes the group of the first, so they keep their order.
    pub(super) fn push(&mut self, index: u64, operation: Operation) -> Result<(), Error> {
        self.turn_to(&operation.key.partition)?;
        // `turn_to` has just set it.
        let Some(group) = self.last.as_mut() else { return Ok(()) };
        self.bytes -= group.bytes();
        let pushed = match group.changes.push(operation) {
            Err(refused) if group.len() > 0 && !matches!(refused.fault, BatchFault::Write(_)) => {
                let next = Group::begin(&self.account, &self.table, group.partition.clone())?;
                let full = std::mem::replace(group, next);
                self.bytes += full.bytes();
                self.closed.push_back(full);
                group.changes.push(refused.operation)
            }
            pushed => pushed,
        };
        if pushed.is_ok() {
            group.indexes.push(index);
        }
        self.bytes += group.bytes();
        let is_full = group.len() >= BATCH_OPERATIONS_MAX
            || (self.account.1.is_some() && group.bytes() > CLEAR_BYTES_MAX);
        if (is_full || group.len() == 0)
            && let Some(group) = self.last.take()
        {
            self.put_away(group);
        }
        pushed.map_err(|refused| {
            let Refused { operation, fault } = *refused;
            match fault {
                BatchFault::Write(kind) => {
                    Error::new(*kind).at("bulk", Some(self.table.as_str()), Some(&operation.key))
                }
                fault => refusal(0, fault, Some(operation.key)),
            }
        })
    }

    /// Makes the group of a partition the `last` one; creates it if necessary.
    fn turn_to(&mut self, partition: &PartitionKey) -> Result<(), Error> {
        if self.last.as_ref().is_some_and(|last| last.partition == *partition) {
            return Ok(());
        }
        self.settle();
        self.last = self.open.remove(partition);
        if self.last.is_some() {
            return Ok(());
        }
        let mut group = Group::begin(&self.account, &self.table, partition.clone())?;
        // Likely as large as the last one, unless many are open: most of those stay small.
        if self.open.is_empty() {
            group.changes.reserve(self.full_bytes + self.full_bytes / 8);
        }
        self.bytes += group.bytes();
        self.last = Some(group);
        Ok(())
    }

    /// Puts the last group back with the others that grow.
    fn settle(&mut self) {
        if let Some(last) = self.last.take() {
            self.open.insert(last.partition.clone(), last);
        }
    }

    /// Stores a group that is full, or that its first write could not be added to.
    fn put_away(&mut self, group: Group) {
        if group.len() == 0 {
            self.bytes -= group.bytes();
            return;
        }
        self.full_bytes = group.bytes();
        self.closed.push_back(group);
    }

    /// Takes the first closed group whose partition may be written to now.
    pub(super) fn take_closed(
        &mut self,
        may_send: impl Fn(&PartitionKey) -> bool,
    ) -> Option<Group> {
        let at = self.closed.iter().position(|group| may_send(&group.partition))?;
        let group = self.closed.remove(at)?;
        self.bytes -= group.bytes();
        Some(group)
    }

    /// Closes the group with the most writes among those that may be sent now.
    pub(super) fn close_fullest(&mut self, may_send: impl Fn(&PartitionKey) -> bool) {
        self.settle();
        let sendable = self.open.values().filter(|group| may_send(&group.partition));
        // Of equal groups the oldest, so that the order does not depend on the map's hashing.
        let key = |group: &&Group| (group.len(), std::cmp::Reverse(group.indexes.first().copied()));
        let fullest = sendable.max_by_key(key).map(|group| group.partition.clone());
        if let Some(group) = fullest.and_then(|partition| self.open.remove(&partition)) {
            self.closed.push_back(group);
        }
    }

    /// Closes all groups, the oldest first.
    pub(super) fn close_all(&mut self) {
        self.settle();
        let mut groups: Vec<_> = self.open.drain().map(|(_, group)| group).collect();
        groups.sort_by_key(|group| group.indexes.first().copied());
        self.closed.extend(groups);
    }

    /// Discards all groups.
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.last = None;
        self.closed.clear();
        self.bytes = 0;
    }
}
