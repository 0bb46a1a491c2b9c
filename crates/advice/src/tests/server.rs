//! Findings based on what only a server sees.

use super::*;

/// ADV-16 and ADV-18, seen by a server.
#[test]
fn a_server_sees_keys_that_come_from_values_and_properties_that_change() {
    use lazuli_model::key_text::fnv1a;
    let reads = |workload: &mut Workload, is_led: bool| {
        for number in 0..120 {
            let customer = format!("customer{number}");
            let value = if is_led { customer.as_str() } else { "p" };
            let values = [fnv1a(value.as_bytes())];
            let order = Sample { values: &values, ..workload.sample(Verb::Get) };
            workload.send(&order.with_keys("p", &scattered(number)));
            let get = Sample::new(workload.at(), "Customers", Verb::Get);
            workload.send(&get.with_keys("p", &customer));
            workload.pass(50);
        }
    };
    check(Code::ReadThenRead, |workload| reads(workload, true), |workload| reads(workload, false));
    let replaces = |workload: &mut Workload, changes: usize| {
        let mut fingerprint = [0; FINGERPRINT_PLACES];
        for number in 0..101 {
            fingerprint.iter_mut().take(changes).for_each(|place| *place = number);
            let size = Some(SizeFacts { entity_bytes: 5000, ..SizeFacts::default() });
            let replace = workload.sample(Verb::Replace).with_keys("p", "r");
            workload.send(&Sample { fingerprint: Some(&fingerprint), size, ..replace });
            workload.pass(100);
        }
    };
    check(Code::ReplaceForOne, |workload| replaces(workload, 1), |workload| replaces(workload, 2));
}

/// ADV-8, seen by a server (X-5.2b).
#[test]
fn a_server_sees_wide_entities_that_are_read_whole() {
    let read = |properties: u64, bytes: u64| {
        move |workload: &mut Workload| {
            for _ in 0..10 {
                workload.query(QueryFacts {
                    returned: 100,
                    whole_properties: Some(properties * 100),
                    bytes: bytes * 100,
                    ..QueryFacts::new(Class::Range)
                });
            }
        }
    };
    check(Code::UnusedProperties, read(20, 500), read(19, 8000));
    check(Code::UnusedProperties, read(3, 8192), read(19, 8191));
}
