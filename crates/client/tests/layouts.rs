//! Types that share a table (P-6, P-15), projections (P-17) and links, against a real server in this process.

#![expect(clippy::unwrap_used, reason = "tests may")]

use lazuli_client::prelude::*;
use lazuli_client::{Change, Hint, KeyError, Link, QueryClass, TypeLayout, ValueError};
use lazuli_test::TestServer;
use lazuli_test::crash::{self, TestClient};

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(name = "Staff", kind = "Employee", rename_all = "PascalCase", shared_prefix)]
#[table(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    last_review: u16,
    manager: Option<Link<Self>>,
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(name = "Staff", kind = "Review", rename_all = "PascalCase", child_of(Employee))]
#[table(partition = "{department}", row = "empid_{id:06}_{year:04}")]
struct Review {
    department: String,
    id: u32,
    year: u16,
    manager_rating: i32,
    peer_rating: i32,
    comments: String,
}

#[derive(TableUnion, Debug, Clone, PartialEq)]
enum Staff {
    Employee(Employee),
    Review(Review),
    #[table(other)]
    Unknown(Entity),
}

#[derive(Projection, Debug, PartialEq)]
#[table(of = Review)]
struct Ratings {
    year: u16,
    manager_rating: i32,
    peer_rating: i32,
    comments: String,
}

fn employee(id: u32) -> Employee {
    Employee { department: "Sales".into(), id, last_review: 0, manager: None }
}

fn review(id: u32, year: u16) -> Review {
    let (department, comments) = ("Sales".into(), "good".into());
    Review { department, id, year, manager_rating: 4, peer_rating: 5, comments }
}

/// Employees 122 to 124, and reviews 2011 to 2013 of 123.
async fn staff(server: &TestServer) -> Table<Staff> {
    let table = server.account().tables().create("Staff").await.unwrap().retyped::<Staff>();
    for id in 122..=124 {
        table.insert(&employee(id).into()).await.unwrap();
    }
    for year in 2011..=2013 {
        table.insert(&review(123, year).into()).await.unwrap();
    }
    table
}

#[tokio::test]
async fn reviews_are_read_alone_or_with_their_employee() {
    // PS-6.1, P-6.1, CS-10.
    let server = TestServer::with_faults().await.unwrap();
    let table = {
        let table = server.account().tables().create("Staff").await.unwrap().retyped::<Staff>();
        for id in 122..=124 {
            table.insert(&employee(id).into()).await.unwrap();
        }
        for year in 2011..=2013 {
            table.insert(&review(123, year).into()).await.unwrap();
        }
        table
    };
    let range = Review::range("Sales").id(123);
    assert_eq!(
        range.to_string(),
        "PartitionKey eq 'Sales' and RowKey ge 'empid_000123_' and RowKey lt 'empid_000123`'"
    );
    server.faults().take();
    let all = table.retyped::<Review>().query(range).select_as::<Ratings>();
    let all = all.collect_at_most(10).await.unwrap();
    let years: Vec<u16> = all.iter().map(|row| row.year).collect();
    assert_eq!(years, [2011, 2012, 2013]);
    assert_eq!((all[0].manager_rating, &*all[0].comments), (4, "good"));
    let sent = server.faults().take();
    let select =
        "%24select=PartitionKey%2CRowKey%2CTimestamp%2CManagerRating%2CPeerRating%2CComments%2C_ix";
    let target = sent[0].query.replace("$select", "%24select").replace(',', "%2C");
    assert_eq!(sent.len(), 1);
    assert!(target.contains(select), "{target}");

    let with_children = Employee::with_children("Sales", 123).unwrap();
    assert_eq!(
        with_children.to_string(),
        "PartitionKey eq 'Sales' and RowKey ge 'empid_000123' and RowKey lt 'empid_000124'"
    );
    let both = table.query(with_children).collect_at_most(10).await.unwrap();
    assert_eq!(both.len(), 4);
    assert!(matches!(&*both[0], Staff::Employee(employee) if employee.id == 123));
    let one = table.get(Review::key("Sales", 123, 2012).unwrap()).await.unwrap().unwrap();
    assert_eq!(*one, review(123, 2012));
    // P-6.3: a part of the key that no range fixes is a property like any other.
    let good = table.query(partition("Sales").and(col("Comments").eq("good"))).explain();
    assert_eq!(good.class, QueryClass::PartitionScan);
    assert_eq!(good.hints, [Hint::ScansPartition]);
}

#[tokio::test]
async fn a_review_and_its_employee_are_written_together() {
    // PS-6.2.
    let server = TestServer::start().await.unwrap();
    let table = staff(&server).await;
    let work = |fails: bool| {
        move |tx: lazuli_client::Transaction| async move {
            let Some(mut boss) = tx.get(Employee::key("Sales", 123)?).await? else { return Ok(()) };
            boss.last_review = 2014;
            tx.replace(&boss)?;
            tx.insert(&review(123, if fails { 2013 } else { 2014 }))
        }
    };
    let error = table.transact("Sales", work(true)).attempts(1).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Contended { .. }), "{error}");
    let key = || Employee::key("Sales", 123).unwrap();
    assert_eq!(table.get(key()).required().await.unwrap().last_review, 0);
    table.transact("Sales", work(false)).await.unwrap();
    assert_eq!(table.get(key()).required().await.unwrap().last_review, 2014);
    assert!(table.get(Review::key("Sales", 123, 2014).unwrap()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_crash_leaves_a_review_and_its_employee_as_they_belong_together() {
    // PS-6.2, P-0.7. Nothing to heal: both are one transaction.
    let staff = |client: &TestClient| client.tables().table_of::<Staff>("Staff").unwrap();
    let requests = crash::every_point(
        async |client| {
            client.tables().create("Staff").await.unwrap();
            staff(client).insert(&employee(123).into()).await.unwrap();
        },
        async |client: &TestClient, ()| {
            let work = |tx: lazuli_client::Transaction| async move {
                let mut boss = tx.get(Employee::key("Sales", 123)?).await?.unwrap();
                boss.last_review = 2014;
                tx.replace(&boss)?;
                tx.insert(&review(123, 2014))
            };
            staff(client).transact("Sales", work).await.unwrap();
        },
        async |_, ()| {},
        async |client, (), outcome| {
            let both = staff(client).query(Employee::with_children("Sales", 123).unwrap());
            let both = both.collect_at_most(9).await.unwrap();
            let Staff::Employee(boss) = &*both[0] else { panic!("{both:?}") };
            assert_eq!(boss.last_review == 2014, both.len() == 2, "{both:?}");
            assert!(outcome.is_none() || both.len() == 2);
        },
    );
    assert_eq!(requests.await.unwrap(), 2, "a read, and the transaction");
}

#[tokio::test]
async fn ranges_of_a_parent_leave_out_its_children() {
    // PS-6.2a, P-6.2.
    let server = TestServer::start().await.unwrap();
    let table = staff(&server).await.retyped::<Employee>();
    let ids = async |range: lazuli_client::KeyRange<Employee>| {
        let found = table.query(range).collect_at_most(10).await.unwrap();
        found.iter().map(|employee| employee.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(Employee::range("Sales").into()).await, [122, 123, 124]);
    assert_eq!(ids(Employee::range("Sales").id(122..=123)).await, [122, 123]);
    let reviews = table.retyped::<Review>().query(Review::range("Sales"));
    assert_eq!(reviews.collect_at_most(10).await.unwrap().len(), 3, "no employee among them");
}

#[tokio::test]
async fn a_department_is_not_part_of_another() {
    // PS-6.3, PS-6.4.
    let server = TestServer::start().await.unwrap();
    let table = staff(&server).await.retyped::<Review>();
    let of = |department: &str| Review { department: department.into(), ..review(7, 2012) };
    table.insert(&of("R_D")).await.unwrap();
    table.insert(&of("R")).await.unwrap();
    let key = Review::key("R_D", 7, 2012).unwrap();
    assert_eq!(Review::parse_key(&key).unwrap().department, "R_D");
    let found = table.query(Review::range("R_D")).collect_at_most(10).await.unwrap();
    assert_eq!(found.iter().map(|row| row.department.as_str()).collect::<Vec<_>>(), ["R_D"]);
    let wide = Review::key("R", 1_000_000, 2012).unwrap_err();
    assert_eq!(wide, KeyError::TooWide { value: 1_000_000, width: 6 });
}

#[tokio::test]
async fn untyped_rows_tell_their_kind() {
    // PS-15.1, P-15.1, P-15.2.
    let server = TestServer::start().await.unwrap();
    let table = server.account().tables().create("People").await.unwrap();
    for (row, kind) in
        [("Ann", None), ("Bob", Some("Employee")), ("Don", Some("Robot")), ("Eve", None)]
    {
        let entity = Entity::new("Sales", row).with("Name", row);
        let entity = kind.into_iter().fold(entity, |entity, kind| entity.with("EntityType", kind));
        table.insert(&entity).await.unwrap();
    }
    let range = partition("Sales") & row().ge("B") & row().lt("F");
    let rows = table.query(range.clone()).collect_at_most(10).await.unwrap();
    assert_eq!(rows.len(), 3, "rows without a kind survive");
    let employees = rows.iter().filter(|row| row.str("EntityType") == Ok("Employee")).count();
    assert_eq!(employees, 1);

    // PS-15.2, C-6.5: a resolver that fails for one row.
    let resolve = |entity: &Entity| match entity.opt::<String>("EntityType")?.as_deref() {
        Some("Robot") => Err(entity.decode_error("EntityType", ValueError::Unknown)),
        kind => Ok(kind.map(str::to_owned)),
    };
    let mut bad = table.query(range.clone()).resolve(resolve).stream();
    let error = loop {
        match bad.try_next().await {
            Err(error) => break error,
            Ok(found) => assert!(found.is_some(), "it fails before the end"),
        }
    };
    assert_eq!(error.key().map(|key| key.row.as_str()), Some("Don"));
    let good = table.query(range).resolve(resolve).skip_bad().collect_at_most(10).await.unwrap();
    assert_eq!(
        good.iter().map(|row| (**row).clone()).collect::<Vec<_>>(),
        [Some("Employee".into()), None]
    );
}

#[tokio::test]
async fn columns_are_selected_as_tuples() {
    // C-7.20, C-7.21, P-17.1.
    let server = TestServer::start().await.unwrap();
    let table = staff(&server).await.retyped::<Review>();
    let query = table.query(Review::range("Sales").id(123));
    let rows =
        query.select((Review::ID, Review::YEAR, Review::PEER_RATING)).collect_at_most(9).await;
    let rows: Vec<_> = rows.unwrap().into_iter().map(lazuli_client::Loaded::into_inner).collect();
    assert_eq!(rows, [(123, 2011, 5), (123, 2012, 5), (123, 2013, 5)]);
    let years = table.query(Review::range("Sales").id(123)).select(Review::YEAR);
    assert_eq!(years.collect_at_most(9).await.unwrap().len(), 3, "keys alone are asked for");
}

#[tokio::test]
async fn a_link_is_two_properties() {
    // P-12.3, PS-12.3.
    let server = TestServer::start().await.unwrap();
    let table = staff(&server).await.retyped::<Employee>();
    let boss = Link::new(&Employee::key("Sales", 122).unwrap());
    let key = || Employee::key("Sales", 123).unwrap();
    let change = {
        let boss = boss.clone();
        move |employee: &mut Employee| {
            employee.manager = Some(boss.clone());
            Ok(Change::Write)
        }
    };
    table.update_with(key(), change).await.unwrap();
    let stored = table.retyped::<Entity>().get(("Sales", "empid_000123")).required().await.unwrap();
    assert_eq!(stored.str("ManagerPartitionKey"), Ok("Sales"));
    assert_eq!(stored.str("ManagerRowKey"), Ok("empid_000122"));
    let read = table.get(key()).required().await.unwrap();
    let manager = read.manager.as_ref().unwrap();
    assert_eq!(manager.get(&table).await.unwrap().id, 122);
    assert_eq!(*manager, boss);
    table.delete_key(manager.key()).await.unwrap();
    assert_eq!(*manager.get(&table).await.unwrap_err().kind(), ErrorKind::BrokenLink);
}

#[tokio::test]
async fn a_difference_is_merged() {
    // C-9.4.
    let server = TestServer::with_faults().await.unwrap();
    server.account().tables().create("Staff").await.unwrap();
    let table: Table<Employee> = server.account().tables().of().unwrap();
    table.insert(&employee(1)).await.unwrap();
    let old = table.get(Employee::key("Sales", 1).unwrap()).required().await.unwrap();
    let new = Employee { last_review: 2014, ..employee(1) };
    server.faults().take();
    table.merge_changes(&old, &new).await.unwrap();
    assert_eq!(server.faults().methods(), ["PATCH"]);
    let stale = table.merge_changes(&old, &new).await.unwrap_err();
    assert!(stale.is_precondition_failed(), "{stale}");
    let linked = Employee { manager: Some(Link::to(&employee(2)).unwrap()), ..employee(1) };
    table.overwrite(&linked).await.unwrap();
    let old = table.get(Employee::key("Sales", 1).unwrap()).required().await.unwrap();
    let error = table.merge_changes(&old, &employee(1)).await.unwrap_err();
    assert!(error.to_string().contains("ManagerPartitionKey"), "{error}");
}

#[test]
fn types_whose_rows_mix_are_found_when_the_program_starts() {
    // P-0.4, beyond what the compiler checks.
    #[derive(TableEntity)]
    #[table(name = "Shared", kind = "Person", partition = "{team}", row = "p_{id:06}")]
    #[index(mail, row = "mail_{mail}", unique)]
    #[allow(dead_code)]
    struct Person {
        team: String,
        id: u32,
        mail: String,
    }
    #[derive(TableEntity)]
    #[table(name = "Shared", kind = "Letter", partition = "{team}", row = "mail_in_{id:06}")]
    #[allow(dead_code)]
    struct Letter {
        team: String,
        id: u32,
    }
    #[derive(TableEntity)]
    #[table(name = "Shared", kind = "Note", partition = "notes_{team}", row = "mail_{id:06}")]
    #[allow(dead_code)]
    struct Note {
        team: String,
        id: u32,
    }
    #[derive(TableEntity)]
    #[table(name = "shared", kind = "Free", partition = "{team}", row = "{id:06}")]
    #[allow(dead_code)]
    struct Free {
        team: String,
        id: u32,
    }
    let tables = Account::from_connection_string("UseDevelopmentStorage=true").unwrap().tables();
    let person = TypeLayout::of::<Person>();
    tables.check_layout([person]).unwrap();
    let error = tables.check_layout([person, TypeLayout::of::<Letter>()]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("the index mail of Person and the entities of Letter"), "{text}");
    tables.check_layout([person, TypeLayout::of::<Letter>().in_table("Letters")]).unwrap();
    // The partition of people may begin with anything, including the partition of notes.
    assert!(tables.check_layout([person, TypeLayout::of::<Note>()]).is_err());
    // The kind distinguishes entities whose row keys do not; copies have none.
    tables.check_layout([TypeLayout::of::<Letter>(), TypeLayout::of::<Free>()]).unwrap();
    assert!(tables.check_layout([person, TypeLayout::of::<Free>()]).is_err());
    assert!(tables.check_layout([person, person]).is_err());
    // A union has the rows of all its types; the compiler checks their entities, and not their copies.
    #[derive(TableUnion)]
    #[allow(dead_code)]
    enum Mail {
        Person(Person),
        Letter(Letter),
        #[table(other)]
        Unknown(Entity),
    }
    let error = tables.check_layout([TypeLayout::of::<Mail>()]).unwrap_err();
    assert_eq!(error.to_string(), text);
    tables.check_layout([TypeLayout::of::<Staff>(), TypeLayout::of::<Letter>()]).unwrap();
    let both = [TypeLayout::of::<Staff>(), TypeLayout::of::<Free>()].map(|l| l.in_table("Rows"));
    tables.check_layout(both).unwrap();
    let open = [TypeLayout::of::<Staff>(), TypeLayout::of::<Staff>()];
    assert!(tables.check_layout(open).is_err());
}
