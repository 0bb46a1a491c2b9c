//! Which processes may open a directory, and the errors when they may not.

use lazuli_engine::{Engine, EngineError};
use lazuli_engine_local::{LocalEngine, LocalOptions, OpenError};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

const HELD_DIR: &str = "LAZULI_TEST_HELD_DIR";

fn open(dir: &Path) -> Result<LocalEngine, OpenError> {
    LocalEngine::open(dir, LocalOptions::default())
}

fn refusal(dir: &Path) -> OpenError {
    match open(dir) {
        Ok(_) => panic!("{} was opened", dir.display()),
        Err(refusal) => refusal,
    }
}

#[test]
fn missing_directory_is_created() {
    let dir = tempfile::tempdir().unwrap();
    let nested = dir.path().join("a/b");
    drop(open(&nested).unwrap());
    let format = fs::read_to_string(nested.join("LAZULI")).unwrap();
    assert_eq!(format, "lazuli data directory, format 1\n");
    drop(open(&nested).unwrap());
}

#[test]
fn directory_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path()).unwrap();
    let refusal = refusal(dir.path());
    assert!(matches!(refusal, OpenError::Locked { .. }), "{refusal}");
    assert!(refusal.to_string().ends_with("is in use by another process"));
    drop(engine);
    drop(open(dir.path()).unwrap());
}

#[test]
fn directory_in_use_by_another_process_is_refused_until_it_dies() {
    let dir = tempfile::tempdir().unwrap();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["holder_of_a_directory", "--exact", "--ignored", "--nocapture"])
        .env(HELD_DIR, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "holding"));
    assert!(matches!(refusal(dir.path()), OpenError::Locked { .. }));
    holder.kill().unwrap();
    holder.wait().unwrap();
    drop(open(dir.path()).unwrap());
}

#[test]
#[ignore = "a child of directory_in_use_by_another_process_is_refused_until_it_dies"]
fn holder_of_a_directory() {
    if let Some(dir) = std::env::var_os(HELD_DIR) {
        let _engine = open(Path::new(&dir)).unwrap();
        println!("\nholding");
        // Until killed, or until the parent has exited.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }
}

#[test]
fn newer_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    fs::write(dir.path().join("LAZULI"), "lazuli data directory, format 2\n").unwrap();
    let refusal = refusal(dir.path());
    assert!(matches!(refusal, OpenError::NewerFormat { found: 2, known: 1, .. }), "{refusal}");
    assert!(
        refusal.to_string().ends_with("has format 2, this lazuli reads up to 1; use a newer one")
    );
}

#[test]
fn unreadable_format_is_corrupt() {
    for text in ["", "format 1", "lazuli data directory, format one\n"] {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()).unwrap());
        fs::write(dir.path().join("LAZULI"), text).unwrap();
        assert!(matches!(refusal(dir.path()), OpenError::Corrupt { .. }));
    }
}

#[test]
fn directory_with_foreign_content_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.txt"), "precious").unwrap();
    let refusal = refusal(dir.path());
    assert!(
        matches!(&refusal, OpenError::NotLazuli { entry, .. } if entry == "thesis.txt"),
        "{refusal}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn root_of_a_fresh_volume_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("lost+found")).unwrap();
    drop(open(dir.path()).unwrap());
}

#[test]
fn creation_that_was_interrupted_is_done_again() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    // As if the process had died before the store was renamed into place.
    fs::rename(dir.path().join("store"), dir.path().join("store.new")).unwrap();
    drop(open(dir.path()).unwrap());
    // As if it had died before the format was written, when only part of the store may exist.
    fs::rename(dir.path().join("store"), dir.path().join("store.new")).unwrap();
    fs::remove_file(dir.path().join("store.new/version")).unwrap();
    fs::rename(dir.path().join("LAZULI"), dir.path().join("LAZULI.new")).unwrap();
    drop(open(dir.path()).unwrap());
}

#[test]
fn file_in_place_of_the_directory_is_an_io_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(refusal(file.path()), OpenError::Io { .. }));
}

#[tokio::test]
async fn value_without_a_revision_is_corrupt() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    {
        let database = fjall::Database::builder(dir.path().join("store")).open().unwrap();
        let data = database.keyspace("data", Default::default).unwrap();
        data.insert("Lshort", "1234567").unwrap();
    }
    let engine = open(dir.path()).unwrap();
    let found = engine.view().await.unwrap().get(b"Lshort").await;
    assert!(matches!(found, Err(EngineError::Corrupt(_))), "{found:?}");
}
