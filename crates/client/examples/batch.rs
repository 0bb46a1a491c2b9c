//! 100 writes in one transaction, the index of the one that fails, and limits checked before a request.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;
use lazuli_client::{BatchFault, WriteOp};

fn employee(id: usize) -> Entity {
    Entity::new("Sales", format!("{id:05}")).with("Number", id as i32)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    tables.delete_if_present("BatchExample").await?;
    let employees = tables.create_when_free("BatchExample").await?;

    let mut batch = employees.batch("Sales");
    for id in 0..100 {
        batch = batch.insert(&employee(id));
    }
    println!("{} writes, {} bytes", batch.len(), batch.bytes());
    let done = batch.commit().await?;
    println!("written, for example as {}", done.etag(42).ok_or("no etag")?);

    // 7 exists: nothing of the transaction is written, and the error names the write.
    let err = employees.batch("Sales").insert(&employee(100)).insert(&employee(7)).commit().await;
    let err = err.err().ok_or("7 exists")?;
    println!("{err}");
    assert_eq!(err.batch_index(), Some(1));
    assert!(employees.get(("Sales", "00100")).await?.is_none());

    // Transactions that the service would refuse are refused here, before any request.
    let over = (0..101).fold(employees.batch("Sales"), |batch, id| batch.upsert(&employee(id)));
    let err = over.commit().await.err().ok_or("101 writes")?;
    println!("{err}");
    match err.kind() {
        ErrorKind::InvalidBatch(refused) => {
            assert_eq!((refused.index, &refused.reason), (100, &BatchFault::TooManyOperations));
        }
        other => panic!("{other}"),
    }

    // A batch knows its exact size, so it can be filled up.
    let mut batch = employees.batch("Sales");
    for id in 0.. {
        let write = WriteOp::upsert(&employee(id).with("Photo", vec![0_u8; 60_000]));
        if !batch.fits(&write) {
            break;
        }
        batch = batch.write(write);
    }
    println!("{} photos fit into {} bytes", batch.len(), batch.bytes());
    batch.commit().await?;
    Ok(())
}
