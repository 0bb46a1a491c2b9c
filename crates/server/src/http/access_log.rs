//! The access log: one line per request, or only for requests that an operator should see.

use crate::http::meter::{Outcome, Slot};
use crate::http::record::Record;
use crate::operation::ServiceName;
use http::header::{self, HeaderMap, HeaderName};
use lazuli_meter::Label;
use lazuli_model::digits::write_unsigned;
use lazuli_wire::uri::percent_decode;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

/// The log target of access lines.
pub const ACCESS: &str = "lazuli_access";

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Maximum bytes of a User-Agent in the log.
const AGENT_BYTES_MAX: usize = 128;

/// Which requests are logged, and how.
#[derive(Clone, Copy, Debug)]
pub struct AccessLog {
    pub lines: AccessLines,
    /// A request that takes longer is logged like a failed one.
    pub slow: Duration,
    /// Whether the query is logged with the path, with its signature masked.
    pub query: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLines {
    Off,
    /// Server failures, and requests that were throttled, cut, unreadable or slow.
    Errors,
    All,
}

impl Default for AccessLog {
    fn default() -> Self {
        Self { lines: AccessLines::Off, slow: Duration::from_secs(1), query: false }
    }
}

impl AccessLog {
    pub(crate) fn wants(&self, record: &Record<'_>) -> bool {
        match self.lines {
            AccessLines::Off => false,
            AccessLines::All => true,
            AccessLines::Errors => {
                let failed = match record.outcome {
                    Outcome::ServerError | Outcome::Throttled | Outcome::Cut => true,
                    // Nothing else reports an unreadable head to the operator.
                    Outcome::ClientError => record.request.is_none(),
                    Outcome::Ok => false,
                };
                failed || record.elapsed() >= self.slow
            }
        }
    }

    /// Logs a request. `resource` is the table, queue or container it names.
    pub(crate) fn write(&self, record: &Record<'_>, service: ServiceName, resource: Option<&str>) {
        let Record { context, request, work, .. } = record;
        let headers = request.map(|request| &request.headers);
        let path = request.map(|request| match request.uri.query().filter(|_| self.query) {
            Some(query) => Cow::Owned(format!("{}?{}", request.uri.path(), masked(query))),
            None => Cow::Borrowed(request.uri.path()),
        });
        let target = context.target.as_ref();
        tracing::info!(
            target: ACCESS,
            id = context.id.as_str(),
            client_id = context.client_request_id(),
            trace_id = headers.and_then(trace_id),
            service = service.name(),
            account = target.map(|(account, _)| account.name.as_str()),
            op = context.operation.map(|facts| facts.name),
            resource,
            method = request.map(|request| request.method.as_str()),
            path = path.as_deref(),
            status = record.status,
            code = record.failure.map(|failure| failure.code.name()),
            outcome = (record.outcome == Outcome::Cut).then(|| record.outcome.name()),
            us = micros(record.elapsed()),
            commit_us = some(micros(context.committing)),
            "in" = some(record.context.bytes_in),
            out = some(record.bytes_out),
            ops = some(work.operations.into()),
            plan = work.plan.map(Label::name),
            examined = work.plan.map(|_| work.examined),
            returned = work.plan.map(|_| work.returned),
            auth = credential(record).as_deref(),
            peer = address_text(record.peer.address).as_str(),
            agent = headers.and_then(agent),
            api = context.version.as_ref().and_then(|version| version.text.to_str().ok()),
            would_fail = context.would_fail.map(|code| code.name()),
            "request"
        );
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Leaves out zero.
fn some(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

/// The text of an address; by hand for IPv4, because the formatter takes several times as long.
fn address_text(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else { return address.to_string() };
    let mut text = Vec::with_capacity("255.255.255.255:65535".len());
    for octet in address.ip().octets() {
        write_unsigned(&mut text, octet.into());
        text.push(b'.');
    }
    text.pop();
    text.push(b':');
    write_unsigned(&mut text, address.port().into());
    String::from_utf8(text).unwrap_or_default()
}

/// The second field of `traceparent`, which W3C's Trace Context defines: `00-<trace id>-<parent>-<flags>`.
fn trace_id(headers: &HeaderMap) -> Option<&str> {
    const TRACE_ID_BYTES: usize = 32;
    let id = headers.get(TRACE_PARENT)?.to_str().ok()?.split('-').nth(1)?;
    (id.len() == TRACE_ID_BYTES && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}

fn agent(headers: &HeaderMap) -> Option<&str> {
    let agent = headers.get(header::USER_AGENT)?.to_str().ok()?;
    // The text is ASCII, so it can be cut anywhere.
    agent.get(..agent.len().min(AGENT_BYTES_MAX))
}

/// How the request was authenticated; `None` if its credential was refused or not checked.
fn credential(record: &Record<'_>) -> Option<Cow<'static, str>> {
    let (context, request) = (record.context, record.request?);
    if let Some(place) = context.signing_key {
        return Some(Cow::Borrowed(if place == 0 { "key1" } else { "key2" }));
    }
    let has_header = request.headers.contains_key(header::AUTHORIZATION);
    let query = request.uri.query().unwrap_or_default();
    if !context.is_authenticated {
        let is_preflight = context.flight.slot == Slot::PREFLIGHT;
        let is_anonymous = is_preflight || !has_header && !has_signature(query);
        return is_anonymous.then_some(Cow::Borrowed("anonymous"));
    }
    if has_header {
        return Some(Cow::Borrowed("bearer"));
    }
    let policy = query.split('&').find_map(|pair| pair.strip_prefix("si="));
    Some(policy.map_or(Cow::Borrowed("sas"), |policy| Cow::Owned(format!("sas:{policy}"))))
}

fn has_signature(query: &str) -> bool {
    let names = query.split('&').filter_map(|pair| Some(pair.split_once('=')?.0));
    names.filter_map(|name| percent_decode(name).ok()).any(|name| name.eq_ignore_ascii_case("sig"))
}

/// A query with its signature, and anything that could be one, masked.
fn masked(query: &str) -> String {
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if name.eq_ignore_ascii_case("sig") || name.contains('%') => {
            Cow::Owned(format!("{name}=***"))
        }
        _ => Cow::Borrowed(pair),
    });
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_masked_however_they_are_spelled() {
        assert_eq!(masked("sv=1&sig=abc%3D&se=2"), "sv=1&sig=***&se=2");
        assert_eq!(masked("SIG=abc"), "SIG=***");
        assert_eq!(masked("%73ig=abc"), "%73ig=***");
        assert_eq!(masked("$filter=a eq 'b'&x"), "$filter=a eq 'b'&x");
    }

    #[test]
    fn a_signature_is_found_however_it_is_spelled() {
        for query in ["sv=1&sig=a", "SIG=a", "%73ig=a"] {
            assert!(has_signature(query), "{query}");
        }
        for query in ["", "sig", "%24filter=sig", "a=sig=b"] {
            assert!(!has_signature(query), "{query}");
        }
    }

    #[test]
    fn addresses_are_written_as_usual() {
        for text in ["127.0.0.1:10002", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:443"] {
            assert_eq!(address_text(text.parse().unwrap()), text);
        }
    }

    #[test]
    fn a_trace_id_is_the_second_field() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        let headers = |value: &str| {
            HeaderMap::from_iter([("traceparent".parse().unwrap(), value.parse().unwrap())])
        };
        assert_eq!(trace_id(&headers(&format!("00-{id}-00f067aa0ba902b7-01"))), Some(id));
        assert_eq!(trace_id(&headers("00-xyz-1-01")), None);
        assert_eq!(trace_id(&headers("")), None);
        assert_eq!(trace_id(&HeaderMap::new()), None);
    }
}
