use crate::options::{self, Defaults};
use clap::{Arg, Command};
use std::fmt::Write;

const PAGE: &str = include_str!("../../../../docs/commands.md");
const BEGIN: &str = "<!-- commands: written by a test, see crates/lazuli/src/cli/tests.rs -->\n";
const END: &str = "<!-- end of commands -->\n";
const NOUNS: [&str; 15] = [
    "tables",
    "table",
    "entities",
    "queues",
    "blobs",
    "sas",
    "explain",
    "advise",
    "index",
    "feed",
    "changes",
    "ttl",
    "verify",
    "rebuild",
    "completions",
];

/// Pages that may name commands and options. `docs/spec` also names future ones.
const PAGES: [(&str, &str); 6] = [
    ("README.md", include_str!("../../../../README.md")),
    ("commands.md", PAGE),
    ("configuration.md", include_str!("../../../../docs/configuration.md")),
    ("operations.md", include_str!("../../../../docs/operations.md")),
    ("authorization.md", include_str!("../../../../docs/authorization.md")),
    ("portability.md", include_str!("../../../../docs/portability.md")),
];

fn root() -> Command {
    let mut root = options::command(&Defaults::default());
    root.build();
    root
}

/// The page lists the commands as declared. To regenerate the list after a change:
/// `LAZULI_WRITE_DOCS=1 cargo test -p lazuli documented`.
#[test]
fn every_command_is_documented_as_it_is_declared() {
    let (before, rest) = PAGE.split_once(BEGIN).unwrap();
    let (listed, after) = rest.split_once(END).unwrap();
    let expect = command_list();
    if std::env::var_os("LAZULI_WRITE_DOCS").is_some() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
        std::fs::write(page, [before, BEGIN, &expect, END, after].concat()).unwrap();
        return;
    }
    assert_eq!(listed, expect, "write docs/commands.md again, as this test's comment says");
}

fn command_list() -> String {
    let root = root();
    let mut list = String::new();
    for noun in NOUNS {
        let command = root.find_subcommand(noun).unwrap();
        write!(list, "\n### {noun}\n\n{}.\n", about(command)).unwrap();
        for (path, leaf) in leaves(noun, command) {
            write!(list, "\n#### lazuli {path}\n\n{}.\n\n", about(leaf)).unwrap();
            let usage = leaf.clone().render_usage().to_string();
            let usage = usage.trim_start_matches("Usage: ").to_owned();
            write!(list, "```text\n{usage}\n```\n").unwrap();
            let arguments: Vec<&Arg> = leaf.get_arguments().filter(|arg| is_own(arg)).collect();
            if !arguments.is_empty() {
                list.push_str("\n| argument | what it does |\n| --- | --- |\n");
            }
            for arg in arguments {
                writeln!(list, "{}", row(arg)).unwrap();
            }
        }
    }
    list.push('\n');
    list
}

fn about(command: &Command) -> String {
    command.get_about().unwrap().to_string()
}

/// The commands that do something, with the words that select them.
fn leaves<'a>(path: &str, command: &'a Command) -> Vec<(String, &'a Command)> {
    let verbs: Vec<_> =
        command.get_subcommands().filter(|verb| verb.get_name() != "help").collect();
    if verbs.is_empty() {
        return vec![(path.to_owned(), command)];
    }
    verbs.iter().flat_map(|verb| leaves(&format!("{path} {}", verb.get_name()), verb)).collect()
}

/// Whether an argument belongs to one command, and not to all.
fn is_own(arg: &Arg) -> bool {
    let is_shared = arg.get_help_heading().is_some_and(|h| ["Connection", "Output"].contains(&h));
    !is_shared && arg.get_id() != "help" && !arg.is_hide_set()
}

/// The heading of a flattened group of arguments would also apply to arguments declared after it.
#[test]
fn options_of_one_command_are_not_under_the_heading_of_a_group() {
    let layout = ["layout", "kind", "partition", "row", "index", "unique", "project"];
    let check = |path: &str, arg: &Arg| {
        let id = arg.get_id().as_str();
        let is_of_group = match arg.get_help_heading() {
            None => !id.starts_with("target-") && !id.starts_with("output-"),
            Some("Connection") => id.starts_with("target-"),
            Some("Output") => id.starts_with("output-"),
            Some("Layout") => layout.contains(&id) || id.starts_with("index_"),
            Some(_) => ["serve", "lazuli"].contains(&path),
        };
        assert!(is_of_group, "lazuli {path}: {id} is under {:?}", arg.get_help_heading());
    };
    let root = root();
    for command in root.get_subcommands() {
        for (path, leaf) in leaves(command.get_name(), command) {
            leaf.get_arguments().for_each(|arg| check(&path, arg));
        }
    }
    root.get_arguments().for_each(|arg| check("lazuli", arg));
}

fn row(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default().join(" ");
    let name = match arg.get_long() {
        Some(long) if arg.get_action().takes_values() => format!("--{long} {values}"),
        Some(long) => format!("--{long}"),
        None => values,
    };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('\n', " ");
    let defaults: Vec<_> = arg.get_default_values().iter().filter_map(|v| v.to_str()).collect();
    let default = Some(defaults.join(" ")).filter(|d| !d.is_empty() && d != "false");
    let default = default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
    format!("| `{}` | {help}{default} |", name.replace('|', "\\|"))
}

/// A command or an option that a page names exists: in code, after the word `lazuli`.
#[test]
fn every_command_and_option_that_a_page_names_exists() {
    let root = root();
    let mut checked = 0;
    for (page, text) in PAGES {
        for line in named_commands(text) {
            check(&root, &line).unwrap_or_else(|problem| panic!("{page}: `{line}`: {problem}"));
            checked += 1;
        }
    }
    assert!(checked > 45, "only {checked} commands were found");
}

/// The text after `lazuli ` in code: in spans, and at the beginning of lines of blocks.
fn named_commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            let command = line.trim_start().trim_start_matches("$ ");
            let parts = command.split(" | ").map(str::trim);
            found.extend(parts.filter_map(|part| part.strip_prefix("lazuli ")).map(str::to_owned));
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.filter_map(|span| span.strip_prefix("lazuli ")).map(str::to_owned));
        }
    }
    found
}

/// Follows the words of a line through the commands, and looks up its options.
fn check(root: &Command, line: &str) -> Result<(), String> {
    let mut command = root;
    let mut takes_commands = true;
    for word in line.split_whitespace() {
        if word.starts_with('#') || ["&&", "&", ";", ">"].contains(&word) {
            break;
        }
        let word = word.trim_start_matches('[').trim_end_matches([']', ',', ';']);
        if let Some(option) = word.strip_prefix("--") {
            let name = option.split('=').next().unwrap_or_default();
            let known = command.get_arguments().any(|arg| {
                arg.get_long() == Some(name)
                    || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
            });
            if !known && !["help", "version"].contains(&name) {
                return Err(format!("no option --{name}"));
            }
            takes_commands = false;
        } else if takes_commands && command.has_subcommands() {
            // A choice, such as `list|create`, names several.
            let names: Vec<&str> = word.split('|').collect();
            let unknown = names.iter().find(|name| command.find_subcommand(name).is_none());
            match unknown {
                Some(name) if command.get_name() != "help" => {
                    return Err(format!("no command {name}"));
                }
                Some(_) => return Ok(()),
                None => {
                    command =
                        names.first().and_then(|n| command.find_subcommand(n)).unwrap_or(command);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn names_that_come_later_are_free() {
    let root = root();
    for name in ["import", "export", "backup", "restore", "accounts", "doctor"] {
        assert!(root.find_subcommand(name).is_none(), "{name}");
    }
}
