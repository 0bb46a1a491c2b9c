//! Eventually consistent transactions (P-3).

#![expect(clippy::unwrap_used, reason = "tests may")]

mod moves;
mod steps;
mod workers;

use lazuli_client::prelude::*;
use lazuli_test::{FaultyServer, TestServer};

const KEY: (&str, &str) = ("Sales", "000456");

#[derive(Clone)]
struct Hr {
    current: Table,
    archive: Table,
}

impl Hr {
    fn of(account: &Account) -> Self {
        let table = |name| account.tables().table(name).unwrap();
        Self { current: table("Current"), archive: table("Archive") }
    }

    async fn create(account: &Account) -> Self {
        for name in ["Current", "Archive"] {
            account.tables().create(name).await.unwrap();
        }
        account.queues().create_if_missing("archive").await.unwrap();
        Self::of(account)
    }

    async fn places(&self) -> (bool, bool) {
        let [current, archive] = [&self.current, &self.archive].map(|table| table.get(KEY));
        (current.await.unwrap().is_some(), archive.await.unwrap().is_some())
    }
}

fn employee(age: i32) -> Entity {
    Entity::new(KEY.0, KEY.1)
        .with("Name", "Jones")
        .with("Age", age)
        .with("Ticks", 9_007_199_254_740_993_i64)
        .with("Photo", vec![0_u8, 255])
        .with("Ratio", 0.5)
        .with("Manager", true)
}

async fn server() -> (FaultyServer, Hr) {
    let server = TestServer::with_faults().await.unwrap();
    let hr = Hr::create(&server.direct()).await;
    (server, hr)
}
