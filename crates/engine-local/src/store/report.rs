//! Metrics that the store can report without reading anything.

use super::Store;
use lazuli_meter::{Family, Value};

impl Store {
    /// Sizes that are known without reading anything.
    pub(crate) fn report(&self) -> Vec<Family> {
        let gauge = |number: u64| Value::Gauge(number as f64);
        let pools = [
            ("cache", self.database.cache_size(), self.database.cache_capacity()),
            ("memtables", self.database.write_buffer_size(), self.memtable_bytes),
        ];
        let mut used = Family::new("lazuli_memory_bytes", "Memory in use");
        let mut limits = Family::new("lazuli_memory_limit_bytes", "Memory that may be used");
        for (pool, bytes, limit) in pools {
            used = used.with(vec![("pool", pool.into())], &gauge(bytes));
            limits = limits.with(vec![("pool", pool.into())], &gauge(limit));
        }
        let tables = [&self.data, &self.meta];
        let table_bytes = tables.iter().map(|keyspace| keyspace.disk_space()).sum();
        let table_files: usize = tables.iter().map(|keyspace| keyspace.table_count()).sum();
        let labels = |kind: &'static str| vec![("kind", kind.into())];
        let mut bytes = Family::new("lazuli_store_bytes", "Bytes on disk")
            .with(labels("tables"), &gauge(table_bytes));
        if let Ok(journals) = self.database.journal_disk_space() {
            bytes = bytes.with(labels("journals"), &gauge(journals));
        }
        let files = Family::new("lazuli_store_files", "Files on disk")
            .with(labels("tables"), &gauge(table_files as u64))
            .with(labels("journals"), &gauge(self.database.journal_count() as u64));
        let compactions = Family::of(
            "lazuli_compactions",
            "Compactions since the store was opened",
            &Value::Counter(self.database.compactions_completed() as f64),
        );
        vec![used, limits, bytes, files, compactions, self.cache_reads()]
    }

    /// Blocks that reads found in the cache, and blocks they had to fetch from files.
    fn cache_reads(&self) -> Family {
        let meters = [&self.data, &self.meta].map(|keyspace| keyspace.metrics());
        let hits: usize = meters.iter().map(|meter| meter.block_load_cached_count()).sum();
        let misses: usize = meters.iter().map(|meter| meter.block_load_io_count()).sum();
        let count = |number: usize| Value::Counter(number as f64);
        Family::new(
            "lazuli_cache_reads",
            "Blocks looked up in the cache since the store was opened",
        )
        .with(vec![("result", "hit".into())], &count(hits))
        .with(vec![("result", "miss".into())], &count(misses))
    }
}
