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
    /// At most one of each partition: those that still grow.
    open: HashMap<PartitionKey, Group>,
    /// Those that go next, in order.
    closed: VecDeque<Group>,
    bytes: usize,
}

impl Groups {
    pub(super) fn new(account: Account, table: TableName) -> Self {
        let (open, closed) = (HashMap::new(), VecDeque::new());
        Self { account, table, open, closed, bytes: 0 }
    }

    /// Bytes of all groups.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.closed.is_empty()
    }

    /// Adds a write. A second write to an entity closes the group of the first, so they keep their order.
    pub(super) fn push(&mut self, index: u64, operation: Operation) -> Result<(), Error> {
        let partition = operation.key.partition.clone();
        let mut group = match self.open.remove(&partition) {
            Some(group) => group,
            None => self.begin(partition.clone())?,
        };
        self.bytes -= group.bytes();
        let pushed = match group.changes.push(operation) {
            Err(refused) if group.len() > 0 && !matches!(refused.fault, BatchFault::Write(_)) => {
                let full = std::mem::replace(&mut group, self.begin_uncounted(partition.clone())?);
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
        if group.len() == 0 {
            self.bytes -= group.bytes();
        } else if group.len() >= BATCH_OPERATIONS_MAX
            || (self.account.1.is_some() && group.bytes() > CLEAR_BYTES_MAX)
        {
            self.closed.push_back(group);
        } else {
            self.open.insert(partition, group);
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

    fn begin(&mut self, partition: PartitionKey) -> Result<Group, Error> {
        let group = self.begin_uncounted(partition)?;
        self.bytes += group.bytes();
        Ok(group)
    }

    fn begin_uncounted(&self, partition: PartitionKey) -> Result<Group, Error> {
        let changes = ChangeSet::new(&self.account, &self.table)?;
        Ok(Group { partition, indexes: Vec::new(), changes })
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
        let mut groups: Vec<_> = self.open.drain().map(|(_, group)| group).collect();
        groups.sort_by_key(|group| group.indexes.first().copied());
        self.closed.extend(groups);
    }

    /// Forgets all groups.
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.closed.clear();
        self.bytes = 0;
    }
}
