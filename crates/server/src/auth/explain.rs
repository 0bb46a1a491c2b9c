//! Says why a credential was refused, to people who write clients.
//!
//! The server knows what it would have signed. What the client signed it cannot know, but it can try
//! the mistakes that clients make: when one of them fits the signature, both strings are known and
//! so is the first byte in which they differ. Neither keys nor signatures ever stand in the text.

use crate::auth::accounts::Account;
use crate::auth::authenticate::Presented;
use lazuli_model::Timestamp;
use lazuli_wire::sas::{Sas, SasError};
use lazuli_wire::shared_key::{Scheme, Signature, SignedRequest};
use lazuli_wire::uri::{percent_decode_lenient, percent_encode};
use std::fmt::Write as _;
use std::sync::Arc;

/// Other accounts whose keys are tried.
const OTHER_ACCOUNTS_MAX: usize = 16;
/// Bytes of an explanation in a header.
const HEADER_BYTES_MAX: usize = 2048;
/// Characters shown from the first one that differs.
const EXCERPT_CHARS: usize = 24;

/// Whose keys may have signed.
pub(crate) struct Keyring<'a> {
    pub(crate) account: &'a Account,
    /// The server's accounts, in any order.
    pub(crate) all: Vec<Arc<Account>>,
}

/// Explains a date that lies too far from the server's, or is none.
pub(crate) fn date(text: &str, now: Timestamp, seconds_max: u64) -> String {
    if text.is_empty() {
        return "The request has neither an x-ms-date nor a Date header.".to_owned();
    }
    let Some(date) = Timestamp::parse_rfc1123(text) else {
        return format!("The date '{text}' does not read like '{}'.", now.rfc1123());
    };
    let apart = date.millis_since(now).max(now.millis_since(date)) / 1000;
    format!(
        "The request is dated {date}, the server's clock says {now}: {apart} seconds apart, \
         {seconds_max} are allowed."
    )
}

/// Explains a Shared Key signature that is not that of `request`.
pub(crate) fn shared_key(
    request: &SignedRequest<'_>,
    scheme: Scheme,
    signature: &str,
    presented: &Presented<'_>,
    keys: &Keyring<'_>,
) -> String {
    let facts = Facts { account: request.account, presented };
    let signed = Attempt::new(request, scheme);
    let singles = SHARED_KEY_MISTAKES.iter().map(|one| vec![one]);
    let pairs = SHARED_KEY_MISTAKES.iter().enumerate().flat_map(|(at, one)| {
        SHARED_KEY_MISTAKES.iter().skip(at + 1).map(move |other| vec![one, other])
    });
    let attempts = singles.chain(pairs).map(|mistakes| {
        let mut attempt = signed.clone();
        mistakes.iter().for_each(|(_, make)| make(&mut attempt, &facts));
        let names: Vec<_> = mistakes.iter().map(|(name, _)| *name).collect();
        (names.join(" and "), attempt.text(request.account))
    });
    let tried = SHARED_KEY_MISTAKES.iter().map(|(name, _)| *name);
    mismatch(&signed.text(request.account), attempts, tried, signature, keys)
}

/// Explains why a shared access signature does not let `presented` in.
pub(crate) fn sas(
    error: SasError,
    sas: &Sas<'_>,
    presented: &Presented<'_>,
    keys: &Keyring<'_>,
) -> String {
    let account = keys.account.name.as_str();
    match error {
        SasError::Signature => {}
        SasError::NotStarted(_) | SasError::Expired(_) => {
            return format!("{}; now it is {}.", sentence(error), presented.caller.now);
        }
        SasError::SourceIp => {
            return format!("{}: {}.", sentence(error), presented.caller.address);
        }
        error => return format!("{}.", sentence(error)),
    }
    let (text, mistakes, table, signature) = match sas {
        Sas::Table(sas) => {
            (sas.string_to_sign(account), TABLE_SAS_MISTAKES, sas.table, sas.signature)
        }
        Sas::Account(sas) => (sas.string_to_sign(account), ACCOUNT_SAS_MISTAKES, "", sas.signature),
        Sas::UserDelegation(sas) => {
            let nobody = "No user delegation key of this account signed the token.";
            return match sas.string_to_sign(account) {
                Ok(text) => format!("{nobody}\nThe server's string to sign is {text:?}."),
                Err(error) => format!("{nobody} {}.", sentence(error)),
            };
        }
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => return format!("{}.", sentence(error)),
    };
    let attempts = mistakes.iter().map(|(name, make)| {
        let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        make(&mut lines, account, table);
        ((*name).to_owned(), lines.join("\n"))
    });
    let tried = mistakes.iter().map(|(name, _)| *name);
    mismatch(&text, attempts, tried, signature, keys)
}

/// The explanation on one line of printable ASCII, for a header.
pub(crate) fn header_text(explanation: &str) -> String {
    let mut text = String::new();
    for character in explanation.chars() {
        match character {
            '\n' => text.push_str(" | "),
            ' '..='~' => text.push(character),
            other => text.extend(other.escape_unicode()),
        }
        if text.len() > HEADER_BYTES_MAX {
            text.push_str("...");
            break;
        }
    }
    text
}

/// The string a client may have signed, with the parts it is made of.
#[derive(Clone)]
struct Attempt {
    scheme: Scheme,
    method: String,
    content_md5: String,
    content_type: String,
    date: String,
    path: String,
    comp: Option<String>,
    /// What stands after the string.
    end: &'static str,
}

/// What a mistake may have taken from the request.
struct Facts<'a> {
    account: &'a str,
    presented: &'a Presented<'a>,
}

/// A mistake: how the client signed instead, and how to make it.
type Mistake<F> = (&'static str, F);

type SharedKeyMistake = Mistake<fn(&mut Attempt, &Facts<'_>)>;

const SHARED_KEY_MISTAKES: &[SharedKeyMistake] = &[
    ("in the form of the other scheme, SharedKey or SharedKeyLite", |attempt, _| {
        attempt.scheme = match attempt.scheme {
            Scheme::SharedKey => Scheme::SharedKeyLite,
            Scheme::SharedKeyLite => Scheme::SharedKey,
        };
    }),
    ("with the account once, where path style has /account/account/", |attempt, facts| {
        let rest = attempt.path.strip_prefix('/').and_then(|rest| rest.strip_prefix(facts.account));
        if let Some(rest) = rest.map(str::to_owned) {
            attempt.path = rest;
        }
    }),
    ("with the account twice, where host style has it once", |attempt, facts| {
        attempt.path = format!("/{}{}", facts.account, attempt.path);
    }),
    ("with the path decoded", |attempt, _| {
        attempt.path = percent_decode_lenient(&attempt.path).into_owned();
    }),
    ("with the path in lower case", |attempt, _| attempt.path.make_ascii_lowercase()),
    ("with the Date header instead of x-ms-date", |attempt, facts| {
        attempt.date = facts.presented.header("date").to_owned();
    }),
    ("with no date", |attempt, _| attempt.date.clear()),
    ("without ?comp=", |attempt, _| attempt.comp = None),
    ("with the whole query", |attempt, facts| {
        attempt.path = format!("{}?{}", attempt.path, facts.presented.raw_query);
        attempt.comp = None;
    }),
    ("with no Content-Type", |attempt, _| attempt.content_type.clear()),
    ("with the Content-Type without its parameters", |attempt, _| {
        let len = attempt.content_type.find(';').unwrap_or(attempt.content_type.len());
        attempt.content_type.truncate(len);
    }),
    ("with ';charset=utf-8' after the Content-Type", |attempt, _| {
        attempt.content_type.push_str(";charset=utf-8");
    }),
    ("with '; charset=utf-8' after the Content-Type", |attempt, _| {
        attempt.content_type.push_str("; charset=utf-8");
    }),
    ("with no Content-MD5", |attempt, _| attempt.content_md5.clear()),
    ("with the method of X-HTTP-Method", |attempt, facts| {
        attempt.method = facts.presented.header("x-http-method").to_owned();
    }),
    ("with MERGE for PATCH, or PATCH for MERGE", |attempt, _| {
        attempt.method = match attempt.method.as_str() {
            "MERGE" => "PATCH".to_owned(),
            "PATCH" => "MERGE".to_owned(),
            other => other.to_owned(),
        };
    }),
    ("with a line feed at the end", |attempt, _| attempt.end = "\n"),
];

/// A mistake in the lines of a token's string to sign; it knows account and table.
type SasMistake = Mistake<fn(&mut Vec<String>, &str, &str)>;

/// In the string to sign of a token for a table the resource is the fourth line.
const TABLE_SAS_MISTAKES: &[SasMistake] = &[
    ("with the table's name as tn spells it, where it is in lower case", |lines, _, table| {
        edit(lines, 3, |resource| {
            let before = resource.strip_suffix(&table.to_ascii_lowercase()).unwrap_or(resource);
            *resource = format!("{before}{table}");
        });
    }),
    ("without /table before the resource", |lines, _, _| {
        edit(lines, 3, |resource| {
            *resource = resource.strip_prefix("/table").unwrap_or(resource).to_owned();
        });
    }),
    ("with /table before the resource", |lines, _, _| {
        edit(lines, 3, |resource| resource.insert_str(0, "/table"));
    }),
    ("with the account twice in the resource", |lines, account, table| {
        let table = table.to_ascii_lowercase();
        edit(lines, 3, |resource| *resource = format!("/table/{account}/{account}/{table}"));
    }),
    ("without the lines of sip and spr", |lines, _, _| {
        let after = lines.split_off(lines.len().min(5));
        lines.extend(after.into_iter().skip(2));
    }),
    ("without the lines of the key range", |lines, _, _| {
        lines.truncate(lines.len().saturating_sub(4));
    }),
    ("with values percent-encoded", |lines, _, _| lines.iter_mut().for_each(encode)),
    ("with a line feed at the end", |lines, _, _| lines.push(String::new())),
];

const ACCOUNT_SAS_MISTAKES: &[SasMistake] = &[
    ("without the line feed at the end", |lines, _, _| drop(lines.pop())),
    ("without the line of ses", |lines, _, _| {
        lines.truncate(9);
        lines.push(String::new());
    }),
    ("with a line for ses, which older versions do not have", |lines, _, _| {
        lines.push(String::new());
    }),
    ("with values percent-encoded", |lines, _, _| lines.iter_mut().for_each(encode)),
];

fn edit(lines: &mut [String], index: usize, make: impl FnOnce(&mut String)) {
    if let Some(line) = lines.get_mut(index) {
        make(line);
    }
}

/// The resource is no value.
fn encode(line: &mut String) {
    if line.starts_with('/') {
        return;
    }
    let mut out = Vec::new();
    percent_encode(&mut out, line);
    *line = String::from_utf8(out).unwrap_or_default();
}

impl Attempt {
    fn new(request: &SignedRequest<'_>, scheme: Scheme) -> Self {
        Self {
            scheme,
            method: request.method.to_owned(),
            content_md5: request.content_md5.to_owned(),
            content_type: request.content_type.to_owned(),
            date: request.date.to_owned(),
            path: request.path.to_owned(),
            comp: request.comp.map(str::to_owned),
            end: "",
        }
    }

    fn text(&self, account: &str) -> String {
        let request = SignedRequest {
            method: &self.method,
            content_md5: &self.content_md5,
            content_type: &self.content_type,
            date: &self.date,
            account,
            path: &self.path,
            comp: self.comp.as_deref(),
        };
        let text = request.string_to_sign(self.scheme).concat();
        format!("{}{}", String::from_utf8_lossy(&text), self.end)
    }
}

/// Looks for the mistake, or the key, with which the signature fits.
fn mismatch(
    server: &str,
    attempts: impl Iterator<Item = (String, String)>,
    tried: impl Iterator<Item = &'static str>,
    signature: &str,
    keys: &Keyring<'_>,
) -> String {
    let account = &keys.account.name;
    let mut text = format!(
        "The signature is not that of a key of the account '{account}'.\n\
         The server's string to sign is {server:?}."
    );
    let Some(signature) = Signature::parse(signature) else {
        text.push_str("\nThe signature is not base64 of 32 bytes.");
        return text;
    };
    if let Some(other) = keys.other_signer(server, &signature) {
        let _ = write!(text, "\nThe client signed the same with a key of the account '{other}'.");
        return text;
    }
    for (how, client) in attempts {
        if client != server && keys.signed(&client, &signature) {
            let _ = write!(text, "\nThe client signed {client:?}: {how}.");
            text.push_str(&difference(server, &client));
            return text;
        }
    }
    let _ = write!(
        text,
        "\nNo mistake that was tried fits, so the key may be another. Tried were strings {}; other \
         accounts' keys; and pairs of these.",
        tried.collect::<Vec<_>>().join("; ")
    );
    text
}

fn difference(server: &str, client: &str) -> String {
    let same =
        server.bytes().zip(client.bytes()).take_while(|(ours, theirs)| ours == theirs).count();
    let excerpt = |text: &str| {
        let at = (0..=same).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        let rest = text.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return "nothing".to_owned();
        }
        format!("{:?}", rest.chars().take(EXCERPT_CHARS).collect::<String>())
    };
    let (ours, theirs) = (excerpt(server), excerpt(client));
    format!("\nThey differ from byte {same} on: the server has {ours}, the client {theirs}.")
}

/// An error as a sentence, without its full stop.
pub(crate) fn sentence(error: SasError) -> String {
    let text = error.to_string();
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

impl Keyring<'_> {
    fn signed(&self, text: &str, signature: &Signature) -> bool {
        self.account.keys.iter().any(|key| key.verify(&[text.as_bytes()], signature))
    }

    /// The name of another account whose key signed.
    fn other_signer(&self, text: &str, signature: &Signature) -> Option<&str> {
        let others = self.all.iter().filter(|other| other.name != self.account.name);
        let signed = |other: &&Arc<Account>| {
            other.keys.iter().any(|key| key.verify(&[text.as_bytes()], signature))
        };
        others.take(OTHER_ACCOUNTS_MAX).find(signed).map(|other| other.name.as_str())
    }
}

#[cfg(test)]
mod tests;
