//! Indexes in other partitions (P-2).

#![expect(clippy::unwrap_used, reason = "tests may")]

mod commit;
mod named;

use lazuli_client::patterns::FindingKind;
use lazuli_client::patterns::eventual::{CopyFinding, Eventual, EventualTable};
use lazuli_client::prelude::*;
use lazuli_client::{Credential, Deleted, Permissions, TableEntity};
use lazuli_test::crash::{self, TestClient};
use lazuli_test::{Fault, Match, StorageService, TestClock, TestServer, When};
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
    // PS-2.1, and its cost.
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

    // The e-mail changes: the old one finds nothing, the new one finds the entity.
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
async fn an_entity_is_replaced_under_the_key_it_was_read_by() {
    // C-9.2: its version says nothing of another row, which may have the same one.
    let server = TestServer::with_faults().await.unwrap();
    create(&server.direct()).await;
    let account = server.account();
    for staff in [staff(&account), Eventual::commit(&account).table().unwrap()] {
        staff.upsert(&employee(1, "a@contoso.com")).await.unwrap();
        let key = Employee::key("Sales", 1).unwrap();
        let mut moved = staff.get(key).await.unwrap().unwrap();
        moved.id = 2;
        server.faults().take();
        let error = staff.replace(&moved).await.unwrap_err();
        assert!(error.to_string().contains("another key"), "{error}");
        assert!(server.faults().take().is_empty());
    }
}

#[tokio::test]
async fn one_of_two_rivals_gets_a_unique_value() {
    // PS-2.2: 1,000 times in the full test.
    let server = TestServer::start().await.unwrap();
    let account = server.account();
    let staff = create(&account).await;
    for round in crash::chosen_seeds(60) {
        let email = format!("{round:03}@contoso.com");
        let id = 2 * u32::try_from(round).unwrap();
        let (a, b) = (employee(id, &email), employee(id + 1, &email));
        let (a, b) = tokio::join!(staff.insert(&a), staff.insert(&b));
        assert!(!(a.is_ok() && b.is_ok()), "two holders of {email}");
        // Both may lose, if each meets the other's claim. The value is then free again.
        let copy = staff.get_by(Employee::by_email("Sales", &email).unwrap()).await.unwrap();
        assert_eq!(copy.is_some(), a.is_ok() || b.is_ok());
    }
    // No copy without its entity, and no entity without its copy.
    assert_eq!(staff.verify().await.unwrap(), []);
}

#[tokio::test]
async fn verify_finds_what_others_broke_and_repair_mends_it() {
    // P-0.5, P-2.3a.
    let server = TestServer::start().await.unwrap();
    let account = server.account();
    let staff = create(&account).await;
    for id in 1..=4 {
        staff.insert(&employee(id, &format!("{id}@contoso.com"))).await.unwrap();
    }
    assert_eq!(staff.verify().await.unwrap(), []);
    let rows = account.tables().table("Staff").unwrap();
    rows.delete_key(("email_Sales", "1@contoso.com")).await.unwrap();
    rows.merge(("email_Sales", "2@contoso.com")).set("LastName", "Smith").await.unwrap();
    let orphan = Entity::new("email_Sales", "x@contoso.com").with("_ix", "Employee/email");
    let orphan = orphan.with("_pk", "empid_Sales").with("_rk", "000003").with("_src", 1_i64);
    rows.insert(&orphan).await.unwrap();
    // Not ours to judge.
    let foreign = Entity::new("email_Sales", "y@contoso.com").with("_ix", "Employee/other");
    rows.insert(&foreign.with("_rk", "000003")).await.unwrap();
    let found = |findings: Vec<CopyFinding>| {
        let mut found: Vec<_> = findings
            .into_iter()
            .map(|finding| (finding.row.row.as_str().to_owned(), finding.kind))
            .collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    };
    let row = |name: &str, kind| (format!("{name}@contoso.com"), kind);
    let expected = [
        row("1", FindingKind::Missing),
        row("2", FindingKind::Stale),
        row("x", FindingKind::Orphan),
    ];
    assert_eq!(found(staff.verify().await.unwrap()), expected);
    let raw = employee(9, "4@contoso.com");
    let second = Entity::new("empid_Sales", "000009").with("EntityType", "Employee");
    let second = second.with("LastName", "Jones").with("EmailAddress", &*raw.email_address);
    rows.insert(&second).await.unwrap();
    let twice = staff.verify().await.unwrap();
    assert!(twice.iter().any(|finding| finding.kind == FindingKind::Duplicate), "{twice:?}");
    rows.delete_key(("empid_Sales", "000009")).await.unwrap();

    staff.rebuild().await.unwrap();
    assert_eq!(staff.verify().await.unwrap(), []);
}

#[tokio::test]
async fn a_search_that_ends_goes_on_where_it_was() {
    // P-0.5, P-0.5a: pages end early here, and tokens go through their text.
    let server = TestServer::builder().early_pages(3).start().await.unwrap();
    let account = server.account();
    let staff = create(&account).await;
    for id in 1..=40 {
        staff.insert(&employee(id, &format!("{id:02}@contoso.com"))).await.unwrap();
    }
    let rows = account.tables().table("Staff").unwrap();
    for id in [1, 17, 40] {
        rows.delete_key(("email_Sales", &*format!("{id:02}@contoso.com"))).await.unwrap();
        let copy = format!("x{id:02}@contoso.com");
        let orphan = Entity::new("email_Sales", copy).with("_ix", "Employee/email");
        let orphan = orphan.with("_pk", "empid_Sales").with("_rk", "000003");
        rows.insert(&orphan.with("_src", 1_i64)).await.unwrap();
    }
    let (mut pages, mut findings, mut token) = (0, Vec::<CopyFinding>::new(), None::<String>);
    loop {
        let resume = token.map(|text| text.parse().unwrap());
        let page = staff.verify_page(resume.as_ref()).await.unwrap();
        pages += 1;
        findings.extend(page.findings);
        let Some(next) = page.next else { break };
        token = Some(next.to_string());
    }
    assert!(pages > 1, "{pages}");
    assert_eq!(findings.len(), 6);
    assert_eq!(findings, staff.verify().await.unwrap());

    let (mut looked_at, mut token) = (0, None);
    loop {
        let (rows, next) = staff.repair_page(token.as_ref()).await.unwrap();
        looked_at += rows;
        token = next;
        if token.is_none() {
            break;
        }
    }
    assert!(looked_at >= 80, "{looked_at}");
    assert_eq!(staff.verify().await.unwrap(), []);
}

#[tokio::test]
async fn verbs_that_read_first_keep_the_copies() {
    let clock = TestClock::default();
    let server = TestServer::builder().clock(clock.clone()).start().await.unwrap();
    let account = server.account();
    let staff = create(&account).await;
    let key = || Employee::key("Sales", 1).unwrap();
    staff.upsert(&employee(1, "a@contoso.com")).await.unwrap();
    staff.upsert(&employee(1, "b@contoso.com")).await.unwrap();
    assert_eq!(copies(&account).await, [pair("b@contoso.com", "000001")]);
    let updates = (0..4).map(|number| {
        let staff = staff.clone();
        async move {
            let change = |e: &mut Employee| e.email_address = format!("{number}@contoso.com");
            staff.update_with(key(), change).await.unwrap().unwrap();
        }
    });
    futures_util::future::join_all(updates).await;
    let found = staff.get(key()).await.unwrap().unwrap();
    // Writers of one entity may leave the rest to the worker, and claims stay young for a while.
    clock.advance(Duration::from_secs(660));
    staff.worker().unwrap().run_until_idle().await.unwrap();
    assert_eq!(copies(&account).await, [pair(&found.email_address, "000001")]);
    assert!(staff.delete_key(key()).await.unwrap());
    assert!(!staff.delete_key(key()).await.unwrap());
    assert_eq!(copies(&account).await, []);
    assert!(staff.update_with(key(), |_| ()).await.unwrap().is_none());
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
    // PS-2.6, P-2.5: for an insert, a change of the value, and a deletion.
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

#[tokio::test]
async fn a_look_up_says_how_old_it_is_and_reports_a_wrong_copy() {
    // P-2.6, P-2.2.
    let clock = TestClock::default();
    let server = TestServer::builder().clock(clock.clone()).start().await.unwrap();
    let account = server.account();
    let staff = create(&account).await;
    let by = |email: &str| Employee::by_email("Sales", email).unwrap();
    staff.insert(&employee(1, "a@x")).await.unwrap();
    let primary = staff.get(Employee::key("Sales", 1).unwrap()).await.unwrap().unwrap();
    let copy = staff.get_by(by("a@x")).await.unwrap().unwrap();
    assert_eq!(copy.as_of(), Some(primary.timestamp()));
    // A copy that only claims its value: what it holds is not asked, its entity is.
    let rows = account.tables().table("Staff").unwrap();
    let claim = rows.merge(("email_Sales", "a@x")).set("_st", "reserved").set("LastName", "Smith");
    claim.await.unwrap();
    let found = staff.get_by(by("a@x")).await.unwrap().unwrap();
    assert_eq!((&*found.last_name, found.as_of()), ("Jones", Some(primary.timestamp())));
    let orphan = Entity::new("email_Sales", "x@x").with("_ix", "Employee/email");
    let orphan = orphan.with("_pk", "empid_Sales").with("_rk", "000001").with("_src", 1_i64);
    rows.insert(&orphan).await.unwrap();
    assert!(staff.get_by_checked(by("x@x")).await.unwrap().is_none());
    // The checked look-up has left a note.
    clock.advance(Duration::from_secs(61));
    assert_eq!(staff.worker().unwrap().run_until_idle().await.unwrap(), 1);
    assert!(rows.get(("email_Sales", "x@x")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_token_for_some_keys_writes_no_copies_elsewhere() {
    // P-22.3: the write is refused before its primary is written without its copies.
    let server = TestServer::with_faults().await.unwrap();
    create(&server.direct()).await;
    let table = server.account().tables().table("Staff").unwrap();
    let permissions = Permissions::READ | Permissions::ADD | Permissions::UPDATE;
    let token = table.sas(permissions).expires_in(Duration::from_secs(600));
    let token = token.partition("empid_Sales").build().unwrap();
    let guest = Account::builder(server.account().table_endpoint().unwrap());
    let guest = guest.credential(Credential::sas(&token).unwrap()).build().unwrap();
    server.faults().take();
    let staff = Eventual::none(&guest).table::<Employee>().unwrap();
    let error = staff.insert(&employee(1, "a@x")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotGranted(_)), "{error}");
    assert!(server.faults().take().is_empty());
}

#[tokio::test]
async fn workers_may_come_twice_and_late() {
    // PS-2.4.
    let clock = TestClock::default();
    let server = TestServer::builder().clock(clock.clone()).start().await.unwrap();
    let account = server.account();
    let staff = create(&account).await;
    let deferred = account.eventual("staff-index").unwrap().deferred().table::<Employee>().unwrap();
    let key = || Employee::key("Sales", 1).unwrap();
    deferred.insert(&employee(1, "a@x")).await.unwrap();
    deferred.update_with(key(), |e| e.email_address = "b@x".into()).await.unwrap();
    // Two notes about one entity, with a worker for each. The claim of the first value must be old (P-2.3).
    clock.advance(Duration::from_secs(660));
    let (one, two) = (staff.worker().unwrap(), staff.worker().unwrap());
    let (one, two) = tokio::join!(one.run_until_idle(), two.run_until_idle());
    assert!(one.unwrap() + two.unwrap() >= 2);
    assert_eq!(copies(&account).await, [pair("b@x", "000001")]);

    // An hour-old note about a state that no longer exists.
    deferred.update_with(key(), |e| e.email_address = "c@x".into()).await.unwrap();
    staff.update_with(key(), |e| e.email_address = "d@x".into()).await.unwrap();
    let rows = account.tables().table("Staff").unwrap();
    let before = rows.get(("email_Sales", "d@x")).required().await.unwrap();
    clock.advance(Duration::from_secs(3600));
    staff.worker().unwrap().run_until_idle().await.unwrap();
    assert_eq!(copies(&account).await, [pair("d@x", "000001")]);
    let after = rows.get(("email_Sales", "d@x")).required().await.unwrap();
    assert_eq!(after.etag(), before.etag());
    assert_eq!(staff.verify().await.unwrap(), []);
}

#[tokio::test]
async fn a_note_that_fails_does_not_keep_the_worker_from_others() {
    // P-2.4a. The first note that failed once ended the worker, every time it was started.
    let clock = TestClock::default();
    let server = TestServer::builder().clock(clock.clone()).start().await.unwrap();
    let account = server.account();
    let staff = create(&account).await;
    let deferred = account.eventual("staff-index").unwrap().deferred().table::<Employee>().unwrap();
    for (id, email) in [(1, "a@x"), (2, "b@x")] {
        deferred.insert(&employee(id, email)).await.unwrap();
    }
    // A foreign row takes the key of the first copy.
    let rows = account.tables().table("Staff").unwrap();
    rows.overwrite(&Entity::new("email_Sales", "a@x").with("Foreign", true)).await.unwrap();
    clock.advance(Duration::from_secs(61));
    let error = staff.worker().unwrap().run_until_idle().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UniqueViolation { .. }), "{error}");
    let second = rows.get(("email_Sales", "b@x")).required().await.unwrap();
    assert_eq!(second.value("_st"), None, "it is complete");
    // The note stays until the key is free again.
    rows.delete_key(("email_Sales", "a@x")).await.unwrap();
    clock.advance(Duration::from_secs(61));
    assert_eq!(staff.worker().unwrap().run_until_idle().await.unwrap(), 1);
    assert_eq!(copies(&account).await, [pair("a@x", "000001"), pair("b@x", "000002")]);
}

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Badge", partition = "badge_{site}", row = "{id:06}")]
#[index(code, table = "Codes", partition = "{site}", row = "{code}", unique)]
struct Badge {
    site: String,
    id: u32,
    code: String,
}

/// Its index lies beside its entities.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Room", partition = "{site}", row = "room_{id:06}")]
#[index(name, row = "name_{name}", unique)]
struct Room {
    site: String,
    id: u32,
    name: String,
}

#[derive(TableUnion, Clone, Debug, PartialEq)]
enum Held {
    Employee(Employee),
    Badge(Badge),
}

#[derive(TableUnion, Clone, Debug, PartialEq)]
enum Mixed {
    Badge(Badge),
    Room(Room),
}

#[tokio::test]
async fn a_union_looks_after_the_copies_of_all_its_types() {
    // P-0.5. It did nothing once, and said nothing.
    let server = TestServer::with_faults().await.unwrap();
    let account = server.direct();
    create(&account).await;
    account.tables().create("Codes").await.unwrap();
    let mixed = account.tables().table_of::<Mixed>("Staff").unwrap();
    assert!(account.eventual("staff-index").unwrap().over(mixed).is_err());
    let held = |account: &Account| {
        let table = account.tables().table_of::<Held>("Staff").unwrap();
        account.eventual("staff-index").unwrap().over(table).unwrap()
    };
    let table = held(&account);
    table.insert(&employee(1, "a@x").into()).await.unwrap();
    let badge = Badge { site: "Sales".into(), id: 7, code: "x7".into() };
    table.insert(&badge.into()).await.unwrap();
    assert_eq!(table.verify().await.unwrap(), []);
    let untyped = account.tables().table("Staff").unwrap();
    untyped.delete_key(("email_Sales", "a@x")).await.unwrap();
    account.tables().table("Codes").unwrap().delete_key(("Sales", "x7")).await.unwrap();
    let findings = table.verify().await.unwrap();
    let kinds: Vec<_> = findings.iter().map(|found| (found.kind, found.index.as_str())).collect();
    assert_eq!(
        kinds,
        [(FindingKind::Missing, "Badge/code"), (FindingKind::Missing, "Employee/email")]
    );

    // P-2.6a: a repair leaves a note before it writes, and only then.
    let notes = || {
        let exchanges = server.faults().take();
        exchanges.iter().filter(|one| one.service == StorageService::Queue).count()
    };
    notes();
    held(&server.account()).repair().await.unwrap();
    assert_eq!(notes(), 4, "two notes, left and deleted");
    assert_eq!(table.verify().await.unwrap(), []);
    held(&server.account()).repair().await.unwrap();
    assert_eq!(notes(), 0);
}

#[tokio::test]
async fn a_copy_that_two_entities_want_does_not_keep_repair_from_others() {
    // P-0.5: it is reported and left.
    let server = TestServer::start().await.unwrap();
    let account = server.account();
    let staff = create(&account).await;
    for id in 1..=2 {
        staff.insert(&employee(id, &format!("{id}@x"))).await.unwrap();
    }
    let rows = account.tables().table("Staff").unwrap();
    rows.merge(("empid_Sales", "000001")).set("EmailAddress", "2@x").await.unwrap();
    rows.delete_key(("email_Sales", "1@x")).await.unwrap();
    staff.insert(&employee(3, "3@x")).await.unwrap();
    rows.delete_key(("email_Sales", "3@x")).await.unwrap();
    staff.repair().await.unwrap();
    assert_eq!(copies(&account).await, [pair("2@x", "000002"), pair("3@x", "000003")]);
    let findings = staff.verify().await.unwrap();
    let kinds: Vec<_> = findings.iter().map(|found| found.kind).collect();
    assert_eq!(kinds, [FindingKind::Duplicate]);
}
