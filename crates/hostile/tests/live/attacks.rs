//! Every attack once, with idle connections open and a witness that works throughout.

use crate::server::Server;
use lazuli_hostile::http::{ATTACKS, Witness, idle_connections};
use lazuli_testkit::seed::Seeded;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

#[test]
fn others_are_served_throughout_every_attack() {
    let server = Server::start();
    let mut witness = Witness::new(server.address, "Witness").unwrap();
    let idle = idle_connections(server.address, 200);
    assert_eq!(idle.len(), 200);
    let mut random = Seeded::new(1);
    for attack in ATTACKS {
        attack.run(server.address, &mut random).unwrap();
        for _ in 0..3 {
            witness.work().unwrap();
        }
        server.assert_sound();
    }
}

/// A request is answered, however its bytes arrive.
#[test]
fn requests_in_pieces_and_in_bulk_are_answered() {
    let server = Server::start();
    let run = |name: &str| {
        let attack = ATTACKS.iter().find(|attack| attack.name == name).unwrap();
        attack.run(server.address, &mut Seeded::new(1)).unwrap()
    };
    assert_eq!(run("byte by byte").refused, 1);
    let pipelines = run("pipelines");
    assert!(pipelines.refused >= 200 + 20 + 50, "{pipelines:?}");
    server.assert_sound();
}

/// About half of the clients that closed their side right after the request were left without an
/// answer: the end of the stream, seen while the request was being processed, ended the connection.
#[test]
fn a_client_that_has_nothing_more_to_say_is_answered() {
    let server = Server::start();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream
            .write_all(b"GET /devstoreaccount1/Tables HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }
}
