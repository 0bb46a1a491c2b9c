//! The codes of findings, and what to do about each.

use std::fmt;

/// The texts of a code.
struct Words {
    /// A chapter of `docs/spec/patterns.md`.
    pattern: &'static str,
    /// The name of the pattern in the guide.
    title: &'static str,
    /// Its page in `docs/patterns`.
    page: &'static str,
    /// The weight of one occurrence.
    severity: u64,
    /// Why it is costly on this server.
    here: &'static str,
    /// Why it is costly on Azure.
    azure: &'static str,
    /// What to do: `{}` stands for the subject.
    advice: &'static str,
    /// The command, request or key design that implements it: `{}` for the subject, `{table}` for the table.
    command: &'static str,
}

/// Declares the codes with their numbers and texts.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $words:expr;)*) => {
        /// What was found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $name = $number,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            const fn words(self) -> Words {
                match self {
                    $(Self::$name => $words,)*
                }
            }
        }
    };
}

impl Code {
    /// The recommended pattern: a chapter of `docs/spec/patterns.md`.
    pub const fn pattern(self) -> &'static str {
        self.words().pattern
    }

    /// The name of the pattern in the guide.
    pub const fn title(self) -> &'static str {
        self.words().title
    }

    /// The file in `docs/patterns` that describes the pattern.
    pub const fn page(self) -> &'static str {
        self.words().page
    }

    /// Why it is costly on a Lazuli server.
    pub const fn cost_here(self) -> &'static str {
        self.words().here
    }

    /// Why it is costly on Azure.
    pub const fn cost_on_azure(self) -> &'static str {
        self.words().azure
    }

    /// The weight of one occurrence; more is worse.
    pub const fn severity(self) -> u64 {
        self.words().severity
    }

    /// What to do.
    pub(crate) fn advice(self, subject: &str) -> String {
        self.words().advice.replace("{}", subject)
    }

    /// The command, request or key design that implements it. Index names are reduced to valid characters.
    pub(crate) fn command(self, table: &str, subject: &str) -> String {
        let name: String = subject.chars().filter(char::is_ascii_alphanumeric).take(60).collect();
        let text = self.words().command.replace("{table}", table);
        let text = text.replace("by{}", &format!("by{name}"));
        text.replace("{}", subject)
    }

    /// The code with a number.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| *code as u64 == number)
    }
}

codes! {
    /// ADV-1: new writes go to the partition that was created last, and partitions grow with time.
    AppendPartitions = 1, Words {
        pattern: "P-13",
        title: "Prepend/append anti-pattern",
        page: "13-prepend-append.md",
        severity: 60,
        here: "All inserts meet in one place of the key order.",
        azure: "One partition server takes all inserts; the service cannot balance them.",
        advice: "Begin the partition key with a bucket, so that new rows spread over the table.",
        command: "PartitionKey = {bucket of the id}-{date}",
    };
    /// ADV-2: row keys only grow, in one hot partition.
    AppendRows = 2, Words {
        pattern: "P-13",
        title: "Prepend/append anti-pattern",
        page: "13-prepend-append.md",
        severity: 50,
        here: "Inserts of one partition meet at its end.",
        azure: "A partition serves 2,000 entities a second, and inserts at its end cannot be spread.",
        advice: "Spread the rows of partition {} over several partitions by a bucket of the key.",
        command: "PartitionKey = {partition}-{bucket of the row key}",
    };
    /// ADV-3: one partition has most of the traffic.
    HotPartition = 3, Words {
        pattern: "P-13",
        title: "Partition key selection: no hot partitions",
        page: "13-prepend-append.md",
        severity: 60,
        here: "Its rows are read and written again and again, while others rest.",
        azure: "A partition serves 2,000 entities a second; beyond that the service answers 503.",
        advice: "Spread partition {}: a partition serves 2,000 entities a second.",
        command: "PartitionKey = {partition}-{bucket of the row key}",
    };
    /// ADV-4: queries read the whole table.
    TableScan = 4, Words {
        pattern: "P-1",
        title: "Intra-partition secondary index pattern",
        page: "01-intra-partition-index.md",
        severity: 100,
        here: "Every row of the table is read and compared.",
        azure: "Every 1,000 rows are a page, a transaction that is billed, and a round trip.",
        advice: "Index {}, or give the query a partition key: it reads every row of the table.",
        command: "lazuli index set {table} by{} {}",
    };
    /// ADV-5: queries read a partition to find rows by a property.
    PartitionScan = 5, Words {
        pattern: "P-1",
        title: "Intra-partition secondary index pattern",
        page: "01-intra-partition-index.md",
        severity: 40,
        here: "Every row of the partition is read and compared.",
        azure: "Every 1,000 rows of the partition are a page and a transaction that is billed.",
        advice: "Declare an index on {}, so that a query by it is a range of row keys: #[index(.., row = \"..\")].",
        command: "lazuli index set {table} by{} PartitionKey {}",
    };
    /// ADV-6: `or` on keys.
    OrOfKeys = 6, Words {
        pattern: "C-7.3",
        title: "Point queries instead of `or`",
        page: "19-parallel-reads.md",
        severity: 20,
        here: "The keys are read one by one, which is cheap here.",
        azure: "The service scans the table or the partition for an `or`.",
        advice: "Read the rows by their keys with get_many: the service scans for an `or`.",
        command: "table.get_many(keys)",
    };
    /// ADV-7: a filter on RowKey without PartitionKey.
    RowWithoutPartition = 7, Words {
        pattern: "P-4",
        title: "Index entities pattern",
        page: "04-index-entities.md",
        severity: 100,
        here: "Every row of the table is read: rows are ordered by partition first.",
        azure: "A scan of the whole table, page by page.",
        advice: "Give the partition key too: a row key alone scans the table all the same.",
        command: "$filter=PartitionKey eq '..' and RowKey eq '..'",
    };
    /// ADV-8: whole entities are read, but few of their properties are used.
    UnusedProperties = 8, Words {
        pattern: "P-17",
        title: "Server-side projection",
        page: "17-projection.md",
        severity: 15,
        here: "All properties are read, written as JSON and sent.",
        azure: "The same, and traffic out of the region is billed by the byte.",
        advice: "Select the properties that are used.",
        command: "$select=PartitionKey,RowKey,..",
    };
    /// ADV-9: many conditional writes of one row fail.
    Conflicts = 9, Words {
        pattern: "P-23",
        title: "Optimistic concurrency: sharded counters",
        page: "23-beyond-the-guide.md",
        severity: 50,
        here: "Failed writes are sent again, after another read.",
        azure: "Failed writes are billed like others, and so are their repetitions.",
        advice: "Spread row {}: shard a counter, make rows of the items of a list.",
        command: "RowKey = {row}-{shard}",
    };
    /// ADV-10: numbers in keys without padding.
    UnpaddedNumbers = 10, Words {
        pattern: "P-21",
        title: "Sorting data in tables",
        page: "21-sorting.md",
        severity: 10,
        here: "Keys sort as text: ranges of numbers miss rows or read too many.",
        azure: "The same.",
        advice: "Pad the numbers in {}: 10 sorts before 9. Write 123 as 00000123.",
        command: "123 -> 00000123",
    };
    /// ADV-11: one row per partition, while writes come in groups.
    LonelyRows = 11, Words {
        pattern: "P-12",
        title: "Modelling relationships",
        page: "12-relationships.md",
        severity: 15,
        here: "Rows that belong together are written one by one, and may be left half done.",
        azure: "Each row is a transaction that is billed, instead of one for up to 100.",
        advice: "Give rows that are written together one partition key: they can be one transaction.",
        command: "POST /$batch with one PartitionKey",
    };
    /// ADV-12: an index that is never read.
    UnreadIndex = 12, Words {
        pattern: "P-1",
        title: "Intra-partition secondary index pattern",
        page: "01-intra-partition-index.md",
        severity: 10,
        here: "Every write of an entity writes its entries too.",
        azure: "Indexes that a client keeps are rows that are billed and stored.",
        advice: "Drop index {}: every write pays for it, and nobody reads it.",
        command: "lazuli index drop {table} {}",
    };
    /// ADV-13: one partition for all rows.
    OnePartition = 13, Words {
        pattern: "P-13",
        title: "Partition key selection",
        page: "13-prepend-append.md",
        severity: 50,
        here: "The table can be read and written in one place only.",
        azure: "The service cannot spread the table: 2,000 entities a second is all it gets.",
        advice: "Choose a partition key with many values, such as the id of the user.",
        command: "PartitionKey = UserID",
    };
    /// ADV-14: old rows are deleted one by one.
    DeletesByAge = 14, Words {
        pattern: "P-8",
        title: "High volume delete pattern",
        page: "08-high-volume-delete.md",
        severity: 30,
        here: "Each deletion is a commit and leaves space to be reclaimed.",
        azure: "Each deletion is a transaction that is billed.",
        advice: "Keep a table per day or month and delete the table.",
        command: "DELETE /Tables('Logs202611')",
    };
    /// ADV-15: a small table is read repeatedly.
    Rereads = 15, Words {
        pattern: "P-12",
        title: "Modelling relationships: joins in the client",
        page: "12-relationships.md",
        severity: 10,
        here: "The whole table is read each time, though nothing has changed.",
        azure: "Each read is a transaction that is billed and a round trip.",
        advice: "Keep the table in memory and read it again when it has changed.",
        command: "patterns::relations",
    };
    /// ADV-16: the result of a read always gives the key of the next read.
    ReadThenRead = 16, Words {
        pattern: "P-5",
        title: "Denormalization pattern",
        page: "05-denormalization.md",
        severity: 20,
        here: "Two round trips where one would do.",
        azure: "Two round trips and two transactions where one would do.",
        advice: "Copy what the second read looks up into the first row ({}).",
        command: "patterns::summary",
    };
    /// ADV-17: adjacent rows are read one by one.
    ReadsInARow = 17, Words {
        pattern: "P-9",
        title: "Data series pattern",
        page: "09-data-series.md",
        severity: 20,
        here: "A round trip for each row.",
        azure: "A round trip and a transaction for each row.",
        advice: "Put the rows of a series into one row, or read them with one query.",
        command: "$filter=PartitionKey eq '..' and RowKey ge '..' and RowKey lt '..'",
    };
    /// ADV-18: an entity is replaced although only one property changed.
    ReplaceForOne = 18, Words {
        pattern: "P-18",
        title: "Updating an entity: merge",
        page: "18-optimistic-concurrency.md",
        severity: 10,
        here: "The whole entity is sent, checked and logged.",
        azure: "The same, and two writers undo each other's changes.",
        advice: "Merge the property that changed instead of sending the whole entity.",
        command: "MERGE /Table(PartitionKey='..',RowKey='..')",
    };
    /// ADV-19: single inserts in a burst to one partition.
    SingleInserts = 19, Words {
        pattern: "C-12",
        title: "Entity group transactions",
        page: "19-parallel-reads.md",
        severity: 25,
        here: "A commit and a round trip for each entity.",
        azure: "A transaction that is billed for each entity, instead of one for 100.",
        advice: "Send the inserts to partition {} as batches, or with bulk.",
        command: "POST /$batch",
    };
    /// ADV-20: a minute with far more traffic than usual.
    Spikes = 20, Words {
        pattern: "P-3",
        title: "Queue-based load levelling",
        page: "03-eventual-transactions.md",
        severity: 15,
        here: "Requests wait for each other, and some get ServerBusy.",
        azure: "The service throttles an account beyond its targets with 503.",
        advice: "Spread the work over time, or put a queue before the table.",
        command: "lazuli queues put QUEUE ..",
    };
    /// ADV-21: values near the limits.
    NearLimits = 21, Words {
        pattern: "P-10",
        title: "Wide entities pattern, large entities pattern",
        page: "10-wide-entities.md",
        severity: 40,
        here: "Beyond 1 MiB, 64 KiB for a property or 252 properties a write is refused.",
        azure: "The same limits hold.",
        advice: "Split the entity (P-10) or put {} into a blob (P-11) before it no longer fits.",
        command: "#[table(wide(parts = ..))]",
    };
    /// ADV-22: tables that are written together.
    WrittenTogether = 22, Words {
        pattern: "P-15",
        title: "Heterogeneous entity types",
        page: "15-several-types.md",
        severity: 25,
        here: "Two commits where one would do, and one may fail alone.",
        azure: "Two transactions that are billed, and nothing keeps them together.",
        advice: "Keep both types in one table ({}): then their rows can be one transaction.",
        command: "POST /$batch with one table and PartitionKey",
    };
    /// ADV-23: the newest rows are wanted, but found by reading to the end.
    ReadToTheEnd = 23, Words {
        pattern: "P-7",
        title: "Log tail pattern",
        page: "07-log-tail.md",
        severity: 40,
        here: "All older rows are read first.",
        azure: "All older rows are pages and transactions that are billed.",
        advice: "Sort the newest rows first: inverted ticks in the row key.",
        command: "RowKey = {DateTime.MaxValue.Ticks - now, 19 digits}",
    };
    /// ADV-24: queries whose pages come back empty.
    EmptyPages = 24, Words {
        pattern: "P-1",
        title: "Intra-partition secondary index pattern",
        page: "01-intra-partition-index.md",
        severity: 60,
        here: "Much is read for nothing, page after page.",
        azure: "Each empty page is a transaction that is billed and a round trip.",
        advice: "Narrow the range of keys, or index the property: the service reads much and returns nothing.",
        command: "lazuli index set {table} byProperty Property",
    };
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ADV-{}", *self as u8)
    }
}
