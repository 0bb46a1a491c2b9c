//! Fields as properties (C-5).

use lazuli_client::prelude::*;
use lazuli_client::{EdmType, Guid, Properties, Value, ValueError};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(TableValue, Debug, Clone, Copy, PartialEq)]
#[table(rename_all = "snake_case")]
enum Grade {
    FullTime,
    #[table(name = "half")]
    PartTime,
}

#[derive(TableValue, Debug, Clone, Copy, PartialEq)]
#[table(as = "int32")]
enum Level {
    Low = 1,
    High = 7,
}

#[derive(TableFields, Debug, Clone, PartialEq)]
#[table(rename_all = "PascalCase")]
struct Address {
    street: String,
    zip: Option<u32>,
}

#[derive(serde::Serialize, serde::Deserialize, Debug, Clone, PartialEq)]
struct Tag {
    name: String,
    weight: f64,
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(
    partition = "{department}",
    row = "{grade}_{id:04}",
    kind = "Everything",
    rename_all = "PascalCase"
)]
struct Everything {
    department: String,
    id: u16,
    #[table(also_property)]
    grade: Grade,
    level: Level,
    #[table(name = "Nick")]
    nick_name: Option<String>,
    #[table(default = 7)]
    score: i64,
    #[table(as = "bits")]
    bits: u64,
    #[table(as = "text")]
    huge: u128,
    #[table(as = "int32")]
    small: u32,
    #[table(as = "iso")]
    span: Duration,
    #[table(json)]
    tags: Vec<Tag>,
    #[table(flatten)]
    home: Address,
    #[table(flatten(prefix = ""))]
    work: Option<Office>,
    #[table(chunked)]
    notes: String,
    #[table(chunked)]
    photo: Option<Vec<u8>>,
    #[table(skip)]
    cached: usize,
    #[table(etag)]
    etag: Option<ETag>,
    #[table(timestamp)]
    written: Option<Timestamp>,
    #[table(rest)]
    rest: BTreeMap<String, Value>,
}

#[derive(TableFields, Debug, Clone, PartialEq)]
struct Office {
    room: String,
}

fn everything() -> Everything {
    Everything {
        department: "Sales".into(),
        id: 7,
        grade: Grade::PartTime,
        level: Level::High,
        nick_name: None,
        score: -1,
        bits: u64::MAX,
        huge: u128::MAX,
        small: 9,
        span: Duration::from_millis(1500),
        tags: vec![Tag { name: "a'b".into(), weight: 0.5 }],
        home: Address { street: "Main".into(), zip: Some(12345) },
        work: Some(Office { room: "B2".into() }),
        notes: "\u{1F980}".repeat(20_000),
        photo: Some(vec![7; 150_000]),
        cached: 0,
        etag: None,
        written: None,
        rest: BTreeMap::from([("New".to_owned(), Value::Int32(5))]),
    }
}

/// The entity of a value.
fn stored<T: TableEntity>(value: &T) -> Entity {
    let key = value.key().unwrap();
    let mut properties = Properties::default();
    value.write(&mut properties).unwrap();
    let entity = Entity::new(key.partition.as_str(), key.row.as_str());
    properties
        .values()
        .fold(entity, |entity, (name, value)| entity.with(name.to_owned(), value.clone()))
}

#[test]
fn every_field_goes_there_and_back() {
    // C-5.2, C-5.4, C-5.5, C-5.10, C-5.14.
    let value = everything();
    let entity = stored(&value);
    assert_eq!((entity.partition_key(), entity.row_key()), ("Sales", "half_0007"));
    let names: Vec<&str> = entity.properties().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "EntityType",
            "Grade",
            "Level",
            "Score",
            "Bits",
            "Huge",
            "Small",
            "Span",
            "Tags",
            "Home_Street",
            "Home_Zip",
            "room",
            "Notes",
            "Notes_1",
            "Photo",
            "Photo_1",
            "Photo_2",
            "New"
        ]
    );
    let is = |name: &str, value: Value| assert_eq!(entity.value(name), Some(&value), "{name}");
    is("EntityType", Value::String("Everything".into()));
    is("Level", Value::Int32(7));
    is("Bits", Value::Int64(-1));
    is("Small", Value::Int32(9));
    is("Span", Value::String("PT1.5S".into()));
    is("Tags", Value::String(r#"[{"name":"a'b","weight":0.5}]"#.into()));
    is("Home_Zip", Value::Int64(12345));
    assert_eq!(Everything::read(entity), Ok(value));
}

#[test]
fn what_is_absent_is_none_or_the_default_or_an_error() {
    // C-5.10, C-5.11.
    let mut value = everything();
    value.work = None;
    value.photo = None;
    value.home.zip = None;
    value.rest.clear();
    let mut entity = stored(&value);
    entity.remove("Score");
    value.score = 7;
    assert_eq!(Everything::read(entity.clone()), Ok(value));
    entity.remove("Home_Street");
    let error = Everything::read(entity.clone()).unwrap_err();
    assert_eq!((&*error.property, error.reason), ("Home_Street", ValueError::Missing));
    entity.set("Grade", "full_time");
    assert_eq!(Everything::read(entity).unwrap_err().reason, ValueError::KeyMismatch);
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(partition = "p", row = "{id:04}", deny_unknown)]
struct Strict {
    id: u16,
    x: i32,
}

#[test]
fn a_type_may_refuse_what_it_does_not_know() {
    let entity = Entity::new("p", "0001").with("x", 1);
    assert_eq!(Strict::read(entity.clone()), Ok(Strict { id: 1, x: 1 }));
    let error = Strict::read(entity.with("y", 2)).unwrap_err();
    assert_eq!((&*error.property, error.reason), ("y", ValueError::Unknown));
}

#[test]
fn declarations_can_be_read_by_programs() {
    let find = |field: &str| {
        *Everything::PROPERTIES.iter().find(|property| property.field == field).unwrap()
    };
    assert_eq!((find("score").name, find("score").edm_type), ("Score", Some(EdmType::Int64)));
    assert_eq!(find("notes").storage, lazuli_client::Storage::Chunked);
    assert_eq!(find("huge").edm_type, Some(EdmType::String));
    assert!(
        matches!(find("home").storage, lazuli_client::Storage::Flattened(inner) if inner.len() == 2)
    );
}

#[test]
fn columns_compare_by_their_own_type() {
    // C-7.11.
    for (filter, text) in [
        (Everything::SCORE.ge(30), "Score ge 30L"),
        (Everything::NICK_NAME.eq("O'Neill"), "Nick eq 'O''Neill'"),
        (Everything::BITS.eq(u64::MAX), "Bits eq -1L"),
        (Everything::LEVEL.eq(Level::Low), "Level eq 1"),
        (Everything::GRADE.ne(Grade::FullTime), "Grade ne 'full_time'"),
        (Everything::NICK_NAME.starts_with("a"), "Nick ge 'a' and Nick lt 'b'"),
        (Everything::SMALL.one_of([1, 2]), "Small eq 1 or Small eq 2"),
    ] {
        assert_eq!(filter.to_string(), text);
    }
    let _ = Guid([0; 16]);
}
