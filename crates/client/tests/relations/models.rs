//! Random operations on relationships and spread tables, and on plain models of them (P-0.8).

use crate::spreads::{Event16, Event32};
use crate::{Department, Employee, SEEDS, create, department, employee};
use lazuli_client::patterns::jobs::MoveOutcome;
use lazuli_client::patterns::relations::{Collection, rehome};
use lazuli_client::patterns::spread::Spread;
use lazuli_client::prelude::*;
use lazuli_client::{Change, ErrorKind};
use lazuli_test::crash::{TestClient, chosen_seeds};
use lazuli_test::{Seeded, model};
use std::collections::{BTreeMap, BTreeSet};

const DEPARTMENTS: [&str; 3] = ["Sales", "Marketing", "Support"];

#[derive(Clone, Debug)]
enum Family {
    Open(&'static str),
    Close(&'static str),
    /// Without reading the department.
    Insert(&'static str, u32),
    Hire(&'static str, u32),
    Age(&'static str, u32),
    Dismiss(&'static str, u32),
    Move(&'static str, &'static str, u32),
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Done,
    Refused,
    NoParent,
    Moved(Option<MoveOutcome>),
}

/// Whether each department exists, and its employees with their ages.
type Staff = Vec<(bool, BTreeMap<u32, i32>)>;

#[derive(Default)]
struct Families {
    open: BTreeSet<&'static str>,
    staff: BTreeMap<(&'static str, u32), i32>,
}

impl Families {
    fn apply(&mut self, operation: &Family) -> Ended {
        let is_done = match *operation {
            Family::Open(name) => self.open.insert(name),
            Family::Close(name) => self.open.remove(name),
            Family::Hire(name, _) if !self.open.contains(name) => return Ended::NoParent,
            Family::Hire(name, id) | Family::Insert(name, id) => {
                let is_new = !self.staff.contains_key(&(name, id));
                self.staff.entry((name, id)).or_insert(30);
                is_new
            }
            Family::Age(name, id) => self.staff.get_mut(&(name, id)).map(|age| *age += 1).is_some(),
            Family::Dismiss(name, id) => self.staff.remove(&(name, id)).is_some(),
            Family::Move(from, to, id) => return Ended::Moved(self.rehome(from, to, id)),
        };
        if is_done { Ended::Done } else { Ended::Refused }
    }

    fn rehome(&mut self, from: &'static str, to: &'static str, id: u32) -> Option<MoveOutcome> {
        let is_taken = self.staff.contains_key(&(to, id));
        match self.staff.get(&(from, id)) {
            _ if from == to => None,
            None if is_taken => Some(MoveOutcome::WasDone),
            None => Some(MoveOutcome::Absent),
            Some(_) if is_taken => None,
            Some(age) => {
                self.staff.insert((to, id), *age);
                self.staff.remove(&(from, id));
                Some(MoveOutcome::Done)
            }
        }
    }

    fn staff(&self) -> Staff {
        let of = |name: &'static str| {
            let own = self.staff.iter().filter(|((department, _), _)| *department == name);
            (self.open.contains(name), own.map(|((_, id), age)| (*id, *age)).collect())
        };
        DEPARTMENTS.map(of).to_vec()
    }
}

async fn apply(staff: &Table<Employee>, operation: &Family) -> Ended {
    let departments: Table<Department> = staff.retyped();
    let done = |outcome: Result<(), Error>| match outcome {
        Ok(()) => Ended::Done,
        Err(error) if *error.kind() == ErrorKind::BrokenLink => Ended::NoParent,
        Err(_) => Ended::Refused,
    };
    match *operation {
        Family::Open(name) => done(departments.insert(&department(name)).await.map(drop)),
        Family::Close(name) => {
            let key = Department::key(name).unwrap();
            match departments.get(key).await.unwrap() {
                Some(found) => done(departments.delete(&found).await.map(drop)),
                None => Ended::Refused,
            }
        }
        Family::Insert(name, id) => done(staff.insert(&employee(name, id)).await.map(drop)),
        Family::Hire(name, id) => {
            done(staff.insert_with_parent(&employee(name, id)).await.map(drop))
        }
        Family::Age(name, id) => {
            let update = staff.update_with(Employee::key(name, id).unwrap(), |employee| {
                employee.age += 1;
                Ok(Change::Write)
            });
            done(update.await.map(drop))
        }
        Family::Dismiss(name, id) => {
            match staff.get(Employee::key(name, id).unwrap()).await.unwrap() {
                Some(found) => done(staff.delete(&found).await.map(drop)),
                None => Ended::Refused,
            }
        }
        Family::Move(from, to, id) => {
            let keys = [from, to].map(|name| Employee::key(name, id).unwrap());
            let [from, target] = keys;
            let moved = rehome(staff, from, target, |employee| employee.department = to.into());
            Ended::Moved(moved.await.ok())
        }
    }
}

#[tokio::test]
async fn families_do_what_plain_maps_do() {
    // P-12: parents that must exist, collections, moves.
    let choose = |random: &mut Seeded| {
        let name = DEPARTMENTS[random.below(3)];
        let id = random.below(3) as u32;
        match random.below(9) {
            0 => Family::Open(name),
            1 => Family::Close(name),
            2 => Family::Insert(name, id),
            3 | 4 => Family::Hire(name, id),
            5 => Family::Age(name, id),
            6 => Family::Dismiss(name, id),
            _ => Family::Move(name, DEPARTMENTS[random.below(3)], id),
        }
    };
    let setup = async |client: &TestClient| create(client).await;
    let real = async |staff: &Table<Employee>, operation: &Family| -> (Ended, Staff) {
        let ended = apply(staff, operation).await;
        let mut all = Vec::new();
        for name in DEPARTMENTS {
            let read = Collection::read(staff, name, 100).await.unwrap();
            let employees = read.all::<Employee>().unwrap();
            let ages = employees.iter().map(|employee| (employee.id, employee.age)).collect();
            all.push((read.one::<Department>().unwrap().is_some(), ages));
        }
        assert_eq!(staff.verify().collect_at_most(10).await.unwrap(), []);
        (ended, all)
    };
    let plain = |families: &mut Families, operation: &Family| {
        let ended = families.apply(operation);
        (ended, families.staff())
    };
    model::compare(chosen_seeds(SEEDS), 25, choose, setup, real, plain).await.unwrap();
}

const HOURS: [&str; 2] = ["2014082200", "2014082201"];

#[derive(Clone, Debug)]
enum Spreading {
    /// With sixteen buckets: by programs with the old template.
    Old(&'static str, u32),
    /// With thirty-two.
    New(&'static str, u32),
    Read(&'static str),
    Latest(&'static str, usize),
}

#[tokio::test]
async fn spread_tables_do_what_a_plain_set_does() {
    // P-13. Programs with the old and the new number of buckets insert concurrently; ids show which program did.
    let choose = |random: &mut Seeded| {
        let (hour, id) = (HOURS[random.below(2)], random.below(40) as u32);
        match random.below(6) {
            0 | 1 => Spreading::Old(hour, 2 * id),
            2 | 3 => Spreading::New(hour, 2 * id + 1),
            4 => Spreading::Read(hour),
            _ => Spreading::Latest(hour, random.below(6)),
        }
    };
    let setup = async |client: &TestClient| {
        client.tables().create("Events").await.unwrap();
        let old = client.tables().of::<Event16>().unwrap();
        let new = client.tables().of::<Event32>().unwrap();
        // A writer first opens the spread with its number of buckets.
        Spread::open(&old, 16).await.unwrap();
        Spread::open(&new, 32).await.unwrap();
        (old, new)
    };
    let id_of = |row: &Entity| row.row_key().parse::<u32>().unwrap();
    let real = async |(old, new): &(Table<Event16>, Table<Event32>), operation: &Spreading| {
        let is_new = |outcome: Result<_, Error>| vec![u32::from(outcome.is_ok())];
        match operation {
            Spreading::Old(hour, id) => {
                is_new(old.insert(&Event16 { hour: (*hour).into(), id: *id }).await)
            }
            Spreading::New(hour, id) => {
                is_new(new.insert(&Event32 { hour: (*hour).into(), id: *id }).await)
            }
            Spreading::Read(hour) => {
                // A reader that only knows the old number still reads all, as rows: a type has one template.
                let spread = Spread::open(&old.retyped::<Entity>(), 16).await.unwrap();
                let mut merged = spread.query(|bucket| format!("{bucket}_{hour}")).await.unwrap();
                let mut ids = Vec::new();
                while let Some(row) = merged.try_next().await.unwrap() {
                    ids.push(id_of(&row));
                }
                ids
            }
            Spreading::Latest(hour, count) => {
                let spread = Spread::open(&new.retyped::<Entity>(), 32).await.unwrap();
                let latest = spread.latest(*count, |bucket| format!("{bucket}_{hour}"));
                latest.await.unwrap().iter().map(|row| id_of(row)).collect()
            }
        }
    };
    let plain = |events: &mut BTreeSet<(&'static str, u32)>, operation: &Spreading| {
        let of = |hour: &str| {
            let own = events.iter().filter(|(own, _)| *own == hour);
            own.map(|(_, id)| *id).collect::<Vec<u32>>()
        };
        match operation {
            Spreading::Read(hour) => of(hour),
            Spreading::Latest(hour, count) => of(hour).into_iter().take(*count).collect(),
            Spreading::Old(hour, id) | Spreading::New(hour, id) => {
                vec![u32::from(events.insert((*hour, *id)))]
            }
        }
    };
    model::compare(chosen_seeds(SEEDS), 40, choose, setup, real, plain).await.unwrap();
}
