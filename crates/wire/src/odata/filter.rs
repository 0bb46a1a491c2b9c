//! `$filter` text: to a `Filter` tree and back (section 4.2 of the specification).
//!
//! Parsing uses its own stack, so neither thousands of `or`ed terms nor nested parentheses around
//! each pair of them use call stack. A chain of one operator becomes one node, with or without
//! parentheses: `(a or b) or c` is `Or([a, b, c])`.

mod extended;
mod lexer;
mod parser;
mod print;

pub use parser::{parse, parse_extended, parse_lenient};
pub use print::{is_name, print, print_shape};

use lazuli_model::EdmType;

/// Why a filter is refused. Positions count UTF-16 code units from zero, as the service does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// 400 `InvalidInput`, "Syntax error at position {position} in '{filter}'." The position is just
    /// past the first token that could not be consumed (T-4.24).
    #[error("syntax error at position {position}")]
    Syntax { position: usize },
    /// 400 `InvalidInput`, "Syntax error: character '{character}' is not valid at position
    /// {position} in '{filter}'.": the text of the same lexer for a key predicate (T-1.26).
    #[error("character {character:?} is not valid at position {position}")]
    InvalidCharacter { character: char, position: usize },
    /// 400 `InvalidInput`, "Unterminated string literal at position {position} in '{filter}'."
    /// (T-4.25). The position is the end of the text.
    #[error("unterminated string literal at position {position}")]
    UnterminatedString { position: usize },
    /// 501 `NotImplemented`: functions, arithmetic, and a comparison of two properties (T-4.20,
    /// T-4.23).
    #[error("the operation is not implemented")]
    NotImplemented,
    /// 400 `InvalidInput`, "A binary operator with incompatible types was detected. …": a key
    /// compared with a non-string, or joined to a condition (T-4.39). The tests of the official
    /// .NET client assert the text of the latter, which is that of OData's own library.
    #[error("{left:?} and {right:?} are incompatible operands of {operator}")]
    IncompatibleOperands { left: EdmType, right: EdmType, operator: &'static str },
    /// 400 `InvalidInput`, "{problem} at position {position} in '{filter}'.": an extension that is
    /// used incorrectly.
    #[error("{problem} at position {position}")]
    Misused { problem: &'static str, position: usize },
    /// 400 `InvalidInput`, "One of the request inputs is not valid.": a null, or a condition that is
    /// not Boolean (T-4.18).
    #[error("the filter is not valid")]
    Invalid,
    /// 400 `InvalidInput`, "One of the request inputs is not valid.": more comparisons or deeper
    /// nesting than our limits allow.
    #[error("the filter is too complex")]
    TooComplex,
}

#[cfg(test)]
mod tests;
