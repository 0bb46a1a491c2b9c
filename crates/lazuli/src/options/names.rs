//! Derives the names of every option, and ranks values: flag, then environment, then file.

use super::file::Defaults;
use crate::cli::Cli;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, CommandFactory};
use lazuli_cli::Exit;
use lazuli_cli::failure::Hint;
use std::any::TypeId;
use std::ffi::OsString;

/// The command line, with `defaults` in place of the declared defaults.
pub(crate) fn command(defaults: &Defaults) -> Command {
    let complete = |arg: Arg| match option_name(&arg) {
        Some(name) => {
            let values = defaults.of(&name);
            let arg = with_switch(arg).env(environment_name(&name)).hide_env(true);
            if values.is_empty() { arg } else { arg.default_values(values.to_vec()) }
        }
        None => arg,
    };
    Cli::command().mut_args(complete).mut_subcommand("serve", |serve| serve.mut_args(complete))
}

/// The name of a server option; `None` for `--help` and similar.
pub(super) fn option_name(arg: &Arg) -> Option<String> {
    let name = arg.get_long()?;
    (!["help", "version"].contains(&name)).then(|| name.to_owned())
}

/// Names the variable with an invalid value in the error: the user has not typed the flag.
pub(crate) fn with_variable(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg) else { return error };
    let flag = arg.split([' ', '=', '[']).next().unwrap_or_default();
    if let Some(variable) = variable_of(flag, arguments) {
        let shown = format!("{arg}, set by {variable}");
        error.insert(ContextKind::InvalidArg, ContextValue::String(shown));
    }
    error
}

/// Names the variables that the options in a problem come from.
pub(crate) fn with_variables(mut error: anyhow::Error, arguments: &[OsString]) -> anyhow::Error {
    if let Some(hint) = error.downcast_mut::<Hint>().filter(|hint| hint.exit == Exit::Usage) {
        let text = format!("{} {}", hint.problem, hint.advice);
        let is_of_flag = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let mut variables: Vec<String> = text
            .split(|c| !is_of_flag(c))
            .filter_map(|word| variable_of(word, arguments))
            .collect();
        variables.sort();
        variables.dedup();
        if !variables.is_empty() {
            hint.advice += &format!("; the environment sets {}", variables.join(", "));
        }
    }
    error
}

/// The variable that sets an option, unless the command line does.
fn variable_of(flag: &str, arguments: &[OsString]) -> Option<String> {
    let variable = environment_name(flag.strip_prefix("--").filter(|name| !name.is_empty())?);
    let is_given = arguments.iter().filter_map(|given| given.to_str()).any(|given| {
        given.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    });
    (!is_given && std::env::var_os(&variable).is_some()).then_some(variable)
}

/// `cache-mib` is `LAZULI_CACHE_MIB`.
pub(super) fn environment_name(option: &str) -> String {
    format!("LAZULI_{}", option.replace('-', "_").to_ascii_uppercase())
}

pub(super) fn takes<T: 'static>(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<T>()
}

/// A switch is on without a value, and takes one only after `=`: `--tls`, `--tls=false`.
pub(super) fn with_switch(arg: Arg) -> Arg {
    if !takes::<bool>(&arg) {
        return arg;
    }
    arg.value_name("BOOL")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .hide_default_value(true)
        .hide_possible_values(true)
}
