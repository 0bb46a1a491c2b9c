//! Real PostgreSQL servers on free ports (K-9.2). PostgreSQL refuses to run as root, so then it runs as
//! `postgres`.

use super::{free_port, name_space};
use crate::processes::{cpu_of_family, fake_time};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The environment variable with the address of a server to use instead.
pub const ADDRESS_VARIABLE: &str = "LAZULI_POSTGRES";

/// The role of the tests.
const USER: &str = "lazuli";

/// Commits are durable, because we test durability. Many connections, because every test has a pool.
const SETTINGS: &str = "-c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=on \
                        -c max_connections=400 -c shared_buffers=64MB -c log_min_messages=fatal";

/// How long a standby may take to catch up.
const FOLLOW_MAX: Duration = Duration::from_secs(60);
const FOLLOW_PAUSE: Duration = Duration::from_millis(20);

/// How often a start is tried, because another process may take the port first.
const STARTS_MAX: usize = 3;

/// Waits until the process that owns the servers has ended, then ends them.
const KEEPER: &str = r#"
trap '' INT TERM
bin=$1; shift
read -r _ || true
for data in "$@"; do "$bin/pg_ctl" -m immediate -D "$data" stop >/dev/null 2>&1; done
true
"#;

/// A running server, whatever ends it.
#[derive(Clone, Debug)]
pub struct Instance {
    pub port: u16,
    pub data: PathBuf,
    settings: String,
    bin: PathBuf,
}

/// A test's server. It ends with this value, or with the process that holds it.
pub struct Server {
    pub instance: Instance,
    _keeper: Keeper,
    _dir: tempfile::TempDir,
}

/// A primary and a standby that has every acknowledged commit. They end like a [`Server`].
pub struct Pair {
    pub primary: Instance,
    pub standby: Instance,
    _keeper: Keeper,
    _dir: tempfile::TempDir,
}

/// Whether a test that needs PostgreSQL can run. Without it the test reports that it is skipped, or fails
/// where nothing may be skipped (K-9.1): begin it with `if !is_there() { return; }`.
pub fn is_there() -> bool {
    if std::env::var_os(ADDRESS_VARIABLE).is_some() {
        return true;
    }
    match programs() {
        Ok(_) => true,
        Err(reason) => {
            assert!(std::env::var_os("CI").is_none(), "nothing is skipped in CI: {reason}");
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("a test");
            // Bypasses the capture of the test runner, which hides the output of passing tests.
            let _ = writeln!(io::stderr(), "skipped {name}: {reason}");
            false
        }
    }
}

/// Whether PostgreSQL is installed.
pub fn is_installed() -> bool {
    programs().is_ok()
}

/// Where the programs of the newest PostgreSQL are.
fn programs() -> io::Result<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let version = |bin: &PathBuf| -> Option<u32> {
        bin.parent()?.file_name()?.to_str()?.split('.').next()?.parse().ok()
    };
    let newest = installed
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|bin| bin.join("initdb").exists())
        .max_by_key(version);
    newest.or_else(|| in_path("initdb")).ok_or_else(|| {
        io::Error::other(
            "PostgreSQL is not installed: apt-get install postgresql, or set LAZULI_POSTGRES",
        )
    })
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|dir| dir.join(program).exists())
}

/// The server that all tests of this process share: the one at [`ADDRESS_VARIABLE`], or our own.
pub fn shared_address() -> &'static str {
    static SERVER: OnceLock<(String, Option<Server>)> = OnceLock::new();
    let (address, _) = SERVER.get_or_init(|| match std::env::var(ADDRESS_VARIABLE) {
        Ok(address) => (address, None),
        Err(_) => {
            let server = Server::start("");
            (server.address(), Some(server))
        }
    });
    address
}

/// The address of a new name space on the shared server.
pub fn fresh_address() -> String {
    in_name_space(shared_address(), &name_space())
}

/// The address with another schema.
pub fn in_name_space(address: &str, schema: &str) -> String {
    let separator = if address.contains('?') { '&' } else { '?' };
    format!("{address}{separator}schema={schema}")
}

impl Instance {
    /// Creates a directory, and starts an empty server in it.
    fn create(bin: &Path, data: &Path, settings: &str) -> io::Result<Self> {
        let mut initdb = as_postgres(&bin.join("initdb"));
        initdb.args(["-A", "trust", "-U", USER, "-E", "UTF8", "--no-locale", "--no-sync", "-D"]);
        run(initdb.arg(data))?;
        Self::start(bin, data, settings)
    }

    /// Starts a server on a prepared directory.
    fn start(bin: &Path, data: &Path, settings: &str) -> io::Result<Self> {
        let mut failed = None;
        for _ in 0..STARTS_MAX {
            let (port, settings) = (free_port(), settings.to_owned());
            let (data, bin) = (data.to_path_buf(), bin.to_path_buf());
            let instance = Self { port, data, settings, bin };
            match instance.resume(None) {
                Ok(()) => return Ok(instance),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| io::Error::other("it was not started")))
    }

    /// Restarts the server where it was, with its clock shifted by `clock` as in [`fake_time`].
    pub fn resume(&self, clock: Option<&str>) -> io::Result<()> {
        let settings = format!("-p {} {SETTINGS} {}", self.port, self.settings);
        let mut command = as_postgres(Path::new("env"));
        if let Some(clock) = clock {
            command.args(fake_time(clock).map(|(name, value)| format!("{name}={value}")));
        }
        command.arg(self.program("pg_ctl"));
        self.run_control(&mut command, &["-t", "60", "-o", &settings, "start"])
    }

    /// Ends the server like a crash: SIGQUIT to every process; nothing is finished, nothing is written.
    pub fn kill(&self) -> io::Result<()> {
        self.control(&["-m", "immediate", "stop"])
    }

    /// Makes a standby the primary.
    pub fn promote(&self) -> io::Result<()> {
        self.control(&["promote"])
    }

    /// A program of the same version, such as `pgbench`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    /// CPU that all processes of the server have used, including those that ended.
    pub fn cpu(&self) -> io::Result<Duration> {
        cpu_of_family(self.pid()?)
    }

    pub fn address(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port)
    }

    /// The parent process of all sessions.
    pub fn pid(&self) -> io::Result<u32> {
        let lock = std::fs::read_to_string(self.data.join("postmaster.pid"))?;
        let pid = lock.lines().next().and_then(|line| line.parse().ok());
        pid.ok_or_else(|| io::Error::other("the lock file has no process id"))
    }

    /// Runs `pg_ctl` and waits until it is done, such as `["-m", "immediate", "restart"]`.
    pub fn control(&self, arguments: &[&str]) -> io::Result<()> {
        self.run_control(&mut as_postgres(&self.program("pg_ctl")), arguments)
    }

    fn run_control(&self, command: &mut Command, arguments: &[&str]) -> io::Result<()> {
        let log = self.data.with_extension("log");
        run(command.arg("-w").arg("-D").arg(&self.data).arg("-l").arg(log).args(arguments))
    }

    /// Restarts the server with a certificate and its key, as PEM, and with additional `settings`, such as
    /// `ssl_ca_file = 'root.crt'`; files are put next to its data.
    pub fn speak_tls(&self, files: &[(&str, &str)], settings: &str) -> io::Result<()> {
        for (name, content) in files {
            let path = self.data.join(name);
            std::fs::write(&path, content)?;
            // The server refuses a key that others can read.
            run(Command::new("chmod").arg("600").arg(&path))?;
            give_to_postgres(&path)?;
        }
        let mut configuration =
            std::fs::OpenOptions::new().append(true).open(self.data.join("postgresql.conf"))?;
        write!(configuration, "\nssl = on\n{settings}\n")?;
        self.control(&["-m", "fast", "restart"])
    }

    /// Sets who may connect, and how, instead of everyone; see `pg_hba.conf`.
    pub fn admit(&self, rules: &str) -> io::Result<()> {
        std::fs::write(self.data.join("pg_hba.conf"), rules)?;
        self.control(&["-m", "fast", "restart"])
    }

    /// Runs statements as the owner of the server.
    pub fn sql(&self, text: &str) -> io::Result<()> {
        self.query(text).map(drop)
    }

    /// The result of a query, as `psql` prints it without headings.
    pub fn query(&self, text: &str) -> io::Result<String> {
        let mut psql = Command::new(self.program("psql"));
        psql.args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-c", text]);
        said(psql.arg(self.address()))
    }
}

impl Server {
    /// Starts an empty server with additional `settings`, such as `-c fsync=off`.
    pub fn start(settings: &str) -> Self {
        Self::try_start(settings).unwrap()
    }

    /// Like [`start`](Self::start), for callers that can continue without it.
    pub fn try_start(settings: &str) -> io::Result<Self> {
        let (bin, dir) = (programs()?, scratch()?);
        let instance = Instance::create(&bin, &dir.path().join("data"), settings)?;
        let keeper = Keeper::of(&bin, &[&instance]);
        Ok(Self { instance, _keeper: keeper, _dir: dir })
    }

    pub fn address(&self) -> String {
        self.instance.address()
    }
}

impl Pair {
    pub fn start() -> Self {
        Self::try_start().unwrap()
    }

    /// Like [`start`](Self::start), for callers that can continue without it.
    pub fn try_start() -> io::Result<Self> {
        let (bin, dir) = (programs()?, scratch()?);
        let (primary, standby) = create_pair(&bin, dir.path())?;
        let keeper = Keeper::of(&bin, &[&primary, &standby]);
        Ok(Self { primary, standby, _keeper: keeper, _dir: dir })
    }

    /// An address that names both, in an order that does not show which is the primary.
    pub fn address(&self) -> String {
        both(&self.primary, &self.standby)
    }

    /// Kills the primary as a crash would, and promotes the standby.
    pub fn fail_over(&self) {
        self.primary.kill().unwrap();
        self.standby.promote().unwrap();
    }
}

fn both(one: &Instance, other: &Instance) -> String {
    format!("postgres://{USER}@127.0.0.1:{},127.0.0.1:{}/postgres", other.port, one.port)
}

fn create_pair(bin: &Path, dir: &Path) -> io::Result<(Instance, Instance)> {
    let primary = Instance::create(bin, &dir.join("primary"), "")?;
    let mut copy = as_postgres(&bin.join("pg_basebackup"));
    copy.args(["-h", "127.0.0.1", "-U", USER, "-R", "-X", "stream", "-c", "fast", "--no-sync"]);
    run(copy.args(["-p", &primary.port.to_string(), "-D"]).arg(dir.join("standby")))?;
    let standby = Instance::start(bin, &dir.join("standby"), "")?;
    // From now on a commit waits until the standby has it on disk.
    primary.sql("alter system set synchronous_standby_names = '*'")?;
    primary.sql("select pg_reload_conf()")?;
    let deadline = Instant::now() + FOLLOW_MAX;
    let following = "select count(*) from pg_stat_replication where sync_state = 'sync'";
    while primary.query(following)?.trim() != "1" {
        if Instant::now() > deadline {
            return Err(io::Error::other("the standby does not follow"));
        }
        std::thread::park_timeout(FOLLOW_PAUSE);
    }
    Ok((primary, standby))
}

/// What has been started in the background.
#[derive(Debug)]
pub struct Started {
    pub address: String,
    pub pids: Vec<u32>,
}

/// Starts a server in `dir` that outlives this process.
pub fn start_in(dir: &Path) -> io::Result<Started> {
    let bin = prepare(dir)?;
    let server = Instance::create(&bin, &dir.join("data"), "")?;
    Ok(Started { address: server.address(), pids: vec![server.pid()?] })
}

/// Starts a primary and its standby in `dir`, which outlive this process.
pub fn start_pair_in(dir: &Path) -> io::Result<Started> {
    let bin = prepare(dir)?;
    let (primary, standby) = create_pair(&bin, dir)?;
    let pids = vec![primary.pid()?, standby.pid()?];
    Ok(Started { address: both(&primary, &standby), pids })
}

/// Ends the servers in `dir`, by their process ids, and removes it.
pub fn stop_in(dir: &Path) -> io::Result<()> {
    let bin = programs()?;
    for entry in std::fs::read_dir(dir)? {
        let data = entry?.path();
        if data.join("postmaster.pid").exists() {
            let server = Instance { port: 0, data, settings: String::new(), bin: bin.clone() };
            server.control(&["-m", "fast", "stop"])?;
        }
    }
    std::fs::remove_dir_all(dir)
}

fn prepare(dir: &Path) -> io::Result<PathBuf> {
    let bin = programs()?;
    std::fs::create_dir_all(dir)?;
    if std::fs::read_dir(dir)?.next().is_some() {
        return Err(io::Error::other(format!("{} is in use: stop it first", dir.display())));
    }
    give_to_postgres(dir)?;
    Ok(bin)
}

fn scratch() -> io::Result<tempfile::TempDir> {
    let dir = tempfile::Builder::new().prefix("lazuli-postgres-").tempdir()?;
    give_to_postgres(dir.path())?;
    Ok(dir)
}

/// A process that ends servers when ours ends, however it ends.
struct Keeper(Child);

impl Keeper {
    fn of(bin: &Path, servers: &[&Instance]) -> Self {
        let keeper = as_postgres(Path::new("sh"))
            .args(["-c", KEEPER, "sh"])
            .arg(bin)
            .args(servers.iter().map(|server| &server.data))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(keeper.expect("a shell"))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.0.stdin.take() {
            let _ = stdin.write_all(b"\n");
        }
        let _ = self.0.wait();
    }
}

/// A command that does not run as root.
fn as_postgres(program: &Path) -> Command {
    let mut command = match is_root() {
        true => {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        }
        false => Command::new(program),
    };
    command.current_dir("/");
    command
}

fn give_to_postgres(dir: &Path) -> io::Result<()> {
    if is_root() { run(Command::new("chown").args(["-R", "postgres"]).arg(dir)) } else { Ok(()) }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn run(command: &mut Command) -> io::Result<()> {
    said(command).map(drop)
}

/// What a command prints. It goes into a file, because a server that the command leaves running would keep a
/// pipe open.
fn said(command: &mut Command) -> io::Result<String> {
    let mut file = tempfile::tempfile()?;
    let (out, err) = (file.try_clone()?, file.try_clone()?);
    let status = command.stdin(Stdio::null()).stdout(out).stderr(err).status()?;
    let mut said = String::new();
    file.rewind()?;
    file.read_to_string(&mut said)?;
    match status.success() {
        true => Ok(said),
        false => Err(io::Error::other(format!("{command:?} ended with {status}: {}", said.trim()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What faults of a store rely on: a killed server keeps what it acknowledged, and so does the standby
    /// that takes its place.
    #[test]
    fn a_standby_has_what_its_primary_acknowledged() {
        if !is_there() || !is_installed() {
            return;
        }
        let Pair { primary, standby, .. } = &Pair::start();
        primary.sql("create table t (n int)").unwrap();
        primary.sql("insert into t values (7)").unwrap();
        primary.kill().unwrap();
        assert!(primary.query("select 1").is_err());
        standby.promote().unwrap();
        assert_eq!(standby.query("select n from t").unwrap().trim(), "7");
        primary.resume(None).unwrap();
        assert_eq!(primary.query("select n from t").unwrap().trim(), "7");
    }
}
