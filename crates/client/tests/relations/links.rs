//! Links both ways (P-12.3).

use lazuli_client::patterns::jobs::Worker;
use lazuli_client::patterns::relations::{LinkBoth, broken_links, link_pair};
use lazuli_client::patterns::{Finding, FindingKind};
use lazuli_client::prelude::*;
use lazuli_client::{Link, TableEntity};
use lazuli_test::TestServer;
use lazuli_test::crash::{self, TestClient};
use std::time::Duration;

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Drivers", rename_all = "PascalCase", partition = "{town}", row = "driver_{id:03}")]
struct Driver {
    town: String,
    id: u32,
    car: Option<Link<Car>>,
}

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Drivers", rename_all = "PascalCase", partition = "{town}", row = "car_{plate}")]
struct Car {
    town: String,
    plate: String,
    driver: Option<Link<Driver>>,
}

const TOWN: &str = "Rome";

async fn create(account: &Account, car_town: &str) -> (Table<Driver>, Table<Car>) {
    account.tables().create_if_missing("Drivers").await.unwrap();
    let (drivers, cars) = tables(account);
    drivers.insert(&Driver { town: TOWN.into(), id: 1, car: None }).await.unwrap();
    cars.insert(&Car { town: car_town.into(), plate: "A1".into(), driver: None }).await.unwrap();
    (drivers, cars)
}

fn tables(account: &Account) -> (Table<Driver>, Table<Car>) {
    (account.tables().of().unwrap(), account.tables().of().unwrap())
}

/// Broken links of drivers, and of cars.
async fn broken(account: &Account) -> [Vec<FindingKind>; 2] {
    let (drivers, cars) = tables(account);
    let first = broken_links(&drivers, car_of_driver, &cars, Some(&driver_of_car));
    let second = broken_links(&cars, driver_of_car, &drivers, Some(&car_of_driver));
    let kinds = |found: Vec<Finding>| found.into_iter().map(|finding| finding.kind).collect();
    [kinds(first.await.unwrap()), kinds(second.await.unwrap())]
}

fn car_of_driver(driver: &Driver) -> Option<&Link<Car>> {
    driver.car.as_ref()
}

fn driver_of_car(car: &Car) -> Option<&Link<Driver>> {
    car.driver.as_ref()
}

async fn load(account: &Account, car_town: &str) -> (Loaded<Driver>, Loaded<Car>) {
    let (drivers, cars) = tables(account);
    let driver = drivers.get(Driver::key(TOWN, 1).unwrap()).await.unwrap().unwrap();
    let car = cars.get(Car::key(car_town, "A1").unwrap()).await.unwrap().unwrap();
    (driver, car)
}

#[tokio::test]
async fn two_entities_of_a_partition_are_linked_in_one_transaction() {
    // PS-12.3.
    let server = TestServer::with_faults().await.unwrap();
    let (drivers, cars) = create(&server.account(), TOWN).await;
    let (mut driver, mut car) = load(&server.account(), TOWN).await;
    driver.car = Some(Link::to(&*car).unwrap());
    car.driver = Some(Link::to(&*driver).unwrap());
    server.faults().take();
    link_pair(&drivers, &driver, &car).await.unwrap();
    assert_eq!(server.faults().take().len(), 1);
    let stale = link_pair(&drivers, &driver, &car).await.unwrap_err();
    assert!(stale.is_precondition_failed(), "{stale}");
    assert_eq!(broken(&server.account()).await, [vec![], vec![]]);
    let (driver, car) = load(&server.account(), TOWN).await;
    assert_eq!(driver.car.as_ref().unwrap().get(&cars).await.unwrap().plate, "A1");

    // One end is deleted.
    cars.delete(&car).await.unwrap();
    let error = driver.car.as_ref().unwrap().get(&cars).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::BrokenLink);
    assert_eq!(broken(&server.account()).await, [vec![FindingKind::Missing], vec![]]);
    // One end has no link back.
    cars.insert(&Car { town: TOWN.into(), plate: "A1".into(), driver: None }).await.unwrap();
    assert_eq!(broken(&server.account()).await, [vec![FindingKind::Stale], vec![]]);
}

#[tokio::test]
async fn two_entities_of_different_partitions_are_linked_by_a_job_that_may_die_anywhere() {
    // P-12.3, P-0.7.
    const OTHER: &str = "Bari";
    let setup = async |client: &TestClient| {
        create(client, OTHER).await;
        client.queues().create_if_missing("links").await.unwrap();
        let (driver, car) = load(client, OTHER).await;
        let (drivers, cars) = tables(client);
        assert!(link_pair(&drivers, &driver, &car).await.unwrap_err().hint().is_some());
        let ends = (&drivers, driver.loaded_key(), "Car");
        let job = LinkBoth::new(ends, (&cars, car.loaded_key(), "Driver"));
        let queue = client.queues().queue("links").unwrap();
        lazuli_client::patterns::jobs::Jobs::new(&queue).send(&job).await.unwrap();
    };
    let work = async |client: &TestClient, (): &()| {
        let queue = client.queues().queue("links").unwrap();
        let worker = Worker::new(&queue).job::<LinkBoth>(client.account.clone());
        worker.run_until_idle().await.unwrap();
    };
    let heal = async |client: &TestClient, (): &()| {
        client.clock.advance(Duration::from_secs(60));
        work(client, &()).await;
    };
    let check = async |client: &TestClient, (): &(), _: Option<()>| {
        let (driver, car) = load(client, OTHER).await;
        assert_eq!(driver.car, Some(Link::to(&*car).unwrap()));
        assert_eq!(car.driver, Some(Link::to(&*driver).unwrap()));
        assert_eq!(broken(client).await, [vec![], vec![]]);
    };
    // Receives the message, two merges, deletes it; and polls for more, at once and at the end. The first poll is the
    // last one if its answer arrives after the job is done.
    let requests = crash::every_point(setup, work, heal, check).await.unwrap();
    assert!((5..=6).contains(&requests), "{requests} requests");
}
