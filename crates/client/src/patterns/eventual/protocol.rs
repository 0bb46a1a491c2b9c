//! The write protocol of copies in other partitions (P-2, W1 to W7).
//!
//! The primary is the truth. Three rules keep copies from being lost or left behind by a crash:
//!
//! 1. A client that may write or delete a copy at a place has a note that names the place, and deletes the note
//!    when the place agrees with the primary. No client writes a copy at a place that its note does not name.
//! 2. A copy is deleted, or taken from another primary, only in this order: read the copy, then read its
//!    primary, then write conditionally on the copy's version. A client that gives a primary a unique value
//!    touches the copy first, so the condition fails if what was read of the primary is out of date.
//! 3. A young claim belongs to its primary. Before it is old, only the client that inserted it may delete it,
//!    and only if it has seen no other client touch it.

use super::note::Note;
use super::store::{NoteId, Outcome, Place, Row, Store, Stored};
use crate::entity::{ETag, Entity};
use crate::error::{Error, ErrorKind};
use crate::patterns::property::{SOURCE, STATE};
use crate::patterns::upkeep::is_as_wanted;
use lazuli_model::{EntityKey, Timestamp};
use std::time::Duration;

/// Rounds before a writer leaves the rest to the worker.
const ROUNDS: u32 = 16;
const RESERVED: &str = "reserved";
/// The properties with the key of a copy's primary (P-0.2).
const PARTITION: &str = "_pk";
const ROW: &str = "_rk";

/// A copy that a primary should have.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) index: &'static str,
    pub(crate) is_unique: bool,
    pub(crate) place: Place,
    /// The properties, with `_ix`.
    pub(crate) entity: Entity,
}

/// Returns the copies of an entity, by the type's declaration.
pub(crate) type Shape<'a> = &'a (dyn Fn(&Entity) -> Result<Vec<Copy>, Error> + Send + Sync);

/// A write of a primary, or of a copy.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Insert(Entity),
    Replace(Entity, ETag),
    Delete(ETag),
}

/// The outcome of an acknowledged write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Acknowledged {
    /// The version of the primary; `None` if it is deleted.
    pub(crate) etag: Option<ETag>,
    /// Whether copies are left to the worker.
    pub(crate) is_pending: bool,
}

/// The outcome for a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Copies agree with the primary.
    Done,
    /// A claim is too young to be judged: the note must be delivered again.
    TooYoung,
}

#[derive(Clone, Copy)]
pub(crate) struct Protocol<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) shape: Shape<'a>,
    /// The table of the primaries.
    pub(crate) table: &'a str,
    /// The name of the type in notes.
    pub(crate) kind: &'a str,
    pub(crate) claim_age: Duration,
    /// Whether notes are sent; without them, a repair must clean up after a crash (P-2.7).
    pub(crate) has_notes: bool,
    /// Whether W4 to W7 are left to the worker.
    pub(crate) is_deferred: bool,
    /// Whether a copy of the current state is replaced if its content differs, as after a foreign write.
    pub(crate) is_thorough: bool,
}

/// Whether somebody's note names the places that are made right.
enum Standing {
    Noted,
    /// Nobody's, until one is left before the first write.
    Unnoted,
    /// Our own; `None` where no notes are left (P-2.7).
    Left(Option<NoteId>),
}

/// A claim that this write made.
struct Claim {
    place: Place,
    etag: ETag,
    /// Whether the row was absent before.
    is_new: bool,
}

impl Protocol<'_> {
    /// Writes a primary at `place` and its copies. `old` are the copies of the state that the change is based on.
    ///
    /// An error before the commit point means that nothing was written, except claims, which expire.
    pub(crate) async fn write(
        &self,
        place: &Place,
        old: &[Copy],
        change: Change,
    ) -> Result<Acknowledged, Error> {
        let new = match &change {
            Change::Insert(entity) | Change::Replace(entity, _) => (self.shape)(entity)?,
            Change::Delete(_) => Vec::new(),
        };
        let mut candidates: Vec<Place> =
            old.iter().chain(&new).map(|copy| copy.place.clone()).collect();
        candidates.sort();
        candidates.dedup();
        let note = self.leave_note(place, &candidates).await?;
        let began = self.store.now();
        let claims = match self.claim_all(place, old, &new).await {
            Ok(claims) => claims,
            Err((error, claims)) => {
                return Err(self.give_up(error, place, &claims, note.as_ref()).await);
            }
        };
        // An old claim may be taken over: a writer that was suspended for so long does not commit (P-2.3a).
        if !claims.is_empty() && self.has_passed(began, self.claim_age / 2) {
            let error = Error::new(ErrorKind::Timeout);
            return Err(self.give_up(error, place, &claims, note.as_ref()).await);
        }
        let is_insert = matches!(change, Change::Insert(_));
        let committed = match self.send(place, change).await {
            Ok(Outcome::Done(etag)) => etag,
            Ok(Outcome::Refused) => {
                let kind = match is_insert {
                    true => ErrorKind::Conflict,
                    false => ErrorKind::PreconditionFailed,
                };
                return Err(self.give_up(Error::new(kind), place, &claims, note.as_ref()).await);
            }
            // It may have been written: claims stay, and the worker checks (P-2.4).
            Err(error) => return Err(error),
        };
        let is_pending = self.is_deferred || self.follow_up(place, &candidates).await.is_err();
        if !is_pending && let Some(note) = &note {
            // If this is lost, the worker finds nothing to do.
            let _ = self.store.delete_note(note).await;
        }
        Ok(Acknowledged { etag: committed, is_pending })
    }

    /// Handles a note in the worker. It may run any number of times, at any time, in any process.
    pub(crate) async fn settle(&self, note: &Note) -> Result<Settled, Error> {
        self.reconcile(&note.primary, &note.candidates, &mut Standing::Noted).await
    }

    /// The same for one copy that nobody's note names: one is left before the first write, and deleted when the copy agrees
    /// with the primary. Of a repair that dies between its write and its second look nobody else would know.
    pub(crate) async fn mend(&self, primary: &Place, copy: &Place) -> Result<Settled, Error> {
        let mut standing = Standing::Unnoted;
        let settled = self.reconcile(primary, std::slice::from_ref(copy), &mut standing).await;
        let is_over = match &settled {
            Ok(settled) => *settled == Settled::Done,
            // Another entity has the place, and has it rightly: what was written there is no more.
            Err(error) => matches!(error.kind(), ErrorKind::UniqueViolation { .. }),
        };
        if let (true, Standing::Left(Some(note))) = (is_over, &standing) {
            // The worker finds nothing to do if this is lost.
            let _ = self.store.delete_note(note).await;
        }
        settled
    }

    async fn leave_note(
        &self,
        place: &Place,
        candidates: &[Place],
    ) -> Result<Option<NoteId>, Error> {
        if !self.has_notes || candidates.is_empty() {
            return Ok(None);
        }
        let note = Note {
            kind: self.kind.to_owned(),
            primary: place.clone(),
            candidates: candidates.to_vec(),
        };
        self.store.send_note(note).await.map(Some)
    }

    async fn send(&self, place: &Place, change: Change) -> Result<Outcome, Error> {
        let row = |entity| Row { place: place.clone(), entity };
        match change {
            Change::Insert(entity) => self.store.insert(row(entity)).await,
            Change::Replace(entity, etag) => self.store.replace(row(entity), etag).await,
            Change::Delete(etag) => self.store.delete(place, etag).await,
        }
    }

    /// W2: claims the new unique values.
    async fn claim_all(
        &self,
        primary: &Place,
        old: &[Copy],
        new: &[Copy],
    ) -> Result<Vec<Claim>, (Error, Vec<Claim>)> {
        let mut claims = Vec::new();
        let is_held = |copy: &Copy| old.iter().any(|other| other.place == copy.place);
        for copy in new.iter().filter(|copy| copy.is_unique && !is_held(copy)) {
            match self.claim(primary, copy).await {
                Ok(claim) => claims.push(claim),
                Err(error) => return Err((error, claims)),
            }
        }
        Ok(claims)
    }

    async fn claim(&self, primary: &Place, copy: &Copy) -> Result<Claim, Error> {
        let mut claim = mark(copy, primary, 0);
        claim.set(STATE, RESERVED);
        let place = &copy.place;
        for _ in 0..ROUNDS {
            let row = Row { place: place.clone(), entity: claim.clone() };
            if let Outcome::Done(Some(etag)) = self.store.insert(row.clone()).await? {
                return Ok(Claim { place: place.clone(), etag, is_new: true });
            }
            let Some(held) = self.store.get(place).await? else { continue };
            if !points_to(&held, primary) && !self.is_free(&held, place).await? {
                return Err(violation(copy));
            }
            // A row of our own primary is taken over too: the client that made it must notice that others rely on it.
            if let Outcome::Done(Some(etag)) = self.store.replace(row, held.etag).await? {
                return Ok(Claim { place: place.clone(), etag, is_new: false });
            }
        }
        Err(Error::new(ErrorKind::Contended { attempts: ROUNDS }))
    }

    /// Whether a row has a value that its primary, read after it, does not have.
    async fn is_free(&self, held: &Stored, place: &Place) -> Result<bool, Error> {
        if self.is_young_claim(held) {
            return Ok(false);
        }
        let holder = primary_of(&held.entity, &place.key, self.table);
        let Some(holder) = holder else { return Ok(false) };
        Ok(!self.justifies(self.store.get(&holder).await?.as_ref(), place)?)
    }

    /// W4 to W6.
    async fn follow_up(&self, place: &Place, candidates: &[Place]) -> Result<(), Error> {
        match self.reconcile(place, candidates, &mut Standing::Noted).await? {
            Settled::Done => Ok(()),
            Settled::TooYoung => Err(Error::new(ErrorKind::Contended { attempts: ROUNDS })),
        }
    }

    /// Ends a write that has not committed: removes the claims that only this write knows of, and completes those that
    /// it took over if the primary, in its current state, has them.
    async fn give_up(
        &self,
        error: Error,
        primary: &Place,
        claims: &[Claim],
        note: Option<&NoteId>,
    ) -> Error {
        let mut left = Vec::new();
        for claim in claims {
            let is_removed = claim.is_new
                && matches!(
                    self.store.delete(&claim.place, claim.etag.clone()).await,
                    Ok(Outcome::Done(_))
                );
            if !is_removed {
                left.push(claim.place.clone());
            }
        }
        let is_clean = left.is_empty()
            || matches!(
                self.reconcile(primary, &left, &mut Standing::Noted).await,
                Ok(Settled::Done)
            );
        if is_clean && let Some(note) = note {
            let _ = self.store.delete_note(note).await;
        }
        error
    }

    /// Makes the copies at `candidates` agree with the primary as it is.
    async fn reconcile(
        &self,
        primary: &Place,
        candidates: &[Place],
        standing: &mut Standing,
    ) -> Result<Settled, Error> {
        for _ in 0..ROUNDS {
            if let Some(settled) = self.round(primary, candidates, standing).await? {
                return Ok(settled);
            }
        }
        Err(Error::new(ErrorKind::Contended { attempts: ROUNDS }))
    }

    /// One round; `None` if somebody came between.
    async fn round(
        &self,
        primary: &Place,
        candidates: &[Place],
        standing: &mut Standing,
    ) -> Result<Option<Settled>, Error> {
        let mut found = Vec::with_capacity(candidates.len());
        for place in candidates {
            found.push((place, self.store.get(place).await?));
        }
        // Read after the copies: if a copy is touched from now on, our write to it fails (rule 2).
        let before = self.store.get(primary).await?;
        let wanted = match &before {
            Some(stored) => (self.shape)(&stored.entity)?,
            None => Vec::new(),
        };
        let ticks = before.as_ref().map_or(0, |stored| stored.timestamp.ticks());
        let (mut has_written, mut is_young) = (false, false);
        for (place, copy) in found {
            let want = wanted.iter().find(|wanted| wanted.place == *place);
            let change = match (want, copy) {
                (Some(want), None) => Change::Insert(mark(want, primary, ticks)),
                (Some(want), Some(copy)) if points_to(&copy, primary) => {
                    let is_damaged = self.is_thorough && !is_as_wanted(&copy.entity, want);
                    let is_present = source_of(&copy) == ticks && is_damaged;
                    if source_of(&copy) >= ticks && !is_present {
                        continue;
                    }
                    Change::Replace(mark(want, primary, ticks), copy.etag)
                }
                (Some(want), Some(copy)) => {
                    // In a unique index: two holders, or one about to be taken over.
                    if !self.is_free(&copy, place).await? {
                        return Err(violation(want));
                    }
                    Change::Replace(mark(want, primary, ticks), copy.etag)
                }
                (None, Some(copy)) if points_to(&copy, primary) => {
                    if self.is_young_claim(&copy) {
                        is_young = true;
                        continue;
                    }
                    Change::Delete(copy.etag)
                }
                (None, _) => continue,
            };
            if matches!(standing, Standing::Unnoted) {
                *standing = Standing::Left(self.leave_note(primary, candidates).await?);
            }
            if self.send(place, change).await? == Outcome::Refused {
                return Ok(None);
            }
            has_written = true;
        }
        if has_written {
            let after = self.store.get(primary).await?;
            let etag = |stored: &Option<Stored>| stored.as_ref().map(|stored| stored.etag.clone());
            if etag(&after) != etag(&before) {
                return Ok(None);
            }
        }
        Ok(Some(if is_young { Settled::TooYoung } else { Settled::Done }))
    }

    fn justifies(&self, primary: Option<&Stored>, place: &Place) -> Result<bool, Error> {
        let Some(primary) = primary else { return Ok(false) };
        Ok((self.shape)(&primary.entity)?.iter().any(|copy| copy.place == *place))
    }

    fn is_young_claim(&self, row: &Stored) -> bool {
        is_reserved(&row.entity) && !self.has_passed(row.timestamp, self.claim_age)
    }

    fn has_passed(&self, since: Timestamp, time: Duration) -> bool {
        u128::from(self.store.now().millis_since(since)) >= time.as_millis()
    }
}

/// A copy ready to be written, with the key of its primary and the state it was made from.
pub(super) fn mark(copy: &Copy, primary: &Place, ticks: u64) -> Entity {
    let mut entity = copy.entity.clone();
    entity.set(PARTITION, primary.key.partition.as_str());
    entity.set(ROW, primary.key.row.as_str());
    entity.set(SOURCE, i64::try_from(ticks).unwrap_or(i64::MAX));
    entity
}

/// The key of a copy's primary; `None` for a row that is not a copy.
pub(crate) fn primary_of(copy: &Entity, at: &EntityKey, table: &str) -> Option<Place> {
    let partition = copy.str(PARTITION).unwrap_or(at.partition.as_str());
    let key = EntityKey::parse(partition, copy.str(ROW).ok()?).ok()?;
    Some(Place { table: table.to_owned(), key })
}

/// Whether a copy only reserves its value.
pub(crate) fn is_reserved(copy: &Entity) -> bool {
    copy.str(STATE) == Ok(RESERVED)
}

fn points_to(copy: &Stored, primary: &Place) -> bool {
    copy.entity.str(PARTITION) == Ok(primary.key.partition.as_str())
        && copy.entity.str(ROW) == Ok(primary.key.row.as_str())
}

/// The state that a copy was made from. A claim has none (P-2.1).
fn source_of(copy: &Stored) -> u64 {
    if copy.entity.value(STATE).is_some() {
        return 0;
    }
    let ticks = copy.entity.get::<i64>(SOURCE).ok();
    ticks.and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(0)
}

fn violation(copy: &Copy) -> Error {
    let value_key = copy.place.key.row.as_str().to_owned();
    Error::new(ErrorKind::UniqueViolation { index: copy.index, value_key })
        .with(|context| context.key = Some(copy.place.key.clone()))
}
