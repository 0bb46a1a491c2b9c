//! Parses batches leniently: recorders have cleaned some boundaries and line ends.

use super::bindings::{Key, key_of};
use super::corpus::Message;

/// One response inside a batch.
pub(super) struct ResponsePart {
    /// How many multipart bodies surround it.
    pub(super) depth: usize,
    pub(super) status: u16,
    pub(super) message: Message,
}

/// The responses in a multipart text, in order.
pub(super) fn responses(content_type: &str, text: &str) -> Vec<ResponsePart> {
    let mut parts = Vec::new();
    collect(content_type, text, 0, &mut parts);
    parts
}

fn collect(content_type: &str, text: &str, depth: usize, parts: &mut Vec<ResponsePart>) {
    for piece in pieces(content_type, text) {
        let (head, content) = split_head(&piece);
        let content_type = head.header("content-type").unwrap_or_default();
        if content_type.starts_with("multipart") {
            collect(content_type, content, depth + 1, parts);
            continue;
        }
        let (line, rest) = content.trim_start().split_once('\n').unwrap_or((content, ""));
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let (mut message, body) = split_head(rest);
        message.body = Some(body.trim_matches(['\r', '\n']).to_owned());
        if let (Some(id), None) = (head.header("content-id"), message.header("content-id")) {
            message.headers.push(("content-id".to_owned(), id.to_owned()));
        }
        parts.push(ResponsePart { depth, status: status.unwrap_or_default(), message });
    }
}

/// The pieces between the delimiters of a multipart text.
fn pieces(content_type: &str, text: &str) -> Vec<String> {
    let named =
        content_type.split_once("boundary=").map(|(_, boundary)| boundary.trim_matches('"'));
    let named = named.filter(|boundary| text.contains(&format!("--{boundary}")));
    let first = || text.trim_start().lines().next()?.strip_prefix("--");
    let Some(boundary) = named.or_else(first) else { return Vec::new() };
    let (delimiter, last) = (format!("--{boundary}"), format!("--{boundary}--"));
    let mut pieces: Vec<String> = Vec::new();
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        match line.trim_end() {
            end if end == last => inside = false,
            next if next == delimiter => {
                pieces.push(String::new());
                inside = true;
            }
            _ => {
                if let (true, Some(piece)) = (inside, pieces.last_mut()) {
                    piece.push_str(line);
                }
            }
        }
    }
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}

/// Splits header lines from what follows the blank line after them.
fn split_head(text: &str) -> (Message, &str) {
    let mut head = Message::default();
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        let Some((name, value)) = line.split_once(':') else { break };
        head.headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    (head, rest)
}

/// A piece of the text of a batch, which may hold one request.
pub(super) struct RequestPart<'a> {
    pub(super) text: &'a str,
    /// The request line and the body, if there is a request.
    request: Option<(&'a str, &'a str)>,
}

impl RequestPart<'_> {
    /// The keys of the request.
    pub(super) fn key(&self) -> Option<Key> {
        self.request.and_then(|(line, body)| key_of(line, body))
    }
}

/// The requests in a batch.
pub(super) fn requests(text: &str) -> impl Iterator<Item = RequestPart<'_>> {
    request_pieces(text).filter(|part| part.request.is_some())
}

/// The whole text of a batch, cut before each delimiter.
pub(super) fn request_pieces(text: &str) -> impl Iterator<Item = RequestPart<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next = ["\n--changeset_", "\n--batch_"].iter().filter_map(|mark| rest.find(mark)).min();
        let (piece, after) = rest.split_at(next.map_or(rest.len(), |at| at + 1));
        rest = after;
        Some(RequestPart { text: piece, request: find_request(piece) })
    })
}

fn find_request(piece: &str) -> Option<(&str, &str)> {
    const METHODS: [&str; 6] = ["GET ", "POST ", "PUT ", "MERGE ", "PATCH ", "DELETE "];
    let mut at = 0;
    for line in piece.split_inclusive('\n') {
        at += line.len();
        if METHODS.iter().any(|method| line.starts_with(method)) {
            let (_, body) = split_head(&piece[at..]);
            return Some((line.trim_end(), body.trim_matches(['\r', '\n'])));
        }
    }
    None
}
