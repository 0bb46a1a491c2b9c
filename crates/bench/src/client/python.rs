//! The program of the Python SDK.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const PROGRAM: &str = include_str!("client.py");

/// Writes the program into `directory`.
pub(super) fn program(directory: &Path) -> Result<PathBuf> {
    let file = directory.join("client.py");
    fs::write(&file, PROGRAM).context("write the program for Python")?;
    Ok(file)
}
