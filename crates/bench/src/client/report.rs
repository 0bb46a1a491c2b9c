//! The figures of clients, for people and as a file.

use super::{Client, Measured, Sample, Work};
use crate::goal::{Bound, Goal, Unit};
use crate::measure::median;
use crate::options::Options;
use crate::report::{print_goals, thousands};
use crate::results::Machine;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;

/// Prints the figures and writes them to `client.json`.
pub(super) fn print(machine: &Machine, measured: &[Measured], options: &Options) -> Result<()> {
    println!("{}", table(measured));
    if options.python.is_none() {
        println!("skipped: the Python SDK, as no --python was given");
    }
    let goals = goals(measured);
    print_goals(&goals);
    let name = if options.quick { "quick-client.json" } else { "client.json" };
    let file = options.out.join(name);
    #[derive(Serialize)]
    struct Figures<'a> {
        machine: &'a Machine,
        measured: &'a [Measured],
        goals: Vec<Goal>,
    }
    let text = serde_json::to_string_pretty(&Figures { machine, measured, goals })?;
    fs::write(&file, text).with_context(|| format!("write {}", file.display()))
}

pub(super) fn work_name(work: Work) -> &'static str {
    match work {
        Work::Point => "point",
        Work::Insert => "insert",
        Work::Decode => "decode",
        Work::Bulk => "bulk",
    }
}

/// The name of a row's client.
pub(super) fn client_name(client: Client, work: Work) -> &'static str {
    match (client, work) {
        (Client::Bare, Work::Decode) => "serde_json",
        (Client::Bare, _) => "bare hyper",
        (Client::Lazuli, _) => "lazuli-client",
        (Client::Python, _) => "Python SDK",
        (Client::Generator, _) => "load client",
    }
}

impl Measured {
    fn samples(&self, client: Client) -> Option<Vec<Sample>> {
        let at = self.clients.iter().position(|it| *it == client)?;
        Some(self.turns.iter().filter_map(|turn| turn.get(at).copied()).collect())
    }

    /// A figure of a client.
    fn median(&self, client: Client, figure: fn(&Sample) -> f64) -> Option<f64> {
        Some(median(self.samples(client)?.iter().map(figure).collect()))
    }

    /// The same, divided by that of the work's reference in the same turn.
    pub(super) fn ratio(&self, client: Client, figure: fn(&Sample) -> f64) -> Option<f64> {
        let (samples, reference) = (self.samples(client)?, self.samples(self.work.reference())?);
        let ratios = samples.iter().zip(&reference).map(|(it, than)| figure(it) / figure(than));
        Some(median(ratios.collect()))
    }
}

fn goals(measured: &[Measured]) -> Vec<Goal> {
    let find = |work: Work| measured.iter().find(|it| it.work == work);
    let cpu = |work| find(work)?.ratio(Client::Lazuli, Sample::cpu_per_operation);
    let rate = find(Work::Bulk).and_then(|it| it.ratio(Client::Lazuli, Sample::rate));
    vec![
        Goal::new(
            "point read, CPU of bare hyper",
            Bound::AtMost(1.5),
            Unit::Times,
            cpu(Work::Point),
        ),
        Goal::new("insert, CPU of bare hyper", Bound::AtMost(1.5), Unit::Times, cpu(Work::Insert)),
        Goal::new(
            "1,000 entities, CPU of serde_json",
            Bound::AtMost(1.5),
            Unit::Times,
            cpu(Work::Decode),
        ),
        Goal::new("bulk load, rate of the load client", Bound::AtLeast(0.8), Unit::Times, rate),
    ]
}

fn table(measured: &[Measured]) -> String {
    let mut text =
        String::from("work     client           CPU/op      ratio       op/s     ratio\n");
    for it in measured {
        for &client in &it.clients {
            let cpu = it.median(client, Sample::cpu_per_operation).unwrap_or(f64::NAN);
            let rate = it.median(client, Sample::rate).unwrap_or(f64::NAN);
            let cpu_ratio = it.ratio(client, Sample::cpu_per_operation).unwrap_or(f64::NAN);
            let rate_ratio = it.ratio(client, Sample::rate).unwrap_or(f64::NAN);
            text += &format!(
                "{:8} {:13} {:>8.1} µs {:>9} {:>10} {:>9}\n",
                work_name(it.work),
                client_name(client, it.work),
                cpu,
                format!("{cpu_ratio:.2}x"),
                thousands(rate.round()),
                format!("{rate_ratio:.2}x"),
            );
        }
    }
    text + "op: a request; of decode a page of 1,000 entities, of bulk an entity. Medians of the turns.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cpu_us: f64, elapsed_us: f64) -> Sample {
        Sample { operations: 10, cpu_us, elapsed_us }
    }

    #[test]
    fn ratios_are_taken_within_a_turn() {
        // The second turn is slower for both.
        let turns = vec![
            vec![sample(100.0, 1e3), sample(120.0, 2e3)],
            vec![sample(300.0, 3e3), sample(360.0, 6e3)],
            vec![sample(100.0, 1e3), sample(120.0, 2e3)],
        ];
        let clients = vec![Client::Bare, Client::Lazuli];
        let measured = Measured { work: Work::Point, clients, turns };
        assert_eq!(measured.ratio(Client::Lazuli, Sample::cpu_per_operation), Some(1.2));
        assert_eq!(measured.ratio(Client::Lazuli, Sample::rate), Some(0.5));
        assert_eq!(measured.ratio(Client::Python, Sample::rate), None);
        assert_eq!(measured.median(Client::Bare, Sample::cpu_per_operation), Some(10.0));
        let goals = goals(&[measured]);
        assert_eq!(goals[0].is_met(), Some(true));
        assert_eq!(goals[3].is_met(), None, "not measured");
    }
}
