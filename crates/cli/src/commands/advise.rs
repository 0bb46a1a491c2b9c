//! `lazuli advise`: what could be improved, from the traffic that a Lazuli server has seen.

use crate::connect::Target;
use crate::exit::Exit;
use crate::output::{OutputArguments, Paint, printable};
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use lazuli_client::{ServerAdvice, ServerFinding};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli advise
  lazuli advise People --json")]
pub(crate) struct AdviseArguments {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Names of tables; all tables of the account if none is given
    #[arg(value_name = "TABLE")]
    tables: Vec<String>,
}

pub(crate) async fn run(session: &Session, arguments: &AdviseArguments) -> Result<Exit> {
    arguments.tables.iter().try_for_each(|name| session.table(name).map(drop))?;
    let mut advice = session.account.tables().server_advice().await?;
    let is_wanted = |table: &str| {
        let mut wanted = arguments.tables.iter();
        arguments.tables.is_empty() || wanted.any(|name| name.eq_ignore_ascii_case(table))
    };
    advice.findings.retain(|finding| is_wanted(&finding.table));
    advice.tables.retain(|table| table.text("table").is_some_and(is_wanted));
    match session.out.is_json() {
        true => session.out.document(&advice)?,
        false => session.out.bytes(list(&advice, session.out.paint()).as_bytes())?,
    }
    Ok(Exit::Done)
}

/// The findings as a list.
fn list(advice: &ServerAdvice, paint: Paint) -> String {
    if advice.findings.is_empty() {
        return "nothing to advise\n".to_owned();
    }
    let findings: Vec<String> =
        advice.findings.iter().map(|finding| block(finding, paint)).collect();
    findings.join("\n")
}

fn block(finding: &ServerFinding, paint: Paint) -> String {
    let ServerFinding { code, table, subject, seen, why, pattern, link, .. } = finding;
    let about = if subject.is_empty() { String::new() } else { format!(", {subject}") };
    let window = match finding.first == finding.last {
        true => format!("at {}", moment(&finding.first)),
        false => format!("{} to {}", moment(&finding.first), moment(&finding.last)),
    };
    let mut out = format!("{}\n", paint.bold(&printable(&format!("{code} {table}{about}"))));
    let lines = [
        ("seen", format!("{seen} ({window})")),
        ("here", why.here.clone()),
        ("on Azure", why.azure.clone()),
        ("do", finding.advice.clone()),
        ("how", finding.command.clone()),
        ("pattern", format!("{pattern}: {link}")),
    ];
    for (name, text) in lines {
        out.push_str(&format!("  {name:9}{}\n", printable(&text)));
    }
    out
}

/// A time without its fraction.
fn moment(text: &str) -> String {
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    ///
    #[test]
    fn findings_are_a_list() {
        let mut advice: ServerAdvice = serde_json::from_value(serde_json::json!({
            "account": "a", "at": "2026-11-18T00:00:00.0000000Z",
            "findings": [{
                "code": "ADV-4", "table": "People", "subject": "Email", "weight": 200, "times": 2,
                "seen": "2 of 2 queries", "first": "2026-11-18T00:00:00.0000000Z",
                "last": "2026-11-18T00:01:00.0000000Z",
                "why": {"here": "It reads.", "azure": "It is billed."}, "do": "Index Email.",
                "pattern": "Index pattern", "command": "lazuli index set People byEmail Email",
                "link": "docs/patterns/01-intra-partition-index.md",
            }],
        }))
        .unwrap();
        let expect = "ADV-4 People, Email\n\
            \x20 seen     2 of 2 queries (2026-11-18T00:00:00Z to 2026-11-18T00:01:00Z)\n\
            \x20 here     It reads.\n\
            \x20 on Azure It is billed.\n\
            \x20 do       Index Email.\n\
            \x20 how      lazuli index set People byEmail Email\n\
            \x20 pattern  Index pattern: docs/patterns/01-intra-partition-index.md\n";
        assert_eq!(list(&advice, Paint::OFF), expect);
        advice.findings.clear();
        assert_eq!(list(&advice, Paint::OFF), "nothing to advise\n");
    }
}
