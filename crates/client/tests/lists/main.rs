//! Index entities (P-4): lists in the entities' partition, in other partitions, and in blobs.

#![expect(clippy::unwrap_used, reason = "tests may")]
#![expect(clippy::indexing_slicing, reason = "tests may")]

mod blobs;

use lazuli_client::patterns::FindingKind;
use lazuli_client::patterns::lists::ListTable;
use lazuli_client::prelude::*;
use lazuli_client::{Change, ListKey};
use lazuli_test::crash::{self, TestClient, Writer, chosen_seeds};
use lazuli_test::{Seeded, TestServer, model};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Seeds that a run without `LAZULI_SEEDS` tries; the full test has 1,000.
const SEEDS: u64 = 12;

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Employees", kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
#[index_list(
    last_name,
    option = 2,
    row = "lastname_{last_name}",
    items = "EmployeeIDs",
    item = "{id:06}"
)]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
}

/// The same with lists for the whole organisation.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Employees", kind = "Person", partition = "{department}", row = "empid_{id:06}")]
#[index_list(
    last_name,
    option = 3,
    partition = "lastname_{last_name}",
    row = "lastname_{last_name}",
    items = "EmployeeDetails",
    item = "{department}:{id:06}"
)]
struct Person {
    department: String,
    id: u32,
    last_name: String,
}

fn employee(id: u32, last_name: &str) -> Employee {
    Employee { department: "Sales".into(), id, last_name: last_name.into() }
}

fn person(department: &str, id: u32, last_name: &str) -> Person {
    Person { department: department.into(), id, last_name: last_name.into() }
}

fn list(last_name: &str) -> ListKey<Employee> {
    Employee::list_last_name("Sales", last_name).unwrap()
}

fn key(id: u32) -> Key<Employee> {
    Employee::key("Sales", id).unwrap()
}

fn employees(account: &Account) -> ListTable<Employee> {
    account.lists().unwrap()
}

fn people(account: &Account) -> ListTable<Person> {
    account.lists().unwrap().notes("lists").unwrap()
}

async fn ids(table: &ListTable<Employee>, last_name: &str) -> Vec<String> {
    table.ids_by(&list(last_name)).await.unwrap()
}

async fn create(account: &Account) {
    account.tables().create("Employees").await.unwrap();
    account.queues().create_if_missing("lists").await.unwrap();
}

#[tokio::test]
async fn an_entity_and_its_list_are_one_transaction() {
    // PS-4.1, PS-4.3, P-4.3, P-4.4, and their cost.
    let server = TestServer::with_faults().await.unwrap();
    create(&server.direct()).await;
    let table = employees(&server.account());
    let requests = || {
        let exchanges = server.faults().take();
        exchanges.iter().map(|e| (e.method.to_string(), e.operations())).collect::<Vec<_>>()
    };
    let request = |method: &str, operations| (method.to_owned(), operations);
    requests();
    table.insert(&employee(178, "Jones")).await.unwrap();
    assert_eq!(requests(), [request("GET", 1), request("POST", 2)]);
    table.insert(&employee(152, "Jones")).await.unwrap();
    assert_eq!(requests(), [request("GET", 1), request("POST", 2)]);
    assert_eq!(ids(&table, "Jones").await, ["000152", "000178"]);
    assert_eq!(requests(), [request("GET", 1)]);
    let row = table.rows().get(("Sales", "lastname_Jones")).required().await.unwrap();
    assert_eq!(row.str("EmployeeIDs").unwrap(), "000152,000178");
    assert_eq!(row.str("_ix").unwrap(), "Employee/last_name");
    requests();
    let jones = table.get_listed(&list("Jones")).await.unwrap();
    assert_eq!(jones.iter().map(|jones| jones.id).collect::<Vec<_>>(), [152, 178]);
    assert_eq!(requests().len(), 3);
    // A second employee with the id is a conflict, and no list changes.
    let twice = table.insert(&employee(152, "Smith")).await.unwrap_err();
    assert!(twice.is_conflict() && *twice.kind() == ErrorKind::Conflict, "{twice}");
    assert!(ids(&table, "Smith").await.is_empty());

    // Renamed: three rows in one transaction.
    let mut loaded = table.get(key(152)).await.unwrap().unwrap();
    loaded.last_name = "Smith".into();
    requests();
    table.replace(&loaded).await.unwrap();
    assert_eq!(requests().last(), Some(&request("POST", 3)));
    assert_eq!(
        (ids(&table, "Jones").await, ids(&table, "Smith").await),
        (vec!["000178".to_owned()], vec!["000152".to_owned()])
    );
    assert!(table.replace(&loaded).await.unwrap_err().is_precondition_failed());
    // A change that affects no list is one row; an empty list is deleted.
    let mut loaded = table.get(key(178)).await.unwrap().unwrap();
    requests();
    table.replace(&loaded).await.unwrap();
    assert_eq!(requests().last(), Some(&request("POST", 1)));
    loaded = table.get(key(178)).await.unwrap().unwrap();
    table.delete(&loaded).await.unwrap();
    assert!(table.rows().get(("Sales", "lastname_Jones")).await.unwrap().is_none());
    assert!(table.verify(9).await.unwrap().is_empty());
}

#[tokio::test]
async fn other_verbs_are_refused() {
    // C-9.5.
    let server = TestServer::with_faults().await.unwrap();
    create(&server.direct()).await;
    let table: Table<Employee> = server.account().tables().of().unwrap();
    server.direct().lists::<Employee>().unwrap().insert(&employee(1, "Jones")).await.unwrap();
    let loaded = table.get(key(1)).await.unwrap().unwrap();
    server.faults().take();
    assert!(table.insert(&employee(2, "Jones")).await.is_err());
    assert!(table.upsert(&employee(2, "Jones")).await.is_err());
    assert!(table.replace(&loaded).await.is_err());
    assert!(table.delete(&loaded).await.is_err());
    assert!(table.delete_key(key(1)).await.is_err());
    assert!(table.merge(key(1)).set(Employee::LAST_NAME, "Smith").await.is_err());
    assert!(table.batch("Sales").delete(&loaded).commit().await.is_err());
    assert!(server.faults().take().is_empty(), "nothing was sent");
    // Lists are no entities.
    let found = table.query(partition("Sales")).collect_at_most(9).await.unwrap();
    assert_eq!(found.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_at_once_are_all_in_the_list() {
    // PS-4.2.
    let server = TestServer::start().await.unwrap();
    create(&server.account()).await;
    let table = employees(&server.account());
    let adds = (0..50).map(|id| {
        let table = table.clone();
        tokio::spawn(async move {
            let jones = employee(id, "Jones");
            // Other writers nearly always interfere: retry until it succeeds.
            while let Err(error) = table.insert(&jones).await {
                assert!(matches!(error.kind(), ErrorKind::Contended { .. }), "{error}");
            }
        })
    });
    for add in adds.collect::<Vec<_>>() {
        add.await.unwrap();
    }
    let expected: Vec<_> = (0..50).map(|id| format!("{id:06}")).collect();
    assert_eq!(ids(&table, "Jones").await, expected);
    assert!(table.verify(9).await.unwrap().is_empty());
}

#[tokio::test]
async fn long_lists_go_on_in_further_properties_until_they_are_full() {
    // PS-4.4. A list written by another program, to which one item is added.
    let server = TestServer::start().await.unwrap();
    create(&server.account()).await;
    let table = employees(&server.account());
    let stored = |count: u32| {
        let text = (0..count).map(|id| format!("{id:06}")).collect::<Vec<_>>().join(",");
        let mut row = Entity::new("Sales", "lastname_Jones").with("_ix", "Employee/last_name");
        for (index, part) in text.as_bytes().chunks(32_768).enumerate() {
            let name = match index {
                0 => "EmployeeIDs".to_owned(),
                index => format!("EmployeeIDs_{index}"),
            };
            row.set(name, std::str::from_utf8(part).unwrap());
        }
        row
    };
    for (count, properties) in [(4680, 1), (4681, 2), (70_000, 15)] {
        table.rows().upsert(&stored(count)).await.unwrap();
        table.insert(&employee(900_000 + count, "Jones")).await.unwrap();
        let row = table.rows().get(("Sales", "lastname_Jones")).required().await.unwrap();
        let used = row.properties().filter(|(name, _)| name.starts_with("EmployeeIDs")).count();
        assert_eq!(used, properties, "{} ids", count + 1);
        assert_eq!(ids(&table, "Jones").await.len(), count as usize + 1);
    }
    table.rows().upsert(&stored(74_800)).await.unwrap();
    let mut outcome = Ok(());
    for id in 0..100 {
        outcome = table.insert(&employee(800_000 + id, "Jones")).await.map(drop);
        if outcome.is_err() {
            break;
        }
    }
    let error = outcome.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ListFull { list: "last_name" });
}

#[tokio::test]
async fn a_search_that_ends_goes_on_where_it_was() {
    // P-0.5, P-0.5a.
    let server = TestServer::builder().early_pages(3).start().await.unwrap();
    create(&server.account()).await;
    let table = employees(&server.account());
    for id in 1..=30 {
        table.insert(&employee(id, &format!("Jones{}", id % 3))).await.unwrap();
    }
    for id in [1, 12, 30] {
        let row = format!("empid_{id:06}");
        table.rows().merge(("Sales", &*row)).set("last_name", "Smith").await.unwrap();
    }
    let (mut pages, mut findings, mut token) = (0, Vec::new(), None::<String>);
    loop {
        let resume = token.map(|text| text.parse().unwrap());
        let page = table.verify_page(resume.as_ref()).await.unwrap();
        pages += 1;
        findings.extend(page.findings);
        let Some(next) = page.next else { break };
        token = Some(next.to_string());
    }
    assert!(pages > 1, "{pages}");
    assert_eq!(findings.len(), 6, "each is in one list too many, and not in one");
    assert_eq!(findings, table.verify(9).await.unwrap());
    let (mut mended, mut token) = (0, None);
    loop {
        let (items, next) = table.repair_page(token.as_ref()).await.unwrap();
        mended += items;
        token = next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(mended, 6);
    assert!(table.verify(9).await.unwrap().is_empty());
}

#[tokio::test]
async fn damage_is_left_out_found_and_mended() {
    // PS-4.6, P-4.6.
    let server = TestServer::start().await.unwrap();
    create(&server.account()).await;
    let table = employees(&server.account());
    for id in 1..=4 {
        table.insert(&employee(id, "Jones")).await.unwrap();
    }
    let rows = table.rows();
    rows.delete_key(("Sales", "empid_000001")).await.unwrap();
    rows.merge(("Sales", "empid_000002")).set("last_name", "Smith").await.unwrap();
    let found = table.get_listed(&list("Jones")).await.unwrap();
    assert_eq!(found.iter().map(|found| found.id).collect::<Vec<_>>(), [3, 4]);
    let findings = table.verify(9).await.unwrap();
    let kinds: Vec<_> =
        findings.iter().map(|finding| (finding.kind, finding.row.row.as_str())).collect();
    let orphan = (FindingKind::Orphan, "lastname_Jones");
    assert_eq!(kinds, [(FindingKind::Missing, "lastname_Smith"), orphan, orphan]);
    assert!(table.verify(2).await.is_err());
    assert_eq!(table.repair().await.unwrap(), 3);
    assert!(table.verify(9).await.unwrap().is_empty());
    assert_eq!(ids(&table, "Jones").await, ["000003", "000004"]);
    assert_eq!(ids(&table, "Smith").await, ["000002"]);
}

#[tokio::test]
async fn a_list_in_another_partition_is_of_the_whole_organisation() {
    // PS-4.5, and its cost.
    let server = TestServer::with_faults().await.unwrap();
    create(&server.direct()).await;
    let people = people(&server.account());
    people.insert(&person("Sales", 152, "Jones")).await.unwrap();
    server.faults().take();
    people.insert(&person("R,D:", 178, "Jones")).await.unwrap();
    let methods: Vec<_> = server.faults().take().iter().map(|e| e.method.to_string()).collect();
    // Note; entity; list, entity, list, entity; note.
    assert_eq!(methods, ["POST", "POST", "GET", "GET", "PUT", "GET", "DELETE"]);
    let jones = || Person::list_last_name("Jones").unwrap();
    assert_eq!(people.ids_by(&jones()).await.unwrap(), ["R~2CD~3A:000178", "Sales:000152"]);
    let found = people.get_listed(&jones()).await.unwrap();
    assert_eq!(found.iter().map(|found| &*found.department).collect::<Vec<_>>(), ["R,D:", "Sales"]);
    let changed = people.update_with(Person::key("Sales", 152).unwrap(), |person| {
        person.last_name = "Smith".into();
        Ok(Change::Write)
    });
    changed.await.unwrap();
    assert_eq!(people.ids_by(&jones()).await.unwrap(), ["R~2CD~3A:000178"]);
    assert!(people.verify(9).await.unwrap().is_empty());
    let queue = server.direct().queues().queue("lists").unwrap();
    assert_eq!(queue.approximate_count().await.unwrap(), 0);
}

/// All lists are exactly what the entities say.
async fn check_people(client: &TestClient) -> BTreeMap<u32, String> {
    let people = people(client);
    assert_eq!(people.verify(9).await.unwrap(), []);
    let rows = people.rows().scan().collect_at_most(99).await.unwrap();
    let named = rows.iter().filter(|row| row.value("_ix").is_none()).map(|row| {
        let id = row.row_key().trim_start_matches("empid_").parse().unwrap();
        (id, row.str("last_name").unwrap().to_owned())
    });
    named.collect()
}

async fn heal(client: &TestClient) {
    for _ in 0..3 {
        client.clock.advance(Duration::from_secs(100));
        people(client).worker().unwrap().run_until_idle().await.unwrap();
    }
    let queue = client.queues().queue("lists").unwrap();
    assert_eq!(queue.approximate_count().await.unwrap(), 0);
}

#[tokio::test]
async fn a_crash_anywhere_is_healed_by_the_worker() {
    // PS-4.5, P-0.7: insert, rename, delete.
    for change in ["insert", "rename", "delete"] {
        let requests = crash::every_point(
            async |client: &TestClient| {
                create(client).await;
                if change != "insert" {
                    people(client).insert(&person("Sales", 1, "Jones")).await.unwrap();
                }
            },
            async |client, ()| {
                let people = people(client);
                if change == "insert" {
                    people.insert(&person("Sales", 1, "Smith")).await.unwrap();
                    return;
                }
                let key = Person::key("Sales", 1).unwrap();
                let mut loaded = people.get(key).await.unwrap().unwrap();
                if change == "delete" {
                    people.delete(&loaded).await.unwrap();
                } else {
                    loaded.last_name = "Smith".into();
                    people.replace(&loaded).await.unwrap();
                }
            },
            async |client, ()| heal(client).await,
            async |client, (), outcome| {
                let found = check_people(client).await;
                if outcome.is_some() {
                    let is_smith = found.get(&1).is_some_and(|name| name == "Smith");
                    assert_eq!(is_smith, change != "delete");
                }
            },
        );
        assert!(requests.await.unwrap() >= 7);
    }
}

/// Random changes of three employees.
async fn change<T: Send>(
    writer: &mut Writer,
    mut work: impl AsyncFnMut(u32, &'static str, usize) -> T,
) {
    for _ in 0..6 {
        let id = writer.random.below(3) as u32;
        let name = ["Jones", "Smith", "Hall"][writer.random.below(3)];
        work(id, name, writer.random.below(4)).await;
    }
}

#[tokio::test]
async fn three_writers_with_faults_leave_lists_that_agree() {
    // P-0.7, P-4.5, P-4.5a: some of their repairs die, too.
    crash::seeds(
        chosen_seeds(SEEDS),
        async |client| create(client).await,
        async |client, (), mut writer| {
            let people = people(client);
            change(&mut writer, async |id, name, what| {
                let person = person("Sales", id, name);
                if what == 0 {
                    return people.insert(&person).await.is_ok();
                }
                if what == 3 {
                    return people.repair().await.is_ok();
                }
                let key = Person::key("Sales", id).unwrap();
                let Ok(Some(mut loaded)) = people.get(key).await else { return false };
                if what == 1 {
                    return people.delete(&loaded).await.is_ok();
                }
                loaded.last_name = name.into();
                people.replace(&loaded).await.is_ok()
            })
            .await;
        },
        async |client, ()| heal(client).await,
        async |client, (), _| {
            check_people(client).await;
        },
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn three_writers_with_faults_leave_lists_beside_that_agree_at_once() {
    // P-0.7, P-4.5a: option 2 has nothing to heal, and a repair undoes no write that comes between.
    crash::seeds(
        chosen_seeds(SEEDS),
        async |client| create(client).await,
        async |client, (), mut writer| {
            let table = employees(client);
            change(&mut writer, async |id, name, what| {
                if what == 0 {
                    return table.insert(&employee(id, name)).await.is_ok();
                }
                if what == 3 {
                    return table.repair().await.is_ok();
                }
                let Ok(Some(mut loaded)) = table.get(key(id)).await else { return false };
                if what == 1 {
                    return table.delete(&loaded).await.is_ok();
                }
                loaded.last_name = name.into();
                table.replace(&loaded).await.is_ok()
            })
            .await;
        },
        async |_, ()| {},
        async |client, (), _| {
            assert_eq!(employees(client).verify(9).await.unwrap(), []);
        },
    )
    .await
    .unwrap();
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u32, &'static str),
    Rename(u32, &'static str),
    Delete(u32),
}

#[tokio::test]
async fn random_operations_do_what_a_plain_map_does() {
    // P-0.8, for lists in the entities' partition.
    const NAMES: [&str; 3] = ["Jones", "Smith", "Hall"];
    type Answer = (bool, Vec<BTreeSet<u32>>);
    let choose = |random: &mut Seeded| {
        let (id, name) = (random.below(5) as u32, NAMES[random.below(3)]);
        match random.below(3) {
            0 => Operation::Insert(id, name),
            1 => Operation::Rename(id, name),
            _ => Operation::Delete(id),
        }
    };
    let real = async |table: &ListTable<Employee>, operation: &Operation| -> Answer {
        let is_done = match operation {
            Operation::Insert(id, name) => table.insert(&employee(*id, name)).await.is_ok(),
            Operation::Rename(id, name) => {
                let rename = table.update_with(key(*id), |employee| {
                    employee.last_name = (*name).to_owned();
                    Ok(Change::Write)
                });
                rename.await.is_ok()
            }
            Operation::Delete(id) => match table.get(key(*id)).await.unwrap() {
                Some(loaded) => table.delete(&loaded).await.is_ok(),
                None => false,
            },
        };
        let mut lists = Vec::new();
        for name in NAMES {
            let found = table.get_listed(&list(name)).await.unwrap();
            assert_eq!(found.len(), ids(table, name).await.len());
            lists.push(found.iter().map(|found| found.id).collect());
        }
        (is_done, lists)
    };
    let plain = |names: &mut BTreeMap<u32, &'static str>, operation: &Operation| -> Answer {
        let is_done = match operation {
            Operation::Insert(id, _) if names.contains_key(id) => false,
            Operation::Rename(id, _) if !names.contains_key(id) => false,
            Operation::Insert(id, name) | Operation::Rename(id, name) => {
                names.insert(*id, name);
                true
            }
            Operation::Delete(id) => names.remove(id).is_some(),
        };
        let of = |name| names.iter().filter(|(_, own)| **own == name).map(|(id, _)| *id).collect();
        (is_done, NAMES.map(of).to_vec())
    };
    let setup = async |client: &TestClient| {
        create(client).await;
        employees(client)
    };
    model::compare(chosen_seeds(SEEDS), 25, choose, setup, real, plain).await.unwrap();
}

/// Its item is a text, which may be empty.
#[expect(clippy::duplicated_attributes, reason = "two lists have the same items")]
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Employees", kind = "Player", partition = "{team}", row = "player_{name}")]
#[index_list(position, option = 2, row = "position_{position}", items = "Names", item = "{name}")]
#[index_list(
    town,
    option = 3,
    partition = "town_{team}",
    row = "town_{town}",
    items = "Names",
    item = "{name}"
)]
struct Player {
    team: String,
    name: String,
    position: String,
    town: Option<String>,
}

#[tokio::test]
async fn an_item_without_text_is_refused_and_a_stored_one_can_still_be_changed() {
    // P-4.1: a list cannot hold it, so the entity would be missing without a word.
    let server = TestServer::with_faults().await.unwrap();
    create(&server.direct()).await;
    let players: ListTable<Player> = server.account().lists().unwrap().notes("lists").unwrap();
    let player = |name: &str| {
        let (team, name, position) = ("Reds".to_owned(), name.to_owned(), "goal".to_owned());
        Player { team, name, position, town: None }
    };
    let key = || Player::key("Reds", "").unwrap();
    let at = |position| Player::list_position("Reds", position).unwrap();
    let moved_to = |town: &'static str| {
        players.update_with(key(), move |player| {
            player.town = Some(town.into());
            Ok(Change::Write)
        })
    };
    server.faults().take();
    let error = players.insert(&player("")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Config(_)), "{error}");
    assert!(error.to_string().contains("position") && error.hint().is_some(), "{error}");
    assert_eq!(error.key(), Some(key().as_entity_key()));
    assert!(server.faults().take().is_empty(), "nothing was sent");
    players.insert(&player("Ann")).await.unwrap();

    // Another program has written one. It is found, and it can be changed, except into a list where it was not.
    let stored = Entity::new("Reds", "player_").with("EntityType", "Player");
    players.rows().insert(&stored.clone().with("position", "goal")).await.unwrap();
    let findings = players.verify(9).await.unwrap();
    let found: Vec<_> = findings.iter().map(|finding| (finding.kind, finding.about)).collect();
    assert_eq!(found, [(FindingKind::Missing, "position")]);
    assert_eq!(players.repair().await.unwrap(), 0);
    assert!(matches!(moved_to("Bath").await.unwrap_err().kind(), ErrorKind::Config(_)));
    let changed = players.update_with(key(), |player| {
        player.position = "wing".into();
        Ok(Change::Write)
    });
    assert!(!changed.await.unwrap().pending);
    let loaded = players.get(key()).await.unwrap().unwrap();
    assert_eq!((&*loaded.position, &loaded.town), ("wing", &None));
    players.delete(&loaded).await.unwrap();
    players.rows().insert(&stored.with("position", "goal").with("town", "Bath")).await.unwrap();
    moved_to("York").await.unwrap();
    players.delete(&players.get(key()).await.unwrap().unwrap()).await.unwrap();

    assert_eq!(players.ids_by(&at("goal")).await.unwrap(), ["Ann"]);
    for (partition, row) in [("Reds", "position_wing"), ("town_Reds", "town_York")] {
        assert!(players.rows().get((partition, row)).await.unwrap().is_none(), "{row}");
    }
    assert!(players.verify(9).await.unwrap().is_empty());
    let queue = server.direct().queues().queue("lists").unwrap();
    assert_eq!(queue.approximate_count().await.unwrap(), 0);
}
