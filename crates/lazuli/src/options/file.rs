//! Reads options from a configuration file: a key is a flag without its dashes.
//!
//! The values become defaults of the command line, so flags and the environment override them.
//! Error messages name the line and never quote the file, which may hold account keys.

use super::names::{option_name, takes, with_switch};
use super::values::{AccountList, read_text};
use crate::auth::AuthArguments;
use crate::options::ServeOptions;
use crate::simulate::SimulateArguments;
use anyhow::Result;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Args, Command};
use lazuli_cli::failure::usage;
use lazuli_server::KeySource;
use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Values for options that neither a flag nor the environment gives.
#[derive(Default)]
pub(crate) struct Defaults(BTreeMap<String, Vec<String>>);

impl Defaults {
    /// Reads a configuration file. Its paths are relative to the directory it is in.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = read_text(path, "--config")?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, directory).map_err(|problem| {
            let advice = "docs/configuration.md lists every option";
            usage(format!("{}, {problem}", path.display()), advice)
        })
    }

    /// Parses a configuration file; the error names the line.
    pub(super) fn parse(text: &str, directory: &Path) -> Result<Self, String> {
        let document = DeTable::parse(text).map_err(|error| {
            at_line(text, error.span().unwrap_or_default(), &without_quoted(error.message()))
        })?;
        let mut reader = Reader { text, directory, defaults: Self::default() };
        reader.section(document.get_ref(), &Section::top())?;
        Ok(reader.defaults)
    }

    /// The values of an option; empty if the file does not give it.
    pub(crate) fn of(&self, option: &str) -> &[String] {
        self.0.get(option).map_or(&[], Vec::as_slice)
    }

    /// Gives an option a value unless it has one.
    pub(crate) fn fill(&mut self, option: &str, value: String) {
        self.0.entry(option.to_owned()).or_insert_with(|| vec![value]);
    }

    pub(crate) fn remove(&mut self, option: &str) {
        self.0.remove(option);
    }
}

/// The options that a table of the file may hold, and the tables in it.
struct Section {
    options: Vec<Arg>,
    tables: Vec<(&'static str, Self)>,
}

impl Section {
    fn top() -> Self {
        let auth = Self::of(AuthArguments::augment_args);
        let simulate = Self::of(SimulateArguments::augment_args);
        let in_tables =
            |arg: &Arg| [&auth, &simulate].iter().any(|table| table.find(arg.get_long()).is_some());
        let mut options = Self::of(ServeOptions::augment_args).options;
        options.retain(|arg| arg.get_long() != Some("config") && !in_tables(arg));
        Self { options, tables: vec![("auth", auth), ("simulate", simulate)] }
    }

    fn of(augment: fn(Command) -> Command) -> Self {
        let command = augment(Command::new("options"));
        // Hidden options are for tests and are not allowed in a file.
        let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let options = visible.filter(|arg| option_name(arg).is_some()).cloned().map(with_switch);
        Self { options: options.collect(), tables: Vec::new() }
    }

    fn find(&self, name: Option<&str>) -> Option<&Arg> {
        self.options.iter().find(|arg| arg.get_long() == name)
    }
}

struct Reader<'t> {
    text: &'t str,
    directory: &'t Path,
    defaults: Defaults,
}

impl Reader<'_> {
    fn section(&mut self, table: &DeTable<'_>, section: &Section) -> Result<(), String> {
        for (key, value) in table {
            let name: &str = key.get_ref();
            let nested = section.tables.iter().find(|(table, _)| *table == name);
            match (nested, section.find(Some(name)), value.get_ref()) {
                (Some((_, nested)), _, DeValue::Table(table)) => self.section(table, nested)?,
                (None, Some(option), _) => self.option(name, option, value)?,
                (Some(_), ..) => return Err(self.problem(value, &format!("{name} is a table"))),
                (None, None, _) => {
                    return Err(at_line(
                        self.text,
                        key.span(),
                        &format!("unknown option `{}`", shown(name)),
                    ));
                }
            }
        }
        Ok(())
    }

    fn option(
        &mut self,
        name: &str,
        option: &Arg,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), String> {
        let texts = match (takes::<AccountList>(option), value.get_ref()) {
            (true, DeValue::Array(entries)) => {
                let entries = entries.iter().map(|entry| self.account(entry));
                vec![entries.collect::<Result<Vec<_>, _>>()?.join(";")]
            }
            (_, DeValue::Array(list)) if matches!(option.get_action(), ArgAction::Append) => {
                list.iter().map(|item| self.scalar(name, item)).collect::<Result<_, _>>()?
            }
            _ => vec![self.scalar(name, value)?],
        };
        for text in &texts {
            check(option, text).map_err(|p| self.problem(value, &format!("{name}: {p}")))?;
        }
        let texts = texts.into_iter().map(|text| relative_to(self.directory, option, text));
        self.defaults.0.insert(name.to_owned(), texts.collect());
        Ok(())
    }

    fn scalar(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<String, String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            DeValue::Boolean(truth) => Ok(truth.to_string()),
            DeValue::Integer(number) => {
                let number = i64::from_str_radix(number.as_str(), number.radix());
                let number = number.map_err(|_| self.problem(value, "the number is too large"))?;
                Ok(number.to_string())
            }
            _ => Err(self.problem(value, &format!("{name}: expected a string, number or boolean"))),
        }
    }

    /// One `[[accounts]]` entry in the form of the command line.
    fn account(&self, entry: &Spanned<DeValue<'_>>) -> Result<String, String> {
        let DeValue::Table(table) = entry.get_ref() else {
            return Err(self.problem(entry, "an account is a table with name, key1 and key2"));
        };
        let mut parts: [Option<String>; 3] = Default::default();
        for (key, value) in table {
            let place = ["name", "key1", "key2"].iter().position(|known| known == key.get_ref());
            let Some(part) = place.and_then(|place| parts.get_mut(place)) else {
                let problem = format!("unknown field `{}` of an account", shown(key.get_ref()));
                return Err(at_line(self.text, key.span(), &problem));
            };
            match value.get_ref() {
                DeValue::String(text) if !text.contains([':', ';', '\n', '\r']) => {
                    *part = Some(text.clone().into_owned());
                }
                DeValue::String(_) => {
                    return Err(self.problem(value, "names and keys must not contain : or ;"));
                }
                _ => return Err(self.problem(value, "names and keys must be strings")),
            }
        }
        match parts {
            [Some(name), Some(key), None] => Ok(format!("{name}:{key}")),
            [Some(name), Some(key), Some(other)] => Ok(format!("{name}:{key}:{other}")),
            _ => Err(self.problem(entry, "an account needs a name and key1")),
        }
    }

    fn problem<T>(&self, value: &Spanned<T>, problem: &str) -> String {
        at_line(self.text, value.span(), problem)
    }
}

/// Checks a value by the option's own parser.
fn check(option: &Arg, text: &str) -> Result<(), String> {
    let name = option.get_long().unwrap_or_default();
    let command = Command::new("file").no_binary_name(true).arg(option.clone());
    let Err(error) = command.try_get_matches_from([format!("--{name}={text}")]) else {
        return Ok(());
    };
    if let Some(cause) = error.source() {
        return Err(cause.to_string());
    }
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(known)) => Err(format!("expected one of {}", known.join(", "))),
        _ => Err("expected another value".to_owned()),
    }
}

fn relative_to(directory: &Path, option: &Arg, text: String) -> String {
    let is_path = takes::<PathBuf>(option)
        || (takes::<KeySource>(option)
            && matches!(KeySource::parse(&text), Ok(KeySource::File(_))));
    match is_path {
        true => directory.join(text).to_string_lossy().into_owned(),
        false => text,
    }
}

fn at_line(text: &str, span: Range<usize>, problem: &str) -> String {
    let before = text.get(..span.start).unwrap_or_default();
    format!("line {}: {problem}", before.split('\n').count())
}

/// A key, unless it is long: then it is probably not a mistyped name but a secret.
fn shown(key: &str) -> &str {
    const KEY_BYTES_MAX: usize = 32;
    if key.len() <= KEY_BYTES_MAX { key } else { "…" }
}

/// A message without the text it quotes, which may be a key.
fn without_quoted(message: &str) -> String {
    match (message.split_once('"'), message.rsplit_once('"')) {
        (Some((before, _)), Some((_, after))) => format!("{before}…{after}"),
        _ => message.to_owned(),
    }
}
