//! A position in a JSON text, and the values read there, mostly borrowed.
//!
//! We use our own parser because a general one hides too much: the service infers types from the
//! spelling of a number (`3` and `3.0` differ, an Int64 must not pass through a Double), and allows
//! nested values only in known places, so depth needs no bound.

use super::super::BodyError;
use crate::words::{ascii, below, equal, plain_prefix};
use std::borrow::Cow;

/// Maximum depth of a skipped value.
const NESTING_MAX: usize = 16;

/// A JSON value that is neither object nor array. Numbers keep their spelling.
pub(super) enum Scalar<'a> {
    Null,
    Boolean(bool),
    Number(&'a str),
    String(Cow<'a, str>),
}

/// Calls `member`, which must read the value, for each member of the one object that `body` must
/// contain.
pub(super) fn read_object<'a>(
    body: &'a [u8],
    member: impl FnMut(Cow<'a, str>, &mut Cursor<'a>) -> Result<(), BodyError>,
) -> Result<(), BodyError> {
    let text = std::str::from_utf8(body).map_err(|_| BodyError::Malformed)?;
    // .NET writers may start with a byte order mark.
    let mut cursor = Cursor { text: text.strip_prefix('\u{FEFF}').unwrap_or(text), at: 0 };
    cursor.object(member)?;
    cursor.end()
}

/// A position in the text, between two characters.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Calls `member`, which must read the value, for each member of an object.
    #[inline(always)]
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(Cow<'a, str>, &mut Self) -> Result<(), BodyError>,
    ) -> Result<(), BodyError> {
        self.token(b'{')?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.token(b'"')?;
            let name = self.string()?;
            self.token(b':')?;
            member(name, self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(BodyError::Malformed),
            }
        }
    }

    /// Calls `element`, which must read it, for each element of an array.
    pub(super) fn array(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), BodyError>,
    ) -> Result<(), BodyError> {
        self.token(b'[')?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            element(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(BodyError::Malformed),
            }
        }
    }

    /// The next byte that is not white space, left in place.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
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

    /// The rest of the text.
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
    pub(super) fn scalar(&mut self) -> Result<Scalar<'a>, BodyError> {
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

    /// Skips a value of any kind.
    pub(super) fn skip(&mut self) -> Result<(), BodyError> {
        self.skip_within(NESTING_MAX)
    }

    fn skip_within(&mut self, depth: usize) -> Result<(), BodyError> {
        let inner = || depth.checked_sub(1).ok_or(BodyError::Malformed);
        match self.peek() {
            Some(b'{') => {
                let depth = inner()?;
                self.object(|_, value| value.skip_within(depth))
            }
            Some(b'[') => {
                let depth = inner()?;
                self.array(|value| value.skip_within(depth))
            }
            _ => self.scalar().map(|_| ()),
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
