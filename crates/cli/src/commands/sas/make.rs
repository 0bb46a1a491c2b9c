//! Makes tokens: signed here, with the account's key; no request is made.

use crate::connect::Target;
use crate::exit::Exit;
use crate::failure::usage;
use crate::moment::Moment;
use crate::output::Output;
use anyhow::{Context, Result};
use clap::Args;
use lazuli_client::{Account, Permissions, ResourceTypes, SasServices, TableSasBuilder};
use lazuli_wire::sas::QueueSas;
use serde::Serialize;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// The version of tokens for queues: the first that all services and emulators know.
const QUEUE_SAS_VERSION: &str = "2019-02-02";

/// What every token may say.
#[derive(Args, Clone, Debug)]
pub(super) struct Terms {
    /// When the token ends: a time, or a while from now such as 90m, 12h, 7d
    #[arg(long, value_name = "TIME")]
    expiry: Option<Moment>,

    /// When the token starts; by default at once
    #[arg(long, value_name = "TIME")]
    start: Option<Moment>,

    /// Only callers with this address, or from this to that: 10.0.0.1-10.0.0.9
    #[arg(long, value_name = "ADDRESS[-ADDRESS]", value_parser = addresses)]
    ip: Option<RangeInclusive<IpAddr>>,

    /// Only with TLS
    #[arg(long)]
    https_only: bool,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli sas table People --permissions r --expiry 1h
  lazuli sas table People --permissions raud --expiry 7d --partition Marketing --json")]
pub(crate) struct TableArguments {
    /// Name of the table
    table: String,

    /// What the token permits: letters of `raud` (read, add, update, delete)
    #[arg(long, value_name = "LETTERS", default_value = "")]
    permissions: String,

    /// Stored policy that says what the token leaves out
    #[arg(long, value_name = "ID")]
    policy: Option<String>,

    /// Only this partition
    #[arg(long, value_name = "KEY", conflicts_with_all = ["start_partition", "end_partition"])]
    partition: Option<String>,

    /// Only from this partition on
    #[arg(long, value_name = "KEY", requires = "end_partition")]
    start_partition: Option<String>,

    /// Only up to this partition
    #[arg(long, value_name = "KEY", requires = "start_partition")]
    end_partition: Option<String>,

    /// Only from this row of the first partition on
    #[arg(long, value_name = "KEY", requires = "end_row")]
    start_row: Option<String>,

    /// Only up to this row of the last partition
    #[arg(long, value_name = "KEY", requires = "start_row")]
    end_row: Option<String>,

    #[command(flatten)]
    terms: Terms,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli sas account --permissions rl --expiry 1h
  lazuli sas account --services tq --resource-types sco --permissions rwdlacup --expiry 7d --json")]
pub(crate) struct AccountArguments {
    /// What the token permits: letters of `rwdlacup` (read, write, delete, list, add, create, update,
    /// process)
    #[arg(long, value_name = "LETTERS")]
    permissions: String,

    /// For which services: letters of `tqb` (tables, queues, blobs)
    #[arg(long, value_name = "LETTERS", default_value = "t")]
    services: String,

    /// For which resources: letters of `sco` (service, containers, objects)
    #[arg(long, value_name = "LETTERS", default_value = "co")]
    resource_types: String,

    #[command(flatten)]
    terms: Terms,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli sas queue jobs --permissions ap --expiry 1h
  lazuli sas queue jobs --permissions r --expiry 2099-01-01 --json")]
pub(crate) struct QueueArguments {
    /// Name of the queue
    queue: String,

    /// What the token permits: letters of `raup` (read, add, update, process)
    #[arg(long, value_name = "LETTERS", default_value = "")]
    permissions: String,

    /// Stored policy that says what the token leaves out
    #[arg(long, value_name = "ID")]
    policy: Option<String>,

    #[command(flatten)]
    terms: Terms,
}

#[derive(Serialize)]
struct Made<'a> {
    token: &'a str,
    /// The address of what the token is for, with the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// Sets what every kind of token may say.
macro_rules! with_terms {
    ($builder:expr, $terms:expr) => {{
        let (mut builder, terms) = ($builder, $terms);
        if let Some(Moment(expiry)) = terms.expiry {
            builder = builder.expires_at(expiry);
        }
        if let Some(Moment(start)) = terms.start {
            builder = builder.starts_at(start);
        }
        if let Some(range) = &terms.ip {
            builder = builder.addresses(range.clone());
        }
        if terms.https_only {
            builder = builder.https_only();
        }
        builder
    }};
}

pub(super) fn table(target: &Target, out: &Output, arguments: &TableArguments) -> Result<Exit> {
    let account = target.account(out)?;
    let table = account.tables().table(&arguments.table)?;
    let permissions = permissions(&arguments.permissions, "raud")?;
    let builder = with_terms!(table.sas(permissions), &arguments.terms);
    let builder = match &arguments.policy {
        Some(policy) => builder.policy(policy),
        None => builder,
    };
    let token = keys(builder, arguments)?.build()?;
    let url = account.table_endpoint().map(|endpoint| format!("{endpoint}/{}", arguments.table));
    print(out, token.as_str(), url.as_deref())
}

/// Restricts a token to a range of keys.
fn keys(builder: TableSasBuilder, arguments: &TableArguments) -> Result<TableSasBuilder> {
    let TableArguments { partition, start_partition, end_partition, start_row, end_row, .. } =
        arguments;
    let first = partition.as_deref().or(start_partition.as_deref());
    let last = partition.as_deref().or(end_partition.as_deref());
    match (first, last, start_row.as_deref(), end_row.as_deref()) {
        (None, None, None, None) => Ok(builder),
        (Some(first), Some(last), None, None) => Ok(builder.partitions(first..=last)),
        (Some(first), Some(last), Some(from), Some(to)) => {
            Ok(builder.range((first, from)..=(last, to)))
        }
        _ => Err(usage("rows need partitions", "add --partition")),
    }
}

pub(super) fn account(target: &Target, out: &Output, arguments: &AccountArguments) -> Result<Exit> {
    let account = target.account(out)?;
    let letters = known_letters(&arguments.services, "tqb", "services")?;
    let services = SasServices {
        tables: letters.contains('t'),
        queues: letters.contains('q'),
        blobs: letters.contains('b'),
    };
    let types = known_letters(&arguments.resource_types, "sco", "resource types")?;
    let builder = account.sas(permissions(&arguments.permissions, "rwdlacup")?);
    let builder = builder.services(services).resource_types(ResourceTypes::parse(types));
    let token = with_terms!(builder, &arguments.terms).build()?;
    print(out, token.as_str(), account.table_endpoint().filter(|_| services.tables))
}

pub(super) fn queue(target: &Target, out: &Output, arguments: &QueueArguments) -> Result<Exit> {
    let account = target.account(out)?;
    // A name that cannot be is refused before anything is signed.
    account.queues().queue(&arguments.queue)?;
    let (name, key) = target.signing_key(out)?.ok_or_else(|| {
        usage("a token is made with the account's key", "give -c, or --account with --key")
    })?;
    let terms = &arguments.terms;
    let has_policy = arguments.policy.is_some();
    if !has_policy && (arguments.permissions.is_empty() || terms.expiry.is_none()) {
        return Err(usage(
            "a token needs --permissions and --expiry",
            "or --policy, which has them",
        ));
    }
    let time = |moment: Option<Moment>| moment.map(|m| m.0.to_string()).unwrap_or_default();
    let (start, expiry) = (time(terms.start), time(terms.expiry));
    let addresses = terms.ip.as_ref().map(|range| match range.start() == range.end() {
        true => range.start().to_string(),
        false => format!("{}-{}", range.start(), range.end()),
    });
    let letters = permissions(&arguments.permissions, "raup")?.letters();
    let sas = QueueSas {
        version: QUEUE_SAS_VERSION,
        start: &start,
        expiry: &expiry,
        permissions: &letters,
        policy: arguments.policy.as_deref().unwrap_or_default(),
        addresses: addresses.as_deref().unwrap_or_default(),
        protocol: if terms.https_only { "https" } else { "" },
        signature: "",
    };
    let token = sas.token(&name, &arguments.queue, &key).context("sign the token")?;
    print(out, &token, queue_url(&account, &arguments.queue).as_deref())
}

fn queue_url(account: &Account, queue: &str) -> Option<String> {
    account.queue_endpoint().map(|endpoint| format!("{endpoint}/{queue}"))
}

/// The token is what was asked for: it is printed.
fn print(out: &Output, token: &str, address: Option<&str>) -> Result<Exit> {
    match out.is_json() {
        true => {
            let url = address.map(|address| format!("{address}?{token}"));
            out.document(&Made { token, url })?;
        }
        false => out.bytes(format!("{token}\n").as_bytes())?,
    }
    Ok(Exit::Done)
}

fn permissions(letters: &str, known: &str) -> Result<Permissions> {
    Ok(Permissions::parse(known_letters(letters, known, "permissions")?))
}

fn known_letters<'a>(letters: &'a str, known: &str, what: &str) -> Result<&'a str> {
    match letters.chars().find(|letter| !known.contains(*letter)) {
        Some(letter) => Err(usage(
            format!("{letter:?} is not among the {what}"),
            format!("the letters are {known}"),
        )),
        None => Ok(letters),
    }
}

fn addresses(text: &str) -> Result<RangeInclusive<IpAddr>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<IpAddr>(), last.parse::<IpAddr>()) {
        (Ok(first), Ok(last)) if first.is_ipv4() == last.is_ipv4() && first <= last => {
            Ok(first..=last)
        }
        _ => Err("give an address, or the first and the last: 10.0.0.1-10.0.0.9".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_one_or_a_range() {
        assert!(addresses("10.0.0.1").is_ok() && addresses("10.0.0.1-10.0.0.9").is_ok());
        assert!(addresses("::1").is_ok());
        for wrong in ["", "10.0.0", "10.0.0.9-10.0.0.1", "10.0.0.1-::1", "a-b"] {
            assert!(addresses(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn letters_that_mean_nothing_are_refused() {
        assert_eq!(permissions("dr", "raud").unwrap().letters(), "rd");
        assert!(permissions("rx", "raud").is_err());
    }
}
