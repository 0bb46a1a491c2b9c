//! Photos too large for an entity: in blobs, whose addresses are in the entities.
// needs: blob

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;
use lazuli_client::{Large, TableEntity};

#[derive(TableEntity, Clone, Debug)]
#[table(
    name = "LargeStaff",
    rename_all = "PascalCase",
    partition = "{department}",
    row = "{id:06}"
)]
struct Employee {
    department: String,
    id: u32,
    #[table(large(container = "employee-photos"))]
    photo: Large,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::from_env_or_development()?;
    account.tables().delete_if_present("LargeStaff").await?;
    account.tables().create_when_free("LargeStaff").await?;
    account.queues().create_if_missing("photo-notes").await?;
    account.blobs().create_if_missing("employee-photos").await?;
    let staff = account.large("photo-notes")?.table::<Employee>()?;

    for (id, photo) in [(1, vec![1; 10_000]), (2, vec![2; 2_000_000])] {
        staff.insert(&Employee { department: "Sales".into(), id, photo: photo.into() }).await?;
    }
    for id in [1, 2] {
        let employee = staff.get(Employee::key("Sales", id)?).await?.ok_or("just written")?;
        println!("{:06}: {:?}", employee.id, employee.photo);
        // A second request, only if it is in a blob and only on demand.
        let photo = staff.read(&employee, |employee| &employee.photo).await?;
        assert_eq!(photo.len() as u64, employee.photo.len());
    }
    let mut employee = staff.get(Employee::key("Sales", 2)?).await?.ok_or("just written")?;
    employee.photo = vec![3; 3_000_000].into();
    staff.replace(&employee).await?;

    // Some process must always run this: it deletes unused blobs after their readers are done.
    println!("{} notes are due", account.large("photo-notes")?.worker()?.run_until_idle().await?);
    Ok(())
}
