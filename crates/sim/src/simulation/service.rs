//! Sends the requests of a history to the table service itself.

use crate::history::{
    Change, ChangeKind, Condition, EntityId, INDEXES, Index, IndexUpkeep, LIFE_SECONDS, Refusal,
    Request, Response, SLOT_NAMES, Scan, Slots, Stored, Version,
};
use lazuli_engine::Engine;
use lazuli_engine::retry::Pace;
use lazuli_model::{
    AccountName, Clock, ETag, EntityKey, Expiry, Feed, FeedRetention, Filter, IfMatch, Images,
    IndexDefinition, IndexDefinitions, IndexError, IndexName, Operator, Properties, Property,
    TableName, Timestamp, Value, ValueRef,
};
use lazuli_table::{
    Batch, Continuation, EntityQuery, EntityRef, Mutation, MutationKind, TableError, TableService,
};
use std::sync::Arc;

/// The account of clients that call the service directly.
pub(super) const ACCOUNT: &str = "simulated";

/// A client of one table of the service.
#[derive(Clone)]
pub(super) struct ServiceClient {
    service: TableService,
    clock: Arc<dyn Clock>,
    account: AccountName,
    table: TableName,
}

impl ServiceClient {
    #[expect(clippy::expect_used, reason = "both names are literals that keep the rules")]
    pub(super) fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, pace: Arc<dyn Pace>) -> Self {
        Self {
            // The store judges a guard when it orders the commit, so no write can miss an index.
            service: TableService::new(engine, clock.clone())
                .with_pace(pace)
                .with_index_settles_ms(0),
            clock,
            account: AccountName::parse(ACCOUNT).expect("an account name"),
            table: TableName::parse(super::TABLE).expect("a table name"),
        }
    }

    /// The service itself.
    pub(super) fn tables(&self) -> TableService {
        self.service.clone()
    }

    pub(super) async fn call(&self, request: &Request) -> Response {
        let (account, table) = (&self.account, &self.table);
        match request {
            Request::Get(entity) => self.get(*entity).await,
            Request::Change(change) => {
                let Some(mutation) = mutation(change) else { return Response::NotDone };
                match self.service.mutate(account, table, &mutation).await {
                    Ok(at) => written(request, at),
                    Err(error) => failure(0, error),
                }
            }
            Request::Batch(changes) => self.batch(request, changes).await,
            Request::Scan(scan) => self.scan(scan).await,
            Request::CreateTable => match self.service.create_table(account, table).await {
                Ok(()) => Response::TableCreated,
                Err(error) => failure(0, error),
            },
            Request::DeleteTable => match self.service.delete_table(account, table).await {
                Ok(()) => Response::TableDeleted,
                Err(error) => failure(0, error),
            },
            Request::Index(upkeep) => match self.index(*upkeep).await {
                Ok(()) => Response::SettingsChanged,
                Err(error) => failure(0, error),
            },
            Request::SetExpiry => {
                let expiry = Expiry::Seconds(LIFE_SECONDS);
                let set = self.service.set_expiry(account, table, &expiry).await;
                // The table is recorded from now on.
                let set = match set {
                    Ok(()) => self.service.set_feed(account, table, recorded()).await,
                    failed => failed,
                };
                match set {
                    Ok(()) => Response::SettingsChanged,
                    Err(error) => failure(0, error),
                }
            }
        }
    }

    async fn index(&self, upkeep: IndexUpkeep) -> Result<(), TableError> {
        let (account, table) = (&self.account, &self.table);
        // The names of the indexes are valid.
        let Ok((indexes, first)) = indexes() else { return Ok(()) };
        match upkeep {
            // The table is recorded from now on.
            IndexUpkeep::Declare => {
                self.service.declare_indexes(account, table, &indexes).await?;
                self.service.set_feed(account, table, recorded()).await
            }
            IndexUpkeep::Rebuild => {
                self.service.rebuild_index(account, table, &first).await.map(drop)
            }
        }
    }

    pub(super) async fn reclaim(&self) {
        // The task retries later, whatever went wrong.
        let _ = self.service.reclaim_some(self.clock.now()).await;
    }

    async fn get(&self, entity: EntityId) -> Response {
        let Some(key) = key(entity) else { return Response::NotDone };
        match self.service.get(&self.account, &self.table, &key).await {
            Ok(found) => match found.properties() {
                Ok(properties) => {
                    let version = found.timestamp.ticks();
                    Response::Entity(Some(Stored { version, slots: slots(&properties) }))
                }
                Err(error) => failure(0, error),
            },
            Err(TableError::EntityNotFound) => Response::Entity(None),
            Err(error) => failure(0, error),
        }
    }

    async fn batch(&self, request: &Request, changes: &[Change]) -> Response {
        let operations: Option<Vec<_>> =
            changes.iter().map(|change| Some((self.table.clone(), mutation(change)?))).collect();
        let Some(batch) = operations.and_then(|operations| Batch::new(operations).ok()) else {
            return Response::NotDone;
        };
        match self.service.transact(&self.account, &batch).await {
            Ok(at) => written(request, at),
            Err(fault) => failure(fault.index, fault.error),
        }
    }

    async fn scan(&self, scan: &Scan) -> Response {
        let partition = scan.partition.map(|partition| {
            let key = EntityId::new(partition, 0).partition_key();
            Filter::compare(Property::PartitionKey, Operator::Eq, key)
        });
        let value = scan.value.map(|value| {
            let value = i32::try_from(value).unwrap_or_default();
            Filter::compare(Property::from_name(SLOT_NAMES[0]), Operator::Eq, value)
        });
        let filter = match (partition, value) {
            (Some(partition), Some(value)) => Some(partition.and(value)),
            (partition, value) => partition.or(value),
        };
        let from = scan.from.map(|from| Continuation {
            partition: from.partition_key(),
            row: Some(from.row_key()),
        });
        let query = EntityQuery { filter, top: scan.top, from, ..EntityQuery::default() };
        let mut entities = Vec::new();
        let mut take = |entity: EntityRef<'_>| entities.extend(listed(&entity));
        match self.service.query(&self.account, &self.table, query, &mut take).await {
            Ok(end) => {
                let next = |next: Continuation| {
                    EntityId::parse(&next.partition, &next.row.unwrap_or_default())
                };
                Response::Page { entities, next: end.next.and_then(next) }
            }
            Err(error) => failure(0, error),
        }
    }
}

/// The feed of the table.
fn recorded() -> Feed {
    Feed { images: Images::New, retention: FeedRetention::DEFAULT }
}

/// The indexes, and the name of the first.
fn indexes() -> Result<(IndexDefinitions, IndexName), IndexError> {
    let [first, _] = INDEXES;
    let index = |index: Index| IndexDefinition::new(index.name, &[index.on], index.is_unique);
    let definitions = INDEXES.into_iter().map(index).collect::<Result<_, _>>()?;
    Ok((IndexDefinitions::new(definitions)?, IndexName::parse(first.name)?))
}

fn listed(entity: &EntityRef<'_>) -> Option<(EntityId, Stored)> {
    let id = EntityId::parse(entity.partition_key, entity.row_key)?;
    Some((id, Stored { version: entity.timestamp.ticks(), slots: slots(entity.properties) }))
}

fn slots(properties: &[(&str, ValueRef<'_>)]) -> Slots {
    SLOT_NAMES.map(|name| {
        let found = properties.iter().find(|(found, _)| *found == name);
        number(found.map(|(_, value)| *value))
    })
}

fn key(entity: EntityId) -> Option<EntityKey> {
    EntityKey::parse(&entity.partition_key(), &entity.row_key()).ok()
}

fn mutation(change: &Change) -> Option<Mutation<'static>> {
    let kind = match change.kind {
        ChangeKind::Insert => MutationKind::Insert,
        ChangeKind::InsertOrReplace => MutationKind::InsertOrReplace,
        ChangeKind::Replace(condition) => MutationKind::Replace(if_match(condition)),
        ChangeKind::InsertOrMerge => MutationKind::InsertOrMerge,
        ChangeKind::Merge(condition) => MutationKind::Merge(if_match(condition)),
        ChangeKind::Delete(condition) => MutationKind::Delete(if_match(condition)),
    };
    Mutation::new(key(change.entity)?, kind, properties(change.slots)?).ok()
}

fn properties(slots: Slots) -> Option<Properties<'static>> {
    let pairs = SLOT_NAMES.into_iter().zip(slots).filter_map(|(name, slot)| {
        Some((name.into(), Value::Int32(i32::try_from(slot?).unwrap_or_default())))
    });
    Properties::new(pairs.collect()).ok()
}

fn if_match(condition: Condition) -> IfMatch {
    match condition {
        Condition::Any => IfMatch::Any,
        Condition::At(version) => {
            IfMatch::Version(ETag(Timestamp::from_ticks(version).unwrap_or(Timestamp::MAX)))
        }
    }
}

fn number(value: Option<ValueRef<'_>>) -> Option<u32> {
    match value {
        Some(ValueRef::Int32(number)) => u32::try_from(number).ok(),
        _ => None,
    }
}

/// As over HTTP, where the response to a deletion has no version.
fn written(request: &Request, at: Timestamp) -> Response {
    let deletes = |change: &Change| matches!(change.kind, ChangeKind::Delete(_));
    let version: Version = at.ticks();
    Response::Written((!request.changes().iter().all(deletes)).then_some(version))
}

/// The response for an error, as from the HTTP front.
fn failure(index: usize, error: TableError) -> Response {
    let refused = |reason| Response::Refused { index, reason };
    match error {
        TableError::TableNotFound => Response::TableNotFound,
        TableError::TableAlreadyExists => Response::TableAlreadyExists,
        TableError::EntityNotFound => refused(Refusal::EntityNotFound),
        // As on the wire. Unique values in a history are written once, so the model refuses this.
        TableError::EntityAlreadyExists | TableError::IndexConflict(_) => {
            refused(Refusal::EntityAlreadyExists)
        }
        TableError::ConditionNotMet => refused(Refusal::ConditionNotMet),
        TableError::Busy => Response::NotDone,
        _ => Response::Unknown,
    }
}
