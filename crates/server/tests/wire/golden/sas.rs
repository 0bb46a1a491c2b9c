//! Signs recorded shared access signatures again, for our account and our time.

use super::bindings::decode;
use crate::harness::{ACCOUNT, encode, well_known_key};
use lazuli_model::Timestamp;

const PARAMETERS: [&str; 16] = [
    "sv", "ss", "srt", "st", "se", "sp", "sip", "spr", "sig", "tn", "spk", "srk", "epk", "erk",
    "si", "ses",
];
const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The query with a token that is valid from a day before `now` to a day after.
pub(super) fn sign_anew(query: &str, now: Timestamp) -> String {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let (token, rest): (Vec<_>, Vec<_>) = pairs.partition(|(name, _)| PARAMETERS.contains(name));
    let mut token: Vec<(&str, String)> = token
        .into_iter()
        .filter(|(name, _)| !["sip", "sig"].contains(name))
        .map(|(name, value)| (name, decode(value)))
        .collect();
    let yesterday = Timestamp::from_unix_seconds(now.unix_seconds() - DAY_SECONDS);
    for (name, value) in &mut token {
        match *name {
            "st" => *value = text(yesterday),
            "se" => *value = text(now.plus_seconds(DAY_SECONDS)),
            // What was recorded over https is replayed over http.
            "spr" => *value = "https,http".to_owned(),
            _ => {}
        }
    }
    let signature = well_known_key().sign(&[string_to_sign(&token).as_bytes()]);
    token.push(("sig", signature.to_string()));
    let rest = rest.into_iter().map(|(name, value)| format!("{name}={value}"));
    let token = token.iter().map(|(name, value)| format!("{name}={}", encode(value)));
    rest.chain(token).collect::<Vec<_>>().join("&")
}

/// Written independently of the server's own, which it tests.
fn string_to_sign(token: &[(&str, String)]) -> String {
    let get = |name: &str| {
        token.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value.as_str())
    };
    let version = get("sv");
    if !get("ss").is_empty() {
        let mut lines = vec![ACCOUNT];
        lines.extend(["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"].map(get));
        if version >= "2020-12-06" {
            lines.push(get("ses"));
        }
        lines.push("");
        return lines.join("\n");
    }
    let prefix = if version >= "2015-02-21" { "/table/" } else { "/" };
    let resource = format!("{prefix}{ACCOUNT}/{}", get("tn").to_lowercase());
    let mut lines = vec![get("sp"), get("st"), get("se"), &resource, get("si")];
    if version >= "2015-04-05" {
        lines.extend([get("sip"), get("spr")]);
    }
    lines.extend(["sv", "spk", "srk", "epk", "erk"].map(get));
    lines.join("\n")
}

fn text(time: Timestamp) -> String {
    time.text(&mut [0; Timestamp::TEXT_BYTES_MAX]).to_owned()
}
