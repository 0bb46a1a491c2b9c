//! What the clients of every front share: insufficient credentials, bodies that break off, and the
//! required responses.

use super::body::PiecemealBody;
use super::credential::{Credential, Tokens};
use super::executor::Handle;
use http_body_util::BodyExt;
use lazuli_server::{Accounts, FrontOptions, Peer, ResponseBody};
use lazuli_testkit::http::{self as client, Operation};
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY};
use lazuli_wire::sas::AccountSas;
use lazuli_wire::shared_key::{Authorization, Scheme, Signature, SigningKey};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const HOST: &str = "simulated";
/// Later than any clock of a run.
pub(super) const EXPIRY: &str = "2999-01-01";
pub(super) const EXPIRED: &str = "2001-01-01";
/// One request in this many has a credential that does not cover it.
const FORBIDDEN_ONE_IN: usize = 8;
/// The body of one request in this many breaks off.
const BROKEN_ONE_IN: usize = 12;

/// The faults of one client, and its key.
#[derive(Clone)]
pub(super) struct Trouble {
    handle: Handle,
    random: Arc<Mutex<Seeded>>,
    key: Arc<SigningKey>,
    /// Whether credentials may be wrong and bodies may break off.
    is_bad: Arc<AtomicBool>,
    forbidden: Arc<AtomicUsize>,
}

/// What is wrong with a request that was sent, if anything is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    credential: Credential,
    /// Whether the credential covers the request.
    is_covered: bool,
    /// Whether its body breaks off.
    is_broken: bool,
}

/// A request, and whether its body breaks off.
pub(super) type Message = (http::Request<PiecemealBody>, bool);

/// What an answer means before its content is looked at.
pub(super) enum Judged {
    /// It refuses a request as it should; nothing was done.
    Refused,
    /// It responds to a request that should succeed, or fail for its own reasons.
    Answered,
    /// It must never be sent.
    Wrong(&'static str),
}

impl Trouble {
    #[expect(clippy::expect_used, reason = "the key is a literal")]
    pub(super) fn new(handle: Handle, random: Seeded, is_bad: Arc<AtomicBool>) -> Self {
        Self {
            handle,
            random: Arc::new(Mutex::new(random)),
            key: Arc::new(SigningKey::from_base64(ACCOUNT_KEY).expect("a key")),
            is_bad,
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

    /// Whether a trouble that comes once in `n` times comes now.
    fn comes(&self, n: usize, random: &mut Seeded) -> bool {
        random.one_in(n) && self.is_bad.load(Ordering::Relaxed)
    }

    /// The request that `write` makes with a credential that covers it or, now and then, with one that
    /// does not.
    pub(super) fn attempt(
        &self,
        all: &[Credential],
        covers: impl Fn(Credential) -> bool,
        write: impl FnOnce(Credential, &mut Seeded) -> Result<Message, String>,
    ) -> Result<(Attempt, http::Request<PiecemealBody>), String> {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = !self.comes(FORBIDDEN_ONE_IN, &mut random);
        let fitting: Vec<_> = all.iter().copied().filter(|one| covers(*one) == wanted).collect();
        let chosen = fitting.get(random.below(fitting.len())).or(all.first()).copied();
        let credential = chosen.unwrap_or(Credential::Key(Scheme::SharedKey));
        let (message, is_broken) = write(credential, &mut random)?;
        Ok((Attempt { credential, is_covered: covers(credential), is_broken }, message))
    }

    /// The request of `operation`, whose path is a whole target, with a credential, and whether its body
    /// breaks off. `sign` is how the service signs requests.
    pub(super) fn message(
        &self,
        mut operation: Operation,
        credential: Credential,
        tokens: &Tokens,
        sign: impl FnOnce(&Operation, Scheme, &SigningKey) -> Signature,
        random: &mut Seeded,
    ) -> Result<Message, String> {
        match credential.signing_key(&self.key) {
            Some((scheme, key)) => {
                let signature = sign(&operation, scheme, &key);
                let authorization = Authorization::header(scheme, ACCOUNT, &signature);
                operation.headers.push(("authorization", authorization));
            }
            None => add_token(&mut operation.path, &credential.token(tokens, &self.key)?),
        }
        let Operation { method, path, headers, body } = operation;
        let (body, is_broken) = self.body(body, random);
        let request = http::Request::builder().method(method).uri(path);
        let request =
            headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        Ok((request.body(body).map_err(|error| error.to_string())?, is_broken))
    }

    /// A body in pieces, and whether it breaks off.
    fn body(&self, text: String, random: &mut Seeded) -> (PiecemealBody, bool) {
        let is_broken = !text.is_empty() && self.comes(BROKEN_ONE_IN, random);
        (PiecemealBody::new(text, is_broken, &self.handle, random), is_broken)
    }

    /// Compares an answer with what the credential and the body of its request deserve.
    pub(super) fn judge(&self, attempt: Attempt, was_forbidden: bool, status: u16) -> Judged {
        let Attempt { is_covered, is_broken, .. } = attempt;
        match (is_covered, was_forbidden) {
            (false, true) => {
                self.forbidden.fetch_add(1, Ordering::Relaxed);
                Judged::Refused
            }
            // If a request is not covered, its body may break off before the permission check.
            (_, false) if is_broken && status >= 400 => Judged::Refused,
            (false, false) => Judged::Wrong("not refused"),
            (true, true) => Judged::Wrong("refused"),
            (true, false) if is_broken => Judged::Wrong("half a body was accepted"),
            (true, false) => Judged::Answered,
        }
    }
}

/// What was wrong about the answer to a request.
pub(super) fn wrong(
    why: &str,
    attempt: Attempt,
    request: &impl fmt::Debug,
    answer: &client::Response,
) -> String {
    let (status, text) = (answer.status, answer.text());
    format!("{why}: {:?} {request:?} was answered {status}: {text}", attempt.credential)
}

/// Where every request comes from.
pub(super) fn peer() -> Peer {
    Peer::new(([127, 0, 0, 1], 1).into(), false)
}

/// The account of every simulation, and the options of its fronts.
#[expect(clippy::expect_used, reason = "the account and its key are literals that keep the rules")]
pub(super) fn front_options() -> (Arc<Accounts>, FrontOptions) {
    let accounts = Accounts::parse(&format!("{ACCOUNT}:{ACCOUNT_KEY}"));
    let accounts = Arc::new(accounts.and_then(Accounts::new).expect("an account"));
    // The clock jumps further than the skew allowed for a signed date.
    (accounts, FrontOptions { date_check: false, ..FrontOptions::default() })
}

/// The parameters of a token for the account.
pub(super) fn account_token(
    version: &'static str,
    services: &'static str,
    permissions: &'static str,
    key: &SigningKey,
) -> Result<String, String> {
    let sas = AccountSas {
        version,
        services,
        resource_types: "sco",
        permissions,
        expiry: EXPIRY,
        ..AccountSas::default()
    };
    sas.token(ACCOUNT, key).map_err(|error| error.to_string())
}

/// Adds the parameters of a token to the target of a request.
fn add_token(target: &mut String, token: &str) {
    target.push(if target.contains('?') { '&' } else { '?' });
    target.push_str(token);
}

/// A front's response with its complete body.
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

/// A key that is not one of the account's.
#[expect(clippy::expect_used, reason = "the key is a literal")]
pub(super) fn stranger() -> SigningKey {
    SigningKey::from_base64("c29tZWJvZHkgZWxzZSdzIGtleQ==").expect("a key")
}
