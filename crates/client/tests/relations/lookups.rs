//! Client-side joins (P-12.4).

use lazuli_client::TableEntity;
use lazuli_client::patterns::relations::Lookup;
use lazuli_client::prelude::*;
use lazuli_test::TestServer;
use std::time::Duration;

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Departments", rename_all = "PascalCase", partition = "d", row = "{id:03}")]
struct Department {
    id: u32,
    name: String,
}

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Workers", rename_all = "PascalCase", partition = "{site:02}", row = "{id:06}")]
struct Worker {
    site: u32,
    id: u32,
    department: u32,
}

#[tokio::test]
async fn ten_thousand_entities_are_joined_with_one_request_for_the_small_table() {
    // PS-12.4.
    let server = TestServer::with_faults().await.unwrap();
    let direct = server.direct();
    for name in ["Departments", "Workers"] {
        direct.tables().create(name).await.unwrap();
    }
    let departments: Table<Department> = direct.tables().of().unwrap();
    let hundred = (0..100).map(|id| Department { id, name: format!("D{id}") });
    let report = departments.bulk().insert(lazuli_client::iter(hundred)).await.unwrap();
    assert_eq!(report.written, 100);
    let workers: Table<Worker> = direct.tables().of().unwrap();
    let all = (0..10_000).map(|id| Worker { site: id % 4, id, department: id % 101 });
    let report = workers.bulk().insert(lazuli_client::iter(all)).await.unwrap();
    assert_eq!(report.written, 10_000);

    let account = server.account();
    let lookup = Lookup::new(&account.tables().of::<Department>().unwrap());
    let key = |id: u32| Department::key(id);
    server.faults().take();
    let waiters = (0..20).map(|id| {
        let lookup = lookup.clone();
        async move { lookup.get(&key(id).unwrap()).await.unwrap().unwrap().name.clone() }
    });
    let names = futures_util::future::join_all(waiters).await;
    assert_eq!((&*names[7], server.faults().take().len()), ("D7", 1), "one load for all");

    let stream = workers.scan().stream();
    let mut joined = lookup.join(stream, |worker: &Worker| key(worker.department));
    let (mut pairs, mut alone) = (0, 0);
    while let Some((worker, department)) = joined.try_next().await.unwrap() {
        match department {
            Some(department) => {
                assert_eq!(department.name, format!("D{}", worker.department));
                pairs += 1;
            }
            None => alone += 1,
        }
    }
    // There is no department 100.
    assert_eq!((pairs, alone), (10_000 - 99, 99));
    assert_eq!(server.faults().take().len(), 0, "none more until it is refreshed");

    // A change is visible after the refresh, which the first lookup after five minutes starts.
    departments.upsert(&Department { id: 7, name: "New".into() }).await.unwrap();
    server.clock().unwrap().advance(Duration::from_secs(301));
    let name = async || lookup.get(&key(7).unwrap()).await.unwrap().unwrap().name.clone();
    assert_eq!(name().await, "D7", "the old copy serves meanwhile");
    // Requests by another client give the refresh time; the refresh is one request.
    while name().await != "New" {
        departments.get(key(7).unwrap()).await.unwrap();
    }
    assert_eq!(server.faults().take().len(), 1);

    let small = Lookup::new(&departments).at_most(99);
    assert!(small.get(&key(1).unwrap()).await.is_err(), "too large to keep");
    assert_eq!(lookup.count().await.unwrap(), 100);
}

#[tokio::test]
async fn a_refresh_whose_runtime_ends_is_started_again() {
    // P-12.4.
    let server = TestServer::with_faults().await.unwrap();
    let direct = server.direct();
    direct.tables().create("Departments").await.unwrap();
    let departments: Table<Department> = direct.tables().of().unwrap();
    let named = |name: &str| Department { id: 7, name: name.into() };
    departments.insert(&named("Old")).await.unwrap();
    let lookup = Lookup::new(&departments);
    let name = async |lookup: &Lookup<Department>| {
        lookup.get(&Department::key(7).unwrap()).await.unwrap().unwrap().name.clone()
    };
    assert_eq!(name(&lookup).await, "Old");
    departments.upsert(&named("New")).await.unwrap();
    server.clock().unwrap().advance(Duration::from_secs(301));

    // This one ends before the refresh that it starts has run.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let other = lookup.clone();
    let read = std::thread::spawn(move || runtime.block_on(async { name(&other).await }));
    assert_eq!(read.join().unwrap(), "Old");

    let mut found = name(&lookup).await;
    for _ in 0..1000 {
        // A request by another client gives the refresh time.
        departments.get(Department::key(7).unwrap()).await.unwrap();
        found = name(&lookup).await;
        if found == "New" {
            break;
        }
    }
    assert_eq!(found, "New");
}
