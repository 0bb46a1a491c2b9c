//! Filters that cannot be injected: user input stays a value.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;

#[derive(TableEntity, Debug)]
#[table(name = "FiltersExample", rename_all = "PascalCase")]
#[table(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
    age: i32,
    visits: i64,
}

#[rustfmt::skip]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let typed = "x' or PartitionKey ne '";
    let time = Timestamp::parse("2014-08-22T00:50:32Z").ok_or("a time")?;
    for (filter, text) in [
        (Employee::LAST_NAME.eq("O'Neill"), "LastName eq 'O''Neill'"),
        (partition("Sales").and(Employee::LAST_NAME.eq(typed)), "PartitionKey eq 'Sales' and LastName eq 'x'' or PartitionKey ne '''"),
        (col("Age").ge(30) & col("Age").lt(40), "Age ge 30 and Age lt 40"),
        (Employee::AGE.lt(30) | Employee::AGE.ge(60), "Age lt 30 or Age ge 60"),
        (Employee::VISITS.eq(1 << 40), "Visits eq 1099511627776L"),
        (partition("Sales").and(row().starts_with("B")), "PartitionKey eq 'Sales' and RowKey ge 'B' and RowKey lt 'C'"),
        (timestamp().ge(time), "Timestamp ge datetime'2014-08-22T00:50:32Z'"),
        (Filter::parse("LastName eq @name", [("name", typed.into())])?, "LastName eq 'x'' or PartitionKey ne '''"),
    ] {
        println!("{filter}");
        assert_eq!(filter.to_string(), text);
    }

    let tables = Account::from_env_or_development()?.tables();
    tables.create_if_missing("FiltersExample").await?;
    let employees = tables.of::<Employee>()?;
    for (id, age, last_name) in [(1, 34, "Hall"), (2, 47, "Cao"), (3, 23, typed)] {
        let (department, last_name) = ("Sales".to_owned(), last_name.to_owned());
        employees.upsert(&Employee { department, id, last_name, age, visits: 0 }).await?;
    }
    let found = employees.query(Employee::range("Sales").filter(Employee::LAST_NAME.eq(typed)));
    let found = found.collect_at_most(10).await?;
    assert_eq!(found.iter().map(|employee| employee.id).collect::<Vec<_>>(), [3]);
    let young = employees.query(Employee::range("Sales").filter(Employee::AGE.lt(40)));
    let names = young.select((Employee::ID, Employee::LAST_NAME)).collect_at_most(10).await?;
    println!("{:?}", names.iter().map(|row| &**row).collect::<Vec<_>>());
    assert_eq!(names.len(), 2);
    Ok(())
}
