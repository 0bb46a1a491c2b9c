//! Denormalization within a partition (P-5): counts, sums and copies that are right at every moment.

#![expect(clippy::unwrap_used, reason = "tests may")]

mod declared;

use lazuli_client::patterns::FindingKind;
use lazuli_client::patterns::summary::{FanOut, Summarized, Summary};
use lazuli_client::prelude::*;
use lazuli_client::{Change, KeyError};
use lazuli_test::crash::{self, TestClient, chosen_seeds};
use lazuli_test::{Fault, FaultyServer, Match, Seeded, TestServer, When, model};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Seeds that a run without `LAZULI_SEEDS` tries; the full test has 1,000.
const SEEDS: u64 = 12;

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Employees", kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    email: String,
    salary: i64,
}

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Employees", kind = "Department", partition = "{department}", row = "Department")]
struct Department {
    department: String,
    employee_count: i32,
    salaries: i64,
    manager_id: Option<u32>,
    manager_email: Option<String>,
}

impl Summary<Employee> for Department {
    fn key_of(source: &Employee) -> Result<Key<Self>, KeyError> {
        Self::key(&source.department)
    }

    fn empty(source: &Employee) -> Self {
        department(&source.department)
    }

    fn follow(&mut self, old: Option<&Employee>, new: Option<&Employee>) {
        self.employee_count += i32::from(new.is_some()) - i32::from(old.is_some());
        self.salaries += new.map_or(0, |new| new.salary) - old.map_or(0, |old| old.salary);
    }

    fn clear(&mut self) {
        (self.employee_count, self.salaries) = (0, 0);
    }

    fn link(&self) -> Result<Option<Key<Employee>>, KeyError> {
        self.manager_id.map(|id| Employee::key(&self.department, id)).transpose()
    }

    fn fill(&mut self, linked: Option<&Employee>) {
        self.manager_id = linked.map(|manager| manager.id);
        self.manager_email = linked.map(|manager| manager.email.clone());
    }
}

/// The same with eight rows for the count.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Employees", kind = "Big", partition = "{department}", row = "Department")]
struct Big {
    department: String,
    employee_count: i32,
}

impl Summary<Employee> for Big {
    const SHARDS: u32 = 8;

    fn key_of(source: &Employee) -> Result<Key<Self>, KeyError> {
        Self::key(&source.department)
    }

    fn empty(source: &Employee) -> Self {
        Self { department: source.department.clone(), employee_count: 0 }
    }

    fn follow(&mut self, old: Option<&Employee>, new: Option<&Employee>) {
        self.employee_count += i32::from(new.is_some()) - i32::from(old.is_some());
    }

    fn clear(&mut self) {
        self.employee_count = 0;
    }

    fn combine(&mut self, shard: &Self) {
        self.employee_count += shard.employee_count;
    }

    fn shard_of(source: &Employee) -> u64 {
        source.id.into()
    }
}

fn department(name: &str) -> Department {
    Department {
        department: name.into(),
        employee_count: 0,
        salaries: 0,
        manager_id: None,
        manager_email: None,
    }
}

fn employee(id: u32) -> Employee {
    let (department, email) = ("Marketing".into(), format!("{id}@contoso.com"));
    Employee { department, id, email, salary: 10 }
}

fn key(id: u32) -> Key<Employee> {
    Employee::key("Marketing", id).unwrap()
}

fn of_department() -> Key<Department> {
    Department::key("Marketing").unwrap()
}

fn staff(account: &Account) -> Summarized<Employee, Department> {
    Summarized::new(&account.tables().table("Employees").unwrap())
}

async fn read(staff: &Summarized<Employee, Department>) -> Department {
    staff.summary(of_department()).await.unwrap().unwrap()
}

async fn counted() -> (FaultyServer, Summarized<Employee, Department>) {
    let server = TestServer::with_faults().await.unwrap();
    server.direct().tables().create("Employees").await.unwrap();
    let staff = staff(&server.account());
    (server, staff)
}

/// Methods of the requests since the last call, with the operations of a transaction.
fn requests(server: &FaultyServer) -> Vec<(String, usize)> {
    let exchanges = server.faults().take();
    exchanges.iter().map(|e| (e.method.to_string(), e.operations())).collect()
}

#[tokio::test]
async fn a_count_follows_every_write() {
    // PS-5.1, and its cost.
    let (server, staff) = counted().await;
    let table: Table<Department> = server.direct().tables().of().unwrap();
    let mut marketing = department("Marketing");
    marketing.employee_count = 153;
    table.insert(&marketing).await.unwrap();
    requests(&server);
    staff.insert(&employee(1)).await.unwrap();
    let (get, write) = (("GET".to_owned(), 1), ("POST".to_owned(), 2));
    assert_eq!(requests(&server), [get.clone(), write]);
    assert_eq!(read(&staff).await.employee_count, 154);
    let twice = staff.insert(&employee(1)).await.unwrap_err();
    assert_eq!(*twice.kind(), ErrorKind::Conflict);
    assert_eq!(read(&staff).await.employee_count, 154);
    // If no summary is affected, only the source is written.
    requests(&server);
    let rename = |employee: &mut Employee| {
        employee.email = "x@contoso.com".into();
        Ok(Change::Write)
    };
    staff.update_with(key(1), rename).await.unwrap();
    assert_eq!(requests(&server), [get.clone(), get.clone(), ("POST".to_owned(), 1)]);
    requests(&server);
    let loaded = staff.get(key(1)).await.unwrap().unwrap();
    staff.delete(&loaded).await.unwrap();
    assert_eq!(read(&staff).await.employee_count, 153);
    assert!(staff.delete(&loaded).await.unwrap_err().is_not_found());
    assert_eq!(read(&staff).await.employee_count, 153);
}

#[tokio::test]
async fn what_is_copied_of_a_manager_follows() {
    // PS-5.2, PS-5.4, P-5.1.
    let (_server, staff) = counted().await;
    for id in 1..=2 {
        staff.insert(&employee(id)).await.unwrap();
    }
    let broken = staff.update_summary(of_department(), |d| d.manager_id = Some(9)).await;
    assert_eq!(*broken.unwrap_err().kind(), ErrorKind::BrokenLink);
    staff.update_summary(of_department(), |d| d.manager_id = Some(1)).await.unwrap();
    assert_eq!(read(&staff).await.manager_email.as_deref(), Some("1@contoso.com"));
    let mut manager = staff.get(key(1)).await.unwrap().unwrap();
    manager.email = "boss@contoso.com".into();
    staff.replace(&manager).await.unwrap();
    assert!(staff.replace(&manager).await.unwrap_err().is_precondition_failed());
    assert_eq!(read(&staff).await.manager_email.as_deref(), Some("boss@contoso.com"));
    staff.update_summary(of_department(), |d| d.manager_id = Some(2)).await.unwrap();
    assert_eq!(read(&staff).await.manager_email.as_deref(), Some("2@contoso.com"));
    let manager = staff.get(key(2)).await.unwrap().unwrap();
    staff.delete(&manager).await.unwrap();
    let now = read(&staff).await;
    assert_eq!((now.manager_id, now.manager_email, now.employee_count), (None, None, 1));
    assert!(staff.verify(of_department()).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_is_right_at_every_moment() {
    // PS-5.3.
    let server = TestServer::start().await.unwrap();
    server.account().tables().create("Employees").await.unwrap();
    let staff = staff(&server.account());
    let rows = server.account().tables().table("Employees").unwrap();
    let is_over = AtomicBool::new(false);
    let write = async {
        let inserts = (0..40).map(|id| {
            let staff = staff.clone();
            async move {
                // Other writers nearly always interfere: retry until it succeeds.
                while let Err(error) = staff.insert(&employee(id)).await {
                    assert!(matches!(error.kind(), ErrorKind::Contended { .. }), "{error}");
                }
            }
        });
        futures_util::future::join_all(inserts).await;
        is_over.store(true, Ordering::Release);
    };
    let look = async {
        while !is_over.load(Ordering::Acquire) {
            let rows = rows.query(partition("Marketing")).collect_at_most(99).await.unwrap();
            let employees = rows.iter().filter(|row| row.row_key().starts_with("empid_")).count();
            let counted = rows.iter().find(|row| row.row_key() == "Department");
            let counted = counted.map_or(0, |row| row.get::<i32>("employee_count").unwrap());
            assert_eq!(counted, i32::try_from(employees).unwrap());
        }
    };
    tokio::join!(write, look);
    assert_eq!(read(&staff).await.employee_count, 40);
}

#[tokio::test]
async fn damage_is_found_and_counted_again() {
    // PS-5.6.
    let (server, staff) = counted().await;
    for id in 1..=3 {
        staff.insert(&employee(id)).await.unwrap();
    }
    staff.update_summary(of_department(), |d| d.manager_id = Some(3)).await.unwrap();
    assert!(staff.verify(of_department()).await.unwrap().is_none());
    let rows = server.direct().tables().table("Employees").unwrap();
    rows.merge(("Marketing", "Department")).set("employee_count", 7).await.unwrap();
    rows.merge(("Marketing", "empid_000003")).set("email", "new").await.unwrap();
    let finding = staff.verify(of_department()).await.unwrap().unwrap();
    assert_eq!(finding.kind, FindingKind::Stale);
    assert_eq!(finding.expected.unwrap().get::<i32>("employee_count").unwrap(), 3);
    staff.recount(of_department()).await.unwrap();
    assert!(staff.verify(of_department()).await.unwrap().is_none());
    let now = read(&staff).await;
    assert_eq!((now.employee_count, now.salaries), (3, 30));
    assert_eq!((now.manager_id, now.manager_email.as_deref()), (Some(3), Some("new")));
}

#[tokio::test]
async fn shards_are_summed_by_one_query() {
    // P-5.4.
    let (server, _) = counted().await;
    let staff: Summarized<Employee, Big> =
        Summarized::new(&server.account().tables().table("Employees").unwrap());
    let key_of = || Big::key("Marketing").unwrap();
    for id in 0..20 {
        staff.insert(&employee(id)).await.unwrap();
    }
    requests(&server);
    assert_eq!(staff.summary(key_of()).await.unwrap().unwrap().employee_count, 20);
    assert_eq!(requests(&server).len(), 1);
    let loaded = staff.get(key(5)).await.unwrap().unwrap();
    staff.delete(&loaded).await.unwrap();
    assert_eq!(staff.summary(key_of()).await.unwrap().unwrap().employee_count, 19);
    assert!(staff.verify(key_of()).await.unwrap().is_none());
    // Shards are not departments.
    let typed: Table<Big> = server.direct().tables().of().unwrap();
    assert!(typed.query(partition("Marketing")).collect_at_most(9).await.unwrap().is_empty());
    staff.recount(key_of()).await.unwrap();
    assert_eq!(staff.summary(key_of()).await.unwrap().unwrap().employee_count, 19);
    staff.insert(&employee(99)).await.unwrap();
    assert_eq!(staff.summary(key_of()).await.unwrap().unwrap().employee_count, 20);
    assert!(staff.verify(key_of()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_fan_out_that_dies_goes_on() {
    // PS-5.5, P-5.3: 10,000 in the full test.
    let count: u32 = if chosen_seeds(SEEDS).end >= 1000 { 10_000 } else { 300 };
    let (server, _) = counted().await;
    let direct: Table<Employee> = server.direct().tables().of().unwrap();
    let state = server.direct().tables().create("Jobs").await.unwrap();
    let all = (0..count).map(|id| Employee { salary: 10, ..employee(id) });
    let report = direct.bulk().insert(lazuli_client::iter(all)).await.unwrap();
    report.into_result().unwrap();
    let fan_out = |table: &Table<Employee>| {
        let query = table.query(partition("Marketing")).page_size(50);
        FanOut::new(table, query, |employee| {
            let is_new = employee.salary != 11;
            employee.salary = 11;
            is_new
        })
    };
    // After half of the writes, nothing arrives any more.
    let writes = Match::any().method(http::Method::PUT);
    server.faults().add(writes, When::Nth(u64::from(count) / 2), Fault::CrashAfter);
    let table: Table<Employee> = server.account().tables().of().unwrap();
    let interrupted = tokio::select! {
        outcome = fan_out(&table).run("raise", &state, |_| {}) => outcome.is_err(),
        () = server.faults().crashed() => true,
    };
    assert!(interrupted);
    let changed = fan_out(&direct).run("raise", &state, |_| {}).await.unwrap();
    assert!(u64::from(count) / 2 > changed && changed > 0, "{changed}");
    let found = direct.query(partition("Marketing")).collect_at_most(20_000).await.unwrap();
    assert_eq!(found.len(), count as usize);
    assert!(found.iter().all(|employee| employee.salary == 11));
    assert_eq!(fan_out(&direct).run("raise", &state, |_| {}).await.unwrap(), 0, "it is done");
}

async fn setup(client: &TestClient) {
    client.tables().create("Employees").await.unwrap();
    staff(client).insert(&employee(1)).await.unwrap();
    staff(client).update_summary(of_department(), |d| d.manager_id = Some(1)).await.unwrap();
}

#[tokio::test]
async fn a_client_that_dies_leaves_a_summary_that_is_right() {
    // PS-5.7, P-0.7: there is nothing to heal.
    for change in ["insert", "update", "delete"] {
        let requests = crash::every_point(
            setup,
            async |client, ()| {
                let staff = staff(client);
                let rename = |employee: &mut Employee| {
                    employee.email = "new@contoso.com".into();
                    Ok(Change::Write)
                };
                match change {
                    "insert" => staff.insert(&employee(2)).await.unwrap(),
                    "update" => staff.update_with(key(1), rename).await.unwrap(),
                    _ => {
                        let loaded = staff.get(key(1)).await.unwrap().unwrap();
                        staff.delete(&loaded).await.unwrap();
                    }
                }
            },
            async |_, ()| {},
            async |client, (), outcome| {
                let staff = staff(client);
                assert!(staff.verify(of_department()).await.unwrap().is_none());
                if outcome.is_some() {
                    let now = read(&staff).await;
                    match change {
                        "insert" => assert_eq!(now.employee_count, 2),
                        "update" => {
                            assert_eq!(now.manager_email.as_deref(), Some("new@contoso.com"));
                        }
                        _ => assert_eq!((now.employee_count, now.manager_id), (0, None)),
                    }
                }
            },
        );
        assert!(requests.await.unwrap() >= 2);
    }
}

#[tokio::test]
async fn three_writers_with_faults_leave_a_summary_that_is_right() {
    crash::seeds(
        chosen_seeds(SEEDS),
        setup,
        async |client, (), mut writer| {
            let staff = staff(client);
            for _ in 0..6 {
                let id = writer.random.below(4) as u32;
                let salary = writer.random.below(100) as i64;
                let _ = match writer.random.below(4) {
                    0 => staff.insert(&employee(id)).await,
                    1 => {
                        let raise = |employee: &mut Employee| {
                            (employee.salary, employee.email) = (salary, salary.to_string());
                            Ok(Change::Write)
                        };
                        staff.update_with(key(id), raise).await
                    }
                    2 => staff.update_summary(of_department(), |d| d.manager_id = Some(id)).await,
                    _ => match staff.get(key(id)).await {
                        Ok(Some(loaded)) => staff.delete(&loaded).await,
                        _ => Ok(()),
                    },
                };
            }
        },
        async |_, ()| {},
        async |client, (), _| {
            let finding = staff(client).verify(of_department()).await.unwrap();
            assert!(finding.is_none(), "{finding:?}");
        },
    )
    .await
    .unwrap();
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u32),
    Raise(u32, i64),
    Manager(u32),
    Delete(u32),
}

#[tokio::test]
async fn random_operations_do_what_a_plain_map_does() {
    // PS-5.7, P-0.8.
    type State = (BTreeMap<u32, i64>, Option<u32>);
    type Answer = (bool, i32, i64, Option<u32>);
    let choose = |random: &mut Seeded| {
        let id = random.below(4) as u32;
        match random.below(4) {
            0 => Operation::Insert(id),
            1 => Operation::Raise(id, random.below(100) as i64),
            2 => Operation::Manager(id),
            _ => Operation::Delete(id),
        }
    };
    let real = async |staff: &Summarized<Employee, Department>, operation: &Operation| -> Answer {
        let is_done = match *operation {
            Operation::Insert(id) => staff.insert(&employee(id)).await.is_ok(),
            Operation::Raise(id, salary) => {
                let raise = staff.update_with(key(id), |employee| {
                    employee.salary = salary;
                    Ok(Change::Write)
                });
                raise.await.is_ok()
            }
            Operation::Manager(id) => {
                let name = staff.update_summary(of_department(), |d| d.manager_id = Some(id));
                name.await.is_ok()
            }
            Operation::Delete(id) => match staff.get(key(id)).await.unwrap() {
                Some(loaded) => staff.delete(&loaded).await.is_ok(),
                None => false,
            },
        };
        let now = read(staff).await;
        (is_done, now.employee_count, now.salaries, now.manager_id)
    };
    let plain = |(salaries, manager): &mut State, operation: &Operation| -> Answer {
        let is_done = match *operation {
            Operation::Insert(id) if salaries.contains_key(&id) => false,
            Operation::Insert(id) => salaries.insert(id, 10).is_none(),
            Operation::Raise(id, salary) => match salaries.get_mut(&id) {
                Some(known) => {
                    *known = salary;
                    true
                }
                None => false,
            },
            Operation::Manager(id) => {
                let is_there = salaries.contains_key(&id);
                if is_there {
                    *manager = Some(id);
                }
                is_there
            }
            Operation::Delete(id) => {
                if *manager == Some(id) {
                    *manager = None;
                }
                salaries.remove(&id).is_some()
            }
        };
        (is_done, i32::try_from(salaries.len()).unwrap(), salaries.values().sum(), *manager)
    };
    let setup = async |client: &TestClient| {
        let table = client.tables().create("Employees").await.unwrap();
        table.retyped::<Department>().insert(&department("Marketing")).await.unwrap();
        staff(client)
    };
    model::compare(chosen_seeds(SEEDS), 25, choose, setup, real, plain).await.unwrap();
}
