//! An account from environment variables (C-2.4).

use super::AccountBuilder;
use crate::credential::Credential;
use crate::error::Error;

/// Tried in this order, before the separate variables.
const STRINGS: [&str; 2] = ["LAZULI_CONNECTION_STRING", "AZURE_STORAGE_CONNECTION_STRING"];
const ACCOUNT: &str = "AZURE_STORAGE_ACCOUNT";
const KEY: &str = "AZURE_STORAGE_KEY";
const SAS: &str = "AZURE_STORAGE_SAS_TOKEN";
const ENDPOINT: &str = "AZURE_STORAGE_SERVICE_ENDPOINT";

/// The same, or the development account of this machine if no variable is set.
pub(super) fn builder_or_development(
    get: impl Fn(&str) -> Option<String>,
) -> Result<AccountBuilder, Error> {
    let is_set = |name: &str| get(name).is_some_and(|value| !value.is_empty());
    if STRINGS.into_iter().chain([ACCOUNT]).any(is_set) {
        builder(get)
    } else {
        AccountBuilder::from_connection_string("UseDevelopmentStorage=true")
    }
}

pub(super) fn builder(get: impl Fn(&str) -> Option<String>) -> Result<AccountBuilder, Error> {
    let get = |name: &str| get(name).filter(|value| !value.is_empty());
    if let Some(text) = STRINGS.into_iter().find_map(get) {
        return AccountBuilder::from_connection_string(&text);
    }
    let Some(account) = get(ACCOUNT) else {
        let strings = STRINGS.join(", ");
        return Err(Error::config(format!("none of these variables is set: {strings}, {ACCOUNT}")));
    };
    let credential = match (get(KEY), get(SAS)) {
        (Some(key), _) => Credential::shared_key(&account, &key)?,
        (None, Some(token)) => Credential::sas(&token)?,
        (None, None) => {
            return Err(Error::config(format!("{ACCOUNT} is set, but neither {KEY} nor {SAS}")));
        }
    };
    let builder = match get(ENDPOINT) {
        Some(address) => AccountBuilder::new(&address),
        None => AccountBuilder::from_connection_string(&format!("AccountName={account}"))?,
    };
    Ok(AccountBuilder { name: Some(account), ..builder.credential(credential) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<crate::Account, Error> {
        builder(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
        .and_then(AccountBuilder::build)
    }

    #[test]
    fn connection_strings_come_first_and_ours_before_theirs() {
        let ours = ("LAZULI_CONNECTION_STRING", "AccountName=ours;AccountKey=a2V5");
        let theirs = ("AZURE_STORAGE_CONNECTION_STRING", "AccountName=theirs;AccountKey=a2V5");
        assert_eq!(from(&[theirs, ours]).unwrap().name(), Some("ours"));
        assert_eq!(from(&[theirs]).unwrap().name(), Some("theirs"));
        assert_eq!(from(&[theirs, (ours.0, "")]).unwrap().name(), Some("theirs"));
    }

    #[test]
    fn an_account_and_a_key_or_a_signature_do() {
        let account = (ACCOUNT, "acct");
        let by_key = from(&[account, (KEY, "a2V5")]).unwrap();
        assert_eq!(by_key.table_endpoint(), Some("https://acct.table.core.windows.net"));
        let by_sas =
            from(&[account, (SAS, "?sv=1&sig=a"), (ENDPOINT, "http://127.0.0.1:1/acct")]).unwrap();
        assert_eq!(by_sas.table_endpoint(), Some("http://127.0.0.1:1/acct"));
    }

    #[test]
    fn without_any_the_development_account_does_but_not_instead_of_a_wrong_one() {
        let from = |variables: &'static [(&str, &str)]| {
            let get = |name: &str| variables.iter().find(|(key, _)| *key == name);
            builder_or_development(|name| get(name).map(|(_, value)| (*value).to_owned()))
                .and_then(AccountBuilder::build)
        };
        let local = from(&[]).unwrap();
        assert_eq!(local.table_endpoint(), Some("http://127.0.0.1:10002/devstoreaccount1"));
        let named = from(&[("LAZULI_CONNECTION_STRING", "AccountName=acct;AccountKey=a2V5")]);
        assert_eq!(named.unwrap().name(), Some("acct"));
        assert!(from(&[(ACCOUNT, "acct")]).is_err());
    }

    #[test]
    fn what_is_missing_is_named() {
        let nothing = from(&[]).unwrap_err().to_string();
        assert!(nothing.contains("LAZULI_CONNECTION_STRING"), "{nothing}");
        let no_key = from(&[(ACCOUNT, "acct")]).unwrap_err().to_string();
        assert!(no_key.contains(KEY) && no_key.contains(SAS), "{no_key}");
    }
}
