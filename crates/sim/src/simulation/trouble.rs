//! What the clients of every front share: credentials that do not cover a request, bodies that break
//! off, and what must be answered to them.

use super::body::PiecemealBody;
use super::executor::Handle;
use http_body_util::BodyExt;
use lazuli_server::{Accounts, FrontOptions, ResponseBody};
use lazuli_testkit::http as client;
use lazuli_testkit::seed::Seeded;
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY};
use lazuli_wire::sas::AccountSas;
use lazuli_wire::shared_key::SigningKey;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) const HOST: &str = "simulated";
/// Later than any clock of a run.
pub(super) const EXPIRY: &str = "2999-01-01";
pub(super) const EXPIRED: &str = "2001-01-01";
/// One request in this many has a credential that does not cover it.
const FORBIDDEN_ONE_IN: usize = 8;
/// The body of one request in this many breaks off.
const BROKEN_ONE_IN: usize = 12;

/// The troubles of one client, and its key.
#[derive(Clone)]
pub(super) struct Trouble {
    handle: Handle,
    random: Arc<Mutex<Seeded>>,
    pub(super) key: Arc<SigningKey>,
    /// Whether credentials may be wrong and bodies may break off.
    is_bad: Arc<AtomicBool>,
    forbidden: Arc<AtomicUsize>,
}

/// What an answer means before its content is looked at.
pub(super) enum Judged {
    /// It refuses a request as it should; nothing was done.
    Refused,
    /// It is the answer to a request that should succeed, or fail, by itself.
    Answered,
    /// It must not be given.
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

    /// Turns troubles on or off.
    pub(super) fn break_things(&self, bad: bool) {
        self.is_bad.store(bad, Ordering::Relaxed);
    }

    /// Requests whose credential did not cover them, and that were refused.
    pub(super) fn forbidden(&self) -> usize {
        self.forbidden.load(Ordering::Relaxed)
    }

    pub(super) fn random(&self) -> MutexGuard<'_, Seeded> {
        self.random.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a trouble that comes once in `n` times comes now.
    fn comes(&self, n: usize, random: &mut Seeded) -> bool {
        random.one_in(n) && self.is_bad.load(Ordering::Relaxed)
    }

    /// One of `all` that covers the request or, now and then, one that does not.
    pub(super) fn choose<C: Copy>(
        &self,
        all: &[C],
        covers: impl Fn(C) -> bool,
        random: &mut Seeded,
    ) -> Option<C> {
        let wanted = !self.comes(FORBIDDEN_ONE_IN, random);
        let fitting: Vec<C> = all.iter().copied().filter(|one| covers(*one) == wanted).collect();
        fitting.get(random.below(fitting.len())).copied().or_else(|| all.first().copied())
    }

    /// A body in pieces, and whether it breaks off.
    pub(super) fn body(&self, text: String, random: &mut Seeded) -> (PiecemealBody, bool) {
        let is_broken = !text.is_empty() && self.comes(BROKEN_ONE_IN, random);
        (PiecemealBody::new(text, is_broken, &self.handle, random), is_broken)
    }

    /// Compares an answer with what the credential and the body of its request deserve.
    pub(super) fn judge(
        &self,
        is_covered: bool,
        is_broken: bool,
        was_forbidden: bool,
        status: u16,
    ) -> Judged {
        match (is_covered, was_forbidden) {
            (false, true) => {
                self.forbidden.fetch_add(1, Ordering::Relaxed);
                Judged::Refused
            }
            // Of a request that is not covered, the body may break off before the permission check.
            (_, false) if is_broken && status >= 400 => Judged::Refused,
            (false, false) => Judged::Wrong("not refused"),
            (true, true) => Judged::Wrong("refused"),
            (true, false) if is_broken => Judged::Wrong("half a body was accepted"),
            (true, false) => Judged::Answered,
        }
    }
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
pub(super) fn add_token(target: &mut String, token: &str) {
    target.push(if target.contains('?') { '&' } else { '?' });
    target.push_str(token);
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

/// A key that is not one of the account's.
#[expect(clippy::expect_used, reason = "the key is a literal")]
pub(super) fn stranger() -> SigningKey {
    SigningKey::from_base64("c29tZWJvZHkgZWxzZSdzIGtleQ==").expect("a key")
}
