//! Secrets and contents are in no line, no metric and no status dump (O-4.4).

use crate::harness::{Logged, drive};
use lazuli_testkit::http::Request;
use lazuli_testkit::server::ACCOUNT_KEY;

/// Signatures and keys are in no line, no metric and no status dump.
#[test]
fn secrets_appear_nowhere() {
    let data = tempfile::tempdir().unwrap();
    let arguments = ["--access-log", "all", "--log-query", "--log", "trace"];
    let logged = Logged::start(data.path(), &arguments);
    let server = &logged.server;
    drive(server);
    let mut plain = server.connect().unwrap();
    let path = "/Orders()?sv=2019-02-02&si=readers&sig=c2VjcmV0%3D&tn=Orders";
    assert_eq!(plain.send(&Request::new("GET", path)).unwrap().status, 403);
    let line = logged.wait_for(&[r#""msg":"request""#, "si=readers"]);
    assert!(line.contains("sig=***"), "{line}");
    server.signal("USR1").unwrap();
    logged.wait_for(&[r#""msg":"status""#, "lazuli_store_writable"]);
    let everything = [logged.log(), server.ask_admin("/metrics").unwrap().1].concat();
    let raw_key = ACCOUNT_KEY.get(..20).unwrap();
    for secret in [raw_key, "c2VjcmV0", "SharedKey "] {
        assert!(!everything.contains(secret), "{secret} appears");
    }
}
