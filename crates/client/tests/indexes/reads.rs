//! Reads by index.

use crate::{Employee, EmployeeByLastName, Staff, employee, employees, jones};
use lazuli_client::prelude::*;
use lazuli_test::TestServer;

#[tokio::test]
async fn an_entity_is_found_by_id_and_by_e_mail() {
    // PS-1.1.
    let server = TestServer::with_faults().await.unwrap();
    let table = employees(&server.account()).await;
    table.insert(&jones()).await.unwrap();
    server.faults().take();
    let by_id = table.get(Employee::key("Sales", 223).unwrap()).await.unwrap().unwrap();
    let key = Employee::by_email("Sales", "jonesj@contoso.com").unwrap();
    let by_email = table.get_by(key.clone()).await.unwrap().unwrap();
    assert_eq!((&*by_id, &*by_email), (&jones(), &jones()));
    assert_eq!(by_email.primary_key(), by_id.loaded_key());
    assert_eq!(server.faults().methods(), ["GET", "GET"]);
    assert_eq!(
        (key.as_entity_key().partition.as_str(), key.as_entity_key().row.as_str()),
        ("Sales", "email_jonesj@contoso.com")
    );
    assert_eq!(
        Employee::range("Sales").id(223).to_string(),
        "PartitionKey eq 'Sales' and RowKey eq 'empid_000223'"
    );
    let loaded = table.get_by(key).for_update().await.unwrap().unwrap();
    assert_eq!(loaded.etag(), by_id.etag());
    let nobody = Employee::by_email("Sales", "x").unwrap();
    assert!(table.get_by(nobody).await.unwrap().is_none());
}

#[tokio::test]
async fn a_range_of_ids_is_in_their_order() {
    // PS-1.2.
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    for from in (50..=250).step_by(30) {
        let mut batch = table.batch("Sales");
        for id in from..(from + 30).min(251) {
            batch = batch.insert(&employee(id, &format!("e{id:03}@contoso.com")));
        }
        batch.commit().await.unwrap();
    }
    let range = Employee::range("Sales").id(100..=199);
    assert_eq!(
        range.to_string(),
        "PartitionKey eq 'Sales' and RowKey ge 'empid_000100' and RowKey le 'empid_000199'"
    );
    let found = table.query(range).collect_at_most(1000).await.unwrap();
    let ids: Vec<u32> = found.iter().map(|employee| employee.id).collect();
    assert_eq!(ids, (100..=199).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_prefix_of_e_mails_is_in_their_order() {
    // PS-1.3, P-1.8.
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    for (id, email) in [(1, "ba@x"), (2, "ab@x"), (3, "aa@x")] {
        table.insert(&employee(id, email)).await.unwrap();
    }
    let range = Employee::by_email_range("Sales").email_address_prefix("a");
    assert_eq!(
        range.to_string(),
        "PartitionKey eq 'Sales' and RowKey ge 'email_a' and RowKey lt 'email_b'"
    );
    let found = table.query_by(range).collect_at_most(10).await.unwrap();
    let emails: Vec<&str> = found.iter().map(|e| e.email_address.as_str()).collect();
    assert_eq!(emails, ["aa@x", "ab@x"]);

    let cards = table.query_by(Employee::by_last_name("Sales", "Jones").unwrap());
    let cards = cards.collect_at_most(10).await.unwrap();
    let first = EmployeeByLastName {
        department: "Sales".into(),
        id: 1,
        first_name: "Jon".into(),
        last_name: "Jones".into(),
        email_address: "ba@x".into(),
    };
    assert_eq!(**cards[0], first, "sorted by id");
    assert_eq!(cards.len(), 3);
    let none = Employee::by_last_name("Sales", "Jon").unwrap();
    assert!(table.query_by(none).collect_at_most(1).await.unwrap().is_empty());
}

#[tokio::test]
async fn copies_are_not_seen_by_types() {
    // PS-1.7, P-0.3.
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    table.insert(&jones()).await.unwrap();
    table
        .retyped()
        .insert(&crate::Department { department: "Sales".into(), employee_count: 1 })
        .await
        .unwrap();
    let staff = table.retyped::<Staff>().query(partition("Sales"));
    let staff = staff.collect_at_most(10).await.unwrap();
    assert_eq!(staff.len(), 2);
    assert_eq!(table.query(partition("Sales")).collect_at_most(10).await.unwrap().len(), 1);
    assert_eq!(table.scan().collect_at_most(10).await.unwrap().len(), 1);
    let kinds =
        table.retyped::<Entity>().query(partition("Sales").and(col("EntityType").eq("Employee")));
    assert_eq!(kinds.collect_at_most(10).await.unwrap().len(), 1, "copies carry no kind");
}
