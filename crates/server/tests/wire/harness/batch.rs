//! Batches: requests as clients write them, and responses parsed byte by byte.

use super::response::split_trailer;
use super::{Json, Response};

/// One operation of a change set; `target` begins after the account, without a slash.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: String,
    /// Whether the target is written unchanged.
    is_verbatim: bool,
}

impl Op {
    pub(crate) fn new(method: &str, target: &str, body: &str) -> Self {
        let accept = ("Accept".to_owned(), "application/json;odata=minimalmetadata".to_owned());
        let op = Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: vec![accept],
            body: body.to_owned(),
            is_verbatim: false,
        };
        if body.is_empty() { op } else { op.with("Content-Type", "application/json") }
    }

    /// An operation whose request line has this target: a URI, a path or a relative reference.
    pub(crate) fn at(method: &str, target: &str, body: &str) -> Self {
        Self { is_verbatim: true, ..Self::new(method, target, body) }
    }

    /// An insert into `Orders`, in partition `p`.
    pub(crate) fn insert(row: &str) -> Self {
        Self::new("POST", "Orders", &format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#))
    }

    /// An operation on the entity `p`, `row` of `Orders`.
    pub(crate) fn on(method: &str, row: &str, body: &str) -> Self {
        Self::new(method, &format!("Orders(PartitionKey='p',RowKey='{row}')"), body)
    }

    /// Sets a header, replacing any with that name.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    fn text(&self, base: &str) -> String {
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let base = if self.is_verbatim { String::new() } else { format!("{base}/") };
        format!("{} {base}{} HTTP/1.1\r\n{headers}\r\n{}", self.method, self.target, self.body)
    }
}

const PART: &str = "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";

pub(super) fn change_set(base: &str, operations: &[Op]) -> String {
    let parts: Vec<String> = operations.iter().map(|op| op.text(base)).collect();
    multipart(&parts)
}

pub(super) fn lone_query(base: &str, target: &str) -> String {
    let query = Op::new("GET", target, "").text(base);
    format!("--batch_a1\r\n{PART}{query}\r\n--batch_a1--\r\n")
}

/// A batch of one change set whose parts are these texts.
pub(crate) fn multipart(parts: &[String]) -> String {
    let mut body =
        String::from("--batch_a1\r\nContent-Type: multipart/mixed; boundary=changeset_c1\r\n\r\n");
    for part in parts {
        body.push_str(&format!("--changeset_c1\r\n{PART}{part}\r\n"));
    }
    body.push_str("--changeset_c1--\r\n\r\n--batch_a1--\r\n");
    body
}

/// The response to a batch that was attempted: status 202, and its parts.
#[derive(Clone, Debug)]
pub(crate) struct BatchAnswer {
    pub(crate) outer: Response,
    pub(crate) parts: Vec<Part>,
    /// Whether the parts are in a change set.
    pub(crate) change_set: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) status: u16,
    /// The reason phrase of the status line.
    pub(crate) reason: String,
    /// Names and values in the order sent.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl BatchAnswer {
    /// Parses the response; any misplaced byte is a failure (T-6.26 to T-6.28).
    #[track_caller]
    pub(super) fn parse(outer: Response) -> Self {
        if outer.status != 202 {
            return Self { outer, parts: Vec::new(), change_set: false };
        }
        let content_type = outer.header("content-type").expect("a content type");
        let boundary = content_type.strip_prefix("multipart/mixed; boundary=").unwrap();
        assert!(boundary.starts_with("batchresponse_"), "{boundary}");
        let text = outer.text();
        let text = text.strip_prefix(&format!("--{boundary}\r\n")).expect("an opening delimiter");
        let text = text.strip_suffix(&format!("--{boundary}--\r\n")).expect("a closing delimiter");
        let (parts, change_set) = match text.strip_prefix("Content-Type: multipart/mixed; ") {
            Some(rest) => (parse_change_set(rest), true),
            None => (vec![Part::parse(text)], false),
        };
        Self { parts, change_set, outer }
    }

    /// Asserts that every operation succeeded, with these statuses.
    #[track_caller]
    pub(crate) fn expect(self, statuses: &[u16]) -> Self {
        let found: Vec<u16> = self.parts.iter().map(|part| part.status).collect();
        assert_eq!(found, statuses, "{}", self.outer.text());
        self
    }

    /// Asserts that the response is one failed part.
    #[track_caller]
    pub(crate) fn expect_error(self, status: u16, code: &str, message: &str) -> Self {
        assert_eq!(self.outer.status, 202, "{}", self.outer.text());
        let [part] = self.parts.as_slice() else { panic!("{}", self.outer.text()) };
        part.check_error(status, code, message);
        self
    }
}

#[track_caller]
fn parse_change_set(text: &str) -> Vec<Part> {
    let (boundary, text) = text.split_once("\r\n\r\n").expect("the head of the change set");
    let boundary = boundary.strip_prefix("boundary=").expect("a boundary");
    assert!(boundary.starts_with("changesetresponse_"), "{boundary}");
    let text = text.strip_suffix(&format!("--{boundary}--\r\n")).expect("the change set's end");
    let delimiter = format!("--{boundary}\r\n");
    let mut pieces = text.split(delimiter.as_str());
    assert_eq!(pieces.next(), Some(""));
    pieces.map(Part::parse).collect()
}

impl Part {
    #[track_caller]
    fn parse(text: &str) -> Self {
        let text = text.strip_prefix(PART).expect("the head of a part");
        let text = text.strip_suffix("\r\n").expect("the line end before a delimiter");
        let (head, body) = text.split_once("\r\n\r\n").expect("the end of the headers");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 "));
        let (status, reason) = status.expect("a status line").split_once(' ').expect("a reason");
        let (status, reason) = (status.parse().unwrap(), reason.to_owned());
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").expect("a header");
            (name.to_owned(), value.to_owned())
        };
        Self { status, reason, headers: lines.map(header).collect(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }

    /// The names of the headers in order, joined by spaces.
    pub(crate) fn header_names(&self) -> String {
        self.headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    pub(crate) fn check_error(&self, status: u16, code: &str, message: &str) {
        let body = &self.body;
        let json = Json::parse(body).unwrap_or_else(|| panic!("{}: not JSON: {body}", self.status));
        let error = json.get("odata.error").unwrap_or_else(|| panic!("no error: {body}"));
        let text = error.get("message").and_then(|m| m.get("value")).and_then(Json::text);
        let found = error.get("code").and_then(Json::text).expect("a code");
        let (text, _) = split_trailer(text.expect("a message"));
        assert_eq!((self.status, found, text), (status, code, message));
    }
}
