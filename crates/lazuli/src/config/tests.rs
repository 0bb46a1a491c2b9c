use super::*;
use crate::options::{MIB, ProfileName};
use lazuli_cli::failure::Hint;
use lazuli_server::SimulateOptions;
use std::path::Path;

const DOCUMENT: &str = include_str!("../../../../docs/configuration.md");

fn example() -> &'static str {
    let (_, after) = DOCUMENT.split_once("```toml\n").unwrap();
    after.split_once("```").unwrap().0
}

/// The settings from a command line and a file. `FILE` in the line is the file.
fn load(line: &str, file: &str) -> Result<Settings> {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("lazuli.toml");
    std::fs::write(&path, file).unwrap();
    std::fs::write(scratch.path().join("accounts"), "# two keys\nfiled:AAAA:BBBB\n").unwrap();
    let line = line.replace("FILE", path.to_str().unwrap());
    load_in(&line, None)
}

/// The settings of a command line in a memory cgroup.
fn load_in(line: &str, cgroup_bytes: Option<u64>) -> Result<Settings> {
    let arguments: Vec<OsString> =
        format!("lazuli {line}").split_whitespace().map(Into::into).collect();
    Settings::load(&arguments, cgroup_bytes)
}

#[track_caller]
fn check_refused(line: &str, file: &str, problem: &str) {
    let error = load(line, file).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains(problem), "{error}");
    assert!(error.downcast_ref::<Hint>().is_some(), "{error} has no hint");
    assert!(!format!("{error:?}").contains("c2VjcmV0"), "{error} shows a key");
}

fn names(settings: &Settings) -> Vec<String> {
    settings.accounts.list().unwrap().iter().map(|account| account.name.to_string()).collect()
}

#[test]
fn defaults_hold_where_nothing_is_given() {
    let settings = load("", "").unwrap();
    let options = &settings.options;
    assert_eq!(options.data, Path::new("lazuli-data"));
    assert_eq!((options.host.as_str(), options.table_port), ("127.0.0.1", 10002));
    assert_eq!((&settings.tls, options.profile), (&TlsChoice::Off, ProfileName::Azure));
    assert_eq!(names(&settings), [WELL_KNOWN_ACCOUNT]);
    assert_eq!(settings.memory, None);
}

#[test]
fn the_documented_file_is_read() {
    let settings = load("--config FILE", example()).unwrap();
    assert_eq!(names(&settings), ["orders", "reports"]);
    let TlsChoice::Files { certificate, .. } = settings.tls else { panic!("not HTTPS") };
    assert!(certificate.ends_with("tls/fullchain.pem"));
}

#[test]
fn pools_share_the_memory_that_is_given() {
    let pools = |settings: Settings| {
        let bounds = settings.options.bounds;
        (bounds.cache_mib, bounds.body_memory_mib.get(), bounds.commit_queue_mib.get())
    };
    assert_eq!(pools(load("", "").unwrap()), (128, 256, 64));
    assert_eq!(pools(load("--memory 1000M", "").unwrap()), (410, 120, 60));
    let file = "memory = '200M'\ncache-mib = 7";
    assert_eq!(pools(load("--config FILE", file).unwrap()), (7, 24, 12));
    let both = load("--config FILE --memory 1000M --cache-mib 9", file).unwrap();
    assert_eq!(pools(both), (9, 120, 60));
    assert_eq!(pools(load_in("", Some(500 * MIB)).unwrap()), (143, 42, 21));
    assert_eq!(pools(load_in("", Some(2000 * MIB)).unwrap()), (128, 256, 64));
}

#[test]
fn flags_win_over_the_file() {
    let file = "table-port = 1\nhost = 'localhost'\ntls = true\nsilent = true\nprofile = 'lenient'";
    let settings = load("--config FILE --table-port 2 --tls=false", file).unwrap();
    let options = &settings.options;
    assert_eq!((options.table_port, options.host.as_str()), (2, "localhost"));
    assert_eq!((&settings.tls, options.silent), (&TlsChoice::Off, true));
    assert_eq!(options.profile, ProfileName::Lenient);
}

#[test]
fn failures_are_simulated_where_they_are_asked_for() {
    assert_eq!(load("", "").unwrap().options.simulate.options(), SimulateOptions::default());
    let file = "[simulate]\nearly-pages = 1\npartition-rate-max = 5";
    let settings = load("--config FILE --early-pages 2 --filter-comparisons-max 15", file).unwrap();
    let options = settings.options.simulate.options();
    assert_eq!(options.early_pages, Some(2));
    assert_eq!(options.partition_rate_max.map(u32::from), Some(5));
    assert_eq!(options.filter_comparisons_max.map(u32::from), Some(15));
}

#[test]
fn paths_of_a_file_are_relative_to_it() {
    let settings = load("--config FILE", "data = 'd'\nport-file = '/p'").unwrap();
    assert!(settings.options.data.is_absolute() && settings.options.data.ends_with("d"));
    assert_eq!(settings.options.port_file.as_deref(), Some(Path::new("/p")));
    assert_eq!(load("--data d", "").unwrap().options.data, Path::new("d"));
}

#[test]
fn accounts_come_from_the_strongest_source_alone() {
    let file = "[[accounts]]\nname = 'one'\nkey1 = 'AAAA'\n[[accounts]]\nname = 'two'\nkey1 = 'AAAA'\nkey2 = 'BBBB'";
    assert_eq!(names(&load("--config FILE", file).unwrap()), ["one", "two"]);
    assert_eq!(names(&load("--config FILE --accounts flag:AAAA", file).unwrap()), ["flag"]);
    let filed = load("--config FILE", "accounts-file = 'accounts'").unwrap();
    assert_eq!(names(&filed), ["filed"]);
    assert_eq!(filed.accounts.list().unwrap()[0].keys.len(), 2);
    let line = load("--config FILE", "accounts = 'one:AAAA;two:BBBB'").unwrap();
    assert_eq!(names(&line), ["one", "two"]);
}

#[test]
fn tls_is_off_generated_or_given() {
    let tls = |line: &str, file: &str| load(line, file).unwrap().tls;
    let files = |settings: TlsChoice| matches!(settings, TlsChoice::Files { .. });
    assert_eq!(tls("--tls", ""), TlsChoice::SelfSigned);
    assert!(files(tls("--tls-cert c --tls-key k", "")));
    assert!(files(tls("--tls --tls-cert c --tls-key k", "")));
    let given = "tls-cert = 'c'\ntls-key = 'k'";
    assert!(files(tls("--config FILE", given)));
    assert!(files(tls("--config FILE --tls-key other", given)));
    assert_eq!(tls("--config FILE --tls=false", given), TlsChoice::Off);
    assert_eq!(tls("--config FILE", &format!("tls = false\n{given}")), TlsChoice::Off);
    assert!(files(tls("--config FILE --tls-cert c --tls-key k", "tls = false")));
}

#[test]
fn suffixes_are_names_in_lower_case() {
    let settings = load("--host-suffix .Table.Example.ORG", "").unwrap();
    assert_eq!(settings.options.host_suffix, ["table.example.org"]);
}

#[test]
fn contradictions_are_refused() {
    check_refused("--tls-cert c", "", "without its private key");
    check_refused("--tls-key k", "", "without its certificate");
    check_refused("--strict-versions --skip-api-version-check", "", "contradict");
    check_refused("--accounts a:AAAA --accounts-file f", "", "given twice");
    check_refused("--config FILE", "accounts = 'a:AAAA'\naccounts-file = 'f'", "given twice");
}

#[test]
fn errors_in_a_file_name_the_line_and_show_no_key() {
    check_refused("--config nowhere.toml", "", "cannot read nowhere.toml");
    check_refused("--accounts-file nowhere", "", "cannot read nowhere");
    let check = |file, problem| check_refused("--config FILE", file, problem);
    check("silent = true\ntabel-port = 1", "line 2: unknown option `tabel-port`");
    check("table-port = 70000", "line 1: table-port: 70000 is not in 0..=65535");
    check("durability = 'fast'", "line 1: durability: expected `sync`");
    check("profile = 'c2VjcmV0'", "line 1: profile: expected one of azure, lenient");
    check("connections-max = 0", "line 1: connections-max: ");
    check("tls = 'c2VjcmV0'", "line 1: tls: expected one of true, false");
    check("data = ''", "line 1: data: ");
    check("data = ['a']", "line 1: data: expected a string, number or boolean");
    check("config = 'x'", "unknown option `config`");
    check("memtable-kib = 1", "unknown option `memtable-kib`");
    check("auth = 1", "line 1: auth is a table");
    check("oidc-issuer = 'x'", "line 1: unknown option `oidc-issuer`");
    check("[auth]\ntls = true", "line 2: unknown option `tls`");
    check("[[accounts]]\nname = 'a'\nkey1 = 'c2VjcmV0!'", "a key of account 'a' is not base64");
    check(
        "[[accounts]]\nname = 'a'\nkey1 = 'AAAA;b:c2VjcmV0'",
        "line 3: names and keys must not contain",
    );
    check("[[accounts]]\nname = 'a'\nkey1 = \"c2VjcmV0", "line 3: ");
    check("[[accounts]]\nname = 'a'\nkey = 'c2VjcmV0'", "line 3: unknown field `key`");
    check(
        "[[accounts]]\nname = 'a'\nkey1 = ['c2VjcmV0']",
        "line 3: names and keys must be strings",
    );
    check("[[accounts]]\nname = 'c2VjcmV0'", "line 1: an account needs a name and key1");
    check("accounts = 'c2VjcmV0'", "account 1 of the list is not name:key");
    check("accounts = ['a:c2VjcmV0']", "line 1: an account is a table");
    check("[[accounts]]\nname = 'a'\nkey1 = 'AAAA'\nkey2 = {c2VjcmV0 = 1}", "line 4: ");
    check("table-port = 'c2VjcmV0'", "line 1: table-port: invalid digit");
    check("accounts = []", "no account is given");
    check("[accounts]\nc2V = 1", "line 1: accounts: expected a string");
    check(
        "[[accounts]]\nname = 'a'\nkey1 = 'AAAA'\n[[accounts]]\nname = 'A'\nkey1 = 'AAAA'",
        "given twice",
    );
}
