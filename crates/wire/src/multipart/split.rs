//! Splits a body at its delimiters, and a message into headers and body.

use super::{HEADERS_BYTES_MAX, Headers, MultipartError};
use crate::words::find_byte;
use memchr::{memchr, memmem};

/// The parts between the delimiters of `boundary`, at most `max` of them: the rest is ignored.
///
/// A delimiter fills a line, except for trailing blanks; the line break before it belongs to it.
/// Text before the first and after the closing one is ignored.
pub(super) fn split_parts<'a>(
    body: &'a [u8],
    boundary: &str,
    max: usize,
) -> Result<Vec<&'a [u8]>, MultipartError> {
    let needle = [b"--", boundary.as_bytes()].concat();
    let mut delimiters = Delimiters { body, finder: memmem::Finder::new(&needle), from: 0 };
    let mut parts = Vec::new();
    let mut open = delimiters.next().ok_or(MultipartError::Unterminated)?;
    while !open.closing && parts.len() < max {
        let start = open.end;
        let Some(next) = delimiters.next() else {
            // The Rust SDK ends a batch with one more opening delimiter and nothing after it.
            let rest = body.get(start..).unwrap_or_default();
            if !parts.is_empty() && rest.iter().all(u8::is_ascii_whitespace) {
                break;
            }
            return Err(MultipartError::Unterminated);
        };
        parts.push(body.get(start..next.start.max(start)).unwrap_or_default());
        open = next;
    }
    Ok(parts)
}

/// The headers at the front of `text`, and the rest without leading blank lines. A block of headers
/// ends at a blank line, or at the end of the text: with bare line feeds, the one blank line after
/// a DELETE belongs to the delimiter.
pub(super) fn split_headers(text: &[u8]) -> Result<(Headers<'_>, &[u8]), MultipartError> {
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = take_line(rest);
        if line.is_empty() {
            break;
        }
        find_byte(b':', line).ok_or(MultipartError::MalformedHeader)?;
        rest = after;
    }
    let block = text.get(..text.len() - rest.len()).unwrap_or_default();
    if block.len() > HEADERS_BYTES_MAX {
        return Err(MultipartError::HeadersTooLarge);
    }
    let headers = std::str::from_utf8(block).map_err(|_| MultipartError::MalformedHeader)?;
    Ok((Headers(headers), skip_blank_lines(rest)))
}

/// Splits the headers off successive parts. Most repeat those of the previous part, which are then
/// not parsed again.
#[derive(Default)]
pub(super) struct HeaderReader<'a> {
    /// The last block of headers, with the blank line that ends it.
    block: &'a [u8],
    headers: Headers<'a>,
}

impl<'a> HeaderReader<'a> {
    pub(super) fn split_headers(
        &mut self,
        text: &'a [u8],
    ) -> Result<(Headers<'a>, &'a [u8]), MultipartError> {
        match text.strip_prefix(self.block) {
            Some(rest) if !self.block.is_empty() => Ok((self.headers, skip_blank_lines(rest))),
            _ => {
                let (headers, rest) = split_headers(text)?;
                let block = text.get(..text.len() - rest.len()).unwrap_or_default();
                // Without a blank line at its end, it could be the start of a longer block.
                let is_ended = block.len() > headers.0.len();
                *self = if is_ended { Self { block, headers } } else { Self::default() };
                Ok((headers, rest))
            }
        }
    }
}

/// The first line without its line break, CRLF or LF, and the text after it.
pub(super) fn take_line(text: &[u8]) -> (&[u8], &[u8]) {
    let Some((line, rest)) = line_end(text).and_then(|at| text.split_at_checked(at)) else {
        return (text.strip_suffix(b"\r").unwrap_or(text), &[]);
    };
    let rest = rest.strip_prefix(b"\n").unwrap_or(rest);
    (line.strip_suffix(b"\r").unwrap_or(line), rest)
}

/// Where the first line ends. Headers are short lines, bodies long ones.
fn line_end(text: &[u8]) -> Option<usize> {
    let (near, far) = text.split_at_checked(64).unwrap_or((text, &[]));
    find_byte(b'\n', near).or_else(|| memchr(b'\n', far).map(|at| near.len() + at))
}

fn skip_blank_lines(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = text.strip_prefix(b"\r\n").or_else(|| text.strip_prefix(b"\n")) {
        text = rest;
    }
    text
}

struct Delimiter {
    /// Where the part before it ends.
    start: usize,
    /// Where the part after it begins.
    end: usize,
    closing: bool,
}

struct Delimiters<'a, 'n> {
    body: &'a [u8],
    finder: memmem::Finder<'n>,
    from: usize,
}

impl Iterator for Delimiters<'_, '_> {
    type Item = Delimiter;

    fn next(&mut self) -> Option<Delimiter> {
        loop {
            let at = self.from + self.finder.find(self.body.get(self.from..)?)?;
            self.from = at + self.finder.needle().len();
            if let Some(delimiter) = self.delimiter(at) {
                self.from = delimiter.end;
                return Some(delimiter);
            }
        }
    }
}

impl Delimiters<'_, '_> {
    /// The delimiter at `at`, if it has the line to itself.
    fn delimiter(&self, at: usize) -> Option<Delimiter> {
        let (before, found) = self.body.split_at_checked(at)?;
        let mut line_start = before;
        if let Some(rest) = before.strip_suffix(b"\n") {
            line_start = rest.strip_suffix(b"\r").unwrap_or(rest);
        } else if !before.is_empty() {
            return None;
        }
        let (line, rest) = take_line(found);
        let after = line.get(self.finder.needle().len()..)?;
        let closing = after.starts_with(b"--");
        let padding = after.strip_prefix(b"--").unwrap_or(after);
        padding.iter().all(|b| matches!(b, b' ' | b'\t')).then_some(Delimiter {
            start: line_start.len(),
            end: self.body.len() - rest.len(),
            closing,
        })
    }
}
