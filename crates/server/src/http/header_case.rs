//! Keeps the case of metadata names, which hyper loses.
//!
//! Header names are case-insensitive, and hyper reads and writes them in lower case. But metadata names
//! come from the client, and must keep the case of their creation. So the stream below
//! hyper notes how the names in a request head are spelled, and spells those in a response head as they
//! were stored.

use crate::http::guarded::Guard;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The prefix of metadata headers.
pub(crate) const METADATA: &str = "x-ms-meta-";

/// Bytes of a header line that are kept: enough to include the name.
const LINE_BYTES_MAX: usize = 1024;

/// Names of metadata headers that are not all lower-case, without [`METADATA`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spellings(Vec<String>);

impl Spellings {
    /// Notes a name, unless it is all lower-case.
    pub(crate) fn add(&mut self, name: &str) {
        if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            self.0.push(name.to_owned());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The original spelling of a lower-case name.
    pub(crate) fn of<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.iter().find(|spelled| spelled.eq_ignore_ascii_case(name)).map_or(name, |name| name)
    }

    /// The head of a response with its names respelled; `None` if `bytes` contain no such name.
    fn respell(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut respelled: Option<Vec<u8>> = None;
        let mut start = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if line == b"\r\n" {
                break;
            }
            if let Some(name) = metadata_name(line) {
                let at = start + METADATA.len();
                let spelled = self.of(name);
                let out = respelled.get_or_insert_with(|| bytes.to_vec());
                if let Some(place) = out.get_mut(at..at + spelled.len()) {
                    place.copy_from_slice(spelled.as_bytes());
                }
            }
            start += line.len();
        }
        respelled
    }
}

/// The name in a header line, if it is a metadata header.
fn metadata_name(line: &[u8]) -> Option<&str> {
    let (prefix, rest) = line.split_at_checked(METADATA.len())?;
    if !prefix.eq_ignore_ascii_case(METADATA.as_bytes()) {
        return None;
    }
    let (name, _) = rest.split_at(rest.iter().position(|byte| *byte == b':')?);
    std::str::from_utf8(name).ok()
}

/// The spellings of a connection's current request and response.
#[derive(Debug, Default)]
pub(crate) struct HeaderCase(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether what is read belongs to a body, or to a request that the client pipelined too early: the
    /// names of the latter stay in lower case.
    is_busy: bool,
    /// The start of the line being read.
    line: Vec<u8>,
    /// Whether the head has begun.
    has_lines: bool,
    request: Spellings,
    response: Spellings,
}

impl HeaderCase {
    /// The spellings of the request that was just read.
    pub(crate) fn of_request(&self) -> Spellings {
        let mut state = self.state();
        state.is_busy = true;
        std::mem::take(&mut state.request)
    }

    /// Sets the spellings of its response, and allows the next head.
    pub(crate) fn respond(&self, spellings: Spellings) {
        *self.state() = State { response: spellings, ..State::default() };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn read(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !self.is_busy && !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest);
            let (piece, after) = rest.split_at(end.map_or(rest.len(), |at| at + 1));
            rest = after;
            // Nearly every line arrives whole.
            if self.line.is_empty() && end.is_some() {
                self.end_line(piece);
                continue;
            }
            let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(piece.get(..room).unwrap_or(piece));
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                self.end_line(&line);
            }
        }
    }

    fn end_line(&mut self, line: &[u8]) {
        let is_empty = matches!(line, b"\r\n" | b"\n");
        // Empty lines may precede a head.
        self.is_busy = is_empty && self.has_lines;
        self.has_lines |= !is_empty;
        if let Some(name) = metadata_name(line) {
            self.request.add(name);
        }
    }
}

/// A connection without metadata needs no guard.
impl Guard for Option<&HeaderCase> {
    fn read(&self, bytes: &[u8]) {
        if let Some(case) = self {
            case.state().read(bytes);
        }
    }

    /// Respells the names of a response.
    fn replace(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut state = self.as_ref()?.state();
        if state.response.is_empty() {
            return None;
        }
        let respelled = state.response.respell(bytes)?;
        state.response = Spellings::default();
        Some(respelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::guarded::Guarded;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn spellings(names: &[&str]) -> Spellings {
        let mut spellings = Spellings::default();
        names.iter().for_each(|name| spellings.add(name));
        spellings
    }

    /// The spellings noted of a request that arrives in pieces of `size` bytes.
    fn noted(case: &HeaderCase, request: &str, size: usize) -> Spellings {
        request.as_bytes().chunks(size).for_each(|piece| case.state().read(piece));
        case.of_request()
    }

    #[test]
    fn names_of_a_head_are_noted_and_those_of_a_body_are_not() {
        let request = "\r\nPUT /orders HTTP/1.1\r\nHost: a\r\nX-MS-Meta-Color: x-ms-meta-Value\r\n\
                       x-ms-meta-plain: 1\r\nx-ms-metaOther: 1\r\nx-ms-meta-lastName:\r\n\r\n\
                       x-ms-meta-Body: 1\r\n";
        for size in [1, 2, 7, 1000] {
            let case = HeaderCase::default();
            for _ in 0..2 {
                let names = noted(&case, request, size);
                assert_eq!(names, spellings(&["Color", "lastName"]));
                assert_eq!((names.of("color"), names.of("plain")), ("Color", "plain"));
                case.state().read(b"more of the body\nx-ms-meta-Later: 1\n");
                case.respond(Spellings::default());
            }
        }
    }

    #[test]
    fn long_lines_are_passed_over() {
        let long = "x".repeat(5000);
        let request = format!(
            "GET / HTTP/1.1\r\na: {long}\r\nx-ms-meta-{long}A: 1\r\n\
                               x-ms-meta-A: {long}\r\n\r\n"
        );
        assert_eq!(noted(&HeaderCase::default(), &request, 100), spellings(&["A"]));
    }

    /// What the peer receives of `texts`, through a pipe of a few bytes.
    async fn sent(case: &HeaderCase, texts: &[&str]) -> String {
        let (near, mut far) = tokio::io::duplex(7);
        let mut read = String::new();
        let write = async {
            let mut guard = Guarded::new(near, Some(case));
            for text in texts {
                guard.write_all(text.as_bytes()).await.unwrap();
            }
            guard.shutdown().await.unwrap();
        };
        let (read_all, ()) = tokio::join!(far.read_to_string(&mut read), write);
        read_all.unwrap();
        read
    }

    #[tokio::test]
    async fn names_of_a_response_are_spelled_once() {
        let case = HeaderCase::default();
        case.respond(spellings(&["Color", "LASTNAME"]));
        let head = "HTTP/1.1 200 OK\r\nx-ms-meta-color: x-ms-meta-color\r\nx-ms-meta-a: 1\r\n\
                    x-ms-meta-lastname: b\r\n\r\nx-ms-meta-color: 1\r\n";
        let expect = "HTTP/1.1 200 OK\r\nx-ms-meta-Color: x-ms-meta-color\r\nx-ms-meta-a: 1\r\n\
                      x-ms-meta-LASTNAME: b\r\n\r\nx-ms-meta-color: 1\r\n";
        let twice = [expect, head].concat();
        assert_eq!(sent(&case, &[head, head]).await, twice);
    }
}
