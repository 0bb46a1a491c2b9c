//! Three ways to have the service return only some properties (P-17).

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(name = "ProjectionExample", partition = "{department}", row = "{id:06}")]
#[table(rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    email: String,
    resume: String,
}

#[derive(Projection)]
#[table(of = Employee)]
struct Card {
    id: u32,
    email: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    tables.create_if_missing("ProjectionExample").await?;
    let employees = tables.of::<Employee>()?;
    let (department, email, resume) = ("Sales".into(), "donh@contoso.com".into(), "x".repeat(9000));
    employees.upsert(&Employee { department, id: 152, email, resume }).await?;

    let sales = || employees.query(Employee::range("Sales"));
    let tuples = sales().select((Employee::ID, Employee::EMAIL)).collect_at_most(10).await?;
    let cards = sales().select_as::<Card>().collect_at_most(10).await?;
    let rows = employees.retyped::<Entity>().query(partition("Sales"));
    let loose = rows.select_names(["Email"]).collect_at_most(10).await?;
    let (tuple, card) = (tuples.first().ok_or("a row")?, cards.first().ok_or("a row")?);
    println!("{} {}", card.id, card.email);
    assert_eq!((tuple.0, tuple.1.as_str()), (card.id, card.email.as_str()));
    let row = loose.first().ok_or("a row")?;
    // The keys are always returned, and only the selected properties.
    assert_eq!((row.row_key(), row.value("Resume")), ("000152", None));
    Ok(())
}
