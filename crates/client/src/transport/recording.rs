//! Records exchanges to a file and replays them, in the format of the project's recorded traffic
//! (`golden/README.md`), so that a test can keep the answers of a live service (C-19.3).
//!
//! Each exchange is a request line `> METHOD target`, its headers (`+name: value`) and its body, then the same
//! for the response after `< status`. A line of a body begins with `|`, `/` or `.`, which says how it ends.
//! Credentials, dates and ids are not recorded.

use super::{Body, Sent, Transport, TransportError};
use crate::{BoxError, BoxFuture};
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The largest response that can be recorded.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Headers that contain secrets, or differ from run to run.
const NOT_WRITTEN: [HeaderName; 7] = [
    AUTHORIZATION,
    PROXY_AUTHORIZATION,
    HOST,
    USER_AGENT,
    HeaderName::from_static("x-ms-date"),
    HeaderName::from_static("x-ms-client-request-id"),
    HeaderName::from_static("date"),
];
/// The query parameter that is a secret.
const SIGNATURE: &str = "sig=";

/// A transport that records every exchange to a file.
///
/// ```no_run
/// use lazuli_client::{Account, HttpTransport, Proxy, Recording, Replay};
/// use std::time::Duration;
///
/// # fn run(is_recording: bool) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let account = Account::builder("https://orders.table.core.windows.net");
/// let account = if is_recording {
///     let http = HttpTransport::through(Proxy::from_env(), Duration::from_secs(10))?;
///     account.transport(Recording::new(http, "tests/orders.vcr")?)
/// } else {
///     account.transport(Replay::open("tests/orders.vcr")?)
/// };
/// let account = account.build()?;
/// # Ok(())
/// # }
/// ```
pub struct Recording {
    inner: Box<dyn Transport>,
    file: Mutex<File>,
}

impl Recording {
    /// Sends through `inner` and records to `path`, which is truncated first.
    pub fn new(inner: impl Transport, path: impl AsRef<Path>) -> std::io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(b"== recording vcr\n")?;
        Ok(Self { inner: Box::new(inner), file: Mutex::new(file) })
    }
}

impl Transport for Recording {
    fn send(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<Body>, TransportError>> {
        Box::pin(async move {
            let mut text = request_text(&request);
            let (head, body) = self.inner.send(request).await?.into_parts();
            let body = body.read(ANSWER_BYTES_MAX).await.map_err(maybe)?;
            let _ = writeln!(text, "< {}", head.status.as_u16());
            write_message(&mut text, &head.headers, &body);
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(text.as_bytes()).map_err(|error| maybe(error.into()))?;
            Ok(Response::from_parts(head, body.into()))
        })
    }
}

fn maybe(source: BoxError) -> TransportError {
    TransportError { sent: Sent::Maybe, source }
}

/// A transport that answers from a recording, exchange by exchange. A request other than the next one in the
/// recording fails. Nothing is sent.
#[derive(Debug)]
pub struct Replay(Mutex<VecDeque<Exchange>>);

#[derive(Debug)]
struct Exchange {
    request: String,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Replay {
    /// Opens the recording in `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, BoxError> {
        Self::parse(&std::fs::read_to_string(path)?)
    }

    /// How many exchanges have not been replayed yet.
    pub fn left(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn parse(text: &str) -> Result<Self, BoxError> {
        let mut exchanges = VecDeque::new();
        let mut lines = text.split_inclusive('\n').peekable();
        let mut request = String::new();
        while let Some(line) = lines.next() {
            match line.split_at_checked(2) {
                Some(("> ", _)) => {
                    request = line.to_owned();
                    while let Some(line) = lines.next_if(|line| !line.starts_with("< ")) {
                        request.push_str(line);
                    }
                }
                Some(("< ", status)) => {
                    let status = status.trim_end().parse()?;
                    let (mut headers, mut body) = (HeaderMap::new(), Vec::new());
                    while let Some(line) = lines.next_if(|line| !line.starts_with(['>', '='])) {
                        read_line(line, &mut headers, &mut body)?;
                    }
                    let request = std::mem::take(&mut request);
                    let body = Bytes::from(body);
                    exchanges.push_back(Exchange { request, status, headers, body });
                }
                _ if line.starts_with("==") => {}
                _ => return Err(format!("not a line of a recording: {line:?}").into()),
            }
        }
        Ok(Self(Mutex::new(exchanges)))
    }
}

impl Transport for Replay {
    fn send(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<Body>, TransportError>> {
        let text = request_text(&request);
        let fail = |reason: String| {
            let source = reason.into();
            Err(TransportError { sent: Sent::No, source })
        };
        let mut exchanges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let played = match exchanges.pop_front() {
            None => fail(format!("the recording has ended before:\n{text}")),
            Some(next) if next.request != text => {
                let reason =
                    format!("the recording goes on with:\n{}and not with:\n{text}", next.request);
                exchanges.push_front(next);
                fail(reason)
            }
            Some(next) => {
                let mut answer = Response::new(Body::from(next.body));
                *answer.status_mut() = next.status;
                *answer.headers_mut() = next.headers;
                Ok(answer)
            }
        };
        Box::pin(std::future::ready(played))
    }
}

fn request_text(request: &Request<Bytes>) -> String {
    let method: &Method = request.method();
    let query: Vec<&str> = request
        .uri()
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|part| !part.is_empty() && !part.starts_with(SIGNATURE))
        .collect();
    let mut text = format!("> {method} {}", request.uri().path());
    if !query.is_empty() {
        let _ = write!(text, "?{}", query.join("&"));
    }
    text.push('\n');
    write_message(&mut text, request.headers(), request.body());
    text
}

/// Appends headers, sorted by name, and a body. Bytes that are not text are replaced.
fn write_message(out: &mut String, headers: &HeaderMap, body: &[u8]) {
    let is_written = |name: &HeaderName| !NOT_WRITTEN.contains(name);
    let mut lines: Vec<String> = headers
        .iter()
        .filter(|(name, _)| is_written(name))
        .map(|(name, value)| format!("+{name}: {}\n", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    lines.sort_unstable();
    lines.iter().for_each(|line| out.push_str(line));
    for line in String::from_utf8_lossy(body).split_inclusive('\n') {
        let (mark, line) = match (line.strip_suffix("\r\n"), line.strip_suffix('\n')) {
            (Some(line), _) => ('|', line),
            (None, Some(line)) => ('/', line),
            (None, None) => ('.', line),
        };
        let _ = writeln!(out, "{mark}{line}");
    }
}

fn read_line(line: &str, headers: &mut HeaderMap, body: &mut Vec<u8>) -> Result<(), BoxError> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let (text, end) = match line.split_at_checked(1) {
        Some(("+", header)) => {
            let (name, value) = header.split_once(": ").ok_or("a header without a value")?;
            headers.append(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
            return Ok(());
        }
        Some(("|", text)) => (text, "\r\n"),
        Some(("/", text)) => (text, "\n"),
        Some((".", text)) => (text, ""),
        _ => return Err(format!("not a line of a message: {line:?}").into()),
    };
    body.extend_from_slice(text.as_bytes());
    body.extend_from_slice(end.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_recorded_is_played_and_nothing_else() {
        // C-19.3.
        let text = "== recording vcr\n> GET /a?x=1\n+accept: */*\n< 200\n+etag: e\n|one\n/two\n.three\n\
                    > POST /b\n.{}\n< 204\n";
        let replay = Replay::parse(text).unwrap();
        let request = |method: &str, uri: &str, body: &'static str| {
            Request::builder().method(method).uri(uri).body(Bytes::from_static(body.as_bytes()))
        };
        let mut get = request("GET", "http://h/a?x=1&sig=secret", "").unwrap();
        get.headers_mut().insert("accept", HeaderValue::from_static("*/*"));
        get.headers_mut().insert("authorization", HeaderValue::from_static("secret"));
        let answer = replay.send(get).await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["etag"]),
            (200, &"e".parse::<HeaderValue>().unwrap())
        );
        let body = answer.into_body().read(100).await.unwrap();
        assert_eq!(body, "one\r\ntwo\nthree");
        let other = replay.send(request("POST", "http://h/c", "{}").unwrap()).await.unwrap_err();
        assert_eq!(other.sent, Sent::No);
        assert_eq!(replay.left(), 1);
        assert!(replay.send(request("POST", "http://h/b", "{}").unwrap()).await.is_ok());
        assert!(replay.send(request("POST", "http://h/b", "{}").unwrap()).await.is_err());
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        for text in ["a", "> GET /\n< x\n", "> GET /\n< 200\n+a\n", "> GET /\n< 200\nx\n"] {
            assert!(Replay::parse(text).is_err(), "{text}");
        }
    }
}
