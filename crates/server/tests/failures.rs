//! A request that fails with 500 is logged once, with the id that its client got. A request refused
//! because the store takes no writes is not logged: the engine logs that state, once.
//!
//! A batch returns 202 whatever happens to its operations, so a failure inside one never reached
//! the code that logs failures: the id that the client was asked to report was not in the log.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, EngineError, Found, Key, MemoryEngine, Revision, View,
};
use lazuli_model::{Clock, SystemClock};
use lazuli_server::{
    Accounts, Front, FrontOptions, Peer, TableApi, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY,
};
use lazuli_table::TableService;
use lazuli_testkit::layer::{Layer, Layered};
use lazuli_wire::shared_key::{Authorization, Scheme, SignedRequest, SigningKey};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

/// A store that reads damaged data, or refuses all calls, on command.
#[derive(Default)]
struct FailingEngine {
    inner: MemoryEngine,
    is_damaged: AtomicBool,
    is_unavailable: AtomicBool,
}

impl FailingEngine {
    fn check(&self) -> Result<(), EngineError> {
        if self.is_damaged.load(Ordering::SeqCst) {
            return Err(EngineError::Corrupt("a checksum".to_owned()));
        }
        if self.is_unavailable.load(Ordering::SeqCst) {
            return Err(EngineError::Unavailable("a full disk".to_owned()));
        }
        Ok(())
    }
}

impl Layer for FailingEngine {
    fn below(&self) -> &dyn Engine {
        &self.inner
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(async move {
            self.check()?;
            self.inner.read(keys).await
        })
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        Box::pin(async move {
            self.check()?;
            self.inner.view().await
        })
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move {
            self.check()?;
            self.inner.commit(commit).await
        })
    }
}

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// A request signed with the account's key.
fn request(method: &str, path: &str, content_type: &str, body: &str) -> Request<Full<Bytes>> {
    let (path, date) = (format!("/{WELL_KNOWN_ACCOUNT}{path}"), SystemClock.now().rfc1123());
    let signed = SignedRequest {
        method,
        content_md5: "",
        content_type,
        date: &date,
        account: WELL_KNOWN_ACCOUNT,
        path: &path,
        comp: None,
    };
    let key = SigningKey::from_base64(WELL_KNOWN_KEY).unwrap();
    let signature = signed.sign(Scheme::SharedKey, &key);
    let authorization = Authorization::header(Scheme::SharedKey, WELL_KNOWN_ACCOUNT, &signature);
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1")
        .header("x-ms-version", "2019-02-02")
        .header("x-ms-date", date)
        .header("accept", "application/json")
        .header("content-type", content_type)
        .header("content-length", body.len())
        .header("authorization", authorization)
        .body(Full::from(body.to_owned()))
        .unwrap()
}

fn batch(inner: &str) -> Request<Full<Bytes>> {
    request("POST", "/$batch", "multipart/mixed; boundary=b", inner)
}

async fn send(front: &Front<TableApi>, request: Request<Full<Bytes>>) -> (u16, String, String) {
    let response = front.handle(request, Peer::new(([127, 0, 0, 1], 1).into(), false)).await;
    let id = response.headers()["x-ms-request-id"].to_str().unwrap().to_owned();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, id, String::from_utf8(body.to_vec()).unwrap())
}

const ENTITY: &str = "/Orders(PartitionKey='p',RowKey='r')";
const INSERT: &str = r#"{"PartitionKey":"p","RowKey":"r"}"#;

/// A front with the table `Orders`, on an engine that can fail.
async fn front() -> (Front<TableApi>, Arc<Layered<FailingEngine>>) {
    let engine = Arc::new(Layered::<FailingEngine>::default());
    let clock = Arc::new(SystemClock);
    let tables = TableService::new(engine.clone(), clock.clone());
    let accounts = Accounts::parse(&format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}")).unwrap();
    let accounts = Arc::new(Accounts::new(accounts).unwrap());
    let front = Front::of_tables(tables, accounts, clock, FrontOptions::default());
    let create = request("POST", "/Tables", "application/json", r#"{"TableName":"Orders"}"#);
    assert_eq!(send(&front, create).await.0, 201);
    (front, engine)
}

/// One request of each kind, with the status of its response when the store is damaged.
fn requests() -> [(&'static str, Request<Full<Bytes>>, u16); 4] {
    let change_set = format!(
        "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\
         Content-Type: application/http\r\n\r\nPOST /Orders HTTP/1.1\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{INSERT}\r\n--c--\r\n--b--\r\n",
        INSERT.len()
    );
    let query = format!(
        "--b\r\nContent-Type: application/http\r\n\r\nGET {ENTITY} HTTP/1.1\r\n\r\n\r\n--b--\r\n"
    );
    [
        ("a read", request("GET", ENTITY, "", ""), 500),
        ("an insert", request("POST", "/Orders", "application/json", INSERT), 500),
        ("a change set", batch(&change_set), 202),
        ("a query in a batch", batch(&query), 202),
    ]
}

#[tokio::test]
async fn every_failure_of_ours_is_logged_once_with_the_id_its_client_got() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let (front, engine) = front().await;
    engine.is_damaged.store(true, Ordering::SeqCst);
    for (name, request, status) in requests() {
        let (answered, id, body) = send(&front, request).await;
        assert_eq!(answered, status, "{name}: {body}");
        assert!(body.contains("InternalError") && body.contains(&id), "{name}: {body}");
        let logged = log.text();
        let lines: Vec<_> = logged.lines().filter(|line| line.contains(&id)).collect();
        let [line] = lines[..] else { panic!("{name}: {lines:?}") };
        assert!(line.contains("ERROR") && line.contains("a checksum"), "{name}: {line}");
    }
}

/// Each refused write wrote a line: a full disk filled the log with a line for every client retry.
#[tokio::test]
async fn requests_that_an_unavailable_store_refuses_are_no_errors() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let (front, engine) = front().await;
    engine.is_unavailable.store(true, Ordering::SeqCst);
    for (name, request, _) in requests() {
        let (_, _, body) = send(&front, request).await;
        assert!(body.contains("ServerBusy"), "{name}: {body}");
    }
    let logged = log.text();
    let errors: Vec<_> = logged.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors, Vec::<&str>::new());
}
