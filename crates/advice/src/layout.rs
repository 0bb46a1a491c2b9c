//! Advice from declarations alone, before there is any traffic (P-20.1).

use crate::{Code, Finding};

/// The key templates of a type, as in C-4.1: `{field}` and `{field:spec}` between literals.
#[derive(Clone, Copy, Debug)]
pub struct KeyShape<'a> {
    /// The table.
    pub table: &'a str,
    /// The template of partition keys.
    pub partition: &'a str,
    /// The template of row keys.
    pub row: &'a str,
    /// Fields that are whole numbers.
    pub numbers: &'a [&'a str],
}

/// Formats of times in which later times sort later.
const GROWING: [&str; 6] = ["ticks", "date", "month", "hour", "minute", "iso"];
/// The format of times in which later times sort earlier.
const SHRINKING: &str = "rev";

/// Findings that the keys of a type will lead to.
pub fn check(shape: &KeyShape<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |code: Code, subject: &str, evidence: String| {
        findings.push(Finding::new(code, shape.table, subject, evidence, 0));
    };
    let partition = fields(shape.partition);
    if partition.is_empty() {
        report(Code::OnePartition, "", format!("every partition key is {:?}", shape.partition));
    }
    let is_number = |name: &str| shape.numbers.contains(&name);
    if let Some(&(name, spec)) = partition.first() {
        let is_time = GROWING.contains(&spec) || (spec == SHRINKING && !is_number(name));
        let is_counted = is_number(name) && (spec == "pad" || is_width(spec));
        // All current rows go to one partition only if nothing before the time separates them.
        if is_time || (is_counted && partition.len() == 1 && shape.row.is_empty()) {
            report(
                Code::AppendPartitions,
                "",
                format!("partition keys begin with {{{name}:{spec}}}"),
            );
        }
    }
    for (place, fields) in [("PartitionKey", partition), ("RowKey", fields(shape.row))] {
        for (name, spec) in fields {
            if is_number(name) && spec.is_empty() {
                report(
                    Code::UnpaddedNumbers,
                    place,
                    format!("{{{name}}} is a number without padding"),
                );
            }
        }
    }
    findings
}

fn is_width(spec: &str) -> bool {
    spec.starts_with('0') && spec.bytes().all(|byte| byte.is_ascii_digit())
}

/// The fields of a template with their specs.
fn fields(template: &str) -> Vec<(&str, &str)> {
    let mut fields = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let after = rest.get(open + 1..).unwrap_or_default();
        // A doubled brace is a literal brace.
        if let Some(after) = after.strip_prefix('{') {
            rest = after;
            continue;
        }
        let Some((field, after)) = after.split_once('}') else { break };
        fields.push(field.split_once(':').unwrap_or((field, "")));
        rest = after;
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_codes(partition: &str, row: &str, expect: &[Code]) {
        let shape = KeyShape { table: "Rows", partition, row, numbers: &["id", "year"] };
        let codes: Vec<_> = check(&shape).iter().map(|finding| finding.code).collect();
        assert_eq!(codes, expect, "{partition} {row}");
    }

    #[test]
    fn templates_tell_what_they_lead_to() {
        // P-20.1.
        check_codes("{department}", "empid_{id:06}", &[]);
        check_codes("all", "{id:06}", &[Code::OnePartition]);
        check_codes("{{all}}", "{id:06}", &[Code::OnePartition]);
        check_codes("{at:date}", "{id:pad}", &[Code::AppendPartitions]);
        check_codes("{at:rev}", "{id:pad}", &[Code::AppendPartitions]);
        check_codes("{id:bucket(16)}_{at:date}", "{id:pad}", &[]);
        check_codes("{department}", "empid_{id}", &[Code::UnpaddedNumbers]);
        check_codes("{year}", "{name}", &[Code::UnpaddedNumbers]);
        check_codes("{name", "{name}", &[Code::OnePartition]);
    }
}
