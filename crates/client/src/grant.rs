//! The permissions of a shared access signature, as far as its text shows them: an operation that it clearly does
//! not allow fails before anything is sent (C-16.5).

use crate::account::Account;
use crate::call::Call;
use crate::credential::Kind;
use crate::error::{Error, ErrorKind};
use http::Method;
use http::header::IF_MATCH;
use lazuli_model::Timestamp;
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::sas::{Permissions, TableToken};
use lazuli_wire::uri::Query;

/// The permissions of a token. Absent where its text does not show them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The one table that it is limited to.
    table: Option<String>,
    /// The letters of the services that it covers.
    services: Option<String>,
    /// Absent if they are in a stored policy.
    permissions: Option<Permissions>,
    expires: Option<Timestamp>,
    /// Whether it is limited to a range of keys.
    is_ranged: bool,
}

impl Grant {
    /// Reads a token. One that cannot be parsed allows everything here: the service decides.
    pub(crate) fn parse(token: &str) -> Self {
        let Ok(query) = Query::parse_lenient(token) else { return Self::default() };
        let permissions = |text: &str| (!text.is_empty()).then(|| Permissions::parse(text));
        match TableToken::parse(&query) {
            Ok(Some(TableToken::Service(sas))) => Self {
                table: Some(sas.table.to_owned()),
                services: None,
                permissions: permissions(sas.permissions),
                expires: Timestamp::parse(sas.expiry),
                is_ranged: sas.start_partition_key.is_some() || sas.end_partition_key.is_some(),
            },
            Ok(Some(TableToken::Account(sas))) => Self {
                table: None,
                services: Some(sas.services.to_owned()),
                permissions: permissions(sas.permissions),
                expires: Timestamp::parse(sas.expiry),
                is_ranged: false,
            },
            // Tokens of queues and blobs, and unknown kinds.
            _ => Self { expires: query.get("se").and_then(Timestamp::parse), ..Self::default() },
        }
    }

    /// When it expires, if its text shows that.
    pub(crate) fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// The table that it is limited to, if any.
    pub(crate) fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// Whether a read of entities is allowed, as far as is known.
    pub(crate) fn may_read(&self) -> bool {
        self.permissions.is_none_or(|granted| granted.contains(Permissions::READ))
    }

    /// Why a call is clearly not allowed.
    fn refuse(&self, call: &Call, now: Timestamp) -> Option<String> {
        if let Some(expires) = self.expires.filter(|expires| *expires <= now) {
            return Some(format!("it expired at {expires}"));
        }
        let letter = match call.service {
            StorageService::Blob => 'b',
            StorageService::Queue => 'q',
            StorageService::Table => 't',
        };
        if self.services.as_ref().is_some_and(|services| !services.contains(letter)) {
            return Some(format!("it lacks the service {letter:?} in `ss`"));
        }
        if call.service != StorageService::Table {
            return None;
        }
        if let Some(table) = &self.table {
            let is_entity = !is_of_account(call);
            if !is_entity || call.table().is_some_and(|name| !name.eq_ignore_ascii_case(table)) {
                return Some(format!("it is for the entities of table {table} only"));
            }
        }
        let needed = needed(call)?;
        let is_granted = self
            .permissions
            .is_none_or(|granted| needed.iter().any(|needed| granted.contains(*needed)));
        if is_granted {
            return None;
        }
        let letters: Vec<String> = needed.iter().map(|needed| needed.letters()).collect();
        Some(format!("it lacks the permission \"{}\" in `sp`", letters.join("\" or \"")))
    }
}

/// Whether a call concerns tables or settings, not entities.
fn is_of_account(call: &Call) -> bool {
    let path = &*call.path;
    path == "/" || path == "/Tables" || path.starts_with("/Tables(") || call.query.contains("comp=")
}

/// Sets of permissions, one of which a call needs (`auth.md`, section 9). `None` if that depends on its parts.
fn needed(call: &Call) -> Option<Vec<Permissions>> {
    if call.path == "/$batch" || call.query.contains("comp=") {
        return None;
    }
    let add_and_update = Permissions::ADD | Permissions::UPDATE;
    let is_of_account = is_of_account(call);
    Some(match (&call.method, is_of_account) {
        (&Method::GET, true) => vec![Permissions::LIST],
        (&Method::POST, true) => vec![Permissions::CREATE, Permissions::WRITE],
        (&Method::DELETE, _) => vec![Permissions::DELETE],
        (&Method::GET, false) => vec![Permissions::READ],
        (&Method::POST, false) => vec![Permissions::ADD],
        (&Method::PUT | &Method::PATCH, false) if call.headers.contains_key(IF_MATCH) => {
            vec![Permissions::UPDATE]
        }
        (&Method::PUT | &Method::PATCH, false) => vec![add_and_update],
        _ => return None,
    })
}

impl Account {
    /// Refuses a write to several partitions if the account's signature is limited to a range of keys: copies in
    /// other partitions lie outside it (P-22.3).
    #[cfg(feature = "patterns")]
    pub(crate) fn check_unranged(&self) -> Result<(), Error> {
        let credential = self.0.credential.load();
        match &credential.0 {
            Kind::Sas(_, grant) if grant.is_ranged && !self.0.trusts_server => {
                let reason = "it is for a range of keys, and copies lie in other partitions";
                Err(Error::new(ErrorKind::NotGranted(reason.to_owned())))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a call that the account's signature clearly does not allow.
    pub(crate) fn check_grant(&self, call: &Call) -> Result<(), Error> {
        if self.0.trusts_server {
            return Ok(());
        }
        let credential = self.0.credential.load();
        let Kind::Sas(_, grant) = &credential.0 else { return Ok(()) };
        match grant.refuse(call, self.signed_time()) {
            Some(reason) => {
                let error = Error::new(ErrorKind::NotGranted(reason));
                Err(error.at(call.operation, call.table(), None))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables;
    use bytes::Bytes;

    const NOW: &str = "2026-11-15T12:00:00Z";

    #[track_caller]
    fn check(token: &str, call: &Call, expect: Option<&str>) {
        let now = Timestamp::parse(NOW).unwrap();
        let refused = Grant::parse(token).refuse(call, now);
        match (&refused, expect) {
            (None, None) => {}
            (Some(reason), Some(part)) => assert!(reason.contains(part), "{reason}"),
            _ => panic!("{token}: {refused:?}"),
        }
    }

    fn write(method: Method, path: &str) -> Call {
        tables::write("write", method, path.to_owned(), Bytes::new())
    }

    fn read(path: &str) -> Call {
        tables::read("read", path.to_owned(), String::new())
    }

    #[test]
    fn a_token_of_a_table_allows_its_table_and_letters() {
        // C-16.5.
        let query = "sv=2019-02-02&tn=people&sp=r&se=2026-11-15T13:00:00Z&sig=a";
        check(query, &read("/People()"), None);
        check(query, &read("/People(PartitionKey='a',RowKey='b')"), None);
        check(query, &read("/Other()"), Some("table people"));
        check(query, &read("/Tables"), Some("table people"));
        check(query, &read("/Tables('People')"), Some("table people"));
        check(query, &write(Method::POST, "/People"), Some("\"a\""));
        check(query, &write(Method::DELETE, "/People(..)"), Some("\"d\""));
        check(query, &write(Method::PUT, "/People(..)"), Some("\"au\""));
        check(query, &write(Method::POST, "/$batch"), None);
        let mut update = write(Method::PATCH, "/People(..)");
        update.headers.insert(IF_MATCH, http::HeaderValue::from_static("*"));
        check(query, &update, Some("\"u\""));
        let expired = "sv=2019-02-02&tn=people&sp=raud&se=2026-11-15T12:00:00Z&sig=a";
        check(expired, &read("/People()"), Some("expired"));
        let by_policy = "sv=2019-02-02&tn=people&si=readers&sig=a";
        check(by_policy, &write(Method::POST, "/People"), None);
    }

    #[test]
    fn a_token_of_an_account_allows_its_services_and_letters() {
        let token = |ss: &str, sp: &str| {
            format!("sv=2019-02-02&ss={ss}&srt=sco&sp={sp}&se=2026-11-16T12:00:00Z&sig=a")
        };
        check(&token("bq", "rl"), &read("/People()"), Some("'t'"));
        check(&token("t", "r"), &read("/Tables"), Some("\"l\""));
        check(&token("t", "r"), &write(Method::POST, "/Tables"), Some("\"c\" or \"w\""));
        check(&token("t", "w"), &write(Method::POST, "/Tables"), None);
        check(&token("t", "rl"), &read("/People()"), None);
    }

    #[test]
    fn what_is_not_understood_is_left_to_the_service() {
        check("sig=a", &write(Method::POST, "/People"), None);
        check("sv=1&sr=c&sp=r&sig=a", &write(Method::POST, "/People"), None);
        check("sv=1&se=2026-11-15T11:00:00Z&sig=a", &read("/People()"), Some("expired"));
    }
}
