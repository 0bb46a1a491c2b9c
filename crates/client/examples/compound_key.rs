//! Reviews in their employee's partition (P-6): one request reads them, alone or with the employee.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;

#[derive(TableEntity, Debug)]
#[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}", shared_prefix)]
struct Employee {
    department: String,
    id: u32,
}

#[derive(TableEntity, Debug)]
#[table(kind = "Review", child_of(Employee))]
#[table(partition = "{department}", row = "empid_{id:06}_{year:04}")]
struct Review {
    department: String,
    id: u32,
    year: u16,
    rating: i32,
}

#[derive(TableUnion, Debug)]
enum Staff {
    Employee(Employee),
    Review(Review),
}

#[derive(Projection, Debug)]
#[table(of = Review)]
struct Rating {
    year: u16,
    rating: i32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    let staff = tables.create_if_missing("CompoundExample").await?.retyped::<Staff>();
    let sales = || "Sales".to_owned();
    staff.upsert(&Employee { department: sales(), id: 123 }.into()).await?;
    for year in 2011..=2013 {
        staff.upsert(&Review { department: sales(), id: 123, year, rating: 4 }.into()).await?;
    }
    let reviews = staff.retyped::<Review>().query(Review::range("Sales").id(123));
    let ratings = reviews.select_as::<Rating>().collect_at_most(10).await?;
    println!("{:?}", ratings.iter().map(|row| (row.year, row.rating)).collect::<Vec<_>>());
    assert_eq!(ratings.len(), 3);
    let both = staff.query(Employee::with_children("Sales", 123)?).collect_at_most(10).await?;
    assert_eq!(both.len(), 4);
    let first = both.first().ok_or("the employee")?;
    assert!(matches!(&**first, Staff::Employee(_)));
    let alone = staff.retyped::<Employee>().query(Employee::range("Sales"));
    assert_eq!(alone.collect_at_most(10).await?.len(), 1);
    Ok(())
}
