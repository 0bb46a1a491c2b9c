//! A department and its employees in one query, a parent that must exist, a small table for joins.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::TableEntity;
use lazuli_client::patterns::relations::{Collection, Lookup, rehome};
use lazuli_client::prelude::*;

#[derive(TableEntity, Clone, Debug)]
#[table(
    kind = "Department",
    rename_all = "PascalCase",
    partition = "{department}",
    row = "Department"
)]
struct Department {
    department: String,
    manager: String,
}

#[derive(TableEntity, Clone, Debug)]
#[table(name = "RelatedStaff", kind = "Employee", rename_all = "PascalCase")]
#[table(partition = "{department}", row = "empid_{id:06}", parent(Department, by = department))]
struct Employee {
    department: String,
    id: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    tables.delete_if_present("RelatedStaff").await?;
    tables.create_when_free("RelatedStaff").await?;
    let staff = tables.of::<Employee>()?;
    let departments = staff.retyped::<Department>();
    let employee = |id| Employee { department: "Sales".into(), id };
    let orphan = staff.insert_with_parent(&employee(1)).await;
    println!("{}", orphan.err().ok_or("there is no department yet")?);
    for name in ["Sales", "Marketing"] {
        departments.insert(&Department { department: name.into(), manager: "Hall".into() }).await?;
    }
    for id in 1..=3 {
        staff.insert_with_parent(&employee(id)).await?;
    }
    let (from, to) = (Employee::key("Sales", 2)?, Employee::key("Marketing", 2)?);
    let moved = rehome(&staff, from, to, |e| e.department = "Marketing".into());
    moved.await.map_err(|error| error.to_string())?;
    let sales = Collection::read(&staff, "Sales", 1000).await?;
    let department = sales.one::<Department>()?.ok_or("just written")?;
    println!("{} has {} employees", department.department, sales.all::<Employee>()?.len());
    let heads = tables.create_if_missing("RelatedHeads").await?.retyped::<Department>();
    heads.upsert(&Department { department: "Sales".into(), manager: "Hall".into() }).await?;
    let lookup = Lookup::new(&heads);
    let employees = staff.query(Employee::range("Sales")).stream();
    let mut pairs = lookup.join(employees, |employee| Department::key(&employee.department));
    while let Some((employee, head)) = pairs.try_next().await? {
        println!("{:06} works for {:?}", employee.id, head.map(|head| head.manager.clone()));
    }
    Ok(())
}
