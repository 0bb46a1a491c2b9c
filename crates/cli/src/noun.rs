//! Common to the commands of every noun: a verb, an account, and how to print.

use crate::connect::Target;
use crate::output::{Grid, Output, OutputArguments};
use anyhow::Result;
use clap::{Args, Subcommand};
use serde::{Serialize, Serializer};
use serde_json::json;

/// The arguments of a noun.
#[derive(Args, Clone, Debug)]
pub(crate) struct Noun<V: Subcommand + Send + Sync> {
    #[command(subcommand)]
    pub(crate) verb: V,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Prints a list of names: `{"tables":[{"name":…}]}`, or a column.
pub(crate) fn print_names(
    out: &Output,
    plural: &str,
    heading: &str,
    names: &[String],
) -> Result<()> {
    let items: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
    out.either(&json!({ plural: items }), || {
        let mut grid = Grid::new([heading]);
        names.iter().for_each(|name| grid.row([name.as_str()]));
        grid
    })
}

/// Prints the outcome of a deletion: `{"table":…,"deleted":true}`, or a remark.
pub(crate) fn print_deleted(out: &Output, noun: &str, name: &str, deleted: bool) -> Result<()> {
    let remark = match deleted {
        true => format!("deleted {name}"),
        false => format!("there is no {noun} {name}"),
    };
    out.done(&Deletion { noun, name, deleted }, remark)
}

/// The first member is named after the noun.
struct Deletion<'a> {
    noun: &'a str,
    name: &'a str,
    deleted: bool,
}

impl Serialize for Deletion<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.noun, json!(self.name)), ("deleted", json!(self.deleted))])
    }
}
