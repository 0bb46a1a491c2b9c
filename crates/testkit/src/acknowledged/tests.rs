use super::*;

fn etag(seconds: u32) -> String {
    ETag(Timestamp::from_unix_seconds(seconds.into())).to_string()
}

fn stored(n: u32) -> Stored {
    let properties = Map::from_iter([("n".to_owned(), Value::from(n))]);
    Stored { etag: Some(etag(n)), properties }
}

fn name(row: &str) -> Name {
    Name::entity("T", "p", row)
}

fn entries(rows: &[(&str, u32)]) -> Entries {
    rows.iter().map(|(row, n)| (name(row), stored(*n))).collect()
}

fn step(rows: &[(&str, Option<u32>)]) -> Step {
    rows.iter().map(|(row, n)| (name(row), n.map(stored))).collect()
}

/// Rows a and b are stored, and c is deleted.
fn acknowledged() -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    acknowledged.settle(&step(&[("a", Some(1)), ("b", Some(2)), ("c", Some(3))])).unwrap();
    acknowledged.settle(&step(&[("c", None)])).unwrap();
    acknowledged
}

#[track_caller]
fn check(doubt: &[(&str, Option<u32>)], found: &[(&str, u32)], expected: Result<bool, &str>) {
    let acknowledged = Acknowledged { doubts: vec![step(doubt)], ..acknowledged() };
    match (acknowledged.check(&entries(found)), expected) {
        (Ok(happened), Ok(expected)) => assert_eq!(happened, [expected]),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, expected) => panic!("{found:?}, expected {expected:?}"),
    }
}

#[test]
fn step_in_doubt_has_happened_or_not() {
    let step = [("a", Some(7)), ("b", None), ("d", Some(8))];
    check(&step, &[("a", 1), ("b", 2)], Ok(false));
    check(&step, &[("a", 7), ("d", 8)], Ok(true));
    check(&step, &[("a", 7), ("b", 2)], Err("half of a step"));
    check(&step, &[("a", 1)], Err("half of a step"));
}

#[test]
fn lost_write_is_noticed() {
    check(&[("d", Some(4))], &[("a", 1)], Err("found nothing"));
}

#[test]
fn older_state_is_noticed() {
    check(&[("d", Some(4))], &[("a", 1), ("b", 1)], Err("T/p/b: acknowledged"));
}

#[test]
fn entry_that_was_deleted_or_never_written_is_noticed() {
    check(&[("d", Some(4))], &[("a", 1), ("b", 2), ("c", 3)], Err("c: acknowledged nothing"));
    check(&[("d", Some(4))], &[("a", 1), ("b", 2), ("z", 9)], Err("z: acknowledged nothing"));
}

#[test]
fn every_wrong_entry_is_counted() {
    let error = acknowledged().check(&entries(&[("b", 9)])).unwrap_err();
    assert_eq!(error.downcast_ref::<LostWrites>().map(|lost| lost.0.len()), Some(2));
}

#[test]
fn etag_that_steps_back_is_noticed() {
    let mut acknowledged = acknowledged();
    assert!(acknowledged.settle(&step(&[("c", Some(3))])).is_err());
    assert!(acknowledged.settle(&step(&[("c", Some(4))])).is_ok());
    // Even if it is only found: a step in doubt names no ETag.
    let older = Stored { etag: None, ..stored(1) };
    acknowledged.doubts = vec![Step::from([(name("b"), Some(older))])];
    let found = entries(&[("a", 1), ("b", 1), ("c", 4)]);
    let error = acknowledged.resolve(&found).unwrap_err();
    assert!(error.to_string().contains("ETag"), "{error}");
}

#[test]
fn what_is_found_of_a_step_in_doubt_is_settled() {
    let doubt = || vec![step(&[("a", Some(7)), ("b", None), ("d", Some(8))])];
    let mut acknowledged = Acknowledged { doubts: doubt(), ..acknowledged() };
    acknowledged.resolve(&entries(&[("a", 1), ("b", 2)])).unwrap();
    assert_eq!(acknowledged.settled, entries(&[("a", 1), ("b", 2)]));
    acknowledged.doubts = doubt();
    acknowledged.resolve(&entries(&[("a", 7), ("d", 8)])).unwrap();
    assert_eq!(acknowledged.settled, entries(&[("a", 7), ("d", 8)]));
    assert!(acknowledged.doubts.is_empty());
}

#[test]
fn deleted_table_takes_its_entities_with_it() {
    let mut acknowledged = acknowledged();
    let table = Step::from([(Name::table("T"), Some(Stored::default()))]);
    acknowledged.settle(&table).unwrap();
    let all = acknowledged.settled.keys().map(|name| (name.clone(), None)).collect();
    acknowledged.doubts = vec![all];
    let mut found = entries(&[("a", 1), ("b", 2)]);
    assert!(acknowledged.check(&found).is_err(), "entities without their table");
    found.insert(Name::table("T"), Stored::default());
    assert_eq!(acknowledged.check(&found).unwrap(), [false]);
    assert_eq!(acknowledged.check(&Entries::new()).unwrap(), [true]);
}

#[test]
fn entity_is_read_without_keys_and_annotations() {
    let entity = serde_json::json!({
        "odata.etag": etag(1), "PartitionKey": "p", "RowKey": "r", "Timestamp": "t",
        "n": 1, "when@odata.type": "Edm.DateTime",
    });
    let Value::Object(entity) = entity else { panic!("not an object") };
    assert_eq!(parse_entity("T", entity).unwrap(), (name("r"), stored(1)));
}
