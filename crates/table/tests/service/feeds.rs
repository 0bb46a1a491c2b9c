//! The change feed: what it records, how it is read, and what is dropped.

use crate::fixture::{Fault, Fixture, mutation, store};
use lazuli_engine::{Engine, Reclaimed, Write, Writers};
use lazuli_layout::{FeedId, TableId};
use lazuli_model::{
    ChangeOperation, Clock, Feed, FeedRetention, IfMatch, Images, Timestamp, Value,
};
use lazuli_table::{
    After, ChangesPage, DisagreementKind, FEED, FeedToken, MutationKind, TableError,
};
use lazuli_testkit::feed_histories;

const SECOND_MS: u64 = 1000;
const HOUR_MS: u64 = 3600 * SECOND_MS;

impl Fixture {
    async fn recorded(images: Images) -> Self {
        let fixture = Self::new().await;
        let fixture = Self { service: fixture.service.clone().with_index_settles_ms(0), ..fixture };
        fixture.record(images).await;
        fixture
    }

    async fn record(&self, images: Images) {
        let feed = Feed { images, retention: FeedRetention::from_hours(1).unwrap() };
        self.service.set_feed(&self.account, &self.table, feed).await.unwrap();
    }

    async fn changes(&self, after: After) -> Result<ChangesPage, TableError> {
        self.service.changes(&self.account, &self.table, after).await
    }

    async fn now(&self) -> FeedToken {
        self.changes(After::Now).await.unwrap().next
    }
}

/// Changes as text: the operation, the row, and which images there are.
fn shown(page: &ChangesPage) -> Vec<String> {
    let show = |stored: &lazuli_table::StoredChange| {
        let change = stored.decode().unwrap();
        let image = |image: Option<lazuli_table::ChangeImage<'_>>, sign: &str| {
            image.map(|image| format!("{sign}{}", image.properties.len())).unwrap_or_default()
        };
        let (new, old) = (image(change.new, "+"), image(change.old, "-"));
        format!("{} {}{new}{old}", change.operation.name(), change.row_key)
    };
    page.changes.iter().map(show).collect()
}

///
#[tokio::test]
async fn every_change_is_recorded_with_its_operation_and_images() {
    for (images, expect) in [
        (
            Images::Keys,
            "insert 1|insert 2|replace 1|merge 1|replace 2|merge 2|delete 1|insert 1|delete 2",
        ),
        (
            Images::New,
            "insert 1+1|insert 2+1|replace 1+1|merge 1+2|replace 2+1|merge 2+2|delete 1|insert 1+1|delete 2",
        ),
        (
            Images::Both,
            "insert 1+1|insert 2+1|replace 1+1-1|merge 1+2-1|replace 2+1-1|merge 2+2-1|delete 1-2|insert 1+1|delete 2-2",
        ),
    ] {
        let fixture = Fixture::recorded(images).await;
        let any = IfMatch::Any;
        for (kind, row, name) in [
            (MutationKind::Insert, "1", "A"),
            (MutationKind::InsertOrReplace, "2", "A"),
            (MutationKind::Replace(any), "1", "A"),
            (MutationKind::Merge(any), "1", "B"),
            (MutationKind::InsertOrReplace, "2", "A"),
            (MutationKind::InsertOrMerge, "2", "B"),
            (MutationKind::Delete(any), "1", "A"),
            (MutationKind::InsertOrMerge, "1", "A"),
            (MutationKind::Delete(any), "2", "A"),
        ] {
            fixture.mutate(kind, ("p", row), &[(name, Value::from(1))]).await.unwrap();
        }
        // What is refused is not recorded.
        fixture.mutate(MutationKind::Insert, ("p", "1"), &[]).await.unwrap_err();
        let page = fixture.changes(After::Oldest).await.unwrap();
        assert_eq!(shown(&page).join("|"), expect);
        let after = fixture.changes(After::Token(page.next)).await.unwrap();
        assert!(after.changes.is_empty());
    }
}

/// the revision is that of the entity, and one transaction has one revision.
#[tokio::test]
async fn changes_of_one_transaction_share_a_revision() {
    let fixture = Fixture::recorded(Images::New).await;
    let rows = ["1", "2", "3"];
    let all = rows.map(|row| mutation(MutationKind::Insert, ("p", row), &[]));
    let written = fixture.transact(all.to_vec()).await.unwrap();
    let page = fixture.changes(After::Oldest).await.unwrap();
    for (stored, row) in page.changes.iter().zip(rows) {
        let change = stored.decode().unwrap();
        assert_eq!((change.revision, change.row_key.as_str()), (written.ticks(), row));
        assert_eq!(change.new.unwrap().timestamp, written);
        assert_eq!(change.operation, ChangeOperation::Insert);
    }
    assert_eq!(page.next.position, written.ticks());
}

/// a page has at most 1,000 changes, and whole transactions.
#[tokio::test]
async fn a_page_cuts_no_transaction() {
    let fixture = Fixture::recorded(Images::Keys).await;
    for batch in 0..11 {
        let rows: Vec<String> = (0..99).map(|row| format!("{batch}-{row}")).collect();
        let all = rows.iter().map(|row| mutation(MutationKind::Insert, ("p", row), &[]));
        fixture.transact(all.collect()).await.unwrap();
    }
    let first = fixture.changes(After::Oldest).await.unwrap();
    assert_eq!(first.changes.len(), 990);
    let second = fixture.changes(After::Token(first.next)).await.unwrap();
    assert_eq!(second.changes.len(), 99);
    assert!(fixture.changes(After::Token(second.next)).await.unwrap().changes.is_empty());
    // The same token returns the same page.
    let again = fixture.changes(After::Token(first.next)).await.unwrap();
    assert_eq!(shown(&again), shown(&second));
}

/// a transaction larger than a page is still whole.
#[tokio::test]
async fn a_page_ends_after_some_bytes() {
    let fixture = Fixture::recorded(Images::New).await;
    let large = "x".repeat(30_000);
    for row in 0..100 {
        let pairs = [("A", Value::from(large.as_str())), ("B", Value::from(large.as_str()))];
        let kind = MutationKind::Insert;
        fixture.mutate(kind, ("p", &row.to_string()), &pairs).await.unwrap();
    }
    let (mut after, mut seen, mut pages) = (After::Oldest, 0, 0);
    loop {
        let page = fixture.changes(after).await.unwrap();
        if page.changes.is_empty() {
            break;
        }
        (seen, pages, after) = (seen + page.changes.len(), pages + 1, After::Token(page.next));
    }
    assert_eq!(seen, 100);
    assert!(pages > 1);
}

///
#[tokio::test]
async fn tokens_of_other_tables_and_tables_without_a_feed_are_refused() {
    let fixture = Fixture::new().await;
    assert!(matches!(fixture.changes(After::Oldest).await, Err(TableError::NoFeed)));
    fixture.record(Images::Keys).await;
    let token = fixture.now().await;
    let other = FeedToken { table: TableId(token.table.0 + 1), ..token };
    let refused = fixture.changes(After::Token(other)).await;
    assert!(matches!(refused, Err(TableError::TokenOfOtherFeed)));
    fixture.service.drop_feed(&fixture.account, &fixture.table).await.unwrap();
    assert!(matches!(fixture.changes(After::Token(token)).await, Err(TableError::NoFeed)));
    // A feed that is turned on again is a new one.
    fixture.record(Images::Keys).await;
    fixture.insert("p", "1").await;
    let refused = fixture.changes(After::Token(token)).await;
    let Err(TableError::ChangesDropped { oldest }) = refused else { panic!("{refused:?}") };
    assert_eq!(shown(&fixture.changes(After::Token(oldest)).await.unwrap()), ["insert 1"]);
    // A second PUT applies from then on, and keeps what exists.
    fixture.record(Images::New).await;
    fixture.insert("p", "2").await;
    let all = fixture.changes(After::Oldest).await.unwrap();
    assert_eq!(shown(&all), ["insert 1", "insert 2+0"]);
}

/// changes older than retention are dropped in ranges, and their readers get an error.
#[tokio::test]
async fn old_changes_are_dropped_and_their_readers_are_told() {
    let fixture = Fixture::recorded(Images::Keys).await;
    let before = fixture.now().await;
    fixture.insert("p", "1").await;
    let between = fixture.now().await;
    fixture.clock.advance_ms(HOUR_MS / 2);
    let recent = fixture.now().await;
    fixture.insert("p", "2").await;
    fixture.clock.advance_ms(HOUR_MS * 3 / 4);
    let drop_old = || async {
        fixture.service.drop_old_changes(fixture.clock.now()).await.unwrap();
    };
    drop_old().await;
    for token in [before, between] {
        let refused = fixture.changes(After::Token(token)).await;
        let Err(TableError::ChangesDropped { oldest }) = refused else { panic!("{refused:?}") };
        assert_eq!(shown(&fixture.changes(After::Token(oldest)).await.unwrap()), ["insert 2"]);
    }
    assert_eq!(shown(&fixture.changes(After::Token(recent)).await.unwrap()), ["insert 2"]);
    assert_eq!(shown(&fixture.changes(After::Oldest).await.unwrap()), ["insert 2"]);
    // A reader that asked within the hour continues, however old the last change is.
    fixture.clock.advance_ms(HOUR_MS);
    drop_old().await;
    assert!(fixture.changes(After::Oldest).await.unwrap().changes.is_empty());
    let current = fixture.now().await;
    fixture.insert("p", "3").await;
    assert_eq!(shown(&fixture.changes(After::Token(current)).await.unwrap()), ["insert 3"]);
    assert_eq!(fixture.stored(b'f').await, 3);
    fixture.reclaim_all().await;
    assert_eq!((fixture.stored(b'f').await, fixture.stored(b'o').await), (1, 0));
    assert_eq!(shown(&fixture.changes(After::Oldest).await.unwrap()), ["insert 3"]);
}

/// turned off, or with its table dropped, a feed leaves nothing.
#[tokio::test]
async fn a_feed_that_is_gone_leaves_nothing() {
    for drops_table in [false, true] {
        let fixture = Fixture::recorded(Images::Both).await;
        fixture.insert("p", "1").await;
        match drops_table {
            true => fixture.service.delete_table(&fixture.account, &fixture.table).await.unwrap(),
            false => fixture.service.drop_feed(&fixture.account, &fixture.table).await.unwrap(),
        }
        fixture.reclaim_all().await;
        for kind in *b"fhko" {
            assert_eq!(fixture.stored(kind).await, 0, "{}", kind as char);
        }
    }
}

impl Fixture {
    pub(crate) async fn reclaim_all(&self) {
        for _ in 0..3 {
            self.clock.advance_ms(2 * HOUR_MS);
            let now = || self.clock.now();
            while self.service.reclaim_some(now()).await.unwrap() == Reclaimed::Partly {}
        }
    }

    async fn disagreements(&self) -> Vec<(String, DisagreementKind)> {
        let page = self.service.verify_indexes(&self.account, &self.table, None).await.unwrap();
        page.found.into_iter().map(|found| (found.index, found.kind)).collect()
    }
}

/// missing and surplus changes are found.
#[tokio::test]
async fn a_damaged_feed_is_found() {
    let fixture = Fixture::recorded(Images::New).await;
    fixture.clock.advance_ms(SECOND_MS);
    fixture.insert("p", "1").await;
    fixture.clock.advance_ms(SECOND_MS);
    fixture.insert("p", "2").await;
    assert_eq!(fixture.disagreements().await, []);
    let token = fixture.now().await;
    let feed = FeedId { table: token.table, number: token.feed };
    let last = feed.entries_from(token.position).start;
    let entry = [last.as_slice(), &[0; 4]].concat();
    let writes = vec![Write::Delete(entry.into())];
    let now = lazuli_engine::Revision(fixture.clock.now().ticks());
    fixture.memory.commit(lazuli_engine::Commit::new(now, writes)).await.unwrap();
    let missing = (FEED.to_owned(), DisagreementKind::Missing);
    assert_eq!(fixture.disagreements().await, [missing]);
    fixture.mutate(MutationKind::InsertOrReplace, ("p", "2"), &[]).await.unwrap();
    assert_eq!(fixture.disagreements().await, []);
    let key = lazuli_model::EntityKey::parse("p", "2").unwrap();
    let entity = lazuli_layout::key::entity(token.table, &key);
    let later = lazuli_engine::Revision(Timestamp::MAX.ticks() - 1);
    let entry = [feed.entries_from(later.0).start.as_slice(), &[0; 4]].concat();
    let (_, name) = lazuli_layout::key::index::split_entity(&entity).unwrap();
    let change = lazuli_layout::feed::ChangeRecord {
        operation: ChangeOperation::Delete,
        entity: name,
        new: None,
        old: None,
    };
    let writes = vec![Write::Put(entry.into(), change.encode().into())];
    fixture.memory.commit(lazuli_engine::Commit::new(now, writes)).await.unwrap();
    let surplus = (FEED.to_owned(), DisagreementKind::Surplus);
    assert_eq!(fixture.disagreements().await, [surplus]);
}

/// A commit whose answer is lost is recorded once if it happened, and not at all otherwise.
#[tokio::test]
async fn a_lost_answer_is_recorded_once() {
    let fixture = Fixture::recorded(Images::Both).await;
    fixture.insert("p", "1").await;
    fixture.clock.advance_ms(SECOND_MS);
    for fault in [Fault::LoseCommit, Fault::Conflict] {
        fixture.engine.plan([fault]);
        fixture.mutate(MutationKind::Merge(IfMatch::Any), ("p", "1"), &[]).await.unwrap();
    }
    let page = fixture.changes(After::Oldest).await.unwrap();
    assert_eq!(shown(&page), ["insert 1+0", "merge 1+0-0", "merge 1+0-0"]);
}

/// a listener notices a commit made after it began to listen.
#[tokio::test]
async fn a_listener_hears_of_changes() {
    let fixture = Fixture::recorded(Images::Keys).await;
    let listen = || fixture.service.listen_for_changes(&fixture.account, &fixture.table);
    let mut early = listen().await.unwrap();
    fixture.insert("p", "1").await;
    early.changed().await;
    assert!(early.has_news().await.unwrap());
    assert!(!early.has_news().await.unwrap());
    let mut waiting = listen().await.unwrap();
    let ((), _) = tokio::join!(waiting.changed(), fixture.insert("p", "2"));
    // Changes by other processes are noticed by polling.
    let elsewhere = fixture.elsewhere();
    let insert = mutation(MutationKind::Insert, ("p", "3"), &[]);
    early.has_news().await.unwrap();
    elsewhere.mutate(&fixture.account, &fixture.table, &insert).await.unwrap();
    assert!(early.has_news().await.unwrap());
}

///
#[test]
fn a_feed_replays_to_the_table() {
    for writers in [Writers::Sole, Writers::Many] {
        feed_histories::a_feed_replays_to_the_table(&|| store(writers), 64);
    }
}

///
#[test]
fn racing_writers_leave_one_order() {
    for writers in [Writers::Sole, Writers::Many] {
        feed_histories::racing_writers_leave_one_order(&|| store(writers), 8);
    }
}
