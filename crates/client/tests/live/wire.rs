//! Requests on the wire, and their observability (C-3, C-18, C-19.3).

use crate::TestServer;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use lazuli_client::{
    Account, Body, BoxFuture, Deleted, Entity, HttpTransport, Proxy, Recording, Replay, Transport,
    TransportError, partition,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Sends requests and records them.
#[derive(Clone)]
struct Kept {
    inner: Arc<HttpTransport>,
    requests: Arc<Mutex<Vec<http::request::Parts>>>,
}

impl Kept {
    fn new() -> Self {
        let inner = HttpTransport::new(Duration::from_secs(10)).unwrap();
        Self { inner: Arc::new(inner), requests: Arc::default() }
    }
}

impl Transport for Kept {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        let (head, body) = request.into_parts();
        self.requests.lock().unwrap().push(head.clone());
        self.inner.send(http::Request::from_parts(head, body))
    }
}

#[tokio::test]
async fn every_verb_takes_more_headers_and_parameters() {
    // C-3.7, C-3.8.
    let server = TestServer::start();
    let kept = Kept::new();
    let account = server
        .builder()
        .transport(kept.clone())
        .application("tests/1")
        .table_version("2020-12-06")
        .build()
        .unwrap();
    let name = HeaderName::from_static("x-ms-extra");
    let value = HeaderValue::from_static("yes");
    macro_rules! more {
        ($verb:expr) => {
            $verb.header(name.clone(), value.clone()).query_parameter("what's", "a b")
        };
    }
    let tables = account.tables();
    let table = more!(tables.create("Extra")).await.unwrap();
    more!(table.insert(&Entity::new("p", "r").with("Age", 1))).await.unwrap();
    let loaded = more!(table.get(("p", "r"))).required().await.unwrap();
    more!(table.replace(&loaded)).await.unwrap();
    more!(table.merge(("p", "r")).set("Age", 2)).await.unwrap();
    more!(table.scan()).collect_at_most(10).await.unwrap();
    more!(table.batch("p").upsert(&Entity::new("p", "s")).commit()).await.unwrap();
    more!(table.delete_key(("p", "r"))).await.unwrap();
    more!(tables.list()).await.unwrap();
    more!(tables.exists("Extra")).await.unwrap();
    more!(table.policies()).await.unwrap();
    more!(tables.properties()).await.unwrap();
    more!(tables.delete("Extra")).await.unwrap();
    let requests = kept.requests.lock().unwrap();
    assert_eq!(requests.len(), 13);
    for request in requests.iter() {
        let header = |name: &str| request.headers[name].to_str().unwrap().to_owned();
        assert_eq!(header("x-ms-extra"), "yes");
        assert!(request.uri.query().unwrap().contains("what%27s=a%20b"), "{}", request.uri);
        assert_eq!(header("x-ms-version"), "2020-12-06");
        let agent = header("user-agent");
        assert!(agent.starts_with("lazuli-client/") && agent.ends_with(" tests/1"), "{agent}");
        assert_eq!(header("x-ms-client-request-id").len(), 36);
    }
}

#[tokio::test]
async fn writes_never_go_to_the_secondary() {
    // C-3.6.
    let server = TestServer::start();
    let kept = Kept::new();
    let account = server.builder().transport(kept.clone()).build().unwrap();
    let tables = account.tables();
    let table =
        tables.create("Primary").read_from(lazuli_client::ReadFrom::Secondary).await.unwrap();
    table.get(("p", "r")).read_from(lazuli_client::ReadFrom::Secondary).await.unwrap();
    let requests = kept.requests.lock().unwrap();
    let is_secondary: Vec<_> =
        requests.iter().map(|request| request.uri.path().contains("-secondary/")).collect();
    assert_eq!(is_secondary, [false, true]);
}

#[tokio::test]
async fn what_was_recorded_against_a_server_plays_without_it() {
    // C-19.3.
    let server = TestServer::start();
    let path = std::env::temp_dir().join(format!("lazuli-recording-{}", std::process::id()));
    let inner = HttpTransport::new(Duration::from_secs(10)).unwrap();
    let recording = Recording::new(inner, &path).unwrap();
    async fn work(account: Account) -> (i32, Deleted) {
        let table = account.tables().create("Recorded").await.unwrap();
        table.insert(&Entity::new("p", "r").with("Age", 34)).await.unwrap();
        let age = table.get(("p", "r")).required().await.unwrap().get("Age").unwrap();
        (age, table.delete_key(("p", "r")).await.unwrap())
    }
    let recorded = work(server.builder().transport(recording).build().unwrap()).await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.to_lowercase().contains("authorization"), "{text}");
    let replay = Replay::open(&path).unwrap();
    let played = work(server.builder().transport(replay).build().unwrap()).await;
    std::fs::remove_file(&path).unwrap();
    assert_eq!(recorded, played);
}

#[tokio::test]
async fn the_meter_counts_by_table_and_verb() {
    // C-18.4, C-18.5.
    let server = TestServer::start();
    let account = server.account();
    type Seen = Vec<(&'static str, Option<u16>)>;
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let hook = seen.clone();
    account.on_attempt(move |attempt| {
        let status = attempt.status.map(|status| status.as_u16());
        hook.lock().unwrap().push((attempt.operation, status));
    });
    let table = account.tables().create("Metered").await.unwrap();
    account.tables().create_if_missing("Metered").await.unwrap();
    for row in 0..5 {
        table.insert(&Entity::new("p", format!("{row}"))).await.unwrap();
    }
    assert!(table.insert(&Entity::new("p", "0")).await.is_err());
    assert!(table.get(("p", "absent")).await.unwrap().is_none());
    table.query(partition("p")).page_size(2).stream().try_next().await.unwrap();
    let meter = account.meter();
    let inserts = meter.of("Metered", "insert");
    assert_eq!((inserts.operations, inserts.failures, inserts.conflicts), (6, 1, 1));
    assert_eq!(inserts.billed, 6);
    assert!(inserts.sent_bytes > 0);
    let get = meter.of("Metered", "get");
    assert_eq!((get.operations, get.failures), (1, 0), "nothing there is no failure");
    let create = meter.of("Metered", "create table");
    assert_eq!((create.operations, create.failures), (2, 0), "there already is no failure");
    let query = meter.of("Metered", "query");
    assert_eq!((query.pages, query.entities), (1, 2));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len() as u64, meter.total().attempts);
    assert_eq!(seen[0], ("create table", Some(204)));
}

#[tokio::test]
async fn requests_pass_a_proxy() {
    let server = TestServer::start();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let target = server.address();
    // Accepts one request in absolute form, and forwards it with only the path.
    let proxy = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut head = vec![0; 8192];
        let mut length = 0;
        while !head[..length].windows(4).any(|window| window == b"\r\n\r\n") {
            length += client.read(&mut head[length..]).await.unwrap();
        }
        let text = String::from_utf8(head[..length].to_vec()).unwrap();
        let mut server = tokio::net::TcpStream::connect(target).await.unwrap();
        server
            .write_all(text.replacen(&format!("http://{target}"), "", 1).as_bytes())
            .await
            .unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        text
    });
    let through = Proxy::all(&format!("http://user:pass@{address}")).unwrap();
    {
        let account = server.builder().proxy(through).build().unwrap();
        assert!(account.tables().list().await.unwrap().is_empty());
    }
    let text = proxy.await.unwrap();
    assert!(text.starts_with(&format!("GET http://{target}/")), "{text}");
    assert!(text.to_lowercase().contains("proxy-authorization: basic dxnlcjpwyxnz"), "{text}");
    assert!(Proxy::all("ftp://x").is_err());
}
