//! The directories of the workspace, and the binaries under test, built once.

use crate::process;
use anyhow::{Context, Result};
use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Cargo's target directory; tasks install their tools under it, too.
    pub(crate) target: PathBuf,
    release_binary: OnceCell<PathBuf>,
    dist_binary: OnceCell<PathBuf>,
}

/// A cargo profile: its directory under `target/` has the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Profile {
    /// Fast to build; used by tests.
    Release,
    /// Benchmarked and released.
    Dist,
}

impl Profile {
    const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dist => "dist",
        }
    }
}

impl Workspace {
    pub(crate) fn find() -> Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("run as `cargo xtask`")?;
        let root = Path::new(&manifest).parent().context("find the workspace")?.to_owned();
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = root.join(target.unwrap_or_else(|| PathBuf::from("target")));
        Ok(Self { root, target, release_binary: OnceCell::new(), dist_binary: OnceCell::new() })
    }

    pub(crate) fn cargo(&self) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        command.current_dir(&self.root);
        // Variables that cargo sets for this program must not reach the builds it starts: build
        // scripts that watch them would rerun every time.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command
    }

    /// The server for tests. `LAZULI_BIN` names one that is already built.
    pub(crate) fn binary(&self) -> Result<&Path> {
        self.server(Profile::Release, &self.release_binary)
    }

    /// The server as benchmarked and released, or the one that `LAZULI_BIN` names.
    pub(crate) fn dist_binary(&self) -> Result<&Path> {
        self.server(Profile::Dist, &self.dist_binary)
    }

    fn server<'w>(&self, profile: Profile, built: &'w OnceCell<PathBuf>) -> Result<&'w Path> {
        if let Some(path) = built.get() {
            return Ok(path);
        }
        let path = match std::env::var_os("LAZULI_BIN") {
            Some(path) => PathBuf::from(path),
            None => self.build("lazuli", profile)?,
        };
        Ok(built.get_or_init(|| path))
    }

    /// Builds a program and returns its file.
    pub(crate) fn build(&self, package: &str, profile: Profile) -> Result<PathBuf> {
        let profile = profile.name();
        process::run(self.cargo().args(["build", "--profile", profile, "--package", package]))?;
        Ok(self.target.join(profile).join(package))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// `unsafe_code = "forbid"` is set once, and applies only to crates that inherit the workspace
    /// lints.
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
