//! `lazuli explain`: the server's plan for a query, as a tree.

use crate::connect::Target;
use crate::exit::Exit;
use crate::output::{OutputArguments, Paint};
use crate::session::Session;
use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli explain People --filter \"PartitionKey eq 'Marketing' and Age ge 30\"
  lazuli explain People --filter \"startswith(RowKey,'2026-')\" --run --json")]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Name of the table
    table: String,

    /// The filter of the query
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,

    /// Run the query and say what its first page cost
    #[arg(long)]
    run: bool,
}

pub(crate) async fn run(session: &Session, arguments: &ExplainArguments) -> Result<Exit> {
    let table = session.table(&arguments.table)?;
    let filter = arguments.filter.as_deref().map(crate::filter::parse_extended).transpose()?;
    let text = match arguments.run {
        true => table.server_run(filter).await?,
        false => table.server_plan(filter).await?,
    };
    let plan: Value = serde_json::from_str(&text).context("read the plan")?;
    if session.out.is_json() {
        session.out.document(&plan)?;
        return Ok(Exit::Done);
    }
    let tree = tree(&arguments.table, &plan, arguments.run, session.out.paint());
    session.out.bytes(tree.as_bytes())?;
    Ok(Exit::Done)
}

/// The plan as a tree, with advice.
fn tree(table: &str, plan: &Value, has_run: bool, paint: Paint) -> String {
    let text = |path: &str| plan.pointer(path).map(shown).unwrap_or_default();
    let guide = text("/guide");
    let scans = guide == "table scan";
    let colour = |words: &str| if scans { paint.bad(words) } else { paint.bold(words) };
    let mut lines = vec![format!("{} ({guide})", colour(&text("/kind")))];
    let has_index = plan.pointer("/index").is_some_and(Value::is_object);
    if has_index {
        let is_own = plan.pointer("/index/automatic").is_some_and(|own| *own == Value::Bool(true));
        let own = if is_own { ", declared by the server itself" } else { "" };
        let (name, access) = (text("/index/name"), text("/index/access"));
        lines.push(format!("by index {name} ({access}{own})"));
    }
    let reads = plan.pointer("/reads").and_then(Value::as_array);
    for read in reads.into_iter().flatten() {
        let whole = read.as_object().is_some_and(serde_json::Map::is_empty);
        match (whole, has_index) {
            (true, true) => {}
            (true, false) => lines.push("reads the whole table".to_owned()),
            (false, true) => lines.push(format!("reads what the index names of {read}")),
            (false, false) => lines.push(format!("reads {read}")),
        }
    }
    if !text("/conditions").is_empty() {
        lines.push(format!("then keeps {}", text("/conditions")));
    }
    if plan.pointer("/fell_back").is_some() {
        lines.push(format!(
            "index {} names too many: after {} of its entries the query scanned instead",
            text("/fell_back/name"),
            text("/fell_back/entries")
        ));
    }
    let candidates = plan.pointer("/candidates").and_then(Value::as_array);
    for candidate in candidates.into_iter().flatten() {
        lines.push(format!("index {} could serve it, and is not ready", shown(candidate)));
    }
    lines.push(match has_run {
        true => format!(
            "examined {}, returned {}, {} bytes, {} µs",
            text("/examined"),
            text("/returned"),
            text("/bytes"),
            text("/us")
        ),
        false => format!("estimate rests on {}", text("/estimate/rests_on")),
    });
    lines.push(format!(
        "on Azure: {} ({}), {}, {} {} by the prices of {}",
        text("/azure/kind"),
        text("/azure/guide"),
        transactions(plan.pointer("/azure/transactions").and_then(Value::as_u64)),
        price(plan.pointer("/azure/price").and_then(Value::as_f64)),
        text("/azure/currency"),
        text("/azure/prices_of")
    ));
    let filters = !text("/conditions").is_empty();
    lines.extend(
        advice(&guide, &text("/azure/guide"), filters)
            .map(|a| format!("{} {a}", paint.bold("advice:"))),
    );
    let last = lines.len().saturating_sub(1);
    let mut out = format!("{}\n", paint.bold(table));
    for (index, line) in lines.iter().enumerate() {
        out.push_str(if index == last { "└─ " } else { "├─ " });
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn transactions(number: Option<u64>) -> String {
    crate::output::counted(number.unwrap_or_default(), "transaction", "transactions")
}

/// A price with three significant digits, without an exponent.
fn price(price: Option<f64>) -> String {
    let price = price.unwrap_or_default();
    if price == 0.0 || !price.is_finite() {
        return "0".to_owned();
    }
    let before_point = price.abs().log10().floor() as i32 + 1;
    let digits = usize::try_from(3 - before_point).unwrap_or(0);
    let text = format!("{price:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// What to do about a plan that reads much, here or on Azure. An index can only help a plan that `filters` what it
/// reads.
fn advice(guide: &str, azure: &str, filters: bool) -> Option<&'static str> {
    match (guide, azure) {
        ("table scan", _) if !filters => Some("name a PartitionKey, if you do not need all of it"),
        ("partition scan", _) if !filters => Some("name a range of row keys"),
        ("table scan", _) => {
            Some("name a PartitionKey, or declare an index on the properties of the filter")
        }
        ("partition scan", _) => Some("name a range of row keys, or declare an index"),
        ("index lookup", "table scan" | "partition scan") => {
            Some("Azure has no such index and scans here: keep copies under other keys (P-1, P-2)")
        }
        (_, "table scan" | "partition scan") => {
            Some("Azure scans here: send each key as a query of its own")
        }
        _ => None,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => crate::output::printable(text).to_string(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    ///
    #[test]
    fn a_plan_is_a_tree_with_advice() {
        let plan = serde_json::json!({
            "kind": "Table", "guide": "table scan", "reads": [{}], "conditions": "Age gt 3",
            "examined": 9, "returned": 1, "bytes": 90, "us": 12,
            "azure": {"kind": "Table", "guide": "table scan", "pages": 1, "transactions": 1,
                      "price": 3.6e-8, "currency": "USD", "prices_of": "2026-11-01"},
        });
        let expect = "People\n\
            ├─ Table (table scan)\n\
            ├─ reads the whole table\n\
            ├─ then keeps Age gt 3\n\
            ├─ examined 9, returned 1, 90 bytes, 12 µs\n\
            ├─ on Azure: Table (table scan), 1 transaction, 0.000000036 USD by the prices of 2026-11-01\n\
            └─ advice: name a PartitionKey, or declare an index on the properties of the filter\n";
        assert_eq!(tree("People", &plan, true, Paint::OFF), expect);
    }

    #[test]
    fn prices_are_written_out() {
        let cases = [
            (3.600_000_000_000_000_5e-8, "0.000000036"),
            (0.0, "0"),
            (1.0, "1"),
            (0.1 + 0.2, "0.3"),
            (123_456.0, "123456"),
            (0.000_123_456, "0.000123"),
        ];
        for (number, text) in cases {
            assert_eq!(price(Some(number)), text);
        }
    }

    /// A plan that uses an index does not read the whole table, although it names no keys.
    #[test]
    fn a_plan_by_index_says_so_alone() {
        let plan = serde_json::json!({
            "kind": "Index", "guide": "index lookup", "reads": [{}], "conditions": "Age eq 3",
            "index": {"name": "byAge", "access": "eq", "entries": 1, "automatic": true},
            "examined": 1, "returned": 1, "bytes": 90, "us": 12,
            "azure": {"kind": "Table", "guide": "table scan", "pages": 2, "transactions": 2,
                      "price": 7.2e-8, "currency": "USD", "prices_of": "2026-11-01"},
        });
        let expect = "People\n\
            ├─ Index (index lookup)\n\
            ├─ by index byAge (eq, declared by the server itself)\n\
            ├─ then keeps Age eq 3\n\
            ├─ examined 1, returned 1, 90 bytes, 12 µs\n\
            ├─ on Azure: Table (table scan), 2 transactions, 0.000000072 USD by the prices of 2026-11-01\n\
            └─ advice: Azure has no such index and scans here: keep copies under other keys (P-1, P-2)\n";
        assert_eq!(tree("People", &plan, true, Paint::OFF), expect);
    }
}
