//! Compares index copies with their entities, and repairs them: in the same or in other partitions, by type or by
//! layout (P-0.5).
//!
//! Writers may run concurrently: an apparent inconsistency is read again until the entity is the same before and after.
//! Each one is found from one side: a copy that is missing, or that another entity has, from the entity; one that is
//! wrong, or that no entity has, from the copy.

use super::FindingKind;
use super::eventual::CopyFinding;
use super::eventual::protocol::{Copy, Protocol, is_reserved, primary_of};
use super::eventual::service::ServiceStore;
use super::eventual::store::Place;
use super::property::{SOURCE, STATE};
use super::search::AT_ONCE;
use crate::account::Account;
use crate::batch::{self, Operation};
use crate::codec::INDEX_MARK;
use crate::entity::{Entity, Loaded, Properties};
use crate::error::{Error, ErrorKind};
use crate::index::is_moving;
use crate::options::CallOptions;
use crate::property::PropertyDef;
use crate::table;
use crate::tables::parse as parse_name;
use crate::update::pause;
use crate::write::WriteVerb;
use crate::write_ids::WRITE_IDS;
use futures_util::{StreamExt, TryStreamExt, stream};
use lazuli_model::EntityKey;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Attempts of a check or a repair that other clients disturb.
const ATTEMPTS: u32 = 8;
/// The properties with the key of a copy's entity.
const PRIMARY: [&str; 2] = ["_pk", "_rk"];

/// Returns the copies that an entity should have; none if it has another type.
pub(crate) type OwnedShape = Arc<dyn Fn(&Entity) -> Result<Vec<Copy>, Error> + Send + Sync>;

/// Compares and repairs the entities of a table, and their copies in this table and others.
#[derive(Clone)]
pub(crate) struct Upkeep {
    pub(crate) account: Account,
    /// The table of the entities.
    pub(crate) table: String,
    pub(crate) shape: OwnedShape,
    /// The values of `_ix` in our copies.
    pub(crate) marks: Vec<String>,
    /// The declarations of the entities' type.
    pub(crate) declared: &'static [PropertyDef],
    /// The age from which a claim is considered abandoned.
    pub(crate) claim_age: Duration,
    /// The only partition to check.
    pub(crate) partition: Option<String>,
}

/// The findings about some rows.
#[derive(Default)]
pub(crate) struct Looked {
    pub(crate) found: Vec<Examined>,
    /// Entities whose copies cannot be determined.
    pub(crate) unreadable: Vec<(EntityKey, Error)>,
}

/// A finding, and the rows it is based on.
pub(crate) struct Examined {
    pub(crate) finding: CopyFinding,
    pub(crate) primary: Option<Loaded<Entity>>,
    pub(crate) copy: Option<Loaded<Entity>>,
    pub(crate) wanted: Option<Copy>,
}

/// Rows that were read together.
type AtHand<'a> = HashMap<&'a EntityKey, &'a Loaded<Entity>>;

impl Upkeep {
    /// Checks rows of a table, and those that belong to them.
    pub(crate) async fn look(&self, table: &str, rows: &[Loaded<Entity>]) -> Result<Looked, Error> {
        let at_hand: AtHand<'_> = rows.iter().map(|row| (row.loaded_key(), row)).collect();
        let looks: Vec<_> = rows.iter().map(|row| self.look_at(table, row, &at_hand)).collect();
        let looked: Vec<Looked> = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
        Ok(looked.into_iter().fold(Looked::default(), |mut all, one| {
            all.found.extend(one.found);
            all.unreadable.extend(one.unreadable);
            all
        }))
    }

    async fn look_at(
        &self,
        table: &str,
        row: &Loaded<Entity>,
        at_hand: &AtHand<'_>,
    ) -> Result<Looked, Error> {
        let here = Place { table: table.to_owned(), key: row.loaded_key().clone() };
        let mut looked = Looked::default();
        match row.str(INDEX_MARK) {
            // A move in progress keeps it (P-12.6).
            Ok(_) if is_moving(row) => {}
            Ok(mark) if self.is_ours(mark) => {
                let primary = primary_of(row, &here.key, &self.table).unwrap_or(here.clone());
                if !self.is_justified(row, &here, &primary, at_hand).await? {
                    let examined = self.examine(&primary, &here, mark).await?;
                    let is_here = |found: &Examined| found.finding.kind.is_of_copy();
                    looked.found.extend(examined.filter(is_here));
                }
            }
            Err(_) if table == self.table => match self.copies(row)? {
                Ok(wanted) => {
                    for wanted in wanted {
                        looked.found.extend(self.look_for(&here, &wanted, at_hand).await?);
                    }
                }
                Err(error) => looked.unreadable.push((here.key, error)),
            },
            // A copy in another index, or a row of another table.
            _ => {}
        }
        Ok(looked)
    }

    /// Checks a copy that an entity should have, if the check does not start from the copy itself.
    async fn look_for(
        &self,
        here: &Place,
        wanted: &Copy,
        at_hand: &AtHand<'_>,
    ) -> Result<Option<Examined>, Error> {
        let place = &wanted.place;
        let read;
        let found = match at_hand.get(&place.key).filter(|_| place.table == self.table) {
            Some(found) => Some(*found),
            None => {
                read = self.read(place).await?;
                read.as_ref()
            }
        };
        let is_right = found.is_some_and(|found| {
            self.points(found, place).as_ref() == Some(here) && is_as_wanted(found, wanted)
        });
        if is_right {
            return Ok(None);
        }
        let is_looked_at =
            self.partition.as_deref().is_none_or(|only| only == place.key.partition.as_str());
        let mark = wanted.entity.str(INDEX_MARK).unwrap_or_default();
        let examined = self.examine(here, place, mark).await?;
        Ok(examined.filter(|found| !is_looked_at || !found.finding.kind.is_of_copy()))
    }

    /// Whether the entity of a copy confirms it.
    async fn is_justified(
        &self,
        copy: &Loaded<Entity>,
        here: &Place,
        primary: &Place,
        at_hand: &AtHand<'_>,
    ) -> Result<bool, Error> {
        let read;
        let entity = match at_hand.get(&primary.key).filter(|_| here.table == self.table) {
            Some(entity) => Some(*entity),
            None => {
                read = self.read(primary).await?;
                read.as_ref()
            }
        };
        let Some(entity) = entity else { return Ok(false) };
        let wanted = self.copies(entity)?.unwrap_or_default();
        Ok(wanted.iter().any(|wanted| wanted.place == *here && is_as_wanted(copy, wanted)))
    }

    /// Reads an entity and a copy until the entity is the same before and after, and returns what is wrong with the
    /// copy.
    pub(crate) async fn examine(
        &self,
        primary: &Place,
        copy: &Place,
        mark: &str,
    ) -> Result<Option<Examined>, Error> {
        for _ in 0..ATTEMPTS {
            let before = self.read(primary).await?;
            let found = self.read(copy).await?;
            let after = self.read(primary).await?;
            let version = |row: &Option<Loaded<Entity>>| row.as_ref().map(|row| row.etag().clone());
            if version(&before) != version(&after) {
                continue;
            }
            let wanted = match &after {
                // An entity that cannot be decoded is reported; its copies are left alone.
                Some(entity) => match self.copies(entity)? {
                    Ok(copies) => copies.into_iter().find(|wanted| wanted.place == *copy),
                    Err(_) => return Ok(None),
                },
                None => None,
            };
            let Some(kind) = self.judge(primary, copy, wanted.as_ref(), found.as_ref()).await?
            else {
                return Ok(None);
            };
            let finding = CopyFinding {
                kind,
                index: mark.to_owned(),
                table: copy.table.clone(),
                row: copy.key.clone(),
                primary: primary.key.clone(),
            };
            return Ok(Some(Examined { finding, primary: after, copy: found, wanted }));
        }
        // It changes all the time: its writers maintain its copies.
        Ok(None)
    }

    async fn judge(
        &self,
        primary: &Place,
        copy: &Place,
        wanted: Option<&Copy>,
        found: Option<&Loaded<Entity>>,
    ) -> Result<Option<FindingKind>, Error> {
        let Some(found) = found else { return Ok(wanted.map(|_| FindingKind::Missing)) };
        let holder = self.points(found, copy);
        if holder.as_ref() == Some(primary) {
            return Ok(match wanted {
                Some(wanted) if is_as_wanted(found, wanted) => None,
                // Its writer or a worker will complete or remove it soon.
                _ if self.is_young_claim(found) => None,
                Some(_) => Some(FindingKind::Stale),
                // A move in progress keeps it (P-12.6).
                None if is_moving(found) => None,
                None => Some(FindingKind::Orphan),
            });
        }
        let Some(_) = wanted else { return Ok(None) };
        // It belongs to another entity, or to none.
        let Some(holder) = holder else { return Ok(Some(FindingKind::Missing)) };
        let is_theirs = match self.read(&holder).await? {
            // Its entity is being moved there.
            _ if is_moving(found) => true,
            Some(entity) => {
                let wanted = self.copies(&entity)?.unwrap_or_default();
                wanted.iter().any(|wanted| wanted.place == *copy)
            }
            None => false,
        };
        Ok(Some(if is_theirs { FindingKind::Duplicate } else { FindingKind::Missing }))
    }

    /// Repairs copies concurrently; returns those that it cannot repair.
    pub(crate) async fn mend_all(&self, found: Vec<Examined>) -> Result<Vec<CopyFinding>, Error> {
        let mends = found.into_iter().map(|examined| async move {
            let finding = examined.finding.clone();
            let is_mended = self.mend(examined).await?;
            Ok::<_, Error>((!is_mended).then_some(finding))
        });
        let mends: Vec<_> = mends.collect();
        let left: Vec<Option<CopyFinding>> =
            stream::iter(mends).buffered(AT_ONCE).try_collect().await?;
        Ok(left.into_iter().flatten().collect())
    }

    /// Makes a copy agree with its entity; `false` if that is impossible: two entities want it, or its key is taken
    /// by a row that is not one of our copies.
    pub(crate) async fn mend(&self, mut examined: Examined) -> Result<bool, Error> {
        let CopyFinding { index, table, row, primary, .. } = examined.finding.clone();
        let primary = Place { table: self.table.clone(), key: primary };
        let copy = Place { table, key: row };
        let is_local = copy.table == primary.table && copy.key.partition == primary.key.partition;
        let env = &self.account.0.env;
        for attempts in 1..=ATTEMPTS {
            let is_taken =
                examined.copy.as_ref().is_some_and(|row| self.points(row, &copy).is_none());
            if examined.finding.kind == FindingKind::Duplicate || is_taken {
                return Ok(false);
            }
            let is_done = match is_local {
                true => self.mend_beside(&copy, &examined).await?,
                false => self.mend_elsewhere(&primary, &copy).await?,
            };
            if is_done {
                return Ok(true);
            }
            env.sleep(pause(env, attempts)).await;
            match self.examine(&primary, &copy, &index).await? {
                Some(again) => examined = again,
                None => return Ok(true),
            }
        }
        let contended = Error::new(ErrorKind::Contended { attempts: ATTEMPTS });
        Err(contended.at("repair", Some(&copy.table), Some(&copy.key)))
    }

    /// In one transaction, conditional on the entity's version; `false` if another client came in between.
    async fn mend_beside(&self, place: &Place, examined: &Examined) -> Result<bool, Error> {
        let copy_etag = examined.copy.as_ref().map(|copy| copy.etag().as_str());
        let write = match (&examined.wanted, copy_etag) {
            // Another entity may have got the value by now: then this is refused, and checked again.
            (Some(wanted), etag) => {
                let encoded = Ok((place.key.clone(), self.properties(&wanted.entity)));
                let verb = if etag.is_some() { WriteVerb::Replace } else { WriteVerb::Insert };
                Operation::write(verb, encoded, etag)?
            }
            // If an entity comes to justify it, the entity's writer writes it: then it has another version.
            (None, Some(etag)) => Operation::remove(place.key.clone(), etag),
            (None, None) => return Ok(true),
        };
        // The entity must not change in the meantime: an empty merge ensures that (C-10.5).
        let primary = examined.primary.as_ref().filter(|row| *row.loaded_key() != place.key);
        let guard = primary.map(|primary| {
            let encoded = Ok((primary.loaded_key().clone(), Properties::of(self.declared)));
            Operation::write(WriteVerb::Merge, encoded, Some(primary.etag().as_str()))
        });
        let name = parse_name(&self.table)?;
        let writes = guard.transpose()?.into_iter().chain([write]);
        let changes = batch::ChangeSet::of(&self.account, &name, writes)?.finish().await?;
        let sent = batch::send(
            &self.account,
            &name,
            &changes,
            batch::Trust::Content,
            CallOptions::default(),
        );
        match sent.await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::Batch { index: Some(_) }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// By the protocol for copies in other partitions; `false` if another client came in between.
    async fn mend_elsewhere(&self, primary: &Place, copy: &Place) -> Result<bool, Error> {
        let account = self.account.clone();
        let (grace, table) = (Duration::ZERO, self.table.clone());
        let store = ServiceStore { account, queue: None, grace, primary: table };
        let protocol = Protocol {
            store: &store,
            shape: &*self.shape,
            table: &self.table,
            kind: "",
            claim_age: self.claim_age,
            has_notes: false,
            is_deferred: false,
            is_thorough: true,
        };
        match protocol.mend(primary, copy).await {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                ErrorKind::UniqueViolation { .. } | ErrorKind::Contended { .. } => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn properties(&self, entity: &Entity) -> Properties {
        let mut properties = Properties::of(self.declared);
        for (name, value) in entity.properties() {
            properties.push(name.to_owned(), value.clone());
        }
        properties
    }

    async fn read(&self, place: &Place) -> Result<Option<Loaded<Entity>>, Error> {
        let name = parse_name(&place.table)?;
        match table::get(&self.account, &name, &place.key, CallOptions::default()).await {
            Err(error) if *error.kind() == ErrorKind::TableNotFound => Ok(None),
            found => found,
        }
    }

    /// The copies of an entity; the inner error is that of an entity that cannot be decoded.
    fn copies(&self, entity: &Entity) -> Result<Result<Vec<Copy>, Error>, Error> {
        match (self.shape)(entity) {
            Err(error) => match error.kind() {
                ErrorKind::Decode(_) | ErrorKind::Key(_) | ErrorKind::Config(_) => Ok(Err(error)),
                _ => Err(error),
            },
            Ok(copies) => Ok(Ok(copies)),
        }
    }

    /// The place of the entity that one of our copies names; its own place, if it names none.
    fn points(&self, row: &Entity, at: &Place) -> Option<Place> {
        let mark = row.str(INDEX_MARK).ok()?;
        let primary = || primary_of(row, &at.key, &self.table).unwrap_or(at.clone());
        self.is_ours(mark).then(primary)
    }

    fn is_ours(&self, mark: &str) -> bool {
        self.marks.iter().any(|ours| ours == mark)
    }

    fn is_young_claim(&self, row: &Loaded<Entity>) -> bool {
        let age = self.account.0.env.now().millis_since(row.timestamp());
        is_reserved(row) && u128::from(age) < self.claim_age.as_millis()
    }
}

/// Whether a copy has the right content, whichever write it was made from.
pub(crate) fn is_as_wanted(found: &Entity, wanted: &Copy) -> bool {
    // The blind index of an encrypted property is computed when it is sent (E-46).
    let is_blind = |name: &str| {
        name.strip_suffix("_bi").is_some_and(|of| wanted.entity.value(of).is_some())
            && wanted.entity.value(name).is_none()
    };
    let is_own = |name: &str| {
        [SOURCE, WRITE_IDS].contains(&name) || PRIMARY.contains(&name) || is_blind(name)
    };
    let count = |entity: &Entity| entity.properties().filter(|(name, _)| !is_own(name)).count();
    let mut properties = wanted.entity.properties().filter(|(name, _)| !is_own(name));
    found.value(STATE).is_none()
        && count(found) == count(&wanted.entity)
        && properties.all(|(name, value)| found.value(name) == Some(value))
}
