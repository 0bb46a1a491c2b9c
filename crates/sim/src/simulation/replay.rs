//! Replays the change feed of the table: the last change of each entity must match its final state.

use lazuli_model::{AccountName, ChangeOperation, TableName, Timestamp};
use lazuli_table::{After, EntityQuery, EntityRef, TableError, TableService};
use std::collections::BTreeMap;

/// When each entity was written; `None` if it is gone.
type State = BTreeMap<(String, String), Option<Timestamp>>;

/// A table that was never recorded passes.
pub(super) async fn check(
    tables: &TableService,
    account: &AccountName,
    table: &TableName,
) -> Result<(), String> {
    let wrong = |error: TableError| format!("change feed: {error}");
    let mut stored = State::new();
    let mut sink = |entity: EntityRef<'_>| {
        let key = (entity.partition_key.to_owned(), entity.row_key.to_owned());
        stored.insert(key, Some(entity.timestamp));
    };
    tables.query(account, table, EntityQuery::default(), &mut sink).await.map_err(wrong)?;
    for (key, at) in replayed(tables, account, table).await? {
        let found = stored.get(&key).copied().flatten();
        if found != at {
            return Err(format!("{key:?} is {found:?}, and its last change left {at:?}"));
        }
    }
    Ok(())
}

async fn replayed(
    tables: &TableService,
    account: &AccountName,
    table: &TableName,
) -> Result<State, String> {
    let wrong = |error: TableError| format!("change feed: {error}");
    let (mut state, mut after, mut last) = (State::new(), After::Oldest, 0);
    loop {
        let page = match tables.changes(account, table, after).await {
            Err(TableError::NoFeed) => return Ok(state),
            page => page.map_err(wrong)?,
        };
        if page.changes.is_empty() {
            return Ok(state);
        }
        for stored in &page.changes {
            let change = stored.decode().map_err(wrong)?;
            if change.revision < last {
                return Err(format!("{} comes after {last}", change.revision));
            }
            last = change.revision;
            let key = (change.partition_key, change.row_key);
            let was_there = state.get(&key).map(Option::is_some);
            let is_insert = change.operation == ChangeOperation::Insert;
            if was_there == Some(is_insert) {
                return Err(format!("{:?} of {key:?}", change.operation));
            }
            state.insert(key, change.new.map(|new| new.timestamp));
        }
        after = After::Token(page.next);
    }
}
