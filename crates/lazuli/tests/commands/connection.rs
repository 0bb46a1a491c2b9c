//! The account that a command uses (O-9.2).

use crate::harness::Lazuli;
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY};

fn endpoint(lazuli: &Lazuli) -> String {
    format!("http://{}/{ACCOUNT}", lazuli.server.address())
}

#[test]
fn options_name_the_account() {
    let lazuli = Lazuli::with_people().without_connection_string();
    let endpoint = endpoint(&lazuli);
    let text = lazuli.server.connection_string();
    let by_string = lazuli.run(&["tables", "list", "-c", &text]);
    assert_eq!((&*by_string.stdout, &*by_string.stderr), ("TABLE\nPeople\n", ""));
    let by_key =
        ["tables", "list", "--endpoint", &endpoint, "--account", ACCOUNT, "--key", ACCOUNT_KEY];
    assert_eq!(lazuli.run(&by_key).stdout, "TABLE\nPeople\n");
    // Options may also come before the verb.
    assert_eq!(lazuli.run(&["tables", "-c", &text, "list"]).code, 0);
}

#[test]
fn the_environment_and_profiles_name_the_account() {
    let lazuli = Lazuli::with_people().without_connection_string();
    let text = lazuli.server.connection_string();
    for name in ["LAZULI_CONNECTION_STRING", "AZURE_STORAGE_CONNECTION_STRING"] {
        let output = lazuli.command(&["tables", "list"]).env(name, &text).output().unwrap();
        assert_eq!(output.stdout, b"TABLE\nPeople\n");
    }
    let mut parts = lazuli.command(&["tables", "list"]);
    parts.env("AZURE_STORAGE_ACCOUNT", ACCOUNT).env("AZURE_STORAGE_KEY", ACCOUNT_KEY);
    parts.env("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint(&lazuli));
    assert_eq!(parts.output().unwrap().stdout, b"TABLE\nPeople\n");

    let file = format!("[here]\nconnection-string = '{text}'\n[broken]\ncolour = 'blue'\n");
    let path = lazuli.file(".config/lazuli/profiles.toml", &file);
    let done = lazuli.line("tables list -p here");
    assert_eq!((done.code, &*done.stdout), (0, "TABLE\nPeople\n"));
    assert!(done.stderr.contains("others can read"), "{done:?}");
    private(&path);
    assert_eq!(lazuli.line("tables list -p here").stderr, "");
    // An explicit profile takes precedence over the environment.
    let mut both = lazuli.command(&["tables", "list", "-p", "here"]);
    let output = both.env("LAZULI_CONNECTION_STRING", "AccountName=other").output().unwrap();
    assert_eq!(output.stdout, b"TABLE\nPeople\n");
    lazuli.fails("tables list -p nobody", 2, &["it has broken, here"]);
    lazuli.fails("tables list -p broken", 2, &["broken.colour"]);
    lazuli.fails("tables list -p here --account x", 2, &["given twice"]);
}

#[cfg(unix)]
fn private(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn contradictions_and_gaps_are_wrong_usage() {
    let lazuli = Lazuli::start();
    for (line, word) in [
        ("tables list -c nonsense", "connection string"),
        ("tables list -c AccountName=a --account b", "contradict"),
        ("tables list --account a", "without a credential"),
        ("tables list --endpoint http://127.0.0.1:1/a --key a2V5", "--key needs --account"),
        ("tables list --sas sig=a", "without an account"),
        ("tables list --account a --sas sig=a --token t", "more than one credential"),
        ("tables list --endpoint ftp://a --sas sig=a", "not an http or https address"),
        ("tables list --account a --key *", "base64"),
    ] {
        lazuli.fails(line, 2, &[word]);
    }
}

#[test]
fn a_key_on_the_command_line_draws_a_warning_and_is_never_shown() {
    let lazuli = Lazuli::start();
    let endpoint = endpoint(&lazuli);
    let secret = "c2VjcmV0";
    let done = lazuli.run(&[
        "tables",
        "list",
        "--endpoint",
        &endpoint,
        "--account",
        ACCOUNT,
        "--key",
        secret,
    ]);
    done.failed(4, &["warning: others on this machine", "403 AuthenticationFailed", "[request "]);
    assert!(!done.stderr.contains(secret), "{done:?}");
    let text = format!("AccountName={ACCOUNT};AccountKey={secret};TableEndpoint={endpoint}");
    let done = lazuli.run(&["tables", "list", "-c", &text]);
    done.failed(4, &["warning: "]);
    assert!(!done.stderr.contains(secret), "{done:?}");
}

#[test]
fn a_server_that_is_not_there_is_exit_5() {
    let lazuli = Lazuli::start();
    // Nothing listens on port 1.
    let line = "tables list --account a --sas sig=a --endpoint http://127.0.0.1:1/a";
    lazuli.fails(
        line,
        5,
        &["error: http://127.0.0.1:1/a: ", "could not be reached", "hint: `lazuli serve`"],
    );
    let line = "blobs list pics --account a --sas sig=a --endpoint http://127.0.0.1:1/a";
    lazuli.fails(line, 5, &["error: http://127.0.0.1:1/a: ", "hint: Lazuli has no blobs"]);
}

#[test]
fn a_wrong_variable_of_the_environment_is_named() {
    let lazuli = Lazuli::start().without_connection_string();
    let mut list = lazuli.command(&["tables", "list"]);
    let output = list.env("AZURE_STORAGE_CONNECTION_STRING", "garbage").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("error: AZURE_STORAGE_CONNECTION_STRING: "), "{text}");
}

#[test]
fn a_token_is_not_sent_in_the_clear() {
    let lazuli = Lazuli::start();
    let endpoint = endpoint(&lazuli);
    let done = lazuli.run(&["tables", "list", "--endpoint", &endpoint, "--token", "ey"]);
    done.failed(2, &["a token is not sent without TLS", "hint: use an https endpoint"]);
}
