//! Tests with the tokens of our own small issuer.

use super::*;
use crate::http::tls::{Certificate, SelfSigned, Tls};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use http::Uri;
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::issuer::{self, ISSUER, TestIssuer, base64};
use lazuli_wire::sas::Permissions;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const NOW: u64 = 1_700_000_000;

const READER: RoleGrant = RoleGrant { objects: Permissions::READ, ..RoleGrant::NONE };
const WRITER: RoleGrant = RoleGrant { objects: Permissions::ADD, ..RoleGrant::NONE };
const LISTER: RoleGrant = RoleGrant { containers: Permissions::READ, ..RoleGrant::NONE };

const TABLE: &RoleNames = &RoleNames {
    service: "table",
    objects: "entities",
    containers: "tables",
    roles: &[("reader", READER), ("contributor", WRITER)],
    actions: &[("tables/entities/write", WRITER), ("tables/read", LISTER)],
};
const QUEUE: &RoleNames = &RoleNames {
    service: "queue",
    objects: "messages",
    containers: "queues",
    roles: &[("reader", LISTER)],
    actions: &[("queues/messages/read", READER)],
};
const SERVICES: &[&RoleNames] = &[TABLE, QUEUE];

/// The content of a valid token, with `more` overriding its claims.
fn claims(more: &[(&str, &str)]) -> String {
    issuer::claims(NOW, more)
}

fn write_keys(path: &Path, keys: &[String]) {
    std::fs::write(path, format!(r#"{{"keys":[{}]}}"#, keys.join(","))).unwrap();
}

/// A file of keys, and an issuer that accepts tokens signed with them.
struct Fixture {
    directory: TempDir,
    tokens: TokenIssuer,
}

impl Fixture {
    fn new(keys: &[String]) -> Self {
        Self::with(keys, &[], &[])
    }

    fn with(keys: &[String], audiences: &[&str], mappings: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.json");
        write_keys(&path, keys);
        let mut roles = RoleMap::new(SERVICES);
        mappings.iter().for_each(|mapping| roles.add(mapping).unwrap());
        let tokens = TokenIssuer::new(IssuerOptions {
            issuer: ISSUER.to_owned(),
            audiences: audiences.iter().map(|&audience| audience.to_owned()).collect(),
            keys: KeySource::parse(path.to_str().unwrap()).unwrap(),
            roles,
        });
        Self { directory, tokens }
    }

    fn replace_keys(&self, keys: &[String]) {
        write_keys(&self.directory.path().join("keys.json"), keys);
    }

    async fn check_at(&self, token: &str, seconds: u64) -> Result<Identity, TokenError> {
        let account = AccountName::parse("acct1").unwrap();
        let now = Timestamp::from_unix_seconds(seconds);
        self.tokens.check(token, &account, TABLE, now).await
    }

    async fn check(&self, token: &str) -> Result<Identity, TokenError> {
        self.check_at(token, NOW).await
    }
}

#[tokio::test]
async fn a_good_token_names_its_holder_and_roles() {
    let issuer = TestIssuer::new("k1");
    let fixture = Fixture::new(&[issuer.jwk()]);
    let identity = fixture.check(&issuer.token(&claims(&[]))).await.unwrap();
    assert_eq!(identity.object_id, "11111111-1111-1111-1111-111111111111");
    assert_eq!(identity.tenant_id, "22222222-2222-2222-2222-222222222222");
    assert_eq!(identity.grant, READER);
}

#[tokio::test]
async fn rsa_keys_sign_too() {
    let key = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let der = key.public_key().as_ref().to_vec();
    // PKCS #1: a sequence of the modulus, 257 bytes with its leading zero, and the exponent.
    let (n, e) = (base64(&der[8..265]), base64(&der[267..]));
    let jwk = format!(r#"{{"kty":"RSA","kid":"r","n":"{n}","e":"{e}"}}"#);
    let fixture = Fixture::new(&[jwk]);
    let signed =
        format!("{}.{}", base64(br#"{"alg":"RS256","kid":"r"}"#), base64(claims(&[]).as_bytes()));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
    assert!(fixture.check(&format!("{signed}.{}", base64(&signature))).await.is_ok());
    signature[7] ^= 1;
    let outcome = fixture.check(&format!("{signed}.{}", base64(&signature))).await;
    assert_eq!(outcome.unwrap_err(), TokenError::Signature);
}

#[tokio::test]
async fn only_the_issuers_key_with_its_own_algorithm_signs() {
    let (issuer, stranger) = (TestIssuer::new("k1"), TestIssuer::new("k1"));
    let fixture = Fixture::new(&[issuer.jwk()]);
    let good = issuer.token(&claims(&[]));
    let forged = fixture.check(&stranger.token(&claims(&[]))).await;
    assert_eq!(forged.unwrap_err(), TokenError::Signature);
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let altered = base64(claims(&[("roles", r#"["Storage Table Data Contributor"]"#)]).as_bytes());
    let header = signed.split_once('.').unwrap().0;
    let altered = fixture.check(&format!("{header}.{altered}.{signature}")).await;
    assert_eq!(altered.unwrap_err(), TokenError::Signature);
    for algorithm in ["none", "None", "HS256", "RS256", "ES384", ""] {
        let header = format!(r#"{{"alg":"{algorithm}","kid":"k1"}}"#);
        let token = issuer.token_with(&header, &claims(&[]));
        let unsigned = format!("{}.", token.rsplit_once('.').unwrap().0);
        for token in [token, unsigned] {
            let error = fixture.check(&token).await.unwrap_err();
            assert!(matches!(error, TokenError::Algorithm { expected: "ES256", .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn what_is_no_token_is_refused() {
    let issuer = TestIssuer::new("k1");
    let fixture = Fixture::new(&[issuer.jwk()]);
    let critical = issuer.token_with(r#"{"alg":"ES256","kid":"k1","crit":["x"]}"#, &claims(&[]));
    let listed = issuer.token("[]");
    let endless = issuer.token(&claims(&[("exp", "")]));
    for token in ["", "a", "a.b", "a.b.c", "..", "é.é.é", &critical, &listed, &endless] {
        let error = fixture.check(token).await.unwrap_err();
        assert!(matches!(error, TokenError::Malformed(_)), "{token}: {error}");
    }
    let long = "a".repeat(TOKEN_BYTES_MAX + 1);
    assert_eq!(fixture.check(&long).await.unwrap_err(), TokenError::TooLong);
}

#[tokio::test]
async fn issuer_and_audience_must_be_ours() {
    let issuer = TestIssuer::new("k1");
    let fixture = Fixture::new(&[issuer.jwk()]);
    let own = Fixture::with(&[issuer.jwk()], &["api://tables/"], &[]);
    let audience = |text: &str| issuer.token(&claims(&[("aud", text)]));
    for good in [
        r#""https://storage.azure.com/""#,
        r#""https://acct1.table.core.windows.net""#,
        r#"["other","https://acct1.table.core.windows.net/"]"#,
    ] {
        assert!(fixture.check(&audience(good)).await.is_ok(), "{good}");
        assert!(own.check(&audience(good)).await.is_err(), "{good}");
    }
    assert!(own.check(&audience(r#""api://tables""#)).await.is_ok());
    for bad in [
        r#""https://acct2.table.core.windows.net""#,
        r#""http://storage.azure.com""#,
        r#""https://storage.azure.com.evil.test""#,
        r#""""#,
        "[]",
        "",
    ] {
        let error = fixture.check(&audience(bad)).await.unwrap_err();
        assert!(matches!(error, TokenError::Audience { .. }), "{bad}: {error}");
    }
    for bad in [r#""https://issuer.test/tenant/v2.0/""#, r#""""#, ""] {
        let error = fixture.check(&issuer.token(&claims(&[("iss", bad)]))).await.unwrap_err();
        assert!(matches!(error, TokenError::Issuer { .. }), "{bad}: {error}");
    }
}

#[tokio::test]
async fn a_token_has_its_hours_and_a_minute_of_leeway() {
    let issuer = TestIssuer::new("k1");
    let fixture = Fixture::new(&[issuer.jwk()]);
    let token = issuer.token(&claims(&[]));
    let end = NOW + 3600;
    let expired = TokenError::Expired(Timestamp::from_unix_seconds(end));
    assert!(fixture.check_at(&token, end + 59).await.is_ok());
    assert_eq!(fixture.check_at(&token, end + 60).await.unwrap_err(), expired);
    let early = TokenError::NotYetValid(Timestamp::from_unix_seconds(NOW));
    assert!(fixture.check_at(&token, NOW - 60).await.is_ok());
    assert_eq!(fixture.check_at(&token, NOW - 61).await.unwrap_err(), early);
    for (exp, good) in [("1e300", true), ("-1", false), ("1700003600.5", true)] {
        let token = issuer.token(&claims(&[("exp", exp)]));
        assert_eq!(fixture.check(&token).await.is_ok(), good, "{exp}");
    }
}

#[tokio::test]
async fn roles_come_from_any_of_four_claims() {
    let issuer = TestIssuer::new("k1");
    let mappings = ["writers=contributor", "w 2=tables/entities/write,tables/read"];
    let fixture = Fixture::with(&[issuer.jwk()], &[], &mappings);
    let grant = async |name: &str, value: &str| {
        let token = issuer.token(&claims(&[("roles", ""), (name, value)]));
        fixture.check(&token).await.unwrap().grant
    };
    assert_eq!(grant("roles", r#""Storage Table Data Contributor""#).await, WRITER);
    assert_eq!(grant("groups", r#"["x","writers"]"#).await, WRITER);
    assert_eq!(grant("scp", r#""openid StorageTableDataReader""#).await, READER);
    assert_eq!(grant("scope", r#""Storage.Table.Data.Reader""#).await, READER);
    let write = RoleGrant { containers: Permissions::READ, ..WRITER };
    assert_eq!(grant("roles", r#"["w 2"]"#).await, write);
    // Names that mean something elsewhere mean nothing here.
    for other in [r#"["reader","Contributor","Storage Blob Data Reader",""]"#, "[]"] {
        assert_eq!(grant("roles", other).await, RoleGrant::default());
    }
}

/// A token names roles of several services, and each service reads its own.
#[test]
fn a_role_opens_the_service_it_names() {
    let mut roles = RoleMap::new(SERVICES);
    roles.add("both=reader").unwrap();
    roles.add("queues=Storage Queue Data Reader").unwrap();
    roles.add("full=Microsoft.Storage/storageAccounts/queueServices/queues/messages/read").unwrap();
    let grants = |value: &str| [TABLE, QUEUE].map(|names| roles.grant([value].into_iter(), names));
    assert_eq!(grants("both"), [READER, LISTER]);
    assert_eq!(grants("queues"), [RoleGrant::NONE, LISTER]);
    assert_eq!(grants("full"), [RoleGrant::NONE, READER]);
    assert_eq!(grants("Storage Queue Data Reader"), [RoleGrant::NONE, LISTER]);
}

#[test]
fn mappings_say_what_is_wrong_with_them() {
    let error = |text: &str| RoleMap::new(SERVICES).add(text).unwrap_err().to_string();
    assert_eq!(error("writers"), "'writers' is not VALUE=ROLE");
    assert_eq!(error("=reader"), "'=reader' is not VALUE=ROLE");
    assert_eq!(error("a=owner"), "'owner' is neither a role nor a data action");
}

#[tokio::test]
async fn a_new_key_is_found_and_an_old_one_forgotten() {
    let (first, second) = (TestIssuer::new("k1"), TestIssuer::new("k2"));
    let fixture = Fixture::new(&[first.jwk()]);
    let late = ("exp", "1800000000");
    let (by_first, by_second) = (first.token(&claims(&[late])), second.token(&claims(&[late])));
    assert!(fixture.check(&by_first).await.is_ok());
    fixture.replace_keys(&[second.jwk()]);
    // Too soon after the last read: the new key stays unknown.
    let unknown = Err(TokenError::UnknownKey("k2".to_owned()));
    assert_eq!(fixture.check_at(&by_second, NOW + 29).await.map(drop), unknown);
    assert!(fixture.check_at(&by_first, NOW + 29).await.is_ok());
    assert!(fixture.check_at(&by_second, NOW + 30).await.is_ok());
    assert!(fixture.check_at(&by_first, NOW + 31).await.is_err());
    // If the keys cannot be read, the known ones stay.
    std::fs::write(fixture.directory.path().join("keys.json"), "{").unwrap();
    assert!(fixture.check_at(&by_second, NOW + 2 * 3600).await.is_ok());
    fixture.replace_keys(&[first.jwk()]);
    assert!(fixture.check_at(&by_second, NOW + 3 * 3600).await.is_err());
    assert!(fixture.check_at(&by_first, NOW + 3 * 3600).await.is_ok());
}

#[tokio::test]
async fn a_token_without_a_key_id_needs_a_lone_key() {
    let (issuer, other) = (TestIssuer::new("k1"), TestIssuer::new("k2"));
    let token = issuer.token_with(r#"{"alg":"ES256"}"#, &claims(&[]));
    assert!(Fixture::new(&[issuer.jwk()]).check(&token).await.is_ok());
    assert!(Fixture::new(&[issuer.jwk(), other.jwk()]).check(&token).await.is_err());
}

#[tokio::test]
async fn keys_that_cannot_be_used_are_told_at_the_start() {
    let issuer = TestIssuer::new("k1");
    let load = async |document: &str| {
        let fixture = Fixture::new(&[]);
        std::fs::write(fixture.directory.path().join("keys.json"), document).unwrap();
        let outcome = fixture.tokens.load_keys(Timestamp::from_unix_seconds(NOW)).await;
        outcome.map_err(|error| error.to_string())
    };
    let none =
        "the document has no key for RS256, RS384, RS512, PS256, PS384, PS512, ES256 or ES384";
    let encryption = issuer.jwk().replace(r#""sig""#, r#""enc""#);
    let secret = r#"{"kty":"oct","kid":"k1","alg":"HS256","k":"c2VjcmV0"}"#;
    let off_curve = issuer.jwk().replace(r#""y":""#, r#""y":"AAAA"#);
    for key in [encryption.as_str(), secret, &off_curve, r#"{"kty":"RSA","n":"AQAB","e":""}"#] {
        assert_eq!(load(&format!(r#"{{"keys":[{key}]}}"#)).await, Err(none.to_owned()), "{key}");
    }
    let mixed = format!(r#"{{"keys":[{secret},{}]}}"#, issuer.jwk());
    assert_eq!(load(&mixed).await, Ok(1));
    assert_eq!(load("[]").await, Err("the document is not a JSON Web Key Set".to_owned()));
}

#[tokio::test]
async fn keys_come_over_http() {
    let issuer = TestIssuer::new("k1");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys?a=b", listener.local_addr().unwrap());
    let document = format!(r#"{{"keys":[{}]}}"#, issuer.jwk());
    let answers = [("404 Not Found", String::new()), ("200 OK", document)];
    let server = std::thread::spawn(move || {
        answers.map(|(status, body)| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let len = stream.read(&mut request).unwrap();
            let length = body.len();
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&request[..len]).into_owned()
        })
    });
    let tokens = TokenIssuer::new(IssuerOptions {
        issuer: ISSUER.to_owned(),
        audiences: Vec::new(),
        keys: KeySource::parse(&url).unwrap(),
        roles: RoleMap::new(SERVICES),
    });
    let now = Timestamp::from_unix_seconds(NOW);
    assert!(matches!(tokens.load_keys(now).await, Err(KeysError::Status(404))));
    assert_eq!(tokens.load_keys(now).await.unwrap(), 1);
    for request in server.join().unwrap() {
        assert!(request.starts_with("GET /keys?a=b HTTP/1.1\r\n"), "{request}");
    }
}

#[tokio::test]
async fn keys_come_over_tls_from_a_host_that_is_known() {
    let names = ["localhost".to_owned()];
    let now = SystemClock.now();
    let own = SelfSigned::generate(&names, now).unwrap();
    let stranger = SelfSigned::generate(&names, now).unwrap();
    let shown = Certificate::from_pem(own.certificate.as_bytes(), own.key.as_bytes()).unwrap();
    let tls = Tls::new(shown);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            let (stream, _) = listener.accept().await.unwrap();
            // The second caller hangs up on a certificate it does not know.
            let Ok(mut stream) = tls.acceptor().accept(stream).await else { continue };
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await.unwrap();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nkeys";
            stream.write_all(answer).await.unwrap();
        }
    });
    let uri: Uri = format!("https://localhost:{}/keys", address.port()).parse().unwrap();
    let fetch = async |trusted: &SelfSigned| {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted.certificate.as_bytes()).unwrap()).unwrap();
        let stream = TcpStream::connect(address).await?;
        source::get(source::secure(stream, &uri, roots).await?, &uri).await
    };
    assert_eq!(fetch(&own).await.unwrap(), b"keys");
    assert!(matches!(fetch(&stranger).await, Err(KeysError::Io(_))));
    server.await.unwrap();
}

#[test]
fn a_source_is_a_file_or_a_url() {
    assert_eq!(KeySource::parse("a/b.json"), Ok(KeySource::File("a/b.json".into())));
    assert!(matches!(KeySource::parse("http://h:1/x"), Ok(KeySource::Url(_))));
    assert!(matches!(KeySource::parse("http://"), Err(KeySourceError::Url(_))));
    assert!(matches!(KeySource::parse("https://h/x"), Ok(KeySource::Url(_))));
    assert!(matches!(KeySource::parse("https:///x"), Err(KeySourceError::Url(_))));
}
