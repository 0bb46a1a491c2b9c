//! Adds a body and an id to the responses that hyper writes by itself.
//!
//! A request with an invalid head (two lengths, a space in the target, too many bytes) never
//! reaches the front: hyper responds with a status line and an empty body, and has no hook for
//! that. So the stream below hyper detects such a response and writes a complete one instead.

use crate::http::guarded::Guard;
use http::{HeaderMap, StatusCode};
use lazuli_model::Timestamp;
use lazuli_wire::error_code::ErrorCode;

/// Every response of the front has this header, and none of hyper's own do.
const REQUEST_ID: &[u8] = b"x-ms-request-id";

/// Replaces hyper's own refusals with the function's result for their status. Nothing follows such a
/// response, because hyper closes the connection.
pub(crate) struct Unread<F>(pub(crate) F);

impl<F: Fn(StatusCode) -> Vec<u8>> Guard for Unread<F> {
    fn replace(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        own_refusal(bytes).map(&self.0)
    }
}

/// The status of a response that hyper wrote by itself: its kind of head, and nothing else. No part
/// of our bodies looks like it, from any byte on: JSON and XML contain no carriage return, and a
/// batch ends with a delimiter.
fn own_refusal(bytes: &[u8]) -> Option<StatusCode> {
    let rest = bytes.strip_prefix(b"HTTP/1.1 ")?;
    let is_head = rest.starts_with(b"4") && rest.ends_with(b"\r\n\r\n");
    let is_ours = || rest.windows(REQUEST_ID.len()).any(|window| window == REQUEST_ID);
    if !is_head || is_ours() {
        return None;
    }
    StatusCode::from_bytes(rest.get(..3)?).ok()
}

/// The error code closest to hyper's status.
pub(crate) fn error_code(status: StatusCode) -> ErrorCode {
    match status {
        StatusCode::URI_TOO_LONG => ErrorCode::InvalidUri,
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ErrorCode::InvalidHeaderValue,
        _ => ErrorCode::InvalidInput,
    }
}

/// The bytes of a response after which the connection is closed.
pub(crate) fn write_answer(
    status: StatusCode,
    headers: &HeaderMap,
    now: Timestamp,
    body: &[u8],
) -> Vec<u8> {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut out = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in headers {
        write_all(&mut out, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
    let (length, date) = (body.len(), now.rfc1123());
    let last = format!("content-length: {length}\r\nconnection: close\r\ndate: {date}\r\n\r\n");
    write_all(&mut out, &[last.as_bytes(), body]);
    out
}

fn write_all(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::guarded::Guarded;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const REFUSAL: &str =
        "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n";

    /// What the peer receives when hyper writes `texts`, through a pipe of a few bytes.
    async fn sent(texts: &[&str]) -> String {
        let (near, mut far) = tokio::io::duplex(7);
        let answer = |status: StatusCode| format!("refused with {status}").into_bytes();
        let mut guard = Guarded::new(near, Unread(answer));
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let writer = tokio::spawn(async move {
            for text in texts {
                guard.write_all(text.as_bytes()).await.unwrap();
            }
            guard.shutdown().await.unwrap();
        });
        let mut read = String::new();
        far.read_to_string(&mut read).await.unwrap();
        writer.await.unwrap();
        read
    }

    #[tokio::test]
    async fn an_answer_of_hypers_own_is_replaced() {
        let replaced = "refused with 431 Request Header Fields Too Large";
        assert_eq!(sent(&[REFUSAL]).await, replaced);
        assert_eq!(sent(&["HTTP/1.1 200 OK\r\n\r\n", REFUSAL]).await.len(), 19 + replaced.len());
    }

    #[tokio::test]
    async fn an_answer_of_ours_passes() {
        for text in [
            "HTTP/1.1 404 Not Found\r\nx-ms-request-id: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\n\r\n{}",
            "{\"a\":\"HTTP/1.1 400 Bad Request\"}",
        ] {
            assert_eq!(sent(&[text]).await, text);
        }
    }
}
