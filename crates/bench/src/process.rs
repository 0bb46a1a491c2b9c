//! CPU time and memory of processes, as the kernel counts them; and programs started as targets.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a program may take until it listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process owned by someone else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessId(u32);

impl ProcessId {
    pub(crate) fn of(pid: u32) -> Self {
        Self(pid)
    }

    /// The process id as a number.
    pub(crate) fn raw(self) -> u32 {
        self.0
    }

    pub(crate) fn this() -> Self {
        Self(std::process::id())
    }

    /// User and system time of all its threads, including those that have ended.
    pub(crate) fn cpu(self) -> Result<Duration> {
        let stat = self.read("stat")?;
        let ticks = parse_ticks(&stat).with_context(|| format!("read the times in {stat:?}"))?;
        Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
    }

    /// Resident memory now, in bytes.
    pub(crate) fn resident(self) -> Result<u64> {
        self.status("VmRSS:")
    }

    /// Its peak resident memory, in bytes.
    pub(crate) fn resident_peak(self) -> Result<u64> {
        self.status("VmHWM:")
    }

    /// Stops it (SIGSTOP) until [`Self::thaw`].
    pub(crate) fn freeze(self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    pub(crate) fn thaw(self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn status(self, field: &str) -> Result<u64> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(kib.with_context(|| format!("find {field} of process {}", self.0))? * 1024)
    }

    fn read(self, what: &str) -> Result<String> {
        let path = format!("/proc/{}/{what}", self.0);
        fs::read_to_string(&path).with_context(|| format!("read {path}"))
    }

    fn signal(self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.0).ok().and_then(Pid::from_raw).context("name a process")?;
        kill_process(pid, signal).with_context(|| format!("signal process {}", self.0))
    }
}

/// User and system time in ticks. The name of the program, in parentheses, may contain anything.
fn parse_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    // utime and stime are fields 14 and 15 of all, 12 and 13 after the name.
    let mut fields = fields.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// A program started by the benchmark. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
}

impl Program {
    /// Starts `command` and waits until `listening` finds an address in a line it prints.
    pub(crate) fn start(
        command: &mut Command,
        listening: impl Fn(&str) -> Option<SocketAddr>,
    ) -> Result<(Self, SocketAddr)> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {name}"))?;
        let lines = lines(&mut child)?;
        let program = Self { child };
        let deadline = Instant::now() + PATIENCE;
        let mut said = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(address) = listening(&line) {
                        return Ok((program, address));
                    }
                    said.push_str(&line);
                    said.push('\n');
                }
                Err(_) => bail!("{name} does not listen; it said:\n{said}"),
            }
        }
    }

    pub(crate) fn pid(&self) -> ProcessId {
        ProcessId::of(self.child.id())
    }

    /// Asks the process to end, and waits until it has.
    pub(crate) fn terminate(mut self) -> Result<ExitStatus> {
        self.pid().signal(Signal::TERM)?;
        self.child.wait().context("wait for a process")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only if the process has already ended, which is the goal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Drains what the program prints, so that its pipes never fill.
fn lines(child: &mut Child) -> Result<Receiver<String>> {
    let (sender, receiver) = channel();
    let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    for pipe in [stdout, stderr].into_iter().flatten() {
        let sender = sender.clone();
        std::thread::Builder::new().name("output".to_owned()).spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                // Once it listens, its output is discarded.
                let _ = sender.send(line);
            }
        })?;
    }
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_any_name() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 88 0 0 0 17 4 0 0 20 0 1 0 4711 9 9";
        assert_eq!(parse_ticks(stat), Some(21));
        assert_eq!(parse_ticks("42 (cat) S 1"), None);
    }

    #[test]
    fn this_process_uses_memory() {
        let this = ProcessId::this();
        assert!(this.cpu().is_ok());
        assert!(this.resident().unwrap() > 0);
        assert!(this.resident_peak().unwrap() > 0);
    }

    #[test]
    fn a_program_that_ends_without_listening_is_reported_with_its_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no port is free >&2"]);
        let error = Program::start(&mut command, |_| None).unwrap_err();
        assert!(error.to_string().contains("no port is free"), "{error}");
    }
}
