//! Copies damaged by a foreign writer are found and repaired (PS-1.9).

use crate::{Badge, Employee, assert_consistent, employee, employees, jones};
use lazuli_client::Change;
use lazuli_client::patterns::FindingKind;
use lazuli_client::prelude::*;
use lazuli_test::TestServer;

#[tokio::test]
async fn damage_is_found_and_mended_beside_writers() {
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    for id in 0..20 {
        table.insert(&employee(id, &format!("{id}@x"))).await.unwrap();
    }
    assert_eq!(table.verify().collect_at_most(10).await.unwrap(), []);
    let untyped = table.retyped::<Entity>();
    untyped.delete_key(("Sales", "email_3@x")).await.unwrap();
    untyped.merge(("Sales", "email_4@x")).set("Age", 99).await.unwrap();
    let foreign = Entity::new("Sales", "email_stranger@x")
        .with("_ix", "Employee/email")
        .with("_rk", "empid_000777");
    untyped.insert(&foreign).await.unwrap();
    let mut findings = table.verify().collect_at_most(10).await.unwrap();
    findings.sort_by_key(|finding| finding.row.clone());
    let kinds: Vec<_> =
        findings.iter().map(|finding| (finding.kind, finding.row.row.as_str())).collect();
    assert_eq!(
        kinds,
        [
            (FindingKind::Missing, "email_3@x"),
            (FindingKind::Stale, "email_4@x"),
            (FindingKind::Orphan, "email_stranger@x"),
        ]
    );
    assert_eq!(table.repair().dry_run().run(|_| {}).await.unwrap(), 3);
    assert_eq!(
        table.verify().collect_at_most(10).await.unwrap().len(),
        3,
        "a dry run changes nothing"
    );

    let writers = (0..4_u32).map(|writer| {
        let table = table.clone();
        tokio::spawn(async move {
            for round in 0..10_u32 {
                let id = 10 + (writer + round) % 8;
                let email = format!("{id}-{writer}-{round}@x");
                let change = move |employee: &mut Employee| {
                    employee.email_address = email.clone();
                    Ok(Change::Write)
                };
                table.update_with(Employee::key("Sales", id)?, change).attempts(50).await?;
            }
            Ok::<(), Error>(())
        })
    });
    let writers: Vec<_> = writers.collect();
    let mended = table.repair().partition("Sales").run(|_| {}).await.unwrap();
    assert_eq!(mended, 3, "what writers do is no damage");
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    assert_eq!(table.verify().collect_at_most(10).await.unwrap(), []);
    assert_consistent(&table).await;
}

#[tokio::test]
async fn an_index_that_was_declared_later_is_filled() {
    #[derive(TableEntity, Debug, Clone, PartialEq)]
    #[table(kind = "Thing", partition = "{site}", row = "id_{id:06}")]
    struct Before {
        site: String,
        id: u32,
        name: String,
    }
    #[derive(TableEntity, Debug, Clone, PartialEq)]
    #[table(kind = "Thing", partition = "{site}", row = "id_{id:06}")]
    #[index(name, row = "name_{name}_{id:06}", keys)]
    struct After {
        site: String,
        id: u32,
        name: String,
    }
    let server = TestServer::start().await.unwrap();
    server.account().tables().create("Things").await.unwrap();
    let before: Table<Before> = server.account().tables().table_of("Things").unwrap();
    for id in 0..30 {
        before
            .insert(&Before { site: "a".into(), id, name: format!("n{}", id % 3) })
            .await
            .unwrap();
    }
    let after: Table<After> = before.retyped();
    assert_eq!(after.rebuild("name").run(|_| {}).await.unwrap(), 30);
    let found =
        after.query_by(After::by_name("a", "n1").unwrap()).collect_at_most(30).await.unwrap();
    let ids: Vec<u32> = found.iter().map(|found| found.id).collect();
    assert_eq!(ids, [1, 4, 7, 10, 13, 16, 19, 22, 25, 28]);
    assert_eq!(after.rebuild("name").run(|_| {}).await.unwrap(), 0);
}

#[tokio::test]
async fn a_union_looks_after_the_indexes_of_all_its_types() {
    // P-0.5. It did nothing once, and said nothing.
    #[derive(TableUnion, Debug, Clone, PartialEq)]
    enum Held {
        Employee(Employee),
        Badge(Badge),
    }
    let server = TestServer::start().await.unwrap();
    let table: Table<Held> = employees(&server.account()).await.retyped();
    let badge = Badge { site: "Sales".into(), id: 7, code: Some("x7".into()) };
    table.insert(&jones().into()).await.unwrap();
    table.insert(&badge.into()).await.unwrap();
    assert_eq!(table.verify().collect_at_most(10).await.unwrap(), []);
    let untyped = table.retyped::<Entity>();
    for row in ["Department", "x"] {
        let kind = if row == "x" { "Robot" } else { "Department" };
        untyped.insert(&Entity::new("Sales", row).with("EntityType", kind)).await.unwrap();
    }
    untyped.insert(&Entity::new("Sales", "y")).await.unwrap();
    let damage = async || {
        untyped.delete_key(("Sales", "email_jonesj@contoso.com")).await.unwrap();
        untyped.merge(("Sales", "code_x7")).set("more", 1).await.unwrap();
    };
    damage().await;
    let mut findings = table.verify().collect_at_most(10).await.unwrap();
    findings.sort_by_key(|finding| finding.about);
    let kinds: Vec<_> = findings.iter().map(|finding| (finding.kind, finding.about)).collect();
    assert_eq!(kinds, [(FindingKind::Stale, "code"), (FindingKind::Missing, "email")]);
    assert_eq!(table.repair().run(|_| {}).await.unwrap(), 2);
    assert_eq!(table.verify().collect_at_most(10).await.unwrap(), []);
    damage().await;
    assert_eq!(table.rebuild("email").run(|_| {}).await.unwrap(), 1);
    assert_eq!(table.verify().collect_at_most(10).await.unwrap().len(), 1);
}
