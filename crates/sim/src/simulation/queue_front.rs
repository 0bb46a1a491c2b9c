//! Sends the requests of a history of a queue through the HTTP front, without a socket: as
//! [`super::front`] does for tables.

use super::body::PiecemealBody;
use super::executor::Handle;
use super::front::{
    BROKEN_ONE_IN, EXPIRED, EXPIRY, FORBIDDEN_ONE_IN, HOST, stranger, whole_answer,
};
use crate::queue::history::{Request, Response};
use crate::queue::http::{read, sent};
use lazuli_model::Clock;
use lazuli_queue::QueueService;
use lazuli_server::{Accounts, Front, FrontOptions, Peer, QueueApi};
use lazuli_table::TableService;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY};
use lazuli_wire::sas::{AccountSas, QueueSas};
use lazuli_wire::shared_key::{Authorization, CanonicalRequest, Scheme, SigningKey};
use lazuli_wire::version::ApiVersion;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const QUEUE: &str = "simulated";
const VERSION: &str = "2021-02-12";

/// A client of one front.
#[derive(Clone)]
pub(super) struct QueueFrontClient {
    front: Arc<Front<QueueApi>>,
    queues: QueueService,
    clock: Arc<dyn Clock>,
    handle: Handle,
    random: Arc<Mutex<Seeded>>,
    key: Arc<SigningKey>,
    /// Whether credentials may be wrong and bodies may break off.
    is_bad: Arc<AtomicBool>,
    forbidden: Arc<AtomicUsize>,
}

impl QueueFrontClient {
    #[expect(
        clippy::expect_used,
        reason = "the account and its key are literals that keep the rules"
    )]
    pub(super) fn new(
        (queues, tables): (QueueService, TableService),
        clock: Arc<dyn Clock>,
        handle: Handle,
        random: Seeded,
        is_bad: Arc<AtomicBool>,
    ) -> Self {
        let accounts = Accounts::parse(&format!("{ACCOUNT}:{ACCOUNT_KEY}"));
        let accounts = Arc::new(accounts.and_then(Accounts::new).expect("an account"));
        // The clock jumps further than a signed date may lie apart.
        let options = FrontOptions { date_check: false, ..FrontOptions::default() };
        let front = Front::of_queues(queues.clone(), tables, accounts, clock.clone(), options);
        Self {
            front: Arc::new(front),
            queues,
            clock,
            handle,
            random: Arc::new(Mutex::new(random)),
            key: Arc::new(SigningKey::from_base64(ACCOUNT_KEY).expect("a key")),
            is_bad,
            forbidden: Arc::default(),
        }
    }

    /// Requests whose credential did not cover them, and that were refused.
    pub(super) fn forbidden(&self) -> usize {
        self.forbidden.load(Ordering::Relaxed)
    }

    /// What the server does by itself; it tries again later, whatever went wrong.
    pub(super) async fn chores(&self) {
        let _ = self.queues.expire_some().await;
        let _ = self.queues.reclaim_some().await;
    }

    /// Sends a request; fails when its answer is one that it should not get.
    pub(super) async fn call(&self, request: &Request) -> Result<Response, String> {
        let (credential, message, is_broken) = {
            let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = !self.comes(FORBIDDEN_ONE_IN, &mut random);
            let credential = Credential::choose(request, wanted, &mut random);
            let (message, is_broken) = self.message(request, credential, &mut random)?;
            (credential, message, is_broken)
        };
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), false);
        let answer = whole_answer(self.front.handle(message, peer).await).await;
        let wrong = |why: &str| {
            let (status, text) = (answer.status, answer.text());
            Err(format!("{why}: {credential:?} {request:?} was answered {status}: {text}"))
        };
        match (credential.covers(request), answer.status == 403) {
            (false, true) => {
                self.forbidden.fetch_add(1, Ordering::Relaxed);
                return Ok(Response::NotDone);
            }
            // The body broke off before anybody asked for permission.
            (false, false) if is_broken && answer.status >= 400 => return Ok(Response::NotDone),
            (false, false) => return wrong("not refused"),
            (true, true) => return wrong("refused"),
            (true, false) if is_broken && answer.status >= 400 => return Ok(Response::NotDone),
            (true, false) if is_broken => return wrong("half a body was taken"),
            (true, false) => {}
        }
        read(request, &answer).map_or_else(|| wrong("makes no sense"), Ok)
    }

    /// Whether a trouble that comes once in `n` times comes now.
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
        let sent = sent(QUEUE, request);
        let mut target = format!("/{ACCOUNT}{}", sent.path);
        let mut headers = vec![
            ("host", HOST.to_owned()),
            ("x-ms-version", VERSION.to_owned()),
            ("x-ms-date", self.clock.now().rfc1123()),
            ("content-length", sent.body.len().to_string()),
        ];
        headers.extend(sent.headers);
        match credential {
            Credential::Key(scheme) | Credential::OtherKey(scheme) => {
                let other = stranger();
                let key = if credential == Credential::Key(scheme) { &*self.key } else { &other };
                let (path, query) = target.split_once('?').unwrap_or((&target, ""));
                let lines = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
                let version = ApiVersion::parse(VERSION).unwrap_or(ApiVersion::UNSTATED);
                let signed =
                    CanonicalRequest::new(sent.method, lines, ACCOUNT, path, query, version);
                let signature = signed.sign(scheme, key);
                let authorization = Authorization::header(scheme, ACCOUNT, &signature);
                headers.push(("authorization", authorization));
            }
            _ => {
                target.push(if target.contains('?') { '&' } else { '?' });
                target.push_str(&credential.token(&self.key)?);
            }
        }
        let is_broken = !sent.body.is_empty() && self.comes(BROKEN_ONE_IN, random);
        let body = PiecemealBody::new(sent.body, is_broken, &self.handle, random);
        let mut builder = http::Request::builder().method(sent.method).uri(target);
        for (name, value) in headers {
            builder = builder.header(name, value);
        }
        Ok((builder.body(body).map_err(|error| error.to_string())?, is_broken))
    }
}

/// With what a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credential {
    Key(Scheme),
    /// A token for the account with these letters.
    Account(&'static str),
    /// A token for the queue with these letters.
    Queue(&'static str),
    /// A key that is not one of the account's.
    OtherKey(Scheme),
    /// A token for another queue.
    OtherQueue,
    /// A token for the queue that has expired.
    Expired,
    /// A token for the queue whose letters were changed after it was signed.
    Forged,
}

impl Credential {
    const ALL: [Self; 15] = [
        Self::Key(Scheme::SharedKey),
        Self::Key(Scheme::SharedKeyLite),
        Self::Account("rwdlacup"),
        Self::Queue("raup"),
        Self::Account("r"),
        Self::Account("wd"),
        Self::Account("c"),
        Self::Account("ap"),
        Self::Queue("r"),
        Self::Queue("a"),
        Self::Queue("up"),
        Self::OtherKey(Scheme::SharedKey),
        Self::OtherQueue,
        Self::Expired,
        Self::Forged,
    ];

    /// One that covers the request, or does not, as wanted.
    fn choose(request: &Request, wanted: bool, random: &mut Seeded) -> Self {
        let fitting: Vec<_> =
            Self::ALL.into_iter().filter(|one| one.covers(request) == wanted).collect();
        let chosen = fitting.get(random.below(fitting.len()));
        chosen.copied().unwrap_or(Self::Key(Scheme::SharedKey))
    }

    /// Whether it permits the request, by queue.md 10: any of the letters is enough.
    fn covers(self, request: &Request) -> bool {
        let has = |own: &str, account: &str| match self {
            Self::Key(_) => true,
            Self::Account(letters) => account.chars().any(|letter| letters.contains(letter)),
            Self::Queue(letters) => own.chars().any(|letter| letters.contains(letter)),
            _ => false,
        };
        match request {
            Request::CreateQueue { .. } => has("", "cw"),
            Request::DeleteQueue | Request::Clear => has("", "d"),
            Request::SetMetadata(_) => has("", "w"),
            Request::GetAcl | Request::SetAcl(_) => has("", ""),
            Request::GetMetadata | Request::Peek { .. } => has("r", "r"),
            Request::Put { .. } => has("a", "a"),
            Request::Get { .. } | Request::Delete(_) => has("p", "p"),
            Request::Update { .. } => has("u", "u"),
        }
    }

    fn token(self, key: &SigningKey) -> Result<String, String> {
        let queue = |queue, permissions, expiry| {
            let sas = QueueSas { version: VERSION, permissions, expiry, ..QueueSas::default() };
            sas.token(ACCOUNT, queue, key)
        };
        let token = match self {
            Self::Queue(letters) => queue(QUEUE, letters, EXPIRY),
            Self::OtherQueue => queue("other", "raup", EXPIRY),
            Self::Expired => queue(QUEUE, "raup", EXPIRED),
            Self::Forged => queue(QUEUE, "r", EXPIRY).map(|token| token.replace("sp=r", "sp=raup")),
            Self::Account(permissions) => AccountSas {
                version: VERSION,
                services: "q",
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
