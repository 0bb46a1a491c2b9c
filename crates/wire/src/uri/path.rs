//! Resource paths: which resource of an account a URL names.

use super::predicate::{PredicateError, parse_key_predicate, parse_table_key};
use crate::error_code::message;
use crate::words::find_byte;
use std::borrow::Cow;

/// A resource of an account. Table names are as in the URL, not yet checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourcePath<'a> {
    /// The root: service properties and statistics.
    Service,
    /// `(..)`: a predicate, and no name before it (T-1.17a).
    Unnamed,
    /// `Tables`: the list of tables.
    Tables,
    /// `Tables('name')`: one table.
    Table { name: Cow<'a, str> },
    /// `name` or `name()`: the entities of a table, and its access policies.
    Entities { table: &'a str },
    /// `name(PartitionKey='..',RowKey='..')`: one entity. The keys are not yet checked: a forbidden
    /// character in one is reported as in T-1.27.
    Entity { table: &'a str, partition_key: Cow<'a, str>, row_key: Cow<'a, str> },
    /// `$batch`: entity group transactions.
    Batch,
    /// Two or more segments that begin with a table name: an odd form that the service treats as an
    /// insert into the table, or refuses if a later segment has a key predicate (T-1.13 to T-1.15).
    Nested { table: &'a str, keyed: bool },
    /// `name/$count` or `name()/$count`: the number of entities, an extension.
    Count { table: &'a str },
    /// `$count`, `$value`, `$links`, or a property of one entity: not implemented (T-4.46).
    Unsupported,
}

/// Why a path names no resource: `InvalidInput` with [`PathError::message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key predicate of '{resource}' cannot be read: {error}")]
pub struct PathError<'a> {
    pub resource: &'a str,
    pub predicate: &'a str,
    pub error: PredicateError,
}

impl PathError<'_> {
    /// The message of the error body (T-1.13, T-1.26, T-1.27).
    pub fn message(&self, account: &str) -> Cow<'static, str> {
        match self.error {
            PredicateError::InvalidCharacter { character, position } => {
                message::invalid_character(character, position, self.predicate).into()
            }
            PredicateError::UnterminatedString { position } => {
                message::unterminated_string(position, self.predicate).into()
            }
            PredicateError::Syntax => message::ERROR_IN_QUERY_SYNTAX.into(),
            PredicateError::KeyCount => message::number_of_keys(account, self.resource).into(),
        }
    }
}

impl<'a> ResourcePath<'a> {
    /// Reads a decoded path from which the account segment of path style has been removed.
    ///
    /// The service decodes before it splits, so an encoded slash separates segments like a raw one
    /// (recorded: `a%2F%2F` is treated as the name `a`). Empty segments are ignored.
    pub fn parse(path: &'a str) -> Result<Self, PathError<'a>> {
        let mut segments = Segments(path);
        let Some(first) = segments.next() else {
            return Ok(Self::Service);
        };
        if first.starts_with('(') {
            return Ok(Self::Unnamed);
        }
        let (name, predicate) = split_predicate(first)?;
        match segments.next() {
            None => Self::single(name, predicate),
            Some(second) => Ok(Self::nested(name, predicate, second, segments)),
        }
    }

    fn single(name: &'a str, predicate: Option<&'a str>) -> Result<Self, PathError<'a>> {
        let fault = |predicate| move |error| PathError { resource: name, predicate, error };
        match (name, predicate) {
            ("$batch", None) => Ok(Self::Batch),
            ("Tables", None) => Ok(Self::Tables),
            ("Tables", Some(key)) => {
                parse_table_key(key).map(|name| Self::Table { name }).map_err(fault(key))
            }
            (table, None) => Ok(Self::Entities { table }),
            (table, Some(keys)) => parse_key_predicate(keys)
                .map(|(partition_key, row_key)| Self::Entity { table, partition_key, row_key })
                .map_err(fault(keys)),
        }
    }

    fn nested(
        table: &'a str,
        predicate: Option<&str>,
        second: &str,
        mut later: Segments<'_>,
    ) -> Self {
        if second == "$count" && predicate.is_none() && later.0.trim_matches('/').is_empty() {
            return Self::Count { table };
        }
        let unsupported = ["$count", "$value", "$links"];
        if predicate.is_some() || unsupported.contains(&second) {
            return Self::Unsupported;
        }
        let has_predicate = |segment: &str| segment.contains('(');
        let keyed = has_predicate(second) || later.any(has_predicate);
        Self::Nested { table, keyed }
    }
}

/// Splits a segment into its name and the content of its parentheses; empty parentheses are ignored
/// (T-1.8).
fn split_predicate(segment: &str) -> Result<(&str, Option<&str>), PathError<'_>> {
    let opening = find_byte(b'(', segment.as_bytes());
    let Some((name, after)) = opening.and_then(|at| segment.split_at_checked(at)) else {
        return Ok((segment, None));
    };
    let after = after.strip_prefix('(').unwrap_or(after);
    match after.strip_suffix(')') {
        Some(inner) if inner.trim().is_empty() => Ok((name, None)),
        Some(inner) => Ok((name, Some(inner))),
        None => Err(PathError { resource: name, predicate: after, error: PredicateError::Syntax }),
    }
}

/// The non-empty segments of a path. A slash within quotes belongs to a key, which is then refused
/// because of it.
struct Segments<'a>(&'a str);

impl<'a> Iterator for Segments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.0 = self.0.trim_start_matches('/');
        if self.0.is_empty() {
            return None;
        }
        // Most paths have no further slash, and then quotes need not be searched.
        let end = find_byte(b'/', self.0.as_bytes()).and_then(|_| unquoted_slash(self.0));
        let (segment, rest) = self.0.split_at_checked(end.unwrap_or(self.0.len()))?;
        self.0 = rest;
        Some(segment)
    }
}

fn unquoted_slash(path: &str) -> Option<usize> {
    let mut quoted = false;
    path.bytes().position(|byte| {
        quoted ^= byte == b'\'';
        byte == b'/' && !quoted
    })
}
