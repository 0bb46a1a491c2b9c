//! Messages of the placement driver, `pdpb` in kvproto.

use super::{Peer, RegionMeta, Store};
use prost::Message;

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct RequestHeader {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) error: Option<DriverError>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct DriverError {
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// A request that carries the header and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct HeaderRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<RequestHeader>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Member {
    #[prost(string, repeated, tag = "4")]
    pub(crate) client_urls: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct GetMembersResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) members: Vec<Member>,
    #[prost(message, optional, tag = "3")]
    pub(crate) leader: Option<Member>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct TsoRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<RequestHeader>,
    #[prost(uint32, tag = "2")]
    pub(crate) count: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct TimestampParts {
    #[prost(int64, tag = "1")]
    pub(crate) physical: i64,
    #[prost(int64, tag = "2")]
    pub(crate) logical: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct TsoResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(uint32, tag = "2")]
    pub(crate) count: u32,
    /// The last of the `count` timestamps.
    #[prost(message, optional, tag = "3")]
    pub(crate) timestamp: Option<TimestampParts>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct GetRegionRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<RequestHeader>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) region_key: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct GetRegionResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, optional, tag = "2")]
    pub(crate) region: Option<RegionMeta>,
    #[prost(message, optional, tag = "3")]
    pub(crate) leader: Option<Peer>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct GetAllStoresResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) stores: Vec<Store>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct ClusterConfig {
    #[prost(uint32, tag = "2")]
    pub(crate) max_peer_count: u32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct GetClusterConfigResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, optional, tag = "2")]
    pub(crate) cluster: Option<ClusterConfig>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct UpdateGcSafePointRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<RequestHeader>,
    #[prost(uint64, tag = "2")]
    pub(crate) safe_point: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct UpdateGcSafePointResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct GetStoreRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<RequestHeader>,
    #[prost(uint64, tag = "2")]
    pub(crate) store_id: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct GetStoreResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, optional, tag = "2")]
    pub(crate) store: Option<Store>,
}
