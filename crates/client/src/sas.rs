//! Creates shared access signatures (C-16.1, C-16.2). `wire::sas` signs them.

mod account_sas;
#[cfg(feature = "blob")]
mod blob_sas;
mod delegation;
mod issuer;
#[cfg(feature = "queue")]
mod queue_sas;

pub use account_sas::{AccountSasBuilder, SasServices};
#[cfg(feature = "blob")]
pub use blob_sas::BlobSasBuilder;
pub use delegation::UserDelegationKey;
#[cfg(any(feature = "blob", feature = "queue"))]
pub(crate) use delegation::fetch as fetch_user_delegation_key;
pub use issuer::SasIssuer;
#[cfg(feature = "queue")]
pub use queue_sas::QueueSasBuilder;

use crate::account::Account;
use crate::credential::Kind;
use crate::entity::TableEntity;
use crate::error::Error;
use crate::table::Table;
use lazuli_model::{Timestamp, key};
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::sas::{Permissions, SasError, TableSas, UserDelegationSas};
use lazuli_wire::shared_key::SigningKey;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// The version of the tokens.
pub(crate) const SAS_VERSION: &str = "2019-02-02";
/// A token that starts now gets a start this much earlier, because clocks differ.
const START_MARGIN_SECONDS: u64 = 15 * 60;

/// A shared access signature: a query that authorizes its bearer. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SasToken(Arc<str>);

impl SasToken {
    pub(crate) fn new(text: String) -> Self {
        Self(text.into())
    }

    /// The query string, without a question mark.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for SasToken {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SasToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SasToken(..)")
    }
}

/// When, from where and over which protocol a token is valid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) start: Option<Timestamp>,
    pub(crate) expiry: Option<Timestamp>,
    pub(crate) addresses: Option<RangeInclusive<IpAddr>>,
    pub(crate) is_https_only: bool,
}

/// The terms as text.
pub(crate) struct TermTexts {
    pub(crate) start: String,
    pub(crate) expiry: String,
    pub(crate) addresses: String,
    pub(crate) protocol: &'static str,
}

impl Terms {
    pub(crate) fn texts(&self) -> Result<TermTexts, Error> {
        if let (Some(start), Some(expiry)) = (self.start, self.expiry)
            && start >= expiry
        {
            return Err(Error::config("a shared access signature ends before it starts"));
        }
        // Whole seconds: all versions of the service can read them.
        let time = |time: Option<Timestamp>| {
            let whole = |time: Timestamp| Timestamp::from_unix_seconds(time.unix_seconds());
            time.map(|time| whole(time).to_string()).unwrap_or_default()
        };
        let addresses = match &self.addresses {
            Some(range) if range.start() == range.end() => range.start().to_string(),
            Some(range) => format!("{}-{}", range.start(), range.end()),
            None => String::new(),
        };
        let protocol = if self.is_https_only { "https" } else { "" };
        Ok(TermTexts { start: time(self.start), expiry: time(self.expiry), addresses, protocol })
    }
}

/// The methods common to all builders of tokens. The builder keeps its [`Terms`] in `terms` and its account in
/// `account`.
macro_rules! sas_terms {
    () => {
        /// Sets when the token expires.
        pub fn expires_at(mut self, expiry: lazuli_model::Timestamp) -> Self {
            self.terms.expiry = Some(expiry);
            self
        }

        /// Sets how long the token is valid from now.
        pub fn expires_in(self, life: std::time::Duration) -> Self {
            let now = self.account.0.env.now();
            self.expires_at(crate::sas::after(now, life))
        }

        /// Sets when the token becomes valid. By default it has no start, because clocks differ.
        pub fn starts_at(mut self, start: lazuli_model::Timestamp) -> Self {
            self.terms.start = Some(start);
            self
        }

        /// The token is valid from now, actually from 15 minutes ago because clocks differ.
        pub fn starts_now(self) -> Self {
            let start = crate::sas::start_now(self.account.0.env.now());
            self.starts_at(start)
        }

        /// Restricts the token to callers with these addresses.
        pub fn addresses(mut self, range: std::ops::RangeInclusive<std::net::IpAddr>) -> Self {
            self.terms.addresses = Some(range);
            self
        }

        /// Restricts the token to TLS.
        pub fn https_only(mut self) -> Self {
            self.terms.is_https_only = true;
            self
        }
    };
}
pub(crate) use sas_terms;

/// At most the last moment that has a text: without one the token would have no end.
pub(crate) fn after(now: Timestamp, life: Duration) -> Timestamp {
    now.plus_seconds(life.as_secs()).min(Timestamp::MAX)
}

pub(crate) fn start_now(now: Timestamp) -> Timestamp {
    Timestamp::from_unix_seconds(now.unix_seconds().saturating_sub(START_MARGIN_SECONDS))
}

/// For builders with a policy in `policy` and a key in `delegated`.
macro_rules! sas_signer {
    () => {
        /// Names a stored policy, which supplies the fields that the token omits.
        pub fn policy(mut self, id: &str) -> Self {
            self.policy = id.to_owned();
            self
        }

        /// Signs with a user's key instead of the account's: the token is limited by the user's roles, and expires with
        /// the key.
        pub fn delegated_by(mut self, key: &crate::UserDelegationKey) -> Self {
            self.delegated = Some(key.clone());
            self
        }
    };
}
#[cfg(any(feature = "blob", feature = "queue"))]
pub(crate) use sas_signer;

/// The key that signs a token.
pub(crate) enum Signer {
    /// A key of the account with this name.
    Account(Arc<str>, Arc<SigningKey>),
    User(UserDelegationKey),
}

impl Signer {
    fn of(
        account: &Account,
        delegated: Option<&UserDelegationKey>,
        service: StorageService,
    ) -> Result<Self, Error> {
        match delegated {
            Some(key) if key.service == service => Ok(Self::User(key.clone())),
            Some(_) => Err(Error::config("the user delegation key is of another service")),
            None => signing_key(account).map(|(name, key)| Self::Account(name, key)),
        }
    }

    /// The version of the token, which is `version` if it is signed with an account key.
    fn sas_version(&self, version: &'static str) -> &'static str {
        match self {
            Self::Account(..) => version,
            Self::User(key) => key.sas_version(),
        }
    }
}

/// The account's name and key, to sign with.
pub(crate) fn signing_key(account: &Account) -> Result<(Arc<str>, Arc<SigningKey>), Error> {
    match &account.0.credential.load().0 {
        Kind::SharedKey { account, key, .. } => Ok((account.clone(), key.clone())),
        _ => Err(Error::config("a shared access signature is made with the account's key").with(
            |context| {
                context.hint = Some("connect with the name and the key of the account".into())
            },
        )),
    }
}

fn signed(token: Result<String, SasError>) -> Result<SasToken, Error> {
    token.map(SasToken::new).map_err(|error| Error::config(error.to_string()))
}

/// The permissions that tokens of a kind may have.
#[derive(Debug)]
struct Letters {
    of: &'static str,
    allowed: Permissions,
    names: &'static str,
    /// The letters in the documented order.
    order: &'static str,
}

impl Letters {
    /// Checks for what the service would refuse (C-16.2), and returns the letters in the documented order.
    fn check(
        &self,
        permissions: Permissions,
        policy: &str,
        terms: &Terms,
        signer: &Signer,
    ) -> Result<String, Error> {
        let has_policy = !policy.is_empty();
        let fault = if !self.allowed.contains(permissions) {
            let Self { of, names, .. } = self;
            return Err(Error::config(format!(
                "a shared access signature of {of} has the permissions {names}"
            )));
        } else if has_policy && matches!(signer, Signer::User(_)) {
            "a stored policy completes tokens that the account's key signs"
        } else if permissions == Permissions::NONE && !has_policy {
            "a shared access signature without permissions allows nothing"
        } else if terms.expiry.is_none() && !has_policy {
            "a shared access signature needs an expiry, or a stored policy that gives one"
        } else {
            let letters = permissions.letters();
            return Ok(self.order.chars().filter(|letter| letters.contains(*letter)).collect());
        };
        Err(Error::config(fault))
    }
}

const OF_TABLE: Letters = Letters {
    of: "a table",
    allowed: Permissions::READ
        .union(Permissions::ADD)
        .union(Permissions::UPDATE)
        .union(Permissions::DELETE),
    names: "READ, ADD, UPDATE and DELETE",
    order: "raud",
};

impl<T: TableEntity> Table<T> {
    /// Begins a token for this table, or some of its entities. It is signed locally, without a request.
    ///
    /// ```
    /// # use lazuli_client::{Account, Error, Permissions};
    /// # use std::time::Duration;
    /// # fn run() -> Result<(), Error> {
    /// let account = Account::from_connection_string("UseDevelopmentStorage=true")?;
    /// let mine = account
    ///     .tables()
    ///     .table("People")?
    ///     .sas(Permissions::READ | Permissions::UPDATE)
    ///     .expires_in(Duration::from_secs(3600))
    ///     .partition("user-17")
    ///     .build()?;
    /// # let _ = mine;
    /// # Ok(())
    /// # }
    /// # run().unwrap();
    /// ```
    pub fn sas(&self, permissions: Permissions) -> TableSasBuilder {
        TableSasBuilder {
            account: self.account.clone(),
            table: self.name().to_owned(),
            permissions,
            policy: String::new(),
            terms: Terms::default(),
            start: None,
            end: None,
            delegated: None,
        }
    }
}

/// A bound of the entities that a token covers: a partition, or a row in one.
type Bound = (String, Option<String>);

/// A token for a table, not signed yet.
///
/// ```no_run
/// use lazuli_client::prelude::*;
/// use lazuli_client::{AccessPolicy, Permissions};
/// use std::time::Duration;
///
/// # async fn run(account: Account, people: Table, end_of_year: Timestamp) -> Result<(), Error> {
/// // Terms that the service keeps: without them, or with others, the tokens that name them end.
/// let readers = AccessPolicy {
///     id: "readers".into(),
///     start: None,
///     expiry: Some(end_of_year),
///     permissions: Some("r".into()),
/// };
/// people.set_policies([readers]).await?;
/// println!("{:?}", people.policies().await?);
/// let by_policy = people.sas(Permissions::NONE).policy("readers").build()?;
///
/// let dated = people.sas(Permissions::READ).starts_now().expires_at(end_of_year).build()?;
/// let later = people.sas(Permissions::READ).starts_at(end_of_year).expires_in(Duration::MAX);
///
/// // Signed by the user of a bearer token instead of the account: ends with the key.
/// let key = account.tables().user_delegation_key(Duration::from_secs(3600)).await?;
/// let by_user = people
///     .sas(Permissions::READ | Permissions::ADD)
///     .expires_at(key.expires().unwrap_or(end_of_year))
///     .delegated_by(&key)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "no token is made before `build`"]
pub struct TableSasBuilder {
    account: Account,
    table: String,
    permissions: Permissions,
    policy: String,
    terms: Terms,
    start: Option<Bound>,
    end: Option<Bound>,
    delegated: Option<UserDelegationKey>,
}

impl TableSasBuilder {
    sas_terms!();
    sas_signer!();

    /// Covers the entities of one partition.
    pub fn partition(self, key: &str) -> Self {
        self.partitions(key..=key)
    }

    /// Covers the entities of a range of partitions.
    pub fn partitions(mut self, keys: RangeInclusive<&str>) -> Self {
        self.start = Some(((*keys.start()).to_owned(), None));
        self.end = Some(((*keys.end()).to_owned(), None));
        self
    }

    /// Covers a range of rows of one partition.
    pub fn rows(self, partition: &str, rows: RangeInclusive<&str>) -> Self {
        self.range((partition, *rows.start())..=(partition, *rows.end()))
    }

    /// Covers all entities from one key to another, across partitions.
    pub fn range(mut self, keys: RangeInclusive<(&str, &str)>) -> Self {
        let bound = |(partition, row): (&str, &str)| (partition.to_owned(), Some(row.to_owned()));
        self.start = Some(bound(*keys.start()));
        self.end = Some(bound(*keys.end()));
        self
    }

    /// Signs the token.
    pub fn build(&self) -> Result<SasToken, Error> {
        let delegated = self.delegated.as_ref();
        self.sign(&Signer::of(&self.account, delegated, StorageService::Table)?)
    }

    pub(crate) fn sign(&self, signer: &Signer) -> Result<SasToken, Error> {
        let letters = OF_TABLE.check(self.permissions, &self.policy, &self.terms, signer)?;
        if let (Some(start), Some(end)) = (&self.start, &self.end)
            && is_after(start, end)
        {
            let fault = "the range of keys of a shared access signature ends before it starts";
            return Err(Error::config(fault));
        }
        let texts = self.terms.texts()?;
        let partition = |bound: &'_ Option<Bound>| bound.as_ref().map(|(key, _)| key.clone());
        let row = |bound: &'_ Option<Bound>| bound.as_ref().and_then(|(_, key)| key.clone());
        let keys = [partition(&self.start), row(&self.start), partition(&self.end), row(&self.end)];
        let [spk, srk, epk, erk] = keys.each_ref().map(Option::as_deref);
        let sas = TableSas {
            version: signer.sas_version(SAS_VERSION),
            table: &self.table,
            start: &texts.start,
            expiry: &texts.expiry,
            permissions: &letters,
            policy: &self.policy,
            addresses: &texts.addresses,
            protocol: texts.protocol,
            start_partition_key: spk,
            start_row_key: srk,
            end_partition_key: epk,
            end_row_key: erk,
            signature: "",
        };
        signed(match signer {
            Signer::Account(account, key) => sas.token(account, key),
            Signer::User(user) => {
                let sas = UserDelegationSas { table: sas, key: user.texts(), delegate: [""; 2] };
                sas.token(&user.account, &user.value)
            }
        })
    }
}

fn is_after(start: &Bound, end: &Bound) -> bool {
    let partitions = key::compare(&start.0, &end.0);
    let rows = match (&start.1, &end.1) {
        (Some(start), Some(end)) => key::compare(start, end),
        _ => std::cmp::Ordering::Equal,
    };
    partitions.then(rows).is_gt()
}

#[cfg(test)]
mod tests;
