//! Common mistakes of clients that sign for the Table service.

use crate::auth::credentials::Presented;
use crate::auth::explain::{Mistake, SasMistake, delegated, edit, encode, mismatch, token};
use crate::auth::keyring::Keyring;
use lazuli_wire::sas::{TableSas, UserDelegationSas};
use lazuli_wire::shared_key::{Scheme, SignedRequest};
use lazuli_wire::uri::percent_decode_lenient;

/// Explains a Shared Key signature that does not match `request`.
pub(crate) fn shared_key(
    request: &SignedRequest<'_>,
    scheme: Scheme,
    signature: &str,
    presented: &Presented<'_>,
    keys: &Keyring<'_>,
) -> String {
    let facts = Facts { account: request.account, presented };
    let signed = |made: &[&SharedKeyMake]| {
        let mut attempt = Attempt::new(request, scheme);
        made.iter().for_each(|make| make(&mut attempt, &facts));
        attempt.text(request.account)
    };
    mismatch(SHARED_KEY_MISTAKES, signed, signature, keys)
}

/// Explains the signature of a token for a table.
pub(crate) fn table_sas(sas: &TableSas<'_>, keys: &Keyring<'_>) -> String {
    let text = sas.string_to_sign(keys.account.name.as_str());
    token(text, TABLE_SAS_MISTAKES, sas.table, sas.signature, keys)
}

/// Explains the signature of a token that a user delegation key should have signed.
pub(crate) fn user_delegation_sas(sas: &UserDelegationSas<'_>, keys: &Keyring<'_>) -> String {
    delegated(sas.string_to_sign(keys.account.name.as_str()))
}

/// A string that a client may have signed, with its parts.
struct Attempt {
    scheme: Scheme,
    method: String,
    content_md5: String,
    content_type: String,
    date: String,
    path: String,
    comp: Option<String>,
    /// What follows the string to sign.
    end: &'static str,
}

/// The parts of the request that a mistake may use.
struct Facts<'a> {
    account: &'a str,
    presented: &'a Presented<'a>,
}

type SharedKeyMake = fn(&mut Attempt, &Facts<'_>);

const SHARED_KEY_MISTAKES: &[Mistake<SharedKeyMake>] = &[
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

/// In a table token's string to sign, the resource is the fourth line.
const TABLE_SAS_MISTAKES: &[SasMistake] = &[
    ("with the table name as in tn instead of in lower case", |lines, _, table| {
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

#[cfg(test)]
mod tests;
