//! An answer is lost after the server did the work. The client checks, and does not report a false conflict.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::prelude::*;
use lazuli_client::{Change, Proof};
use lazuli_test::{Fault, TestServer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A server in memory, behind a proxy that loses answers on request.
    let server = TestServer::with_faults().await?;
    let people = server.account().tables().create("People").await?;
    let don = Entity::new("Marketing", "00001").with("FirstName", "Don").with("Visits", 0);

    // The insert is retried and answered 409, because of our own first attempt. One read shows that.
    server.faults().take();
    server.faults().next([Fault::DropReply]);
    let written = people.insert(&don).await?;
    println!("insert: {:?}, known by {:?}", server.faults().methods(), written.proof);
    assert_eq!(written.proof, Proof::Content);

    // A counter must not count twice. The row keeps the ids of its last writes, which settles it.
    server.faults().next([Fault::Pass, Fault::DropReply]);
    let visit = |entity: &mut Entity| {
        let visits: i32 = entity.get("Visits")?;
        entity.set("Visits", visits + 1);
        Ok(Change::Write)
    };
    people.update_with(("Marketing", "00001"), visit).await?;
    let visits: i32 = people.get(("Marketing", "00001")).required().await?.get("Visits")?;
    println!("visits: {visits}");
    assert_eq!(visits, 1);
    Ok(())
}
