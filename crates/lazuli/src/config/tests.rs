use super::*;
use crate::cli::Cli;
use crate::failure::Hint;
use clap::{CommandFactory, Parser};
use lazuli_server::SimulateOptions;

const DOCUMENT: &str = include_str!("../../../../docs/configuration.md");

fn example() -> &'static str {
    let (_, after) = DOCUMENT.split_once("```toml\n").unwrap();
    after.split_once("```").unwrap().0
}

/// The settings that a command line and a file make together. `FILE` in the line is the file.
fn load(line: &str, file: &str) -> Result<Settings> {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("lazuli.toml");
    std::fs::write(&path, file).unwrap();
    std::fs::write(scratch.path().join("accounts"), "# two keys\nfiled:AAAA:BBBB\n").unwrap();
    let line = line.replace("FILE", path.to_str().unwrap());
    let cli = Cli::try_parse_from(format!("lazuli {line}").split_whitespace()).unwrap();
    Settings::load(cli.serve)
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
fn without_a_word_the_defaults_hold() {
    let settings = load("", "").unwrap();
    assert_eq!(settings.data, Path::new("lazuli-data"));
    assert_eq!((settings.host.as_str(), settings.table_port), ("127.0.0.1", 10002));
    assert_eq!((&settings.tls, settings.profile), (&TlsChoice::Off, Profile::Azure));
    assert_eq!(names(&settings), [WELL_KNOWN_ACCOUNT]);
}

#[test]
fn the_help_tells_the_defaults() {
    let help = Cli::command().render_long_help().to_string();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let told: Vec<&str> =
        help.split("[default: ").skip(1).filter_map(|s| s.split(']').next()).collect();
    let durability = DURABILITY.to_string();
    let numbers = [u32::from(TABLE_PORT), CONNECTIONS_MAX, CACHE_MIB].map(|n| n.to_string());
    let [port, connections, cache] = numbers.each_ref().map(String::as_str);
    let format = "human on a terminal, json otherwise";
    let lines = LOG_QUEUE_LINES.to_string();
    let before_log = [DATA, HOST, port, &durability, "azure", connections, cache];
    assert_eq!(told, [&before_log[..], &[LOG, format, &lines]].concat());
}

#[test]
fn the_documented_file_is_read_and_names_every_option() {
    let options = parse(example()).unwrap();
    assert_eq!(options.tls_cert.as_deref(), Some(Path::new("tls/fullchain.pem")));
    let settings = load("--config FILE", example()).unwrap();
    assert_eq!(names(&settings), ["orders", "reports"]);
    // What is hidden is for tests, and has no place in the file.
    for argument in Cli::command().get_arguments().filter(|argument| !argument.is_hide_set()) {
        let Some(name) = argument.get_long().filter(|name| *name != "config") else { continue };
        let is_named =
            example().contains(&format!("{name} = ")) || example().contains(&format!("[[{name}]]"));
        assert!(is_named || ["help", "version"].contains(&name), "{name} is not documented");
    }
}

#[test]
fn flags_win_over_the_file() {
    let file = "table-port = 1\nhost = 'localhost'\ntls = true\nsilent = true\nprofile = 'lenient'";
    let settings = load("--config FILE --table-port 2 --tls=false", file).unwrap();
    assert_eq!((settings.table_port, settings.host.as_str()), (2, "localhost"));
    assert_eq!((settings.tls, settings.silent), (TlsChoice::Off, true));
    assert_eq!(settings.profile, Profile::Lenient);
}

#[test]
fn troubles_are_simulated_where_they_are_asked_for() {
    assert_eq!(load("", "").unwrap().simulate.options(), SimulateOptions::default());
    let file = "[simulate]\nearly-pages = 1\npartition-rate-max = 5";
    let settings = load("--config FILE --early-pages 2 --filter-comparisons-max 15", file).unwrap();
    let options = settings.simulate.options();
    assert_eq!(options.early_pages, Some(2));
    assert_eq!(options.partition_rate_max.map(u32::from), Some(5));
    assert_eq!(options.filter_comparisons_max.map(u32::from), Some(15));
}

#[test]
fn paths_of_a_file_are_relative_to_it() {
    let settings = load("--config FILE", "data = 'd'\nport-file = '/p'").unwrap();
    assert!(settings.data.is_absolute() && settings.data.ends_with("d"));
    assert_eq!(settings.port_file.as_deref(), Some(Path::new("/p")));
    assert_eq!(load("--data d", "").unwrap().data, Path::new("d"));
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
    assert_eq!(settings.host_suffixes, ["table.example.org"]);
}

#[test]
fn contradictions_are_refused() {
    check_refused("--tls-cert c", "", "without its private key");
    check_refused("--tls-key k", "", "without its certificate");
    check_refused("--strict-versions --skip-api-version-check", "", "contradict");
    check_refused("--accounts a:AAAA --accounts-file f", "", "given twice");
    check_refused("--host-suffix a/b", "", "not part of a host name");
    check_refused("--host-suffix .", "", "not part of a host name");
}

#[test]
fn a_bad_file_is_told_by_its_line_and_without_its_keys() {
    check_refused("--config nowhere.toml", "", "cannot read nowhere.toml");
    check_refused("--accounts-file nowhere", "", "cannot read nowhere");
    let check = |file, problem| check_refused("--config FILE", file, problem);
    check("silent = true\ntabel-port = 1", "line 2: unknown field `tabel-port`");
    check("table-port = 70000", "line 1: invalid value");
    check("durability = 'fast'", "line 1: expected `sync`");
    check("connections-max = 0", "line 1: ");
    check("config = 'x'", "unknown field `config`");
    check("[[accounts]]\nname = 'a'\nkey1 = 'c2VjcmV0!'", "a key of account 'a' is not base64");
    check("[[accounts]]\nname = 'a'\nkey1 = \"c2VjcmV0", "line 3: ");
    check("[[accounts]]\nname = 'a'\nkey = 'c2VjcmV0'", "line 3: unknown field `key`");
    check("[[accounts]]\nname = 'a'\nkey1 = ['c2VjcmV0']", "line 3: invalid type: sequence");
    check("accounts = 'c2VjcmV0'", "account 1 of the list is not name:key");
    check("accounts = ['a:c2VjcmV0']", "line 1: invalid type: string …, expected");
    check("[[accounts]]\nname = 'a'\nkey1 = 'AAAA'\nkey2 = {c2VjcmV0 = 1}", "line 4: ");
    check("table-port = 'c2VjcmV0'", "line 1: invalid type: string …, expected u16");
    check("accounts = []", "no account is given");
    check("[accounts]\nc2V = 1", "line 1: invalid type: map");
    check(
        "[[accounts]]\nname = 'a'\nkey1 = 'AAAA'\n[[accounts]]\nname = 'A'\nkey1 = 'AAAA'",
        "given twice",
    );
}
