//! Random histories, indexes and filters: few keys and few values of every type, so that they collide.

use lazuli_model::filter::{Case, Extended, Term, TextFunction, TextTest};
use lazuli_model::{Filter, Guid, IndexDefinition, Operator, Property, Timestamp, Value};
use proptest::prelude::*;

const NAMES: [&str; 4] = ["A", "B", "C", "D"];

/// More text than an entry holds.
const LONG_CHARS: usize = 299;

pub(super) type Pairs = Vec<(&'static str, Value<'static>)>;

#[derive(Clone, Debug)]
pub(super) struct History {
    pub(super) steps: Vec<Step>,
    pub(super) filters: Vec<Filter>,
    /// The size of the pages.
    pub(super) top: usize,
    /// Indexes that come and go between pages.
    pub(super) sets: Vec<Vec<IndexDefinition>>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Changes in one commit, of different entities.
    Change(Vec<Change>),
    Declare(Vec<IndexDefinition>),
    /// Some steps of building.
    Build(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) partition: String,
    pub(super) row: String,
    pub(super) effect: Effect,
}

#[derive(Clone, Debug)]
pub(super) enum Effect {
    Put(Pairs),
    Merge(Pairs),
    Delete,
}

pub(super) fn history() -> impl Strategy<Value = History> {
    let steps = prop::collection::vec(step(), 0..40);
    let filters = prop::collection::vec(prop_oneof![filter(), served(), branched()], 8);
    let sets = prop::collection::vec(declared(), 0..4);
    (steps, filters, 1..4_usize, sets).prop_map(|(steps, filters, top, sets)| History {
        steps,
        filters,
        top,
        sets,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => change().prop_map(|change| Step::Change(vec![change])),
        2 => prop::collection::vec(change(), 2..5).prop_map(|changes| Step::Change(once(changes))),
        1 => declared().prop_map(Step::Declare),
        2 => (1..4_usize).prop_map(Step::Build),
    ]
}

/// The first change of each entity.
fn once(changes: Vec<Change>) -> Vec<Change> {
    let mut kept: Vec<Change> = Vec::new();
    for change in changes {
        let is_same =
            |other: &Change| (&other.partition, &other.row) == (&change.partition, &change.row);
        if !kept.iter().any(is_same) {
            kept.push(change);
        }
    }
    kept
}

fn change() -> impl Strategy<Value = Change> {
    let effect = prop_oneof![
        3 => pairs().prop_map(Effect::Put),
        1 => pairs().prop_map(Effect::Merge),
        1 => Just(Effect::Delete),
    ];
    ("[pq]", "[0-4]", effect).prop_map(|(partition, row, effect)| Change { partition, row, effect })
}

fn pairs() -> impl Strategy<Value = Pairs> {
    let optional = |name| prop::option::of(value()).prop_map(move |value| value.map(|v| (name, v)));
    (optional("A"), optional("B"), optional("C"), optional("D"))
        .prop_map(|(a, b, c, d)| [a, b, c, d].into_iter().flatten().collect())
}

fn value() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        (-2_i32..3).prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        prop::sample::select(vec![-1.0, -0.0, 0.0, 0.5, 1.0, f64::NAN, f64::INFINITY])
            .prop_map(Value::from),
        "[ab\u{e000}]{0,2}".prop_map(Value::from),
        Just(Value::from("a".repeat(LONG_CHARS + 1))),
        Just(Value::from(format!("{}b", "a".repeat(LONG_CHARS)))),
        any::<bool>().prop_map(Value::from),
        prop::collection::vec(0_u8..2, 0..2).prop_map(Value::from),
        Just(Value::from(Guid([7; 16]))),
        Just(Value::from(Timestamp::UNIX_EPOCH)),
    ]
}

fn declared() -> impl Strategy<Value = Vec<IndexDefinition>> {
    let on = prop::sample::select(vec![
        vec!["A"],
        vec!["B"],
        vec!["A", "B"],
        vec!["B", "A"],
        vec!["A", "B", "C"],
        vec!["A", "B", "C", "D"],
        vec!["PartitionKey", "A"],
        vec!["PartitionKey", "B", "A"],
        vec!["PartitionKey", "A", "B", "C"],
    ]);
    let index = (0..4_usize, on, prop::bool::weighted(0.3));
    prop::collection::vec(index, 0..4).prop_map(|indexes| {
        let mut set: Vec<IndexDefinition> = Vec::new();
        for (number, on, unique) in indexes {
            let index = IndexDefinition::new(&format!("by{number}x"), &on, unique).unwrap();
            if set.iter().all(|other| other.name() != index.name()) {
                set.push(index);
            }
        }
        set
    })
}

fn filter() -> impl Strategy<Value = Filter> {
    let operator = prop::sample::select(Operator::ALL.to_vec());
    let often_eq = prop_oneof![3 => Just(Operator::Eq), 1 => operator];
    let name = || prop::sample::select(NAMES.to_vec());
    let property = || name().prop_map(Property::from_name);
    let leaf = prop_oneof![
        8 => (property(), often_eq, value()).prop_map(|(p, op, v)| Filter::compare(p, op, v)),
        1 => property().prop_map(Filter::IsTrue),
        2 => extended(),
        1 => "[pq]".prop_map(|p| Filter::compare(Property::PartitionKey, Operator::Eq, p)),
        1 => "[0-4]".prop_map(|r| Filter::compare(Property::RowKey, Operator::Gt, r)),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.and(b)),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.or(b)),
            inner.prop_map(|a| !a),
        ]
    })
}

/// Filters that indexes of several properties serve: one or more values for some, and a comparison of others.
fn served() -> impl Strategy<Value = Filter> {
    (partition(), one("A"), one("B"), one("C"), one("D"))
        .prop_map(|(p, a, b, c, d)| all_of([p, a, b, c, d]))
}

/// An `or` of branches of which some can be served only with what is around it.
fn branched() -> impl Strategy<Value = Filter> {
    let branch = (one("A"), one("B"), one("C")).prop_map(|(a, b, c)| all_of([a, b, c]));
    let branches = prop::collection::vec(branch, 2..4);
    let either = branches.prop_map(|branches| branches.into_iter().reduce(Filter::or));
    (partition(), one("A"), one("B"), either)
        .prop_map(|(p, a, b, either)| all_of([p, a, b, either]))
}

/// The filter that joins some by `and`.
fn all_of(parts: impl IntoIterator<Item = Option<Filter>>) -> Filter {
    parts.into_iter().flatten().reduce(Filter::and).unwrap_or(Filter::Constant(true))
}

/// Mostly none.
fn partition() -> impl Strategy<Value = Option<Filter>> {
    prop_oneof![
        2 => Just(None),
        1 => "[pq]".prop_map(|p| Some(Filter::compare(Property::PartitionKey, Operator::Eq, p))),
        1 => "[pq]".prop_map(|p| Some(Filter::compare(Property::PartitionKey, Operator::Ge, p))),
    ]
}

/// Values of one property, or a comparison with it.
fn one(name: &'static str) -> impl Strategy<Value = Option<Filter>> {
    let operator = prop::sample::select(Operator::ALL.to_vec());
    let property = move || Property::from_name(name);
    let given = prop::collection::vec(value(), 1..3).prop_map(move |values| {
        let equal = |value| Filter::compare(property(), Operator::Eq, value);
        values.into_iter().map(equal).reduce(Filter::or)
    });
    let compared =
        (operator, value()).prop_map(move |(op, v)| Some(Filter::compare(property(), op, v)));
    prop_oneof![4 => given, 2 => compared, 1 => Just(None)]
}

/// `in`, and functions of text.
fn extended() -> impl Strategy<Value = Filter> {
    let term = prop::sample::select(NAMES.to_vec())
        .prop_map(|name| Term::new(Property::from_name(name), Case::AsIs));
    let text = || prop_oneof!["[ab]{0,2}", Just("a".repeat(LONG_CHARS))];
    let texts = prop::collection::vec(text().prop_map(Value::from), 1..4);
    let numbers = prop::collection::vec((-2_i32..3).prop_map(Value::from), 1..4);
    let function = prop::sample::select(TextFunction::ALL.to_vec());
    prop_oneof![
        (term.clone(), prop_oneof![texts, numbers])
            .prop_map(|(term, values)| Extended::In { term, values }),
        (function, term, text())
            .prop_map(|(function, term, text)| Extended::Text(TextTest::new(function, term, text))),
    ]
    .prop_map(Filter::Extended)
}
