//! Distribution of rows over keys: ADV-1, 2, 3, 10, 11, 13, 19.

use super::Sizes;
use crate::sketch::{Known, Top, is_share};
use crate::stored::{Stored, stored};
use crate::{Code, Findings, Sample, Thresholds, Verb};
use lazuli_model::key::compare;
use lazuli_model::key_text::fnv1a;

/// The least inserts in a minute that are significant.
const INSERTS_MIN: u64 = 20;
/// The service's target for one partition.
const PARTITION_PER_SECOND: u32 = 2000;

#[derive(Debug)]
pub(super) struct Keys {
    second: u64,
    /// Requests in this second.
    in_second: u32,
    partitions: Top<Partition>,
    /// Rows that were inserted into each partition.
    rows: Known,
    growth: Growth,
    lonely: Lonely,
    only: Only,
    /// Lengths of the numbers in a position, one bit each.
    numbers: Top<u32>,
}

/// One of the busiest partitions in this second.
#[derive(Debug, Default)]
struct Partition {
    second: u64,
    requests: u32,
    inserts: u32,
    appends: u32,
    /// Single inserts by the first client of the second.
    singles: u32,
    client: u64,
    /// The greatest row key inserted so far.
    last_row: Box<str>,
}

stored!(Partition { second, requests, inserts, appends, singles, client, last_row });

/// Whether new partitions always sort last, or always first (ADV-1).
#[derive(Debug, Default)]
struct Growth {
    minute: u64,
    inserts: u64,
    to_newest: u64,
    newest: Box<str>,
    least: Option<Box<str>>,
    greatest: Option<Box<str>>,
    /// New partitions that sort after the greatest, before the least, and in between.
    above: u64,
    below: u64,
    between: u64,
    minutes: u32,
    /// Inserts since the beginning, and those beyond the greatest key at the time.
    all: u64,
    beyond: u64,
    last: Option<(Box<str>, Box<str>)>,
}

stored!(Growth {
    minute,
    inserts,
    to_newest,
    newest,
    least,
    greatest,
    above,
    below,
    between,
    minutes,
    all,
    beyond,
    last,
});

/// Whether rows are alone in their partitions but written in groups (ADV-11).
#[derive(Debug, Default)]
struct Lonely {
    partitions: u64,
    single: u64,
    inserts: u64,
    in_groups: u64,
    last: Option<(u64, u64, u64)>,
}

stored!(Lonely { partitions, single, inserts, in_groups, last });

/// Whether there is only one partition (ADV-13).
#[derive(Debug, Default)]
struct Only {
    partition: Option<Box<str>>,
    has_others: bool,
    rows: u64,
}

stored!(Only { partition, has_others, rows });

impl Keys {
    pub(super) fn new(sizes: &Sizes) -> Self {
        Self {
            second: 0,
            in_second: 0,
            partitions: Top::new(sizes.partitions),
            rows: Known::default(),
            growth: Growth::default(),
            lonely: Lonely::default(),
            only: Only::default(),
            numbers: Top::new(sizes.places),
        }
    }

    /// Closes the second and the minute if they have ended by the time of `sample`, which does not count as traffic.
    pub(super) fn pass(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        self.pass_second(sample, thresholds, findings);
        let second = sample.second();
        if second / 60 > self.growth.minute && self.growth.minute != 0 {
            self.growth.close_minute(sample, second / 60, thresholds, findings);
        }
    }

    /// The busiest partitions, with their requests.
    pub(super) fn busiest(&self) -> impl Iterator<Item = (&str, u64)> {
        self.partitions.iter().map(|(key, count, _)| (key, count))
    }

    /// Inserts, and those beyond the greatest key at the time.
    pub(super) fn growth(&self) -> (u64, u64) {
        (self.growth.all, self.growth.beyond)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.second.write(out);
        self.in_second.write(out);
        self.partitions.write(out);
        self.rows.write(out);
        self.growth.write(out);
        self.lonely.write(out);
        self.only.write(out);
        self.numbers.write(out);
    }

    pub(super) fn read(&mut self, from: &mut &[u8]) -> Option<()> {
        self.second = Stored::read(from)?;
        self.in_second = Stored::read(from)?;
        self.partitions.read(from)?;
        self.rows = Stored::read(from)?;
        self.growth = Stored::read(from)?;
        self.lonely = Stored::read(from)?;
        self.only = Stored::read(from)?;
        self.numbers.read(from)
    }

    pub(super) fn observe(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        self.pass_second(sample, thresholds, findings);
        self.in_second += 1;
        let Some(partition) = sample.partition else { return };
        self.only.observe(sample, partition, thresholds, findings);
        let is_insert = matches!(sample.verb, Verb::Insert | Verb::Upsert) && sample.is_ok();
        if let Some(state) = self.partitions.count(partition) {
            state.observe(sample, is_insert);
        }
        if !is_insert {
            return;
        }
        self.numbers(sample, partition, findings);
        let rows = self.rows.add(partition, sample.second());
        self.growth.observe(sample, partition, rows == 0, thresholds, findings);
        self.lonely.observe(sample, partition, rows, thresholds, findings);
    }

    /// Closes the second that is over at the time of `sample`.
    fn pass_second(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        if sample.second() > self.second {
            self.close_second(sample, thresholds, findings);
            (self.second, self.in_second) = (sample.second(), 0);
        }
    }

    /// Looks at the busiest partitions of the second that is over.
    fn close_second(
        &mut self,
        sample: &Sample<'_>,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        let (second, total) = (self.second, self.in_second);
        let hot = thresholds.hot_per_second;
        if total >= hot && self.only.partition.is_some() && !self.only.has_others {
            findings.report(Code::OnePartition, sample, "", || {
                format!("{total} requests a second in one partition")
            });
        }
        for (key, partition) in self.partitions.iter_mut() {
            if partition.second != second {
                continue;
            }
            let Partition { requests, inserts, appends, singles, .. } = *partition;
            let is_hot = requests >= hot
                && is_share(u64::from(requests), u64::from(total), thresholds.hot_percent);
            if is_hot && self.only.has_others {
                findings.report(Code::HotPartition, sample, key, || {
                    let percent = u64::from(requests) * 100 / u64::from(total.max(1));
                    let of_target = requests * 100 / PARTITION_PER_SECOND;
                    format!(
                        "{requests} requests a second, {percent} % of the table's, {of_target} % of \
                         what a partition serves"
                    )
                });
            }
            if inserts >= hot && is_share(u64::from(appends), u64::from(inserts), 90) {
                findings.report(Code::AppendRows, sample, key, || {
                    format!("{appends} of {inserts} inserts in a second went to the end")
                });
            }
            if singles >= thresholds.single_inserts {
                findings.report(Code::SingleInserts, sample, key, || {
                    format!("{singles} inserts one by one in a second, by one client")
                });
            }
        }
    }

    /// Looks for numbers of different lengths in one position of the keys (ADV-10).
    fn numbers(&mut self, sample: &Sample<'_>, partition: &str, findings: &mut Findings) {
        let places = [("PartitionKey", Some(partition)), ("RowKey", sample.row)];
        for (name, key) in places {
            let Some((prefix, digits)) = key.and_then(trailing_digits) else { continue };
            let place =
                if prefix.is_empty() { name.to_owned() } else { format!("{name} {prefix}…") };
            let Some(lengths) = self.numbers.count(&place) else { continue };
            *lengths |= 1 << digits.min(31);
            if lengths.count_ones() >= 2 {
                let lengths = *lengths;
                findings.report(Code::UnpaddedNumbers, sample, &place, || {
                    let lengths = (0..32).filter(|length| lengths & (1 << length) != 0);
                    let lengths: Vec<_> = lengths.map(|length| length.to_string()).collect();
                    format!("numbers of {} digits", lengths.join(", "))
                });
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let last_rows: usize =
            self.partitions.iter().map(|(_, _, partition)| partition.last_row.len()).sum();
        let Growth { newest, least, greatest, last, .. } = &self.growth;
        let ends = [Some(newest), least.as_ref(), greatest.as_ref(), self.only.partition.as_ref()];
        let ends: usize = ends.into_iter().flatten().map(|key| key.len()).sum();
        let last = last.as_ref().map_or(0, |(partition, row)| partition.len() + row.len());
        let sketches = self.partitions.bytes() + self.rows.bytes() + self.numbers.bytes();
        sketches + last_rows + ends + last
    }
}

/// Splits a key before its trailing digits; `None` if there are none. The text before them must not end in a word
/// character: `a1` is a name, `a_1` and `1` are numbers.
fn trailing_digits(key: &str) -> Option<(&str, usize)> {
    let prefix = key.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = key.len() - prefix.len();
    let is_number = prefix.is_empty() || prefix.ends_with(['_', '-', ':', '!', ' ', '.']);
    // A prefix with its own digits is a compound key, whose every value would be a position of its own.
    let is_place = !prefix.contains(|c: char| c.is_ascii_digit()) && prefix.len() <= 64;
    (digits > 0 && is_number && is_place).then_some((prefix, digits))
}

impl Partition {
    fn observe(&mut self, sample: &Sample<'_>, is_insert: bool) {
        let second = sample.second();
        if second > self.second {
            let last_row = std::mem::take(&mut self.last_row);
            *self = Self { second, client: sample.client, last_row, ..Self::default() };
        }
        self.requests += 1;
        if !is_insert {
            return;
        }
        self.inserts += 1;
        let row = sample.row.unwrap_or_default();
        if compare(row, &self.last_row).is_gt() {
            self.appends += 1;
            self.last_row = row.into();
        }
        if !sample.is_batched && sample.client == self.client {
            self.singles += 1;
        }
    }
}

impl Growth {
    fn observe(
        &mut self,
        sample: &Sample<'_>,
        partition: &str,
        is_new: bool,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        let minute = sample.second() / 60;
        if minute > self.minute {
            self.close_minute(sample, minute, thresholds, findings);
        }
        self.all += 1;
        let row = sample.row.unwrap_or_default();
        let is_beyond = self.last.as_ref().is_none_or(|(last, last_row)| {
            compare(partition, last).then_with(|| compare(row, last_row)).is_gt()
        });
        if is_beyond {
            self.beyond += 1;
            self.last = Some((partition.into(), row.into()));
        }
        if is_new {
            let is_above = self.greatest.as_ref().is_none_or(|key| compare(partition, key).is_gt());
            let is_below = self.least.as_ref().is_none_or(|key| compare(partition, key).is_lt());
            match (is_above, is_below) {
                (true, _) => self.above += 1,
                (false, true) => self.below += 1,
                (false, false) => self.between += 1,
            }
            if is_above {
                self.greatest = Some(partition.into());
            }
            if is_below {
                self.least = Some(partition.into());
            }
            self.newest = partition.into();
        }
        self.inserts += 1;
        self.to_newest += u64::from(*self.newest == *partition);
    }

    fn close_minute(
        &mut self,
        sample: &Sample<'_>,
        minute: u64,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        let in_order = self.between == 0 && (self.above == 0 || self.below == 0);
        let at_the_end = self.inserts >= INSERTS_MIN
            && is_share(self.to_newest, self.inserts, thresholds.append_percent);
        let has_grown = self.above + self.below >= 1;
        let goes_on = self.minute != 0 && minute == self.minute + 1;
        self.minutes = match in_order && at_the_end && has_grown {
            true if goes_on => self.minutes + 1,
            true => 1,
            false => 0,
        };
        if self.minutes >= thresholds.append_minutes {
            let (inserts, to_newest, minutes) = (self.inserts, self.to_newest, self.minutes);
            findings.report(Code::AppendPartitions, sample, "", || {
                format!(
                    "{to_newest} of {inserts} inserts in a minute went to the newest partition, for \
                     {minutes} minutes"
                )
            });
        }
        (self.minute, self.inserts, self.to_newest) = (minute, 0, 0);
        (self.above, self.below, self.between) = (0, 0, 0);
    }
}

impl Lonely {
    fn observe(
        &mut self,
        sample: &Sample<'_>,
        partition: &str,
        rows_before: u32,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        match rows_before {
            0 => {
                self.partitions += 1;
                self.single += 1;
            }
            1 => self.single = self.single.saturating_sub(1),
            _ => {}
        }
        let now = (sample.client, sample.second(), fnv1a(partition.as_bytes()));
        self.inserts += 1;
        if let Some((client, second, other)) = self.last
            && client == now.0
            && now.1 <= second + 1
            && other != now.2
        {
            self.in_groups += 1;
        }
        self.last = Some(now);
        let is_lonely = self.partitions >= thresholds.habit
            && is_share(self.single, self.partitions, 95)
            && is_share(self.in_groups, self.inserts, 50);
        if is_lonely {
            let (single, partitions, in_groups) = (self.single, self.partitions, self.in_groups);
            findings.report(Code::LonelyRows, sample, "", || {
                format!(
                    "{single} of {partitions} partitions have one row; {in_groups} rows were inserted \
                     within a second of another"
                )
            });
        }
    }
}

impl Only {
    fn observe(
        &mut self,
        sample: &Sample<'_>,
        partition: &str,
        thresholds: &Thresholds,
        findings: &mut Findings,
    ) {
        match &self.partition {
            None => self.partition = Some(partition.into()),
            Some(only) => self.has_others |= **only != *partition,
        }
        self.rows += u64::from(sample.verb == Verb::Insert && sample.is_ok());
        if self.rows >= thresholds.single_partition_rows && !self.has_others {
            let rows = self.rows;
            findings
                .report(Code::OnePartition, sample, "", || format!("{rows} rows in one partition"));
        }
    }
}
