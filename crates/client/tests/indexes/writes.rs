//! Every write operation updates the copies.

use crate::{Badge, Crew, Employee, Robot, assert_consistent, employee, employees, jones, rows};
use lazuli_client::prelude::*;
use lazuli_client::{BatchFault, Change, Cost, Deleted};
use lazuli_test::TestServer;

#[tokio::test]
async fn a_value_of_a_unique_index_has_one_holder() {
    // PS-1.4, P-1.1.
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    table.insert(&jones()).await.unwrap();
    let error = table.insert(&employee(224, "jonesj@contoso.com")).await.unwrap_err();
    assert_eq!(
        *error.kind(),
        ErrorKind::UniqueViolation { index: "email", value_key: "email_jonesj@contoso.com".into() }
    );
    assert!(!error.is_conflict());
    let begins =
        "insert Employees (Sales, email_jonesj@contoso.com): another entity has this value";
    assert!(error.to_string().starts_with(begins), "{error}");
    assert_eq!(rows(&table, "Sales").await.len(), 3, "nothing was written");
    let same = table.insert(&jones()).await.unwrap_err();
    assert_eq!(*same.kind(), ErrorKind::Conflict);
    let other = Employee { department: "Marketing".into(), ..jones() };
    table.insert(&other).await.unwrap();
    assert_consistent(&table).await;
}

#[tokio::test]
async fn a_change_of_an_index_key_moves_the_copy() {
    // PS-1.5, P-1.4, and the cost table (P-0.6).
    let server = TestServer::with_faults().await.unwrap();
    let table = employees(&server.account()).await;
    server.faults().take();
    table.insert(&jones()).await.unwrap();
    let sent = server.faults().take();
    assert_eq!((sent.len(), sent[0].operations()), (1, Employee::COST.insert().egt_ops));

    let key = || Employee::key("Sales", 223).unwrap();
    let mut loaded = table.get(key()).required().await.unwrap();
    loaded.email_address = "new@contoso.com".into();
    server.faults().take();
    table.replace(&loaded).await.unwrap();
    let sent = server.faults().take();
    assert_eq!((sent.len(), sent[0].operations()), (1, 4));
    assert_eq!(Employee::COST.replace(1).egt_ops, 4);
    let by = |email: &str| table.get_by(Employee::by_email("Sales", email).unwrap());
    assert!(by("jonesj@contoso.com").await.unwrap().is_none());
    assert_eq!(by("new@contoso.com").await.unwrap().unwrap().id, 223);

    // A change of properties that no copy contains does not write copies of that index.
    let mut loaded = table.get(key()).required().await.unwrap();
    loaded.age += 1;
    server.faults().take();
    table.replace(&loaded).await.unwrap();
    assert_eq!(server.faults().take()[0].operations(), 2, "the index of all, not the other");
    assert_consistent(&table).await;

    let expected = Cost::default();
    assert_eq!(Employee::COST.get_by().point_reads, expected.point_reads + 1);
}

#[tokio::test]
async fn blind_writes_read_first() {
    // P-1.5, P-1.6.
    let server = TestServer::with_faults().await.unwrap();
    let table = employees(&server.account()).await;
    server.faults().take();
    table.upsert(&jones()).await.unwrap();
    assert_eq!(server.faults().methods(), ["GET", "POST"]);
    table.upsert(&employee(223, "b@x")).await.unwrap();
    assert_consistent(&table).await;
    table.overwrite(&employee(223, "c@x")).await.unwrap();
    assert_consistent(&table).await;
    let missing = table.overwrite(&employee(9, "d@x")).await.unwrap_err();
    assert_eq!(*missing.kind(), ErrorKind::NotFound);
    let key = || Employee::key("Sales", 223).unwrap();
    table.merge(key()).set(Employee::EMAIL_ADDRESS, "e@x").set(Employee::AGE, 50).await.unwrap();
    assert_consistent(&table).await;
    let found = table.get_by(Employee::by_email("Sales", "e@x").unwrap()).await.unwrap().unwrap();
    assert_eq!((found.age, found.id), (50, 223));
    table.upsert_merge(&employee(223, "f@x")).await.unwrap();
    assert_consistent(&table).await;
    let update = |employee: &mut Employee| {
        employee.email_address = "g@x".into();
        employee.last_name = "Smith".into();
        Ok(Change::Write)
    };
    table.update_with(key(), update).await.unwrap();
    assert_consistent(&table).await;
    assert_eq!(rows(&table, "Sales").await, ["email_g@x", "empid_000223", "last_Smith_000223"]);

    table.insert(&employee(1, "taken@x")).await.unwrap();
    let error = table.merge(key()).set(Employee::EMAIL_ADDRESS, "taken@x").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UniqueViolation { index: "email", .. }), "{error}");
    let update = |employee: &mut Employee| {
        employee.email_address = "taken@x".into();
        Ok(Change::Write)
    };
    let error = table.update_with(key(), update).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UniqueViolation { .. }), "{error}");

    server.faults().take();
    assert!(matches!(table.delete_key(key()).await.unwrap(), Deleted::Now(_)));
    assert_eq!(server.faults().methods(), ["GET", "POST"]);
    assert_eq!(table.delete_key(key()).await.unwrap(), Deleted::WasAbsent);
    let loaded = table.get(Employee::key("Sales", 1).unwrap()).required().await.unwrap();
    table.delete(&loaded).await.unwrap();
    assert!(rows(&table, "Sales").await.is_empty());
}

#[tokio::test]
async fn a_merge_that_no_copy_holds_is_a_plain_merge() {
    // P-1.6: an index that projects some fields is not touched by others.
    #[derive(TableEntity, Debug, Clone, PartialEq)]
    #[table(kind = "Thing", partition = "{site}", row = "id_{id:06}")]
    #[index(name, row = "name_{name}_{id:06}", project(note))]
    struct Thing {
        site: String,
        id: u32,
        name: String,
        note: String,
        count: i32,
    }
    let server = TestServer::with_faults().await.unwrap();
    server.account().tables().create("Things").await.unwrap();
    let table: Table<Thing> = server.account().tables().table_of("Things").unwrap();
    let thing = Thing { site: "a".into(), id: 1, name: "x".into(), note: "y".into(), count: 1 };
    table.insert(&thing).await.unwrap();
    server.faults().take();
    table.merge(Thing::key("a", 1).unwrap()).set(Thing::COUNT, 2).await.unwrap();
    assert_eq!(server.faults().methods(), ["PATCH"]);
    server.faults().take();
    table.merge(Thing::key("a", 1).unwrap()).set(Thing::NOTE, "z").await.unwrap();
    assert_eq!(server.faults().methods(), ["GET", "POST"]);
    let found = table.query_by(Thing::by_name("a", "x").unwrap()).collect_at_most(2).await.unwrap();
    assert_eq!(found[0].note, "z");
}

#[tokio::test]
async fn a_batch_counts_copies() {
    // PS-1.6.
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    let filled = |count: u32| {
        (0..count)
            .fold(table.batch("Sales"), |batch, id| batch.insert(&employee(id, &format!("{id}@x"))))
    };
    let error = filled(34).commit().await.unwrap_err();
    let ErrorKind::InvalidBatch(fault) = error.kind() else { panic!("{error}") };
    assert_eq!((fault.index, &fault.reason), (33, &BatchFault::TooManyOperations));
    let committed = filled(33).commit().await.unwrap();
    assert_eq!(committed.len(), 33);
    assert_eq!(rows(&table, "Sales").await.len(), 99);
    assert_consistent(&table).await;

    let error = table.batch("Sales").insert(&employee(100, "new@x")).insert(&employee(101, "7@x"));
    let error = error.commit().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UniqueViolation { index: "email", .. }), "{error}");
    assert_eq!(error.batch_index(), Some(1), "the operation as the caller counts");
    let blind = table.batch("Sales").upsert(&employee(1, "y@x")).commit().await.unwrap_err();
    assert!(matches!(blind.kind(), ErrorKind::InvalidBatch(_)), "{blind}");

    server.account().tables().create("Badges").await.unwrap();
    let badges: Table<Badge> = server.account().tables().of().unwrap();
    let filled = |count: u32| {
        (0..count).fold(badges.batch("a"), |batch, id| {
            batch.insert(&Badge { site: "a".into(), id, code: Some(format!("c{id}")) })
        })
    };
    assert!(filled(51).commit().await.is_err());
    filled(50).commit().await.unwrap();
}

#[tokio::test]
async fn a_field_that_is_absent_has_no_copy() {
    // P-1.9.
    let server = TestServer::start().await.unwrap();
    server.account().tables().create("Badges").await.unwrap();
    let badges: Table<Badge> = server.account().tables().of().unwrap();
    let count = async || badges.retyped::<Entity>().scan().collect_at_most(9).await.unwrap().len();
    badges.insert(&Badge { site: "a".into(), id: 1, code: None }).await.unwrap();
    assert_eq!(count().await, 1);
    let mut badge = badges.get(Badge::key("a", 1).unwrap()).required().await.unwrap();
    badge.code = Some("x".into());
    badges.replace(&badge).await.unwrap();
    assert_eq!(count().await, 2);
    let mut badge = badges.get(Badge::key("a", 1).unwrap()).required().await.unwrap();
    badge.code = None;
    badges.replace(&badge).await.unwrap();
    assert_eq!(count().await, 1);
}

#[tokio::test]
async fn a_copy_that_somebody_removed_stops_nothing() {
    // P-1.7.
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    table.insert(&jones()).await.unwrap();
    let mut loaded = table.get(Employee::key("Sales", 223).unwrap()).required().await.unwrap();
    let untyped = table.retyped::<Entity>();
    untyped.delete_key(("Sales", "email_jonesj@contoso.com")).await.unwrap();
    untyped.delete_key(("Sales", "last_Jones_000223")).await.unwrap();
    loaded.email_address = "new@x".into();
    loaded.last_name = "Smith".into();
    table.replace(&loaded).await.unwrap();
    assert_consistent(&table).await;
}

#[tokio::test]
async fn a_copy_that_was_left_stops_no_insert() {
    // P-1.3: in an index that is not unique, only this entity can have left a copy there.
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    let untyped = table.retyped::<Entity>();
    let stale = |row: &str, index: &str| {
        Entity::new("Sales", row).with("_ix", index).with("_rk", "empid_000223")
    };
    untyped.insert(&stale("last_Jones_000223", "Employee/last_name")).await.unwrap();
    table.insert(&jones()).await.unwrap();
    assert_consistent(&table).await;
    untyped.insert(&stale("email_b@x", "Employee/email")).await.unwrap();
    let taken = table.insert(&employee(224, "b@x")).await.unwrap_err();
    assert!(matches!(taken.kind(), ErrorKind::UniqueViolation { index: "email", .. }), "{taken}");
}

#[tokio::test]
async fn two_entities_swap_a_unique_value() {
    // PS-1.8: delete and insert of one row are folded into a replace.
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    table.insert(&employee(1, "a@x")).await.unwrap();
    table.insert(&employee(2, "b@x")).await.unwrap();
    let swap = |tx: lazuli_client::Transaction| async move {
        let key = |id| Employee::key("Sales", id).map_err(Error::from);
        let (Some(mut one), Some(mut two)) = (tx.get(key(1)?).await?, tx.get(key(2)?).await?)
        else {
            return Ok(());
        };
        std::mem::swap(&mut one.email_address, &mut two.email_address);
        tx.replace(&one)?;
        tx.replace(&two)
    };
    table.transact("Sales", swap).await.unwrap();
    assert_consistent(&table).await;
    let found = table.get_by(Employee::by_email("Sales", "a@x").unwrap()).await.unwrap().unwrap();
    assert_eq!(found.id, 2);
    let steal = |tx: lazuli_client::Transaction| async move {
        let Some(mut one) = tx.get(Employee::key("Sales", 1)?).await? else { return Ok(()) };
        one.email_address = "a@x".into();
        tx.replace(&one)
    };
    let error = table.transact("Sales", steal).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UniqueViolation { .. }), "{error}");
    let both = |tx: lazuli_client::Transaction| async move {
        tx.insert(&employee(3, "c@x"))?;
        tx.insert(&employee(4, "c@x"))
    };
    let error = table.transact("Sales", both).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UniqueViolation { .. }), "{error}");
    assert_consistent(&table).await;
}

#[tokio::test]
async fn no_write_goes_around_the_indexes() {
    // C-9.5, P-0.1.
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    table.insert(&jones()).await.unwrap();
    let pair = ("Sales", "empid_000223");
    assert!(table.delete_key(pair).await.is_err());
    assert!(table.merge(pair).set("EmailAddress", "x").await.is_err());
    assert!(table.update_with(pair, |_| Ok(Change::Write)).await.is_err());
    assert_consistent(&table).await;

    #[expect(clippy::duplicated_attributes, reason = "two indexes may both be unique")]
    #[derive(TableEntity, Debug, Clone, PartialEq)]
    #[table(name = "Staff", kind = "Employee", partition = "empid_{department}", row = "{id:06}")]
    #[index(email, partition = "email_{department}", row = "{email}", unique)]
    #[index(elsewhere, table = "ByEmail", partition = "{department}", row = "{email}", unique)]
    struct Far {
        department: String,
        id: u32,
        email: String,
    }
    assert_eq!(Far::INDEXES[0].partition, Some("email_{department}"));
    assert_eq!(
        (Far::INDEXES[1].table, Far::INDEXES[1].mark),
        (Some("ByEmail"), "Employee/elsewhere")
    );
    let far = Far { department: "Sales".into(), id: 1, email: "a@x".into() };
    let key = far.index_key(0).unwrap().unwrap();
    assert_eq!((key.partition.as_str(), key.row.as_str()), ("email_Sales", "a@x"));
    let table: Table<Far> = server.account().tables().table_of("Employees").unwrap();
    let error = table.insert(&far).await.unwrap_err();
    assert!(error.to_string().contains("eventual"), "{error}");
}

#[tokio::test]
async fn a_guarded_entity_is_replaced_with_its_copies() {
    // C-10.5, P-1.4: what it was when it was read is known from the guard on.
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    table.insert(&jones()).await.unwrap();
    let work = |tx: lazuli_client::Transaction| async move {
        let mut loaded = tx.get(Employee::key("Sales", 223)?).required().await?;
        tx.guard(&loaded)?;
        loaded.email_address = "new@contoso.com".into();
        tx.replace(&loaded)
    };
    table.transact("Sales", work).await.unwrap();
    assert_consistent(&table).await;
    assert_eq!(rows(&table, "Sales").await.len(), 3);
}

#[tokio::test]
async fn a_type_without_indexes_that_takes_the_place_of_one_with_them_leaves_no_copies() {
    // P-1.5.
    let server = TestServer::with_faults().await.unwrap();
    let table = employees(&server.account()).await;
    let crew: Table<Crew> = table.retyped();
    let robot = |name: &str| Crew::from(Robot { department: "Sales".into(), name: name.into() });
    let taken = || robot("empid_000223");
    let requests = || server.faults().take().len();
    let left = async || {
        let left = rows(&table, "Sales").await;
        crew.retyped::<Entity>().delete_key(("Sales", "empid_000223")).await.unwrap();
        left
    };

    crew.insert(&jones().into()).await.unwrap();
    crew.upsert(&taken()).await.unwrap();
    assert_eq!(left().await, ["empid_000223"]);
    crew.insert(&jones().into()).await.unwrap();
    crew.overwrite(&taken()).await.unwrap();
    assert_eq!(left().await, ["empid_000223"]);
    crew.insert(&jones().into()).await.unwrap();
    crew.upsert_merge(&taken()).await.unwrap();
    assert_eq!(left().await, ["empid_000223"]);
    crew.insert(&jones().into()).await.unwrap();
    let key = jones().key().unwrap();
    let mut loaded = crew.get(Key::new(key)).required().await.unwrap();
    *loaded = taken();
    requests();
    crew.replace(&loaded).await.unwrap();
    assert_eq!(requests(), 1);
    assert_eq!(left().await, ["empid_000223"]);

    // Neither a batch nor a transaction can read first.
    let batch = crew.batch("Sales").upsert(&taken()).commit().await.unwrap_err();
    let transaction = crew.transact("Sales", |tx| async move { tx.upsert(&taken()) });
    for refused in [batch, transaction.await.unwrap_err()] {
        assert!(refused.hint().is_some_and(|hint| hint.contains("read it")), "{refused}");
    }
    // Keys that no employee has cost what they did.
    requests();
    crew.upsert(&robot("r2")).await.unwrap();
    crew.overwrite(&robot("r2")).await.unwrap();
    crew.batch("Sales").upsert(&robot("r2")).upsert(&robot("d2")).commit().await.unwrap();
    let loaded = crew.get(Key::new(robot("r2").key().unwrap())).required().await.unwrap();
    crew.replace(&loaded).await.unwrap();
    assert_eq!(requests(), 5);
}
