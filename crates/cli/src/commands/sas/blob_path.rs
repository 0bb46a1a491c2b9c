//! The path that a blob token signs, taken from the URL with the token.

use lazuli_wire::uri::percent_decode_lenient;

/// The container, and for the token of a blob (`sr=b`) also the blob. The account may be part of the host, or the first
/// segment of the path.
pub(super) fn blob_path(url: &str, account: &str, resource: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let (host, path) = rest.split_once('/')?;
    let is_in_host = host.strip_prefix(account).is_some_and(|rest| rest.starts_with('.'));
    let path = match is_in_host {
        true => path,
        false => path.strip_prefix(account)?.strip_prefix('/')?,
    };
    let path = percent_decode_lenient(path);
    let path = match resource {
        "c" => path.split('/').next().unwrap_or_default(),
        _ => &*path,
    };
    Some(path.to_owned()).filter(|path| !path.is_empty())
}
