//! Checks fjall's manifests before fjall trusts them, and that the files they list exist.
//!
//! Each keyspace has a file `current` that names the valid list, `v<number>`, and its checksum.
//! fjall reads both but does not compare them. If `current` or `version` is missing, it assumes an
//! unfinished creation and starts over with an empty keyspace or store; ours are complete before
//! they are renamed into place (`directory.rs`).
//!
//! ```text
//! current   number u64 │ xxh3 of the list u128 │ kind of checksum u8, always 0     little-endian
//! list      sections, their table of contents, and where that begins:
//! contents  "TOC!" │ sections u32 │ (position u64 │ bytes u64 │ name bytes u16 │ name)*
//! end       "SFA!" │ version u8 │ kind u8 │ xxh3 u128 │ position of the contents u64 │ bytes u64
//! tables    levels u8 │ (runs u8 │ (tables u32 │ (id u64 │ kind u8 │ xxh3 u128 │ u64)*)*)*
//! ```

use crate::damage::DamagedTable;
use crate::directory::{OpenError, missing};
use crate::journal::{number, take};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

const KEYSPACES: &str = "keyspaces";
const CURRENT: &str = "current";
const TABLES: &str = "tables";
/// fjall's files in the directory of the journals.
const FILES: [&str; 2] = ["version", "lock"];
/// fjall's own keyspace, and ours in creation order.
const KEYSPACE_NAMES: [&str; 3] = ["0", "1", "2"];
/// After the magic number of a list's end.
const END_BYTES: usize = 1 + 1 + 16 + 8 + 8;

/// Checks the lists of the store at `store`.
pub(crate) fn inspect(store: &Path) -> Result<(), OpenError> {
    let io_error = |source| OpenError::Io { dir: store.to_path_buf(), source };
    let is_there = |path: &Path| match path.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => Err(missing(store, path)),
        Err(error) => Err(io_error(error)),
    };
    for name in FILES {
        is_there(&store.join(name))?;
    }
    for name in KEYSPACE_NAMES {
        let keyspace = store.join(KEYSPACES).join(name);
        is_there(&keyspace.join(CURRENT))?;
        let list = current_list(&keyspace).map_err(io_error)?;
        let tables = list.and_then(|(path, list)| tables(&list).ok_or(path));
        let tables = tables.map_err(|damaged| OpenError::Corrupt {
            dir: store.to_path_buf(),
            reason: format!("{} is damaged", damaged.display()),
        })?;
        for Table { number, .. } in tables {
            is_there(&keyspace.join(TABLES).join(number.to_string()))?;
        }
    }
    Ok(())
}

/// Damaged tables: searched for when a store does not open, or a read fails. The store may be in
/// use: a table removed during the search is ignored.
pub(crate) fn damaged_tables(store: &Path) -> io::Result<Vec<DamagedTable>> {
    let mut damaged = Vec::new();
    for name in KEYSPACE_NAMES {
        let keyspace = store.join(KEYSPACES).join(name);
        let Ok((_, list)) = current_list(&keyspace)? else { continue };
        for Table { number, checksum } in tables(&list).unwrap_or_default() {
            let path = keyspace.join(TABLES).join(number.to_string());
            match fs::read(&path) {
                Ok(bytes) if xxh3_128(&bytes).to_le_bytes() != checksum => {
                    damaged.push(DamagedTable::new(path, &bytes));
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(damaged)
}

/// The valid list and its path, or the damaged file. If the two disagree, it may be either.
fn current_list(keyspace: &Path) -> io::Result<Result<(PathBuf, Vec<u8>), PathBuf>> {
    let current = keyspace.join(CURRENT);
    let Some((number, checksum)) = parse(&fs::read(&current)?) else {
        return Ok(Err(current));
    };
    let list = keyspace.join(format!("v{number}"));
    match fs::read(&list) {
        Ok(bytes) if xxh3_128(&bytes) == checksum => Ok(Ok((list, bytes))),
        Ok(_) => Ok(Err(keyspace.join(format!("v{number}, or {CURRENT} beside it,")))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Err(keyspace.join(format!("v{number} is missing, or {CURRENT} beside it"))))
        }
        Err(error) => Err(error),
    }
}

/// A table that a list names.
struct Table {
    number: u64,
    checksum: [u8; 16],
}

fn tables(list: &[u8]) -> Option<Vec<Table>> {
    let end = list.len().checked_sub(END_BYTES).and_then(|at| list.get(at..))?;
    let mut position = end.get(1 + 1 + 16..)?;
    let mut contents = list.get(usize::try_from(number(&mut position, 8)?).ok()?..)?;
    (take(&mut contents, 4)? == b"TOC!").then_some(())?;
    let mut section = None;
    for _ in 0..number(&mut contents, 4)? {
        let (position, _bytes) = (number(&mut contents, 8)?, number(&mut contents, 8)?);
        let name_bytes = number(&mut contents, 2)?;
        if take(&mut contents, name_bytes as usize)? == TABLES.as_bytes() {
            section = list.get(usize::try_from(position).ok()?..);
        }
    }
    let mut section = section?;
    let mut tables = Vec::new();
    for _level in 0..number(&mut section, 1)? {
        for _run in 0..number(&mut section, 1)? {
            for _table in 0..number(&mut section, 4)? {
                let number = number(&mut section, 8)?;
                let (_kind, checksum) = (take(&mut section, 1)?, take(&mut section, 16)?);
                tables.push(Table { number, checksum: checksum.try_into().ok()? });
                take(&mut section, 8)?;
            }
        }
    }
    Some(tables)
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
    use lazuli_engine::{Commit, Engine, Key, Revision, Write};

    #[test]
    fn damage_to_the_lists_of_files_is_reported_with_the_file() {
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

    /// A closed store with two tables of data, and their names.
    async fn with_tables() -> (tempfile::TempDir, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let engine = LocalEngine::open(dir.path(), LocalOptions::default()).unwrap();
        for key in [b"La", b"Lb"] {
            let value = vec![key[1]; 20_000];
            let writes = vec![Write::Put(Key::from(key.to_vec()), value.into())];
            let commit = Commit::new(Revision(0), writes);
            engine.commit(commit).await.unwrap();
            engine.store.flush();
        }
        drop(engine);
        let data = dir.path().join("store/keyspaces/1");
        let (_, list) = current_list(&data).unwrap().unwrap();
        let name = |table: &Table| format!("keyspaces/1/tables/{}", table.number);
        let names: Vec<String> = tables(&list).unwrap().iter().map(name).collect();
        assert!(!names.is_empty());
        (dir, names)
    }

    #[tokio::test]
    async fn damaged_table_is_found_with_the_place() {
        let (dir, tables) = with_tables().await;
        let store = dir.path().join("store");
        assert_eq!(damaged_tables(&store).unwrap(), []);
        let path = store.join(&tables[0]);
        let sound = fs::read(&path).unwrap();
        for at in (0..sound.len()).step_by(29) {
            let mut bytes = sound.clone();
            bytes[at] ^= 4;
            fs::write(&path, bytes).unwrap();
            let found = damaged_tables(&store).unwrap();
            let [DamagedTable { path: named, offset }] = &found[..] else { panic!("{found:?}") };
            assert_eq!(*named, path);
            assert!(*offset <= at, "byte {at} is damaged, and {offset} is reported");
        }
    }

    #[tokio::test]
    async fn file_that_has_vanished_is_told() {
        let (dir, tables) = with_tables().await;
        let store = dir.path().join("store");
        inspect(&store).unwrap();
        let data = store.join("keyspaces/1");
        let others = ["version", "lock", "keyspaces/0/current", "keyspaces/2/current"];
        for file in tables.into_iter().chain(others.map(str::to_owned)) {
            let path = store.join(&file);
            let content = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            let error = inspect(&store).unwrap_err().to_string();
            assert!(error.ends_with(&format!("/{file} is missing")), "{error}");
            fs::write(&path, content).unwrap();
        }
        fs::rename(&data, store.join("elsewhere")).unwrap();
        let error = inspect(&store).unwrap_err().to_string();
        assert!(error.contains("keyspaces/1/"), "{error}");
    }
}
