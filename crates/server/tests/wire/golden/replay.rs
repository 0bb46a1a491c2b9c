//! Replays one recorded test against its own server.

use super::bindings::{Bindings, key_of};
use super::compare::Comparison;
use super::corpus::{Credential, Message, Recording, Step};
use super::multipart::request_pieces;
use super::sas;
use crate::harness::{ACCOUNT, Json, Lazuli, Request, Response, TrustedIssuer};
use lazuli_model::Clock;

/// Replays all steps; returns what differs.
pub(super) fn run(recording: &Recording) -> Vec<String> {
    let player = Player::new(recording);
    let mut bindings = Bindings::default();
    player.set_up(recording, &mut bindings);
    let mut differences = Vec::new();
    for (number, step) in recording.steps.iter().enumerate() {
        let step = player.localized(step);
        let got = player.send(&step, &bindings);
        let found = Comparison::new(&mut bindings, recording.verbatim).answer(&step, &got);
        if !found.is_empty() {
            differences.push(format!(" step {number}: {} {}", step.method, step.path));
            differences.extend(found);
        }
    }
    differences
}

struct Player {
    lazuli: Lazuli,
    uses_policies: bool,
    /// Sent with the steps that were recorded for a directory identity.
    bearer_token: Option<String>,
    /// Whom the server trusts.
    _issuer: Option<TrustedIssuer>,
}

impl Player {
    fn new(recording: &Recording) -> Self {
        let uses_policies = uses_policies(recording);
        let needs_token = |step: &Step| step.credential == Credential::Bearer;
        if !recording.steps.iter().any(needs_token) {
            let lazuli = Lazuli::empty();
            return Self { lazuli, uses_policies, bearer_token: None, _issuer: None };
        }
        let (lazuli, issuer) = Lazuli::trusting();
        let bearer_token = Some(issuer.contributor(&lazuli));
        Self { lazuli, uses_policies, bearer_token, _issuer: Some(issuer) }
    }

    /// Creates what the recording found in place.
    fn set_up(&self, recording: &Recording, bindings: &mut Bindings) {
        for table in &recording.tables {
            self.lazuli.create_table(table).expect(201);
        }
        for entity in &recording.entities {
            let json = Json::parse(&entity.json).unwrap();
            let key =
                ["PartitionKey", "RowKey"].map(|name| json.get(name).unwrap().text().unwrap());
            let inserted = self.lazuli.insert(&entity.table, &entity.json).expect(201);
            if let Some(recorded) = &entity.etag {
                let key = (key[0].to_owned(), key[1].to_owned());
                let bound =
                    bindings.bind_etag(recorded, Some(&key), inserted.header("etag").unwrap());
                bound.unwrap();
            }
        }
        if !recording.properties.is_empty() {
            let sections = &recording.properties;
            let body = format!("<StorageServiceProperties>{sections}</StorageServiceProperties>");
            let put = Request::new("PUT", "/?restype=service&comp=properties");
            self.lazuli.send(&put.body("application/xml", &body)).expect(202);
        }
    }

    /// A step as it would have been recorded here.
    fn localized(&self, step: &Step) -> Step {
        let message = |message: &Message| Message {
            headers: message
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), self.localize(value)))
                .collect(),
            body: message.body.as_deref().map(|body| self.localize(body)),
        };
        Step {
            method: step.method.clone(),
            path: step.path.clone(),
            query: step.query.clone(),
            credential: step.credential,
            secondary: step.secondary,
            request: message(&step.request),
            status: step.status,
            answer: message(&step.answer),
        }
    }

    fn localize(&self, text: &str) -> String {
        let base = format!("http://{}/{ACCOUNT}", self.lazuli.address);
        let text = text.replace("{secondary}", &format!("{base}-secondary"));
        let text = text.replace("{base}", &base).replace("{account}", ACCOUNT);
        if self.uses_policies { extend_expiry(&text) } else { text }
    }

    fn send(&self, step: &Step, bindings: &Bindings) -> Response {
        let mut query = bindings.expand_query(&step.query);
        if step.credential == Credential::Sas {
            query = sas::sign_anew(&query, self.lazuli.clock.now());
        }
        let mut target = bindings.expand(&step.path, None);
        if !query.is_empty() {
            target = format!("{target}?{query}");
        }
        let mut request = Request::bare(&step.method, &target);
        let key = key_of(&step.path, step.request.text());
        for (name, value) in &step.request.headers {
            request = request.also(name, &bindings.expand(value, key.as_ref()));
        }
        if let Some(body) = &step.request.body {
            request = request.payload(&if step.request.is_multipart() {
                batch_body(body, bindings)
            } else {
                bindings.expand(body, key.as_ref())
            });
        } else if step.method != "GET" && step.method != "DELETE" {
            request = request.payload("");
        }
        if step.secondary {
            request = request.at_secondary();
        }
        match (step.credential, &self.bearer_token) {
            (Credential::AccountKey, _) => {}
            (Credential::Bearer, Some(token)) => request = request.with("Authorization", token),
            _ => request = request.unsigned(),
        }
        self.lazuli.send(&request)
    }
}

/// The body of a batch with received values, each request bound by its own entity. A path below the
/// host is moved below the account.
fn batch_body(body: &str, bindings: &Bindings) -> String {
    let mut out = String::new();
    for part in request_pieces(body) {
        let mut text = bindings.expand(part.text, part.key().as_ref());
        for method in ["GET", "POST", "PUT", "MERGE", "PATCH", "DELETE"] {
            let (host, path) = (format!("\n{method} /"), format!("\n{method} /{ACCOUNT}/"));
            text = text.replace(&host, &path);
        }
        out.push_str(&text);
    }
    out
}

fn uses_policies(recording: &Recording) -> bool {
    let names_policy = |step: &Step| step.query.split('&').any(|part| part.starts_with("si="));
    recording.steps.iter().any(names_policy)
}

/// Moves the expiry of stored access policies a century on, so that they still hold.
fn extend_expiry(text: &str) -> String {
    text.replace("<Expiry>20", "<Expiry>21")
}
