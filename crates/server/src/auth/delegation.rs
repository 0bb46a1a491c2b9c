//! User delegation keys: derived from an account key on request, and derived again to check a
//! token.
//!
//! Nothing is stored. A key's value is an HMAC, under an account key, over its owner, its validity
//! period, and what the owner's roles permitted on objects. A token repeats all of these except the
//! permissions, so a check derives the key for each possible set of permissions: the one that signed
//! shows what its owner may grant (A-7.7). A role change takes effect with the next key, at most a
//! week later; replacing the account key revokes all keys.

use crate::auth::accounts::Account;
use crate::auth::bearer::{Identity, RoleNames};
use crate::error::{ApiError, ApiResult};
use lazuli_model::Timestamp;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::{Permissions, SasError, UserDelegationKey};
use lazuli_wire::shared_key::{Signature, SigningKey};
use lazuli_wire::xml::{self, XmlError};

/// Maximum validity of a key (A-7.1).
const LIFETIME_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;
/// The tenant of an issuer whose tokens name none.
const NO_TENANT: &str = "00000000-0000-0000-0000-000000000000";
/// Begins with a byte that no header or other signed text can begin with, so that no signature is a
/// key and no key a signature.
const PURPOSE: &str = "\0lazuli user delegation key 1";

/// Issues a key to the holder of a bearer token, for the service that this letter names (Get User
/// Delegation Key). Returns the response document.
pub(crate) fn give_key(
    account: &Account,
    identity: &Identity,
    service: &str,
    version: &str,
    request: &[u8],
    now: Timestamp,
) -> ApiResult<Vec<u8>> {
    let (start, expiry) = window(request, now)?;
    let (start, expiry) = (start.to_string(), expiry.to_string());
    let key = UserDelegationKey {
        object_id: &identity.object_id,
        tenant_id: Some(identity.tenant_id.as_str())
            .filter(|id| !id.is_empty())
            .unwrap_or(NO_TENANT),
        start: &start,
        expiry: &expiry,
        service,
        version,
    };
    let nameless =
        key.object_id.is_empty() || [key.object_id, key.tenant_id].concat().contains('\n');
    let secret = account.keys.first().filter(|_| !nameless);
    let secret = secret.ok_or(ErrorCode::AuthorizationFailure)?;
    let value = derive(account, secret, &key, &identity.grant.objects.letters())?;
    let mut body = Vec::with_capacity(1024);
    xml::write_user_delegation_key(&mut body, &key, &value.to_string());
    Ok(body)
}

/// Finds the key that signed a token, and with it what its owner may grant. `roles` are the roles
/// that an owner may have; `verify` says whether a key signed.
pub(crate) fn owner_permissions(
    account: &Account,
    key: &UserDelegationKey<'_>,
    roles: &RoleNames,
    verify: impl Fn(&SigningKey) -> bool,
) -> Result<Permissions, SasError> {
    for secret in &account.keys {
        for permissions in roles.object_sets() {
            let value = derive(account, secret, key, &permissions.letters())?.to_string();
            let derived = SigningKey::from_base64(&value).map_err(|_| SasError::Signature)?;
            if verify(&derived) {
                return Ok(permissions);
            }
        }
    }
    Err(SasError::Signature)
}

/// The requested validity period: not over yet, and at most a week.
fn window(body: &[u8], now: Timestamp) -> ApiResult<(Timestamp, Timestamp)> {
    let (start, expiry) = xml::read_key_info(body)?;
    let second = |time: Timestamp| Timestamp::UNIX_EPOCH.plus_seconds(time.unix_seconds());
    let (start, expiry) = (second(start.unwrap_or(now)), second(expiry));
    if expiry <= now || expiry <= start || expiry > start.plus_seconds(LIFETIME_SECONDS_MAX) {
        return Err(ApiError::from(XmlError::OutOfRange));
    }
    Ok((start, expiry))
}

/// The value of a key. Its times are truncated to the second, because clients reformat them.
fn derive(
    account: &Account,
    secret: &SigningKey,
    key: &UserDelegationKey<'_>,
    roles: &str,
) -> Result<Signature, SasError> {
    let (start, expiry) = key.window()?;
    let (start, expiry) = (start.to_string(), expiry.to_string());
    let fields = [
        PURPOSE,
        account.name.as_str(),
        key.object_id,
        key.tenant_id,
        &start,
        &expiry,
        key.service,
        key.version,
        roles,
    ];
    Ok(secret.sign(&[fields.join("\n").as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::accounts::{Accounts, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
    use crate::auth::bearer::RoleGrant;
    use lazuli_wire::sas::{TableSas, UserDelegationSas};

    const ROLES: &RoleNames = &RoleNames {
        service: "note",
        objects: "notes",
        containers: "books",
        roles: &[("reader", RoleGrant::on_objects(Permissions::READ))],
        actions: &[
            ("add", RoleGrant::on_objects(Permissions::ADD)),
            ("delete", RoleGrant::on_objects(Permissions::DELETE)),
        ],
    };

    fn owner_permissions(
        account: &Account,
        sas: &UserDelegationSas<'_>,
    ) -> Result<Permissions, SasError> {
        let verify = |key: &SigningKey| sas.verify(account.name.as_str(), key).is_ok();
        super::owner_permissions(account, &sas.key, ROLES, verify)
    }

    const KEY: UserDelegationKey<'_> = UserDelegationKey {
        object_id: "11111111-1111-1111-1111-111111111111",
        tenant_id: "22222222-2222-2222-2222-222222222222",
        start: "2026-11-14T00:00:00Z",
        expiry: "2026-11-16T00:00:00Z",
        service: "t",
        version: "2025-07-05",
    };

    fn account(keys: &str) -> Account {
        Accounts::parse(&format!("{WELL_KNOWN_ACCOUNT}:{keys}")).unwrap().remove(0)
    }

    /// Signs a token like a client that got the key for `roles`.
    fn permissions(
        account: &Account,
        roles: &str,
        alter: impl FnOnce(&mut UserDelegationSas<'_>),
    ) -> Result<Permissions, SasError> {
        let value = derive(account, &account.keys[0], &KEY, roles).unwrap().to_string();
        let table = TableSas {
            version: "2025-07-05",
            table: "Orders",
            expiry: "2030-01-01",
            permissions: "r",
            ..TableSas::default()
        };
        let mut sas = UserDelegationSas { table, key: KEY, ..UserDelegationSas::default() };
        let text = sas.string_to_sign(WELL_KNOWN_ACCOUNT).unwrap();
        let signature =
            SigningKey::from_base64(&value).unwrap().sign(&[text.as_bytes()]).to_string();
        alter(&mut sas);
        let table = TableSas { signature: &signature, ..sas.table };
        owner_permissions(account, &UserDelegationSas { table, ..sas })
    }

    #[test]
    fn a_key_tells_what_its_owner_may_grant() {
        let account = account(WELL_KNOWN_KEY);
        for letters in ["r", "", "a", "d", "ra", "rd", "ad", "rad"] {
            assert_eq!(permissions(&account, letters, |_| {}), Ok(Permissions::parse(letters)));
        }
        assert_eq!(permissions(&account, "u", |_| {}), Err(SasError::Signature));
    }

    #[test]
    fn whoever_the_token_names_must_own_the_key() {
        let account = account(WELL_KNOWN_KEY);
        let altered =
            |key: UserDelegationKey<'static>| permissions(&account, "r", |sas| sas.key = key);
        assert!(altered(KEY).is_ok());
        // The same instant in another notation gives another string to sign; only the key is the same.
        for key in [
            UserDelegationKey { object_id: "other", ..KEY },
            UserDelegationKey { tenant_id: "other", ..KEY },
            UserDelegationKey { expiry: "2027-11-16T00:00:00Z", ..KEY },
            UserDelegationKey { start: "2026-11-14", ..KEY },
            UserDelegationKey { service: "q", ..KEY },
            UserDelegationKey { version: "2025-11-05", ..KEY },
        ] {
            assert_eq!(altered(key), Err(SasError::Signature), "{key:?}");
        }
        let other = UserDelegationKey { expiry: "", ..KEY };
        assert_eq!(altered(other), Err(SasError::Missing("ske")));
    }

    #[test]
    fn a_key_ends_with_the_account_key_it_was_made_from() {
        let (old, new) = (account("AAAA"), account("BBBB"));
        let both = account("BBBB:AAAA");
        let value = derive(&old, &old.keys[0], &KEY, "r").unwrap().to_string();
        let table = TableSas { version: "2025-07-05", table: "T", ..TableSas::default() };
        let sas = UserDelegationSas { table, key: KEY, ..UserDelegationSas::default() };
        let text = sas.string_to_sign(WELL_KNOWN_ACCOUNT).unwrap();
        let signature =
            SigningKey::from_base64(&value).unwrap().sign(&[text.as_bytes()]).to_string();
        let sas = UserDelegationSas { table: TableSas { signature: &signature, ..table }, ..sas };
        assert!(owner_permissions(&old, &sas).is_ok());
        assert!(owner_permissions(&both, &sas).is_ok());
        assert_eq!(owner_permissions(&new, &sas), Err(SasError::Signature));
    }

    #[test]
    fn a_key_is_for_a_week_at_most() {
        let now = Timestamp::parse("2026-11-15T12:00:00.5Z").unwrap();
        let check = |start: &str, expiry: &str| {
            let info = format!("<KeyInfo>{start}<Expiry>{expiry}</Expiry></KeyInfo>");
            let window = window(info.as_bytes(), now);
            window.map(|(from, to)| format!("{from} {to}")).map_err(|error| error.code)
        };
        let start = "<Start>2026-11-10T00:00:00Z</Start>";
        let week = "2026-11-10T00:00:00Z 2026-11-17T00:00:00Z".to_owned();
        assert_eq!(check(start, "2026-11-17T00:00:00.9Z"), Ok(week));
        let today = "2026-11-15T12:00:00Z 2026-11-16T00:00:00Z".to_owned();
        assert_eq!(check("", "2026-11-16"), Ok(today));
        let range = Err(ErrorCode::InvalidXmlDocument);
        assert_eq!(check(start, "2026-11-17T00:00:01Z"), range);
        assert_eq!(check(start, "2026-11-15T12:00:00Z"), range);
        assert_eq!(check("<Start>2026-11-16</Start>", "2026-11-16"), range);
        assert_eq!(check("<Start/>", ""), range);
        assert_eq!(check("<Other/>", "2026-11-16"), range);
    }
}
