//! Request ids: unique, cheap, and formatted like the service's.

use std::sync::atomic::{AtomicU64, Ordering};

/// Makes ids such as `7f3a9c04-1002-0000-2a00-000000000000`: a seed that differs from run to
/// run, and a counter that differs from request to request.
#[derive(Debug)]
pub(crate) struct RequestIds {
    seed: u64,
    next: AtomicU64,
}

/// The 36 characters of a request id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId([u8; 36]);

impl RequestIds {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, next: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> RequestId {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 16];
        let halves = self.seed.to_be_bytes().into_iter().chain(count.to_be_bytes());
        bytes.iter_mut().zip(halves).for_each(|(byte, half)| *byte = half);
        RequestId(lazuli_model::Guid(bytes).text())
    }
}

impl RequestId {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub(crate) const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_guids_and_differ() {
        let ids = RequestIds::new(0x7f3a_9c04_1002_0000);
        assert_eq!(ids.next().as_str(), "7f3a9c04-1002-0000-0000-000000000000");
        assert_eq!(ids.next().as_str(), "7f3a9c04-1002-0000-0000-000000000001");
    }
}
