//! Sends the requests of a history through the HTTP front, without a socket.
//!
//! A request goes through everything but the network: its body arrives in pieces or breaks off, its
//! credential is one of many that cover it, or one that does not; then it is routed, authorized,
//! decoded and executed. The expected refusals come from the rules of the service, never from the
//! server.

use super::body::PiecemealBody;
use super::executor::Handle;
use crate::history::{Change, ChangeKind, Request, Response};
use crate::http::{Answer, Sent, sent};
use http_body_util::BodyExt;
use lazuli_model::Clock;
use lazuli_server::{Accounts, Front, FrontOptions, Peer, ResponseBody, TableApi};
use lazuli_table::TableService;
use lazuli_testkit::http::{self as client, BatchResponse, Operation};
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY};
use lazuli_wire::sas::{AccountSas, TableSas};
use lazuli_wire::shared_key::{Authorization, Scheme, SignedRequest, SigningKey};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const HOST: &str = "simulated";
const TABLE: &str = "Simulated";
const VERSION: &str = "2019-02-02";
/// Later than any clock of a run.
pub(super) const EXPIRY: &str = "2999-01-01";
pub(super) const EXPIRED: &str = "2001-01-01";
/// One request in this many has a credential that does not cover it.
pub(super) const FORBIDDEN_ONE_IN: usize = 8;
/// The body of one request in this many breaks off.
pub(super) const BROKEN_ONE_IN: usize = 12;

/// A client of one front.
#[derive(Clone)]
pub(super) struct FrontClient {
    front: Arc<Front<TableApi>>,
    tables: TableService,
    clock: Arc<dyn Clock>,
    handle: Handle,
    random: Arc<Mutex<Seeded>>,
    key: Arc<SigningKey>,
    /// Whether credentials may be wrong and bodies may break off.
    is_bad: Arc<AtomicBool>,
    forbidden: Arc<AtomicUsize>,
}

impl FrontClient {
    #[expect(
        clippy::expect_used,
        reason = "the account and its key are literals that keep the rules"
    )]
    pub(super) fn new(
        tables: TableService,
        clock: Arc<dyn Clock>,
        handle: Handle,
        random: Seeded,
    ) -> Self {
        let accounts = Accounts::parse(&format!("{ACCOUNT}:{ACCOUNT_KEY}"));
        let accounts = accounts.and_then(Accounts::new).expect("an account");
        // The clock jumps further than the skew allowed for a signed date.
        let options = FrontOptions { date_check: false, ..FrontOptions::default() };
        let front = Front::of_tables(tables.clone(), Arc::new(accounts), clock.clone(), options);
        Self {
            front: Arc::new(front),
            tables,
            clock,
            handle,
            random: Arc::new(Mutex::new(random)),
            key: Arc::new(SigningKey::from_base64(ACCOUNT_KEY).expect("a key")),
            is_bad: Arc::default(),
            forbidden: Arc::default(),
        }
    }

    /// Turns faults on or off.
    pub(super) fn break_things(&self, bad: bool) {
        self.is_bad.store(bad, Ordering::Relaxed);
    }

    /// Requests whose credential did not cover them, and that were refused.
    pub(super) fn forbidden(&self) -> usize {
        self.forbidden.load(Ordering::Relaxed)
    }

    pub(super) async fn reclaim(&self) {
        // The task retries later, whatever went wrong.
        let _ = self.tables.reclaim_some().await;
    }

    /// Sends a request; fails if the response is invalid.
    pub(super) async fn call(&self, request: &Request) -> Result<Response, String> {
        let (credential, message, is_broken) = {
            let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = !self.comes(FORBIDDEN_ONE_IN, &mut random);
            let credential = Credential::choose(request, wanted, &mut random);
            let (message, is_broken) = self.message(request, credential, &mut random)?;
            (credential, message, is_broken)
        };
        let is_batch = matches!(request, Request::Batch(_));
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), false);
        let answer = whole_answer(self.front.handle(message, peer).await).await;
        let wrong = |why: &str| {
            Err(format!(
                "{why}: {credential:?} {request:?} was answered {}: {}",
                answer.status,
                answer.text()
            ))
        };
        // A part of a batch may be what the credential does not cover.
        let was_forbidden =
            answer.status == 403 || is_batch && answer.text().contains("HTTP/1.1 403 ");
        match (credential.covers(request), was_forbidden) {
            (false, true) => {
                self.forbidden.fetch_add(1, Ordering::Relaxed);
                return Ok(Response::NotDone);
            }
            // The body broke off before the permission check.
            (false, false) if is_broken && answer.status >= 400 => return Ok(Response::NotDone),
            (false, false) => return wrong("not refused"),
            (true, true) => return wrong("refused"),
            (true, false) => {}
        }
        if is_broken {
            return if answer.status >= 400 {
                Ok(Response::NotDone)
            } else {
                wrong("half a body was accepted")
            };
        }
        let answer = match is_batch {
            true => Answer::Batch(BatchResponse::parse(answer.status, answer.text())),
            false => Answer::Lone(answer),
        };
        answer.read(request).ok_or_else(|| answer.unexpected(request).to_string())
    }

    /// Whether a fault with probability 1 in `n` occurs now.
    fn comes(&self, n: usize, random: &mut Seeded) -> bool {
        random.one_in(n) && self.is_bad.load(Ordering::Relaxed)
    }

    /// The HTTP request, and whether its body breaks off.
    fn message(
        &self,
        request: &Request,
        credential: Credential,
        random: &mut Seeded,
    ) -> Result<(http::Request<PiecemealBody>, bool), String> {
        let segment = format!("/{ACCOUNT}");
        let (operation, content_type) = match sent(TABLE, request) {
            Sent::Lone(operation) if operation.body.is_empty() => (operation, ""),
            Sent::Lone(operation) => (operation, "application/json"),
            Sent::Batch(operations) => {
                let body = client::batch_body(HOST, &segment, &operations);
                let (path, headers) = ("/$batch".to_owned(), Vec::new());
                (Operation { method: "POST", path, headers, body }, client::BATCH_CONTENT_TYPE)
            }
        };
        let mut target = format!("{segment}{}", operation.path);
        let date = self.clock.now().rfc1123();
        let mut builder = http::Request::builder()
            .method(operation.method)
            .header("host", HOST)
            .header("x-ms-version", VERSION)
            .header("x-ms-date", &date)
            .header("accept", "application/json;odata=minimalmetadata")
            .header("content-length", operation.body.len());
        if !content_type.is_empty() {
            builder = builder.header("content-type", content_type);
        }
        for (name, value) in &operation.headers {
            builder = builder.header(*name, value);
        }
        match credential {
            Credential::Key(scheme) | Credential::OtherKey(scheme) => {
                let path = target.split('?').next().unwrap_or_default();
                let text = SignedRequest {
                    method: operation.method,
                    content_md5: "",
                    content_type,
                    date: &date,
                    account: ACCOUNT,
                    path,
                    comp: None,
                };
                let signature = match credential {
                    Credential::Key(_) => text.sign(scheme, &self.key),
                    _ => text.sign(scheme, &stranger()),
                };
                let authorization = Authorization::header(scheme, ACCOUNT, &signature);
                builder = builder.header("authorization", authorization);
            }
            _ => {
                let token = credential.token(&self.key)?;
                target.push(if target.contains('?') { '&' } else { '?' });
                target.push_str(&token);
            }
        }
        let is_broken = !operation.body.is_empty() && self.comes(BROKEN_ONE_IN, random);
        let body = PiecemealBody::new(operation.body, is_broken, &self.handle, random);
        let message = builder.uri(target).body(body).map_err(|error| error.to_string())?;
        Ok((message, is_broken))
    }
}

/// An answer of a front, its body complete.
pub(super) async fn whole_answer(answer: http::Response<ResponseBody>) -> client::Response {
    let (parts, body) = answer.into_parts();
    let Ok(body) = body.collect().await;
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.to_string(), value.to_str().unwrap_or_default().to_owned())
    };
    client::Response {
        status: parts.status.as_u16(),
        headers: parts.headers.iter().map(header).collect(),
        body: body.to_bytes().to_vec(),
    }
}

/// The credential of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credential {
    Key(Scheme),
    /// A token for the account with these letters.
    Account(&'static str),
    /// A token for the table with these letters.
    Table(&'static str),
    /// A key that is not one of the account's.
    OtherKey(Scheme),
    /// A token for another table.
    OtherTable,
    /// A token for the table that has expired.
    Expired,
    /// A token for the table whose letters were changed after it was signed.
    Forged,
}

impl Credential {
    const ALL: [Self; 14] = [
        Self::Key(Scheme::SharedKey),
        Self::Key(Scheme::SharedKeyLite),
        Self::Account("rwdlacu"),
        Self::Table("raud"),
        Self::Account("r"),
        Self::Account("lc"),
        Self::Table("r"),
        Self::Table("au"),
        Self::Table("u"),
        Self::Table("d"),
        Self::OtherKey(Scheme::SharedKey),
        Self::OtherTable,
        Self::Expired,
        Self::Forged,
    ];

    /// A credential that covers the request, or one that does not.
    fn choose(request: &Request, wanted: bool, random: &mut Seeded) -> Self {
        let fitting: Vec<_> =
            Self::ALL.into_iter().filter(|one| one.covers(request) == wanted).collect();
        let chosen = fitting.get(random.below(fitting.len()));
        chosen.copied().unwrap_or(Self::Key(Scheme::SharedKey))
    }

    /// Whether it permits the request, by the table of auth.md 9.
    fn covers(self, request: &Request) -> bool {
        let needed = |own: &str, account: &str| match self {
            Self::Key(_) => true,
            Self::Account(letters) => account.chars().all(|letter| letters.contains(letter)),
            Self::Table(letters) => {
                !own.is_empty() && own.chars().all(|letter| letters.contains(letter))
            }
            _ => false,
        };
        match request {
            Request::Get(_) | Request::Scan(_) => needed("r", "r"),
            Request::CreateTable => needed("", "c"),
            Request::DeleteTable => needed("", "d"),
            Request::Change(change) => needed(letters(change), letters(change)),
            Request::Batch(changes) => {
                changes.iter().all(|change| needed(letters(change), letters(change)))
            }
        }
    }

    fn token(self, key: &SigningKey) -> Result<String, String> {
        let table = |table, permissions, expiry| {
            let sas =
                TableSas { version: VERSION, table, permissions, expiry, ..TableSas::default() };
            sas.token(ACCOUNT, key)
        };
        let token = match self {
            Self::Table(letters) => table(TABLE, letters, EXPIRY),
            Self::OtherTable => table("Other", "raud", EXPIRY),
            Self::Expired => table(TABLE, "raud", EXPIRED),
            Self::Forged => table(TABLE, "r", EXPIRY).map(|token| token.replace("sp=r", "sp=raud")),
            Self::Account(permissions) => AccountSas {
                version: VERSION,
                services: "t",
                resource_types: "sco",
                permissions,
                expiry: EXPIRY,
                ..AccountSas::default()
            }
            .token(ACCOUNT, key),
            Self::Key(_) | Self::OtherKey(_) => return Err("a key is no token".to_owned()),
        };
        token.map_err(|error| error.to_string())
    }
}

/// The letters that a change needs.
fn letters(change: &Change) -> &'static str {
    match change.kind {
        ChangeKind::Insert => "a",
        ChangeKind::InsertOrReplace | ChangeKind::InsertOrMerge => "au",
        ChangeKind::Replace(_) | ChangeKind::Merge(_) => "u",
        ChangeKind::Delete(_) => "d",
    }
}

#[expect(clippy::expect_used, reason = "the key is a literal")]
pub(super) fn stranger() -> SigningKey {
    SigningKey::from_base64("c29tZWJvZHkgZWxzZSdzIGtleQ==").expect("a key")
}
