//! Logs in blobs: each line once, found by its time (P-14.1, P-14.2, P-14.4).

use super::{BlobLog, LogLine};
use crate::patterns::orders::{Bench, Losses, NO_LOSS, Program, Run, program};
use crate::patterns::schedule::{Chooser, block_on, drawn_triples, every_pair};
use lazuli_model::Timestamp;
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Writes a line of this minute, and waits until it is stored.
    Line(u64),
    /// The same, by a log that stores each block in a blob of its own.
    Block(u64),
    /// Deletes the hour.
    Expire,
}

use Step::{Block, Expire, Line};

#[derive(Default)]
struct Ledger {
    /// Each line: its minute, and whether it must be found.
    lines: Vec<(u64, bool)>,
    /// Clients that may delete the hour.
    expiring: usize,
}

fn minute(minute: u64) -> Timestamp {
    Timestamp::parse("2014-07-31T18:00:00Z").unwrap().plus_seconds(60 * minute)
}

fn log(run: &Run, number: usize, losses: Losses) -> BlobLog {
    BlobLog::new(&run.account(number, losses), "applogs", "svc").unwrap()
}

async fn go(run: &Run, ledger: &Mutex<Ledger>, number: usize, program: Program<Step>) {
    let lines = log(run, number, program.losses);
    // Both stand for one process: requests are counted together only if it uses one of them.
    let blocks = log(run, number, program.losses).block_blobs();
    for step in program.steps {
        let (log, at) = match step {
            Line(at) => (&lines, at),
            Block(at) => (&blocks, at),
            Expire => {
                if lines.expire(minute(60)).await.is_ok() {
                    ledger.lock().unwrap().expiring -= 1;
                }
                continue;
            }
        };
        let (own, is_kept) = {
            let mut ledger = ledger.lock().unwrap();
            ledger.lines.push((at, false));
            (ledger.lines.len() - 1, ledger.expiring == 0)
        };
        let line = LogLine::new(minute(at), [own.to_string()]);
        if log.write_line(line).durable().await.is_ok() {
            ledger.lock().unwrap().lines[own].1 = is_kept;
        }
    }
    // What could not be stored is stored later.
    drop(lines.flush().await);
    drop(blocks.flush().await);
}

fn check(run: &Run, ledger: &Ledger) {
    let log = log(run, 0, NO_LOSS);
    let fields = |from, to| {
        let lines = log.read(from..to).collect_at_most(99);
        let lines = block_on(lines).unwrap().into_iter();
        lines.map(|line| line.fields[0].parse::<usize>().unwrap()).collect::<Vec<_>>()
    };
    let all = fields(minute(0), minute(60));
    for (number, (at, is_kept)) in ledger.lines.iter().enumerate() {
        let times = all.iter().filter(|found| **found == number).count();
        let is_right = times == 1 || times == 0 && !is_kept;
        assert!(is_right, "line {number} is there {times} times\n{}", run.trace());
        // Readers skip blobs by the times in their metadata.
        let is_found = fields(minute(*at), minute(at + 1)).contains(&number);
        assert_eq!(is_found, times == 1, "line {number} by its time\n{}", run.trace());
    }
}

fn scenario(bench: &Arc<Bench>, chooser: &mut dyn Chooser, clients: &[Program<Step>]) {
    let run = &bench.run();
    let steps = clients.iter().flat_map(|program| &program.steps);
    let expiring = steps.filter(|step| matches!(step, Expire)).count();
    let ledger = &Mutex::new(Ledger { expiring, ..Ledger::default() });
    let futures = clients
        .iter()
        .enumerate()
        .map(|(number, program)| go(run, ledger, number + 1, program.clone()));
    run.interleave(chooser, futures, || ());
    check(run, &ledger.lock().unwrap());
}

/// The first line lists, creates, sets the times and appends.
fn programs() -> Vec<Program<Step>> {
    vec![
        program(&[Line(5), Line(0)], NO_LOSS),
        program(&[Line(5), Line(5)], Losses::of_answers(&[3]).without_retry()),
        program(&[Line(5), Line(9)], Losses::of_answers(&[2, 4]).without_retry()),
        program(&[Expire], NO_LOSS),
    ]
}

/// Too many for every schedule.
fn long_programs() -> Vec<Program<Step>> {
    vec![
        program(&[Line(5), Line(9)], Losses::of_answers(&[1, 5])),
        program(&[Line(5), Line(0), Line(9)], Losses::of_requests(&[3, 6]).without_retry()),
        program(&[Line(5), Line(9), Line(2)], Losses::of_answers(&[3, 4, 6]).without_retry()),
        program(&[Block(5), Block(5)], Losses::of_answers(&[1]).without_retry()),
        program(&[Block(5), Block(9)], Losses::of_answers(&[1, 4])),
        program(&[Line(3), Expire, Line(4)], Losses::of_answers(&[3])),
    ]
}

#[test]
fn lines_are_stored_once_in_every_order() {
    // P-14.1, P-14.2, PS-14.4.
    let bench = &Bench::with_table("Logs");
    let runs = every_pair(&programs(), |chooser, all| scenario(bench, chooser, all));
    assert!(runs > 300, "{runs}");
}

#[test]
fn lines_of_three_clients_are_stored_once_in_drawn_orders() {
    // P-14.1, P-14.2, PS-14.4.
    let bench = &Bench::with_table("Logs");
    let programs = [programs(), long_programs()].concat();
    drawn_triples(200, &programs, &[], |chooser, _, all| scenario(bench, chooser, all));
}
