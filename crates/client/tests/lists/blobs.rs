//! Lists in blobs: option 1, and lists that do not fit into an entity (P-4.2). With the blobs of Azurite.

use crate::{change, create};
use lazuli_client::patterns::lists::ListTable;
use lazuli_client::prelude::*;
use lazuli_client::{Change, ListKey, encoded_size};
use lazuli_test::crash::{self, TestClient, chosen_seeds};
use lazuli_test::{Azurite, TestServer, TestServerBuilder};
use std::time::Duration;

/// Seeds that a run without `LAZULI_SEEDS` tries. Azurite is slow.
const SEEDS: u64 = 5;

/// Lists in blobs (option 1).
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Employees", kind = "Filed", partition = "{department}", row = "empid_{id:06}")]
#[index_list(
    last_name,
    option = 1,
    container = "employee-lastname",
    blob = "{last_name}.txt",
    item = "{department}:{id:06}"
)]
struct Filed {
    department: String,
    id: u32,
    last_name: Option<String>,
}

/// A list in the entities' partition that overflows into a blob.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Crowd", kind = "Crowd", partition = "{town}", row = "id_{id:06}")]
#[index_list(
    name,
    option = 2,
    row = "name_{name}",
    items = "Ids",
    item = "{id:06}",
    overflow = "long-lists"
)]
struct Crowd {
    town: String,
    id: u32,
    name: String,
}

async fn prepare(account: &Account) {
    create(account).await;
    account.tables().create_if_missing("Crowd").await.unwrap();
    for container in ["employee-lastname", "long-lists"] {
        let container = account.blobs().create_if_missing(container).await.unwrap();
        // All tests share one Azurite.
        for blob in container.list().at_most(10_000).await.unwrap().blobs {
            container.blob(&blob.name).unwrap().delete().await.unwrap();
        }
    }
}

fn filed(account: &Account) -> ListTable<Filed> {
    account.lists().unwrap().notes("lists").unwrap()
}

fn crowd(account: &Account) -> ListTable<Crowd> {
    account.lists().unwrap()
}

fn filed_person(department: &str, id: u32, name: Option<&str>) -> Filed {
    Filed { department: department.into(), id, last_name: name.map(str::to_owned) }
}

fn member(id: u32) -> Crowd {
    Crowd { town: "Oslo".into(), id, name: "Jones".into() }
}

fn joneses() -> ListKey<Crowd> {
    Crowd::list_name("Oslo", "Jones").unwrap()
}

#[tokio::test]
async fn lists_are_kept_in_blobs() {
    let Some(azurite) = Azurite::start_if_possible().unwrap() else { return };
    // One process for all tests: it takes seconds to start.
    let servers = TestServer::builder().blob_endpoint(azurite.blob_endpoint());
    a_list_in_a_blob_has_a_line_for_each_item(&servers).await;
    a_crash_anywhere_is_healed_by_the_worker(&servers).await;
    three_writers_with_faults_leave_lists_that_agree(&servers).await;
    a_list_that_is_full_goes_to_a_blob_and_comes_back(&servers).await;
    a_crash_of_a_full_list_leaves_garbage_at_most(&servers).await;
}

/// PS-4.5, option 1.
async fn a_list_in_a_blob_has_a_line_for_each_item(servers: &TestServerBuilder) {
    let server = servers.clone().start().await.unwrap();
    let account = server.account();
    prepare(&account).await;
    let filed = filed(&account);
    let person = filed_person;
    for (department, id) in [("Sales", 152), ("Marketing", 178)] {
        let written = filed.insert(&person(department, id, Some("Jones"))).await.unwrap();
        assert!(!written.pending);
    }
    filed.insert(&person("Sales", 3, None)).await.unwrap();
    let blob = account.blobs().container("employee-lastname").unwrap().blob("Jones.txt").unwrap();
    let text = blob.get().await.unwrap().unwrap().bytes;
    assert_eq!(text, "Marketing:000178\nSales:000152\n");
    let jones = || Filed::list_last_name("Jones").unwrap();
    assert_eq!(filed.get_listed(&jones()).await.unwrap().len(), 2);
    // Twenty at once.
    let all: Vec<_> = (1000..1020).map(|id| person("Sales", id, Some("Jones"))).collect();
    let inserts = all.iter().map(|one| filed.insert(one));
    for written in futures_util::future::join_all(inserts).await {
        written.unwrap();
    }
    // The worker finishes what contention left when the grace is over: here repair does it at once.
    filed.repair().await.unwrap();
    assert_eq!(filed.ids_by(&jones()).await.unwrap().len(), 22);
    // Damage: one line too many, one gone.
    blob.put("Marketing:000178\nSales:000777\n").await.unwrap();
    assert_eq!(filed.get_listed(&jones()).await.unwrap().len(), 1);
    assert_eq!(filed.verify(99).await.unwrap().len(), 22);
    filed.repair().await.unwrap();
    assert!(filed.verify(9).await.unwrap().is_empty());
    for id in [152_u32, 178] {
        let department = if id == 152 { "Sales" } else { "Marketing" };
        let loaded = filed.get(Filed::key(department, id).unwrap()).await.unwrap().unwrap();
        filed.delete(&loaded).await.unwrap();
    }
    for id in 1000..1020 {
        let loaded = filed.get(Filed::key("Sales", id).unwrap()).await.unwrap().unwrap();
        filed.delete(&loaded).await.unwrap();
    }
    assert!(blob.get().await.unwrap().is_none(), "an empty list is deleted");
}

/// All lists are exactly what the entities say, and no note is left.
async fn check_filed(client: &TestClient) {
    assert_eq!(filed(client).verify(9).await.unwrap(), []);
    let queue = client.queues().queue("lists").unwrap();
    assert_eq!(queue.approximate_count().await.unwrap(), 0);
}

async fn heal(client: &TestClient) {
    for _ in 0..3 {
        client.clock.advance(Duration::from_secs(100));
        filed(client).worker().unwrap().run_until_idle().await.unwrap();
    }
}

/// PS-4.5, P-0.7: insert, rename, delete.
async fn a_crash_anywhere_is_healed_by_the_worker(servers: &TestServerBuilder) {
    for change in ["insert", "rename", "delete"] {
        let requests = crash::every_point_on(
            servers,
            async |client: &TestClient| {
                prepare(client).await;
                if change != "insert" {
                    let jones = filed_person("Sales", 1, Some("Jones"));
                    filed(client).insert(&jones).await.unwrap();
                }
            },
            async |client, ()| {
                let filed = filed(client);
                if change == "insert" {
                    let smith = filed_person("Sales", 1, Some("Smith"));
                    filed.insert(&smith).await.unwrap();
                    return;
                }
                let key = Filed::key("Sales", 1).unwrap();
                let mut loaded = filed.get(key).await.unwrap().unwrap();
                if change == "delete" {
                    filed.delete(&loaded).await.unwrap();
                } else {
                    loaded.last_name = Some("Smith".into());
                    filed.replace(&loaded).await.unwrap();
                }
            },
            async |client, ()| heal(client).await,
            async |client, (), outcome| {
                check_filed(client).await;
                if outcome.is_some() {
                    let found = filed(client).get(Filed::key("Sales", 1).unwrap()).await.unwrap();
                    let name = found.and_then(|found| found.last_name.clone());
                    assert_eq!(name.as_deref() == Some("Smith"), change != "delete");
                }
            },
        );
        assert!(requests.await.unwrap() >= 6);
    }
}

/// P-0.7 with three writers.
async fn three_writers_with_faults_leave_lists_that_agree(servers: &TestServerBuilder) {
    crash::seeds_on(
        servers,
        chosen_seeds(SEEDS),
        async |client: &TestClient| prepare(client).await,
        async |client, (), mut writer| {
            let filed = filed(client);
            change(&mut writer, async |id, name, what| {
                let key = Filed::key("Sales", id).unwrap();
                match what {
                    0 => drop(filed.insert(&filed_person("Sales", id, Some(name))).await),
                    1 => {
                        let rename = |filed: &mut Filed| {
                            filed.last_name = Some(name.to_owned());
                            Ok(Change::Write)
                        };
                        drop(filed.update_with(key, rename).await);
                    }
                    _ => {
                        if let Ok(Some(loaded)) = filed.get(key).await {
                            drop(filed.delete(&loaded).await);
                        }
                    }
                }
            })
            .await;
        },
        async |client, ()| heal(client).await,
        async |client, (), _| check_filed(client).await,
    )
    .await
    .unwrap();
}

/// A list written by another program, with this many items.
fn list_of(count: u32) -> Entity {
    let items: Vec<_> = (100_000..100_000 + count).map(|id| format!("{id:06}")).collect();
    let text = items.join(",");
    let mut list = Entity::new("Oslo", "name_Jones").with("_ix", "Crowd/name");
    for (number, chunk) in text.as_bytes().chunks(32_768).enumerate() {
        let name = if number == 0 { "Ids".to_owned() } else { format!("Ids_{number}") };
        list.set(name, std::str::from_utf8(chunk).unwrap());
    }
    list
}

/// Stores a list with room for at most this many more items, and returns its length.
async fn fill(account: &Account, room: u32) -> usize {
    let fits = |count: &u32| encoded_size(&list_of(*count)).unwrap() <= 1024 * 1024;
    let count = (74_700..75_000).rev().find(fits).unwrap() - room;
    account.tables().table("Crowd").unwrap().upsert(&list_of(count)).await.unwrap();
    count as usize
}

async fn blobs(account: &Account) -> usize {
    let container = account.blobs().container("long-lists").unwrap();
    container.list().at_most(100).await.unwrap().blobs.len()
}

/// PS-4.4, P-4.2.
async fn a_list_that_is_full_goes_to_a_blob_and_comes_back(servers: &TestServerBuilder) {
    let server = servers.clone().start().await.unwrap();
    let account = server.account();
    prepare(&account).await;
    let crowd = crowd(&account);
    let count = fill(&account, 5).await;
    // The last blob replaces the previous one.
    for id in 0..7 {
        crowd.insert(&member(id)).await.unwrap();
    }
    assert_eq!(blobs(&account).await, 1);
    let row = crowd.rows().get(("Oslo", "name_Jones")).required().await.unwrap();
    assert!(row.str("_blob").is_ok() && row.value("Ids").is_none());
    let ids = crowd.ids_by(&joneses()).await.unwrap();
    assert_eq!((ids.len(), ids.first().map(String::as_str)), (count + 7, Some("000000")));
    // A list that fits again is in its entity.
    for id in 0..7 {
        let loaded = crowd.get(Crowd::key("Oslo", id).unwrap()).await.unwrap().unwrap();
        crowd.delete(&loaded).await.unwrap();
    }
    assert_eq!(blobs(&account).await, 0);
    let row = crowd.rows().get(("Oslo", "name_Jones")).required().await.unwrap();
    assert!(row.str("_blob").is_err() && row.value("Ids").is_some());
    assert_eq!(crowd.ids_by(&joneses()).await.unwrap().len(), count);
}

/// P-0.7: a list is the old or the new one, and an unused blob is collected.
async fn a_crash_of_a_full_list_leaves_garbage_at_most(servers: &TestServerBuilder) {
    let requests = crash::every_point_on(
        servers,
        async |client: &TestClient| {
            prepare(client).await;
            fill(client, 0).await;
        },
        async |client, ()| crowd(client).insert(&member(7)).await.map(drop).unwrap(),
        async |client, ()| {
            client.clock.advance(Duration::from_secs(2 * 3600));
            crowd(client).collect_garbage(Duration::ZERO).await.unwrap();
        },
        async |client, (), outcome| {
            let crowd = crowd(client);
            let is_there = crowd.get(Crowd::key("Oslo", 7).unwrap()).await.unwrap().is_some();
            assert!(is_there || outcome.is_none());
            let ids = crowd.ids_by(&joneses()).await.unwrap();
            assert_eq!(ids.contains(&"000007".to_owned()), is_there);
            assert_eq!(blobs(client).await, usize::from(is_there));
        },
    );
    assert!(requests.await.unwrap() >= 3);
}
