//! Explains to client authors why a credential was refused.
//!
//! The server knows its own string to sign. It cannot know the client's, but it can try common
//! client mistakes: if one of them matches the signature, both strings are known, and so is the
//! first byte in which they differ. The text never contains keys or signatures.

use crate::auth::credentials::Presented;
use crate::auth::keyring::Keyring;
use crate::error::sentence;
use lazuli_model::Timestamp;
use lazuli_wire::sas::{AccountSas, SasError};
use lazuli_wire::shared_key::Signature;
use lazuli_wire::uri::percent_encode;
use std::fmt::Write as _;

/// Maximum bytes of an explanation in a header.
const HEADER_BYTES_MAX: usize = 2048;
/// Characters shown, starting at the first difference.
const EXCERPT_CHARS: usize = 24;

/// Explains a date that is too far from the server's, or that cannot be read.
pub(crate) fn date(text: &str, now: Timestamp, seconds_max: u64) -> String {
    if text.is_empty() {
        return "The request has neither an x-ms-date nor a Date header.".to_owned();
    }
    let Some(date) = Timestamp::parse_rfc1123(text) else {
        return format!("The date '{text}' is not in the format of '{}'.", now.rfc1123());
    };
    let apart = date.millis_since(now).max(now.millis_since(date)) / 1000;
    format!(
        "The request is dated {date}, the server's clock says {now}: {apart} seconds apart, \
         but only {seconds_max} are allowed."
    )
}

/// Explains why a token does not authorize `presented`; `None` if its signature is wrong.
pub(crate) fn sas_error(error: SasError, presented: &Presented<'_>) -> Option<String> {
    match error {
        SasError::Signature => None,
        SasError::NotStarted(_) | SasError::Expired(_) => {
            Some(format!("{}; the time is {}.", sentence(error), presented.caller.now))
        }
        SasError::SourceIp => Some(format!("{}: {}.", sentence(error), presented.caller.address)),
        error => Some(format!("{}.", sentence(error))),
    }
}

/// Explains the signature of a token for the account.
pub(crate) fn account_sas(sas: &AccountSas<'_>, keys: &Keyring<'_>) -> String {
    let text = sas.string_to_sign(keys.account.name.as_str());
    token(text, ACCOUNT_SAS_MISTAKES, "", sas.signature, keys)
}

/// Explains the signature of a token for `resource` whose string to sign is `text`.
pub(crate) fn token(
    text: Result<String, SasError>,
    mistakes: &[SasMistake],
    resource: &str,
    signature: &str,
    keys: &Keyring<'_>,
) -> String {
    let text = match text {
        Ok(text) => text,
        Err(error) => return format!("{}.", sentence(error)),
    };
    let signed = |made: &[&SasMake]| {
        let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        made.iter().for_each(|make| make(&mut lines, keys.account.name.as_str(), resource));
        lines.join("\n")
    };
    mismatch(mistakes, signed, signature, keys)
}

/// Explains a token that a user delegation key should have signed, given its string to sign.
pub(crate) fn delegated(text: Result<String, SasError>) -> String {
    let nobody = "No user delegation key of this account signed the token.";
    match text {
        Ok(text) => format!("{nobody}\nThe server's string to sign is {text:?}."),
        Err(error) => format!("{nobody} {}.", sentence(error)),
    }
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

/// A mistake: its description, and a function that reproduces it.
pub(crate) type Mistake<F> = (&'static str, F);

/// A mistake in the lines of a token's string to sign, given the account and the resource.
pub(crate) type SasMistake = Mistake<SasMake>;

type SasMake = fn(&mut Vec<String>, &str, &str);

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

pub(crate) fn edit(lines: &mut [String], index: usize, make: impl FnOnce(&mut String)) {
    if let Some(line) = lines.get_mut(index) {
        make(line);
    }
}

/// Percent-encodes a value. The resource, which begins with a slash, is unchanged.
pub(crate) fn encode(line: &mut String) {
    if line.starts_with('/') {
        return;
    }
    let mut out = Vec::new();
    percent_encode(&mut out, line);
    *line = String::from_utf8(out).unwrap_or_default();
}

/// Looks for the mistake, the two mistakes, or the key that match the signature. `signed` is the string
/// that a client signs who makes these mistakes.
pub(crate) fn mismatch<F>(
    mistakes: &[Mistake<F>],
    signed: impl Fn(&[&F]) -> String,
    signature: &str,
    keys: &Keyring<'_>,
) -> String {
    let server = signed(&[]);
    let account = &keys.account.name;
    let mut text = format!(
        "No key of the account '{account}' made this signature.\n\
         The server's string to sign is {server:?}."
    );
    let Some(signature) = Signature::parse(signature) else {
        text.push_str("\nThe signature is not base64 of 32 bytes.");
        return text;
    };
    if let Some(other) = keys.other_signer(&server, &signature) {
        let _ = write!(
            text,
            "\nThe client signed the same string with a key of the account '{other}'."
        );
        return text;
    }
    let singles = mistakes.iter().map(|(name, make)| ((*name).to_owned(), signed(&[make])));
    let pairs = mistakes.iter().enumerate().flat_map(|(at, (name, make))| {
        let others = mistakes.iter().skip(at + 1);
        let signed = &signed;
        others.map(move |(other, made)| (format!("{name} and {other}"), signed(&[make, made])))
    });
    for (how, client) in singles.chain(pairs) {
        if client != server && keys.signed(&client, &signature) {
            let _ = write!(text, "\nThe client signed {client:?}: {how}.");
            text.push_str(&difference(&server, &client));
            return text;
        }
    }
    let tried: Vec<_> = mistakes.iter().map(|(name, _)| *name).collect();
    let _ = write!(
        text,
        "\nNo known mistake matches, so the key may be wrong. Tried strings {}; pairs of these; and \
         other accounts' keys.",
        tried.join("; ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_shown_with_the_servers() {
        const DATE: &str = "Thu, 09 Dec 2021 00:23:06 GMT";
        let at = |text| date(text, Timestamp::parse_rfc1123(DATE).unwrap(), 900);
        assert_eq!(at(""), "The request has neither an x-ms-date nor a Date header.");
        assert_eq!(at("today"), format!("The date 'today' is not in the format of '{DATE}'."));
        assert_eq!(
            at("Thu, 09 Dec 2021 01:23:06 GMT"),
            "The request is dated 2021-12-09T01:23:06Z, the server's clock says \
             2021-12-09T00:23:06Z: 3600 seconds apart, but only 900 are allowed."
        );
    }

    #[test]
    fn a_header_holds_one_line_of_ascii_and_not_too_much() {
        assert_eq!(header_text("a\nb é\u{7}"), "a | b \\u{e9}\\u{7}");
        assert!(header_text(&"é".repeat(5000)).len() < HEADER_BYTES_MAX + 16);
    }
}
