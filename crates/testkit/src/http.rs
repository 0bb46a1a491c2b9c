//! A small signing HTTP client: one keep-alive connection, no retries.
//!
//! It passes on connection errors: the outcome of that request is unknown.

use crate::server::{ACCOUNT, ACCOUNT_KEY};
use lazuli_model::{Clock, SystemClock};
use lazuli_wire::shared_key::{Authorization, CanonicalRequest, Scheme, SignedRequest, SigningKey};
use lazuli_wire::version::ApiVersion;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long one response may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The version that the official clients send today.
const VERSION: &str = "2019-02-02";

/// One connection to a server, signing with the well-known account.
#[derive(Debug)]
pub struct Connection<S = TcpStream> {
    stream: BufReader<S>,
    host: String,
    /// Written before the path of every request.
    segment: String,
    key: SigningKey,
    /// Whether it talks to the Queue service, which signs different parts of a request.
    is_of_queues: bool,
}

/// One request; `path` starts after the account and is sent unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub content_type: &'a str,
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    pub fn new(method: &'a str, path: &'a str) -> Self {
        Self { method, path, headers: &[], content_type: "", body: &[] }
    }

    pub fn headers(self, headers: &'a [(&'a str, &'a str)]) -> Self {
        Self { headers, ..self }
    }

    pub fn xml(self, body: &'a [u8]) -> Self {
        Self { content_type: "application/xml", body, ..self }
    }

    pub fn json(self, body: &'a str) -> Self {
        Self { content_type: "application/json", body: body.as_bytes(), ..self }
    }
}

/// A response with its complete body.
#[derive(Clone, Debug, Default)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        Self::over(connect(address)?, address.to_string())
    }
}

/// Connects with bounds on every wait.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The status and the whole response of a plain listener to an unsigned `GET path`. `header` is
/// empty, or whole header lines.
pub fn get(address: SocketAddr, path: &str, header: &str) -> io::Result<(u16, String)> {
    let mut stream = connect(address)?;
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{header}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.get(9..12).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| io::Error::other(answer.clone()))?, answer))
}

impl<S: Read + Write> Connection<S> {
    /// Uses a stream that is already connected; `host` is the value of the Host header.
    pub fn over(stream: S, host: String) -> io::Result<Self> {
        let key = SigningKey::from_base64(ACCOUNT_KEY).map_err(io::Error::other)?;
        let segment = format!("/{ACCOUNT}");
        Ok(Self { stream: BufReader::new(stream), host, segment, key, is_of_queues: false })
    }

    /// Talks to the Queue service.
    pub fn of_queues(self) -> Self {
        Self { is_of_queues: true, ..self }
    }

    /// Writes `segment` before the path of every request instead of the account: nothing in host
    /// style, or the secondary location.
    pub fn under(self, segment: &str) -> Self {
        Self { segment: segment.to_owned(), ..self }
    }

    /// Signs with another key of the account from now on.
    pub fn sign_with(mut self, key: &str) -> io::Result<Self> {
        self.key = SigningKey::from_base64(key).map_err(io::Error::other)?;
        Ok(self)
    }

    /// Sends one request and reads the whole response.
    pub fn send(&mut self, request: &Request<'_>) -> io::Result<Response> {
        self.start(request, request.body.len())?;
        self.receive(request.method)
    }

    /// Sends the head of a request and the first bytes of its body; [`Connection::finish`] sends the
    /// rest.
    pub fn start(&mut self, request: &Request<'_>, body_bytes: usize) -> io::Result<()> {
        let mut bytes = self.head(request).into_bytes();
        bytes.extend(request.body.iter().take(body_bytes));
        self.stream.get_mut().write_all(&bytes)?;
        self.stream.get_mut().flush()
    }

    /// Waits for the server to say that it reads the body of a request that was started with
    /// `Expect: 100-continue`.
    pub fn wait_for_continue(&mut self) -> io::Result<()> {
        match (self.line()?.as_str(), self.line()?.as_str()) {
            ("HTTP/1.1 100 Continue", "") => Ok(()),
            (line, _) => Err(malformed("interim answer", line)),
        }
    }

    /// Sends the rest of the body after [`Connection::start`] and reads the whole response.
    pub fn finish(&mut self, request: &Request<'_>, body_bytes: usize) -> io::Result<Response> {
        let rest = request.body.get(body_bytes..).unwrap_or_default();
        self.stream.get_mut().write_all(rest)?;
        self.stream.get_mut().flush()?;
        self.receive(request.method)
    }

    /// Sends a single operation.
    pub fn send_operation(&mut self, operation: &Operation) -> io::Result<Response> {
        let headers = operation.headers.iter().map(|(name, value)| (*name, value.as_str()));
        let headers: Vec<_> = headers.collect();
        let mut request = Request::new(operation.method, &operation.path).headers(&headers);
        if !operation.body.is_empty() {
            request = request.json(&operation.body);
        }
        self.send(&request)
    }

    /// Sends the operations as one entity group transaction.
    pub fn send_batch(&mut self, operations: &[Operation]) -> io::Result<BatchResponse> {
        self.send_parts(operations, &[])
    }

    /// Sends operations on several tables and queues as one transaction.
    pub fn send_transaction(&mut self, operations: &[Operation]) -> io::Result<BatchResponse> {
        let headers = [("x-lazuli-extensions", "on"), ("x-lazuli-transaction", "any")];
        self.send_parts(operations, &headers)
    }

    fn send_parts(
        &mut self,
        operations: &[Operation],
        headers: &[(&str, &str)],
    ) -> io::Result<BatchResponse> {
        let body = batch_body(&self.host, &self.segment, operations);
        let request = Request {
            headers,
            content_type: BATCH_CONTENT_TYPE,
            body: body.as_bytes(),
            ..Request::new("POST", "/$batch")
        };
        let response = self.send(&request)?;
        Ok(BatchResponse::parse(response.status, response.text()))
    }

    fn head(&self, request: &Request<'_>) -> String {
        let date = SystemClock.now().rfc1123();
        let target = format!("{}{}", self.segment, request.path);
        let authorization = self.authorization(request, &date, &target);
        let mut head = format!(
            "{} {target} HTTP/1.1\r\nHost: {}\r\nx-ms-date: {date}\r\nx-ms-version: {VERSION}\r\n\
             Authorization: {authorization}\r\nContent-Length: {}\r\n",
            request.method,
            self.host,
            request.body.len()
        );
        let given = |name: &str| request.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if !given("accept") {
            head.push_str("Accept: application/json;odata=minimalmetadata\r\n");
        }
        if !request.content_type.is_empty() {
            let _ = write!(head, "Content-Type: {}\r\n", request.content_type);
        }
        for (name, value) in request.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        head
    }

    fn authorization(&self, request: &Request<'_>, date: &str, target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if self.is_of_queues {
            let length = request.body.len().to_string();
            let own = [
                ("x-ms-date", date),
                ("x-ms-version", VERSION),
                ("content-length", &length),
                ("content-type", request.content_type),
            ];
            let lines = own.iter().chain(request.headers);
            let lines: Vec<_> =
                lines.map(|(name, value)| (name.to_ascii_lowercase(), value.as_bytes())).collect();
            let lines = lines.iter().map(|(name, value)| (name.as_str(), *value));
            let version = ApiVersion::parse(VERSION).unwrap_or(ApiVersion::UNSTATED);
            let signed =
                CanonicalRequest::new(request.method, lines, ACCOUNT, path, query, version);
            let signature = signed.sign(Scheme::SharedKey, &self.key);
            return Authorization::header(Scheme::SharedKey, ACCOUNT, &signature);
        }
        let signed = SignedRequest {
            method: request.method,
            content_md5: "",
            content_type: request.content_type,
            date,
            account: ACCOUNT,
            path,
            comp: query.split('&').find_map(|pair| pair.strip_prefix("comp=")),
        };
        let signature = signed.sign(Scheme::SharedKey, &self.key);
        Authorization::header(Scheme::SharedKey, ACCOUNT, &signature)
    }

    fn receive(&mut self, method: &str) -> io::Result<Response> {
        let status_line = self.line()?;
        let status = status_line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .ok_or_else(|| malformed("status line", &status_line))?;
        let mut response = Response { status, ..Response::default() };
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| malformed("header", &line))?;
            response.headers.push((name.to_owned(), value.trim().to_owned()));
        }
        if method != "HEAD" && status != 204 {
            response.body = self.body(&response)?;
        }
        Ok(response)
    }

    fn body(&mut self, response: &Response) -> io::Result<Vec<u8>> {
        if response.header("transfer-encoding").is_some() {
            return self.chunks();
        }
        let length = response.header("content-length").and_then(|text| text.parse().ok());
        let length: u64 = length.ok_or_else(|| malformed("length of body", ""))?;
        self.exactly(length)
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size =
                u64::from_str_radix(line.trim(), 16).map_err(|_| malformed("chunk size", &line))?;
            body.extend(self.exactly(size)?);
            self.line()?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn exactly(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.stream.by_ref().take(length).read_to_end(&mut bytes)?;
        if read as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end_matches(['\r', '\n']).len());
        Ok(line)
    }
}

/// One request, alone or inside a batch; `path` starts after the account.
#[derive(Clone, Debug)]
pub struct Operation {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    /// JSON for tables, XML for queues, or empty.
    pub body: String,
}

/// The response to a batch: its own status, then status and etag of each part.
#[derive(Clone, Debug)]
pub struct BatchResponse {
    pub status: u16,
    pub parts: Vec<(u16, Option<String>)>,
    /// The whole response.
    pub body: String,
}

impl BatchResponse {
    /// Reads the response to a batch.
    pub fn parse(status: u16, body: String) -> Self {
        Self { status, parts: parse_parts(&body), body }
    }
}

/// The content type of [`batch_body`].
pub const BATCH_CONTENT_TYPE: &str = "multipart/mixed; boundary=batch_1";

/// The body of a request that sends the operations as one entity group transaction to a host, with
/// `segment` before their paths.
pub fn batch_body(host: &str, segment: &str, operations: &[Operation]) -> String {
    let mut body =
        String::from("--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n");
    for operation in operations {
        let _ = write!(
            body,
            "--changeset_1\r\nContent-Type: application/http\r\n\
             Content-Transfer-Encoding: binary\r\n\r\n{} http://{}{}{} HTTP/1.1\r\n\
             Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n",
            operation.method, host, segment, operation.path
        );
        for (name, value) in &operation.headers {
            let _ = write!(body, "{name}: {value}\r\n");
        }
        let is_typed = operation.headers.iter().any(|(name, _)| *name == "Content-Type");
        if !operation.body.is_empty() && !is_typed {
            body.push_str("Content-Type: application/json\r\n");
        }
        let _ = write!(body, "\r\n{}\r\n", operation.body);
    }
    body.push_str("--changeset_1--\r\n--batch_1--\r\n");
    body
}

/// The error code in a JSON body, also inside the response to a batch.
pub fn error_code(body: &str) -> Option<&str> {
    let (_, rest) = body.split_once("\"code\":\"")?;
    Some(rest.split_once('"')?.0)
}

/// Reads the status line and ETag header of each part of a multipart response.
fn parse_parts(text: &str) -> Vec<(u16, Option<String>)> {
    let mut parts: Vec<(u16, Option<String>)> = Vec::new();
    for line in text.lines() {
        if let Some(status) = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)) {
            parts.push((status.parse().unwrap_or_default(), None));
        } else if let (Some(etag), Some(part)) = (line.strip_prefix("ETag: "), parts.last_mut()) {
            part.1 = Some(etag.to_owned());
        }
    }
    parts
}

fn malformed(what: &str, text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed {what}: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_carry_status_and_etag() {
        let text = "--b\r\n\r\nHTTP/1.1 204 No Content\r\nETag: W/\"x\"\r\n\r\n\r\n--b\r\n\r\n\
                    HTTP/1.1 204 No Content\r\n\r\n\r\n--b--\r\n";
        let expected = vec![(204, Some("W/\"x\"".to_owned())), (204, None)];
        assert_eq!(parse_parts(text), expected);
    }
}
