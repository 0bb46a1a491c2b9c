//! P-23.6.

use crate::{counted, methods, setup, table};
use lazuli_client::patterns::once::Once;
use lazuli_client::{Error, ErrorKind};
use lazuli_test::crash;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[tokio::test]
async fn a_second_request_gets_the_first_answer() {
    let (server, table) = counted().await;
    let clock = server.clock().unwrap().clone();
    let once = Once::new(&table).keep(Duration::from_secs(3600));
    let runs = AtomicU32::new(0);
    let work = async || {
        let number = runs.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Error>(format!("answer {number}").into_bytes())
    };
    let first = once.run("a/b?c", work).await.unwrap();
    assert_eq!((&*first.bytes, first.is_repeated), (&b"answer 0"[..], false));
    assert_eq!(methods(&server), ["GET", "POST", "GET", "PUT"]);
    let second = once.run("a/b?c", work).await.unwrap();
    assert_eq!((second.bytes, second.is_repeated), (first.bytes, true));
    assert_eq!(methods(&server), ["GET"]);
    clock.advance(Duration::from_secs(3600));
    assert_eq!(once.run("a/b?c", work).await.unwrap().bytes, b"answer 1");
    assert_eq!(once.purge().await.unwrap(), 0);
    clock.advance(Duration::from_secs(3601));
    assert_eq!(once.purge().await.unwrap(), 1);
}

#[tokio::test]
async fn while_one_runs_others_wait_and_a_failure_keeps_nothing() {
    let (_server, table) = counted().await;
    // Parts of a second were once cut off, and others did not wait.
    let once = Once::new(&table).run_max(Duration::from_millis(900));
    let inner = once.clone();
    let nested = async || {
        let other = inner.run("k", async || Ok(Vec::new())).await.unwrap_err();
        assert!(matches!(other.kind(), ErrorKind::Contended { .. }), "{other}");
        Err::<Vec<u8>, _>(other)
    };
    assert!(once.run("k", nested).await.is_err());
    let answer = once.run("k", async || Ok(b"now".to_vec())).await.unwrap();
    assert!(!answer.is_repeated);
    let large = once.run("large", async || Ok(vec![0; 64 * 1024 + 1])).await.unwrap_err();
    assert!(matches!(large.kind(), ErrorKind::TooLarge { .. }));
}

#[tokio::test]
async fn a_request_that_dies_is_answered_once_in_the_end() {
    let requests = crash::every_point(
        setup,
        async |client, ()| {
            Once::new(&table(client)).run("k", async || Ok(b"first".to_vec())).await.unwrap().bytes
        },
        async |client, ()| client.clock.advance(Duration::from_secs(300)),
        async |client, (), outcome| {
            let once = Once::new(&table(client));
            let again = once.run("k", async || Ok(b"second".to_vec())).await.unwrap();
            if let Some(bytes) = outcome {
                assert_eq!((again.bytes, again.is_repeated), (bytes, true));
            }
            let third = once.run("k", async || Ok(b"third".to_vec())).await.unwrap();
            assert!(third.is_repeated && third.bytes != b"third");
        },
    );
    assert_eq!(requests.await.unwrap(), 4);
}
