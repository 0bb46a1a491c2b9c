//! Large values (P-11), with the blobs of Azurite.

#![expect(clippy::unwrap_used, reason = "tests may")]

use bytes::Bytes;
use futures_util::future::join_all;
use lazuli_client::patterns::FindingKind;
use lazuli_client::patterns::large::{LargeTable, LargeValues};
use lazuli_client::prelude::*;
use lazuli_client::{HttpTransport, Large, TableEntity, Transport};
use lazuli_test::crash::{self, TestClient};
use lazuli_test::{
    Azurite, FaultyServer, StorageService, TestClock, TestServer, TestServerBuilder,
};
use std::time::Duration;

const CONTAINER: &str = "employee-photos";

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Staff", kind = "Employee", rename_all = "PascalCase")]
#[table(partition = "{department}", row = "empid_{id:06}")]
#[index(email, row = "email_{email_address}", unique)]
struct Employee {
    department: String,
    id: u32,
    email_address: String,
    #[table(large(container = "employee-photos"))]
    photo: Large,
    #[table(large(container = "employee-photos", inline_max = 10, chunked_max = 200_000))]
    voice: Option<Large>,
}

/// The same without an index, and every photo in a blob.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "People", rename_all = "PascalCase", partition = "p", row = "{id:06}")]
struct Person {
    id: u32,
    #[table(large(container = "employee-photos", always))]
    photo: Large,
}

fn employee(id: u32, photo: impl Into<Large>) -> Employee {
    let (department, email_address) = ("Sales".to_owned(), format!("{id}@contoso.com"));
    Employee { department, id, email_address, photo: photo.into(), voice: None }
}

fn person(photo: impl Into<Large>) -> Person {
    Person { id: 1, photo: photo.into() }
}

/// Varied bytes.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|n| (n % 251) as u8).collect()
}

async fn prepare(account: &Account) {
    let tables = account.tables();
    tables.create_if_missing("Staff").await.unwrap();
    tables.create_if_missing("People").await.unwrap();
    account.queues().create_if_missing("photo-notes").await.unwrap();
    let container = account.blobs().create_if_missing(CONTAINER).await.unwrap();
    // All tests share one Azurite.
    for blob in container.list().at_most(10_000).await.unwrap().blobs {
        container.blob(&blob.name).unwrap().delete().await.unwrap();
    }
}

fn values(account: &Account) -> LargeValues {
    account.large("photo-notes").unwrap()
}

fn people(account: &Account) -> LargeTable<Person> {
    values(account).table().unwrap()
}

async fn blobs(account: &Account) -> Vec<String> {
    let container = account.blobs().container(CONTAINER).unwrap();
    let list = container.list().at_most(10_000).await.unwrap();
    list.blobs.into_iter().map(|blob| blob.name).collect()
}

async fn notes(account: &Account) -> u64 {
    let queue = account.queues().queue("photo-notes").unwrap();
    queue.approximate_count().await.unwrap()
}

/// Time passes, and the worker runs.
async fn heal(account: &Account, clock: &TestClock) {
    clock.advance(Duration::from_secs(400));
    values(account).worker().unwrap().run_until_idle().await.unwrap();
}

/// Requests since the last call, by service: tables, blobs, queues.
fn requests(server: &FaultyServer) -> [usize; 3] {
    let exchanges = server.faults().take();
    [StorageService::Table, StorageService::Blob, StorageService::Queue]
        .map(|service| exchanges.iter().filter(|exchange| exchange.service == service).count())
}

#[tokio::test]
async fn large_values_are_kept_in_blobs() {
    let Some(azurite) = Azurite::start_if_possible().unwrap() else { return };
    // One process for all tests: it takes seconds to start.
    let servers = TestServer::builder().blob_endpoint(azurite.blob_endpoint());
    a_value_goes_where_its_size_says(&servers).await;
    readers_find_some_version_while_it_is_replaced(&servers).await;
    a_crash_anywhere_is_healed_by_the_worker(&servers).await;
    writers_with_faults_leave_no_blob(&servers).await;
    what_is_altered_or_gone_is_an_error(&servers).await;
    garbage_is_found_and_collected(&servers).await;
    a_device_reads_a_value_by_its_address(&servers).await;
    wrong_use_is_refused(&servers).await;
    answers_are_those_of_a_plain_model(&servers).await;
}

async fn faulty(servers: &TestServerBuilder) -> FaultyServer {
    let server = servers.clone().clock(TestClock::default()).start_with_faults().await.unwrap();
    prepare(&server.direct()).await;
    server
}

/// PS-11.1, PS-11.5, P-11.1, P-11.2, and their cost.
async fn a_value_goes_where_its_size_says(servers: &TestServerBuilder) {
    let server = faulty(servers).await;
    let staff: LargeTable<Employee> = values(&server.account()).table().unwrap();
    const KIB: usize = 1024;
    let sizes = [0, KIB, 64 * KIB, 64 * KIB + 1, KIB * KIB, 20 * KIB * KIB];
    for (id, size) in (1..).zip(sizes) {
        let is_blob = size > 64 * KIB;
        server.faults().take();
        let written = employee(id, bytes(size));
        staff.insert(&written).await.unwrap();
        let expected = if is_blob { [1, 1, 2] } else { [1, 0, 0] };
        assert_eq!(requests(&server), expected, "table, blob, queue: {size}");

        let found = staff.get(Employee::key("Sales", id).unwrap()).await.unwrap().unwrap();
        assert_eq!(requests(&server), [1, 0, 0], "the value is not read before it is asked for");
        assert_eq!((found.photo.address().is_some(), found.photo.len()), (is_blob, size as u64));
        let read = staff.read(&found, |employee| &employee.photo).await.unwrap();
        assert_eq!(
            (&read[..], requests(&server)),
            (&bytes(size)[..], [0, usize::from(is_blob), 0])
        );
        // The index copied the address in the same transaction.
        let email = Employee::by_email("Sales", &found.email_address).unwrap();
        let copy = staff.table().get_by(email).await.unwrap().unwrap();
        assert_eq!(copy.photo, found.photo);
    }
    let [named, ..] = &blobs(&server.direct()).await[..] else { panic!("three blobs") };
    assert!(named.starts_with("Staff/Sales/empid_000004/Photo/"), "{named}");

    // In the entity up to 10 bytes, in several properties up to 200,000, and then in a blob.
    let key = || Employee::key("Sales", 1).unwrap();
    let rows = server.direct().tables().table("Staff").unwrap();
    for (size, properties, has_blob) in [
        (10, vec!["Voice"], false),
        (200_000, vec!["Voice", "Voice_1", "Voice_2", "Voice_3"], false),
        (200_001, vec!["Voice", "Voice_len", "Voice_sha"], true),
    ] {
        let mut loaded = staff.get(key()).await.unwrap().unwrap();
        loaded.voice = Some(bytes(size).into());
        staff.replace(&loaded).await.unwrap();
        let row = rows.get(("Sales", "empid_000001")).await.unwrap().unwrap();
        let names = row.properties().map(|(name, _)| name).filter(|name| name.starts_with("Voice"));
        assert_eq!(names.collect::<Vec<_>>(), properties);
        let found = staff.get(key()).await.unwrap().unwrap();
        let read = staff.read_optional(&found, |employee| employee.voice.as_ref()).await.unwrap();
        assert_eq!(read.as_deref(), Some(&bytes(size)[..]));
        assert_eq!(found.voice.as_ref().unwrap().address().is_some(), has_blob);
    }
    // A change of another field does not touch the blobs: one request, no note.
    let mut loaded = staff.get(Employee::key("Sales", 4).unwrap()).await.unwrap().unwrap();
    loaded.voice = Some(vec![1].into());
    requests(&server);
    staff.replace(&loaded).await.unwrap();
    assert_eq!(requests(&server), [1, 0, 0]);
    // A new photo: the old one stays until the note is visible.
    let mut loaded = staff.get(Employee::key("Sales", 4).unwrap()).await.unwrap().unwrap();
    loaded.photo = bytes(70_000).into();
    let before = blobs(&server.direct()).await.len();
    requests(&server);
    staff.replace(&loaded).await.unwrap();
    assert_eq!(requests(&server), [1, 1, 1]);
    assert_eq!(blobs(&server.direct()).await.len(), before + 1);
    heal(&server.account(), server.clock().unwrap()).await;
    // The worker: receives the note, reads the entity, deletes the blob and the note, and finds no more.
    assert_eq!(requests(&server), [1, 1, 3]);
    assert_eq!(blobs(&server.direct()).await.len(), before);
    assert_eq!(notes(&server.direct()).await, 0);
}

/// PS-11.2.
async fn readers_find_some_version_while_it_is_replaced(servers: &TestServerBuilder) {
    let server = faulty(servers).await;
    let account = server.direct();
    let people = people(&account);
    let version = |n: u8| vec![n; 1000];
    people.insert(&person(version(0))).await.unwrap();
    let key = || Person::key(1).unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let writes = async {
        for n in 1..=100 {
            let mut loaded = people.get(key()).await.unwrap().unwrap();
            loaded.photo = version(n).into();
            people.replace(&loaded).await.unwrap();
        }
        stop.send(true).unwrap();
    };
    let readers = (0..8).map(|_| async {
        let mut reads = 0;
        while !*stopped.borrow() {
            let loaded = people.get(key()).await.unwrap().unwrap();
            let read = people.read(&loaded, |person| &person.photo).await.unwrap();
            let first = *read.first().unwrap();
            assert_eq!(read, version(first), "whole, and of one version");
            reads += 1;
        }
        assert!(reads > 0);
    });
    tokio::join!(writes, join_all(readers));
    assert_eq!(blobs(&account).await.len(), 101);
    heal(&account, server.clock().unwrap()).await;
    assert_eq!(blobs(&account).await.len(), 1);
    let loaded = people.get(key()).await.unwrap().unwrap();
    let read = people.read(&loaded, |person| &person.photo).await.unwrap();
    assert_eq!(read, version(100));
}

/// Every entity has its blob, and there are no other blobs and no notes.
async fn check_whole(account: &Account) -> Option<Vec<u8>> {
    let people = people(account);
    let found = people.get(Person::key(1).unwrap()).await.unwrap();
    let read = match &found {
        Some(found) => Some(people.read(found, |person| &person.photo).await.unwrap().to_vec()),
        None => None,
    };
    assert_eq!(blobs(account).await.len(), usize::from(found.is_some()));
    assert_eq!(notes(account).await, 0);
    read
}

/// PS-11.3, P-11.2, P-11.3, with a crash at every request.
async fn a_crash_anywhere_is_healed_by_the_worker(servers: &TestServerBuilder) {
    for change in ["insert", "replace", "delete"] {
        let setup = async |client: &TestClient| {
            prepare(client).await;
            if change != "insert" {
                people(client).insert(&person(b"old".to_vec())).await.unwrap();
            }
        };
        let write = async |client: &TestClient, (): &()| {
            let people = people(client);
            let key = Person::key(1).unwrap();
            match change {
                "insert" => drop(people.insert(&person(b"new".to_vec())).await.unwrap()),
                "replace" => {
                    let mut loaded = people.get(key).await.unwrap().unwrap();
                    loaded.photo = b"new".to_vec().into();
                    people.replace(&loaded).await.unwrap();
                }
                _ => {
                    let loaded = people.get(key).await.unwrap().unwrap();
                    people.delete(&loaded).await.unwrap();
                }
            }
        };
        let heal = async |client: &TestClient, (): &()| heal(client, &client.clock).await;
        let check = async |client: &TestClient, (): &(), outcome: Option<()>| {
            let found = check_whole(client).await;
            let [old, new] = match change {
                "insert" => [None, Some("new")],
                "replace" => [Some("old"), Some("new")],
                _ => [Some("old"), None],
            };
            let text = found.as_ref().map(|found| std::str::from_utf8(found).unwrap());
            assert!(text == new || outcome.is_none() && text == old, "{text:?} {outcome:?}");
        };
        let requests = crash::every_point_on(servers, setup, write, heal, check).await.unwrap();
        assert!(requests >= 3, "{requests}");
    }
}

/// PS-11.3, with three concurrent writers.
async fn writers_with_faults_leave_no_blob(servers: &TestServerBuilder) {
    let setup = async |client: &TestClient| {
        prepare(client).await;
        people(client).insert(&person(b"0".to_vec())).await.unwrap();
    };
    let write = async |client: &TestClient, (): &(), mut writer: crash::Writer| {
        let people = people(client);
        let mut last = None;
        for round in 0..3 {
            let photo = format!("{} {round}", writer.number).into_bytes();
            let key = Person::key(1).unwrap();
            let Ok(found) = people.get(key).await else { continue };
            let written = match found {
                Some(loaded) if writer.random.one_in(4) => people.delete(&loaded).await.map(drop),
                Some(mut loaded) => {
                    loaded.photo = photo.clone().into();
                    people.replace(&loaded).await.map(drop)
                }
                None => people.insert(&person(photo.clone())).await.map(drop),
            };
            last = written.is_ok().then_some(photo);
        }
        last
    };
    let heal = async |client: &TestClient, (): &()| heal(client, &client.clock).await;
    let check = async |client: &TestClient, (): &(), _: Vec<Option<Option<Vec<u8>>>>| {
        check_whole(client).await;
    };
    crash::seeds_on(servers, crash::chosen_seeds(10), setup, write, heal, check).await.unwrap();
}

/// PS-11.4, and P-11.4 for a blob that is gone.
async fn what_is_altered_or_gone_is_an_error(servers: &TestServerBuilder) {
    let server = faulty(servers).await;
    let account = server.direct();
    let people = people(&account);
    people.insert(&person(b"photo".to_vec())).await.unwrap();
    let loaded = people.get(Person::key(1).unwrap()).await.unwrap().unwrap();
    let read = async || people.read(&loaded, |person| &person.photo).await;
    let container = account.blobs().container(CONTAINER).unwrap();
    let [name] = &blobs(&account).await[..] else { panic!("one blob") };
    let blob = container.blob(name).unwrap();
    for altered in ["phot0", "photo and more"] {
        blob.put(altered).await.unwrap();
        let error = read().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::DigestMismatch { .. }), "{error}");
    }
    let findings = people.verify(Duration::ZERO).await.unwrap();
    assert_eq!(findings.iter().map(|found| found.kind).collect::<Vec<_>>(), [FindingKind::Stale]);
    assert!(people.clone().bytes_max(4).read(&loaded, |person| &person.photo).await.is_err());
    blob.delete().await.unwrap();
    let error = read().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Dangling { .. }), "{error}");
    let findings = people.verify(Duration::ZERO).await.unwrap();
    assert_eq!(findings.iter().map(|found| found.kind).collect::<Vec<_>>(), [FindingKind::Missing]);
    // An entity that was read, and then deleted with its blob.
    people.delete(&loaded).await.unwrap();
    assert_eq!(*read().await.unwrap_err().kind(), ErrorKind::NotFound);
}

/// P-11.5, with writers that send no notes.
async fn garbage_is_found_and_collected(servers: &TestServerBuilder) {
    let server = faulty(servers).await;
    let (account, clock) = (server.direct(), server.clock().unwrap());
    let people: LargeTable<Person> = LargeValues::without_notes(&account).table().unwrap();
    for id in 1..=3 {
        people.insert(&Person { id, photo: b"a".to_vec().into() }).await.unwrap();
    }
    let mut first = people.get(Person::key(1).unwrap()).await.unwrap().unwrap();
    first.photo = b"b".to_vec().into();
    people.replace(&first).await.unwrap();
    let second = people.get(Person::key(2).unwrap()).await.unwrap().unwrap();
    people.delete(&second).await.unwrap();
    let container = account.blobs().container(CONTAINER).unwrap();
    container.blob("People/not/ours").unwrap().put("x").await.unwrap();
    assert!(LargeValues::without_notes(&account).worker().is_err());

    let hour = Duration::from_secs(3600);
    let young = people.collect_garbage(Duration::ZERO).await.unwrap();
    assert_eq!((young.blobs, young.deleted), (4, 0), "an hour at least, whatever is said");
    clock.advance(2 * hour);
    let orphans = people.verify(hour).await.unwrap();
    assert!(orphans.iter().all(|found| found.kind == FindingKind::Orphan));
    assert_eq!(orphans.len(), 2);
    let collected = people.collect_garbage(hour).await.unwrap();
    assert_eq!((collected.blobs, collected.deleted), (4, 2));
    assert_eq!(people.verify(hour).await.unwrap(), []);
    assert_eq!(blobs(&account).await.len(), 3, "two that are named, and one of another form");
}

async fn a_device_reads_a_value_by_its_address(servers: &TestServerBuilder) {
    // P-11.6.
    let server = servers.clone().start().await.unwrap();
    let account = server.account();
    prepare(&account).await;
    let people = people(&account);
    people.insert(&person(b"photo".to_vec())).await.unwrap();
    let loaded = people.get(Person::key(1).unwrap()).await.unwrap().unwrap();
    let address = people.sas(&loaded, |person| &person.photo, Duration::from_secs(300)).unwrap();
    let address = address.unwrap();
    let transport = HttpTransport::new(Duration::from_secs(10)).unwrap();
    let status = async |address: &str| {
        let request = http::Request::get(address).body(Bytes::new()).unwrap();
        transport.send(request).await.unwrap().status().as_u16()
    };
    assert_eq!(status(&address).await, 200);
    let (unsigned, _) = address.split_once('?').unwrap();
    assert_ne!(status(unsigned).await, 200);
    // A value in the entity has no address.
    let staff: LargeTable<Employee> = values(&account).table().unwrap();
    staff.insert(&employee(1, b"small".to_vec())).await.unwrap();
    let loaded = staff.get(Employee::key("Sales", 1).unwrap()).await.unwrap().unwrap();
    assert_eq!(staff.sas(&loaded, |e| &e.photo, Duration::from_secs(300)).unwrap(), None);
}

/// P-11.2b.
async fn wrong_use_is_refused(servers: &TestServerBuilder) {
    let server = faulty(servers).await;
    let people = people(&server.account());
    people.insert(&person(b"photo".to_vec())).await.unwrap();
    let loaded = people.get(Person::key(1).unwrap()).await.unwrap().unwrap();
    server.faults().take();
    // A direct write would leave a blob behind, or write none.
    let plain = people.table();
    assert!(plain.insert(&person(b"x".to_vec())).await.unwrap_err().hint().is_some());
    assert!(plain.upsert(&loaded).await.is_err());
    assert!(plain.replace(&loaded).await.is_err());
    assert!(plain.batch("p").insert(&person(b"x".to_vec())).commit().await.is_err());
    // A blob belongs to one entity, and to one version of it.
    let other = Person { id: 2, photo: loaded.photo.clone() };
    assert!(people.insert(&other).await.unwrap_err().hint().is_some());
    // C-9.2: its version says nothing of another row.
    let mut moved = loaded.clone();
    moved.id = 2;
    let error = people.replace(&moved).await.unwrap_err();
    assert!(error.to_string().contains("another key"), "{error}");
    assert_eq!(requests(&server), [0, 0, 0], "all of it before any request");

    let mut changed = loaded.clone();
    changed.photo = b"new".to_vec().into();
    people.replace(&changed).await.unwrap();
    let mut newest = people.get(Person::key(1).unwrap()).await.unwrap().unwrap();
    newest.photo = loaded.photo.clone();
    assert!(people.replace(&newest).await.unwrap_err().hint().is_some());
    // Two concurrent writers: the loser's new blob is deleted at once.
    let before = blobs(&server.direct()).await.len();
    let error = people.replace(&changed).await.unwrap_err();
    assert!(error.is_precondition_failed(), "{error}");
    assert_eq!(blobs(&server.direct()).await.len(), before);
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32, u8),
    Replace(u32, u8),
    Delete(u32),
    Read(u32),
    Work,
}

/// P-0.8: the same answers as a map.
async fn answers_are_those_of_a_plain_model(servers: &TestServerBuilder) {
    let choose = |random: &mut lazuli_test::Seeded| {
        let (id, photo) = (random.below(3) as u32, random.below(256) as u8);
        match random.below(5) {
            0 => Op::Insert(id, photo),
            1 => Op::Replace(id, photo),
            2 => Op::Delete(id),
            3 => Op::Read(id),
            _ => Op::Work,
        }
    };
    let setup = async |client: &TestClient| {
        prepare(client).await;
        client.clone()
    };
    let real = async |client: &TestClient, op: &Op| -> Option<u8> {
        let people = people(client);
        let load = async |id| people.get(Person::key(id).unwrap()).await.unwrap();
        match *op {
            Op::Insert(id, photo) => {
                let person = Person { id, photo: vec![photo].into() };
                people.insert(&person).await.ok().map(|_| photo)
            }
            Op::Replace(id, photo) => {
                let mut loaded = load(id).await?;
                loaded.photo = vec![photo].into();
                people.replace(&loaded).await.ok().map(|_| photo)
            }
            Op::Delete(id) => {
                people.delete(&load(id).await?).await.unwrap();
                Some(0)
            }
            Op::Read(id) => {
                let loaded = load(id).await?;
                let read = people.read(&loaded, |person| &person.photo).await.unwrap();
                read.first().copied()
            }
            Op::Work => {
                heal(client, &client.clock).await;
                u8::try_from(blobs(client).await.len()).ok()
            }
        }
    };
    let model = |model: &mut std::collections::BTreeMap<u32, u8>, op: &Op| match *op {
        Op::Insert(id, _) if model.contains_key(&id) => None,
        Op::Replace(id, _) if !model.contains_key(&id) => None,
        Op::Insert(id, photo) | Op::Replace(id, photo) => {
            model.insert(id, photo);
            Some(photo)
        }
        Op::Delete(id) => model.remove(&id).map(|_| 0),
        Op::Read(id) => model.get(&id).copied(),
        Op::Work => u8::try_from(model.len()).ok(),
    };
    // Thirty steps of several requests each, most of them to Azurite: 50 seeds are enough.
    let seeds = crash::chosen_seeds(5);
    let seeds = seeds.start..seeds.end.min(seeds.start + 50);
    lazuli_test::model::compare_on(servers, seeds, 30, choose, setup, real, model).await.unwrap();
}
