//! The trace: a program's file operations and its clients' responses, in order.
//!
//! A record is a head of 32 bytes in the machine's byte order (kind, bytes of two paths, bytes of
//! data, inode, number), then the paths and the data. `shim.c` writes the file records; client
//! records are appended here.

use anyhow::{Context, Result, bail};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

const HEAD_BYTES: usize = 32;
const BEGUN: u32 = 20;
const ACKNOWLEDGED: u32 = 21;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Create {
        path: String,
        inode: u64,
    },
    MakeDirectory {
        path: String,
        inode: u64,
    },
    Write {
        inode: u64,
        offset: u64,
        data: Arc<[u8]>,
    },
    SetLength {
        inode: u64,
        length: u64,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        path: String,
    },
    SyncBegins {
        inode: u64,
        thread: u64,
    },
    SyncEnds {
        inode: u64,
        thread: u64,
    },
    SyncFails {
        inode: u64,
        thread: u64,
    },
    /// A client sent the request of its step.
    Begun {
        client: usize,
        step: usize,
    },
    /// A client got the acknowledgement of its step.
    Acknowledged {
        client: usize,
        step: usize,
    },
}

/// Reads a whole trace. If the end of the program truncated it, it ends before the incomplete
/// record.
pub fn read(path: &Path) -> Result<Vec<Event>> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let mut rest = bytes.as_slice();
    let mut events = Vec::new();
    while let Some(event) = next(&mut rest)? {
        events.push(event);
    }
    Ok(events)
}

/// Appends client events to the server's trace.
#[derive(Debug)]
pub struct Marker(File);

impl Marker {
    pub fn open(trace: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(trace);
        Ok(Self(file.with_context(|| format!("open {}", trace.display()))?))
    }

    pub fn begun(&self, client: usize, step: usize) -> Result<()> {
        self.mark(BEGUN, client, step)
    }

    pub fn acknowledged(&self, client: usize, step: usize) -> Result<()> {
        self.mark(ACKNOWLEDGED, client, step)
    }

    fn mark(&self, kind: u32, client: usize, step: usize) -> Result<()> {
        let mut head = [0; HEAD_BYTES];
        let numbers = [u64::from(kind), 0, client as u64, step as u64];
        for (field, number) in head.chunks_exact_mut(8).zip(numbers) {
            field.copy_from_slice(&number.to_ne_bytes());
        }
        // A single write to a file opened for appending does not interleave with other records.
        (&self.0).write_all(&head).context("append to the trace")
    }
}

fn next(rest: &mut &[u8]) -> Result<Option<Event>> {
    let Some((head, body)) = rest.split_first_chunk::<HEAD_BYTES>() else {
        return Ok(None);
    };
    let [kind, path_bytes, other_bytes, data_bytes] =
        [0, 4, 8, 12].map(|at| number_at(head, at, 4));
    let [inode, number] = [16, 24].map(|at| number_at(head, at, 8));
    let parts = split(body, path_bytes)
        .and_then(|(path, body)| Some((path, split(body, other_bytes)?)))
        .and_then(|(path, (other, body))| Some((path, other, split(body, data_bytes)?)));
    let Some((path, other, (data, body))) = parts else {
        return Ok(None);
    };
    *rest = body;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Some(match kind {
        1 => Event::Create { path: text(path), inode },
        2 => Event::MakeDirectory { path: text(path), inode },
        3 => Event::Write { inode, offset: number, data: data.into() },
        4 => Event::SetLength { inode, length: number },
        5 => Event::Rename { from: text(path), to: text(other) },
        6 => Event::Remove { path: text(path) },
        7 => Event::SyncBegins { inode, thread: number },
        8 => Event::SyncEnds { inode, thread: number },
        9 => Event::SyncFails { inode, thread: number },
        10 => bail!("the server used {}, which the model of the disk does not know", text(path)),
        20 => Event::Begun { client: inode as usize, step: number as usize },
        21 => Event::Acknowledged { client: inode as usize, step: number as usize },
        other => bail!("the trace has a record of kind {other}"),
    }))
}

fn number_at(head: &[u8; HEAD_BYTES], at: usize, bytes: usize) -> u64 {
    let field = head.iter().skip(at).take(bytes);
    let place = |index: usize| if cfg!(target_endian = "big") { bytes - 1 - index } else { index };
    field.enumerate().map(|(index, byte)| u64::from(*byte) << (8 * place(index))).sum()
}

fn split(bytes: &[u8], at: u64) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(usize::try_from(at).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_read_back_and_a_cut_record_ends_the_trace() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let marker = Marker::open(&path).unwrap();
        marker.begun(2, 7).unwrap();
        marker.acknowledged(2, 7).unwrap();
        let both =
            [Event::Begun { client: 2, step: 7 }, Event::Acknowledged { client: 2, step: 7 }];
        assert_eq!(read(&path).unwrap(), both);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..HEAD_BYTES + 5]).unwrap();
        assert_eq!(read(&path).unwrap(), both[..1]);
    }
}
