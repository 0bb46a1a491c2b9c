use super::*;

/// A writer that was told that rows a and b are stored, and that c is deleted.
fn writer() -> (Writer, BTreeMap<String, Stored>) {
    let mut writer = Writer::new("T", "p".to_owned(), 1000, Seeded::new(0));
    for (row, time) in [("a", 1), ("b", 2), ("c", 3)] {
        writer.remember(change(row, Some(time)), etag(time)).unwrap();
    }
    writer.remember(change("c", None), None).unwrap();
    let found = BTreeMap::from([stored("a", 1), stored("b", 2)]);
    writer.check(&found).unwrap();
    (writer, found)
}

fn content(value: u32) -> Content {
    Content { replaced: Some(value), merged: None }
}

fn change(row: &str, value: Option<u32>) -> Change {
    Change { row: row.to_owned(), content: value.map(content) }
}

fn stored(row: &str, value: u32) -> (String, Stored) {
    let etag = Timestamp::from_unix_seconds(value.into());
    (row.to_owned(), Stored { content: content(value), etag })
}

fn etag(seconds: u32) -> Option<Timestamp> {
    Some(Timestamp::from_unix_seconds(seconds.into()))
}

#[track_caller]
fn check_fails(doubt: Vec<Change>, spoil: impl Fn(&mut BTreeMap<String, Stored>), why: &str) {
    let (mut writer, mut found) = writer();
    writer.doubt = doubt;
    spoil(&mut found);
    let error = writer.check(&found).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn a_lost_write_is_noticed() {
    check_fails(vec![], |found| found.retain(|row, _| row != "a"), "found None");
}

#[test]
fn an_older_state_is_noticed() {
    check_fails(vec![], |found| found.extend([stored("b", 1)]), "acknowledged");
}

#[test]
fn a_row_that_rises_from_the_dead_is_noticed() {
    check_fails(vec![], |found| found.extend([stored("c", 3)]), "acknowledged None");
    check_fails(vec![], |found| found.extend([stored("z", 9)]), "nobody wrote");
}

#[test]
fn half_a_batch_is_noticed() {
    let batch = || vec![change("a", Some(7)), change("b", None), change("d", Some(8))];
    check_fails(batch(), |found| found.extend([stored("a", 7)]), "1 of 3 operations");
    check_fails(batch(), |found| found.retain(|row, _| row != "b"), "1 of 3 operations");
}

#[test]
fn an_etag_that_steps_back_is_noticed() {
    let (mut writer, _) = writer();
    assert!(writer.remember(change("c", Some(9)), etag(3)).is_err());
    assert!(writer.remember(change("c", Some(9)), etag(4)).is_ok());
    check_fails(vec![change("b", Some(1))], |found| found.extend([stored("b", 1)]), "ETag");
}

#[test]
fn a_request_in_doubt_may_have_happened_or_not() {
    let batch = || vec![change("a", Some(7)), change("b", None), change("d", Some(8))];
    let (mut writer, mut found) = writer();
    writer.doubt = batch();
    writer.check(&found).unwrap();
    writer.doubt = batch();
    found = BTreeMap::from([stored("a", 7), stored("d", 8)]);
    writer.check(&found).unwrap();
    assert_eq!(writer.rows_present(), 2);
}
