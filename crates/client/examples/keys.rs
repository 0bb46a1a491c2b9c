//! Keys from templates: formatted, parsed, and ranges that only offer what keys can express.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(name = "KeysExample", kind = "Review", rename_all = "PascalCase")]
#[table(partition = "{department}", row = "empid_{id:08}_{year:04}")]
struct Review {
    department: String,
    id: u32,
    year: u16,
    rating: i32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    tables.create_if_missing("KeysExample").await?;
    let reviews = tables.of::<Review>()?;
    for (id, year) in [(9, 2013), (123, 2012), (123, 2013), (1000, 2013)] {
        let (department, rating) = ("R_D".to_owned(), 4);
        reviews.upsert(&Review { department, id, year, rating }).await?;
    }

    // Numbers are padded, so that 9 sorts before 123. Nothing is truncated: a number that does not fit is an error.
    let key = Review::key("R_D", 123, 2012)?;
    println!("{key:?}");
    assert_eq!(key.as_entity_key().row.as_str(), "empid_00000123_2012");
    assert!(Review::key("R_D", 123, 10_000).is_err());
    let back = Review::parse_key(&key)?;
    assert_eq!((back.department.as_str(), back.id, back.year), ("R_D", 123, 2012));

    // Fields of the row key in order: after a fixed value more can follow, a range comes last.
    let of_one = Review::range("R_D").id(123);
    println!("{of_one}");
    let some = Review::range("R_D").id(123).year(2013..=2014);
    println!("{some}");
    let several = Review::range("R_D").id(100..2000);
    println!("{several}");
    assert_eq!(reviews.query(of_one).collect_at_most(10).await?.len(), 2);
    assert_eq!(reviews.query(some).collect_at_most(10).await?.len(), 1);
    let ids: Vec<u32> =
        reviews.query(several).collect_at_most(10).await?.iter().map(|review| review.id).collect();
    assert_eq!(ids, [123, 123, 1000]);
    Ok(())
}
