//! The disk under a server: the compiled shim, and the faults that it injects.

use anyhow::{Context, Result, ensure};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("shim.c");
const CONTROL_BYTES: u64 = 7 * 8;

/// The compiled shim.
#[derive(Debug)]
pub struct Shim {
    library: PathBuf,
    _directory: tempfile::TempDir,
}

impl Shim {
    /// Compiles the shim with the C compiler that builds need anyway.
    pub fn compile() -> Result<Self> {
        let directory = tempfile::tempdir().context("make a directory")?;
        let (source, library) = (directory.path().join("shim.c"), directory.path().join("disk.so"));
        std::fs::write(&source, SOURCE).context("write the shim")?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let status = Command::new(&compiler)
            .args(["-shared", "-fPIC", "-O2", "-o"])
            .args([&library, &source])
            .status()
            .with_context(|| format!("run {}", compiler.display()))?;
        ensure!(status.success(), "the shim does not compile: {status}");
        Ok(Self { library, _directory: directory })
    }

    /// The environment that makes a program run on this disk: `root` is watched, `trace` records,
    /// `control` injects faults.
    pub fn environment(
        &self,
        root: &Path,
        trace: &Path,
        control: Option<&Control>,
    ) -> Vec<(&'static str, PathBuf)> {
        let mut environment = vec![
            ("LD_PRELOAD", self.library.clone()),
            ("LAZULI_DISK_ROOT", root.to_path_buf()),
            ("LAZULI_DISK_TRACE", trace.to_path_buf()),
        ];
        environment.extend(control.map(|control| ("LAZULI_DISK_CONTROL", control.path.clone())));
        environment
    }
}

/// Calls that a fault can hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls(u64);

impl Calls {
    pub const WRITES: Self = Self(1);
    pub const SYNCS: Self = Self(2);
    /// Creating, renaming, removing, setting lengths.
    pub const NAMES: Self = Self(4);
    pub const READS: Self = Self(8);
    /// All calls that change anything.
    pub const CHANGES: Self = Self(7);
    pub const NONE: Self = Self(0);
}

/// What happens to a call that is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    InputOutput,
    NoSpace,
    /// Half is written, and the call returns that length.
    Short,
    Slow {
        milliseconds: u64,
    },
}

impl Fault {
    fn numbers(self) -> [u64; 2] {
        match self {
            Self::InputOutput => [1, 5],
            Self::NoSpace => [1, 28],
            Self::Short => [2, 0],
            Self::Slow { milliseconds } => [3, milliseconds],
        }
    }
}

/// The faults of one disk, which can be changed while a program runs on it.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    file: File,
}

impl Control {
    /// A disk without faults, controlled through the file at `path`.
    pub fn new(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let file = file.with_context(|| format!("make {}", path.display()))?;
        file.set_len(CONTROL_BYTES).context("make a control file")?;
        Ok(Self { path: path.to_path_buf(), file })
    }

    /// Makes the calls numbered `hit` fail, counted from now on.
    pub fn arm(&self, calls: Calls, hit: std::ops::Range<u64>, fault: Fault) -> Result<()> {
        self.clear()?;
        let [action, value] = fault.numbers();
        for (field, number) in [hit.start, hit.end, action, value, 0, 0].into_iter().enumerate() {
            self.set(field + 1, number)?;
        }
        self.set(0, calls.0)
    }

    pub fn clear(&self) -> Result<()> {
        self.set(0, Calls::NONE.0)
    }

    /// How many calls were counted since the disk was armed.
    pub fn calls(&self) -> Result<u64> {
        self.get(5)
    }

    pub fn hits(&self) -> Result<u64> {
        self.get(6)
    }

    fn set(&self, field: usize, number: u64) -> Result<()> {
        self.file.write_all_at(&number.to_ne_bytes(), 8 * field as u64).context("control the disk")
    }

    fn get(&self, field: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, 8 * field as u64).context("ask the disk")?;
        Ok(u64::from_ne_bytes(bytes))
    }
}
