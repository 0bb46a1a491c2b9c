//! Sends the requests of a history through the HTTP front, without a socket.
//!
//! A request goes through everything but the network: its body arrives in pieces or breaks off, its
//! credential is one of many that cover it, or one that does not; then it is routed, authorized,
//! decoded and executed. The expected refusals come from the rules of the service, never from the
//! server.

use super::TABLE;
use super::credential::{Credential, Tokens};
use super::executor::Handle;
use super::trouble::{HOST, Judged, Message, Trouble, front_options, peer, whole_answer, wrong};
use crate::history::{Change, ChangeKind, Request, Response};
use crate::http::{Answer, Sent, sent};
use lazuli_model::Clock;
use lazuli_server::{Front, TableApi};
use lazuli_table::TableService;
use lazuli_testkit::http::{self as client, BatchResponse, Operation};
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::server::ACCOUNT;
use lazuli_wire::sas::TableSas;
use lazuli_wire::shared_key::{Scheme, SignedRequest};
use std::sync::Arc;

const VERSION: &str = "2019-02-02";

/// A client of one front.
#[derive(Clone)]
pub(super) struct FrontClient {
    front: Arc<Front<TableApi>>,
    tables: TableService,
    clock: Arc<dyn Clock>,
    trouble: Trouble,
}

impl FrontClient {
    pub(super) fn new(
        tables: TableService,
        clock: Arc<dyn Clock>,
        handle: Handle,
        random: Seeded,
    ) -> Self {
        let (accounts, options) = front_options();
        let front = Front::of_tables(tables.clone(), accounts, clock.clone(), options);
        let trouble = Trouble::new(handle, random, Arc::default());
        Self { front: Arc::new(front), tables, clock, trouble }
    }

    /// Turns faults on or off.
    pub(super) fn break_things(&self, bad: bool) {
        self.trouble.break_things(bad);
    }

    /// Requests whose credential did not cover them, and that were refused.
    pub(super) fn forbidden(&self) -> usize {
        self.trouble.forbidden()
    }

    pub(super) fn tables(&self) -> TableService {
        self.tables.clone()
    }

    pub(super) async fn reclaim(&self) {
        // The task retries later, whatever went wrong.
        let _ = self.tables.reclaim_some(self.clock.now()).await;
    }

    /// Sends a request; fails if the response is invalid.
    pub(super) async fn call(&self, request: &Request) -> Result<Response, String> {
        let covers = |one: Credential| covers(one, request);
        let write = |one: Credential, random: &mut Seeded| self.message(request, one, random);
        let (attempt, message) = self.trouble.attempt(&CREDENTIALS, covers, write)?;
        let is_batch = matches!(request, Request::Batch(_));
        let answer = whole_answer(self.front.handle(message, peer()).await).await;
        // A part of a batch may be what the credential does not cover.
        let was_forbidden =
            answer.status == 403 || is_batch && answer.text().contains("HTTP/1.1 403 ");
        match self.trouble.judge(attempt, was_forbidden, answer.status) {
            Judged::Answered => {}
            Judged::Refused => return Ok(Response::NotDone),
            Judged::Wrong(why) => return Err(wrong(why, attempt, request, &answer)),
        }
        let answer = match is_batch {
            true => Answer::Batch(BatchResponse::parse(answer.status, answer.text())),
            false => Answer::Lone(answer),
        };
        answer.read(request).ok_or_else(|| answer.unexpected(request).to_string())
    }

    /// The HTTP request, and whether its body breaks off.
    fn message(
        &self,
        request: &Request,
        credential: Credential,
        random: &mut Seeded,
    ) -> Result<Message, String> {
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
        let date = self.clock.now().rfc1123();
        let mut headers = vec![
            ("host", HOST.to_owned()),
            ("x-ms-version", VERSION.to_owned()),
            ("x-ms-date", date.clone()),
            ("accept", "application/json;odata=minimalmetadata".to_owned()),
            ("content-length", operation.body.len().to_string()),
        ];
        if !content_type.is_empty() {
            headers.push(("content-type", content_type.to_owned()));
        }
        headers.extend(operation.headers);
        let path = format!("{segment}{}", operation.path);
        let sign = |operation: &Operation, scheme, key: &_| {
            let (path, query) = operation.path.split_once('?').unwrap_or((&operation.path, ""));
            let text = SignedRequest {
                method: operation.method,
                content_md5: "",
                content_type,
                date: &date,
                account: ACCOUNT,
                path,
                comp: query.split('&').find_map(|pair| pair.strip_prefix("comp=")),
            };
            text.sign(scheme, key)
        };
        let operation = Operation { path, headers, ..operation };
        self.trouble.message(operation, credential, &TOKENS, sign, random)
    }
}

const CREDENTIALS: [Credential; 14] = [
    Credential::Key(Scheme::SharedKey),
    Credential::Key(Scheme::SharedKeyLite),
    Credential::Account("rwdlacu"),
    Credential::Own("raud"),
    Credential::Account("r"),
    Credential::Account("lc"),
    Credential::Own("r"),
    Credential::Own("au"),
    Credential::Own("u"),
    Credential::Own("d"),
    Credential::OtherKey(Scheme::SharedKey),
    Credential::Other,
    Credential::Expired,
    Credential::Forged,
];

const TOKENS: Tokens = Tokens {
    version: VERSION,
    service: "t",
    own: TABLE,
    other: "Other",
    letters: "raud",
    sign: |table, permissions, expiry, key| {
        let sas = TableSas { version: VERSION, table, permissions, expiry, ..TableSas::default() };
        sas.token(ACCOUNT, key)
    },
};

/// Whether a credential permits a request, by the table of auth.md 9.
fn covers(credential: Credential, request: &Request) -> bool {
    let needed = |own: &str, account: &str| match credential {
        Credential::Key(_) => true,
        Credential::Account(letters) => account.chars().all(|letter| letters.contains(letter)),
        Credential::Own(letters) => {
            !own.is_empty() && own.chars().all(|letter| letters.contains(letter))
        }
        _ => false,
    };
    match request {
        Request::Get(_) | Request::Scan(_) => needed("r", "r"),
        Request::CreateTable => needed("", "c"),
        Request::DeleteTable => needed("", "d"),
        Request::Index(_) | Request::SetExpiry => needed("", "w"),
        Request::Change(change) => needed(letters(change), letters(change)),
        Request::Batch(changes) => {
            changes.iter().all(|change| needed(letters(change), letters(change)))
        }
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
