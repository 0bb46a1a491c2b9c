//! Region errors, `errorpb` in kvproto: the request was not executed where it was sent.

use super::Peer;
use prost::Message;

/// An error whose details the client ignores.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct NoDetails {}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct NotLeader {
    #[prost(uint64, tag = "1")]
    pub(crate) region_id: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) leader: Option<Peer>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ServerIsBusy {
    #[prost(string, tag = "1")]
    pub(crate) reason: String,
    #[prost(uint64, tag = "2")]
    pub(crate) backoff_ms: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct RegionError {
    #[prost(string, tag = "1")]
    pub(crate) message: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) not_leader: Option<NotLeader>,
    #[prost(message, optional, tag = "6")]
    pub(crate) server_is_busy: Option<ServerIsBusy>,
    #[prost(message, optional, tag = "8")]
    pub(crate) store_not_match: Option<NoDetails>,
    #[prost(message, optional, tag = "9")]
    pub(crate) raft_entry_too_large: Option<NoDetails>,
    #[prost(message, optional, tag = "15")]
    pub(crate) disk_full: Option<NoDetails>,
    #[prost(message, optional, tag = "17")]
    pub(crate) flashback_in_progress: Option<NoDetails>,
    #[prost(message, optional, tag = "22")]
    pub(crate) undetermined_result: Option<NoDetails>,
}
