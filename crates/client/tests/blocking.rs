//! The synchronous API against a real server (C-19.4).

use lazuli_client::blocking::Blocking;
use lazuli_client::prelude::*;
use lazuli_test::TestServer;

#[test]
fn the_same_verbs_wait_and_streams_are_iterators() {
    let blocking = Blocking::new().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(TestServer::start()).unwrap();
    let people = blocking.wait(server.account().tables().create("People")).unwrap();
    for row in 0..5 {
        blocking.wait(people.insert(&Entity::new("p", format!("{row}")))).unwrap();
    }
    assert!(blocking.wait(people.insert(&Entity::new("p", "0"))).unwrap_err().is_conflict());
    let rows = blocking.iter(people.query(partition("p")).page_size(2).stream());
    let keys: Result<Vec<_>, _> = rows.map(|row| Ok(row?.row_key().to_owned())).collect();
    assert_eq!(keys.map_err(|error: Error| error.to_string()).unwrap(), ["0", "1", "2", "3", "4"]);

    let error = runtime.block_on(async { blocking.wait(people.get(("p", "0"))).unwrap_err() });
    assert!(error.to_string().contains("hint: use .await"), "{error}");
}
