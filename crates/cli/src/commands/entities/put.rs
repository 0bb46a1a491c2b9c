//! `lazuli entities put`: writes one entity from pairs, or many from JSON.

mod load;

use crate::entity_text::{from_json, from_pairs, is_pair};
use crate::exit::Exit;
use crate::failure::{Hint, ending, usage};
use crate::input::ahead;
use crate::output::counted;
use crate::progress::Progress;
use crate::session::Session;
use anyhow::Result;
use clap::Args;
use lazuli_client::{ETag, Entity, Table, Write};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal};
use tokio::sync::mpsc::Receiver;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli entities put People PartitionKey=Marketing RowKey=00007 FirstName=Mia Age:Int32=42
  lazuli entities put People people.jsonl")]
pub(crate) struct PutArguments {
    /// Name of the table
    table: String,

    /// Properties as Name=Text or Name:Type=Value, both keys among them; or one file of JSON objects, one
    /// per line or not; or `-` for standard input
    #[arg(value_name = "PAIRS|FILE")]
    input: Vec<String>,

    /// Fail with 6 if the entity exists
    #[arg(long, group = "how")]
    insert: bool,

    /// Replace the entity, which must exist
    #[arg(long, group = "how")]
    replace: bool,

    /// Set the given properties and keep the others; the entity must exist
    #[arg(long, group = "how")]
    merge: bool,

    /// With --merge: insert the entity if it does not exist
    #[arg(long, requires = "merge")]
    or_insert: bool,

    /// With --replace or --merge: only if the entity still has this ETag
    #[arg(long, value_name = "ETAG", conflicts_with_all = ["insert", "or_insert"], requires = "how")]
    if_match: Option<String>,

    /// Skip the first N entities of the input, which were already written
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,

    /// Check the input and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Put {
    written: u64,
    dry_run: bool,
    /// The entity's, if it was a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
}

pub(super) async fn run(session: &Session, arguments: &PutArguments) -> Result<Exit> {
    let table = session.table(&arguments.table)?;
    let input = Input::find(&arguments.input)?;
    let is_one = matches!(input, Input::Pairs(_));
    if arguments.if_match.is_some() && !is_one {
        return Err(usage("--if-match is the version of one entity", "give the entity as pairs"));
    }
    session.interrupt.end_in_order();
    let skip = usize::try_from(arguments.skip).unwrap_or(usize::MAX);
    let entities = ahead(move || input.entities().skip(skip));
    // Only repeatable writes are sent concurrently: then it does no harm if some beyond the last checkpoint were
    // carried out too.
    let may_repeat =
        !arguments.insert && !arguments.replace && arguments.merge == arguments.or_insert;
    let outcome = match may_repeat && !is_one && !arguments.dry_run {
        true => load::run(session, &table, entities, arguments.merge).await,
        false => one_by_one(session, &table, entities, arguments, is_one).await,
    };
    let Written { count, etag, failure } = outcome;
    if let Some(error) = failure {
        return Err(in_part(error, count, arguments));
    }
    let deed = if arguments.dry_run { "would write" } else { "wrote" };
    let remark = format!("{deed} {}", counted(count, "entity", "entities"));
    let etag = etag.map(|etag| etag.to_string());
    session.out.done(&Put { written: count, dry_run: arguments.dry_run, etag }, remark)?;
    Ok(Exit::Done)
}

/// What was written, and why it ended before the end of the input.
struct Written {
    /// This many entities from the beginning of the input were all written.
    count: u64,
    /// The entity's, if it was a single one.
    etag: Option<ETag>,
    failure: Option<anyhow::Error>,
}

async fn one_by_one(
    session: &Session,
    table: &Table,
    mut entities: Receiver<Result<Entity>>,
    arguments: &PutArguments,
    is_one: bool,
) -> Written {
    let mut progress = match is_one {
        true => Progress::hidden(),
        false => Progress::new(&session.out, "entities"),
    };
    let mut etag = None;
    let failure = loop {
        let entity = match session.interrupt.or(entities.recv()).await {
            None => break Some(stopped()),
            Some(None) => break None,
            Some(Some(Err(error))) => break Some(error),
            Some(Some(Ok(entity))) => entity,
        };
        // The client checks what it writes in the same way.
        let written = match arguments.dry_run {
            true => table.check(&entity).map(|()| None),
            false => write(table, &entity, arguments).await.map(|written| Some(written.etag)),
        };
        match written {
            Ok(written) => etag = written.filter(|_| is_one),
            Err(error) => break Some(error.into()),
        }
        progress.add(1);
    };
    Written { count: progress.done(), etag, failure }
}

fn stopped() -> anyhow::Error {
    ending(Exit::Interrupted, "stopped", "nothing was written")
}

/// An error after some entities were written says how to continue.
fn in_part(error: anyhow::Error, written: u64, arguments: &PutArguments) -> anyhow::Error {
    if written == 0 || arguments.dry_run {
        return error;
    }
    let done = arguments.skip + written;
    let stopped = format!("stopped after {}", counted(done, "entity", "entities"));
    let advice = format!("mend the cause and go on with --skip {done}");
    error.context(Hint { exit: Exit::Partial, problem: stopped, advice })
}

/// Where the entities come from.
enum Input {
    Pairs(Vec<String>),
    File(File),
    Stdin,
}

impl Input {
    fn find(words: &[String]) -> Result<Self> {
        match words {
            [] if io::stdin().is_terminal() => Err(usage(
                "there is nothing to write",
                "give properties such as Age:Int32=42, a file, or - for standard input",
            )),
            [] => Ok(Self::Stdin),
            [word] if word == "-" => Ok(Self::Stdin),
            [path] if !is_pair(path) => File::open(path).map(Self::File).map_err(|error| {
                let advice = "a property is Name=Text or Name:Type=Value";
                usage(format!("cannot read {path}: {error}"), advice)
            }),
            pairs => Ok(Self::Pairs(pairs.to_vec())),
        }
    }

    fn entities(self) -> Box<dyn Iterator<Item = Result<Entity>>> {
        match self {
            Self::Pairs(pairs) => Box::new(std::iter::once_with(move || from_pairs(&pairs))),
            Self::File(file) => Box::new(from_json(BufReader::new(file))),
            Self::Stdin => Box::new(from_json(BufReader::new(io::stdin()))),
        }
    }
}

async fn write(
    table: &Table,
    entity: &Entity,
    arguments: &PutArguments,
) -> Result<lazuli_client::Written, lazuli_client::Error> {
    let etag = arguments.if_match.as_deref().map(ETag::new);
    let write: Write = match (arguments.insert, arguments.replace, arguments.merge, &etag) {
        (true, ..) => table.insert(entity),
        (_, true, _, None) => table.overwrite(entity),
        (_, true, _, Some(etag)) => table.replace_if_match(entity, etag),
        (_, _, true, _) if arguments.or_insert => table.upsert_merge(entity),
        (_, _, true, _) => return super::merge(table, entity, etag.as_ref()).await,
        _ => table.upsert(entity),
    };
    write.await
}
