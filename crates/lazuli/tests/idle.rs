//! Idle connections keep nobody out, and cost little.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_hostile::http::{Witness, idle_connections};
use lazuli_testkit::server::Server;
use std::io::Read;
use std::path::Path;

/// As many as the issue of hostile input names; where the system has fewer descriptors, so many.
const IDLE: usize = 10_000;
/// The most memory that the server may use with all of them.
const MIB_MAX: u64 = 200;

fn resident_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn ten_thousand_idle_connections_keep_nobody_out() {
    let data = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_lazuli"));
    let server = Server::start(binary, data.path(), &[]).unwrap();
    let mut witness = Witness::new(server.address(), "Witness").unwrap();
    let idle = idle_connections(server.address(), IDLE);
    for _ in 0..20 {
        witness.work().unwrap();
    }
    // A new client is served too.
    Witness::new(server.address(), "Newcomer").unwrap().work().unwrap();
    // None of them was closed: there is nothing to read, not even an end of file.
    let mut first = &idle[0];
    first.set_nonblocking(true).unwrap();
    let read = first.read(&mut [0; 1]).unwrap_err();
    assert_eq!(read.kind(), std::io::ErrorKind::WouldBlock);
    let mib = resident_mib(server.pid());
    println!("{} idle connections held, {mib} MiB", idle.len());
    assert!(mib <= MIB_MAX, "{mib} MiB");
    assert!(server.terminate().unwrap().success());
}
