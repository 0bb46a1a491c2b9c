//! From tokens to the tree.

use super::FilterError;
use super::lexer::{Lexer, Token};
use lazuli_model::filter::Term;
use lazuli_model::limits::{FILTER_COMPARISONS_MAX, FILTER_DEPTH_MAX};
use lazuli_model::{EdmType, Filter, Operator, Property, Value};
use std::borrow::Cow;

/// Maximum open parentheses. Our limit: they use no stack, but each pair may move its content into
/// the enclosing junction.
const PARENTHESES_MAX: usize = 1024;

/// The functions of OData 3.
const FUNCTIONS: [&str; 22] = [
    "cast",
    "ceiling",
    "concat",
    "day",
    "endswith",
    "floor",
    "hour",
    "indexof",
    "isof",
    "length",
    "minute",
    "month",
    "replace",
    "round",
    "second",
    "startswith",
    "substring",
    "substringof",
    "tolower",
    "toupper",
    "trim",
    "year",
];

/// Parses the decoded text of a `$filter`.
pub fn parse(text: &str) -> Result<Filter, FilterError> {
    Parser::new(text, Dialect::Azure).run()
}

/// Also parses what emulators accept and Azure does not: operators in any case, strings in double
/// quotes, names with other characters, `null`, and keys compared with non-strings.
///
/// A comparison with `null` tests whether the property exists. Values of incomparable types are
/// unequal.
pub fn parse_lenient(text: &str) -> Result<Filter, FilterError> {
    Parser::new(text, Dialect::Lenient).run()
}

/// Also parses the syntax that exists only in extensions.
pub fn parse_extended(text: &str) -> Result<Filter, FilterError> {
    Parser::new(text, Dialect::Extended).run()
}

/// Which dialect is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Azure,
    Lenient,
    /// Azure's, plus extensions.
    Extended,
}

pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    dialect: Dialect,
    /// The groups around the current one, outermost first.
    outer: Vec<Group>,
    group: Group,
    comparisons: usize,
}

/// The state of an expression between two parentheses, or of the whole text.
#[derive(Default)]
struct Group {
    /// Finished alternatives, to be joined by `or`.
    alternatives: Junction,
    /// Finished parts of the current alternative, to be joined by `and`.
    parts: Junction,
    /// A comparison without its right side yet.
    comparison: Option<(Operand, Operator)>,
    /// The `not`s before the next operand.
    negations: usize,
}

/// One side of an operator.
pub(super) enum Operand {
    Condition(Condition),
    Property(Property),
    /// `tolower(..)` or `toupper(..)` of a property.
    Folded(Term),
    Literal(Value<'static>),
    Null,
}

/// A filter and the depth of its tree, which is checked as the tree grows.
pub(super) struct Condition {
    filter: Filter,
    depth: usize,
}

/// What follows an operand.
enum Next {
    /// An operator: another operand must come.
    Operand,
    /// A closing parenthesis: its content is an operand of the enclosing group.
    Enclosed(Operand),
    End(Filter),
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, dialect: Dialect) -> Self {
        let lexer = Lexer::new(text, dialect);
        Self { lexer, dialect, outer: Vec::new(), group: Group::default(), comparisons: 0 }
    }

    fn run(mut self) -> Result<Filter, FilterError> {
        loop {
            let mut operand = self.operand()?;
            loop {
                match self.after(operand)? {
                    Next::Operand => break,
                    Next::Enclosed(group) => operand = group,
                    Next::End(filter) => return Ok(filter),
                }
            }
        }
    }

    fn operand(&mut self) -> Result<Operand, FilterError> {
        loop {
            match self.lexer.next()? {
                Token::Open => {
                    if self.outer.len() == PARENTHESES_MAX {
                        return Err(FilterError::TooComplex);
                    }
                    self.outer.push(std::mem::take(&mut self.group));
                }
                Token::Word(word) if self.dialect.fold(word) == "not" => self.group.negations += 1,
                Token::Word(name) => return Ok(Operand::Property(Property::from_name(name))),
                Token::Literal(value) => return Ok(Operand::Literal(value)),
                Token::Null => return Ok(Operand::Null),
                Token::Minus => return Err(FilterError::NotImplemented),
                Token::Close | Token::Comma | Token::Other | Token::End => {
                    return Err(self.lexer.syntax_error());
                }
            }
        }
    }

    fn after(&mut self, operand: Operand) -> Result<Next, FilterError> {
        let token = self.lexer.next()?;
        if token == Token::Open
            && let Operand::Property(property) = &operand
        {
            if self.dialect == Dialect::Extended
                && let Some(called) = self.call(property.name())?
            {
                return self.after(called);
            }
            // The service has no functions; a name unknown to OData is a syntax error (T-4.23).
            return Err(match FUNCTIONS.contains(&property.name()) {
                true => FilterError::NotImplemented,
                false => self.lexer.syntax_error(),
            });
        }
        let operand = self.negate(operand)?;
        match token {
            Token::Word(word) => self.operator(operand, word),
            Token::Close => {
                let outer = self.outer.pop().ok_or_else(|| self.lexer.syntax_error())?;
                let enclosed = self.close(operand)?;
                self.group = outer;
                Ok(Next::Enclosed(enclosed))
            }
            Token::End if self.outer.is_empty() => {
                let operand = self.close(operand)?;
                Ok(Next::End(self.condition(operand)?.filter))
            }
            _ => Err(self.lexer.syntax_error()),
        }
    }

    fn operator(&mut self, operand: Operand, word: &str) -> Result<Next, FilterError> {
        let word = self.dialect.fold(word);
        if let Some(operator) = Operator::from_name(&word) {
            if self.group.comparison.is_some() {
                // `a eq b eq c` (T-4.22).
                return Err(self.lexer.syntax_error());
            }
            self.group.comparison = Some((operand, operator));
            return Ok(Next::Operand);
        }
        match &*word {
            "and" => {
                self.finish_part(operand, |left| incompatible(left, EdmType::Boolean, "And"))?
            }
            "or" => {
                self.finish_part(operand, |left| incompatible(left, EdmType::Boolean, "Or"))?;
                self.group.finish_alternative()?;
            }
            "in" if self.dialect == Dialect::Extended && self.group.comparison.is_none() => {
                let found = self.in_list(operand)?;
                return self.after(found);
            }
            "add" | "sub" | "mul" | "div" | "mod" => return Err(FilterError::NotImplemented),
            _ => return Err(self.lexer.syntax_error()),
        }
        Ok(Next::Operand)
    }

    /// Ends the current group with its last operand. A group of one operand is that operand, so
    /// that `(PartitionKey) eq ('p')` is a comparison.
    fn close(&mut self, operand: Operand) -> Result<Operand, FilterError> {
        if self.group.parts.is_empty() && self.group.alternatives.is_empty() {
            return self.compared(operand);
        }
        let operator = if self.group.parts.is_empty() { "Or" } else { "And" };
        self.finish_part(operand, |right| incompatible(EdmType::Boolean, right, operator))?;
        self.group.finish_alternative()?;
        let alternatives = std::mem::take(&mut self.group.alternatives);
        alternatives.join(Filter::Or).map(Operand::Condition)
    }

    /// Ends a part of a junction with its last operand. If that is not a condition, `mismatch` is
    /// the error.
    fn finish_part(
        &mut self,
        operand: Operand,
        mismatch: impl FnOnce(EdmType) -> FilterError,
    ) -> Result<(), FilterError> {
        let operand = self.compared(operand)?;
        match operand.other_type() {
            Some(edm_type) if !self.is_lenient() => return Err(mismatch(edm_type)),
            _ => {}
        }
        let condition = self.condition(operand)?;
        let parts = &mut self.group.parts;
        match condition.filter {
            Filter::And(filters) => parts.extend(filters, condition.depth),
            _ => parts.push(condition),
        }
        Ok(())
    }

    fn negate(&mut self, operand: Operand) -> Result<Operand, FilterError> {
        let negations = std::mem::take(&mut self.group.negations);
        if negations == 0 {
            return Ok(operand);
        }
        let mut condition = self.condition(operand)?;
        for _ in 0..negations {
            condition = Condition::new(Filter::Not(condition.filter.into()), condition.depth + 1)?;
        }
        Ok(Operand::Condition(condition))
    }

    /// The comparison that `right` completes, if there is one.
    fn compared(&mut self, right: Operand) -> Result<Operand, FilterError> {
        let Some((left, operator)) = self.group.comparison.take() else {
            return Ok(right);
        };
        self.count_comparison()?;
        let filter = match (left, right) {
            (Operand::Null, other) | (other, Operand::Null) => {
                return self.compared_with_null(other, operator).map(Operand::Condition);
            }
            (Operand::Property(property), Operand::Literal(value)) => {
                let mismatch = |key, literal| incompatible(key, literal, operator_kind(operator));
                self.compare(property, operator, value, mismatch)?
            }
            // `'p' eq PartitionKey` (T-4.15).
            (Operand::Literal(value), Operand::Property(property)) => {
                let mismatch = |key, literal| incompatible(literal, key, operator_kind(operator));
                self.compare(property, operator.flipped(), value, mismatch)?
            }
            // T-4.19.
            (Operand::Literal(left), Operand::Literal(right)) => {
                Filter::Constant(operator.holds(left.as_ref(), right.as_ref()))
            }
            // `not active eq true`, `(a eq 1) ne false`: a condition is a Boolean (T-4.10).
            (Operand::Condition(condition), Operand::Literal(Value::Boolean(value)))
            | (Operand::Literal(Value::Boolean(value)), Operand::Condition(condition))
                if matches!(operator, Operator::Eq | Operator::Ne) =>
            {
                return condition.negated_if(value != (operator == Operator::Eq));
            }
            (Operand::Folded(term), Operand::Literal(value)) => {
                self.compare_folded(term, operator, value)?
            }
            (Operand::Literal(value), Operand::Folded(term)) => {
                self.compare_folded(term, operator.flipped(), value)?
            }
            (
                Operand::Property(_) | Operand::Folded(_),
                Operand::Property(_) | Operand::Folded(_),
            )
            | (Operand::Condition(_), _)
            | (_, Operand::Condition(_)) => return Err(FilterError::NotImplemented),
        };
        Ok(Condition::leaf(filter))
    }

    /// Azure has no `null` (T-4.18, TR-3). In emulators a missing property equals it.
    fn compared_with_null(
        &mut self,
        operand: Operand,
        operator: Operator,
    ) -> Result<Condition, FilterError> {
        let present = match operand {
            _ if !self.is_lenient() => return Err(FilterError::Invalid),
            Operand::Condition(_) | Operand::Folded(_) => return Err(FilterError::NotImplemented),
            Operand::Property(property @ Property::Custom(_)) => {
                // An existing property is either equal or unequal; a missing one is neither.
                let value = || Value::String("".into());
                let other = property.clone();
                Filter::Or(vec![
                    Filter::Compare { property, operator: Operator::Eq, value: value() },
                    Filter::Compare { property: other, operator: Operator::Ne, value: value() },
                ])
            }
            Operand::Property(_) | Operand::Literal(_) => Filter::Constant(true),
            Operand::Null => Filter::Constant(false),
        };
        match operator {
            Operator::Eq => Condition::new(Filter::Not(present.into()), 2),
            Operator::Ne => Condition::new(present, 1),
            _ => Condition::new(Filter::Constant(false), 0),
        }
    }

    /// The keys are strings and Timestamp is a DateTime: nothing else compares with them (T-4.39).
    fn compare(
        &self,
        property: Property,
        operator: Operator,
        value: Value<'static>,
        mismatch: impl FnOnce(EdmType, EdmType) -> FilterError,
    ) -> Result<Filter, FilterError> {
        let given = value.as_ref().edm_type();
        match (property_type(&property), self.is_lenient()) {
            (Some(known), false) if known != given => Err(mismatch(known, given)),
            (Some(known), true) if known != given => Ok(Filter::Constant(operator == Operator::Ne)),
            _ => Ok(Filter::Compare { property, operator, value }),
        }
    }

    fn condition(&mut self, operand: Operand) -> Result<Condition, FilterError> {
        let filter = match operand {
            Operand::Condition(condition) => return Ok(condition),
            Operand::Property(property @ Property::Custom(_)) => {
                self.count_comparison()?;
                Filter::IsTrue(property)
            }
            Operand::Literal(Value::Boolean(value)) => Filter::Constant(value),
            Operand::Property(_) | Operand::Folded(_) | Operand::Literal(_) | Operand::Null => {
                return Err(FilterError::Invalid);
            }
        };
        Ok(Condition { filter, depth: 0 })
    }

    fn is_lenient(&self) -> bool {
        self.dialect == Dialect::Lenient
    }

    pub(super) fn count_comparison(&mut self) -> Result<(), FilterError> {
        self.comparisons += 1;
        if self.comparisons > FILTER_COMPARISONS_MAX {
            return Err(FilterError::TooComplex);
        }
        Ok(())
    }
}

impl Operand {
    /// The type of an operand that is known not to be Boolean.
    fn other_type(&self) -> Option<EdmType> {
        let known = match self {
            Self::Property(property) => property_type(property),
            Self::Folded(_) => Some(EdmType::String),
            Self::Literal(value) => Some(value.as_ref().edm_type()),
            Self::Condition(_) | Self::Null => None,
        };
        known.filter(|&known| known != EdmType::Boolean)
    }
}

/// The type of a system property; others may have any type.
pub(super) fn property_type(property: &Property) -> Option<EdmType> {
    match property {
        Property::PartitionKey | Property::RowKey => Some(EdmType::String),
        Property::Timestamp => Some(EdmType::DateTime),
        Property::Custom(_) => None,
    }
}

pub(super) fn incompatible(left: EdmType, right: EdmType, operator: &'static str) -> FilterError {
    FilterError::IncompatibleOperands { left, right, operator }
}

/// The name of an operator in the messages of OData's library.
pub(super) const fn operator_kind(operator: Operator) -> &'static str {
    match operator {
        Operator::Eq => "Equal",
        Operator::Ne => "NotEqual",
        Operator::Gt => "GreaterThan",
        Operator::Ge => "GreaterThanOrEqual",
        Operator::Lt => "LessThan",
        Operator::Le => "LessThanOrEqual",
    }
}

impl Dialect {
    /// A word in the form used to match keywords, which are case-sensitive only for Azure.
    pub(super) fn fold(self, word: &str) -> Cow<'_, str> {
        match self {
            Self::Azure | Self::Extended => Cow::Borrowed(word),
            Self::Lenient => Cow::Owned(word.to_ascii_lowercase()),
        }
    }
}

impl Group {
    fn finish_alternative(&mut self) -> Result<(), FilterError> {
        let condition = std::mem::take(&mut self.parts).join(Filter::And)?;
        match condition.filter {
            Filter::Or(filters) => self.alternatives.extend(filters, condition.depth),
            _ => self.alternatives.push(condition),
        }
        Ok(())
    }
}

impl Condition {
    /// A condition without parts.
    pub(super) fn leaf(filter: Filter) -> Operand {
        Operand::Condition(Self { filter, depth: 0 })
    }

    fn negated_if(self, negative: bool) -> Result<Operand, FilterError> {
        match negative {
            false => Ok(Operand::Condition(self)),
            true => {
                let negated = Self::new(Filter::Not(self.filter.into()), self.depth + 1)?;
                Ok(Operand::Condition(negated))
            }
        }
    }

    fn new(filter: Filter, depth: usize) -> Result<Self, FilterError> {
        if depth > FILTER_DEPTH_MAX {
            return Err(FilterError::TooComplex);
        }
        Ok(Self { filter, depth })
    }
}

/// The parts of an `and` or an `or`, and the depth of the deepest.
#[derive(Default)]
struct Junction {
    filters: Vec<Filter>,
    depth: usize,
}

impl Junction {
    fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    fn push(&mut self, condition: Condition) {
        self.filters.push(condition.filter);
        self.depth = self.depth.max(condition.depth);
    }

    /// Takes over the parts of a junction of the same kind and the given depth.
    fn extend(&mut self, filters: Vec<Filter>, depth: usize) {
        if self.filters.is_empty() {
            self.filters = filters;
        } else {
            self.filters.extend(filters);
        }
        self.depth = self.depth.max(depth.saturating_sub(1));
    }

    /// A junction of one part is just that part.
    fn join(mut self, junction: fn(Vec<Filter>) -> Filter) -> Result<Condition, FilterError> {
        match self.filters.pop() {
            Some(filter) if self.filters.is_empty() => Condition::new(filter, self.depth),
            Some(last) => {
                self.filters.push(last);
                Condition::new(junction(self.filters), self.depth + 1)
            }
            None => Condition::new(Filter::Constant(true), 0),
        }
    }
}
