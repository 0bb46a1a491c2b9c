//! The blob client against Azurite.

#![expect(clippy::unwrap_used, reason = "tests may")]
#![expect(clippy::indexing_slicing, reason = "tests may")]

use bytes::Bytes;
use futures_util::TryStreamExt;
use lazuli_client::blob::{Blob, BlobKind, Container, Lease, LeaseTime};
use lazuli_client::{Account, Credential, Deleted, ErrorKind, Permissions, Proof, Retry, SasToken};
use lazuli_test::{Azurite, Fault, FaultProxy};
use std::time::Duration;

#[tokio::test]
async fn the_blob_client_works_against_azurite() {
    let Some(azurite) = Azurite::start_if_possible().unwrap() else { return };
    let account = Account::from_connection_string(&azurite.connection_string()).unwrap();
    // One process for all tests: it takes seconds to start.
    containers_are_created_listed_and_deleted(&account).await;
    a_blob_is_written_read_described_and_deleted(&account).await;
    conditions_guard_every_write(&account).await;
    a_large_blob_goes_in_blocks_and_comes_in_pieces(&account).await;
    append_blobs_grow_at_the_position_that_is_named(&account).await;
    a_lease_keeps_others_from_writing(&account).await;
    names_are_sent_as_they_are_and_listed(&account).await;
    lost_answers_do_nothing_twice(&azurite).await;
    tokens_open_what_they_say(&account).await;
}

async fn tokens_open_what_they_say(account: &Account) {
    // C-16.1: Azurite verifies what we signed.
    let container = container(account, "tokens").await;
    for name in ["a b.txt", "2026/c"] {
        container.blob(name).unwrap().put("hello").await.unwrap();
    }
    let hour = Duration::from_secs(3600);
    let guest = |token: SasToken| {
        let guest = Account::builder("http://127.0.0.1:1/none");
        let guest = guest.blob_endpoint(account.blob_endpoint().unwrap());
        let guest = guest.credential(Credential::sas(&token).unwrap()).retry(Retry::none());
        guest.build().unwrap().blobs().container("tokens").unwrap()
    };
    let token = container.blob("a b.txt").unwrap().sas(Permissions::READ).expires_in(hour);
    let token = token.content_type("text/css").content_disposition("attachment; filename=x");
    let theirs = guest(token.build().unwrap());
    let read = theirs.blob("a b.txt").unwrap().get().await.unwrap().unwrap();
    assert_eq!(read.bytes, "hello");
    assert_eq!(read.properties.content_type.as_deref(), Some("text/css"));
    let refused = theirs.blob("2026/c").unwrap().get().await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Forbidden { .. }), "{refused}");
    assert!(theirs.blob("a b.txt").unwrap().put("bye").await.is_err());

    let token = container.sas(Permissions::LIST | Permissions::READ | Permissions::CREATE);
    let theirs = guest(token.expires_in(hour).build().unwrap());
    assert_eq!(theirs.list().at_most(9).await.unwrap().blobs.len(), 2);
    assert_eq!(text(&theirs.blob("2026/c").unwrap()).await.as_deref(), Some("hello"));
    theirs.blob("new").unwrap().put("new").if_absent().await.unwrap();
    assert!(theirs.blob("new").unwrap().delete().await.is_err());
}

async fn container(account: &Account, name: &str) -> Container {
    account.blobs().create_if_missing(name).await.unwrap()
}

async fn text(blob: &Blob) -> Option<String> {
    let read = blob.get().await.unwrap()?;
    Some(String::from_utf8(read.bytes.to_vec()).unwrap())
}

async fn containers_are_created_listed_and_deleted(account: &Account) {
    let blobs = account.blobs();
    blobs.create_if_missing("con-a").await.unwrap();
    blobs.create_if_missing("con-a").await.unwrap();
    blobs.create_if_missing("con-b").await.unwrap();
    assert_eq!(blobs.list("con-").await.unwrap(), ["con-a", "con-b"]);
    assert!(blobs.delete_if_present("con-a").await.unwrap());
    assert!(!blobs.delete_if_present("con-none").await.unwrap());
    let name = blobs.container("No").unwrap_err();
    assert_eq!(*name.kind(), ErrorKind::Name("No".into(), "container"));
}

async fn a_blob_is_written_read_described_and_deleted(account: &Account) {
    // C-17.4.
    let container = container(account, "verbs").await;
    let blob = container.blob("a.txt").unwrap();
    assert_eq!((text(&blob).await, blob.head().await.unwrap()), (None, None));
    let put = blob.put("hello").content_type("text/plain").metadata([("colour", "blue")]);
    let stored = put.await.unwrap();
    let read = blob.get().await.unwrap().unwrap();
    assert_eq!(read.bytes, "hello");
    let properties = blob.head().await.unwrap().unwrap();
    assert_eq!((&properties.etag, properties.bytes), (&stored.etag, 5));
    assert_eq!(properties.content_type.as_deref(), Some("text/plain"));
    assert_eq!((properties.kind, properties.is_leased), (Some(BlobKind::Block), false));
    assert_eq!(properties.metadata.iter().collect::<Vec<_>>(), [("colour", "blue")]);
    assert_eq!(read.properties.etag, stored.etag);

    let changed = blob.set_metadata([("a", "1")]).if_match(&stored.etag).await.unwrap();
    assert_ne!(changed.etag, stored.etag);
    let properties = blob.head().await.unwrap().unwrap();
    assert_eq!(properties.metadata.iter().collect::<Vec<_>>(), [("a", "1")]);
    assert_eq!(blob.delete().await.unwrap(), Deleted::Now(Proof::Answered));
    assert_eq!(blob.delete().await.unwrap(), Deleted::WasAbsent);
}

async fn conditions_guard_every_write(account: &Account) {
    let container = container(account, "conditions").await;
    let blob = container.blob("a").unwrap();
    let first = blob.put("1").if_absent().await.unwrap();
    let again = blob.put("2").if_absent().await.unwrap_err();
    assert!(again.is_conflict() && !again.may_have_been_applied(), "{again}");
    let second = blob.put("2").if_match(&first.etag).await.unwrap();
    let stale = blob.put("3").if_match(&first.etag).await.unwrap_err();
    assert!(stale.is_precondition_failed(), "{stale}");
    assert!(blob.get().if_match(&first.etag).await.unwrap_err().is_precondition_failed());
    assert!(blob.delete().if_match(&first.etag).await.unwrap_err().is_precondition_failed());
    assert_eq!(text(&blob).await.as_deref(), Some("2"));
    blob.delete().if_match(&second.etag).await.unwrap();
}

async fn a_large_blob_goes_in_blocks_and_comes_in_pieces(account: &Account) {
    let container = container(account, "blocks").await;
    let blob = container.blob("large").unwrap();
    let bytes: Bytes = (0..1_000_003_u32).map(|n| (n % 251) as u8).collect::<Vec<_>>().into();
    let put = blob.put(bytes.clone()).single_bytes_max(1000).blocks(100_000, 4);
    put.if_absent().content_type("x/y").metadata([("k", "v")]).await.unwrap();
    let read = blob.get().await.unwrap().unwrap();
    assert_eq!(read.bytes, bytes);
    assert_eq!(read.properties.content_type.as_deref(), Some("x/y"));
    assert_eq!(read.properties.metadata.iter().collect::<Vec<_>>(), [("k", "v")]);

    let pieces: Vec<Bytes> = blob.get().piece_bytes(300_000).stream().try_collect().await.unwrap();
    assert_eq!(
        pieces.iter().map(Bytes::len).collect::<Vec<_>>(),
        [300_000, 300_000, 300_000, 100_003]
    );
    assert_eq!(pieces.concat(), bytes);
    let part = blob.get().range(10..20).await.unwrap().unwrap();
    assert_eq!((&part.bytes[..], part.properties.bytes), (&bytes[10..20], 1_000_003));
    let tail = blob.get().range(999_999..).piece_bytes(3).stream();
    assert_eq!(
        tail.try_collect::<Vec<_>>().await.unwrap(),
        [&bytes[999_999..1_000_002], &bytes[1_000_002..]]
    );
    let over = blob.get().range(2_000_000..).stream().try_collect::<Vec<_>>().await.unwrap();
    assert!(over.is_empty());

    let error = blob.get().bytes_max(1000).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TooLarge { bytes: 1_000_003, bytes_max: 1000 });
    assert!(blob.get().range(5..5).await.is_err());

    // If a blob changes between two pieces, versions are not mixed.
    let mut stream = blob.get().piece_bytes(600_000).stream();
    assert_eq!(stream.try_next().await.unwrap().unwrap().len(), 600_000);
    blob.put("new").await.unwrap();
    assert!(stream.try_next().await.unwrap_err().is_precondition_failed());
    let empty = container.blob("empty").unwrap();
    empty.put("").await.unwrap();
    assert_eq!(text(&empty).await.as_deref(), Some(""));
    assert!(empty.get().stream().try_collect::<Vec<_>>().await.unwrap().is_empty());
    let missing = container.blob("missing").unwrap().get().stream().try_next().await.unwrap_err();
    assert!(missing.is_not_found());
}

async fn append_blobs_grow_at_the_position_that_is_named(account: &Account) {
    let container = container(account, "append").await;
    let blob = container.blob("log").unwrap();
    blob.create_append().if_absent().content_type("text/plain").await.unwrap();
    assert!(blob.create_append().if_absent().await.unwrap_err().is_conflict());
    let first = blob.append("one,").at(0).await.unwrap();
    assert_eq!((first.offset, first.proof), (0, Proof::Answered));
    assert_eq!(blob.append("two,").await.unwrap().offset, 4);
    let late = blob.append("x").at(4).await.unwrap_err();
    assert!(late.is_precondition_failed() && !late.may_have_been_applied(), "{late}");
    assert_eq!(text(&blob).await.as_deref(), Some("one,two,"));
    assert_eq!(blob.head().await.unwrap().unwrap().kind, Some(BlobKind::Append));
    assert!(blob.append("").await.is_err());
    let large = blob.append(vec![0; 4 * 1024 * 1024 + 1]).await.unwrap_err();
    assert!(matches!(large.kind(), ErrorKind::TooLarge { .. }));
}

async fn a_lease_keeps_others_from_writing(account: &Account) {
    let container = container(account, "leases").await;
    let blob = container.blob("a").unwrap();
    blob.put("1").await.unwrap();
    let lease = blob.acquire_lease(LeaseTime::Seconds(15)).await.unwrap();
    assert!(blob.acquire_lease(LeaseTime::Infinite).await.unwrap_err().is_conflict());
    assert!(blob.head().await.unwrap().unwrap().is_leased);
    let locked = blob.put("2").await.unwrap_err();
    assert_eq!(locked.code(), Some("LeaseIdMissing"));
    blob.put("2").lease(&lease).await.unwrap();
    blob.put(vec![1; 2000]).single_bytes_max(1000).blocks(1000, 2).lease(&lease).await.unwrap();
    lease.renew().await.unwrap();
    let resumed = Lease::resume(&blob, lease.id());
    resumed.release().await.unwrap();
    assert!(lease.renew().await.unwrap_err().is_conflict());
    let lease = blob.acquire_lease(LeaseTime::Infinite).await.unwrap();
    assert_eq!(blob.break_lease(Some(0)).await.unwrap(), 0);
    assert!(lease.renew().await.unwrap_err().is_conflict());
    assert_eq!(blob.delete().await.unwrap(), Deleted::Now(Proof::Answered));
    assert!(blob.acquire_lease(LeaseTime::Seconds(61)).await.is_err());
}

async fn names_are_sent_as_they_are_and_listed(account: &Account) {
    // C-17.5.
    let container = container(account, "names").await;
    let names = ["a b/c+d", "a/../b", "a/./b", "a//b", "plain", "x/é🦀?#&%41'", "x/y.", "z~_-"];
    for name in names {
        container.blob(name).unwrap().put(name).await.unwrap();
    }
    for name in names {
        assert_eq!(text(&container.blob(name).unwrap()).await.as_deref(), Some(name));
    }
    let listed = |list: &lazuli_client::blob::BlobList| {
        list.blobs.iter().map(|blob| blob.name.clone()).collect::<Vec<_>>()
    };
    let all = container.list().page_size(3).at_most(100).await.unwrap();
    let mut sorted = names.map(str::to_owned);
    sorted.sort();
    assert_eq!((listed(&all), &all.next), (sorted.to_vec(), &None));
    assert_eq!(all.blobs[0].bytes, all.blobs[0].name.len() as u64);
    let folded = container.list().delimiter("/").at_most(100).await.unwrap();
    assert_eq!(folded.prefixes, ["a b/", "a/", "x/"]);
    assert_eq!(listed(&folded), ["plain", "z~_-"]);
    let some = container.list().prefix("x/").at_most(1).await.unwrap();
    assert_eq!((listed(&some), some.next.is_some()), (vec!["x/y.".to_owned()], true));
}

/// C-13 for blobs.
async fn lost_answers_do_nothing_twice(azurite: &Azurite) {
    let proxy = FaultProxy::before(&azurite.connection_string()).unwrap();
    let retry = Retry::default().pauses(Duration::from_millis(1), Duration::from_millis(1));
    let account = proxy.builder().unwrap().retry(retry).build().unwrap();
    let container = container(&account, "lost").await;
    let blob = container.blob("a").unwrap();
    let lose = || proxy.next([Fault::DropReply]);

    lose();
    blob.put("1").await.unwrap();
    lose();
    let lease = blob.acquire_lease(LeaseTime::Infinite).await.unwrap();
    lose();
    lease.release().await.unwrap();
    lose();
    assert_eq!(blob.delete().await.unwrap(), Deleted::Now(Proof::State));
    lose();
    let error = blob.put("2").if_absent().await.unwrap_err();
    assert!(error.is_conflict() && error.may_have_been_applied(), "{error}");

    let log = container.blob("log").unwrap();
    log.create_append().await.unwrap();
    lose();
    let first = log.append("one,").at(0).await.unwrap();
    assert_eq!((first.offset, first.proof), (0, Proof::Content));
    proxy.next([Fault::DropRequest]);
    assert_eq!(log.append("two,").at(4).await.unwrap().proof, Proof::Answered);
    assert_eq!(text(&log).await.as_deref(), Some("one,two,"));
    proxy.next([Fault::CutReply]);
    assert_eq!(text(&log).await.as_deref(), Some("one,two,"), "a read is sent again");

    lose();
    assert!(account.blobs().delete_if_present("lost").await.unwrap());
}
