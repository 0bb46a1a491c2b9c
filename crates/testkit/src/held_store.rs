//! A store whose opening takes as long as a test wants.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A data directory whose format file is a pipe: a server that opens the store waits for its text.
#[derive(Debug)]
pub struct HeldStore {
    format_file: PathBuf,
    text: Vec<u8>,
}

impl HeldStore {
    /// Holds the store in `data`, which a server has created and closed.
    pub fn hold(data: &Path) -> io::Result<Self> {
        let format_file = data.join("LAZULI");
        let text = fs::read(&format_file)?;
        fs::remove_file(&format_file)?;
        let made = Command::new("mkfifo").arg(&format_file).status()?;
        if !made.success() {
            return Err(io::Error::other(format!("mkfifo ended with {made}")));
        }
        Ok(Self { format_file, text })
    }

    /// Releases the server that waits, or will wait, for this store.
    pub fn release(self) -> io::Result<()> {
        let mut pipe = File::options().write(true).open(&self.format_file)?;
        // Later readers find a file.
        fs::remove_file(&self.format_file)?;
        fs::write(&self.format_file, &self.text)?;
        pipe.write_all(&self.text)
    }
}
