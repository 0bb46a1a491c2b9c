//! A list of ids for each last name, updated in the transaction that writes an employee.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::Change;
use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(name = "ListsExample", kind = "Employee", partition = "{department}")]
#[table(row = "empid_{id:06}")]
#[index_list(last_name, option = 2, row = "lastname_{last_name}", items = "IDs", item = "{id:06}")]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::from_env_or_development()?;
    account.tables().delete_if_present("ListsExample").await?;
    account.tables().create_when_free("ListsExample").await?;
    let employees = account.lists::<Employee>()?;
    for (id, last_name) in [(152, "Jones"), (178, "Jones"), (201, "Hall")] {
        let last_name = last_name.to_owned();
        employees.insert(&Employee { department: "Sales".into(), id, last_name }).await?;
    }

    let jones = Employee::list_last_name("Sales", "Jones")?;
    println!("Jones: {:?}", employees.ids_by(&jones).await?);
    assert_eq!(employees.ids_by(&jones).await?, ["000152", "000178"]);

    // Both lists and the employee are one transaction.
    let rename = |employee: &mut Employee| {
        employee.last_name = "Hall".into();
        Ok(Change::Write)
    };
    employees.update_with(Employee::key("Sales", 152)?, rename).await?;
    let halls = employees.get_listed(&Employee::list_last_name("Sales", "Hall")?).await?;
    for hall in &halls {
        println!("{:06} {}", hall.id, hall.last_name);
    }
    assert_eq!(halls.len(), 2);

    // Another program deletes a row without updating the list.
    employees.rows().delete_key(("Sales", "empid_000178")).await?;
    for finding in employees.verify(10).await? {
        println!("{finding}");
    }
    assert_eq!(employees.repair().await?, 1);
    assert!(employees.ids_by(&jones).await?.is_empty());
    Ok(())
}
