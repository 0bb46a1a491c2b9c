//! Divides a table between several workers (P-19.2).

use crate::error::{Error, ErrorKind};
use crate::query::ScanRange;
use std::fmt;
use std::str::FromStr;

/// The ranges of a table, assigned to workers. Its text is sent to all workers, so that they agree.
///
/// ```no_run
/// # use lazuli_client::{Error, Table, patterns::partitioned::Partitioned};
/// # async fn run(table: Table, worker: usize) -> Result<(), Error> {
/// let all = Partitioned::new(table.scan().split(64).await?);
/// let mine = all.assign(worker, 4);
/// let mut entities = table.scan().within(mine).unordered().stream();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioned(Vec<ScanRange>);

impl Partitioned {
    /// Takes the ranges from [`Query::split`](crate::Query::split).
    pub fn new(ranges: Vec<ScanRange>) -> Self {
        Self(ranges)
    }

    /// All ranges, in key order.
    pub fn ranges(&self) -> &[ScanRange] {
        &self.0
    }

    /// The ranges of worker number `worker`, counted from zero, of `of` workers: adjacent ones, as many as any other
    /// worker has, or one fewer. Empty if the number is too large.
    pub fn assign(&self, worker: usize, of: usize) -> &[ScanRange] {
        if worker >= of {
            return &[];
        }
        let place = |worker: usize| worker * self.0.len() / of;
        self.0.get(place(worker)..place(worker + 1)).unwrap_or_default()
    }
}

impl fmt::Display for Partitioned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, range) in self.0.iter().enumerate() {
            let space = if number == 0 { "" } else { " " };
            write!(f, "{space}{range}")?;
        }
        Ok(())
    }
}

impl FromStr for Partitioned {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let ranges: Vec<_> = text.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        if ranges.is_empty() {
            return Err(Error::new(ErrorKind::TokenMismatch));
        }
        Ok(Self(ranges))
    }
}
