//! The syntax of extensions: functions of text, `in`, `tolower` and `toupper`.

use super::FilterError;
use super::lexer::Token;
use super::parser::{Condition, Operand, Parser, incompatible, operator_kind, property_type};
use lazuli_model::filter::{Case, Extended, Term, TextFunction, TextTest};
use lazuli_model::limits::FILTER_IN_LITERALS_MAX;
use lazuli_model::{EdmType, Filter, Operator, Property, Value};

const NOT_TEXT: &str = "A string literal is expected";
const NOT_A_PROPERTY: &str = "A property is expected";
const SEVERAL_TYPES: &str = "The literals of 'in' must have one type";
const TOO_MANY: &str = "'in' has at most 1000 literals";

impl Parser<'_> {
    /// Reads the rest of a call of `name`, whose parenthesis is open; `None` if it is not a
    /// function of ours.
    pub(super) fn call(&mut self, name: &str) -> Result<Option<Operand>, FilterError> {
        if let Some(case) = case_of(name) {
            let property = self.property()?;
            self.expect(&Token::Close)?;
            return Ok(Some(Operand::Folded(Term::new(property, case))));
        }
        let Some(function) = TextFunction::from_name(name) else { return Ok(None) };
        self.count_comparison()?;
        let (term, text) = match function {
            TextFunction::SubstringOf => {
                let text = self.text()?;
                self.expect(&Token::Comma)?;
                (self.term(&Token::Close)?, text)
            }
            _ => {
                let term = self.term(&Token::Comma)?;
                let text = self.text()?;
                self.expect(&Token::Close)?;
                (term, text)
            }
        };
        let test = Extended::Text(TextTest::new(function, term, text));
        Ok(Some(Condition::leaf(Filter::Extended(test))))
    }

    /// Reads the list of an `in`.
    pub(super) fn in_list(&mut self, operand: Operand) -> Result<Operand, FilterError> {
        let term = match operand {
            Operand::Property(property) => Term::new(property, Case::AsIs),
            Operand::Folded(term) => term,
            Operand::Condition(_) | Operand::Literal(_) | Operand::Null => {
                return Err(self.misused(NOT_A_PROPERTY));
            }
        };
        let known = match term.case {
            Case::AsIs => property_type(&term.property),
            Case::Lower | Case::Upper => Some(EdmType::String),
        };
        self.expect(&Token::Open)?;
        let mut values: Vec<Value<'static>> = Vec::new();
        loop {
            let value = match self.lexer.next()? {
                Token::Literal(value) => value,
                Token::Null => return Err(FilterError::Invalid),
                _ => return Err(self.lexer.syntax_error()),
            };
            let given = value.as_ref().edm_type();
            match (known, values.first()) {
                (Some(known), _) if known != given => {
                    return Err(incompatible(known, given, operator_kind(Operator::Eq)));
                }
                (_, Some(first)) if first.as_ref().edm_type() != given => {
                    return Err(self.misused(SEVERAL_TYPES));
                }
                _ if values.len() == FILTER_IN_LITERALS_MAX => return Err(self.misused(TOO_MANY)),
                _ => values.push(value),
            }
            match self.lexer.next()? {
                Token::Comma => {}
                Token::Close => break,
                _ => return Err(self.lexer.syntax_error()),
            }
        }
        Ok(Condition::leaf(Filter::Extended(Extended::In { term, values })))
    }

    /// `tolower(..)` compared with a literal, which must be text.
    pub(super) fn compare_folded(
        &mut self,
        term: Term,
        operator: Operator,
        value: Value<'static>,
    ) -> Result<Filter, FilterError> {
        match value {
            Value::String(text) => {
                let text = text.into_owned().into();
                Ok(Filter::Extended(Extended::Compare { term, operator, text }))
            }
            other => {
                let given = other.as_ref().edm_type();
                Err(incompatible(EdmType::String, given, operator_kind(operator)))
            }
        }
    }

    /// A property, or one converted to one case, and the token after it.
    fn term(&mut self, then: &Token<'_>) -> Result<Term, FilterError> {
        let Token::Word(word) = self.lexer.next()? else {
            return Err(self.misused(NOT_A_PROPERTY));
        };
        let Some(case) = case_of(word) else {
            self.expect(then)?;
            return Ok(Term::new(Property::from_name(word), Case::AsIs));
        };
        // A property may have this name.
        match self.lexer.next()? {
            Token::Open => {
                let property = self.property()?;
                self.expect(&Token::Close)?;
                self.expect(then)?;
                Ok(Term::new(property, case))
            }
            token if token == *then => Ok(Term::new(Property::from_name(word), Case::AsIs)),
            _ => Err(self.lexer.syntax_error()),
        }
    }

    fn property(&mut self) -> Result<Property, FilterError> {
        match self.lexer.next()? {
            Token::Word(word) => Ok(Property::from_name(word)),
            _ => Err(self.misused(NOT_A_PROPERTY)),
        }
    }

    fn text(&mut self) -> Result<String, FilterError> {
        match self.lexer.next()? {
            Token::Literal(Value::String(text)) => Ok(text.into_owned()),
            _ => Err(self.misused(NOT_TEXT)),
        }
    }

    fn expect(&mut self, token: &Token<'_>) -> Result<(), FilterError> {
        match self.lexer.next()? {
            found if found == *token => Ok(()),
            _ => Err(self.lexer.syntax_error()),
        }
    }

    fn misused(&self, problem: &'static str) -> FilterError {
        FilterError::Misused { problem, position: self.lexer.position() }
    }
}

fn case_of(name: &str) -> Option<Case> {
    match name {
        "tolower" => Some(Case::Lower),
        "toupper" => Some(Case::Upper),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
