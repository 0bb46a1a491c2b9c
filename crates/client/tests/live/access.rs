//! Credentials, shared access signatures, policies and settings (C-2, C-16).

use crate::TestServer;
use lazuli_client::{
    AccessPolicy, Account, Credential, Entity, ErrorKind, Logging, Permissions, ResourceTypes,
    Retention, Retry, ServicePropertiesPatch, Table,
};
use lazuli_server::{WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

async fn people(server: &TestServer) -> Table {
    let people = server.table("People").await;
    for user in ["user-17", "user-18"] {
        people.insert(&Entity::new(user, "profile").with("Name", user)).await.unwrap();
    }
    people
}

/// The same server for a client with only a token.
fn guest(server: &TestServer, token: impl AsRef<str>) -> Account {
    let credential = Credential::sas(token).unwrap();
    server.builder().credential(credential).retry(Retry::none()).build().unwrap()
}

#[tokio::test]
async fn a_token_opens_its_own_partition_only() {
    // CS-20, PS-22.1.
    let server = TestServer::start();
    let people = people(&server).await;
    let token =
        people.sas(Permissions::READ).expires_in(HOUR).partition("user-17").build().unwrap();
    let account = guest(&server, &token);
    let theirs = account.tables().table("People").unwrap();
    let own = theirs.get(("user-17", "profile")).required().await.unwrap();
    assert_eq!(own.str("Name").unwrap(), "user-17");
    let other = theirs.get(("user-18", "profile")).await.unwrap_err();
    assert!(matches!(other.kind(), ErrorKind::Forbidden { .. }), "{other}");
    assert_eq!(theirs.scan().collect_at_most(10).await.unwrap().len(), 1);

    // Calls that the token clearly does not allow are refused before anything is sent.
    let listed = account.tables().list().await.unwrap_err();
    assert!(matches!(listed.kind(), ErrorKind::NotGranted(_)), "{listed}");
    let write = theirs.insert(&Entity::new("user-17", "x")).await.unwrap_err();
    assert!(write.to_string().contains("\"a\""), "{write}");
    assert_eq!((write.attempts(), write.status()), (0, None));
    let trusting = server
        .builder()
        .credential(Credential::sas(&token).unwrap())
        .trust_server()
        .build()
        .unwrap();
    let write = trusting.tables().table("People").unwrap().insert(&Entity::new("user-17", "x"));
    let refused = write.await.unwrap_err();
    let reason = "AuthorizationPermissionMismatch".to_owned();
    assert_eq!(*refused.kind(), ErrorKind::Forbidden { reason });
}

#[tokio::test]
async fn a_token_of_a_range_of_rows_covers_its_ends() {
    let server = TestServer::start();
    let table = server.table("Rows").await;
    for row in ["a", "b", "c"] {
        table.insert(&Entity::new("p", row)).await.unwrap();
    }
    let token = table.sas(Permissions::READ).expires_in(HOUR).rows("p", "a"..="b").build().unwrap();
    let theirs = guest(&server, token).tables().table("Rows").unwrap();
    let rows = theirs.scan().collect_at_most(10).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.row_key()).collect::<Vec<_>>(), ["a", "b"]);
}

#[tokio::test]
async fn a_token_of_an_account_opens_all_tables() {
    let server = TestServer::start();
    people(&server).await;
    let token = server
        .account()
        .sas(Permissions::READ | Permissions::LIST)
        .resource_types(ResourceTypes::SERVICE | ResourceTypes::CONTAINER | ResourceTypes::OBJECT)
        .expires_in(HOUR)
        .build()
        .unwrap();
    let account = guest(&server, token);
    assert_eq!(account.tables().list().await.unwrap(), ["People"]);
    let theirs = account.tables().table("People").unwrap();
    assert!(theirs.get(("user-17", "profile")).await.unwrap().is_some());
    assert!(account.tables().properties().await.is_ok());
    account.check().await.unwrap();
}

#[tokio::test]
async fn a_stored_policy_completes_a_token_and_revokes_it() {
    // C-16.3.
    let server = TestServer::start();
    let people = people(&server).await;
    assert!(people.policies().await.unwrap().is_empty());
    let expiry = lazuli_client::Timestamp::parse("2100-01-01T00:00:00Z");
    let readers = AccessPolicy {
        id: "readers".to_owned(),
        start: None,
        expiry,
        permissions: Some("r".to_owned()),
    };
    people.set_policies([readers.clone()]).await.unwrap();
    assert_eq!(people.policies().await.unwrap().find("readers"), Some(&readers));
    let token = people.sas(Permissions::NONE).policy("readers").build().unwrap();
    let theirs = guest(&server, token).tables().table("People").unwrap();
    assert!(theirs.get(("user-17", "profile")).await.unwrap().is_some());
    people.set_policies([]).await.unwrap();
    let revoked = theirs.get(("user-17", "profile")).await.unwrap_err();
    assert!(matches!(revoked.kind(), ErrorKind::Forbidden { .. }), "{revoked}");
    let six = vec![readers; 6];
    assert!(matches!(people.set_policies(six).await.unwrap_err().kind(), ErrorKind::Config(_)));
}

#[tokio::test]
async fn settings_of_the_service_change_section_by_section() {
    // C-16.4.
    let server = TestServer::start();
    let tables = server.account().tables();
    let before = tables.properties().await.unwrap();
    let logging = Logging { read: true, retention: Retention(Some(7)), ..Logging::default() };
    let patch = ServicePropertiesPatch { logging: Some(logging.clone()), ..Default::default() };
    tables.set_properties(patch).await.unwrap();
    let after = tables.properties().await.unwrap();
    assert_eq!((after.logging, after.hour_metrics), (logging, before.hour_metrics));
    // Only the secondary answers this; that of a local server is always up to date.
    assert!(matches!(
        tables.stats().await.unwrap(),
        lazuli_client::GeoReplication::Live { .. } | lazuli_client::GeoReplication::Unavailable
    ));
}

#[tokio::test]
async fn tokens_of_a_function_are_fetched_when_needed_and_when_refused() {
    // C-2.6.
    let server = TestServer::start();
    let people = people(&server).await;
    let calls = Arc::new(AtomicU32::new(0));
    let (counted, table) = (calls.clone(), people.clone());
    let credential = Credential::sas_from(move || {
        // The first token was signed with a key that is no longer in use.
        let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
        let token = table.sas(Permissions::READ).expires_in(HOUR).build();
        async move {
            let token = token?.as_str().to_owned();
            Ok(if is_first { token.replace("sp=r", "sp=ra") } else { token })
        }
    });
    let account = server.builder().credential(credential).build().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    let theirs = account.tables().table("People").unwrap();
    let (a, b) = (theirs.get(("user-17", "profile")), theirs.get(("user-18", "profile")));
    let (a, b) = tokio::join!(a.into_future(), b.into_future());
    assert!(a.unwrap().is_some() && b.unwrap().is_some());
    assert_eq!(calls.load(Ordering::Relaxed), 2, "one for all who wait, and one more");
    let error = theirs.insert(&Entity::new("a", "b")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Forbidden { .. }), "{error}");
    assert_eq!(calls.load(Ordering::Relaxed), 2, "a missing permission is not a stale token");
}

#[tokio::test]
async fn requests_may_be_signed_lite_and_a_refused_signature_shows_its_text() {
    // C-2.6, C-14.5.
    let server = TestServer::start();
    people(&server).await;
    let key = Credential::shared_key(WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY).unwrap();
    let lite = server.builder().credential(key.lite()).build().unwrap();
    let table = lite.tables().table("People").unwrap();
    table.upsert(&Entity::new("user-17", "profile").with("Name", "lite")).await.unwrap();
    assert_eq!(lite.tables().list_prefix("Peo").await.unwrap(), ["People"]);
    assert!(lite.tables().list_prefix("Pey").await.unwrap().is_empty());

    let wrong = Credential::shared_key(WELL_KNOWN_ACCOUNT, "d3Jvbmc=").unwrap();
    let stranger = server.builder().credential(wrong).build().unwrap();
    let error = stranger.tables().list().await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Forbidden { reason: "AuthenticationFailed".into() });
    // Debug builds keep the text, others do not.
    let is_shown = error.signed_string().map(|text| {
        assert!(text.starts_with("GET\n") && text.ends_with("/Tables"), "{text:?}");
    });
    assert_eq!(is_shown.is_some(), cfg!(debug_assertions));
    assert!(stranger.check().await.unwrap_err().to_string().contains("hint"));
    server.account().check().await.unwrap();
}

#[tokio::test]
async fn a_key_can_change_while_a_stream_runs() {
    // CS-21, C-2.9.
    let server = TestServer::start();
    let table = server.table("Rotated").await;
    for row in 0..30 {
        table.insert(&Entity::new("p", format!("{row:03}"))).await.unwrap();
    }
    let old = table.sas(Permissions::READ).expires_in(HOUR).build().unwrap();
    let account = guest(&server, old);
    let mut rows = account.tables().table("Rotated").unwrap().scan().page_size(10).stream();
    for _ in 0..5 {
        rows.try_next().await.unwrap().unwrap();
    }
    let key = Credential::shared_key(WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY).unwrap();
    account.set_credential(key);
    let mut left = 0;
    while rows.try_next().await.unwrap().is_some() {
        left += 1;
    }
    assert_eq!(left, 25);
    assert_eq!(account.tables().list().await.unwrap(), ["Rotated"]);
}

#[tokio::test]
async fn a_token_of_a_queue_allows_what_it_says() {
    // C-16.1.
    let server = TestServer::start();
    let jobs = server.account().queues().create_if_missing("jobs").await.unwrap();
    let token = |permissions| jobs.sas(permissions).expires_in(HOUR).build().unwrap();
    let theirs =
        |token: lazuli_client::SasToken| guest(&server, token).queues().queue("jobs").unwrap();
    let sender = theirs(token(Permissions::ADD));
    sender.send("work").await.unwrap();
    let refused = sender.receive(1).await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Forbidden { .. }), "{refused}");
    let worker = theirs(token(Permissions::PROCESS));
    let taken = worker.receive(1).await.unwrap();
    worker.delete(&taken[0].receipt).await.unwrap();
    assert!(worker.send("more").await.is_err());
    let other = guest(&server, token(Permissions::ADD)).queues().queue("other").unwrap();
    assert!(other.send("x").await.is_err(), "another queue");
}
