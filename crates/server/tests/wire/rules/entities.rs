//! Section 3: the data model.

use crate::harness::{Lazuli, Request, order};

const PROCESSING: &str = "An error occurred while processing this request.";

/// Inserts an entity with these properties and reads it back.
#[track_caller]
fn check(properties: &str, expect: &str) {
    let lazuli = Lazuli::with_rows(&[("r", properties)]);
    assert_eq!(lazuli.stored("r"), expect);
}

#[track_caller]
fn check_refused(properties: &str, code: &str, message: &str) {
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"r",{properties}}}"#);
    Lazuli::with_orders().insert("Orders", &body).expect_error(400, code, message);
}

/// An annotated property.
fn typed(edm_type: &str, value: &str) -> String {
    format!(r#""X@odata.type":"Edm.{edm_type}","X":{value}"#)
}

/// T-3.34.
#[test]
fn negative_zero_loses_its_sign() {
    check(r#""X":-0.0"#, r#""X":0.0"#);
    check(&typed("Double", "\"-0\""), r#""X":0.0"#);
}

/// T-3.36.
#[test]
fn a_date_needs_neither_seconds_nor_a_time() {
    for (text, stored) in [
        ("2024-01-01", "2024-01-01T00:00:00Z"),
        ("2024-01-01Z", "2024-01-01T00:00:00Z"),
        ("2024-01-01T10:20Z", "2024-01-01T10:20:00Z"),
        ("2024-01-01T10:20", "2024-01-01T10:20:00Z"),
        ("2024-01-01T10:20+02:00", "2024-01-01T08:20:00Z"),
    ] {
        check(
            &typed("DateTime", &format!("\"{text}\"")),
            &typed("DateTime", &format!("\"{stored}\"")),
        );
    }
}

/// T-3.1, T-3.2.
#[test]
fn table_names_have_3_to_63_letters_and_digits() {
    let lazuli = Lazuli::empty();
    for name in ["abc", "A12", &"z".repeat(63)] {
        lazuli.create_table(name).expect(201);
    }
}

/// T-3.3 (unverified), T-3.4.
#[test]
fn reserved_names_cannot_be_created() {
    let lazuli = Lazuli::empty();
    let message = "The specifed resource name contains invalid characters.";
    for name in ["tables", "Tables", "$MetricsHourPrimaryTransactionsTable"] {
        lazuli.create_table(name).expect_error(400, "InvalidResourceName", message);
    }
}

/// T-3.7: by default a table can be created again at once.
#[test]
fn a_deleted_table_can_be_created_at_once_and_is_empty() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    lazuli.send(&Request::new("DELETE", "/Tables('orders')")).expect(204);
    assert_eq!(lazuli.get("/Tables").expect(200).items("TableName"), "");
    lazuli.create_table("Orders").expect(201);
    assert_eq!(lazuli.rows(""), "");
}

/// T-3.14.
#[test]
fn a_null_key_is_none() {
    let lazuli = Lazuli::with_orders();
    let message = "The values are not specified for all properties in the entity.";
    let body = r#"{"PartitionKey":null,"RowKey":"r"}"#;
    lazuli.insert("Orders", body).expect_error(400, "PropertiesNeedValue", message);
}

/// T-3.18: the tests of the Python client assert this text.
#[test]
fn a_key_is_a_string() {
    let lazuli = Lazuli::with_orders();
    let text = "One of the request inputs is not valid.";
    for key in ["1", "true", "1.5", r#""x","PartitionKey@odata.type":"Edm.Guid""#] {
        let body = format!(r#"{{"PartitionKey":{key},"RowKey":"r"}}"#);
        lazuli.insert("Orders", &body).expect_error(400, "InvalidInput", text);
    }
}

/// T-3.51: if the URL names the keys, those in the body may be anything.
#[test]
fn a_key_of_another_type_does_not_harm_an_update() {
    let lazuli = Lazuli::with_orders();
    let body = r#"{"PartitionKey":5,"RowKey":"cg==","RowKey@odata.type":"Edm.Binary","A":1}"#;
    lazuli.write("PUT", "r", None, body).expect(204);
    lazuli.write("MERGE", "r", Some("*"), body).expect(204);
    assert_eq!(lazuli.stored("r"), r#""A":1"#);
}

/// T-3.19: the order of UTF-16, not of code points (unverified).
#[test]
fn keys_sort_by_utf16_units() {
    let rows = [("\u{FFFD}", ""), ("😀", ""), ("a", ""), ("B", ""), ("", "")];
    assert_eq!(Lazuli::with_rows(&rows).rows(""), " B a 😀 \u{FFFD}");
}

/// T-3.20.
#[test]
fn property_names_have_case() {
    check(r#""Birthday":1,"birthday":2"#, r#""Birthday":1,"birthday":2"#);
}

/// T-3.24, T-3.25 (unverified).
#[test]
fn an_annotation_may_come_before_or_after_and_be_alone() {
    check(&typed("Int64", "\"5\""), &typed("Int64", "\"5\""));
    check(r#""X":"5","X@odata.type":"Edm.Int64""#, &typed("Int64", "\"5\""));
    check(r#""Y@odata.type":"Edm.Int64","A":1"#, r#""A":1"#);
}

/// T-3.26.
#[test]
fn a_property_comes_once() {
    let message = "A property is specified more than one time.";
    check_refused(r#""A":1,"A":2"#, "DuplicatePropertiesSpecified", message);
}

/// 3.5: inference; the type of an integer beyond Int32 is unverified.
#[test]
fn types_follow_the_spelling() {
    let number = r#""a":2147483647,"b":-2147483648,"c":3.0,"d":1e2,"e":2147483648"#;
    check(number, r#""a":2147483647,"b":-2147483648,"c":3.0,"d":100.0,"e":2147483648.0"#);
    let text =
        r#""a":"2024-01-01T00:00:00Z","b":"c9da6455-213d-42c9-9a79-3e9149a57833","c":"AAAA""#;
    check(text, text);
    check(r#""a":true,"b":false"#, r#""a":true,"b":false"#);
    check_refused(r#""a":{}"#, "InvalidInput", PROCESSING);
    check_refused(r#""a":[1]"#, "InvalidInput", PROCESSING);
}

/// T-3.29, T-3.30 (unverified).
#[test]
fn integers_keep_their_range() {
    check(&typed("Int64", "5"), &typed("Int64", "\"5\""));
    check(&typed("Int64", "\"-9223372036854775808\""), &typed("Int64", "\"-9223372036854775808\""));
    check(&typed("Int32", "7"), r#""X":7"#);
    for property in [
        typed("Int64", "\"9223372036854775808\""),
        typed("Int32", "2147483648"),
        typed("Int32", "1.5"),
        typed("Int32", "\"x\""),
    ] {
        check_refused(&property, "InvalidInput", PROCESSING);
    }
}

/// T-3.31, T-3.32 (unverified).
#[test]
fn what_does_not_convert_is_refused() {
    for property in [
        typed("DateTime", "5"),
        typed("DateTime", "\"yesterday\""),
        typed("Guid", "\"123\""),
        typed("Boolean", "1"),
        typed("Double", "true"),
        typed("Binary", "\"not base64!\""),
        typed("Decimal", "\"1\""),
        typed("DateTimeOffset", "\"2024-01-01T00:00:00Z\""),
        r#""X@odata.type":"String","X":"s""#.to_owned(),
    ] {
        check_refused(&property, "InvalidInput", PROCESSING);
    }
}

/// T-3.34, T-3.35 (the thresholds of the exponent are unverified).
#[test]
fn doubles_are_written_as_dotnet_writes_them() {
    for (given, written) in [
        ("4.81516", "4.81516"),
        ("0.1", "0.1"),
        ("100000000000000.0", "100000000000000.0"),
        ("1000000000000000.0", "1E+15"),
        ("0.0001", "0.0001"),
        ("0.00001", "1E-05"),
        ("1.5e-7", "1.5E-07"),
        ("1.7976931348623157e308", "1.7976931348623157E+308"),
    ] {
        check(&format!(r#""D":{given}"#), &format!(r#""D":{written}"#));
    }
}

/// T-3.36, T-3.37, T-3.39.
#[test]
fn dates_have_up_to_nine_digits_and_keep_seven() {
    for (given, written) in [
        ("2020-01-02T03:04:05Z", "2020-01-02T03:04:05Z"),
        ("2020-01-02T03:04:05.123Z", "2020-01-02T03:04:05.123Z"),
        ("2020-01-02T03:04:05.1234567Z", "2020-01-02T03:04:05.1234567Z"),
        ("2020-01-02T03:04:01.000000001Z", "2020-01-02T03:04:01Z"),
        ("2020-01-02T03:04:05.123456789", "2020-01-02T03:04:05.1234567Z"),
    ] {
        let quoted = |text: &str| format!("\"{text}\"");
        check(&typed("DateTime", &quoted(given)), &typed("DateTime", &quoted(written)));
    }
}

/// T-3.42 (unverified).
#[test]
fn guids_come_back_in_lower_case() {
    let guid = "\"c9da6455-213d-42c9-9a79-3e9149a57833\"";
    check(&typed("Guid", &guid.to_uppercase()), &typed("Guid", guid));
    check(&typed("Guid", "\"{C9DA6455-213D-42C9-9A79-3E9149A57833}\""), &typed("Guid", guid));
}

/// T-3.44, T-3.45 (unverified).
#[test]
fn strings_keep_what_json_can_carry() {
    check(r#""S":"  \t\r\n\"'\\/ ""#, r#""S":"  \t\r\n\"'\\/ ""#);
    check(r#""S":"\u0001\u001f""#, r#""S":"\u0001\u001f""#);
    for text in [r"\u0000", r"\ud800", r"\udc00\ud800", r"\ud83dx"] {
        check_refused(&format!(r#""S":"{text}""#), "InvalidInput", PROCESSING);
    }
}

/// T-3.51, T-3.52 (unverified).
#[test]
fn the_keys_of_the_url_win() {
    let lazuli = Lazuli::with_orders();
    lazuli.write("PUT", "r", None, r#"{"A":1}"#).expect(204);
    let body = r#"{"PartitionKey":"other","RowKey":"other","A":2}"#;
    lazuli.write("MERGE", "r", None, body).expect(204);
    assert_eq!(lazuli.stored("r"), r#""A":2"#);
    assert_eq!(lazuli.rows(""), "r");
}

/// T-5.32 (unverified).
#[test]
fn a_body_is_one_json_object() {
    let lazuli = Lazuli::with_orders();
    for body in ["", "{", "[]", "1", "{} {}", "{'a':1}", "{\"a\":01}", "\u{FEFF}", "null"] {
        lazuli.insert("Orders", body).expect_error(400, "InvalidInput", PROCESSING);
        lazuli.write("PUT", "r", None, body).expect_error(400, "InvalidInput", PROCESSING);
    }
    assert_eq!(lazuli.get(&order("r")).status, 404);
}
