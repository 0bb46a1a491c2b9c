//! The data directory: used by one process at a time, and only in a known format.
//!
//! ```text
//! LOCK       locked by the process that has the directory open
//! LAZULI     one line of text that names the format
//! store/     the fjall database
//! store.new/ a store whose creation did not finish; nothing in it was ever acknowledged
//! ```
//!
//! The format file is written when `store.new` is complete and before it is renamed to `store`. So
//! if only one of `LAZULI` and `store` exists, the other is missing.

use lazuli_engine::EngineError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The format that this program writes, and the newest it reads.
pub const FORMAT: u32 = 1;

const LOCK_FILE: &str = "LOCK";
const FORMAT_FILE: &str = "LAZULI";
const FORMAT_FILE_NEW: &str = "LAZULI.new";
const FORMAT_MAGIC: &str = "lazuli data directory, format ";
const STORE: &str = "store";
const STORE_NEW: &str = "store.new";

/// What a directory without a format file may contain: the remains of an interrupted creation, a
/// store whose format file is missing, and the content of a fresh volume's root.
const EXPECTED_IN_NEW: [&str; 5] = [LOCK_FILE, FORMAT_FILE_NEW, STORE, STORE_NEW, "lost+found"];

/// Why a data directory could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("data directory {} is in use by another process", dir.display())]
    Locked { dir: PathBuf },
    #[error(
        "data directory {} has format {found}, this lazuli reads up to {known}; use a newer one",
        dir.display()
    )]
    NewerFormat { dir: PathBuf, found: u32, known: u32 },
    #[error("{} is not a lazuli data directory: it holds {entry:?}", dir.display())]
    NotLazuli { dir: PathBuf, entry: String },
    #[error("cannot use data directory {}", dir.display())]
    Io {
        dir: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("data directory {} is corrupt: {reason}", dir.display())]
    Corrupt { dir: PathBuf, reason: String },
}

/// A directory locked by this process, in a known format.
pub(crate) struct Directory {
    path: PathBuf,
    /// Closing the file releases the lock, even if the process dies.
    _lock: File,
}

impl Directory {
    /// Takes the directory at `path`, creating it if needed.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let io_error = io_error(path);
        fs::create_dir_all(path).map_err(io_error)?;
        if !path.join(FORMAT_FILE).try_exists().map_err(io_error)? {
            refuse_foreign_content(path)?;
        }
        let directory = Self { path: path.to_path_buf(), _lock: lock(path)? };
        if directory.has(FORMAT_FILE)? {
            check_format(path)?;
        } else if directory.has(STORE)? {
            return Err(directory.missing(FORMAT_FILE));
        }
        Ok(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn io(&self, source: io::Error) -> OpenError {
        io_error(&self.path)(source)
    }

    /// The error for a store that cannot be read or repaired.
    pub(crate) fn unusable(&self, error: EngineError) -> OpenError {
        match error {
            EngineError::Corrupt(reason) => OpenError::Corrupt { dir: self.path.clone(), reason },
            other => self.io(io::Error::other(other)),
        }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path.join(STORE)
    }

    /// Creates the store if it does not exist: `create` fills another directory, which is then
    /// renamed atomically. Its names are durable afterwards in any case: those created by a killed
    /// process may exist only in the page cache.
    pub(crate) fn create_store(
        &self,
        create: impl FnOnce(&Path) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let io_error = io_error(&self.path);
        let new = self.path.join(STORE_NEW);
        if !self.has(STORE)? {
            if !self.has(FORMAT_FILE)? {
                remove(&new).map_err(io_error)?;
                create(&new)?;
                sync_tree(&new).map_err(io_error)?;
                // The format file must not be durable before the store's name.
                sync_directory(&self.path).map_err(io_error)?;
                write_format(&self.path).map_err(io_error)?;
            } else if !self.has(STORE_NEW)? {
                return Err(self.missing(STORE));
            }
            fs::rename(&new, self.store()).map_err(io_error)?;
        }
        sync_tree(&self.store()).map_err(io_error)?;
        sync_directory(&self.path).map_err(io_error)
    }

    fn has(&self, name: &str) -> Result<bool, OpenError> {
        self.path.join(name).try_exists().map_err(io_error(&self.path))
    }

    fn missing(&self, name: &str) -> OpenError {
        missing(&self.path, &self.path.join(name))
    }
}

/// The error for a directory in which a file is missing.
pub(crate) fn missing(dir: &Path, path: &Path) -> OpenError {
    let reason = format!("{} is missing", path.display());
    OpenError::Corrupt { dir: dir.to_path_buf(), reason }
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn refuse_foreign_content(dir: &Path) -> Result<(), OpenError> {
    let io_error = io_error(dir);
    for entry in fs::read_dir(dir).map_err(io_error)? {
        let name = entry.map_err(io_error)?.file_name();
        if !EXPECTED_IN_NEW.iter().any(|expected| name == *expected) {
            return Err(OpenError::NotLazuli {
                dir: dir.to_path_buf(),
                entry: name.to_string_lossy().into_owned(),
            });
        }
    }
    Ok(())
}

fn lock(dir: &Path) -> Result<File, OpenError> {
    let io_error = io_error(dir);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(dir.join(LOCK_FILE))
        .map_err(io_error)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(io_error(source)),
    }
}

/// Writes a temporary file, syncs it, and renames it atomically.
fn write_format(dir: &Path) -> io::Result<()> {
    let new = dir.join(FORMAT_FILE_NEW);
    let mut file = File::create(&new)?;
    file.write_all(format!("{FORMAT_MAGIC}{FORMAT}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, dir.join(FORMAT_FILE))?;
    sync_directory(dir)
}

fn check_format(dir: &Path) -> Result<(), OpenError> {
    let text = fs::read(dir.join(FORMAT_FILE)).map_err(io_error(dir))?;
    let found = str::from_utf8(&text)
        .ok()
        .and_then(|text| text.strip_prefix(FORMAT_MAGIC))
        .and_then(|version| version.trim_end().parse().ok());
    match found {
        None => Err(OpenError::Corrupt {
            dir: dir.to_path_buf(),
            reason: format!("the file {FORMAT_FILE} does not name a format"),
        }),
        Some(found) if found > FORMAT => {
            Err(OpenError::NewerFormat { dir: dir.to_path_buf(), found, known: FORMAT })
        }
        Some(_) => Ok(()),
    }
}

fn io_error(dir: &Path) -> impl Fn(io::Error) -> OpenError + Copy {
    move |source| OpenError::Io { dir: dir.to_path_buf(), source }
}

/// Makes the names below a directory durable. The files themselves are synced by their writers.
fn sync_tree(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        }
    }
    sync_directory(dir)
}

/// A rename is durable once its directory is synced. Windows cannot sync directories, and need not.
pub(crate) fn sync_directory(dir: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}
