//! Starts, watches, stops or kills the real binary on a free port.

use crate::http::{Connection, get};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The default account of every server, and its key; both are public.
pub use lazuli_wire::connection_string::{
    DEVELOPMENT_ACCOUNT as ACCOUNT, DEVELOPMENT_KEY as ACCOUNT_KEY,
};

/// How long a server may take to start or stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pause between two reads of the log.
const LOG_PAUSE: Duration = Duration::from_millis(2);

/// Bytes of the log shown on failure.
const LOG_TAIL_BYTES: usize = 8 * 1024;

/// A running server. Dropping it kills the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    scheme: &'static str,
    queue: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    /// One message per line of standard output; disconnected when the process has ended.
    lines: Receiver<()>,
    scratch: tempfile::TempDir,
}

impl Server {
    /// Starts `binary` on `data` and returns once it accepts requests.
    pub fn start(binary: &Path, data: &Path, arguments: &[&str]) -> io::Result<Self> {
        Self::start_with(binary, data, arguments, &[])
    }

    /// Starts `binary` with these variables added to its environment.
    pub fn start_with(
        binary: &Path,
        data: &Path,
        arguments: &[&str],
        environment: &[(&str, PathBuf)],
    ) -> io::Result<Self> {
        let mut command = Command::new(binary);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        Self::start_command(command, data, arguments)
    }

    /// Starts a server with `command`, to which the server's arguments are added.
    pub fn start_command(command: Command, data: &Path, arguments: &[&str]) -> io::Result<Self> {
        Self::start_on(command, [OsStr::new("--data"), data.as_os_str()], arguments)
    }

    /// Starts a gateway with `command`, to which the server's arguments are added, on the store that
    /// `engine` names.
    pub fn start_gateway(command: Command, engine: &str, arguments: &[&str]) -> io::Result<Self> {
        Self::start_on(command, ["--engine", engine].map(OsStr::new), arguments)
    }

    fn start_on(mut command: Command, store: [&OsStr; 2], arguments: &[&str]) -> io::Result<Self> {
        let scratch = tempfile::tempdir()?;
        let port_file = scratch.path().join("ports.json");
        // Servers of many tests run concurrently. Set in the environment, because older binaries
        // lack the flag.
        if !command.get_envs().any(|(name, _)| name == "LAZULI_ADMIN") {
            command.env("LAZULI_ADMIN", "127.0.0.1:0");
        }
        if !command.get_envs().any(|(name, _)| name == "LAZULI_QUEUE_PORT") {
            command.env("LAZULI_QUEUE_PORT", "0");
        }
        command
            .args(["serve", "--host", "127.0.0.1", "--table-port", "0"])
            .args(store)
            .arg("--port-file")
            .arg(&port_file)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(scratch.path().join("stderr"))?);
        let mut child = command.spawn().map_err(|error| {
            io::Error::other(format!("start {}: {error}", command.get_program().display()))
        })?;
        let lines = watch(&mut child)?;
        let unset = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self {
            child,
            address: unset,
            scheme: "http",
            queue: None,
            admin: None,
            lines,
            scratch,
        };
        let served = server.wait_until_listening(&port_file)?;
        (server.scheme, server.address) = served.table;
        server.queue = served.queue;
        server.admin = served.admin;
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the Queue service, if the server has one.
    pub fn queue(&self) -> Option<SocketAddr> {
        self.queue
    }

    /// The address of the admin listener, if the server has one.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// The admin listener's response to `GET path`: the status, and everything it sent.
    pub fn ask_admin(&self, path: &str) -> io::Result<(u16, String)> {
        self.ask_admin_sending(path, "")
    }

    /// The same with a token.
    pub fn ask_admin_with(&self, path: &str, token: &str) -> io::Result<(u16, String)> {
        self.ask_admin_sending(path, &format!("Authorization: Bearer {token}\r\n"))
    }

    fn ask_admin_sending(&self, path: &str, header: &str) -> io::Result<(u16, String)> {
        let address = self.admin.ok_or_else(|| self.failure("has no admin listener"))?;
        get(address, path, header)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The connection string for SDKs.
    pub fn connection_string(&self) -> String {
        self.connection_string_of(ACCOUNT)
    }

    /// The same for another account, whose key is the same.
    pub fn connection_string_of(&self, account: &str) -> String {
        let Self { address, scheme, .. } = self;
        let queue = self.queue.map(|queue| format!("QueueEndpoint={scheme}://{queue}/{account};"));
        format!(
            "DefaultEndpointsProtocol={scheme};AccountName={account};AccountKey={ACCOUNT_KEY};\
             TableEndpoint={scheme}://{address}/{account};{}",
            queue.unwrap_or_default()
        )
    }

    /// A new connection that signs with the account's key.
    pub fn connect(&self) -> io::Result<Connection> {
        Connection::open(self.address)
    }

    /// Ends the process immediately (SIGKILL), like a crash.
    pub fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Stops the server cleanly (SIGTERM): it finishes in-flight requests first.
    pub fn terminate(self) -> io::Result<ExitStatus> {
        self.signal("TERM")?;
        self.wait()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", name]).arg(pid).status()?;
        if sent.success() { Ok(()) } else { Err(self.failure("takes no signal")) }
    }

    /// Waits until the process has ended.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => return self.child.wait(),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.failure("does not end"));
                }
            }
        }
    }

    /// The end of what the server wrote to standard error.
    pub fn log(&self) -> String {
        let bytes = self.log_bytes();
        let start = bytes.len().saturating_sub(LOG_TAIL_BYTES);
        String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).into_owned()
    }

    /// Everything that the server wrote to standard error.
    pub fn whole_log(&self) -> String {
        String::from_utf8_lossy(&self.log_bytes()).into_owned()
    }

    fn log_bytes(&self) -> Vec<u8> {
        std::fs::read(self.scratch.path().join("stderr")).unwrap_or_default()
    }

    /// Waits until the log contains `text`, because lines are written slightly after they are logged.
    pub fn wait_for_log(&self, text: &str) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.whole_log().contains(text) {
            if Instant::now() > deadline {
                return Err(self.failure(&format!("does not log {text:?}")));
            }
            std::thread::park_timeout(LOG_PAUSE);
        }
        Ok(())
    }

    /// The port file is complete once it exists, and it exists before the first line is printed.
    fn wait_until_listening(&mut self, port_file: &Path) -> io::Result<Served> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let event = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            if let Ok(text) = std::fs::read_to_string(port_file) {
                return parse_port_file(&text)
                    .ok_or_else(|| self.failure(&format!("wrote a port file that says {text:?}")));
            }
            match event {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.failure("ended before it listened"));
                }
                Err(RecvTimeoutError::Timeout) => return Err(self.failure("does not listen")),
            }
        }
    }

    fn failure(&self, what: &str) -> io::Error {
        io::Error::other(format!("the server {what}; its log ends:\n{}", self.log()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has already ended, which is the goal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary to test: `LAZULI_BIN`, or the one next to the running test.
pub fn binary() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("LAZULI_BIN") {
        return Ok(path.into());
    }
    let test = std::env::current_exe()?;
    let found =
        test.ancestors().skip(1).take(2).map(|dir| dir.join("lazuli")).find(|p| p.is_file());
    found.ok_or_else(|| io::Error::other("no lazuli binary: build it, or set LAZULI_BIN"))
}

/// Drains standard output, so that the pipe never fills, and reports each line.
fn watch(child: &mut Child) -> io::Result<Receiver<()>> {
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
    let (sender, receiver) = channel();
    std::thread::Builder::new().name("server-stdout".to_owned()).spawn(move || {
        for _ in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(());
        }
    })?;
    Ok(receiver)
}

/// What a port file names.
#[derive(Debug, PartialEq, Eq)]
struct Served {
    table: (&'static str, SocketAddr),
    queue: Option<SocketAddr>,
    admin: Option<SocketAddr>,
}

/// `{"table":"http://127.0.0.1:PORT","queue":"…","admin":"…"}`, or the same with https; all but the
/// first may be missing.
fn parse_port_file(text: &str) -> Option<Served> {
    let address_of = |service| url_of(service, text).map(|(_, address)| address);
    let (queue, admin) = (address_of("queue"), address_of("admin"));
    Some(Served { table: url_of("table", text)?, queue, admin })
}

fn url_of(service: &str, text: &str) -> Option<(&'static str, SocketAddr)> {
    let (_, url) = text.split_once(&format!("\"{service}\":\""))?;
    let (url, _) = url.split_once('"')?;
    let (scheme, address) = url.split_once("://")?;
    let scheme = ["http", "https"].into_iter().find(|known| *known == scheme)?;
    Some((scheme, address.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_file_names_the_address() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let expect =
            |scheme| Some(Served { table: (scheme, address(4711)), queue: None, admin: None });
        let parse = |url: &str| parse_port_file(&format!("{{\"table\":\"{url}\"}}\n"));
        let all = "{\"table\":\"https://127.0.0.1:1\",\"queue\":\"https://127.0.0.1:3\",\
                   \"admin\":\"http://127.0.0.1:2\"}";
        let (queue, admin) = (Some(address(3)), Some(address(2)));
        let expect_all = Served { table: ("https", address(1)), queue, admin };
        assert_eq!(parse_port_file(all), Some(expect_all));
        assert_eq!(parse("http://127.0.0.1:4711"), expect("http"));
        assert_eq!(parse("https://127.0.0.1:4711"), expect("https"));
        assert_eq!(parse("ftp://127.0.0.1:4711"), None);
        assert_eq!(parse_port_file("{}"), None);
    }

    #[test]
    fn a_program_that_ends_at_once_is_reported() {
        let error = Server::start(Path::new("false"), Path::new("nowhere"), &[]).unwrap_err();
        assert!(error.to_string().contains("ended before it listened"), "{error}");
    }
}
