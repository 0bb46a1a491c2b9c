//! Key predicates: the content of the parentheses in `Orders(PartitionKey='p',RowKey='r')`.
//!
//! Errors follow the service's own lexer and parser: a character that begins no token is reported
//! with its position, an unterminated literal with the position of the end, and an invalid sequence
//! of tokens as a syntax error without one (T-1.26, T-1.27).

use crate::words::find_byte;
use lazuli_model::key::utf16_units;
use memchr::memchr;
use std::borrow::Cow;

/// Why a key predicate cannot be read. Positions count UTF-16 code units from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PredicateError {
    #[error("character '{character}' is not valid at position {position}")]
    InvalidCharacter { character: char, position: usize },
    #[error("unterminated string literal at position {position}")]
    UnterminatedString { position: usize },
    #[error("the tokens are no list of keys")]
    Syntax,
    #[error("the number of keys is not that of the resource")]
    KeyCount,
}

/// Parses `PartitionKey='p',RowKey='r'` into the two keys, in either order (T-1.19, T-1.24).
pub fn parse_key_predicate(text: &str) -> Result<(Cow<'_, str>, Cow<'_, str>), PredicateError> {
    if let Some((partition, row)) = parse_usual(text) {
        return Ok((Cow::Borrowed(partition), Cow::Borrowed(row)));
    }
    match parse(text)? {
        Keys::Named([Some(("PartitionKey", partition)), Some(("RowKey", row))])
        | Keys::Named([Some(("RowKey", row)), Some(("PartitionKey", partition))]) => {
            Ok((partition, row))
        }
        Keys::Named([Some(_), Some(_)]) => Err(PredicateError::Syntax),
        _ => Err(PredicateError::KeyCount),
    }
}

/// Fast path for the keys as nearly all clients write them: in this order, without blanks or inner
/// quotes. On `None` the lexer takes over.
fn parse_usual(text: &str) -> Option<(&str, &str)> {
    let (partition, rest) = split_at_quote(text.strip_prefix("PartitionKey='")?)?;
    let (row, end) = split_at_quote(rest.strip_prefix("',RowKey='")?)?;
    (end == "'").then_some((partition, row))
}

fn split_at_quote(text: &str) -> Option<(&str, &str)> {
    text.split_at_checked(find_byte(b'\'', text.as_bytes())?)
}

/// Parses the key of a table, `'name'` or `TableName='name'`.
pub(super) fn parse_table_key(text: &str) -> Result<Cow<'_, str>, PredicateError> {
    match parse(text)? {
        Keys::Single(name) | Keys::Named([Some(("TableName", name)), None]) => Ok(name),
        Keys::Named([Some(_), None]) => Err(PredicateError::Syntax),
        _ => Err(PredicateError::KeyCount),
    }
}

/// At most as many keys as any resource has; a longer list is parsed to its end and then refused.
enum Keys<'a> {
    Single(Cow<'a, str>),
    Named([Option<(&'a str, Cow<'a, str>)>; 2]),
    TooMany,
}

fn parse(text: &str) -> Result<Keys<'_>, PredicateError> {
    let mut lexer = Lexer { text, rest: text };
    let mut keys: Option<Keys<'_>> = None;
    let mut token = lexer.next()?;
    while let Some(first) = token {
        let key = match first {
            Token::Word(name) => {
                let Some(Token::Punctuation('=')) = lexer.next()? else {
                    return Err(PredicateError::Syntax);
                };
                let Some(Token::String(value)) = lexer.next()? else {
                    return Err(PredicateError::Syntax);
                };
                (Some(name), value)
            }
            Token::String(value) => (None, value),
            Token::Punctuation(_) => return Err(PredicateError::Syntax),
        };
        keys = Some(add(keys, key)?);
        token = lexer.next()?;
        if let Some(separator) = token {
            if separator != Token::Punctuation(',') {
                return Err(PredicateError::Syntax);
            }
            token = lexer.next()?;
            if token.is_none() {
                return Err(PredicateError::Syntax);
            }
        }
    }
    keys.ok_or(PredicateError::KeyCount)
}

/// Adds a key; named and unnamed keys do not mix, and names must be unique.
fn add<'a>(
    keys: Option<Keys<'a>>,
    (name, value): (Option<&'a str>, Cow<'a, str>),
) -> Result<Keys<'a>, PredicateError> {
    match (keys, name) {
        (None, None) => Ok(Keys::Single(value)),
        (None, Some(name)) => Ok(Keys::Named([Some((name, value)), None])),
        (Some(Keys::Named([first @ Some((one, _)), None])), Some(name)) if one != name => {
            Ok(Keys::Named([first, Some((name, value))]))
        }
        (Some(Keys::Named([Some((one, _)), None])), Some(name)) if one == name => {
            Err(PredicateError::Syntax)
        }
        (Some(Keys::Single(_)), Some(_)) | (Some(Keys::Named(_)), None) => {
            Err(PredicateError::Syntax)
        }
        _ => Ok(Keys::TooMany),
    }
}

#[derive(Debug, PartialEq)]
enum Token<'a> {
    /// An identifier or a number.
    Word(&'a str),
    String(Cow<'a, str>),
    Punctuation(char),
}

struct Lexer<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Result<Option<Token<'a>>, PredicateError> {
        self.rest = self.rest.trim_start();
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        match first {
            '\'' => self.string().map(Some),
            '(' | ')' | ',' | '-' | '=' | '/' | '?' | '.' | '*' => {
                self.take(first.len_utf8());
                Ok(Some(Token::Punctuation(first)))
            }
            _ if is_word(first) => {
                let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
                Ok(Some(Token::Word(self.take(end))))
            }
            character => {
                let before = self.text.len() - self.rest.len();
                let position = utf16_units(self.text.get(..before).unwrap_or_default());
                Err(PredicateError::InvalidCharacter { character, position })
            }
        }
    }

    /// A literal in single quotes, in which two quotes stand for one (T-1.21).
    fn string(&mut self) -> Result<Token<'a>, PredicateError> {
        self.take(1);
        let mut value = Cow::Borrowed("");
        loop {
            let Some(quote) = memchr(b'\'', self.rest.as_bytes()) else {
                let position = utf16_units(self.text);
                return Err(PredicateError::UnterminatedString { position });
            };
            append(&mut value, self.take(quote));
            self.take(1);
            if !self.rest.starts_with('\'') {
                return Ok(Token::String(value));
            }
            value.to_mut().push('\'');
            self.take(1);
        }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (head, tail) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = tail;
        head
    }
}

/// Keeps the first piece borrowed: most keys hold no quote.
fn append<'a>(value: &mut Cow<'a, str>, piece: &'a str) {
    if value.is_empty() {
        *value = Cow::Borrowed(piece);
    } else {
        value.to_mut().push_str(piece);
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
