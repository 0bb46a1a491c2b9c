//! The framing of responses: status, length, continuation; nothing else is parsed.

use crate::request::encoded;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read};

/// Initial buffer size; most responses fit.
const BUFFER_BYTES: usize = 16 * 1024;
/// No response of the service is larger.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
const HEADERS_MAX: usize = 64;

/// Receives responses one after another into a reused buffer.
#[derive(Debug)]
pub(crate) struct Receiver {
    buffer: Vec<u8>,
    filled: usize,
    head: Option<Head>,
}

#[derive(Debug)]
struct Head {
    status: u16,
    body_start: usize,
    framing: Framing,
    /// What to add to the query to continue, such as `&NextPartitionKey=1!4!cA--`; empty at the
    /// end.
    continuation: String,
}

#[derive(Debug)]
enum Framing {
    /// The response ends here.
    Length(usize),
    /// The next chunk begins here, and the reassembled body ends here.
    Chunked { next: usize, body_end: usize },
}

/// A complete response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    /// Status line and headers.
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) continuation: &'a str,
}

impl Default for Receiver {
    fn default() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], filled: 0, head: None }
    }
}

impl Receiver {
    /// Reads what is available. True if the response is complete; false if more must come.
    pub(crate) fn receive(&mut self, stream: &mut impl Read) -> io::Result<bool> {
        loop {
            let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
            let room_bytes = room.len();
            let read = match stream.read(room) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.filled += read;
            if self.advance()? {
                return Ok(true);
            }
            // A short read has taken everything available; an event announces the next bytes.
            if read < room_bytes {
                return Ok(false);
            }
            self.grow()?;
        }
    }

    /// The response that [`Self::receive`] completed.
    pub(crate) fn answer(&self) -> Option<Answer<'_>> {
        let head = self.head.as_ref()?;
        let end = match head.framing {
            Framing::Length(end) => end,
            Framing::Chunked { body_end, .. } => body_end,
        };
        Some(Answer {
            status: head.status,
            head: self.buffer.get(..head.body_start)?,
            body: self.buffer.get(head.body_start..end)?,
            continuation: &head.continuation,
        })
    }

    /// Prepares for the next response.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
        self.head = None;
    }

    /// Parses what has arrived. True if the response is complete.
    fn advance(&mut self) -> io::Result<bool> {
        let received = self.buffer.get_mut(..self.filled).unwrap_or_default();
        if self.head.is_none() {
            self.head = parse_head(received)?;
        }
        match self.head.as_mut().map(|head| &mut head.framing) {
            None => Ok(false),
            Some(Framing::Length(end)) if self.filled > *end => Err(malformed("answer's length")),
            Some(Framing::Length(end)) => Ok(self.filled == *end),
            Some(Framing::Chunked { next, body_end }) => take_chunks(received, next, body_end),
        }
    }

    /// Grows the buffer to the known length, or doubles it.
    fn grow(&mut self) -> io::Result<()> {
        let wanted = match self.head.as_ref().map(|head| &head.framing) {
            Some(Framing::Length(end)) => *end,
            _ => self.buffer.len() * 2,
        };
        if wanted > ANSWER_BYTES_MAX {
            return Err(malformed("answer's size"));
        }
        self.buffer.resize(wanted.max(self.buffer.len()), 0);
        Ok(())
    }
}

/// `None` if the head is not complete yet.
fn parse_head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|_| malformed("head"))?;
    let httparse::Status::Complete(body_start) = parsed else {
        return Ok(None);
    };
    let status = response.code.unwrap_or_default();
    let mut framing = Framing::Length(body_start);
    let mut continuation = String::new();
    for header in response.headers {
        let value = std::str::from_utf8(header.value).map_err(|_| malformed("header"))?;
        if header.name.eq_ignore_ascii_case("content-length") {
            let length: usize = value.parse().map_err(|_| malformed("length"))?;
            framing = Framing::Length(body_start.saturating_add(length));
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            framing = Framing::Chunked { next: body_start, body_end: body_start };
        } else if header.name.eq_ignore_ascii_case("x-ms-continuation-nextpartitionkey") {
            let _ = write!(continuation, "&NextPartitionKey={}", encoded(value));
        } else if header.name.eq_ignore_ascii_case("x-ms-continuation-nextrowkey") {
            let _ = write!(continuation, "&NextRowKey={}", encoded(value));
        }
    }
    // These have no body, whatever the headers say.
    if matches!(status, 204 | 304) {
        framing = Framing::Length(body_start);
    }
    Ok(Some(Head { status, body_start, framing, continuation }))
}

/// Joins the content of complete chunks. True after the last one.
fn take_chunks(bytes: &mut [u8], next: &mut usize, body_end: &mut usize) -> io::Result<bool> {
    loop {
        let rest = bytes.get(*next..).unwrap_or_default();
        let (size_line, size) = match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete((line, size))) => (line, size as usize),
            Ok(httparse::Status::Partial) => return Ok(false),
            Err(_) => return Err(malformed("chunk")),
        };
        let start = *next + size_line;
        let end = start.saturating_add(size);
        // The content is followed by an empty line; the last chunk has none, and no trailers come.
        if bytes.len() < end.saturating_add(2) {
            return Ok(false);
        }
        bytes.copy_within(start..end, *body_end);
        *body_end += size;
        *next = end + 2;
        if size == 0 {
            return Ok(true);
        }
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("malformed {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delivers `pieces` one by one, and nothing between them.
    struct Pieces<'a>(Vec<&'a [u8]>);

    impl Read for Pieces<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let Some(piece) = self.0.first_mut() else {
                return Err(ErrorKind::WouldBlock.into());
            };
            let taken = piece.len().min(out.len());
            out[..taken].copy_from_slice(&piece[..taken]);
            *piece = &piece[taken..];
            if piece.is_empty() {
                self.0.remove(0);
            }
            Ok(taken)
        }
    }

    /// Whatever the pieces, the response is the same.
    #[track_caller]
    fn check(text: &str, status: u16, body: &str, continuation: &str) {
        for size in [1, 2, 7, text.len()] {
            let mut stream = Pieces(text.as_bytes().chunks(size).collect());
            let mut receiver = Receiver::default();
            let mut complete = false;
            while !complete && !stream.0.is_empty() {
                complete = receiver.receive(&mut stream).unwrap();
            }
            assert!(complete, "complete in pieces of {size}");
            let answer = receiver.answer().unwrap();
            assert_eq!(answer.status, status);
            assert_eq!(answer.body, body.as_bytes());
            assert_eq!(answer.continuation, continuation);
        }
    }

    #[test]
    fn a_body_of_known_length() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", "");
    }

    #[test]
    fn a_body_in_chunks() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                    3\r\nhel\r\na\r\nlo, worlds\r\n0\r\n\r\n";
        check(text, 200, "hello, worlds", "");
    }

    #[test]
    fn no_content_has_no_body() {
        check("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 204, "", "");
        check("HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n", 204, "", "");
    }

    #[test]
    fn a_continuation_is_ready_for_the_next_query() {
        let text = "HTTP/1.1 200 OK\r\nx-ms-continuation-NextPartitionKey: 1!4!cA--\r\n\
                    X-MS-Continuation-NextRowKey: 1!4!c+8=\r\nContent-Length: 0\r\n\r\n";
        check(text, 200, "", "&NextPartitionKey=1%214%21cA%2D%2D&NextRowKey=1%214%21c%2B8%3D");
    }

    #[test]
    fn a_large_body_grows_the_buffer() {
        let body = "x".repeat(3 * BUFFER_BYTES);
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        check(&text, 200, &body, "");
    }

    #[test]
    fn the_end_of_the_connection_is_an_error() {
        let mut receiver = Receiver::default();
        let error = receiver.receive(&mut io::empty()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
}
