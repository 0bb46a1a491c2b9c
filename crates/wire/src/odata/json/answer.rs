//! Reads JSON responses as a client, at every metadata level.

use super::super::{BodyError, EntityBody};
use super::cursor::{Cursor, Scalar, read_object};
use super::members::{Kind, Members};
use lazuli_model::Timestamp;
use std::borrow::Cow;

/// An entity in a response. A selected property that the entity lacks is absent (T-4.44).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnsweredEntity<'a> {
    /// Absent without metadata, and in old versions (T-2.32a).
    pub etag: Option<Cow<'a, str>>,
    /// Absent if a `$select` did not name it.
    pub timestamp: Option<Timestamp>,
    pub body: EntityBody<'a>,
}

/// Reads the response to a point read or an insert.
pub fn read_answered_entity(body: &[u8]) -> Result<AnsweredEntity<'_>, BodyError> {
    let mut reader = Reader::new();
    read_object(body, |name, value| reader.add(name, value))?;
    reader.finish()
}

/// Reads the response to a query and calls `entity` for each entity.
pub fn read_feed<'a>(
    body: &'a [u8],
    mut entity: impl FnMut(AnsweredEntity<'a>),
) -> Result<(), BodyError> {
    read_collection(body, |element| {
        let mut reader = Reader::new();
        element.object(|name, value| reader.add(name, value))?;
        entity(reader.finish()?);
        Ok(())
    })
}

/// Reads the table names from the response to Query Tables.
pub fn read_tables(body: &[u8]) -> Result<Vec<String>, BodyError> {
    let mut names = Vec::new();
    read_collection(body, |element| {
        let mut found = None;
        element.object(|name, value| match (&*name, value.peek()) {
            ("TableName", Some(b'"')) => {
                found = text(value.scalar()?);
                Ok(())
            }
            _ => value.skip(),
        })?;
        names.push(found.ok_or(BodyError::InvalidValue)?.into_owned());
        Ok(())
    })?;
    Ok(names)
}

/// Reads the code and the message of an error; either may be empty.
///
/// The message is an object with a language and a value, or, as other servers write it, a string.
pub fn read_error(body: &[u8]) -> Result<(String, String), BodyError> {
    let mut found = None;
    read_object(body, |name, value| match &*name {
        "odata.error" | "error" => {
            found = Some(read_error_members(value)?);
            Ok(())
        }
        _ => value.skip(),
    })?;
    found.ok_or(BodyError::Malformed)
}

fn read_error_members(error: &mut Cursor<'_>) -> Result<(String, String), BodyError> {
    let (mut code, mut message) = (String::new(), String::new());
    let set = |slot: &mut String, value: &mut Cursor<'_>| {
        *slot = text(value.scalar()?).unwrap_or_default().into_owned();
        Ok(())
    };
    error.object(|name, value| match (&*name, value.peek()) {
        ("code", Some(b'"')) => set(&mut code, value),
        ("message", Some(b'"')) => set(&mut message, value),
        ("message", Some(b'{')) => value.object(|name, value| match (&*name, value.peek()) {
            ("value", Some(b'"')) => set(&mut message, value),
            _ => value.skip(),
        }),
        _ => value.skip(),
    })?;
    Ok((code, message))
}

/// Calls `element`, which must read it, for each element of the required member `value`.
fn read_collection<'a>(
    body: &'a [u8],
    mut element: impl FnMut(&mut Cursor<'a>) -> Result<(), BodyError>,
) -> Result<(), BodyError> {
    let mut has_value = false;
    read_object(body, |name, value| match &*name {
        "value" => {
            has_value = true;
            value.array(&mut element)
        }
        _ => value.skip(),
    })?;
    if has_value { Ok(()) } else { Err(BodyError::Malformed) }
}

fn text(value: Scalar<'_>) -> Option<Cow<'_, str>> {
    match value {
        Scalar::String(text) => Some(text),
        _ => None,
    }
}

struct Reader<'a> {
    etag: Option<Cow<'a, str>>,
    timestamp: Option<Timestamp>,
    members: Members<'a>,
}

impl<'a> Reader<'a> {
    fn new() -> Self {
        Self { etag: None, timestamp: None, members: Members::with_room() }
    }

    fn add(&mut self, name: Cow<'a, str>, value: &mut Cursor<'a>) -> Result<(), BodyError> {
        match Kind::of(&name) {
            Kind::ETag => self.etag = text(value.scalar()?),
            Kind::Timestamp => {
                let time = text(value.scalar()?);
                let time = time.map(|time| Timestamp::parse(&time).ok_or(BodyError::InvalidValue));
                self.timestamp = time.transpose()?;
            }
            Kind::Ignored => value.skip()?,
            kind => self.members.add(kind, name, value)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<AnsweredEntity<'a>, BodyError> {
        let Self { etag, timestamp, members } = self;
        Ok(AnsweredEntity { etag, timestamp, body: members.finish()? })
    }
}

#[cfg(test)]
mod tests;
