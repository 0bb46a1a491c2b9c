use super::*;
use crate::{Credential, Env, Environment, ResourceTypes};
use lazuli_wire::sas::TableToken;
use lazuli_wire::uri::Query;
use std::sync::Mutex;

const KEY: &str = "c2VjcmV0IGtleQ==";

/// A clock that is set by hand.
#[derive(Clone)]
struct Manual(Arc<Mutex<Timestamp>>);

impl Environment for Manual {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn random(&self) -> u64 {
        1
    }

    fn sleep(&self, _pause: Duration) -> crate::BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn table() -> (Table, Manual) {
    let now = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
    let manual = Manual(Arc::new(Mutex::new(now)));
    let account = Account::builder("http://127.0.0.1:1/acct")
        .credential(Credential::shared_key("acct", KEY).unwrap())
        .env(Env::new(manual.clone()))
        .build()
        .unwrap();
    (account.tables().table("People").unwrap(), manual)
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_token_of_a_table_says_what_was_asked_and_verifies() {
    // C-16.1.
    let (table, _) = table();
    let token = table
        .sas(Permissions::UPDATE | Permissions::READ)
        .expires_in(HOUR)
        .starts_now()
        .partition("user-17")
        .addresses("10.0.0.1".parse().unwrap()..="10.0.0.9".parse().unwrap())
        .https_only()
        .build()
        .unwrap();
    assert!(!format!("{token:?}").contains("sig"));
    let query = Query::parse_lenient(token.as_str()).unwrap();
    let Ok(Some(TableToken::Service(sas))) = TableToken::parse(&query) else {
        panic!("a token of a table")
    };
    assert_eq!((sas.permissions, sas.table), ("ru", "People"));
    assert_eq!((sas.start, sas.expiry), ("2026-11-15T11:45:00Z", "2026-11-15T13:00:00Z"));
    assert_eq!((sas.addresses, sas.protocol), ("10.0.0.1-10.0.0.9", "https"));
    assert_eq!(
        (sas.start_partition_key, sas.end_partition_key),
        (Some("user-17"), Some("user-17"))
    );
    assert_eq!((sas.start_row_key, sas.end_row_key), (None, None));
    let key = SigningKey::from_base64(KEY).unwrap();
    assert_eq!(sas.verify("acct", &[key]), Ok(()));
}

#[test]
fn a_token_of_an_account_names_services_types_and_ordered_letters() {
    let (table, _) = table();
    let token = table
        .account
        .sas(Permissions::ADD | Permissions::READ | Permissions::WRITE)
        .services(SasServices::ALL)
        .resource_types(ResourceTypes::OBJECT)
        .expires_in(HOUR)
        .build()
        .unwrap();
    let query = Query::parse_lenient(token.as_str()).unwrap();
    let Ok(Some(TableToken::Account(sas))) = TableToken::parse(&query) else {
        panic!("a token of an account")
    };
    assert_eq!((sas.services, sas.resource_types, sas.permissions), ("bqt", "o", "rwa"));
    let key = SigningKey::from_base64(KEY).unwrap();
    assert_eq!(sas.verify("acct", &[key]), Ok(()));
}

#[test]
fn a_token_for_a_very_long_time_still_has_an_end() {
    // C-16.2: moments after the year 9999 have no text, and `se` was left out.
    let (table, _) = table();
    let token = table.sas(Permissions::READ).expires_in(std::time::Duration::MAX).build().unwrap();
    let query = Query::parse_lenient(token.as_str()).unwrap();
    let Ok(Some(TableToken::Service(sas))) = TableToken::parse(&query) else {
        panic!("a token of a table")
    };
    assert_eq!(sas.expiry, "9999-12-31T23:59:59Z");
}

#[test]
fn what_the_service_would_refuse_is_refused_here() {
    // C-16.2.
    let (table, _) = table();
    let read = || table.sas(Permissions::READ).expires_in(HOUR);
    let at = |text| Timestamp::parse(text).unwrap();
    for (builder, part) in [
        (table.sas(Permissions::READ), "expiry"),
        (table.sas(Permissions::NONE).expires_in(HOUR), "without permissions"),
        (table.sas(Permissions::LIST).expires_in(HOUR), "READ, ADD"),
        (read().starts_at(at("2026-11-15T13:00:00Z")), "before it starts"),
        (read().partitions("b"..="a"), "before it starts"),
        (read().rows("p", "b"..="a"), "before it starts"),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(table.sas(Permissions::NONE).policy("readers").build().is_ok());
    assert!(read().range(("a", "z")..=("b", "a")).build().is_ok());
    let guest = Account::builder("http://127.0.0.1:1/acct").build().unwrap();
    let error = guest.sas(Permissions::READ).expires_in(HOUR).build().unwrap_err();
    assert!(error.to_string().contains("hint"), "{error}");
}

#[test]
fn an_issuer_gives_a_token_again_until_half_its_life_is_over() {
    // P-22.2.
    let (table, clock) = table();
    let issuer = table.sas_issuer(Permissions::READ, HOUR).tokens_max(2);
    let first = issuer.token("a").unwrap();
    let advance = |seconds| {
        let mut now = clock.0.lock().unwrap();
        *now = now.plus_seconds(seconds);
    };
    advance(1799);
    assert_eq!(issuer.token("a").unwrap(), first);
    advance(1);
    let second = issuer.token("a").unwrap();
    assert_ne!(second, first);
    assert!(second.as_str().contains("spk=a&epk=a"), "{}", second.as_str());
    for user in ["b", "c", "d"] {
        issuer.token(user).unwrap();
    }
    assert_eq!(issuer.cached(), 2);
    issuer.clear();
    assert_eq!(issuer.cached(), 0);
}

/// The service signs nothing: tests check what was to be signed with this key.
const USER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// A transport that returns a user delegation key for the requested service.
#[derive(Clone, Default)]
struct KeyService(Arc<Mutex<Vec<String>>>);

impl crate::Transport for KeyService {
    fn send(
        &self,
        request: http::Request<bytes::Bytes>,
    ) -> crate::BoxFuture<'_, Result<http::Response<crate::Body>, crate::TransportError>> {
        let header = |name| request.headers().get(name).unwrap().to_str().unwrap().to_owned();
        let body = String::from_utf8(request.body().to_vec()).unwrap();
        let seen = format!(
            "{} {} {} {} {body}",
            request.method(),
            request.uri(),
            header("x-ms-version"),
            header("authorization"),
        );
        self.0.lock().unwrap().push(seen);
        let service = &request.uri().host().unwrap()[..1];
        let answer = format!(
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><UserDelegationKey>\
             <SignedOid>oid</SignedOid><SignedTid>tid</SignedTid>\
             <SignedStart>2026-11-15T12:00:00Z</SignedStart>\
             <SignedExpiry>2026-11-15T13:00:00Z</SignedExpiry><SignedService>{service}</SignedService>\
             <SignedVersion>2025-07-05</SignedVersion><Value>{USER_KEY}</Value></UserDelegationKey>"
        );
        let answer = http::Response::new(crate::Body::from(bytes::Bytes::from(answer)));
        Box::pin(std::future::ready(Ok(answer)))
    }
}

#[derive(Debug)]
struct Token;

impl crate::TokenCredential for Token {
    fn token<'a>(
        &'a self,
        _scope: &'a str,
    ) -> crate::BoxFuture<'a, Result<crate::AccessToken, crate::BoxError>> {
        let secret = crate::Secret::new("bearer");
        let token = crate::AccessToken { secret, expires: Timestamp::MAX };
        Box::pin(std::future::ready(Ok(token)))
    }
}

fn users_account() -> (Account, KeyService) {
    let now = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
    let service = KeyService::default();
    let account = crate::AccountBuilder::from_connection_string(
        "AccountName=acct;TableEndpoint=https://t.example;QueueEndpoint=https://q.example;\
         BlobEndpoint=https://b.example;SharedAccessSignature=sig=x",
    );
    let account = account
        .unwrap()
        .credential(Credential::token(Token))
        .transport(service.clone())
        .env(Env::new(Manual(Arc::new(Mutex::new(now)))))
        .build()
        .unwrap();
    (account, service)
}

#[tokio::test]
async fn a_user_signs_with_a_key_of_their_own() {
    // C-16.1, A-7.5, A-13.29, B-3.25.
    let (account, service) = users_account();
    let value = SigningKey::from_base64(USER_KEY).unwrap();
    let tables = account.tables();
    let key = tables.user_delegation_key(HOUR).await.unwrap();
    assert_eq!(key.expires(), Timestamp::parse("2026-11-15T13:00:00Z"));
    assert!(!format!("{key:?}").contains("AAEC"), "{key:?}");
    let asked = service.0.lock().unwrap().pop().unwrap();
    assert_eq!(
        asked,
        "POST https://t.example/?restype=service&comp=userdelegationkey&timeout=30 2025-07-05 \
         Bearer bearer <KeyInfo><Start>2026-11-15T12:00:00Z</Start>\
         <Expiry>2026-11-15T13:00:00Z</Expiry></KeyInfo>"
    );
    let people = tables.table("People").unwrap();
    let sas = people.sas(Permissions::READ).partition("p").expires_in(HOUR).delegated_by(&key);
    let token = sas.build().unwrap();
    let query = Query::parse_lenient(token.as_str()).unwrap();
    let Ok(Some(TableToken::UserDelegation(sas))) = TableToken::parse(&query) else {
        panic!("{token:?}")
    };
    assert_eq!(sas.verify("acct", &value), Ok(()));
    assert_eq!((sas.key.object_id, sas.table.version), ("oid", "2025-07-05"));

    let policy = people.sas(Permissions::READ).expires_in(HOUR).policy("p").delegated_by(&key);
    assert!(policy.build().unwrap_err().to_string().contains("policy"));
    let too_long = tables.user_delegation_key(8 * 24 * HOUR).await.unwrap_err();
    assert!(too_long.to_string().contains("seven days"), "{too_long}");
}

#[cfg(all(feature = "queue", feature = "blob"))]
#[tokio::test]
async fn a_user_signs_for_queues_and_blobs_too() {
    use lazuli_wire::sas::{BlobToken, QueueToken};
    let (account, _) = users_account();
    let value = SigningKey::from_base64(USER_KEY).unwrap();
    let queues = account.queues();
    let key = queues.user_delegation_key(HOUR).await.unwrap();
    let jobs = queues.queue("jobs").unwrap();
    let token = jobs.sas(Permissions::PROCESS).expires_in(HOUR).delegated_by(&key).build().unwrap();
    let query = Query::parse_lenient(token.as_str()).unwrap();
    let Ok(Some(QueueToken::UserDelegation(sas))) = QueueToken::parse(&query) else { panic!() };
    assert_eq!(sas.verify("acct", "jobs", &value), Ok(()));

    let pics = account.blobs().container("pics").unwrap();
    let foreign = pics.sas(Permissions::READ).expires_in(HOUR).delegated_by(&key).build();
    assert!(foreign.unwrap_err().to_string().contains("another service"));
    let key = account.blobs().user_delegation_key(HOUR).await.unwrap();
    for (sas, path, letters) in [
        (pics.sas(Permissions::LIST | Permissions::READ), "pics", "rl"),
        (pics.blob("a b").unwrap().sas(Permissions::WRITE), "pics/a b", "w"),
    ] {
        let token = sas.expires_in(HOUR).delegated_by(&key).build().unwrap();
        let query = Query::parse_lenient(token.as_str()).unwrap();
        let Ok(Some(BlobToken::UserDelegation(sas))) = BlobToken::parse(&query) else { panic!() };
        assert_eq!(sas.verify("acct", path, &value), Ok(()));
        assert_eq!(sas.blob.permissions, letters);
    }
    let list = pics.blob("a").unwrap().sas(Permissions::LIST).expires_in(HOUR);
    let list = list.delegated_by(&key);
    assert!(list.build().unwrap_err().to_string().contains("a blob has the permissions"));
}
