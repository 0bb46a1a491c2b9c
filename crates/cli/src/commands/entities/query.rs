//! `lazuli entities query`: prints page by page, as a table, JSON lines or CSV.

mod csv;

use crate::entity_text::{cell, write_json};
use crate::exit::Exit;
use crate::failure::{ending, usage};
use crate::output::Grid;
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use csv::CsvWriter;
use lazuli_client::{Entity, Loaded, PageToken, Value};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli entities query People --filter \"PartitionKey eq 'Marketing' and Age ge 30\"
  lazuli entities query People --select FirstName,Age --all --json")]
pub(crate) struct QueryArguments {
    /// Name of the table
    table: String,

    /// Print only entities that match
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,

    /// Print only these properties, and the keys
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    select: Vec<String>,

    /// Print at most N entities
    #[arg(long, value_name = "N", conflicts_with = "all")]
    top: Option<usize>,

    /// Print all entities instead of one page
    #[arg(long)]
    all: bool,

    /// Print in descending order of the keys; only a Lazuli server can
    #[arg(long)]
    reverse: bool,

    /// Print all pages as they were at one moment; only a Lazuli server can
    #[arg(long, requires = "all")]
    snapshot: bool,

    /// Continue where an earlier query ended
    #[arg(long, value_name = "TOKEN")]
    resume: Option<String>,

    /// Print CSV
    #[arg(long)]
    csv: bool,
}

pub(super) async fn run(session: &Session, arguments: &QueryArguments) -> Result<Exit> {
    let table = session.table(&arguments.table)?;
    let mut query = super::selected(&table, arguments.filter.as_deref())?;
    if !arguments.select.is_empty() {
        query = query.select_names(arguments.select.iter().map(String::as_str));
    }
    if let Some(top) = arguments.top {
        query = query.take(top);
    }
    if arguments.reverse {
        query = query.descending();
    }
    if arguments.snapshot {
        query = query.snapshot();
    }
    if let Some(text) = &arguments.resume {
        query = query.resume(text.parse::<PageToken>()?);
    }
    let mut printer = Printer::new(session, arguments)?;
    let mut pages = query.pages();
    // The position to continue from, if the user stops the command.
    let mut token: Option<PageToken> = None;
    session.interrupt.end_in_order();
    loop {
        let Some(page) = session.interrupt.or(pages.next_page()).await else {
            return stopped(token.as_ref());
        };
        let Some(page) = page? else { break };
        token = page.token().cloned();
        printer.page(session, page.items())?;
        // An empty page need not be the last: stop after the first page with entities.
        let is_enough = !arguments.all && arguments.top.is_none() && !page.items().is_empty();
        if is_enough {
            break;
        }
    }
    printer.end(session)?;
    if let Some(token) = token {
        session.out.remark(format_args!("there is more: --resume {token}, or --all"));
    }
    Ok(Exit::Done)
}

fn stopped(token: Option<&PageToken>) -> Result<Exit> {
    match token {
        Some(token) => Err(ending(Exit::Partial, "stopped", format!("--resume {token} continues"))),
        None => Ok(Exit::Interrupted),
    }
}

/// Prints entities in the requested format.
enum Printer {
    Lines,
    Csv(CsvWriter),
    Table { columns: Vec<String>, is_fixed: bool, has_printed: bool },
}

const KEYS: [&str; 2] = ["PartitionKey", "RowKey"];

impl Printer {
    fn new(session: &Session, arguments: &QueryArguments) -> Result<Self> {
        let names = arguments.select.iter().filter(|name| !KEYS.contains(&name.as_str()));
        let columns: Vec<String> = names.cloned().collect();
        let is_fixed = !columns.is_empty();
        Ok(match (arguments.csv, session.out.is_json()) {
            (true, true) => {
                let advice = "--json prints one object per line";
                return Err(usage("--csv and --json contradict each other", advice));
            }
            (true, false) => Self::Csv(CsvWriter::new(is_fixed.then_some(columns))),
            (false, true) => Self::Lines,
            (false, false) => Self::Table { columns, is_fixed, has_printed: false },
        })
    }

    fn page(&mut self, session: &Session, entities: &[Loaded<Entity>]) -> Result<()> {
        let mut text = Vec::new();
        match self {
            Self::Lines => entities.iter().for_each(|entity| write_json(&mut text, entity)),
            Self::Csv(csv) => csv.page(&mut text, entities)?,
            Self::Table { .. } if entities.is_empty() => {}
            Self::Table { columns, is_fixed, has_printed } => {
                if !*is_fixed {
                    *columns = columns_of(entities);
                }
                if std::mem::replace(has_printed, true) {
                    session.out.bytes(b"\n")?;
                }
                return session.out.grid(&table(columns, entities));
            }
        }
        session.out.bytes(&text)
    }

    /// A table without rows still shows its columns.
    fn end(&mut self, session: &Session) -> Result<()> {
        match self {
            Self::Lines => Ok(()),
            Self::Csv(csv) => {
                let mut text = Vec::new();
                csv.end(&mut text);
                session.out.bytes(&text)
            }
            Self::Table { has_printed: true, .. } => Ok(()),
            Self::Table { columns, .. } => session.out.grid(&table(columns, &[])),
        }
    }
}

/// The names of all properties, in the order in which they first appear.
fn columns_of(entities: &[Loaded<Entity>]) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for (name, _) in entities.iter().flat_map(|entity| entity.properties()) {
        if !columns.iter().any(|known| known == name) {
            columns.push(name.to_owned());
        }
    }
    columns
}

fn table(columns: &[String], entities: &[Loaded<Entity>]) -> Grid {
    let heading = KEYS.into_iter().chain(columns.iter().map(String::as_str));
    let numbers = columns.iter().enumerate().filter(|(_, name)| holds_numbers(entities, name));
    let mut grid = numbers.fold(Grid::new(heading), |grid, (i, _)| grid.numbers_in(KEYS.len() + i));
    for entity in entities {
        let keys = [entity.partition_key().to_owned(), entity.row_key().to_owned()];
        let values = columns.iter().map(|name| value(entity, name));
        grid.row(keys.into_iter().chain(values));
    }
    grid
}

fn holds_numbers(entities: &[Loaded<Entity>], name: &str) -> bool {
    let mut values = entities.iter().filter_map(|entity| entity.value(name)).peekable();
    let is_number = |v: &Value| matches!(v, Value::Int32(_) | Value::Int64(_) | Value::Double(_));
    values.peek().is_some() && values.all(is_number)
}

/// A property as text; empty where the entity lacks it.
fn value(entity: &Loaded<Entity>, name: &str) -> String {
    match name {
        "Timestamp" => entity.timestamp().to_string(),
        name => entity.value(name).map(cell).unwrap_or_default(),
    }
}
