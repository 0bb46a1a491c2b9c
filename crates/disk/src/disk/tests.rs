use super::*;
use crate::loss::Loss;
use lazuli_testkit::seed::Seeded;

/// A disk with an empty root, whose inode is 1.
fn disk(names: Names) -> Disk {
    let root = tempfile::tempdir().unwrap();
    let mut disk = Disk::new(names, &Image::default(), root.path()).unwrap();
    disk.inodes = HashMap::from([(1, ROOT)]);
    disk
}

fn create(path: &str, inode: u64) -> Event {
    Event::Create { path: path.into(), inode }
}

fn write(inode: u64, offset: u64, data: &str) -> Event {
    Event::Write { inode, offset, data: data.as_bytes().into() }
}

fn sync(inode: u64) -> [Event; 2] {
    [Event::SyncBegins { inode, thread: 1 }, Event::SyncEnds { inode, thread: 1 }]
}

#[track_caller]
fn check(names: Names, events: &[&[Event]], loss: Loss, expected: &[(&str, &str)]) {
    let mut disk = disk(names);
    for event in events.iter().copied().flatten() {
        disk.apply(event).unwrap();
    }
    let image = loss.of(&disk, &mut Seeded::new(1));
    let dir = tempfile::tempdir().unwrap();
    image.save(dir.path()).unwrap();
    let read =
        |path: &String| (path.clone(), std::fs::read_to_string(dir.path().join(path)).unwrap());
    let found: Vec<(String, String)> = image.0.keys().map(read).collect();
    let expected: Vec<(String, String)> =
        expected.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    assert_eq!(found, expected);
}

#[test]
fn content_lasts_from_its_sync_on() {
    let start = [create("a", 2), write(2, 0, "old")];
    let unsynced = [write(2, 0, "new!")];
    let events: [&[Event]; 4] = [&start, &sync(2), &sync(1), &unsynced];
    check(Names::Strict, &events, Loss::Everything, &[("a", "old")]);
    check(Names::Strict, &events, Loss::Nothing, &[("a", "new!")]);
    check(Names::Strict, &events, Loss::Content, &[("a", "old\0")]);
}

#[test]
fn name_lasts_when_its_directory_was_synced() {
    let start = [create("a", 2), write(2, 0, "x")];
    check(Names::Strict, &[&start, &sync(2)], Loss::Everything, &[]);
    check(Names::Journalled, &[&start, &sync(2)], Loss::Everything, &[("a", "x")]);
    check(Names::Strict, &[&start, &sync(1)], Loss::Everything, &[("a", "")]);
}

#[test]
fn rename_is_there_entirely_or_not_at_all() {
    let start = [create("a", 2), write(2, 0, "x")];
    let rename = [Event::Rename { from: "a".into(), to: "b".into() }];
    let events: [&[Event]; 4] = [&start, &sync(2), &sync(1), &rename];
    check(Names::Strict, &events, Loss::Everything, &[("a", "x")]);
    check(Names::Strict, &events, Loss::Content, &[("b", "x")]);
}

#[test]
fn later_write_may_survive_alone() {
    let start = [create("a", 2)];
    let writes = [write(2, 0, "aa"), write(2, 2, "bb")];
    check(Names::Strict, &[&start, &sync(1), &writes], Loss::AllButTheLast, &[("a", "\0\0bb")]);
}

#[test]
fn sync_covers_what_was_written_before_it_began() {
    let start = [create("a", 2)];
    let writes =
        [write(2, 0, "in time"), Event::SyncBegins { inode: 2, thread: 7 }, write(2, 7, " late")];
    let end = [Event::SyncEnds { inode: 2, thread: 7 }];
    check(Names::Strict, &[&start, &sync(1), &writes, &end], Loss::Everything, &[("a", "in time")]);
}

/// The second sync succeeds without writing anything: the system marked the pages clean.
#[test]
fn sync_after_a_failed_sync_does_not_help() {
    let start = [create("a", 2)];
    let failed = [
        write(2, 0, "lost"),
        Event::SyncBegins { inode: 2, thread: 1 },
        Event::SyncFails { inode: 2, thread: 1 },
        write(2, 4, "kept"),
    ];
    let events: [&[Event]; 4] = [&start, &sync(1), &failed, &sync(2)];
    check(Names::Strict, &events, Loss::Everything, &[("a", "\0\0\0\0kept")]);
}

#[test]
fn removed_directory_comes_back_when_its_parent_was_not_synced() {
    let events: [&[Event]; 3] = [
        &[Event::MakeDirectory { path: "d".into(), inode: 3 }, create("d/a", 2), write(2, 0, "x")],
        &[sync(1), sync(2), sync(3)].concat(),
        &[Event::Remove { path: "d/a".into() }, Event::Remove { path: "d".into() }],
    ];
    let mut disk = disk(Names::Strict);
    events.iter().copied().flatten().for_each(|event| disk.apply(event).unwrap());
    let image = Loss::Everything.of(&disk, &mut Seeded::new(1));
    assert_eq!(image.0.keys().collect::<Vec<_>>(), ["d", "d/a"]);
    assert!(disk.live().0.is_empty());
}
