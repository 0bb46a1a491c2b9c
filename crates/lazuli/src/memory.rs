//! Divides an amount of memory between the pools, and finds the limit of a container.

use crate::options::{Bounds, MIB, MemorySize};
use std::path::{Path, PathBuf};

/// In a memory cgroup below this, the pools are sized from its limit.
const SMALL_CGROUP_BYTES: u64 = 1024 * MIB;
/// The percentage of such a limit that the pools get.
const CGROUP_PERCENT: u64 = 70;

/// The options of the pools, with their shares; the rest is overhead.
const SHARES: [(&str, u64); 7] = [
    ("cache-mib", 41),
    ("memtable-mib", 10),
    ("body-memory-mib", 12),
    ("answer-memory-mib", 12),
    ("commit-queue-mib", 6),
    ("message-memory-mib", 4),
    ("advice-mib", 2),
];

/// The total share of the pools.
const POOLS_PERCENT: u64 = 87;

/// An amount of memory shared by the pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) bytes: u64,
    /// The cgroup limit that it was derived from; `None` if the user gave it.
    pub(crate) cgroup_bytes: Option<u64>,
}

impl Budget {
    /// The given amount, else a part of a small cgroup limit; `None` leaves each pool its own
    /// default.
    pub(crate) fn find(given: Option<MemorySize>, cgroup_bytes: Option<u64>) -> Option<Self> {
        match (given, cgroup_bytes) {
            (Some(size), _) => Some(Self { bytes: size.bytes, cgroup_bytes: None }),
            (None, Some(limit)) if limit < SMALL_CGROUP_BYTES => {
                Some(Self { bytes: limit / 100 * CGROUP_PERCENT, cgroup_bytes: Some(limit) })
            }
            _ => None,
        }
    }

    /// Each pool's option and its size in MiB.
    pub(crate) fn shares(self) -> [(&'static str, u64); 7] {
        SHARES.map(|(option, percent)| (option, (self.bytes / 100 * percent / MIB).max(1)))
    }
}

/// The most memory that the server uses, in MiB: the pools, plus proportional overhead. A shared store has
/// `shared_mib` of its own, but no cache, memtables or commit queue.
pub(crate) fn bound_mib(bounds: &Bounds, shared_mib: Option<u32>) -> u64 {
    let local = [bounds.cache_mib, bounds.memtable_mib.get(), bounds.commit_queue_mib.get()];
    let of_the_store = shared_mib.map_or_else(|| local.to_vec(), |mib| vec![mib]);
    let of_services = [
        bounds.body_memory_mib.get(),
        bounds.answer_memory_mib.get(),
        bounds.message_memory_mib.get(),
        bounds.advice_mib,
    ];
    let pools = of_the_store.into_iter().chain(of_services);
    pools.map(u64::from).sum::<u64>() * 100 / POOLS_PERCENT
}

/// The smallest memory limit of the cgroups that this process is in.
pub(crate) fn cgroup_limit() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_below(Path::new("/sys/fs/cgroup"), &own)
}

/// `own` is `/proc/self/cgroup`: `0::/path` in version 2, `4:memory:/path` in version 1. Inside a container the path
/// may not exist below `root`; then the files of `root` itself are its own.
fn limit_below(root: &Path, own: &str) -> Option<u64> {
    let files = own.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let path = |path: &str| PathBuf::from(path.trim_start_matches('/'));
        match (fields.next(), fields.next().map(path)) {
            (Some(""), Some(path)) => limits_of(root.to_path_buf(), &path, "memory.max"),
            (Some("memory"), Some(path)) => {
                limits_of(root.join("memory"), &path, "memory.limit_in_bytes")
            }
            _ => Vec::new(),
        }
    });
    let limits = files.filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.min()
}

/// The limit file of a cgroup and those of its ancestors.
fn limits_of(root: PathBuf, path: &Path, file: &str) -> Vec<PathBuf> {
    path.ancestors().map(|above| root.join(above).join(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_given_size_wins_over_the_cgroup() {
        let given = Some(MemorySize { bytes: 100 * MIB });
        let budget = Budget::find(given, Some(64 * MIB)).unwrap();
        assert_eq!(budget, Budget { bytes: 100 * MIB, cgroup_bytes: None });
        let shares = budget.shares().map(|(_, mib)| mib);
        assert_eq!(shares, [41, 10, 12, 12, 6, 4, 2]);
        assert_eq!(shares.iter().sum::<u64>(), POOLS_PERCENT);
    }

    #[test]
    fn a_small_cgroup_is_shared_and_a_large_one_is_not() {
        let small = Budget::find(None, Some(256 * MIB)).unwrap();
        assert_eq!(small.bytes / MIB, 179);
        assert_eq!(small.cgroup_bytes, Some(256 * MIB));
        assert_eq!(Budget::find(None, Some(1024 * MIB)), None);
        assert_eq!(Budget::find(None, None), None);
        let tiny = Budget { bytes: 10 * MIB, cgroup_bytes: None };
        assert!(tiny.shares().iter().all(|(_, mib)| *mib >= 1), "no pool is empty");
    }

    #[test]
    fn the_smallest_limit_above_a_process_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let limit = |own: &str| limit_below(root.path(), own);
        assert_eq!(limit("0::/a/b\n"), None);
        write("a/b/memory.max", "max\n");
        assert_eq!(limit("0::/a/b\n"), None, "no limit is not a number");
        write("a/memory.max", "1000\n");
        assert_eq!(limit("0::/a/b\n"), Some(1000));
        write("memory.max", "500\n");
        assert_eq!(limit("0::/../elsewhere\n"), Some(500));
        write("memory/memory.limit_in_bytes", "70\n");
        assert_eq!(limit("9:cpu:/\n4:memory:/docker/1\n"), Some(70));
        assert_eq!(limit("nonsense"), None);
    }
}
