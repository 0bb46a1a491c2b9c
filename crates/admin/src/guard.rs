//! Refuses requests that a web page can make a browser send here.
//!
//! A foreign page can make its own name resolve to this machine and read responses of a server on
//! loopback (DNS rebinding), but it cannot choose the `Host` that the browser sends. It can also
//! send requests without reading the responses; the browser marks those with `Origin` and
//! `Sec-Fetch-Site`.

use http::header::{HOST, HeaderMap, ORIGIN};
use http::{HeaderValue, StatusCode};
use std::net::IpAddr;

/// The hosts under which the listener may be addressed, besides its own address.
#[derive(Debug)]
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    /// The names of this machine, and `names`.
    pub(crate) fn new(names: &[String]) -> Self {
        let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
        Self(own.into_iter().chain(names.iter().map(|name| name.to_ascii_lowercase())).collect())
    }

    /// Why a request to the address `local` is refused, if it is.
    pub(crate) fn refusal(&self, headers: &HeaderMap, local: IpAddr) -> Option<Refusal> {
        let host = text(headers.get(HOST));
        if !host.is_some_and(|host| self.contains(host, local)) {
            return Some(Refusal::Host);
        }
        if text(headers.get("sec-fetch-site")) == Some("cross-site") {
            return Some(Refusal::OtherSite);
        }
        match headers.get(ORIGIN) {
            Some(origin) if !is_same(text(Some(origin)), host) => Some(Refusal::OtherSite),
            _ => None,
        }
    }

    /// Ignores the port: a container may publish another one.
    fn contains(&self, authority: &str, local: IpAddr) -> bool {
        let host = without_port(authority).to_ascii_lowercase();
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        address.is_ok_and(|address| address == local.to_canonical()) || self.0.contains(&host)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host,
    OtherSite,
}

impl Refusal {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::OtherSite => StatusCode::FORBIDDEN,
        }
    }

    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::Host => "this Host is not served here; --admin-name adds a name",
            Self::OtherSite => "requests from pages of other sites are refused",
        }
    }
}

/// Whether an origin is the one that `host` serves.
fn is_same(origin: Option<&str>, host: Option<&str>) -> bool {
    let authority = origin.and_then(|origin| origin.split_once("://")).map(|(_, rest)| rest);
    authority.is_some() && authority == host
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value.and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(headers: &[(&'static str, &str)], expect: Option<Refusal>) {
        let hosts = Hosts::new(&["Lazuli.internal".to_owned()]);
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect();
        assert_eq!(hosts.refusal(&headers, "192.0.2.7".parse().unwrap()), expect, "{headers:?}");
    }

    #[test]
    fn only_known_hosts_are_served() {
        let known = ["localhost", "LocalHost:1", "127.0.0.1:10003", "[::1]:10003", "[::1]"];
        for host in known.into_iter().chain(["192.0.2.7:10003", "lazuli.internal:80"]) {
            check(&[("host", host)], None);
        }
        for host in ["evil.test", "127.0.0.1.evil.test", "192.0.2.8", "", ":10003", "localhost:x"] {
            check(&[("host", host)], Some(Refusal::Host));
        }
        check(&[], Some(Refusal::Host));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let host = ("host", "localhost:10003");
        check(&[host, ("origin", "http://localhost:10003")], None);
        check(&[host, ("sec-fetch-site", "same-origin")], None);
        check(&[host, ("sec-fetch-site", "none")], None);
        for origin in ["http://evil.test", "http://localhost:3000", "null", ""] {
            check(&[host, ("origin", origin)], Some(Refusal::OtherSite));
        }
        check(&[host, ("sec-fetch-site", "cross-site")], Some(Refusal::OtherSite));
    }
}
