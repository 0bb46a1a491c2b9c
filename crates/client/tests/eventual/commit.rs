//! The entity and its copies in one commit: `Eventual::commit` (P-2.7).

use crate::{Employee, copies, employee, pair};
use lazuli_client::patterns::eventual::{Eventual, EventualTable};
use lazuli_client::prelude::*;
use lazuli_test::crash::{self, TestClient, chosen_seeds};
use lazuli_test::{StorageService, TestServer};

/// Seeds that a run without `LAZULI_SEEDS` tries; the full test has 1,000.
const SEEDS: u64 = 12;

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Badges", kind = "Badge", partition = "{site}", row = "{id:06}")]
#[index(holder, table = "BadgesByHolder", partition = "{site}", row = "{holder}_{id:06}")]
struct Badge {
    site: String,
    id: u32,
    holder: String,
}

fn staff(account: &Account) -> EventualTable<Employee> {
    Eventual::commit(account).table().unwrap()
}

fn key(id: u32) -> Key<Employee> {
    Employee::key("Sales", id).unwrap()
}

#[tokio::test]
async fn a_write_and_its_copies_are_one_request() {
    // PS-2.8.
    let server = TestServer::with_faults().await.unwrap();
    let direct = server.direct();
    direct.tables().create("Staff").await.unwrap();
    let staff = staff(&server.account());
    server.faults().take();
    staff.insert(&employee(223, "a@contoso.com")).await.unwrap();
    // The first one asks whether the service has such transactions.
    let sent = server.faults().take();
    assert_eq!(sent.iter().map(|e| e.operations()).collect::<Vec<_>>(), [0, 2]);
    assert!(sent.iter().all(|e| e.service == StorageService::Table));

    let mut loaded = staff.get(key(223)).await.unwrap().unwrap();
    loaded.email_address = "b@contoso.com".into();
    server.faults().take();
    let written = staff.replace(&loaded).await.unwrap();
    assert!(!written.pending && written.etag.is_some());
    // The entity, the copy of the old value, the copy of the new one.
    assert_eq!(server.faults().take().iter().map(|e| e.operations()).collect::<Vec<_>>(), [3]);
    assert_eq!(copies(&direct).await, [pair("b@contoso.com", "000223")]);
    let stale = staff.replace(&loaded).await.unwrap_err();
    assert!(stale.is_precondition_failed(), "{stale}");

    let second = staff.insert(&employee(224, "b@contoso.com")).await.unwrap_err();
    assert!(matches!(second.kind(), ErrorKind::UniqueViolation { index: "email", .. }), "{second}");
    assert!(staff.get(key(224)).await.unwrap().is_none());
    let twice = staff.insert(&employee(223, "c@contoso.com")).await.unwrap_err();
    assert_eq!(*twice.kind(), ErrorKind::Conflict, "{twice}");

    let by_email = Employee::by_email("Sales", "b@contoso.com").unwrap();
    assert_eq!(staff.get_by(by_email).await.unwrap().unwrap().last_name, "Jones");
    assert_eq!(staff.verify().await.unwrap(), []);
    let loaded = staff.get(key(223)).await.unwrap().unwrap();
    staff.delete(&loaded).await.unwrap();
    assert_eq!(copies(&direct).await, []);
    assert!(staff.worker().is_err());
}

#[tokio::test]
async fn a_copy_that_somebody_removed_stops_no_write() {
    // P-1.7: also with copies in another table, in a partition with the same name.
    let server = TestServer::start().await.unwrap();
    let account = server.account();
    for table in ["Badges", "BadgesByHolder"] {
        account.tables().create(table).await.unwrap();
    }
    let badges: EventualTable<Badge> = Eventual::commit(&account).table().unwrap();
    let badge = Badge { site: "Oslo".into(), id: 1, holder: "Don".into() };
    badges.insert(&badge).await.unwrap();
    assert_eq!(badges.verify().await.unwrap(), []);
    let copies = account.tables().table("BadgesByHolder").unwrap();
    copies.delete_key(("Oslo", "Don_000001")).await.unwrap();
    let change = |badge: &mut Badge| badge.holder = "Jun".into();
    badges.update_with(Badge::key("Oslo", 1).unwrap(), change).await.unwrap();
    assert_eq!(badges.verify().await.unwrap(), []);
    assert!(badges.delete_key(Badge::key("Oslo", 1).unwrap()).await.unwrap());
    assert!(copies.scan().collect_at_most(9).await.unwrap().is_empty());
}

async fn setup(client: &TestClient) {
    client.tables().create("Staff").await.unwrap();
    staff(client).insert(&employee(1, "a@contoso.com")).await.unwrap();
}

#[tokio::test]
async fn a_crash_leaves_nothing_to_heal() {
    // PS-2.8, P-0.7.
    for change in ["insert", "replace", "delete"] {
        let write = async |client: &TestClient, (): &()| {
            let staff = staff(client);
            if change == "insert" {
                staff.insert(&employee(2, "b@contoso.com")).await.unwrap();
                return;
            }
            let mut loaded = staff.get(key(1)).await.unwrap().unwrap();
            loaded.email_address = "b@contoso.com".into();
            match change {
                "replace" => staff.replace(&loaded).await.unwrap(),
                _ => staff.delete(&loaded).await.unwrap(),
            };
        };
        let check = async |client: &TestClient, (): &(), outcome: Option<()>| {
            assert_eq!(staff(client).verify().await.unwrap(), []);
            if outcome.is_some() {
                let emails: Vec<_> = copies(client).await.into_iter().map(|copy| copy.0).collect();
                let expected: &[&str] = match change {
                    "insert" => &["a@contoso.com", "b@contoso.com"],
                    "replace" => &["b@contoso.com"],
                    _ => &[],
                };
                assert_eq!(emails, expected);
            }
        };
        let requests = crash::every_point(setup, write, async |_, ()| {}, check).await.unwrap();
        assert!(requests >= 2, "{requests}");
    }
}

#[tokio::test]
async fn three_writers_with_faults_keep_copies_and_uniqueness() {
    crash::seeds(
        chosen_seeds(SEEDS),
        setup,
        async |client, (), mut writer| {
            let staff = staff(client);
            for _ in 0..6 {
                let id = 1 + writer.random.below(3) as u32;
                let email = format!("{}@contoso.com", writer.random.below(3));
                let _ = match writer.random.below(3) {
                    0 => staff.insert(&employee(id, &email)).await.is_ok(),
                    1 => staff.delete_key(key(id)).await.is_ok(),
                    _ => {
                        let change = |e: &mut Employee| e.email_address = email.clone();
                        staff.update_with(key(id), change).await.is_ok()
                    }
                };
            }
        },
        async |_, ()| {},
        async |client, (), _| {
            // No copy without its entity, no entity without its copy, and no two entities with one value.
            assert_eq!(staff(client).verify().await.unwrap(), []);
        },
    )
    .await
    .unwrap();
}
