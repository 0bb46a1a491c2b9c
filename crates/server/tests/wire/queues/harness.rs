//! A separate Queue service for every test, called without a socket.

use crate::harness::{ACCOUNT, ManualClock};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use lazuli_engine::MemoryEngine;
use lazuli_model::Clock;
use lazuli_queue::QueueService;
use lazuli_server::{
    Accounts, Front, FrontOptions, ListenOptions, Peer, QueueApi, QueueOptions, Shared,
    WELL_KNOWN_KEY, serve,
};
use lazuli_table::TableService;
use lazuli_wire::shared_key::{Authorization, CanonicalRequest, Scheme, SigningKey};
use lazuli_wire::version::ApiVersion;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpListener;

pub(super) const HOST: &str = "127.0.0.1:10001";

/// The service, on an in-memory engine, with a clock that stands still unless it is advanced.
pub(super) struct Queues {
    runtime: tokio::runtime::Runtime,
    front: Front<QueueApi>,
    pub(super) clock: Arc<ManualClock>,
}

/// A request; the service's root is `/`.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<String>,
    pub(super) is_signed: bool,
    pub(super) at_secondary: bool,
    /// Whether a PUT or POST says how long its body is.
    pub(super) has_length: bool,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Ask {
    /// A signed request of version 2021-02-12.
    pub(super) fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: vec![("x-ms-version".to_owned(), "2021-02-12".to_owned())],
            body: None,
            is_signed: true,
            at_secondary: false,
            has_length: true,
        }
    }

    pub(super) fn at(mut self, version: &str) -> Self {
        self.headers = vec![("x-ms-version".to_owned(), version.to_owned())];
        self
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn body(mut self, body: &str) -> Self {
        self.body = Some(body.to_owned());
        self
    }

    /// The body of a message.
    pub(super) fn text(self, text: &str) -> Self {
        self.body(&format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>"))
    }

    pub(super) fn unsigned(self) -> Self {
        Self { is_signed: false, ..self }
    }
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(super) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// The text of the first element of this name.
    pub(super) fn element(&self, name: &str) -> Option<&str> {
        let (_, rest) = self.body.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
    }
}

impl Queues {
    pub(super) fn new() -> Self {
        Self::with_options(QueueOptions::default())
    }

    pub(super) fn with_options(options: QueueOptions) -> Self {
        let clock = Arc::new(ManualClock::at_start());
        let engine = Arc::new(MemoryEngine::default());
        let drawn = AtomicU64::new(0);
        let random = Arc::new(move || drawn.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed));
        let queues = QueueService::new(engine.clone(), clock.clone(), random);
        let tables = TableService::new(engine, clock.clone());
        let accounts = Accounts::parse(&format!("{ACCOUNT}:{WELL_KNOWN_KEY}")).unwrap();
        let accounts = Arc::new(Accounts::new(accounts).unwrap());
        let shared = Shared::new(accounts, clock.clone(), FrontOptions::default());
        let api = QueueApi::new(&shared, queues, tables, options);
        let front = Front::new(Arc::new(shared), api);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, front, clock }
    }

    /// A service with one queue, `orders`.
    pub(super) fn with_orders() -> Self {
        let queues = Self::new();
        queues.send(&Ask::new("PUT", "/orders")).expect(201);
        queues
    }

    /// The target of a request and its headers, signed.
    fn prepare(&self, ask: &Ask) -> (String, Vec<(String, String)>) {
        let segment =
            if ask.at_secondary { format!("{ACCOUNT}-secondary") } else { ACCOUNT.into() };
        let target = format!("/{segment}{}", ask.target);
        let mut headers = ask.headers.clone();
        headers.push(("host".to_owned(), HOST.to_owned()));
        headers.push(("x-ms-date".to_owned(), self.clock.now().rfc1123()));
        let may_have_body = ask.body.is_some() || matches!(ask.method.as_str(), "PUT" | "POST");
        if ask.has_length && may_have_body {
            let length = ask.body.as_ref().map_or(0, String::len);
            headers.push(("content-length".to_owned(), length.to_string()));
        }
        if ask.is_signed {
            headers.push(("authorization".to_owned(), sign(&ask.method, &target, &headers)));
        }
        (target, headers)
    }

    /// The bytes of a request without a body, with its header names unchanged.
    pub(super) fn head_of(&self, ask: &Ask) -> String {
        let (target, headers) = self.prepare(ask);
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        format!("{} {target} HTTP/1.1\r\n{}\r\n", ask.method, lines.collect::<String>())
    }

    /// Serves on a free port while `client` runs.
    pub(super) fn listen<T: Send>(self, client: impl FnOnce(SocketAddr) -> T + Send) -> T {
        let Self { runtime, front, .. } = self;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        std::thread::scope(|scope| {
            let client = scope.spawn(move || {
                let result = client(address);
                let _ = stop.send(());
                result
            });
            let shutdown = async {
                let _ = stopped.await;
            };
            let options = ListenOptions::default();
            runtime.block_on(serve(listener, Arc::new(front), options, shutdown));
            client.join().unwrap()
        })
    }

    pub(super) fn send(&self, ask: &Ask) -> Answer {
        let (target, headers) = self.prepare(ask);
        let mut request = http::Request::builder().method(ask.method.as_str()).uri(target);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from(ask.body.clone().unwrap_or_default()));
        let request = request.body(body).unwrap();
        let peer = Peer::new(SocketAddr::from(([127, 0, 0, 1], 4711)), false);
        self.runtime.block_on(async {
            let response = self.front.handle(request, peer).await;
            let status = response.status().as_u16();
            let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
            let headers = response.headers().iter();
            let headers = headers.map(|(name, value)| (name.to_string(), text(value))).collect();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            Answer { status, headers, body: String::from_utf8(body.to_vec()).unwrap() }
        })
    }
}

fn sign(method: &str, target: &str, headers: &[(String, String)]) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let version = headers.iter().find(|(name, _)| name == "x-ms-version");
    let version = version.and_then(|(_, text)| ApiVersion::parse(text));
    let version = version.unwrap_or(ApiVersion::UNSTATED);
    let lower = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
    let lower: Vec<_> = lower.collect();
    let lines = lower.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let request = CanonicalRequest::new(method, lines, ACCOUNT, path, query, version);
    let key = SigningKey::from_base64(WELL_KNOWN_KEY).unwrap();
    let signature = request.sign(Scheme::SharedKey, &key);
    Authorization::header(Scheme::SharedKey, ACCOUNT, &signature)
}
