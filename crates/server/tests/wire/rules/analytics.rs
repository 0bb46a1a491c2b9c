//! Section 9.7: the analytics tables, which the service fills and clients read.

use crate::harness::{Json, Lazuli, Op, Request, Response, encode, order};
use lazuli_server::Extent;

const HOURLY: &str = "$MetricsHourPrimaryTransactionsTable";
const MINUTELY: &str = "$MetricsMinutePrimaryTransactionsTable";
const HOURLY_SECONDARY: &str = "$MetricsHourSecondaryTransactionsTable";
const NOT_FOUND: &str = "The table specified does not exist.";
const REFUSED: &str = "The account being accessed does not have sufficient permissions to execute \
     this operation.";

/// Sets one of the two sections. `apis` is `None` to turn metrics off.
fn set(lazuli: &Lazuli, section: &str, apis: Option<bool>, days: Option<u16>) {
    let (enabled, apis) = match apis {
        Some(apis) => (true, format!("<IncludeAPIs>{apis}</IncludeAPIs>")),
        None => (false, String::new()),
    };
    let retention = match days {
        Some(days) => format!("<Enabled>true</Enabled><Days>{days}</Days>"),
        None => "<Enabled>false</Enabled>".to_owned(),
    };
    let body = format!(
        "<StorageServiceProperties><{section}><Version>1.0</Version><Enabled>{enabled}</Enabled>\
         {apis}<RetentionPolicy>{retention}</RetentionPolicy></{section}>\
         </StorageServiceProperties>"
    );
    let request = Request::new("PUT", "/?restype=service&comp=properties");
    lazuli.send(&request.accept("application/xml").body("application/xml", &body)).expect(202);
}

fn counting(section: &str, apis: bool) -> Lazuli {
    let lazuli = Lazuli::with_orders();
    set(&lazuli, section, Some(apis), None);
    lazuli
}

/// Lets a minute pass and writes its counts.
fn pass_a_minute(lazuli: &Lazuli) {
    lazuli.clock.advance_seconds(60);
    lazuli.flush_analytics(Extent::Complete);
}

fn query(lazuli: &Lazuli, table: &str, filter: &str) -> Response {
    lazuli.get(&format!("/{table}()?$filter={}", encode(filter)))
}

/// The rows of a table as `partition/row=TotalRequests`, those of the system left out.
#[track_caller]
fn totals(lazuli: &Lazuli, table: &str) -> Vec<String> {
    let response = query(lazuli, table, "RowKey ge 'user'").expect(200);
    let json = response.json();
    let Some(Json::Array(items)) = json.get("value") else { panic!("{}", response.text()) };
    let text = |item: &Json, name| item.get(name).and_then(Json::text).unwrap().to_owned();
    let row = |item| {
        format!(
            "{}/{}={}",
            text(item, "PartitionKey"),
            text(item, "RowKey"),
            text(item, "TotalRequests")
        )
    };
    items.iter().map(row).collect()
}

/// T-9.5, T-3.4: nothing is counted unless requested, and there are no tables for it.
#[test]
fn a_new_account_has_no_analytics() {
    let lazuli = Lazuli::with_orders();
    pass_a_minute(&lazuli);
    for table in [HOURLY, MINUTELY, "$MetricsCapacityBlob", "$MetricsTransactionsTable"] {
        lazuli.get(&format!("/{table}()")).expect_error(404, "TableNotFound", NOT_FOUND);
    }
}

/// T-9.42, T-9.45.
#[test]
fn requests_are_counted_by_minute_and_operation() {
    let lazuli = counting("MinuteMetrics", true);
    lazuli.insert("Orders", r#"{"PartitionKey":"p","RowKey":"r"}"#).expect(201);
    lazuli.write("PUT", "r", None, "{}").expect(204);
    lazuli.write("PUT", "r", Some("*"), "{}").expect(204);
    lazuli.write("MERGE", "s", None, "{}").expect(204);
    lazuli.batch(&[Op::insert("t")]);
    pass_a_minute(&lazuli);
    assert_eq!(
        totals(&lazuli, MINUTELY),
        [
            // The change of the settings itself is counted: they apply when it is answered.
            "20240731T1830/user;All=6",
            "20240731T1830/user;EntityGroupTransaction=1",
            "20240731T1830/user;InsertEntity=1",
            "20240731T1830/user;InsertOrMergeEntity=1",
            "20240731T1830/user;InsertOrReplaceEntity=1",
            "20240731T1830/user;SetTableServiceProperties=1",
            "20240731T1830/user;UpdateEntity=1",
        ]
    );
    lazuli.get(&format!("/{HOURLY}()")).expect_error(404, "TableNotFound", NOT_FOUND);
}

/// T-9.45: without IncludeAPIs, only the sum; and that for every interval, with requests or without.
#[test]
fn an_hour_is_one_row_that_grows() {
    let lazuli = counting("HourMetrics", false);
    pass_a_minute(&lazuli);
    assert_eq!(totals(&lazuli, HOURLY), ["20240731T1800/user;All=1"]);
    pass_a_minute(&lazuli);
    assert_eq!(totals(&lazuli, HOURLY), ["20240731T1800/user;All=2"]);
    lazuli.clock.advance_seconds(3600);
    lazuli.flush_analytics(Extent::Complete);
    assert_eq!(totals(&lazuli, HOURLY), ["20240731T1800/user;All=3", "20240731T1900/user;All=0"]);
    // The old name still works.
    assert_eq!(totals(&lazuli, "$MetricsTransactionsTable").len(), 2);
    assert_eq!(
        query(&lazuli, HOURLY, "RowKey eq 'system;All'").row_keys(),
        "system;All system;All"
    );
}

/// T-9.43, T-9.44.
#[test]
fn columns_tell_outcomes_credentials_and_sizes() {
    let lazuli = counting("HourMetrics", false);
    lazuli.get(&order("missing")).expect(404);
    // A batch fails if any of its operations fails, whatever its own status.
    lazuli.batch(&[Op::on("DELETE", "missing", "").with("If-Match", "*")]);
    lazuli.send(&Request::new("GET", "/Tables").unsigned()).expect(403);
    lazuli.send(&Request::new("GET", "/Orders()").sas("sv=2019-02-02&sig=x")).expect(403);
    pass_a_minute(&lazuli);
    let row = lazuli.get(&format!("/{HOURLY}(PartitionKey='20240731T1800',RowKey='user;All')"));
    let json = row.expect(200).json();
    for (name, value) in [
        ("TotalRequests", "5"),
        ("TotalBillableRequests", "4"),
        ("Success", "1"),
        ("ClientOtherError", "2"),
        ("AnonymousAuthorizationError", "1"),
        ("SASAuthorizationError", "1"),
        ("AnonymousSuccess", "0"),
    ] {
        assert_eq!(json.get(name).and_then(Json::text), Some(value), "{name}");
        let kind = json.get(&format!("{name}@odata.type")).and_then(Json::text);
        assert_eq!(kind, Some("Edm.Int64"), "{name}");
    }
    for (name, value) in [
        ("Availability", "100.0"),
        ("PercentSuccess", "20.0"),
        ("PercentClientOtherError", "40.0"),
        ("PercentAuthorizationError", "40.0"),
        ("AverageE2ELatency", "0.0"),
    ] {
        assert_eq!(json.get(name), Some(&Json::Number(value.to_owned())), "{name}");
    }
    for name in ["TotalIngress", "TotalEgress"] {
        let bytes: u64 = json.get(name).and_then(Json::text).unwrap().parse().unwrap();
        assert!(bytes > 400, "{name}: {bytes}");
    }
}

#[test]
fn the_secondary_is_counted_apart() {
    let lazuli = counting("HourMetrics", true);
    lazuli.send(&Request::new("GET", "/Orders()").at_secondary()).expect(200);
    pass_a_minute(&lazuli);
    assert_eq!(
        totals(&lazuli, HOURLY_SECONDARY),
        ["20240731T1800/user;All=1", "20240731T1800/user;QueryEntities=1"]
    );
}

/// Accounts do not see each other's counts.
#[test]
fn accounts_are_counted_apart() {
    let lazuli = counting("HourMetrics", false);
    let theirs = Request::new("GET", &format!("/{HOURLY}()")).at_other(0);
    lazuli.send(&theirs).expect_error(404, "TableNotFound", NOT_FOUND);
    pass_a_minute(&lazuli);
    assert_eq!(totals(&lazuli, HOURLY), ["20240731T1800/user;All=1"]);
}

#[test]
fn counting_ends_when_it_is_turned_off() {
    let lazuli = counting("MinuteMetrics", false);
    pass_a_minute(&lazuli);
    set(&lazuli, "MinuteMetrics", None, None);
    pass_a_minute(&lazuli);
    assert_eq!(totals(&lazuli, MINUTELY), ["20240731T1830/user;All=1"]);
}

/// The unfinished minute is written when the server stops, and added to when it continues.
#[test]
fn a_stop_writes_what_was_counted() {
    let lazuli = counting("MinuteMetrics", false);
    lazuli.flush_analytics(Extent::Complete);
    assert_eq!(totals(&lazuli, MINUTELY), ["20240731T1829/user;All=0"]);
    lazuli.flush_analytics(Extent::All);
    lazuli.get("/Tables").expect(200);
    lazuli.flush_analytics(Extent::All);
    let last = totals(&lazuli, MINUTELY).pop();
    assert_eq!(last.as_deref(), Some("20240731T1830/user;All=3"));
}

/// T-9.8: entities older than the retention are deleted.
#[test]
fn retention_deletes_what_is_old() {
    let lazuli = counting("HourMetrics", true);
    pass_a_minute(&lazuli);
    set(&lazuli, "HourMetrics", Some(false), Some(1));
    lazuli.clock.advance_seconds(24 * 3600);
    lazuli.flush_analytics(Extent::Complete);
    let days: Vec<_> = totals(&lazuli, HOURLY).iter().map(|row| row[..8].to_owned()).collect();
    assert_eq!(days, ["20240801"]);
}

/// T-4.76.
#[test]
fn analytics_tables_are_not_listed() {
    let lazuli = counting("HourMetrics", true);
    assert_eq!(lazuli.get("/Tables").expect(200).items("TableName"), "Orders");
    let all = format!("/Tables?$filter={}", encode("TableName ge '$'"));
    assert_eq!(lazuli.get(&all).expect(200).items("TableName"), "Orders");
    let one = lazuli.get(&format!("/Tables('{HOURLY}')")).expect(200);
    assert!(one.text().ends_with(&format!(r#""TableName":"{HOURLY}"}}"#)), "{}", one.text());
}

/// T-3.4, T-9.47.
#[test]
fn clients_read_and_empty_analytics_tables_and_nothing_else() {
    let lazuli = counting("HourMetrics", false);
    pass_a_minute(&lazuli);
    let row = format!("/{HOURLY}(PartitionKey='20240731T1800',RowKey='user;All')");
    for (method, target) in [
        ("POST", format!("/{HOURLY}")),
        ("PUT", row.clone()),
        ("MERGE", row.clone()),
        ("DELETE", format!("/Tables('{HOURLY}')")),
    ] {
        let request = Request::new(method, &target).json(r#"{"PartitionKey":"p","RowKey":"r"}"#);
        lazuli.send(&request).expect_error(403, "InsufficientAccountPermissions", REFUSED);
    }
    let invalid = "The specifed resource name contains invalid characters.";
    lazuli.create_table(HOURLY).expect_error(400, "InvalidResourceName", invalid);
    lazuli.send(&Request::new("DELETE", &row).with("If-Match", "*")).expect(204);
    lazuli.get(&row).expect(404);
}
