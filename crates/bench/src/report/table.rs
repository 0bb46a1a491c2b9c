//! Tables of aligned text.

use super::{duration, goals_met, thousands};
use crate::compare::{Comparison, Ratio};
use crate::goal::Goal;
use crate::measure::{Figures, median};
use crate::queue::used::Used;
use crate::results::{Measurement, Results};
use crate::scale::Size;

/// One line for each server, workload and number of connections.
pub(super) fn measurements(results: &Results) -> String {
    let mut rows = vec![
        [
            "workload",
            "conns",
            "server",
            "ops/s",
            "entities/s",
            "p50",
            "p99",
            "CPU µs/op",
            "RSS MiB",
            "errors",
        ]
        .map(str::to_owned),
    ];
    let mut sorted: Vec<&Measurement> = results.measurements.iter().collect();
    sorted.sort_by_key(|it| (it.case.workload, it.case.connections, it.target));
    rows.extend(sorted.into_iter().map(row));
    align(&rows, 3)
}

fn row(measurement: &Measurement) -> [String; 10] {
    let figures = &measurement.median;
    let mark = if measurement.is_client_bound() { " *" } else { "" };
    [
        measurement.case.workload.name(),
        measurement.case.connections.to_string(),
        measurement.target.text().to_owned() + mark,
        thousands(figures.operations_per_second),
        figures.entities_per_second.map(thousands).unwrap_or_default(),
        duration(figures.p50_us),
        duration(figures.p99_us),
        thousands(figures.server_cpu_us_per_operation),
        format!("{:.0}", figures.server_resident_mib),
        measurement.errors.to_string(),
    ]
}

pub(super) fn goals(goals: &[Goal]) -> String {
    let header = ["figure", "goal", "measured", ""].map(str::to_owned);
    let row = |goal: &Goal| {
        let measure = goal.measure.clone();
        [measure, goal.bound_text(), goal.measured_text(), goal.verdict().to_owned()]
    };
    let rows: Vec<_> = std::iter::once(header).chain(goals.iter().map(row)).collect();
    align(&rows, 1) + &goals_met(goals) + "\n"
}

/// One line for each workload and number of connections: the figure before and after, and the ratio.
pub(super) fn comparisons(comparisons: &[Comparison]) -> String {
    let header = ["workload", "conns", "figure", "before", "now", "ratio", "half of the turns", ""];
    let mut rows = vec![header.map(str::to_owned)];
    type Figure = fn(&Figures) -> f64;
    let figures: [(&str, Figure, bool); 2] = [
        ("CPU µs/op", |it| it.server_cpu_us_per_operation, false),
        ("ops/s", |it| it.operations_per_second, true),
    ];
    for comparison in comparisons {
        for (name, figure, more_is_better) in figures {
            let (before, now) = comparison.medians(figure);
            let ratio @ Ratio { median, quartiles: (low, high) } = comparison.ratio(figure);
            rows.push([
                comparison.case.workload.name(),
                comparison.case.connections.to_string(),
                name.to_owned(),
                thousands(before),
                thousands(now),
                format!("{median:.3}×"),
                format!("{low:.3} to {high:.3}"),
                verdict(ratio, more_is_better).to_owned(),
            ]);
        }
    }
    align(&rows, 3)
}

/// A verdict only if the middle half of the turns agree.
fn verdict(ratio: Ratio, more_is_better: bool) -> &'static str {
    let (low, high) = ratio.quartiles;
    match (low > 1.0, high < 1.0) {
        (true, _) if more_is_better => "better",
        (_, true) if !more_is_better => "better",
        (false, false) => "",
        _ => "worse",
    }
}

/// One column for each size.
pub(super) fn sizes(sizes: &[Size]) -> String {
    type Figure = fn(&Size) -> String;
    let lines: [(&str, Figure); 14] = [
        ("entities", |size| thousands(size.entities as f64)),
        ("load, entities/s", |size| thousands(size.load_per_second)),
        ("scan, entities/s", |size| thousands(size.scan_per_second)),
        ("point, ops/s", |size| thousands(size.point.operations_per_second)),
        ("point, p50", |size| duration(size.point.p50_us)),
        ("point, p99", |size| duration(size.point.p99_us)),
        ("range1000, ops/s", |size| thousands(size.range1000.operations_per_second)),
        ("range1000, p99", |size| duration(size.range1000.p99_us)),
        ("insert, ops/s", |size| thousands(size.insert.operations_per_second)),
        ("insert, p99", |size| duration(size.insert.p99_us)),
        ("RSS / peak, MiB", |size| {
            format!("{:.0} / {:.0}", size.resident_mib, size.resident_peak_mib)
        }),
        ("disk, MiB", |size| thousands(size.disk_mib.round())),
        ("start", |size| duration(size.start_seconds * 1e6)),
        ("recovery", |size| duration(size.recovery_seconds * 1e6)),
    ];
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|(name, figure)| {
            std::iter::once((*name).to_owned()).chain(sizes.iter().map(figure)).collect()
        })
        .collect();
    align(&rows, 1)
}

/// A long queue, and gets in a used one.
pub(super) fn used(used: &Used) -> String {
    let of = |figures: &[Figures], figure: fn(&Figures) -> f64| {
        duration(median(figures.iter().map(figure).collect()))
    };
    let get = |figures| {
        let (p50, p99) = (of(figures, |it| it.p50_us), of(figures, |it| it.p99_us));
        format!("{p50}, {p99}")
    };
    let memory = format!("{:.0} / {:.0}", used.resident_mib, used.resident_peak_mib);
    let rows = [
        ("messages through one queue", thousands(used.messages as f64)),
        ("put, ops/s", thousands(used.put_per_second)),
        ("RSS / peak with all of them, MiB", memory),
        ("get-delete, ops/s", thousands(used.get_delete_per_second)),
        ("get in a fresh queue, p50, p99", get(&used.fresh)),
        ("get in the used queue, p50, p99", get(&used.used)),
        ("p99, median of the ratios", format!("{:.2}×", used.p99_ratio())),
    ];
    align(&rows.map(|(name, value)| [name.to_owned(), value]), 1)
}

/// Pads columns to their widest cell: the first `left` to the left, the others to the right.
fn align<R: AsRef<[String]>>(rows: &[R], left: usize) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.as_ref().get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.as_ref().iter().zip(&widths).enumerate() {
            let gap = " ".repeat(width - cell.chars().count());
            let separator = if column > 0 { "  " } else { "" };
            line.push_str(separator);
            if column < left {
                line.push_str(&(cell.clone() + &gap));
            } else {
                line.push_str(&(gap + cell));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_judged_where_half_of_the_turns_agree() {
        let judged = |low, high, more_is_better| {
            verdict(Ratio { median: 1.0, quartiles: (low, high) }, more_is_better)
        };
        assert_eq!([judged(1.1, 1.2, true), judged(1.1, 1.2, false)], ["better", "worse"]);
        assert_eq!([judged(0.8, 0.9, true), judged(0.8, 0.9, false)], ["worse", "better"]);
        assert_eq!([judged(0.9, 1.1, true), judged(0.9, 1.1, false)], ["", ""]);
    }

    #[test]
    fn columns_are_aligned_by_characters() {
        let rows = [["a", "1"], ["µs", "22"], ["long", "3"]].map(|row| row.map(str::to_owned));
        assert_eq!(align(&rows, 1), "a      1\nµs    22\nlong   3\n");
    }
}
