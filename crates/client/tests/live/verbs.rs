//! Every operation on one entity, and tables.

use crate::TestServer;
use lazuli_client::{
    Change, Credential, DecodeError, Deleted, Entity, ErrorKind, Proof, TableEntity, Value,
    partition, row,
};

fn don() -> Entity {
    Entity::new("Marketing", "00001").with("FirstName", "Don").with("Age", 34)
}

#[tokio::test]
async fn an_entity_goes_there_and_back_with_its_types() {
    // CS-2, CS-3, C-5.21.
    let server = TestServer::start();
    let table = server.table("Types").await;
    let sent = Entity::new("p", "r")
        .with("Text", "O'Neill \u{1F980}")
        .with("Yes", true)
        .with("Small", i32::MIN)
        .with("Large", i64::MAX)
        .with("Whole", 3.0)
        .with("Nothing", f64::NEG_INFINITY)
        .with("When", lazuli_client::Timestamp::UNIX_EPOCH)
        .with("Id", lazuli_client::Guid([9; 16]))
        .with("Bytes", vec![0_u8, 255]);
    let written = table.insert(&sent).await.unwrap();
    assert_eq!(written.proof, Proof::Answered);
    let read = table.get(("p", "r")).await.unwrap().unwrap();
    assert_eq!(read.etag(), &written.etag);
    let properties = |entity: &Entity| -> Vec<(String, Value)> {
        entity.properties().map(|(name, value)| (name.to_owned(), value.clone())).collect()
    };
    assert_eq!(properties(&read), properties(&sent));
}

#[tokio::test]
async fn writes_keep_their_conditions() {
    // C-9.
    let server = TestServer::start();
    let table = server.table("Verbs").await;
    table.insert(&don()).await.unwrap();
    let error = table.insert(&don()).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (&ErrorKind::Conflict, Some("EntityAlreadyExists")));
    assert!(
        error.to_string().starts_with("insert Verbs (Marketing, 00001): 409 Entity"),
        "{error}"
    );

    let mut loaded = table.get(("Marketing", "00001")).required().await.unwrap();
    table.merge(("Marketing", "00001")).set("Age", 35).await.unwrap();
    loaded.set("FirstName", "Donald");
    let stale = table.replace(&loaded).await.unwrap_err();
    assert_eq!(*stale.kind(), ErrorKind::PreconditionFailed);
    assert!(table.delete(&loaded).await.unwrap_err().is_precondition_failed());

    let mut fresh = table.get(("Marketing", "00001")).required().await.unwrap();
    assert_eq!((fresh.str("FirstName"), fresh.get("Age")), (Ok("Don"), Ok(35)));
    fresh.remove("Age");
    table.replace(&fresh).await.unwrap();
    let replaced = table.get(("Marketing", "00001")).required().await.unwrap();
    assert_eq!(replaced.opt::<i32>("Age"), Ok(None), "replace removes what it does not name");

    let other = Entity::new("Marketing", "00002").with("Age", 1);
    assert_eq!(*table.overwrite(&other).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        *table.merge(("Marketing", "00002")).set("Age", 2).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    table.merge(("Marketing", "00002")).set("Age", 2).or_insert().await.unwrap();
    table.upsert_merge(&Entity::new("Marketing", "00002").with("Size", 3)).await.unwrap();
    let merged = table.get(("Marketing", "00002")).required().await.unwrap();
    assert_eq!((merged.get("Age"), merged.get("Size")), (Ok(2), Ok(3)));
    table.upsert(&other).await.unwrap();
    let upserted = table.get(("Marketing", "00002")).required().await.unwrap();
    assert_eq!((upserted.get("Age"), upserted.opt::<i32>("Size")), (Ok(1), Ok(None)));

    assert_eq!(table.delete(&upserted).await.unwrap(), Deleted::Now(Proof::Answered));
    assert_eq!(table.delete_key(("Marketing", "00002")).await.unwrap(), Deleted::WasAbsent);
    assert!(table.get(("Marketing", "00002")).await.unwrap().is_none());
    assert!(table.get(("Marketing", "00002")).required().await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn an_untyped_change_of_one_property_leaves_the_others() {
    // CS-6.
    let server = TestServer::start();
    let table = server.table("Counts").await;
    let department = Entity::new("Marketing", "Department")
        .with("DepartmentName", "Marketing")
        .with("EmployeeCount", 153);
    table.insert(&department).await.unwrap();
    let read = table.get(("Marketing", "Department")).required().await.unwrap();
    let count: i32 = read.get("EmployeeCount").unwrap();
    let merge = table.merge(read.loaded_key().clone()).if_match(read.etag());
    merge.set("EmployeeCount", count + 1).await.unwrap();
    let after = table.get(("Marketing", "Department")).required().await.unwrap();
    assert_eq!(after.get("EmployeeCount"), Ok(154));
    assert_eq!(after.str("DepartmentName"), Ok("Marketing"));
}

#[tokio::test]
async fn keys_may_hold_what_keys_may_hold() {
    // CS-7.
    let server = TestServer::start();
    let table = server.table("Keys").await;
    for text in ["'", "''", "%", "%41", "+", "&", "é", "\u{1F980}", " ", "a=b;c", "(x)", "~"] {
        table.insert(&Entity::new(text, text).with("T", text)).await.unwrap();
        let read = table.get((text, text)).required().await.unwrap();
        assert_eq!((read.partition_key(), read.row_key(), read.str("T")), (text, text, Ok(text)));
        let filter = lazuli_client::partition(text) & lazuli_client::col("T").eq(text);
        assert_eq!(table.query(filter).collect_at_most(10).await.unwrap().len(), 1, "{text}");
        assert_eq!(table.delete_key((text, text)).await.unwrap(), Deleted::Now(Proof::Answered));
    }
    let error = table.insert(&Entity::new("a/b", "r")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Key(_)) && error.attempts() == 0, "{error}");
}

#[tokio::test]
async fn tables_are_made_listed_and_deleted() {
    // C-3.4.
    let server = TestServer::start();
    let tables = server.account().tables();
    tables.create("First").await.unwrap();
    let error = tables.create("First").await.unwrap_err();
    assert_eq!(error.code(), Some("TableAlreadyExists"));
    tables.create_if_missing("First").await.unwrap();
    tables.create_if_missing("Second").await.unwrap();
    assert_eq!(tables.list().await.unwrap(), ["First", "Second"]);
    assert!(tables.exists("First").await.unwrap() && !tables.exists("Third").await.unwrap());
    assert!(tables.delete_if_present("First").await.unwrap());
    assert!(!tables.delete_if_present("First").await.unwrap());
    assert_eq!(*tables.delete("First").await.unwrap_err().kind(), ErrorKind::TableNotFound);
    let missing = tables.table("First").unwrap();
    let error = missing.get(("p", "r")).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TableNotFound);
    assert!(matches!(tables.table("1x").unwrap_err().kind(), ErrorKind::Name(..)));
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_a_new_one_is_taken_up() {
    // CS-21, C-2.9.
    let server = TestServer::start();
    let account = server.account();
    let good =
        Credential::shared_key(lazuli_server::WELL_KNOWN_ACCOUNT, lazuli_server::WELL_KNOWN_KEY);
    let wrong = Credential::shared_key(lazuli_server::WELL_KNOWN_ACCOUNT, "d3Jvbmc=").unwrap();
    let tables = account.tables();
    account.set_credential(wrong);
    let error = tables.list().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.status().map(|s| s.as_u16())),
        (&ErrorKind::Forbidden { reason: "AuthenticationFailed".into() }, Some(403))
    );
    assert!(error.request_id().is_some());
    account.set_credential(good.unwrap());
    assert!(tables.list().await.is_ok());
}

#[tokio::test]
async fn a_version_that_was_stored_elsewhere_is_a_condition() {
    let server = TestServer::start();
    let table = server.table("Versions").await;
    let first = table.insert(&don()).await.unwrap().etag;
    let second = table.replace_if_match(&don().with("Age", 35), &first).await.unwrap().etag;
    let key = ("Marketing", "00001");
    let stale = table.replace_if_match(&don(), &first).await.unwrap_err();
    assert!(stale.is_precondition_failed(), "{stale}");
    let stale = table.delete_if_match(key, &first).await.unwrap_err();
    assert!(stale.is_precondition_failed(), "{stale}");
    assert_eq!(table.delete_if_match(key, &second).await.unwrap(), Deleted::Now(Proof::Answered));
    assert!(table.delete_if_match(key, &second).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn an_entity_over_the_limits_is_sent_only_unchecked() {
    // C-5.13.
    let server = TestServer::start();
    let table = server.table("Limits").await;
    let long = don().with("Notes", "x".repeat(32_769));
    assert!(lazuli_client::encoded_size(&long).unwrap() > 64 * 1024);
    let error = table.insert(&long).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitExceeded(_)) && error.status().is_none());
    assert!(error.to_string().contains("the property Notes"), "{error}");
    let refused = table.insert(&long).unchecked().await.unwrap_err();
    assert_eq!(refused.code(), Some("PropertyValueTooLarge"), "{refused}");
}

/// A type whose second version stores degrees Celsius.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(partition = "{room}", row = "{minute:06}", kind = "Reading", rename_all = "PascalCase")]
#[table(version = 2, upgrade(1 => to_celsius))]
struct Reading {
    room: String,
    minute: u32,
    degrees: f64,
    note: String,
}

fn to_celsius(row: &mut Entity) -> Result<(), DecodeError> {
    let fahrenheit: f64 = row.get("Degrees")?;
    row.set("Degrees", (fahrenheit - 32.0) / 1.8);
    Ok(())
}

#[tokio::test]
async fn a_merge_into_an_entity_of_an_older_version_is_refused() {
    // C-6.4: the row would keep its old version, and the next reader would upgrade what was merged.
    let server = TestServer::start();
    let raw = server.table("Readings").await;
    let old = Entity::new("cellar", "000001").with("EntityType", "Reading").with("Note", "");
    raw.insert(&old.with("Degrees", 50.0)).await.unwrap();
    let readings = raw.retyped::<Reading>();
    let key = || Reading::key("cellar", 1).unwrap();
    let read = readings.get(key()).required().await.unwrap();
    assert_eq!(read.degrees, 10.0);

    let warmer = Reading { degrees: 11.0, ..(*read).clone() };
    let refused = [
        readings.merge_changes(&read, &warmer).await.err(),
        readings.merge(&read).set(Reading::DEGREES, 11.0).await.err(),
        readings.merge(key()).set(Reading::DEGREES, 11.0).if_unchanged(&read).await.err(),
        readings.batch("cellar").merge(&read, |m| m.set(Reading::NOTE, "x")).commit().await.err(),
    ];
    for error in refused {
        let error = error.expect("a refusal");
        assert!(error.hint().is_some_and(|hint| hint.contains("update_with")), "{error}");
        assert_eq!(error.attempts(), 0);
    }

    // What writes the whole entity writes its version as well.
    let update = |e: &mut Reading| {
        e.degrees += 1.0;
        Ok(Change::Write)
    };
    readings.update_with(key(), update).await.unwrap();
    let read = readings.get(key()).required().await.unwrap();
    assert_eq!(read.degrees, 11.0);
    readings.merge(&read).set(Reading::DEGREES, 12.0).await.unwrap();
    let read = readings.get(key()).required().await.unwrap();
    assert_eq!(read.degrees, 12.0);
}

#[tokio::test]
async fn a_row_of_which_some_properties_were_read_is_not_replaced() {
    // C-7.22: the others would be lost.
    let server = TestServer::start();
    let people = server.table("People").await;
    let don = Entity::new("Sales", "1").with("Name", "Don").with("Age", 34);
    people.insert(&don).await.unwrap();
    let query = || people.query(partition("Sales").and(row().eq("1"))).select_names(["Age"]);
    let some = query().collect_at_most(2).await.unwrap().remove(0);
    let scanned = people.scan().select_names(["Age"]).collect_at_most(2).await.unwrap().remove(0);
    let in_transaction = scanned.clone();
    let transaction = people.transact("Sales", |tx| {
        let row = in_transaction.clone();
        async move { tx.replace(&row) }
    });
    let refused = [
        people.replace(&some).await.err(),
        people.replace(&scanned).await.err(),
        people.batch("Sales").replace(&some).commit().await.err(),
        transaction.await.err(),
    ];
    for error in refused {
        let error = error.expect("a refusal");
        assert!(error.to_string().contains("some of its properties"), "{error}");
        assert_eq!(error.attempts(), 0);
    }
    people.merge(&some).set("Age", 35).await.unwrap();
    let whole = people.get(("Sales", "1")).required().await.unwrap();
    assert_eq!((whole.str("Name").unwrap(), whole.get::<i32>("Age").unwrap()), ("Don", 35));
}
