//! The bounds on memory, time and counts. The defaults suit one small machine.

use clap::Args;
use std::num::NonZeroU32;
use std::time::Duration;

/// How much the server may use, and how long it waits.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Bounds")]
pub(crate) struct Bounds {
    /// Total memory for cache, write buffers, requests and responses, such as `512M` or `2G`; sets
    /// the --…-mib options that are not given. In a memory cgroup below 1 GiB the default is 70 %
    /// of its limit
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<MemorySize>,

    /// Maximum connections, all services together; further ones get ServerBusy
    #[arg(long, value_name = "N", default_value = "16384")]
    pub(crate) connections_max: NonZeroU32,

    /// Maximum size of the request line and headers, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=1024))]
    pub(crate) header_kib_max: u32,

    /// Maximum header lines in a request
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(16..=10_000))]
    pub(crate) headers_max: u32,

    /// Memory for all request bodies together, in MiB
    #[arg(long, value_name = "MIB", default_value = "256")]
    pub(crate) body_memory_mib: NonZeroU32,

    /// Memory for all large responses together, in MiB
    #[arg(long, value_name = "MIB", default_value = "256")]
    pub(crate) answer_memory_mib: NonZeroU32,

    /// Memory for messages of all queues that are kept ready for delivery, in MiB; messages beyond
    /// it are read again
    #[arg(long, value_name = "MIB", default_value = "64")]
    pub(crate) message_memory_mib: NonZeroU32,

    /// Maximum messages of one queue that are kept ready for delivery; at least 32
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(32..))]
    pub(crate) ready_messages_max: u32,

    /// Maximum tables whose records are cached; using any other table costs a read of the catalog
    #[arg(long, value_name = "N", default_value = "1024")]
    pub(crate) known_tables_max: NonZeroU32,

    /// Maximum queues whose records are cached
    #[arg(long, value_name = "N", default_value = "4096")]
    pub(crate) known_queues_max: NonZeroU32,

    /// Maximum queues whose first messages and count are remembered; idle ones beyond it are read
    /// again
    #[arg(long, value_name = "N", default_value = "1024")]
    pub(crate) active_queues_max: NonZeroU32,

    /// Maximum messages of one queue to look up because the outcome of their write is unknown; with
    /// more, the queue is searched from the oldest
    #[arg(long, value_name = "N", default_value = "4096")]
    pub(crate) queue_doubts_max: NonZeroU32,

    /// Maximum changes of one queue to remember while its messages are counted; with more, the next
    /// request counts again
    #[arg(long, value_name = "N", default_value = "1048576")]
    pub(crate) count_changes_max: NonZeroU32,

    /// Maximum concurrent queries and transactions
    #[arg(long, value_name = "N", default_value = "32")]
    pub(crate) queries_max: NonZeroU32,

    /// Maximum requests that wait for the next change of a table; further ones get ServerBusy
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) waiters_max: u32,

    /// Memory for advice about the traffic, in MiB: 16 tables per MiB, at most 64 tables of an account;
    /// 0 turns advice off
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub(crate) advice_mib: u32,

    /// Maximum requests waiting to be examined for advice; further ones are skipped
    #[arg(long, value_name = "N", default_value = "4096")]
    pub(crate) advice_requests_max: NonZeroU32,

    /// How long a request waits for body or response memory before it gets ServerBusy
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(10))]
    pub(crate) memory_wait_seconds: Seconds,

    /// How long a connection may stay idle, or take to send its headers
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(60), value_parser = Seconds::at_least_one)]
    pub(crate) idle_seconds: Seconds,

    /// How long a client may leave a response unread before its connection is closed
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(60), value_parser = Seconds::at_least_one)]
    pub(crate) stall_seconds: Seconds,

    /// How long a TLS handshake may take
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(10), value_parser = Seconds::at_least_one)]
    pub(crate) handshake_seconds: Seconds,

    /// How long to keep serving after SIGTERM or SIGINT, while `/readyz` already returns 503
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(0))]
    pub(crate) drain_seconds: Seconds,

    /// How long in-flight requests may take to finish after that
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(30))]
    pub(crate) grace_seconds: Seconds,

    /// Block cache size, in MiB
    #[arg(long, value_name = "MIB", default_value = "128")]
    pub(crate) cache_mib: u32,

    /// Size of the engine's write buffer, in MiB; bounds how much of the log a start replays
    #[arg(long, value_name = "MIB", default_value = "16")]
    pub(crate) memtable_mib: NonZeroU32,

    /// Memory for commits waiting to be written, in MiB
    #[arg(long, value_name = "MIB", default_value = "64")]
    pub(crate) commit_queue_mib: NonZeroU32,

    /// How long a commit waits for room in that queue before the request gets ServerBusy
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(10))]
    pub(crate) commit_wait_seconds: Seconds,

    /// Maximum commits per fsync
    #[arg(long, value_name = "N", default_value = "1024")]
    pub(crate) commit_group_max: NonZeroU32,

    /// Refuse writes with 503 while less than this much disk space is free, in MiB; tables can
    /// still be deleted
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    pub(crate) disk_reserve_mib: u32,

    /// Maximum log lines waiting to be written; further ones are dropped and counted
    #[arg(long, value_name = "N", default_value = "8192")]
    pub(crate) log_queue_lines: NonZeroU32,

    /// For tests: flush write buffers of this size, in KiB
    #[arg(long, value_name = "KIB", hide = true)]
    pub(crate) memtable_kib: Option<NonZeroU32>,
}

pub(crate) const MIB: u64 = 1024 * 1024;

/// A time to wait, in whole seconds; at most a day, so that sums do not overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(pub(crate) u32);

impl Seconds {
    const MAX: u32 = 24 * 3600;

    pub(crate) fn duration(self) -> Duration {
        Duration::from_secs(self.0.into())
    }

    /// A time within which a client must do something: nobody can in none.
    fn at_least_one(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(seconds @ Self(1..)) => Ok(seconds),
            _ => Err(format!("expected whole seconds, 1 to {}", Self::MAX)),
        }
    }
}

impl std::str::FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(seconds @ 0..=Self::MAX) => Ok(Self(seconds)),
            _ => Err(format!("expected whole seconds, 0 to {}", Self::MAX)),
        }
    }
}

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// An amount of memory: `512M`, `2G`, or a plain number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemorySize {
    pub(crate) bytes: u64,
}

impl MemorySize {
    /// Less is unusable; more than any machine has is a mistake.
    const MIN: u64 = 64 * MIB;
    const MAX: u64 = 1 << 46;
}

impl std::str::FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || "expected a size of at least 64M, such as 512M or 2G".to_owned();
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = match text.get(digits.len()..).unwrap_or_default() {
            "" | "B" => 1,
            "K" | "KB" | "KiB" | "k" => 1024,
            "M" | "MB" | "MiB" | "m" => MIB,
            "G" | "GB" | "GiB" | "g" => 1024 * MIB,
            _ => return Err(problem()),
        };
        let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        match bytes {
            Some(bytes @ Self::MIN..=Self::MAX) => Ok(Self { bytes }),
            _ => Err(problem()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        let bytes = |text: &str| text.parse().map(|size: MemorySize| size.bytes).ok();
        assert_eq!(bytes("512M"), Some(512 * MIB));
        assert_eq!(bytes("2GiB"), Some(2048 * MIB));
        assert_eq!(bytes("67108864"), Some(64 * MIB));
        for bad in ["", "M", "63M", "-1G", "1.5G", "2T", "99999999999G", "512 M"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn seconds_are_whole_and_at_most_a_day() {
        assert_eq!("0".parse(), Ok(Seconds(0)));
        assert_eq!("86400".parse(), Ok(Seconds(86_400)));
        for bad in ["", "-1", "1.5", "86401", "10s"] {
            assert!(bad.parse::<Seconds>().is_err(), "{bad}");
        }
    }
}
