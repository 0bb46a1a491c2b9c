//! Recorded values that must differ, and what the server returned instead.

use super::super::harness::{Json, encode};
use std::collections::HashMap;

/// PartitionKey and RowKey.
pub(super) type Key = (String, String);

/// The values of the placeholders in one recorded test.
#[derive(Default)]
pub(super) struct Bindings {
    /// The service may give several entities the same Timestamp, hence the same ETag, where we give
    /// different ones; so a recorded ETag is bound per entity.
    etags: HashMap<String, Vec<(Option<Key>, String)>>,
    times: HashMap<String, String>,
    tokens: HashMap<String, String>,
    /// The ETag of each address as last recorded and as last received.
    last: HashMap<String, (String, String)>,
}

impl Bindings {
    /// Binds a recorded ETag; the error is its earlier binding.
    pub(super) fn bind_etag(
        &mut self,
        recorded: &str,
        key: Option<&Key>,
        received: &str,
    ) -> Result<(), String> {
        let known = self.etags.entry(recorded.to_owned()).or_default();
        let same_key = known.iter().find(|(bound, _)| bound.as_ref() == key);
        match same_key {
            Some((_, bound)) if bound == received => Ok(()),
            Some((_, bound)) => Err(bound.clone()),
            None if key.is_none() && !known.is_empty() => {
                let bound = known.iter().find(|(_, bound)| bound == received);
                bound.map(|_| ()).ok_or_else(|| known[0].1.clone())
            }
            None => {
                known.push((key.cloned(), received.to_owned()));
                Ok(())
            }
        }
    }

    pub(super) fn bind_time(&mut self, recorded: &str, received: &str) {
        self.times.insert(recorded.to_owned(), received.to_owned());
    }

    pub(super) fn bind_token(&mut self, recorded: &str, received: &str) {
        self.tokens.insert(recorded.to_owned(), received.to_owned());
    }

    /// Notes the ETag of a response; `false` if the service gave a new one and we did not.
    pub(super) fn follow_etag(&mut self, path: &str, recorded: &str, received: &str) -> bool {
        let pair = (recorded.to_owned(), received.to_owned());
        match self.last.insert(path.to_owned(), pair) {
            Some((before, got)) => before == recorded || got != received,
            None => true,
        }
    }

    /// Inserts received values into a text about the entity `key`.
    pub(super) fn expand(&self, text: &str, key: Option<&Key>) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, placeholder, after)) = next_placeholder(rest) {
            out.push_str(before);
            let value = self.value(placeholder, key);
            let in_json = before.ends_with('"') && after.starts_with('"');
            out.push_str(&if in_json { value.replace('"', "\\\"") } else { value });
            rest = after;
        }
        out.push_str(rest);
        out
    }

    /// A query with received values, and received tokens in place of recorded ones.
    pub(super) fn expand_query(&self, query: &str) -> String {
        let expanded = self.expand(query, None);
        let parameter = |parameter: &str| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let token = self.tokens.get(&decode(value)).filter(|_| name.starts_with("Next"));
            match token {
                Some(token) => format!("{name}={}", encode(token)),
                None => parameter.to_owned(),
            }
        };
        expanded.split('&').map(parameter).collect::<Vec<_>>().join("&")
    }

    fn value(&self, placeholder: &str, key: Option<&Key>) -> String {
        let found = match self.etags.get(placeholder) {
            Some(known) => {
                let of_key = known.iter().find(|(bound, _)| bound.as_ref() == key);
                of_key.or(known.first()).map(|(_, bound)| bound.clone())
            }
            None => self.times.get(placeholder).cloned(),
        };
        // A value that the server never gave is like any other wrong value.
        found.unwrap_or_else(|| "W/\"datetime'2000-01-01T00%3A00%3A00Z'\"".to_owned())
    }
}

/// Splits a text at its next `{etag n}` or `{time n}`.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let starts = ["{etag ", "{time "];
    let at = starts.iter().filter_map(|start| text.find(start)).min()?;
    let end = at + text[at..].find('}')? + 1;
    Some((&text[..at], &text[at..end], &text[end..]))
}

/// The keys of a request, from its address or else its body.
pub(super) fn key_of(address: &str, body: &str) -> Option<Key> {
    key_of_address(&decode(address)).or_else(|| {
        let json = Json::parse(body)?;
        let text = |name| json.get(name).and_then(Json::text).map(str::to_owned);
        Some((text("PartitionKey")?, text("RowKey")?))
    })
}

fn key_of_address(address: &str) -> Option<Key> {
    let (_, rest) = address.split_once("(PartitionKey='")?;
    let (partition, rest) = split_literal(rest)?;
    let rest = rest.strip_prefix(',')?.trim_start().strip_prefix("RowKey='")?;
    let (row, _) = split_literal(rest)?;
    Some((partition, row))
}

/// The text up to a quote that is not doubled, and what follows the quote.
fn split_literal(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('\'')?;
        value.push_str(before);
        match after.strip_prefix('\'') {
            Some(after) => {
                value.push('\'');
                rest = after;
            }
            None => return Some((value, after)),
        }
    }
}

/// Percent-decodes; what cannot be decoded stays.
pub(super) fn decode(text: &str) -> String {
    lazuli_wire::uri::percent_decode_lenient(text).into_owned()
}
