//! Evaluates a commit against a given state, for engines that evaluate in this process.

use crate::{
    Change, Check, Commit, CommitError, Current, Derive, Derived, EngineError, Found, Key, Limits,
    Modify, Revision, Write,
};
use bytes::Bytes;

/// Looks up a key in the state against which the commit is evaluated.
pub type Find<'f> = dyn FnMut(&Key) -> Result<Option<Found>, EngineError> + 'f;

/// One write of a commit with its final value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The value of the key after the commit; `None` if it is deleted.
    Set(Key, Option<Bytes>),
    /// A value to be stored under a prefix, see [`Write::Append`].
    Append(Key, Bytes),
}

/// Evaluates `commit` and computes the values of all its writes, derived ones last.
///
/// Assumes that the limits of the commit as given have been checked.
pub fn resolve(
    commit: &Commit,
    limits: &Limits,
    find: &mut Find<'_>,
) -> Result<Vec<Resolved>, CommitError> {
    judge(commit, find)?;
    make(commit, limits, find)
}

/// Evaluates the guards and checks of `commit`.
pub fn judge(commit: &Commit, find: &mut Find<'_>) -> Result<(), CommitError> {
    if let Some((index, found)) = first_failure(&commit.guards, find)? {
        return Err(CommitError::GuardFailed { index, found });
    }
    if let Some((index, found)) = first_failure(&commit.checks, find)? {
        return Err(CommitError::CheckFailed { index, found });
    }
    Ok(())
}

/// Computes the values of all writes of `commit`, derived ones last. It looks up exactly the keys
/// that its functions and derived checks depend on.
pub fn make(
    commit: &Commit,
    limits: &Limits,
    find: &mut Find<'_>,
) -> Result<Vec<Resolved>, CommitError> {
    let mut made = Vec::with_capacity(commit.writes.len());
    for (index, write) in commit.writes.iter().enumerate() {
        made.push(make_write(index, write, limits, find)?);
    }
    if let Some(derive) = &commit.derive {
        let derived = derive_from(&**derive, &made, commit.checks.len(), limits, find)?;
        for derived in &derived.writes {
            made.push(make_write(derived.cause, &derived.write, limits, find)?);
        }
    }
    limits.check_bytes(made.iter().map(Resolved::value_bytes).sum())?;
    Ok(made)
}

/// The next value of a key by `function`, the function of write `index`.
pub fn modify(
    index: usize,
    function: &dyn Modify,
    current: Option<Current<'_>>,
    limits: &Limits,
) -> Result<Option<Vec<u8>>, CommitError> {
    let next = function.modify(current).map_err(|reason| CommitError::Refused { index, reason })?;
    limits.check_value(next.as_ref().map_or(0, Vec::len))?;
    Ok(next)
}

/// What `derive` adds to a commit of `changes`, with its checks evaluated and its size within
/// `limits`. `writes` and `checks` count those of the commit itself.
pub fn derive(
    derive: &dyn Derive,
    changes: &[Change<'_>],
    (writes, checks): (usize, usize),
    limits: &Limits,
    find: &mut Find<'_>,
) -> Result<Derived, CommitError> {
    let mut derived = Derived::default();
    derive
        .derive(changes, &mut derived)
        .map_err(|refusal| CommitError::Refused { index: refusal.index, reason: refusal.reason })?;
    limits.check_writes(writes + derived.writes.len())?;
    limits.check_checks(checks + derived.checks.len())?;
    for derived in &derived.writes {
        limits.check_write(&derived.write)?;
    }
    for derived in std::mem::take(&mut derived.checks) {
        limits.check_key(&derived.check.key)?;
        if failure(&derived.check, find)?.is_some() {
            let refusal = derived.refusal;
            return Err(CommitError::Refused { index: refusal.index, reason: refusal.reason });
        }
    }
    Ok(derived)
}

impl Resolved {
    fn value_bytes(&self) -> usize {
        match self {
            Self::Set(_, value) => value.as_ref().map_or(0, Bytes::len),
            Self::Append(_, value) => value.len(),
        }
    }
}

/// Which check fails first, and what it found.
fn first_failure(
    checks: &[Check],
    find: &mut Find<'_>,
) -> Result<Option<(usize, Option<Revision>)>, EngineError> {
    for (index, check) in checks.iter().enumerate() {
        if let Some(found) = failure(check, find)? {
            return Ok(Some((index, found)));
        }
    }
    Ok(None)
}

/// What a failed check found.
fn failure(check: &Check, find: &mut Find<'_>) -> Result<Option<Option<Revision>>, EngineError> {
    let found = find(&check.key)?.map(|found| found.revision);
    Ok((!check.expect.holds(found)).then_some(found))
}

fn make_write(
    index: usize,
    write: &Write,
    limits: &Limits,
    find: &mut Find<'_>,
) -> Result<Resolved, CommitError> {
    Ok(match write {
        Write::Put(key, value) => Resolved::Set(key.clone(), Some(value.clone())),
        Write::Delete(key) => Resolved::Set(key.clone(), None),
        Write::Append(prefix, value) => Resolved::Append(prefix.clone(), value.clone()),
        Write::Modify(key, function) => {
            let current = find(key)?;
            let next = modify(index, &**function, current.as_ref().map(Current::from), limits)?;
            Resolved::Set(key.clone(), next.map(Bytes::from))
        }
    })
}

fn derive_from(
    function: &dyn Derive,
    made: &[Resolved],
    checks: usize,
    limits: &Limits,
    find: &mut Find<'_>,
) -> Result<Derived, CommitError> {
    let mut before = Vec::with_capacity(made.len());
    for write in made {
        before.push(match write {
            Resolved::Set(key, _) => find(key)?,
            Resolved::Append(..) => None,
        });
    }
    let changes: Vec<Change<'_>> = made
        .iter()
        .zip(&before)
        .enumerate()
        .filter_map(|(index, (write, before))| match write {
            Resolved::Append(..) => None,
            Resolved::Set(key, after) => Some(Change {
                index,
                key: key.as_slice(),
                before: before.as_ref().map(Current::from),
                after: after.as_deref(),
            }),
        })
        .collect();
    derive(function, &changes, (made.len(), checks), limits, find)
}
