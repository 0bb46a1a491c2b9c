//! Every statement that a session prepares, as text.

/// The database's clock in ticks of 100 ns since the year 1, as revisions count (K-7.3).
macro_rules! clock {
    () => {
        "((extract(epoch from clock_timestamp()) * 1000000)::bigint * 10 + 621355968000000000)"
    };
}
pub(crate) use clock;

/// The lowest revision that a commit may have: the clock, but not below the floor (K-7.5).
macro_rules! now {
    () => {
        concat!(
            "greatest(",
            clock!(),
            ", (select value::bigint from lazuli_meta where name = 'floor'))"
        )
    };
}
pub(crate) use now;

/// Holds if there is no guard ($3 is null), or its key exists, at revision $5 if given. It takes no
/// lock: a guard need only hold at some moment before the commit (K-2.3).
macro_rules! guard {
    () => {
        "($3::bytea is null or exists (select 1 from lazuli_kv g where g.k = $3 and g.d = $4 \
         and g.v is not null and ($5::bigint is null or g.r = $5)))"
    };
}

/// $1 and $2 are the key, $6 the rest of it, $7 the commit's id, $8 the value.
macro_rules! upsert {
    ($condition:literal) => {
        concat!(
            "insert into lazuli_kv as t (k, d, x, r, c, v) \
             select $1::bytea, $2::bytea, $6::bytea, ",
            now!(),
            ", $7::bigint, $8::bytea where ",
            guard!(),
            " on conflict (k, d) do update \
             set r = greatest(excluded.r, t.r + 1), c = excluded.c, v = excluded.v ",
            $condition,
            " returning t.k, t.d, t.r"
        )
    };
}

/// Like [`upsert`], for independent commits: each has an entry in every array, and, if it was done, a row
/// with its id in the answer. $1 to $3 are the keys, $4 the ids, $5 the values, $6 to $8 keys and revisions
/// of the guards. Rows are taken in key order, as everywhere (K-7.6).
///
/// The planner cannot turn the guards into one read of the whole table: it does that only where every
/// condition is an equality, and the last one here is not.
macro_rules! upsert_together {
    ($condition:literal) => {
        concat!(
            "with done as (insert into lazuli_kv as t (k, d, x, r, c, v) \
             select w.k, w.d, w.x, ",
            now!(),
            ", w.c, w.v from unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bigint[], \
             $5::bytea[], $6::bytea[], $7::bytea[], $8::bigint[]) w (k, d, x, c, v, gk, gd, gr) \
             where w.gk is null or exists (select 1 from lazuli_kv g where g.k = w.gk \
             and g.d = w.gd and g.v is not null and (w.gr is null or g.r = w.gr)) \
             order by w.k, w.d on conflict (k, d) do update \
             set r = greatest(excluded.r, t.r + 1), c = excluded.c, v = excluded.v ",
            $condition,
            " returning t.c, t.r) select c, r, ",
            clock!(),
            " from done"
        )
    };
}

/// $6 is the commit's id, $7 the value, $8 the required revision, if any. `$more` says how many revisions
/// are skipped before that of the row.
macro_rules! update {
    ($more:literal) => {
        concat!(
            "update lazuli_kv t set r = greatest(",
            now!(),
            ", t.r + 1)",
            $more,
            ", c = $6::bigint, v = $7::bytea where t.k = $1::bytea and t.d = $2::bytea \
             and t.v is not null and ($8::bigint is null or t.r = $8) and ",
            guard!(),
            " returning t.k, t.d, t.r"
        )
    };
}

/// The revision of what `change` wrote, and the clock, by which a lost answer is settled (K-5.3).
macro_rules! answer {
    ($change:expr) => {
        concat!("with done as (", $change, ") select r, ", clock!(), " from done")
    };
}

/// Like [`answer`], and notes the deleted key for `tend` (K-7.5).
macro_rules! answer_and_note {
    ($change:expr) => {
        concat!(
            "with done as (",
            $change,
            "), noted as (insert into lazuli_gone (k, d, r) select k, d, r from done) \
             select r, ",
            clock!(),
            " from done"
        )
    };
}

/// How many entries a scan may look at beyond those that it shows: deleted ones (K-7.15).
macro_rules! passed_max {
    () => {
        "4096"
    };
}

/// The entries of `$range`, at most `$rows`, up to the one whose key and value reach `$bytes` bytes
/// together. Lengths are known without the values: those are stored apart and uncompressed (K-3.4). The last
/// one that the statement may look at is shown though it is deleted, and the fifth column says that it is
/// that one.
macro_rules! scan_of {
    ($range:literal, $order:literal, $rows:literal, $bytes:literal) => {
        concat!(
            "select k, x, r, v, is_bound from (select * from (select k, d, x, r, v, \
             octet_length(k) + octet_length(v) as bytes, \
             sum(octet_length(k) + octet_length(v)) over passed as so_far, \
             row_number() over passed = ",
            $rows,
            "::bigint + ",
            passed_max!(),
            " as is_bound from lazuli_kv where ",
            $range,
            " window passed as (order by ",
            $order,
            " rows unbounded preceding) order by ",
            $order,
            " limit ",
            $rows,
            "::bigint + ",
            passed_max!(),
            ") looked_at where v is not null or is_bound order by ",
            $order,
            " limit ",
            $rows,
            ") found where coalesce(so_far, 0) - coalesce(bytes, 0) < ",
            $bytes,
            "::bigint order by ",
            $order
        )
    };
}

/// Entries of a range whose bounds both fit the index; $1 and $2 are the bounds, $3 and $4 how many rows
/// and bytes.
macro_rules! scan {
    ($order:literal) => {
        scan_of!("k >= $1 and k < $2", $order, "$3", "$4")
    };
}

/// Like [`scan`], for any range, in the order of whole keys: $1, $2 and $3, $4 are the bounds, $5 and $6
/// the limits on rows and bytes.
macro_rules! long_scan {
    ($order:literal) => {
        scan_of!("(k, x) >= ($1, $2) and (k, x) < ($3, $4)", $order, "$5", "$6")
    };
}

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $text:expr,)+) => {
        /// A statement of the engine. Each session prepares it at its first use.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Statement { $($(#[$doc])* $name,)+ }

        impl Statement {
            pub(crate) const COUNT: usize = [$(Self::$name),+].len();

            pub(crate) fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

statements! {
    /// Values of keys that fit the index.
    Read = "select k, r, v from lazuli_kv where k = any($1) and d = '' and v is not null",
    /// Values of any keys.
    ReadLong = "select t.k || t.x, t.r, t.v from unnest($1::bytea[], $2::bytea[]) w (k, d) \
                join lazuli_kv t on t.k = w.k and t.d = w.d where t.v is not null",
    /// Like the two above, and blocks other writers of the rows until the transaction ends.
    ReadLocked = "select t.k || t.x, t.r, t.v from lazuli_kv t \
                  join unnest($1::bytea[], $2::bytea[]) w (k, d) on t.k = w.k and t.d = w.d \
                  order by t.k, t.d for no key update of t",
    /// Blocks other writers of the rows until the transaction ends, and returns only a count.
    Lock = "select count(*) from (select 1 from lazuli_kv t \
            join unnest($1::bytea[], $2::bytea[]) w (k, d) on t.k = w.k and t.d = w.d \
            order by t.k, t.d for no key update of t) locked",
    ScanForward = scan!("k, d"),
    ScanBackward = scan!("k desc, d desc"),
    LongScanForward = long_scan!("k, x"),
    LongScanBackward = long_scan!("k desc, x desc"),
    /// The key must be absent (K-7.7).
    Insert = answer!(upsert!("where t.v is null")),
    Upsert = answer!(upsert!("")),
    /// Several inserts or upserts of different keys, which waited for a connection together.
    InsertTogether = upsert_together!("where t.v is null"),
    UpsertTogether = upsert_together!(""),
    /// The key must exist, at revision $8 if given. It takes $9 extra revisions, for the commits of a group.
    Replace = answer!(update!(" + $9::bigint")),
    Delete = answer_and_note!(update!("")),
    /// Whether or not the key exists.
    Remove = answer_and_note!(upsert!("")),
    /// A commit of several writes (K-7.8).
    Commit = "select status, there, revision, clock \
              from lazuli_commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
    /// What the keys of a lost commit carry. The lock gives this transaction an id, so its commit waits
    /// for a synchronous standby: what it saw is on the standby too (K-7.12).
    Marks = concat!(
        "select w.i, t.r, t.c, ",
        clock!(),
        " from lazuli_kv t join unnest($1::bytea[], $2::bytea[]) with ordinality w (k, d, i) \
         on t.k = w.k and t.d = w.d order by t.k, t.d for no key update of t"
    ),
    /// Ends the session whose answer was lost; no row means that it is gone. Says whether it waits for a
    /// standby: then it is ended only if $3, because that makes its commit visible.
    Terminate = "select coalesce(wait_event = 'SyncRep', false), \
                 case when $3 or wait_event is distinct from 'SyncRep' then pg_terminate_backend(pid) end \
                 from pg_stat_activity where pid = $1 and (extract(epoch from backend_start) * 1000000)::bigint = $2",
    /// $1, $2 and $3, $4 are the bounds of the range, $5 how many rows to remove.
    Reclaim = "with due as (select k, d from lazuli_kv \
               where (k, x) >= ($1, $2) and (k, x) < ($3, $4) order by k, d limit $5), \
               removed as (delete from lazuli_kv t using due where t.k = due.k and t.d = due.d \
               returning 1) select count(*) from removed",
    /// $1 is how many µs ago the floor must have been raised, $2 how many rows to remove.
    RemoveGone = concat!(
        "with due as (select ctid, k, d, r from lazuli_gone \
         where r <= (select value::bigint from lazuli_meta where name = 'floor') \
         and (select value::bigint from lazuli_meta where name = 'floor-raised') + $1::bigint * 10 <= ",
        clock!(),
        " order by r limit $2::bigint for update skip locked), \
         removed as (delete from lazuli_kv t using due where t.k = due.k and t.d = due.d \
         and t.r = due.r and t.v is null), \
         cleared as (delete from lazuli_gone g using due where g.ctid = due.ctid) \
         select count(*) from due"
    ),
    /// $1 is how many µs ago the floor must have been raised, $2 the minimum age of what is removed.
    RaiseFloor = concat!(
        "with next as (select max(r) as r from lazuli_gone where r <= ",
        clock!(),
        " - $2::bigint * 10 and r > (select value::bigint from lazuli_meta where name = 'floor') \
         and (select value::bigint from lazuli_meta where name = 'floor-raised') + $1::bigint * 10 <= ",
        clock!(),
        ") update lazuli_meta set value = case name when 'floor' then next.r else ",
        clock!(),
        " end::text from next where next.r is not null and name in ('floor', 'floor-raised')"
    ),
    /// Asked for every second, which keeps the known clock recent (K-5.3).
    Health = concat!("select ", clock!(), " from lazuli_meta where name = 'format'"),
}
