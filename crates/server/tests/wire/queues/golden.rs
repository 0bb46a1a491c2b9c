//! Replays recorded traffic of the live Queue service and compares every byte of the bodies.
//!
//! `golden/README.md` says how the recordings are written. Each runs against its own service, whose
//! clock is advanced where the recording waited. Ids, receipts and markers are bound to what the service
//! returned and inserted into later requests; times are compared by their distance.

use super::harness::{Answer, Ask, HOST, Queues};
use crate::harness::ACCOUNT;
use lazuli_model::{Clock, Timestamp};
use lazuli_server::WELL_KNOWN_KEY;
use lazuli_wire::sas::{AccountSas, QueueSas};
use lazuli_wire::shared_key::SigningKey;
use lazuli_wire::uri::{Query, percent_encode};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Seconds for the truncation of recorded times and the clock skew of the service.
const SLACK_SECONDS: i64 = 2;
const DECLARATION: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>";
/// Headers that are compared: present in both with the same text, or absent from both.
const HEADERS: [&str; 7] = [
    "content-type",
    "x-ms-version",
    "x-ms-error-code",
    "cache-control",
    "www-authenticate",
    "allow",
    "x-ms-approximate-messages-count",
];

fn check(suite: &str, tests: usize) {
    let file = format!("../../golden/queue/{suite}.jsonl");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(file).unwrap();
    let only = std::env::var("LAZULI_GOLDEN").unwrap_or_default();
    let recordings: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(recordings.len(), tests, "{suite}");
    let mut failures = Vec::new();
    for recording in &recordings {
        let name = recording["test"].as_str().unwrap();
        let differences = if name.contains(&only) { Player::run(recording) } else { Vec::new() };
        if !differences.is_empty() {
            failures.push(format!("{name}\n{}", differences.join("\n")));
        }
    }
    let count = failures.len();
    assert!(failures.is_empty(), "{count} of {suite} differ:\n\n{}", failures.join("\n\n"));
}

#[test]
fn recordings_of_the_python_client() {
    check("python", 248);
}

#[test]
fn recordings_of_the_storage_client_of_python() {
    check("storage-python", 168);
}

#[test]
fn recordings_of_the_java_client() {
    check("java", 59);
}

#[test]
fn recordings_of_the_javascript_client() {
    check("js", 14);
}

/// The comparison must be able to fail.
#[test]
fn what_differs_is_noticed() {
    let line = r#"{"test":"t","steps":[{"request":"PUT /orders","headers":{"x-ms-version":"2021-02-12"},"status":STATUS,"answer_headers":{"x-ms-version":"VERSION"}ANSWER}]}"#;
    let run = |status: &str, version: &str, answer: &str| {
        let line = line.replace("STATUS", status).replace("VERSION", version);
        Player::run(&serde_json::from_str(&line.replace("ANSWER", answer)).unwrap()).is_empty()
    };
    assert!(run("201", "2021-02-12", ""));
    assert!(!run("204", "2021-02-12", ""));
    assert!(!run("201", "2021-02-13", ""));
    assert!(!run("201", "2021-02-12", r#","answer":"<Error />""#));
}

struct Player {
    queues: Queues,
    uses_policies: bool,
    /// The recorded value, and what the server returned instead.
    bound: BTreeMap<String, String>,
    /// When a message is visible next, and when it expires, by its recorded id.
    visible: BTreeMap<String, Timestamp>,
    expires: BTreeMap<String, (Timestamp, Timestamp)>,
    differences: Vec<String>,
}

impl Player {
    fn run(recording: &Value) -> Vec<String> {
        let steps = recording["steps"].as_array().unwrap();
        let mut player = Self {
            queues: Queues::new(),
            uses_policies: steps.iter().any(|s| s["request"].as_str().unwrap().contains("&si=")),
            bound: BTreeMap::new(),
            visible: BTreeMap::new(),
            expires: BTreeMap::new(),
            differences: Vec::new(),
        };
        player.set_up(&recording["setup"]);
        for (number, step) in steps.iter().enumerate() {
            let before = player.differences.len();
            player.step(step);
            if player.differences.len() > before {
                let title = format!(" step {number}: {}", step["request"]);
                player.differences.insert(before, title);
            }
        }
        player.differences
    }

    fn set_up(&self, setup: &Value) {
        for queue in setup["queues"].as_array().into_iter().flatten() {
            let mut ask = Ask::new("PUT", &format!("/{}", queue["name"].as_str().unwrap()));
            for (name, value) in queue["metadata"].as_object().into_iter().flatten() {
                ask = ask.with(&format!("x-ms-meta-{name}"), value.as_str().unwrap());
            }
            self.queues.send(&ask).expect(201);
        }
        if let Some(sections) = setup["service_properties"].as_str() {
            let body = format!("<StorageServiceProperties>{sections}</StorageServiceProperties>");
            let put = Ask::new("PUT", "/?restype=service&comp=properties").body(&body);
            self.queues.send(&put).expect(202);
        }
    }

    fn step(&mut self, step: &Value) {
        let (method, target) = step["request"].as_str().unwrap().split_once(' ').unwrap();
        let recorded = self.localize(step["answer"].as_str().unwrap_or_default());
        self.queues.clock.advance_ticks(10_000);
        if method == "GET" {
            self.wait(&recorded, step["at"].as_str());
        }
        let path = target.split('?').next().unwrap();
        let mut target = self.expand_target(target);
        let auth = step["auth"].as_str();
        if auth == Some("sas") {
            target = self.sign_anew(&target);
        }
        let headers = step["headers"].as_object().unwrap().iter();
        let ask = Ask {
            method: method.to_owned(),
            target,
            headers: headers.map(|(name, v)| (name.clone(), v.as_str().unwrap().into())).collect(),
            body: step["body"].as_str().map(|body| self.localize(body)),
            is_signed: auth.is_none(),
            at_secondary: step["secondary"] == true,
            has_length: true,
        };
        let got = self.queues.send(&ask);
        if u64::from(got.status) != step["status"].as_u64().unwrap() {
            self.differ("status", &step["status"].to_string(), &got.status.to_string());
        }
        if let Some(visible) = got.header("x-ms-time-next-visible") {
            let id = path.rsplit('/').next().unwrap();
            self.visible.insert(id.to_owned(), time(visible).plus_seconds(1));
        }
        self.compare_headers(&step["answer_headers"], &got);
        self.compare_body(&recorded, &got.body);
    }

    /// Advances the clock where the recording waited: until a message that it shows is visible again, or
    /// one that it no longer shows has expired.
    fn wait(&self, recorded: &str, at: Option<&str>) {
        let ids: Vec<&str> =
            recorded.split("<MessageId>").skip(1).map(|rest| &rest[..36]).collect();
        let at = at.and_then(Timestamp::parse_rfc1123);
        let shown = ids.iter().filter_map(|id| self.visible.get(*id)).copied();
        let gone = self.expires.iter().filter(|(id, _)| !ids.contains(&id.as_str()));
        let gone = gone.filter(|(_, (recorded, _))| at.is_some_and(|at| *recorded <= at));
        let until = shown.chain(gone.map(|(_, (_, ours))| *ours)).max();
        let now = self.queues.clock.now();
        if let Some(until) = until.filter(|until| *until > now) {
            self.queues.clock.advance_ticks(until.ticks() - now.ticks());
        }
    }

    fn localize(&self, text: &str) -> String {
        let mut text = text
            .replace("https://account.queue.core.windows.net", &format!("http://{HOST}/{ACCOUNT}"))
            .replace("Marker>/account/", &format!("Marker>/{ACCOUNT}/"));
        while let Some((before, rest)) = text.split_once("{*") {
            let (run, after) = rest.split_once('}').unwrap();
            let count = run[1..].parse().unwrap();
            text = format!("{before}{}{after}", run[..1].repeat(count));
        }
        if self.uses_policies { text.replace("<Expiry>20", "<Expiry>21") } else { text }
    }

    /// The target with what the service returned instead of what was recorded.
    fn expand_target(&self, target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let expand = |text: &str| {
            let bound = self.bound.iter();
            bound.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
        };
        let mut out = expand(path);
        let parsed = Query::parse(query).unwrap();
        for (at, ((name, value), raw)) in parsed.iter().zip(query.split('&')).enumerate() {
            let ours = expand(&value.replace("/account/", &format!("/{ACCOUNT}/")));
            out.push(if at == 0 { '?' } else { '&' });
            if ours == value {
                out.push_str(raw);
            } else {
                let mut bytes = Vec::new();
                percent_encode(&mut bytes, &ours);
                out.push_str(&format!("{name}={}", String::from_utf8(bytes).unwrap()));
            }
        }
        out
    }

    /// The same with its shared access signature signed again, valid today.
    fn sign_anew(&self, target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap();
        let parsed = Query::parse(query).unwrap();
        let get = |name| parsed.get(name).unwrap_or_default();
        let (now, key) =
            (self.queues.clock.now(), SigningKey::from_base64(WELL_KNOWN_KEY).unwrap());
        let shifted = |name, time: Timestamp| {
            if get(name).is_empty() { String::new() } else { time.to_string() }
        };
        let day_ago = Timestamp::from_unix_seconds(now.unix_seconds() - 86_400);
        let (start, expiry) = (shifted("st", day_ago), shifted("se", now.plus_seconds(86_400)));
        let protocol = if get("spr") == "https" { "https,http" } else { get("spr") };
        let token = if parsed.contains("ss") {
            let sas = AccountSas {
                version: get("sv"),
                services: get("ss"),
                resource_types: get("srt"),
                permissions: get("sp"),
                start: &start,
                expiry: &expiry,
                addresses: get("sip"),
                protocol,
                encryption_scope: get("ses"),
                signature: "",
            };
            sas.token(ACCOUNT, &key).unwrap()
        } else {
            let sas = QueueSas {
                version: get("sv"),
                start: &start,
                expiry: &expiry,
                permissions: get("sp"),
                policy: get("si"),
                addresses: get("sip"),
                protocol,
                signature: "",
            };
            let queue = path.split('/').nth(1).unwrap();
            sas.token(ACCOUNT, queue, &key).unwrap()
        };
        let of_token = ["sv", "ss", "srt", "st", "se", "sp", "sip", "spr", "sig", "si", "ses"];
        let is_ours = |pair: &&str| !of_token.contains(&pair.split('=').next().unwrap());
        let rest: Vec<&str> = query.split('&').filter(is_ours).chain([token.as_str()]).collect();
        format!("{path}?{}", rest.join("&"))
    }

    fn differ(&mut self, what: &str, want: &str, got: &str) {
        self.differences.push(format!("  {what}\n    recorded {want:?}\n    got      {got:?}"));
    }

    fn compare_headers(&mut self, want: &Value, got: &Answer) {
        for name in HEADERS {
            let (want, got) = (want[name].as_str(), got.header(name));
            if want != got {
                self.differ(name, want.unwrap_or("(none)"), got.unwrap_or("(none)"));
            }
        }
        if let Some(receipt) = want["x-ms-popreceipt"].as_str() {
            let ours = got.header("x-ms-popreceipt").unwrap_or_default();
            self.bind_receipt(receipt, ours);
        }
        let metadata = |name: &str| name.starts_with("x-ms-meta-");
        let want: BTreeMap<&str, &str> = want
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| metadata(name))
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
            .collect();
        let got: BTreeMap<&str, &str> = got
            .headers
            .iter()
            .filter(|(name, _)| metadata(name))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        if want != got {
            self.differ("metadata", &format!("{want:?}"), &format!("{got:?}"));
        }
    }

    fn compare_body(&mut self, want: &str, got: &str) {
        if want.is_empty() {
            if !got.is_empty() {
                self.differ("body", "", got);
            }
            return;
        }
        let Some(got) = got.strip_prefix(DECLARATION) else {
            return self.differ("declaration", DECLARATION, got);
        };
        // Byte by byte, except the texts of some elements.
        let (wanted, given): (Vec<_>, Vec<_>) = (pieces(want), pieces(got));
        if wanted.len() != given.len() {
            return self.differ("body", want, got);
        }
        let mut message = Message::default();
        for ((tag, want), (got_tag, got)) in wanted.into_iter().zip(given) {
            if tag != got_tag {
                return self.differ("element", tag, got_tag);
            }
            self.compare_text(tag, want, got, &mut message);
        }
    }

    fn compare_text(&mut self, tag: &str, want: &str, got: &str, message: &mut Message) {
        match tag {
            "MessageId" => {
                message.id = want.to_owned();
                let known = self.bound.entry(want.to_owned()).or_insert_with(|| got.to_owned());
                if known != got {
                    let known = known.clone();
                    self.differ("another message", &known, got);
                }
            }
            "PopReceipt" => self.bind_receipt(want, got),
            "InsertionTime" => message.inserted = Some((time(want), time(got))),
            "ExpirationTime" => {
                let (recorded, ours) = (time(want), time(got));
                self.expires.insert(message.id.clone(), (recorded, ours));
                if let Some((from, our_from)) = message.inserted
                    && (seconds(from, recorded) - seconds(our_from, ours)).abs() > SLACK_SECONDS
                    && want != got
                {
                    self.differ(tag, want, got);
                }
            }
            "TimeNextVisible" => {
                self.visible.insert(message.id.clone(), time(got).plus_seconds(1));
            }
            "LastSyncTime" => drop(time(got)),
            "Message" => {
                let first = |text: &str| text.split('\n').next().unwrap().to_owned();
                if first(want) != first(got) {
                    self.differ(tag, want, got);
                }
            }
            _ => {
                let bound = self.bound.iter();
                let want = bound.fold(want.to_owned(), |text, (from, to)| text.replace(from, to));
                if want != got {
                    self.differ(tag, &want, got);
                }
            }
        }
    }

    fn bind_receipt(&mut self, want: &str, got: &str) {
        if want.len() != got.len() {
            self.differ("receipt", want, got);
        }
        self.bound.insert(want.to_owned(), got.to_owned());
    }
}

/// What is known about the message whose elements are compared.
#[derive(Default)]
struct Message {
    id: String,
    inserted: Option<(Timestamp, Timestamp)>,
}

/// The tags of a document, each with the text after it.
fn pieces(document: &str) -> Vec<(&str, &str)> {
    let tags = document.split('<').skip(1);
    tags.map(|piece| piece.split_once('>').unwrap_or((piece, ""))).collect()
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse_rfc1123(text).unwrap_or_else(|| panic!("{text}"))
}

fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    i64::try_from(to.unix_seconds()).unwrap() - i64::try_from(from.unix_seconds()).unwrap()
}
