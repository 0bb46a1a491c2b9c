//! The accounts a server knows, and their keys.

use arc_swap::ArcSwap;
use lazuli_model::AccountName;
use lazuli_wire::shared_key::SigningKey;
use std::collections::HashMap;
use std::sync::Arc;

/// The account every storage emulator has.
pub const WELL_KNOWN_ACCOUNT: &str = "devstoreaccount1";
/// The published key of [`WELL_KNOWN_ACCOUNT`].
pub const WELL_KNOWN_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// One storage account. Either of its keys may sign.
#[derive(Debug)]
pub struct Account {
    pub name: AccountName,
    pub keys: Vec<SigningKey>,
}

/// Why a list of accounts cannot be used. Keys never appear in the messages.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    #[error("'{0}' is not name:key or name:key1:key2")]
    Shape(String),
    #[error("'{0}' is not an account name")]
    Name(String),
    #[error("a key of account '{0}' is not base64")]
    Key(String),
    #[error("account '{0}' is given twice")]
    Duplicate(String),
    #[error("no account is given")]
    Empty,
}

/// All accounts, by name in lower case; the list can be replaced while requests are served.
#[derive(Debug)]
pub struct Accounts(ArcSwap<HashMap<Box<str>, Arc<Account>>>);

impl Accounts {
    pub fn new(accounts: Vec<Account>) -> Result<Self, AccountsError> {
        Ok(Self(ArcSwap::from_pointee(by_name(accounts)?)))
    }

    /// Parses `name:key1[:key2];name:key1[:key2]`, the form Azurite's `AZURITE_ACCOUNTS` has.
    pub fn parse(text: &str) -> Result<Vec<Account>, AccountsError> {
        text.split(';').map(str::trim).filter(|one| !one.is_empty()).map(parse_account).collect()
    }

    /// Puts other accounts in the place of the present ones, for requests that begin from now on.
    pub fn replace(&self, accounts: Vec<Account>) -> Result<(), AccountsError> {
        self.0.store(Arc::new(by_name(accounts)?));
        Ok(())
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Account>> {
        let account = match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => self.find_in_host(&name.to_ascii_lowercase()),
            false => self.find_in_host(name),
        };
        account.filter(|account| account.name.as_str() == name)
    }

    /// Finds an account whose name was part of a host, which has no case: `lower` is in lower case.
    pub(crate) fn find_in_host(&self, lower: &str) -> Option<Arc<Account>> {
        self.0.load().get(lower).cloned()
    }
}

fn by_name(accounts: Vec<Account>) -> Result<HashMap<Box<str>, Arc<Account>>, AccountsError> {
    let mut map = HashMap::with_capacity(accounts.len());
    for account in accounts {
        let name = account.name.to_string();
        // In a host two names that differ in case are one.
        if map.insert(name.to_ascii_lowercase().into(), Arc::new(account)).is_some() {
            return Err(AccountsError::Duplicate(name));
        }
    }
    if map.is_empty() { Err(AccountsError::Empty) } else { Ok(map) }
}

fn parse_account(text: &str) -> Result<Account, AccountsError> {
    let mut fields = text.split(':');
    let name = fields.next().unwrap_or_default();
    let keys: Vec<&str> = fields.collect();
    if !(1..=2).contains(&keys.len()) {
        return Err(AccountsError::Shape(format!("{name}:…")));
    }
    let parsed = AccountName::parse(name).ok_or_else(|| AccountsError::Name(name.into()))?;
    let key = |text: &&str| {
        let key = SigningKey::from_base64(text.trim());
        key.map_err(|_| AccountsError::Key(name.into()))
    };
    Ok(Account { name: parsed, keys: keys.iter().map(key).collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_one_or_two_keys() {
        let accounts = Accounts::parse("one:AAAA;two:AAAA:BBBB;").unwrap();
        let shape: Vec<_> = accounts.iter().map(|a| (a.name.as_str(), a.keys.len())).collect();
        assert_eq!(shape, [("one", 1), ("two", 2)]);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_key() {
        let message = |text| match Accounts::parse(text).and_then(Accounts::new) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(message(""), "no account is given");
        assert_eq!(message("a"), "'a:…' is not name:key or name:key1:key2");
        assert_eq!(message("a/b:c2VjcmV0"), "'a/b' is not an account name");
        assert_eq!(message("abc:not base64"), "a key of account 'abc' is not base64");
        assert_eq!(message("abc:AAAA;abc:BBBB"), "account 'abc' is given twice");
        assert_eq!(message("abc:AAAA;Abc:BBBB"), "account 'Abc' is given twice");
    }
}
