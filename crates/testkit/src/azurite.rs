//! Azurite from npm: installed once, started on free ports, for comparison.

use crate::server::{ACCOUNT, ACCOUNT_KEY};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The newest version when the published figures were measured.
pub const VERSION: &str = "3.37.0";

/// Attempts to find three ports that stay free until Azurite takes them.
const ATTEMPTS: usize = 5;

/// The directory of the package, installed under `home` unless it exists; or why it is not available.
pub fn install(home: &Path) -> io::Result<Result<PathBuf, String>> {
    for program in ["node", "npm"] {
        if !exists(program) {
            return Ok(Err(format!("{program} is not installed")));
        }
    }
    fs::create_dir_all(home)?;
    // Tests in several processes may need it at the same time.
    let lock = File::create(home.join("install.lock"))?;
    lock.lock()?;
    let package = home.join("node_modules/azurite");
    let manifest = fs::read_to_string(package.join("package.json")).unwrap_or_default();
    if manifest.contains(&format!("\"version\": \"{VERSION}\"")) {
        return Ok(Ok(package));
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"])
        .arg("--prefix")
        .arg(home)
        .arg(format!("azurite@{VERSION}"));
    if !npm.stdin(Stdio::null()).stdout(Stdio::null()).status()?.success() {
        return Ok(Err(format!("npm cannot install azurite@{VERSION}")));
    }
    Ok(Ok(package))
}

fn exists(program: &str) -> bool {
    let mut command = Command::new(program);
    let answer = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    answer.is_ok_and(|status| status.success())
}

/// A port that was free a moment ago: Azurite does not say which one it took.
pub fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// A running Azurite with its blob, queue and table services, data in memory. Dropping it kills the process.
#[derive(Debug)]
pub struct Azurite {
    child: Child,
    blob: SocketAddr,
    queue: SocketAddr,
    table: SocketAddr,
}

impl Azurite {
    /// Starts the Azurite for tests, installed under `target/clients/azurite` when first needed.
    ///
    /// `None`, with a message, if that is not possible; with `CI` set that is an error.
    pub fn start_if_possible() -> io::Result<Option<Self>> {
        let test = std::env::current_exe()?;
        // target/<profile>/deps/<test>, or target/<profile>/<program>.
        let is_target = |directory: &&Path| directory.join("CACHEDIR.TAG").is_file();
        let target = test.ancestors().find(is_target).ok_or_else(|| {
            io::Error::other(format!("{} is in no target directory", test.display()))
        })?;
        match install(&target.join("clients/azurite"))? {
            Ok(package) => Self::start(&package).map(Some),
            Err(reason) if std::env::var_os("CI").is_some_and(|value| value == "true") => {
                Err(io::Error::other(reason))
            }
            Err(reason) => {
                #[expect(clippy::print_stderr, reason = "who runs the test wants to know")]
                {
                    eprintln!("skipped: {reason}");
                }
                Ok(None)
            }
        }
    }

    /// Starts the Azurite in the directory `package`, and returns once all services listen.
    pub fn start(package: &Path) -> io::Result<Self> {
        let mut last = io::Error::other("no attempt");
        for _ in 0..ATTEMPTS {
            match Self::start_once(package) {
                Ok(azurite) => return Ok(azurite),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn start_once(package: &Path) -> io::Result<Self> {
        let [blob, queue, table] = [free_port()?, free_port()?, free_port()?];
        let mut command = Command::new("node");
        command.arg(package.join("dist/src/azurite.js"));
        for (option, address) in
            [("--blobPort", blob), ("--queuePort", queue), ("--tablePort", table)]
        {
            command.args([option, &address.port().to_string()]);
        }
        command.args(["--silent", "--inMemoryPersistence", "--disableTelemetry"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take();
        // Created at once, so that the process is killed on any exit.
        let azurite = Self { child, blob, queue, table };
        let mut lines = BufReader::new(stdout.ok_or_else(|| io::Error::other("no output"))?);
        for _ in 0..3 {
            // The Table service "successfully started", the others "successfully listen".
            loop {
                let mut line = String::new();
                if lines.read_line(&mut line)? == 0 {
                    return Err(io::Error::other("Azurite ended before it listened"));
                }
                if line.contains(" successfully ") {
                    break;
                }
            }
        }
        // Keep reading, so that the pipe never fills.
        std::thread::spawn(move || lines.lines().map_while(Result::ok).count());
        Ok(azurite)
    }

    /// The connection string for clients.
    pub fn connection_string(&self) -> String {
        let Self { blob, queue, table, .. } = self;
        format!(
            "DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};\
             BlobEndpoint=http://{blob}/{ACCOUNT};QueueEndpoint=http://{queue}/{ACCOUNT};\
             TableEndpoint=http://{table}/{ACCOUNT};"
        )
    }

    /// The address of the blob service, with the account.
    pub fn blob_endpoint(&self) -> String {
        format!("http://{}/{ACCOUNT}", self.blob)
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        // Both fail only if the process has already ended, which is the goal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
