//! Adds a body and an id to the responses that hyper writes by itself.
//!
//! A request with an invalid head (two lengths, a space in the target, too many bytes) never
//! reaches the front: hyper responds with a status line and an empty body, and has no hook for
//! that. So the stream below hyper detects such a response and writes a complete one instead.

use crate::http::pending::Pending;
use http::{HeaderMap, StatusCode};
use lazuli_model::Timestamp;
use lazuli_wire::error_code::ErrorCode;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Every response of the front has this header, and none of hyper's own do.
const REQUEST_ID: &[u8] = b"x-ms-request-id";

/// A stream that replaces hyper's own refusals with the result of `answer` for their status.
pub(crate) struct UnreadGuard<T, F> {
    /// Holds such a response. Nothing follows it: hyper closes.
    stream: Pending<T>,
    answer: F,
}

impl<T, F> UnreadGuard<T, F>
where
    T: AsyncWrite + Unpin,
    F: Fn(StatusCode) -> Vec<u8>,
{
    pub(crate) fn new(stream: T, answer: F) -> Self {
        Self { stream: Pending::new(stream), answer }
    }

    /// Intercepts a refusal written by hyper; the next flush writes the response.
    fn replace(&mut self, bytes: &[u8]) -> bool {
        let status = own_refusal(bytes);
        if let Some(status) = status {
            self.stream.hold((self.answer)(status));
        }
        status.is_some()
    }
}

/// The status of a response that hyper wrote by itself: its kind of head, and nothing else. No body
/// of ours looks like it, from any byte on: JSON and XML contain no carriage return, and a batch
/// ends with a delimiter.
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

impl<T: AsyncRead + Unpin, F: Unpin> AsyncRead for UnreadGuard<T, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<T, F> AsyncWrite for UnreadGuard<T, F>
where
    T: AsyncWrite + Unpin,
    F: Fn(StatusCode) -> Vec<u8> + Unpin,
{
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.replace(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match slices {
            [bytes] if self.replace(bytes) => Poll::Ready(Ok(bytes.len())),
            _ => Pin::new(&mut self.stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const REFUSAL: &str =
        "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n";

    /// What the peer reads when hyper writes `texts`, through a pipe of a few bytes.
    async fn sent(texts: &[&str]) -> String {
        let (near, mut far) = tokio::io::duplex(7);
        let answer = |status: StatusCode| format!("refused with {status}").into_bytes();
        let mut guard = UnreadGuard::new(near, answer);
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
