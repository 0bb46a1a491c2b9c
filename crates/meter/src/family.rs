//! How metrics are reported: as named families of samples.

use crate::{Counter, Distribution, Gauge, Histogram, Label, PerLabel};
use std::borrow::Cow;

/// Something that can report what it measured.
pub trait Source: Send + Sync {
    fn report(&self) -> Vec<Family>;
}

/// Names and values that distinguish the samples of a family.
pub type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// Samples of one kind under one name. Samples that several sources report under one name belong
/// together.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Without the suffix that a format may add: a counter `requests` is written as
    /// `requests_total`.
    pub name: &'static str,
    pub help: &'static str,
    pub samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub labels: Labels,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Counter(f64),
    Gauge(f64),
    Histogram(Distribution),
}

impl Value {
    /// Adds what another source measured of the same thing.
    pub fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Counter(sum), Self::Counter(more)) | (Self::Gauge(sum), Self::Gauge(more)) => {
                *sum += more;
            }
            (Self::Histogram(sum), Self::Histogram(more)) => sum.add(more),
            // One name has one type.
            _ => {}
        }
    }
}

/// What can be the value of a sample.
pub trait Measure {
    fn value(&self) -> Value;
}

impl Measure for Counter {
    fn value(&self) -> Value {
        Value::Counter(Self::value(self) as f64)
    }
}

impl Measure for Gauge {
    fn value(&self) -> Value {
        Value::Gauge(Self::value(self) as f64)
    }
}

impl Measure for Histogram {
    fn value(&self) -> Value {
        Value::Histogram(self.distribution())
    }
}

impl Measure for Value {
    fn value(&self) -> Value {
        self.clone()
    }
}

impl Family {
    /// A family without samples yet.
    pub fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, help, samples: Vec::new() }
    }

    /// A family of one sample without labels.
    pub fn of(name: &'static str, help: &'static str, measure: &impl Measure) -> Self {
        Self::new(name, help).with(Vec::new(), measure)
    }

    /// A family of one sample for each value of a label.
    pub fn by<L: Label, M: Measure>(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        measures: &PerLabel<L, M>,
    ) -> Self {
        measures.iter().fold(Self::new(name, help), |family, (value, measure)| {
            family.with(vec![(label, value.name().into())], measure)
        })
    }

    /// Whether its samples are counters.
    pub fn is_counter(&self) -> bool {
        self.samples.first().is_some_and(|sample| matches!(sample.value, Value::Counter(_)))
    }

    /// Adds a sample.
    #[must_use]
    pub fn with(mut self, labels: Labels, measure: &impl Measure) -> Self {
        self.samples.push(Sample { labels, value: measure.value() });
        self
    }
}
