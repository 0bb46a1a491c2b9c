//! Compares a response with the recorded one. Anything not skipped here must match.

use super::bindings::{Bindings, Key, key_of};
use super::corpus::{Message, Step};
use super::multipart::{requests, responses};
use super::xml::Element;
use crate::harness::{Json, Response};

/// Headers that are compared: present in both with the same text, or absent from both.
const HEADERS: [&str; 15] = [
    "content-type",
    "etag",
    "preference-applied",
    "location",
    "x-ms-version",
    "x-ms-error-code",
    "www-authenticate",
    "allow",
    "x-ms-continuation-nextpartitionkey",
    "x-ms-continuation-nextrowkey",
    "x-ms-continuation-nexttablename",
    "cache-control",
    "x-content-type-options",
    "dataserviceid",
    "dataserviceversion",
];

/// The differences found in one step.
pub(super) struct Comparison<'b> {
    bindings: &'b mut Bindings,
    verbatim: bool,
    differences: Vec<String>,
}

impl<'b> Comparison<'b> {
    pub(super) fn new(bindings: &'b mut Bindings, verbatim: bool) -> Self {
        Self { bindings, verbatim, differences: Vec::new() }
    }

    /// Compares a whole response; returns what differs.
    pub(super) fn answer(mut self, step: &Step, got: &Response) -> Vec<String> {
        if step.status != got.status {
            self.differ("status", step.status, got.status);
        }
        let key = key_of(&step.path, step.request.text());
        self.headers(&step.answer, |name| got.header(name), key.as_ref());
        let body = String::from_utf8_lossy(&got.body);
        if step.answer.is_multipart() {
            self.batch(step, got.header("content-type").unwrap_or_default(), &body);
        } else {
            self.body(&step.answer, &body);
        }
        if let (Some(recorded), Some(received)) = (step.answer.header("etag"), got.header("etag"))
            && !self.bindings.follow_etag(&step.path, recorded, received)
        {
            self.differ("unchanged ETag", recorded, received);
        }
        self.differences
    }

    fn differ(&mut self, what: &str, want: impl std::fmt::Debug, got: impl std::fmt::Debug) {
        self.differences.push(format!("  {what}\n    recorded {want:?}\n    got      {got:?}"));
    }

    fn headers<'g>(
        &mut self,
        want: &Message,
        got: impl Fn(&str) -> Option<&'g str>,
        key: Option<&Key>,
    ) {
        for name in HEADERS {
            match (want.header(name), got(name)) {
                (None, None) => {}
                (None, Some(extra)) => self.differ(name, (), extra),
                (Some(want), None) => self.differ(name, want, ()),
                (Some(want), Some(got)) => self.header(name, want, got, key),
            }
        }
    }

    fn header(&mut self, name: &str, want: &str, got: &str, key: Option<&Key>) {
        let same = match name {
            "etag" => return self.etag(name, want, got, key),
            "content-type" if want.starts_with("multipart") => got.starts_with("multipart/mixed; "),
            // The rest names the directory of the recorded account.
            "www-authenticate" => got.split(' ').next() == want.split(' ').next(),
            "x-ms-continuation-nexttablename" => {
                self.bindings.bind_token(want, got);
                true
            }
            _ => want == got,
        };
        if !same {
            self.differ(name, want, got);
        }
    }

    fn etag(&mut self, what: &str, want: &str, got: &str, key: Option<&Key>) {
        if !want.starts_with("{etag ") {
            if want != got {
                self.differ(what, want, got);
            }
            return;
        }
        let time = got.strip_prefix("W/\"datetime'").and_then(|rest| rest.strip_suffix("'\""));
        if !time.is_some_and(|time| !time.contains(':') && is_timestamp(&time.replace("%3A", ":")))
        {
            self.differ(what, want, got);
        }
        if let Err(bound) = self.bindings.bind_etag(want, key, got) {
            self.differ(what, format!("{want}, bound to {bound}"), got);
        }
    }

    fn body(&mut self, want: &Message, got: &str) {
        let text = want.text();
        if text.is_empty() || got.is_empty() {
            if text != got {
                self.differ("body", text, got);
            }
        } else if text.starts_with('{') {
            self.json(text, got);
        } else if text.trim_start_matches('\u{FEFF}').starts_with('<') {
            self.xml(text, got);
        } else if text != got {
            self.differ("body", text, got);
        }
    }

    fn json(&mut self, want: &str, got: &str) {
        let (Some(want_json), Some(got_json)) = (Json::parse(want), Json::parse(got)) else {
            return self.differ("JSON", want, got);
        };
        if self.verbatim && want.contains("\\u") != got.contains("\\u") {
            self.differ("escapes", want, got);
        }
        self.value("", &want_json, &got_json);
    }

    fn value(&mut self, name: &str, want: &Json, got: &Json) {
        match (want, got) {
            (Json::Object(want_members), Json::Object(got_members)) => {
                let names = |members: &[(String, Json)]| -> Vec<String> {
                    members.iter().map(|(name, _)| name.clone()).collect()
                };
                if names(want_members) != names(got_members) {
                    return self.differ("properties", names(want_members), names(got_members));
                }
                let key = entity_key(want);
                for ((name, want), (_, got)) in want_members.iter().zip(got_members) {
                    match (name.as_str(), want.text(), got.text()) {
                        ("odata.etag", Some(want), Some(got)) => {
                            self.etag(name, want, got, key.as_ref());
                        }
                        ("Timestamp", Some(want), Some(got)) => self.timestamp(want, got),
                        _ => self.value(name, want, got),
                    }
                }
            }
            (Json::Array(want_items), Json::Array(got_items)) => {
                if want_items.len() != got_items.len() {
                    self.differ("number of items", want_items.len(), got_items.len());
                }
                for (want, got) in want_items.iter().zip(got_items) {
                    self.value(name, want, got);
                }
            }
            (Json::String(want), Json::String(got)) if is_message(name, want) => {
                self.message(want, got);
            }
            (Json::String(want), Json::String(got)) if self.bindings.expand(want, None) == *got => {
            }
            _ if want == got => {}
            _ => self.differ(name, want, got),
        }
    }

    fn timestamp(&mut self, want: &str, got: &str) {
        if !is_timestamp(got) {
            self.differ("Timestamp", want, got);
        }
        self.bindings.bind_time(want, got);
    }

    /// Messages end with the request id and the time, and both must have them.
    fn message(&mut self, want: &str, got: &str) {
        let split = |text: &str| {
            let text = text.replace("\r\n", "\n");
            let (message, trailer) = text.split_once("\nRequestId:").unwrap_or((&text, ""));
            (message.to_owned(), trailer.contains("\nTime:"))
        };
        if split(want) != split(got) {
            self.differ("message", want, got);
        }
    }

    fn xml(&mut self, want: &str, got: &str) {
        match (Element::parse(want), Element::parse(got)) {
            (Some(want), Some(got)) => self.element(&want, &got),
            _ => self.differ("XML", want, got),
        }
    }

    fn element(&mut self, want: &Element, got: &Element) {
        let names = |element: &Element| -> Vec<String> {
            element.children.iter().map(|child| child.name.clone()).collect()
        };
        if (&want.name, &want.namespace) != (&got.name, &got.namespace) {
            self.differ("element", (&want.name, &want.namespace), (&got.name, &got.namespace));
        }
        if is_message(&want.name, &want.text) {
            self.message(&want.text, &got.text);
        } else if want.name != "LastSyncTime" && want.text != got.text {
            self.differ(&want.name, &want.text, &got.text);
        }
        if names(want) != names(got) {
            return self.differ(&want.name, names(want), names(got));
        }
        for (want, got) in want.children.iter().zip(&got.children) {
            self.element(want, got);
        }
    }

    fn batch(&mut self, step: &Step, content_type: &str, got: &str) {
        let want_type = step.answer.header("content-type").unwrap_or_default();
        let (want, got_parts) =
            (responses(want_type, step.answer.text()), responses(content_type, got));
        if want.len() != got_parts.len() {
            return self.differ("number of parts", step.answer.text(), got);
        }
        let keys: Vec<Option<Key>> = requests(step.request.text()).map(|part| part.key()).collect();
        for (index, (want, got)) in want.iter().zip(&got_parts).enumerate() {
            if (want.depth, want.status) != (got.depth, got.status) {
                self.differ("part", (want.depth, want.status), (got.depth, got.status));
            }
            // One part in place of many is the error of one of them.
            let key = keys.get(index).filter(|_| keys.len() == got_parts.len());
            let key = key.and_then(Option::as_ref);
            self.headers(&want.message, |name| got.message.header(name), key);
            if want.message.header("content-id") != got.message.header("content-id") {
                let content_id =
                    |message: &Message| message.header("content-id").map(str::to_owned);
                self.differ("content-id", content_id(&want.message), content_id(&got.message));
            }
            self.body(&want.message, got.message.text());
        }
    }
}

/// Whether a text is the message of an error.
fn is_message(name: &str, text: &str) -> bool {
    matches!(name, "value" | "message") && text.contains("\nRequestId:")
}

fn entity_key(entity: &Json) -> Option<Key> {
    let text = |name| entity.get(name).and_then(Json::text).map(str::to_owned);
    Some((text("PartitionKey")?, text("RowKey")?))
}

/// `2022-05-06T00:36:46[.f]Z`, one to seven digits after the point, the last of them not zero.
fn is_timestamp(text: &str) -> bool {
    let Some(text) = text.strip_suffix('Z') else { return false };
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "1"));
    let shape: String = seconds.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit());
    shape == "0000-00-00T00:00:00"
        && (1..=7).contains(&fraction.len())
        && digits
        && !fraction.ends_with('0')
}
