//! URLs of the Table service: percent-decoding, query parameters, and the URIs we emit.
//!
//! A path is kept as sent for signatures, decoded exactly once for everything else (T-1.20), and
//! then parsed as a [`ResourcePath`].

mod path;
mod predicate;

pub use lazuli_model::Location;
pub use path::{PathError, ResourcePath};
pub use predicate::{PredicateError, parse_key_predicate};

use crate::words::{ascii, equal, find_byte, plain_prefix};
use memchr::memchr2;
use std::borrow::Cow;

/// Maximum query parameters of one request. Our own limit: the service documents none.
pub const QUERY_PARAMETERS_MAX: usize = 128;

/// Why the text of a URL cannot be parsed: `RequestUrlFailedToParse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    #[error("a percent sign is not followed by two hexadecimal digits")]
    BadEscape,
    #[error("the escaped bytes are not UTF-8")]
    NotUtf8,
    #[error("the query has more than {QUERY_PARAMETERS_MAX} parameters")]
    TooManyParameters,
}

/// Decodes the escapes of a path once; `+` stays a plus sign (T-1.20, T-1.22, T-1.23).
pub fn percent_decode(text: &str) -> Result<Cow<'_, str>, UriError> {
    if find_byte(b'%', text.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(text));
    }
    decode(text, Mode::STRICT).map(Cow::Owned)
}

/// Decodes leniently: a percent sign that begins no escape stays, and a text whose escapes are not
/// UTF-8 is unchanged. Old clients send such URIs inside batches (T-6.9).
pub fn percent_decode_lenient(text: &str) -> Cow<'_, str> {
    if find_byte(b'%', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    decode(text, Mode::LENIENT).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The parameters of a query string, decoded, in the order sent.
#[derive(Clone, Debug, Default)]
pub struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Parses the text after the question mark. `+` is a space, `%2B` a plus sign (T-1.32).
    pub fn parse(text: &'a str) -> Result<Self, UriError> {
        Self::parse_with(text, Mode::STRICT)
    }

    /// Like [`Query::parse`], but text that does not decode is unchanged (T-6.9).
    pub fn parse_lenient(text: &'a str) -> Result<Self, UriError> {
        Self::parse_with(text, Mode::LENIENT)
    }

    /// The value of the parameter with exactly this name (T-1.33); the first one if sent twice.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(key, value)| (key == name).then_some(value))
    }

    /// The value of the parameter with this name in any case; the first one if sent twice.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
    }

    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    fn parse_with(text: &'a str, mode: Mode) -> Result<Self, UriError> {
        let mode = Mode { plus_is_space: true, ..mode };
        let mut parameters = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            if parameters.len() == QUERY_PARAMETERS_MAX {
                return Err(UriError::TooManyParameters);
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.push((decode_parameter(name, mode)?, decode_parameter(value, mode)?));
        }
        Ok(Self(parameters))
    }
}

/// The path and query of a request target: an absolute URI, an absolute path or a relative
/// reference. Scheme and host are ignored (T-6.6, T-6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Still encoded, as sent; without a leading slash in a relative reference.
    pub path: &'a str,
    pub query: Option<&'a str>,
}

impl<'a> Target<'a> {
    pub fn parse(text: &'a str) -> Self {
        let after_authority = after_scheme(text).map_or(text, |rest| {
            let ends = |word| ascii(word, equal(word, b'/') | equal(word, b'?'));
            rest.get(plain_prefix(rest.as_bytes(), ends)..).unwrap_or_default()
        });
        let question = find_byte(b'?', after_authority.as_bytes());
        match question.and_then(|at| after_authority.split_at_checked(at)) {
            Some((path, query)) => Self { path, query: query.strip_prefix('?') },
            None => Self { path: after_authority, query: None },
        }
    }

    /// The host and port of an absolute URI.
    pub fn authority(text: &'a str) -> Option<&'a str> {
        after_scheme(text)?.split(['/', '?']).next()
    }
}

/// What follows `scheme://`; `None` if the text does not begin that way.
fn after_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_at_checked(find_byte(b':', text.as_bytes())?)?;
    let is_scheme = scheme.bytes().all(|b| b.is_ascii_alphanumeric());
    rest.strip_prefix("://").filter(|_| is_scheme)
}

/// The suffix of the secondary location in a DNS label or a path segment (T-1.3).
pub const SECONDARY: &str = "-secondary";

/// Splits the location off a DNS label or path segment that names an account (T-1.3).
pub fn split_location(label: &str) -> (&str, Location) {
    match label.strip_suffix(SECONDARY) {
        Some(account) => (account, Location::Secondary),
        None => (label, Location::Primary),
    }
}

/// Splits a path-style path into its account segment and the rest, which is empty or begins with a
/// slash. The segment is empty in `/`.
pub fn split_account(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('/').unwrap_or(path);
    let end = find_byte(b'/', path.as_bytes()).unwrap_or(path.len());
    path.split_at_checked(end).unwrap_or((path, ""))
}

/// Removes from `rest`, the path after the account's segment, further segments that name the
/// account.
///
/// The Python library, and therefore `az`, replaces the host of a URL with host and account segment
/// when it switches to the other location: `/acct/Tables` becomes `/acct-secondary/acct/Tables`,
/// and on the way back `/acct/acct-secondary/acct/Tables`. A table name cannot contain a hyphen;
/// the account's own name is removed only after such a segment and before a slash, because a table
/// may have the same name.
pub fn without_repeated_account<'a>(rest: &'a str, account: &str, location: Location) -> &'a str {
    let after_segment = |rest: &'a str, mark: &str| {
        let after = rest.strip_prefix('/')?.strip_prefix(account)?.strip_prefix(mark)?;
        after.starts_with('/').then_some(after)
    };
    let mut rest = rest;
    let mut after_secondary = location == Location::Secondary;
    // Ends: each round makes `rest` shorter.
    loop {
        rest = match (after_segment(rest, SECONDARY), after_segment(rest, "")) {
            (Some(after), _) => {
                after_secondary = true;
                after
            }
            (None, Some(after)) if after_secondary => {
                after_secondary = false;
                after
            }
            _ => return rest,
        };
    }
}

/// Appends `Table(PartitionKey='..',RowKey='..')`, encoded as in Location and odata.id (T-1.28,
/// T-1.30).
pub fn write_entity_uri(out: &mut Vec<u8>, table: &str, partition_key: &str, row_key: &str) {
    out.extend_from_slice(table.as_bytes());
    out.extend_from_slice(b"(PartitionKey='");
    write_key(out, partition_key);
    out.extend_from_slice(b"',RowKey='");
    write_key(out, row_key);
    out.extend_from_slice(b"')");
}

/// Appends `Tables('..')`.
pub fn write_table_uri(out: &mut Vec<u8>, table: &str) {
    out.extend_from_slice(b"Tables('");
    write_key(out, table);
    out.extend_from_slice(b"')");
}

/// Appends `text` with everything except unreserved characters escaped, as a parameter value needs.
pub fn percent_encode(out: &mut Vec<u8>, text: &str) {
    text.bytes().for_each(|byte| write_escaped(out, byte));
}

/// Appends the name of a blob: slashes stay, everything else except unreserved characters is escaped. The dots
/// of a segment `.` or `..` are escaped too; otherwise a proxy would remove the segment (C-17.5).
pub fn write_blob_path(out: &mut Vec<u8>, name: &str) {
    for (index, segment) in name.split('/').enumerate() {
        if index > 0 {
            out.push(b'/');
        }
        match segment {
            "." => out.extend_from_slice(b"%2E"),
            ".." => out.extend_from_slice(b"%2E%2E"),
            _ => percent_encode(out, segment),
        }
    }
}

/// Quotes are doubled and not escaped; all other characters except unreserved ones are escaped.
fn write_key(out: &mut Vec<u8>, key: &str) {
    if key.bytes().all(is_unreserved) {
        return out.extend_from_slice(key.as_bytes());
    }
    for byte in key.bytes() {
        match byte {
            b'\'' => out.extend_from_slice(b"''"),
            _ => write_escaped(out, byte),
        }
    }
}

fn write_escaped(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or_default();
    match is_unreserved(byte) {
        true => out.push(byte),
        false => out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]),
    }
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~')
}

#[derive(Clone, Copy)]
struct Mode {
    plus_is_space: bool,
    lenient: bool,
}

impl Mode {
    const STRICT: Self = Self { plus_is_space: false, lenient: false };
    const LENIENT: Self = Self { plus_is_space: false, lenient: true };
}

fn decode_parameter(text: &str, mode: Mode) -> Result<Cow<'_, str>, UriError> {
    if memchr2(b'%', b'+', text.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(text));
    }
    match decode(text, mode) {
        Err(UriError::NotUtf8) if mode.lenient => Ok(Cow::Borrowed(text)),
        decoded => decoded.map(Cow::Owned),
    }
}

fn decode(text: &str, mode: Mode) -> Result<String, UriError> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'%' => match escaped_byte(tail) {
                Some((value, after)) => {
                    out.push(value);
                    rest = after;
                }
                None if mode.lenient => out.push(b'%'),
                None => return Err(UriError::BadEscape),
            },
            b'+' if mode.plus_is_space => out.push(b' '),
            other => out.push(other),
        }
    }
    String::from_utf8(out).map_err(|_| UriError::NotUtf8)
}

/// The byte given by two hexadecimal digits at the front of `text`, and the rest.
pub(crate) fn escaped_byte(text: &[u8]) -> Option<(u8, &[u8])> {
    let (&[high, low], rest) = text.split_first_chunk()?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = digit(high)? * 16 + digit(low)?;
    Some((u8::try_from(value).ok()?, rest))
}

#[cfg(test)]
mod tests;
