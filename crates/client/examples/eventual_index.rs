//! A unique index in another partition: claims, look-ups that lag or are checked, a worker.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::TableEntity;
use lazuli_client::prelude::*;

#[derive(TableEntity, Clone, Debug)]
#[table(name = "EventualStaff", kind = "Employee", rename_all = "PascalCase")]
#[table(partition = "empid_{department}", row = "{id:06}")]
#[index(email, partition = "email_{department}", row = "{email_address}", unique)]
struct Employee {
    department: String,
    id: u32,
    email_address: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::from_env_or_development()?;
    account.tables().delete_if_present("EventualStaff").await?;
    account.tables().create_when_free("EventualStaff").await?;
    account.queues().create_if_missing("staff-index").await?;
    let staff = account.eventual("staff-index")?.table::<Employee>()?;

    let employee =
        |id, email: &str| Employee { department: "Sales".into(), id, email_address: email.into() };
    staff.insert(&employee(223, "jonesj@contoso.com")).await?;
    let rival = staff.insert(&employee(224, "jonesj@contoso.com")).await;
    println!("{}", rival.err().ok_or("the value has a holder")?);

    let by_email = Employee::by_email("Sales", "jonesj@contoso.com")?;
    let mut jones = staff.get_by_checked(by_email.clone()).await?.ok_or("just written")?;
    jones.email_address = "jones@contoso.com".into();
    staff.replace(&jones).await?;
    assert!(staff.get_by(by_email).await?.is_none());

    // Some process must always run this: it finishes the writes of crashed writers.
    println!("{} notes", staff.worker()?.run_until_idle().await?);
    Ok(())
}
