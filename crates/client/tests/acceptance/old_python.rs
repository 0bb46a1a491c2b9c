//! Client-side encryption of version 1, with the old Python client (azure-cosmosdb-table 1.0.6) on the
//! other side: ES-2 of `docs/spec/encryption.md`.

use crate::interop::{run, variable};
use crate::peer::Peer;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, header};
use lazuli_client::encryption::{AesKey, Encryption, Keys, RsaKey};
use lazuli_client::{Change, Entity, Loaded, Table, Value, partition};
use std::collections::BTreeMap;
use std::process::Command;

crate::scenarios! {
    es_02_the_old_python_client_and_ours_read_each_other
}

const ENCRYPTED: [&str; 2] = ["Email", "Notes"];
/// Keys that both sides write with.
const SHARED: [&str; 4] = ["key1", "key3", "RSA-OAEP-256", "RSA-OAEP"];
const LEVELS: [&str; 3] = ["nometadata", "minimalmetadata", "fullmetadata"];

/// The rows, with the two texts of each; both sides of the test have this table.
fn texts() -> BTreeMap<&'static str, [String; 2]> {
    let text = |text: &str| text.to_owned();
    BTreeMap::from([
        ("insert", [text("jonesj@contoso.com"), text("")]),
        ("upsert", ["x".repeat(15), "x".repeat(16)]),
        ("replace", ["x".repeat(17), text("it's \u{e9} \u{1f680}")]),
        ("batch-1", [text("[a, b]"), text(r#"["a"]"#)]),
        ("batch-2", [text("line\r\nline"), "x".repeat(65_535)]),
    ])
}

fn row(partition: &str, name: &str) -> Entity {
    let [email, notes] = texts().remove(name).unwrap();
    Entity::new(partition, name)
        .with("Age", 34)
        .with("Photo", vec![0_u8, 0xFF])
        .with("Email", email)
        .with("Notes", notes)
}

/// The keys that both sides know, by their ids. An RSA key goes by the name of its algorithm.
struct KeyRing {
    rsa: Pkcs8V1Der<'static>,
}

impl KeyRing {
    fn generate() -> Self {
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
        Self { rsa: private.as_der().unwrap() }
    }

    fn keys(&self, id: &str) -> Keys {
        let aes = |secret: &[u8]| Keys::new(AesKey::new(id, secret).unwrap());
        let rsa = || RsaKey::from_pkcs8(id, self.rsa.as_ref()).unwrap();
        match id {
            "key1" => aes(&[1; 32]),
            "key2" => aes(&[2; 32]),
            "key3" => aes(&[3; 16]),
            "RSA-OAEP-256" => Keys::new(rsa()),
            "RSA-OAEP" => Keys::new(rsa().writing_rsa_oaep()),
            "RSA1_5" => Keys::new(rsa().allow_rsa1_5().unwrap()),
            _ => panic!("{id}"),
        }
    }

    fn encryption(&self, id: &str) -> Encryption {
        Encryption::v1_for_old_readers(self.keys(id)).properties(ENCRYPTED).require_encryption()
    }
}

/// Writes every row, each in another way.
async fn write(table: &Table, partition: &str) {
    let row = |name| row(partition, name);
    table.insert(&row("insert")).await.unwrap();
    table.upsert(&row("upsert")).await.unwrap();
    table.insert(&row("replace").with("Email", "old")).await.unwrap();
    let mut loaded = table.get((partition, "replace")).required().await.unwrap();
    *loaded = row("replace");
    table.replace(&loaded).await.unwrap();
    let batch = table.batch(partition).insert(&row("batch-1")).upsert(&row("batch-2"));
    batch.commit().await.unwrap();
}

/// Reads every row in every possible way: by its key and in a query, with each level of metadata, and
/// projected.
async fn read(table: &Table, part: &str) {
    for level in LEVELS {
        let accept = format!("application/json;odata={level}");
        let accept = HeaderValue::from_str(&accept).unwrap();
        let check = |row: &Loaded<Entity>, encrypted: &[&str]| {
            let name = row.row_key();
            let [email, notes] = texts().remove(name).unwrap();
            for (property, expected) in ENCRYPTED.into_iter().zip([&email, &notes]) {
                let wanted = encrypted.contains(&property).then_some(expected.as_str());
                assert_eq!(row.str(property).ok(), wanted, "{part}, {level}: {property} of {name}");
            }
            assert!(row.properties().all(|(name, _)| !name.starts_with("_Client")), "{row:?}");
        };
        for name in texts().keys() {
            let get = table.get((part, *name)).header(header::ACCEPT, accept.clone());
            let found = get.required().await.unwrap();
            check(&found, &ENCRYPTED);
            if level != "nometadata" {
                assert_eq!(found.get::<i32>("Age").unwrap(), 34);
                assert_eq!(found.value("Photo"), Some(&Value::Binary(vec![0, 0xFF].into())));
            }
        }
        if level == "nometadata" {
            continue; // A page without metadata has no ETags, and a `Loaded` needs one.
        }
        let query = || table.query(partition(part)).header(header::ACCEPT, accept.clone());
        let all = query().collect_at_most(9).await.unwrap();
        assert_eq!(all.len(), texts().len());
        all.iter().for_each(|row| check(row, &ENCRYPTED));
        for (selected, encrypted) in [("Email", &["Email"][..]), ("Age", &[])] {
            let rows = query().select_names([selected]).collect_at_most(9).await.unwrap();
            assert_eq!(rows.len(), texts().len());
            rows.iter().for_each(|row| check(row, encrypted));
        }
    }
}

/// Has the old client do its steps.
async fn let_python(peer: &Peer, ring: &KeyRing, table: &Table, steps: Vec<String>) {
    let [Some(python), Some(file)] =
        ["LAZULI_OLD_PYTHON", "LAZULI_OLD_PYTHON_PROGRAM"].map(variable)
    else {
        unreachable!("the caller looked")
    };
    let mut program = Command::new(python);
    program.arg(file).arg(table.name()).args(steps).env("PYTHONDONTWRITEBYTECODE", "1");
    program.env("LAZULI_RSA_KEY", STANDARD.encode(ring.rsa.as_ref()));
    run(peer, program).await;
}

async fn es_02_the_old_python_client_and_ours_read_each_other(peer: Peer) {
    if ["LAZULI_OLD_PYTHON", "LAZULI_OLD_PYTHON_PROGRAM"].map(variable).contains(&None) {
        return;
    }
    let table = peer.table("Encrypted").await;
    let ring = KeyRing::generate();
    let with = |id: &str| table.clone().encrypted(ring.encryption(id));
    let [ours, theirs] = ["ours", "theirs"].map(|whose| move |id: &str| format!("{whose}-{id}"));

    let mut steps = Vec::new();
    for id in SHARED {
        write(&with(id), &ours(id)).await;
        steps.push(format!("read:{}:{id}", ours(id)));
    }
    // We read RSA1_5 but never write it.
    let all: Vec<&str> = SHARED.into_iter().chain(["RSA1_5"]).collect();
    steps.extend(all.iter().map(|id| format!("write:{}:{id}", theirs(id))));
    let_python(&peer, &ring, &table, steps).await;
    for id in all {
        read(&with(id), &theirs(id)).await;
    }

    // E-31: after a rotation the old client reads rows of both, and one of its own that we rewrote.
    let both = ring.keys("key2").also(AesKey::new("key1", &[1; 32][..]).unwrap());
    let rotated = table.rotate_keys(&both).from("key1").to("key2").await.unwrap();
    assert_eq!(rotated.rewritten, 2 * texts().len() as u64, "{rotated:?}");
    let update = with("key2").update_with((theirs("key1"), "insert"), |row: &mut Entity| {
        row.set("Age", 34);
        Ok(Change::Write)
    });
    update.await.unwrap();
    let read_again = |partition: String| format!("read:{partition}:key2");
    let steps = [ours("key1"), theirs("key1")].map(read_again).into();
    let_python(&peer, &ring, &table, steps).await;
    read(&with("key2"), &ours("key1")).await;
    read(&with("key2"), &theirs("key1")).await;
}
