//! How requests to the Table service are signed, and what its tokens and roles permit.

use crate::auth::accounts::Account;
use crate::auth::bearer::{RoleGrant, RoleNames};
use crate::auth::credentials::{BearerRefusal, ContainerGrant, Credentials, Grant, Presented, Sas};
use crate::auth::delegation;
use crate::auth::keyring::Keyring;
use crate::auth::permit::Principal;
use crate::error::ApiResult;
use crate::operation::Facts;
use crate::operation::letters::{ADD, CREATE, DELETE, READ, UPDATE, WRITE};
use crate::table::api::TableApi;
use crate::table::explain;
use crate::table::operation::Resource;
use lazuli_model::{AccessPolicies, EntityKey, TableName};
use lazuli_table::{KeyBounds, TableError};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::{self, Caller, SasError, TableGrant, TableSas, UserDelegationSas};
use lazuli_wire::shared_key::{Scheme, SignedRequest};

/// The roles of the Table service and its data actions (the table of ).
pub(crate) const ROLES: &RoleNames = &RoleNames {
    service: "table",
    objects: "entities",
    containers: "tables",
    roles: &[
        ("reader", RoleGrant { objects: READ, containers: READ, service: READ, delegation: true }),
        (
            "contributor",
            RoleGrant {
                objects: READ.union(ADD).union(UPDATE).union(DELETE),
                containers: READ.union(CREATE).union(DELETE),
                service: READ.union(WRITE),
                delegation: true,
            },
        ),
        ("delegator", RoleGrant::DELEGATION),
    ],
    actions: &[
        ("tables/entities/read", RoleGrant::on_objects(READ)),
        ("tables/entities/add/action", RoleGrant::on_objects(ADD)),
        ("tables/entities/update/action", RoleGrant::on_objects(UPDATE)),
        ("tables/entities/write", RoleGrant::on_objects(ADD.union(UPDATE))),
        ("tables/entities/delete", RoleGrant::on_objects(DELETE)),
        ("tables/read", RoleGrant::on_containers(READ)),
        ("tables/write", RoleGrant::on_containers(CREATE)),
        ("tables/delete", RoleGrant::on_containers(DELETE)),
        ("read", RoleGrant::on_service(READ)),
        ("write", RoleGrant::on_service(WRITE)),
        ("generateUserDelegationKey/action", RoleGrant::DELEGATION),
    ],
};

/// A token of the Table service.
pub(crate) enum TableToken<'q> {
    Table(TableSas<'q>),
    UserDelegation(UserDelegationSas<'q>),
}

impl Credentials for TableApi {
    type Token<'q> = TableToken<'q>;
    type Grant = TableGrant;

    const LETTER: char = 't';
    const ROLES: &'static RoleNames = ROLES;

    /// Older versions of the service treat the batch resource as one that does not exist, as
    /// recorded; see docs/compat.md.
    fn missing_credential(presented: &Presented<'_>) -> ErrorCode {
        if presented.version.has_bearer_challenge() {
            ErrorCode::NoAuthenticationInformation
        } else if presented.path.ends_with("/$batch") {
            ErrorCode::ResourceNotFound
        } else {
            ErrorCode::AuthenticationFailed
        }
    }

    /// Before the challenge existed, a bearer token was just an invalid signature. If
    /// tokens are not accepted, another one would not help, so there is no challenge; the code is
    /// unverified.
    fn refused_bearer(presented: &Presented<'_>, refusal: BearerRefusal) -> ErrorCode {
        match refusal {
            BearerRefusal::Token if presented.version.has_bearer_challenge() => {
                ErrorCode::InvalidBearerToken
            }
            BearerRefusal::Token | BearerRefusal::NotTaken => ErrorCode::AuthenticationFailed,
        }
    }

    fn signing_key(
        account: &Account,
        presented: &Presented<'_>,
        scheme: Scheme,
        signature: &str,
    ) -> Option<usize> {
        let request = signed_request(account, presented);
        request.signing_key(&account.keys, scheme, signature)
    }

    fn explain_signature(
        presented: &Presented<'_>,
        scheme: Scheme,
        signature: &str,
        keys: &Keyring<'_>,
    ) -> String {
        let request = signed_request(keys.account, presented);
        explain::shared_key(&request, scheme, signature, presented, keys)
    }

    fn parse_sas<'q>(
        presented: &'q Presented<'_>,
    ) -> Result<Option<Sas<'q, TableToken<'q>>>, SasError> {
        Ok(sas::TableToken::parse(presented.query)?.map(|sas| match sas {
            sas::TableToken::Account(sas) => Sas::Account(sas),
            sas::TableToken::Service(sas) => Sas::Service(TableToken::Table(sas)),
            sas::TableToken::UserDelegation(sas) => Sas::Service(TableToken::UserDelegation(sas)),
        }))
    }

    async fn grant(
        &self,
        account: &Account,
        token: &Self::Token<'_>,
        caller: &Caller,
    ) -> ApiResult<Result<TableGrant, SasError>> {
        let name = account.name.as_str();
        match token {
            TableToken::Table(sas) => {
                if let Err(error) = sas.verify(name, &account.keys) {
                    return Ok(Err(error));
                }
                let policies = self.stored_policies(account, sas).await?;
                Ok(sas.grant(policies.find(sas.policy), caller))
            }
            TableToken::UserDelegation(sas) if self.gives_delegation_keys() => {
                let verify = |key: &_| sas.verify(name, key).is_ok();
                let owner = delegation::owner_permissions(account, &sas.key, ROLES, verify);
                Ok(owner.and_then(|owner| Ok(sas.grant(caller)?.within(owner))))
            }
            // No client can have such a token: we issue no keys to sign it with.
            TableToken::UserDelegation(_) => Ok(Err(SasError::Signature)),
        }
    }

    fn explain_token(token: &Self::Token<'_>, keys: &Keyring<'_>) -> String {
        match token {
            TableToken::Table(sas) => explain::table_sas(sas, keys),
            TableToken::UserDelegation(sas) => explain::user_delegation_sas(sas, keys),
        }
    }
}

fn signed_request<'a>(account: &'a Account, presented: &Presented<'a>) -> SignedRequest<'a> {
    SignedRequest {
        method: presented.method,
        content_md5: presented.headers.content_md5.unwrap_or_default(),
        content_type: presented.headers.content_type.unwrap_or_default(),
        date: presented.date(),
        account: account.name.as_str(),
        path: presented.path,
        comp: presented.query.get("comp"),
    }
}

impl TableApi {
    /// The stored policies of the token's table, if the token names one.
    async fn stored_policies(
        &self,
        account: &Account,
        sas: &TableSas<'_>,
    ) -> ApiResult<AccessPolicies> {
        let table = match (sas.policy, TableName::parse_any(sas.table)) {
            ("", _) | (_, Err(_)) => return Ok(AccessPolicies::default()),
            (_, Ok(table)) => table,
        };
        match self.tables.access_policies(&account.name, &table).await {
            Err(TableError::TableNotFound) => Ok(AccessPolicies::default()),
            policies => Ok(policies?),
        }
    }
}

impl Grant for TableGrant {
    type Resource = Resource;

    fn permit(&self, facts: &Facts, resource: &Resource) -> ApiResult<()> {
        let table = resource.table();
        let is_own = table.is_some_and(|table| self.check_table(table.as_str()).is_ok());
        let (name, permissions) = (self.table(), self.permissions());
        let grant = ContainerGrant { kind: "table", name, permissions };
        grant.permit(facts, table.map(TableName::lower), is_own)
    }
}

impl Principal<TableGrant> {
    /// Refuses an entity outside the credential's range of keys.
    pub(crate) fn permit_key(&self, key: &EntityKey) -> ApiResult<()> {
        match self {
            Self::Owner { .. } | Self::Account(_) | Self::Bearer(..) => Ok(()),
            Self::Service(grant) => Ok(grant.check_key(key.partition.as_str(), key.row.as_str())?),
        }
    }

    /// Refuses a credential that is limited to a range of the table's keys.
    pub(crate) fn permit_whole_table(&self) -> ApiResult<()> {
        match self {
            Self::Service(grant) if grant.range().is_limited() => Err(SasError::KeyRange.into()),
            _ => Ok(()),
        }
    }

    /// The entities that a query may return; others are left out without an error.
    pub(crate) fn bounds(&self) -> KeyBounds {
        match self {
            Self::Owner { .. } | Self::Account(_) | Self::Bearer(..) => KeyBounds::default(),
            Self::Service(grant) => {
                let range = grant.range().clone();
                KeyBounds { start: range.start, end: range.end }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::accounts::{Accounts, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
    use crate::auth::authenticate::{AuthOptions, Authenticator};
    use crate::headers::RequestHeaders;
    use crate::http::shared::{FrontOptions, Shared};
    use crate::table::api::TableOptions;
    use http::HeaderMap;
    use lazuli_engine::MemoryEngine;
    use lazuli_model::{SystemClock, Timestamp};
    use lazuli_table::TableService;
    use lazuli_wire::uri::Query;
    use lazuli_wire::version::ApiVersion;
    use std::sync::Arc;

    const DATE: &str = "Thu, 09 Dec 2021 00:23:06 GMT";

    fn account() -> Account {
        let text = format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}");
        Accounts::parse(&text).unwrap().remove(0)
    }

    async fn check(headers: &[(&'static str, &str)], now: &str) -> Result<(), ErrorCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let presented = Presented {
            method: "GET",
            path: "/devstoreaccount1/Orders()",
            resource: "/Orders()",
            query: &Query::default(),
            raw_query: "",
            headers: &RequestHeaders::of(&map),
            version: ApiVersion::parse("2019-02-02").unwrap(),
            caller: Caller {
                now: Timestamp::parse_rfc1123(now).unwrap(),
                address: std::net::Ipv4Addr::LOCALHOST.into(),
                https: false,
            },
            date_check: true,
        };
        let clock = Arc::new(SystemClock);
        let accounts = Arc::new(Accounts::new(vec![account()]).unwrap());
        let shared = Shared::new(accounts.clone(), clock.clone(), FrontOptions::default());
        let tables = TableService::new(Arc::new(MemoryEngine::default()), clock);
        let service = &TableApi::new(&shared, tables, TableOptions::default());
        let options = &AuthOptions::default();
        let known = Authenticator { service, accounts: &accounts, options };
        let outcome = known.authenticate(&account(), &presented).await;
        outcome.map(|_| ()).map_err(|error| error.code)
    }

    /// The vector AV-2.
    const SIGNED: &str =
        "SharedKeyLite devstoreaccount1:BiXBNxcCbxj1LL6VyhNX12HqC5V/0FTVn3IJusRly+w=";

    #[tokio::test]
    async fn x_ms_date_wins_over_date() {
        // TR-94: an emulator preferred Date.
        let other = ("date", "Thu, 09 Dec 2021 00:20:00 GMT");
        let headers = [("x-ms-date", DATE), other, ("authorization", SIGNED)];
        assert_eq!(check(&headers, DATE).await, Ok(()));
        assert_eq!(check(&[("date", DATE), ("authorization", SIGNED)], DATE).await, Ok(()));
    }

    #[tokio::test]
    async fn the_date_must_be_within_fifteen_minutes() {
        let headers = [("x-ms-date", DATE), ("authorization", SIGNED)];
        let failed = Err(ErrorCode::AuthenticationFailed);
        assert_eq!(check(&headers, "Thu, 09 Dec 2021 00:38:06 GMT").await, Ok(()));
        assert_eq!(check(&headers, "Thu, 09 Dec 2021 00:38:07 GMT").await, failed);
        assert_eq!(check(&headers, "Thu, 09 Dec 2021 00:08:06 GMT").await, Ok(()));
        assert_eq!(check(&headers, "Thu, 09 Dec 2021 00:08:05 GMT").await, failed);
        assert_eq!(check(&[("authorization", SIGNED)], DATE).await, failed);
    }

    #[tokio::test]
    async fn anything_else_is_refused() {
        let failed = Err(ErrorCode::AuthenticationFailed);
        let malformed = Err(ErrorCode::InvalidAuthenticationInfo);
        async fn with(text: &str) -> Result<(), ErrorCode> {
            check(&[("x-ms-date", DATE), ("authorization", text)], DATE).await
        }
        assert_eq!(check(&[("x-ms-date", DATE)], DATE).await, failed);
        assert_eq!(with("SharedKeyLite devstoreaccount1:AAAA").await, failed);
        assert_eq!(with(&SIGNED.replace("devstoreaccount1", "other")).await, failed);
        assert_eq!(with(&SIGNED.replace("SharedKeyLite", "SharedKey")).await, failed);
        assert_eq!(with("SharedKey devstoreaccount1").await, malformed);
        assert_eq!(with("Basic abc").await, malformed);
    }
}
