//! An employee changes departments (P-12.6, P-3.7).

use crate::{Employee, SEEDS, create, employee};
use lazuli_client::patterns::jobs::{JobError, MoveOutcome};
use lazuli_client::patterns::relations::{find_rehomed, rehome};
use lazuli_client::prelude::*;
use lazuli_client::{Change, Deleted, ErrorKind, Projection, Proof};
use lazuli_test::TestServer;
use lazuli_test::crash::{self, TestClient, Writer, chosen_seeds};

fn to_marketing(employee: &mut Employee) {
    employee.department = "Marketing".to_owned();
}

fn staff(account: &Account) -> Table<Employee> {
    account.tables().of().unwrap()
}

fn sales() -> Key<Employee> {
    Employee::key("Sales", 152).unwrap()
}

fn marketing() -> Key<Employee> {
    Employee::key("Marketing", 152).unwrap()
}

async fn try_go(account: &Account) -> Result<MoveOutcome, JobError> {
    rehome(&staff(account), sales(), marketing(), to_marketing).await
}

async fn go(account: &Account) -> MoveOutcome {
    try_go(account).await.unwrap()
}

/// The keys of all rows, with nothing wrong in the index.
async fn rows(account: &Account) -> Vec<String> {
    let staff = staff(account);
    assert_eq!(staff.verify().collect_at_most(10).await.unwrap(), []);
    let rows: Table<Entity> = staff.retyped();
    let rows = rows.scan().collect_at_most(100).await.unwrap();
    rows.iter().map(|row| format!("{} {}", row.partition_key(), row.row_key())).collect()
}

const MOVED: [&str; 2] = ["Marketing email_152@contoso.com", "Marketing empid_000152"];

#[tokio::test]
async fn an_employee_moves_with_the_copies_of_its_indexes() {
    // PS-12.2, as far as indexes are concerned.
    let server = TestServer::with_faults().await.unwrap();
    create(&server.direct()).await.insert(&employee("Sales", 152)).await.unwrap();
    server.faults().take();
    assert_eq!(go(&server.account()).await, MoveOutcome::Done);
    // A point read, a transaction in each partition, and one more that makes it visible and deletes the note.
    assert_eq!(server.faults().methods(), ["GET", "POST", "POST", "POST", "POST"]);
    assert_eq!(rows(&server.direct()).await, MOVED);
    assert_eq!(go(&server.account()).await, MoveOutcome::WasDone, "again: nothing to do");

    // It is an ordinary entity: nothing shows that it was moved.
    let staff = staff(&server.direct());
    let by_email = Employee::by_email("Marketing", "152@contoso.com").unwrap();
    let mut found = staff.get_by(by_email).for_update().await.unwrap().unwrap();
    found.age = 31;
    staff.replace(&found).await.unwrap();
    assert_eq!(rows(&server.direct()).await, MOVED);
    let stored = staff.retyped::<Entity>();
    let stored = stored.get(("Marketing", "empid_000152")).await.unwrap().unwrap();
    let own: Vec<_> =
        stored.properties().map(|(name, _)| name).filter(|n| n.starts_with('_')).collect();
    assert_eq!(own, ["_WriteIds"]);

    // Another entity has the key.
    staff.insert(&employee("Sales", 152)).await.unwrap();
    assert!(matches!(try_go(&server.direct()).await, Err(JobError::Never(_))));
    let stays = rehome(&staff, sales(), sales(), |_| ()).await;
    assert!(matches!(stays, Err(JobError::Never(_))));
    let elsewhere = rehome(&staff, sales(), Employee::key("Marketing", 7).unwrap(), to_marketing);
    assert!(matches!(elsewhere.await, Err(JobError::Never(_))));
    assert_eq!(rows(&server.direct()).await.len(), 4, "nothing was written");

    // Its e-mail address is taken there.
    staff.delete_key(marketing()).await.unwrap();
    let other = Employee { id: 7, ..employee("Marketing", 152) };
    staff.insert(&other).await.unwrap();
    assert!(matches!(try_go(&server.direct()).await, Err(JobError::Retry(_))));
    assert_eq!(rows(&server.direct()).await.len(), 4, "nothing was written");
}

#[tokio::test]
async fn a_move_that_dies_anywhere_is_finished_by_the_next_run() {
    // PS-12.2.
    let setup = async |client: &TestClient| {
        create(client).await.insert(&employee("Sales", 152)).await.unwrap();
    };
    let write = async |client: &TestClient, (): &()| {
        go(client).await;
    };
    let heal = async |client: &TestClient, (): &()| {
        go(client).await;
    };
    let check = async |client: &TestClient, (): &(), _: Option<()>| {
        assert_eq!(rows(client).await, MOVED);
    };
    assert_eq!(crash::every_point(setup, write, heal, check).await.unwrap(), 5);
}

#[tokio::test]
async fn whoever_asks_where_an_entity_went_finds_it_wherever_the_move_died() {
    let setup = async |client: &TestClient| {
        create(client).await.insert(&employee("Sales", 152)).await.unwrap();
    };
    let write = async |client: &TestClient, (): &()| {
        go(client).await;
    };
    let heal = async |client: &TestClient, (): &()| {
        // Readers see it in at most one place.
        let staff = staff(client);
        let mut found = Vec::new();
        for key in [sales(), marketing()] {
            found.extend(staff.get(key).await.unwrap());
        }
        let listed = staff.scan().collect_at_most(10).await.unwrap();
        assert_eq!(listed, found);
        assert!(found.len() <= 1);
        for department in ["Sales", "Marketing"] {
            let by_email = Employee::by_email(department, "152@contoso.com").unwrap();
            let is_here = found.iter().any(|employee| employee.department == department);
            assert_eq!(staff.get_by(by_email).await.unwrap().is_some(), is_here);
        }
        let ages: Vec<i32> = staff
            .scan()
            .select_as::<Age>()
            .collect_at_most(10)
            .await
            .unwrap()
            .iter()
            .map(|row| row.age)
            .collect();
        assert_eq!(ages.len(), found.len());

        // Other moves find the key taken, and a repair leaves it alone.
        if found.is_empty() {
            let taken = staff.insert(&employee("Marketing", 152)).await.unwrap_err();
            assert!(taken.is_conflict(), "{taken}");
            let blind = staff.upsert(&employee("Marketing", 152)).await.unwrap_err();
            assert!(matches!(blind.kind(), ErrorKind::Contended { .. }), "{blind}");
            let blind = staff.delete_key(marketing()).await.unwrap();
            assert_eq!(blind, Deleted::WasAbsent);
            assert_eq!(staff.repair().run(|_| ()).await.unwrap(), 0);
        }
        let mut found = find_rehomed(&staff, sales(), marketing()).await.unwrap().unwrap();
        found.age += 1;
        staff.replace(&found).await.unwrap();
        go(client).await;
    };
    let check = async |client: &TestClient, (): &(), _: Option<()>| {
        assert_eq!(rows(client).await, MOVED);
        assert_eq!(staff(client).get(marketing()).await.unwrap().unwrap().age, 31);
        let (staff, nobody) = (staff(client), Employee::key("Marketing", 7).unwrap());
        assert_eq!(find_rehomed(&staff, sales(), nobody).await.unwrap(), None);
    };
    crash::every_point(setup, write, heal, check).await.unwrap();
}

#[derive(Projection, Debug)]
#[table(of = Employee)]
struct Age {
    age: i32,
}

/// What the third writer has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Change,
    Delete,
}

#[tokio::test]
async fn workers_that_move_it_at_one_time_and_a_writer_lose_nothing() {
    let write = async |client: &TestClient, (): &(), mut writer: Writer| {
        let staff = staff(client);
        if writer.number < 2 {
            let _ = try_go(client).await;
            return None;
        }
        // The writer makes the employee older, or deletes it, wherever it is.
        let key = if writer.random.one_in(2) { sales() } else { marketing() };
        if writer.random.one_in(3) {
            let found = staff.get(key).await.ok()??;
            // After a lost answer, a deletion is judged by what is gone, and that may have been moved.
            let deleted = staff.delete(&found).await.ok()?;
            return (deleted == Deleted::Now(Proof::Answered)).then_some(Did::Delete);
        }
        let update = staff.update_with(key, |employee| {
            employee.age += 1;
            Ok(Change::Write)
        });
        update.await.ok().map(|_| Did::Change)
    };
    let setup = async |client: &TestClient| {
        create(client).await.insert(&employee("Sales", 152)).await.unwrap();
    };
    let heal = async |client: &TestClient, (): &()| {
        go(client).await;
    };
    let check = async |client: &TestClient, (): &(), outcomes: Vec<Option<Option<Did>>>| {
        let found = staff(client).get(marketing()).await.unwrap();
        match outcomes.last() {
            Some(Some(Some(Did::Delete))) => assert_eq!(found, None, "deleted is deleted"),
            Some(Some(Some(Did::Change))) => assert_eq!(found.as_ref().unwrap().age, 31),
            // It may have crashed after its write was carried out.
            _ => {}
        }
        let expected: &[&str] = if found.is_some() { &MOVED } else { &[] };
        assert_eq!(rows(client).await, expected);
    };
    crash::seeds(chosen_seeds(SEEDS), setup, write, heal, check).await.unwrap();
}
