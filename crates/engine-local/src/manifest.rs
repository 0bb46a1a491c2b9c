//! Checks the lists of files that fjall keeps, before fjall trusts them.
//!
//! Each keyspace has a file `current` that names the valid list, `v<number>`, and its checksum.
//! fjall reads both and compares nothing.
//!
//! ```text
//! current   number u64 │ xxh3 of the list u128 │ kind of checksum u8, always 0     little-endian
//! ```

use crate::directory::OpenError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

const KEYSPACES: &str = "keyspaces";
const CURRENT: &str = "current";
const TABLES: &str = "tables";

/// Checks the lists of the store at `store`.
pub(crate) fn inspect(store: &Path) -> Result<(), OpenError> {
    let io_error = |source| OpenError::Io { dir: store.to_path_buf(), source };
    for entry in fs::read_dir(store.join(KEYSPACES)).map_err(io_error)? {
        let keyspace = entry.map_err(io_error)?.path();
        // A keyspace without this file is one whose creation did not finish.
        if !keyspace.join(CURRENT).try_exists().map_err(io_error)? {
            continue;
        }
        if let Some(damaged) = damaged(&keyspace).map_err(io_error)? {
            let reason = format!("{} is damaged", damaged.display());
            return Err(OpenError::Corrupt { dir: store.to_path_buf(), reason });
        }
    }
    Ok(())
}

/// Tables that are not what was written, or that no list names: looked for when a store does not
/// open, as fjall does not say which file it was reading. The lists hold a checksum of each table.
pub(crate) fn damaged_tables(store: &Path) -> io::Result<Vec<PathBuf>> {
    let mut damaged = Vec::new();
    for entry in fs::read_dir(store.join(KEYSPACES))? {
        let keyspace = entry?.path();
        let Some((number, _)) = parse(&fs::read(keyspace.join(CURRENT))?) else {
            continue;
        };
        let list = fs::read(keyspace.join(format!("v{number}")))?;
        for entry in fs::read_dir(keyspace.join(TABLES))? {
            let table = entry?.path();
            let checksum = xxh3_128(&fs::read(&table)?).to_le_bytes();
            if !list.windows(checksum.len()).any(|part| part == checksum) {
                damaged.push(table);
            }
        }
    }
    Ok(damaged)
}

/// The file that is not what was written. Where the two disagree it may be either.
fn damaged(keyspace: &Path) -> io::Result<Option<PathBuf>> {
    let current = keyspace.join(CURRENT);
    let Some((number, checksum)) = parse(&fs::read(&current)?) else {
        return Ok(Some(current));
    };
    let list = keyspace.join(format!("v{number}"));
    match fs::read(&list) {
        Ok(bytes) if xxh3_128(&bytes) == checksum => Ok(None),
        Ok(_) => Ok(Some(keyspace.join(format!("v{number}, or {CURRENT} beside it,")))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(current)),
        Err(error) => Err(error),
    }
}

fn parse(current: &[u8]) -> Option<(u64, u128)> {
    let (number, rest) = current.split_first_chunk()?;
    let (checksum, kind) = rest.split_first_chunk()?;
    (kind == [0]).then_some((u64::from_le_bytes(*number), u128::from_le_bytes(*checksum)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalEngine, LocalOptions};

    #[test]
    fn damage_to_the_lists_of_files_is_told_with_the_file() {
        let dir = tempfile::tempdir().unwrap();
        drop(LocalEngine::open(dir.path(), LocalOptions::default()).unwrap());
        let store = dir.path().join("store");
        inspect(&store).unwrap();
        let keyspace = store.join("keyspaces/1");
        let (number, _) = parse(&fs::read(keyspace.join(CURRENT)).unwrap()).unwrap();
        for file in [CURRENT.to_owned(), format!("v{number}")] {
            let path = keyspace.join(&file);
            let sound = fs::read(&path).unwrap();
            for at in 0..sound.len() {
                let mut bytes = sound.clone();
                bytes[at] ^= 4;
                fs::write(&path, bytes).unwrap();
                let error = inspect(&store).unwrap_err().to_string();
                assert!(error.contains(&file), "byte {at}: {error}");
            }
            fs::write(&path, sound).unwrap();
        }
        inspect(&store).unwrap();
    }
}
