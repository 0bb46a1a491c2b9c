//! A department with the number of its employees and its manager's e-mail, updated in the transaction that writes one.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    email: String,
}

#[derive(TableEntity)]
#[table(kind = "Department", partition = "{department}", row = "Department")]
struct Department {
    department: String,
    #[table(count(Employee))]
    employee_count: i32,
    manager_id: Option<u32>,
    #[table(copy(Employee.email, by = manager_id))]
    manager_email: Option<String>,
}

#[derive(TableUnion)]
#[table(model)]
enum Staff {
    Employee(Employee),
    Department(Department),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    tables.delete_if_present("SummaryExample").await?;
    tables.create_when_free("SummaryExample").await?;
    let staff = tables.model::<Staff>("SummaryExample")?;
    for id in [152, 178, 201] {
        let email = format!("{id}@contoso.com");
        staff.insert(&Employee { department: "Sales".into(), id, email }).await?;
    }
    staff.update_summary(Department::key("Sales")?, |d| d.manager_id = Some(152)).await?;
    let leaver = staff.get(Employee::key("Sales", 178)?).await?.ok_or("gone")?;
    staff.delete(&leaver).await?;

    let sales = staff.get(Department::key("Sales")?).await?.ok_or("gone")?;
    println!("{} has {} employees", sales.department, sales.employee_count);
    assert_eq!(
        (sales.employee_count, sales.manager_email.as_deref()),
        (2, Some("152@contoso.com"))
    );
    let counted = staff.summarized::<Employee, Department>();
    assert!(counted.verify(Department::key("Sales")?).await?.is_none());
    Ok(())
}
