//! Tokens for many users (P-22.2).

use super::{SasToken, Signer, TableSasBuilder, signing_key};
use crate::entity::TableEntity;
use crate::error::Error;
use crate::table::Table;
use lazuli_model::Timestamp;
use lazuli_wire::sas::Permissions;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Tokens kept at most, by default.
const TOKENS_MAX: usize = 100_000;

/// Issues each user a token for their own partition, and returns the same one again while it has at least half
/// of its validity left. Makes no requests.
///
/// ```
/// # use lazuli_client::{Account, Error, Permissions};
/// # use std::time::Duration;
/// # fn run() -> Result<(), Error> {
/// let account = Account::from_connection_string("UseDevelopmentStorage=true")?;
/// let people = account.tables().table("People")?;
/// let issuer = people.sas_issuer(Permissions::READ, Duration::from_secs(3600));
/// let token = issuer.token("user-17")?;
/// assert_eq!(issuer.token("user-17")?, token);
/// # Ok(())
/// # }
/// # run().unwrap();
/// ```
#[derive(Debug)]
pub struct SasIssuer {
    builder: TableSasBuilder,
    life: Duration,
    tokens_max: usize,
    cache: Mutex<Cache>,
}

/// Tokens by partition, and the partitions in the order of issue: all tokens are valid for the same time, so the
/// oldest is evicted first.
#[derive(Debug, Default)]
struct Cache {
    tokens: HashMap<Box<str>, Issued>,
    order: VecDeque<(Box<str>, Timestamp)>,
}

#[derive(Debug)]
struct Issued {
    token: SasToken,
    at: Timestamp,
}

impl<T: TableEntity> Table<T> {
    /// Issues tokens to many users: each for one partition of this table, valid for `life`.
    pub fn sas_issuer(&self, permissions: Permissions, life: Duration) -> SasIssuer {
        SasIssuer {
            builder: self.sas(permissions),
            life,
            tokens_max: TOKENS_MAX,
            cache: Mutex::default(),
        }
    }
}

impl SasIssuer {
    /// Limits the number of tokens kept, 100,000 by default.
    ///
    /// ```
    /// # use lazuli_client::{Account, Permissions};
    /// # use std::time::Duration;
    /// # fn run() -> Result<(), lazuli_client::Error> {
    /// # let people = Account::from_connection_string("UseDevelopmentStorage=true")?.tables().table("People")?;
    /// let issuer = people.sas_issuer(Permissions::READ, Duration::from_secs(3600)).tokens_max(2);
    /// for user in ["user-1", "user-2", "user-3"] {
    ///     issuer.token(user)?;
    /// }
    /// assert_eq!(issuer.cached(), 2);
    /// # Ok(())
    /// # }
    /// # run().unwrap();
    /// ```
    #[must_use]
    pub fn tokens_max(self, tokens_max: usize) -> Self {
        Self { tokens_max: tokens_max.max(1), ..self }
    }

    /// Restricts the tokens to TLS.
    #[must_use]
    pub fn https_only(self) -> Self {
        Self { builder: self.builder.https_only(), ..self }
    }

    /// The token of a partition, with at least half of its validity left.
    pub fn token(&self, partition: &str) -> Result<SasToken, Error> {
        let now = self.builder.account.0.env.now();
        let half_seconds = self.life.as_secs() / 2;
        let is_fresh = |issued: &Issued| now < issued.at.plus_seconds(half_seconds.max(1));
        {
            let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(issued) = cache.tokens.get(partition).filter(|issued| is_fresh(issued)) {
                return Ok(issued.token.clone());
            }
        }
        // Signed without holding the lock: two callers may sign concurrently, and the last token is kept.
        let (account, key) = signing_key(&self.builder.account)?;
        let signer = Signer::Account(account, key);
        let token =
            self.builder.clone().partition(partition).expires_in(self.life).sign(&signer)?;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.insert(partition, Issued { token: token.clone(), at: now }, self.tokens_max);
        Ok(token)
    }

    /// The number of tokens kept now.
    pub fn cached(&self) -> usize {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).tokens.len()
    }

    /// Discards all tokens; call it after changing the account key.
    pub fn clear(&self) {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = Cache::default();
    }
}

impl Cache {
    fn insert(&mut self, partition: &str, issued: Issued, tokens_max: usize) {
        self.order.push_back((partition.into(), issued.at));
        self.tokens.insert(partition.into(), issued);
        // A partition whose token was renewed is in the order twice; its earlier entry is void.
        while self.tokens.len() > tokens_max || self.order.len() > 2 * tokens_max {
            let Some((oldest, at)) = self.order.pop_front() else { return };
            if self.tokens.get(&oldest).is_some_and(|issued| issued.at == at) {
                self.tokens.remove(&oldest);
            }
        }
    }
}
