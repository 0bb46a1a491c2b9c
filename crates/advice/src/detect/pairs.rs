//! Reads whose results give the keys of other reads: ADV-16.

use crate::sketch::{Top, is_share};
use crate::{Code, Findings, Sample, Thresholds, Verb};
use lazuli_model::key_text::fnv1a;
use std::collections::VecDeque;

/// The number of reads remembered.
const READS_MAX: usize = 16;
/// Hashes of string values remembered for each.
const VALUES_MAX: usize = 8;
/// Kinds, and pairs of kinds, that are counted.
const KINDS_MAX: usize = 64;

/// Recent reads of all tables, to find those that lead to others.
#[derive(Debug)]
pub(crate) struct Pairs {
    last: VecDeque<Read>,
    /// Reads of each kind: a type, or a table if the types are unknown.
    kinds: Top<u64>,
    pairs: Top<u64>,
}

#[derive(Debug)]
struct Read {
    client: u64,
    second: u64,
    kind: Box<str>,
    /// Hashes of its own keys, whose recurrence proves nothing.
    keys: [u64; 2],
    values: Box<[u64]>,
}

impl Default for Pairs {
    fn default() -> Self {
        Self { last: VecDeque::new(), kinds: Top::new(KINDS_MAX), pairs: Top::new(KINDS_MAX) }
    }
}

impl Pairs {
    pub(crate) fn observe(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        if sample.verb != Verb::Get {
            return;
        }
        let kind = sample.kind.unwrap_or(sample.table);
        if let Some(reads) = self.kinds.count(kind) {
            *reads += 1;
        }
        let first = match sample.key_from {
            Some(first) => Some(first.to_owned()),
            None => self.origin(sample),
        };
        self.remember(sample, kind);
        let Some(first) = first else { return };
        let pair = format!("{first} then {kind}");
        let Some(pairs) = self.pairs.count(&pair) else { return };
        *pairs += 1;
        let pairs = *pairs;
        let reads = self.kinds.get(&first).copied().unwrap_or(pairs).max(pairs);
        if pairs >= thresholds.habit && is_share(pairs, reads, 90) {
            findings.report(Code::ReadThenRead, sample, &pair, || {
                format!("{pairs} of {reads} reads of {first} were followed by one of {kind}")
            });
        }
    }

    /// The kind of an earlier read, within a second and by the same client, that had a key of this one among its string
    /// values but not in its keys.
    fn origin(&self, sample: &Sample<'_>) -> Option<String> {
        let keys = hashes(sample)?;
        let second = sample.second();
        let leads = |read: &&Read| {
            let is_near = read.client == sample.client && second <= read.second + 1;
            let leads = |key: &u64| read.values.contains(key) && !read.keys.contains(key);
            is_near && keys.iter().any(leads)
        };
        self.last.iter().rev().find(leads).map(|read| read.kind.to_string())
    }

    fn remember(&mut self, sample: &Sample<'_>, kind: &str) {
        let (Some(keys), false) = (hashes(sample), sample.values.is_empty()) else { return };
        if self.last.len() >= READS_MAX {
            self.last.pop_front();
        }
        let values = sample.values.iter().copied().take(VALUES_MAX).collect();
        let (client, second) = (sample.client, sample.second());
        self.last.push_back(Read { client, second, kind: kind.into(), keys, values });
    }

    pub(crate) fn bytes(&self) -> usize {
        let reads = self.last.iter().map(|read| read.kind.len() + size_of_val(&*read.values));
        let reads = reads.sum::<usize>() + self.last.capacity() * size_of::<Read>();
        reads + self.kinds.bytes() + self.pairs.bytes()
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        self.kinds.write(out);
        self.pairs.write(out);
    }

    pub(crate) fn read(&mut self, from: &mut &[u8]) -> Option<()> {
        self.kinds.read(from)?;
        self.pairs.read(from)
    }
}

fn hashes(sample: &Sample<'_>) -> Option<[u64; 2]> {
    Some([fnv1a(sample.partition?.as_bytes()), fnv1a(sample.row?.as_bytes())])
}
