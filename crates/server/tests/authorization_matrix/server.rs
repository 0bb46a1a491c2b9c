//! A server in process, over a store that counts how often it is asked, and one connection to it.

use crate::credential::Credential;
use crate::operation::{Operation, Outcome};
use lazuli_engine::{
    BoxFuture, Commit, CommitError, Engine, EngineError, Found, Key, KeyRange, Limits,
    MemoryEngine, Nature, Reclaimed, Revision, View,
};
use lazuli_model::service_properties::CorsRule;
use lazuli_model::{
    AccessPolicies, AccountName, Clock, EntityKey, IfMatch, Properties, ServicePropertiesPatch,
    TableName, Timestamp,
};
use lazuli_server::{AccessLines, AccessLog, Accounts, Front, FrontOptions, ListenOptions};
use lazuli_table::{Mutation, MutationKind, TableService};
use std::cell::RefCell;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;

pub(crate) const ACCOUNT: &str = "acct1";
pub(crate) const KEYS: [&str; 2] =
    ["c2VjcmV0IGtleSBvbmUgb2YgYWNjdDEh", "c2VjcmV0IGtleSB0d28gb2YgYWNjdDEh"];
/// Another account, which can do nothing to the first.
pub(crate) const STRANGER: &str = "acct2";
pub(crate) const STRANGER_KEY: &str = "dGhlIG9ubHkga2V5IG9mIGFjY291bnQy";
/// The time, at which the clock of the server stands still.
pub(crate) const NOW: &str = "2026-01-15T12:00:00Z";
/// The version that requests name, unless they say otherwise.
pub(crate) const VERSION: &str = "2019-02-02";

struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp::parse(NOW).unwrap()
    }
}

/// Counts what reaches the store.
#[derive(Default)]
struct CountingEngine {
    inner: MemoryEngine,
    views: AtomicUsize,
    commits: AtomicUsize,
}

impl Engine for CountingEngine {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }

    fn nature(&self) -> Nature {
        self.inner.nature()
    }

    fn read<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        self.views.fetch_add(1, Ordering::SeqCst);
        self.inner.read(keys)
    }

    fn view(&self) -> BoxFuture<'_, Result<Arc<dyn View>, EngineError>> {
        self.views.fetch_add(1, Ordering::SeqCst);
        self.inner.view()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.commits.fetch_add(1, Ordering::SeqCst);
        self.inner.commit(commit)
    }

    fn reclaim(&self, range: KeyRange) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        self.inner.reclaim(range)
    }

    fn health(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.inner.health()
    }

    fn tend(&self) -> BoxFuture<'_, Result<Reclaimed, EngineError>> {
        self.inner.tend()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.inner.close()
    }
}

/// A server whose table `Orders` holds the entities it is asked about.
pub(crate) struct Server {
    runtime: Runtime,
    engine: Arc<CountingEngine>,
    service: TableService,
    address: SocketAddr,
    connection: RefCell<Option<TcpStream>>,
    log: Log,
    _logging: DefaultGuard,
}

/// One answer, its body complete.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// How a request is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Path,
    Host,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with_options(FrontOptions::default())
    }

    /// Logs every request with its query: what is logged must hold no secret.
    pub(crate) fn with_options(options: FrontOptions) -> Self {
        let access_log = AccessLog { lines: AccessLines::All, query: true, ..options.access_log };
        let options = FrontOptions { access_log, ..options };
        let (log, _logging) = Log::capture();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let engine = Arc::new(CountingEngine::default());
        let clock = Arc::new(StandingClock);
        let service = TableService::new(engine.clone(), clock.clone());
        let [first, second] = KEYS;
        let accounts = format!("{ACCOUNT}:{first}:{second};{STRANGER}:{STRANGER_KEY}");
        let accounts = Arc::new(Accounts::new(Accounts::parse(&accounts).unwrap()).unwrap());
        let front = Arc::new(Front::of_tables(service.clone(), accounts, clock, options));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let limits = ListenOptions::default();
        runtime.spawn(lazuli_server::serve(listener, front, limits, std::future::pending()));
        let connection = RefCell::default();
        let server = Self { runtime, engine, service, address, connection, log, _logging };
        server.reset();
        server
    }

    /// Sends an operation with a credential, and says what is wrong with what came of it.
    pub(crate) fn attempt(
        &self,
        operation: &Operation,
        credential: &Credential,
        expected: Outcome,
    ) -> Result<Answer, String> {
        let before = self.counts();
        let answer = self.send(operation, credential, Style::Path, VERSION);
        let after = self.counts();
        let (status, code) = answer.verdict(operation);
        let wrong = |what: &str| Err(format!("{what}: {status} {code}, expected {expected:?}"));
        match expected {
            Outcome::Done if status != operation.status => return wrong("not done"),
            Outcome::Done => self.reset_if(before.1 != after.1),
            _ if before.1 != after.1 => return wrong("refused, but something was written"),
            Outcome::Unauthenticated(..) if answer.status < 400 => return wrong("let in"),
            Outcome::Unauthenticated(..) if before != after => {
                return wrong("refused, but the store was asked first");
            }
            Outcome::Unauthenticated(expected_status, expected_code) => {
                if (status, code) != (expected_status, expected_code) {
                    return wrong("another answer");
                }
            }
            Outcome::Forbidden(expected_code) => {
                if (status, code) != (403, expected_code) {
                    return wrong("another answer");
                }
            }
        }
        Ok(answer)
    }

    /// Sends a request and checks that neither the answer nor the log reveals a secret.
    pub(crate) fn send(
        &self,
        operation: &Operation,
        credential: &Credential,
        style: Style,
        version: &str,
    ) -> Answer {
        let (request, secrets) = self.request(operation, credential, style, version, &[]);
        self.send_text(operation, &request, secrets)
    }

    /// As [`Server::send`], with more headers.
    pub(crate) fn send_with(
        &self,
        operation: &Operation,
        credential: &Credential,
        headers: &[(&str, &str)],
    ) -> Answer {
        let (request, secrets) = self.request(operation, credential, Style::Path, VERSION, headers);
        self.send_text(operation, &request, secrets)
    }

    fn send_text(&self, operation: &Operation, request: &str, secrets: Vec<String>) -> Answer {
        let answer = self.exchange(operation.method, request.as_bytes());
        let log = self.log.take();
        assert!(log.contains("lazuli_access"), "nothing is logged: {log}");
        for secret in secrets.iter().map(String::as_str).chain(KEYS) {
            for (place, text) in [("head", &answer.head), ("body", &answer.body), ("log", &log)] {
                assert!(!text.contains(secret), "{}: the {place} tells {secret}", operation.name);
            }
        }
        answer
    }

    /// The text of a request, and what of it is secret.
    fn request(
        &self,
        operation: &Operation,
        credential: &Credential,
        style: Style,
        version: &str,
        headers: &[(&str, &str)],
    ) -> (String, Vec<String>) {
        let suffix = if operation.secondary { "-secondary" } else { "" };
        let (segment, host) = match style {
            Style::Path => (format!("/{ACCOUNT}{suffix}"), self.address.to_string()),
            Style::Host => (String::new(), format!("{ACCOUNT}{suffix}.table.localhost")),
        };
        let path = format!("{segment}{}", operation.path);
        let mut query = operation.query.to_owned();
        let mut head = String::new();
        let mut secrets = Vec::new();
        if let Credential::SharedKey(by) | Credential::Both(by, _) = credential {
            let authorization = by.authorization(operation, &path);
            head.push_str(&format!("x-ms-date: {}\r\n", by.date));
            head.push_str(&format!("Authorization: {authorization}\r\n"));
            secrets.extend(authorization.rsplit_once(':').map(|(_, sig)| sig.to_owned()));
        }
        if let Credential::Header(text) = credential {
            head.push_str(&format!("Authorization: {text}\r\n"));
            secrets.extend(text.rsplit_once([':', ' ']).map(|(_, sig)| sig.to_owned()));
        }
        if let Credential::Token(token) | Credential::Both(_, token) = credential {
            let separator = if query.is_empty() { "" } else { "&" };
            query.push_str(&format!("{separator}{token}"));
            secrets.extend(signature_of(token));
        }
        let question = if query.is_empty() { "" } else { "?" };
        let mut text = format!(
            "{} {path}{question}{query} HTTP/1.1\r\nHost: {host}\r\nx-ms-version: {version}\r\n\
             Accept: application/json;odata=minimalmetadata\r\n{head}",
            operation.method
        );
        if !operation.content_type.is_empty() {
            text.push_str(&format!("Content-Type: {}\r\n", operation.content_type));
        }
        for (name, value) in operation.headers.iter().chain(headers) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n", operation.body.len()));
        text.push_str(&operation.body);
        // Short ones occur everywhere; they are wrong anyway.
        secrets.retain(|secret| secret.len() > 20);
        (text, secrets)
    }

    fn exchange(&self, method: &str, request: &[u8]) -> Answer {
        self.runtime.block_on(async {
            let kept = self.connection.take();
            let mut stream = match kept {
                Some(stream) => stream,
                None => TcpStream::connect(self.address).await.unwrap(),
            };
            stream.write_all(request).await.unwrap();
            let answer = Answer::read(&mut stream, method).await;
            if !answer.head.to_ascii_lowercase().contains("connection: close") {
                self.connection.replace(Some(stream));
            }
            answer
        })
    }

    /// Views and commits so far.
    fn counts(&self) -> (usize, usize) {
        let load = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (load(&self.engine.views), load(&self.engine.commits))
    }

    fn reset_if(&self, changed: bool) {
        if changed {
            self.reset();
        }
    }

    /// Brings the store to where every operation can be done once.
    pub(crate) fn reset(&self) {
        self.runtime.block_on(async {
            let account = account();
            for name in ["Fresh", "Spare", "Orders", "Other"] {
                let _ = self.service.delete_table(&account, &table(name)).await;
            }
            for name in ["Spare", "Orders", "Other"] {
                self.service.create_table(&account, &table(name)).await.unwrap();
            }
            let patch = ServicePropertiesPatch { cors: Some(vec![cors_rule()]), ..patch() };
            self.service.set_service_properties(&account, patch).await.unwrap();
        });
        for name in ["Orders", "Other"] {
            self.insert(name, "m", "5");
        }
        // The front keeps CORS rules at hand; a first request makes it read them.
        let preflight = crate::anonymous::preflight();
        self.send(&preflight, &Credential::None, Style::Path, VERSION);
    }

    pub(crate) fn insert(&self, name: &str, partition: &str, row: &str) {
        let key = EntityKey::parse(partition, row).unwrap();
        let insert =
            Mutation::new(key, MutationKind::InsertOrReplace, Properties::default()).unwrap();
        self.mutate(name, &insert);
    }

    pub(crate) fn delete(&self, name: &str, partition: &str, row: &str) {
        let key = EntityKey::parse(partition, row).unwrap();
        let kind = MutationKind::Delete(IfMatch::Any);
        let delete = Mutation::new(key, kind, Properties::default()).unwrap();
        self.mutate(name, &delete);
    }

    fn mutate(&self, name: &str, mutation: &Mutation<'_>) {
        let (account, table) = (account(), table(name));
        self.runtime.block_on(self.service.mutate(&account, &table, mutation)).unwrap();
    }

    pub(crate) fn set_policies(&self, name: &str, policies: AccessPolicies) {
        let (account, table) = (account(), table(name));
        let set = self.service.set_access_policies(&account, &table, policies);
        self.runtime.block_on(set).unwrap();
    }
}

fn account() -> AccountName {
    AccountName::parse(ACCOUNT).unwrap()
}

fn table(name: &str) -> TableName {
    TableName::parse(name).unwrap()
}

fn patch() -> ServicePropertiesPatch {
    ServicePropertiesPatch::default()
}

fn cors_rule() -> CorsRule {
    let list = |item: &str| vec![item.to_owned()];
    CorsRule {
        allowed_origins: list("http://site"),
        allowed_methods: list("GET"),
        allowed_headers: Vec::new(),
        exposed_headers: Vec::new(),
        max_age_seconds: 5,
    }
}

/// The decoded signature of a token.
fn signature_of(token: &str) -> Option<String> {
    let (_, signature) = token.split_once("sig=")?;
    let signature = signature.split('&').next()?;
    lazuli_wire::uri::percent_decode(signature).ok().map(|text| text.into_owned())
}

impl Answer {
    async fn read(stream: &mut TcpStream, method: &str) -> Self {
        let mut bytes = Vec::new();
        let head_end = loop {
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "no answer: {bytes:?}");
        };
        let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
        let length = head.to_ascii_lowercase();
        let length = length.split_once("content-length: ").map_or("0", |(_, rest)| rest);
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        let length = if method == "HEAD" { 0 } else { length };
        while bytes.len() < head_end + length {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "half an answer: {head}");
        }
        let body = String::from_utf8(bytes.split_off(head_end)).unwrap();
        Self { status: head[9..12].parse().unwrap(), head, body }
    }

    /// Status and error code of what was asked: of the part, if the answer is to a batch.
    pub(crate) fn verdict(&self, operation: &Operation) -> (u16, &str) {
        let part = operation.is_batch().then(|| self.body.split_once("HTTP/1.1 ")).flatten();
        match part {
            Some((_, part)) => (part[..3].parse().unwrap(), code(part)),
            None => match self.head.split_once("x-ms-error-code: ") {
                Some((_, rest)) => (self.status, rest.split("\r\n").next().unwrap()),
                None => (self.status, code(&self.body)),
            },
        }
    }
}

/// The code that an error body names, in JSON or XML.
fn code(body: &str) -> &str {
    let between = |open: &str, close: &str| {
        let (_, rest) = body.split_once(open)?;
        Some(rest.split_once(close)?.0)
    };
    let found = between("\"code\":\"", "\"").or_else(|| between("code>", "<"));
    found.unwrap_or_default()
}

/// What the server logs, down to traces.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Captures what this thread logs: the server runs on it, whenever it is waited for.
    fn capture() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// What was logged since this was last asked.
    fn take(&self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8(bytes).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
