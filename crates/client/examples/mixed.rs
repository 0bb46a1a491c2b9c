//! Several types in one table, and versions of a type: employees and departments.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::DecodeError;
use lazuli_client::prelude::*;

#[derive(TableEntity, Debug)]
#[table(kind = "Employee", partition = "{department}", row = "{id:05}", rename_all = "PascalCase")]
#[table(version = 2, upgrade(1 => split_name))]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
}

/// Version 1 had a single `Name`.
fn split_name(entity: &mut Entity) -> Result<(), DecodeError> {
    let name = entity.str("Name")?.to_owned();
    let (first, last) = name.split_once(' ').unwrap_or((&name, ""));
    entity.set("FirstName", first);
    entity.set("LastName", last);
    Ok(())
}

#[derive(TableEntity, Debug)]
#[table(kind = "Department", partition = "{department}", row = "Department")]
struct Department {
    department: String,
    people: i32,
}

#[derive(TableUnion, Debug)]
enum Staff {
    Employee(Employee),
    Department(Department),
    #[table(other)]
    Unknown(Entity),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    let untyped = tables.create_if_missing("MixedExample").await?;
    let row = |key: &str, kind: &'static str| Entity::new("Sales", key).with("EntityType", kind);
    untyped.upsert(&row("00001", "Employee").with("Name", "Ken Kwok")).await?;
    untyped.upsert(&row("zzz", "Robot")).await?;
    let staff = untyped.retyped::<Staff>();
    staff.upsert(&Department { department: "Sales".into(), people: 1 }.into()).await?;
    let rows = staff.query(partition("Sales")).collect_at_most(10).await?;
    for row in &rows {
        println!("{:?}", **row);
    }
    assert_eq!(rows.len(), 3);
    let ken = rows.first().ok_or("a row")?;
    assert!(matches!(&**ken, Staff::Employee(ken) if ken.last_name == "Kwok"), "as version 2");
    Ok(())
}
