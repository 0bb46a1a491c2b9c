//! JSON request bodies: one flat object, read in one pass and mostly borrowed.
//!
//! The parser is our own because a general one says too little: the service infers types from the
//! spelling of a number (`3` and `3.0` differ, an Int64 must not pass through a Double), and refuses
//! nested values, so that no depth needs a bound.

use super::super::body::{finite_double, set_key, string, value_from_text};
use super::super::lexical::{below, equal, plain_prefix};
use super::super::{BodyError, EntityBody};
use lazuli_model::{EdmType, Value};
use std::borrow::Cow;

/// Reads an entity (sections 3.4 to 3.6 of the specification).
pub fn read_entity(body: &[u8]) -> Result<EntityBody<'_>, BodyError> {
    let mut entity = Members {
        // Most entities have no more, and take no second allocation.
        properties: Vec::with_capacity(16),
        ..Members::default()
    };
    read_object(body, |name, scalar| entity.add(name, scalar))?;
    entity.finish()
}

/// Reads the body of Create Table; `None` when it names no table.
pub fn read_table_name(body: &[u8]) -> Result<Option<String>, BodyError> {
    let mut table = None;
    read_object(body, |name, scalar| {
        if name == "TableName" {
            table = match scalar {
                Scalar::Null => None,
                Scalar::String(text) => Some(text.into_owned()),
                _ => return Err(BodyError::InvalidValue),
            };
        }
        Ok(())
    })?;
    Ok(table)
}

/// A JSON value that is neither object nor array. Numbers keep their spelling.
enum Scalar<'a> {
    Null,
    Boolean(bool),
    Number(&'a str),
    String(Cow<'a, str>),
}

/// The members of an entity while it is read: an annotation may come before or after its property
/// (T-3.24), so no value is converted before the end.
#[derive(Default)]
struct Members<'a> {
    partition_key: Option<Cow<'a, str>>,
    row_key: Option<Cow<'a, str>>,
    has_mistyped_key: bool,
    properties: Vec<Property<'a>>,
    /// Annotations whose property has not come, or came long ago.
    annotations: Vec<(Cow<'a, str>, EdmType)>,
}

struct Property<'a> {
    name: Cow<'a, str>,
    value: Scalar<'a>,
    edm_type: Option<EdmType>,
}

impl<'a> Members<'a> {
    fn add(&mut self, name: Cow<'a, str>, value: Scalar<'a>) -> Result<(), BodyError> {
        match &*name {
            "PartitionKey" | "RowKey" => self.add_key(&name, value),
            // Ignored whatever they say (T-2.47, T-3.23).
            "Timestamp" => Ok(()),
            control if control.starts_with("odata.") => Ok(()),
            other => match split_annotation(other) {
                None => {
                    self.add_property(name, value);
                    Ok(())
                }
                Some((_, "type")) => self.annotate(name, value),
                Some(_) => Ok(()),
            },
        }
    }

    fn add_key(&mut self, name: &str, value: Scalar<'a>) -> Result<(), BodyError> {
        let slot = match name {
            "PartitionKey" => &mut self.partition_key,
            _ => &mut self.row_key,
        };
        match value {
            Scalar::Null => {}
            Scalar::String(text) => set_key(slot, text)?,
            Scalar::Boolean(_) | Scalar::Number(_) => self.has_mistyped_key = true,
        }
        Ok(())
    }

    fn add_property(&mut self, name: Cow<'a, str>, value: Scalar<'a>) {
        // .NET clients annotate just before the property.
        let edm_type = self
            .annotations
            .pop_if(|(annotated, _)| *annotated == name)
            .map(|(_, edm_type)| edm_type);
        self.properties.push(Property { name, value, edm_type });
    }

    fn annotate(&mut self, name: Cow<'a, str>, value: Scalar<'a>) -> Result<(), BodyError> {
        let Scalar::String(edm_type) = value else {
            return Err(BodyError::Malformed);
        };
        let edm_type = EdmType::from_name(&edm_type).ok_or(BodyError::UnknownType)?;
        let target = before_annotation(name);
        match &*target {
            "PartitionKey" | "RowKey" => {
                self.has_mistyped_key |= edm_type != EdmType::String;
                return Ok(());
            }
            "Timestamp" => return Ok(()),
            _ => {}
        }
        // Python and JavaScript clients annotate just after the property.
        match self.properties.last_mut() {
            Some(last) if last.name == target => last.edm_type = Some(edm_type),
            _ => self.annotations.push((target, edm_type)),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<EntityBody<'a>, BodyError> {
        // Sorted, so that a body full of stray annotations costs no more than sorting it.
        self.annotations.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut properties = Vec::with_capacity(self.properties.len());
        for property in self.properties {
            let stray = || {
                let found = (self.annotations).binary_search_by(|(a, _)| a.cmp(&property.name));
                Some(self.annotations.get(found.ok()?)?.1)
            };
            let edm_type = property.edm_type.or_else(stray);
            if let Some(value) = convert(property.value, edm_type)? {
                properties.push((property.name, value));
            }
        }
        let Self { partition_key, row_key, has_mistyped_key, .. } = self;
        Ok(EntityBody { partition_key, row_key, has_mistyped_key, properties })
    }
}

/// `X` and `type` of `X@odata.type`.
fn split_annotation(name: &str) -> Option<(&str, &str)> {
    let (target, term) = name.split_once('@')?;
    Some((target, term.strip_prefix("odata.")?))
}

/// `X` of `X@odata.type`.
fn before_annotation(name: Cow<'_, str>) -> Cow<'_, str> {
    let target = |text: &str| split_annotation(text).map_or(text.len(), |(target, _)| target.len());
    match name {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..target(text)).unwrap_or(text)),
        Cow::Owned(mut text) => {
            text.truncate(target(&text));
            Cow::Owned(text)
        }
    }
}

/// The stored value, `None` for a null, which even an annotation does not make anything else
/// (T-3.48).
fn convert(value: Scalar<'_>, edm_type: Option<EdmType>) -> Result<Option<Value<'_>>, BodyError> {
    match value {
        Scalar::Null => return Ok(None),
        Scalar::Boolean(value) => match edm_type {
            None | Some(EdmType::Boolean) => Ok(Value::Boolean(value)),
            Some(_) => Err(BodyError::InvalidValue),
        },
        Scalar::Number(text) => convert_number(text, edm_type),
        Scalar::String(text) => match edm_type {
            None => string(text),
            Some(edm_type) => value_from_text(text, edm_type),
        },
    }
    .map(Some)
}

fn convert_number(text: &str, edm_type: Option<EdmType>) -> Result<Value<'_>, BodyError> {
    let value = match edm_type {
        Some(EdmType::Int32) => text.parse().ok().map(Value::Int32),
        Some(EdmType::Int64) => text.parse().ok().map(Value::Int64),
        Some(EdmType::Double) => finite_double(text).map(Value::Double),
        Some(_) => None,
        // Only an integer's spelling parses as one: `3.0` and `3e0` are Doubles, and so is what an
        // Int32 cannot hold (section 3.5).
        None => {
            (text.parse().ok().map(Value::Int32)).or_else(|| finite_double(text).map(Value::Double))
        }
    };
    value.ok_or(BodyError::InvalidValue)
}

/// Calls `member` for each member of the one object that `body` must hold.
fn read_object<'a>(
    body: &'a [u8],
    mut member: impl FnMut(Cow<'a, str>, Scalar<'a>) -> Result<(), BodyError>,
) -> Result<(), BodyError> {
    let text = std::str::from_utf8(body).map_err(|_| BodyError::Malformed)?;
    // .NET writers may open with a byte order mark.
    let mut cursor = Cursor(text.strip_prefix('\u{FEFF}').unwrap_or(text));
    cursor.token(b'{')?;
    if cursor.peek() == Some(b'}') {
        cursor.token(b'}')?;
        return cursor.end();
    }
    loop {
        cursor.token(b'"')?;
        let name = cursor.string()?;
        cursor.token(b':')?;
        member(name, cursor.scalar()?)?;
        if cursor.peek() == Some(b'}') {
            cursor.token(b'}')?;
            return cursor.end();
        }
        cursor.token(b',')?;
    }
}

/// What is left of the text.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    /// The next byte that is not white space, left in place.
    fn peek(&mut self) -> Option<u8> {
        let first = self.0.bytes().next();
        if first.is_some_and(|b| b > b' ') {
            return first;
        }
        self.0 = self.0.trim_start_matches([' ', '\t', '\n', '\r']);
        self.0.bytes().next()
    }

    fn token(&mut self, expected: u8) -> Result<(), BodyError> {
        if self.peek() != Some(expected) {
            return Err(BodyError::Malformed);
        }
        self.advance(1).map(|_| ())
    }

    fn end(&mut self) -> Result<(), BodyError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(BodyError::Malformed),
        }
    }

    fn advance(&mut self, bytes: usize) -> Result<&'a str, BodyError> {
        let (head, tail) = self.0.split_at_checked(bytes).ok_or(BodyError::Malformed)?;
        self.0 = tail;
        Ok(head)
    }

    fn scalar(&mut self) -> Result<Scalar<'a>, BodyError> {
        match self.peek() {
            Some(b'"') => {
                self.advance(1)?;
                self.string().map(Scalar::String)
            }
            Some(b'-' | b'0'..=b'9') => self.number().map(Scalar::Number),
            Some(b't') => self.word("true", Scalar::Boolean(true)),
            Some(b'f') => self.word("false", Scalar::Boolean(false)),
            Some(b'n') => self.word("null", Scalar::Null),
            _ => Err(BodyError::Malformed),
        }
    }

    fn word(&mut self, word: &str, value: Scalar<'a>) -> Result<Scalar<'a>, BodyError> {
        self.0 = self.0.strip_prefix(word).ok_or(BodyError::Malformed)?;
        Ok(value)
    }

    /// A number as JSON spells it: no leading zeros, digits on both sides of the point.
    fn number(&mut self) -> Result<&'a str, BodyError> {
        let bytes = self.0.as_bytes();
        let mut at = usize::from(bytes.first() == Some(&b'-'));
        let whole = digits_from(bytes, at);
        if whole == at || (whole > at + 1 && bytes.get(at) == Some(&b'0')) {
            return Err(BodyError::Malformed);
        }
        at = whole;
        if bytes.get(at) == Some(&b'.') {
            let end = digits_from(bytes, at + 1);
            if end == at + 1 {
                return Err(BodyError::Malformed);
            }
            at = end;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let end = digits_from(bytes, at + 1 + sign);
            if end == at + 1 + sign {
                return Err(BodyError::Malformed);
            }
            at = end;
        }
        self.advance(at)
    }

    /// A string whose opening quote is behind; borrowed unless it has escapes.
    fn string(&mut self) -> Result<Cow<'a, str>, BodyError> {
        let run = self.run()?;
        if let Some(rest) = self.0.strip_prefix('"') {
            self.0 = rest;
            return Ok(Cow::Borrowed(run));
        }
        let mut text = String::with_capacity(run.len() + 16);
        text.push_str(run);
        loop {
            // A run ends at a quote or a backslash.
            if self.advance(1)? == "\"" {
                return Ok(Cow::Owned(text));
            }
            text.push(self.escape()?);
            text.push_str(self.run()?);
        }
    }

    /// The characters up to the next quote or backslash, none of them a control character.
    fn run(&mut self) -> Result<&'a str, BodyError> {
        let special = |word| below(word, b' ') | equal(word, b'"') | equal(word, b'\\');
        let len = plain_prefix(self.0.as_bytes(), special);
        match self.0.as_bytes().get(len) {
            Some(b'"' | b'\\') => self.advance(len),
            _ => Err(BodyError::Malformed),
        }
    }

    /// The character that an escape stands for; its backslash is behind.
    fn escape(&mut self) -> Result<char, BodyError> {
        let plain = match self.advance(1)? {
            "\"" => '"',
            "\\" => '\\',
            "/" => '/',
            "b" => '\u{8}',
            "f" => '\u{C}',
            "n" => '\n',
            "r" => '\r',
            "t" => '\t',
            "u" => return self.unicode_escape(),
            _ => return Err(BodyError::Malformed),
        };
        Ok(plain)
    }

    /// Unpaired surrogates are refused (T-3.45).
    fn unicode_escape(&mut self) -> Result<char, BodyError> {
        let first = self.code_unit()?;
        if !(0xD800..0xDC00).contains(&first) {
            return char::from_u32(first).ok_or(BodyError::InvalidValue);
        }
        self.0 = self.0.strip_prefix("\\u").ok_or(BodyError::InvalidValue)?;
        let second = self.code_unit()?;
        if !(0xDC00..0xE000).contains(&second) {
            return Err(BodyError::InvalidValue);
        }
        let supplementary = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        char::from_u32(supplementary).ok_or(BodyError::InvalidValue)
    }

    fn code_unit(&mut self) -> Result<u32, BodyError> {
        let hex = self.advance(4)?;
        if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(BodyError::Malformed);
        }
        u32::from_str_radix(hex, 16).map_err(|_| BodyError::Malformed)
    }
}

/// Where the digits that begin at `from` end.
fn digits_from(bytes: &[u8], from: usize) -> usize {
    let digits = bytes.iter().skip(from).take_while(|b| b.is_ascii_digit());
    from + digits.count()
}

#[cfg(test)]
mod tests;
