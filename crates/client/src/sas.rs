//! Shared access signatures that this library makes (C-16.1, C-16.2). They are signed by `wire::sas`.

mod account_sas;
mod issuer;

pub use account_sas::{AccountSasBuilder, SasServices};
pub use issuer::SasIssuer;

use crate::account::Account;
use crate::credential::Kind;
use crate::entity::TableEntity;
use crate::error::Error;
use crate::table::Table;
use lazuli_model::{Timestamp, key};
use lazuli_wire::sas::{Permissions, TableSas};
use lazuli_wire::shared_key::SigningKey;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// The version that tokens are made for.
pub(crate) const SAS_VERSION: &str = "2019-02-02";
/// A token that starts now starts so much earlier, as clocks differ.
const START_MARGIN_SECONDS: u64 = 15 * 60;

/// A shared access signature: a query that authorizes whoever sends it. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SasToken(Arc<str>);

impl SasToken {
    pub(crate) fn new(text: String) -> Self {
        Self(text.into())
    }

    /// The text of the query, without a question mark.
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

/// When, from where and over which protocol a token may be used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) start: Option<Timestamp>,
    pub(crate) expiry: Option<Timestamp>,
    pub(crate) addresses: Option<RangeInclusive<IpAddr>>,
    pub(crate) is_https_only: bool,
}

/// The texts of terms.
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
        // Whole seconds: all versions of the service read them.
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

/// The methods that builders of tokens share. The builder holds its [`Terms`] in `terms` and its account in
/// `account`.
macro_rules! sas_terms {
    () => {
        /// The token expires at a time.
        pub fn expires_at(mut self, expiry: lazuli_model::Timestamp) -> Self {
            self.terms.expiry = Some(expiry);
            self
        }

        /// The token expires after a while, from now.
        pub fn expires_in(self, life: std::time::Duration) -> Self {
            let now = self.account.0.env.now();
            self.expires_at(crate::sas::after(now, life))
        }

        /// The token starts at a time. By default it has no start, as clocks differ.
        pub fn starts_at(mut self, start: lazuli_model::Timestamp) -> Self {
            self.terms.start = Some(start);
            self
        }

        /// The token starts now: 15 minutes ago, as clocks differ.
        pub fn starts_now(self) -> Self {
            let start = crate::sas::start_now(self.account.0.env.now());
            self.starts_at(start)
        }

        /// Only callers with these addresses may use the token.
        pub fn addresses(mut self, range: std::ops::RangeInclusive<std::net::IpAddr>) -> Self {
            self.terms.addresses = Some(range);
            self
        }

        /// The token may be used with TLS only.
        pub fn https_only(mut self) -> Self {
            self.terms.is_https_only = true;
            self
        }
    };
}
pub(crate) use sas_terms;

pub(crate) fn after(now: Timestamp, life: Duration) -> Timestamp {
    now.plus_seconds(life.as_secs())
}

pub(crate) fn start_now(now: Timestamp) -> Timestamp {
    Timestamp::from_unix_seconds(now.unix_seconds().saturating_sub(START_MARGIN_SECONDS))
}

/// A key of the account, to sign with.
pub(crate) fn signing_key(account: &Account) -> Result<(Arc<str>, Arc<SigningKey>), Error> {
    match &account.0.credential.load().0 {
        Kind::SharedKey { account, key, .. } => Ok((account.clone(), key.clone())),
        _ => Err(Error::config("a shared access signature is made with the account's key")
            .with(|context| context.hint = Some("connect with Credential::shared_key".into()))),
    }
}

impl<T: TableEntity> Table<T> {
    /// Begins a token for this table, or some of its entities. It is signed locally: no request is made.
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
        }
    }
}

/// A bound of the entities that a token covers: a partition, or a row in it.
type Bound = (String, Option<String>);

/// A token for a table that is being described.
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
}

impl TableSasBuilder {
    sas_terms!();

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

    /// Covers all entities from one key to another, whatever their partitions.
    pub fn range(mut self, keys: RangeInclusive<(&str, &str)>) -> Self {
        let bound = |(partition, row): (&str, &str)| (partition.to_owned(), Some(row.to_owned()));
        self.start = Some(bound(*keys.start()));
        self.end = Some(bound(*keys.end()));
        self
    }

    /// Names a stored policy, which gives what the token leaves out: see [`Table::set_policies`].
    pub fn policy(mut self, id: &str) -> Self {
        self.policy = id.to_owned();
        self
    }

    /// Signs the token.
    pub fn build(&self) -> Result<SasToken, Error> {
        let (account, key) = signing_key(&self.account)?;
        self.sign(&account, &key)
    }

    pub(crate) fn sign(&self, account: &str, key: &SigningKey) -> Result<SasToken, Error> {
        self.check()?;
        let texts = self.terms.texts()?;
        let letters = self.permissions.letters();
        let partition = |bound: &'_ Option<Bound>| bound.as_ref().map(|(key, _)| key.clone());
        let row = |bound: &'_ Option<Bound>| bound.as_ref().and_then(|(_, key)| key.clone());
        let keys = [partition(&self.start), row(&self.start), partition(&self.end), row(&self.end)];
        let [spk, srk, epk, erk] = keys.each_ref().map(Option::as_deref);
        let sas = TableSas {
            version: SAS_VERSION,
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
        let token = sas.token(account, key).map_err(|error| Error::config(error.to_string()))?;
        Ok(SasToken::new(token))
    }

    /// Finds what the service would refuse (C-16.2).
    fn check(&self) -> Result<(), Error> {
        let of_tables =
            Permissions::READ | Permissions::ADD | Permissions::UPDATE | Permissions::DELETE;
        let has_policy = !self.policy.is_empty();
        let fault = if !of_tables.contains(self.permissions) {
            "a shared access signature of a table has the permissions READ, ADD, UPDATE and DELETE"
        } else if self.permissions == Permissions::NONE && !has_policy {
            "a shared access signature without permissions allows nothing"
        } else if self.terms.expiry.is_none() && !has_policy {
            "a shared access signature needs an expiry, or a stored policy that gives one"
        } else if let (Some(start), Some(end)) = (&self.start, &self.end)
            && is_after(start, end)
        {
            "the range of keys of a shared access signature ends before it starts"
        } else {
            return Ok(());
        };
        Err(Error::config(fault))
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
