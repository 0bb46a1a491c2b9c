//! Counters, sequences, leases, idempotency keys and streams (P-23).

use super::{Bench, Losses, NO_LOSS, Program, Run, program};
use crate::ErrorKind;
use crate::patterns::counter::Counter;
use crate::patterns::lease::Lease;
use crate::patterns::once::Once;
use crate::patterns::schedule::{Chooser, block_on, drawn_triples, every_pair};
use crate::patterns::sequence::Sequence;
use crate::patterns::stream::{Event, EventStream};
use crate::prelude::*;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Adds a number that nobody else adds.
    Count,
    /// Takes a number.
    Next,
    /// Takes the lease that has ended, and writes under it.
    Hold,
    /// Runs a request with the idempotency key that all have.
    Run,
    /// Appends an event with an id of its own.
    Append,
    /// Appends the event that all append.
    AppendSame,
}

use Step::{Append, AppendSame, Count, Hold, Next};

#[derive(Default)]
struct Ledger {
    /// Numbers that were given out.
    begun: u32,
    /// Of what is there, for certain.
    made: BTreeSet<u32>,
    /// Of what is not there, for certain.
    refused: BTreeSet<u32>,
    taken: Vec<i64>,
    fences: Vec<i64>,
    answers: BTreeSet<Vec<u8>>,
}

impl Ledger {
    fn begin(ledger: &Mutex<Self>) -> u32 {
        let mut ledger = ledger.lock().unwrap();
        ledger.begun += 1;
        ledger.begun - 1
    }

    fn end<T>(ledger: &Mutex<Self>, number: u32, outcome: &Result<T, Error>) {
        let ledger = &mut *ledger.lock().unwrap();
        let known = match outcome {
            Ok(_) => &mut ledger.made,
            Err(error) if error.may_have_been_applied() => return,
            Err(error) if *error.kind() == ErrorKind::OutcomeUnknown => return,
            Err(_) => &mut ledger.refused,
        };
        known.insert(number);
    }
}

fn lease(table: &Table, run: &Run) -> Lease {
    Lease::new(table, &run.partition, "lease").duration(Duration::ZERO).margin(Duration::ZERO)
}

async fn go(run: &Run, ledger: &Mutex<Ledger>, number: usize, program: Program<Step>) {
    let table = run.account(number, program.losses).tables().table("Beyond").unwrap();
    let sequence = Sequence::new(&table, &run.partition, "sequence").block(2);
    let stream = EventStream::new(&table, &run.partition);
    for step in program.steps {
        match step {
            Count => {
                let own = Ledger::begin(ledger);
                let counter = Counter::new(&table, &run.partition, "count").shards(1);
                Ledger::end(ledger, own, &counter.add(1 << (2 * own)).await);
            }
            Next => {
                if let Ok(number) = sequence.next().await {
                    ledger.lock().unwrap().taken.push(number);
                }
            }
            Hold => {
                let Ok(Some(held)) = lease(&table, run).acquire().await else { continue };
                let fence = held.fence();
                ledger.lock().unwrap().fences.push(fence);
                let log = move |entity: &mut Entity| {
                    let mut log = entity.opt::<String>("Log")?.unwrap_or_default();
                    log += &format!("{fence} ");
                    entity.set("Log", log);
                    Ok(())
                };
                drop(held.update(&table, (&run.partition, "work"), log).await);
                drop(held.release().await);
            }
            Step::Run => {
                let own = Ledger::begin(ledger);
                // Whoever runs it is taken for dead at once.
                let once = Once::new(&table).run_max(Duration::ZERO);
                let answer = async || Ok(own.to_string().into_bytes());
                if let Ok(answer) = once.run(&run.partition, answer).await {
                    ledger.lock().unwrap().answers.insert(answer.bytes);
                }
            }
            Append => {
                let own = Ledger::begin(ledger);
                let event = Event::new().with("Number", own.cast_signed()).id(&own.to_string());
                Ledger::end(ledger, own, &stream.append([event]).await);
            }
            AppendSame => drop(stream.append([Event::new().id("same")]).await),
        }
    }
}

fn check(run: &Run, ledger: &Ledger, steps: &[Step]) {
    let table = run.account(0, NO_LOSS).tables().table("Beyond").unwrap();
    let has = |wanted: fn(&Step) -> bool| steps.iter().any(wanted);
    if has(|step| matches!(step, Count)) {
        let counter = Counter::new(&table, &run.partition, "count");
        let sum = block_on(counter.read()).unwrap();
        for number in 0..=ledger.begun {
            let times = sum >> (2 * number) & 3;
            let is_made = ledger.made.contains(&number);
            let is_refused = ledger.refused.contains(&number) || number == ledger.begun;
            let is_right = times < 2 && (!is_made || times == 1) && (!is_refused || times == 0);
            assert!(is_right, "{number}: {times} times\n{}", run.trace());
        }
    }
    for numbers in [&ledger.taken, &ledger.fences] {
        let set: BTreeSet<_> = numbers.iter().collect();
        assert_eq!(set.len(), numbers.len(), "{numbers:?}\n{}", run.trace());
    }
    if has(|step| matches!(step, Hold)) {
        let work = block_on(async { table.get((&*run.partition, "work")).await }).unwrap();
        let log = work.map(|work| work.str("Log").unwrap().to_owned()).unwrap_or_default();
        let fences: Vec<i64> = log.split_whitespace().map(|fence| fence.parse().unwrap()).collect();
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}\n{}", run.trace());
    }
    assert!(ledger.answers.len() < 2, "{:?}\n{}", ledger.answers, run.trace());
    if has(|step| matches!(step, Append | AppendSame)) {
        let stream = EventStream::new(&table, &run.partition);
        let events = block_on(stream.read(1, 99)).unwrap();
        let versions = events.iter().map(|event| event.version);
        assert!(versions.eq(1..=events.len() as i64), "{}", run.trace());
        assert_eq!(block_on(stream.version()).unwrap(), events.len() as i64);
        let numbers = events.iter().map(|event| event.entity.opt::<i32>("Number").unwrap());
        let numbers: Vec<Option<i32>> = numbers.collect();
        let set: BTreeSet<_> = numbers.iter().collect();
        assert_eq!(set.len(), numbers.len(), "an event twice\n{}", run.trace());
        let is_there = |number: &u32| numbers.contains(&Some(number.cast_signed()));
        assert!(ledger.made.iter().all(is_there), "{}", run.trace());
        assert!(!ledger.refused.iter().any(is_there), "{}", run.trace());
    }
}

fn scenario(bench: &Arc<Bench>, chooser: &mut dyn Chooser, clients: &[Program<Step>]) {
    let (run, ledger) = (&bench.run(), &Mutex::new(Ledger::default()));
    let futures = clients
        .iter()
        .enumerate()
        .map(|(number, program)| go(run, ledger, number + 1, program.clone()));
    run.interleave(chooser, futures, || ());
    let steps: Vec<Step> = clients.iter().flat_map(|program| program.steps.clone()).collect();
    check(run, &ledger.lock().unwrap(), &steps);
}

/// One thing, with and without losses. A step sends a read, then a write.
fn programs(step: Step) -> Vec<Program<Step>> {
    vec![
        program(&[step, step], NO_LOSS),
        program(&[step], Losses::of_answers(&[1])),
        program(&[step], Losses::of_requests(&[1])),
        program(&[step, step], Losses::of_answers(&[1]).without_retry()),
    ]
}

fn every_order(steps: &[Step]) {
    let bench = &Bench::with_table("Beyond");
    let mut runs = 0;
    for step in steps {
        runs += every_pair(&programs(*step), |chooser, all| scenario(bench, chooser, all));
        drawn_triples(50, &programs(*step), &[], |chooser, _, all| scenario(bench, chooser, all));
    }
    assert!(runs > 500, "{runs}");
}

#[test]
fn counters_count_once_and_sequences_give_no_number_twice_in_every_order() {
    // P-23.3, P-23.5.
    every_order(&[Count, Next]);
}

#[test]
fn holders_of_a_lease_have_numbers_of_their_own_in_every_order() {
    // P-23.4.
    every_order(&[Hold]);
}

#[test]
fn a_request_has_one_answer_in_every_order() {
    // P-23.6.
    every_order(&[Step::Run]);
}

#[test]
fn events_are_appended_once_in_every_order() {
    // P-23.1.
    every_order(&[Append, AppendSame]);
}
