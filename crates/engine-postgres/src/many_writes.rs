//! Commits of several writes: one call of the function `lazuli_commit` (K-7.8).

use crate::commit::Answer;
use crate::expected::{Expected, revision};
use crate::fault::Fault;
use crate::session::Session;
use crate::statement::Statement;
use crate::stored::StoredKey;
use lazuli_engine::{Check, Commit, Key, Revision, Write};
use std::collections::BTreeMap;
use tokio::time::Instant;

/// What a commit does with one key.
#[derive(Default)]
struct Concern<'c> {
    expected: Expected,
    /// The value to store, `None` inside to delete; `None` outside for a key that is only checked.
    write: Option<Option<&'c [u8]>>,
}

/// A commit of any shape without functions.
pub(crate) struct ManyWrites<'c> {
    commit: &'c Commit,
    /// In key order, so that commits lock rows in one order.
    keys: BTreeMap<&'c Key, Concern<'c>>,
    appends: Vec<(&'c Key, &'c [u8])>,
}

impl<'c> ManyWrites<'c> {
    pub(crate) fn of(commit: &'c Commit) -> Self {
        let mut keys: BTreeMap<&Key, Concern<'_>> = BTreeMap::new();
        let mut appends = Vec::new();
        for check in &commit.checks {
            let concern = keys.entry(&check.key).or_default();
            concern.expected = concern.expected.and(check.expect);
        }
        for write in &commit.writes {
            match write {
                Write::Put(key, value) => keys.entry(key).or_default().write = Some(Some(value)),
                Write::Delete(key) => keys.entry(key).or_default().write = Some(None),
                Write::Append(prefix, value) => appends.push((prefix, value.as_ref())),
                // The optimistic loop has already replaced them.
                Write::Modify(..) => {}
            }
        }
        Self { commit, keys, appends }
    }

    pub(crate) async fn send(
        &self,
        session: &Session,
        id: i64,
        deadline: Instant,
    ) -> Result<Answer, Fault> {
        let guards: Vec<_> = self.commit.guards.iter().map(|c| StoredKey::from(&c.key)).collect();
        let (gk, gd) = columns(&guards);
        let codes = |check: &Check| Expected::Anything.and(check.expect).code();
        let (ge, gr): (Vec<_>, Vec<_>) = self.commit.guards.iter().map(codes).unzip();
        let keys: Vec<_> = self.keys.keys().map(|key| StoredKey::from(*key)).collect();
        let (k, d) = columns(&keys);
        let x: Vec<&[u8]> = keys.iter().map(|key| key.x).collect();
        let (e, er): (Vec<_>, Vec<_>) = self.keys.values().map(|c| c.expected.code()).unzip();
        let w: Vec<bool> = self.keys.values().map(|concern| concern.write.is_some()).collect();
        let v: Vec<Option<&[u8]>> = self.keys.values().map(|c| c.write.flatten()).collect();
        let (ap, av): (Vec<&[u8]>, Vec<&[u8]>) =
            self.appends.iter().map(|(prefix, value)| (prefix.as_slice(), *value)).unzip();
        let rows = session
            .query(
                Statement::Commit,
                &[&id, &gk, &gd, &ge, &gr, &k, &d, &x, &e, &er, &w, &v, &ap, &av],
                deadline,
            )
            .await?;
        let Some(row) = rows.first() else {
            return Err(Fault::Failed("lazuli_commit gave no answer".into()));
        };
        let there = || -> Vec<Option<Revision>> {
            let there: Option<Vec<Option<i64>>> = row.get(1);
            there.into_iter().flatten().map(|found| found.map(revision)).collect()
        };
        Ok(match row.get::<_, i16>(0) {
            0 => Answer::Done { revision: revision(row.get(2)), clock: row.get(3) },
            1 => self.failed_guard(&there()),
            _ => self.failed_check(&there()),
        })
    }

    fn failed_guard(&self, there: &[Option<Revision>]) -> Answer {
        let mut guards = self.commit.guards.iter().zip(there).enumerate();
        let failed = guards.find(|(_, (guard, found))| !guard.expect.holds(**found));
        match failed {
            Some((index, (_, found))) => Answer::GuardFailed { index, found: *found },
            None => Answer::NotDone,
        }
    }

    /// The first check that fails, in the caller's order.
    fn failed_check(&self, there: &[Option<Revision>]) -> Answer {
        let found: BTreeMap<&Key, Option<Revision>> =
            self.keys.keys().copied().zip(there.iter().copied()).collect();
        let found = |check: &Check| found.get(&check.key).copied().flatten();
        let mut checks = self.commit.checks.iter().enumerate();
        match checks.find(|(_, check)| !check.expect.holds(found(check))) {
            Some((index, check)) => Answer::CheckFailed { index, found: found(check) },
            None => Answer::NotDone,
        }
    }
}

fn columns<'k>(keys: &'k [StoredKey<'_>]) -> (Vec<&'k [u8]>, Vec<&'k [u8]>) {
    keys.iter().map(|key| (key.k, key.d())).unzip()
}
