//! P-18.

use crate::counted;
use lazuli_client::{Change, Entity, ErrorKind, Proof};

fn don() -> Entity {
    Entity::new("Marketing", "00001").with("Age", 34).with("Email", "donh@contoso.com")
}

#[tokio::test]
async fn the_second_of_two_replacements_is_refused() {
    // PS-18.1, P-18.1.
    let (_server, table) = counted().await;
    table.insert(&don()).await.unwrap();
    let key = ("Marketing", "00001");
    let mut first = table.get(key).required().await.unwrap();
    let mut second = table.get(key).required().await.unwrap();
    first.set("Age", 35);
    second.set("Age", 36);
    table.replace(&first).await.unwrap();
    let refused = table.replace(&second).await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::PreconditionFailed);
    for _ in 0..2 {
        let grow = |entity: &mut Entity| {
            let age: i32 = entity.get("Age")?;
            entity.set("Age", age + 1);
            Ok(Change::Write)
        };
        table.update_with(key, grow).await.unwrap();
    }
    let age: i32 = table.get(key).required().await.unwrap().get("Age").unwrap();
    assert_eq!(age, 37, "both have their effect");
}

#[tokio::test]
async fn a_replacement_removes_what_it_does_not_name_and_a_merge_keeps_it() {
    // PS-18.2, P-18.2.
    let (_server, table) = counted().await;
    table.insert(&don()).await.unwrap();
    table.merge(("Marketing", "00001")).set("Age", 35).await.unwrap();
    let merged = table.get(("Marketing", "00001")).required().await.unwrap();
    assert_eq!(merged.str("Email").unwrap(), "donh@contoso.com");
    let without = Entity::new("Marketing", "00001").with("Age", 36);
    table.overwrite(&without).await.unwrap();
    let replaced = table.get(("Marketing", "00001")).required().await.unwrap();
    assert!(replaced.value("Email").is_none());
}

#[tokio::test]
async fn only_upserts_create_what_is_missing() {
    // PS-18.3, P-18.2.
    let (_server, table) = counted().await;
    table.insert(&don()).await.unwrap();
    let gone = table.get(("Marketing", "00001")).required().await.unwrap();
    table.delete(&gone).await.unwrap();
    let merge = table.merge(("Marketing", "00001")).set("Age", 1);
    for refused in [
        table.replace(&gone).await.unwrap_err(),
        merge.await.unwrap_err(),
        table.overwrite(&don()).await.unwrap_err(),
    ] {
        assert_eq!(*refused.kind(), ErrorKind::NotFound);
    }
    assert_eq!(table.upsert(&don()).await.unwrap().proof, Proof::Answered);
    table.delete_key(("Marketing", "00001")).await.unwrap();
    assert_eq!(table.upsert_merge(&don()).await.unwrap().proof, Proof::Answered);
}
