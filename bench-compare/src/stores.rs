//! The stores, each set to the same cache and, where it has one, to the settings that the local
//! engine uses or would use.

use crate::Open;

pub const STORES: &[(&str, Open)] = &[
    #[cfg(feature = "fjall")]
    ("fjall", fjall_store::open),
    #[cfg(feature = "rocksdb")]
    ("rocksdb", rocksdb_store::open),
    #[cfg(feature = "redb")]
    ("redb", redb_store::open),
    #[cfg(feature = "lmdb")]
    ("lmdb", lmdb_store::open),
];

#[cfg(feature = "fjall")]
mod fjall_store {
    use crate::{CACHE_BYTES, Row, Store};
    use fjall::compaction::Leveled;
    use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
    use std::path::Path;
    use std::sync::Arc;

    const MEMTABLE_BYTES: u64 = 16 << 20;

    struct Fjall(Database, Keyspace);

    pub fn open(dir: &Path) -> Box<dyn Store + Send> {
        let database = Database::builder(dir)
            .cache_size(CACHE_BYTES as u64)
            .max_journaling_size(64 << 20)
            .worker_threads(1)
            .manual_journal_persist(true)
            .open()
            .unwrap();
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(4 * MEMTABLE_BYTES)
                .compaction_strategy(Arc::new(Leveled::default().with_table_target_size(16 << 20)))
        };
        let data = database.keyspace("data", options).unwrap();
        Box::new(Fjall(database, data))
    }

    impl Store for Fjall {
        fn write(&self, rows: Vec<Row>, durable: bool) {
            let mode = if durable { PersistMode::SyncData } else { PersistMode::Buffer };
            let mut batch = self.0.batch().durability(Some(mode));
            for (key, value) in rows {
                batch.insert(&self.1, key, value);
            }
            batch.commit().unwrap();
            if self.1.tree.active_memtable().size() > MEMTABLE_BYTES {
                self.1.rotate_memtable().unwrap();
            }
        }

        fn get(&self, key: &[u8]) -> Option<usize> {
            self.1.get(key).unwrap().map(|value| value.len())
        }

        fn scan(&self) -> (u64, usize) {
            self.1.iter().fold((0, 0), |(rows, bytes), entry| {
                (rows + 1, bytes + entry.into_inner().unwrap().1.len())
            })
        }
    }
}

#[cfg(feature = "rocksdb")]
mod rocksdb_store {
    use crate::{CACHE_BYTES, Row, Store};
    use rocksdb::{
        BlockBasedOptions, Cache, DB, DBCompressionType, Options, WriteBatch, WriteOptions,
    };
    use std::path::Path;

    struct RocksDb(DB);

    pub fn open(dir: &Path) -> Box<dyn Store + Send> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES).unwrap());
        blocks.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        options.set_write_buffer_size(16 << 20);
        options.set_target_file_size_base(16 << 20);
        options.set_compression_per_level(&[
            DBCompressionType::None,
            DBCompressionType::None,
            DBCompressionType::Lz4,
            DBCompressionType::Lz4,
            DBCompressionType::Lz4,
            DBCompressionType::Lz4,
            DBCompressionType::Lz4,
        ]);
        Box::new(RocksDb(DB::open(&options, dir).unwrap()))
    }

    impl Store for RocksDb {
        fn write(&self, rows: Vec<Row>, durable: bool) {
            let mut batch = WriteBatch::default();
            for (key, value) in rows {
                batch.put(key, value);
            }
            let mut options = WriteOptions::default();
            options.set_sync(durable);
            self.0.write_opt(batch, &options).unwrap();
        }

        fn get(&self, key: &[u8]) -> Option<usize> {
            self.0.get_pinned(key).unwrap().map(|value| value.len())
        }

        fn scan(&self) -> (u64, usize) {
            let (mut rows, mut bytes) = (0, 0);
            let mut entries = self.0.raw_iterator();
            entries.seek_to_first();
            while let Some(value) = entries.value() {
                rows += 1;
                bytes += value.len();
                entries.next();
            }
            entries.status().unwrap();
            (rows, bytes)
        }
    }
}

#[cfg(feature = "redb")]
mod redb_store {
    use crate::{CACHE_BYTES, Row, Store};
    use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
    use std::path::Path;

    const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("data");

    struct Redb(Database);

    pub fn open(dir: &Path) -> Box<dyn Store + Send> {
        let database =
            Database::builder().set_cache_size(CACHE_BYTES).create(dir.join("redb")).unwrap();
        Box::new(Redb(database))
    }

    impl Store for Redb {
        fn write(&self, rows: Vec<Row>, durable: bool) {
            let mut transaction = self.0.begin_write().unwrap();
            let durability = if durable { Durability::Immediate } else { Durability::None };
            transaction.set_durability(durability).unwrap();
            {
                let mut table = transaction.open_table(TABLE).unwrap();
                for (key, value) in rows {
                    table.insert(key.as_slice(), value.as_slice()).unwrap();
                }
            }
            transaction.commit().unwrap();
        }

        fn get(&self, key: &[u8]) -> Option<usize> {
            let table = self.0.begin_read().unwrap().open_table(TABLE).unwrap();
            table.get(key).unwrap().map(|value| value.value().len())
        }

        fn scan(&self) -> (u64, usize) {
            let table = self.0.begin_read().unwrap().open_table(TABLE).unwrap();
            table.iter().unwrap().fold((0, 0), |(rows, bytes), entry| {
                (rows + 1, bytes + entry.unwrap().1.value().len())
            })
        }
    }
}

#[cfg(feature = "lmdb")]
mod lmdb_store {
    use crate::{Row, Store};
    use heed::types::Bytes;
    use heed::{Database, Env, EnvFlags, EnvOpenOptions};
    use std::path::Path;

    struct Lmdb(Env, Database<Bytes, Bytes>);

    pub fn open(dir: &Path) -> Box<dyn Store + Send> {
        let mut options = EnvOpenOptions::new();
        options.map_size(8 << 30);
        // SAFETY: nobody else opens or changes the files of this directory.
        let env = unsafe {
            options.flags(EnvFlags::NO_READ_AHEAD);
            options.open(dir).unwrap()
        };
        let mut transaction = env.write_txn().unwrap();
        let database = env.create_database(&mut transaction, None).unwrap();
        transaction.commit().unwrap();
        Box::new(Lmdb(env, database))
    }

    impl Store for Lmdb {
        /// Every commit is durable.
        fn write(&self, rows: Vec<Row>, _: bool) {
            let mut transaction = self.0.write_txn().unwrap();
            for (key, value) in rows {
                self.1.put(&mut transaction, &key, &value).unwrap();
            }
            transaction.commit().unwrap();
        }

        fn get(&self, key: &[u8]) -> Option<usize> {
            let transaction = self.0.read_txn().unwrap();
            self.1.get(&transaction, key).unwrap().map(<[u8]>::len)
        }

        fn scan(&self) -> (u64, usize) {
            let transaction = self.0.read_txn().unwrap();
            self.1
                .iter(&transaction)
                .unwrap()
                .fold((0, 0), |(rows, bytes), entry| (rows + 1, bytes + entry.unwrap().1.len()))
        }
    }
}
