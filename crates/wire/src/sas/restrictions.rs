//! When, from where and over which protocol a token may be used.

use super::SasError;
use lazuli_model::Timestamp;
use std::net::IpAddr;

/// Who presents a token, and when.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub now: Timestamp,
    pub address: IpAddr,
    pub https: bool,
}

/// Restrictions that every kind of token may place on its caller.
pub(super) struct Restrictions {
    pub(super) start: Option<Timestamp>,
    pub(super) expiry: Timestamp,
    pub(super) protocol: Protocol,
    pub(super) addresses: Option<AddressRange>,
}

impl Restrictions {
    /// Checks the window first, then the protocol, then the address.
    pub(super) fn check(&self, caller: &Caller) -> Result<(), SasError> {
        if let Some(start) = self.start.filter(|start| caller.now < *start) {
            return Err(SasError::NotStarted(start));
        }
        if caller.now >= self.expiry {
            return Err(SasError::Expired(self.expiry));
        }
        if self.protocol == Protocol::HttpsOnly && !caller.https {
            return Err(SasError::Protocol);
        }
        match &self.addresses {
            Some(range) if !range.contains(caller.address) => Err(SasError::SourceIp),
            _ => Ok(()),
        }
    }
}

/// Parses `st` or `se`; an empty text means no time.
pub(super) fn parse_time(name: &'static str, text: &str) -> Result<Option<Timestamp>, SasError> {
    if text.is_empty() {
        return Ok(None);
    }
    Timestamp::parse(text).map(Some).ok_or(SasError::Malformed(name))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    HttpsOnly,
    Any,
}

impl Protocol {
    pub(super) fn parse(text: &str) -> Result<Self, SasError> {
        match text {
            "https" => Ok(Self::HttpsOnly),
            "" | "https,http" | "http,https" => Ok(Self::Any),
            _ => Err(SasError::Malformed("spr")),
        }
    }
}

/// The addresses of `sip`, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressRange {
    first: IpAddr,
    last: IpAddr,
}

impl AddressRange {
    /// Parses one address or `first-last`; an empty text means no range.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, SasError> {
        if text.is_empty() {
            return Ok(None);
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let address = |text: &str| text.parse::<IpAddr>().map(|address| address.to_canonical());
        match (address(first), address(last)) {
            (Ok(first), Ok(last)) if first.is_ipv4() == last.is_ipv4() => {
                Ok(Some(Self { first, last }))
            }
            _ => Err(SasError::Malformed("sip")),
        }
    }

    /// An IPv4-mapped IPv6 address counts as the IPv4 address.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && (self.first..=self.last).contains(&address)
    }
}
