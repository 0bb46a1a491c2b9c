//! A secondary index in the same partition (P-1): declared once, maintained by every write.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(name = "IndexExample", kind = "Employee", rename_all = "PascalCase")]
#[table(partition = "{department}", row = "empid_{id:06}")]
#[index(email, row = "email_{email}", unique)]
#[index(last_name, row = "last_{last_name}_{id:06}", project(email))]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
    email: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    tables.create_if_missing("IndexExample").await?;
    let employees = tables.of::<Employee>()?;
    for (id, last_name, email) in
        [(223, "Jones", "jonesj@contoso.com"), (152, "Jones", "jonesa@contoso.com")]
    {
        let (department, last_name, email) = ("Sales".into(), last_name.into(), email.into());
        employees.upsert(&Employee { department, id, last_name, email }).await?;
    }
    println!("an insert costs {:?}", Employee::COST.insert());

    // One point read each.
    let jones = employees
        .get_by(Employee::by_email("Sales", "jonesj@contoso.com")?)
        .await?
        .ok_or("there")?;
    assert_eq!(jones.id, 223);
    // In the order of the index.
    let all =
        employees.query_by(Employee::by_last_name("Sales", "Jones")?).collect_at_most(10).await?;
    let ids: Vec<u32> = all.iter().map(|row| row.id).collect();
    println!("called Jones: {ids:?}");
    assert_eq!(ids, [152, 223]);

    // A value of a unique index belongs to one entity, and changing it moves the copy, in one transaction.
    let mut loaded = employees.get(Employee::key("Sales", 223)?).required().await?;
    loaded.email = "jonesa@contoso.com".into();
    let error = employees.replace(&loaded).await.err().ok_or("it is taken")?;
    println!("{error}");
    assert!(matches!(error.kind(), ErrorKind::UniqueViolation { index: "email", .. }));
    loaded.email = "jj@contoso.com".into();
    employees.replace(&loaded).await?;
    let old = employees.get_by(Employee::by_email("Sales", "jonesj@contoso.com")?).await?;
    assert!(old.is_none());
    Ok(())
}
