//! Random choices, reproducible from one printed seed.

/// A small generator (SplitMix64): good enough to choose, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A separate generator for the part called `stream`, so that threads do not share one.
    pub const fn stream(&self, stream: u64) -> Self {
        Self(self.0 ^ stream.wrapping_add(1).wrapping_mul(0xd605_bbb5_8c8a_bbfd))
    }

    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; zero when `bound` is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        // The bias of the remainder is far below anything a test could notice.
        (self.next_u64() % (bound.max(1) as u64)) as usize
    }

    /// True with probability 1 in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_streams_differ() {
        let take = |mut seeded: Seeded| [seeded.next_u64(), seeded.next_u64()];
        assert_eq!(take(Seeded::new(7)), take(Seeded::new(7)));
        assert_ne!(take(Seeded::new(7).stream(0)), take(Seeded::new(7).stream(1)));
    }
}
