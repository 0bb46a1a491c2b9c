//! Counts, the greatest value and copies (P-5), and moves with them (P-12.6d): right at every moment.

use super::ModelTable;
use crate::Change;
use crate::patterns::orders::{Bench, Losses, NO_LOSS, Program, Run, program};
use crate::patterns::schedule::{Chooser, block_on, drawn_triples, every_pair};
use crate::prelude::*;
use std::sync::Arc;

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Employee", partition = "{department}", row = "empid_{id:02}")]
struct Employee {
    department: String,
    id: u32,
    hired: i64,
    email: String,
}

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Department", partition = "{department}", row = "Department")]
struct Department {
    department: String,
    #[table(count(Employee))]
    count: i64,
    #[table(latest(Employee.hired))]
    newest: Option<i64>,
    manager: Option<u32>,
    #[table(copy(Employee.email, by = manager))]
    email: Option<String>,
}

#[derive(TableUnion)]
#[table(model)]
enum Staff {
    Employee(Employee),
    Department(Department),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u32),
    Delete(u32),
    /// Another e-mail address, and hired at another time.
    Change(u32, &'static str),
    /// Becomes the manager.
    Name(u32),
    /// Goes to the other department.
    Move(u32),
    /// Comes back.
    Back(u32),
}

use Step::{Back, Delete, Insert, Move, Name};

fn staff(run: &Run, number: usize, losses: Losses) -> ModelTable<Staff> {
    run.account(number, losses).tables().model("Staff").unwrap()
}

fn other(run: &Run) -> String {
    format!("{}-other", run.partition)
}

fn employee(department: &str, id: u32) -> Employee {
    let (hired, email) = (i64::from(id), format!("{id}@x"));
    Employee { department: department.to_owned(), id, hired, email }
}

async fn go(run: &Run, number: usize, program: Program<Step>) {
    let staff = staff(run, number, program.losses);
    let here = |id| Employee::key(&run.partition, id).unwrap();
    let there = |id| Employee::key(other(run), id).unwrap();
    for step in program.steps {
        match step {
            Insert(id) => drop(staff.insert(&employee(&run.partition, id)).await),
            Delete(id) => {
                if let Ok(Some(loaded)) = staff.get(here(id)).await {
                    drop(staff.delete(&loaded).await);
                }
            }
            Step::Change(id, email) => {
                let change = |employee: &mut Employee| {
                    (employee.email, employee.hired) = (email.into(), employee.hired - 10);
                    Ok(Change::Write)
                };
                drop(staff.update_with(here(id), change).await);
            }
            Name(id) => {
                let key = Department::key(&run.partition).unwrap();
                drop(staff.update_summary(key, |d| d.manager = Some(id)).await);
            }
            Move(id) => {
                let change = |employee: &mut Employee| employee.department = other(run);
                drop(staff.rehome(here(id), there(id), change).await);
            }
            Back(id) => {
                let change = |employee: &mut Employee| {
                    employee.department.clone_from(&run.partition);
                };
                drop(staff.rehome(there(id), here(id), change).await);
            }
        }
    }
}

fn check(run: &Run, partitions: &[String]) {
    let rows: Table<Entity> = staff(run, 0, NO_LOSS).rows().retyped();
    for name in partitions {
        let rows = block_on(rows.query(partition(name)).collect_at_most(99)).unwrap();
        let kind =
            |row: &Entity, kind| row.value("_ix").is_none() && row.str("EntityType") == Ok(kind);
        let employees: Vec<Employee> = rows
            .iter()
            .filter(|row| kind(row, "Employee"))
            .map(|row| Employee::read(Entity::clone(row)).unwrap())
            .collect();
        let department = rows.iter().find(|row| kind(row, "Department"));
        let department = department.map(|row| Department::read(Entity::clone(row)).unwrap());
        let Some(found) = department else {
            assert!(employees.is_empty(), "{}", run.trace());
            continue;
        };
        let manager = found.manager;
        let named = employees.iter().find(|employee| Some(employee.id) == manager);
        let expected = Department {
            department: name.clone(),
            count: employees.len() as i64,
            newest: employees.iter().map(|employee| employee.hired).max(),
            manager: named.map(|employee| employee.id),
            email: named.map(|employee| employee.email.clone()),
        };
        assert_eq!(found, expected, "\n{}", run.trace());
    }
}

fn scenario(bench: &Arc<Bench>, chooser: &mut dyn Chooser, clients: &[Program<Step>]) {
    let run = &bench.run();
    block_on(go(run, 0, program(&[Insert(1), Insert(2), Name(1)], NO_LOSS)));
    let steps = || clients.iter().flat_map(|program| &program.steps);
    let moves = steps().any(|step| matches!(step, Move(_) | Back(_)));
    let partitions = [run.partition.clone(), other(run)];
    let partitions = if moves { &partitions[..] } else { &partitions[..1] };
    let futures =
        clients.iter().enumerate().map(|(number, program)| go(run, number + 1, program.clone()));
    run.interleave(chooser, futures, || check(run, partitions));
    if !moves {
        return;
    }
    // The messages of jobs come back until they are done: then nothing is left of a move.
    for step in steps().filter(|step| matches!(step, Move(_) | Back(_))) {
        block_on(go(run, 0, program(&[*step], NO_LOSS)));
        check(run, partitions);
    }
    let rows: Table<Entity> = staff(run, 0, NO_LOSS).rows().retyped();
    for name in partitions {
        let rows = block_on(rows.query(partition(name)).collect_at_most(99)).unwrap();
        assert!(rows.iter().all(|row| row.value("_ix").is_none()), "{}", run.trace());
    }
}

fn programs() -> Vec<Program<Step>> {
    vec![
        program(&[Delete(1)], NO_LOSS),
        program(&[Step::Change(1, "b@x")], NO_LOSS),
        program(&[Name(2)], Losses::of_answers(&[2])),
    ]
}

#[test]
fn summaries_are_right_after_each_request_in_every_order() {
    // P-5.1, P-5.2a, PS-5.7.
    let bench = &Bench::with_table("Staff");
    let runs = every_pair(&programs(), |chooser, all| scenario(bench, chooser, all));
    assert!(runs > 300, "{runs}");
}

#[test]
fn summaries_are_right_after_each_request_of_moves_in_every_order() {
    // P-12.6d.
    let bench = &Bench::with_table("Staff");
    let mut programs = vec![program(&[Move(2)], NO_LOSS), program(&[Delete(2)], NO_LOSS)];
    let runs = every_pair(&programs, |chooser, all| scenario(bench, chooser, all));
    assert!(runs > 200, "{runs}");
    programs.extend(self::programs());
    programs.push(program(&[Move(2), Back(2)], NO_LOSS));
    programs.push(program(&[Delete(2), Insert(2)], Losses::of_answers(&[3])));
    programs.push(program(&[Move(1), Back(1), Move(1)], Losses::of_answers(&[5, 9])));
    drawn_triples(20, &programs, &[], |chooser, _, all| scenario(bench, chooser, all));
}
