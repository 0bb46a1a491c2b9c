//! For each code, a workload that shows it, and one that nearly does (PS-20.1).

use crate::*;
use lazuli_model::Timestamp;

mod memory;
mod server;

/// Sends samples, and advances the clock.
struct Workload {
    advisor: Advisor,
    /// Milliseconds since the start.
    now: u64,
}

/// A whole number of hours, so that minutes and hours begin with the workload.
const START_SECONDS: u64 = 1_800_000_000 / 3600 * 3600;

impl Workload {
    fn new() -> Self {
        Self { advisor: Advisor::default(), now: 0 }
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_unix_seconds(START_SECONDS + self.now / 1000)
    }

    fn sample(&self, verb: Verb) -> Sample<'static> {
        Sample::new(self.at(), "Rows", verb)
    }

    fn send(&mut self, sample: &Sample<'_>) {
        let at = self.at();
        self.advisor.observe(&Sample { at, ..*sample });
    }

    fn pass(&mut self, millis: u64) {
        self.now += millis;
    }

    /// An insert, alone or in a batch.
    fn insert(&mut self, partition: &str, row: &str, is_batched: bool) {
        let sample = Sample { is_batched, ..Sample::new(self.at(), "Rows", Verb::Insert) };
        self.send(&sample.with_keys(partition, row));
    }

    fn query(&mut self, query: QueryFacts<'_>) {
        self.send(&Sample::new(self.at(), "Rows", Verb::Query).with_query(query));
    }

    fn codes(&self) -> Vec<Code> {
        self.advisor.findings().map(|finding| finding.code).collect()
    }
}

/// Runs both workloads: the first shows `code` and nothing else, the second shows nothing.
#[track_caller]
fn check(code: Code, guilty: impl Fn(&mut Workload), innocent: impl Fn(&mut Workload)) {
    let mut workload = Workload::new();
    guilty(&mut workload);
    assert_eq!(workload.codes(), [code], "guilty");
    for finding in workload.advisor.findings() {
        assert!(!finding.evidence.is_empty() && !finding.advice.contains("{}"), "{finding:?}");
    }
    let mut workload = Workload::new();
    innocent(&mut workload);
    assert_eq!(workload.codes(), [], "innocent");
}

/// A key from a pseudorandom order.
fn scattered(number: u64) -> String {
    format!("{:016x}x", number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

#[test]
fn adv_1_appends_to_the_newest_partition() {
    let minutes = |workload: &mut Workload, minutes: u64, share: u64| {
        for minute in 0..minutes {
            for number in 0..50 {
                let newest = format!("2026-11-15T12:{minute:02}x");
                let partition = if number < share { newest } else { "0000x".to_owned() };
                workload.insert(&partition, &scattered(minute * 50 + number), true);
                workload.pass(1200);
            }
        }
    };
    // The oldest partition sorts first, and exists from the start.
    let first = |workload: &mut Workload| workload.insert("0000x", "first", true);
    check(
        Code::AppendPartitions,
        |workload| {
            first(workload);
            minutes(workload, 7, 45);
        },
        |workload| {
            first(workload);
            minutes(workload, 4, 45);
            minutes(workload, 7, 30);
        },
    );
}

#[test]
fn adv_2_appends_rows_to_a_hot_partition() {
    let second = |workload: &mut Workload, appends: u64| {
        for number in 0..600 {
            let row = if number < appends { format!("r{number:06}x") } else { scattered(number) };
            workload.insert("hot", &row, true);
            // Other partitions have more, so that this one does not have most of the traffic.
            workload.insert("a", &scattered(number), true);
            workload.insert("b", &scattered(number), true);
        }
        workload.pass(1000);
        workload.insert("a", "later", true);
    };
    check(Code::AppendRows, |workload| second(workload, 600), |workload| second(workload, 300));
}

#[test]
fn adv_3_a_hot_partition() {
    let second = |workload: &mut Workload, hot: u64, others: u64| {
        for number in 0..hot {
            let row = scattered(number);
            let merge = workload.sample(Verb::Merge).with_keys("hot", &row);
            workload.advisor.observe(&merge);
        }
        for number in 0..others {
            let partition = scattered(number % 7);
            let merge = workload.sample(Verb::Merge).with_keys(&partition, "r");
            workload.advisor.observe(&merge);
        }
        workload.pass(1000);
        workload.send(&Sample::new(workload.at(), "Rows", Verb::Merge).with_keys("a", "r"));
    };
    check(
        Code::HotPartition,
        |workload| second(workload, 600, 100),
        |workload| {
            second(workload, 450, 100);
            second(workload, 600, 700);
        },
    );
}

#[test]
fn adv_4_scans_of_the_table() {
    let scan = QueryFacts { property: Some("LastName"), ..QueryFacts::new(Class::TableScan) };
    let point = QueryFacts::new(Class::Point);
    check(
        Code::TableScan,
        |workload| {
            (0..99).for_each(|_| workload.query(point));
            workload.query(scan);
        },
        |workload| {
            (0..100).for_each(|_| workload.query(point));
            workload.query(scan);
            // Reading a whole table on purpose is not a mistake.
            workload.query(QueryFacts { returned: 5000, ..QueryFacts::new(Class::TableScan) });
        },
    );
    let mut workload = Workload::new();
    (0..1000).for_each(|_| workload.query(point));
    workload.query(QueryFacts { returned: 1, read: Some(10_000), ..scan });
    assert_eq!(workload.codes(), [Code::TableScan], "ten thousand rows read for one");
}

#[test]
fn adv_5_scans_of_a_partition_by_a_property() {
    let by =
        |property| QueryFacts { property: Some(property), ..QueryFacts::new(Class::PartitionScan) };
    check(
        Code::PartitionScan,
        |workload| (0..100).for_each(|_| workload.query(by("LastName"))),
        |workload| {
            (0..99).for_each(|_| workload.query(by("LastName")));
            (0..99).for_each(|_| workload.query(by("Age")));
        },
    );
}

#[test]
fn adv_6_and_7_filters_on_keys_that_scan() {
    let partition_scan = QueryFacts::new(Class::PartitionScan);
    let or = QueryFacts { has_or_of_keys: true, ..partition_scan };
    let alone =
        QueryFacts { has_row_alone: true, property: None, ..QueryFacts::new(Class::TableScan) };
    let range = |workload: &mut Workload| workload.query(QueryFacts::new(Class::Range));
    check(Code::OrOfKeys, |workload| workload.query(or), range);
    check(Code::RowWithoutPartition, |workload| workload.query(alone), range);
}

#[test]
fn adv_8_properties_that_nobody_uses() {
    let read = |used| QueryFacts {
        returned: 100,
        bytes: 1000,
        bytes_used: Some(used),
        ..QueryFacts::new(Class::Range)
    };
    check(
        Code::UnusedProperties,
        |workload| (0..10).for_each(|_| workload.query(read(200))),
        |workload| {
            (0..9).for_each(|_| workload.query(read(200)));
            (0..90).for_each(|_| workload.query(read(300)));
        },
    );
}

#[test]
fn adv_9_conflicts_on_a_row() {
    let writes = |workload: &mut Workload, count: u64, conflicts: u64| {
        for number in 0..count {
            let status = if number < conflicts { 412 } else { 204 };
            let replace = Sample { status, is_conditional: true, ..workload.sample(Verb::Replace) };
            workload.send(&replace.with_keys("p", "counter"));
            workload.pass(30);
        }
    };
    check(
        Code::Conflicts,
        |workload| writes(workload, 500, 100),
        |workload| {
            writes(workload, 500, 99);
            workload.pass(120_000);
            // Many, but a small share.
            for _ in 0..2000 {
                let replace = Sample { is_conditional: true, ..workload.sample(Verb::Replace) };
                workload.send(&replace.with_keys("p", "counter"));
                workload.pass(10);
            }
            writes(workload, 120, 120);
        },
    );
}

#[test]
fn adv_10_numbers_without_padding() {
    check(
        Code::UnpaddedNumbers,
        |workload| {
            workload.insert("Sales", "empid_9", true);
            workload.insert("Sales", "empid_10", true);
        },
        |workload| {
            for row in ["empid_000009", "empid_000010", "a1", "a10", "order_7_1", "order_7_10"] {
                workload.insert("Sales", row, true);
            }
            workload.insert("Sales", "dept_1", true);
        },
    );
}

#[test]
fn adv_11_rows_that_are_alone_and_come_in_groups() {
    let groups = |workload: &mut Workload, rows_of_partition: u64| {
        for group in 0..100 {
            for number in 0..3 {
                let partition = scattered(group * 3 + number);
                for row in 0..rows_of_partition {
                    workload.insert(&partition, &scattered(row), true);
                }
            }
            workload.pass(5000);
        }
    };
    check(
        Code::LonelyRows,
        |workload| groups(workload, 1),
        |workload| {
            groups(workload, 2);
            for number in 1000..1100 {
                workload.insert(&scattered(number), "r", true);
                workload.pass(5000);
            }
        },
    );
}

#[test]
fn adv_12_an_index_that_nobody_reads() {
    const DAY: u64 = 24 * 3600 * 1000;
    let days = |workload: &mut Workload, reads: bool| {
        for day in 0..=30 {
            let insert = Sample { index: Some("email"), ..workload.sample(Verb::Insert) };
            workload.send(&insert.with_keys("p", &scattered(day)));
            if reads && day == 3 {
                let get = Sample { index: Some("email"), ..workload.sample(Verb::Get) };
                workload.send(&get.with_keys("p", "r"));
            }
            workload.pass(DAY);
        }
    };
    check(Code::UnreadIndex, |workload| days(workload, false), |workload| days(workload, true));
}

#[test]
fn adv_13_one_partition_for_all() {
    let rows = |workload: &mut Workload, count: u64| {
        for number in 0..count {
            workload.insert("all", &scattered(number), true);
            workload.pass(5);
        }
    };
    check(
        Code::OnePartition,
        |workload| rows(workload, 100_000),
        |workload| {
            rows(workload, 99_999);
            workload.insert("another", "r", true);
            rows(workload, 10);
        },
    );
}

#[test]
fn adv_14_deletions_by_age() {
    let delete = |workload: &mut Workload, count: u64| {
        for number in 0..count {
            let row = scattered(number);
            let delete = workload.sample(Verb::Delete).with_keys("p", &row);
            workload.advisor.observe(&delete);
            workload.pass(100);
        }
    };
    let by_time = QueryFacts { is_on_time: true, ..QueryFacts::new(Class::PartitionScan) };
    check(
        Code::DeletesByAge,
        |workload| {
            workload.query(by_time);
            delete(workload, 1000);
        },
        |workload| {
            delete(workload, 1000);
            workload.pass(7_200_000);
            workload.query(by_time);
            delete(workload, 999);
        },
    );
}

#[test]
fn adv_15_a_small_table_again_and_again() {
    let read = |returned| QueryFacts { returned, ..QueryFacts::new(Class::TableScan) };
    check(
        Code::Rereads,
        |workload| (0..100).for_each(|_| workload.query(read(50))),
        |workload| {
            (0..99).for_each(|_| workload.query(read(50)));
            workload.pass(60_000);
            workload.insert("p", "r", true);
            (0..200).for_each(|_| workload.query(read(50)));
            workload.pass(60_000);
            (0..200).for_each(|_| workload.query(read(5000)));
        },
    );
}

#[test]
fn adv_16_a_read_that_leads_to_another() {
    let reads = |workload: &mut Workload, count: u64, followed: u64| {
        for number in 0..count {
            let order = Sample { kind: Some("Order"), ..workload.sample(Verb::Get) };
            workload.send(&order.with_keys("p", "order"));
            if number < followed {
                let get = workload.sample(Verb::Get);
                let customer = Sample { kind: Some("Customer"), key_from: Some("Order"), ..get };
                workload.send(&customer.with_keys("c", "customer"));
            }
        }
    };
    check(
        Code::ReadThenRead,
        |workload| reads(workload, 120, 115),
        |workload| {
            reads(workload, 50, 0);
            reads(workload, 300, 300);
        },
    );
}

#[test]
fn adv_17_rows_in_a_row() {
    let series = |workload: &mut Workload, times: u64, rows: u64| {
        for _ in 0..times {
            for hour in 0..rows {
                let row = format!("{hour:02}");
                let get = workload.sample(Verb::Get).with_keys("2026-11-15", &row);
                workload.advisor.observe(&get);
                workload.pass(10);
            }
        }
    };
    check(
        Code::ReadsInARow,
        |workload| series(workload, 100, 24),
        |workload| {
            series(workload, 99, 24);
            series(workload, 300, 23);
        },
    );
}

#[test]
fn adv_18_replacements_for_one_property() {
    let replaces = |workload: &mut Workload, changed: u32, entity_bytes: usize| {
        for _ in 0..100 {
            let size = Some(SizeFacts { entity_bytes, ..SizeFacts::default() });
            let replace = workload.sample(Verb::Replace).with_keys("p", "r");
            workload.send(&Sample { changed_properties: Some(changed), size, ..replace });
            workload.pass(100);
        }
    };
    check(
        Code::ReplaceForOne,
        |workload| replaces(workload, 1, 5000),
        |workload| {
            replaces(workload, 2, 5000);
            replaces(workload, 1, 1000);
        },
    );
}

#[test]
fn adv_19_inserts_one_by_one() {
    let burst = |workload: &mut Workload, count: u64, is_batched: bool| {
        for number in 0..count {
            workload.insert("p", &scattered(number), is_batched);
        }
        workload.pass(1000);
        workload.insert("q", "r", true);
    };
    check(
        Code::SingleInserts,
        |workload| burst(workload, 100, false),
        |workload| {
            burst(workload, 99, false);
            burst(workload, 300, true);
        },
    );
}

#[test]
fn adv_20_spikes() {
    let minute = |workload: &mut Workload, count: u64| {
        for _ in 0..count {
            workload.query(QueryFacts::new(Class::Range));
        }
        workload.pass(60_000);
    };
    check(
        Code::Spikes,
        |workload| {
            (0..20).for_each(|_| minute(workload, 100));
            minute(workload, 2000);
            minute(workload, 100);
        },
        |workload| {
            (0..20).for_each(|_| minute(workload, 100));
            minute(workload, 1999);
            minute(workload, 100);
        },
    );
}

#[test]
fn adv_21_values_near_their_limits() {
    let write = |workload: &mut Workload, size: SizeFacts| {
        let insert = workload.sample(Verb::Insert).with_keys("p", "r");
        workload.send(&Sample { size: Some(size), ..insert });
    };
    let near = [
        SizeFacts { entity_bytes: 768 * 1024, ..SizeFacts::default() },
        SizeFacts { property_bytes: 48 * 1024, ..SizeFacts::default() },
        SizeFacts { properties: 230, ..SizeFacts::default() },
        SizeFacts { list_percent: 75, ..SizeFacts::default() },
    ];
    let below = SizeFacts {
        entity_bytes: 768 * 1024 - 1,
        property_bytes: 48 * 1024 - 1,
        properties: 229,
        list_percent: 74,
    };
    for size in near {
        check(
            Code::NearLimits,
            |workload| write(workload, size),
            |workload| write(workload, below),
        );
    }
}

#[test]
fn adv_22_tables_that_are_written_together() {
    let pairs = |workload: &mut Workload, count: u64, alone: u64| {
        for number in 0..count {
            let partition = scattered(number);
            for (table, is_sent) in [("Orders", true), ("Lines", number >= alone)] {
                if is_sent {
                    let merge = Sample::new(workload.at(), table, Verb::Merge);
                    workload.send(&merge.with_keys(&partition, "r"));
                }
            }
            workload.pass(3000);
        }
    };
    check(
        Code::WrittenTogether,
        |workload| pairs(workload, 100, 0),
        |workload| pairs(workload, 99, 0),
    );
}

#[test]
fn adv_23_and_24_reads_to_the_end_and_empty_pages() {
    let last = QueryFacts { used_last_only: true, ..QueryFacts::new(Class::Range) };
    let empty = |empty_pages| QueryFacts { empty_pages, ..QueryFacts::new(Class::Range) };
    let per_hour = |workload: &mut Workload, query: QueryFacts<'_>, counts: &[u64]| {
        for count in counts {
            (0..*count).for_each(|_| workload.query(query));
            workload.pass(3_600_000);
        }
    };
    check(
        Code::ReadToTheEnd,
        |workload| per_hour(workload, last, &[100]),
        |workload| per_hour(workload, last, &[99, 99]),
    );
    check(
        Code::EmptyPages,
        |workload| per_hour(workload, empty(10), &[10]),
        |workload| {
            per_hour(workload, empty(10), &[9, 9]);
            per_hour(workload, empty(9), &[100]);
        },
    );
}

#[test]
fn every_code_has_a_pattern_and_a_sentence() {
    let numbers: Vec<_> = Code::ALL.iter().map(ToString::to_string).collect();
    let expect: Vec<_> = (1..=24).map(|number| format!("ADV-{number}")).collect();
    assert_eq!(numbers, expect);
    for code in Code::ALL {
        assert!(code.pattern().contains('-') && code.advice("x").ends_with('.'), "{code}");
        assert!(code.cost_here().ends_with('.') && code.cost_on_azure().ends_with('.'), "{code}");
        assert!(!code.command("T", "x").contains("{}") && code.page().ends_with(".md"), "{code}");
        let page = std::path::Path::new("../../docs/patterns").join(code.page());
        assert!(page.is_file(), "{code}: {}", page.display());
    }
}

#[test]
fn the_guide_s_own_examples() {
    // PS-20.2; `explain` of the client gives the classes.
    let facts = |class, property| QueryFacts { property, ..QueryFacts::new(class) };
    let table_scan = facts(Class::TableScan, Some("LastName"));
    let partition_scan = facts(Class::PartitionScan, Some("LastName"));
    let range = facts(Class::Range, None);
    let or = QueryFacts { has_or_of_keys: true, ..range };
    for (query, times, expect) in [
        (table_scan, 1, Some(Code::TableScan)),
        (partition_scan, 100, Some(Code::PartitionScan)),
        (range, 1000, None),
        (or, 1, Some(Code::OrOfKeys)),
    ] {
        let mut workload = Workload::new();
        (0..times).for_each(|_| workload.query(query));
        assert_eq!(workload.codes(), expect.into_iter().collect::<Vec<_>>());
    }
}
