//! The target of a request: an account, one of its locations, and a path within it (T-1.1 to
//! T-1.7).
//!
//! The account is a label of the host (`acct.table.localhost`) if the host is under a configured
//! suffix, and the first segment of the path otherwise (T-1.2).

use crate::auth::accounts::{Account, Accounts};
use crate::error::ApiResult;
use crate::headers::RequestHeaders;
use http::Uri;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::uri::{
    Location, SECONDARY, split_account, split_location, without_repeated_account,
};
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

/// The target of a request.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) account: Arc<Account>,
    pub(crate) location: Location,
    /// The path after the account, still encoded.
    pub(crate) path: &'a str,
    /// Whether the account is the first segment of the path instead of a label of the host.
    pub(crate) path_style: bool,
    pub(crate) base: Base<'a>,
}

/// The absolute URI of the account, ending in `/`, as the client addressed it (T-1.6). Its text is
/// built when the first URI is written: most responses have none.
#[derive(Debug)]
pub(crate) struct Base<'a> {
    scheme: &'static str,
    host: &'a str,
    /// The first segment of the path, if that names the account.
    segment: Option<&'a str>,
    text: OnceLock<String>,
}

impl<'a> Base<'a> {
    fn new(scheme: &'static str, host: &'a str, segment: Option<&'a str>) -> Self {
        Self { scheme, host, segment, text: OnceLock::new() }
    }

    pub(crate) fn as_str(&self) -> &str {
        self.text.get_or_init(|| {
            let segment = self.segment.unwrap_or_default();
            let mut text = String::with_capacity(
                self.scheme.len() + "://".len() + self.host.len() + "/".len() * 2 + segment.len(),
            );
            text.push_str(self.scheme);
            text.push_str("://");
            text.push_str(self.host);
            text.push('/');
            if self.segment.is_some() {
                text.push_str(segment);
                text.push('/');
            }
            text
        })
    }
}

impl<'a> Target<'a> {
    /// Finds the account that the head of a request names, and the scheme it was received on.
    pub(crate) fn find(
        uri: &'a Uri,
        headers: &RequestHeaders<'a>,
        scheme: &'static str,
        accounts: &Accounts,
        suffixes: &[String],
    ) -> ApiResult<Self> {
        let host = host(uri, headers).ok_or(ErrorCode::HostInformationNotPresent)?;
        let name = without_port(host);
        let unknown = ErrorCode::ResourceNotFound;
        if let Some(label) = suffixes.iter().find_map(|suffix| label_before(name, suffix)) {
            // Host names are case-insensitive, and clients send them in lower case.
            let label = label.to_ascii_lowercase();
            let (account, location) = split_location(&label);
            return Ok(Self {
                account: accounts.find_in_host(account).ok_or(unknown)?,
                location,
                path: uri.path(),
                path_style: false,
                base: Base::new(scheme, host, None),
            });
        }
        let (segment, rest) = split_account(uri.path());
        let (account, location) = split_location(segment);
        Ok(Self {
            account: accounts.find(account).ok_or(unknown)?,
            location: if is_secondary(name) { Location::Secondary } else { location },
            path: without_repeated_account(rest, account, location),
            path_style: true,
            base: Base::new(scheme, host, Some(segment)),
        })
    }
}

/// The authority of the request: that of an absolute target, else the Host header. An invalid
/// authority is ignored, because responses repeat it.
fn host<'a>(uri: &'a Uri, headers: &RequestHeaders<'a>) -> Option<&'a str> {
    let absolute = uri.authority().map(|authority| authority.as_str());
    let plain = |byte: u8| AUTHORITY_BYTES.get(usize::from(byte)) == Some(&true);
    absolute.or(headers.host).filter(|host| !host.is_empty() && host.bytes().all(plain))
}

/// Bytes allowed in an authority. A table, because every request has one.
#[expect(clippy::indexing_slicing, reason = "below 128, at compile time")]
static AUTHORITY_BYTES: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        plain[byte as usize] =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | b'[' | b']');
        byte += 1;
    }
    plain
};

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // A colon before a bracket belongs to an IPv6 address.
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    }
}

/// The single label before `suffix`, if `name` is exactly these two.
fn label_before<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let (front, end) = name.split_at_checked(name.len().checked_sub(suffix.len())?)?;
    let label = front.strip_suffix('.').filter(|_| end.eq_ignore_ascii_case(suffix))?;
    (!label.is_empty() && !label.contains('.')).then_some(label)
}

/// Whether a client that expects host style turned the host of a path-style URL into a secondary
/// one: the JavaScript library marks the first label, whatever it is, as in
/// `lazuli-secondary.localhost`. Applies only to names that cannot belong to another machine.
fn is_secondary(name: &str) -> bool {
    // Most names have no dash and need no search.
    let marked = if name.contains('-') { name.split_once(SECONDARY) } else { None };
    let Some((front, end)) = marked else { return false };
    let under_localhost = || end.to_ascii_lowercase().ends_with(".localhost");
    let is_address = || [front, end].concat().parse::<Ipv4Addr>().is_ok();
    match end {
        "" => front.eq_ignore_ascii_case("localhost") || is_address(),
        _ => end.starts_with('.') && (under_localhost() || is_address()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header;

    const SUFFIXES: [&str; 2] = ["table.localhost", "table.example.org"];

    /// Account, `s` for the secondary, path and base: or the code of the refusal.
    fn find(target: &str, host: Option<&str>) -> Result<(String, String), ErrorCode> {
        let mut request = http::Request::builder().uri(target);
        if let Some(host) = host {
            request = request.header(header::HOST, host);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let headers = RequestHeaders::of(&parts.headers);
        let accounts = Accounts::parse("acct:AAAA;Mixed_Case:AAAA").unwrap();
        let accounts = Accounts::new(accounts).unwrap();
        let suffixes = SUFFIXES.map(str::to_owned);
        let found = Target::find(&parts.uri, &headers, "https", &accounts, &suffixes);
        let found = found.map_err(|error| error.code)?;
        let location = if found.location == Location::Secondary { " s" } else { "" };
        let style = if found.path_style { " path" } else { " host" };
        Ok((
            format!("{}{style}{location} {}", found.account.name, found.path),
            found.base.as_str().to_owned(),
        ))
    }

    #[track_caller]
    fn check(host: &str, path: &str, expect: &str) {
        assert_eq!(find(path, Some(host)).map(|(found, _)| found).as_deref(), Ok(expect));
    }

    #[track_caller]
    fn check_refused(host: &str, path: &str, expect: ErrorCode) {
        assert_eq!(find(path, Some(host)).map(|(found, _)| found), Err(expect));
    }

    #[test]
    fn addresses_and_other_names_are_path_style() {
        for host in [
            "127.0.0.1:10002",
            "127.0.0.1",
            "[::1]:10002",
            "[::1]",
            "[fe80::1]:1",
            "localhost:10002",
            "lazuli",
            "db.corp.example.org:80",
            "table.localhost:10002",
            ".table.localhost",
            "a.b.table.localhost",
        ] {
            check(host, "/acct/Tables", "acct path /Tables");
            check(host, "/acct-secondary/Tables", "acct path s /Tables");
            check(host, "/acct", "acct path ");
        }
    }

    #[test]
    fn a_label_before_a_suffix_is_the_account() {
        for port in ["", ":10002", "."] {
            check(&format!("acct.table.localhost{port}"), "/Tables", "acct host /Tables");
            check(&format!("acct-secondary.table.example.org{port}"), "/", "acct host s /");
        }
        check_refused("other.table.localhost", "/acct/Tables", ErrorCode::ResourceNotFound);
    }

    #[test]
    fn hosts_have_no_case_and_paths_have() {
        check("ACCT.Table.LocalHost:1", "/Tables", "acct host /Tables");
        check("Acct-Secondary.TABLE.localhost", "/Tables", "acct host s /Tables");
        check("mixed_case.table.localhost", "/Tables", "Mixed_Case host /Tables");
        check("127.0.0.1", "/Mixed_Case/Tables", "Mixed_Case path /Tables");
        check_refused("127.0.0.1", "/ACCT/Tables", ErrorCode::ResourceNotFound);
    }

    #[test]
    fn clients_that_mark_any_host_as_secondary_are_understood() {
        for host in [
            "127-secondary.0.0.1:10002",
            "127.0.0.1-secondary:10002",
            "localhost-secondary:10002",
            "lazuli-secondary.localhost",
        ] {
            check(host, "/acct/Tables", "acct path s /Tables");
        }
    }

    #[test]
    fn a_machine_may_be_called_secondary() {
        check("db-secondary.example.org", "/acct/Tables", "acct path /Tables");
        check("db-secondary", "/acct/Tables", "acct path /Tables");
        check("db-secondaryx.localhost", "/acct/Tables", "acct path /Tables");
    }

    #[test]
    fn segments_that_clients_repeat_are_removed() {
        check("127.0.0.1", "/acct-secondary/acct/?comp=stats", "acct path s /");
        check("127.0.0.1", "/acct-secondary/acct/Tables", "acct path s /Tables");
        check("127.0.0.1", "/acct/acct-secondary/acct/Tables", "acct path /Tables");
        let thrice = "/acct-secondary/acct/acct-secondary/acct/Tables";
        check("127.0.0.1", thrice, "acct path s /Tables");
    }

    #[test]
    fn a_table_may_be_named_like_the_account() {
        check("127.0.0.1", "/acct/acct", "acct path /acct");
        check("127.0.0.1", "/acct/acct/", "acct path /acct/");
        check("127.0.0.1", "/acct-secondary/acct", "acct path s /acct");
        check("127.0.0.1", "/acct-secondary/acct()", "acct path s /acct()");
        check("127.0.0.1", "/acct-secondary/accts/", "acct path s /accts/");
    }

    #[test]
    fn the_base_repeats_how_the_client_came() {
        let base = |host, path| find(path, Some(host)).unwrap().1;
        assert_eq!(base("[::1]:1", "/acct/Tables"), "https://[::1]:1/acct/");
        assert_eq!(base("h", "/acct-secondary/acct/Tables"), "https://h/acct-secondary/");
        assert_eq!(base("Acct.table.localhost:1", "/T"), "https://Acct.table.localhost:1/");
    }

    #[test]
    fn an_absolute_target_wins_over_the_host_header() {
        let found = find("http://acct.table.localhost/Tables", Some("127.0.0.1")).unwrap();
        assert_eq!(found.0, "acct host /Tables");
    }

    #[test]
    fn a_host_that_is_none_is_refused() {
        let absent = ErrorCode::HostInformationNotPresent;
        assert_eq!(find("/acct/Tables", None).map(|_| ()), Err(absent));
        for host in ["", "a b", "a\"b", "a/b", "user@host"] {
            check_refused(host, "/acct/Tables", absent);
        }
    }
}
