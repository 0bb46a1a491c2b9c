//! Whether writes are refused because the disk is nearly full.

use lazuli_meter::{Family, Source, Value};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Set by the task that checks the disk, read by write requests.
#[derive(Debug, Default)]
pub struct DiskGuard {
    is_full: AtomicBool,
    free_bytes: AtomicU64,
}

impl DiskGuard {
    /// Records the free space. Writes are refused while it is below `reserve_bytes`.
    pub fn note(&self, free_bytes: u64, reserve_bytes: u64) {
        self.free_bytes.store(free_bytes, Ordering::Relaxed);
        self.is_full.store(free_bytes < reserve_bytes, Ordering::Relaxed);
    }

    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }
}

impl Source for DiskGuard {
    fn report(&self) -> Vec<Family> {
        let free = Value::Gauge(self.free_bytes.load(Ordering::Relaxed) as f64);
        vec![Family::of("lazuli_disk_free_bytes", "Free space where the data directory is", &free)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_full_below_its_reserve() {
        let guard = DiskGuard::default();
        assert!(!guard.is_full(), "nothing is known yet");
        guard.note(99, 100);
        assert!(guard.is_full());
        guard.note(100, 100);
        assert!(!guard.is_full());
    }
}
