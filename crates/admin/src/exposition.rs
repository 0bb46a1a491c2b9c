//! Writes metrics as text: OpenMetrics, or the older form that Prometheus reads without negotiation.

use lazuli_meter::{Family, Sample, Value};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeSet;
use std::fmt;

/// The forms that metrics can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Prometheus,
    OpenMetrics,
}

impl Form {
    /// OpenMetrics if `Accept` names it, as newer scrapers do.
    pub(crate) fn accepted(accept: Option<&str>) -> Self {
        match accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// `families` in `form`.
pub(crate) fn write(families: Vec<Family>, form: Form) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(match form {
        Form::OpenMetrics => text,
        Form::Prometheus => as_prometheus(&text),
    })
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut names = BTreeSet::new();
        for family in &self.0 {
            let Some(first) = family.samples.first() else { continue };
            // OpenMetrics allows a name once, so a counter that comes second has no type there.
            if !names.insert(family.name) && family.is_counter() {
                encode_untyped(&mut encoder, family)?;
                continue;
            }
            let kind = match first.value {
                Value::Counter(_) => MetricType::Counter,
                Value::Gauge(_) => MetricType::Gauge,
                Value::Histogram(_) => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for Sample { labels, value } in &family.samples {
                match labels.is_empty() {
                    true => encode(&mut metric, value)?,
                    false => encode(&mut metric.encode_family(labels)?, value)?,
                }
            }
        }
        Ok(())
    }
}

fn encode_untyped(encoder: &mut DescriptorEncoder<'_>, family: &Family) -> fmt::Result {
    let name = format!("{}_total", family.name);
    let mut metric = encoder.encode_descriptor(&name, family.help, None, MetricType::Unknown)?;
    for Sample { labels, value } in &family.samples {
        let Value::Counter(number) = value else { continue };
        encode(&mut metric.encode_family(labels)?, &Value::Gauge(*number))?;
    }
    Ok(())
}

fn encode(metric: &mut MetricEncoder<'_>, value: &Value) -> fmt::Result {
    /// Above this, `f64` cannot represent every integer.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    let whole = |number: f64| number.fract() == 0.0 && number.abs() < WHOLE_MAX;
    match value {
        Value::Counter(number) if whole(*number) => {
            metric.encode_counter::<NoLabelSet, _, u64>(&(*number as u64), None)
        }
        Value::Counter(number) => metric.encode_counter::<NoLabelSet, _, u64>(number, None),
        Value::Gauge(number) if whole(*number) => metric.encode_gauge(&(*number as i64)),
        Value::Gauge(number) => metric.encode_gauge(number),
        Value::Histogram(distribution) => metric.encode_histogram::<NoLabelSet>(
            distribution.sum,
            distribution.count(),
            &distribution.buckets,
            None,
        ),
    }
}

/// The older format uses the sample name of a counter in its comments too, so that names never
/// clash; and it has no end marker.
fn as_prometheus(text: &str) -> String {
    let mut older = String::with_capacity(text.len());
    let mut lines = text.lines().filter(|line| *line != "# EOF").peekable();
    while let Some(line) = lines.next() {
        let type_line = if line.starts_with("# HELP ") { lines.next() } else { None };
        let is_counter = type_line.is_some_and(|line| line.ends_with(" counter"));
        for line in [Some(line), type_line].into_iter().flatten() {
            let line = match line.strip_suffix(" unknown") {
                Some(start) => &format!("{start} counter"),
                None => line,
            };
            match (is_counter, line.splitn(4, ' ').collect::<Vec<_>>().as_slice()) {
                (true, [hash, word, name, rest]) => {
                    older += &format!("{hash} {word} {name}_total {rest}\n");
                }
                _ => {
                    older += line;
                    older.push('\n');
                }
            }
        }
    }
    older
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_meter::{Counter, Gauge, Histogram};

    fn families() -> Vec<Family> {
        let (counter, gauge) = (Counter::default(), Gauge::default());
        counter.add(3);
        gauge.set(-1);
        let histogram = Histogram::of_numbers(&[1, 10]);
        histogram.observe(7);
        vec![
            Family::new("requests", "Requests answered")
                .with(vec![("service", "table".into()), ("path", "a\"b\\c\n".into())], &counter),
            Family::of("size", "Size", &gauge),
            Family::of("group", "Group", &histogram),
            Family::new("nothing", "Without a sample"),
            Family::new("size", "Sizes").with(vec![("a", "b".into())], &counter),
        ]
    }

    #[test]
    fn open_metrics_has_an_end_mark() {
        let expect = "# HELP requests Requests answered\n# TYPE requests counter\n\
            requests_total{service=\"table\",path=\"a\\\"b\\\\c\\n\"} 3\n\
            # HELP size Size\n# TYPE size gauge\nsize -1\n\
            # HELP group Group\n# TYPE group histogram\n\
            group_sum 7.0\ngroup_count 1\n\
            group_bucket{le=\"1.0\"} 0\ngroup_bucket{le=\"10.0\"} 1\ngroup_bucket{le=\"+Inf\"} 1\n\
            # HELP size_total Sizes\n# TYPE size_total unknown\nsize_total{a=\"b\"} 3\n\
            # EOF\n";
        let text = write(families(), Form::OpenMetrics).unwrap();
        assert_eq!(text, expect);
    }

    #[test]
    fn prometheus_names_counters_in_full() {
        let text = write(families(), Form::Prometheus).unwrap();
        let start = "# HELP requests_total Requests answered\n# TYPE requests_total counter\n\
            requests_total{service=\"table\"";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("# TYPE size_total counter\nsize_total{a=\"b\"} 3\n"), "{text}");
        assert!(text.contains("# TYPE size gauge\n") && !text.contains("EOF"), "{text}");
    }

    #[test]
    fn the_form_is_what_accept_names() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        assert_eq!(Form::accepted(Some(prometheus)), Form::OpenMetrics);
        assert_eq!(Form::accepted(Some("*/*")), Form::Prometheus);
        assert_eq!(Form::accepted(None), Form::Prometheus);
    }
}
