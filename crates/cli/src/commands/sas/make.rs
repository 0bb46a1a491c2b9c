//! Makes tokens: signed locally with the account's key, or with a key that the service issues to a user. Only the
//! latter needs a request.

use crate::connect::Target;
use crate::exit::Exit;
use crate::failure::{Hint, exit_of_client, usage};
use crate::moment::Moment;
use crate::output::Output;
use anyhow::Result;
use clap::Args;
use lazuli_client::{
    Permissions, Request, ResourceTypes, SasServices, TableSasBuilder, UserDelegationKey,
};
use lazuli_model::{Clock, SystemClock};
use lazuli_wire::uri::write_blob_path;
use serde::Serialize;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// What every token may say.
#[derive(Args, Clone, Debug)]
pub(super) struct Terms {
    /// When the token ends: a time, or a while from now such as 90m, 12h, 7d
    #[arg(long, value_name = "TIME")]
    expiry: Option<Moment>,

    /// When the token starts; by default at once
    #[arg(long, value_name = "TIME")]
    start: Option<Moment>,

    /// Only callers with this address, or in this range: 10.0.0.1-10.0.0.9
    #[arg(long, value_name = "ADDRESS[-ADDRESS]", value_parser = addresses)]
    ip: Option<RangeInclusive<IpAddr>>,

    /// Only over HTTPS
    #[arg(long)]
    https_only: bool,
}

impl Terms {
    /// A token that has ended is seldom what somebody wants.
    fn warn(&self, out: &Output) {
        if self.expiry.is_some_and(|Moment(expiry)| expiry <= SystemClock.now()) {
            out.warn("the token has ended already: no service takes it");
        }
    }
}

/// What tokens for one resource may say beside that.
#[derive(Args, Clone, Debug)]
pub(super) struct Signing {
    /// Stored policy that says what the token leaves out
    #[arg(long, value_name = "ID", conflicts_with = "as_user")]
    policy: Option<String>,

    /// Sign with a key that the service gives to the user of --token, instead of the account's; the token
    /// permits what the user may do, and at most seven days
    #[arg(long)]
    as_user: bool,

    #[command(flatten)]
    terms: Terms,
}

impl Signing {
    /// The key of the user, if it is to sign.
    async fn user_key(
        &self,
        ask: impl FnOnce(Duration) -> Request<UserDelegationKey>,
    ) -> Result<Option<UserDelegationKey>> {
        if !self.as_user {
            return Ok(None);
        }
        let Some(Moment(expiry)) = self.terms.expiry else {
            return Err(usage("a token that a user signs needs an end", "add --expiry"));
        };
        let life = Duration::from_millis(expiry.millis_since(SystemClock.now()));
        match ask(life).await {
            Err(error)
                if matches!(error.status().map(|status| status.as_u16()), Some(400..=403)) =>
            {
                let (exit, problem) =
                    (exit_of_client(&error), "the service gives no key to sign with");
                let advice = "--as-user needs --token, the token of a user".to_owned();
                let hint = Hint { exit, problem: problem.to_owned(), advice };
                Err(anyhow::Error::from(error).context(hint))
            }
            key => Ok(Some(key?)),
        }
    }
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
    signing: Signing,
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

    #[command(flatten)]
    signing: Signing,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli sas blob pics --permissions rl --expiry 1h
  lazuli sas blob pics 2026/a.txt --permissions r --expiry 7d --content-type text/plain --json")]
pub(crate) struct BlobArguments {
    /// Name of the container
    container: String,

    /// Name of the blob; without it, the token is for the container and all its blobs
    blob: Option<String>,

    /// What the token permits: letters of `racwd` (read, add, create, write, delete), for a container also
    /// `l` (list)
    #[arg(long, value_name = "LETTERS", default_value = "")]
    permissions: String,

    /// Content-Type of responses, instead of the blob's
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// Content-Disposition of responses, such as "attachment; filename=a.txt"
    #[arg(long, value_name = "TEXT")]
    content_disposition: Option<String>,

    #[command(flatten)]
    signing: Signing,
}

#[derive(Serialize)]
struct Made<'a> {
    token: &'a str,
    /// The address of the resource, with the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// Sets the terms of any token.
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

/// Sets the terms of a token for one resource.
macro_rules! with_signing {
    ($builder:expr, $signing:expr, $ask:expr) => {{
        let (mut builder, signing) = ($builder, $signing);
        builder = with_terms!(builder, &signing.terms);
        if let Some(policy) = &signing.policy {
            builder = builder.policy(policy);
        }
        if let Some(key) = signing.user_key($ask).await? {
            builder = builder.delegated_by(&key);
        }
        builder
    }};
}

pub(super) async fn table(
    target: &Target,
    out: &Output,
    arguments: &TableArguments,
) -> Result<Exit> {
    let account = target.account(out)?;
    let tables = account.tables();
    let table = tables.table(&arguments.table)?;
    let builder = table.sas(permissions(&arguments.permissions, "raud")?);
    let builder =
        with_signing!(builder, &arguments.signing, |life| tables.user_delegation_key(life));
    let token = keys(builder, arguments)?.build()?;
    arguments.signing.terms.warn(out);
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
    arguments.terms.warn(out);
    print(out, token.as_str(), account.table_endpoint().filter(|_| services.tables))
}

pub(super) async fn queue(
    target: &Target,
    out: &Output,
    arguments: &QueueArguments,
) -> Result<Exit> {
    let account = target.account(out)?;
    let queues = account.queues();
    let queue = queues.queue(&arguments.queue)?;
    let builder = queue.sas(permissions(&arguments.permissions, "raup")?);
    let builder =
        with_signing!(builder, &arguments.signing, |life| queues.user_delegation_key(life));
    let url = account.queue_endpoint().map(|endpoint| format!("{endpoint}/{}", arguments.queue));
    let token = builder.build()?;
    arguments.signing.terms.warn(out);
    print(out, token.as_str(), url.as_deref())
}

pub(super) async fn blob(target: &Target, out: &Output, arguments: &BlobArguments) -> Result<Exit> {
    let account = target.account(out)?;
    let blobs = account.blobs();
    let container = blobs.container(&arguments.container)?;
    let mut path = format!("/{}", arguments.container).into_bytes();
    let builder = match &arguments.blob {
        None => container.sas(permissions(&arguments.permissions, "racwdl")?),
        Some(name) => {
            path.push(b'/');
            write_blob_path(&mut path, name);
            container.blob(name)?.sas(permissions(&arguments.permissions, "racwd")?)
        }
    };
    let mut builder =
        with_signing!(builder, &arguments.signing, |life| blobs.user_delegation_key(life));
    if let Some(content_type) = &arguments.content_type {
        builder = builder.content_type(content_type);
    }
    if let Some(disposition) = &arguments.content_disposition {
        builder = builder.content_disposition(disposition);
    }
    let path = String::from_utf8_lossy(&path);
    let url = account.blob_endpoint().map(|endpoint| format!("{endpoint}{path}"));
    print(out, builder.build()?.as_str(), url.as_deref())
}

/// Prints the token.
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
