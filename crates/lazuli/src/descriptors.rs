//! File descriptors: raises the limit to fit the connections, or lowers the connections to fit the
//! limit.
//!
//! Each connection takes a descriptor. If connections took the last one, the engine could not open
//! its files, and any client that can connect could stop all writes.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are not for connections: the engine keeps up to 900 files open; the rest is for
/// its journals, the listeners, connections that are being refused, and the runtime.
const OTHERS: u64 = 1024 + 128;

/// Raises the limit of the process for `wanted` connections, as far as allowed, and returns how many
/// there can be.
pub(crate) fn connections_max(wanted: u32) -> u32 {
    let limit = raise(u64::from(wanted) + OTHERS);
    let possible = possible(limit, wanted);
    if possible < wanted {
        tracing::warn!(
            descriptors = limit,
            connections = possible,
            wanted,
            "the open file limit (ulimit -n) is too low for --connections-max"
        );
    }
    possible
}

/// Raises the soft limit to `needed`, or as near as the hard limit allows, and returns it.
fn raise(needed: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` means unlimited.
    let (current, maximum) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    let wanted = needed.min(maximum);
    if current >= wanted {
        return current;
    }
    let raised = Rlimit { current: Some(wanted), maximum: Some(maximum).filter(|m| *m < u64::MAX) };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => wanted,
        Err(_) => current,
    }
}

/// If descriptors are few, half of them are for connections.
fn possible(limit: u64, wanted: u32) -> u32 {
    let left = limit.saturating_sub(OTHERS).max(limit / 2).max(1);
    u32::try_from(left).unwrap_or(u32::MAX).min(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_others() {
        assert_eq!(possible(u64::MAX, 16_384), 16_384);
        assert_eq!(possible(20_000, 16_384), 16_384);
        assert_eq!(possible(4_096, 16_384), 4_096 - 1_152);
        assert_eq!(possible(1_024, 16_384), 512);
        assert_eq!(possible(0, 16_384), 1);
        assert_eq!(possible(1_000_000, 10), 10);
    }
}
