//! Several types in one table, and versions of a type (C-6).

use lazuli_client::prelude::*;
use lazuli_client::{DecodeError, ValueError};

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(partition = "{department}", row = "{id:05}", kind = "Employee", rename_all = "PascalCase")]
#[table(version = 3, upgrade(1 => split_name, 2 => add_age))]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    age: i32,
}

fn split_name(entity: &mut Entity) -> Result<(), DecodeError> {
    let name = entity.str("Name")?.to_owned();
    let (first, last) = name.split_once(' ').unwrap_or((&name, ""));
    entity.set("FirstName", first);
    entity.set("LastName", last);
    entity.remove("Name");
    Ok(())
}

fn add_age(entity: &mut Entity) -> Result<(), DecodeError> {
    entity.set("Age", 0);
    Ok(())
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(
    partition = "{department}",
    row = "Department",
    kind = "Department",
    rename_all = "PascalCase"
)]
struct Department {
    department: String,
    employee_count: i32,
}

#[derive(TableUnion, Debug, Clone, PartialEq)]
#[table(discriminator = "EntityType")]
enum Staff {
    Employee(Employee),
    Department(Department),
    #[table(other)]
    Unknown(Entity),
}

#[derive(TableUnion, Debug, Clone, PartialEq)]
enum Known {
    Employee(Employee),
    Department(Department),
}

fn don() -> Employee {
    Employee {
        department: "Marketing".into(),
        id: 1,
        first_name: "Don".into(),
        last_name: "Hall".into(),
        age: 0,
    }
}

fn row(kind: &str) -> Entity {
    Entity::new("Marketing", "00001").with("EntityType", kind.to_owned())
}

#[test]
fn older_versions_are_brought_up_to_date() {
    // C-6.4, CS-5, PS-15.4.
    let first = row("Employee").with("Name", "Don Hall");
    let second = row("Employee.2").with("FirstName", "Don").with("LastName", "Hall");
    let third = second.clone().with("EntityType", "Employee.3").with("Age", 0);
    for entity in [first, second, third] {
        assert_eq!(Employee::read(entity.clone()), Ok(don()));
        assert_eq!(Staff::read(entity), Ok(Staff::Employee(don())));
    }
    let newer = row("Employee.4");
    let error = Employee::read(newer.clone()).unwrap_err();
    assert_eq!(error.reason, ValueError::NewerVersion { found: 4, known: 3 });
    assert_eq!(Staff::read(newer.clone()), Ok(Staff::Unknown(newer.clone())));
    assert_eq!(
        Known::read(newer).unwrap_err().reason,
        ValueError::NewerVersion { found: 4, known: 3 }
    );
}

#[test]
fn a_row_is_of_the_type_that_its_discriminator_names() {
    // C-6.1, C-6.6.
    let department = Entity::new("Sales", "Department")
        .with("EmployeeCount", 3)
        .with("EntityType", "Department");
    let value = Department { department: "Sales".into(), employee_count: 3 };
    assert_eq!(Staff::kind_of(&department), Some("Department"));
    assert_eq!(Staff::read(department.clone()), Ok(value.clone().into()));
    let error = Employee::read(department).unwrap_err();
    let wrong = ValueError::WrongKind { expected: "Employee", found: "Department".into() };
    assert_eq!(error.reason, wrong);
    let stranger = Entity::new("Sales", "x").with("EntityType", "Robot");
    assert_eq!(Staff::kind_of(&stranger), None);
    assert_eq!(Staff::read(stranger.clone()), Ok(Staff::Unknown(stranger.clone())));
    assert!(Known::read(stranger).is_err() && Known::read(Entity::new("Sales", "x")).is_err());
    let mut properties = lazuli_client::Properties::default();
    Staff::from(don()).write(&mut properties).unwrap();
    let kind = properties.values().find(|(name, _)| *name == "EntityType").unwrap().1.clone();
    assert_eq!(kind, lazuli_client::Value::String("Employee.3".into()));
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(partition = "{d}", row = "EMPLOYEE_{id:06}")]
struct RowEmployee {
    d: String,
    id: u32,
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(partition = "{d}", row = "DEPARTMENT_{name}")]
struct RowDepartment {
    d: String,
    name: String,
}

#[derive(TableUnion, Debug, Clone, PartialEq)]
#[table(by = "row")]
enum ByRow {
    Employee(RowEmployee),
    Department(RowDepartment),
}

#[test]
fn types_are_told_apart_by_row_keys() {
    // C-6.2, PS-15.3.
    let employee = ByRow::read(Entity::new("Sales", "EMPLOYEE_000123")).unwrap();
    assert_eq!(employee, ByRow::Employee(RowEmployee { d: "Sales".into(), id: 123 }));
    let department = ByRow::read(Entity::new("Sales", "DEPARTMENT_SALES")).unwrap();
    assert_eq!(department, RowDepartment { d: "Sales".into(), name: "SALES".into() }.into());
    assert!(ByRow::read(Entity::new("Sales", "OTHER")).is_err());
}
