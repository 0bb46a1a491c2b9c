//! A fake vault: it has a local key and answers as the service does.

use super::*;
use crate::encryption::{AesKey, Encryption, Keys, RsaKey};
use crate::entity::{Entity, Properties, TableEntity};
use crate::transport::{Body, TransportError};
use crate::write::WriteVerb;
use crate::{AccessToken, BoxError, Timestamp};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
use http::Response;
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

const VAULT: &str = "https://contoso.vault.azure.net";
const VERSION: &str = "78deebed173b48e48f55abf87ed4cf71";

#[derive(Debug, Default)]
struct Tokens(AtomicU32);

impl TokenCredential for Tokens {
    fn token<'a>(&'a self, scope: &'a str) -> BoxFuture<'a, Result<AccessToken, BoxError>> {
        assert_eq!(scope, "https://vault.azure.net/.default");
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        let secret = Secret::new(format!("token{number}"));
        Box::pin(std::future::ready(Ok(AccessToken { secret, expires: Timestamp::MAX })))
    }
}

/// An answer of the fake vault in place of the real one.
type Said = (u16, &'static str);

#[derive(Clone)]
struct StandIn {
    key: Arc<dyn KeyWrap>,
    seen: Arc<Mutex<Vec<String>>>,
    /// The next answers, given before it performs requests again.
    next: Arc<Mutex<VecDeque<Said>>>,
}

impl StandIn {
    /// With a key that wraps by RSA-OAEP-256.
    fn rsa() -> Self {
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
        let der: Pkcs8V1Der<'static> = private.as_der().unwrap();
        let key = RsaKey::from_pkcs8("there", der.as_ref()).unwrap();
        Self { key: Arc::new(key), seen: Arc::default(), next: Arc::default() }
    }

    fn vault(&self) -> KeyVault {
        KeyVault::new(VAULT, Tokens::default()).unwrap().transport(self.clone())
    }

    fn say(&self, answers: impl IntoIterator<Item = Said>) {
        self.next.lock().unwrap().extend(answers);
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    async fn answer(&self, request: Request<Bytes>) -> Response<Body> {
        let said = self.next.lock().unwrap().pop_front();
        let token = request.headers()[AUTHORIZATION].to_str().unwrap();
        let uri = request.uri().to_string();
        self.seen.lock().unwrap().push(format!("{} {uri} {token}", request.method()));
        let respond = |status: u16, body: String| {
            let body = Body::from(Bytes::from(body));
            Response::builder().status(status).header(RETRY_AFTER, "0").body(body).unwrap()
        };
        if let Some((status, body)) = said {
            return respond(status, body.to_owned());
        }
        let question: Json = serde_json::from_slice(request.body()).unwrap();
        let value = URL_SAFE_NO_PAD.decode(question["value"].as_str().unwrap()).unwrap();
        let algorithm = question["alg"].as_str().unwrap();
        let done = match uri.contains("/unwrapkey?") {
            true => self.key.unwrap(algorithm, &value).await.map(|cek| cek.expose().to_vec()),
            false => self.key.wrap(&value).await.map(|wrapped| wrapped.bytes),
        };
        let key = uri.split("/unwrapkey").next().unwrap();
        match done {
            Ok(bytes) => respond(
                200,
                json!({ "kid": key, "value": URL_SAFE_NO_PAD.encode(bytes) }).to_string(),
            ),
            Err(_) => respond(400, BAD.to_owned()),
        }
    }
}

const BAD: &str = r#"{"error":{"code":"BadParameter","message":"The parameter is incorrect."}}"#;

impl Transport for StandIn {
    fn send(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'_, Result<Response<Body>, TransportError>> {
        Box::pin(async { Ok(self.answer(request).await) })
    }
}

fn patient() -> Entity {
    Entity::new("Clinic", "17").with("Name", "Ann")
}

async fn seal(encryption: &Encryption) -> Result<Entity, CryptoError> {
    let mut properties = Properties::default();
    patient().write(&mut properties).unwrap();
    let key = patient().key().unwrap();
    encryption.seal(&mut properties, "t", &key, WriteVerb::Insert, &Env::system()).await?;
    let empty = Entity::new("Clinic", "17");
    let stored = properties.values();
    Ok(stored.fold(empty, |stored, (name, value)| stored.with(name.to_owned(), value.clone())))
}

#[tokio::test]
async fn entities_are_written_and_read_with_a_key_of_a_vault() {
    // C-15.4, E-34: reading the same entity again does not call the vault.
    let there = StandIn::rsa();
    let vault = there.vault();
    let key = vault.key("tables", VERSION).unwrap();
    let id = format!("{VAULT}/keys/tables/{VERSION}");
    assert_eq!(key.id(), id);
    let encryption = Encryption::v2(Keys::new(key)).properties(["Name"]);
    let stored = seal(&encryption).await.unwrap();
    let metadata = stored.str("_ClientEncryptionMetadata1").unwrap();
    assert!(metadata.contains(&format!(r#""KeyId":"{id}""#)), "{metadata}");
    assert!(metadata.contains(RSA_OAEP_256), "{metadata}");
    let other = AesKey::new("x", &[1; 32][..]).unwrap();
    let reader = Encryption::v2(Keys::new(other).resolver(vault));
    for _ in 0..3 {
        let read = reader.open(stored.clone(), &Env::system(), &[], &[]).await;
        assert_eq!(read, Ok(patient()));
    }
    let asked = |verb| format!("POST {id}/{verb}?api-version=7.4 Bearer token0");
    assert_eq!(there.seen(), ["wrapkey", "unwrapkey"].map(asked));
}

#[tokio::test]
async fn what_the_vault_refuses_is_said_and_what_passes_is_tried_again() {
    let there = StandIn::rsa();
    let key = there.vault().key("tables", VERSION).unwrap();
    there.say([(503, ""), (429, "")]);
    let wrapped = key.wrap(&[7; 40]).await.unwrap();
    assert_eq!(there.seen().len(), 3, "two pauses, then an answer");
    there.say([(401, "")]);
    let unwrapped = key.unwrap(RSA_OAEP_256, &wrapped.bytes).await.unwrap();
    assert_eq!(unwrapped.expose(), [7; 40]);
    assert!(there.seen().last().unwrap().ends_with("Bearer token1"), "a new token");

    let denied = r#"{"error":{"code":"Forbidden","message":"no wrapKey"}}"#;
    there.say([(403, denied)]);
    let reason = "403 Forbidden: Forbidden: no wrapKey".to_owned();
    let expected = CryptoError::KeyService { id: key.id().to_owned(), reason };
    assert_eq!(key.wrap(&[7; 40]).await.unwrap_err(), expected);
    there.say([(503, ""); 5]);
    assert!(matches!(key.wrap(&[7; 40]).await, Err(CryptoError::KeyService { .. })));
    assert_eq!(there.seen().len(), 6, "bounded");
    there.say([(200, "what?")]);
    assert!(matches!(key.wrap(&[7; 40]).await, Err(CryptoError::KeyService { .. })));
}

#[tokio::test]
async fn a_wrapped_key_that_does_not_open_says_nothing_else() {
    let there = StandIn::rsa();
    let key = there.vault().key("tables", VERSION).unwrap();
    for algorithm in [RSA_OAEP_256, RSA_OAEP] {
        assert_eq!(key.unwrap(algorithm, &[1; 256]).await.unwrap_err(), CryptoError::Decrypt);
    }
    there.seen();
    let old = key.unwrap(RSA1_5, &[1; 256]).await.unwrap_err();
    assert!(matches!(old, CryptoError::UnknownAlgorithm { .. }), "{old:?}");
    assert!(there.seen().is_empty(), "the vault was not asked");
    let random = key.allow_rsa1_5().unwrap(RSA1_5, &[1; 256]).await.unwrap();
    assert_eq!(random.expose().len(), 32);
}

#[tokio::test]
async fn keys_are_named_by_the_whole_address() {
    let vault = StandIn::rsa().vault();
    for (name, version) in [("", VERSION), ("tables", ""), ("a/b", VERSION), ("tables", "1?x")] {
        assert!(vault.key(name, version).is_err(), "{name} {version}");
    }
    for (id, is_ours) in [
        (format!("{VAULT}/keys/tables/{VERSION}"), true),
        (format!("{VAULT}/keys/tables"), false),
        (format!("{VAULT}/secrets/tables/{VERSION}"), false),
        (format!("https://eve.vault.azure.net/keys/tables/{VERSION}"), false),
        (format!("{VAULT}.eve.example/keys/tables/{VERSION}"), false),
        ("key1".to_owned(), false),
    ] {
        assert_eq!(vault.resolve(&id).await.is_some(), is_ours, "{id}");
    }
    for address in
        ["http://contoso.vault.azure.net", "https://", "https://localhost", "https://a.b/c"]
    {
        assert!(KeyVault::new(address, Tokens::default()).is_err(), "{address}");
    }
    assert!(!format!("{vault:?}").contains("token"));
}
