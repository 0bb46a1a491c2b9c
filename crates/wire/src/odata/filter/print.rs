//! From the tree to text.

use lazuli_model::filter::{Case, Extended, Term, TextFunction};
use lazuli_model::{Filter, Value};
use std::fmt::Write;

/// The text of a filter. Parsing it gives the same tree, unless a junction contains one of its own
/// kind or a property is named like a keyword.
pub fn print(filter: &Filter) -> String {
    let mut out = String::new();
    write_filter(&mut out, filter, Literals::Shown);
    out
}

/// Whether a filter can name this property: its printed form is parsed as the name, and nothing else.
/// Properties named like a keyword cannot be named.
pub fn is_name(name: &str) -> bool {
    const WORDS: [&str; 12] =
        ["and", "eq", "ge", "gt", "INF", "le", "lt", "NaN", "ne", "not", "null", "or"];
    !WORDS.contains(&name)
        && !name.eq_ignore_ascii_case("true")
        && !name.eq_ignore_ascii_case("false")
        && lazuli_model::entity::is_property_name(name)
}

/// The text of a filter without its values, which is safe to log. Anything that is not a name may contain
/// values.
pub fn print_shape(filter: &Filter) -> String {
    let mut out = String::new();
    write_filter(&mut out, filter, Literals::LeftOut);
    out
}

/// Whether values are written.
#[derive(Clone, Copy)]
enum Literals {
    Shown,
    LeftOut,
}

impl Literals {
    fn write(self, out: &mut String, value: &Value<'_>) {
        match self {
            Self::Shown => write_literal(out, value),
            Self::LeftOut => out.push('?'),
        }
    }
}

fn write_filter(out: &mut String, filter: &Filter, style: Literals) {
    match filter {
        Filter::Constant(value) => out.push_str(if *value { "true" } else { "false" }),
        Filter::Compare { property, operator, value } => {
            out.push_str(property.name());
            out.push(' ');
            out.push_str(operator.name());
            out.push(' ');
            style.write(out, value);
        }
        Filter::IsTrue(property) => match style {
            Literals::LeftOut if !is_name(property.name()) => out.push('?'),
            _ => out.push_str(property.name()),
        },
        Filter::Extended(extended) => write_extended(out, extended, style),
        Filter::Not(inner) => {
            out.push_str("not ");
            write_enclosed(out, inner, style);
        }
        Filter::And(parts) => write_junction(out, parts, " and ", style, |part| {
            matches!(part, Filter::And(_) | Filter::Or(_))
        }),
        Filter::Or(parts) => {
            write_junction(out, parts, " or ", style, |part| matches!(part, Filter::Or(_)));
        }
    }
}

fn write_extended(out: &mut String, extended: &Extended, style: Literals) {
    let text_value = |text: &str| Value::String(text.to_owned().into());
    match extended {
        Extended::Text(test) => {
            out.push_str(test.function.name());
            out.push('(');
            if test.function == TextFunction::SubstringOf {
                style.write(out, &text_value(test.text()));
                out.push(',');
                write_term(out, &test.term);
            } else {
                write_term(out, &test.term);
                out.push(',');
                style.write(out, &text_value(test.text()));
            }
            out.push(')');
        }
        Extended::In { term, values } => {
            write_term(out, term);
            out.push_str(" in (");
            // Without its values, a list of any length has one shape.
            let shown = match style {
                Literals::Shown => values.len(),
                Literals::LeftOut => 1,
            };
            for (index, value) in values.iter().take(shown).enumerate() {
                if index > 0 {
                    out.push(',');
                }
                style.write(out, value);
            }
            out.push(')');
        }
        Extended::Compare { term, operator, text } => {
            write_term(out, term);
            out.push(' ');
            out.push_str(operator.name());
            out.push(' ');
            style.write(out, &text_value(text));
        }
    }
}

fn write_term(out: &mut String, term: &Term) {
    let function = match term.case {
        Case::AsIs => return out.push_str(term.property.name()),
        Case::Lower => "tolower(",
        Case::Upper => "toupper(",
    };
    out.push_str(function);
    out.push_str(term.property.name());
    out.push(')');
}

/// Writes `parts` with `word` between them, in parentheses where `enclosed` says so.
fn write_junction(
    out: &mut String,
    parts: &[Filter],
    word: &str,
    style: Literals,
    enclosed: fn(&Filter) -> bool,
) {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.push_str(word);
        }
        if enclosed(part) {
            write_enclosed(out, part, style);
        } else {
            write_filter(out, part, style);
        }
    }
}

fn write_enclosed(out: &mut String, filter: &Filter, style: Literals) {
    out.push('(');
    write_filter(out, filter, style);
    out.push(')');
}

/// Writing to a string cannot fail, so the results of `write!` are ignored.
fn write_literal(out: &mut String, value: &Value<'_>) {
    match value {
        Value::String(text) => {
            out.push('\'');
            out.push_str(&text.replace('\'', "''"));
            out.push('\'');
        }
        Value::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int32(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Int64(number) => {
            let _ = write!(out, "{number}L");
        }
        Value::Double(number) => write_double(out, *number),
        Value::DateTime(time) => {
            let _ = write!(out, "datetime'{time}'");
        }
        Value::Guid(guid) => {
            let _ = write!(out, "guid'{guid}'");
        }
        Value::Binary(bytes) => {
            out.push_str("X'");
            for byte in bytes.iter() {
                let _ = write!(out, "{byte:02x}");
            }
            out.push('\'');
        }
    }
}

fn write_double(out: &mut String, number: f64) {
    if number.is_infinite() {
        out.push_str(if number > 0.0 { "INF" } else { "-INF" });
    } else {
        // `Debug` gives a point or an exponent to every number, and NaN its name.
        let _ = write!(out, "{number:?}");
    }
}
