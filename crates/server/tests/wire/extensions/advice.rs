//! Advice from live traffic (X-5): for each rule, traffic that triggers it, and traffic that does not
//! (X-5.4).

use super::{asking, token};
use crate::harness::{ACCOUNT, Lazuli, Op, Request, encode, well_known_key};
use lazuli_model::Clock;
use lazuli_wire::sas::AccountSas;

const DAY: u64 = 24 * 3600;

/// The advice of a server, as JSON.
fn advice(lazuli: &Lazuli) -> String {
    lazuli.ask("/?comp=lazuli-advice").expect(200).text().to_owned()
}

fn has(lazuli: &Lazuli, code: u32) -> bool {
    advice(lazuli).contains(&format!(r#""code":"ADV-{code}""#))
}

/// X-5.3. Runs both kinds of traffic, each on its own server with the tables `Orders` and `Other`.
#[track_caller]
fn check(code: u32, guilty: impl Fn(&Lazuli), innocent: impl Fn(&Lazuli)) {
    let run = |traffic: &dyn Fn(&Lazuli)| {
        let lazuli = Lazuli::with_orders();
        lazuli.create_table("Other").expect(201);
        traffic(&lazuli);
        // What a second or a minute showed becomes known after it ends.
        lazuli.clock.advance_seconds(2);
        has(&lazuli, code)
    };
    assert!(run(&guilty), "ADV-{code}: guilty");
    assert!(!run(&innocent), "ADV-{code}: innocent");
}

fn entity(partition: &str, row: &str, properties: &str) -> String {
    let separator = if properties.is_empty() { "" } else { "," };
    format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}"{separator}{properties}}}"#)
}

fn insert(lazuli: &Lazuli, partition: &str, row: &str, properties: &str) {
    lazuli.insert("Orders", &entity(partition, row, properties)).expect(201);
}

/// Inserts rows of one partition, 100 in a transaction.
fn insert_all(lazuli: &Lazuli, partition: &str, rows: &[String]) {
    for rows in rows.chunks(100) {
        let operation = |row: &String| Op::new("POST", "/Orders", &entity(partition, row, ""));
        let operations: Vec<Op> = rows.iter().map(operation).collect();
        lazuli.batch(&operations).expect(&vec![201; rows.len()]);
    }
}

/// A key that sorts anywhere, and does not end in a number.
fn scattered(number: u64) -> String {
    format!("{:016x}x", number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn rows(numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers.map(|number| format!("{number:04}x")).collect()
}

fn query(lazuli: &Lazuli, filter: &str, times: usize) {
    let target = format!("/Orders()?$filter={}", encode(filter));
    (0..times).for_each(|_| drop(lazuli.get(&target).expect(200)));
}

#[test]
fn adv_1_appends_to_the_newest_partition() {
    let minutes = |lazuli: &Lazuli, partitions: [&str; 6]| {
        for partition in partitions {
            insert_all(lazuli, partition, &rows(0..25));
            lazuli.clock.advance_seconds(60);
        }
    };
    check(
        1,
        |lazuli| minutes(lazuli, ["t0x", "t1x", "t2x", "t3x", "t4x", "t5x"]),
        |lazuli| minutes(lazuli, ["mx", "cx", "xx", "hx", "px", "kx"]),
    );
}

#[test]
fn adv_2_and_13_rows_at_the_end_of_the_only_partition() {
    let (rising, mut falling) = (rows(0..500), rows(0..500));
    falling.reverse();
    check(
        2,
        |lazuli| insert_all(lazuli, "px", &rising),
        |lazuli| insert_all(lazuli, "px", &falling),
    );
    check(
        13,
        |lazuli| insert_all(lazuli, "px", &rising),
        |lazuli| {
            insert(lazuli, "qx", "rx", "");
            insert_all(lazuli, "px", &falling);
        },
    );
}

#[test]
fn adv_3_a_hot_partition() {
    check(
        3,
        |lazuli| {
            insert_all(lazuli, "px", &rows(0..500));
            insert_all(lazuli, "qx", &rows(0..100));
        },
        |lazuli| ["px", "qx", "rx"].iter().for_each(|p| insert_all(lazuli, p, &rows(0..300))),
    );
}

#[test]
fn adv_4_to_7_filters_that_scan() {
    let few = |lazuli: &Lazuli| {
        (0..5).for_each(|n| insert(lazuli, "px", &format!("r{n}x"), r#""Name":"n""#));
    };
    let filter = |filter: &'static str, times| {
        move |lazuli: &Lazuli| {
            few(lazuli);
            query(lazuli, filter, times);
        }
    };
    check(4, filter("Name eq 'n'", 1), filter("PartitionKey eq 'px' and RowKey ge 'r1x'", 3));
    let by_name = "PartitionKey eq 'px' and Name eq 'n'";
    check(5, filter(by_name, 100), filter(by_name, 99));
    let or = "PartitionKey eq 'px' and (RowKey eq 'r1x' or RowKey eq 'r2x')";
    check(6, filter(or, 1), filter("PartitionKey eq 'px' and RowKey eq 'r1x'", 1));
    check(7, filter("RowKey eq 'r1x'", 1), filter("PartitionKey eq 'px' and RowKey eq 'r1x'", 1));
}

#[test]
fn adv_8_wide_entities_read_whole() {
    let read = |select: &'static str| {
        move |lazuli: &Lazuli| {
            let wide: Vec<String> = (0..20).map(|n| format!(r#""P{n}":{n}"#)).collect();
            (0..50).for_each(|n| insert(lazuli, "px", &format!("{n:03}x"), &wide.join(",")));
            (0..20).for_each(|_| drop(lazuli.get(&format!("/Orders(){select}")).expect(200)));
        }
    };
    check(8, read(""), read("?$select=P1"));
}

#[test]
fn adv_9_conflicts_on_a_row() {
    let old = r#"W/"datetime'2020-01-01T00%3A00%3A00Z'""#;
    check(
        9,
        |lazuli| {
            insert(lazuli, "p", "r", "");
            (0..100).for_each(|_| {
                lazuli.write("PUT", "r", Some(old), r#"{"N":1}"#).expect(412);
            });
        },
        |lazuli| {
            for number in 0..100 {
                let row = scattered(number);
                insert(lazuli, "p", &row, "");
                lazuli.write("PUT", &row, Some(old), r#"{"N":1}"#).expect(412);
            }
        },
    );
}

#[test]
fn adv_10_and_11_keys() {
    check(
        10,
        |lazuli| ["9", "10"].iter().for_each(|row| insert(lazuli, "p", row, "")),
        |lazuli| ["09", "10"].iter().for_each(|row| insert(lazuli, "p", row, "")),
    );
    let spread = |partitions: u64| {
        move |lazuli: &Lazuli| {
            for number in 0..120 {
                insert(lazuli, &scattered(number % partitions), &scattered(number), "");
            }
        }
    };
    check(11, spread(120), spread(12));
}

#[test]
fn adv_12_an_index_that_nobody_reads() {
    let month = |filter: &'static str| {
        move |lazuli: &Lazuli| {
            let indexes = r#"{"indexes":[{"name":"byName","on":["Name"]}]}"#;
            let declare = asking("PUT", "/Orders?comp=lazuli-indexes").json(indexes);
            lazuli.send(&declare).expect(202);
            lazuli.build().unwrap();
            insert(lazuli, "p", "a", r#""Name":"n""#);
            drop(advice(lazuli));
            lazuli.clock.advance_seconds(15 * DAY);
            query(lazuli, filter, 1);
            drop(advice(lazuli));
            lazuli.clock.advance_seconds(16 * DAY);
            insert(lazuli, "p", "b", r#""Name":"n""#);
        }
    };
    check(12, month("PartitionKey eq 'p' and RowKey eq 'a'"), month("Name eq 'n'"));
}

#[test]
fn adv_14_deletions_by_age() {
    let deletions = |filter: &'static str| {
        move |lazuli: &Lazuli| {
            insert_all(lazuli, "p", &rows(0..1000));
            query(lazuli, filter, 1);
            for rows in rows(0..1000).chunks(100) {
                let operation = |row: &String| {
                    let target = format!("/Orders(PartitionKey='p',RowKey='{row}')");
                    Op::new("DELETE", &target, "").with("If-Match", "*")
                };
                let operations: Vec<Op> = rows.iter().map(operation).collect();
                lazuli.batch(&operations).expect(&[204; 100]);
            }
        }
    };
    let by_time = "PartitionKey eq 'p' and Timestamp lt datetime'2025-01-01T00:00:00Z'";
    check(14, deletions(by_time), deletions("PartitionKey eq 'p'"));
}

#[test]
fn adv_15_a_small_table_again_and_again() {
    let read = |writes: bool| {
        move |lazuli: &Lazuli| {
            insert(lazuli, "p", "r", "");
            lazuli.clock.advance_seconds(60);
            if writes {
                insert(lazuli, "p", "s", "");
            }
            (0..100).for_each(|_| drop(lazuli.get("/Orders()").expect(200)));
        }
    };
    check(15, read(false), read(true));
}

#[test]
fn adv_16_a_read_that_leads_to_another() {
    let pairs = |is_led: bool| {
        move |lazuli: &Lazuli| {
            for number in 0..10 {
                let customer = if is_led { format!("c{number}x") } else { "p".to_owned() };
                insert(lazuli, "p", &scattered(number), &format!(r#""Customer":"{customer}""#));
                let customer = entity("p", &format!("c{number}x"), "");
                lazuli.insert("Other", &customer).expect(201);
            }
            for number in 0..110 {
                let row = scattered(number % 10);
                lazuli.get(&format!("/Orders(PartitionKey='p',RowKey='{row}')")).expect(200);
                let customer = format!("/Other(PartitionKey='p',RowKey='c{}x')", number % 10);
                lazuli.get(&customer).expect(200);
            }
        }
    };
    check(16, pairs(true), pairs(false));
}

#[test]
fn adv_17_rows_in_a_row() {
    let series = |rows: u64, times: u64| {
        move |lazuli: &Lazuli| {
            let all: Vec<String> = (0..24).map(|hour| format!("{hour:02}")).collect();
            insert_all(lazuli, "p", &all);
            for _ in 0..times {
                for row in all.iter().take(rows as usize) {
                    lazuli.get(&format!("/Orders(PartitionKey='p',RowKey='{row}')")).expect(200);
                }
            }
        }
    };
    check(17, series(24, 100), series(23, 100));
}

#[test]
fn adv_18_replacements_for_one_property() {
    let replace = |changes_text: bool| {
        move |lazuli: &Lazuli| {
            for number in 0..101 {
                let text = if changes_text { number.to_string() } else { String::new() };
                let body = format!(r#"{{"Text":"{text}{}","N":{number}}}"#, "x".repeat(4000));
                lazuli.write("PUT", "r", None, &body).expect(204);
            }
        }
    };
    check(18, replace(false), replace(true));
}

#[test]
fn adv_19_inserts_one_by_one() {
    check(
        19,
        |lazuli| (0..100).for_each(|number| insert(lazuli, "p", &scattered(number), "")),
        |lazuli| insert_all(lazuli, "p", &rows(0..300)),
    );
}

#[test]
fn adv_20_spikes() {
    let minutes = |usual: u64| {
        move |lazuli: &Lazuli| {
            for minute in 0..11 {
                insert_all(lazuli, "p", &rows(minute * 100..minute * 100 + usual));
                lazuli.clock.advance_seconds(60);
            }
            insert_all(lazuli, "p", &rows(2000..3000));
            lazuli.clock.advance_seconds(60);
        }
    };
    check(20, minutes(5), minutes(100));
}

#[test]
fn adv_21_values_near_their_limits() {
    let wide = |properties: usize| {
        move |lazuli: &Lazuli| {
            let all: Vec<String> = (0..properties).map(|n| format!(r#""P{n}":{n}"#)).collect();
            insert(lazuli, "p", "r", &all.join(","));
        }
    };
    check(21, wide(230), wide(229));
    let long = |letters: usize| {
        move |lazuli: &Lazuli| {
            insert(lazuli, "p", "r", &format!(r#""Text":"{}""#, "x".repeat(letters)));
        }
    };
    check(21, long(24 * 1024), long(24 * 1024 - 1));
}

#[test]
fn adv_22_tables_that_are_written_together() {
    let pairs = |is_together: bool| {
        move |lazuli: &Lazuli| {
            for number in 0..100 {
                let other = if is_together { number } else { number + 1000 };
                insert(lazuli, &scattered(number), "r", "");
                lazuli.insert("Other", &entity(&scattered(other), "r", "")).expect(201);
                lazuli.clock.advance_seconds(3);
            }
        }
    };
    check(22, pairs(true), pairs(false));
}

#[test]
fn adv_23_the_newest_rows_by_walking_to_the_end() {
    let read = |filter: &'static str| {
        move |lazuli: &Lazuli| {
            (0..50).for_each(|n| insert(lazuli, "p", &format!("{n:03}x"), &format!(r#""N":{n}"#)));
            query(lazuli, filter, 100);
        }
    };
    check(
        23,
        read("PartitionKey eq 'p' and N ge 47"),
        read("PartitionKey eq 'p' and (N ge 47 or N eq 3)"),
    );
}

/// A page ends when its time is up: here each reading of the clock advances it by six seconds, so a page has
/// at most the first 32 of its 40 keys.
#[test]
fn adv_24_empty_pages() {
    let read = |condition: &'static str| {
        move |lazuli: &Lazuli| {
            let rows = rows(0..40);
            rows.iter().for_each(|row| insert(lazuli, "p", row, r#""N":1"#));
            let filter = format!(
                "PartitionKey eq 'p' and RowKey in ('{}') and {condition}",
                rows.join("','")
            );
            let target = format!("/Orders()?$filter={}", encode(&filter));
            let start = lazuli.clock.now();
            for _ in 0..100 {
                lazuli.clock.turn_at_each_reading(6);
                let page = lazuli.ask(&target).expect(200);
                assert!(page.header("x-ms-continuation-nextrowkey").is_some());
                lazuli.clock.turn_at_each_reading(0);
                lazuli.clock.set(start);
            }
        }
    };
    check(24, read("N eq 2"), read("N eq 1"));
}

/// X-5.2, X-5.2c: the members of a finding, by weight, and the numbers of the table.
#[test]
fn advice_says_what_was_seen_why_it_costs_and_what_to_do() {
    let lazuli = Lazuli::with_orders();
    insert(&lazuli, "p", "9", r#""Email":"secret@contoso.com""#);
    insert(&lazuli, "p", "10", "");
    query(&lazuli, "Email eq 'secret@contoso.com'", 2);
    let answer = lazuli.ask("/?comp=lazuli-advice").expect(200);
    assert_eq!(answer.header("x-lazuli-used"), Some("advice"));
    let text = answer.text();
    for part in [
        r#"{"code":"ADV-4","table":"Orders","subject":"Email","weight":200,"seen":"2 of 2 queries, the last read 2 rows","times":2,"first":"2024-07-31T18:30:00Z","last":"2024-07-31T18:30:00Z","why":{"here":"Every row of the table is read and compared.","azure":"Every 1,000 rows are a page, a transaction that is billed, and a round trip."},"do":"Index Email, or give the query a partition key: it reads every row of the table.","pattern":"Intra-partition secondary index pattern","command":"lazuli index set Orders byEmail Email","link":"docs/patterns/01-intra-partition-index.md"}"#,
        r#""shapes":[{"filter":"Email eq ?","queries":2,"scans":2,"examined":4,"returned":2}]"#,
        r#""partitions":[{"PartitionKey":"p","requests":2}]"#,
    ] {
        assert!(text.contains(part), "{text}");
    }
    let place = |code: &str| text.find(code).unwrap_or(usize::MAX);
    assert!(place("ADV-4\"") < place("ADV-10\""), "{text}");
    // X-5.4: property values are never shown.
    assert!(!text.contains("secret"), "{text}");
}

/// X-2.1: a plan that did not run is not traffic. X-3.10: what was dropped is forgotten.
#[test]
fn plans_are_no_traffic_and_dropped_tables_are_forgotten() {
    let lazuli = Lazuli::with_orders();
    let target = format!("/Orders()?$filter={}", encode("Name eq 'n'"));
    lazuli.send(&asking("GET", &target).with("x-lazuli-explain", "plan")).expect(200);
    assert!(!has(&lazuli, 4));
    lazuli.get(&target).expect(200);
    assert!(has(&lazuli, 4));
    lazuli.send(&Request::new("DELETE", "/Tables('Orders')")).expect(204);
    assert!(!advice(&lazuli).contains("Orders"), "{}", advice(&lazuli));
}

/// X-5.2b: findings disappear after a week without recurrence.
#[test]
fn a_finding_that_does_not_recur_leaves_after_a_week() {
    let lazuli = Lazuli::with_orders();
    query(&lazuli, "Name eq 'n'", 1);
    assert!(has(&lazuli, 4));
    lazuli.clock.advance_seconds(6 * DAY);
    query(&lazuli, "Name eq 'n'", 1);
    lazuli.clock.advance_seconds(6 * DAY);
    assert!(has(&lazuli, 4));
    lazuli.clock.advance_seconds(2 * DAY);
    assert!(!has(&lazuli, 4));
}

/// X-5.2b: advice to index a property is settled by an index, until a query scans for the property again.
#[test]
fn advice_to_index_leaves_with_the_index() {
    let lazuli = Lazuli::with_orders();
    query(&lazuli, "Name eq 'n'", 1);
    assert!(has(&lazuli, 4));
    let declare = |indexes: &str| {
        let body = format!(r#"{{"indexes":[{indexes}]}}"#);
        lazuli.send(&asking("PUT", "/Orders?comp=lazuli-indexes").json(&body)).expect(202);
        lazuli.build().unwrap();
    };
    // These do not serve the filter.
    declare(
        r#"{"name":"byCity","on":["City"]},{"name":"byBoth","on":["Name","City"]},{"name":"byname","on":["name"]}"#,
    );
    assert!(has(&lazuli, 4));
    declare(r#"{"name":"byName","on":["Name"]}"#);
    assert!(!has(&lazuli, 4), "{}", advice(&lazuli));
    lazuli.clock.advance_seconds(60);
    query(&lazuli, "Name ne 'n'", 1);
    assert!(has(&lazuli, 4));
    // A dropped index settles nothing.
    declare(r#"{"name":"byName","on":["Name"]}"#);
    declare("");
    assert!(has(&lazuli, 4));
}

/// X-5.1: what was stored is known after a restart, and what was dropped is removed from the store.
#[test]
fn advice_survives_a_restart() {
    let lazuli = Lazuli::with_orders();
    query(&lazuli, "Name eq 'n'", 1);
    let before = advice(&lazuli);
    assert!(before.contains("ADV-4"), "{before}");
    let again = lazuli.restarted();
    assert_eq!(advice(&again), before);
    again.send(&Request::new("DELETE", "/Tables('Orders')")).expect(204);
    let empty = again.restarted();
    assert!(!advice(&empty).contains("Orders"), "{}", advice(&empty));
}

/// X-5.2b.
#[test]
fn advice_needs_the_right_to_read_the_service() {
    let lazuli = Lazuli::with_orders();
    let with = |token: &str| lazuli.send(&asking("GET", "/?comp=lazuli-advice").sas(token)).status;
    let sas = |resource_types, permissions| {
        let sas = AccountSas {
            version: "2019-02-02",
            services: "t",
            resource_types,
            permissions,
            expiry: "2030-01-01T00:00:00Z",
            ..AccountSas::default()
        };
        sas.token(ACCOUNT, &well_known_key()).unwrap()
    };
    assert_eq!(with(&sas("s", "r")), 200);
    assert_eq!([with(&sas("co", "r")), with(&sas("s", "wl"))], [403, 403]);
    assert_eq!(with(&token("raud", None)), 403);
    let plain = lazuli.get("/?comp=lazuli-advice");
    plain.refused(400, "InvalidQueryParameterValue", "");
}
