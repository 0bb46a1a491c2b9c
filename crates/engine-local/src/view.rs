//! A view: one fjall snapshot, read where the caller stands.

use crate::store::{decode, decode_ref, engine_error};
use fjall::{Guard, Keyspace, Readable};
use lazuli_engine::{
    BoxFuture, Direction, EngineError, Found, Key, KeyRange, Scan, ScanEnd, View, Visit, Visitor,
};

/// The state after one group of commits. All views of that state share it.
pub(crate) struct Snapshot {
    snapshot: fjall::Snapshot,
    data: Keyspace,
}

impl Snapshot {
    pub(crate) fn new(snapshot: fjall::Snapshot, data: Keyspace) -> Self {
        Self { snapshot, data }
    }

    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<Found>, EngineError> {
        match self.snapshot.get(&self.data, key).map_err(engine_error)? {
            Some(stored) => decode(stored).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn walk(
        &self,
        scan: Scan,
        visitor: &mut Visitor<'_>,
    ) -> Result<ScanEnd, EngineError> {
        if scan.range.is_empty() {
            return Ok(ScanEnd::Done);
        }
        let bounds = scan.range.start.as_slice()..scan.range.end.as_slice();
        let entries = self.snapshot.range(&self.data, bounds);
        match scan.direction {
            Direction::Forward => walk_entries(entries, scan, visitor),
            Direction::Backward => walk_entries(entries.rev(), scan, visitor),
        }
    }

    /// The keys of a range, at most `rows_max`, and what is left of it.
    pub(crate) fn keys(
        &self,
        range: KeyRange,
        rows_max: usize,
    ) -> Result<(Vec<Key>, Option<KeyRange>), EngineError> {
        let mut keys = Vec::new();
        let scan = Scan { range, direction: Direction::Forward, rows_max, bytes_max: usize::MAX };
        let end = self.walk(scan, &mut |key, _, _| {
            keys.push(Key::from(key.to_vec()));
            Visit::Continue
        })?;
        match end {
            ScanEnd::More(rest) => Ok((keys, Some(rest))),
            ScanEnd::Done | ScanEnd::Stopped => Ok((keys, None)),
        }
    }
}

fn walk_entries(
    entries: impl Iterator<Item = Guard>,
    mut scan: Scan,
    visitor: &mut Visitor<'_>,
) -> Result<ScanEnd, EngineError> {
    let (mut rows, mut bytes) = (0, 0);
    for entry in entries {
        let (key, stored) = entry.into_inner().map_err(engine_error)?;
        if rows > 0 && (rows >= scan.rows_max || bytes >= scan.bytes_max) {
            match scan.direction {
                Direction::Forward => scan.range.start = key.to_vec(),
                // The end is exclusive: one zero byte more includes the key itself.
                Direction::Backward => scan.range.end = [key.as_ref(), &[0]].concat(),
            }
            return Ok(ScanEnd::More(scan.range));
        }
        let (revision, value) = decode_ref(&stored)?;
        if visitor(&key, value, revision) == Visit::StopBefore {
            return Ok(ScanEnd::Stopped);
        }
        rows += 1;
        bytes += key.len() + value.len();
    }
    Ok(ScanEnd::Done)
}

impl View for Snapshot {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Found>, EngineError>> {
        Box::pin(async move { self.find(key) })
    }

    fn multi_get<'a>(
        &'a self,
        keys: &'a [Key],
    ) -> BoxFuture<'a, Result<Vec<Option<Found>>, EngineError>> {
        Box::pin(async move { keys.iter().map(|key| self.find(key.as_slice())).collect() })
    }

    fn scan<'a>(
        &'a self,
        scan: Scan,
        visitor: &'a mut Visitor<'_>,
    ) -> BoxFuture<'a, Result<ScanEnd, EngineError>> {
        Box::pin(async move { self.walk(scan, visitor) })
    }
}

#[cfg(test)]
mod tests;
