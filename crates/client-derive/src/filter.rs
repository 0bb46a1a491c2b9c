//! `filter!`: the text of a filter, checked at compile time, with bound values (C-7.1).
//!
//! `lazuli-wire` parses the filter at run time. This module only checks the text, so that a wrong one does not
//! compile; a test compares both. (If the macro used `lazuli-wire`, that crate and its cryptography would be compiled
//! a second time for the compiler.)

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Expr, LitStr};

/// Nested parentheses and `not`s; the service refuses more.
const DEPTH_MAX: usize = 64;

pub(crate) fn expand(text: &LitStr) -> syn::Result<TokenStream> {
    let source = text.value();
    let parsed = Parsed::of(&source).map_err(|fault| fault.at(text.span()))?;
    let values = parsed.values.iter().enumerate().map(|(number, expression)| {
        let expression: Expr = LitStr::new(expression, text.span()).parse()?;
        let name = format_ident!("v{number}").to_string();
        Ok(quote! { (#name, ::lazuli_client::__private::FilterValue::filter_value(&#expression)) })
    });
    let values = values.collect::<syn::Result<Vec<_>>>()?;
    let text = parsed.text;
    Ok(quote! { ::lazuli_client::__private::checked_filter(#text, [#(#values),*]) })
}

/// An error in a filter, and its position.
#[derive(Debug, PartialEq)]
struct Fault {
    reason: String,
    at: usize,
}

impl Fault {
    fn at(self, span: Span) -> syn::Error {
        syn::Error::new(
            span,
            format!("{}, at character {} of the filter", self.reason, self.at + 1),
        )
    }
}

/// A filter with named values: `@v0`, `@v1` and so on.
#[derive(Debug, PartialEq)]
struct Parsed {
    text: String,
    /// The expressions in braces.
    values: Vec<String>,
}

impl Parsed {
    fn of(source: &str) -> Result<Self, Fault> {
        let (tokens, values) = tokens(source)?;
        let mut parser = Parser { tokens: &tokens, next: 0, end: source.chars().count() };
        parser.either(0)?;
        if let Some((token, at)) = parser.peek() {
            return Err(unexpected(token, at));
        }
        let text = tokens.iter().map(|(token, _)| token.text()).collect::<Vec<_>>().join(" ");
        Ok(Self { text, values })
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Open,
    Close,
    Word(String),
    /// A literal, unchanged.
    Literal(String),
    /// The value with this number.
    Value(usize),
}

impl Token {
    fn text(&self) -> String {
        match self {
            Self::Open => "(".to_owned(),
            Self::Close => ")".to_owned(),
            Self::Word(text) | Self::Literal(text) => text.clone(),
            Self::Value(number) => format!("@v{number}"),
        }
    }
}

fn unexpected(token: &Token, at: usize) -> Fault {
    let shown = match token {
        Token::Value(_) => "a value in braces".to_owned(),
        token => format!("`{}`", token.text()),
    };
    Fault { reason: format!("{shown} cannot stand here"), at }
}

/// Tokens with their positions.
type PlacedTokens = Vec<(Token, usize)>;

/// The tokens of a filter, and the expressions in braces.
fn tokens(source: &str) -> Result<(PlacedTokens, Vec<String>), Fault> {
    let characters: Vec<char> = source.chars().collect();
    let (mut tokens, mut values, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(&first) = characters.get(at) {
        let begin = at;
        let rest = characters.get(at..).unwrap_or_default();
        let (token, length) = match first {
            c if c.is_whitespace() => {
                at += 1;
                continue;
            }
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '{' => {
                let (expression, length) = braces(rest).ok_or_else(|| Fault {
                    reason: "a brace is not closed, or empty".to_owned(),
                    at,
                })?;
                values.push(expression);
                (Token::Value(values.len() - 1), length)
            }
            _ => literal_or_word(rest).map_err(|reason| Fault { reason, at })?,
        };
        at += length;
        tokens.push((token, begin));
    }
    Ok((tokens, values))
}

/// The expression in braces, which may contain braces itself, and the total length.
fn braces(rest: &[char]) -> Option<(String, usize)> {
    let mut depth = 0_usize;
    for (at, character) in rest.iter().enumerate() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let inner: String = rest.get(1..at)?.iter().collect();
            return (!inner.trim().is_empty()).then_some((inner, at + 1));
        }
    }
    None
}

fn literal_or_word(rest: &[char]) -> Result<(Token, usize), String> {
    let first = rest.first().copied().unwrap_or_default();
    if first == '\'' {
        let length = quoted(rest)?;
        return Ok((Token::Literal(rest.iter().take(length).collect()), length));
    }
    if first == '-' || first.is_ascii_digit() {
        return number(rest);
    }
    if first != '_' && !first.is_alphabetic() {
        return Err(format!("`{first}` is not part of a filter"));
    }
    let length = rest.iter().take_while(|c| **c == '_' || c.is_alphanumeric()).count();
    let word: String = rest.iter().take(length).collect();
    let after = rest.get(length..).unwrap_or_default();
    if after.first() == Some(&'\'') {
        let more = quoted(after)?;
        let inner: String = after.iter().take(more - 1).skip(1).collect();
        if !is_typed(&word, &inner) {
            return Err(format!("`{word}'{inner}'` is not a value"));
        }
        return Ok((Token::Literal(format!("{word}'{inner}'")), length + more));
    }
    let is_value = matches!(&*word, "true" | "false" | "NaN" | "INF");
    Ok((if is_value { Token::Literal(word) } else { Token::Word(word) }, length))
}

/// The length of a quoted string; a quote inside is doubled.
fn quoted(rest: &[char]) -> Result<usize, String> {
    let mut at = 1;
    loop {
        match (rest.get(at), rest.get(at + 1)) {
            (Some('\''), Some('\'')) => at += 2,
            (Some('\''), _) => return Ok(at + 1),
            (Some(_), _) => at += 1,
            (None, _) => return Err("a text is not closed".to_owned()),
        }
    }
}

fn number(rest: &[char]) -> Result<(Token, usize), String> {
    let mut previous = '-';
    let is_part = |c: &&char| {
        let is_sign =
            **c == '-' && previous == '-' || matches!(previous, 'e' | 'E') && "+-".contains(**c);
        let is_part = is_sign || **c == '.' || c.is_alphanumeric();
        previous = **c;
        is_part
    };
    let text: String = rest.iter().take_while(is_part).collect();
    let digits = text.strip_suffix(['L', 'l']);
    let is_number = match digits {
        Some(digits) => digits.parse::<i64>().is_ok(),
        None if text == "-INF" => true,
        None => {
            let plain = text.strip_suffix(['d', 'D']).unwrap_or(&text);
            let is_decimal = plain.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
            is_decimal && plain.parse::<f64>().is_ok_and(f64::is_finite)
        }
    };
    match is_number {
        true => Ok((Token::Literal(text.clone()), text.chars().count())),
        false => Err(format!("`{text}` is not a number")),
    }
}

/// Whether a typed literal has the form of its type.
fn is_typed(word: &str, inner: &str) -> bool {
    let shape = |text: &str, shape: &str| {
        text.len() == shape.len()
            && text.bytes().zip(shape.bytes()).all(|(byte, shape)| match shape {
                b'x' => byte.is_ascii_hexdigit(),
                b'0' => byte.is_ascii_digit(),
                other => byte == other,
            })
    };
    match word {
        "guid" => shape(inner, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"),
        "X" | "binary" => {
            inner.len().is_multiple_of(2) && inner.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        "datetime" => {
            let (day, time) = inner.split_once('T').unwrap_or((inner, "00:00Z"));
            let time = time.strip_suffix('Z').unwrap_or(time);
            let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
            let is_time = shape(time, "00:00") || shape(time, "00:00:00");
            let is_fraction = (1..=7).contains(&fraction.len())
                && fraction.bytes().all(|byte| byte.is_ascii_digit());
            shape(day, "0000-00-00") && is_time && is_fraction
        }
        _ => false,
    }
}

struct Parser<'a> {
    tokens: &'a [(Token, usize)],
    next: usize,
    end: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<(&'a Token, usize)> {
        self.tokens.get(self.next).map(|(token, at)| (token, *at))
    }

    fn take(&mut self) -> Result<(&'a Token, usize), Fault> {
        let end = Fault { reason: "the filter ends too early".to_owned(), at: self.end };
        let token = self.peek().ok_or(end)?;
        self.next += 1;
        Ok(token)
    }

    fn takes(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some((Token::Word(text), _)) if text == word);
        self.next += usize::from(found);
        found
    }

    fn either(&mut self, depth: usize) -> Result<(), Fault> {
        self.both(depth)?;
        while self.takes("or") {
            self.both(depth)?;
        }
        Ok(())
    }

    fn both(&mut self, depth: usize) -> Result<(), Fault> {
        self.one(depth)?;
        while self.takes("and") {
            self.one(depth)?;
        }
        Ok(())
    }

    fn one(&mut self, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault { reason: "the filter is too deep".to_owned(), at: self.end });
        }
        match self.take()? {
            (Token::Open, _) => {
                self.either(depth + 1)?;
                match self.take()? {
                    (Token::Close, _) => Ok(()),
                    (token, at) => Err(unexpected(token, at)),
                }
            }
            (Token::Word(word), _) if word == "not" => self.negated(depth + 1),
            (Token::Word(word), at) if is_reserved(word) => {
                Err(unexpected(&Token::Word(word.clone()), at))
            }
            (Token::Word(_), _) => self.comparison(),
            (token, at) => Err(unexpected(token, at)),
        }
    }

    /// After `not`, which binds more tightly than a comparison: `not A eq 1` needs parentheses.
    fn negated(&mut self, depth: usize) -> Result<(), Fault> {
        match self.peek() {
            Some((Token::Word(word), _)) if word != "not" && !is_reserved(word) => {
                self.next += 1;
                Ok(())
            }
            _ => self.one(depth),
        }
    }

    /// After the name of a property: a comparison, or nothing if it is a condition by itself.
    fn comparison(&mut self) -> Result<(), Fault> {
        match self.peek() {
            Some((Token::Word(word), _)) if is_operator(word) => {}
            _ => return Ok(()),
        }
        self.next += 1;
        match self.take()? {
            (Token::Literal(_) | Token::Value(_), _) => Ok(()),
            (token, at) => Err(unexpected(token, at)),
        }
    }
}

fn is_reserved(word: &str) -> bool {
    is_operator(word) || matches!(word, "and" | "or")
}

fn is_operator(word: &str) -> bool {
    matches!(word, "eq" | "ne" | "gt" | "ge" | "lt" | "le")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_out() {
        let parsed =
            Parsed::of("LastName eq {name} and (Age gt {self.age} or not Active)").unwrap();
        assert_eq!(parsed.text, "LastName eq @v0 and ( Age gt @v1 or not Active )");
        assert_eq!(parsed.values, ["name", "self.age"]);
        assert_eq!(Parsed::of("A eq {f(|| { 1 })}").unwrap().values, ["f(|| { 1 })"]);
        assert_eq!(Parsed::of("A eq '{x}'").unwrap().values, [""; 0], "a text");
    }

    #[test]
    fn the_place_of_a_mistake_is_named() {
        let fault = |source| Parsed::of(source).map(|_| ()).unwrap_err();
        assert_eq!(fault("Age gt").at, 6);
        assert_eq!(fault("Age > 3").at, 4);
        assert_eq!(fault("A eq 1 B eq 2").at, 7);
        assert_eq!(fault("A eq 'x").reason, "a text is not closed");
    }

    /// `lazuli-wire` accepts all that this module accepts, with a text for each value; and the reverse, except for
    /// forms that nobody writes: a literal before its property or in parentheses, functions, signs separated from
    /// their numbers.
    #[test]
    fn both_readers_agree() {
        let good = [
            "A eq 1",
            "A eq -1",
            "A eq 1L",
            "A eq 1.5",
            "A eq 1e3",
            "A eq -1.5e-3",
            "A eq 'it''s'",
            "A eq ''",
            "A eq true",
            "A ne false",
            "Active",
            "not Active",
            "not (A eq 1)",
            "(((A eq 1)))",
            "A eq 1 and B eq 2 or C eq 3",
            "A eq 1 or B eq 2 and C",
            "A eq datetime'2014-08-22T00:50:32Z'",
            "A eq datetime'2014-08-22'",
            "A eq datetime'2014-08-22T00:50:32.1234567Z'",
            "A eq X'0aff'",
            "A eq binary'00'",
            "A eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'",
            "_x eq 1",
            "Größe eq 1",
            "PartitionKey eq 'p' and RowKey ge 'a' and RowKey lt 'b'",
            "A eq NaN",
            "A eq -INF",
        ];
        for source in good {
            let parsed = Parsed::of(source).unwrap_or_else(|fault| panic!("{source}: {fault:?}"));
            assert!(lazuli_wire::odata::filter::parse(&parsed.text).is_ok(), "{source}");
        }
        let bad = [
            "",
            "A",
            "A eq",
            "eq 1",
            "A eq 1 and",
            "and A eq 1",
            "A eq 1)",
            "(A eq 1",
            "A == 1",
            "A eq 'x",
            "A eq guid'1'",
            "A eq X'0'",
            "A eq datetime'yesterday'",
            "A eq 1x",
            "A eq B",
            "A eq 1 B eq 2",
            "A eq 1 or or B eq 2",
            "A like 'x'",
            "not",
            "not A eq 1",
            "A eq --1",
            "A eq 99999999999999999999L",
            "()",
            "A eq 1; drop",
        ];
        for source in bad {
            let (ours, theirs) = (Parsed::of(source), lazuli_wire::odata::filter::parse(source));
            let is_condition = source == "A";
            assert_eq!(ours.is_ok(), is_condition, "{source}: {ours:?}");
            assert_eq!(theirs.is_ok(), is_condition, "{source}");
        }
    }
}
