//! Checks whether some order of all calls explains every response.
//!
//! A history is linearizable if its calls can be ordered such that each takes effect between its
//! invocation and its response, and a sequential table gives the same responses in that order. A
//! call of unknown outcome may take effect at any time after its invocation, or never.
//!
//! The search is that of Wing and Gong with Lowe's memoization: try the calls that may come next,
//! take one that the state explains, continue from there, and never try the same set of calls with
//! the same state twice. It checks whole partitions, so it detects half a batch, or a page that
//! shows a state the partition never had.

use crate::history::{Call, Request, Response};
use crate::model::Table;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::Hash;

/// Something that serves one call at a time.
pub trait Model: Clone + fmt::Debug + Eq + Hash {
    type Call: Timed + fmt::Display;

    /// The state after a call, if this state can give its response; `number` identifies the call. A
    /// call of unknown outcome counts as done.
    fn after(&self, number: usize, call: &Self::Call) -> Option<Self>;

    /// Whether a call with this response never changes the state, so that its place in the order
    /// does not matter to others.
    fn only_reads(&self, _: &Self::Call) -> bool {
        false
    }
}

/// When a call was in progress.
pub trait Timed {
    fn invoked(&self) -> u64;

    /// `None` when the outcome is unknown.
    fn answered(&self) -> Option<u64>;
}

impl Model for Table {
    type Call = Call;

    fn after(&self, number: usize, call: &Call) -> Option<Self> {
        Self::after(self, number, call)
    }
}

impl Timed for Call {
    fn invoked(&self) -> u64 {
        self.invoked
    }

    fn answered(&self) -> Option<u64> {
        (self.response != Response::Unknown).then_some(self.answered)
    }
}

/// Maximum steps of the search.
const STEPS_MAX: usize = 3_000_000;

/// The result of a check.
#[derive(Clone, Debug)]
pub enum Verdict {
    Linearizable,
    Violation(Violation),
    /// Too many orders to try: nothing is proven.
    Undecided,
}

/// The best order found, and what it fails to explain next.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The order that explains the most calls.
    explained: Vec<String>,
    /// Calls that were in flight at its end.
    unexplained: Vec<String>,
    state: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "no order explains every response; the best one ends with")?;
        let start = self.explained.len().saturating_sub(12);
        for call in self.explained.iter().skip(start) {
            writeln!(f, "  {call}")?;
        }
        writeln!(f, "which leaves {}", self.state)?;
        writeln!(f, "and cannot be followed by any of")?;
        self.unexplained.iter().try_for_each(|call| writeln!(f, "  {call}"))
    }
}

/// Checks a history of one table that begins in state `initial`.
pub fn check(initial: &Table, history: &[Call]) -> Verdict {
    let mut verdict = Verdict::Linearizable;
    for part in independent_parts(history) {
        match search(initial.clone(), part) {
            Verdict::Linearizable => {}
            Verdict::Undecided => verdict = Verdict::Undecided,
            violation @ Verdict::Violation(_) => return violation,
        }
    }
    verdict
}

/// Splits a history by partition, unless a call concerns several. Linearizability is local: the
/// whole is linearizable if and only if each part is.
fn independent_parts(history: &[Call]) -> Vec<Vec<Call>> {
    // Calls that certainly did nothing, and reads without a response, need no explanation.
    let counts = |call: &&Call| match call.response {
        // There may or may not be indexes, and the model knows the expiry setting.
        Response::NotDone | Response::SettingsChanged => false,
        Response::Unknown => call.request.writes(),
        _ => true,
    };
    let calls: Vec<&Call> = history.iter().filter(counts).collect();
    let mut parts: BTreeMap<u8, Vec<Call>> = BTreeMap::new();
    for call in &calls {
        match partition_of(call) {
            Some(partition) => parts.entry(partition).or_default().push((*call).clone()),
            None => return vec![calls.into_iter().cloned().collect()],
        }
    }
    parts.into_values().collect()
}

/// The one partition that a call concerns; `None` when it concerns more.
fn partition_of(call: &Call) -> Option<u8> {
    match (&call.request, &call.response) {
        (_, Response::TableNotFound) => None,
        (Request::Get(entity), _) => Some(entity.partition),
        (Request::Change(change), _) => Some(change.entity.partition),
        (Request::Batch(changes), _) => changes.first().map(|change| change.entity.partition),
        (Request::Scan(scan), _) => scan.partition,
        (
            Request::CreateTable | Request::DeleteTable | Request::Index(_) | Request::SetExpiry,
            _,
        ) => None,
    }
}

/// Looks for an order of `calls` that explains them, for a model that begins in state `initial`.
pub fn search<M: Model>(initial: M, calls: Vec<M::Call>) -> Verdict {
    Search::new(initial, calls).run()
}

/// The search through one part of a history.
struct Search<M: Model> {
    /// In the order of their invocations.
    calls: Vec<M::Call>,
    state: M,
    taken: Bits,
    /// Calls with a known response that are not yet taken.
    answered_left: usize,
    /// The calls taken, each with the state before it.
    stack: Vec<(usize, M)>,
    /// States already visited: the calls taken, and the state they left.
    seen: HashSet<(Bits, M)>,
    furthest: Option<Violation>,
}

impl<M: Model> Search<M> {
    fn new(initial: M, mut calls: Vec<M::Call>) -> Self {
        calls.sort_by_key(Timed::invoked);
        Self {
            taken: Bits::new(calls.len()),
            answered_left: calls.iter().filter(|call| call.answered().is_some()).count(),
            calls,
            state: initial,
            stack: Vec::new(),
            seen: HashSet::new(),
            furthest: None,
        }
    }

    fn run(mut self) -> Verdict {
        // The earlier calls were already tried at this position.
        let mut from = 0;
        for _ in 0..STEPS_MAX {
            if self.answered_left == 0 {
                return Verdict::Linearizable;
            }
            let candidate = self.candidates().find(|number| *number >= from);
            from = match candidate {
                Some(number) if self.take(number) => 0,
                Some(number) => number + 1,
                None => {
                    self.note_failure();
                    match self.put_back() {
                        Some(number) => number + 1,
                        None => {
                            return self.furthest.map_or(Verdict::Undecided, Verdict::Violation);
                        }
                    }
                }
            };
        }
        Verdict::Undecided
    }

    /// The calls that may come next: those invoked before any remaining call returned.
    fn candidates(&self) -> impl Iterator<Item = usize> {
        let untaken = self.calls.iter().enumerate().skip(self.taken.leading());
        let untaken = untaken.filter(|(number, _)| !self.taken.contains(*number));
        // Later calls were invoked even later: the first one that may not come ends the list.
        untaken.scan(u64::MAX, |first_answer, (number, call)| {
            let may_come = call.invoked() < *first_answer;
            *first_answer = call.answered().unwrap_or(u64::MAX).min(*first_answer);
            may_come.then_some(number)
        })
    }

    /// Takes a call as the next one, if the state explains it and this has not been tried before.
    fn take(&mut self, number: usize) -> bool {
        let Some(call) = self.calls.get(number) else { return false };
        let Some(next) = self.state.after(number, call) else {
            return false;
        };
        self.taken.flip(number);
        if !self.seen.insert((self.taken.clone(), next.clone())) {
            self.taken.flip(number);
            return false;
        }
        self.answered_left -= usize::from(call.answered().is_some());
        self.stack.push((number, std::mem::replace(&mut self.state, next)));
        true
    }

    /// Undoes and returns the last choice. A call that only reads was no choice: if any order
    /// explains the rest, one explains it with that call first.
    fn put_back(&mut self) -> Option<usize> {
        loop {
            let (number, state) = self.stack.pop()?;
            self.state = state;
            self.taken.flip(number);
            let call = self.calls.get(number)?;
            self.answered_left += usize::from(call.answered().is_some());
            if !self.state.only_reads(call) {
                return Some(number);
            }
        }
    }

    /// Records the order that got furthest, for the report.
    fn note_failure(&mut self) {
        if self.furthest.as_ref().is_some_and(|known| known.explained.len() >= self.stack.len()) {
            return;
        }
        let of = |number: usize| self.calls.get(number).map(ToString::to_string);
        self.furthest = Some(Violation {
            explained: self.stack.iter().filter_map(|(number, _)| of(*number)).collect(),
            unexplained: self.candidates().filter_map(of).collect(),
            state: format!("{:?}", self.state),
        });
    }
}

/// A set of calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    fn contains(&self, bit: usize) -> bool {
        self.0.get(bit / 64).is_some_and(|word| word & (1 << (bit % 64)) != 0)
    }

    fn flip(&mut self, bit: usize) {
        if let Some(word) = self.0.get_mut(bit / 64) {
            *word ^= 1 << (bit % 64);
        }
    }

    /// How many bits are set before the first that is not.
    fn leading(&self) -> usize {
        let full = self.0.iter().take_while(|word| **word == u64::MAX).count();
        let rest = self.0.get(full).map_or(0, |word| word.trailing_ones() as usize);
        full * 64 + rest
    }
}

#[cfg(test)]
mod tests;
