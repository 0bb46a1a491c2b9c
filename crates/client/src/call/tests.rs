use super::*;
use crate::credential::{AccessToken, Credential, TokenCredential};
use crate::env::{Env, Environment};
use crate::retry::Retry;
use crate::transport::{Body, Transport};
use crate::{BoxError, BoxFuture, tables};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// What a server says, answer by answer.
#[derive(Clone)]
enum Reply {
    Status(u16, &'static [(&'static str, &'static str)]),
    Fails(Sent),
    Never,
}

/// Plays replies and keeps requests.
#[derive(Clone, Default)]
struct Script {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    requests: Arc<Mutex<Vec<http::Request<Bytes>>>>,
}

impl Transport for Script {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        self.requests.lock().unwrap().push(request);
        let reply = self.replies.lock().unwrap().pop_front().expect("a reply");
        Box::pin(async move {
            match reply {
                Reply::Status(status, headers) => {
                    let mut answer = http::Response::builder().status(status);
                    for (name, value) in headers {
                        answer = answer.header(*name, *value);
                    }
                    Ok(answer.body(Bytes::new().into()).unwrap())
                }
                Reply::Fails(sent) => Err(TransportError { sent, source: "broken".into() }),
                Reply::Never => std::future::pending().await,
            }
        })
    }
}

/// A clock that stands but for sleeps, which end at once.
#[derive(Clone, Default)]
struct Manual {
    slept: Arc<Mutex<Vec<Duration>>>,
}

impl Environment for Manual {
    fn now(&self) -> Timestamp {
        Timestamp::parse("2026-11-15T12:00:00Z").unwrap()
    }

    fn elapsed(&self) -> Duration {
        self.slept.lock().unwrap().iter().sum()
    }

    fn random(&self) -> u64 {
        u64::MAX / 2
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'static, ()> {
        let slept = self.slept.clone();
        // Timed by the first poll: the timer of an attempt that is answered at once never runs.
        Box::pin(async move { slept.lock().unwrap().push(pause) })
    }
}

struct Test {
    account: Account,
    script: Script,
    manual: Manual,
}

fn test_with(credential: Credential, endpoint: &str, replies: &[Reply]) -> Test {
    let script = Script::default();
    script.replies.lock().unwrap().extend(replies.iter().cloned());
    let manual = Manual::default();
    let account = Account::builder(endpoint)
        .credential(credential)
        .transport(script.clone())
        .env(Env::new(manual.clone()))
        .retry(Retry::default().attempts(4))
        .build()
        .unwrap();
    Test { account, script, manual }
}

fn test(replies: &[Reply]) -> Test {
    let key = Credential::shared_key("acct", "a2V5").unwrap();
    test_with(key, "http://127.0.0.1:1/acct", replies)
}

fn read() -> Call {
    tables::read("get", "/T".to_owned(), String::new())
}

fn write() -> Call {
    tables::write("insert", Method::POST, "/T".to_owned(), Bytes::from_static(b"{}"))
}

const OK: Reply = Reply::Status(200, &[]);
const BUSY: Reply = Reply::Status(503, &[("retry-after", "1")]);

#[tokio::test]
async fn what_is_transient_is_sent_again_after_growing_pauses() {
    // C-13.1, C-13.2.
    let error = Reply::Status(500, &[("x-ms-error-code", "InternalError")]);
    let test = test(&[Reply::Fails(Sent::No), error, Reply::Status(502, &[]), OK]);
    let answer = test.account.exchange(&read()).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.attempts), (200, 4));
    let millis: Vec<_> =
        test.manual.slept.lock().unwrap().iter().map(Duration::as_millis).collect();
    assert_eq!(millis, [100, 200, 400], "half of 200, 400 and 800");
    let requests = test.script.requests.lock().unwrap();
    let id = |request: &http::Request<Bytes>| request.headers()["x-ms-client-request-id"].clone();
    assert!(requests.iter().all(|request| id(request) == id(&requests[0])));
}

#[tokio::test]
async fn the_server_s_pause_wins() {
    // CS-16.
    let test = test(&[BUSY, BUSY, OK]);
    assert!(test.account.exchange(&read()).await.is_ok());
    let slept = test.manual.slept.lock().unwrap();
    assert_eq!(*slept, [Duration::from_secs(1), Duration::from_secs(1)]);
}

#[tokio::test]
async fn what_is_final_is_answered_at_once() {
    for status in [200, 204, 400, 404, 409, 412, 501] {
        let test = test(&[Reply::Status(status, &[])]);
        let answer = test.account.exchange(&read()).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.attempts), (status, 1));
    }
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_marked() {
    let lost = test(&[Reply::Fails(Sent::Maybe), Reply::Status(409, &[])]);
    assert!(lost.account.exchange(&write()).await.unwrap().is_after_lost);
    let refused = test(&[Reply::Fails(Sent::No), Reply::Status(429, &[]), Reply::Status(409, &[])]);
    assert!(!refused.account.exchange(&write()).await.unwrap().is_after_lost);
    let read_again = test(&[Reply::Fails(Sent::Maybe), OK]);
    assert!(!read_again.account.exchange(&read()).await.unwrap().is_after_lost);
}

#[tokio::test]
async fn attempts_that_run_out_say_what_is_known() {
    // C-13.5.
    let kind = |replies: &[Reply], call: Call| {
        let test = test(replies);
        async move {
            let error = test.account.exchange(&call).await.unwrap_err();
            assert_eq!(error.attempts(), 4);
            error.kind().clone()
        }
    };
    let lost = [const { Reply::Fails(Sent::Maybe) }; 4];
    assert_eq!(kind(&lost, write()).await, ErrorKind::OutcomeUnknown);
    assert_eq!(kind(&lost, read()).await, ErrorKind::Transport);
    let never_sent = [const { Reply::Fails(Sent::No) }; 4];
    assert_eq!(kind(&never_sent, write()).await, ErrorKind::Transport);
    assert_eq!(kind(&[const { BUSY }; 4], read()).await, ErrorKind::Throttled);
    let throttled = [const { Reply::Status(429, &[]) }; 4];
    assert_eq!(kind(&throttled, write()).await, ErrorKind::Throttled);
}

#[tokio::test]
async fn an_attempt_without_an_answer_times_out_and_the_whole_has_an_end() {
    let test = test(&[Reply::Never, Reply::Never]);
    let error = test.account.exchange(&write()).await.unwrap_err();
    // 35 s for the first attempt, what is left of 60 s for the second.
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::OutcomeUnknown, 2));
    assert!(test.manual.elapsed() <= Duration::from_secs(60));
}

#[tokio::test]
async fn a_clock_that_is_far_off_is_corrected_once() {
    let refused = Reply::Status(403, &[("date", "Sun, 15 Nov 2026 13:00:00 GMT")]);
    let test = test(&[refused.clone(), OK]);
    assert!(test.account.exchange(&read()).await.is_ok());
    let dates: Vec<_> = {
        let requests = test.script.requests.lock().unwrap();
        requests.iter().map(|request| request.headers()["x-ms-date"].clone()).collect()
    };
    assert_eq!(dates, ["Sun, 15 Nov 2026 12:00:00 GMT", "Sun, 15 Nov 2026 13:00:00 GMT"]);
    let near = Reply::Status(403, &[("date", "Sun, 15 Nov 2026 12:10:00 GMT")]);
    let other = self::test(&[near]);
    assert_eq!(other.account.exchange(&read()).await.unwrap().status.as_u16(), 403);
}

#[derive(Debug)]
struct Tokens(Mutex<u32>);

impl TokenCredential for Tokens {
    fn token<'a>(&'a self, _scope: &'a str) -> BoxFuture<'a, Result<AccessToken, BoxError>> {
        let mut number = self.0.lock().unwrap();
        *number += 1;
        let secret = crate::Secret::new(format!("token{number}"));
        let expires = Timestamp::MAX;
        Box::pin(std::future::ready(Ok(AccessToken { secret, expires })))
    }
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_and_none_goes_without_tls() {
    // C-2.8.
    let refused = Reply::Status(401, &[]);
    let tokens = || Credential::token(Tokens(Mutex::new(0)));
    let test = test_with(tokens(), "https://acct.example", &[refused.clone(), refused]);
    assert_eq!(test.account.exchange(&read()).await.unwrap().status.as_u16(), 401);
    let sent: Vec<_> = {
        let requests = test.script.requests.lock().unwrap();
        requests.iter().map(|r| r.headers()["authorization"].clone()).collect()
    };
    assert_eq!(sent, ["Bearer token1", "Bearer token2"]);
    let plain = test_with(tokens(), "http://acct.example", &[]);
    let error = plain.account.exchange(&read()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Config(_)) && error.to_string().contains("hint"));
}

#[tokio::test]
async fn a_signature_goes_with_the_query_and_the_server_s_time_is_bounded() {
    let sas = Credential::sas("sv=2019-02-02&sig=a%3D").unwrap();
    let test = test_with(sas, "http://127.0.0.1:1/acct", &[OK]);
    let call = tables::read("get", "/T".to_owned(), "$top=1".to_owned());
    test.account.exchange(&call).await.unwrap();
    let requests = test.script.requests.lock().unwrap();
    let uri = requests[0].uri().to_string();
    assert_eq!(uri, "http://127.0.0.1:1/acct/T?$top=1&timeout=30&sv=2019-02-02&sig=a%3D");
    assert!(!requests[0].headers().contains_key("authorization"));
}

#[tokio::test]
async fn reads_may_go_to_the_secondary() {
    // C-3.6.
    let test = test(&[BUSY, OK]);
    let mut call = read();
    call.options.read_from = crate::ReadFrom::PrimaryThenSecondary;
    test.account.exchange(&call).await.unwrap();
    let requests = test.script.requests.lock().unwrap();
    let paths: Vec<_> = requests.iter().map(|r| r.uri().path()).collect();
    assert_eq!(paths, ["/acct/T", "/acct-secondary/T"]);
}

#[tokio::test]
async fn a_table_that_is_being_deleted_is_waited_for() {
    // C-3.4.
    const DELETED: Reply = Reply::Status(409, &[("x-ms-error-code", "TableBeingDeleted")]);
    let free = test(&[DELETED, DELETED, Reply::Status(204, &[])]);
    free.account.tables().create_when_free("Busy").await.unwrap();
    assert_eq!(free.manual.elapsed(), Duration::from_secs(2));
    let busy = test(&[DELETED, DELETED]);
    let short = busy.account.tables().create_when_free("Busy").timeout(Duration::from_secs(2));
    let error = short.await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (&ErrorKind::Service, Some("TableBeingDeleted")));
    let taken = test(&[Reply::Status(409, &[("x-ms-error-code", "TableAlreadyExists")])]);
    let error = taken.account.tables().create_when_free("Busy").await.unwrap_err();
    assert!(error.is_conflict() && error.attempts() == 1);
}

#[tokio::test]
async fn a_policy_of_one_s_own_decides_within_the_deadline() {
    // C-13.1.
    let script = Script::default();
    script.replies.lock().unwrap().extend([const { BUSY }; 9]);
    let manual = Manual::default();
    let policy = |failed: &Failed| {
        assert_eq!(failed.retry_after, Some(Duration::from_secs(1)));
        Some(Duration::from_secs(10))
    };
    let account = Account::builder("http://127.0.0.1:1/acct")
        .transport(script.clone())
        .env(Env::new(manual.clone()))
        .retry(Retry::custom(policy))
        .build()
        .unwrap();
    let error = account.exchange(&read()).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Throttled, 6), "60 s in all");
}

#[tokio::test]
async fn a_used_up_budget_ends_retries_and_says_so() {
    // C-13.3.
    let test = test(&[const { Reply::Fails(Sent::No) }; 101]);
    while test.account.0.budget.take(Price::Ordinary) {}
    let error = test.account.exchange(&read()).await.unwrap_err();
    assert_eq!(error.attempts(), 1);
    assert!(error.to_string().contains("retry budget"), "{error}");
}

#[tokio::test]
async fn an_unknown_outcome_may_be_tried_again_if_that_does_no_harm() {
    // C-13.5.
    let lost = [const { Reply::Fails(Sent::Maybe) }; 4];
    let value = crate::Entity::new("p", "r");
    for (is_idempotent, verb) in [(true, 0), (true, 1), (true, 2), (false, 3), (false, 4)] {
        let test = test(&lost);
        let table = test.account.tables().table("People").unwrap();
        let error = match verb {
            0 => table.upsert(&value).await.map(drop),
            1 => table.merge(("p", "r")).set("a", 1).await.map(drop),
            2 => table.delete_key(("p", "r")).await.map(drop),
            3 => table.insert(&value).await.map(drop),
            _ => table.merge(("p", "r")).if_match(&crate::ETag::new("e")).await.map(drop),
        };
        let error = error.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(error.is_retryable(), is_idempotent, "{verb}");
    }
}

#[tokio::test]
async fn a_late_date_in_retry_after_is_a_pause_too() {
    // C-13.1.
    let at = Reply::Status(503, &[("retry-after", "Sun, 15 Nov 2026 12:00:07 GMT")]);
    let test = test(&[at, OK]);
    assert!(test.account.exchange(&read()).await.is_ok());
    assert_eq!(test.manual.elapsed(), Duration::from_secs(7));
}
