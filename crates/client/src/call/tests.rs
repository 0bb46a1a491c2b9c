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
    /// The entity of a point read.
    Entity(&'static str),
    /// A body with one header.
    Page(&'static str, (&'static str, &'static str)),
    /// A part of a blob, and where it lies.
    Part(&'static str, &'static str),
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
                Reply::Entity(body) => Ok(http::Response::new(Bytes::from(body).into())),
                Reply::Page(body, (name, value)) => {
                    let answer = http::Response::builder().header(name, value);
                    Ok(answer.body(Bytes::from(body).into()).unwrap())
                }
                Reply::Part(body, range) => {
                    let answer = http::Response::builder().status(206).header("etag", "1");
                    let answer = answer.header("last-modified", "Sun, 15 Nov 2026 12:00:00 GMT");
                    let answer = answer.header("content-range", range);
                    Ok(answer.body(Bytes::from(body).into()).unwrap())
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
        .blob_endpoint("http://127.0.0.1:2/acct")
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

#[tokio::test]
async fn a_clock_that_is_set_right_later_is_followed() {
    // C-13.2: otherwise all requests would be refused from then on.
    let ahead = Reply::Status(403, &[("date", "Sun, 15 Nov 2026 13:00:00 GMT")]);
    let right = Reply::Status(403, &[("date", "Sun, 15 Nov 2026 12:00:00 GMT")]);
    let test = test(&[ahead, OK, right, OK]);
    for _ in 0..2 {
        assert_eq!(test.account.exchange(&read()).await.unwrap().attempts, 2);
    }
    assert_eq!(test.account.signed_time(), test.manual.now());
}

/// Gives no token, ever.
#[derive(Debug)]
struct Hangs;

impl TokenCredential for Hangs {
    fn token<'a>(&'a self, _scope: &'a str) -> BoxFuture<'a, Result<AccessToken, BoxError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn what_never_left_ends_in_time_and_is_known_not_to_be_done() {
    // C-13.1, C-13.5.
    let hangs = test_with(Credential::token(Hangs), "https://acct.example", &[]);
    let signs = Credential::sas_from(std::future::pending::<Result<String, BoxError>>);
    let signs = test_with(signs, "https://acct.example", &[]);
    let full = test(&[]);
    let _places = full.account.0.places.acquire_many(256).await.unwrap();
    for Test { account, manual, .. } in [&hangs, &signs, &full] {
        let error = account.exchange(&write()).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Timeout);
        assert!(error.is_retryable() && !error.may_have_been_applied(), "{error}");
        assert!(manual.elapsed() <= Duration::from_secs(60));
    }
    let at_once = test(&[]);
    let mut call = write();
    call.options.timeout = Some(Duration::ZERO);
    let error = at_once.account.exchange(&call).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Timeout, 1));
}

/// A clock that only the test moves.
#[derive(Clone, Default)]
struct Moved(Arc<Mutex<Duration>>);

impl Environment for Moved {
    fn now(&self) -> Timestamp {
        Manual::default().now()
    }

    fn elapsed(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn random(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn the_server_gives_up_before_a_client_that_waited_for_its_turn() {
    // C-13.4.
    let (script, clock) = (Script::default(), Moved::default());
    script.replies.lock().unwrap().push_back(OK);
    let key = Credential::shared_key("acct", "a2V5").unwrap();
    let account = Account::builder("http://127.0.0.1:1/acct").credential(key);
    let account = account.transport(script.clone()).env(Env::new(clock.clone())).build().unwrap();
    let places = account.0.places.acquire_many(256).await.unwrap();
    let frees = async {
        *clock.0.lock().unwrap() = Duration::from_secs(20);
        drop(places);
    };
    let call = write();
    let (answer, ()) = futures_util::join!(account.exchange(&call), frees);
    assert_eq!(answer.unwrap().status.as_u16(), 200);
    // 35 s for an attempt, of which 20 are over, and 2 s before its end.
    let requests = script.requests.lock().unwrap();
    assert_eq!(requests[0].uri().query(), Some("timeout=13"));
}

#[tokio::test]
async fn a_pause_of_others_is_waited_for_no_longer_than_the_deadline() {
    // C-12.5.
    let test = test(&[]);
    let throttle = Arc::new(crate::throttle::Throttle::new(4));
    throttle.slow_down(Duration::ZERO, Duration::from_secs(3600));
    let mut call = write();
    call.options.throttle = Some(throttle);
    let error = test.account.exchange(&call).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Timeout);
    assert_eq!(test.manual.elapsed(), Duration::from_secs(60));
}

const ROW: Reply = Reply::Entity(
    r#"{"odata.etag":"W/\"1\"","PartitionKey":"p","RowKey":"r","Timestamp":"2026-11-15T12:00:00Z","N":1}"#,
);
const CHANGED: Reply = Reply::Status(412, &[("x-ms-error-code", "UpdateConditionNotSatisfied")]);

#[tokio::test]
async fn the_timeout_of_an_update_is_for_all_its_rounds() {
    // C-3.1, C-10.1.
    let test = test(&[const { [ROW, CHANGED] }; 100].concat());
    let table = test.account.tables().table("Rows").unwrap();
    let update = table.update_with(("p", "r"), |_| Ok(crate::Change::Write)).attempts(1000);
    let error = update.timeout(Duration::from_secs(3)).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Timeout);
    let elapsed = test.manual.elapsed();
    assert!(elapsed >= Duration::from_secs(3) && elapsed < Duration::from_secs(4), "{elapsed:?}");
}

#[derive(crate::TableEntity)]
#[table(name = "Rows", partition = "{team}", row = "id_{id:06}")]
#[index(mail, row = "mail_{mail}", unique)]
struct Indexed {
    team: String,
    id: u32,
    mail: String,
}

const INDEXED: Reply = Reply::Entity(
    r#"{"odata.etag":"W/\"1\"","PartitionKey":"p","RowKey":"id_000001","Timestamp":"2026-11-15T12:00:00Z","team":"p","id":1,"mail":"a"}"#,
);

#[tokio::test]
async fn the_timeout_of_a_write_that_reads_first_is_for_all_its_rounds() {
    // C-3.1, C-13.1, P-1.5. The server is busy before each answer, but for the look at what became of the write.
    let test = test(&[const { [BUSY, INDEXED, BUSY, CHANGED, INDEXED] }; 8].concat());
    let table = test.account.tables().of::<Indexed>().unwrap();
    let upsert = table.upsert(&Indexed { team: "p".into(), id: 1, mail: "b".into() });
    let error = upsert.timeout(Duration::from_secs(3)).await.unwrap_err();
    assert!(test.manual.elapsed() < Duration::from_secs(4), "{:?}", test.manual.elapsed());
    assert!(error.is_retryable() && !error.may_have_been_applied(), "{error}");
}

const LOST: Reply = Reply::Fails(Sent::Maybe);

#[tokio::test]
async fn the_timeout_of_a_write_is_for_the_look_at_its_outcome_too() {
    // C-13.1, C-13.8. The answer is lost, the write is refused when it is sent again, and the row cannot be read.
    let test = test(&[LOST, CHANGED, Reply::Never, LOST, CHANGED, Reply::Never]);
    let table = test.account.tables().table("Rows").unwrap();
    let row = crate::Entity::new("p", "r").with("N", 1);
    let replace = table.replace_if_match(&row, &crate::ETag::new("W/\"0\""));
    let error = replace.timeout(Duration::from_secs(3)).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(test.manual.elapsed() <= Duration::from_secs(3), "{:?}", test.manual.elapsed());

    let begun = test.manual.elapsed();
    let write = crate::WriteOp::replace_if_match(&row, &crate::ETag::new("W/\"0\""));
    let commit = table.batch("p").write(write).commit();
    let error = commit.timeout(Duration::from_secs(3)).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(test.manual.elapsed() - begun <= Duration::from_secs(3), "{:?}", test.manual.elapsed());
}

#[tokio::test]
async fn the_timeout_of_a_blob_in_blocks_is_for_all_of_them() {
    // C-3.1, C-13.1.
    let test = test(&[const { [BUSY, Reply::Status(201, &[])] }; 8].concat());
    let container = test.account.blobs().container("pics").unwrap();
    let put = container.blob("a").unwrap().put(vec![0; 8]).single_bytes_max(1).blocks(1, 1);
    put.timeout(Duration::from_secs(3)).await.unwrap_err();
    assert!(test.manual.elapsed() <= Duration::from_secs(3), "{:?}", test.manual.elapsed());
}

#[tokio::test]
async fn the_last_round_is_followed_by_no_pause() {
    // C-10.1.
    let test = test(&[ROW, CHANGED]);
    let table = test.account.tables().table("Rows").unwrap();
    let update = table.update_with(("p", "r"), |_| Ok(crate::Change::Write)).attempts(1);
    assert_eq!(*update.await.unwrap_err().kind(), ErrorKind::Contended { attempts: 1 });
    assert_eq!(test.manual.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn no_timeout_is_too_long() {
    let test = test(&[OK, Reply::Status(204, &[]), ABSENT, ROW]);
    let (tables, longest) = (test.account.tables(), Duration::MAX);
    test.manual.sleep(Duration::from_secs(1)).await;
    assert!(tables.exists("Rows").timeout(longest).await.unwrap());
    let table = tables.create_when_free("Rows").timeout(longest).await.unwrap();
    assert_eq!(table.get_many([("p", "r")]).timeout(longest).await.unwrap(), [None]);
    let keeps = table.update_with(("p", "r"), |_| Ok(crate::Change::Keep));
    keeps.timeout(longest).await.unwrap();
}

#[tokio::test]
async fn a_header_may_be_added_to_the_reads_of_many() {
    // C-3.8.
    let test = test(&[ABSENT]);
    let name = HeaderName::from_static("x-new");
    let reads = test.account.tables().table("Rows").unwrap().get_many([("p", "r")]);
    let reads = reads.header(name, HeaderValue::from_static("1")).query_parameter("new", "a&b");
    assert_eq!(reads.await.unwrap(), [None]);
    let requests = test.script.requests.lock().unwrap();
    assert_eq!(requests[0].headers()["x-new"], "1");
    assert!(requests[0].uri().query().unwrap().contains("new=a%26b"));
}

#[tokio::test]
async fn a_text_with_nul_is_refused_by_every_verb_before_anything_is_sent() {
    // C-5.12.
    let test = test(&[]);
    let table = test.account.tables().table("Rows").unwrap();
    let nul = ErrorKind::Encode(crate::EncodeError::Nul);
    let merge = || table.merge(("p", "r")).set("Text", "a\0b");
    let raw = table.merge(("p", "r")).set_raw("Text", "a\0b").or_insert().await;
    let inserted = table.insert(&crate::Entity::new("p", "r").with("Text", "a\0b")).await;
    for result in [merge().await, raw, inserted] {
        assert_eq!(*result.unwrap_err().kind(), nul);
    }
    let batch = table.batch("p").merge(("p", "r"), |m| m.set("Text", "a\0b"));
    let ErrorKind::InvalidBatch(error) = batch.commit().await.unwrap_err().kind().clone() else {
        panic!("another error")
    };
    assert_eq!(error.reason, crate::BatchFault::Write(Box::new(nul)));
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

/// An answer of a table service about something that does not exist.
const ABSENT: Reply = Reply::Status(404, &[("x-ms-error-code", "ResourceNotFound")]);

#[tokio::test]
async fn only_a_table_service_says_that_something_is_absent() {
    // C-7.1, C-9: a web server at a wrong address answers 404 as well.
    let page = || test(&[Reply::Status(404, &[])]);
    let table = |test: &Test| test.account.tables().table("People").unwrap();
    let error = table(&page()).get(("a", "b")).await.unwrap_err();
    assert!(
        error.is_not_found() && error.hint().is_some_and(|h| h.contains("endpoint")),
        "{error}"
    );
    assert!(table(&page()).delete_key(("a", "b")).await.is_err());
    assert!(page().account.tables().exists("People").await.is_err());
    assert!(page().account.tables().delete_if_present("People").await.is_err());

    let absent = || test(&[ABSENT]);
    assert_eq!(table(&absent()).get(("a", "b")).await.unwrap(), None);
    assert_eq!(table(&absent()).delete_key(("a", "b")).await.unwrap(), crate::Deleted::WasAbsent);
    assert!(!absent().account.tables().exists("People").await.unwrap());
    assert!(!absent().account.tables().delete_if_present("People").await.unwrap());
}

/// A page of an endless list.
const PAGE: Reply =
    Reply::Page(r#"{"value":[{"TableName":"A"}]}"#, ("x-ms-continuation-nexttablename", "B"));

#[tokio::test]
async fn the_timeout_of_a_list_is_for_all_its_pages() {
    // C-13.1.
    let test = test(&[const { [BUSY, PAGE] }; 100].concat());
    let list = test.account.tables().list().timeout(Duration::from_secs(3));
    assert!(list.await.is_err());
    assert!(test.manual.elapsed() < Duration::from_secs(4), "{:?}", test.manual.elapsed());
}

#[tokio::test]
async fn the_timeout_of_a_wait_for_a_name_is_for_all_its_attempts() {
    // C-3.4, C-13.1.
    const DELETED: Reply = Reply::Status(409, &[("x-ms-error-code", "TableBeingDeleted")]);
    let test = test(&[const { [BUSY, BUSY, DELETED] }; 100].concat());
    let create = test.account.tables().create_when_free("Busy").timeout(Duration::from_secs(4));
    assert!(create.await.is_err());
    assert!(test.manual.elapsed() <= Duration::from_secs(4), "{:?}", test.manual.elapsed());
}

#[tokio::test]
async fn the_look_at_a_lost_append_ends_with_its_timeout() {
    // C-13.1, C-17.4.
    const MOVED: Reply =
        Reply::Status(412, &[("x-ms-error-code", "AppendPositionConditionNotMet")]);
    let test = test(&[LOST, MOVED, BUSY, BUSY, BUSY, BUSY]);
    let blob = test.account.blobs().container("logs").unwrap().blob("a").unwrap();
    let error = blob.append("line").at(0).timeout(Duration::from_secs(2)).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(test.manual.elapsed() <= Duration::from_secs(2), "{:?}", test.manual.elapsed());
}

#[tokio::test]
async fn a_range_that_the_answer_ignores_is_an_error() {
    // C-17.4: the beginning of the blob is not its end.
    let test = test(&[Reply::Page("the whole blob", ("etag", "1"))]);
    let blob = test.account.blobs().container("pics").unwrap().blob("a").unwrap();
    let error = blob.get().range(4..9).await.unwrap_err();
    assert!(error.to_string().contains("range"), "{error}");
}

fn blob(test: &Test) -> crate::blob::Blob {
    test.account.blobs().container("pics").unwrap().blob("a").unwrap()
}

#[tokio::test]
async fn only_a_blob_service_says_that_a_blob_is_absent() {
    // C-17.4, as C-7.1: a web server at a wrong address answers 404 as well.
    let page = || test(&[Reply::Status(404, &[])]);
    for error in [
        blob(&page()).get().await.unwrap_err(),
        blob(&page()).head().await.unwrap_err(),
        blob(&page()).delete().await.unwrap_err(),
    ] {
        assert!(error.is_not_found(), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("endpoint")), "{error}");
    }
    let error = blob(&test(&[LOST, Reply::Status(404, &[])])).delete().await.unwrap_err();
    assert!(error.may_have_been_applied(), "{error}");

    const ABSENT: Reply = Reply::Status(404, &[("x-ms-error-code", "BlobNotFound")]);
    let absent = || test(&[ABSENT]);
    assert_eq!(blob(&absent()).get().await.unwrap(), None);
    assert_eq!(blob(&absent()).head().await.unwrap(), None);
    assert_eq!(blob(&absent()).delete().await.unwrap(), crate::Deleted::WasAbsent);
    let gone = blob(&test(&[LOST, ABSENT])).delete().await.unwrap();
    assert_eq!(gone, crate::Deleted::Now(crate::Proof::State));
}

#[tokio::test]
async fn a_stream_that_stops_before_the_end_of_its_blob_is_an_error() {
    // C-17.4: what came so far would be taken for the whole blob.
    use futures_util::TryStreamExt;
    const HELLO: Reply = Reply::Part("hello", "bytes 0-4/8");
    const NOTHING: Reply = Reply::Part("", "bytes 5-7/8");
    const OUTSIDE: Reply = Reply::Status(416, &[("x-ms-error-code", "InvalidRange")]);
    for wrong in [NOTHING, OUTSIDE] {
        let test = test(&[HELLO, wrong]);
        let mut stream = blob(&test).get().piece_bytes(5).stream();
        assert_eq!(stream.try_next().await.unwrap().unwrap(), "hello");
        let error = stream.try_next().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Protocol(_)), "{error}");
        assert_eq!(stream.try_next().await.unwrap(), None);
    }
    let error = blob(&test(&[NOTHING])).get().stream().try_next().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Protocol(_)), "{error}");

    // A blob without bytes, as services may answer, and a whole one.
    for empty in [OUTSIDE, Reply::Part("", "bytes 0-0/0")] {
        assert_eq!(blob(&test(&[empty])).get().stream().try_next().await.unwrap(), None);
    }
    let test = test(&[HELLO, Reply::Part("you", "bytes 5-7/8")]);
    let all: Vec<Bytes> = blob(&test).get().piece_bytes(5).stream().try_collect().await.unwrap();
    assert_eq!(all.concat(), b"helloyou");
}
