//! The access policies stored with a table.

use crate::exit::Exit;
use crate::failure::{ending, usage, with_hint};
use crate::moment::Moment;
use crate::output::Grid;
use crate::session::Session;
use anyhow::Result;
use clap::Subcommand;
use lazuli_model::AccessPolicy;
use lazuli_model::limits::{ACCESS_POLICIES_MAX, ACCESS_POLICY_ID_CHARS_MAX};
use serde::Serialize;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Acl {
    /// List the policies of a table
    #[command(after_help = "Examples:
  lazuli tables acl list People
  lazuli tables acl list People --json")]
    List {
        /// Name of the table
        table: String,
    },
    /// Store a policy, replacing one with the same id
    #[command(after_help = "Examples:
  lazuli tables acl set People readers --permissions r --expiry 30d
  lazuli tables acl set People writers --permissions raud --expiry 2099-01-01 --json")]
    Set {
        /// Name of the table
        table: String,
        /// Id of the policy, 1 to 64 characters
        id: String,
        /// What it permits: letters of `raud` (read, add, update, delete)
        #[arg(long, value_name = "LETTERS")]
        permissions: Option<String>,
        /// When it starts: a time, or a while from now such as 90m, 12h, 7d
        #[arg(long, value_name = "TIME")]
        start: Option<Moment>,
        /// When it ends
        #[arg(long, value_name = "TIME")]
        expiry: Option<Moment>,
    },
    /// Remove a policy: tokens that name it are refused from then on
    #[command(after_help = "Examples:
  lazuli tables acl remove People readers
  lazuli tables acl remove People writers --json")]
    Remove {
        /// Name of the table
        table: String,
        /// Id of the policy
        id: String,
    },
}

#[derive(Serialize)]
struct PolicyList<'a> {
    table: &'a str,
    policies: Vec<PolicyItem<'a>>,
}

#[derive(Serialize)]
struct PolicyItem<'a> {
    id: &'a str,
    start: Option<String>,
    expiry: Option<String>,
    permissions: Option<&'a str>,
}

pub(super) async fn run(session: &Session, verb: Acl) -> Result<Exit> {
    match verb {
        Acl::List { table } => {
            let policies = read(session, &table).await?;
            print(session, &table, &policies)?;
        }
        Acl::Set { table, id, permissions, start, expiry } => {
            if let Some(letters) =
                permissions.as_deref().filter(|p| p.contains(|c| !"raud".contains(c)))
            {
                let problem = format!("{letters:?} has other letters than raud");
                return Err(usage(problem, "read, add, update, delete"));
            }
            if !(1..=ACCESS_POLICY_ID_CHARS_MAX).contains(&id.chars().count()) {
                let problem = "the id of a policy has 1 to 64 characters";
                return Err(usage(problem, "tokens name it: choose a short one"));
            }
            if let (Some(Moment(start)), Some(Moment(expiry))) = (start, expiry)
                && start >= expiry
            {
                return Err(usage(
                    "the policy ends before it starts",
                    "change --start or --expiry",
                ));
            }
            let policy = AccessPolicy {
                id,
                start: start.map(|moment| moment.0),
                expiry: expiry.map(|moment| moment.0),
                permissions,
            };
            let mut policies = read(session, &table).await?;
            match policies.iter().position(|known| known.id == policy.id) {
                Some(known) => {
                    policies.remove(known);
                    policies.insert(known, policy);
                }
                None if policies.len() >= ACCESS_POLICIES_MAX => {
                    let problem =
                        format!("{table} has {ACCESS_POLICIES_MAX} policies, and no room for more");
                    let advice = "`lazuli tables acl remove` makes room";
                    return Err(with_hint(problem, advice));
                }
                None => policies.push(policy),
            }
            store(session, &table, policies).await?;
        }
        Acl::Remove { table, id } => {
            let mut policies = read(session, &table).await?;
            let count = policies.len();
            policies.retain(|policy| policy.id != id);
            if policies.len() == count {
                let problem = format!("{table} has no policy {id}");
                return Err(ending(Exit::NotFound, problem, "`lazuli tables acl list` lists them"));
            }
            store(session, &table, policies).await?;
        }
    }
    Ok(Exit::Done)
}

async fn read(session: &Session, table: &str) -> Result<Vec<AccessPolicy>> {
    Ok(session.table(table)?.policies().await?.iter().cloned().collect())
}

/// Stores the policies and prints the new state.
async fn store(session: &Session, table: &str, policies: Vec<AccessPolicy>) -> Result<()> {
    session.table(table)?.set_policies(policies.clone()).await?;
    print(session, table, &policies)
}

fn print(session: &Session, table: &str, policies: &[AccessPolicy]) -> Result<()> {
    let item = |policy: &'_ AccessPolicy| {
        [policy.start, policy.expiry].map(|time| time.map(|time| time.to_string()))
    };
    let items = policies.iter().map(|policy| {
        let [start, expiry] = item(policy);
        PolicyItem { id: &policy.id, start, expiry, permissions: policy.permissions.as_deref() }
    });
    let list = PolicyList { table, policies: items.collect() };
    session.out.either(&list, || {
        let mut grid = Grid::new(["POLICY", "PERMITS", "FROM", "UNTIL"]);
        for policy in &list.policies {
            let time = |time: &Option<String>| time.clone().unwrap_or_default();
            let permissions = policy.permissions.unwrap_or_default().to_owned();
            grid.row([
                policy.id.to_owned(),
                permissions,
                time(&policy.start),
                time(&policy.expiry),
            ]);
        }
        grid
    })
}
