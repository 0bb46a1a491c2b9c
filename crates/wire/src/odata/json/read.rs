//! JSON request bodies: one flat object, read in one pass and mostly borrowed.
//!
//! The parser is our own because a general one says too little: the service infers types from the
//! spelling of a number (`3` and `3.0` differ, an Int64 must not pass through a Double), and refuses
//! nested values, so that no depth needs a bound.

use super::super::body::{set_key, string, value_from_text};
use super::super::{BodyError, EntityBody};
use crate::words::{ascii, below, equal, find_byte, plain_prefix};
use lazuli_model::{EdmType, Value};
use std::borrow::Cow;

/// Reads an entity (sections 3.4 to 3.6 of the specification).
pub fn read_entity(body: &[u8]) -> Result<EntityBody<'_>, BodyError> {
    let mut entity = Members {
        // Most entities have no more, and take no second allocation.
        properties: Vec::with_capacity(16),
        ..Members::default()
    };
    read_object(body, |name, value| entity.add(name, value))?;
    entity.finish()
}

/// Reads the body of Create Table; `None` when it names no table.
pub fn read_table_name(body: &[u8]) -> Result<Option<String>, BodyError> {
    let mut table = None;
    read_object(body, |name, value| {
        let scalar = value.scalar()?;
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
    /// Annotations whose property has not been read yet, or was read long before.
    annotations: Vec<(Cow<'a, str>, EdmType)>,
}

struct Property<'a> {
    name: Cow<'a, str>,
    value: Scalar<'a>,
    edm_type: Option<EdmType>,
}

/// What the name of a member makes of it.
enum Kind {
    PartitionKey,
    RowKey,
    Property,
    /// The type of the property whose name has so many bytes.
    Annotation {
        target: usize,
    },
    /// Means nothing, whatever it says (T-2.47, T-3.23).
    Ignored,
}

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            "PartitionKey" => return Self::PartitionKey,
            "RowKey" => return Self::RowKey,
            "Timestamp" => return Self::Ignored,
            control if control.starts_with("odata.") => return Self::Ignored,
            _ => {}
        }
        let annotated = find_byte(b'@', name.as_bytes());
        let Some((target, term)) = annotated.and_then(|at| name.split_at_checked(at)) else {
            return Self::Property;
        };
        match term.strip_prefix("@odata.") {
            Some("type") => Self::Annotation { target: target.len() },
            Some(_) => Self::Ignored,
            None => Self::Property,
        }
    }
}

impl<'a> Members<'a> {
    /// Takes in a member whose value begins at `cursor`.
    fn add(&mut self, name: Cow<'a, str>, cursor: &mut Cursor<'a>) -> Result<(), BodyError> {
        match Kind::of(&name) {
            Kind::PartitionKey => {
                add_key(&mut self.partition_key, cursor.scalar()?, &mut self.has_mistyped_key)
            }
            Kind::RowKey => {
                add_key(&mut self.row_key, cursor.scalar()?, &mut self.has_mistyped_key)
            }
            Kind::Annotation { target } => {
                let edm_type = cursor.scalar()?;
                self.annotate(shortened(name, target), edm_type)
            }
            Kind::Ignored => cursor.scalar().map(|_| ()),
            Kind::Property => {
                let value = cursor.scalar()?;
                self.add_property(name, value);
                Ok(())
            }
        }
    }

    fn add_property(&mut self, name: Cow<'a, str>, value: Scalar<'a>) {
        // .NET clients annotate just before the property.
        let edm_type = self
            .annotations
            .pop_if(|(annotated, _)| *annotated == name)
            .map(|(_, edm_type)| edm_type);
        self.properties.push(Property { name, value, edm_type });
    }

    fn annotate(&mut self, target: Cow<'a, str>, value: Scalar<'a>) -> Result<(), BodyError> {
        let Scalar::String(edm_type) = value else {
            return Err(BodyError::Malformed);
        };
        let edm_type = EdmType::from_name(&edm_type).ok_or(BodyError::UnknownType)?;
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

/// Fills `slot`, the place of a key.
fn add_key<'a>(
    slot: &mut Option<Cow<'a, str>>,
    value: Scalar<'a>,
    is_mistyped: &mut bool,
) -> Result<(), BodyError> {
    match value {
        Scalar::Null => Ok(()),
        Scalar::String(text) => set_key(slot, text),
        Scalar::Boolean(_) | Scalar::Number(_) => {
            *is_mistyped = true;
            Ok(())
        }
    }
}

/// The first `len` bytes of a name.
fn shortened(name: Cow<'_, str>, len: usize) -> Cow<'_, str> {
    match name {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..len).unwrap_or(text)),
        Cow::Owned(mut text) => {
            text.truncate(len);
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
        // Text without an escape has no control characters, and so none that it may not have.
        Scalar::String(Cow::Borrowed(text)) if edm_type.is_none() => Ok(text.into()),
        Scalar::String(text) => match edm_type {
            None => string(text),
            Some(edm_type) => value_from_text(text, edm_type),
        },
    }
    .map(Some)
}

fn convert_number(text: &str, edm_type: Option<EdmType>) -> Result<Value<'_>, BodyError> {
    // What JSON calls a number is one for `parse` too, though perhaps too large (T-3.33).
    let finite = |number: &f64| number.is_finite();
    let double = || text.parse().ok().filter(finite).map(Value::Double);
    let value = match edm_type {
        Some(EdmType::Int32) => text.parse().ok().map(Value::Int32),
        Some(EdmType::Int64) => text.parse().ok().map(Value::Int64),
        Some(EdmType::Double) => double(),
        Some(_) => None,
        // Only an integer's spelling parses as one: `3.0` and `3e0` are Doubles, and so is what an
        // Int32 cannot hold (section 3.5).
        None => text.parse().ok().map(Value::Int32).or_else(double),
    };
    value.ok_or(BodyError::InvalidValue)
}

/// Calls `member`, which must read the value, for each member of the one object that `body` must
/// hold.
fn read_object<'a>(
    body: &'a [u8],
    mut member: impl FnMut(Cow<'a, str>, &mut Cursor<'a>) -> Result<(), BodyError>,
) -> Result<(), BodyError> {
    let text = std::str::from_utf8(body).map_err(|_| BodyError::Malformed)?;
    // .NET writers may open with a byte order mark.
    let mut cursor = Cursor { text: text.strip_prefix('\u{FEFF}').unwrap_or(text), at: 0 };
    cursor.token(b'{')?;
    if cursor.peek() == Some(b'}') {
        cursor.at += 1;
        return cursor.end();
    }
    loop {
        cursor.token(b'"')?;
        let name = cursor.string()?;
        cursor.token(b':')?;
        member(name, &mut cursor)?;
        match cursor.peek() {
            Some(b',') => cursor.at += 1,
            Some(b'}') => {
                cursor.at += 1;
                return cursor.end();
            }
            _ => return Err(BodyError::Malformed),
        }
    }
}

/// A place in the text, between two characters.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The next byte that is not white space, left in place.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.next()? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                other => return Some(other),
            }
        }
    }

    #[inline]
    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// What is left of the text.
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    #[inline]
    fn token(&mut self, expected: u8) -> Result<(), BodyError> {
        if self.peek() != Some(expected) {
            return Err(BodyError::Malformed);
        }
        self.at += 1;
        Ok(())
    }

    fn end(&mut self) -> Result<(), BodyError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(BodyError::Malformed),
        }
    }

    #[inline]
    fn advance(&mut self, bytes: usize) -> Result<&'a str, BodyError> {
        let end = self.at + bytes;
        let passed = self.text.get(self.at..end).ok_or(BodyError::Malformed)?;
        self.at = end;
        Ok(passed)
    }

    #[inline]
    fn scalar(&mut self) -> Result<Scalar<'a>, BodyError> {
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
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
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(BodyError::Malformed);
        }
        self.at += word.len();
        Ok(value)
    }

    /// A number as JSON spells it: no leading zeros, digits on both sides of the point.
    fn number(&mut self) -> Result<&'a str, BodyError> {
        let bytes = self.rest();
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

    /// A string after its opening quote; borrowed unless it has escapes.
    #[inline(always)]
    fn string(&mut self) -> Result<Cow<'a, str>, BodyError> {
        let run = self.run()?;
        if self.next() == Some(b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(run));
        }
        self.string_with_escapes(run)
    }

    /// The rest of a string whose first escape follows `run`.
    #[cold]
    fn string_with_escapes(&mut self, run: &str) -> Result<Cow<'a, str>, BodyError> {
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
    #[inline(always)]
    fn run(&mut self) -> Result<&'a str, BodyError> {
        let special =
            |word| ascii(word, below(word, b' ') | equal(word, b'"') | equal(word, b'\\'));
        let run = self.advance(plain_prefix(self.rest(), special))?;
        match self.next() {
            Some(b'"' | b'\\') => Ok(run),
            _ => Err(BodyError::Malformed),
        }
    }

    /// The character that an escape stands for; its backslash is consumed.
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
        if !self.rest().starts_with(b"\\u") {
            return Err(BodyError::InvalidValue);
        }
        self.at += 2;
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
