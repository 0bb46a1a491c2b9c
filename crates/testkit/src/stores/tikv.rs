//! Starts the stand-in TiKV cluster (`tests/tikv-standin`) on free ports, and controls it.

use super::postgres::Started;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The environment variable with the address of a cluster to use instead, where no test needs to break it.
pub const ADDRESS_VARIABLE: &str = "LAZULI_TIKV";

/// Number of stores in a stand-in.
pub const STORES: usize = 3;

/// A running stand-in. Dropping it kills the process.
#[derive(Debug)]
pub struct StandIn {
    child: Child,
    /// Driver, control port and stores, as the stand-in prints and takes them.
    addresses: String,
    control: Mutex<BufReader<TcpStream>>,
    /// Drivers for clients behind proxies: their addresses, and the store addresses that they report.
    doors: Vec<(SocketAddr, [SocketAddr; STORES])>,
}

/// Whether the stand-in can be built.
pub fn is_installed() -> bool {
    let mut asked = Command::new("go");
    asked.arg("version").stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}

impl StandIn {
    /// Starts a stand-in that keeps its data in memory.
    pub fn start() -> Self {
        Self::start_at(None, "")
    }

    /// Starts a stand-in that keeps its data in `directory`.
    pub fn start_in(directory: &Path) -> Self {
        Self::start_at(Some(directory), "")
    }

    /// Kills it and restarts it on the same addresses; only a directory survives this.
    pub fn restart_in(mut self, directory: &Path) -> Self {
        self.kill();
        Self::start_at(Some(directory), &self.addresses)
    }

    /// Restarts it after [`kill`](Self::kill), on the same addresses and with its directory.
    pub fn resume_in(&mut self, directory: &Path) {
        let doors = std::mem::take(&mut self.doors);
        *self = Self::start_at(Some(directory), &self.addresses);
        for (address, stores) in doors {
            self.open_door_at(address, stores);
        }
    }

    /// Adds a driver, for a client that reaches the stores at these addresses, through proxies.
    pub fn open_door(&mut self, stores: [SocketAddr; STORES]) -> SocketAddr {
        self.open_door_at(SocketAddr::from(([127, 0, 0, 1], 0)), stores)
    }

    fn open_door_at(&mut self, address: SocketAddr, stores: [SocketAddr; STORES]) -> SocketAddr {
        let [one, two, three] = stores;
        let address = self.control(&format!("door {address} {one} {two} {three}"));
        let address = address.parse().expect("the address of the door");
        self.doors.push((address, stores));
        address
    }

    fn start_at(directory: Option<&Path>, addresses: &str) -> Self {
        let mut command = Command::new(binary());
        if let Some(directory) = directory {
            command.arg("-data").arg(directory);
        }
        command.args(["-listen", addresses]);
        // It ends when its standard input closes, so it cannot outlive a killed test.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("start the stand-in");
        let mut addresses = String::new();
        let output = child.stdout.take().expect("its output is piped");
        BufReader::new(output).read_line(&mut addresses).expect("read its addresses");
        let addresses = addresses.trim().to_owned();
        let control = addresses.split(',').nth(1).expect("the address of the control port");
        let control = TcpStream::connect(control).expect("connect to the control port");
        control.set_nodelay(true).expect("send commands at once");
        let control = Mutex::new(BufReader::new(control));
        Self { child, addresses, control, doors: Vec::new() }
    }

    /// The address that `--engine` takes.
    pub fn engine(&self) -> String {
        format!("tikv://{}", self.driver())
    }

    /// The addresses of the stores.
    pub fn stores(&self) -> [SocketAddr; STORES] {
        let mut stores = self.addresses.split(',').skip(2);
        [(); STORES].map(|()| {
            let store = stores.next().and_then(|store| store.parse().ok());
            store.expect("the address of a store")
        })
    }

    /// The address of the placement driver: host and port.
    pub fn driver(&self) -> &str {
        self.addresses.split(',').next().unwrap_or_default()
    }

    /// Sends a command to the control port; panics with its reason if it fails. The commands are
    /// listed in `tests/tikv-standin/control.go`.
    pub fn control(&self, command: &str) -> String {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(control.get_mut(), "{command}").expect("send a command");
        let mut answer = String::new();
        control.read_line(&mut answer).expect("read the answer");
        match answer.trim().strip_prefix("ok") {
            Some(result) => result.trim().to_owned(),
            None => panic!("{command}: {answer}"),
        }
    }

    /// Sends a command that ends with a key.
    pub fn control_at(&self, command: &str, key: &[u8]) -> String {
        self.control(&format!("{command} {}", hex(key)))
    }

    /// Makes store 1, 2 or 3 the leader of the key's region.
    pub fn lead(&self, key: &[u8], store: usize) {
        self.control(&format!("lead {} {store}", hex(key)));
    }

    /// How often each remote call was made since the last `reset`.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        parse_counts(&self.control("count"))
    }

    /// The same for the region that holds a key.
    pub fn counts_at(&self, key: &[u8]) -> BTreeMap<String, usize> {
        parse_counts(&self.control_at("count", key))
    }

    /// How many locks the cluster holds.
    pub fn locks(&self) -> usize {
        self.control("locks").parse().expect("a number")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        // A process that has already ended is fine too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a stand-in with its data in `dir`, which outlives this process.
pub fn start_in(dir: &Path) -> io::Result<Started> {
    std::fs::create_dir_all(dir)?;
    let mut command = Command::new(binary());
    command.arg("-forever").arg("-data").arg(dir.join("data"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let mut addresses = String::new();
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    BufReader::new(output).read_line(&mut addresses)?;
    std::fs::write(dir.join("pid"), child.id().to_string())?;
    let driver = addresses.split(',').next().unwrap_or_default();
    Ok(Started { address: format!("tikv://{driver}"), pids: vec![child.id()] })
}

/// Ends the stand-in in `dir`, by its process id, and removes it.
pub fn stop_in(dir: &Path) -> io::Result<()> {
    let pid = std::fs::read_to_string(dir.join("pid"))?;
    // A process that has already ended is fine too.
    Command::new("kill").arg(pid.trim()).status()?;
    std::fs::remove_dir_all(dir)
}

fn parse_counts(counted: &str) -> BTreeMap<String, usize> {
    let pairs = counted.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.map(|(call, n)| (call.to_owned(), n.parse().expect("a number"))).collect()
}

fn hex(key: &[u8]) -> String {
    key.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Builds the stand-in, once per process. Without Go the test fails and says what to install.
fn binary() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let directory = root.join("target/stores");
        std::fs::create_dir_all(&directory).expect("create target/stores");
        let binary = directory.join("tikv-standin");
        // Another test process may be running the old file: replace it instead of writing into it.
        let fresh = directory.join(format!("tikv-standin-{}", std::process::id()));
        let built = Command::new("go")
            .args(["build", "-o"])
            .arg(&fresh)
            .arg(".")
            .current_dir(root.join("tests/tikv-standin"))
            .env("CGO_ENABLED", "0")
            .status()
            .expect("run go; the tests of the TiKV engine need Go 1.26 or newer");
        assert!(built.success(), "go build of tests/tikv-standin failed");
        std::fs::rename(&fresh, &binary).expect("put the stand-in in its place");
        binary
    })
}
