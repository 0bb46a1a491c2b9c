//! Events of an order, their total in the same partition, and a view in another.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::Transaction;
use lazuli_client::patterns::stream::{Event, EventStream, Recorded};
use lazuli_client::patterns::view::View;
use lazuli_client::prelude::*;

/// Adds an amount to a row, or creates the row.
async fn add(tx: Transaction, key: (&str, &str), amount: i64) -> Result<(), Error> {
    match tx.get(key).await? {
        Some(mut row) => {
            let total: i64 = row.get("Cents")?;
            row.set("Cents", total + amount);
            tx.replace(&row)
        }
        None => tx.insert(&Entity::new(key.0, key.1).with("Cents", amount)),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::from_env_or_development()?;
    account.tables().delete_if_present("OrderEvents").await?;
    let table = account.tables().create_when_free("OrderEvents").await?;
    let order = EventStream::new(&table, "order-17");

    // The event and the total are written together, or not at all.
    for (number, cents) in [1250_i64, 400, -400].into_iter().enumerate() {
        let event = Event::new().with("Cents", cents).id(&format!("request-{number}"));
        let total = |tx, _| add(tx, ("order-17", "total"), cents);
        let appended = order.append_with(None, [event.clone()], total).await?;
        // If it is sent again, it is recognized by its id.
        let again = order.append_with(None, [event], total).await?;
        assert_eq!((again.first, again.is_repeated), (appended.first, true));
    }
    for event in order.read(1, 100).await? {
        println!("{}: {} cents", event.version, event.entity.get::<i64>("Cents")?);
    }

    // The total of all orders, in another partition, updated now and then.
    let view = View::new(&order, &table, "reports", "orders");
    let version = view
        .catch_up(async |tx: Transaction, event: Recorded| {
            let cents = event.entity.get("Cents")?;
            add(tx, ("reports", "turnover"), cents).await
        })
        .await?;
    let turnover: i64 = table.get(("reports", "turnover")).required().await?.get("Cents")?;
    println!("turnover at version {version}: {turnover} cents");
    assert_eq!((version, turnover), (3, 1250));
    Ok(())
}
