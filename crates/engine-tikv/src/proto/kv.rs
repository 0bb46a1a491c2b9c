//! Requests to a region, `kvrpcpb` in kvproto, and the names of their remote calls.

use super::error::{NoDetails, RegionError};
use super::{Peer, RegionEpoch};
use bytes::Bytes;
use prost::Message;

/// A request that one region executes.
pub(crate) trait RegionRequest: Message + Sync {
    type Response: RegionResponse;
    /// The path of the remote call.
    const PATH: &'static str;

    fn set_context(&mut self, context: Context);
}

pub(crate) trait RegionResponse: Message + Default {
    /// Why the region did not execute the request.
    fn take_region_error(&mut self) -> Option<RegionError>;
}

macro_rules! calls {
    ($($name:literal: $request:ident => $response:ident;)+) => {
        $(
            impl RegionRequest for $request {
                type Response = $response;
                const PATH: &'static str = concat!("/tikvpb.Tikv/", $name);

                fn set_context(&mut self, context: Context) {
                    self.context = Some(context);
                }
            }

            impl RegionResponse for $response {
                fn take_region_error(&mut self) -> Option<RegionError> {
                    self.region_error.take()
                }
            }
        )+
    };
}

calls! {
    "KvGet": GetRequest => GetResponse;
    "KvBatchGet": BatchGetRequest => BatchGetResponse;
    "KvScan": ScanRequest => ScanResponse;
    "KvPrewrite": PrewriteRequest => PrewriteResponse;
    "KvCommit": CommitRequest => CommitResponse;
    "KvBatchRollback": BatchRollbackRequest => BatchRollbackResponse;
    "KvCheckTxnStatus": CheckTxnStatusRequest => CheckTxnStatusResponse;
    "KvResolveLock": ResolveLockRequest => ResolveLockResponse;
    "KvScanLock": ScanLockRequest => ScanLockResponse;
}

/// Which region a request is meant for.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Context {
    #[prost(uint64, tag = "1")]
    pub(crate) region_id: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) region_epoch: Option<RegionEpoch>,
    #[prost(message, optional, tag = "3")]
    pub(crate) peer: Option<Peer>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct LockInfo {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) primary_lock: Bytes,
    #[prost(uint64, tag = "2")]
    pub(crate) lock_version: u64,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) key: Bytes,
    #[prost(uint64, tag = "4")]
    pub(crate) lock_ttl: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) txn_size: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct WriteConflict {
    #[prost(uint64, tag = "1")]
    pub(crate) start_ts: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) conflict_ts: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct KeyError {
    #[prost(message, optional, tag = "1")]
    pub(crate) locked: Option<LockInfo>,
    #[prost(string, tag = "2")]
    pub(crate) retryable: String,
    #[prost(string, tag = "3")]
    pub(crate) abort: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) conflict: Option<WriteConflict>,
    #[prost(message, optional, tag = "5")]
    pub(crate) already_exist: Option<NoDetails>,
    #[prost(message, optional, tag = "7")]
    pub(crate) commit_ts_expired: Option<NoDetails>,
    #[prost(message, optional, tag = "8")]
    pub(crate) txn_not_found: Option<NoDetails>,
    #[prost(message, optional, tag = "12")]
    pub(crate) txn_lock_not_found: Option<NoDetails>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct KvPair {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<KeyError>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) value: Bytes,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct GetRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) context: Option<Context>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) key: Bytes,
    #[prost(uint64, tag = "3")]
    pub(crate) version: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct GetResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub(crate) error: Option<KeyError>,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) value: Bytes,
    #[prost(bool, tag = "4")]
    pub(crate) not_found: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct BatchGetRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) context: Option<Context>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) keys: Vec<Bytes>,
    #[prost(uint64, tag = "3")]
    pub(crate) version: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct BatchGetResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) pairs: Vec<KvPair>,
    #[prost(message, optional, tag = "5")]
    pub(crate) error: Option<KeyError>,
}

/// A backward scan goes from `start_key`, exclusive, down to `end_key`, inclusive.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ScanRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) context: Option<Context>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) start_key: Bytes,
    #[prost(uint32, tag = "3")]
    pub(crate) limit: u32,
    #[prost(uint64, tag = "4")]
    pub(crate) version: u64,
    #[prost(bool, tag = "5")]
    pub(crate) key_only: bool,
    #[prost(bool, tag = "6")]
    pub(crate) reverse: bool,
    #[prost(bytes = "bytes", tag = "7")]
    pub(crate) end_key: Bytes,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ScanResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) pairs: Vec<KvPair>,
    #[prost(message, optional, tag = "3")]
    pub(crate) error: Option<KeyError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Op {
    Put = 0,
    Delete = 1,
    /// Fails if another transaction has written the key in the meantime; changes nothing.
    Lock = 2,
    /// A put that fails if the key exists.
    Insert = 4,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Mutation {
    #[prost(enumeration = "Op", tag = "1")]
    pub(crate) op: i32,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) value: Bytes,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct PrewriteRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) context: Option<Context>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) mutations: Vec<Mutation>,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) primary_lock: Bytes,
    #[prost(uint64, tag = "4")]
    pub(crate) start_version: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) lock_ttl: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) txn_size: u64,
    #[prost(uint64, tag = "10")]
    pub(crate) min_commit_ts: u64,
    #[prost(bool, tag = "13")]
    pub(crate) try_one_pc: bool,
    /// A one-phase commit with a later timestamp is declined.
    #[prost(uint64, tag = "14")]
    pub(crate) max_commit_ts: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct PrewriteResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) region_error: Option<RegionError>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) errors: Vec<KeyError>,
    /// Not zero: the transaction is committed.
    #[prost(uint64, tag = "4")]
    pub(crate) one_pc_commit_ts: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct CommitRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub(crate) start_version: u64,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(crate) keys: Vec<Bytes>,
    #[prost(uint64, tag = "4")]
    pub(crate) commit_version: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct CommitResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub(crate) error: Option<KeyError>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct BatchRollbackRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub(crate) start_version: u64,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(crate) keys: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct BatchRollbackResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub(crate) error: Option<KeyError>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct CheckTxnStatusRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) context: Option<Context>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) primary_key: Bytes,
    #[prost(uint64, tag = "3")]
    pub(crate) lock_ts: u64,
    /// Zero: the check does not push the transaction's commit to a later time.
    #[prost(uint64, tag = "4")]
    pub(crate) caller_start_ts: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) current_ts: u64,
    #[prost(bool, tag = "6")]
    pub(crate) rollback_if_not_exist: bool,
}

/// Committed if `commit_version` is not zero, locked if `lock_ttl` is not zero, else rolled back.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct CheckTxnStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub(crate) error: Option<KeyError>,
    #[prost(uint64, tag = "3")]
    pub(crate) lock_ttl: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) commit_version: u64,
}

/// Commits the locks of a transaction if `commit_version` is not zero, else rolls them back. Without
/// keys, applies to all locks of the transaction in the region.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ResolveLockRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub(crate) start_version: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) commit_version: u64,
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub(crate) keys: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ResolveLockResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub(crate) error: Option<KeyError>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ScanLockRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) context: Option<Context>,
    #[prost(uint64, tag = "2")]
    pub(crate) max_version: u64,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) start_key: Bytes,
    #[prost(uint32, tag = "4")]
    pub(crate) limit: u32,
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) end_key: Bytes,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ScanLockResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) region_error: Option<RegionError>,
    #[prost(message, optional, tag = "2")]
    pub(crate) error: Option<KeyError>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) locks: Vec<LockInfo>,
}
