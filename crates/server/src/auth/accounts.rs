//! The accounts a server knows, and their keys.

use crate::operation::ServiceName;
use arc_swap::ArcSwap;
use lazuli_meter::{Counter, Family, Label, PerLabel, Source, Value};
use lazuli_model::AccountName;
use lazuli_wire::shared_key::SigningKey;
use std::collections::BTreeMap;
use std::sync::Arc;

pub use lazuli_wire::connection_string::{
    DEVELOPMENT_ACCOUNT as WELL_KNOWN_ACCOUNT, DEVELOPMENT_KEY as WELL_KNOWN_KEY,
};

/// One storage account. Either of its keys may sign.
#[derive(Clone, Debug)]
pub struct Account {
    pub name: AccountName,
    pub keys: Vec<SigningKey>,
    /// Requests answered, by service.
    pub(crate) requests: Arc<PerLabel<ServiceName, Counter>>,
}

impl Account {
    /// An account with one or two keys, in base64, at position `place` of a list, counted from 1.
    pub fn parse<'a>(
        place: usize,
        name: &str,
        keys: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, AccountsError> {
        let name = AccountName::parse(name).ok_or(AccountsError::Name { place })?;
        let key = |text: &str| SigningKey::from_base64(text.trim());
        let keys: Result<Vec<_>, _> = keys.into_iter().map(key).collect();
        match keys {
            Ok(keys) => Ok(Self { name, keys, requests: Arc::default() }),
            Err(_) => Err(AccountsError::Key(name.to_string())),
        }
    }
}

/// Why a list of accounts is invalid.
///
/// The messages never contain keys, nor any text that stands in place of a name but could be a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountsError {
    #[error("account {place} of the list is not name:key or name:key1:key2")]
    Shape { place: usize },
    #[error(
        "the name of account {place} of the list is not made of 1 to 63 letters, digits, '-' and '_'"
    )]
    Name { place: usize },
    #[error("a key of account '{0}' is not base64")]
    Key(String),
    #[error("account '{0}' is given twice")]
    Duplicate(String),
    #[error("no account is given")]
    Empty,
}

/// All accounts, by name in lower case; the list can be replaced while requests are served.
#[derive(Debug)]
pub struct Accounts(ArcSwap<ByName>);

/// There are few, so comparing names is faster than hashing.
type ByName = BTreeMap<Box<str>, Arc<Account>>;

impl Accounts {
    pub fn new(accounts: Vec<Account>) -> Result<Self, AccountsError> {
        Ok(Self(ArcSwap::from_pointee(by_name(accounts)?)))
    }

    /// Parses `name:key1[:key2];name:key1[:key2]`, the form of Azurite's `AZURITE_ACCOUNTS`. A line
    /// break separates accounts like a semicolon, and a line that begins with `#` is a comment.
    pub fn parse(text: &str) -> Result<Vec<Account>, AccountsError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let entries = lines.flat_map(|line| line.split(';')).map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty());
        entries.zip(1..).map(|(entry, place)| parse_entry(place, entry)).collect()
    }

    /// Replaces the accounts, for requests that begin from now on.
    pub fn replace(&self, accounts: Vec<Account>) -> Result<(), AccountsError> {
        let mut accounts = by_name(accounts)?;
        // The request count of an existing account continues.
        for (name, known) in self.0.load().iter() {
            if let Some(account) = accounts.get_mut(name) {
                Arc::make_mut(account).requests = known.requests.clone();
            }
        }
        self.0.store(Arc::new(accounts));
        Ok(())
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Account>> {
        // Most names are in lower case, as the accounts are listed.
        let account = self.find_in_host(name);
        let account = account.or_else(|| self.find_in_host(&name.to_ascii_lowercase()));
        account.filter(|account| account.name.as_str() == name)
    }

    /// Every account, in no particular order.
    pub(crate) fn all(&self) -> Vec<Arc<Account>> {
        self.0.load().values().cloned().collect()
    }

    /// Finds an account by its name in a host, which is case-insensitive: `lower` is in lower case.
    pub(crate) fn find_in_host(&self, lower: &str) -> Option<Arc<Account>> {
        self.0.load().get(lower).cloned()
    }
}

impl Source for Accounts {
    /// By name for the first accounts; all others combined.
    fn report(&self) -> Vec<Family> {
        const NAMED_MAX: usize = 100;
        let mut family = Family::new("lazuli_account_requests", "Requests of each account");
        let accounts = self.0.load();
        for service in ServiceName::ALL {
            let labels = |name: &str| {
                vec![("account", name.to_owned().into()), ("service", service.name().into())]
            };
            let mut others = 0;
            for (place, account) in accounts.values().enumerate() {
                match account.requests.of(*service).value() {
                    0 => {}
                    count if place < NAMED_MAX => {
                        let value = Value::Counter(count as f64);
                        family = family.with(labels(account.name.as_str()), &value);
                    }
                    count => others += count,
                }
            }
            if others > 0 {
                family = family.with(labels("(other)"), &Value::Counter(others as f64));
            }
        }
        vec![family]
    }
}

fn by_name(accounts: Vec<Account>) -> Result<ByName, AccountsError> {
    let mut map = ByName::new();
    for account in accounts {
        let name = account.name.to_string();
        // In a host two names that differ in case are one.
        if map.insert(name.to_ascii_lowercase().into(), Arc::new(account)).is_some() {
            return Err(AccountsError::Duplicate(name));
        }
    }
    if map.is_empty() { Err(AccountsError::Empty) } else { Ok(map) }
}

fn parse_entry(place: usize, entry: &str) -> Result<Account, AccountsError> {
    let (name, keys) = entry.split_once(':').ok_or(AccountsError::Shape { place })?;
    match keys.split(':').count() {
        1 | 2 => Account::parse(place, name.trim(), keys.split(':')),
        _ => Err(AccountsError::Shape { place }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_one_or_two_keys() {
        let expect = [("one", 1), ("two", 2)];
        for text in ["one:AAAA;two:AAAA:BBBB;", "# a comment; x\none:AAAA\n\n two : AAAA:BBBB\n"] {
            let accounts = Accounts::parse(text).unwrap();
            let shape: Vec<_> = accounts.iter().map(|a| (a.name.as_str(), a.keys.len())).collect();
            assert_eq!(shape, expect);
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_key() {
        let message = |text| match Accounts::parse(text).and_then(Accounts::new) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(message(""), "no account is given");
        assert_eq!(message("c2VjcmV0"), "account 1 of the list is not name:key or name:key1:key2");
        assert_eq!(
            message("abc:AAAA;c2VjcmV0==:abc"),
            "the name of account 2 of the list is not made of 1 to 63 letters, digits, '-' and '_'"
        );
        assert_eq!(message("abc:not base64"), "a key of account 'abc' is not base64");
        assert_eq!(message("abc:AAAA;abc:BBBB"), "account 'abc' is given twice");
        assert_eq!(message("abc:AAAA;Abc:BBBB"), "account 'Abc' is given twice");
    }
}
