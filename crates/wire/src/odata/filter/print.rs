//! From the tree to text.

use lazuli_model::{Filter, Value};
use std::fmt::Write;

/// The text of a filter. Parsing it gives the same tree, unless a junction contains one of its own
/// kind or a property is named like a keyword.
pub fn print(filter: &Filter) -> String {
    let mut out = String::new();
    write_filter(&mut out, filter, write_literal);
    out
}

/// The text of a filter with its values left out: what may be logged of it.
pub fn print_shape(filter: &Filter) -> String {
    let mut out = String::new();
    write_filter(&mut out, filter, |out, _| out.push('?'));
    out
}

/// Appends a value.
type WriteValue = fn(&mut String, &Value<'_>);

fn write_filter(out: &mut String, filter: &Filter, value_of: WriteValue) {
    match filter {
        Filter::Constant(value) => out.push_str(if *value { "true" } else { "false" }),
        Filter::Compare { property, operator, value } => {
            out.push_str(property.name());
            out.push(' ');
            out.push_str(operator.name());
            out.push(' ');
            value_of(out, value);
        }
        Filter::IsTrue(property) => out.push_str(property.name()),
        Filter::Not(inner) => {
            out.push_str("not ");
            write_enclosed(out, inner, value_of);
        }
        Filter::And(parts) => write_junction(out, parts, " and ", value_of, |part| {
            matches!(part, Filter::And(_) | Filter::Or(_))
        }),
        Filter::Or(parts) => {
            write_junction(out, parts, " or ", value_of, |part| matches!(part, Filter::Or(_)));
        }
    }
}

/// Writes `parts` with `word` between them, in parentheses where `enclosed` says so.
fn write_junction(
    out: &mut String,
    parts: &[Filter],
    word: &str,
    value_of: WriteValue,
    enclosed: fn(&Filter) -> bool,
) {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.push_str(word);
        }
        if enclosed(part) {
            write_enclosed(out, part, value_of);
        } else {
            write_filter(out, part, value_of);
        }
    }
}

fn write_enclosed(out: &mut String, filter: &Filter, value_of: WriteValue) {
    out.push('(');
    write_filter(out, filter, value_of);
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
