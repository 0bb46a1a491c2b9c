//! Uploads and downloads of blobs.

use crate::exit::Exit;
use crate::failure::usage;
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
    File(Partial<'a>),
}

/// A temporary file next to the named one, so that an incomplete blob is never mistaken for a whole one.
struct Partial<'a> {
    path: &'a Path,
    part: PathBuf,
    file: File,
    is_whole: bool,
}

impl<'a> Place<'a> {
    fn file(path: &'a Path) -> Result<Self> {
        let refused = |problem: &str| {
            usage(format!("cannot write {}: {problem}", path.display()), "name another file")
        };
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            return Err(refused("it is a directory"));
        };
        let mut name = name.to_owned();
        name.push(".part");
        let part = path.with_file_name(name);
        let file = File::create(&part).map_err(|error| refused(&error.to_string()))?;
        Ok(Self::File(Partial { path, part, file, is_whole: false }))
    }

    fn write(&mut self, out: &Output, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Stdout => out.bytes(bytes),
            Self::File(Partial { file, part, .. }) => {
                file.write_all(bytes).with_context(|| format!("write {}", part.display()))
            }
        }
    }

    /// Whether it was a file.
    fn finish(self) -> Result<bool> {
        let Self::File(mut partial) = self else { return Ok(false) };
        let Partial { path, part, file, is_whole } = &mut partial;
        file.sync_all().with_context(|| format!("write {}", part.display()))?;
        std::fs::rename(&*part, *path).with_context(|| format!("write {}", path.display()))?;
        *is_whole = true;
        Ok(true)
    }
}

impl Drop for Partial<'_> {
    /// Leaves nothing of a blob that did not arrive, or does not exist.
    fn drop(&mut self) {
        if !self.is_whole {
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_appears_once_it_is_complete_and_a_part_of_it_never_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.txt");
        let mut place = Place::file(&path).unwrap();
        place.write(&Output::default(), b"half").unwrap();
        assert_eq!(names(directory.path()), ["a.txt.part"]);
        drop(place);
        assert!(names(directory.path()).is_empty());
        let mut place = Place::file(&path).unwrap();
        place.write(&Output::default(), b"whole").unwrap();
        assert!(place.finish().unwrap());
        assert_eq!(names(directory.path()), ["a.txt"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn a_directory_is_no_file() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path(), Path::new("/"), &directory.path().join("none/a.txt")] {
            let error = Place::file(path).err().unwrap();
            assert!(error.to_string().starts_with("cannot write "), "{error}");
        }
        assert!(names(directory.path()).is_empty());
    }
}
