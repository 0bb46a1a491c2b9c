//! The charts: a comparison of servers, and how cost grows.

use super::svg::Svg;
use super::{duration, goals_met, thousands};
use crate::goal::Goal;
use crate::measure::Figures;
use crate::results::Results;
use crate::scale::{Growth, Size};
use crate::target::{AZURITE_VERSION, TargetName};
use crate::workload::Workload;
use clap::ValueEnum;

const WIDTH: f64 = 1120.0;
const MARGIN: f64 = 32.0;
const BAR: f64 = 10.0;
const TARGETS: [TargetName; 4] =
    [TargetName::Lazuli, TargetName::Azurite, TargetName::BareHttp, TargetName::BareLog];

/// Throughput, latency and server time of each workload, and the ratios.
pub(super) fn results(results: &Results) -> String {
    let mut svg = Svg::new(WIDTH);
    let entities = thousands(results.entities as f64);
    let items = results.service.items();
    let title = format!("Lazuli side by side, {entities} {items}");
    svg.text(MARGIN, 44.0, "title", &title);
    svg.text(MARGIN, 64.0, "dim", &results.machine.text());
    legend(&mut svg, 88.0, results);
    let y = panels(&mut svg, 128.0, results);
    let y = goals(&mut svg, y + 40.0, &results.goals);
    svg.finish(y + MARGIN)
}

fn class(target: TargetName) -> &'static str {
    match target {
        TargetName::Lazuli => "lazuli",
        TargetName::Azurite => "azurite",
        TargetName::BareHttp => "bare-http",
        TargetName::BareLog => "bare-log",
    }
}

fn legend(svg: &mut Svg, y: f64, results: &Results) {
    let mut x = MARGIN;
    let measured =
        |target: &&TargetName| results.measurements.iter().any(|it| it.target == **target);
    for target in TARGETS.iter().filter(measured) {
        let note = match target {
            TargetName::Lazuli => "Lazuli, every write synced".to_owned(),
            TargetName::Azurite => format!("Azurite {AZURITE_VERSION}, writes in memory"),
            TargetName::BareHttp => "limit: bare hyper, the same bytes".to_owned(),
            TargetName::BareLog => "limit: bare log, one fdatasync per group".to_owned(),
        };
        svg.bar((x, y - BAR), BAR, BAR, class(*target), &note);
        svg.text(x + 16.0, y, "", &note);
        x += 40.0 + 6.4 * note.chars().count() as f64;
    }
}

/// A figure drawn for each workload, on a logarithmic scale.
struct Panel {
    title: &'static str,
    x: f64,
    width: f64,
    /// Where its bar begins, unless at the edge, and where it ends.
    figure: fn(&Figures) -> (Option<f64>, f64),
    label: fn(&Figures) -> String,
    axis: fn(f64) -> String,
}

const PANELS: [Panel; 3] = [
    Panel {
        title: "operations per second →",
        x: 150.0,
        width: 250.0,
        figure: |it| (None, it.operations_per_second),
        label: |it| thousands(it.operations_per_second),
        axis: thousands,
    },
    Panel {
        title: "← latency, p50 to p99",
        x: 480.0,
        width: 200.0,
        figure: |it| (Some(it.p50_us), it.p99_us),
        label: |it| format!("{} – {}", duration(it.p50_us), duration(it.p99_us)),
        axis: power_of_ten,
    },
    Panel {
        title: "← server CPU per operation",
        x: 830.0,
        width: 180.0,
        figure: |it| (None, it.server_cpu_us_per_operation),
        label: |it| duration(it.server_cpu_us_per_operation),
        axis: power_of_ten,
    },
];

impl Panel {
    /// The decades that hold every value.
    fn decades(&self, results: &Results) -> (f64, f64) {
        let values = results.measurements.iter().flat_map(|it| {
            let (from, to) = (self.figure)(&it.median);
            [from.unwrap_or(to), to]
        });
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let low = logs.iter().copied().fold(f64::INFINITY, f64::min).floor();
        let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil();
        if logs.is_empty() { (0.0, 1.0) } else { (low, high.max(low + 1.0)) }
    }

    fn place(&self, value: f64, (low, high): (f64, f64)) -> f64 {
        let part = (value.max(f64::MIN_POSITIVE).log10() - low) / (high - low);
        self.x + self.width * part.clamp(0.0, 1.0)
    }
}

/// Draws the rows of all workloads that were measured; returns where they end.
fn panels(svg: &mut Svg, top: f64, results: &Results) -> f64 {
    let rows: Vec<(Workload, Vec<(TargetName, &Figures)>)> = Workload::value_variants()
        .iter()
        .map(|&workload| {
            let figures = |target| Some((target, results.compared(target, workload)?));
            (workload, TARGETS.into_iter().filter_map(figures).collect())
        })
        .filter(|(_, figures): &(_, Vec<_>)| !figures.is_empty())
        .collect();
    let bars: usize = rows.iter().map(|(_, figures)| figures.len()).sum();
    let bottom = top + 12.0 + rows.len() as f64 * 14.0 + bars as f64 * (BAR + 3.0);
    let decades = PANELS.map(|panel| (panel.decades(results), panel));
    for (decades, panel) in &decades {
        svg.text(panel.x, top - 6.0, "head", panel.title);
        grid(svg, panel, *decades, (top + 4.0, bottom));
    }
    let mut y = top + 16.0;
    for (workload, figures) in rows {
        svg.text(MARGIN, y + BAR, "", &workload.name());
        let connections = format!("{} connections", workload.compared_connections());
        svg.text(MARGIN, y + BAR + 14.0, "dim", &connections);
        for (target, figures) in figures {
            for (decades, panel) in &decades {
                bar(svg, panel, *decades, y, target, figures);
            }
            y += BAR + 3.0;
        }
        y += 14.0;
    }
    bottom + 20.0
}

fn grid(svg: &mut Svg, panel: &Panel, decades: (f64, f64), (top, bottom): (f64, f64)) {
    for decade in decades.0 as i32..=decades.1 as i32 {
        let value = 10f64.powi(decade);
        let x = panel.place(value, decades);
        svg.line((x, top), (x, bottom), "grid");
        svg.text(x, bottom + 14.0, "dim mid", &(panel.axis)(value));
    }
}

/// A power of ten, in microseconds.
fn power_of_ten(micros: f64) -> String {
    match micros {
        us if us < 1e3 => format!("{us} µs"),
        us if us < 1e6 => format!("{} ms", us / 1e3),
        us => format!("{} s", us / 1e6),
    }
}

fn bar(
    svg: &mut Svg,
    panel: &Panel,
    decades: (f64, f64),
    y: f64,
    target: TargetName,
    figures: &Figures,
) {
    let (from, to) = (panel.figure)(figures);
    let start = from.map_or(panel.x, |from| panel.place(from, decades));
    let end = panel.place(to, decades).max(start + 2.0);
    let label = (panel.label)(figures);
    let tip = format!("{}: {label}", target.text());
    svg.bar((start, y), end - start, BAR, class(target), &tip);
    svg.text(end + 5.0, y + BAR - 1.0, "dim", &label);
}

/// Draws goals and measured figures; returns where they end.
fn goals(svg: &mut Svg, top: f64, goals: &[Goal]) -> f64 {
    svg.text(MARGIN, top, "head", &format!("To reach: {}", goals_met(goals)));
    let mut y = top + 8.0;
    for goal in goals {
        y += 20.0;
        let (mark, class) = match goal.is_met() {
            Some(true) => ("✓", "good"),
            Some(false) => ("✗", "bad"),
            None => ("·", "dim"),
        };
        svg.text(MARGIN, y, class, mark);
        svg.text(MARGIN + 20.0, y, "", &goal.measure);
        svg.text(MARGIN + 480.0, y, "dim end", &goal.bound_text());
        svg.text(MARGIN + 580.0, y, &format!("{class} end"), &goal.measured_text());
    }
    y
}

/// One small chart per figure, over the number of entities.
pub(super) fn growth(growth: &Growth) -> String {
    type Figure = fn(&Size) -> f64;
    type Label = fn(f64) -> String;
    let charts: [(&str, Figure, Label); 9] = [
        ("point, ops/s", |it| it.point.operations_per_second, thousands),
        ("point, p99", |it| it.point.p99_us, duration),
        ("range1000, ops/s", |it| it.range1000.operations_per_second, thousands),
        ("insert, ops/s", |it| it.insert.operations_per_second, thousands),
        ("scan, entities/s", |it| it.scan_per_second, thousands),
        ("memory at its peak, MiB", |it| it.resident_peak_mib, thousands),
        ("disk, MiB", |it| it.disk_mib, thousands),
        ("start after a clean stop", |it| it.start_seconds * 1e6, duration),
        ("recovery after kill -9", |it| it.recovery_seconds * 1e6, duration),
    ];
    let mut svg = Svg::new(WIDTH);
    svg.text(MARGIN, 44.0, "title", "Lazuli as its table grows");
    svg.text(MARGIN, 64.0, "dim", &growth.machine.text());
    let (width, height) = ((WIDTH - 2.0 * MARGIN) / 3.0, 170.0);
    for (index, (title, figure, label)) in charts.iter().enumerate() {
        let x = MARGIN + width * (index % 3) as f64;
        let y = 104.0 + height * (index / 3) as f64;
        small_chart(&mut svg, (x, y), title, &growth.sizes, *figure, *label);
    }
    let y = goals(&mut svg, 104.0 + 3.0 * height + 24.0, &growth.goals);
    svg.finish(y + MARGIN)
}

fn small_chart(
    svg: &mut Svg,
    (x, y): (f64, f64),
    title: &str,
    sizes: &[Size],
    figure: impl Fn(&Size) -> f64,
    label: impl Fn(f64) -> String,
) {
    const HEIGHT: f64 = 84.0;
    const STEP: f64 = 90.0;
    svg.text(x, y, "head", title);
    let (top, bottom) = (y + 30.0, y + 30.0 + HEIGHT);
    let max = sizes.iter().map(&figure).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let points: Vec<(f64, f64)> = sizes
        .iter()
        .enumerate()
        .map(|(index, size)| {
            (x + 24.0 + STEP * index as f64, bottom - (bottom - top) * figure(size) / max)
        })
        .collect();
    svg.line((x, bottom), (x + STEP * sizes.len() as f64, bottom), "grid");
    svg.curve(&points);
    for (size, point) in sizes.iter().zip(&points) {
        svg.text(point.0, point.1 - 8.0, "mid", &label(figure(size)));
        svg.text(point.0, bottom + 16.0, "dim mid", &thousands(size.entities as f64));
    }
}
