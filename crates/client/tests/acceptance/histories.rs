//! Histories of transactions with losses and concurrent writers: the reported outcome is true or unknown (C-13).

use crate::peer::Peer;
use lazuli_client::{Batch, Entity, Error, Loaded, Proof, Table, Transaction};
use lazuli_test::Fault;
use std::collections::BTreeMap;

crate::scenarios! {
    cs_13_a_transaction_is_not_taken_for_done_because_some_of_its_rows_look_so
    cs_13_a_deletion_by_a_function_is_known_to_be_ours_or_unknown
    cs_13_a_type_with_write_ids_keeps_them_in_transactions
    cs_13_no_history_of_a_lost_transaction_is_told_wrongly
}

const ROWS: [&str; 4] = ["a", "b", "c", "d"];

fn row(name: &str, value: i32) -> Entity {
    Entity::new("p", name).with("V", value)
}

type State = BTreeMap<String, i32>;

async fn state(table: &Table) -> State {
    let rows = table.scan().collect_at_most(100).await.unwrap();
    rows.iter().map(|row| (row.row_key().to_owned(), row.get("V").unwrap())).collect()
}

/// Sends a transaction whose first attempt meets `fault`, with `rivals` running before the second.
async fn among_rivals<T>(
    peer: &Peer,
    direct: &Table,
    fault: Fault,
    send: impl AsyncFnOnce(Table) -> Result<T, Error>,
    rivals: impl AsyncFnOnce(&Table),
) -> Result<T, Error> {
    let faulty = peer.faulty();
    faulty.proxy.next([fault]);
    faulty.clock.hold();
    let between = async {
        faulty.clock.paused().await;
        rivals(direct).await;
        faulty.clock.release();
    };
    let (outcome, ()) = tokio::join!(send(faulty.table(direct)), between);
    outcome
}

async fn cs_13_a_transaction_is_not_taken_for_done_because_some_of_its_rows_look_so(peer: Peer) {
    // An upsert of existing content, and a deletion that another client did: the third write was not carried out.
    let direct = peer.table("Looks").await;
    for name in ["a", "b", "c"] {
        direct.insert(&row(name, 1)).await.unwrap();
    }
    let outcome = among_rivals(
        &peer,
        &direct,
        Fault::DropRequest,
        async |table| {
            let batch = table.batch("p").upsert(&row("a", 1)).delete_key(("p", "b"));
            batch.upsert(&row("c", 2)).commit().await
        },
        async |rival| {
            rival.delete_key(("p", "b")).await.unwrap();
        },
    );
    let error = outcome.await.unwrap_err();
    assert!(error.is_not_found() && error.may_have_been_applied(), "{error}");
    assert_eq!(state(&direct).await, State::from([("a".into(), 1), ("c".into(), 1)]));

    // Deletions, two of which another client did.
    direct.insert(&row("b", 1)).await.unwrap();
    let outcome = among_rivals(
        &peer,
        &direct,
        Fault::DropRequest,
        async |table| {
            let batch = table.batch("p").delete_key(("p", "a")).delete_key(("p", "b"));
            batch.delete_key(("p", "c")).commit().await
        },
        async |rival| {
            rival.delete_key(("p", "a")).await.unwrap();
            rival.delete_key(("p", "b")).await.unwrap();
        },
    );
    let error = outcome.await.unwrap_err();
    assert!(error.is_not_found() && error.may_have_been_applied(), "{error}");

    // A refusal whose answer was lost: the row existed before.
    let outcome = among_rivals(
        &peer,
        &direct,
        Fault::DropReply,
        async |table| table.batch("p").insert(&row("c", 1)).upsert(&row("d", 1)).commit().await,
        async |_| {},
    );
    let error = outcome.await.unwrap_err();
    assert!(error.is_conflict() && error.may_have_been_applied(), "{error}");
    assert_eq!(state(&direct).await, State::from([("c".into(), 1)]));
}

async fn cs_13_a_deletion_by_a_function_is_known_to_be_ours_or_unknown(peer: Peer) {
    // Deleting a row takes what it stands for. If two deletions succeeded, both clients would have it (C-10.3).
    for (fault, is_rival) in [(Fault::DropRequest, true), (Fault::DropReply, false)] {
        let direct = peer.table("Takes").await;
        direct.insert(&row("a", 1)).await.unwrap();
        let faulty = peer.faulty();
        faulty.proxy.next([Fault::Pass, fault]);
        faulty.clock.hold();
        let rival = async {
            faulty.clock.paused().await;
            if is_rival {
                direct.delete_key(("p", "a")).await.unwrap();
            }
            faulty.clock.release();
        };
        let table = faulty.table(&direct);
        let take = table.transact("p", |tx: Transaction| async move {
            let found = tx.get(("p", "a")).required().await?;
            tx.delete(&found)?;
            Ok(found.get::<i32>("V")?)
        });
        let (taken, ()) = tokio::join!(take.into_future(), rival);
        let error = taken.unwrap_err();
        assert_eq!(*error.kind(), lazuli_client::ErrorKind::OutcomeUnknown, "{fault:?}");
    }
}

#[derive(lazuli_client::TableEntity, Clone, Debug, PartialEq)]
#[table(partition = "{of}", row = "{name}", write_id(window = 32))]
struct Kept {
    of: String,
    name: String,
    v: i32,
}

async fn cs_13_a_type_with_write_ids_keeps_them_in_transactions(peer: Peer) {
    // C-13.6: a batch, a load and a function once dropped the ids that other writes had stored.
    let direct = peer.table("Kept").await;
    let kept = |name: &str, v| Kept { of: "p".into(), name: name.into(), v };
    let ids = async |table: &Table, name: &str| {
        let row = table.get(("p", name)).required().await.unwrap();
        row.get::<Vec<u8>>("_WriteIds").unwrap().len() / 16
    };
    let typed: Table<Kept> = direct.retyped();
    typed.batch("p").insert(&kept("a", 1)).upsert(&kept("b", 1)).commit().await.unwrap();
    assert_eq!((ids(&direct, "a").await, ids(&direct, "b").await), (1, 1));
    let read = async |name| typed.get(Kept::key("p", name).unwrap()).required().await.unwrap();
    typed.batch("p").replace(&read("a").await).commit().await.unwrap();
    let write = lazuli_client::WriteOp::replace(&read("a").await);
    let report = typed.bulk().run(lazuli_client::iter([Ok(write)])).await.unwrap();
    assert_eq!(report.written, 1);
    let replaced = typed.transact("p", |tx| async move {
        for name in ["a", "b"] {
            let row = tx.get(Kept::key("p", name)?).required().await?;
            tx.replace(&row)?;
        }
        Ok(())
    });
    replaced.await.unwrap();
    assert_eq!((ids(&direct, "a").await, ids(&direct, "b").await), (4, 2));
    let merge = typed.batch("p").merge(&read("a").await, |m| m.set(Kept::V, 5));
    merge.commit().await.unwrap();
    assert_eq!(ids(&direct, "a").await, 5);

    // They show what became of a transaction among concurrent writers.
    let loaded: Loaded<Kept> = read("a").await;
    let outcome = among_rivals(
        &peer,
        &direct,
        Fault::DropReply,
        async |table| table.retyped::<Kept>().batch("p").replace(&loaded).commit().await,
        async |rival| {
            let key = Kept::key("p", "a").unwrap();
            rival.merge(&rival.get(key).required().await.unwrap()).set(Kept::V, 9).await.unwrap();
        },
    );
    assert_eq!(outcome.await.unwrap().proof(), Proof::WriteIds);
}

/// A write of a random transaction, and the expected row afterwards.
#[derive(Clone, Debug)]
enum Step {
    Insert(&'static str, i32),
    Upsert(&'static str, i32),
    Replace(Loaded<Entity>, i32),
    Merge(&'static str, i32),
    Delete(&'static str),
    DeleteRead(Loaded<Entity>),
}

impl Step {
    fn wants(&self) -> (&str, Option<i32>) {
        match self {
            Self::Insert(name, value) | Self::Upsert(name, value) | Self::Merge(name, value) => {
                (name, Some(*value))
            }
            Self::Replace(loaded, value) => (loaded.row_key(), Some(*value)),
            Self::Delete(name) => (name, None),
            Self::DeleteRead(loaded) => (loaded.row_key(), None),
        }
    }

    /// Whether it can be carried out on the previous row.
    fn fits(&self, before: &State) -> bool {
        let is_there = before.contains_key(self.wants().0);
        match self {
            Self::Insert(..) => !is_there,
            Self::Upsert(..) => true,
            _ => is_there,
        }
    }

    fn add(&self, batch: Batch<Entity>) -> Batch<Entity> {
        match self {
            Self::Insert(name, value) => batch.insert(&row(name, *value)),
            Self::Upsert(name, value) => batch.upsert(&row(name, *value)),
            Self::Replace(loaded, value) => {
                let value = row(loaded.row_key(), *value);
                batch.replace(&loaded.clone().map(|_| value))
            }
            Self::Merge(name, value) => batch.merge(("p", *name), |merge| merge.set("V", *value)),
            Self::Delete(name) => batch.delete_key(("p", *name)),
            Self::DeleteRead(loaded) => batch.delete(loaded),
        }
    }
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    fn value(&mut self) -> i32 {
        self.roll(2) as i32
    }
}

async fn steps(dice: &mut Dice, table: &Table) -> Vec<Step> {
    let mut steps = Vec::new();
    for name in ROWS {
        let value = dice.value();
        let found = table.get(("p", name)).await.unwrap();
        steps.extend(match (dice.roll(7), found) {
            (0, _) => None,
            (1, _) => Some(Step::Insert(name, value)),
            (2, Some(found)) => Some(Step::Replace(found, value)),
            (3, _) => Some(Step::Merge(name, value)),
            (4, _) => Some(Step::Delete(name)),
            (5, Some(found)) => Some(Step::DeleteRead(found)),
            _ => Some(Step::Upsert(name, value)),
        });
    }
    steps
}

async fn rival_write(dice: &mut Dice, table: &Table) {
    let name = ROWS[dice.roll(4) as usize];
    if dice.roll(2) == 0 {
        table.delete_key(("p", name)).await.unwrap();
    } else {
        table.upsert(&row(name, dice.value())).await.unwrap();
    }
}

async fn cs_13_no_history_of_a_lost_transaction_is_told_wrongly(peer: Peer) {
    let direct = peer.table("Histories").await;
    let (mut told, mut open) = (0, 0);
    for seed in 1..=peer.histories() {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for name in ROWS {
            direct.delete_key(("p", name)).await.unwrap();
            if dice.roll(3) > 0 {
                direct.insert(&row(name, dice.value())).await.unwrap();
            }
        }
        let steps = steps(&mut dice, &direct).await;
        let before = state(&direct).await;
        let fault = if dice.roll(2) == 0 { Fault::DropReply } else { Fault::DropRequest };
        let applied = fault == Fault::DropReply && steps.iter().all(|step| step.fits(&before));
        let faulty = peer.faulty();
        let table = faulty.table(&direct);
        faulty.proxy.next([fault]);
        faulty.clock.hold();
        let batch = steps.iter().fold(table.batch("p"), |batch, step| step.add(batch));
        if batch.is_empty() {
            continue;
        }
        let between = async {
            faulty.clock.paused().await;
            for _ in 0..dice.roll(4) {
                rival_write(&mut dice, &direct).await;
            }
            let between = state(&direct).await;
            faulty.clock.release();
            between
        };
        let (outcome, between) = tokio::join!(batch.commit().into_future(), between);
        let after = state(&direct).await;
        let is_as_wanted = |state: &State| {
            steps.iter().all(|step| {
                let (name, wanted) = step.wants();
                state.get(name).copied() == wanted
            })
        };
        let history =
            format!("seed {seed}: {before:?} {steps:?} {fault:?} {between:?}: {outcome:?}");
        match outcome {
            // Carried out now, or resolved row by row: in either case the row is as expected.
            Ok(_) => {
                assert!(is_as_wanted(&after), "{history}");
                told += 1;
            }
            Err(error) => {
                assert_eq!(after, between, "{history}");
                assert!(!applied || error.may_have_been_applied(), "{history}");
                open += 1;
            }
        }
    }
    assert!(told > 0 && open > 0);
}
