//! `lazuli sas`: makes and explains shared access signatures.

mod blob_path;
mod explain;
mod make;

use crate::connect::Target;
use crate::exit::Exit;
use crate::failure::usage;
use crate::input::aside;
use crate::output::{Grid, Output};
use anyhow::{Context, Result};
use clap::Subcommand;
use explain::{Explanation, Signer};
use lazuli_model::{Clock, SystemClock};
use std::io::Read;

/// The longest token or URL read from standard input.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Verb {
    /// Make a token for a table, or some of its entities
    Table(Box<make::TableArguments>),
    /// Make a token for the services of an account
    Account(make::AccountArguments),
    /// Make a token for a queue
    Queue(make::QueueArguments),
    /// Make a token for a container, or one of its blobs
    Blob(Box<make::BlobArguments>),
    /// Show what a token permits, until when, and whether it is valid; fails with 4 if not
    #[command(
        after_help = "The signature is checked if the account's key is given: -c, --account with \
--key, -p, or the environment.

Examples:
  lazuli sas explain \"$(cat token.txt)\"
  lazuli sas explain - --json < token.txt"
    )]
    Explain {
        /// The token, or a URL that ends with it, or `-` for standard input
        token: String,
        /// The queue of the token, if it is not in a URL
        #[arg(long, value_name = "NAME")]
        queue: Option<String>,
    },
}

pub(crate) async fn run(target: &Target, out: Output, verb: &Verb) -> Result<Exit> {
    match verb {
        Verb::Table(arguments) => make::table(target, &out, arguments).await,
        Verb::Account(arguments) => make::account(target, &out, arguments),
        Verb::Queue(arguments) => make::queue(target, &out, arguments).await,
        Verb::Blob(arguments) => make::blob(target, &out, arguments).await,
        Verb::Explain { token, queue } => explain(target, out, token, queue.as_deref()).await,
    }
}

async fn explain(target: &Target, out: Output, given: &str, queue: Option<&str>) -> Result<Exit> {
    let text = match given {
        "-" => aside(from_stdin).await??,
        token => token.to_owned(),
    };
    let key = match target.is_given() {
        true => target.signing_key(&out)?,
        // The development account's key says nothing about a token of another account.
        false => None,
    };
    let signer = key.as_ref().map(|(account, key)| Signer { account, key });
    let explanation = Explanation::of(text.trim(), signer, queue, SystemClock.now())
        .map_err(|error| usage(error.to_string(), "a token has a parameter `sig`"))?;
    out.either(&explanation, || Grid::pairs(explanation.lines()))?;
    Ok(if explanation.is_refused() { Exit::Refused } else { Exit::Done })
}

fn from_stdin() -> Result<String> {
    let mut text = String::new();
    let mut input = std::io::stdin().lock().take(TOKEN_BYTES_MAX);
    input.read_to_string(&mut text).context("read the token from standard input")?;
    Ok(text)
}
