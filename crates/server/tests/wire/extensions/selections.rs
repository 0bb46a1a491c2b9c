//! Reverse order, counts and deletion by filter (X-4.2 to X-4.4).

use super::{asking, token};
use crate::harness::{Lazuli, Op, Request, Response, encode};

/// Entities of three partitions: `a`, `b`, `c`, with rows 1 to 4.
fn orders() -> Lazuli {
    let lazuli = Lazuli::with_orders();
    for partition in ["b", "a", "c"] {
        for row in ["3", "1", "4", "2"] {
            let entity = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}","N":{row}}}"#);
            lazuli.insert("Orders", &entity).expect(201);
        }
    }
    lazuli
}

const DESC: &str = "$orderby=PartitionKey%20desc,RowKey%20desc";

fn keys(response: &Response) -> Vec<String> {
    let (partitions, rows) = (response.items("PartitionKey"), response.items("RowKey"));
    partitions.split(' ').zip(rows.split(' ')).map(|(p, r)| format!("{p}{r}")).collect()
}

/// The parameters that continue a page.
fn next(response: &Response) -> Option<String> {
    let partition = response.header("x-ms-continuation-nextpartitionkey")?;
    let row = response.header("x-ms-continuation-nextrowkey");
    let row = row.map(|row| format!("&NextRowKey={}", encode(row))).unwrap_or_default();
    Some(format!("NextPartitionKey={}{row}", encode(partition)))
}

/// X-4.2, X-0.3.
#[test]
fn entities_come_in_falling_order() {
    let lazuli = orders();
    let all = lazuli.ask(&format!("/Orders()?{DESC}")).expect(200);
    assert_eq!(keys(&all).join(" "), "c4 c3 c2 c1 b4 b3 b2 b1 a4 a3 a2 a1");
    assert_eq!(all.header("x-lazuli-used"), Some("reverse"));
    let target = format!("/Orders()?{DESC}&$filter={}", encode("PartitionKey ge 'b' and N le 2"));
    assert_eq!(keys(&lazuli.ask(&target).expect(200)).join(" "), "c2 c1 b2 b1");
    let points = encode("PartitionKey eq 'a' and (RowKey eq '1' or RowKey eq '3')");
    let points = lazuli.ask(&format!("/Orders()?{DESC}&$filter={points}")).expect(200);
    assert_eq!(keys(&points).join(" "), "a3 a1");
    let range = asking("GET", &format!("/Orders()?{DESC}")).sas(&token("r", Some(("b", "b"))));
    assert_eq!(keys(&lazuli.send(&range).expect(200)).join(" "), "b4 b3 b2 b1");
}

/// X-4.2: pages of any size, even where a row key is empty.
#[test]
fn pages_in_falling_order_go_on_where_they_ended() {
    let lazuli = orders();
    lazuli.insert("Orders", r#"{"PartitionKey":"b","RowKey":"","N":0}"#).expect(201);
    for size in [1, 2, 3, 5, 12, 13] {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let target = format!("/Orders()?{DESC}&$top={size}{token}&$select=PartitionKey,N");
            let page = lazuli.ask(&target).expect(200);
            let json = page.text().to_owned();
            found.extend(json.match_indices("\"PartitionKey\":\"").map(|(at, mark)| {
                let from = at + mark.len();
                json[from..=from].to_owned()
            }));
            match next(&page) {
                Some(parameters) => token = format!("&{parameters}"),
                None => break,
            }
        }
        assert_eq!(found.concat(), "ccccbbbbbaaaa", "{size}");
    }
}

/// X-4.2.
#[test]
fn tokens_of_one_order_are_refused_by_the_other() {
    let lazuli = orders();
    let rising = next(&lazuli.ask("/Orders()?$top=2").expect(200)).unwrap();
    let falling = next(&lazuli.ask(&format!("/Orders()?$top=2&{DESC}")).expect(200)).unwrap();
    lazuli.ask(&format!("/Orders()?{DESC}&{rising}")).refused(400, "InvalidInput", "");
    lazuli.ask(&format!("/Orders()?{falling}")).refused(400, "InvalidInput", "");
    lazuli.get(&format!("/Orders()?{falling}")).refused(400, "InvalidInput", "");
}

/// X-4.2, X-0.1.
#[test]
fn the_order_there_is_may_be_asked_for_and_no_other() {
    let lazuli = orders();
    let plain = keys(&lazuli.get("/Orders()").expect(200));
    for order in [
        "PartitionKey",
        "PartitionKey,RowKey",
        "PartitionKey asc, RowKey",
        "PartitionKey asc,RowKey asc",
    ] {
        let target = format!("/Orders()?$orderby={}", encode(order));
        assert_eq!(keys(&lazuli.ask(&target).expect(200)), plain, "{order}");
        lazuli.get(&target).refused(501, "NotImplemented", "");
    }
    for order in [
        "N",
        "RowKey",
        "PartitionKey desc",
        "PartitionKey,RowKey desc",
        "PartitionKey DESC,RowKey DESC",
        "",
    ] {
        let target = format!("/Orders()?$orderby={}", encode(order));
        lazuli.ask(&target).refused(400, "InvalidInput", "PartitionKey desc,RowKey desc");
    }
}

/// X-4.3.
#[test]
fn counts_are_text() {
    let lazuli = orders();
    let count = |target: &str| {
        let response = lazuli.ask(target).expect(200);
        assert_eq!(response.header("x-ms-continuation-nextpartitionkey"), None);
        assert!(response.header("content-type").unwrap().starts_with("text/plain"));
        assert!(response.header("x-lazuli-used").unwrap().starts_with("count"));
        response.text().to_owned()
    };
    assert_eq!([count("/Orders()/$count"), count("/Orders/$count")], ["12", "12"]);
    assert_eq!(count(&format!("/Orders()/$count?$filter={}", encode("N ge 3"))), "6");
    assert_eq!(count(&format!("/Orders/$count?$filter={}", encode("startswith(RowKey,'1')"))), "3");
    assert_eq!(count(&format!("/Orders/$count?$filter={}", encode("N eq 9"))), "0");
    let from = next(&lazuli.ask("/Orders()?$top=5").expect(200)).unwrap();
    assert_eq!(count(&format!("/Orders/$count?{from}")), "7");
    let text = lazuli.send(&asking("GET", "/Orders/$count").accept("text/plain")).expect(200);
    assert_eq!(text.text(), "12");
    for option in ["$top=1", "$select=N", "$orderby=PartitionKey", "$skip=1"] {
        lazuli.ask(&format!("/Orders/$count?{option}")).refused(400, "InvalidInput", &option[..4]);
    }
    lazuli.ask("/Missing/$count").refused(404, "TableNotFound", "");
}

/// X-4.3, X-0.4.
#[test]
fn counts_need_the_right_to_read_and_see_its_range() {
    let lazuli = orders();
    let count = |token: &str| lazuli.send(&asking("GET", "/Orders/$count").sas(token));
    assert_eq!(count(&token("r", Some(("b", "c")))).expect(200).text(), "8");
    count(&token("aud", None)).refused(403, "AuthorizationPermissionMismatch", "");
    lazuli.get("/Orders()/$count").refused(501, "NotImplemented", "");
    lazuli.get("/Orders/$count").refused(501, "NotImplemented", "");
}

/// X-4.3: more entities than fit one page are counted too.
#[test]
fn a_count_is_not_bound_to_a_page() {
    let lazuli = Lazuli::with_orders();
    for batch in 0..12 {
        let rows = (0..100).map(|row| Op::insert(&format!("{:05}", batch * 100 + row)));
        let operations: Vec<_> = rows.collect();
        lazuli.batch(&operations);
    }
    assert_eq!(lazuli.ask("/Orders/$count").expect(200).text(), "1200");
    let page = lazuli.ask("/Orders()?$inlinecount=allpages").expect(200);
    assert!(page.text().contains(r#""odata.count":"1200","value":["#), "{}", &page.text()[..200]);
    let later = lazuli.ask(&format!("/Orders()?$inlinecount=allpages&{}", next(&page).unwrap()));
    assert!(!later.expect(200).text().contains("odata.count"));
    let deleted = lazuli
        .send(&asking("DELETE", &format!("/Orders()?$filter={}", encode("RowKey lt '01150'"))));
    assert_eq!(deleted.expect(200).text(), r#"{"deleted":1150}"#);
    assert_eq!(lazuli.ask("/Orders/$count").expect(200).text(), "50");
}

/// X-4.3.
#[test]
fn a_page_may_carry_the_number_of_all() {
    let lazuli = orders();
    let target = format!("/Orders()?$inlinecount=allpages&$filter={}", encode("N le 2"));
    for (accept, before) in [
        ("application/json;odata=nometadata", "{"),
        ("application/json;odata=minimalmetadata", "{\"odata.metadata\":"),
        ("application/json;odata=fullmetadata", "{\"odata.metadata\":"),
    ] {
        for top in ["", "&$top=1", "&$top=0"] {
            let request = asking("GET", &format!("{target}{top}")).accept(accept);
            let page = lazuli.send(&request).expect(200);
            let text = page.text();
            assert!(text.starts_with(before), "{text}");
            let expect = "\"odata.count\":\"6\",\"value\":[";
            assert!(text.contains(expect), "{top} {text}");
            page.json();
        }
    }
    assert!(!lazuli.ask("/Orders()?$inlinecount=none").expect(200).text().contains("odata.count"));
    lazuli.ask("/Orders()?$inlinecount=some").refused(400, "InvalidInput", "allpages");
    lazuli.get("/Orders()?$inlinecount=allpages").refused(501, "NotImplemented", "");
}

/// X-4.4, X-0.3.
#[test]
fn what_a_filter_selects_is_deleted() {
    let lazuli = orders();
    let delete = |filter: &str| {
        lazuli.send(&asking("DELETE", &format!("/Orders()?$filter={}", encode(filter))))
    };
    let gone = delete("N ge 3").expect(200);
    assert_eq!(gone.text(), r#"{"deleted":6}"#);
    assert_eq!(gone.header("x-lazuli-used"), Some("delete"));
    assert_eq!(gone.header("x-ms-continuation-nextpartitionkey"), None);
    assert_eq!(lazuli.ask("/Orders/$count").expect(200).text(), "6");
    assert_eq!(delete("N ge 3").expect(200).text(), r#"{"deleted":0}"#);
    assert_eq!(
        delete("PartitionKey eq 'a' and RowKey in ('1','9')").expect(200).text(),
        r#"{"deleted":1}"#
    );
    for target in ["/Orders()", "/Orders", "/Orders()?$filter=", "/Orders()?$filter=%20"] {
        lazuli.send(&asking("DELETE", target)).refused(400, "InvalidInput", "$filter");
    }
    let top = format!("/Orders()?$top=1&$filter={}", encode("N eq 1"));
    lazuli.send(&asking("DELETE", &top)).refused(400, "InvalidInput", "$top");
    assert_eq!(lazuli.ask("/Orders/$count").expect(200).text(), "5");
    let unasked = Request::new("DELETE", &format!("/Orders()?$filter={}", encode("N eq 1")));
    lazuli.send(&unasked).refused(405, "MethodNotAllowed", "");
    let missing = asking("DELETE", &format!("/Missing()?$filter={}", encode("N eq 1")));
    lazuli.send(&missing).refused(404, "TableNotFound", "");
}

/// X-4.4, X-0.4.
#[test]
fn a_deletion_needs_r_and_d_and_stays_in_its_range() {
    let lazuli = orders();
    let delete = |token: &str| {
        let target = format!("/Orders()?$filter={}", encode("N ge 1"));
        lazuli.send(&asking("DELETE", &target).sas(token))
    };
    for letters in ["r", "d", "rau"] {
        delete(&token(letters, None)).refused(403, "AuthorizationPermissionMismatch", "");
    }
    assert_eq!(delete(&token("rd", Some(("b", "b")))).expect(200).text(), r#"{"deleted":4}"#);
    assert_eq!(lazuli.ask("/Orders/$count").expect(200).text(), "8");
}

/// X-2.1, X-2.2, X-4: each is explained like a query, with what it cost, and its plan does nothing.
#[test]
fn counts_and_deletions_are_explained() {
    let lazuli = orders();
    let filter = encode("PartitionKey eq 'a' and N ge 3");
    lazuli.clock.turn_at_each_reading(1);
    for (method, target) in [("GET", "/Orders/$count"), ("DELETE", "/Orders()")] {
        let request = asking(method, &format!("{target}?$filter={filter}"));
        let plan = lazuli.send(&request.clone().with("x-lazuli-explain", "plan")).expect(200);
        assert!(plan.text().contains(r#""kind":"Partition""#), "{}", plan.text());
        let run = lazuli.send(&request.with("x-lazuli-explain", "run")).expect(200);
        let plan = run.header("x-lazuli-plan").unwrap();
        assert!(plan.contains(r#""examined":4,"returned":2"#), "{plan}");
        assert!(!plan.contains(r#""bytes":0"#) && !plan.contains(r#""us":0"#), "{plan}");
    }
    lazuli.clock.turn_at_each_reading(0);
    assert_eq!(lazuli.ask("/Orders/$count").expect(200).text(), "10");
    let plan = asking("GET", &format!("/Orders()?{DESC}")).with("x-lazuli-explain", "plan");
    assert!(lazuli.send(&plan).expect(200).header("x-lazuli-used").unwrap().contains("reverse"));
}
