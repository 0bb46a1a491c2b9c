//! Indexes in other partitions (P-2).

#![expect(clippy::unwrap_used, reason = "tests may")]

use lazuli_client::patterns::eventual::{Eventual, EventualTable};
use lazuli_client::prelude::*;
use lazuli_client::{Deleted, TableEntity};
use lazuli_test::crash::{self, TestClient};
use lazuli_test::{Fault, Match, StorageService, TestServer, When};
use std::time::Duration;

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Staff", kind = "Employee", rename_all = "PascalCase")]
#[table(partition = "empid_{department}", row = "{id:06}")]
#[index(email, partition = "email_{department}", row = "{email_address}", unique)]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
    email_address: String,
}

fn employee(id: u32, email: &str) -> Employee {
    let (department, last_name) = ("Sales".to_owned(), "Jones".to_owned());
    Employee { department, id, last_name, email_address: email.to_owned() }
}

async fn create(account: &Account) -> EventualTable<Employee> {
    account.tables().create("Staff").await.unwrap();
    account.queues().create_if_missing("staff-index").await.unwrap();
    staff(account)
}

fn staff(account: &Account) -> EventualTable<Employee> {
    account.eventual("staff-index").unwrap().table().unwrap()
}

/// The copies, as row key and id of the entity.
async fn copies(account: &Account) -> Vec<(String, String)> {
    let rows = account.tables().table("Staff").unwrap();
    let rows = rows.query(partition("email_Sales")).collect_at_most(100).await.unwrap();
    let row = |row: &Loaded<Entity>| {
        assert_eq!(row.value("_st"), None);
        (row.row_key().to_owned(), row.str("_rk").unwrap().to_owned())
    };
    rows.iter().map(row).collect()
}

fn pair(email: &str, id: &str) -> (String, String) {
    (email.to_owned(), id.to_owned())
}

#[tokio::test]
async fn an_entity_is_found_by_its_key_and_by_its_index() {
    // PS-2.1, and what it costs.
    let server = TestServer::with_faults().await.unwrap();
    let direct = server.direct();
    create(&direct).await;
    let staff = staff(&server.account());
    server.faults().take();
    let jones = employee(223, "jonesj@contoso.com");
    let written = staff.insert(&jones).await.unwrap();
    assert!(!written.pending && written.etag.is_some());
    let count = |service: StorageService, method: http::Method| {
        let exchanges = server.faults().exchanges();
        exchanges.iter().filter(|e| e.service == service && e.method == method).count()
    };
    // Queue 2; reads k + 2; writes: the claim, the entity, the copy.
    assert_eq!(count(StorageService::Queue, http::Method::POST), 1);
    assert_eq!(count(StorageService::Queue, http::Method::DELETE), 1);
    assert_eq!(count(StorageService::Table, http::Method::GET), 3);
    assert_eq!(count(StorageService::Table, http::Method::POST), 2);
    assert_eq!(count(StorageService::Table, http::Method::PUT), 1);

    let by_email = || Employee::by_email("Sales", "jonesj@contoso.com").unwrap();
    server.faults().take();
    let found = staff.get_by(by_email()).await.unwrap().unwrap();
    assert_eq!(found.email_address, "jonesj@contoso.com");
    assert_eq!(server.faults().take().len(), 1);
    let checked = staff.get_by_checked(by_email()).await.unwrap().unwrap();
    assert_eq!((&*checked, server.faults().take().len()), (&jones, 2));

    // The e-mail changes: the old one finds nobody, the new one does.
    let mut loaded = checked;
    loaded.email_address = "j@contoso.com".into();
    staff.replace(&loaded).await.unwrap();
    assert!(staff.get_by(by_email()).await.unwrap().is_none());
    assert_eq!(copies(&direct).await, [pair("j@contoso.com", "000223")]);
    let stale = staff.replace(&loaded).await.unwrap_err();
    assert!(stale.is_precondition_failed(), "{stale}");

    // A second holder is refused, and leaves nothing.
    let second = staff.insert(&employee(224, "j@contoso.com")).await.unwrap_err();
    assert!(matches!(second.kind(), ErrorKind::UniqueViolation { index: "email", .. }), "{second}");
    assert_eq!(copies(&direct).await, [pair("j@contoso.com", "000223")]);

    let key = Employee::key("Sales", 223).unwrap();
    let loaded = staff.get(key).await.unwrap().unwrap();
    staff.delete(&loaded).await.unwrap();
    assert_eq!(copies(&direct).await, []);
    assert_eq!(direct.queues().queue("staff-index").unwrap().approximate_count().await.unwrap(), 0);
}

#[tokio::test]
async fn one_of_two_rivals_gets_a_unique_value() {
    // PS-2.2, 50 times.
    let server = TestServer::start().await.unwrap();
    let account = server.account();
    let staff = create(&account).await;
    for round in 0..50 {
        let email = format!("{round:02}@contoso.com");
        let (a, b) = (employee(2 * round, &email), employee(2 * round + 1, &email));
        let (a, b) = tokio::join!(staff.insert(&a), staff.insert(&b));
        assert!(!(a.is_ok() && b.is_ok()), "two holders of {email}");
        // Both may lose: each meets the other's claim. The value is then free again.
        let winners = copies(&account).await.into_iter().filter(|(row, _)| *row == email).count();
        assert_eq!(winners, usize::from(a.is_ok()) + usize::from(b.is_ok()));
    }
}

#[tokio::test]
async fn without_the_queue_nothing_is_written() {
    // PS-2.5.
    let server = TestServer::with_faults().await.unwrap();
    create(&server.direct()).await;
    let is_queue = Match::any().service(StorageService::Queue);
    server.faults().add(is_queue, When::Always, Fault::Busy { retry_after: None });
    let staff = staff(&server.account());
    assert!(staff.insert(&employee(1, "a@contoso.com")).await.is_err());
    let rows = server.direct().tables().table("Staff").unwrap();
    assert!(rows.scan().collect_at_most(1).await.unwrap().is_empty());
    assert!(staff.get(Employee::key("Sales", 1).unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_crash_anywhere_is_healed_by_the_worker() {
    // PS-2.6: for an insert, a change of the value, and a deletion.
    for change in ["insert", "replace", "delete"] {
        let setup = async |client: &TestClient| {
            let staff = create(client).await;
            if change != "insert" {
                staff.insert(&employee(1, "a@contoso.com")).await.unwrap();
            }
        };
        let write = async |client: &TestClient, (): &()| {
            let staff = staff(client);
            let key = Employee::key("Sales", 1).unwrap();
            match change {
                "insert" => staff.insert(&employee(1, "b@contoso.com")).await.unwrap(),
                _ => {
                    let mut loaded = staff.get(key).await.unwrap().unwrap();
                    loaded.email_address = "b@contoso.com".into();
                    match change {
                        "replace" => staff.replace(&loaded).await.unwrap(),
                        _ => staff.delete(&loaded).await.unwrap(),
                    }
                }
            };
        };
        let heal = async |client: &TestClient, (): &()| {
            // The grace of the note, then the age of a claim.
            for _ in 0..3 {
                client.clock.advance(Duration::from_secs(700));
                staff(client).worker().unwrap().run_until_idle().await.unwrap();
            }
        };
        let check = async |client: &TestClient, (): &(), outcome: Option<()>| {
            let found = staff(client).get(Employee::key("Sales", 1).unwrap()).await.unwrap();
            let expected: Vec<_> =
                found.iter().map(|found| pair(&found.email_address, "000001")).collect();
            assert_eq!(copies(client).await, expected);
            let queue = client.queues().queue("staff-index").unwrap();
            assert_eq!(queue.approximate_count().await.unwrap(), 0);
            if outcome.is_some() {
                let email = found.map(|found| found.email_address.clone());
                let is_there = email.as_deref() == Some("b@contoso.com");
                assert_eq!(is_there, change != "delete");
            }
        };
        let requests = crash::every_point(setup, write, heal, check).await.unwrap();
        assert!(requests >= 6, "{requests}");
    }
}

#[tokio::test]
async fn repair_mends_what_others_broke() {
    let server = TestServer::start().await.unwrap();
    let account = server.account();
    account.tables().create("Staff").await.unwrap();
    let staff: EventualTable<Employee> = Eventual::none(&account).table().unwrap();
    for id in 1..=3 {
        staff.insert(&employee(id, &format!("{id}@contoso.com"))).await.unwrap();
    }
    let whole = copies(&account).await;
    let rows = account.tables().table("Staff").unwrap();
    let gone = rows.delete_key(("email_Sales", "1@contoso.com")).await.unwrap();
    assert!(matches!(gone, Deleted::Now(_)));
    let orphan = Entity::new("email_Sales", "x@contoso.com").with("_ix", "Employee/email");
    let orphan = orphan.with("_pk", "empid_Sales").with("_rk", "000002").with("_src", 1_i64);
    rows.insert(&orphan).await.unwrap();
    assert!(
        staff
            .get_by_checked(Employee::by_email("Sales", "x@contoso.com").unwrap())
            .await
            .unwrap()
            .is_none()
    );
    assert!(staff.repair().await.unwrap() >= 6);
    assert_eq!(copies(&account).await, whole);
}
