//! The messages of TiKV's protocol that the client uses, with only the fields that it uses.
//!
//! Declared by hand from the numbers in `pingcap/kvproto` (`pdpb`, `metapb`, `errorpb`, `kvrpcpb`).
//! An undeclared field is skipped when read, as the format intends, so a newer server can add
//! fields. `uint64 version = 3` there is `#[prost(uint64, tag = "3")]` here.

pub(crate) mod driver;
pub(crate) mod error;
pub(crate) mod kv;

use prost::Message;

/// Where a region is and which version of its bounds a request is meant for.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct RegionEpoch {
    #[prost(uint64, tag = "1")]
    pub(crate) conf_ver: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) version: u64,
}

/// A replica of a region.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Peer {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) store_id: u64,
}

/// A range of encoded keys; an empty end is the end of all keys.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct RegionMeta {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) start_key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) end_key: Vec<u8>,
    #[prost(message, optional, tag = "4")]
    pub(crate) region_epoch: Option<RegionEpoch>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) peers: Vec<Peer>,
}

/// A server that holds regions.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Store {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) address: String,
    #[prost(int32, tag = "3")]
    pub(crate) state: i32,
    #[prost(message, repeated, tag = "4")]
    pub(crate) labels: Vec<StoreLabel>,
    #[prost(string, tag = "5")]
    pub(crate) version: String,
}

impl Store {
    const TOMBSTONE: i32 = 2;

    /// Whether it is a TiKV store that is part of the cluster: TiFlash registers as a store too.
    pub(crate) fn serves(&self) -> bool {
        let is_tiflash = |label: &StoreLabel| {
            label.key.eq_ignore_ascii_case("engine") && label.value.starts_with("tiflash")
        };
        self.state != Self::TOMBSTONE && !self.labels.iter().any(is_tiflash)
    }
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct StoreLabel {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}
