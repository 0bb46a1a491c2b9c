//! A bare log: append, one fdatasync for all waiting requests, respond.
//!
//! The file is preallocated and zeroed before the first append, and reused in rounds, so that a
//! sync never writes metadata: no log on a file system can be cheaper.

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use std::fs::File;
use std::io::{self, IoSlice, Seek, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

const LOG_BYTES: u64 = 256 * 1024 * 1024;
/// As many commits per sync as in Lazuli.
const GROUP_MAX: usize = 1024;

/// Bodies on their way to the log.
#[derive(Debug)]
pub(crate) struct Log {
    appends: Sender<Append>,
}

#[derive(Debug)]
struct Append {
    frames: Vec<Bytes>,
    durable: oneshot::Sender<()>,
}

impl Log {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = preallocate(path).with_context(|| format!("make {}", path.display()))?;
        let (appends, waiting) = channel();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            // Waiting requests then get an error.
            let _ = run(file, &waiting);
        })?;
        Ok(Self { appends })
    }

    /// Returns when `frames` are on the disk.
    pub(crate) async fn append(&self, frames: Vec<Bytes>) -> Result<()> {
        let (durable, wait) = oneshot::channel();
        let ended = || anyhow!("the log has ended");
        self.appends.send(Append { frames, durable }).map_err(|_| ended())?;
        wait.await.map_err(|_| ended())
    }
}

fn preallocate(path: &Path) -> io::Result<File> {
    let mut file = File::create(path)?;
    io::copy(&mut io::Read::take(io::repeat(0), LOG_BYTES), &mut file)?;
    file.sync_all()?;
    file.rewind()?;
    Ok(file)
}

/// Takes all waiting bodies as one group; those that arrive later form the next.
fn run(mut file: File, waiting: &Receiver<Append>) -> io::Result<()> {
    let mut position = 0;
    while let Ok(first) = waiting.recv() {
        let group: Vec<_> =
            std::iter::once(first).chain(waiting.try_iter().take(GROUP_MAX - 1)).collect();
        let frames = group.iter().flat_map(|append| &append.frames);
        let bytes: u64 = frames.clone().map(|frame| frame.len() as u64).sum();
        if position + bytes > LOG_BYTES {
            file.rewind()?;
            position = 0;
        }
        position += bytes;
        let mut slices: Vec<_> = frames.map(|frame| IoSlice::new(frame)).collect();
        write_all(&mut file, &mut slices)?;
        file.sync_data()?;
        for append in group {
            // The client may have disconnected.
            let _ = append.durable.send(());
        }
    }
    Ok(())
}

fn write_all(file: &mut File, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let written = file.write_vectored(slices)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut slices, written);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_written_one_after_another() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let mut file = path.reopen().unwrap();
        let mut slices = [IoSlice::new(b""), IoSlice::new(b"ab"), IoSlice::new(b"c")];
        write_all(&mut file, &mut slices).unwrap();
        assert_eq!(std::fs::read(path.path()).unwrap(), b"abc");
    }
}
