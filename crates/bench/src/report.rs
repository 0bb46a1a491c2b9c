//! Reports: a table for the terminal, JSON for programs, a chart for people.

mod chart;
mod svg;
mod table;

use crate::compare::Comparison;
use crate::goal::Goal;
use crate::queue::{AZURITE_MESSAGES_MAX, TEXT_BYTES};
use crate::results::Results;
use crate::scale::Growth;
use crate::workload::Service;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// Prints `results` and writes them into `out` as `name.json` and `name.svg`.
pub(crate) fn print(results: &Results, name: &str, out: &Path) -> Result<()> {
    println!("\n{}", table::measurements(results));
    if let Some(used) = &results.used {
        println!("{}", table::used(used));
    }
    print_goals(&results.goals);
    println!("{}", remarks(results));
    write(results, &chart::results(results), name, out)
}

/// Prints `growth` and writes it into `out` as `scale.json` and `scale.svg`.
pub(crate) fn print_growth(growth: &Growth, out: &Path) -> Result<()> {
    println!("\n{}", table::sizes(&growth.sizes));
    print_goals(&growth.goals);
    write(growth, &chart::growth(growth), "scale", out)
}

/// Prints how two builds differ.
pub(crate) fn print_comparisons(comparisons: &[Comparison]) {
    println!("\n{}", table::comparisons(comparisons));
}

fn write(results: &impl Serialize, chart: &str, name: &str, out: &Path) -> Result<()> {
    let json = serde_json::to_string_pretty(results).context("write JSON")?;
    for (text, ending) in [(json.as_str(), "json"), (chart, "svg")] {
        let path = out.join(format!("{name}.{ending}"));
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

fn remarks(results: &Results) -> String {
    let (entities, rounds) = (thousands(results.entities as f64), results.rounds);
    let seconds = results.window_seconds;
    let items = match results.service {
        Service::Table => format!("{entities} entities of about 1 KiB"),
        Service::Queue => format!(
            "{entities} messages of {TEXT_BYTES} bytes in a queue, Azurite's {AZURITE_MESSAGES_MAX}"
        ),
    };
    let mut text = format!(
        "{items}; medians of {rounds} rounds of {seconds} s; \
         ratios on 64 connections, of queries on 16"
    );
    if results.measurements.iter().any(|it| it.is_client_bound()) {
        text.push_str("\n* the client was busy all the time; the server may be faster");
    }
    for skipped in &results.skipped {
        text.push_str(&format!("\nskipped: {skipped}"));
    }
    text
}

/// Prints goals and whether they are met.
pub(crate) fn print_goals(goals: &[Goal]) {
    println!("{}", table::goals(goals));
}

/// How many of `goals` are met, of those measured.
fn goals_met(goals: &[Goal]) -> String {
    let met = goals.iter().filter(|goal| goal.is_met() == Some(true)).count();
    let measured = goals.iter().filter(|goal| goal.is_met().is_some()).count();
    match measured {
        0 => "nothing measured".to_owned(),
        _ => format!("{met} of {measured} met"),
    }
}

/// `1234567` as `1,234,567`; small numbers with one decimal digit.
pub(crate) fn thousands(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Microseconds in the unit that reads best.
fn duration(micros: f64) -> String {
    match micros {
        us if us < 1_000.0 => format!("{us:.0} µs"),
        us if us < 100_000.0 => format!("{:.1} ms", us / 1e3),
        us if us < 1_000_000.0 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(thousands(0.0), "0");
        assert_eq!(thousands(12.34), "12.3");
        assert_eq!(thousands(999.6), "1,000");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
    }

    #[test]
    fn durations_have_a_fitting_unit() {
        assert_eq!(duration(12.3), "12 µs");
        assert_eq!(duration(12_345.0), "12.3 ms");
        assert_eq!(duration(123_456.0), "123 ms");
        assert_eq!(duration(1_234_567.0), "1.2 s");
    }
}
