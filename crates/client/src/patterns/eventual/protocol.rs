//! The write protocol of copies in other partitions (P-2, W1 to W7).
//!
//! The primary is the truth. Three rules keep copies from being lost or left, whoever dies where:
//!
//! 1. Whoever may write or delete a copy at a place has a note that names the place, and deletes the note
//!    when the place agrees with the primary. Nobody writes a copy at a place that its note does not name.
//! 2. A copy is deleted, or taken from another primary, only in this order: read the copy, then read its
//!    primary, then write under the version of the copy that was read. Whoever makes a primary hold a unique
//!    value touches the copy before, so the condition fails if the answer about the primary is out of date.
//! 3. A claim that is young belongs to its primary, and only who inserted it and has seen nobody touch it
//!    deletes it before its age.

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
/// What names the primary of a copy (P-0.2).
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

/// What copies an entity has: the type's declaration.
pub(crate) type Shape<'a> = &'a (dyn Fn(&Entity) -> Result<Vec<Copy>, Error> + Send + Sync);

/// A write of a primary.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Insert(Entity),
    Replace(Entity, ETag),
    Delete(ETag),
}

/// How far a write came that is acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Acknowledged {
    /// The version of the primary; `None` if it is deleted.
    pub(crate) etag: Option<ETag>,
    /// Whether copies are left to the worker.
    pub(crate) is_pending: bool,
}

/// What a worker made of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Copies agree with the primary.
    Done,
    /// A claim is too young to be judged: the note must come back.
    TooYoung,
}

#[derive(Clone, Copy)]
pub(crate) struct Protocol<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) shape: Shape<'a>,
    /// The table of the primaries.
    pub(crate) table: &'a str,
    /// What notes call the type.
    pub(crate) kind: &'a str,
    pub(crate) claim_age: Duration,
    /// Whether notes are sent; without them a crash leaves work for a repair (P-2.7).
    pub(crate) has_notes: bool,
    /// Whether W4 to W7 are left to the worker.
    pub(crate) is_deferred: bool,
    /// Whether a copy of the present state is replaced if it holds something else: what a foreign writer left.
    pub(crate) is_thorough: bool,
}

/// A claim that this write made.
struct Claim {
    place: Place,
    etag: ETag,
    /// Whether the row was not there before.
    is_new: bool,
}

impl Protocol<'_> {
    /// Writes a primary at `place` and its copies. `old` are the copies of the state that the change is based on.
    ///
    /// An error before the commit point means that nothing was written, but for claims that age.
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
        // A claim may be taken over when it is old: a writer that slept so long does not commit (P-2.3a).
        if !claims.is_empty() && self.has_passed(began, self.claim_age / 2) {
            let error = Error::new(ErrorKind::Timeout);
            return Err(self.give_up(error, place, &claims, note.as_ref()).await);
        }
        let is_insert = matches!(change, Change::Insert(_));
        let committed = match self.commit(place, change).await {
            Ok(Outcome::Done(etag)) => etag,
            Ok(Outcome::Refused) => {
                let kind = match is_insert {
                    true => ErrorKind::Conflict,
                    false => ErrorKind::PreconditionFailed,
                };
                return Err(self.give_up(Error::new(kind), place, &claims, note.as_ref()).await);
            }
            // It may be done: claims stay, and the worker looks (P-2.4).
            Err(error) => return Err(error),
        };
        let is_pending = self.is_deferred || self.follow_up(place, &candidates).await.is_err();
        if !is_pending && let Some(note) = &note {
            // The worker finds nothing to do if this is lost.
            let _ = self.store.delete_note(note).await;
        }
        Ok(Acknowledged { etag: committed, is_pending })
    }

    /// What the worker does with a note. May run any number of times, at any time, by anybody.
    pub(crate) async fn settle(&self, note: &Note) -> Result<Settled, Error> {
        self.reconcile(&note.primary, &note.candidates).await
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

    async fn commit(&self, place: &Place, change: Change) -> Result<Outcome, Error> {
        let row = |entity| Row { place: place.clone(), entity };
        match change {
            Change::Insert(entity) => self.store.insert(row(entity)).await,
            Change::Replace(entity, etag) => self.store.replace(row(entity), etag).await,
            Change::Delete(etag) => self.store.delete(place, etag).await,
        }
    }

    /// W2: claims the unique values that are new.
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
            // A row of our own primary is taken over too: whoever made it must see that others count on it.
            if let Outcome::Done(Some(etag)) = self.store.replace(row, held.etag).await? {
                return Ok(Claim { place: place.clone(), etag, is_new: false });
            }
        }
        Err(Error::new(ErrorKind::Contended { attempts: ROUNDS }))
    }

    /// Whether a row holds a value that its primary, read after it, does not have.
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
        match self.reconcile(place, candidates).await? {
            Settled::Done => Ok(()),
            Settled::TooYoung => Err(Error::new(ErrorKind::Contended { attempts: ROUNDS })),
        }
    }

    /// Ends a write that has not committed: removes the claims that only this write knows of, and completes
    /// those that it took over if the primary, as it is, has them.
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
        let is_clean =
            left.is_empty() || matches!(self.reconcile(primary, &left).await, Ok(Settled::Done));
        if is_clean && let Some(note) = note {
            let _ = self.store.delete_note(note).await;
        }
        error
    }

    /// Makes the copies at `candidates` agree with the primary as it is.
    async fn reconcile(&self, primary: &Place, candidates: &[Place]) -> Result<Settled, Error> {
        for _ in 0..ROUNDS {
            if let Some(settled) = self.round(primary, candidates).await? {
                return Ok(settled);
            }
        }
        Err(Error::new(ErrorKind::Contended { attempts: ROUNDS }))
    }

    /// One round; `None` if somebody came between.
    async fn round(&self, primary: &Place, candidates: &[Place]) -> Result<Option<Settled>, Error> {
        let mut found = Vec::with_capacity(candidates.len());
        for place in candidates {
            found.push((place, self.store.get(place).await?));
        }
        // After the copies: a copy that is touched from now on refuses our writes (rule 2).
        let before = self.store.get(primary).await?;
        let wanted = match &before {
            Some(stored) => (self.shape)(&stored.entity)?,
            None => Vec::new(),
        };
        let ticks = before.as_ref().map_or(0, |stored| stored.timestamp.ticks());
        let (mut has_written, mut is_young) = (false, false);
        for (place, copy) in found {
            let want = wanted.iter().find(|wanted| wanted.place == *place);
            let outcome = match (want, copy) {
                (Some(want), None) => {
                    let entity = mark(want, primary, ticks);
                    self.store.insert(Row { place: place.clone(), entity }).await?
                }
                (Some(want), Some(copy)) if points_to(&copy, primary) => {
                    let is_damaged = self.is_thorough && !is_as_wanted(&copy.entity, want);
                    let is_present = source_of(&copy) == ticks && is_damaged;
                    if source_of(&copy) >= ticks && !is_present {
                        continue;
                    }
                    let row = Row { place: place.clone(), entity: mark(want, primary, ticks) };
                    self.store.replace(row, copy.etag).await?
                }
                (Some(want), Some(copy)) => {
                    // Of a unique index: two holders, or one that is about to be taken over.
                    if !self.is_free(&copy, place).await? {
                        return Err(violation(want));
                    }
                    let row = Row { place: place.clone(), entity: mark(want, primary, ticks) };
                    self.store.replace(row, copy.etag).await?
                }
                (None, Some(copy)) if points_to(&copy, primary) => {
                    if self.is_young_claim(&copy) {
                        is_young = true;
                        continue;
                    }
                    self.store.delete(place, copy.etag).await?
                }
                (None, _) => continue,
            };
            if outcome == Outcome::Refused {
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

/// A copy as it is written: it names its primary and the state it was made from.
pub(super) fn mark(copy: &Copy, primary: &Place, ticks: u64) -> Entity {
    let mut entity = copy.entity.clone();
    entity.set(PARTITION, primary.key.partition.as_str());
    entity.set(ROW, primary.key.row.as_str());
    entity.set(SOURCE, i64::try_from(ticks).unwrap_or(i64::MAX));
    entity
}

/// Where the primary of a copy is; `None` for a row that is no copy.
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

/// What a copy was made from. A claim counts as nothing (P-2.1).
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
