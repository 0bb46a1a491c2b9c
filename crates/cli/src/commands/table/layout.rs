//! The indexes of a table: from a file printed by a program, or from options.

use crate::failure::usage;
use anyhow::Result;
use clap::Args;
use lazuli_client::patterns::IndexLayout;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

#[derive(Args, Clone, Debug)]
pub(crate) struct LayoutArguments {
    /// File with the layout, JSON or TOML: what `IndexLayout::of::<T>()` of the client prints
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "partition", "row", "index"], help_heading = "Layout")]
    layout: Option<PathBuf>,

    /// Kind of the entities: the value of EntityType, and the beginning of `_ix` in their copies
    #[arg(long, value_name = "NAME", required_unless_present = "layout", help_heading = "Layout")]
    kind: Option<String>,

    /// Template of the entities' partition keys, such as `{department}`
    #[arg(
        long,
        value_name = "TEMPLATE",
        required_unless_present = "layout",
        help_heading = "Layout"
    )]
    partition: Option<String>,

    /// Template of the entities' row keys, such as `empid_{id:06}`
    #[arg(
        long,
        value_name = "TEMPLATE",
        required_unless_present = "layout",
        help_heading = "Layout"
    )]
    row: Option<String>,

    /// An index and the template of its copies' row keys, such as `email=email_{EmailAddress}`
    #[arg(
        long,
        value_name = "NAME=TEMPLATE",
        required_unless_present = "layout",
        help_heading = "Layout"
    )]
    index: Vec<String>,

    /// A unique index: at most one entity has a value
    #[arg(long, value_name = "NAME", conflicts_with = "layout", help_heading = "Layout")]
    unique: Vec<String>,

    /// Partition key template of an index whose copies are in other partitions
    #[arg(long, value_name = "NAME=TEMPLATE", conflicts_with = "layout", help_heading = "Layout")]
    index_partition: Vec<String>,

    /// Table of an index whose copies are in another table
    #[arg(long, value_name = "NAME=TABLE", conflicts_with = "layout", help_heading = "Layout")]
    index_table: Vec<String>,

    /// Properties in the copies of an index; empty for keys only
    #[arg(
        long,
        value_name = "NAME=PROPERTY,..",
        conflicts_with = "layout",
        help_heading = "Layout"
    )]
    project: Vec<String>,
}

const ADVICE: &str = "a layout is what `serde_json::to_string(&IndexLayout::of::<T>()?)` gives; docs/commands.md \
                      shows one written by hand";

impl LayoutArguments {
    pub(crate) fn read(&self) -> Result<IndexLayout> {
        let (text, from) = match &self.layout {
            Some(path) => (read_file(path)?, path.display().to_string()),
            None => (self.text()?, "the command line".to_owned()),
        };
        serde_json::from_value(text)
            .map_err(|error| usage(format!("the layout from {from}: {error}"), ADVICE))
    }

    /// The layout given by options, in the format of a file.
    fn text(&self) -> Result<Value> {
        let mut indexes: Vec<Map<String, Value>> = Vec::new();
        for option in &self.index {
            let (name, row) = pair("--index", option)?;
            let mut index = Map::new();
            index.insert("name".to_owned(), json!(name));
            index.insert("row".to_owned(), json!(row));
            indexes.push(index);
        }
        let mut set = |option: &str, name: &str, member: &str, value: Value| {
            let index = indexes.iter_mut().find(|index| index.get("name") == Some(&json!(name)));
            let unknown =
                || usage(format!("{option} names the index {name}, which has no --index"), ADVICE);
            index.ok_or_else(unknown)?.insert(member.to_owned(), value);
            Ok::<(), anyhow::Error>(())
        };
        for name in &self.unique {
            set("--unique", name, "unique", json!(true))?;
        }
        for option in &self.index_partition {
            let (name, template) = pair("--index-partition", option)?;
            set("--index-partition", name, "partition", json!(template))?;
        }
        for option in &self.index_table {
            let (name, table) = pair("--index-table", option)?;
            set("--index-table", name, "table", json!(table))?;
        }
        for option in &self.project {
            let (name, properties) = pair("--project", option)?;
            let properties: Vec<&str> =
                properties.split(',').filter(|name| !name.is_empty()).collect();
            set("--project", name, "project", json!(properties))?;
        }
        Ok(json!({
            "kind": self.kind, "partition": self.partition, "row": self.row, "indexes": indexes,
        }))
    }
}

/// An option of the form `NAME=VALUE`.
fn pair<'a>(option: &str, text: &'a str) -> Result<(&'a str, &'a str)> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.ok_or_else(|| usage(format!("{option} {text} is not NAME=VALUE"), ADVICE))
}

fn read_file(path: &Path) -> Result<Value> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| usage(format!("cannot read the layout {shown}: {error}"), ADVICE))?;
    let is_json = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    let read = match is_json {
        true => serde_json::from_str(&text).map_err(|error| error.to_string()),
        false => toml::from_str(&text).map_err(|error| error.to_string()),
    };
    read.map_err(|error| usage(format!("the layout {shown} cannot be read: {error}"), ADVICE))
}
