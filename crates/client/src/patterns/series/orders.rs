//! Increases of a point (P-9.2): each is made once, or, unacknowledged, perhaps.

use super::SeriesTable;
use crate::patterns::orders::{Bench, Losses, NO_LOSS, Program, Run, program};
use crate::patterns::schedule::{Chooser, block_on, drawn_triples, every_pair};
use crate::prelude::*;
use crate::{Account, DataSeries, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

#[derive(DataSeries)]
#[table(name = "Stats", partition = "{site}", row = "visits_{day:date}")]
#[series(points = 24, step = "hour", prefix = "H", value = i64)]
struct Visits {
    site: String,
    day: Timestamp,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Adds to the point.
    Add,
    /// Sets another point of the row, without a look.
    Set,
}

use Step::{Add, Set};

/// Increases are powers of four: a sum tells which are in it, and which are twice.
#[derive(Default)]
struct Ledger {
    next: AtomicI64,
    made: AtomicI64,
    /// Not made, for certain.
    refused: AtomicI64,
}

fn table(account: &Account) -> SeriesTable<Visits> {
    account.tables().series().unwrap()
}

async fn go(run: &Run, ledger: &Ledger, number: usize, program: Program<Step>) {
    let table = table(&run.account(number, program.losses));
    let at = |hour| Visits::at(&run.partition, hour).unwrap();
    let (first, second) = ("2014-08-22T01:00:00Z", "2014-08-22T02:00:00Z");
    let time = |text| Timestamp::parse(text).unwrap();
    for step in program.steps {
        match step {
            Add => {
                let amount = 1 << (2 * ledger.next.fetch_add(1, Ordering::Relaxed));
                let known = match table.add(&at(time(first)), amount).await {
                    Ok(()) => &ledger.made,
                    Err(error) if *error.kind() == ErrorKind::OutcomeUnknown => continue,
                    Err(_) => &ledger.refused,
                };
                known.fetch_add(amount, Ordering::Relaxed);
            }
            Set => drop(table.set(&at(time(second)), 7).await),
        }
    }
}

fn scenario(bench: &Arc<Bench>, chooser: &mut dyn Chooser, clients: &[Program<Step>]) {
    let (run, ledger) = (&bench.run(), &Ledger::default());
    let futures = clients
        .iter()
        .enumerate()
        .map(|(number, program)| go(run, ledger, number + 1, program.clone()));
    run.interleave(chooser, futures, || ());
    let table = table(&run.account(0, NO_LOSS));
    let at = Visits::at(&run.partition, Timestamp::parse("2014-08-22T01:00:00Z").unwrap()).unwrap();
    let row = block_on(table.row(&at)).unwrap();
    let sum = row[1].unwrap_or(0);
    let (made, refused) =
        (ledger.made.load(Ordering::Relaxed), ledger.refused.load(Ordering::Relaxed));
    let all = (0..ledger.next.load(Ordering::Relaxed)).fold(0, |all, bit| all | 1 << (2 * bit));
    let is_right = sum & made == made && sum & !all == 0 && sum & refused == 0;
    assert!(is_right, "{sum:b}, made {made:b}, refused {refused:b}\n{}", run.trace());
}

fn programs() -> Vec<Program<Step>> {
    vec![
        program(&[Add], NO_LOSS),
        program(&[Set], NO_LOSS),
        program(&[Add, Add], Losses::of_answers(&[1])),
        // The library's own look does not tell: the rounds of `add` do.
        program(&[Add], Losses::of_answers(&[1]).without_retry()),
        program(&[Add], Losses::of_requests(&[1]).without_retry()),
        program(&[Add], Losses::of_answers(&[1, 3]).without_retry()),
    ]
}

#[test]
fn increases_are_made_once_in_every_order() {
    // P-9.2, PS-9.6.
    let bench = &Bench::with_table("Stats");
    let runs = every_pair(&programs(), |chooser, all| scenario(bench, chooser, all));
    assert!(runs > 300, "{runs}");
}

#[test]
fn increases_of_three_clients_are_made_once_in_drawn_orders() {
    // P-9.2, PS-9.6.
    let bench = &Bench::with_table("Stats");
    drawn_triples(60, &programs(), &[], |chooser, _, all| scenario(bench, chooser, all));
}
