//! Stored access policies, which shared access signatures of a table or queue can refer to by name.

use crate::limits::{ACCESS_POLICIES_MAX, ACCESS_POLICY_ID_CHARS_MAX};
use crate::time::Timestamp;

/// A named policy of a table or queue. Every part but the name may be missing (T-9.21, Q-10.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPolicy {
    pub id: String,
    pub start: Option<Timestamp>,
    pub expiry: Option<Timestamp>,
    /// Letters of `raud` for a table, of `raup` for a queue, as given.
    pub permissions: Option<String>,
}

/// Why a list of policies cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the access policies are more than five, or one has a bad or repeated id or permission")]
pub struct AccessPolicyError;

/// The policies of one table or queue: at most five, ids unique and of 1 to 64 characters (T-9.20,
/// T-9.22, Q-10.4, Q-10.5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessPolicies(Vec<AccessPolicy>);

impl AccessPolicies {
    /// The policies of a table.
    pub fn new(policies: Vec<AccessPolicy>) -> Result<Self, AccessPolicyError> {
        Self::with_letters(policies, "raud")
    }

    /// The policies of a queue.
    pub fn of_queue(policies: Vec<AccessPolicy>) -> Result<Self, AccessPolicyError> {
        Self::with_letters(policies, "raup")
    }

    /// Policies of a table or queue that were checked when they were stored.
    pub fn of_any(policies: Vec<AccessPolicy>) -> Result<Self, AccessPolicyError> {
        Self::with_letters(policies, "raudp")
    }

    fn with_letters(
        policies: Vec<AccessPolicy>,
        permitted: &str,
    ) -> Result<Self, AccessPolicyError> {
        let sound = |policy: &AccessPolicy| {
            let id_chars = policy.id.chars().count();
            let letters = policy.permissions.as_deref().unwrap_or_default();
            (1..=ACCESS_POLICY_ID_CHARS_MAX).contains(&id_chars)
                && letters.chars().all(|c| permitted.contains(c))
        };
        let mut ids: Vec<&str> = policies.iter().map(|p| p.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        let fits = policies.len() <= ACCESS_POLICIES_MAX
            && ids.len() == policies.len()
            && policies.iter().all(sound);
        if fits { Ok(Self(policies)) } else { Err(AccessPolicyError) }
    }

    pub fn iter(&self) -> impl Iterator<Item = &AccessPolicy> {
        self.0.iter()
    }

    pub fn find(&self, id: &str) -> Option<&AccessPolicy> {
        self.0.iter().find(|policy| policy.id == id)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(id: &str, permissions: &str) -> AccessPolicy {
        let permissions = Some(permissions.to_owned());
        AccessPolicy { id: id.to_owned(), start: None, expiry: None, permissions }
    }

    #[test]
    fn ids_are_short_unique_and_at_most_five() {
        let five: Vec<_> = (0..5).map(|i| policy(&i.to_string(), "raud")).collect();
        assert!(AccessPolicies::new(five.clone()).is_ok());
        let six = [five.clone(), vec![policy("x", "r")]].concat();
        assert!(AccessPolicies::new(six).is_err());
        assert!(AccessPolicies::new(vec![policy("a", "r"), policy("a", "r")]).is_err());
        assert!(AccessPolicies::new(vec![policy("", "r")]).is_err());
        assert!(AccessPolicies::new(vec![policy(&"é".repeat(64), "r")]).is_ok());
        assert!(AccessPolicies::new(vec![policy(&"é".repeat(65), "r")]).is_err());
        assert!(AccessPolicies::new(vec![policy("a", "rw")]).is_err());
    }

    #[test]
    fn queues_and_tables_have_letters_of_their_own() {
        assert!(AccessPolicies::of_queue(vec![policy("a", "raup")]).is_ok());
        assert!(AccessPolicies::of_queue(vec![policy("a", "rwdl")]).is_err());
        assert!(AccessPolicies::of_queue(vec![policy("a", "d")]).is_err());
        assert!(AccessPolicies::new(vec![policy("a", "p")]).is_err());
    }
}
