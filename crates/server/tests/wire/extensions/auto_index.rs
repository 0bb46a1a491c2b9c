//! Automatic indexes, which the server declares itself (X-3.11).

use super::asking;
use crate::harness::{Lazuli, encode};

const DAY: u64 = 24 * 3600;

/// A server whose table `Orders` has 150 rows in three partitions.
fn server() -> Lazuli {
    let lazuli = Lazuli::with_orders();
    for number in 0..150 {
        let body = format!(
            r#"{{"PartitionKey":"p{}","RowKey":"{number:03}","Name":"n{number}","City":"c{number}"}}"#,
            number % 3
        );
        lazuli.insert("Orders", &body).expect(201);
    }
    lazuli
}

fn query(lazuli: &Lazuli, filter: &str, times: usize) {
    let target = format!("/Orders()?$filter={}", encode(filter));
    (0..times).for_each(|_| drop(lazuli.get(&target).expect(200)));
}

fn indexes(lazuli: &Lazuli) -> String {
    lazuli.ask("/Orders?comp=lazuli-indexes").expect(200).text().to_owned()
}

#[test]
fn shapes_that_scan_much_and_return_little_get_an_index() {
    let lazuli = server();
    query(&lazuli, "Name eq 'n7'", 66);
    lazuli.auto_index(2);
    assert_eq!(indexes(&lazuli), r#"{"indexes":[]}"#, "9,900 entities examined");
    query(&lazuli, "Name eq 'n8'", 4);
    lazuli.auto_index(2);
    lazuli.build().unwrap();
    let shown = indexes(&lazuli);
    assert!(shown.contains(r#""name":"autoName","on":["Name"],"unique":false,"state":"ready""#));
    assert!(shown.contains(r#""automatic":true"#), "{shown}");
    let target = format!("/Orders()?$filter={}", encode("Name eq 'n8'"));
    let plan = lazuli.send(&asking("GET", &target).with("x-lazuli-explain", "plan")).expect(200);
    assert!(
        plan.text().contains(r#""name":"autoName","access":"eq","entries":0,"automatic":true"#)
    );
}

#[test]
fn a_table_gets_no_more_than_allowed_and_none_if_none_are() {
    let lazuli = server();
    query(&lazuli, "Name eq 'n7'", 100);
    query(&lazuli, "City eq 'c7'", 100);
    // These return as many entities as they examine.
    query(&lazuli, "Name ge 'n' and PartitionKey ge 'p'", 100);
    lazuli.auto_index(0);
    assert_eq!(indexes(&lazuli), r#"{"indexes":[]}"#);
    lazuli.auto_index(1);
    lazuli.auto_index(1);
    assert_eq!(indexes(&lazuli).matches("automatic").count(), 1, "{}", indexes(&lazuli));
    lazuli.auto_index(2);
    assert_eq!(indexes(&lazuli).matches("automatic").count(), 2, "{}", indexes(&lazuli));
}

/// An index on more properties does not serve a filter that compares only the first.
#[test]
fn an_index_on_more_properties_stands_in_no_way() {
    let lazuli = server();
    let declared = r#"{"indexes":[{"name":"byNameCity","on":["Name","City"]}]}"#;
    lazuli.send(&asking("PUT", "/Orders?comp=lazuli-indexes").json(declared)).expect(202);
    lazuli.build().unwrap();
    query(&lazuli, "Name eq 'n7'", 100);
    lazuli.auto_index(1);
    assert!(
        indexes(&lazuli).contains(r#""name":"autoName","on":["Name"]"#),
        "{}",
        indexes(&lazuli)
    );
}

/// X-3.11. Names of properties differ by case and by characters that names of indexes cannot have.
#[test]
fn properties_of_similar_names_get_an_index_each() {
    let lazuli = server();
    for filter in ["Name eq 'n7'", "name eq 'n7'", "na_me eq 'n7'"] {
        query(&lazuli, filter, 100);
        lazuli.auto_index(3);
    }
    let shown = indexes(&lazuli);
    for (index, property) in [("autoName", "Name"), ("autoname2", "name"), ("autoname3", "na_me")] {
        let expect = format!(r#""name":"{index}","on":["{property}"]"#);
        assert!(shown.contains(&expect), "{shown}");
    }
    lazuli.auto_index(4);
    assert_eq!(indexes(&lazuli).matches("automatic").count(), 3, "once each: {shown}");
}

#[test]
fn what_nobody_used_for_a_week_is_dropped() {
    let lazuli = server();
    query(&lazuli, "Name eq 'n7'", 100);
    lazuli.auto_index(1);
    lazuli.build().unwrap();
    let byuser = r#"{"name":"byCity","on":["City"]}"#;
    let all = format!(r#"{{"indexes":[{{"name":"autoName","on":["Name"]}},{byuser}]}}"#);
    lazuli.clock.advance_seconds(5 * DAY);
    query(&lazuli, "Name eq 'n7'", 1);
    lazuli.clock.advance_seconds(5 * DAY);
    lazuli.auto_index(1);
    assert!(indexes(&lazuli).contains("autoName"));
    lazuli.clock.advance_seconds(3 * DAY);
    lazuli.auto_index(1);
    assert_eq!(indexes(&lazuli), r#"{"indexes":[]}"#);
    // An index that a user declares stays, whatever its name.
    let declare = asking("PUT", "/Orders?comp=lazuli-indexes").json(&all);
    lazuli.send(&declare).expect(202);
    lazuli.build().unwrap();
    lazuli.clock.advance_seconds(30 * DAY);
    lazuli.auto_index(1);
    assert_eq!(indexes(&lazuli).matches("ready").count(), 2);
}
