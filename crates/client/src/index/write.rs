//! Writes of types with indexes: the entity and its copies in one transaction (P-1.3 to P-1.7).

use super::IndexProjection;
use super::copies::{CopyRow, changes, in_partition};
use crate::account::Account;
use crate::batch::{self, BatchError, BatchFault, Committed, Operation};
use crate::codec::{self, encode, encode_read};
use crate::entity::{Entity, Loaded, Properties, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::options::CallOptions;
use crate::shape::is_indexed;
use crate::table;
use crate::update::pause;
use crate::write::WriteVerb;
use lazuli_model::{EntityKey, TableName};

/// Attempts of a write that reads first.
const ATTEMPTS: u32 = 8;

/// What a write must do besides writing the entity.
pub(crate) enum Indexing {
    /// The changes of the copies are known.
    Known(Vec<Operation>),
    /// The current copies are unknown: the entity is read first, and then written conditionally on its version
    /// (P-1.5).
    ReadFirst(Plan),
}

/// Determines the operation for the stored state; `None` if there is nothing to do.
pub(crate) type Plan =
    Box<dyn Fn(Option<&Loaded<Entity>>) -> Result<Option<Operation>, Error> + Send + Sync>;

/// The copies that a stored entity should have.
fn copies_of<T: TableEntity>(entity: &Entity) -> Result<Vec<CopyRow>, Error> {
    let Some(decoded) = codec::decode::<T>(entity.clone())? else { return Ok(Vec::new()) };
    match decoded.copies {
        Some(copies) => Ok(copies.to_vec()),
        None => Ok(Vec::new()),
    }
}

impl Indexing {
    /// How a write of a value updates indexes; `None` if neither its type has one, nor what it may replace.
    pub(crate) fn of_value<T: TableEntity>(
        verb: WriteVerb,
        value: &T,
        encoded: &Result<(EntityKey, Properties), Error>,
        loaded: Option<&Loaded<T>>,
        if_match: Option<&str>,
    ) -> Result<Option<Self>, Error> {
        let Ok((key, properties)) = encoded else { return Ok(None) };
        let known = loaded.and_then(Loaded::copies);
        if value.shape().indexes.is_empty() {
            // It may take the place of an entity of another type of the union, which has copies.
            let may_have_copies = match (verb, known) {
                (WriteVerb::Insert, _) => false,
                (WriteVerb::Replace, Some(old)) => !old.is_empty(),
                _ => may_be_indexed::<T>(key),
            };
            if !may_have_copies {
                return Ok(None);
            }
        }
        let new = in_partition(value, key, properties)?;
        Ok(Some(match (verb, known) {
            (WriteVerb::Insert, _) => Self::Known(changes(&[], &new)),
            (WriteVerb::Replace, Some(old)) => Self::Known(changes(old, &new)),
            _ => {
                let etag = if_match.filter(|etag| *etag != "*").map(str::to_owned);
                let (key, properties) = (key.clone(), properties.clone());
                Self::ReadFirst(plan::<T>(verb, key, properties, etag, Some(new)))
            }
        }))
    }

    /// How a merge of some properties updates indexes; `None` if no copy contains them (P-1.6).
    pub(crate) fn of_merge<T: TableEntity>(
        verb: WriteVerb,
        key: &EntityKey,
        properties: &Properties,
        if_match: Option<&str>,
    ) -> Option<Self> {
        let touches = T::SHAPES.iter().any(|shape| {
            shape.indexes.iter().any(|def| match def.projection {
                IndexProjection::All => true,
                IndexProjection::Fields(_) | IndexProjection::Keys => {
                    let projected: &[&str] = match def.projection {
                        IndexProjection::Fields(fields) => fields,
                        _ => &[],
                    };
                    let mut held = shape.properties.iter().filter(|property| {
                        projected.contains(&property.field) || def.fields.contains(&property.field)
                    });
                    held.any(|property| properties.values().any(|(name, _)| property.holds(name)))
                }
            })
        });
        let etag = if_match.filter(|etag| *etag != "*").map(str::to_owned);
        touches
            .then(|| Self::ReadFirst(plan::<T>(verb, key.clone(), properties.clone(), etag, None)))
    }

    /// How a deletion updates indexes; `None` if the type has no index.
    pub(crate) fn of_delete<T: TableEntity>(
        loaded: Option<&Loaded<T>>,
        if_match: Option<&str>,
    ) -> Option<Self> {
        if const { !is_indexed::<T>() } {
            return None;
        }
        if let Some(old) = loaded.and_then(Loaded::copies) {
            return Some(Self::Known(changes(old, &[])));
        }
        let etag = if_match.map(str::to_owned);
        Some(Self::ReadFirst(Box::new(move |found| {
            let Some(found) = found else { return Ok(None) };
            check(found, etag.as_deref())?;
            let old = copies_of::<T>(found)?;
            let remove = Operation::remove(found.loaded_key().clone(), found.etag().as_str());
            Ok(Some(remove.with_copies(changes(&old, &[]))))
        })))
    }
}

/// Whether an entity of a type with indexes may have this key, by the beginning of its row key.
pub(crate) fn may_be_indexed<T: TableEntity>(key: &EntityKey) -> bool {
    let mut indexed = T::SHAPES.iter().filter(|shape| !shape.indexes.is_empty());
    indexed.any(|shape| key.row.as_str().starts_with(shape.layout.row_prefix))
}

/// The operation of a blind write, given what is stored.
fn plan<T: TableEntity>(
    verb: WriteVerb,
    key: EntityKey,
    properties: Properties,
    etag: Option<String>,
    new: Option<Vec<CopyRow>>,
) -> Plan {
    Box::new(move |found| {
        let merges = matches!(verb, WriteVerb::Merge | WriteVerb::UpsertMerge);
        let inserts = matches!(verb, WriteVerb::Upsert | WriteVerb::UpsertMerge);
        let whole = |base: Entity| {
            properties
                .values()
                .fold(base, |entity, (name, value)| entity.with(name.to_owned(), value.clone()))
        };
        let written = |verb, etag: Option<&str>| {
            Operation::write(verb, Ok((key.clone(), properties.clone())), etag)
        };
        match found {
            None if !inserts => Err(Error::new(ErrorKind::NotFound)),
            None => {
                let new = match &new {
                    Some(new) => new.clone(),
                    None => copies_of::<T>(&whole(Entity::new(
                        key.partition.as_str(),
                        key.row.as_str(),
                    )))?,
                };
                let insert = written(WriteVerb::Insert, None)?;
                Ok(Some(insert.with_copies(changes(&[], &new))))
            }
            Some(found) => {
                check(found, etag.as_deref())?;
                let old = copies_of::<T>(found)?;
                let merged = match &new {
                    Some(new) if !merges => new.clone(),
                    _ => copies_of::<T>(&whole(Entity::clone(found)))?,
                };
                let verb = if merges { WriteVerb::Merge } else { WriteVerb::Replace };
                let mut write = written(verb, Some(found.etag().as_str()))?;
                write.base = found.write_ids().clone();
                Ok(Some(write.with_copies(changes(&old, &merged))))
            }
        }
    })
}

/// Fails if the stored version is not the requested one.
fn check(found: &Loaded<Entity>, etag: Option<&str>) -> Result<(), Error> {
    match etag {
        Some(etag) if etag != found.etag().as_str() => {
            Err(Error::new(ErrorKind::PreconditionFailed))
        }
        _ => Ok(()),
    }
}

/// The operation of a write of an indexed type in a transaction, which knows the current copies.
pub(crate) fn operation<T: TableEntity>(
    verb: WriteVerb,
    value: &T,
    loaded: Option<&Loaded<T>>,
    if_match: Option<&str>,
) -> Result<Operation, Error> {
    let encoded = match loaded {
        Some(loaded) => encode_read(loaded),
        None => encode(value),
    };
    let indexing = Indexing::of_value(verb, value, &encoded, loaded, if_match)?;
    let mut write = Operation::write(verb, encoded, if_match)?;
    if let Some(loaded) = loaded {
        write.base = loaded.write_ids().clone();
    }
    match indexing {
        None => Ok(write),
        Some(Indexing::Known(copies)) => Ok(write.with_copies(copies)),
        Some(Indexing::ReadFirst(_)) => Err(blind(write.key)),
    }
}

/// The error of a write that would have to read first where reading is not possible.
pub(crate) fn blind(key: EntityKey) -> Error {
    Error::config("a type with indexes is written here as it was read, to find its old copies")
        .with(|context| {
            context.key = Some(key);
            context.hint = Some("read it and use replace or delete, or write it alone".into());
        })
}

/// Sends one write with its copies; `None` if there was nothing to do.
pub(crate) async fn send(
    account: &Account,
    table: &TableName,
    operation: Operation,
    indexing: Indexing,
    options: CallOptions,
) -> Result<Option<Committed>, Error> {
    let plan = match indexing {
        Indexing::Known(copies) => {
            let write = operation.with_copies(copies);
            let own = account.0.env.guid();
            let sent = batch::send_with_id(account, table, vec![write], own, options).await;
            return sent.map(Some).map_err(as_lone);
        }
        Indexing::ReadFirst(plan) => plan,
    };
    let env = &account.0.env;
    let deadline = options.deadline(env);
    for attempts in 1..=ATTEMPTS {
        let read = options.until(deadline, env);
        let found: Option<Loaded<Entity>> =
            table::get(account, table, &operation.key, read).await?;
        // A row that is not an entity does not exist for writers of entities (P-0.3).
        let found = found.filter(|row| row.value(codec::INDEX_MARK).is_none());
        let Some(write) = plan(found.as_ref())? else { return Ok(None) };
        let own = env.guid();
        let options = options.until(deadline, env);
        match batch::send_with_id(account, table, vec![write], own, options).await.map_err(as_lone)
        {
            Ok(committed) => return Ok(Some(committed)),
            Err(error) if error.may_have_been_applied() => return Err(error),
            // Another client wrote between the read and the write.
            Err(error)
                if error.is_precondition_failed()
                    || error.is_conflict()
                    || error.is_not_found() =>
            {
                if attempts < ATTEMPTS {
                    env.sleep(pause(env, attempts)).await;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(ErrorKind::Contended { attempts: ATTEMPTS }))
}

/// Turns the error of a transaction with a single write into that of the write.
pub(crate) fn as_lone(error: Error) -> Error {
    let error = error.with(|context| context.operation = None);
    if let ErrorKind::InvalidBatch(BatchError { reason: BatchFault::Write(kind), .. }) =
        error.kind()
    {
        let kind = (**kind).clone();
        return error.with_kind(kind);
    }
    match (error.kind(), error.status()) {
        (ErrorKind::Batch { .. }, Some(status)) => {
            let kind = crate::call::kind_of(status, error.code().unwrap_or_default());
            error.with_kind(kind)
        }
        _ => error,
    }
}
