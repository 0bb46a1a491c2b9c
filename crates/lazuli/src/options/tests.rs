use super::names::{environment_name, option_name};
use super::*;
use crate::cli::Cli;
use clap::Arg;
use std::ffi::OsString;
use std::fmt::Write;

fn arguments(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(Into::into).collect()
}

fn serve(line: &str) -> ServeOptions {
    let cli = Cli::read(&arguments(line), &Defaults::default()).unwrap();
    cli.into_serve().unwrap()
}

#[test]
fn the_definition_is_sound() {
    command(&Defaults::default()).debug_assert();
}

#[test]
fn lazuli_is_lazuli_serve() {
    assert_eq!(serve("lazuli --table-port 1").table_port, 1);
    assert_eq!(serve("lazuli serve --table-port 1").table_port, 1);
}

#[test]
fn azurite_spellings_work() {
    let options = serve(
        "lazuli --location /d --tableHost 0.0.0.0 --tablePort 7 --inMemoryPersistence \
         --skipApiVersionCheck --silent --cert c.pem --key k.pem --queueHost 0.0.0.0 --queuePort 8",
    );
    assert_eq!(options.data, PathBuf::from("/d"));
    assert_eq!(options.host, "0.0.0.0");
    assert_eq!((options.table_port, options.queue_port), (7, 8));
    assert!(options.in_memory && options.skip_api_version_check && options.silent);
    assert_eq!(options.tls_cert, Some(PathBuf::from("c.pem")));
    assert_eq!(options.tls_key, Some(PathBuf::from("k.pem")));
}

#[test]
fn two_hosts_are_refused() {
    let read = |text| Cli::read(&arguments(text), &Defaults::default());
    let error = read("lazuli --tableHost 0.0.0.0 --queueHost=127.0.0.1").unwrap_err();
    assert_eq!(error.exit_code(), 2);
    let text = error.to_string();
    let expect = "--tableHost '0.0.0.0' and --queueHost '127.0.0.1' differ";
    assert!(text.contains(expect) && text.contains("\nhint: "), "{text}");
    assert!(read("lazuli serve --queueHost a --tableHost b").is_err());
    assert_eq!(serve("lazuli --tableHost a --queueHost b --tableHost=b").host, "b");
    assert_eq!(serve("lazuli --queueHost a").host, "a");
}

#[test]
fn switches_turn_on_and_off_and_take_no_next_word() {
    assert!(serve("lazuli --tls -s").silent);
    assert_eq!(serve("lazuli --tls=false").tls, Some(false));
    assert_eq!(serve("lazuli").tls, None);
    assert!(!serve("lazuli --silent --silent=false").silent);
    assert!(Cli::read(&arguments("lazuli --tls false"), &Defaults::default()).is_err());
}

#[test]
fn the_last_flag_wins_and_suffixes_add_up() {
    assert_eq!(serve("lazuli --table-port 1 --table-port 2").table_port, 2);
    assert_eq!(serve("lazuli serve --host a --host b").host, "b");
    let suffixes = serve("lazuli --host-suffix a.b --host-suffix c").host_suffix;
    assert_eq!(suffixes, ["a.b", "c"]);
}

#[test]
fn keys_are_not_shown() {
    let options = serve("lazuli --accounts abc:c2VjcmV0");
    assert!(!format!("{options:?}").contains("c2VjcmV0"));
    let options = serve("lazuli --accounts abc:c2VjcmV0!");
    assert!(options.accounts.unwrap().0.is_err());
}

#[test]
fn every_option_has_its_name_in_the_environment() {
    let command = command(&Defaults::default());
    for arg in command.get_arguments().filter(|arg| option_name(arg).is_some()) {
        let expect = environment_name(arg.get_long().unwrap());
        assert_eq!(arg.get_env().and_then(|name| name.to_str()), Some(expect.as_str()));
    }
    assert_eq!(environment_name("cache-mib"), "LAZULI_CACHE_MIB");
}

const DOCUMENT: &str = include_str!("../../../../docs/configuration.md");
const BEGIN: &str = "<!-- options: written by a test, see crates/lazuli/src/options/tests.rs -->\n";
const END: &str = "<!-- end of options -->\n";

/// The page lists the options as declared. To regenerate the list after a change:
/// `LAZULI_WRITE_DOCS=1 cargo test -p lazuli documented`.
#[test]
fn every_option_is_documented_as_it_is_declared() {
    let (before, rest) = DOCUMENT.split_once(BEGIN).unwrap();
    let (listed, after) = rest.split_once(END).unwrap();
    let expect = option_list();
    if std::env::var_os("LAZULI_WRITE_DOCS").is_some() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        std::fs::write(page, [before, BEGIN, &expect, END, after].concat()).unwrap();
        return;
    }
    assert_eq!(listed, expect, "write docs/configuration.md again, as this test's comment says");
}

/// All options by heading, as tables in Markdown.
fn option_list() -> String {
    let command = command(&Defaults::default());
    let options: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| option_name(arg).is_some() && !arg.is_hide_set())
        .collect();
    let mut headings: Vec<Option<&str>> =
        options.iter().map(|arg| arg.get_help_heading()).collect();
    headings.sort();
    headings.dedup();
    let mut list = String::new();
    for heading in headings {
        let title = heading.unwrap_or("General");
        write!(list, "\n### {title}\n\n| option | default | what it does |\n| --- | --- | --- |\n")
            .unwrap();
        for arg in options.iter().filter(|arg| arg.get_help_heading() == heading) {
            writeln!(list, "{}", option_row(arg)).unwrap();
        }
    }
    list.push('\n');
    list
}

fn option_row(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(|names| names.first());
    let value = value.filter(|name| *name != "BOOL").map(|name| format!(" {name}"));
    let value = value.unwrap_or_default().replace('|', "\\|");
    let defaults: Vec<_> = arg.get_default_values().iter().filter_map(|v| v.to_str()).collect();
    let default = if arg.is_hide_default_value_set() { String::new() } else { defaults.join(" ") };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let name = arg.get_long().unwrap();
    format!("| `--{name}{value}` | {default} | {} |", help.replace('\n', " "))
}
