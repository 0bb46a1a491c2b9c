//! A small table cached in memory, for joins (P-12.4).

use crate::entity::{Loaded, TableEntity};
use crate::error::Error;
use crate::key::{Key, KeyError};
use crate::query::Entities;
use crate::table::Table;
use lazuli_model::EntityKey;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A small table that changes rarely, read once and cached in memory.
///
/// When the cache is older than [`Lookup::refresh_every`], the next lookup starts a refresh but is answered from the
/// old cache. Clones share the cache.
#[derive(Debug)]
pub struct Lookup<T> {
    table: Table<T>,
    refresh_every: Duration,
    rows_max: usize,
    state: Arc<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    copy: Mutex<Option<Copy<T>>>,
    /// Held during a load, which all waiting callers share.
    loading: tokio::sync::Mutex<()>,
    is_refreshing: AtomicBool,
}

#[derive(Debug)]
struct Copy<T> {
    rows: Arc<HashMap<EntityKey, Arc<Loaded<T>>>>,
    /// When the last load began, or the last refresh failed.
    at: Duration,
}

/// A refresh under way. Its task may also be dropped, before it has run or in between, when the runtime ends.
struct Refreshing<T>(Arc<State<T>>);

impl<T> Drop for Refreshing<T> {
    fn drop(&mut self) {
        self.0.is_refreshing.store(false, Ordering::Release);
    }
}

impl<T> Clone for Lookup<T> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), state: self.state.clone(), ..*self }
    }
}

impl<T: TableEntity + Sync> Lookup<T> {
    /// A lookup that loads the table on first use: at most 10,000 entities, refreshed after 5 minutes.
    pub fn new(table: &Table<T>) -> Self {
        let state = State {
            copy: Mutex::new(None),
            loading: tokio::sync::Mutex::new(()),
            is_refreshing: AtomicBool::new(false),
        };
        Self {
            table: table.clone(),
            refresh_every: Duration::from_secs(300),
            rows_max: 10_000,
            state: Arc::new(state),
        }
    }

    /// The age at which the cache is refreshed.
    #[must_use]
    pub fn refresh_every(self, age: Duration) -> Self {
        Self { refresh_every: age, ..self }
    }

    /// Refuses to load more entities than this.
    #[must_use]
    pub fn at_most(self, entities: usize) -> Self {
        Self { rows_max: entities, ..self }
    }

    /// The entity with a key, without a request except the first time.
    pub async fn get(&self, key: &Key<T>) -> Result<Option<Arc<Loaded<T>>>, Error> {
        Ok(self.rows().await?.get(key.as_entity_key()).cloned())
    }

    /// The number of entities.
    pub async fn count(&self) -> Result<usize, Error> {
        Ok(self.rows().await?.len())
    }

    /// Reads the table now.
    pub async fn refresh(&self) -> Result<(), Error> {
        let _one = self.state.loading.lock().await;
        self.load().await.map(drop)
    }

    /// Pairs the entities of a stream with those that `key` refers to.
    pub fn join<U, F>(&self, stream: Entities<U>, key: F) -> Joined<U, T, F>
    where
        F: Fn(&U) -> Result<Key<T>, KeyError>,
    {
        Joined { lookup: self.clone(), stream, key }
    }

    async fn rows(&self) -> Result<Arc<HashMap<EntityKey, Arc<Loaded<T>>>>, Error> {
        if let Some((rows, age)) = self.copy() {
            if age >= self.refresh_every {
                self.refresh_later();
            }
            return Ok(rows);
        }
        let _one = self.state.loading.lock().await;
        match self.copy() {
            Some((rows, _)) => Ok(rows),
            None => self.load().await,
        }
    }

    /// The cache, and its age.
    #[expect(clippy::type_complexity, reason = "the copy as it is kept")]
    fn copy(&self) -> Option<(Arc<HashMap<EntityKey, Arc<Loaded<T>>>>, Duration)> {
        let copy = self.state.copy.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.table.account.0.env.elapsed();
        copy.as_ref().map(|copy| (copy.rows.clone(), now.saturating_sub(copy.at)))
    }

    /// Starts a refresh unless one is under way.
    fn refresh_later(&self) {
        if self.state.is_refreshing.swap(true, Ordering::AcqRel) {
            return;
        }
        let lookup = self.clone();
        let refreshing = Refreshing(self.state.clone());
        tokio::spawn(async move {
            let _until_dropped = refreshing;
            if let Err(error) = lookup.refresh().await {
                tracing::warn!(table = lookup.table.name(), %error, "a look-up stays as it is");
                let now = lookup.table.account.0.env.elapsed();
                let mut copy = lookup.state.copy.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(copy) = copy.as_mut() {
                    copy.at = now;
                }
            }
        });
    }

    async fn load(&self) -> Result<Arc<HashMap<EntityKey, Arc<Loaded<T>>>>, Error> {
        let at = self.table.account.0.env.elapsed();
        let all = self.table.scan().collect_at_most(self.rows_max).await?;
        let rows = all.into_iter().map(|row| (row.loaded_key().clone(), Arc::new(row)));
        let rows: Arc<HashMap<_, _>> = Arc::new(rows.collect());
        let mut copy = self.state.copy.lock().unwrap_or_else(PoisonError::into_inner);
        *copy = Some(Copy { rows: rows.clone(), at });
        Ok(rows)
    }
}

/// A stream whose entities are paired with those of a lookup.
#[must_use = "nothing is read before `try_next`"]
pub struct Joined<U, T, F> {
    lookup: Lookup<T>,
    stream: Entities<U>,
    key: F,
}

impl<U, T, F> Joined<U, T, F>
where
    U: Send + 'static,
    T: TableEntity + Sync,
    F: Fn(&U) -> Result<Key<T>, KeyError>,
{
    /// The next entity and its partner; `None` at the end.
    pub async fn try_next(&mut self) -> Result<Option<(Loaded<U>, Option<Arc<Loaded<T>>>)>, Error> {
        let Some(entity) = self.stream.try_next().await? else { return Ok(None) };
        let partner = self.lookup.get(&(self.key)(&entity)?).await?;
        Ok(Some((entity, partner)))
    }
}
