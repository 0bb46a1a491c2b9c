//! What an advisor keeps: its memory, its state across restarts, and for how long.

use super::*;

#[test]
fn a_million_samples_of_a_hundred_thousand_partitions_stay_small() {
    // PS-20.3.
    let mut workload = Workload::new();
    let partitions: Vec<String> = (0..100_000).map(scattered).collect();
    for number in 0..1_000_000 {
        let partition = partitions.get(number * 7919 % partitions.len()).unwrap();
        let sample = workload.sample(if number % 3 == 0 { Verb::Get } else { Verb::Insert });
        let sample = sample.with_keys(partition, "r");
        workload.advisor.observe(&sample);
        if number % 100 == 0 {
            workload.pass(100);
        }
    }
    let bytes = workload.advisor.bytes();
    assert!(bytes < 16 * 1024 * 1024, "{bytes}");
}

/// Many requests of every kind, with keys of every length.
fn varied(advisor: &mut Advisor, table: &str, at: Timestamp) {
    let large = [7; FINGERPRINT_PLACES];
    for number in 0..2000_u64 {
        let length = [4, 40, 500][(number % 3) as usize];
        let partition = scattered(number).repeat(length / 4);
        let row = format!("{partition}-{number}");
        let at = Timestamp::from_unix_seconds(at.unix_seconds() + number / 100);
        let sample = |verb| Sample::new(at, table, verb).with_keys(&partition, &row);
        advisor.observe(&Sample { values: &[1, 2, 3], ..sample(Verb::Get) });
        let size = SizeFacts { entity_bytes: 5000, properties: 9, ..SizeFacts::default() };
        let size = Some(size);
        advisor.observe(&Sample { size, fingerprint: Some(&large), ..sample(Verb::Insert) });
        let replace = sample(Verb::Replace);
        advisor.observe(&Sample { is_conditional: true, status: 412, ..replace });
        let name = format!("Property{number}").repeat(length / 4);
        let shape = format!("{name} eq ? and {name} gt ?");
        let query = QueryFacts {
            property: Some(&name),
            lookup: Some(&name),
            shape: Some(&shape),
            ..QueryFacts::new(Class::PartitionScan)
        };
        advisor.observe(&Sample::new(at, table, Verb::Query).with_query(query));
        advisor.note_index(at, table, &format!("index{}", number % 40), false);
    }
}

/// X-5.1.
#[test]
fn a_compact_advisor_keeps_64_kib_of_a_table() {
    let mut advisor = Advisor::compact(Thresholds::default());
    let before = advisor.bytes();
    let start = Timestamp::from_unix_seconds(START_SECONDS);
    varied(&mut advisor, "Rows", start);
    let shared = advisor.together.bytes() + advisor.pairs.bytes();
    let bytes = advisor.bytes() - before - shared;
    assert!(bytes <= 64 * 1024, "{bytes}");
    // 63 more fit; the next one replaces the table that has been idle longest.
    for number in 0..64 {
        let at = Timestamp::from_unix_seconds(START_SECONDS + 100 + number * 60);
        advisor.observe(&Sample::new(at, &format!("Table{number}"), Verb::Get));
    }
    let names: Vec<_> = advisor.tables().map(|table| table.table.to_owned()).collect();
    assert_eq!(names.len(), 64);
    assert!(names.iter().any(|name| name == "Table63") && names.iter().all(|name| name != "Rows"));
}

/// X-5.1: nothing is lost in a restart, and invalid bytes are discarded.
#[test]
fn what_is_saved_is_restored() {
    let mut advisor = Advisor::compact(Thresholds::default());
    varied(&mut advisor, "Rows", Timestamp::from_unix_seconds(START_SECONDS));
    let saved = advisor.save();
    let mut again = Advisor::compact(Thresholds::default());
    for (table, bytes) in &saved {
        assert!(bytes.len() <= 64 * 1024, "{table}: {}", bytes.len());
        assert!(again.restore(table, bytes));
        for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            let cut = bytes.get(..cut).unwrap();
            assert!(!Advisor::compact(Thresholds::default()).restore(table, cut), "{table}");
        }
    }
    assert_eq!(again.save(), saved);
    let findings: Vec<_> = advisor.findings().collect();
    assert!(!findings.is_empty());
    assert_eq!(again.findings().collect::<Vec<_>>(), findings);
    let shown = |advisor: &Advisor| format!("{:?}", advisor.tables().collect::<Vec<_>>());
    assert_eq!(shown(&again), shown(&advisor));
}

/// X-5.2b.
#[test]
fn findings_come_without_more_traffic_and_leave_after_a_week() {
    let mut workload = Workload::new();
    (0..120).for_each(|number| workload.insert("p", &scattered(number), false));
    assert_eq!(workload.codes(), []);
    workload.pass(1000);
    workload.advisor.pass(workload.at());
    assert_eq!(workload.codes(), [Code::SingleInserts]);
    workload.pass(7 * 24 * 3_600_000 - 1000);
    workload.advisor.pass(workload.at());
    assert_eq!(workload.codes(), [Code::SingleInserts]);
    workload.pass(2000);
    workload.advisor.pass(workload.at());
    assert_eq!(workload.codes(), []);
}
