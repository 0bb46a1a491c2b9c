//! The tokens of a filter.

use super::FilterError;
use super::parser::Dialect;
use lazuli_model::key::utf16_units;
use lazuli_model::{Guid, Timestamp, Value};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Open,
    Close,
    /// A minus sign that belongs to no number.
    Minus,
    /// A property, an operator or a function, depending on its place.
    Word(&'a str),
    Literal(Value<'static>),
    Null,
    Comma,
    /// A character that OData knows but table filters do not use.
    Other,
    End,
}

/// Reads tokens from the front of a text.
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// The bytes consumed: just past the last token.
    at: usize,
    dialect: Dialect,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, dialect: Dialect) -> Self {
        Self { text, at: 0, dialect }
    }

    /// A syntax error at the last token.
    pub(super) fn syntax_error(&self) -> FilterError {
        let position = self.position();
        FilterError::Syntax { position }
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>, FilterError> {
        self.skip(|c| c.is_whitespace());
        let Some(first) = self.rest().chars().next() else {
            return Ok(Token::End);
        };
        match first {
            '(' => Ok(self.single(Token::Open)),
            ')' => Ok(self.single(Token::Close)),
            ',' => Ok(self.single(Token::Comma)),
            '=' | '/' | '?' | '.' | '*' => Ok(self.single(Token::Other)),
            '-' => self.minus(),
            quote if self.is_quote(quote) => {
                self.quoted().map(|text| Token::Literal(Value::String(text.into())))
            }
            '0'..='9' => self.number(false),
            c if c == '_' || c.is_alphabetic() => self.word(),
            character => {
                Err(FilterError::InvalidCharacter { character, position: self.position() })
            }
        }
    }

    fn single(&mut self, token: Token<'a>) -> Token<'a> {
        self.at += 1;
        token
    }

    /// A minus sign makes the number after it negative, with or without white space between them.
    fn minus(&mut self) -> Result<Token<'a>, FilterError> {
        self.at += 1;
        let after_sign = self.at;
        self.skip(|c| c.is_whitespace());
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return self.number(true);
        }
        if self.skip(is_word_part) == "INF" {
            return Ok(Token::Literal(Value::Double(f64::NEG_INFINITY)));
        }
        self.at = after_sign;
        Ok(Token::Minus)
    }

    /// Digits and what directly follows them: a point, an exponent, a suffix.
    fn number(&mut self, negative: bool) -> Result<Token<'a>, FilterError> {
        let mut previous = ' ';
        let digits = self.skip(|c| {
            let exponent_sign = matches!((previous, c), ('e' | 'E', '+' | '-'));
            previous = c;
            exponent_sign || c == '.' || is_word_part(c)
        });
        let value = match parse_number(digits, negative) {
            None if self.dialect == Dialect::Lenient && !negative => {
                return Ok(Token::Word(digits));
            }
            value => value.ok_or_else(|| self.syntax_error())?,
        };
        match value {
            Value::Double(double) if double.is_infinite() => Err(FilterError::Invalid),
            value => Ok(Token::Literal(value)),
        }
    }

    fn word(&mut self) -> Result<Token<'a>, FilterError> {
        let word = match self.dialect {
            Dialect::Azure | Dialect::Extended => self.skip(is_word_part),
            Dialect::Lenient => self.skip(is_lenient_word_part),
        };
        let folded = self.dialect.fold(word);
        if self.rest().starts_with(|c| self.is_quote(c)) {
            // The content of a typed literal has no quotes; a doubled one makes it malformed.
            let typed: fn(&str) -> Option<Value<'static>> = match &*folded {
                "datetime" => |text| Timestamp::parse(text).map(Value::DateTime),
                "guid" => |text| Guid::parse(text).map(Value::Guid),
                "X" | "binary" => |text| parse_hex(text).map(|b| Value::Binary(b.into())),
                "x" if self.dialect == Dialect::Lenient => {
                    |text| parse_hex(text).map(|b| Value::Binary(b.into()))
                }
                _ => return Ok(Token::Word(word)),
            };
            let text = self.quoted()?;
            let value = typed(&text).ok_or_else(|| self.syntax_error())?;
            return Ok(Token::Literal(value));
        }
        Ok(match word {
            "true" | "True" => Token::Literal(Value::Boolean(true)),
            "false" | "False" => Token::Literal(Value::Boolean(false)),
            _ if folded == "true" => Token::Literal(Value::Boolean(true)),
            _ if folded == "false" => Token::Literal(Value::Boolean(false)),
            "NaN" => Token::Literal(Value::Double(f64::NAN)),
            "INF" => Token::Literal(Value::Double(f64::INFINITY)),
            "null" => Token::Null,
            _ => Token::Word(word),
        })
    }

    /// Emulators accept double quotes too (TR-22).
    fn is_quote(&self, c: char) -> bool {
        c == '\'' || (c == '"' && self.dialect == Dialect::Lenient)
    }

    /// The text between quotes, in which a quote of the same kind is written twice.
    fn quoted(&mut self) -> Result<String, FilterError> {
        let quote = self.rest().chars().next().unwrap_or('\'');
        let mut text = String::new();
        loop {
            self.at += 1;
            text.push_str(self.skip(|c| c != quote));
            if self.rest().is_empty() {
                let position = self.position();
                return Err(FilterError::UnterminatedString { position });
            }
            self.at += 1;
            if !self.rest().starts_with(quote) {
                return Ok(text);
            }
            text.push(quote);
        }
    }

    /// Consumes characters while `wanted` holds, and returns them.
    fn skip(&mut self, mut wanted: impl FnMut(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn position(&self) -> usize {
        utf16_units(self.text.get(..self.at).unwrap_or(self.text))
    }
}

/// Letters and digits of any script, and the marks that combine with them.
fn is_word_part(c: char) -> bool {
    c == '_' || c.is_alphanumeric() || (!c.is_ascii() && !c.is_whitespace() && !c.is_control())
}

/// To emulators a name ends where a space, a parenthesis or a quote begins (TR-30).
fn is_lenient_word_part(c: char) -> bool {
    !c.is_whitespace() && !"()'\",".contains(c)
}

/// An integer without suffix is an Int32, else an Int64, else a Double, as meant by a client that
/// omits the `L`. What the service does beyond Int32 is not known.
fn parse_number(text: &str, negative: bool) -> Option<Value<'static>> {
    let sign = if negative { "-" } else { "" };
    if let Some(digits) = text.strip_suffix(['L', 'l']) {
        return format!("{sign}{digits}").parse().ok().map(Value::Int64);
    }
    let (number, marked_double) = match text.strip_suffix(['d', 'D']) {
        Some(number) => (number, true),
        None => (text, false),
    };
    let signed = format!("{sign}{number}");
    if !marked_double && number.bytes().all(|b| b.is_ascii_digit()) {
        let int32 = signed.parse().ok().map(Value::Int32);
        let int64 = || signed.parse().ok().map(Value::Int64);
        let double = || signed.parse().ok().map(Value::Double);
        return int32.or_else(int64).or_else(double);
    }
    is_decimal(number).then(|| signed.parse().ok().map(Value::Double))?
}

/// Digits, then optionally a point and digits, then optionally an exponent.
fn is_decimal(text: &str) -> bool {
    let is_digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    is_digits(whole)
        && fraction.is_none_or(is_digits)
        && exponent.is_none_or(|e| is_digits(e.strip_prefix(['+', '-']).unwrap_or(e)))
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: &u8| char::from(*b).to_digit(16).map(|d| d as u8);
    text.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect()
}
