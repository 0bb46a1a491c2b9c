//! Runs the binary as a user would.

use lazuli_testkit::server::Server;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_lazuli");

/// A server, a home directory, and the commands that use both.
pub(crate) struct Lazuli<S = Server> {
    pub(crate) server: S,
    home: tempfile::TempDir,
    _data: Option<tempfile::TempDir>,
    connection_string: Option<String>,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Lazuli {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same, with more options of the server.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let arguments = [&["--durability", "memory"], options].concat();
        let server = Server::start(Path::new(BINARY), data.path(), &arguments).unwrap();
        let connection_string = Some(server.connection_string());
        Self { server, home: tempfile::tempdir().unwrap(), _data: Some(data), connection_string }
    }

    /// The same, with a table `People` that holds Don, Jun, Ken and Rich.
    pub(crate) fn with_people() -> Self {
        let lazuli = Self::start();
        lazuli.ok("tables create People");
        let put = lazuli.run_with(&["entities", "put", "People", "-"], PEOPLE);
        assert_eq!(put.code, 0, "{put:?}");
        lazuli
    }
}

impl Lazuli<()> {
    /// Commands that use another server.
    pub(crate) fn of(connection_string: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self {
            server: (),
            home,
            _data: None,
            connection_string: Some(connection_string.to_owned()),
        }
    }
}

impl<S> Lazuli<S> {
    /// The environment does not name the server for commands.
    pub(crate) fn without_connection_string(mut self) -> Self {
        self.connection_string = None;
        self
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A file in the directory in which commands run.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        self.prepare(&mut command);
        command.args(arguments);
        command
    }

    /// The directory and the environment of commands.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.current_dir(self.home.path()).env_clear().env("HOME", self.home.path());
        if let Some(text) = &self.connection_string {
            command.env("LAZULI_CONNECTION_STRING", text);
        }
    }

    /// Runs a command with nothing on standard input.
    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        self.run_with(arguments, "")
    }

    /// Runs a command line without quotes.
    pub(crate) fn line(&self, line: &str) -> Done {
        self.run(&line.split(' ').collect::<Vec<_>>())
    }

    /// Runs a command line that succeeds; returns its output.
    #[track_caller]
    pub(crate) fn ok(&self, line: &str) -> String {
        let done = self.line(line);
        assert_eq!(done.code, 0, "lazuli {line}: {done:?}");
        done.stdout
    }

    /// Runs a command line that fails with `code` and prints `words`.
    #[track_caller]
    pub(crate) fn fails(&self, line: &str, code: i32, words: &[&str]) {
        let done = self.line(line);
        done.failed(code, words);
        assert_eq!(done.stdout, "", "lazuli {line}");
    }

    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> Done {
        let mut child = self.spawn(arguments);
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        done(child)
    }

    /// Starts a command.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }
}

impl Done {
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.stderr.contains("error: "), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in {self:?}");
        }
    }
}

/// Waits for the end of a command.
pub(crate) fn done(child: Child) -> Done {
    let output = child.wait_with_output().unwrap();
    Done {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// An account on a port where nobody listens.
pub(crate) const NOBODY: &str = "TableEndpoint=http://127.0.0.1:1/acct;\
    QueueEndpoint=http://127.0.0.1:1/acct;AccountName=acct;AccountKey=a2V5";

/// Four people, as lines of JSON.
pub(crate) const PEOPLE: &str = r#"
{"PartitionKey":"Marketing","RowKey":"00001","FirstName":"Don","Age":34}
{"PartitionKey":"Marketing","RowKey":"00002","FirstName":"Jun","Age":47}
{"PartitionKey":"Sales","RowKey":"00010","FirstName":"Ken","Age":23,"Hired@odata.type":"Edm.DateTime","Hired":"2026-01-31T00:00:00Z"}
{"PartitionKey":"Sales","RowKey":"00011","FirstName":"Rich","Age":17,"Staff@odata.type":"Edm.Int64","Staff":"9007199254740993"}
"#;

/// JSON lines without values that differ from run to run: ETags and times.
pub(crate) fn without_versions(lines: &str) -> String {
    let mut text = lines.to_owned();
    for (begin, end) in [("\"odata.etag\":\"", "'\\\"\","), ("\"Timestamp\":\"", "\",")] {
        while let Some((before, rest)) = text.split_once(begin) {
            let (_, after) = rest.split_once(end).unwrap();
            text = format!("{before}{after}");
        }
    }
    text
}

/// The string value of a member in one line of JSON.
pub(crate) fn member(line: &str, name: &str) -> String {
    let (_, rest) = line.split_once(&format!("\"{name}\":\"")).unwrap();
    rest.split('"').next().unwrap().to_owned()
}
