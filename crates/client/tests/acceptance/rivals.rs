//! Concurrent writers: CS-12, CS-15.

use crate::peer::{Faulty, Peer};
use lazuli_client::{BoxError, Change, Entity, Error, ErrorKind, Proof, Table};
use lazuli_test::Fault;

crate::scenarios! {
    cs_12_twenty_tasks_add_a_thousand
    cs_15_an_insert_and_its_rivals
    cs_15_a_replace_and_its_rivals
    cs_15_an_addition_and_its_rivals
}

fn add_one(entity: &mut Entity) -> Result<Change, BoxError> {
    let count: i32 = entity.get("Count")?;
    entity.set("Count", count + 1);
    Ok(Change::Write)
}

async fn count(table: &Table) -> i32 {
    table.get(("p", "r")).required().await.unwrap().get("Count").unwrap()
}

async fn cs_12_twenty_tasks_add_a_thousand(peer: Peer) {
    let table = peer.table("Counters").await;
    table.insert(&Entity::new("p", "r").with("Count", 0)).await.unwrap();
    let tasks = (0..20).map(|_| {
        let table = table.clone();
        tokio::spawn(async move {
            let mut attempts = 0;
            for _ in 0..50 {
                let update = table.update_with(("p", "r"), add_one).attempts(1000);
                attempts += update.await.unwrap().attempts;
            }
            attempts
        })
    });
    let mut attempts = 0;
    for task in tasks.collect::<Vec<_>>() {
        attempts += task.await.unwrap();
    }
    assert_eq!(count(&table).await, 1000);
    assert!(attempts >= 1000, "{attempts}");
}

/// Runs `write` behind the proxy with `faults` for its first requests, and `rivals` between the lost one and the next
/// attempt.
async fn with_rivals<T>(
    faulty: &Faulty,
    faults: &[Fault],
    write: impl Future<Output = Result<T, Error>>,
    rivals: impl Future<Output = ()>,
) -> Result<T, Error> {
    faulty.proxy.next(faults.iter().copied());
    faulty.clock.hold();
    let between = async {
        faulty.clock.paused().await;
        rivals.await;
        faulty.clock.release();
    };
    let (outcome, ()) = tokio::join!(write, between);
    outcome
}

/// This many other clients add to a row, each with a write id.
async fn additions(table: &Table, rivals: usize) {
    for _ in 0..rivals {
        table.update_with(("p", "r"), add_one).await.unwrap();
    }
}

/// The outcome of a write, and whether an earlier attempt may have been carried out.
fn seen<T>(
    outcome: Result<T, Error>,
    proof: impl Fn(T) -> Proof,
) -> Result<Proof, (ErrorKind, bool)> {
    outcome.map(proof).map_err(|error| (error.kind().clone(), error.may_have_been_applied()))
}

async fn cs_15_an_insert_and_its_rivals(peer: Peer) {
    let ours = || Entity::new("p", "r").with("Count", 0).with("Whose", "ours");
    for with_id in [true, false] {
        // (a) It was not carried out, and another client inserts.
        let direct = peer.table("Inserts").await;
        let faulty = peer.faulty();
        let insert = faulty.table(&direct).insert(&ours());
        let insert = if with_id { insert.write_id() } else { insert };
        let rival = async {
            direct.insert(&Entity::new("p", "r").with("Count", 5)).write_id().await.unwrap();
        };
        let outcome =
            with_rivals(&faulty, &[Fault::DropRequest], insert.into_future(), rival).await;
        assert_eq!(seen(outcome, |written| written.proof), Err((ErrorKind::Conflict, true)));
        assert_eq!(count(&direct).await, 5);
        // (b) It was carried out, and other clients write over it.
        for rivals in [1, 7, 8] {
            let direct = peer.table("Inserts").await;
            let faulty = peer.faulty();
            let insert = faulty.table(&direct).insert(&ours());
            let insert = if with_id { insert.write_id() } else { insert };
            let work = additions(&direct, rivals);
            let outcome =
                with_rivals(&faulty, &[Fault::DropReply], insert.into_future(), work).await;
            let expected = match with_id && rivals < 8 {
                true => Ok(Proof::WriteIds),
                false => Err((ErrorKind::Conflict, true)),
            };
            assert_eq!(seen(outcome, |written| written.proof), expected, "{with_id} {rivals}");
            assert_eq!(count(&direct).await, rivals as i32);
        }
    }
}

/// A row with a write id, as seen by us and by the others.
async fn begun(peer: &Peer) -> (Table, Faulty) {
    let direct = peer.table("Rows").await;
    direct.insert(&Entity::new("p", "r").with("Count", 0)).write_id().await.unwrap();
    (direct, peer.faulty())
}

async fn cs_15_a_replace_and_its_rivals(peer: Peer) {
    for with_id in [true, false] {
        for (fault, rivals) in [
            (Fault::DropRequest, 1),
            (Fault::DropReply, 1),
            (Fault::DropReply, 7),
            (Fault::DropReply, 8),
        ] {
            let (direct, faulty) = begun(&peer).await;
            let table = faulty.table(&direct);
            let mut loaded = table.get(("p", "r")).required().await.unwrap();
            loaded.set("Count", 100);
            let replace = table.replace(&loaded);
            let replace = if with_id { replace.write_id() } else { replace };
            let work = additions(&direct, rivals);
            let outcome = with_rivals(&faulty, &[fault], replace.into_future(), work).await;
            let found = seen(outcome, |written| written.proof);
            let expected = match (with_id, fault, rivals) {
                (true, Fault::DropRequest, _) => Err((ErrorKind::PreconditionFailed, false)),
                (true, _, 1 | 7) => Ok(Proof::WriteIds),
                _ => Err((ErrorKind::PreconditionFailed, true)),
            };
            assert_eq!(found, expected, "{with_id} {fault:?} {rivals}");
        }
    }
}

async fn cs_15_an_addition_and_its_rivals(peer: Peer) {
    for with_id in [true, false] {
        for (fault, rivals) in [
            (Fault::DropRequest, 1),
            (Fault::DropReply, 1),
            (Fault::DropReply, 7),
            (Fault::DropReply, 8),
        ] {
            let (direct, faulty) = begun(&peer).await;
            let update = faulty.table(&direct).update_with(("p", "r"), add_one);
            let update = if with_id { update } else { update.without_write_id() };
            let work = additions(&direct, rivals);
            let faults = [Fault::Pass, fault];
            let outcome = with_rivals(&faulty, &faults, update.into_future(), work).await;
            let is_known = with_id && rivals < 8;
            assert_eq!(outcome.is_ok(), is_known, "{with_id} {fault:?} {rivals}: {outcome:?}");
            if let Err(error) = outcome {
                assert_eq!(
                    *error.kind(),
                    ErrorKind::OutcomeUnknown,
                    "{with_id} {fault:?} {rivals}"
                );
            }
            // Counted once: at once, in the next round, or with an unknown outcome.
            let ours = i32::from(fault == Fault::DropReply || is_known);
            assert_eq!(count(&direct).await, rivals as i32 + ours, "{with_id} {fault:?} {rivals}");
        }
    }
}
