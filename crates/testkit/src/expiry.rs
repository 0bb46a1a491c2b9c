//! Entities that expire on a running server. Its clock cannot be controlled, so a property of
//! the entity says when it expires: either long ago, so that it is gone as soon as it is written, or
//! far in the future.

use crate::http::{Connection, Request};
use crate::table::{Outcome, expect, send};
use anyhow::Result;
use serde_json::{Map, Value};

const HEADERS: &[(&str, &str)] = &[("x-lazuli-extensions", "on")];
/// The property.
pub const PROPERTY: &str = "At";
/// A moment in the past.
pub const PAST: &str = "2001-01-01T00:00:00Z";
const FUTURE: &str = "2999-01-01T00:00:00Z";

/// Makes entities of a table expire at the time given in the property.
pub fn turn_on(connection: &mut Connection, table: &str) -> Result<Outcome> {
    let path = format!("/{table}?comp=lazuli-ttl");
    let body = format!("{{\"property\":\"{PROPERTY}\"}}");
    match send(connection, &Request::new("PUT", &path).headers(HEADERS).json(&body)) {
        Ok(answer) => expect(&answer, 200, || format!("let entities of {table} expire")),
        Err(outcome) => Ok(outcome),
    }
}

/// The property of an entity that has expired, or that expires far in the future.
pub fn property(is_over: bool) -> (String, Value) {
    (PROPERTY.to_owned(), if is_over { PAST } else { FUTURE }.into())
}

/// Whether an entity with these properties has expired.
pub fn is_over(properties: &Map<String, Value>) -> bool {
    properties.get(PROPERTY).and_then(Value::as_str) == Some(PAST)
}

/// Adds the type of the property, as a body needs.
pub fn add_type(body: &mut Map<String, Value>) {
    if body.contains_key(PROPERTY) {
        body.insert(format!("{PROPERTY}@odata.type"), "Edm.DateTime".into());
    }
}
