//! Lists beside their entities (P-4, option 2): right at every moment.

use super::ListTable;
use super::reconcile;
use crate::Change;
use crate::patterns::orders::{Bench, Losses, NO_LOSS, Program, Run, program};
use crate::patterns::schedule::{Chooser, block_on, drawn_triples, every_pair};
use crate::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(kind = "Person", partition = "{group}", row = "id_{id:02}")]
#[index_list(name, option = 2, row = "name_{name}", items = "Ids", item = "{id:02}")]
struct Person {
    group: String,
    id: u32,
    name: String,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u32, &'static str),
    Rename(u32, &'static str),
    Delete(u32),
    /// What a repair does about the first one in the list `a`.
    Repair,
}

use Step::{Delete, Insert, Rename, Repair};

fn people(run: &Run, number: usize, losses: Losses) -> ListTable<Person> {
    let table = run.account(number, losses).tables().table("People").unwrap();
    ListTable::new(&table).unwrap()
}

async fn go(run: &Run, number: usize, program: Program<Step>) {
    let people = people(run, number, program.losses);
    let key = |id| Person::key(&run.partition, id).unwrap();
    for step in program.steps {
        match step {
            Insert(id, name) => {
                let (group, name) = (run.partition.clone(), name.to_owned());
                drop(people.insert(&Person { group, id, name }).await);
            }
            Rename(id, name) => {
                let change = move |person: &mut Person| {
                    person.name = name.into();
                    Ok(Change::Write)
                };
                drop(people.update_with(key(id), change).await);
            }
            Delete(id) => {
                if let Ok(Some(person)) = people.get(key(id)).await {
                    drop(people.delete(&person).await);
                }
            }
            Repair => {
                let (group, name) = (run.partition.clone(), "a".to_owned());
                let person = Person { group, id: 1, name };
                for entry in people.entries(&person).unwrap() {
                    drop(reconcile::mend(&people, key(1).as_entity_key(), &entry).await);
                }
            }
        }
    }
}

fn check(run: &Run) {
    let rows = people(run, 0, NO_LOSS).rows().clone();
    let rows = block_on(rows.query(partition(&run.partition)).collect_at_most(99)).unwrap();
    let (mut expected, mut found) = (BTreeMap::<String, Vec<String>>::new(), BTreeMap::new());
    for row in rows {
        match row.str("Ids") {
            Ok(ids) => drop(found.insert(
                row.row_key().trim_start_matches("name_").to_owned(),
                ids.split(',').map(str::to_owned).collect::<Vec<_>>(),
            )),
            Err(_) => {
                let name = row.str("name").unwrap().to_owned();
                let id = row.row_key().trim_start_matches("id_").to_owned();
                expected.entry(name).or_default().push(id);
            }
        }
    }
    assert_eq!(found, expected, "\n{}", run.trace());
}

fn scenario(bench: &Arc<Bench>, chooser: &mut dyn Chooser, clients: &[Program<Step>]) {
    let run = &bench.run();
    block_on(go(run, 0, program(&[Insert(1, "a")], NO_LOSS)));
    let futures =
        clients.iter().enumerate().map(|(number, program)| go(run, number + 1, program.clone()));
    run.interleave(chooser, futures, || check(run));
}

fn programs() -> Vec<Program<Step>> {
    vec![
        program(&[Insert(2, "a")], NO_LOSS),
        program(&[Rename(1, "b")], Losses::of_answers(&[4])),
        program(&[Delete(1)], NO_LOSS),
    ]
}

#[test]
fn lists_beside_their_entities_are_right_after_each_request_in_every_order() {
    // P-4.4, P-4.5a.
    let bench = &Bench::with_table("People");
    let runs = every_pair(&programs(), |chooser, all| scenario(bench, chooser, all));
    assert!(runs > 300, "{runs}");
}

#[test]
fn lists_of_three_clients_are_right_after_each_request_in_drawn_orders() {
    // P-4.4, P-4.5a.
    let bench = &Bench::with_table("People");
    let mut programs = programs();
    programs.push(program(&[Repair], NO_LOSS));
    programs.push(program(&[Insert(2, "b"), Delete(2)], Losses::of_answers(&[1])));
    drawn_triples(40, &programs, &[], |chooser, _, all| scenario(bench, chooser, all));
}
