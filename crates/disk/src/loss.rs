//! What a power loss may do to unsynced data.

use crate::disk::{Change, Disk, Effect, Names, Remainder};
use crate::image::Image;
use lazuli_testkit::seed::Seeded;
use std::collections::HashSet;

/// The unit that a device writes atomically.
const SECTOR: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Nothing is lost: the process was killed, but the system kept running.
    Nothing,
    /// Everything that was not synced.
    Everything,
    /// Everything after some moment; the last write is torn at some byte.
    Tail,
    /// Arbitrary sectors, lengths and names.
    Scattered,
    /// All but the last write of each file: later writes overtook earlier ones.
    AllButTheLast,
    /// The content: names and lengths survive, with zeros in place of new content.
    Content,
}

impl Loss {
    pub const ALL: [Self; 6] = [
        Self::Nothing,
        Self::Everything,
        Self::Tail,
        Self::Scattered,
        Self::AllButTheLast,
        Self::Content,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Everything => "everything",
            Self::Tail => "tail",
            Self::Scattered => "scattered",
            Self::AllButTheLast => "all-but-the-last",
            Self::Content => "content",
        }
    }

    /// The content of `disk` after this loss.
    pub fn of(self, disk: &Disk, random: &mut Seeded) -> Image {
        if self == Self::Nothing {
            return disk.live();
        }
        let changes = disk.unsynced();
        let left: Vec<Remainder> = match self {
            Self::Nothing | Self::Everything => {
                changes.iter().map(|_| Remainder::Nothing).collect()
            }
            Self::Tail => tail(changes, random),
            Self::Scattered => scattered(changes, disk.names(), random),
            Self::AllButTheLast => last_writes(changes),
            Self::Content => changes.iter().map(without_content).collect(),
        };
        disk.after_loss(&left)
    }
}

fn tail(changes: &[Change], random: &mut Seeded) -> Vec<Remainder> {
    let kept = random.below(changes.len() + 1);
    let left = |(index, change): (usize, &Change)| match (&change.what, index.cmp(&kept)) {
        (_, std::cmp::Ordering::Less) => Remainder::Everything,
        (Effect::Write { data, .. }, std::cmp::Ordering::Equal) => {
            let torn = random.below(data.len());
            Remainder::Pieces {
                pieces: Vec::from_iter(std::iter::once(0..torn)),
                length: random.one_in(2),
            }
        }
        _ => Remainder::Nothing,
    };
    changes.iter().enumerate().map(left).collect()
}

fn scattered(changes: &[Change], names: Names, random: &mut Seeded) -> Vec<Remainder> {
    let names_kept = random.below(changes.len() + 1);
    let left = |(index, change): (usize, &Change)| match &change.what {
        Effect::Names(_) if names == Names::Journalled => {
            if index < names_kept {
                Remainder::Everything
            } else {
                Remainder::Nothing
            }
        }
        Effect::Names(_) | Effect::Length { .. } => {
            if random.one_in(2) {
                Remainder::Everything
            } else {
                Remainder::Nothing
            }
        }
        Effect::Write { offset, data, .. } => {
            let sectors = sectors(*offset, data.len());
            let pieces = sectors.into_iter().filter(|_| random.one_in(2)).collect();
            Remainder::Pieces { pieces, length: random.one_in(2) }
        }
    };
    changes.iter().enumerate().map(left).collect()
}

fn last_writes(changes: &[Change]) -> Vec<Remainder> {
    let mut seen = HashSet::new();
    let left = |change: &Change| match &change.what {
        Effect::Write { file, .. } if !seen.insert(*file) => Remainder::Nothing,
        _ => Remainder::Everything,
    };
    let mut left: Vec<Remainder> = changes.iter().rev().map(left).collect();
    left.reverse();
    left
}

fn without_content(change: &Change) -> Remainder {
    match &change.what {
        Effect::Write { .. } => Remainder::Pieces { pieces: Vec::new(), length: true },
        _ => Remainder::Everything,
    }
}

/// The parts of a write that lie in one sector each.
fn sectors(offset: u64, bytes: usize) -> Vec<std::ops::Range<usize>> {
    let first = SECTOR - (offset % SECTOR as u64) as usize;
    let starts = std::iter::once(0).chain((first..).step_by(SECTOR)).take_while(|at| *at < bytes);
    starts
        .map(|start| {
            let end = if start == 0 { first } else { start + SECTOR };
            start..end.min(bytes)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(offset: u64, bytes: usize, expected: &[(usize, usize)]) {
        let found: Vec<_> =
            sectors(offset, bytes).into_iter().map(|piece| (piece.start, piece.end)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn writes_are_cut_where_sectors_end() {
        check(0, 1000, &[(0, 512), (512, 1000)]);
        check(500, 600, &[(0, 12), (12, 524), (524, 600)]);
        check(512, 512, &[(0, 512)]);
        check(3, 0, &[]);
    }
}
