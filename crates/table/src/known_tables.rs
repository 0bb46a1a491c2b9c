//! A cache of tables, so that most requests need not read the catalog.
//!
//! A catalog record does not change while its table exists, so only a deletion can invalidate a
//! cached table. If this process is the only writer of the engine, three rules keep the cache
//! correct at every moment:
//!
//! - A deletion takes a [`DeletionGuard`] before it commits: the table leaves the cache and cannot
//!   be cached while the guard exists.
//! - The guard is released when the outcome of the deletion is known. If it stays unknown, or the
//!   deletion is abandoned, the guard stays.
//! - A table is cached only if no guard was taken or released since before the view that found it
//!   was opened; otherwise the view could predate a deletion.
//!
//! With other writers a cached table is a hint: each use verifies it by reading the catalog key in
//! the same round trip, or with the guard of a commit, and drops a wrong hint.

use crate::service::OpenTable;
use arc_swap::ArcSwap;
use lazuli_model::{AccountName, TableName};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Default maximum number of cached tables; small, because adding one copies all.
const TABLES_MAX: usize = 1024;
/// After this many tables that did not fit, the cache is cleared to make room for tables in current use.
const CROWDED_OUT_MAX: usize = 64 * 1024;
/// With this many tables under a guard, nothing more is cached.
const GUARDED_MAX: usize = 1024;

pub(crate) struct KnownTables {
    tables_max: usize,
    tables: ArcSwap<Tables>,
    /// How often a guard was taken or released. Changes only under the lock.
    changes: AtomicU64,
    deletions: Mutex<Deletions>,
}

/// By account, and by the lower-case name.
type Tables = BTreeMap<AccountName, BTreeMap<Box<str>, OpenTable>>;

#[derive(Default)]
struct Deletions {
    /// How many guards each table has.
    guarded: BTreeMap<(AccountName, Box<str>), usize>,
    crowded_out: usize,
}

/// A moment with which [`KnownTables::remember`] compares.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(u64);

/// Exists while a table is being deleted. If dropped without [`release`](Self::release), the guard
/// stays forever.
#[must_use = "a guard that is not released stands for ever"]
pub(crate) struct DeletionGuard {
    known: Arc<KnownTables>,
    table: (AccountName, Box<str>),
}

impl Default for KnownTables {
    fn default() -> Self {
        Self::new(TABLES_MAX)
    }
}

impl KnownTables {
    /// An empty cache with room for `tables_max` tables.
    pub(crate) fn new(tables_max: usize) -> Self {
        let (tables, changes, deletions) = Default::default();
        Self { tables_max, tables, changes, deletions }
    }

    /// The current moment; take it before the view or the read.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.changes.load(Ordering::SeqCst))
    }

    /// Calls `take` with a cached table.
    pub(crate) fn find<T>(
        &self,
        account: &AccountName,
        name: &TableName,
        take: impl Fn(&OpenTable) -> T,
    ) -> Option<T> {
        self.tables.load().get(account)?.get(name.lower()).map(take)
    }

    /// Caches a table, unless a guard was taken or released since `before`.
    pub(crate) fn remember(
        &self,
        before: Moment,
        account: &AccountName,
        name: &TableName,
        table: &OpenTable,
    ) {
        let mut deletions = self.deletions();
        let named = (account.clone(), name.lower().into());
        if self.now() != before
            || deletions.guarded.contains_key(&named)
            || deletions.guarded.len() > GUARDED_MAX
        {
            return;
        }
        let known = self.tables.load();
        let is_full = known.values().map(BTreeMap::len).sum::<usize>() >= self.tables_max;
        if is_full && deletions.crowded_out < CROWDED_OUT_MAX {
            deletions.crowded_out += 1;
            return;
        }
        deletions.crowded_out = 0;
        let mut tables = if is_full { Tables::new() } else { Tables::clone(&known) };
        let (account, lower) = named;
        tables.entry(account).or_default().insert(lower, table.clone());
        self.tables.store(Arc::new(tables));
    }

    /// Removes a table that is about to be deleted.
    pub(crate) fn guard_deletion(
        self: &Arc<Self>,
        account: &AccountName,
        name: &TableName,
    ) -> DeletionGuard {
        let table = (account.clone(), Box::<str>::from(name.lower()));
        let mut deletions = self.deletions();
        self.changes.fetch_add(1, Ordering::SeqCst);
        *deletions.guarded.entry(table.clone()).or_default() += 1;
        self.remove(account, name);
        DeletionGuard { known: Arc::clone(self), table }
    }

    /// Removes a cached table that turned out to be wrong.
    pub(crate) fn forget(&self, account: &AccountName, name: &TableName) {
        let _deletions = self.deletions();
        self.remove(account, name);
    }

    /// Called under the lock.
    fn remove(&self, account: &AccountName, name: &TableName) {
        let mut tables = Tables::clone(&self.tables.load());
        if let Some(tables) = tables.get_mut(account) {
            tables.remove(name.lower());
        }
        self.tables.store(Arc::new(tables));
    }

    /// No code under the lock can panic halfway.
    fn deletions(&self) -> MutexGuard<'_, Deletions> {
        self.deletions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeletionGuard {
    /// The outcome of the deletion is known.
    pub(crate) fn release(self) {
        let mut deletions = self.known.deletions();
        self.known.changes.fetch_add(1, Ordering::SeqCst);
        if let Some(guards) = deletions.guarded.get_mut(&self.table) {
            *guards -= 1;
            if *guards == 0 {
                deletions.guarded.remove(&self.table);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_engine::{Check, Expect, Key, Revision};
    use lazuli_layout::TableId;

    fn account() -> AccountName {
        AccountName::parse("acct").unwrap()
    }

    fn name(text: &str) -> TableName {
        TableName::parse(text).unwrap()
    }

    fn open(id: u64) -> OpenTable {
        let lives = Check { key: Key::from(vec![b'L', b'c']), expect: Expect::At(Revision(id)) };
        OpenTable { id: TableId(id), lives, settings: None, derive: None }
    }

    fn find(known: &KnownTables, text: &str) -> Option<u64> {
        known.find(&account(), &name(text), |table| table.id.0)
    }

    fn remember(known: &KnownTables, before: Moment, text: &str, id: u64) {
        known.remember(before, &account(), &name(text), &open(id));
    }

    #[test]
    fn a_table_is_remembered_without_regard_to_case_until_it_is_to_be_deleted() {
        let known = Arc::new(KnownTables::default());
        assert_eq!(find(&known, "Orders"), None);
        remember(&known, known.now(), "Orders", 7);
        remember(&known, known.now(), "Other", 8);
        assert_eq!(find(&known, "orders"), Some(7));
        known.guard_deletion(&account(), &name("ORDERS")).release();
        assert_eq!((find(&known, "Orders"), find(&known, "Other")), (None, Some(8)));
    }

    #[test]
    fn what_an_older_view_showed_is_not_remembered() {
        let known = Arc::new(KnownTables::default());
        let before = known.now();
        let guard = known.guard_deletion(&account(), &name("Orders"));
        let during = known.now();
        remember(&known, before, "Orders", 7);
        remember(&known, during, "Orders", 7);
        guard.release();
        remember(&known, before, "Orders", 7);
        remember(&known, during, "Orders", 7);
        assert_eq!(find(&known, "Orders"), None);
        remember(&known, known.now(), "Orders", 9);
        assert_eq!(find(&known, "Orders"), Some(9));
    }

    #[test]
    fn a_deletion_of_unknown_outcome_guards_its_table_and_no_other() {
        let known = Arc::new(KnownTables::default());
        drop(known.guard_deletion(&account(), &name("Orders")));
        known.guard_deletion(&account(), &name("Orders")).release();
        remember(&known, known.now(), "Orders", 7);
        remember(&known, known.now(), "Other", 8);
        assert_eq!((find(&known, "Orders"), find(&known, "Other")), (None, Some(8)));
    }

    #[test]
    fn a_wrong_hint_is_forgotten_and_the_table_can_be_remembered_again() {
        let known = KnownTables::default();
        remember(&known, known.now(), "Orders", 7);
        remember(&known, known.now(), "Other", 8);
        known.forget(&account(), &name("ORDERS"));
        assert_eq!((find(&known, "Orders"), find(&known, "Other")), (None, Some(8)));
        remember(&known, known.now(), "Orders", 9);
        assert_eq!(find(&known, "Orders"), Some(9));
    }

    #[test]
    fn there_is_room_for_some_tables() {
        const MAX: usize = 7;
        let known = KnownTables::new(MAX);
        let count = || known.tables.load().values().map(BTreeMap::len).sum::<usize>();
        for id in 0..MAX + 10 {
            remember(&known, known.now(), &format!("Table{id}"), id as u64);
        }
        assert_eq!(count(), MAX);
        // Tables asked for later get their turn.
        for _ in 0..CROWDED_OUT_MAX {
            remember(&known, known.now(), "Late", 1);
        }
        assert_eq!((count(), find(&known, "Late")), (1, Some(1)));
    }
}
