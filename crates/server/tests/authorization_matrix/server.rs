//! A server in this process, on a store that counts accesses, and one connection to it.

use crate::anonymous::preflight;
use crate::answer::Answer;
use crate::credential::{Credential, SharedKey, Signable};
use crate::log::Log;
use crate::operation::{Operation, Outcome};
use crate::service::Service;
use crate::store::{Message, StandingClock, Store};
use lazuli_model::AccessPolicies;
use lazuli_server::{AccessLines, AccessLog, Accounts, Front, FrontOptions, ListenOptions, serve};
use std::cell::RefCell;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tracing::subscriber::DefaultGuard;

pub(crate) const ACCOUNT: &str = "acct1";
pub(crate) const KEYS: [&str; 2] =
    ["c2VjcmV0IGtleSBvbmUgb2YgYWNjdDEh", "c2VjcmV0IGtleSB0d28gb2YgYWNjdDEh"];
/// Another account, which has no access to the first.
pub(crate) const STRANGER: &str = "acct2";
pub(crate) const STRANGER_KEY: &str = "dGhlIG9ubHkga2V5IG9mIGFjY291bnQy";
/// The time at which the server's clock stands still.
pub(crate) const NOW: &str = "2026-01-15T12:00:00Z";
/// The version that requests name, unless they say otherwise.
pub(crate) const VERSION: &str = "2019-02-02";

/// A server of one service, whose `Orders` or `orders` contains what operations use.
pub(crate) struct Server {
    pub(crate) service: Service,
    runtime: Runtime,
    store: Store,
    message: RefCell<Message>,
    address: SocketAddr,
    connection: RefCell<Option<TcpStream>>,
    log: Log,
    _logging: DefaultGuard,
}

/// How a request is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Path,
    Host,
}

/// The text of a request, and its secrets.
struct Request {
    text: String,
    secrets: Vec<String>,
}

impl Server {
    pub(crate) fn start(service: Service) -> Self {
        Self::with_options(service, FrontOptions::default())
    }

    /// Logs every request with its query, to check that the log contains no secret.
    pub(crate) fn with_options(service: Service, options: FrontOptions) -> Self {
        let access_log = AccessLog { lines: AccessLines::All, query: true, ..options.access_log };
        let options = FrontOptions { access_log, ..options };
        let (log, _logging) = Log::capture();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let clock = Arc::new(StandingClock);
        let store = Store::new(clock.clone());
        let [first, second] = KEYS;
        let accounts = format!("{ACCOUNT}:{first}:{second};{STRANGER}:{STRANGER_KEY}");
        let accounts = Arc::new(Accounts::new(Accounts::parse(&accounts).unwrap()).unwrap());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (tables, limits) = (store.tables.clone(), ListenOptions::default());
        match service {
            Service::Table => {
                let front = Arc::new(Front::of_tables(tables, accounts, clock, options));
                runtime.spawn(serve(listener, front, limits, pending()));
            }
            Service::Queue => {
                let queues = store.queues.clone();
                let front = Arc::new(Front::of_queues(queues, tables, accounts, clock, options));
                runtime.spawn(serve(listener, front, limits, pending()));
            }
        }
        let (message, connection) = (RefCell::default(), RefCell::default());
        let server = Self { service, runtime, store, message, address, connection, log, _logging };
        server.reset();
        server
    }

    /// Sends an operation with a credential, and returns what is wrong with the outcome.
    pub(crate) fn attempt(
        &self,
        operation: &Operation,
        credential: &Credential,
        expected: Outcome,
    ) -> Result<Answer, String> {
        let before = self.store.engine.counts();
        let answer = self.send(operation, credential, Style::Path, VERSION);
        let after = self.store.engine.counts();
        let (status, code) = answer.verdict(operation);
        let wrong = |what: &str| Err(format!("{what}: {status} {code}, expected {expected:?}"));
        match expected {
            Outcome::Done if status != operation.status => return wrong("not done"),
            Outcome::Done if before.1 != after.1 => self.reset(),
            Outcome::Done => {}
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

    /// Sends a request and checks that neither the response nor the log reveals a secret.
    pub(crate) fn send(
        &self,
        operation: &Operation,
        credential: &Credential,
        style: Style,
        version: &str,
    ) -> Answer {
        let request = self.request(operation, credential, style, version, &[]);
        self.send_text(operation, &request)
    }

    /// Like [`Server::send`], with more headers.
    pub(crate) fn send_with(
        &self,
        operation: &Operation,
        credential: &Credential,
        headers: &[(&str, &str)],
    ) -> Answer {
        let request = self.request(operation, credential, Style::Path, VERSION, headers);
        self.send_text(operation, &request)
    }

    /// The header with which `owner` signs an operation; the date is sent in its own header.
    pub(crate) fn authorization(&self, owner: &SharedKey, operation: &Operation) -> String {
        let path = format!("/{ACCOUNT}{}", operation.path);
        self.authorization_of(owner, operation, &path)
    }

    /// Like [`Server::authorization`], for a different path from the operation's.
    pub(crate) fn authorization_of(
        &self,
        owner: &SharedKey,
        operation: &Operation,
        path: &str,
    ) -> String {
        let mut headers = self.headers(operation, &self.address.to_string(), VERSION, &[]);
        headers.push(("x-ms-date".to_owned(), owner.date.clone()));
        self.sign(owner, operation, &self.filled(path), &headers)
    }

    fn send_text(&self, operation: &Operation, request: &Request) -> Answer {
        let answer = self.exchange(operation.method, request.text.as_bytes());
        let log = self.log.take();
        assert!(log.contains("lazuli_access"), "nothing is logged: {log}");
        for secret in request.secrets.iter().map(String::as_str).chain(KEYS) {
            for (place, text) in [("head", &answer.head), ("body", &answer.body), ("log", &log)] {
                assert!(!text.contains(secret), "{}: the {place} tells {secret}", operation.name);
            }
        }
        answer
    }

    fn request(
        &self,
        operation: &Operation,
        credential: &Credential,
        style: Style,
        version: &str,
        more: &[(&str, &str)],
    ) -> Request {
        let suffix = if operation.secondary { "-secondary" } else { "" };
        let (segment, host) = match style {
            Style::Path => (format!("/{ACCOUNT}{suffix}"), self.address.to_string()),
            Style::Host => {
                let label = self.service.label();
                (String::new(), format!("{ACCOUNT}{suffix}.{label}.localhost"))
            }
        };
        let path = self.filled(&format!("{segment}{}", operation.path));
        let mut query = self.filled(operation.query);
        let mut headers = self.headers(operation, &host, version, more);
        let mut secrets = Vec::new();
        if let Credential::SharedKey(by) | Credential::Both(by, _) = credential {
            headers.push(("x-ms-date".to_owned(), by.date.clone()));
            let authorization = self.sign(by, operation, &path, &headers);
            secrets.extend(self.secret_of(&authorization));
            headers.push(("Authorization".to_owned(), authorization));
        }
        if let Credential::Header(text) = credential {
            secrets.extend(self.secret_of(text));
            headers.push(("Authorization".to_owned(), text.clone()));
        }
        if let Credential::Token(token) | Credential::Both(_, token) = credential {
            let separator = if query.is_empty() { "" } else { "&" };
            query.push_str(&format!("{separator}{token}"));
            secrets.extend(signature_of(token));
        }
        let question = if query.is_empty() { "" } else { "?" };
        let mut text = format!("{} {path}{question}{query} HTTP/1.1\r\n", operation.method);
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("\r\n{}", operation.body));
        // Short ones occur everywhere, and are wrong anyway.
        secrets.retain(|secret| secret.len() > 20);
        Request { text, secrets }
    }

    /// The headers of a request, except those of its credential.
    fn headers(
        &self,
        operation: &Operation,
        host: &str,
        version: &str,
        more: &[(&str, &str)],
    ) -> Vec<(String, String)> {
        let length = operation.body.len().to_string();
        let mut headers = vec![
            ("Host", host),
            ("x-ms-version", version),
            ("Accept", "application/json;odata=minimalmetadata"),
            ("Content-Length", &length),
        ];
        if !operation.content_type.is_empty() {
            headers.push(("Content-Type", operation.content_type));
        }
        headers.extend(operation.headers.iter().chain(more));
        headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn sign(
        &self,
        by: &SharedKey,
        operation: &Operation,
        path: &str,
        headers: &[(String, String)],
    ) -> String {
        let query = self.filled(operation.query);
        by.authorization(self.service, &Signable { method: operation.method, path, query, headers })
    }

    /// Fills in the message in the queue.
    fn filled(&self, text: &str) -> String {
        let message = self.message.borrow();
        let receipt = message.receipt.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        text.replace("{id}", &message.id).replace("{receipt}", &receipt)
    }

    /// The part of a header that no one else may learn. The Queue service repeats a Shared Key
    /// signature to the client that sent a wrong one.
    fn secret_of(&self, authorization: &str) -> Option<String> {
        let repeated = self.service == Service::Queue && authorization.starts_with("SharedKey");
        let secret = authorization.rsplit_once([':', ' '])?.1;
        (!repeated).then(|| secret.to_owned())
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

    /// Restores the state in which every operation succeeds once.
    pub(crate) fn reset(&self) {
        self.message.replace(self.runtime.block_on(self.store.reset(self.service)));
        // The front caches CORS rules; this first request makes it read them.
        self.send(&preflight(self.service), &Credential::None, Style::Path, VERSION);
    }

    pub(crate) fn insert(&self, name: &str, partition: &str, row: &str) {
        self.runtime.block_on(self.store.insert(name, partition, row));
    }

    pub(crate) fn delete(&self, name: &str, partition: &str, row: &str) {
        self.runtime.block_on(self.store.delete(name, partition, row));
    }

    pub(crate) fn set_policies(&self, name: &str, policies: AccessPolicies) {
        self.runtime.block_on(self.store.set_policies(self.service, name, policies));
    }
}

/// The decoded signature of a token.
fn signature_of(token: &str) -> Option<String> {
    let (_, signature) = token.split_once("sig=")?;
    let signature = signature.split('&').next()?;
    lazuli_wire::uri::percent_decode(signature).ok().map(|text| text.into_owned())
}
