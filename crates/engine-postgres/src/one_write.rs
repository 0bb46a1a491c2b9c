//! Commits of one write: one specialized statement (K-7.7).

use crate::commit::Answer;
use crate::expected::{Expected, number, revision};
use crate::fault::Fault;
use crate::session::Session;
use crate::statement::Statement;
use crate::stored::StoredKey;
use lazuli_engine::{Check, Commit, Expect, Key, Write};
use tokio::time::Instant;
use tokio_postgres::types::ToSql;

/// A commit of one write, without checks on other keys and with at most one guard, which requires a
/// present key.
pub(crate) struct OneWrite<'c> {
    statement: Statement,
    key: &'c Key,
    value: Option<&'c [u8]>,
    /// The revision that must be stored now.
    at: Option<i64>,
    /// Revisions that it takes in addition to its own.
    more: i64,
    guard: Option<&'c Check>,
}

impl<'c> OneWrite<'c> {
    /// `None` for a commit that needs the function of K-7.8.
    pub(crate) fn of(commit: &'c Commit) -> Option<Self> {
        let (key, value) = match commit.writes.as_slice() {
            [Write::Put(key, value)] => (key, Some(value.as_ref())),
            [Write::Delete(key)] => (key, None),
            _ => return None,
        };
        let guard = match commit.guards.as_slice() {
            [] => None,
            [guard] if guard.expect != Expect::Absent => Some(guard),
            _ => return None,
        };
        let mut expected = Expected::Anything;
        for check in &commit.checks {
            if check.key != *key {
                return None;
            }
            expected = expected.and(check.expect);
        }
        let (statement, at) = match (value, expected) {
            (Some(_), Expected::Anything) => (Statement::Upsert, None),
            (Some(_), Expected::This(Expect::Absent)) => (Statement::Insert, None),
            (Some(_), Expected::This(Expect::Present)) => (Statement::Replace, None),
            (Some(_), Expected::This(Expect::At(at))) => (Statement::Replace, Some(number(at))),
            (None, Expected::Anything) => (Statement::Remove, None),
            (None, Expected::This(Expect::Present)) => (Statement::Delete, None),
            (None, Expected::This(Expect::At(at))) => (Statement::Delete, Some(number(at))),
            (None, Expected::This(Expect::Absent)) | (_, Expected::Never) => return None,
        };
        Some(Self { statement, key, value, at, more: 0, guard })
    }

    /// The same, as the last of `revisions` changes of an existing row.
    pub(crate) fn taking(self, revisions: u64) -> Self {
        let more = i64::try_from(revisions.saturating_sub(1)).unwrap_or(0);
        debug_assert!(
            more == 0 || self.statement == Statement::Replace,
            "only a row that is there"
        );
        Self { more, ..self }
    }

    pub(crate) fn statement(&self) -> Statement {
        self.statement
    }

    pub(crate) async fn send(
        &self,
        session: &Session,
        id: i64,
        deadline: Instant,
    ) -> Result<Answer, Fault> {
        let key = StoredKey::from(self.key);
        let guard = self.guard.map(|guard| StoredKey::from(&guard.key));
        let guard_at = self.guard.and_then(|guard| match guard.expect {
            Expect::At(at) => Some(number(at)),
            Expect::Present | Expect::Absent => None,
        });
        let (k, d, x, value) = (key.k, key.d(), key.x, self.value);
        let (guard_k, guard_d) =
            (guard.as_ref().map(|key| key.k), guard.as_ref().map(StoredKey::d));
        let common: [&(dyn ToSql + Sync); 5] = [&k, &d, &guard_k, &guard_d, &guard_at];
        let own: &[&(dyn ToSql + Sync)] = match self.statement {
            Statement::Replace => &[&id, &value, &self.at, &self.more],
            Statement::Delete => &[&id, &value, &self.at],
            _ => &[&x, &id, &value],
        };
        let parameters: Vec<_> = common.into_iter().chain(own.iter().copied()).collect();
        let rows = session.query(self.statement, &parameters, deadline).await?;
        Ok(match rows.first() {
            Some(row) => Answer::Done { revision: revision(row.get(0)), clock: row.get(1) },
            // The guard or the check failed, or another commit interfered (K-7.10).
            None => Answer::NotDone,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_engine::Revision;

    fn key(text: &str) -> Key {
        Key::from(text.as_bytes().to_vec())
    }

    fn check(text: &str, expect: Expect) -> Check {
        Check { key: key(text), expect }
    }

    fn put() -> Write {
        Write::Put(key("Lk"), "v".into())
    }

    fn statement(guards: &[Check], checks: &[Check], writes: Vec<Write>) -> Option<Statement> {
        let (guards, checks) = (guards.to_vec(), checks.to_vec());
        let commit = Commit { guards, checks, ..Commit::new(Revision(0), writes) };
        OneWrite::of(&commit).map(|one| one.statement)
    }

    #[test]
    fn each_kind_of_write_has_its_statement() {
        let table = check("Ltable", Expect::At(Revision(3)));
        let (absent, present) = (check("Lk", Expect::Absent), check("Lk", Expect::Present));
        let at = check("Lk", Expect::At(Revision(9)));
        let delete = || vec![Write::Delete(key("Lk"))];
        let guards = std::slice::from_ref(&table);
        assert_eq!(statement(guards, &[], vec![put()]), Some(Statement::Upsert));
        assert_eq!(statement(guards, &[absent], vec![put()]), Some(Statement::Insert));
        assert_eq!(
            statement(guards, &[present, at.clone()], vec![put()]),
            Some(Statement::Replace)
        );
        assert_eq!(statement(&[], &[at], delete()), Some(Statement::Delete));
        assert_eq!(statement(&[], &[], delete()), Some(Statement::Remove));
    }

    #[test]
    fn what_one_statement_cannot_say_is_left_to_the_function() {
        let other = check("Lother", Expect::Present);
        assert_eq!(statement(&[], &[other], vec![put()]), None);
        assert_eq!(statement(&[check("Lg", Expect::Absent)], &[], vec![put()]), None);
        assert_eq!(statement(&[], &[], vec![put(), Write::Delete(key("La"))]), None);
        assert_eq!(statement(&[], &[], vec![Write::Append(key("Lf"), "v".into())]), None);
        let never = [check("Lk", Expect::Absent), check("Lk", Expect::Present)];
        assert_eq!(statement(&[], &never, vec![put()]), None);
    }
}
