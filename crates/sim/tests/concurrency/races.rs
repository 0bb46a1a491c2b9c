//! Many clients want the same thing at once; one gets it.

use crate::server::Server;
use lazuli_testkit::http::{Connection, Operation, Request};
use std::sync::Barrier;

/// Sends one request on each of `clients` connections at the same moment; returns their statuses.
fn race(
    server: &Server,
    clients: usize,
    send: impl Fn(usize, &mut Connection) -> u16 + Sync,
) -> Vec<u16> {
    let barrier = Barrier::new(clients);
    std::thread::scope(|scope| {
        let runner = |number: usize| {
            let (barrier, send) = (&barrier, &send);
            scope.spawn(move || {
                let mut connection = server.connect();
                barrier.wait();
                send(number, &mut connection)
            })
        };
        let runners: Vec<_> = (0..clients).map(runner).collect();
        runners.into_iter().map(|runner| runner.join().unwrap()).collect()
    })
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|found| **found == status).count()
}

fn with_table() -> Server {
    let server = Server::start();
    let request = Request::new("POST", "/Tables").json(r#"{"TableName":"Races"}"#);
    assert_eq!(server.connect().send(&request).unwrap().status, 201);
    server
}

fn insert(connection: &mut Connection, row: &str, value: usize) -> u16 {
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}","v":{value}}}"#);
    connection.send(&Request::new("POST", "/Races").json(&body)).unwrap().status
}

#[test]
fn of_two_hundred_simultaneous_inserts_one_wins() {
    let server = with_table();
    let statuses = race(&server, 200, |number, connection| insert(connection, "r", number));
    assert_eq!((count(&statuses, 201), count(&statuses, 409)), (1, 199));
    let winner = statuses.iter().position(|status| *status == 201).unwrap();
    let read = Request::new("GET", "/Races(PartitionKey='p',RowKey='r')");
    let body = server.connect().send(&read).unwrap().text();
    assert!(body.contains(&format!("\"v\":{winner}}}")), "client {winner} won: {body}");
}

#[test]
fn of_all_writers_with_one_etag_one_wins() {
    let server = with_table();
    let mut connection = server.connect();
    assert_eq!(insert(&mut connection, "r", 0), 201);
    let path = "/Races(PartitionKey='p',RowKey='r')";
    let etag = connection.send(&Request::new("GET", path)).unwrap();
    let etag = etag.header("etag").unwrap().to_owned();
    // Replace, merge and delete.
    let statuses = race(&server, 64, |number, connection| {
        let headers = [("If-Match", etag.as_str())];
        let body = format!("{{\"v\":{number}}}");
        let request = match number % 3 {
            0 => Request::new("PUT", path).json(&body),
            1 => Request::new("MERGE", path).json(&body),
            _ => Request::new("DELETE", path),
        };
        connection.send(&request.headers(&headers)).unwrap().status
    });
    let lost = count(&statuses, 412) + count(&statuses, 404);
    assert_eq!((count(&statuses, 204), lost), (1, 63), "{statuses:?}");
}

#[test]
fn of_all_batches_with_one_entity_in_common_one_wins_whole() {
    let server = with_table();
    let statuses = race(&server, 32, |number, connection| {
        let insert = |row: String| Operation {
            method: "POST",
            path: "/Races".to_owned(),
            headers: Vec::new(),
            body: format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#),
        };
        let own = [format!("{number:02}a"), format!("{number:02}z")];
        let rows = [own[0].clone(), "common".to_owned(), own[1].clone()];
        let answer = connection.send_batch(&rows.map(insert)).unwrap();
        answer.parts.first().unwrap().0
    });
    assert_eq!((count(&statuses, 201), count(&statuses, 409)), (1, 31));
    let winner = statuses.iter().position(|status| *status == 201).unwrap();
    let page = server.connect().send(&Request::new("GET", "/Races()?$select=RowKey")).unwrap();
    let rows: Vec<String> =
        page.text().split("\"RowKey\":\"").skip(1).map(|rest| rest[..3].to_owned()).collect();
    assert_eq!(rows, [format!("{winner:02}a"), format!("{winner:02}z"), "com".to_owned()]);
}

#[test]
fn of_all_creations_of_one_table_one_wins() {
    let server = Server::start();
    let statuses = race(&server, 64, |_, connection| {
        let request = Request::new("POST", "/Tables").json(r#"{"TableName":"Once"}"#);
        connection.send(&request).unwrap().status
    });
    assert_eq!((count(&statuses, 201), count(&statuses, 409)), (1, 63));
    let statuses = race(&server, 64, |_, connection| {
        connection.send(&Request::new("DELETE", "/Tables('Once')")).unwrap().status
    });
    assert_eq!((count(&statuses, 204), count(&statuses, 404)), (1, 63));
}

/// Each increment is a read, then a write with the ETag read, until it succeeds: none is lost.
#[test]
fn no_increment_is_lost() {
    let server = with_table();
    assert_eq!(insert(&mut server.connect(), "counter", 0), 201);
    let path = "/Races(PartitionKey='p',RowKey='counter')";
    let number_of = |body: &str| -> u64 {
        let (_, rest) = body.split_once("\"v\":").unwrap();
        rest.trim_end_matches('}').parse().unwrap()
    };
    race(&server, 8, |_, connection| {
        let mut done = 0;
        while done < 10 {
            let read = connection.send(&Request::new("GET", path)).unwrap();
            let body = format!("{{\"v\":{}}}", number_of(&read.text()) + 1);
            let headers = [("If-Match", read.header("etag").unwrap())];
            let write = Request::new("PUT", path).json(&body).headers(&headers);
            done += usize::from(connection.send(&write).unwrap().status == 204);
        }
        204
    });
    let read = server.connect().send(&Request::new("GET", path)).unwrap();
    assert_eq!(number_of(&read.text()), 80);
}
