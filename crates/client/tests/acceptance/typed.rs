//! Types: CS-2, CS-4, CS-5, CS-22.

use crate::peer::{Peer, table_1};
use lazuli_client::prelude::*;
use lazuli_client::{DecodeError, ValueError};
use std::collections::BTreeMap;

crate::scenarios! {
    cs_02_a_typed_read_equals_an_untyped_one
    cs_04_a_union_reads_rows_of_two_kinds_in_order
    cs_05_versions_of_a_type_meet
    cs_22_a_replace_keeps_what_it_does_not_know_if_it_is_told_to
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(partition = "{department}", row = "{id:05}", kind = "Employee", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    age: i32,
    email: String,
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(partition = "{department_name}", row = "Department", kind = "Department")]
#[table(rename_all = "PascalCase")]
struct Department {
    #[table(also_property)]
    department_name: String,
    employee_count: i32,
}

#[derive(TableUnion, Debug, Clone, PartialEq)]
enum Staff {
    Employee(Employee),
    Department(Department),
}

fn don() -> Employee {
    Employee {
        department: "Marketing".to_owned(),
        id: 1,
        first_name: "Don".to_owned(),
        last_name: "Hall".to_owned(),
        age: 34,
        email: "donh@contoso.com".to_owned(),
    }
}

/// "Table 1" with the kinds of its rows.
async fn staff(peer: &Peer) -> Table {
    let table = peer.table("Staff").await;
    for entity in table_1() {
        let is_department = entity.row_key() == "Department";
        let kind = if is_department { "Department" } else { "Employee" };
        table.insert(&entity.with("EntityType", kind)).await.unwrap();
    }
    table
}

async fn cs_02_a_typed_read_equals_an_untyped_one(peer: Peer) {
    let table = staff(&peer).await;
    let employees = table.retyped::<Employee>();
    let typed = employees.get(Employee::key("Marketing", 1).unwrap()).required().await.unwrap();
    let untyped = table.get(("Marketing", "00001")).required().await.unwrap();
    assert_eq!(*typed, don());
    assert_eq!((typed.etag(), typed.timestamp()), (untyped.etag(), untyped.timestamp()));
    assert_eq!(untyped.str("FirstName"), Ok("Don"));
    assert_eq!(untyped.get::<i32>("Age"), Ok(34));
    // The service sets the Timestamp, whichever client writes.
    employees.replace(&typed).await.unwrap();
    let again = employees.get(Employee::key("Marketing", 1).unwrap()).required().await.unwrap();
    assert!(again.timestamp() > typed.timestamp());
}

async fn cs_04_a_union_reads_rows_of_two_kinds_in_order(peer: Peer) {
    let staff = staff(&peer).await.retyped::<Staff>();
    let rows = staff.query(partition("Marketing")).collect_at_most(10).await.unwrap();
    let keys: Vec<_> = rows.iter().map(|row| row.loaded_key().row.as_str().to_owned()).collect();
    assert_eq!(keys, ["00001", "00002", "Department"]);
    assert_eq!(*rows[0], Staff::Employee(don()));
    let Staff::Department(department) = &*rows[2] else { panic!("{:?}", rows[2]) };
    assert_eq!(department.employee_count, 153);
}

/// A type in a later version of a program.
mod later {
    use super::*;

    #[derive(TableEntity, Debug, Clone, PartialEq)]
    #[table(partition = "{department}", row = "{id:05}", kind = "Employee")]
    #[table(rename_all = "PascalCase", version = 2, upgrade(1 => join_name))]
    pub(crate) struct Employee {
        pub(crate) department: String,
        pub(crate) id: u32,
        pub(crate) name: String,
    }

    fn join_name(entity: &mut Entity) -> Result<(), DecodeError> {
        let name = format!("{} {}", entity.str("FirstName")?, entity.str("LastName")?);
        entity.set("Name", name);
        Ok(())
    }
}

#[derive(TableUnion, Debug, Clone, PartialEq)]
enum OrUnknown {
    Employee(Employee),
    #[table(other)]
    Unknown(Entity),
}

async fn cs_05_versions_of_a_type_meet(peer: Peer) {
    let table = staff(&peer).await;
    // Version 1 in the table, version 2 in the program.
    let later = table.retyped::<later::Employee>();
    let mut read =
        later.get(later::Employee::key("Marketing", 1).unwrap()).required().await.unwrap();
    assert_eq!(read.name, "Don Hall");
    // Reading wrote nothing back; writing does.
    let untyped = table.get(("Marketing", "00001")).required().await.unwrap();
    assert_eq!(untyped.str("EntityType"), Ok("Employee"));
    read.name = "Donald Hall".to_owned();
    later.replace(&read).await.unwrap();
    // The reverse.
    let earlier = table.retyped::<Employee>();
    let error = earlier.get(Employee::key("Marketing", 1).unwrap()).await.unwrap_err();
    let ErrorKind::Decode(decode) = error.kind() else { panic!("{error}") };
    assert_eq!(decode.reason, ValueError::NewerVersion { found: 2, known: 1 });
    let rows = table.retyped::<OrUnknown>().query(partition("Marketing").and(row().lt("00002")));
    let rows = rows.collect_at_most(10).await.unwrap();
    let OrUnknown::Unknown(unknown) = &*rows[0] else { panic!("{:?}", rows[0]) };
    assert_eq!(unknown.str("EntityType"), Ok("Employee.2"));
}

/// A type that knows one property and drops the others.
#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(partition = "{p}", row = "{r}", rename_all = "PascalCase")]
struct Narrow {
    p: String,
    r: String,
    age: i32,
}

/// A type that knows one property and keeps the others.
#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(partition = "{p}", row = "{r}", rename_all = "PascalCase")]
struct Keeping {
    p: String,
    r: String,
    age: i32,
    #[table(rest)]
    rest: BTreeMap<String, lazuli_client::Value>,
}

async fn cs_22_a_replace_keeps_what_it_does_not_know_if_it_is_told_to(peer: Peer) {
    let table = peer.table_1().await;
    let keeping = table.retyped::<Keeping>();
    let mut don =
        keeping.get(Keeping::key("Marketing", "00001").unwrap()).required().await.unwrap();
    don.age += 1;
    keeping.replace(&don).await.unwrap();
    let read = table.get(("Marketing", "00001")).required().await.unwrap();
    assert_eq!((read.get::<i32>("Age"), read.str("Email")), (Ok(35), Ok("donh@contoso.com")));

    let narrow = table.retyped::<Narrow>();
    let mut don = narrow.get(Narrow::key("Marketing", "00001").unwrap()).required().await.unwrap();
    don.age += 1;
    narrow.replace(&don).await.unwrap();
    let read = table.get(("Marketing", "00001")).required().await.unwrap();
    assert_eq!((read.get::<i32>("Age"), read.opt::<String>("Email")), (Ok(36), Ok(None)));
}
