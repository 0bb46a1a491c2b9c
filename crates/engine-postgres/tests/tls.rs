//! TLS to the database: each mode, on a server whose certificates are made here (K-8.9).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{now, options};
use lazuli_engine::Engine;
use lazuli_engine_postgres::{OpenError, PostgresEngine, TlsFault};
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::postgres::{Server, is_there};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use std::path::Path;

/// An authority, and the server whose certificate it signed.
struct Database {
    server: Server,
    files: tempfile::TempDir,
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "the authority");
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Certificate and key for `name`, as PEM.
fn signed(by: &CertifiedIssuer<'static, KeyPair>, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.signed_by(&key, by).unwrap();
    (certificate.pem(), key.serialize_pem())
}

impl Database {
    /// A server that has a certificate for `localhost`.
    fn start() -> Self {
        let authority = authority();
        let (certificate, key) = signed(&authority, "localhost");
        let (client, client_key) = signed(&authority, "lazuli");
        let database = Self::with(&certificate, &key, &authority.pem());
        database.write("root.pem", &authority.pem());
        database.write("other.pem", &self::authority().pem());
        database.write("client.pem", &client);
        database.write("client.key", &client_key);
        database
    }

    fn with(certificate: &str, key: &str, root: &str) -> Self {
        let server = Server::start("");
        let files = [("server.crt", certificate), ("server.key", key), ("root.crt", root)];
        server.instance.speak_tls(&files, "ssl_ca_file = 'root.crt'").unwrap();
        Self { server, files: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).unwrap();
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.files.path().join(name)
    }

    fn address(&self, host: &str, parameters: &str) -> String {
        let base = self.server.address().replace("127.0.0.1", host);
        let dir = self.files.path().to_str().unwrap();
        format!("{base}?{}", parameters.replace("DIR", dir))
    }

    /// Opens the store as the address says, and checks whether the session uses TLS.
    #[track_caller]
    fn is_encrypted(&self, host: &str, parameters: &str) -> bool {
        let address = self.address(host, parameters);
        run(async {
            let (engine, _) = PostgresEngine::open(options(&address), now).await.unwrap();
            engine.health().await.unwrap();
            let seen = "do $$ begin assert (select bool_and(s.ssl) from pg_stat_ssl s \
                        join pg_stat_activity a using (pid) \
                        where a.application_name like 'lazuli/%'); end $$";
            self.server.instance.sql(seen).is_ok()
        })
    }

    #[track_caller]
    fn refusal(&self, host: &str, parameters: &str) -> OpenError {
        refusal(&self.address(host, parameters))
    }

    #[track_caller]
    fn fault(&self, host: &str, parameters: &str) -> TlsFault {
        match self.refusal(host, parameters) {
            OpenError::Tls { fault, .. } => fault,
            other => panic!("{other}"),
        }
    }
}

#[track_caller]
fn refusal(address: &str) -> OpenError {
    let options = options(address);
    run(async { PostgresEngine::open(options, now).await.map(drop).unwrap_err() })
}

#[test]
fn each_mode_trusts_what_it_says() {
    if !is_there() {
        return;
    }
    let database = Database::start();
    let root = "sslrootcert=DIR/root.pem";
    assert!(database.is_encrypted("localhost", &format!("sslmode=verify-full&{root}")));
    assert!(database.is_encrypted("127.0.0.1", &format!("sslmode=verify-ca&{root}")));
    assert!(database.is_encrypted("127.0.0.1", &format!("sslmode=require&{root}")));
    assert!(database.is_encrypted("127.0.0.1", "sslmode=require"));
    assert!(database.is_encrypted("127.0.0.1", "connect_timeout=3"), "it is preferred");
    assert!(!database.is_encrypted("localhost", "sslmode=disable"));
}

#[test]
fn certificate_that_is_not_trusted_is_explained() {
    if !is_there() {
        return;
    }
    let database = Database::start();
    let name = database.fault("127.0.0.1", "sslmode=verify-full&sslrootcert=DIR/root.pem");
    assert_eq!(name, TlsFault::OtherName { host: "127.0.0.1".into() });
    assert!(name.hint().contains("alternative names"));
    let host = || "localhost".to_owned();
    for mode in ["verify-full", "verify-ca", "require"] {
        let issuer = format!("sslmode={mode}&sslrootcert=DIR/other.pem");
        let issuer = database.fault("localhost", &issuer);
        assert_eq!(issuer, TlsFault::UnknownIssuer { host: host() }, "{mode}");
        assert!(issuer.hint().contains("sslrootcert"));
    }
    let system = database.refusal("localhost", "sslmode=verify-full");
    assert!(system.to_string().contains("authority that is not trusted"), "{system}");
}

#[test]
fn server_without_tls_is_explained() {
    if !is_there() {
        return;
    }
    let server = Server::start("");
    let refused = refusal(&format!("{}?sslmode=require", server.address()));
    assert!(
        matches!(&refused, OpenError::Tls { fault: TlsFault::NotOffered, .. }),
        "not {refused}"
    );
    assert!(refused.to_string().contains("does not speak TLS"), "{refused}");
    assert!(refused.hint().contains("ssl = on"), "{}", refused.hint());
    common::create(&format!("{}?sslmode=prefer", server.address()));
}

/// A certificate from `openssl req -x509` marks itself as an authority, and is its own root.
#[test]
fn certificate_that_signed_itself_can_be_the_one_to_trust() {
    if !is_there() {
        return;
    }
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let own = params.self_signed(&key).unwrap().pem();
    let database = Database::with(&own, &key.serialize_pem(), &own);
    database.write("root.pem", &own);
    database.write("other.pem", &authority().pem());
    assert!(database.is_encrypted("localhost", "sslmode=verify-full&sslrootcert=DIR/root.pem"));
    let name = database.fault("127.0.0.1", "sslmode=verify-full&sslrootcert=DIR/root.pem");
    assert!(matches!(name, TlsFault::OtherName { .. }), "{name}");
    let other = database.refusal("localhost", "sslmode=verify-full&sslrootcert=DIR/other.pem");
    assert!(matches!(other, OpenError::Tls { .. }), "{other}");

    params.not_after = date_time_ymd(2020, 1, 1);
    let old = params.self_signed(&key).unwrap().pem();
    let database = Database::with(&old, &key.serialize_pem(), &old);
    database.write("root.pem", &old);
    let expired = database.fault("localhost", "sslmode=verify-full&sslrootcert=DIR/root.pem");
    assert_eq!(expired, TlsFault::OutOfDate { host: "localhost".into() });
}

#[test]
fn our_own_certificate_is_shown_to_the_server() {
    if !is_there() {
        return;
    }
    let database = Database::start();
    database
        .server
        .instance
        .admit("hostssl all all all trust clientcert=verify-full\nhostnossl all lazuli all trust\n")
        .unwrap();
    let without = database.refusal("localhost", "sslmode=verify-full&sslrootcert=DIR/root.pem");
    assert!(without.to_string().contains("client certificate"), "{without}");
    let with = "sslmode=verify-full&sslrootcert=DIR/root.pem&sslcert=DIR/client.pem&\
                sslkey=DIR/client.key";
    assert!(database.is_encrypted("localhost", with));
    let (certificate, key) = signed(&authority(), "lazuli");
    database.write("client.pem", &certificate);
    database.write("client.key", &key);
    let stranger = database.fault("localhost", with);
    assert!(matches!(stranger, TlsFault::Refused { .. }), "{stranger}");
    assert!(stranger.hint().contains("ssl_ca_file"));
}

/// The password is bound to the certificate: a server that requires this gets it.
#[test]
fn password_is_bound_to_the_channel() {
    if !is_there() {
        return;
    }
    let database = Database::start();
    let instance = &database.server.instance;
    instance.sql("create role keeper superuser login password 'open sesame'").unwrap();
    instance.admit("hostssl all keeper all scram-sha-256\nhost all lazuli all trust\n").unwrap();
    let address = database
        .address(
            "localhost",
            "sslmode=verify-full&sslrootcert=DIR/root.pem&channel_binding=require",
        )
        .replace("lazuli@", "keeper:open%20sesame@");
    common::create(&address);
}

#[test]
fn file_that_is_no_certificate_is_explained() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("root.pem");
    std::fs::write(&file, "nothing").unwrap();
    let refused = |path: &Path| {
        let path = path.display();
        let address = format!("postgres://u@h/d?sslmode=verify-full&sslrootcert={path}");
        lazuli_engine_postgres::Address::parse(&address).unwrap_err()
    };
    assert!(refused(&file).to_string().contains("no certificate"), "{}", refused(&file));
    assert!(refused(&file).hint().contains("PEM"));
    let none = scratch.path().join("none.pem");
    assert!(refused(&none).to_string().contains("none.pem"), "{}", refused(&none));
}
