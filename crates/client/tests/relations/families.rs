//! Parents, collections, inheritance (P-12.1, P-12.2, P-12.5).

use crate::{Department, Employee, create, department, employee};
use lazuli_client::patterns::relations::Collection;
use lazuli_client::prelude::*;
use lazuli_client::{TableEntity, TableFields};
use lazuli_test::TestServer;
use lazuli_test::crash::{self, TestClient};

#[tokio::test]
async fn a_department_and_its_employees_come_in_one_request() {
    // PS-12.1.
    let server = TestServer::with_faults().await.unwrap();
    create(&server.direct()).await;
    let staff: Table<Employee> = server.account().tables().of().unwrap();
    staff.retyped::<Department>().insert(&department("Sales")).await.unwrap();
    let employees: Vec<_> = (1..=250).map(|id| employee("Sales", id)).collect();
    let bulk = staff.bulk().insert(lazuli_client::iter(employees.clone()));
    assert_eq!(bulk.await.unwrap().written, 250);
    staff.insert(&employee("Marketing", 1)).await.unwrap();

    server.faults().take();
    let sales = Collection::read(&staff, "Sales", 1000).await.unwrap();
    assert_eq!(server.faults().take().len(), 1);
    assert_eq!(*sales.one::<Department>().unwrap().unwrap(), department("Sales"));
    let found: Vec<Employee> =
        sales.all::<Employee>().unwrap().into_iter().map(Loaded::into_inner).collect();
    assert_eq!(found, employees);
    assert_eq!(sales.rows().len(), 251, "the copies of the index are left out");
    assert!(sales.one::<Employee>().is_err());
    assert!(Collection::read(&staff, "Sales", 100).await.is_err());
    let none = Collection::read(&staff, "Nowhere", 10).await.unwrap();
    assert!(none.one::<Department>().unwrap().is_none());
}

#[tokio::test]
async fn a_child_is_read_with_its_parent_and_needs_one() {
    // P-12.1.
    let server = TestServer::with_faults().await.unwrap();
    create(&server.direct()).await;
    let staff: Table<Employee> = server.account().tables().of().unwrap();
    let departments = staff.retyped::<Department>();
    let orphan = staff.insert_with_parent(&employee("Sales", 1)).await.unwrap_err();
    assert_eq!(*orphan.kind(), ErrorKind::BrokenLink);

    departments.insert(&department("Sales")).await.unwrap();
    server.faults().take();
    staff.insert_with_parent(&employee("Sales", 1)).await.unwrap();
    assert_eq!(server.faults().methods(), ["GET", "POST"]);
    let again = staff.insert_with_parent(&employee("Sales", 1)).await.unwrap_err();
    assert_eq!(*again.kind(), ErrorKind::Conflict);

    server.faults().take();
    let key = || Employee::key("Sales", 1).unwrap();
    let (child, parent) = staff.with_parent(&departments, key()).await.unwrap().unwrap();
    assert_eq!((&*child, &*parent.unwrap()), (&employee("Sales", 1), &department("Sales")));
    assert_eq!(server.faults().methods(), ["GET", "GET"]);
    let absent = Employee::key("Sales", 2).unwrap();
    assert!(staff.with_parent(&departments, absent).await.unwrap().is_none());
    // The parent is deleted: the child is still found.
    let parent = departments.get(Department::key("Sales").unwrap()).await.unwrap().unwrap();
    departments.delete(&parent).await.unwrap();
    let (_, parent) = staff.with_parent(&departments, key()).await.unwrap().unwrap();
    assert!(parent.is_none());
}

#[derive(TableFields, Clone, Debug, PartialEq)]
#[table(rename_all = "PascalCase")]
struct Person {
    last_name: String,
    nickname: Option<String>,
}

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Customer", rename_all = "PascalCase", partition = "person", row = "c_{number:06}")]
struct Customer {
    number: u32,
    #[table(flatten(prefix = ""))]
    person: Person,
    discount: i32,
}

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Clerk", rename_all = "PascalCase", partition = "person", row = "e_{id:06}")]
struct Clerk {
    id: u32,
    #[table(flatten(prefix = ""))]
    person: Person,
    salary: i32,
}

#[derive(TableUnion, Clone, Debug, PartialEq)]
enum Anybody {
    Customer(Customer),
    Clerk(Clerk),
    #[table(other)]
    Unknown(Entity),
}

#[tokio::test]
async fn kinds_of_person_share_fields_and_a_table() {
    // PS-12.5.
    let server = TestServer::start().await.unwrap();
    let people: Table<Entity> = server.account().tables().create("Person").await.unwrap();
    let person = |name: &str| Person { last_name: name.to_owned(), nickname: Some("J".to_owned()) };
    let customer = Customer { number: 1, person: person("Jones"), discount: 5 };
    let clerk = Clerk { id: 7, person: person("Kwok"), salary: 1000 };
    let robot = Entity::new("person", "x_1").with("EntityType", "Robot").with("LastName", "Jones");
    let union: Table<Anybody> = people.retyped();
    union.insert(&customer.clone().into()).await.unwrap();
    union.insert(&clerk.clone().into()).await.unwrap();
    people.insert(&robot).await.unwrap();

    let all = union.query(partition("person")).collect_at_most(10).await.unwrap();
    let all: Vec<Anybody> = all.into_iter().map(Loaded::into_inner).collect();
    let [first, second, Anybody::Unknown(unknown)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((first, second), (&customer.clone().into(), &clerk.into()));
    assert_eq!(unknown.str("EntityType").unwrap(), "Robot");
    assert_eq!(unknown.str("LastName").unwrap(), "Jones");
    // A query on a shared field finds all types.
    let jones = partition("person").and(col("LastName").eq("Jones"));
    let found = union.query(jones).collect_at_most(10).await.unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(*found[0], customer.into());
}

#[tokio::test]
async fn a_crash_leaves_a_child_whole_or_not_at_all() {
    // P-12.1, P-0.7. Nothing to heal: the child, its copy and the guard of the parent are one transaction.
    let staff = |client: &TestClient| client.tables().of::<Employee>().unwrap();
    let requests = crash::every_point(
        async |client| {
            let staff = create(client).await;
            staff.retyped::<Department>().insert(&department("Sales")).await.unwrap();
        },
        async |client: &TestClient, ()| {
            staff(client).insert_with_parent(&employee("Sales", 1)).await.unwrap();
        },
        async |_, ()| {},
        async |client, (), outcome| {
            let found = Collection::read(&staff(client), "Sales", 9).await.unwrap();
            let children = found.all::<Employee>().unwrap().len();
            assert!(children <= 1 && (outcome.is_none() || children == 1));
            assert_eq!(*found.one::<Department>().unwrap().unwrap(), department("Sales"));
            assert_eq!(staff(client).verify().collect_at_most(9).await.unwrap(), []);
        },
    );
    assert_eq!(requests.await.unwrap(), 2, "the parent, and the transaction");
}
