//! Uploads and downloads of blobs.

use crate::exit::Exit;
use crate::failure::{usage, with_hint};
use crate::input::aside;
use crate::output::{Output, counted};
use crate::progress::Progress;
use crate::session::Session;
use anyhow::{Context, Result};
use clap::Args;
use futures_util::TryStreamExt;
use serde::Serialize;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

/// The largest blob that this command stores: it is held in memory.
const PUT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli blobs put photos a.txt people.jsonl
  echo hello | lazuli blobs put photos b.txt - --content-type text/plain --json")]
pub(crate) struct PutArguments {
    /// Name of the container
    container: String,
    /// Name of the blob
    blob: String,
    /// The file to store; `-` or nothing reads standard input to its end. At most 1 GiB
    file: Option<PathBuf>,
    /// What the blob is
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Fail with 6 if the blob exists
    #[arg(long)]
    if_absent: bool,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lazuli blobs get photos a.txt
  lazuli blobs get photos a.txt --output copy.txt")]
pub(crate) struct GetArguments {
    /// Name of the container
    container: String,
    /// Name of the blob
    blob: String,
    /// Write to this file instead of standard output; it appears once it is complete
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Serialize)]
struct Stored<'a> {
    container: &'a str,
    blob: &'a str,
    bytes: u64,
    etag: String,
}

#[derive(Serialize)]
struct Written<'a> {
    container: &'a str,
    blob: &'a str,
    bytes: u64,
}

pub(super) async fn put(session: &Session, arguments: PutArguments) -> Result<Exit> {
    let PutArguments { container, blob: name, file, content_type, if_absent } = arguments;
    let blob = session.account.blobs().container(&container)?.blob(&name)?;
    let content = aside(move || read(file.as_deref())).await??;
    let bytes = content.len() as u64;
    let mut put = blob.put(content);
    if let Some(content_type) = &content_type {
        put = put.content_type(content_type);
    }
    if if_absent {
        put = put.if_absent();
    }
    let stored = put.await?;
    let document =
        Stored { container: &container, blob: &name, bytes, etag: stored.etag.to_string() };
    let remark = format!("stored {name}, {}", counted(bytes, "byte", "bytes"));
    session.out.done(&document, remark)?;
    Ok(Exit::Done)
}

fn read(file: Option<&Path>) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let read = match file.filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let file = File::open(path).map_err(|error| {
                usage(format!("cannot read {}: {error}", path.display()), "name a file, or -")
            })?;
            file.take(PUT_BYTES_MAX + 1).read_to_end(&mut content)
        }
        None => io::stdin().lock().take(PUT_BYTES_MAX + 1).read_to_end(&mut content),
    };
    read.context("read the content")?;
    if content.len() as u64 > PUT_BYTES_MAX {
        let advice = "a larger one needs a program that stores it in blocks";
        return Err(usage("the content has more than 1 GiB", advice));
    }
    Ok(content)
}

pub(super) async fn get(session: &Session, arguments: &GetArguments) -> Result<Exit> {
    let GetArguments { container, blob: name, output } = arguments;
    let blob = session.account.blobs().container(container)?.blob(name)?;
    let mut pieces = blob.get().stream();
    let mut place = match output {
        Some(path) => Place::file(path)?,
        None if session.out.is_json() => {
            return Err(usage("--json and a blob on standard output do not mix", "use --output"));
        }
        None => Place::Stdout,
    };
    let is_shown = output.is_some() || !io::stdout().is_terminal();
    let mut progress = match is_shown {
        true => Progress::new(&session.out, "bytes"),
        false => Progress::hidden(),
    };
    while let Some(piece) = pieces.try_next().await? {
        place.write(&session.out, &piece)?;
        progress.add(piece.len() as u64);
    }
    let bytes = progress.done();
    drop(progress);
    if place.finish()? {
        let remark = format!("wrote {}", counted(bytes, "byte", "bytes"));
        session.out.done(&Written { container, blob: name, bytes }, remark)?;
    }
    Ok(Exit::Done)
}

/// Where the bytes are written.
enum Place<'a> {
    Stdout,
    File { path: &'a Path, part: PathBuf, file: File },
}

impl<'a> Place<'a> {
    /// A temporary file next to the named one, so that an incomplete blob is never mistaken for a whole one.
    fn file(path: &'a Path) -> Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let part = path.with_file_name(name);
        let file = File::create(&part).map_err(|error| {
            with_hint(format!("cannot write {}: {error}", part.display()), "name another file")
        })?;
        Ok(Self::File { path, part, file })
    }

    fn write(&mut self, out: &Output, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Stdout => out.bytes(bytes),
            Self::File { file, part, .. } => {
                file.write_all(bytes).with_context(|| format!("write {}", part.display()))
            }
        }
    }

    /// Whether it was a file.
    fn finish(self) -> Result<bool> {
        let Self::File { path, part, file } = self else { return Ok(false) };
        file.sync_all().with_context(|| format!("write {}", part.display()))?;
        std::fs::rename(&part, path).with_context(|| format!("write {}", path.display()))?;
        Ok(true)
    }
}
