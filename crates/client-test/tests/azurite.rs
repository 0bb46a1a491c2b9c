//! Azurite as a peer, alone and as the blob service of a server in memory.

use lazuli_client::Account;
use lazuli_client::prelude::*;
use lazuli_test::{Azurite, Fault, FaultProxy, TestServer};

#[tokio::test]
async fn azurite_is_a_peer_and_lends_its_blobs() {
    let Some(azurite) = Azurite::start_if_possible().unwrap() else { return };
    let account = Account::from_connection_string(&azurite.connection_string()).unwrap();
    let table = account.tables().create("Peer").await.unwrap();
    table.insert(&Entity::new("p", "r").with("Age", 1)).await.unwrap();

    let proxy = FaultProxy::before(&azurite.connection_string()).unwrap();
    let table = proxy.account().tables().table("Peer").unwrap();
    proxy.next([Fault::CutReply]);
    assert_eq!(table.get(("p", "r")).required().await.unwrap().get::<i32>("Age").unwrap(), 1);
    assert_eq!(proxy.methods(), ["GET"; 2]);

    let server = TestServer::builder().blob_endpoint(azurite.blob_endpoint());
    let server = server.start_with_faults().await.unwrap();
    assert!(server.connection_string().contains(&azurite.blob_endpoint()));
    assert!(!server.faults().connection_string().contains(&azurite.blob_endpoint()));
    assert!(server.faults().connection_string().contains("BlobEndpoint=http://127.0.0.1:"));
}
