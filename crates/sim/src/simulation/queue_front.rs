//! Sends the requests of a queue history through the HTTP front, without a socket, like
//! [`super::front`] for tables.

use super::credential::{Credential, Tokens};
use super::executor::Handle;
use super::trouble::{HOST, Judged, Message, Trouble, front_options, peer, whole_answer, wrong};
use crate::queue::history::{Request, Response};
use crate::queue::http::{read, sent};
use lazuli_model::Clock;
use lazuli_queue::QueueService;
use lazuli_server::{Front, QueueApi};
use lazuli_table::TableService;
use lazuli_testkit::http::Operation;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::server::ACCOUNT;
use lazuli_wire::sas::QueueSas;
use lazuli_wire::shared_key::{CanonicalRequest, Scheme};
use lazuli_wire::version::ApiVersion;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const QUEUE: &str = "simulated";
const VERSION: &str = "2021-02-12";

/// A client of one front.
#[derive(Clone)]
pub(super) struct QueueFrontClient {
    front: Arc<Front<QueueApi>>,
    queues: QueueService,
    clock: Arc<dyn Clock>,
    trouble: Trouble,
}

impl QueueFrontClient {
    pub(super) fn new(
        (queues, tables): (QueueService, TableService),
        clock: Arc<dyn Clock>,
        handle: Handle,
        random: Seeded,
        is_bad: Arc<AtomicBool>,
    ) -> Self {
        let (accounts, options) = front_options();
        let front = Front::of_queues(queues.clone(), tables, accounts, clock.clone(), options);
        let trouble = Trouble::new(handle, random, is_bad);
        Self { front: Arc::new(front), queues, clock, trouble }
    }

    /// Requests whose credential did not cover them, and that were refused.
    pub(super) fn forbidden(&self) -> usize {
        self.trouble.forbidden()
    }

    /// The server's background tasks; they retry later, whatever went wrong.
    pub(super) async fn chores(&self) {
        let _ = self.queues.expire_some().await;
        let _ = self.queues.reclaim_some(self.clock.now()).await;
    }

    /// Sends a request; fails if the response is one that it should not get.
    pub(super) async fn call(&self, request: &Request) -> Result<Response, String> {
        let covers = |one: Credential| covers(one, request);
        let write = |one: Credential, random: &mut Seeded| self.message(request, one, random);
        let (attempt, message) = self.trouble.attempt(&CREDENTIALS, covers, write)?;
        let answer = whole_answer(self.front.handle(message, peer()).await).await;
        match self.trouble.judge(attempt, answer.status == 403, answer.status) {
            Judged::Answered => {}
            Judged::Refused => return Ok(Response::NotDone),
            Judged::Wrong(why) => return Err(wrong(why, attempt, request, &answer)),
        }
        read(request, &answer).ok_or_else(|| wrong("makes no sense", attempt, request, &answer))
    }

    /// The HTTP request, and whether its body breaks off.
    fn message(
        &self,
        request: &Request,
        credential: Credential,
        random: &mut Seeded,
    ) -> Result<Message, String> {
        let operation = sent(QUEUE, request);
        let mut headers = vec![
            ("host", HOST.to_owned()),
            ("x-ms-version", VERSION.to_owned()),
            ("x-ms-date", self.clock.now().rfc1123()),
            ("content-length", operation.body.len().to_string()),
        ];
        headers.extend(operation.headers);
        let path = format!("/{ACCOUNT}{}", operation.path);
        let sign = |operation: &Operation, scheme, key: &_| {
            let (path, query) = operation.path.split_once('?').unwrap_or((&operation.path, ""));
            let lines = operation.headers.iter().map(|(name, value)| (*name, value.as_bytes()));
            let version = ApiVersion::parse(VERSION).unwrap_or(ApiVersion::UNSTATED);
            let text =
                CanonicalRequest::new(operation.method, lines, ACCOUNT, path, query, version);
            text.sign(scheme, key)
        };
        let operation = Operation { path, headers, ..operation };
        self.trouble.message(operation, credential, &TOKENS, sign, random)
    }
}

const CREDENTIALS: [Credential; 15] = [
    Credential::Key(Scheme::SharedKey),
    Credential::Key(Scheme::SharedKeyLite),
    Credential::Account("rwdlacup"),
    Credential::Own("raup"),
    Credential::Account("r"),
    Credential::Account("wd"),
    Credential::Account("c"),
    Credential::Account("ap"),
    Credential::Own("r"),
    Credential::Own("a"),
    Credential::Own("up"),
    Credential::OtherKey(Scheme::SharedKey),
    Credential::Other,
    Credential::Expired,
    Credential::Forged,
];

const TOKENS: Tokens = Tokens {
    version: VERSION,
    service: "q",
    own: QUEUE,
    other: "other",
    letters: "raup",
    sign: |queue, permissions, expiry, key| {
        let sas = QueueSas { version: VERSION, permissions, expiry, ..QueueSas::default() };
        sas.token(ACCOUNT, queue, key)
    },
};

/// Whether a credential permits a request, by queue.md 10: any of the letters is enough.
fn covers(credential: Credential, request: &Request) -> bool {
    let has = |own: &str, account: &str| match credential {
        Credential::Key(_) => true,
        Credential::Account(letters) => account.chars().any(|letter| letters.contains(letter)),
        Credential::Own(letters) => own.chars().any(|letter| letters.contains(letter)),
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
