//! What the kernel reports about processes, and wrong clocks for single processes.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Ticks of CPU per second, on every Linux that Rust runs on.
const TICKS_PER_SECOND: u64 = 100;

/// CPU in ticks.
struct Stat {
    parent: u32,
    own: u64,
    ended: u64,
}

/// The CPU that a process has used.
pub fn cpu_of(pid: u32) -> Option<Duration> {
    Some(time(stat(pid)?.own))
}

/// The CPU that a process and its children have used, including those that ended.
pub fn cpu_of_family(pid: u32) -> io::Result<Duration> {
    let first = || stat(pid).map_or((0, 0), |stat| (stat.own, stat.ended));
    // If a process ended during the walk, it was counted twice or not at all: walk again.
    loop {
        let (own, ended) = first();
        let ticks = own + ended + ticks_of_children(pid)?;
        if first().1 == ended {
            return Ok(time(ticks));
        }
    }
}

/// Sends a signal, such as `STOP`, to a process and its children. The process comes first, so that it starts
/// no more children.
pub fn signal_family(pid: u32, name: &str) -> io::Result<()> {
    signal(pid, name)?;
    for child in children(pid)? {
        // It may have ended.
        let _ = signal(child, name);
    }
    Ok(())
}

fn signal(pid: u32, name: &str) -> io::Result<()> {
    let sent = Command::new("kill").args(["-s", name]).arg(pid.to_string()).status()?;
    if sent.success() { Ok(()) } else { Err(io::Error::other(format!("{pid} takes no {name}"))) }
}

fn children(pid: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let process = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        let is_child = |process: &u32| stat(*process).is_some_and(|stat| stat.parent == pid);
        children.extend(process.filter(is_child));
    }
    Ok(children)
}

/// The most memory that a process has held, in KiB.
pub fn peak_kib_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
}

fn ticks_of_children(pid: u32) -> io::Result<u64> {
    let stats = children(pid)?.into_iter().filter_map(stat);
    Ok(stats.map(|stat| stat.own + stat.ended).sum())
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything, and ends with the last parenthesis.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: number(11)? + number(12)?,
        ended: number(13)? + number(14)?,
    })
}

/// The environment in which a process sees the clock shifted by `clock`, such as `-1d`. Debian's package
/// `faketime` provides the library. Its program `faketime` is not used, because it stays until all descendants
/// have ended, and takes their signals.
pub fn fake_time(clock: &str) -> [(&'static str, String); 3] {
    [
        ("LD_PRELOAD", fake_time_library()),
        ("FAKETIME", clock.to_owned()),
        // Timeouts still use real time.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ]
}

/// Whether [`fake_time`] works here.
pub fn can_fake_time() -> bool {
    Path::new(&fake_time_library()).exists()
}

fn fake_time_library() -> String {
    format!("/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", std::env::consts::ARCH)
}
