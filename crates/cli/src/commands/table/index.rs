//! `lazuli table index`: verify, repair, rebuild (P-0.5).

use super::layout::LayoutArguments;
use crate::confirm::Confirmation;
use crate::exit::Exit;
use crate::failure::{ending, is_broken_pipe};
use crate::output::{Grid, counted};
use crate::progress::Progress;
use crate::session::Session;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use lazuli_client::patterns::eventual::CopyFinding;
use lazuli_client::patterns::{IndexMaintenance, IndexPage, IndexToken};
use serde::Serialize;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Report missing, stale and orphaned copies; exits with 8 if there are any
    #[command(after_help = "Examples:
  lazuli table index verify Staff --layout staff.json
  lazuli table index verify Staff --layout staff.json --only mail --json")]
    Verify {
        #[command(flatten)]
        search: SearchArguments,
        /// Only this index
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
    },
    /// Repair the copies that `verify` reports; exits with 8 if some cannot be repaired
    #[command(after_help = "Examples:
  lazuli table index repair Staff --layout staff.json --dry-run
  lazuli table index repair Staff --layout staff.json --only mail --yes")]
    Repair {
        #[command(flatten)]
        search: SearchArguments,
        /// Only this index
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
        #[command(flatten)]
        change: ChangeArguments,
    },
    /// Fill an index that was declared after the entities were written
    #[command(after_help = "Examples:
  lazuli table index rebuild Staff mail --layout staff.json --dry-run
  lazuli table index rebuild Staff mail --layout staff.json --yes")]
    Rebuild {
        #[command(flatten)]
        search: SearchArguments,
        /// Name of the index
        name: String,
        #[command(flatten)]
        change: ChangeArguments,
    },
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SearchArguments {
    /// Name of the table that holds the entities
    table: String,

    #[command(flatten)]
    layout: LayoutArguments,

    /// Only this partition of each table
    #[arg(long, value_name = "KEY")]
    partition_key: Option<String>,

    /// Continue where a stopped run ended
    #[arg(long, value_name = "TOKEN")]
    resume: Option<String>,
}

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ChangeArguments {
    /// Report what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    confirmation: Confirmation,
}

/// The outcome of a search.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    rows: u64,
    findings: u64,
    mended: u64,
    left: u64,
    /// Entities whose copies cannot be determined.
    unreadable: u64,
    /// Where to continue, if the search was stopped.
    token: Option<String>,
}

pub(crate) async fn run(session: &Session, verb: Verb) -> Result<Exit> {
    match verb {
        Verb::Verify { search, only } => {
            let work = describe(session, &search, only.as_deref())?;
            work_through(session, work, false).await
        }
        Verb::Repair { search, only, change } => {
            let work = describe(session, &search, only.as_deref())?;
            mend(session, work, &search.table, change).await
        }
        Verb::Rebuild { search, name, change } => {
            let work = describe(session, &search, Some(&name))?;
            mend(session, work, &search.table, change).await
        }
    }
}

fn describe(
    session: &Session,
    search: &SearchArguments,
    only: Option<&str>,
) -> Result<IndexMaintenance> {
    let layout = search.layout.read()?;
    let mut work = session.table(&search.table)?.indexes(&layout);
    if let Some(name) = only {
        work = work.only(name)?;
    }
    if let Some(key) = &search.partition_key {
        work = work.partition(key);
    }
    if let Some(token) = &search.resume {
        work = work.resume(token.parse::<IndexToken>().context("read --resume")?);
    }
    Ok(work)
}

async fn mend(
    session: &Session,
    work: IndexMaintenance,
    table: &str,
    change: ChangeArguments,
) -> Result<Exit> {
    if change.dry_run {
        return work_through(session, work, false).await;
    }
    // With a layout other than the writer's, good copies would look like orphans.
    let deed = format!("writing and deleting copies of the entities of {table}");
    change.confirmation.ask(&deed, table).await?;
    work_through(session, work.mending(), true).await
}

/// Goes through all rows, prints the findings, and reports how it ended. A search ends when nobody reads the findings any
/// more; a repair goes on.
async fn work_through(session: &Session, work: IndexMaintenance, mends: bool) -> Result<Exit> {
    let mut pages = work.pages();
    let mut report = Report::default();
    let mut printer = Printer { has_printed: false };
    let mut is_heard = true;
    let heard = |printed: Result<()>| match printed {
        Err(error) if mends && is_broken_pipe(&error) => Ok(false),
        printed => printed.map(|()| true),
    };
    let mut progress = Progress::new(&session.out, "rows");
    session.interrupt.end_in_order();
    while !session.interrupt.is_asked() {
        let Some(page) = pages.next_page().await? else {
            report.token = None;
            break;
        };
        progress.add(page.rows);
        if is_heard {
            is_heard = heard(printer.page(session, &page))?;
        }
        report.rows += page.rows;
        report.findings += page.findings.len() as u64;
        report.mended += page.mended;
        report.left += page.left.len() as u64;
        report.unreadable += page.unreadable.len() as u64;
        report.token = page.token.map(|token| token.to_string());
        if report.token.is_none() {
            break;
        }
    }
    drop(progress);
    if session.out.is_json() && is_heard {
        heard(session.out.document(&report))?;
    }
    if let Some(token) = report.token {
        let problem = format!("stopped after {}", counted(report.rows, "row", "rows"));
        return Err(ending(Exit::Partial, problem, format!("--resume {token} continues")));
    }
    let mut remark = format!(
        "looked at {}: {}, {} mended, {} left",
        counted(report.rows, "row", "rows"),
        counted(report.findings, "finding", "findings"),
        report.mended,
        report.left
    );
    if report.unreadable > 0 {
        remark += &format!(
            "; the copies of {} cannot be told",
            counted(report.unreadable, "entity", "entities")
        );
    }
    session.out.remark(remark);
    Ok(if report.left > 0 { Exit::Damaged } else { Exit::Done })
}

/// A finding, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    kind: String,
    index: &'a str,
    table: &'a str,
    partition_key: &'a str,
    row_key: &'a str,
    entity_partition_key: &'a str,
    entity_row_key: &'a str,
    mended: bool,
}

impl<'a> Shown<'a> {
    fn of(finding: &'a CopyFinding, is_left: bool) -> Self {
        Self {
            kind: finding.kind.to_string(),
            index: &finding.index,
            table: &finding.table,
            partition_key: finding.row.partition.as_str(),
            row_key: finding.row.row.as_str(),
            entity_partition_key: finding.primary.partition.as_str(),
            entity_row_key: finding.primary.row.as_str(),
            mended: !is_left,
        }
    }
}

struct Printer {
    has_printed: bool,
}

impl Printer {
    fn page(&mut self, session: &Session, page: &IndexPage) -> Result<()> {
        for (key, error) in &page.unreadable {
            let (partition, row) = (&key.partition, &key.row);
            session
                .out
                .warn(format_args!("the copies of ({partition}, {row}) cannot be told: {error}"));
        }
        let is_left = |finding: &CopyFinding| page.left.contains(finding);
        if session.out.is_json() {
            let shown =
                |finding: &CopyFinding| session.out.document(&Shown::of(finding, is_left(finding)));
            return page.findings.iter().try_for_each(shown);
        }
        if page.findings.is_empty() {
            return Ok(());
        }
        if std::mem::replace(&mut self.has_printed, true) {
            session.out.bytes(b"\n")?;
        }
        let mut grid = Grid::new([
            "FINDING",
            "INDEX",
            "TABLE",
            "PARTITION KEY",
            "ROW KEY",
            "ENTITY",
            "MENDED",
        ]);
        for finding in &page.findings {
            let (at, of) = (&finding.row, &finding.primary);
            grid.row([
                finding.kind.to_string(),
                finding.index.clone(),
                finding.table.clone(),
                at.partition.as_str().to_owned(),
                at.row.as_str().to_owned(),
                format!("({}, {})", of.partition, of.row),
                if is_left(finding) { "no" } else { "yes" }.to_owned(),
            ]);
        }
        session.out.grid(&grid)
    }
}
