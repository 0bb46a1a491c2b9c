//! Keys from templates (C-4).

use lazuli_client::prelude::*;
use lazuli_client::{Guid, KeyError};
use proptest::prelude::*;

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(name = "Employees", kind = "Employee", rename_all = "PascalCase")]
#[table(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    age: i32,
    email_address: String,
}

#[test]
fn keys_are_made_parsed_and_ranged() {
    // Section 4 as printed.
    let key = Employee::key("Sales", 223).unwrap();
    let texts = key.as_entity_key();
    assert_eq!((texts.partition.as_str(), texts.row.as_str()), ("Sales", "empid_000223"));
    let back = Employee::parse_key(&key).unwrap();
    assert_eq!(back, EmployeeKey { department: "Sales".into(), id: 223 });
    let some = Employee::range("Sales").id(100..=199);
    assert_eq!(
        some.to_string(),
        "PartitionKey eq 'Sales' and RowKey ge 'empid_000100' and RowKey le 'empid_000199'"
    );
    assert_eq!(
        Employee::range("Sales").to_string(),
        "PartitionKey eq 'Sales' and RowKey ge 'empid_' and RowKey lt 'empid`'"
    );
    assert_eq!(
        Employee::range("Sales").id(7).to_string(),
        "PartitionKey eq 'Sales' and RowKey eq 'empid_000007'"
    );
    assert_eq!(
        Employee::range("Sales").filter(Employee::AGE.lt(30)).to_string(),
        "PartitionKey eq 'Sales' and RowKey ge 'empid_' and RowKey lt 'empid`' and Age lt 30"
    );
}

#[test]
fn a_value_that_does_not_fit_is_refused_and_never_cut() {
    // C-4.2, C-4.6, PS-6.4.
    assert_eq!(
        Employee::key("Sales", 1_000_000).unwrap_err(),
        KeyError::TooWide { value: 1_000_000, width: 6 }
    );
    let long = "x".repeat(513);
    assert_eq!(Employee::key(&long, 1).unwrap_err(), KeyError::TooLong { units: 513 });
    let foreign = Key::new(lazuli_client::EntityKey::parse("Sales", "email_x").unwrap());
    let error = Employee::parse_key(&foreign).unwrap_err();
    assert!(matches!(error, KeyError::Foreign { .. }), "{error}");
    assert!(Employee::range("Sales").id(1_000_000).to_filter().is_err());
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(partition = "{department}_{id:06}", row = "{at:rev}_{guid:hex}!{name:lower}")]
struct Claim {
    department: String,
    id: u32,
    at: Timestamp,
    guid: Guid,
    name: String,
}

#[test]
fn a_separator_inside_a_field_is_escaped() {
    // C-4.5, PS-6.3.
    let time = Timestamp::parse("2014-08-22T00:50:32Z").unwrap();
    let key = Claim::key("R_D", 7, time, Guid([1; 16]), "Ann!").unwrap();
    let texts = key.as_entity_key();
    assert_eq!(texts.partition.as_str(), "R~5FD_000007");
    assert_eq!(texts.row.as_str(), "2519936321679999999_01010101010101010101010101010101!ann!");
    let back = Claim::parse_key(&key).unwrap();
    assert_eq!((&*back.department, back.id, back.at, &*back.name), ("R_D", 7, time, "ann!"));
}

#[test]
fn a_range_of_times_is_newest_first() {
    // P-7.1: from inclusive, to exclusive.
    let time = |text: &str| Timestamp::parse(text).unwrap();
    let (from, to) = (time("2014-08-22T00:00:00Z"), time("2014-08-23T00:00:00Z"));
    let range = Claim::range("R", 7).at(from..to);
    let filter = range.to_filter().unwrap().to_string();
    let row = |at: Timestamp| {
        Claim::key("R", 7, at, Guid([7; 16]), "x").unwrap().as_entity_key().row.as_str().to_owned()
    };
    let bounds: Vec<&str> = filter.split('\'').collect();
    let (low, high) = (bounds[3], bounds[5]);
    assert!(filter.contains("RowKey ge") && filter.contains("RowKey lt"), "{filter}");
    let is_in = |row: &str| low <= row && row < high;
    assert!(is_in(&row(from)) && is_in(&row(time("2014-08-22T12:00:00Z"))), "{filter}");
    assert!(!is_in(&row(to)) && !is_in(&row(time("2014-08-21T23:59:59.9999999Z"))), "{filter}");
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(partition = "{id:bucket(16)}_{at:hour}", row = "{id:pad}{guid}", allow(append))]
struct Event {
    id: u32,
    at: Timestamp,
    guid: Guid,
}

#[test]
fn what_a_key_does_not_hold_whole_is_a_property_too() {
    // C-4.3, C-4.10: FNV of "000123" is for the padded text; of "123" it is another.
    let at = Timestamp::parse("2014-08-22T00:50:32Z").unwrap();
    let event = Event { id: 123, at, guid: Guid([0xAB; 16]) };
    let key = TableEntity::key(&event).unwrap();
    let bucket = lazuli_model::key_text::fnv1a(b"123") % 16;
    assert_eq!(key.partition.as_str(), format!("{bucket:02}_2014082200"));
    assert_eq!(key.row.as_str(), "0000000123abababab-abab-abab-abab-abababababab");
    let mut properties = lazuli_client::Properties::default();
    event.write(&mut properties).unwrap();
    assert_eq!(properties.len(), 1, "the moment; the key has only its hour");
    let entity = Entity::new(key.partition.as_str(), key.row.as_str()).with("at", at);
    assert_eq!(Event::read(entity.clone()), Ok(event));
    let moved = entity.with("at", Timestamp::parse("2014-08-23T00:50:32Z").unwrap());
    let reason = Event::read(moved).unwrap_err().reason;
    assert_eq!(reason, lazuli_client::ValueError::KeyMismatch);
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(partition = with(first_letter), row = with(whole), kind = "Word")]
struct Word {
    text: String,
}

fn first_letter(word: &Word) -> Result<String, KeyError> {
    Ok(word.text.chars().take(1).collect())
}

fn whole(word: &Word) -> Result<String, KeyError> {
    Ok(word.text.clone())
}

#[test]
fn keys_may_be_made_by_hand() {
    // C-4.12.
    let word = Word { text: "apple".into() };
    let key = TableEntity::key(&word).unwrap();
    assert_eq!((key.partition.as_str(), key.row.as_str()), ("a", "apple"));
    assert_eq!(Word::read(Entity::new("a", "apple").with("text", "apple")), Ok(word));
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(partition = "{a}!{b:pad}{c:pad}", row = "p{d}_{e}_{f:04}")]
struct Mixed {
    a: String,
    b: i32,
    c: i64,
    d: String,
    e: String,
    f: u16,
}

proptest! {
    #[test]
    fn every_key_parses_back(
        a in any::<String>(), b in any::<i32>(), c in any::<i64>(),
        d in any::<String>(), e in ".{0,20}", f in 0_u16..10_000,
    ) {
        // C-4.5.
        let value = Mixed { a, b, c, d, e, f };
        if let Ok(key) = TableEntity::key(&value) {
            let back = Mixed::read(Entity::new(key.partition.as_str(), key.row.as_str()));
            prop_assert_eq!(back, Ok(value));
        }
    }

    #[test]
    fn keys_sort_as_their_fields_do(a in any::<i32>(), b in any::<i32>()) {
        let text = |b: i32| Mixed::key("x", b, 0, "d", "e", 1).unwrap();
        let (x, y) = (text(a), text(b));
        prop_assert_eq!(x.as_entity_key().cmp(y.as_entity_key()), a.cmp(&b));
    }
}
