use super::*;
use lazuli_model::{Guid, Properties, Timestamp, Value};
use proptest::prelude::*;
use std::borrow::Cow;

/// The one property of the body `{"PartitionKey":..,"RowKey":..,` + `members` + `}`.
#[track_caller]
fn check(members: &str, expect: Result<Value<'_>, BodyError>) {
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"r",{members}}}"#);
    let got = read_entity(body.as_bytes());
    let got = got.map(|entity| {
        assert_eq!(entity.partition_key.as_deref(), Some("p"));
        assert_eq!(entity.row_key.as_deref(), Some("r"));
        let [(_, value)] = &entity.properties[..] else {
            panic!("one property: {:?}", entity.properties);
        };
        value.clone().into_owned()
    });
    assert_eq!(got, expect.map(Value::into_owned), "{members}");
}

#[track_caller]
fn check_error(body: &str, expect: BodyError) {
    assert_eq!(read_entity(body.as_bytes()), Err(expect), "{body}");
}

/// The body is read as an entity without properties.
#[track_caller]
fn check_ignored(body: &str) {
    let entity = read_entity(body.as_bytes()).unwrap();
    assert!(entity.properties.is_empty(), "{body}: {entity:?}");
}

#[test]
fn types_are_inferred_from_the_spelling() {
    check(r#""a":"2020-01-01T00:00:00Z""#, Ok("2020-01-01T00:00:00Z".into()));
    check(r#""a":true"#, Ok(Value::Boolean(true)));
    check(r#""a":39"#, Ok(Value::Int32(39)));
    check(r#""a":-2147483648"#, Ok(Value::Int32(i32::MIN)));
    check(r#""a":-0"#, Ok(Value::Int32(0)));
    check(r#""a":2147483648"#, Ok(Value::Double(2_147_483_648.0)));
    check(r#""a":3.0"#, Ok(Value::Double(3.0)));
    check(r#""a":1e3"#, Ok(Value::Double(1000.0)));
    check(r#""a":1.5E-3"#, Ok(Value::Double(0.0015)));
    check(r#""a":1e400"#, Err(BodyError::InvalidValue));
}

#[test]
fn an_annotation_fixes_the_type_before_or_after_its_property() {
    let birthday = Timestamp::parse("1973-10-04T00:00:00Z").unwrap();
    check(
        r#""a@odata.type":"Edm.DateTime","a":"1973-10-04T00:00:00""#,
        Ok(Value::DateTime(birthday)),
    );
    check(
        r#""a":"c9da6455-213d-42c9-9a79-3e9149a57833","a@odata.type":"Edm.Guid""#,
        Ok(Value::Guid(Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap())),
    );
    check(r#""a@odata.type":"Edm.Int64","x":null,"a":"5""#, Ok(Value::Int64(5)));
    check(
        r#""a":9007199254740993,"x":null,"a@odata.type":"Edm.Int64""#,
        Ok(Value::Int64(9_007_199_254_740_993)),
    );
    check(
        r#""b@odata.type":"Edm.Int64","c@odata.type":"Edm.Guid","a@odata.type":"Edm.Binary","c":null,"b":null,"a":"YmluYXJ5""#,
        Ok(Value::Binary(b"binary".to_vec().into())),
    );
}

#[test]
fn annotated_values_may_be_text_or_their_own_form() {
    // TR-38; V-12 to V-14.
    check(r#""a":"false","a@odata.type":"Edm.Boolean""#, Ok(Value::Boolean(false)));
    check(r#""a":"42","a@odata.type":"Edm.Int32""#, Ok(Value::Int32(42)));
    check(r#""a":"0","a@odata.type":"Edm.Double""#, Ok(Value::Double(0.0)));
    check(r#""a":5,"a@odata.type":"Edm.Double""#, Ok(Value::Double(5.0)));
    check(r#""a":8589934592,"a@odata.type":"Edm.Double""#, Ok(Value::Double(8_589_934_592.0)));
    check(r#""a":"x","a@odata.type":"Edm.String""#, Ok("x".into()));
    check(r#""a":"","a@odata.type":"Edm.Binary""#, Ok(Value::Binary(vec![].into())));
}

#[test]
fn values_that_do_not_fit_are_refused() {
    // python/test_table_entity.test_entity_with_edmtypes, V-11.
    for members in [
        r#""bool":"not a bool","bool@odata.type":"Edm.Boolean""#,
        r#""a":5,"a@odata.type":"Edm.DateTime""#,
        r#""a":5,"a@odata.type":"Edm.String""#,
        r#""a":true,"a@odata.type":"Edm.String""#,
        r#""a":3.0,"a@odata.type":"Edm.Int32""#,
        r#""a":2147483648,"a@odata.type":"Edm.Int32""#,
        r#""a":"","a@odata.type":"Edm.DateTime""#,
        r#""a":"","a@odata.type":"Edm.Guid""#,
        r#""a":"\u0000""#,
        r#""a":"\ud83e""#,
        r#""a":"\udd80\ud83e""#,
        r#""a":"\ud83eA""#,
    ] {
        check(members, Err(BodyError::InvalidValue));
    }
    check(r#""a":"5","a@odata.type":"Edm.Decimal""#, Err(BodyError::UnknownType));
}

#[test]
fn strings_keep_every_character_json_can_carry() {
    check(r#""a":" \"\\\/\b\f\n\r\t\u00e9\ud83e\udd80 ""#, Ok(" \"\\/\u{8}\u{C}\n\r\té🦀 ".into()));
    check("\"a\":\"ꀕ\u{7F}\"", Ok("ꀕ\u{7F}".into()));
}

#[test]
fn nulls_control_information_and_timestamp_are_dropped() {
    check_ignored(r#"{"a":null,"b@odata.type":"Edm.DateTime","b":null}"#);
    check_ignored(r#"{"odata.etag":"W/\"x\"","odata.metadata":5,"odata.type":null}"#);
    check_ignored(r#"{"Timestamp":"0001-01-01T00:00:00Z","Timestamp@odata.type":"Edm.DateTime"}"#);
    check_ignored(r#"{"a@odata.type":"Edm.Int64","b@odata.navigationLinkUrl":"c"}"#);
    check_ignored(" \t\r\n{ } ");
    check_ignored("\u{FEFF}{}");
}

#[test]
fn etag_is_an_ordinary_name() {
    check(r#""ETag":"x""#, Ok("x".into()));
}

#[test]
fn keys_are_strings_or_missing() {
    let entity = read_entity(br#"{"PartitionKey":null,"RowKey@odata.type":"Edm.String"}"#).unwrap();
    assert_eq!(entity, EntityBody::default());
    for mistyped in
        [r#"{"PartitionKey":5}"#, r#"{"RowKey":true}"#, r#"{"RowKey@odata.type":"Edm.Int64"}"#]
    {
        let entity = read_entity(mistyped.as_bytes()).unwrap();
        assert_eq!(entity, EntityBody { has_mistyped_key: true, ..EntityBody::default() });
    }
    check_error(r#"{"RowKey":"5","RowKey":"5"}"#, BodyError::DuplicateProperty);
}

#[test]
fn a_property_given_twice_survives_for_the_model_to_refuse() {
    let entity = read_entity(br#"{"a":1,"a":2}"#).unwrap();
    assert!(Properties::new(entity.properties).is_err());
}

#[test]
fn malformed_bodies_are_refused() {
    for body in [
        "",
        " ",
        "null",
        "[]",
        "{",
        "{}x",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":'b'}",
        "{\"a\":\"b}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\\u+123\"}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":1e}",
        "{\"a\":+1}",
        "{\"a\":-}",
        "{\"a\":tru}",
        "{\"a\":truex}",
        "{\"a\":NaN}",
        "{\"a\":{}}",
        "{\"a\":[1]}",
        "{\"odata.x\":{}}",
        "{\"a@odata.type\":1}",
    ] {
        check_error(body, BodyError::Malformed);
    }
    assert_eq!(read_entity(b"{\"a\":\"\xFF\"}"), Err(BodyError::Malformed));
    check_error(&"{\"a\":".repeat(100_000), BodyError::Malformed);
}

#[test]
fn text_without_escapes_is_borrowed() {
    let entity = read_entity(r#"{"PartitionKey":"p","ä":"ö"}"#.as_bytes()).unwrap();
    assert!(matches!(entity.partition_key, Some(Cow::Borrowed("p"))));
    assert!(matches!(
        &entity.properties[..],
        [(Cow::Borrowed("ä"), Value::String(Cow::Borrowed("ö")))]
    ));
}

#[test]
fn table_names_are_read_from_their_one_member() {
    let name = |body: &str| read_table_name(body.as_bytes());
    assert_eq!(name(r#"{"TableName": "Orders"}"#), Ok(Some("Orders".into())));
    assert_eq!(name(r#"{"odata.type":"x","TableName":"\u554a"}"#), Ok(Some("啊".into())));
    assert_eq!(name("{}"), Ok(None));
    assert_eq!(name(r#"{"TableName":null}"#), Ok(None));
    assert_eq!(name(r#"{"TableName":5}"#), Err(BodyError::InvalidValue));
    assert_eq!(name("[]"), Err(BodyError::Malformed));
}

proptest! {
    #[test]
    fn reading_never_panics(body in any::<Vec<u8>>(), text in any::<String>()) {
        let _ = read_entity(&body);
        let _ = read_entity(text.as_bytes());
    }

    #[test]
    fn reading_never_panics_on_near_entities(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "{", "}", "\"", ":", ",", "a", "\"a\":", "\"a@odata.type\":", "\"Edm.Int64\"", "\"PartitionKey\":",
                "1", "-", ".5", "e9", "null", "true", "\\", "\\u", "d83e", "é", " ", "\"x\",",
            ]),
            0..16,
        ),
    ) {
        let _ = read_entity(format!("{{{}}}", words.concat()).as_bytes());
    }
}
