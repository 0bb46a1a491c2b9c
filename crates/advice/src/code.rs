//! What can be found, and what to do about it.

use std::fmt;

/// Declares the codes with their numbers, patterns and advice. `{}` in the advice stands for the subject.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $pattern:literal, $advice:literal;)*) => {
        /// What was found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $name = $number,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The pattern that helps: a chapter of `docs/spec/patterns.md`.
            pub const fn pattern(self) -> &'static str {
                match self {
                    $(Self::$name => $pattern,)*
                }
            }

            /// What to do.
            pub(crate) fn advice(self, subject: &str) -> String {
                let text = match self {
                    $(Self::$name => $advice,)*
                };
                text.replace("{}", subject)
            }
        }
    };
}

codes! {
    /// ADV-1: new writes go to the partition that was created last, and partitions grow with time.
    AppendPartitions = 1, "P-13", "Begin the partition key with a bucket, so that new rows spread over the table.";
    /// ADV-2: row keys only grow, under one hot partition.
    AppendRows = 2, "P-13", "Spread the rows of partition {} over several partitions by a bucket of the key.";
    /// ADV-3: one partition has most of the traffic.
    HotPartition = 3, "P-13", "Spread partition {}: a partition serves 2,000 entities a second.";
    /// ADV-4: queries read the whole table.
    TableScan = 4, "P-1", "Index {}, or give the query a partition key: it reads every row of the table.";
    /// ADV-5: queries read a partition to find rows by a property.
    PartitionScan = 5, "P-1", "Declare an index on {}, so that a query by it is a range of row keys: #[index(.., row = \"..\")].";
    /// ADV-6: `or` on keys.
    OrOfKeys = 6, "C-7.3", "Read the rows by their keys with get_many: the service scans for an `or`.";
    /// ADV-7: a filter on RowKey without PartitionKey.
    RowWithoutPartition = 7, "P-4", "Give the partition key too: a row key alone scans the table all the same.";
    /// ADV-8: whole entities are read, and few of their properties used.
    UnusedProperties = 8, "P-17", "Select the properties that are used.";
    /// ADV-9: many conditional writes of one row fail.
    Conflicts = 9, "P-23", "Spread row {}: shard a counter, make rows of the items of a list.";
    /// ADV-10: numbers in keys without padding.
    UnpaddedNumbers = 10, "P-21", "Pad the numbers in {}: 10 sorts before 9. Write 123 as 00000123.";
    /// ADV-11: one row per partition, while writes come in groups.
    LonelyRows = 11, "P-12", "Give rows that are written together one partition key: they can be one transaction.";
    /// ADV-12: an index that nobody reads.
    UnreadIndex = 12, "P-1", "Drop index {}: every write pays for it, and nobody reads it.";
    /// ADV-13: one partition for all rows.
    OnePartition = 13, "P-13", "Choose a partition key with many values, such as the id of the user.";
    /// ADV-14: old rows are deleted one by one.
    DeletesByAge = 14, "P-8", "Keep a table per day or month and delete the table.";
    /// ADV-15: a small table is read again and again.
    Rereads = 15, "P-12", "Keep the table in memory and read it again when it has changed.";
    /// ADV-16: a read whose result gives the key of another read, always.
    ReadThenRead = 16, "P-5", "Copy what the second read looks up into the first row ({}).";
    /// ADV-17: neighbouring rows are read one by one.
    ReadsInARow = 17, "P-9", "Put the rows of a series into one row, or read them with one query.";
    /// ADV-18: an entity is replaced though one property changed.
    ReplaceForOne = 18, "P-18", "Merge the property that changed instead of sending the whole entity.";
    /// ADV-19: single inserts in a burst to one partition.
    SingleInserts = 19, "C-12", "Send the inserts to partition {} as batches, or with bulk.";
    /// ADV-20: a minute with far more traffic than usual.
    Spikes = 20, "P-3", "Spread the work over time, or put a queue before the table.";
    /// ADV-21: values near the limits.
    NearLimits = 21, "P-10", "Split the entity (P-10) or put {} into a blob (P-11) before it no longer fits.";
    /// ADV-22: tables that are written together.
    WrittenTogether = 22, "P-15", "Keep both types in one table ({}): then their rows can be one transaction.";
    /// ADV-23: the newest rows are wanted, and found by reading to the end.
    ReadToTheEnd = 23, "P-7", "Sort the newest rows first: inverted ticks in the row key.";
    /// ADV-24: queries whose pages come back empty.
    EmptyPages = 24, "P-1", "Narrow the range of keys, or index the property: the service reads much and returns nothing.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ADV-{}", *self as u8)
    }
}
