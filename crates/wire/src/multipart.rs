//! Reads and writes batch bodies: `multipart/mixed` texts of HTTP messages.
//!
//! The reader accepts what clients have sent over the years (T-6.9 to T-6.16): stray blank lines,
//! bare line feeds, missing spaces after a colon, preamble and epilogue. Only the delimiters
//! determine the extent of a part; Content-Length is ignored. The writer emits the recorded bytes.

mod split;
mod write;

pub use write::{BatchRequest, BatchWriter};

use crate::words::find_byte;
use lazuli_model::limits::BATCH_OPERATIONS_MAX;
use split::{HeaderReader, split_headers, split_parts, take_line};

/// Maximum bytes of one header block, of a part or of the request in it. Our own limit.
pub const HEADERS_BYTES_MAX: usize = 64 * 1024;
/// Maximum bytes of a boundary. RFC 2046 says 70; we do not enforce that.
const BOUNDARY_BYTES_MAX: usize = 256;
/// One operation more than a change set may contain, so that the surplus can be reported as the
/// service does (T-6.42).
const CHANGES_KEPT_MAX: usize = BATCH_OPERATIONS_MAX + 1;

/// Why a body is not a batch: a plain 400 `InvalidInput` (T-6.19, T-6.51, T-6.56).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultipartError {
    #[error("the body does not end with the closing delimiter of its boundary")]
    Unterminated,
    #[error("a header line has no colon, or is not UTF-8")]
    MalformedHeader,
    #[error("a block of headers is larger than {HEADERS_BYTES_MAX} bytes")]
    HeadersTooLarge,
    #[error("a part is neither a change set nor an HTTP message")]
    UnknownPart,
    #[error("the change set has no boundary")]
    NoBoundary,
    #[error("a request line is not `METHOD target HTTP/1.1`, or is not UTF-8")]
    MalformedRequestLine,
    #[error("a status line is not `HTTP/1.1 status reason`")]
    MalformedStatusLine,
    #[error("the batch holds nothing, not even a change set")]
    Empty,
    #[error("the batch holds more than one change set")]
    SeveralChangeSets,
    #[error("the batch holds more than one query")]
    SeveralQueries,
    #[error("the batch holds a query beside a change set")]
    QueryWithChanges,
    #[error("the operation outside any change set is not a GET")]
    ChangeOutsideChangeSet,
}

/// The content of a batch: changes that succeed or fail together, or one query.
#[derive(Clone, Debug)]
pub enum BatchBody<'a> {
    /// May have one operation more than allowed, never two; or none: the service returns an empty
    /// change set for an empty one.
    ChangeSet(Vec<Part<'a>>),
    Query(Part<'a>),
}

/// A request inside a batch.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub method: &'a str,
    /// As sent: absolute, relative, possibly malformed. See [`crate::uri::Target`].
    pub target: &'a str,
    pub headers: Headers<'a>,
    /// Empty if there is none; leading blank lines are removed (T-6.13).
    pub body: &'a [u8],
}

/// The headers of a message inside a batch, still as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a>(&'a str);

/// A response inside a batch. Usually only its status is needed, so the rest is parsed on demand.
#[derive(Clone, Copy, Debug)]
pub struct ResponsePart<'a> {
    pub status: u16,
    /// What follows the status line.
    rest: &'a [u8],
}

/// The boundary that a Content-Type of `multipart/mixed` names.
pub fn boundary(content_type: &str) -> Option<&str> {
    let (media_type, parameters) = content_type.split_once(';')?;
    if !media_type.trim().eq_ignore_ascii_case("multipart/mixed") {
        return None;
    }
    let value = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then_some(value.trim())
    })?;
    let unquoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let boundary = unquoted.unwrap_or(value);
    (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()).then_some(boundary)
}

/// Parses a batch request: one change set, or one query (T-6.1).
///
/// The caller checks which methods a change set may contain: the service reports a wrong one inside
/// the batch, with its index.
pub fn parse_batch<'a>(body: &'a [u8], boundary: &str) -> Result<BatchBody<'a>, MultipartError> {
    let mut parts = split_parts(body, boundary, 2)?.into_iter().map(BatchPart::parse);
    let first = parts.next().ok_or(MultipartError::Empty)??;
    match (first, parts.next().transpose()?) {
        (BatchPart::ChangeSet(_), Some(BatchPart::ChangeSet(_))) => {
            Err(MultipartError::SeveralChangeSets)
        }
        (BatchPart::Http(_), Some(BatchPart::Http(_))) => Err(MultipartError::SeveralQueries),
        (_, Some(_)) => Err(MultipartError::QueryWithChanges),
        (BatchPart::ChangeSet(parts), None) => {
            let (mut messages, mut http) = (MessageReader::default(), HeaderReader::default());
            let change = |part| Part::parse(messages.message(part)?, &mut http);
            let changes: Result<Vec<_>, _> = parts.into_iter().map(change).collect();
            Ok(BatchBody::ChangeSet(changes?))
        }
        (BatchPart::Http(message), None) => {
            let query = Part::parse(message, &mut HeaderReader::default())?;
            match query.method {
                "GET" => Ok(BatchBody::Query(query)),
                _ => Err(MultipartError::ChangeOutsideChangeSet),
            }
        }
    }
}

/// Whether a batch response shows that all `count` operations were carried out: it has exactly that many status
/// lines, all successful. If false, the response must be parsed to know.
///
/// A value in an entity may look like a status line; then there are more of them than operations.
pub fn is_all_done(body: &[u8], count: usize) -> bool {
    const STATUS: &[u8] = b"\nHTTP/1.1 ";
    let mut lines = 0;
    for at in memchr::memmem::find_iter(body, STATUS) {
        if body.get(at + STATUS.len()) != Some(&b'2') {
            return false;
        }
        lines += 1;
    }
    lines == count
}

/// Parses a batch response: the responses in order, with or without a change set around them.
pub fn parse_batch_response<'a>(
    body: &'a [u8],
    boundary: &str,
) -> Result<Vec<ResponsePart<'a>>, MultipartError> {
    let part = split_parts(body, boundary, 1)?.first().copied().ok_or(MultipartError::Empty)?;
    match BatchPart::parse(part)? {
        BatchPart::Http(message) => Ok(vec![ResponsePart::parse(message)?]),
        BatchPart::ChangeSet(parts) => {
            let mut messages = MessageReader::default();
            let part = |part| ResponsePart::parse(messages.message(part)?);
            parts.into_iter().map(part).collect()
        }
    }
}

impl<'a> Part<'a> {
    /// The value of a header, case-insensitively; the first one if there are several.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.get(name)
    }

    fn parse(message: &'a [u8], reader: &mut HeaderReader<'a>) -> Result<Self, MultipartError> {
        let (line, rest) = take_line(message);
        let line = std::str::from_utf8(line).map_err(|_| MultipartError::MalformedRequestLine)?;
        let (method, target) = request_line(line).ok_or(MultipartError::MalformedRequestLine)?;
        let (headers, body) = reader.split_headers(rest)?;
        Ok(Self { method, target, headers, body })
    }
}

impl<'a> Headers<'a> {
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.split_terminator('\n').find_map(|line| {
            let (key, after) = line.trim_ascii_start().split_at_checked(name.len())?;
            let value = after.trim_ascii_start().strip_prefix(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            loop {
                let end = find_byte(b'\n', rest.as_bytes());
                let (line, after) = rest.split_at_checked(end.map_or(rest.len(), |at| at + 1))?;
                rest = after;
                let colon = find_byte(b':', line.as_bytes());
                if let Some((name, value)) = colon.and_then(|at| line.split_at_checked(at)) {
                    let value = value.strip_prefix(':').unwrap_or(value);
                    return Some((name.trim_ascii(), value.trim_ascii()));
                }
                if rest.is_empty() {
                    return None;
                }
            }
        })
    }
}

impl<'a> ResponsePart<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, MultipartError> {
        let (line, rest) = take_line(message);
        let status = status_line(line).ok_or(MultipartError::MalformedStatusLine)?;
        Ok(Self { status, rest })
    }

    /// Headers and body.
    pub fn split(&self) -> Result<(Headers<'a>, &'a [u8]), MultipartError> {
        split_headers(self.rest)
    }
}

/// A direct child of the batch.
enum BatchPart<'a> {
    ChangeSet(Vec<&'a [u8]>),
    /// The HTTP message it holds.
    Http(&'a [u8]),
}

impl<'a> BatchPart<'a> {
    fn parse(part: &'a [u8]) -> Result<Self, MultipartError> {
        let (headers, content) = split_headers(part)?;
        let content_type = headers.get("Content-Type").unwrap_or_default();
        if is_http(content_type) {
            return Ok(Self::Http(content));
        }
        if !starts_with_ignoring_case(content_type, "multipart/mixed") {
            return Err(MultipartError::UnknownPart);
        }
        let boundary = boundary(content_type).ok_or(MultipartError::NoBoundary)?;
        Ok(Self::ChangeSet(split_parts(content, boundary, CHANGES_KEPT_MAX)?))
    }
}

/// Extracts the messages from successive parts of a change set.
#[derive(Default)]
struct MessageReader<'a> {
    reader: HeaderReader<'a>,
    /// The last headers known to announce a message.
    known: Option<Headers<'a>>,
}

impl<'a> MessageReader<'a> {
    /// The content of a part. Content-Transfer-Encoding may be missing (T-6.16).
    fn message(&mut self, part: &'a [u8]) -> Result<&'a [u8], MultipartError> {
        let (headers, message) = self.reader.split_headers(part)?;
        if self.known != Some(headers) {
            let content_type = headers.get("Content-Type").unwrap_or_default();
            if !is_http(content_type) {
                return Err(MultipartError::UnknownPart);
            }
            self.known = Some(headers);
        }
        Ok(message)
    }
}

fn is_http(content_type: &str) -> bool {
    const HTTP: &str = "application/http";
    let media_type = content_type.split(';').next().unwrap_or_default();
    content_type == HTTP || media_type.trim().eq_ignore_ascii_case(HTTP)
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// Method and target. The target may contain spaces: it ends at the last ` HTTP/1.` (T-6.9).
fn request_line(line: &str) -> Option<(&str, &str)> {
    let (method, rest) = line.split_at_checked(find_byte(b' ', line.as_bytes())?)?;
    let (target, protocol) = rest.trim_ascii().rsplit_once(' ')?;
    let valid = !method.is_empty()
        && method.bytes().all(|b| b.is_ascii_alphabetic())
        && matches!(protocol, "HTTP/1.0" | "HTTP/1.1");
    let target = target.trim_ascii();
    (valid && !target.is_empty()).then_some((method, target))
}

fn status_line(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?;
    let after = line.strip_prefix("HTTP/1.1 ").or_else(|| line.strip_prefix("HTTP/1.0 "))?;
    let digits = after.get(..3)?;
    let ends = after.get(3..).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    let all_digits = digits.bytes().all(|b| b.is_ascii_digit());
    (ends && all_digits).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
