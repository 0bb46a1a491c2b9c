//! A reader of a feed, which maintains a copy of the table from it.

use lazuli_model::{AccountName, ChangeOperation, TableName, Timestamp, ValueRef};
use lazuli_table::{
    After, ChangeImage, ChangesPage, EntityChange, EntityQuery, EntityRef, TableService,
};
use std::collections::BTreeMap;

/// Entities by their keys, with their timestamps and properties as text.
type State = BTreeMap<(String, String), (Timestamp, Vec<(String, String)>)>;

pub(super) struct Reader {
    after: After,
    state: State,
    /// The revision of the last change.
    last: u64,
}

impl Reader {
    /// A reader of a table that was empty at `after`.
    pub(super) fn new(after: After) -> Self {
        Self { after, state: State::new(), last: 0 }
    }

    /// A reader that takes a token, and then copies the table.
    pub(super) async fn of_copy(
        service: &TableService,
        account: &AccountName,
        table: &TableName,
    ) -> Self {
        let page = service.changes(account, table, After::Now).await.unwrap();
        assert!(page.changes.is_empty());
        let state = stored(service, account, table).await;
        Self { after: After::Token(page.next), state, last: page.next.position }
    }

    /// Reads one page.
    pub(super) async fn follow(
        &mut self,
        service: &TableService,
        account: &AccountName,
        table: &TableName,
    ) {
        let page = service.changes(account, table, self.after).await.unwrap();
        self.take(&page);
    }

    /// Reads everything available.
    pub(super) async fn catch_up(
        &mut self,
        service: &TableService,
        account: &AccountName,
        table: &TableName,
    ) {
        loop {
            let page = service.changes(account, table, self.after).await.unwrap();
            self.take(&page);
            if page.changes.is_empty() {
                return;
            }
        }
    }

    fn take(&mut self, page: &ChangesPage) {
        // The changes of one commit come in one page, so a page begins with a later one.
        let mut at_least = self.last + 1;
        for stored in &page.changes {
            let change = stored.decode().unwrap();
            assert!(change.revision >= at_least, "{change:?} after {at_least}");
            at_least = change.revision;
            self.last = change.revision;
            self.apply(change);
        }
        self.after = After::Token(page.next);
    }

    fn apply(&mut self, change: EntityChange<'_>) {
        let EntityChange { operation, partition_key, row_key, new, old, .. } = change;
        let before = self.state.remove(&(partition_key.clone(), row_key.clone()));
        assert_eq!(before.is_none(), operation == ChangeOperation::Insert, "{operation:?}");
        if let Some(old) = old {
            assert_eq!(before, Some(image(old)), "{operation:?}");
        }
        let is_gone = matches!(operation, ChangeOperation::Delete | ChangeOperation::Expire);
        assert_eq!(new.is_none(), is_gone, "{operation:?}");
        if let Some(new) = new {
            self.state.insert((partition_key, row_key), image(new));
        }
    }

    /// Checks that the copy equals the table.
    pub(super) async fn compare(
        &self,
        service: &TableService,
        account: &AccountName,
        table: &TableName,
    ) {
        assert_eq!(self.state, stored(service, account, table).await);
    }
}

async fn stored(service: &TableService, account: &AccountName, table: &TableName) -> State {
    let mut state = State::new();
    let mut sink = |entity: EntityRef<'_>| {
        let key = (entity.partition_key.to_owned(), entity.row_key.to_owned());
        state.insert(key, (entity.timestamp, text(entity.properties)));
    };
    let end = service.query(account, table, EntityQuery::default(), &mut sink).await.unwrap();
    assert_eq!(end.next, None);
    state
}

fn image(image: ChangeImage<'_>) -> (Timestamp, Vec<(String, String)>) {
    (image.timestamp, text(&image.properties))
}

fn text(properties: &[(&str, ValueRef<'_>)]) -> Vec<(String, String)> {
    properties.iter().map(|(name, value)| (String::from(*name), format!("{value:?}"))).collect()
}
