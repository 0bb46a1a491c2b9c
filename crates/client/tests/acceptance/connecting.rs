//! Connection strings, keys that change, and what a token allows: CS-1, CS-20, CS-21.

use crate::peer::Peer;
use lazuli_client::{Account, Credential, Dialect, Entity, ErrorKind, Permissions, partition};
use lazuli_wire::connection_string::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A connection string, and the account and table endpoint that it describes.
const STRINGS: &[(&str, Option<&str>, &str)] = &[
    (
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net",
        Some("a"),
        "https://a.table.core.windows.net",
    ),
    ("AccountName=a;AccountKey=c2VjcmV0", Some("a"), "https://a.table.core.windows.net"),
    (" accountKEY = c2VjcmV0 ; accountname=a ;; ", Some("a"), "https://a.table.core.windows.net"),
    (
        "AccountName=a;AccountKey=c2VjcmV0;EndpointSuffix=core.chinacloudapi.cn",
        Some("a"),
        "https://a.table.core.chinacloudapi.cn",
    ),
    (
        "AccountName=a;AccountKey=c2VjcmV0;TableEndpoint=https://tables.example.com",
        Some("a"),
        "https://tables.example.com",
    ),
    (
        "AccountName=a;AccountKey=c2VjcmV0;TableSecondaryEndpoint=https://b.example.com",
        Some("a"),
        "https://a.table.core.windows.net",
    ),
    (
        "TableEndpoint=http://127.0.0.1:10002/devstoreaccount1;AccountName=devstoreaccount1;AccountKey=c2VjcmV0",
        Some("devstoreaccount1"),
        "http://127.0.0.1:10002/devstoreaccount1",
    ),
    (
        "TableEndpoint=https://a.table.core.windows.net;SharedAccessSignature=?sv=2019-02-02&sig=c2VjcmV0",
        None,
        "https://a.table.core.windows.net",
    ),
    (
        "AccountName=a;SharedAccessSignature=sv=2019-02-02&sig=c2VjcmV0",
        Some("a"),
        "https://a.table.core.windows.net",
    ),
    (
        "UseDevelopmentStorage=true",
        Some(DEVELOPMENT_ACCOUNT),
        "http://127.0.0.1:10002/devstoreaccount1",
    ),
    (
        "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://emulator",
        Some(DEVELOPMENT_ACCOUNT),
        "http://emulator:10002/devstoreaccount1",
    ),
    (
        "TableEndpoint=https://a.table.cosmos.azure.com:443/;AccountName=a;AccountKey=c2VjcmV0",
        Some("a"),
        "https://a.table.cosmos.azure.com:443",
    ),
    (
        "TableEndpoint=http://[::1]:10002/acct;AccountName=acct;AccountKey=c2VjcmV0",
        Some("acct"),
        "http://[::1]:10002/acct",
    ),
    (
        "TableEndpoint=http://acct.table.localhost:10002;AccountName=acct;AccountKey=c2VjcmV0",
        Some("acct"),
        "http://acct.table.localhost:10002",
    ),
];

#[test]
fn cs_01_connection_strings_mean_what_they_say_and_hide_their_secrets() {
    for (text, name, endpoint) in STRINGS {
        let account = Account::from_connection_string(text).unwrap();
        let found = account.table_endpoint().map(|found| found.trim_end_matches('/'));
        assert_eq!((account.name(), found), (*name, Some(*endpoint)), "{text}");
        let shown = format!("{account:?}");
        assert!(!shown.contains("c2VjcmV0") && !shown.contains(DEVELOPMENT_KEY), "{shown}");
        let is_cosmos = account.dialect() == Dialect::Cosmos;
        assert_eq!(is_cosmos, text.contains("cosmos"), "{text}");
    }
    for (text, queue, blob) in [
        (
            "AccountName=a;AccountKey=c2VjcmV0",
            "https://a.queue.core.windows.net",
            "https://a.blob.core.windows.net",
        ),
        (
            "AccountName=a;AccountKey=c2VjcmV0;DefaultEndpointsProtocol=http;QueueEndpoint=https://q.example.com",
            "https://q.example.com",
            "http://a.blob.core.windows.net",
        ),
        (
            "UseDevelopmentStorage=true",
            "http://127.0.0.1:10001/devstoreaccount1",
            "http://127.0.0.1:10000/devstoreaccount1",
        ),
    ] {
        let account = Account::from_connection_string(text).unwrap();
        let found = [account.queue_endpoint(), account.blob_endpoint()];
        assert_eq!(found, [Some(queue), Some(blob)], "{text}");
    }
    for (text, credential) in [
        ("AccountName=a;AccountKey=c2VjcmV0", "SharedKey"),
        ("AccountName=a;SharedAccessSignature=sv=2019-02-02&sig=c2VjcmV0", "Sas"),
        ("UseDevelopmentStorage=true", "SharedKey"),
    ] {
        let shown = format!("{:?}", Account::from_connection_string(text).unwrap());
        assert!(shown.contains(credential), "{text}: {shown}");
    }
    let unknown = "AccountName=a;AccountKey=c2VjcmV0;Colour=blue";
    let unknown = Account::from_connection_string(unknown).unwrap();
    assert_eq!(unknown.ignored_settings(), ["Colour"], "C-2.2");
    for (wrong, part) in [
        ("AccountName=a;AccountName=b;AccountKey=c2VjcmV0", "AccountName"),
        ("AccountName=a;AccountKey=!c2VjcmV0!", "AccountKey"),
        (
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://e:1",
            "DevelopmentStorageProxyUri",
        ),
    ] {
        let error = Account::from_connection_string(wrong).unwrap_err();
        let shown = format!("{error} {error:#?}");
        assert!(shown.contains(part) && !shown.contains("c2VjcmV0"), "{shown}");
    }
}

/// Another key of the account.
const SECOND_KEY: &str = "c2Vjb25kIGtleSBvZiB0aGUgYWNjb3VudA==";

#[tokio::test]
async fn cs_21_a_key_is_replaced_under_a_running_stream() {
    let server = lazuli_test::TestServer::start().await.unwrap();
    let account = server.account();
    let table = account.tables().create("Rows").await.unwrap();
    for start in (0..500).step_by(100) {
        let batch = (start..start + 100).fold(table.batch("p"), |batch, number| {
            batch.insert(&Entity::new("p", format!("{number:05}")))
        });
        batch.commit().await.unwrap();
    }
    let refused = Arc::new(AtomicUsize::new(0));
    let seen = refused.clone();
    account.on_attempt(move |attempt| {
        if attempt.status.is_none_or(|status| !status.is_success()) {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut rows = table.query(partition("p")).page_size(10).stream();
    for number in 0..500 {
        match number {
            100 => {
                let both = format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}:{SECOND_KEY}");
                server.set_keys(&both).unwrap();
            }
            200 => account
                .set_credential(Credential::shared_key(DEVELOPMENT_ACCOUNT, SECOND_KEY).unwrap()),
            300 => server.set_keys(&format!("{DEVELOPMENT_ACCOUNT}:{SECOND_KEY}")).unwrap(),
            _ => {}
        }
        let row = rows.try_next().await.unwrap().unwrap();
        assert_eq!(row.row_key(), format!("{number:05}"));
    }
    assert!(rows.try_next().await.unwrap().is_none());
    // No row was lost, and moreover no request was refused and retried.
    assert_eq!(refused.load(Ordering::Relaxed), 0);
    let old = Account::from_connection_string(server.connection_string()).unwrap();
    let error = old.tables().table("Rows").unwrap().get(("p", "00001")).await.unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(403));
}

crate::scenarios! { cs_20_a_token_opens_one_partition }

async fn cs_20_a_token_opens_one_partition(peer: Peer) {
    let table = peer.table("Users").await;
    for user in ["user-17", "user-18"] {
        table.insert(&Entity::new(user, "profile").with("Name", user)).await.unwrap();
    }
    let token = table.sas(Permissions::READ).expires_in(Duration::from_secs(3600));
    let token = token.partition("user-17").build().unwrap();
    let account = peer.account();
    // Calls that the token clearly does not allow are refused before they are sent, unless the server is to refuse
    // them.
    for trusts_server in [false, true] {
        let guest = Account::builder(account.table_endpoint().unwrap());
        let guest = guest.credential(Credential::sas(&token).unwrap());
        let guest = if trusts_server { guest.trust_server() } else { guest };
        let guest = guest.build().unwrap();
        let theirs = guest.tables().table(table.name()).unwrap();
        let own = theirs.query(partition("user-17")).collect_at_most(10).await.unwrap();
        assert_eq!((own.len(), own[0].str("Name")), (1, Ok("user-17")));
        let other = theirs.get(("user-18", "profile")).await.unwrap_err();
        assert!(matches!(other.kind(), ErrorKind::Forbidden { .. }), "{other}");
        let listed = guest.tables().list().await.unwrap_err();
        match listed.kind() {
            ErrorKind::NotGranted(_) => assert!(!trusts_server, "{listed}"),
            ErrorKind::Forbidden { .. } => assert!(trusts_server, "{listed}"),
            other => panic!("{other}"),
        }
    }
}
