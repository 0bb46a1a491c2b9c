use super::*;
use lazuli_engine::{BoxError, Modify};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Appends a letter; some letters do something else.
#[derive(Debug)]
struct Letter(char);

impl Modify for Letter {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let current = current.map(|current| current.value).unwrap_or_default();
        match self.0 {
            '!' => Err("refused".into()),
            '0' => Ok(None),
            letter => Ok(Some([current, letter.to_string().as_bytes()].concat())),
        }
    }

    fn reads_revision(&self) -> bool {
        self.0 == 'r'
    }

    fn held_bytes(&self) -> usize {
        if self.0 == 'L' { BYTES_MAX - 1000 } else { 1 }
    }
}

fn key(text: &str) -> Key {
    Key::from(text.as_bytes().to_vec())
}

fn check(text: &str, expect: Expect) -> Check {
    Check { key: key(text), expect }
}

fn commit(letter: char, guards: &[Check], checks: &[Check]) -> Commit {
    let writes = vec![Write::Modify(key("k"), Arc::new(Letter(letter)))];
    let (guards, checks) = (guards.to_vec(), checks.to_vec());
    Commit { guards, checks, ..Commit::new(Revision(0), writes) }
}

fn place() -> OwnedSemaphorePermit {
    Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap()
}

fn found() -> Found {
    Found { value: "-".into(), revision: Revision(10) }
}

fn computed(commits: &[Commit]) -> Option<(Bytes, u64, Vec<String>)> {
    let computed = compute(commits.iter(), &found(), &Limits::DEFAULT)?;
    let name = |step: &Step| match step {
        Step::Change => "change".to_owned(),
        Step::CheckFailed { index } => format!("check {index}"),
        Step::Refused(error) => error.to_string(),
    };
    Some((computed.value, computed.changes, computed.steps.iter().map(name).collect()))
}

#[test]
fn functions_are_applied_one_after_the_other() {
    let (value, changes, steps) =
        computed(&[commit('a', &[], &[]), commit('!', &[], &[]), commit('b', &[], &[])]).unwrap();
    assert_eq!((value.as_ref(), changes), (b"-ab".as_slice(), 2));
    assert_eq!(steps, ["change", "write 0 was refused: refused", "change"]);
}

#[test]
fn a_check_sees_what_the_commits_before_it_did() {
    let (present, old) = (check("k", Expect::Present), check("k", Expect::At(Revision(10))));
    let absent = check("k", Expect::Absent);
    let commits = [
        commit('a', &[], &[present.clone(), old.clone()]),
        commit('b', &[], &[present, old]),
        commit('c', &[], &[absent]),
    ];
    let (value, changes, steps) = computed(&commits).unwrap();
    assert_eq!((value.as_ref(), changes), (b"-a".as_slice(), 1));
    assert_eq!(steps, ["change", "check 1", "check 0"]);
}

#[test]
fn what_deletes_or_changes_nothing_is_not_for_a_group() {
    assert!(computed(&[commit('a', &[], &[]), commit('0', &[], &[])]).is_none());
    assert!(computed(&[commit('!', &[], &[])]).is_none());
}

#[test]
fn only_commits_that_one_statement_can_express_join() {
    let (table, other) = (check("t", Expect::At(Revision(3))), check("o", Expect::Present));
    let joins = |commit: &Commit| key_of(commit).is_some();
    assert!(joins(&commit('a', &[], &[])));
    assert!(joins(&commit('a', std::slice::from_ref(&table), &[check("k", Expect::Present)])));
    assert!(!joins(&commit('r', &[], &[])));
    assert!(!joins(&commit('a', &[], std::slice::from_ref(&other))));
    assert!(!joins(&commit('a', &[check("t", Expect::Absent)], &[])));
    assert!(!joins(&commit('a', &[table, other], &[])));
    let mut two = commit('a', &[], &[]);
    two.writes.push(Write::Delete(key("other")));
    assert!(!joins(&two));
}

fn patience() -> Patience {
    Patience::new(Duration::from_secs(5), Duration::from_secs(10))
}

fn enter(groups: &Groups, commit: Commit) -> Option<oneshot::Receiver<Answer>> {
    match groups.enter(&key("k"), commit, place(), patience()).unwrap() {
        Entered::First(..) => None,
        Entered::Waits(_, answer) => Some(answer),
    }
}

#[test]
fn those_who_wait_go_together_under_one_guard() {
    let groups = Groups::new(10);
    let guard = |at| [check("t", Expect::At(Revision(at)))];
    assert!(enter(&groups, commit('a', &guard(1), &[])).is_none());
    let answers = [(1, 'b'), (1, 'c'), (2, 'd'), (2, 'e')]
        .map(|(at, letter)| enter(&groups, commit(letter, &guard(at), &[])).unwrap());
    let [_one, gone, _two, _three] = answers;
    drop(gone);
    assert_eq!(groups.next(&key("k")).len(), 1, "one has gone away, and two are under another");
    assert_eq!(groups.next(&key("k")).len(), 2);
    assert!(groups.next(&key("k")).is_empty());
    assert!(enter(&groups, commit('f', &[], &[])).is_none(), "the line has ended");
    assert_eq!(groups.state().places, 0);
}

#[test]
fn groups_and_those_who_wait_are_bounded() {
    let groups = Groups::new(COMMITS_MAX + 3);
    assert!(enter(&groups, commit('a', &[], &[])).is_none());
    let _large = [enter(&groups, commit('L', &[], &[])), enter(&groups, commit('L', &[], &[]))];
    let _small: Vec<_> = (0..=COMMITS_MAX).map(|_| enter(&groups, commit('b', &[], &[]))).collect();
    let full = groups.enter(&key("k"), commit('c', &[], &[]), place(), patience());
    assert!(matches!(full, Err(CommitError::Busy)));
    assert_eq!(groups.next(&key("k")).len(), 1);
    assert_eq!(groups.next(&key("k")).len(), COMMITS_MAX);
    assert_eq!(groups.next(&key("k")).len(), 2);
    assert!(groups.next(&key("k")).is_empty());
}
