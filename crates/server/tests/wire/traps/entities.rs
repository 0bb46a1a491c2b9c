//! Entities and types.

use crate::harness::{Lazuli, Op, Request, order};

const PROCESSING: &str = "An error occurred while processing this request.";
const VALUE_TOO_LARGE: &str = "The property value exceeds the maximum allowed size (64KB). If the \
     property value is a string, it is UTF-16 encoded and the maximum number of characters should \
     be 32K or less.";
const TOO_MANY_PROPERTIES: &str = "The entity contains more properties than allowed. Each entity \
     can include up to 252 properties to store data. Each entity also has 3 system properties.";
const ENTITY_TOO_LARGE: &str = "The entity is larger than the maximum allowed size (1MB).";

/// Inserts an entity of these properties and reads it back.
#[track_caller]
fn check(properties: &str, expect: &str) {
    let lazuli = Lazuli::with_rows(&[("r", properties)]);
    assert_eq!(lazuli.stored("r"), expect);
}

#[track_caller]
fn check_refused(properties: &str, code: &str, message: &str) {
    let lazuli = Lazuli::with_orders();
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"r",{properties}}}"#);
    lazuli.insert("Orders", &body).expect_error(400, code, message);
    // The same limits hold for every other write.
    for method in ["PUT", "MERGE"] {
        let upsert = lazuli.write(method, "r", None, &format!("{{{properties}}}"));
        upsert.expect_error(400, code, message);
    }
    assert_eq!(lazuli.get(&order("r")).status, 404);
}

/// `count` properties `{name}0`, `{name}1`, … of this value.
fn properties(count: usize, name: &str, value: &str) -> String {
    let all: Vec<String> = (0..count).map(|i| format!(r#""{name}{i}":{value}"#)).collect();
    all.join(",")
}

/// TR-27: a whole Double came back as an integer (T-3.34).
#[test]
fn a_double_is_always_written_as_one() {
    check(r#""D":1.0"#, r#""D":1.0"#);
    check(r#""D@odata.type":"Edm.Double","D":5"#, r#""D":5.0"#);
    check(r#""D@odata.type":"Edm.Double","D":8589934592"#, r#""D":8589934592.0"#);
    check(r#""D":1e300"#, r#""D":1E+300"#);
    check(r#""D":4.94065645841247E-324"#, r#""D":4.94065645841247E-324"#);
    check(r#""D":123456789012345.12"#, r#""D":123456789012345.12"#);
}

/// TR-28: the Timestamp was annotated at minimal metadata (T-2.29).
#[test]
fn the_timestamp_is_annotated_at_full_metadata_alone() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let annotated = |level: &str| {
        let accept = format!("application/json;odata={level}");
        let entity = lazuli.send(&Request::new("GET", &order("r")).accept(&accept)).expect(200);
        entity.text().contains(r#""Timestamp@odata.type":"Edm.DateTime","Timestamp":"#)
    };
    assert!(!annotated("nometadata"));
    assert!(!annotated("minimalmetadata"));
    assert!(annotated("fullmetadata"));
}

/// TR-29: there was no limit to the number of properties (T-5.28).
#[test]
fn an_entity_has_at_most_252_properties() {
    let most = properties(252, "P", "1");
    check(&most, &most);
    check_refused(&properties(253, "P", "1"), "TooManyProperties", TOO_MANY_PROPERTIES);
    // Nulls are not stored, and so not counted (T-3.9).
    check(&format!("{most},{}", properties(10, "N", "null")), &most);
    // A merge is checked by its result.
    let lazuli = Lazuli::with_rows(&[("r", &most)]);
    let grown = lazuli.write("MERGE", "r", None, r#"{"One":1}"#);
    grown.expect_error(400, "TooManyProperties", TOO_MANY_PROPERTIES);
}

/// TR-30: property names had any length and shape (T-3.21, T-3.22).
#[test]
fn property_names_are_short_identifiers() {
    let too_long = "The property name exceeds the maximum allowed length (255).";
    let long = format!(r#""{}":1"#, "n".repeat(255));
    check(&long, &long);
    check_refused(&format!(r#""{}":1"#, "n".repeat(256)), "PropertyNameTooLong", too_long);
    for name in ["a-b", "a b", "a.b", "a$", "1a", "a@b", ""] {
        let property = format!(r#""{name}":1"#);
        check_refused(&property, "PropertyNameInvalid", "The property name is invalid.");
    }
    check(r#""_a1":1,"é":2"#, r#""_a1":1,"\u00e9":2"#);
    check(r#""ꀕ":1"#, r#""\ua015":1"#);
}

/// TR-31: strings over 32K characters were stored (T-5.30).
#[test]
fn a_string_has_at_most_32k_utf16_units() {
    let fits = format!(r#""S":"{}""#, "a".repeat(32 * 1024));
    check(&fits, &fits);
    let too_large = format!(r#""S":"{}""#, "a".repeat(32 * 1024 + 1));
    check_refused(&too_large, "PropertyValueTooLarge", VALUE_TOO_LARGE);
    // Two units each, four bytes in UTF-8 (T-3.8).
    let pairs = format!(r#""S":"{}""#, "😀".repeat(16 * 1024 + 1));
    check_refused(&pairs, "PropertyValueTooLarge", VALUE_TOO_LARGE);
    // One unit each, three bytes in UTF-8: over 64 KiB of text, and still within the limit.
    let lazuli = Lazuli::with_rows(&[("r", &format!(r#""S":"{}""#, "€".repeat(32 * 1024)))]);
    assert_eq!(lazuli.stored("r").matches("\\u20ac").count(), 32 * 1024);
}

/// TR-32: the limit of a binary counted the characters of its base64 (3.2).
#[test]
fn a_binary_has_at_most_64k_bytes() {
    // 65,536 zero bytes are 21,845 groups of three and one byte more.
    let binary = |tail: &str| {
        format!(r#""B@odata.type":"Edm.Binary","B":"{}{tail}""#, "AAAA".repeat(21_845))
    };
    check(&binary("AA=="), &binary("AA=="));
    check_refused(&binary("AAA="), "PropertyValueTooLarge", VALUE_TOO_LARGE);
}

/// TR-33: the limit of an entity was taken from its JSON, on some writes only (T-3.10).
#[test]
fn an_entity_has_at_most_1_mib_by_the_formula() {
    // 4 for the entity, 2 × 2 for the keys, and 8 + 2 + 4 for each string property `A` to `Q`: what
    // is left of 1 MiB is for their texts, none of which is over 64 KiB itself.
    let text_units = (1024 * 1024 - 4 - 2 * 2 - 17 * (8 + 2 + 4)) / 2;
    let each = text_units / 17;
    let entity = |surplus: usize| {
        let text = |name: char| match name {
            'A' => "x".repeat(text_units - 16 * each + surplus),
            _ => "x".repeat(each),
        };
        let all: Vec<String> =
            ('A'..='Q').map(|name| format!(r#""{name}":"{}""#, text(name))).collect();
        all.join(",")
    };
    let lazuli = Lazuli::with_rows(&[("r", &entity(0))]);
    check_refused(&entity(1), "EntityTooLarge", ENTITY_TOO_LARGE);
    // One value can be too much for the entity; the answer says so, not that the value is too large.
    let large = "AAAA".repeat(1024 * 1024 / 3);
    let value = format!(r#""B@odata.type":"Edm.Binary","B":"{large}AA==""#);
    check_refused(&value, "EntityTooLarge", ENTITY_TOO_LARGE);
    // A merge is checked by its result (T-3.12).
    let grown = lazuli.write("MERGE", "r", None, r#"{"Z":true}"#);
    grown.expect_error(400, "EntityTooLarge", ENTITY_TOO_LARGE);
    // Escapes make the JSON long and the entity no larger.
    check(
        &format!(r#""S":"{}""#, r"\u0041".repeat(32 * 1024)),
        &format!(r#""S":"{}""#, "A".repeat(32 * 1024)),
    );
}

/// TR-34: an entity of the empty partition was described as a table (T-2.41).
#[test]
fn metadata_names_the_table_whatever_the_key() {
    let lazuli = Lazuli::with_orders();
    let inserted = lazuli.insert("Orders", r#"{"PartitionKey":"","RowKey":""}"#).expect(201);
    assert!(inserted.text().contains("$metadata#Orders/@Element"), "{}", inserted.text());
    let read = lazuli.get("/Orders(PartitionKey='',RowKey='')").expect(200);
    assert!(read.text().contains("$metadata#Orders/@Element"), "{}", read.text());
}

/// TR-35: bodies over 4 MiB were accepted (T-6.4).
#[test]
fn a_body_has_at_most_4_mib() {
    let lazuli = Lazuli::with_orders();
    let message = "The request body is too large and exceeds the maximum permissible limit.";
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"{}"}}"#, " ".repeat(4 * 1024 * 1024));
    lazuli.insert("Orders", &body).expect_error(413, "RequestBodyTooLarge", message);
    let batch = Request::new("POST", "/$batch").body("multipart/mixed; boundary=b", &body);
    lazuli.send(&batch).expect_error(413, "RequestBodyTooLarge", message);
}

/// TR-36: a date of the year 1 was stored (T-3.40).
#[test]
fn dates_begin_with_1601() {
    let date = |text: &str| format!(r#""D@odata.type":"Edm.DateTime","D":"{text}""#);
    check(&date("1601-01-01T00:00:00Z"), &date("1601-01-01T00:00:00Z"));
    check(&date("9999-12-31T23:59:59.9999999Z"), &date("9999-12-31T23:59:59.9999999Z"));
    for text in ["0001-01-01T00:00:00Z", "1600-12-31T23:59:59.9999999Z"] {
        let message = format!("The 'D' parameter of value '{text}' is out of range.");
        check_refused(&date(text), "OutOfRangeInput", &message);
    }
}

/// TR-37: a Double over the maximum was accepted (T-3.33).
#[test]
fn a_double_out_of_range_is_refused() {
    check(r#""D":1.7976931348623157E+308"#, r#""D":1.7976931348623157E+308"#);
    check_refused(r#""D":1e400"#, "InvalidInput", PROCESSING);
    check_refused(r#""D@odata.type":"Edm.Double","D":"1e400""#, "InvalidInput", PROCESSING);
}

/// TR-38: a value given as text was refused (T-3.27).
#[test]
fn an_annotated_text_is_converted() {
    check(r#""B@odata.type":"Edm.Boolean","B":"false""#, r#""B":false"#);
    check(r#""I@odata.type":"Edm.Int32","I":"42""#, r#""I":42"#);
    check(r#""D@odata.type":"Edm.Double","D":"0""#, r#""D":0.0"#);
    check(
        r#""D@odata.type":"Edm.Double","D":"1.23456789012346e+24""#,
        r#""D":1.23456789012346E+24"#,
    );
    check_refused(r#""B@odata.type":"Edm.Boolean","B":"not a bool""#, "InvalidInput", PROCESSING);
}

/// TR-39: a null crashed the insert (T-3.46).
#[test]
fn a_null_is_not_stored() {
    check(r#""N":null,"I":1"#, r#""I":1"#);
    check(r#""N":null,"N@odata.type":"Edm.DateTime","I":1"#, r#""I":1"#);
    let lazuli = Lazuli::with_rows(&[("r", r#""A":1,"B":2"#)]);
    // A merge leaves the stored value alone, a replace drops it (T-3.47).
    lazuli.write("MERGE", "r", None, r#"{"A":null,"B":3}"#).expect(204);
    assert_eq!(lazuli.stored("r"), r#""A":1,"B":3"#);
    lazuli.write("PUT", "r", None, r#"{"A":null,"B":4}"#).expect(204);
    assert_eq!(lazuli.stored("r"), r#""B":4"#);
}

/// TR-40: `odata.etag` in a body was stored (T-3.49).
#[test]
fn control_members_are_ignored() {
    let control = r#""odata.metadata":"m","odata.type":"t","odata.id":"i","odata.etag":"e",
        "odata.editLink":"l","Timestamp":"0001-01-01T00:00:00Z","Timestamp@odata.type":"Edm.DateTime""#;
    check(&format!(r#"{control},"ETag":"mine","etag":"too""#), r#""ETag":"mine","etag":"too""#);
}

/// TR-41: Atom inside a batch, as diagnostics agents send it, lost its keys (T-2.67).
#[test]
fn atom_works_in_batches_of_old_versions() {
    let lazuli = Lazuli::with_orders();
    let entry = "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\
         <entry xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" \
         xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\" \
         xmlns=\"http://www.w3.org/2005/Atom\"><title /><updated>2014-01-02T03:04:05Z</updated>\
         <author><name /></author><id /><content type=\"application/xml\"><m:properties>\
         <d:PartitionKey>p</d:PartitionKey><d:RowKey>r</d:RowKey>\
         <d:Age m:type=\"Edm.Int32\">23</d:Age><d:Name>x</d:Name><d:Gone m:null=\"true\" />\
         </m:properties></content></entry>";
    let insert = Op::new("POST", "Orders", entry)
        .with("Content-Type", "application/atom+xml;type=entry")
        .with("Accept", "application/atom+xml,application/xml");
    let request = Request::new("POST", "/$batch").version("2013-08-15").without("Accept");
    lazuli.send_batch(&request, &[insert]).expect(&[201]);
    assert_eq!(lazuli.stored("r"), r#""Age":23,"Name":"x""#);
}

/// TR-42: a date with an offset kept it (T-3.38).
#[test]
fn dates_are_stored_as_utc() {
    let stored = |given: &str, expect: &str| {
        check(
            &format!(r#""D@odata.type":"Edm.DateTime","D":"{given}""#),
            &format!(r#""D@odata.type":"Edm.DateTime","D":"{expect}""#),
        );
    };
    stored("2008-07-10T02:00:00+02:00", "2008-07-10T00:00:00Z");
    stored("2008-07-09T20:30:00.5-03:30", "2008-07-10T00:00:00.5Z");
    stored("2008-07-10T00:00:00", "2008-07-10T00:00:00Z");
}

/// TR-43: an empty string was accepted as a date (T-3.41).
#[test]
fn an_empty_string_is_no_date_guid_or_number() {
    for edm_type in ["DateTime", "Guid", "Int64", "Int32", "Double", "Boolean"] {
        let property = format!(r#""X@odata.type":"Edm.{edm_type}","X":"""#);
        check_refused(&property, "InvalidInput", PROCESSING);
    }
    check(r#""X@odata.type":"Edm.Binary","X":"""#, r#""X@odata.type":"Edm.Binary","X":"""#);
    check(r#""X@odata.type":"Edm.String","X":"""#, r#""X":"""#);
}

/// TR-44: the limit of keys counted characters (3.2; the code is unverified).
#[test]
fn a_key_has_at_most_512_utf16_units() {
    let lazuli = Lazuli::with_orders();
    let insert = |partition: &str, row: &str| {
        let body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}"}}"#);
        lazuli.insert("Orders", &body)
    };
    insert(&"k".repeat(512), &"€".repeat(512)).expect(201);
    insert(&"😀".repeat(256), "r").expect(201);
    let too_large = "The key value exceeds the maximum allowed size (1KB).";
    insert(&"k".repeat(513), "r").expect_error(400, "KeyValueTooLarge", too_large);
    insert("p", &"😀".repeat(257)).expect_error(400, "KeyValueTooLarge", too_large);
}
