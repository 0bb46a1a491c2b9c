//! Encrypted types in patterns that write the rows of a type as plain entities.

use crate::{crypto, keys, raw_table};
use lazuli_client::encryption::{CryptoError, Encryption};
use lazuli_client::patterns::jobs::{Job, JobError, Jobs, MoveOutcome, Run, Worker};
use lazuli_client::patterns::lists::ListTable;
use lazuli_client::patterns::relations::rehome;
use lazuli_client::{Account, Entity, Table, TableEntity, Value};
use serde::{Deserialize, Serialize};

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "People", partition = "{clinic}", row = "{id:08}", rename_all = "PascalCase")]
struct Patient {
    clinic: String,
    id: u32,
    #[table(encrypt)]
    name: String,
}

fn ann() -> Patient {
    Patient { clinic: "North".into(), id: 17, name: "Ann".into() }
}

#[track_caller]
fn assert_hidden(stored: &Entity) {
    assert!(matches!(stored.value("Name"), Some(Value::Binary(_))), "{stored:?}");
}

struct Tables {
    from: Table<Patient>,
    to: Table<Patient>,
    /// Moves to another key.
    rekeys: bool,
}

#[derive(Serialize, Deserialize)]
struct Archive;

impl Job for Archive {
    const KIND: &'static str = "archive";
    type Context = Tables;

    async fn run(&self, tables: &Tables, run: &Run) -> Result<(), JobError> {
        let moved = run.move_entity(&tables.from, Patient::key("North", 17)?, &tables.to);
        let outcome = match tables.rekeys {
            true => moved.to_key(|_| Ok(Patient::key("South", 17)?.into_entity_key())).await?,
            false => moved.await?,
        };
        assert_eq!(outcome, MoveOutcome::Done);
        Ok(())
    }
}

/// How many jobs were done.
async fn archive(account: &Account, tables: Tables) -> u64 {
    let queue = account.queues().create_if_missing("archive").await.unwrap();
    Jobs::new(&queue).send(&Archive).await.unwrap();
    let worker = Worker::new(&queue).job::<Archive>(tables);
    worker.run_until_idle().await.unwrap().done
}

#[tokio::test]
async fn a_job_moves_an_encrypted_entity_and_never_a_clear_one() {
    // E-22, E-50. Tables of a job are passed as tables of plain entities: once, an entity was decrypted on its way
    // out of a table with keys, and stored in clear in one without.
    let (server, raw) = raw_table().await;
    let account = server.account();
    let raw_archive = account.tables().create("Archive").await.unwrap();
    let encrypted = |table: &Table| table.retyped::<Patient>().encrypted(Encryption::v2(keys()));
    let (patients, archived) = (encrypted(&raw), encrypted(&raw_archive));
    patients.insert(&ann()).await.unwrap();
    for (from, to, rekeys) in [
        (&patients, &raw_archive.retyped(), false),
        (&raw.retyped(), &archived, false),
        (&raw.retyped(), &raw_archive.retyped(), false),
    ] {
        let tables = Tables { from: from.clone(), to: to.clone(), rekeys };
        assert_eq!(archive(&account, tables).await, 0);
        assert!(raw_archive.scan().collect_at_most(1).await.unwrap().is_empty());
    }
    let tables = Tables { from: patients.clone(), to: archived.clone(), rekeys: true };
    assert_eq!(archive(&account, tables).await, 1);
    assert_hidden(&raw_archive.get(("South", "00000017")).required().await.unwrap());

    patients.insert(&ann()).await.unwrap();
    let tables = Tables { from: patients.clone(), to: archived.clone(), rekeys: false };
    assert_eq!(archive(&account, tables).await, 1);
    assert_hidden(&raw_archive.get(("North", "00000017")).required().await.unwrap());
    let moved = archived.get(Patient::key("North", 17).unwrap()).required().await.unwrap();
    assert_eq!(*moved, ann());
    assert!(raw.scan().collect_at_most(1).await.unwrap().is_empty());
}

/// With an index in its partition.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "People", partition = "{clinic}", row = "p_{id:08}", rename_all = "PascalCase")]
#[index(ward, row = "ward_{ward:04}_{id:08}")]
struct Guest {
    clinic: String,
    id: u32,
    ward: u32,
    #[table(encrypt)]
    name: String,
}

#[tokio::test]
async fn a_rehomed_entity_is_encrypted_under_its_new_key() {
    // E-50, P-12.6.
    let (_server, raw) = raw_table().await;
    let guests = raw.retyped::<Guest>().encrypted(Encryption::v2(keys()));
    let guest = Guest { clinic: "North".into(), id: 1, ward: 3, name: "Ann".into() };
    guests.insert(&guest).await.unwrap();
    let key = |clinic: &str| Guest::key(clinic, 1).unwrap();
    let change = |guest: &mut Guest| guest.clinic = "South".into();
    let moved = rehome(&guests, key("North"), key("South"), change).await.unwrap();
    assert_eq!(moved, MoveOutcome::Done);
    let stored = raw.scan().collect_at_most(5).await.unwrap();
    assert_eq!(stored.len(), 2, "{stored:?}");
    stored.iter().for_each(|row| assert_hidden(row));
    let moved = guests.get(key("South")).required().await.unwrap();
    assert_eq!((&*moved.name, &*moved.clinic), ("Ann", "South"));
}

/// In a list in its partition.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(
    name = "People",
    kind = "Member",
    partition = "{clinic}",
    row = "p_{id:08}",
    rename_all = "PascalCase"
)]
#[index_list(ward, option = 2, row = "ward_{ward:04}", items = "Ids", item = "{id:08}")]
struct Member {
    clinic: String,
    id: u32,
    ward: u32,
    #[table(encrypt)]
    name: String,
}

/// In a list in another partition.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(
    name = "People",
    kind = "Nurse",
    partition = "{clinic}",
    row = "n_{id:08}",
    rename_all = "PascalCase"
)]
#[index_list(
    team,
    option = 3,
    partition = "team_{team}",
    row = "team_{team}",
    item = "{clinic}:{id:08}"
)]
struct Nurse {
    clinic: String,
    id: u32,
    team: String,
    #[table(encrypt)]
    name: String,
}

#[tokio::test]
async fn listed_entities_are_encrypted_and_their_lists_are_not() {
    // E-50. Such lists could not be written at all, because nothing said which of their properties are encrypted.
    let (_server, raw) = raw_table().await;
    let clear = ListTable::<Member>::new(&raw.retyped::<Member>());
    assert_eq!(crypto(clear.map(drop)), CryptoError::NoKey);

    // Lists are clear even where entities must be encrypted.
    let encryption = || Encryption::v2(keys()).require_encryption();
    let encrypted = raw.retyped::<Member>().encrypted(encryption());
    let members = ListTable::<Member>::new(&encrypted).unwrap();
    let member = |id| Member { clinic: "North".into(), id, ward: 3, name: "Ann".into() };
    for id in [1, 2] {
        members.insert(&member(id)).await.unwrap();
    }
    assert_hidden(&raw.get(("North", "p_00000001")).required().await.unwrap());
    let list = raw.get(("North", "ward_0003")).required().await.unwrap();
    assert_eq!(list.str("Ids"), Ok("00000001,00000002"));
    let listed = members.get_listed(&Member::list_ward("North", 3).unwrap()).await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|found| found.into_inner()).collect();
    assert_eq!(listed, [member(1), member(2)]);
    assert_eq!(members.verify(10).await.unwrap(), []);
    raw.delete_key(("North", "ward_0003")).await.unwrap();
    assert_eq!(members.verify(10).await.unwrap().len(), 2);
    assert_eq!(members.repair().await.unwrap(), 2);
    assert_eq!(members.verify(10).await.unwrap(), []);

    let encrypted = raw.retyped::<Nurse>().encrypted(encryption());
    let nurses = ListTable::<Nurse>::new(&encrypted).unwrap();
    let nurse = Nurse { clinic: "North".into(), id: 1, team: "night".into(), name: "Ann".into() };
    nurses.insert(&nurse).await.unwrap();
    assert_hidden(&raw.get(("North", "n_00000001")).required().await.unwrap());
    let night = Nurse::list_team("night").unwrap();
    assert_eq!(nurses.ids_by(&night).await.unwrap(), ["North:00000001"]);
    assert_eq!(*nurses.get_listed(&night).await.unwrap()[0], nurse);
}
