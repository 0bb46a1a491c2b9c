//! What fields declare with `count`, `sum`, `latest` and `copy` (P-5.2), and unions that are models (P-15.3).

use crate::{SEEDS, requests};
use lazuli_client::Change;
use lazuli_client::patterns::FindingKind;
use lazuli_client::patterns::jobs::MoveOutcome;
use lazuli_client::patterns::summary::{ModelTable, Summarized};
use lazuli_client::prelude::*;
use lazuli_test::crash::{self, TestClient, chosen_seeds};
use lazuli_test::{FaultyServer, TestServer};

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    team: String,
    email: String,
    salary: i32,
    bonus: Option<u16>,
    hired: i64,
}

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Contractor", partition = "{department}", row = "contract_{id:06}")]
struct Contractor {
    department: String,
    id: u32,
}

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Department", partition = "{department}", row = "Department")]
struct Department {
    department: String,
    #[table(default = "open".into())]
    state: String,
    #[table(count(Employee))]
    employee_count: i32,
    #[table(sum(Employee.salary))]
    salaries: i64,
    #[table(sum(Employee.bonus))]
    bonuses: u32,
    #[table(latest(Employee.hired))]
    newest: Option<i64>,
    #[table(count(Contractor))]
    contractor_count: u32,
    manager_id: Option<u32>,
    #[table(copy(Employee.email, by = manager_id))]
    manager_email: Option<String>,
    #[table(copy(Employee.bonus, by = manager_id))]
    manager_bonus: Option<u16>,
}

/// Its row is not that of the department: an employee may move from one team to another.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Team", partition = "{department}", row = "team_{team}")]
struct Team {
    department: String,
    team: String,
    #[table(count(Employee))]
    members: u8,
}

#[derive(TableUnion)]
#[table(model)]
enum Staff {
    Employee(Employee),
    Contractor(Contractor),
    Department(Department),
    Team(Team),
}

/// Counts in four rows.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Crowd", partition = "{department}", row = "Crowd")]
struct Crowd {
    department: String,
    #[table(count(Employee, shards = 4))]
    heads: i64,
    #[table(sum(Employee.salary))]
    salaries: i64,
}

fn employee(id: u32) -> Employee {
    Employee {
        department: "Sales".into(),
        id,
        team: "north".into(),
        email: format!("{id}@contoso.com"),
        salary: 10,
        bonus: (id % 2 == 1).then_some(3),
        hired: i64::from(id) * 100,
    }
}

fn key(id: u32) -> Key<Employee> {
    Employee::key("Sales", id).unwrap()
}

fn of_department() -> Key<Department> {
    Department::key("Sales").unwrap()
}

fn model(account: &Account) -> ModelTable<Staff> {
    account.tables().model("Staff").unwrap()
}

async fn started() -> (FaultyServer, ModelTable<Staff>) {
    let server = TestServer::with_faults().await.unwrap();
    server.direct().tables().create("Staff").await.unwrap();
    let staff = model(&server.account());
    (server, staff)
}

async fn department(staff: &ModelTable<Staff>) -> Department {
    staff.get(of_department()).await.unwrap().unwrap().into_inner()
}

async fn in_marketing(staff: &ModelTable<Staff>) -> Department {
    let key = Department::key("Marketing").unwrap();
    staff.get(key).await.unwrap().unwrap().into_inner()
}

fn to_marketing(employee: &mut Employee) {
    employee.department = "Marketing".into();
}

fn marketing(id: u32) -> Key<Employee> {
    Employee::key("Marketing", id).unwrap()
}

async fn members(staff: &ModelTable<Staff>, team: &str) -> Option<u8> {
    let team = staff.get(Team::key("Sales", team).unwrap()).await.unwrap();
    team.map(|team| team.members)
}

/// Fails if a summary of the department differs from a recount.
async fn check(staff: &ModelTable<Staff>) {
    for department in ["Sales", "Marketing"] {
        let key = || Department::key(department).unwrap();
        let finding = staff.summarized::<Employee, Department>().verify(key()).await;
        assert!(finding.unwrap().is_none());
        let finding = staff.summarized::<Contractor, Department>().verify(key()).await;
        assert!(finding.unwrap().is_none());
        for team in ["north", "south"] {
            let key = Team::key(department, team).unwrap();
            assert!(staff.summarized::<Employee, Team>().verify(key).await.unwrap().is_none());
        }
    }
}

#[tokio::test]
async fn fields_follow_the_entities_that_they_name() {
    // PS-5.8.
    let (server, staff) = started().await;
    requests(&server);
    staff.insert(&employee(1)).await.unwrap();
    // Two summaries are read, and written with the employee.
    let get = ("GET".to_owned(), 1);
    assert_eq!(requests(&server), [get.clone(), get, ("POST".to_owned(), 3)]);
    staff.insert(&employee(2)).await.unwrap();
    staff.insert(&Contractor { department: "Sales".into(), id: 1 }).await.unwrap();
    let now = department(&staff).await;
    assert_eq!((now.employee_count, now.contractor_count), (2, 1));
    assert_eq!((now.salaries, now.bonuses, now.newest), (20, 3, Some(200)));
    assert_eq!(now.state, "open");
    let raise = |employee: &mut Employee| {
        (employee.salary, employee.bonus) = (15, Some(4));
        Ok(Change::Write)
    };
    staff.update_with(key(2), raise).await.unwrap();
    let now = department(&staff).await;
    assert_eq!((now.employee_count, now.salaries, now.bonuses), (2, 25, 7));
    check(&staff).await;
}

#[tokio::test]
async fn what_is_copied_is_that_of_the_entity_it_names() {
    let (_server, staff) = started().await;
    for id in 1..=2 {
        staff.insert(&employee(id)).await.unwrap();
    }
    let broken = staff.update_summary(of_department(), |d| d.manager_id = Some(9)).await;
    assert_eq!(*broken.unwrap_err().kind(), ErrorKind::BrokenLink);
    staff.update_summary(of_department(), |d| d.manager_id = Some(1)).await.unwrap();
    let now = department(&staff).await;
    assert_eq!((now.manager_email.as_deref(), now.manager_bonus), (Some("1@contoso.com"), Some(3)));
    let mut manager = staff.get(key(1)).await.unwrap().unwrap();
    (manager.email, manager.bonus) = ("boss@contoso.com".into(), None);
    staff.replace(&manager).await.unwrap();
    let now = department(&staff).await;
    assert_eq!((now.manager_email.as_deref(), now.manager_bonus), (Some("boss@contoso.com"), None));
    let manager = staff.get(key(1)).await.unwrap().unwrap();
    staff.delete(&manager).await.unwrap();
    let now = department(&staff).await;
    assert_eq!((now.manager_id, now.manager_email), (None, None));
    check(&staff).await;
}

#[tokio::test]
async fn the_latest_is_looked_for_when_it_leaves() {
    // PS-5.8, P-5.2a.
    let (_server, staff) = started().await;
    for id in [2, 3, 1] {
        staff.insert(&employee(id)).await.unwrap();
    }
    assert_eq!(department(&staff).await.newest, Some(300));
    let newest = staff.get(key(3)).await.unwrap().unwrap();
    staff.delete(&newest).await.unwrap();
    assert_eq!(department(&staff).await.newest, Some(200));
    let earlier = |employee: &mut Employee| {
        employee.hired = 50;
        Ok(Change::Write)
    };
    staff.update_with(key(2), earlier).await.unwrap();
    assert_eq!(department(&staff).await.newest, Some(100));
    for id in [1, 2] {
        let employee = staff.get(key(id)).await.unwrap().unwrap();
        staff.delete(&employee).await.unwrap();
    }
    assert_eq!(department(&staff).await.newest, None);
    check(&staff).await;
}

#[tokio::test]
async fn who_goes_to_another_team_leaves_the_old_one() {
    // P-5.2b.
    let (_server, staff) = started().await;
    for id in 1..=3 {
        staff.insert(&employee(id)).await.unwrap();
    }
    let change = |employee: &mut Employee| {
        employee.team = "south".into();
        Ok(Change::Write)
    };
    staff.update_with(key(2), change).await.unwrap();
    assert_eq!(
        (members(&staff, "north").await, members(&staff, "south").await),
        (Some(2), Some(1))
    );
    check(&staff).await;
}

#[tokio::test]
async fn an_employee_who_moves_is_counted_where_he_is() {
    // PS-12.2, P-12.6d.
    let (_server, staff) = started().await;
    for id in 1..=2 {
        staff.insert(&employee(id)).await.unwrap();
    }
    staff.update_summary(of_department(), |d| d.manager_id = Some(2)).await.unwrap();
    let go = async || staff.rehome(key(2), marketing(2), to_marketing).await.unwrap();
    for outcome in [MoveOutcome::Done, MoveOutcome::WasDone] {
        assert_eq!(go().await, outcome);
        let (old, new) = (department(&staff).await, in_marketing(&staff).await);
        assert_eq!((old.employee_count, old.newest, old.manager_id), (1, Some(100), None));
        assert_eq!((new.employee_count, new.newest, new.salaries), (1, Some(200), 10));
        check(&staff).await;
    }
    let found = staff.find_rehomed(key(2), marketing(2)).await.unwrap().unwrap();
    assert_eq!(found.department, "Marketing");
}

#[tokio::test]
async fn a_move_that_dies_anywhere_leaves_counts_right() {
    // PS-12.2, P-12.6d: also before another run has finished it.
    let requests = crash::every_point(
        setup,
        async |client, ()| {
            model(client).rehome(key(2), marketing(2), to_marketing).await.unwrap();
        },
        async |client, ()| {
            let staff = model(client);
            check(&staff).await;
            staff.rehome(key(2), marketing(2), to_marketing).await.unwrap();
        },
        async |client, (), _| {
            let staff = model(client);
            check(&staff).await;
            assert_eq!(department(&staff).await.employee_count, 1);
            assert_eq!(in_marketing(&staff).await.employee_count, 1);
            let rows: Table<Entity> = client.tables().table("Staff").unwrap();
            let rows = rows.scan().collect_at_most(99).await.unwrap();
            assert!(rows.iter().all(|row| row.value("_ix").is_none()));
        },
    );
    assert!(requests.await.unwrap() >= 8);
}

#[tokio::test]
async fn what_follows_from_sources_cannot_be_set() {
    // P-5.2d. `update_summary` wrote over the count once.
    let (_server, staff) = started().await;
    staff.insert(&employee(1)).await.unwrap();
    let before = department(&staff).await;
    let changes: [fn(&mut Department); 5] = [
        |d| d.employee_count = 77,
        |d| d.employee_count = 0,
        |d| d.contractor_count = 1,
        |d| d.newest = None,
        |d| d.salaries += 1,
    ];
    for change in changes {
        let refused = staff.update_summary(of_department(), change).await.unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Config(_)), "{refused}");
    }
    assert_eq!(department(&staff).await, before);
    let by_pair = staff.summarized::<Employee, Department>();
    let refused = by_pair.update_summary(of_department(), |d| d.employee_count += 1).await;
    assert!(matches!(refused.unwrap_err().kind(), ErrorKind::Config(_)));
    staff.update_summary(of_department(), |d| d.state = "closed".into()).await.unwrap();
    assert_eq!(department(&staff).await, Department { state: "closed".into(), ..before });
}

#[tokio::test]
async fn the_rows_of_a_model_are_not_written_past_it() {
    // P-5.2e: such a write changed no counts.
    let (server, staff) = started().await;
    staff.insert(&employee(1)).await.unwrap();
    let loaded = staff.get(key(1)).await.unwrap().unwrap();
    let rows = staff.rows();
    let union = || loaded.clone().map(Staff::Employee);
    let config = |error: Error| assert!(matches!(error.kind(), ErrorKind::Config(_)), "{error}");
    requests(&server);
    config(rows.insert(&employee(2).into()).await.unwrap_err());
    config(rows.replace(&union()).await.unwrap_err());
    config(rows.delete(&union()).await.unwrap_err());
    config(rows.delete_key(key(1)).await.unwrap_err());
    config(rows.merge(("Sales", "empid_000001")).set("salary", 7).await.unwrap_err());
    config(rows.update_with(key(1), |_| Ok(Change::Write)).await.unwrap_err());
    config(rows.transact("Sales", async |tx| tx.insert(&employee(2))).await.unwrap_err());
    config(rows.transact("Sales", async |tx| tx.delete(&loaded)).await.unwrap_err());
    let batch = rows.batch("Sales").write(lazuli_client::WriteOp::insert(&employee(2)));
    assert!(matches!(batch.commit().await.unwrap_err().kind(), ErrorKind::InvalidBatch(_)));
    assert_eq!(requests(&server), []);
    // Past it by intent.
    rows.retyped::<Employee>().insert(&employee(2)).await.unwrap();
    let by_pair = staff.summarized::<Employee, Department>();
    assert_eq!(by_pair.verify(of_department()).await.unwrap().unwrap().kind, FindingKind::Stale);
    by_pair.recount(of_department()).await.unwrap();
    assert_eq!(department(&staff).await.employee_count, 2);
}

#[tokio::test]
async fn a_summary_that_is_inserted_counts_nothing() {
    let (_server, staff) = started().await;
    let mut new = Department {
        department: "Sales".into(),
        state: "closed".into(),
        employee_count: 77,
        salaries: 1,
        bonuses: 1,
        newest: Some(1),
        contractor_count: 7,
        manager_id: None,
        manager_email: Some("nobody's".into()),
        manager_bonus: None,
    };
    staff.insert(&new).await.unwrap();
    let twice = staff.insert(&new).await.unwrap_err();
    assert_eq!(*twice.kind(), ErrorKind::Conflict);
    (new.employee_count, new.salaries, new.bonuses, new.contractor_count) = (0, 0, 0, 0);
    (new.newest, new.manager_email) = (None, None);
    assert_eq!(department(&staff).await, new);
}

#[tokio::test]
async fn shards_and_damage_are_as_with_summaries_by_hand() {
    let (server, _) = started().await;
    let table = server.account().tables().table("Staff").unwrap();
    let crowd = Summarized::<Employee, Crowd>::new(&table);
    for id in 0..12 {
        crowd.insert(&employee(id)).await.unwrap();
    }
    let key_of = || Crowd::key("Sales").unwrap();
    let now = crowd.summary(key_of()).await.unwrap().unwrap();
    assert_eq!((now.heads, now.salaries), (12, 120));
    let rows = table.query(partition("Sales").and(row().starts_with("Crowd~")));
    let shards = rows.collect_at_most(9).await.unwrap();
    assert!(shards.len() > 1, "{}", shards.len());
    assert!(crowd.verify(key_of()).await.unwrap().is_none());
    let shard = shards.first().unwrap();
    table.merge(("Sales", shard.row_key())).set("heads", 1_000_i64).await.unwrap();
    let finding = crowd.verify(key_of()).await.unwrap().unwrap();
    assert_eq!(finding.kind, FindingKind::Stale);
    crowd.recount(key_of()).await.unwrap();
    assert_eq!(crowd.summary(key_of()).await.unwrap().unwrap().heads, 12);
}

async fn setup(client: &TestClient) {
    client.tables().create("Staff").await.unwrap();
    let staff = model(client);
    for id in 1..=2 {
        staff.insert(&employee(id)).await.unwrap();
    }
    staff.update_summary(of_department(), |d| d.manager_id = Some(2)).await.unwrap();
}

#[tokio::test]
async fn a_client_that_dies_leaves_declared_fields_right() {
    // P-0.7: the latest and the manager are the same employee, who leaves or moves to another team.
    for leaves in [true, false] {
        let requests = crash::every_point(
            setup,
            async |client, ()| {
                let staff = model(client);
                if leaves {
                    let loaded = staff.get(key(2)).await.unwrap().unwrap();
                    return staff.delete(&loaded).await.unwrap();
                }
                let change = |employee: &mut Employee| {
                    (employee.team, employee.hired) = ("south".into(), 1);
                    Ok(Change::Write)
                };
                staff.update_with(key(2), change).await.unwrap();
            },
            async |_, ()| {},
            async |client, (), outcome| {
                let staff = model(client);
                check(&staff).await;
                if outcome.is_some() {
                    assert_eq!(department(&staff).await.newest, Some(100));
                }
            },
        );
        assert!(requests.await.unwrap() >= 4);
    }
}

#[tokio::test]
async fn three_writers_with_faults_leave_declared_fields_right() {
    crash::seeds(
        chosen_seeds(SEEDS),
        setup,
        async |client, (), mut writer| {
            let staff = model(client);
            for _ in 0..5 {
                let id = writer.random.below(4) as u32;
                let number = writer.random.below(100) as u16;
                let _ = match writer.random.below(5) {
                    0 => staff.insert(&employee(id)).await,
                    1 => {
                        let change = |employee: &mut Employee| {
                            employee.team =
                                if number.is_multiple_of(2) { "north" } else { "south" }.into();
                            (employee.hired, employee.bonus) = (i64::from(number), Some(number));
                            Ok(Change::Write)
                        };
                        staff.update_with(key(id), change).await
                    }
                    2 => staff.update_summary(of_department(), |d| d.manager_id = Some(id)).await,
                    3 => {
                        drop(staff.rehome(key(id), marketing(id), to_marketing).await);
                        Ok(())
                    }
                    _ => match staff.get(key(id)).await {
                        Ok(Some(loaded)) => staff.delete(&loaded).await,
                        _ => Ok(()),
                    },
                };
            }
        },
        async |_, ()| {},
        async |client, (), _| check(&model(client)).await,
    )
    .await
    .unwrap();
}
