//! Start, stop, a full disk, and messages to the service manager.

use crate::harness::{BINARY, Logged, PATIENCE, drive, insert, start};
use lazuli_testkit::http::Request;
use lazuli_testkit::server::Server;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

#[test]
fn start_and_stop_are_logged() {
    let data = tempfile::tempdir().unwrap();
    let logged = Logged::start(data.path(), &[]);
    let line = logged.wait_for(&[r#""msg":"started""#]);
    let fields = [
        "version",
        "revision",
        "engine",
        "data",
        "data_format",
        "durability",
        "recovery_ms",
        "addresses",
        "accounts",
        "tls",
        "memory_bound_mib",
        "profile",
        "extensions",
        "pid",
    ];
    let places: Vec<_> = fields.iter().map(|name| line.find(&format!("\"{name}\":"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{line}");
    assert!(line.contains(r#""extensions":"asked""#), "{line}");
    drive(&logged.server);
    // O-6.2
    logged.server.signal("USR1").unwrap();
    let status = logged.wait_for(&[r#""msg":"status""#]);
    assert!(status.contains("lazuli_conflicts.409=1"), "{status}");
    let Logged { server, directory } = logged;
    assert_eq!(server.terminate().unwrap().code(), Some(0));
    let text = std::fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(text.contains(r#""msg":"stopping","signal":"SIGTERM","in_flight":0"#), "{text}");
    assert!(text.contains(r#""msg":"stopped","uptime_s":"#), "{text}");
    assert!(text.contains(r#""requests":8,"cut":0"#), "{text}");
}

/// Writes are refused below the reserve, which is logged; a table can still be deleted.
#[test]
fn a_disk_below_the_reserve_refuses_writes_but_not_the_deletion_of_a_table() {
    let data = tempfile::tempdir().unwrap();
    drive(&start(data.path(), &[]));
    let logged = Logged::start(data.path(), &["--disk-reserve-mib", "4294967295"]);
    let mut connection = logged.server.connect().unwrap();
    let mut status = |request: Request<'_>| connection.send(&request).unwrap().status;
    assert_eq!(status(Request::new("POST", "/Orders").json(&insert("9"))), 503);
    assert_eq!(status(Request::new("GET", "/Orders(PartitionKey='p',RowKey='1')")), 200);
    logged.wait_for(&[r#""op":"InsertEntity""#, r#""status":503,"code":"ServerBusy""#]);
    assert_eq!(status(Request::new("DELETE", "/Tables('Orders')")), 204);
}

/// systemd's side of `Type=notify`, by hand.
struct Manager {
    socket: UnixDatagram,
    directory: tempfile::TempDir,
}

impl Manager {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, directory }
    }

    fn start(&self, data: &Path, watchdog_pid: Option<&str>) -> Server {
        let mut command = Command::new(BINARY);
        command.env("NOTIFY_SOCKET", self.directory.path().join("notify"));
        command.env("WATCHDOG_USEC", "100000");
        if let Some(pid) = watchdog_pid {
            command.env("WATCHDOG_PID", pid);
        }
        Server::start_command(command, data, &[]).unwrap()
    }

    fn receive(&self) -> String {
        let mut buffer = [0; 1024];
        let bytes = self.socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(buffer.get(..bytes).unwrap()).into_owned()
    }

    fn wait_for(&self, part: &str) {
        while !self.receive().contains(part) {}
    }
}

/// O-6.3.
#[test]
fn the_service_manager_is_notified() {
    let data = tempfile::tempdir().unwrap();
    let manager = Manager::new();
    let server = manager.start(data.path(), None);
    assert!(manager.receive().starts_with("STATUS="));
    manager.wait_for("READY=1");
    for _ in 0..3 {
        manager.wait_for("WATCHDOG=1");
    }
    server.signal("HUP").unwrap();
    manager.wait_for("RELOADING=1");
    manager.wait_for("READY=1");
    server.signal("TERM").unwrap();
    manager.wait_for("STOPPING=1");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

/// O-6.3: `WATCHDOG_PID` names the process that systemd watches.
#[test]
fn a_watchdog_of_another_process_gets_no_signs_of_life() {
    let data = tempfile::tempdir().unwrap();
    let manager = Manager::new();
    let server = manager.start(data.path(), Some("1"));
    assert_eq!(server.terminate().unwrap().code(), Some(0));
    let mut received = Vec::new();
    while !received.last().is_some_and(|message: &String| message.contains("STOPPING=1")) {
        received.push(manager.receive());
    }
    assert!(received.iter().any(|message| message.contains("READY=1")), "{received:?}");
    assert!(!received.iter().any(|message| message.contains("WATCHDOG")), "{received:?}");
}
