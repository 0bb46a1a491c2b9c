//! The placement driver: finds its leader, and asks it where regions and stores are.

use crate::grpc::{Channel, Messages, Requests, RpcError};
use crate::patience::{CALL_MAX, ClientError, Patience};
use crate::proto::driver::{
    GetAllStoresResponse, GetClusterConfigResponse, GetMembersResponse, GetRegionRequest,
    GetRegionResponse, GetStoreRequest, GetStoreResponse, HeaderRequest, RequestHeader,
    ResponseHeader, TsoRequest, UpdateGcSafePointRequest, UpdateGcSafePointResponse,
};
use crate::proto::{Peer, RegionMeta, Store};
use crate::timestamp::Timestamp;
use crate::tls::Tls;
use futures_util::future::select_ok;
use prost::Message;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A client of the drivers of one cluster. Everything except the search for the leader goes to the leader.
#[derive(Debug)]
pub(crate) struct Driver {
    /// The addresses that the operator gave.
    seeds: Vec<String>,
    tls: Option<Tls>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    leader: Option<Arc<Leader>>,
    /// All drivers, as the leader listed them.
    members: Vec<String>,
}

#[derive(Debug)]
struct Leader {
    channel: Channel,
    header: RequestHeader,
}

/// A response of the driver.
trait Headed: Message + Default {
    fn header(&self) -> Option<&ResponseHeader>;
}

macro_rules! headed {
    ($($response:ident)+) => {
        $(
            impl Headed for $response {
                fn header(&self) -> Option<&ResponseHeader> {
                    self.header.as_ref()
                }
            }
        )+
    };
}

headed! {
    GetAllStoresResponse GetClusterConfigResponse GetRegionResponse GetStoreResponse
    UpdateGcSafePointResponse
}

impl Driver {
    pub(crate) fn new(seeds: Vec<String>, tls: Option<Tls>) -> Self {
        Self { seeds, tls, known: Mutex::default() }
    }

    /// The region that holds an encoded key, and its leader.
    pub(crate) async fn region_of(
        &self,
        encoded: &[u8],
        patience: &mut Patience,
    ) -> Result<(RegionMeta, Option<Peer>), ClientError> {
        self.region("/pdpb.PD/GetRegion", encoded, patience).await
    }

    /// The region before the one that holds an encoded key.
    pub(crate) async fn region_before(
        &self,
        encoded: &[u8],
        patience: &mut Patience,
    ) -> Result<(RegionMeta, Option<Peer>), ClientError> {
        self.region("/pdpb.PD/GetPrevRegion", encoded, patience).await
    }

    async fn region(
        &self,
        path: &'static str,
        encoded: &[u8],
        patience: &mut Patience,
    ) -> Result<(RegionMeta, Option<Peer>), ClientError> {
        loop {
            let request = |header| GetRegionRequest { header, region_key: encoded.to_vec() };
            let answer: GetRegionResponse = self.ask(path, request, patience).await?;
            if let Some(region) = answer.region {
                return Ok((region, answer.leader.filter(|leader| leader.id != 0)));
            }
            // Regions are being split or merged, or the driver has just started.
            patience.pause("the placement driver knows no region of a key").await?;
        }
    }

    pub(crate) async fn store(
        &self,
        store_id: u64,
        patience: &mut Patience,
    ) -> Result<Store, ClientError> {
        let request = |header| GetStoreRequest { header, store_id };
        let answer: GetStoreResponse = self.ask("/pdpb.PD/GetStore", request, patience).await?;
        let unknown = || ClientError::Unavailable(format!("store {store_id} is not known"));
        answer.store.ok_or_else(unknown)
    }

    pub(crate) async fn stores(&self, patience: &mut Patience) -> Result<Vec<Store>, ClientError> {
        let request = |header| HeaderRequest { header };
        let path = "/pdpb.PD/GetAllStores";
        let answer: GetAllStoresResponse = self.ask(path, request, patience).await?;
        Ok(answer.stores.into_iter().filter(Store::serves).collect())
    }

    /// How many replicas the cluster keeps of each region.
    pub(crate) async fn replicas(&self, patience: &mut Patience) -> Result<u32, ClientError> {
        let request = |header| HeaderRequest { header };
        let path = "/pdpb.PD/GetClusterConfig";
        let answer: GetClusterConfigResponse = self.ask(path, request, patience).await?;
        Ok(answer.cluster.map_or(0, |cluster| cluster.max_peer_count))
    }

    /// Lets the stores drop versions that no read at `at` or later needs.
    pub(crate) async fn set_safe_point(
        &self,
        at: Timestamp,
        patience: &mut Patience,
    ) -> Result<(), ClientError> {
        let request = |header| UpdateGcSafePointRequest { header, safe_point: at.0 };
        let path = "/pdpb.PD/UpdateGCSafePoint";
        let _: UpdateGcSafePointResponse = self.ask(path, request, patience).await?;
        Ok(())
    }

    /// Asks for timestamps, and opens the stream of such requests.
    pub(crate) async fn open_timestamps(
        &self,
        count: u32,
    ) -> Result<(RequestHeader, Requests, Messages), RpcError> {
        let leader = self.leader().await?;
        let first = TsoRequest { header: Some(leader.header), count };
        let (requests, answers) = leader.channel.open("/pdpb.PD/Tso", &first).await?;
        Ok((leader.header, requests, answers))
    }

    /// The next call looks for the leader.
    pub(crate) async fn forget_leader(&self) {
        self.known.lock().await.leader = None;
    }

    async fn ask<Request: Message, Answer: Headed>(
        &self,
        path: &'static str,
        request: impl Fn(Option<RequestHeader>) -> Request,
        patience: &mut Patience,
    ) -> Result<Answer, ClientError> {
        loop {
            let answer = async {
                let unknown = || RpcError::Unsent("the leader of the placement drivers".to_owned());
                let leader = patience.within(self.leader()).await.ok_or_else(unknown)??;
                let request = request(Some(leader.header));
                leader.channel.call::<Answer>(path, &request, patience.call_time()).await
            };
            let why = match answer.await {
                Err(RpcError::Refused(reason)) => return Err(ClientError::Refused(reason)),
                Err(error) => error.to_string(),
                Ok(answer) => match answer.header().and_then(|header| header.error.as_ref()) {
                    None => return Ok(answer),
                    Some(error) => format!("placement driver: {}", error.message),
                },
            };
            self.forget_leader().await;
            patience.pause(why).await?;
        }
    }

    async fn leader(&self) -> Result<Arc<Leader>, RpcError> {
        let mut known = self.known.lock().await;
        if let Some(leader) = &known.leader {
            return Ok(leader.clone());
        }
        let mut addresses = self.seeds.clone();
        addresses.extend(known.members.iter().filter(|m| !self.seeds.contains(m)).cloned());
        // In parallel, because a driver that does not answer takes as long as a call may.
        let asked = addresses.iter().map(|address| Box::pin(self.ask_for_leader(address)));
        let ((leader, members), _) = select_ok(asked).await?;
        known.leader = Some(leader.clone());
        known.members = members;
        Ok(leader)
    }

    async fn ask_for_leader(&self, address: &str) -> Result<(Arc<Leader>, Vec<String>), RpcError> {
        let channel = Channel::new(address, self.tls.clone());
        let request = HeaderRequest { header: Some(RequestHeader::default()) };
        let found: GetMembersResponse =
            channel.call("/pdpb.PD/GetMembers", &request, CALL_MAX).await?;
        let cluster_id = found.header.map_or(0, |header| header.cluster_id);
        let no_leader = || RpcError::Lost(format!("{address}: the drivers have no leader"));
        let urls = found.leader.ok_or_else(no_leader)?.client_urls;
        let leader = urls.iter().find_map(|url| host_and_port(url)).ok_or_else(no_leader)?;
        let header = RequestHeader { cluster_id };
        let channel = if leader == channel.address() {
            channel
        } else {
            Channel::new(leader, self.tls.clone())
        };
        let members = found.members.iter().flat_map(|member| &member.client_urls);
        let members = members.filter_map(|url| host_and_port(url)).map(str::to_owned).collect();
        Ok((Arc::new(Leader { channel, header }), members))
    }
}

/// The address in `http://host:port`.
fn host_and_port(url: &str) -> Option<&str> {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    Some(address.trim_end_matches('/')).filter(|address| address.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_of_a_member_gives_its_address() {
        assert_eq!(host_and_port("http://pd1:2379"), Some("pd1:2379"));
        assert_eq!(host_and_port("https://[::1]:2379/"), Some("[::1]:2379"));
        assert_eq!(host_and_port("pd1"), None);
    }
}
