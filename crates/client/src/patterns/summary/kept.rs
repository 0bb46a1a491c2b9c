//! Arithmetic of derived summaries (P-5.2).

use crate::entity::TableEntity;
use lazuli_model::key_text::fnv1a;

/// A number that can be summed: an integer, or an optional one.
///
/// Not implemented for floats: their sums depend on the order of additions, so a recount would differ.
pub trait Amount {
    /// The number; 0 if it is absent.
    fn amount(&self) -> i128;
}

/// A field that holds a count or a sum.
pub trait Total: Sized {
    /// The sum. It wraps around: then adding and subtracting the same amounts cancels out, in any order.
    #[doc(hidden)]
    fn plus(&self, amount: i128) -> Self;
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Amount for $integer {
            fn amount(&self) -> i128 {
                i128::from(*self)
            }
        }

        impl Total for $integer {
            fn plus(&self, amount: i128) -> Self {
                i128::from(*self).wrapping_add(amount) as $integer
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

impl<A: Amount> Amount for Option<A> {
    fn amount(&self) -> i128 {
        self.as_ref().map_or(0, Amount::amount)
    }
}

/// Adds to a count or a sum.
pub fn tally<T: Total>(total: &mut T, amount: i128) {
    *total = total.plus(amount);
}

/// Whether the latest value may have changed: the source that had it has an earlier one, or none.
pub fn is_overtaken<T: Ord>(latest: &Option<T>, old: Option<T>, new: Option<T>) -> bool {
    old.is_some() && old >= *latest && new < old
}

/// The shard of an entity, by its row key.
pub fn shard_of<T: TableEntity>(source: &T) -> u64 {
    // A source without a valid key is never written: any shard will do.
    source.key().map_or(0, |key| fnv1a(key.row.as_str().as_bytes()))
}
