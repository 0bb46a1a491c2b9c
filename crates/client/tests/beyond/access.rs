//! P-22.

use crate::{counted, methods};
use lazuli_client::{Account, Credential, Entity, ErrorKind, Permissions, TableEntity, partition};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_token_from_an_issuer_opens_one_partition_for_reading() {
    // PS-22.1, P-22.1.
    let (server, table) = counted().await;
    for user in ["user-17", "user-18"] {
        table.insert(&Entity::new(user, "profile")).await.unwrap();
    }
    methods(&server);
    let issuer = table.sas_issuer(Permissions::READ, HOUR);
    let token = issuer.token("user-17").unwrap();
    assert_eq!(issuer.token("user-17").unwrap(), token);
    assert!(methods(&server).is_empty(), "a token costs no request");
    let account = server.account();
    let guest = Account::builder(account.table_endpoint().unwrap())
        .credential(Credential::sas(&token).unwrap())
        .trust_server()
        .env(server.clock().unwrap().env())
        .build()
        .unwrap();
    let theirs = guest.tables().table("Beyond").unwrap();
    assert_eq!(theirs.query(partition("user-17")).collect_at_most(9).await.unwrap().len(), 1);
    for refused in [
        theirs.get(("user-18", "profile")).await.unwrap_err(),
        theirs.insert(&Entity::new("user-17", "x")).await.unwrap_err(),
        theirs.delete_key(("user-17", "profile")).await.unwrap_err(),
    ] {
        assert!(matches!(refused.kind(), ErrorKind::Forbidden { .. }), "{refused}");
    }
}

#[derive(TableEntity)]
#[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
#[index(email, row = "email_{email}", unique)]
struct Employee {
    department: String,
    id: u32,
    email: String,
}

#[tokio::test]
async fn a_token_that_adds_and_updates_does_one_transaction_in_its_partition() {
    // PS-22.2.
    let (server, table) = counted().await;
    let permissions = Permissions::ADD | Permissions::UPDATE;
    let token = table.sas(permissions).expires_in(HOUR).partition("Sales").build().unwrap();
    let account = server.account();
    let guest = Account::builder(account.table_endpoint().unwrap())
        .credential(Credential::sas(&token).unwrap())
        .env(server.clock().unwrap().env())
        .build()
        .unwrap();
    let theirs = guest.tables().table("Beyond").unwrap();
    let (department, email) = ("Sales".to_owned(), "jonesj@contoso.com".to_owned());
    let jones = Employee { department, id: 223, email };
    methods(&server);
    theirs.retyped::<Employee>().insert(&jones).await.unwrap();
    assert_eq!(methods(&server).len(), 1, "one transaction");
    assert_eq!(table.scan().collect_at_most(9).await.unwrap().len(), 2);
    let other = theirs.batch("Marketing").insert(&Entity::new("Marketing", "x"));
    let refused = other.commit().await.unwrap_err();
    assert_eq!(refused.status().map(|status| status.as_u16()), Some(403), "{refused}");
}
