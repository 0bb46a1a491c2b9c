//! The conformance vectors of the specification, one test each.

use crate::harness::{ACCOUNT, Lazuli, Op, Request, encode, order};

const PROCESSING: &str = "An error occurred while processing this request.";
const NOT_FOUND: &str = "The specified resource does not exist.";
const TABLE_NOT_FOUND: &str = "The table specified does not exist.";
const NOT_SATISFIED: &str = "The update condition specified in the request was not satisfied.";
const XML_NOT_VALID: &str = "XML specified is not syntactically valid.";

/// The doc comment of each test opens with the number of its vector.
#[test]
fn every_vector_has_a_test() {
    for number in 1..=38 {
        let citation = format!("/// V-{number}: ");
        assert_eq!(include_str!("vectors.rs").matches(&citation).count(), 1, "V-{number}");
    }
}

/// V-1: POST /Tables `my_table`.
#[test]
fn v1_a_name_with_bad_characters() {
    let message = "The specifed resource name contains invalid characters.";
    Lazuli::empty().create_table("my_table").expect_error(400, "InvalidResourceName", message);
}

/// V-2: POST /Tables `aa`.
#[test]
fn v2_a_name_too_short() {
    let message = "The specified resource name length is not within the permissible limits.";
    Lazuli::empty().create_table("aa").expect_error(400, "OutOfRangeInput", message);
}

/// V-3: POST /Tables twice.
#[test]
fn v3_a_table_created_twice() {
    let lazuli = Lazuli::empty();
    lazuli.create_table("Orders").expect(201);
    let message = "The table specified already exists.";
    lazuli.create_table("Orders").expect_error(409, "TableAlreadyExists", message);
}

/// V-4: POST /Tables `Abc` then `aBC`.
#[test]
fn v4_a_table_created_in_another_case() {
    let lazuli = Lazuli::empty();
    lazuli.create_table("Abc").expect(201);
    let message = "The table specified already exists.";
    lazuli.create_table("aBC").expect_error(409, "TableAlreadyExists", message);
}

/// V-5: DELETE /Tables('nosuch').
#[test]
fn v5_delete_of_a_missing_table() {
    let delete = Request::new("DELETE", "/Tables('nosuch')");
    Lazuli::empty().send(&delete).expect_error(404, "ResourceNotFound", NOT_FOUND);
}

/// V-6: POST of an entity into a missing table.
#[test]
fn v6_insert_into_a_missing_table() {
    let insert = Lazuli::empty().insert("nosuch", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    insert.expect_error(404, "TableNotFound", TABLE_NOT_FOUND);
}

/// V-7: GET of a missing key.
#[test]
fn v7_read_of_a_missing_entity() {
    Lazuli::with_orders().get(&order("r")).expect_error(404, "ResourceNotFound", NOT_FOUND);
}

/// V-8: POST of an entity without RowKey.
#[test]
fn v8_insert_without_a_key() {
    let lazuli = Lazuli::with_orders();
    let message = "The values are not specified for all properties in the entity.";
    for body in [r#"{"PartitionKey":"p"}"#, r#"{"RowKey":"r"}"#, "{}"] {
        lazuli.insert("Orders", body).expect_error(400, "PropertiesNeedValue", message);
    }
}

/// V-9: POST of an entity of 253 properties.
#[test]
fn v9_too_many_properties() {
    let properties: String = (0..253).map(|i| format!(r#","P{i}":1"#)).collect();
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"r"{properties}}}"#);
    let message = "The entity contains more properties than allowed. Each entity can include up to \
         252 properties to store data. Each entity also has 3 system properties.";
    let insert = Lazuli::with_orders().insert("Orders", &body);
    insert.expect_error(400, "TooManyProperties", message);
}

/// V-10: POST of an entity with a name of 256 characters.
#[test]
fn v10_a_property_name_too_long() {
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"r","{}":1}}"#, "n".repeat(256));
    let message = "The property name exceeds the maximum allowed length (255).";
    let insert = Lazuli::with_orders().insert("Orders", &body);
    insert.expect_error(400, "PropertyNameTooLong", message);
}

/// V-11: PATCH of a text that is not a Boolean.
#[test]
fn v11_a_text_that_is_no_boolean() {
    let body = r#"{"b":"not a bool","b@odata.type":"Edm.Boolean"}"#;
    let patch = Lazuli::with_orders().write("PATCH", "r", None, body);
    patch.expect_error(400, "InvalidInput", PROCESSING);
}

/// V-12: PATCH of `"false"` as Edm.Boolean, then GET.
#[test]
fn v12_a_text_that_is_a_boolean() {
    let lazuli = Lazuli::with_orders();
    let body = r#"{"b":"false","b@odata.type":"Edm.Boolean"}"#;
    lazuli.write("PATCH", "r", None, body).expect(204);
    assert_eq!(lazuli.stored("r"), r#""b":false"#);
}

/// V-13: PATCH of `"0"` as Edm.Double, then GET at minimal metadata.
#[test]
fn v13_a_text_that_is_a_double() {
    let lazuli = Lazuli::with_orders();
    let body = r#"{"d":"0","d@odata.type":"Edm.Double"}"#;
    lazuli.write("PATCH", "r", None, body).expect(204);
    assert_eq!(lazuli.stored("r"), r#""d":0.0"#);
}

/// V-14: insert of `5` as Edm.Double, then GET.
#[test]
fn v14_an_integer_that_is_a_double() {
    let lazuli = Lazuli::with_rows(&[("r", r#""d":5,"d@odata.type":"Edm.Double""#)]);
    assert_eq!(lazuli.stored("r"), r#""d":5.0"#);
}

/// V-15: insert of a date with six digits, then GET.
#[test]
fn v15_a_date_loses_its_last_zeros() {
    let date = |text: &str| format!(r#""d@odata.type":"Edm.DateTime","d":"{text}""#);
    let lazuli = Lazuli::with_rows(&[("r", &date("2011-11-04T00:05:23.283000Z"))]);
    assert_eq!(lazuli.stored("r"), date("2011-11-04T00:05:23.283Z"));
}

/// V-16: insert of Infinity, -Infinity and NaN, then GET at minimal metadata.
#[test]
fn v16_doubles_that_are_no_numbers() {
    let properties = r#""a@odata.type":"Edm.Double","a":"Infinity","b@odata.type":"Edm.Double","b":"-Infinity","c@odata.type":"Edm.Double","c":"NaN""#;
    let lazuli = Lazuli::with_rows(&[("r", properties)]);
    assert_eq!(lazuli.stored("r"), properties);
}

/// V-17: GET with `$select=nosuch`.
#[test]
fn v17_a_selected_property_that_is_missing() {
    let lazuli = Lazuli::with_rows(&[("r", r#""a":1"#)]);
    let entity = lazuli.get(&format!("{}?$select=nosuch", order("r"))).expect(200);
    let base = format!("http://{}/{ACCOUNT}", lazuli.address);
    let expect = format!(
        r#"{{"odata.metadata":"{base}/$metadata#Orders/@Element&$select=nosuch","odata.etag":"W/\"datetime'2024-07-31T18%3A30%3A00.0000002Z'\"","nosuch":null}}"#
    );
    assert_eq!(entity.text(), expect);
}

/// V-18: GET with `$filter=aaa bbb ccc`.
#[test]
fn v18_a_filter_that_is_none() {
    let answer = Lazuli::with_orders().get(&format!("/Orders()?$filter={}", encode("aaa bbb ccc")));
    answer.expect_error(400, "InvalidInput", "Syntax error at position 7 in 'aaa bbb ccc'.");
}

/// V-19: GET with `$filter=PartitionKey eq 12345`.
#[test]
fn v19_a_key_compared_with_a_number() {
    let filter = encode("PartitionKey eq 12345");
    let answer = Lazuli::with_orders().get(&format!("/Orders()?$filter={filter}"));
    let message = "A binary operator with incompatible types was detected. Found operand types \
                   'Edm.String' and 'Edm.Int32' for operator kind 'Equal'.";
    answer.expect_error(400, "InvalidInput", message);
}

/// V-20: GET with `$filter=Foo ne ''`, Foo missing on one entity.
#[test]
fn v20_ne_leaves_out_what_lacks_the_property() {
    let lazuli = Lazuli::with_rows(&[("with", r#""Foo":"x""#), ("without", "")]);
    assert_eq!(lazuli.rows("Foo ne ''"), "with");
}

/// V-21: PUT with `If-Match: *` on a missing entity.
#[test]
fn v21_update_of_a_missing_entity() {
    let put = Lazuli::with_orders().write("PUT", "r", Some("*"), "{}");
    put.expect_error(404, "ResourceNotFound", NOT_FOUND);
}

/// V-22: PUT without If-Match on a missing entity.
#[test]
fn v22_upsert_of_a_missing_entity() {
    let lazuli = Lazuli::with_orders();
    lazuli.write("PUT", "r", None, r#"{"a":1}"#).expect(204);
    assert_eq!(lazuli.stored("r"), r#""a":1"#);
}

/// V-23: PATCH with a stale etag.
#[test]
fn v23_a_stale_etag() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let etag = lazuli.get(&order("r")).expect(200).header("etag").unwrap().to_owned();
    lazuli.write("PATCH", "r", Some(&etag), "{}").expect(204);
    let stale = lazuli.write("PATCH", "r", Some(&etag), "{}");
    stale.expect_error(412, "UpdateConditionNotSatisfied", NOT_SATISFIED);
}

/// V-24: DELETE with `If-Match: W/"wrong"`.
#[test]
fn v24_a_foreign_etag() {
    let delete = Lazuli::with_rows(&[("r", "")]).write("DELETE", "r", Some("W/\"wrong\""), "");
    let message = "The condition specified using HTTP conditional header(s) is not met.";
    delete.expect_error(412, "ConditionNotMet", message);
}

/// V-25: a batch of 101 inserts.
#[test]
fn v25_too_many_operations() {
    let lazuli = Lazuli::with_orders();
    let inserts: Vec<Op> = (0..101).map(|row| Op::insert(&row.to_string())).collect();
    let message = "99:The batch request operation exceeds the maximum 100 changes per change set.";
    lazuli.batch(&inserts).expect_error(400, "InvalidInput", message);
    assert_eq!(lazuli.rows(""), "");
}

/// V-26: a batch with the same RowKey at 0 and 1.
#[test]
fn v26_a_row_twice() {
    let message = "1:The batch request contains multiple changes with same row key. An entity can \
         appear only once in a batch request.";
    let answer = Lazuli::with_orders().batch(&[Op::insert("a"), Op::insert("a")]);
    answer.expect_error(400, "InvalidDuplicateRow", message);
}

/// V-27: a batch with another PartitionKey at 1.
#[test]
fn v27_two_partitions() {
    let other = Op::new("POST", "Orders", r#"{"PartitionKey":"q","RowKey":"r"}"#);
    let message = "1:All commands in a batch must operate on same entity group.";
    let answer = Lazuli::with_orders().batch(&[Op::insert("a"), other]);
    answer.expect_error(400, "CommandsInBatchActOnDifferentPartitions", message);
}

/// V-28: a batch of 3 inserts whose third exists.
#[test]
fn v28_the_third_of_three_exists() {
    let lazuli = Lazuli::with_rows(&[("c", "")]);
    let answer = lazuli.batch(&[Op::insert("a"), Op::insert("b"), Op::insert("c")]);
    let message = "2:The specified entity already exists.";
    answer.expect_error(409, "EntityAlreadyExists", message);
    assert_eq!(lazuli.rows(""), "c");
}

/// V-29: a batch of 1 delete of a missing entity.
#[test]
fn v29_a_lone_delete_of_a_missing_entity() {
    let delete = Op::on("DELETE", "r", "").with("If-Match", "*");
    let answer = Lazuli::with_orders().batch(&[delete]);
    answer.expect_error(404, "ResourceNotFound", NOT_FOUND);
}

/// V-30: a batch of 1 insert into a missing table.
#[test]
fn v30_a_lone_insert_into_a_missing_table() {
    let answer = Lazuli::empty().batch(&[Op::insert("r")]);
    answer.expect_error(404, "TableNotFound", &format!("0:{TABLE_NOT_FOUND}"));
}

/// V-31: a batch with a lone GET of a missing entity.
#[test]
fn v31_a_lone_query_of_a_missing_entity() {
    let answer = Lazuli::with_orders().batch_query("Orders(PartitionKey='p',RowKey='r')");
    assert!(!answer.change_set);
    answer.expect_error(404, "ResourceNotFound", &format!("0:{NOT_FOUND}"));
}

/// V-32: the pages of 5 rows with `$top=2`.
#[test]
fn v32_three_pages_of_five_rows() {
    let rows = [("1", ""), ("12", ""), ("123", ""), ("1234", ""), ("12345", "")];
    let lazuli = Lazuli::with_rows(&rows);
    let first = lazuli.get("/Orders()?$top=2").expect(200);
    assert_eq!(first.row_keys(), "1 12");
    let first = first.expect_header("x-ms-continuation-nextpartitionkey", Some("1!4!cA--"));
    first.expect_header("x-ms-continuation-nextrowkey", Some("1!4!MTIz"));
    let next = "/Orders()?$top=2&NextPartitionKey=1!4!cA--&NextRowKey=";
    let second = lazuli.get(&format!("{next}1!4!MTIz")).expect(200);
    assert_eq!(second.row_keys(), "123 1234");
    let second = second.expect_header("x-ms-continuation-nextrowkey", Some("1!8!MTIzNDU-"));
    let token = encode(second.header("x-ms-continuation-nextrowkey").unwrap());
    let third = lazuli.get(&format!("{next}{token}")).expect(200);
    assert_eq!(third.row_keys(), "12345");
    let third = third.expect_header("x-ms-continuation-nextpartitionkey", None);
    third.expect_header("x-ms-continuation-nextrowkey", None);
}

/// V-33: Set ACL with 6 ids.
#[test]
fn v33_too_many_policies() {
    let ids = |count: usize| -> String {
        let one = |i| format!("<SignedIdentifier><Id>{i}</Id></SignedIdentifier>");
        format!(
            "<SignedIdentifiers>{}</SignedIdentifiers>",
            (0..count).map(one).collect::<String>()
        )
    };
    let lazuli = Lazuli::with_orders();
    let set = |body: &str| {
        let request = Request::new("PUT", "/Orders?comp=acl").accept("application/xml");
        lazuli.send(&request.body("application/xml", body))
    };
    set(&ids(5)).expect(204);
    set(&ids(6)).expect_xml_error(400, "InvalidXmlDocument", XML_NOT_VALID);
}

const PROPERTIES: &str = "/?restype=service&comp=properties";

fn metrics(section: &str, days: u32) -> String {
    format!(
        "<{section}><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
         <RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy></{section}>"
    )
}

fn set_properties(sections: &str) -> Request {
    let body = format!("<StorageServiceProperties>{sections}</StorageServiceProperties>");
    Request::new("PUT", PROPERTIES).accept("application/xml").body("application/xml", &body)
}

/// V-34: Set properties with Days=366.
#[test]
fn v34_retention_of_366_days() {
    let lazuli = Lazuli::empty();
    lazuli.send(&set_properties(&metrics("HourMetrics", 365))).expect(202);
    for days in [366, 0] {
        let answer = lazuli.send(&set_properties(&metrics("HourMetrics", days)));
        answer.expect_xml_error(400, "InvalidXmlDocument", XML_NOT_VALID);
    }
}

/// V-35: Set MinuteMetrics only, then GET.
#[test]
fn v35_sections_are_set_one_by_one() {
    let lazuli = Lazuli::empty();
    let get = Request::new("GET", PROPERTIES).accept("application/xml");
    lazuli.send(&set_properties(&metrics("HourMetrics", 5))).expect(202);
    let before = lazuli.send(&get).expect(200).text().to_owned();
    lazuli.send(&set_properties(&metrics("MinuteMetrics", 7))).expect(202);
    let after = lazuli.send(&get).expect(200).text().to_owned();
    let off = "<MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy>\
         <Enabled>false</Enabled></RetentionPolicy></MinuteMetrics>";
    assert_eq!(after, before.replace(off, &metrics("MinuteMetrics", 7)));
    assert_ne!(after, before);
}

/// V-36: insert of a key with `'`; its Location.
#[test]
fn v36_a_quote_in_location() {
    let lazuli = Lazuli::with_orders();
    let inserted =
        lazuli.insert("Orders", r#"{"PartitionKey":"o'clock","RowKey":"r"}"#).expect(201);
    let location = inserted.header("location").unwrap();
    assert!(location.ends_with("/Orders(PartitionKey='o''clock',RowKey='r')"), "{location}");
}

/// V-37: GET without Accept at version 2019-02-02.
#[test]
fn v37_atom_by_default_is_refused() {
    let lazuli = Lazuli::with_orders();
    let answer = lazuli.send(&Request::new("GET", "/Orders()").without("Accept"));
    answer.expect_xml_error(415, "AtomFormatNotSupported", "Atom format is not supported.");
}

/// V-38: Accept minimal metadata, `$format` full.
#[test]
fn v38_format_overrides_accept() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let answer = lazuli.get("/Orders()?$format=application/json;odata=fullmetadata").expect(200);
    assert!(answer.text().contains(&format!(r#""odata.type":"{ACCOUNT}.Orders""#)));
    let full = "application/json;odata=fullmetadata;streaming=true;charset=utf-8";
    answer.expect_header("content-type", Some(full));
}
