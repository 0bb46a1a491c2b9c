use super::super::{Context, EntityCollection, TableCollection, write_entity, write_error};
use super::*;
use crate::media::MetadataLevel;
use lazuli_model::{ETag, Guid, Value};
use proptest::prelude::*;

const LEVELS: [MetadataLevel; 3] =
    [MetadataLevel::None, MetadataLevel::Minimal, MetadataLevel::Full];

fn context(level: MetadataLevel) -> Context<'static> {
    Context {
        base: "http://127.0.0.1:10002/acct/",
        account: "acct",
        table: "People",
        level,
        minimal_etag: true,
        select: None,
    }
}

/// A value that is also read back correctly without an annotation for its type.
fn value() -> impl Strategy<Value = Value<'static>> {
    let text = any::<String>().prop_map(|text| text.replace('\0', ""));
    let ticks = Timestamp::EDM_MIN.ticks()..=Timestamp::MAX.ticks();
    prop_oneof![
        text.prop_map(|text| Value::String(text.into())),
        any::<bool>().prop_map(Value::Boolean),
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        any::<f64>()
            .prop_filter("NaN is unequal to itself", |v| !v.is_nan())
            .prop_map(Value::Double),
        ticks.prop_map(|ticks| Value::DateTime(Timestamp::from_ticks(ticks).unwrap())),
        any::<[u8; 16]>().prop_map(|bytes| Value::Guid(Guid(bytes))),
        any::<Vec<u8>>().prop_map(|bytes| Value::Binary(bytes.into())),
    ]
}

proptest! {
    #[test]
    fn what_the_server_writes_with_metadata_is_read(
        keys in any::<(String, String)>(),
        // A name occurs once in an entity.
        properties in prop::collection::btree_map("[a-zA-Z_][a-zA-Z0-9_]{0,8}", value(), 0..6),
        ticks in 0..=Timestamp::MAX.ticks(),
    ) {
        let time = Timestamp::from_ticks(ticks).unwrap();
        for level in [MetadataLevel::Minimal, MetadataLevel::Full] {
            let context = context(level);
            let borrowed = properties.iter().map(|(name, value)| (name.as_str(), value.as_ref()));
            let mut lone = Vec::new();
            write_entity(&mut lone, &context, &keys.0, &keys.1, time, borrowed.clone());
            let mut feed = Vec::new();
            let mut collection = EntityCollection::begin(&mut feed, &context);
            collection.entity(&mut feed, &context, &keys.0, &keys.1, time, borrowed.clone());
            collection.entity(&mut feed, &context, &keys.0, &keys.1, time, borrowed);
            collection.end(&mut feed);

            let lone = read_answered_entity(&lone).unwrap();
            let mut etag = Vec::new();
            ETag(time).write(&mut etag);
            prop_assert_eq!(lone.etag.as_deref().map(str::as_bytes), Some(&*etag));
            prop_assert_eq!(lone.timestamp, Some(time));
            prop_assert_eq!(lone.body.partition_key.as_deref(), Some(&*keys.0));
            prop_assert_eq!(lone.body.row_key.as_deref(), Some(&*keys.1));
            let read: Vec<_> =
                lone.body.properties.iter().map(|(name, value)| (&**name, value.clone())).collect();
            let expect: Vec<_> =
                properties.iter().map(|(name, value)| (&**name, value.clone())).collect();
            prop_assert_eq!(read, expect);
            let mut entities = Vec::new();
            read_feed(&feed, |entity| entities.push(entity)).unwrap();
            prop_assert_eq!(&entities, &[lone.clone(), lone.clone()]);
        }
    }

    #[test]
    fn no_body_makes_a_reader_panic(body in any::<Vec<u8>>()) {
        let _ = read_answered_entity(&body);
        let _ = read_feed(&body, |_| {});
        let _ = read_tables(&body);
        let _ = read_error(&body);
    }
}

#[test]
fn without_metadata_there_is_no_etag() {
    let mut body = Vec::new();
    let time = Timestamp::UNIX_EPOCH;
    write_entity(&mut body, &context(MetadataLevel::None), "p", "r", time, std::iter::empty());
    let entity = read_answered_entity(&body).unwrap();
    assert_eq!((entity.etag, entity.timestamp), (None, Some(time)));
}

#[test]
fn a_null_is_an_absent_property() {
    // T-4.44.
    let entity = read_answered_entity(br#"{"odata.etag":"W/\"1\"","Name":null,"Age":3}"#).unwrap();
    assert_eq!(entity.etag.as_deref(), Some("W/\"1\""));
    assert_eq!(entity.body.properties, [("Age".into(), Value::Int32(3))]);
    assert_eq!(entity.body.partition_key, None);
}

#[test]
fn control_members_may_be_nested() {
    let body = br#"{"odata.x":{"a":[1,{"b":null}]},"Age":3}"#;
    assert_eq!(read_answered_entity(body).unwrap().body.properties.len(), 1);
    let deep = format!(r#"{{"odata.x":{}1{},"Age":3}}"#, "[".repeat(17), "]".repeat(17));
    assert_eq!(read_answered_entity(deep.as_bytes()), Err(BodyError::Malformed));
}

#[test]
fn tables_are_listed_at_every_level() {
    for level in LEVELS {
        let mut body = Vec::new();
        let base = "http://127.0.0.1:10002/acct/";
        let mut collection = TableCollection::begin(&mut body, base, level, None);
        for name in ["Orders", "People"] {
            collection.table(&mut body, base, "acct", level, name);
        }
        collection.end(&mut body);
        assert_eq!(read_tables(&body).unwrap(), ["Orders", "People"], "{level:?}");
    }
    assert_eq!(read_tables(br#"{"value":[]}"#).unwrap(), Vec::<String>::new());
    assert_eq!(read_tables(br#"{"value":[{}]}"#), Err(BodyError::InvalidValue));
    assert_eq!(read_tables(br#"{}"#), Err(BodyError::Malformed));
}

#[test]
fn errors_are_read_as_the_server_and_others_write_them() {
    let mut body = Vec::new();
    write_error(&mut body, "ResourceNotFound", "line\nRequestId:1");
    let pair = |code: &str, message: &str| Ok((code.to_owned(), message.to_owned()));
    assert_eq!(read_error(&body), pair("ResourceNotFound", "line\nRequestId:1"));
    let verbose =
        br#"{"error":{"code":"X","message":{"lang":"en-us","value":"v"},"innererror":{}}}"#;
    assert_eq!(read_error(verbose), pair("X", "v"));
    let plain = br#"{"odata.error":{"code":"X","message":"v"}}"#;
    assert_eq!(read_error(plain), pair("X", "v"));
    assert_eq!(read_error(br#"{"odata.error":{"code":7}}"#), pair("", ""));
    assert_eq!(read_error(br#"{"value":[]}"#), Err(BodyError::Malformed));
}
