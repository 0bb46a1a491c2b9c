//! Input of any length: JSON objects of bounded size, read on a separate thread if that may block forever, so that
//! Ctrl-C still ends the command.

use crate::failure::usage;
use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;
use tokio::sync::mpsc;

/// How many items are read ahead.
const AHEAD_MAX: usize = 256;

/// The longest JSON object that is read. An entity of 1 MiB that escapes each character takes 3 MiB.
const OBJECT_BYTES_MAX: usize = 16 << 20;

const BYTE_ORDER_MARK: &[u8] = "\u{FEFF}".as_bytes();

/// Runs blocking `work` on its own thread.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("read aside")
}

/// The items of a blocking iterator, read ahead on its own thread.
pub(crate) fn ahead<T: Send + 'static, I: Iterator<Item = T>>(
    make: impl FnOnce() -> I + Send + 'static,
) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel(AHEAD_MAX);
    tokio::task::spawn_blocking(move || {
        for item in make() {
            if sender.blocking_send(item).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The objects of a text, one after another.
pub(crate) fn objects<T: DeserializeOwned>(
    mut reader: impl Read,
) -> impl Iterator<Item = serde_json::Result<T>> {
    // Some editors and shells put a mark first. An error comes again with the next read.
    let mut head = Vec::new();
    let _ = reader.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut head);
    if head == BYTE_ORDER_MARK {
        head.clear();
    }
    let reader = io::Cursor::new(head).chain(reader);
    let left = Rc::new(Cell::new(0));
    let bounded = Bounded { reader, left: Rc::clone(&left) };
    let mut objects = serde_json::Deserializer::from_reader(bounded).into_iter();
    std::iter::from_fn(move || {
        left.set(OBJECT_BYTES_MAX);
        objects.next()
    })
}

/// Fails after so many bytes.
struct Bounded<R> {
    reader: R,
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let part = buffer.len().min(self.left.get());
        if part == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let read = self.reader.read(buffer.get_mut(..part).unwrap_or_default())?;
        self.left.set(self.left.get().saturating_sub(read));
        Ok(read)
    }
}

/// Says why an object could not be read: `what` names it, `form` says how it is written.
pub(crate) fn not_read(error: &serde_json::Error, what: &str, form: &str) -> anyhow::Error {
    match error.io_error_kind() {
        Some(io::ErrorKind::FileTooLarge) => {
            let mib = OBJECT_BYTES_MAX >> 20;
            usage(format!("{what} has an object of more than {mib} MiB"), form)
        }
        Some(kind) => anyhow::Error::from(io::Error::from(kind)).context("read the input"),
        None if error.is_data() => usage(format!("{what}: {error}"), form),
        None => usage(format!("{what} is not JSON: {error}"), form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    #[test]
    fn objects_are_bounded_one_by_one() {
        let half = format!("{{\"a\":\"{}\"}}\n", "x".repeat(OBJECT_BYTES_MAX / 2));
        let all = half.repeat(3);
        let read: Vec<_> = objects::<Box<RawValue>>(all.as_bytes()).collect();
        assert_eq!(read.len(), 3);
        assert!(read.iter().all(Result::is_ok));
        let endless = b"{\"a\":\"".chain(io::repeat(b'x'));
        let error = objects::<Box<RawValue>>(endless).next().unwrap().unwrap_err();
        let error = not_read(&error, "the input", "write one object per entity");
        assert_eq!(error.to_string(), "the input has an object of more than 16 MiB");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_object() {
        for text in ["\u{FEFF}{\"a\":1} {}", "{} {}", "\u{FEFF}", ""] {
            let read: Vec<_> = objects::<Box<RawValue>>(text.as_bytes()).collect();
            assert_eq!(read.len(), text.matches('{').count(), "{text:?}");
            assert!(read.iter().all(Result::is_ok), "{text:?}");
        }
        let second = objects::<Box<RawValue>>("{}\u{FEFF}{}".as_bytes()).nth(1).unwrap();
        assert!(second.is_err());
    }

    #[tokio::test]
    async fn items_come_in_order_and_reading_ends_with_the_reader() {
        let mut numbers = ahead(|| 0_u64..);
        for expect in 0..1000 {
            assert_eq!(numbers.recv().await, Some(expect));
        }
        drop(numbers);
        assert_eq!(aside(|| 7).await.unwrap(), 7);
    }
}
