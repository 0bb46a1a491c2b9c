//! Common mistakes of clients that sign for the Queue service.

use crate::auth::credentials::Presented;
use crate::auth::explain::{self, Mistake, SasMistake, delegated, edit, encode, mismatch};
use crate::auth::keyring::Keyring;
use crate::queue::token::{Token, TokenKind};
use lazuli_wire::shared_key::{CanonicalRequest, Scheme};
use lazuli_wire::uri::percent_decode_lenient;

/// Explains a Shared Key signature that does not match `request`.
pub(crate) fn shared_key<'a>(
    request: &CanonicalRequest<'a>,
    scheme: Scheme,
    signature: &str,
    presented: &Presented<'a>,
    keys: &Keyring<'_>,
) -> String {
    let facts = Facts { account: keys.account.name.as_str(), presented };
    let signed = |made: &[&Make]| {
        let attempt = Attempt { request: request.clone(), scheme, end: "" };
        made.iter().fold(attempt, |attempt, make| make(attempt, &facts)).text()
    };
    mismatch(MISTAKES, signed, signature, keys)
}

/// Explains the signature of a token for a queue.
pub(crate) fn token(token: &Token<'_>, keys: &Keyring<'_>) -> String {
    let text = token.string_to_sign(keys.account.name.as_str());
    match &token.sas {
        TokenKind::Queue(sas) => {
            explain::token(text, SAS_MISTAKES, token.queue, sas.signature, keys)
        }
        TokenKind::UserDelegation(_) => delegated(text),
    }
}

/// A string that a client may have signed, with its parts.
struct Attempt<'a> {
    request: CanonicalRequest<'a>,
    scheme: Scheme,
    /// What follows the string to sign.
    end: &'static str,
}

impl<'a> Attempt<'a> {
    fn with(self, request: CanonicalRequest<'a>) -> Self {
        Self { request, ..self }
    }

    fn without_header(self, name: &str) -> Self {
        let request = self.request.with_header(name, b"");
        self.with(request)
    }

    fn text(&self) -> String {
        let text = self.request.string_to_sign(self.scheme);
        format!("{}{}", String::from_utf8_lossy(&text), self.end)
    }
}

/// The parts of the request that a mistake may use.
struct Facts<'f, 'a> {
    account: &'f str,
    presented: &'f Presented<'a>,
}

type Make = for<'f, 'a> fn(Attempt<'a>, &Facts<'f, 'a>) -> Attempt<'a>;

const MISTAKES: &[Mistake<Make>] = &[
    ("in the form of the other scheme, SharedKey or SharedKeyLite", |attempt, _| {
        let scheme = match attempt.scheme {
            Scheme::SharedKey => Scheme::SharedKeyLite,
            Scheme::SharedKeyLite => Scheme::SharedKey,
        };
        Attempt { scheme, ..attempt }
    }),
    ("with the account once, where path style has /account/account/", |attempt, facts| {
        let path = attempt.request.path().to_owned();
        let rest = path.strip_prefix('/').and_then(|rest| rest.strip_prefix(facts.account));
        let request = attempt.request.with_path(rest.unwrap_or(&path));
        attempt.with(request)
    }),
    ("with the account twice, where host style has it once", |attempt, facts| {
        let path = format!("/{}{}", facts.account, attempt.request.path());
        let request = attempt.request.with_path(&path);
        attempt.with(request)
    }),
    ("with the path decoded", |attempt, _| {
        let path = percent_decode_lenient(attempt.request.path()).into_owned();
        let request = attempt.request.with_path(&path);
        attempt.with(request)
    }),
    ("with a Content-Length of 0, where this version signs none", |attempt, facts| {
        let length = facts.presented.header("content-length").as_bytes();
        let request = attempt.request.with_header("content-length", length);
        attempt.with(request)
    }),
    ("with no Content-Length", |attempt, _| attempt.without_header("content-length")),
    ("with no Content-Type", |attempt, _| attempt.without_header("content-type")),
    ("with no Content-MD5", |attempt, _| attempt.without_header("content-md5")),
    ("with the Date header in addition to x-ms-date", |attempt, facts| {
        let date = facts.presented.header("date").as_bytes();
        let request = attempt.request.with_header("date", date);
        attempt.with(request)
    }),
    ("without x-ms-date", |attempt, _| attempt.without_header("x-ms-date")),
    ("without x-ms-version", |attempt, _| attempt.without_header("x-ms-version")),
    ("without x-ms-client-request-id", |attempt, _| {
        attempt.without_header("x-ms-client-request-id")
    }),
    ("without the parameters of the query", |attempt, _| {
        let request = attempt.request.without_query();
        attempt.with(request)
    }),
    ("with a line feed at the end", |attempt, _| Attempt { end: "\n", ..attempt }),
];

/// In a queue token's string to sign, the resource is the fourth line.
const SAS_MISTAKES: &[SasMistake] = &[
    ("without /queue before the resource", |lines, _, _| {
        edit(lines, 3, |resource| {
            *resource = resource.strip_prefix("/queue").unwrap_or(resource).to_owned();
        });
    }),
    ("with /queue before the resource", |lines, _, _| {
        edit(lines, 3, |resource| resource.insert_str(0, "/queue"));
    }),
    ("with the account twice in the resource", |lines, account, queue| {
        edit(lines, 3, |resource| *resource = format!("/queue/{account}/{account}/{queue}"));
    }),
    ("with /messages after the queue", |lines, _, _| {
        edit(lines, 3, |resource| resource.push_str("/messages"));
    }),
    ("without the lines of sip and spr", |lines, _, _| {
        let after = lines.split_off(lines.len().min(5));
        lines.extend(after.into_iter().skip(2));
    }),
    ("with values percent-encoded", |lines, _, _| lines.iter_mut().for_each(encode)),
    ("with a line feed at the end", |lines, _, _| lines.push(String::new())),
];
