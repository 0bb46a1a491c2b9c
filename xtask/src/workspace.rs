//! Where things are, and the binary under test, built once.

use crate::process;
use anyhow::{Context, Result};
use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Cargo's target directory; what chores install goes below it too.
    pub(crate) target: PathBuf,
    binary: OnceCell<PathBuf>,
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("run as `cargo xtask`")?;
        let root = Path::new(&manifest).parent().context("find the workspace")?.to_owned();
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = root.join(target.unwrap_or_else(|| PathBuf::from("target")));
        Ok(Self { root, target, binary: OnceCell::new() })
    }

    pub(crate) fn cargo(&self) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        command.current_dir(&self.root);
        // What cargo set for this program must not leak into the builds it starts: build scripts
        // that watch these variables would run again and again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command
    }

    /// The release binary. `LAZULI_BIN` names one that is already built.
    pub(crate) fn binary(&self) -> Result<&Path> {
        if let Some(path) = self.binary.get() {
            return Ok(path);
        }
        let path = match std::env::var_os("LAZULI_BIN") {
            Some(path) => PathBuf::from(path),
            None => {
                process::run(self.cargo().args(["build", "--release", "--package", "lazuli"]))?;
                self.target.join("release/lazuli")
            }
        };
        Ok(self.binary.get_or_init(|| path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// `unsafe_code = "forbid"` stands once, and binds only the crates that take over the lints of
    /// the workspace.
    #[test]
    fn every_crate_forbids_unsafe_code() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let read = |path: PathBuf| fs::read_to_string(path.join("Cargo.toml")).unwrap();
        assert!(read(root.to_owned()).contains("\nunsafe_code = \"forbid\"\n"));
        let crates = fs::read_dir(root.join("crates")).unwrap();
        let crates = crates.map(|entry| entry.unwrap().path()).chain([root.join("xtask")]);
        for directory in crates.filter(|path| path.join("Cargo.toml").is_file()) {
            let inherits = read(directory.clone()).contains("\n[lints]\nworkspace = true\n");
            assert!(inherits, "{} has lints of its own", directory.display());
        }
    }
}
