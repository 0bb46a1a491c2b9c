//! Money moved between accounts; each transfer is two balances and an entry in the ledger, in one
//! batch.

use super::{Client, Marks, Seen, Workload, replace, whole};
use crate::history::{Change, ChangeKind, EntityId, Request, Response, Slots, Stored};
use lazuli_testkit::seed::Seeded;

const PARTITION: u8 = 0;
const ACCOUNTS: u8 = 6;
const INITIAL: u32 = 100;
/// Rows from here on are the ledger; each client has its own part.
const LEDGER: u8 = 16;
const ENTRIES_MAX: usize = (256 - LEDGER as usize) / Workload::CLIENTS_MAX;

/// The first slot of an account is its balance.
pub(super) fn initial() -> Vec<(EntityId, Slots)> {
    let account = |row| (EntityId::new(PARTITION, row), [Some(INITIAL), None, None]);
    (0..ACCOUNTS).map(account).collect()
}

/// Whether every balance matches the ledger: detects a transfer that is half done, done twice or
/// lost. An entry holds who paid, who was paid, and how much.
pub(super) fn is_explained(entities: &[(EntityId, Stored)]) -> bool {
    let mut expected = [i64::from(INITIAL); ACCOUNTS as usize];
    let mut add = |account: Option<u32>, amount: i64| {
        let account = account.and_then(|account| usize::try_from(account).ok());
        if let Some(balance) = account.and_then(|account| expected.get_mut(account)) {
            *balance += amount;
        }
    };
    for (_, entry) in entities.iter().filter(|(entity, _)| entity.row >= LEDGER) {
        let [from, to, amount] = entry.slots;
        let amount = i64::from(amount.unwrap_or_default());
        add(from, -amount);
        add(to, amount);
    }
    let accounts = entities.iter().filter(|(entity, _)| entity.row < LEDGER);
    let balances = accounts.map(|(_, found)| i64::from(found.slots[0].unwrap_or_default()));
    balances.eq(expected)
}

/// Reads two accounts, then moves some money from one to the other.
pub(super) struct Teller {
    random: Seeded,
    marks: Marks,
    /// The first row of the ledger that is this client's.
    ledger: usize,
    /// Transfers tried: each has its own row, so that a repeated one is detected.
    tried: usize,
    accounts: Vec<Seen>,
}

impl Teller {
    pub(super) fn new(random: Seeded, marks: Marks, number: usize) -> Self {
        let ledger = usize::from(LEDGER) + number * ENTRIES_MAX;
        Self { random, marks, ledger, tried: 0, accounts: Vec::new() }
    }

    fn transfer(&mut self) -> Option<Request> {
        let [from, to] = self.accounts.as_slice() else { return None };
        if self.tried == ENTRIES_MAX {
            return None;
        }
        let row = u8::try_from(self.ledger + self.tried).ok()?;
        let (paid, received) = (from.1.slots[0]?, to.1.slots[0]?);
        let amount = 1 + self.random.below(10) as u32;
        let mut balance = |balance: u32| [Some(balance), self.marks.next(), None];
        let entry = Change {
            entity: EntityId::new(PARTITION, row),
            kind: ChangeKind::Insert,
            slots: [Some(u32::from(from.0.row)), Some(u32::from(to.0.row)), Some(amount)],
        };
        let changes = vec![
            replace(from, balance(paid.checked_sub(amount)?)),
            replace(to, balance(received + amount)),
            entry,
        ];
        self.tried += 1;
        Some(Request::Batch(changes))
    }
}

impl Client for Teller {
    fn next(&mut self) -> Request {
        let transfer = self.transfer();
        if self.accounts.len() == 2 {
            self.accounts.clear();
        }
        if let Some(batch) = transfer {
            return batch;
        }
        if self.accounts.is_empty() && self.random.one_in(4) {
            return whole(Some(PARTITION));
        }
        Request::Get(EntityId::new(PARTITION, self.random.below(usize::from(ACCOUNTS)) as u8))
    }

    fn learn(&mut self, request: &Request, response: &Response) {
        if let (Request::Get(entity), Response::Entity(Some(found))) = (request, response)
            && self.accounts.iter().all(|(known, _)| known != entity)
        {
            self.accounts.push((*entity, *found));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(balances: [u32; 6], ledger: &[Slots], expected: bool) {
        let stored =
            |row: usize, slots| (EntityId::new(PARTITION, row as u8), Stored { version: 1, slots });
        let accounts = balances.into_iter().enumerate();
        let mut page: Vec<_> =
            accounts.map(|(row, balance)| stored(row, [Some(balance), None, None])).collect();
        page.extend(ledger.iter().enumerate().map(|(n, slots)| stored(n + 16, *slots)));
        assert_eq!(is_explained(&page), expected);
    }

    #[test]
    fn the_ledger_explains_the_balances() {
        let entry = [Some(0), Some(5), Some(7)];
        check([100; 6], &[], true);
        check([93, 100, 100, 100, 100, 107], &[entry], true);
        check([93, 100, 100, 100, 100, 107], &[], false);
        check([93, 100, 100, 100, 100, 100], &[entry], false);
        check([86, 100, 100, 100, 100, 114], &[entry], false);
        check([100; 6], &[entry], false);
    }
}
