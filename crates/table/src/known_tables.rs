//! Remembers where tables were found, so that most requests need not look in the catalog.
//!
//! A catalog record does not change while its table lives, so only a deletion can make what is
//! remembered wrong. What is remembered is right at every moment, by three rules:
//!
//! - A deletion bars its table before it commits: the table is forgotten, and cannot be remembered.
//! - The bar is lifted when the deletion is known to have happened or not. One of which nobody knows,
//!   or that is abandoned, leaves its table barred.
//! - A table is remembered only if no bar came or went since before the view in which it was found
//!   was taken; else the view could show what a deletion has changed meanwhile.
//!
//! This holds only where nobody else writes to the engine.

use crate::service::OpenTable;
use arc_swap::ArcSwap;
use lazuli_model::{AccountName, TableName};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tables remembered at once. Each that is added has all of them copied, which is why it is few.
const TABLES_MAX: usize = 1024;
/// Tables found while there was no room, after which all are forgotten, to make room for those that
/// are asked for now.
const CROWDED_OUT_MAX: usize = 64 * 1024;
/// Tables barred at once, after which none is remembered any more.
const BARRED_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct KnownTables {
    tables: ArcSwap<Tables>,
    /// How often a bar came or went. Changes only under the lock.
    changes: AtomicU64,
    bars: Mutex<Bars>,
}

/// By account, and by the lower-case name.
type Tables = BTreeMap<AccountName, BTreeMap<Box<str>, OpenTable>>;

#[derive(Default)]
struct Bars {
    /// How many deletions each table waits for.
    barred: BTreeMap<(AccountName, Box<str>), usize>,
    crowded_out: usize,
}

/// A moment to which [`KnownTables::remember`] looks back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(u64);

/// Held while a table is being deleted. Dropped without [`Bar::lift`], it stays.
#[must_use = "a bar that is not lifted stays"]
pub(crate) struct Bar {
    known: Arc<KnownTables>,
    table: (AccountName, Box<str>),
}

impl KnownTables {
    /// The present moment: to be taken before the view.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.changes.load(Ordering::SeqCst))
    }

    /// What `take` takes of a table that is remembered.
    pub(crate) fn find<T>(
        &self,
        account: &AccountName,
        name: &TableName,
        take: impl Fn(&OpenTable) -> T,
    ) -> Option<T> {
        self.tables.load().get(account)?.get(name.lower()).map(take)
    }

    /// Remembers a table that a view shows, unless a bar came or went since before the view.
    pub(crate) fn remember(
        &self,
        before_view: Moment,
        account: &AccountName,
        name: &TableName,
        table: &OpenTable,
    ) {
        let mut bars = self.bars();
        let named = (account.clone(), name.lower().into());
        if self.now() != before_view
            || bars.barred.contains_key(&named)
            || bars.barred.len() > BARRED_MAX
        {
            return;
        }
        let known = self.tables.load();
        let is_full = known.values().map(BTreeMap::len).sum::<usize>() >= TABLES_MAX;
        if is_full && bars.crowded_out < CROWDED_OUT_MAX {
            bars.crowded_out += 1;
            return;
        }
        bars.crowded_out = 0;
        let mut tables = if is_full { Tables::new() } else { Tables::clone(&known) };
        let (account, lower) = named;
        tables.entry(account).or_default().insert(lower, table.clone());
        self.tables.store(Arc::new(tables));
    }

    /// Forgets a table that is to be deleted.
    pub(crate) fn bar(self: &Arc<Self>, account: &AccountName, name: &TableName) -> Bar {
        let table = (account.clone(), Box::<str>::from(name.lower()));
        let mut bars = self.bars();
        self.changes.fetch_add(1, Ordering::SeqCst);
        *bars.barred.entry(table.clone()).or_default() += 1;
        let mut tables = Tables::clone(&self.tables.load());
        if let Some(tables) = tables.get_mut(account) {
            tables.remove(name.lower());
        }
        self.tables.store(Arc::new(tables));
        Bar { known: Arc::clone(self), table }
    }

    /// Nothing done under the lock can panic halfway.
    fn bars(&self) -> MutexGuard<'_, Bars> {
        self.bars.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bar {
    /// The deletion is known to have happened, or not to have.
    pub(crate) fn lift(self) {
        let mut bars = self.known.bars();
        self.known.changes.fetch_add(1, Ordering::SeqCst);
        if let Some(deletions) = bars.barred.get_mut(&self.table) {
            *deletions -= 1;
            if *deletions == 0 {
                bars.barred.remove(&self.table);
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
        OpenTable { id: TableId(id), lives }
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
        known.bar(&account(), &name("ORDERS")).lift();
        assert_eq!((find(&known, "Orders"), find(&known, "Other")), (None, Some(8)));
    }

    #[test]
    fn what_an_older_view_showed_is_not_remembered() {
        let known = Arc::new(KnownTables::default());
        let before = known.now();
        let bar = known.bar(&account(), &name("Orders"));
        let during = known.now();
        remember(&known, before, "Orders", 7);
        remember(&known, during, "Orders", 7);
        bar.lift();
        remember(&known, before, "Orders", 7);
        remember(&known, during, "Orders", 7);
        assert_eq!(find(&known, "Orders"), None);
        remember(&known, known.now(), "Orders", 9);
        assert_eq!(find(&known, "Orders"), Some(9));
    }

    #[test]
    fn a_deletion_of_unknown_outcome_bars_its_table_and_no_other() {
        let known = Arc::new(KnownTables::default());
        drop(known.bar(&account(), &name("Orders")));
        known.bar(&account(), &name("Orders")).lift();
        remember(&known, known.now(), "Orders", 7);
        remember(&known, known.now(), "Other", 8);
        assert_eq!((find(&known, "Orders"), find(&known, "Other")), (None, Some(8)));
    }

    #[test]
    fn there_is_room_for_some_tables() {
        let known = KnownTables::default();
        let count = || known.tables.load().values().map(BTreeMap::len).sum::<usize>();
        for id in 0..TABLES_MAX + 10 {
            remember(&known, known.now(), &format!("Table{id}"), id as u64);
        }
        assert_eq!(count(), TABLES_MAX);
        // Those asked for later get their turn.
        for _ in 0..CROWDED_OUT_MAX {
            remember(&known, known.now(), "Late", 1);
        }
        assert_eq!((count(), find(&known, "Late")), (1, Some(1)));
    }
}
