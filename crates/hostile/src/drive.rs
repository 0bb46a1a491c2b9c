//! A fuzzer for stable Rust: it mutates inputs of the corpus, driven by a seed. Unlike libFuzzer it
//! is not guided by coverage, but it needs no tool.

use crate::Target;
use lazuli_testkit::seed::Seeded;
use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

/// Maximum bytes of an input; the tests of limits cover longer ones.
const INPUT_BYTES_MAX: usize = 8 * 1024;
/// Maximum mutations of one input.
const CHANGES_MAX: usize = 6;

/// An input that violated an assertion.
#[derive(Debug)]
pub struct Finding {
    pub input: Vec<u8>,
    pub message: String,
}

/// The inputs of a target, in the order of their names.
pub fn corpus(directory: &Path, target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let mut files: Vec<_> = fs::read_dir(directory.join(target.name))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    files.into_iter().map(fs::read).collect()
}

/// Feeds one input to a target.
pub fn try_one(target: &Target, input: &[u8]) -> Result<(), Finding> {
    let run = target.run;
    panic::catch_unwind(AssertUnwindSafe(|| run(input))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Finding { input: input.to_vec(), message: text.unwrap_or_default() }
    })
}

/// Generates inputs from a corpus.
pub struct Mutator<'c> {
    corpus: &'c [Vec<u8>],
    words: &'static [&'static str],
    random: Seeded,
}

impl<'c> Mutator<'c> {
    pub const fn new(target: &Target, corpus: &'c [Vec<u8>], random: Seeded) -> Self {
        Self { corpus, words: target.words, random }
    }

    /// One input of the corpus, changed a little.
    pub fn input(&mut self) -> Vec<u8> {
        let mut input = self.pick().to_vec();
        for _ in 0..=self.random.below(CHANGES_MAX) {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn pick(&mut self) -> &'c [u8] {
        let chosen = self.random.below(self.corpus.len());
        self.corpus.get(chosen).map_or(&[], Vec::as_slice)
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.random.below(input.len() + 1);
        let end = at + self.random.below(input.len() + 1 - at).min(64);
        let byte = self.random.next_u64() as u8;
        match self.random.below(7) {
            0 => input.iter_mut().skip(at).take(1).for_each(|place| *place = byte),
            1 => input.iter_mut().skip(at).take(1).for_each(|place| *place ^= 1 << (byte % 8)),
            2 => input.insert(at, byte),
            3 => drop(input.drain(at..end)),
            4 => {
                let repeated: Vec<u8> = input.get(at..end).unwrap_or_default().to_vec();
                input.splice(at..at, repeated);
            }
            5 => {
                let word = self.words.get(self.random.below(self.words.len()));
                input.splice(at..end, word.copied().unwrap_or_default().bytes());
            }
            _ => {
                let other = self.pick();
                let from = self.random.below(other.len() + 1);
                input.splice(at..end, other.iter().skip(from).take(256).copied());
            }
        }
    }
}
