//! Responses, read to their last byte, and assertions on them.

use super::Json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// One response with its complete body.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The reason phrase of the status line.
    pub(crate) reason: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) async fn read(stream: &mut TcpStream, method: &str) -> Self {
        let mut reader = Reader { stream, buffer: Vec::new() };
        let head = reader.until(b"\r\n\r\n").await;
        let head = String::from_utf8(head).expect("a head in UTF-8");
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
        let (status, reason) = status.expect("a status line").split_once(' ').expect("a reason");
        let (status, reason) = (status.parse().unwrap(), reason.to_owned());
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").expect("a header");
            (name.to_owned(), value.to_owned())
        });
        let mut response = Self { status, reason, headers: headers.collect(), body: Vec::new() };
        if method == "HEAD" {
            return response;
        }
        if response.header("transfer-encoding") == Some("chunked") {
            response.body = reader.chunks().await;
        } else if let Some(length) = response.header("content-length") {
            response.body = reader.exactly(length.parse().unwrap()).await;
        }
        response
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = named.next().map(|(_, value)| value.as_str());
        assert!(named.next().is_none(), "{name} is sent twice");
        value
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body in UTF-8")
    }

    pub(crate) fn json(&self) -> Json {
        Json::parse(self.text()).unwrap_or_else(|| panic!("not JSON: {}", self.text()))
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    #[track_caller]
    pub(crate) fn expect_header(self, name: &str, value: Option<&str>) -> Self {
        assert_eq!(self.header(name), value, "{name}");
        self
    }

    /// Asserts an error in JSON: its status, code and message, and that the message ends with the
    /// id of the request and the time (T-7.1).
    #[track_caller]
    pub(crate) fn expect_error(self, status: u16, code: &str, message: &str) -> Self {
        let body = self.text();
        let json = Json::parse(body).unwrap_or_else(|| panic!("{}: not JSON: {body}", self.status));
        let error = json.get("odata.error").unwrap_or_else(|| panic!("no error: {body}"));
        let text = error.get("message").and_then(|m| m.get("value")).and_then(Json::text);
        let (text, trailer) = split_trailer(text.expect("a message"));
        let found = error.get("code").and_then(Json::text).expect("a code");
        assert_eq!((self.status, found, text), (status, code, message));
        self.check_trailer(trailer);
        self
    }

    /// Like [`Response::expect_error`], for errors in XML.
    #[track_caller]
    pub(crate) fn expect_xml_error(self, status: u16, code: &str, message: &str) -> Self {
        let body = self.text().trim_start_matches('\u{FEFF}');
        let prefix = if body.contains("<m:error") { "m:" } else { "" };
        let between = |open: &str, close: String| {
            let (_, rest) = body.split_once(open)?;
            Some(rest.split_once(close.as_str())?.0)
        };
        let found = between(&format!("<{prefix}code>"), format!("</{prefix}code>"));
        let open = format!("<{prefix}message xml:lang=\"en-US\">");
        let text = between(&open, format!("</{prefix}message>"));
        let (Some(found), Some(text)) = (found, text) else { panic!("no XML error: {body}") };
        let (text, trailer) = split_trailer(text);
        let text = text.replace("&apos;", "'").replace("&quot;", "\"").replace("&amp;", "&");
        assert_eq!((self.status, found, text.as_str()), (status, code, message));
        self.check_trailer(trailer);
        self
    }

    #[track_caller]
    fn check_trailer(&self, trailer: &str) {
        let (id, time) = trailer.split_once("\nTime:").expect("a time");
        assert_eq!(Some(id), self.header("x-ms-request-id"));
        assert_eq!(time.len(), "2024-07-31T18:30:00.0000000Z".len(), "{time}");
    }

    /// The row keys of a page of entities, in order, joined by spaces.
    #[track_caller]
    pub(crate) fn row_keys(&self) -> String {
        self.items("RowKey")
    }

    /// One property of every item of a collection, joined by spaces.
    #[track_caller]
    pub(crate) fn items(&self, name: &str) -> String {
        let json = self.json();
        let Some(Json::Array(items)) = json.get("value") else { panic!("{}", self.text()) };
        let values = items.iter().map(|item| item.get(name).and_then(Json::text).unwrap());
        values.collect::<Vec<_>>().join(" ")
    }
}

/// Splits a message from `RequestId:…\nTime:…`.
#[track_caller]
pub(super) fn split_trailer(message: &str) -> (&str, &str) {
    message.split_once("\nRequestId:").unwrap_or_else(|| panic!("no request id: {message}"))
}

struct Reader<'a> {
    stream: &'a mut TcpStream,
    buffer: Vec<u8>,
}

impl Reader<'_> {
    async fn until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            let found = self.buffer.windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return self.buffer.drain(..at + end.len()).collect();
            }
            self.fill().await;
        }
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length {
            self.fill().await;
        }
        self.buffer.drain(..length).collect()
    }

    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = String::from_utf8(self.until(b"\r\n").await).unwrap();
            let size = usize::from_str_radix(line.trim(), 16).expect("the size of a chunk");
            body.extend(self.exactly(size).await);
            self.exactly(2).await;
            if size == 0 {
                return body;
            }
        }
    }

    async fn fill(&mut self) {
        let read = self.stream.read_buf(&mut self.buffer).await.expect("an answer");
        assert!(read > 0, "the connection ended; read so far: {:?}", self.buffer);
    }
}
