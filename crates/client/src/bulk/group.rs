//! Writes that wait to be sent, grouped by partition (C-12.1 to C-12.3).

use crate::account::Account;
use crate::batch::{BatchFault, ChangeSet, Operation, Refused, refusal};
use crate::error::Error;
use lazuli_model::limits::BATCH_OPERATIONS_MAX;
use lazuli_model::{PartitionKey, TableName};
use std::collections::{HashMap, VecDeque};

/// Bytes of writes that are still to be encrypted. Encryption makes them up to half as large again, and one
/// more of 1 MiB may come.
const CLEAR_BYTES_MAX: usize = 1_500_000;

/// The writes of one transaction, with their places in the input.
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

/// All groups that wait.
pub(super) struct Groups {
    account: Account,
    table: TableName,
    /// At most one of each partition: those that still grow, but for the last.
    open: HashMap<PartitionKey, Group>,
    /// The one that was written to last. Most writes come partition by partition, and need not look for theirs.
    last: Option<Group>,
    /// Those that go next, in order.
    closed: VecDeque<Group>,
    bytes: usize,
    /// Bytes of the last group that was full.
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

    /// Groups that go next.
    pub(super) fn closed(&self) -> usize {
        self.closed.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.last.is_none() && self.closed.is_empty()
    }

    /// Adds a write. A second write to an entity closes the group of the first, so they keep their order.
    pub(super) fn push(&mut self, index: u64, operation: Operation) -> Result<(), Error> {
        self.turn_to(&operation.key.partition)?;
        // It was just made so.
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

    /// Makes the group of a partition the last, and begins it if there is none.
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
        // Likely as large as the last one. Not if many are open: most of them stay small then.
        if self.open.is_empty() {
            group.changes.reserve(self.full_bytes + self.full_bytes / 8);
        }
        self.bytes += group.bytes();
        self.last = Some(group);
        Ok(())
    }

    /// Puts the group that was written to last to the others that grow.
    fn settle(&mut self) {
        if let Some(last) = self.last.take() {
            self.open.insert(last.partition.clone(), last);
        }
    }

    /// Takes a group that is full, or that its first write could not be added to.
    fn put_away(&mut self, group: Group) {
        if group.len() == 0 {
            self.bytes -= group.bytes();
            return;
        }
        self.full_bytes = group.bytes();
        self.closed.push_back(group);
    }

    /// Takes the first closed group whose partition may be written now.
    pub(super) fn take_closed(
        &mut self,
        may_send: impl Fn(&PartitionKey) -> bool,
    ) -> Option<Group> {
        let at = self.closed.iter().position(|group| may_send(&group.partition))?;
        let group = self.closed.remove(at)?;
        self.bytes -= group.bytes();
        Some(group)
    }

    /// Closes the group that has most writes, of those that may be sent now.
    pub(super) fn close_fullest(&mut self, may_send: impl Fn(&PartitionKey) -> bool) {
        self.settle();
        let sendable = self.open.values().filter(|group| may_send(&group.partition));
        // Of equals the oldest, so that the order does not depend on how a map hashes.
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

    /// Forgets all groups.
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.last = None;
        self.closed.clear();
        self.bytes = 0;
    }
}
