//! What a shared access signature permits, until when, and whether it is valid.

use super::blob_path::blob_path;
use lazuli_model::Timestamp;
use lazuli_wire::sas::{BlobToken, QueueToken, SasError, TableToken, UserDelegationKey};
use lazuli_wire::shared_key::SigningKey;
use lazuli_wire::uri::Query;
use serde::Serialize;

/// The key that may have made the signature.
#[derive(Clone, Copy)]
pub(super) struct Signer<'a> {
    pub(super) account: &'a str,
    pub(super) key: &'a SigningKey,
}

/// The content of a token. `Serialize` produces the stable JSON of `sas explain --json`.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    version: String,
    permissions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    services: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_types: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    addresses: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    /// The user whose key signed it, and when the key expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_expiry: Option<String>,
    signature: SignatureState,
    valid: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Account,
    #[default]
    Table,
    Queue,
    Blob,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum SignatureState {
    Valid,
    Invalid,
    #[default]
    NotChecked,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Verdict {
    Yes,
    No,
    /// As far as can be checked without the account's key and stored policies.
    #[default]
    Probably,
}

/// The text contains no token.
#[derive(Debug, thiserror::Error)]
#[error("this is not a shared access signature: it has no parameter `sig`")]
pub(super) struct NoToken;

impl Explanation {
    /// Explains a token, or the token at the end of a URL.
    pub(super) fn of(
        text: &str,
        signer: Option<Signer<'_>>,
        queue: Option<&str>,
        now: Timestamp,
    ) -> Result<Self, NoToken> {
        let (address, token) = text.split_once('?').map_or((None, text), |(a, t)| (Some(a), t));
        let query = Query::parse_lenient(token).map_err(|_| NoToken)?;
        if !query.contains("sig") {
            return Err(NoToken);
        }
        let kind = kind_of(&query, address);
        let in_address = address.and_then(|address| address.rsplit('/').next());
        let queue = queue.or(in_address.filter(|name| !name.is_empty()));
        let resource = match kind {
            Kind::Account => None,
            Kind::Table => query.get("tn"),
            Kind::Queue => queue,
            Kind::Blob => address,
        };
        let mut explanation = Self {
            kind,
            resource: resource.map(str::to_owned),
            version: query.get("sv").unwrap_or_default().to_owned(),
            permissions: words(query.get("sp"), permission_words(kind)),
            services: words(query.get("ss"), SERVICES),
            resource_types: words(query.get("srt"), RESOURCE_TYPES),
            start: value(&query, "st"),
            expiry: value(&query, "se"),
            policy: value(&query, "si"),
            from_key: key(&query, "spk", "srk"),
            to_key: key(&query, "epk", "erk"),
            addresses: value(&query, "sip"),
            protocol: value(&query, "spr"),
            user: value(&query, "skoid"),
            key_expiry: value(&query, "ske"),
            ..Self::default()
        };
        explanation.judge(&query, signer, queue, address, now);
        Ok(explanation)
    }

    /// Whether the service would refuse it.
    pub(super) fn is_refused(&self) -> bool {
        self.valid == Verdict::No
    }

    fn judge(
        &mut self,
        query: &Query<'_>,
        signer: Option<Signer<'_>>,
        queue: Option<&str>,
        address: Option<&str>,
        now: Timestamp,
    ) {
        let place = Place { queue, address };
        let checked = self.check_form_and_signature(query, signer, place, now);
        let in_time = checked.and_then(|signature| {
            self.signature = signature;
            self.check_window(now)
        });
        match in_time {
            Err(error) => {
                if error == SasError::Signature {
                    self.signature = SignatureState::Invalid;
                }
                self.valid = Verdict::No;
                self.problem = Some(error.to_string());
            }
            Ok(()) if self.signature == SignatureState::Valid && self.policy.is_none() => {
                self.valid = Verdict::Yes;
            }
            Ok(()) => self.valid = Verdict::Probably,
        }
    }

    fn check_form_and_signature(
        &self,
        query: &Query<'_>,
        signer: Option<Signer<'_>>,
        place: Place<'_>,
        now: Timestamp,
    ) -> Result<SignatureState, SasError> {
        let keys = signer.map(|signer| (signer.account, std::slice::from_ref(signer.key)));
        let outcome = match self.kind {
            Kind::Blob => match (BlobToken::parse(query)?, keys) {
                (Some(BlobToken::Service(sas)), Some((account, keys))) => {
                    let path = place.address.and_then(|it| blob_path(it, account, sas.resource));
                    path.map(|path| sas.verify(account, &path, keys))
                }
                (Some(BlobToken::UserDelegation(sas)), _) => return check_key(&sas.key, now),
                _ => None,
            },
            Kind::Queue => match (QueueToken::parse(query)?, keys, place.queue) {
                (Some(QueueToken::Service(sas)), Some((account, keys)), Some(queue)) => {
                    Some(sas.verify(account, queue, keys))
                }
                (Some(QueueToken::UserDelegation(sas)), ..) => return check_key(&sas.key, now),
                _ => None,
            },
            Kind::Account | Kind::Table => match (TableToken::parse(query)?, keys) {
                (Some(TableToken::Account(sas)), Some((account, keys))) => {
                    Some(sas.verify(account, keys))
                }
                (Some(TableToken::Service(sas)), Some((account, keys))) => {
                    Some(sas.verify(account, keys))
                }
                (Some(TableToken::UserDelegation(sas)), _) => return check_key(&sas.key, now),
                _ => None,
            },
        };
        match outcome {
            None => Ok(SignatureState::NotChecked),
            Some(Ok(())) => Ok(SignatureState::Valid),
            Some(Err(error)) => Err(error),
        }
    }

    fn check_window(&self, now: Timestamp) -> Result<(), SasError> {
        let time = |name, text: &Option<String>| match text {
            Some(text) => Timestamp::parse(text).map(Some).ok_or(SasError::Malformed(name)),
            None => Ok(None),
        };
        match (time("st", &self.start)?, time("se", &self.expiry)?) {
            (Some(start), _) if now < start => Err(SasError::NotStarted(start)),
            (_, Some(expiry)) if now >= expiry => Err(SasError::Expired(expiry)),
            (_, None) if self.policy.is_none() => Err(SasError::Missing("se")),
            _ => Ok(()),
        }
    }

    /// Names and values for people.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let kind = match self.kind {
            Kind::Account => "services of an account",
            Kind::Table => "a table",
            Kind::Queue => "a queue",
            Kind::Blob => "a blob or container",
        };
        let list = |words: &[String]| Some(words.join(", ")).filter(|text| !text.is_empty());
        let from_policy = || self.policy.as_ref().map(|_| "as the policy says".to_owned());
        let signature = match self.signature {
            SignatureState::Valid => "made by the account's key",
            SignatureState::Invalid => "not made by the account's key",
            SignatureState::NotChecked if self.user.is_some() => {
                "made by a user's key: not checked"
            }
            SignatureState::NotChecked => "not checked",
        };
        let verdict = match (self.valid, &self.problem) {
            (Verdict::Yes, _) => "yes".to_owned(),
            (Verdict::No, problem) => format!("no: {}", problem.as_deref().unwrap_or("refused")),
            (Verdict::Probably, _) => "as far as can be seen here".to_owned(),
        };
        let pairs = [
            ("for", Some(kind.to_owned())),
            ("resource", self.resource.clone()),
            ("services", list(&self.services)),
            ("resource types", list(&self.resource_types)),
            ("permits", list(&self.permissions).or_else(from_policy)),
            ("from", self.start.clone()),
            ("until", self.expiry.clone().or_else(from_policy)),
            ("policy", self.policy.clone()),
            ("first key", self.from_key.clone()),
            ("last key", self.to_key.clone()),
            ("addresses", self.addresses.clone()),
            ("protocol", self.protocol.clone()),
            ("version", Some(self.version.clone())),
            ("user", self.user.clone()),
            ("key until", self.key_expiry.clone()),
            ("signature", Some(signature.to_owned())),
            ("valid", Some(verdict)),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// The resource of a token that does not name it.
#[derive(Clone, Copy)]
struct Place<'a> {
    queue: Option<&'a str>,
    /// The URL before the token.
    address: Option<&'a str>,
}

/// Only the service can check a signature made with a user's key, but the key's validity can be read.
fn check_key(key: &UserDelegationKey<'_>, now: Timestamp) -> Result<SignatureState, SasError> {
    let (start, expiry) = key.window()?;
    if now < start {
        return Err(SasError::NotStarted(start));
    }
    if now >= expiry {
        return Err(SasError::Expired(expiry));
    }
    Ok(SignatureState::NotChecked)
}

fn kind_of(query: &Query<'_>, address: Option<&str>) -> Kind {
    if query.contains("ss") || query.contains("srt") {
        Kind::Account
    } else if query.contains("tn") {
        Kind::Table
    } else if query.contains("sr") || address.is_some_and(|address| address.contains(".blob.")) {
        Kind::Blob
    } else {
        Kind::Queue
    }
}

fn value(query: &Query<'_>, name: &str) -> Option<String> {
    query.get(name).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn key(query: &Query<'_>, partition: &str, row: &str) -> Option<String> {
    let partition = query.get(partition)?;
    Some(match query.get(row) {
        Some(row) => format!("({partition}, {row})"),
        None => format!("({partition}, any)"),
    })
}

type Words = &'static [(char, &'static str)];

const SERVICES: Words = &[('b', "blob"), ('q', "queue"), ('t', "table"), ('f', "file")];
const RESOURCE_TYPES: Words = &[('s', "service"), ('c', "container"), ('o', "object")];

fn permission_words(kind: Kind) -> Words {
    match kind {
        Kind::Table => &[('r', "read"), ('a', "add"), ('u', "update"), ('d', "delete")],
        Kind::Queue => &[('r', "read"), ('a', "add"), ('u', "update"), ('p', "process")],
        Kind::Account => &[
            ('r', "read"),
            ('w', "write"),
            ('d', "delete"),
            ('y', "delete permanently"),
            ('x', "delete versions"),
            ('l', "list"),
            ('a', "add"),
            ('c', "create"),
            ('u', "update"),
            ('p', "process"),
            ('t', "tags"),
            ('f', "filter"),
            ('i', "set immutability"),
        ],
        Kind::Blob => &[
            ('r', "read"),
            ('a', "add"),
            ('c', "create"),
            ('w', "write"),
            ('d', "delete"),
            ('x', "delete versions"),
            ('y', "delete permanently"),
            ('l', "list"),
            ('t', "tags"),
            ('f', "filter"),
            ('m', "move"),
            ('e', "execute"),
            ('o', "ownership"),
            ('p', "permissions"),
            ('i', "set immutability"),
        ],
    }
}

/// The word for each letter; a letter without one stands for itself.
fn words(letters: Option<&str>, known: Words) -> Vec<String> {
    let word = |letter: char| {
        let found = known.iter().find(|(other, _)| *other == letter);
        found.map_or_else(|| format!("unknown ({letter})"), |(_, word)| (*word).to_owned())
    };
    letters.unwrap_or_default().chars().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_wire::sas::{AccountSas, BlobSas, QueueSas, TableSas};

    const VERSION: &str = "2019-02-02";
    const EXPIRY: &str = "2027-01-01T00:00:00Z";

    fn signing_key() -> SigningKey {
        SigningKey::from_base64("a2V5").unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::parse("2026-11-17T00:00:00Z").unwrap()
    }

    fn explained(token: &str, queue: Option<&str>) -> Explanation {
        let key = signing_key();
        Explanation::of(token, Some(Signer { account: "acct", key: &key }), queue, now()).unwrap()
    }

    fn line(explanation: &Explanation, name: &str) -> String {
        let found = explanation.lines().into_iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value).unwrap_or_default()
    }

    #[test]
    fn a_token_for_a_range_of_a_table() {
        let sas = TableSas {
            version: VERSION,
            table: "people",
            expiry: EXPIRY,
            permissions: "rau",
            start_partition_key: Some("A"),
            end_partition_key: Some("B"),
            end_row_key: Some("9"),
            ..TableSas::default()
        };
        let token = sas.token("acct", &signing_key()).unwrap();
        let explanation = explained(&token, None);
        assert_eq!(explanation.valid, Verdict::Yes, "{explanation:?}");
        assert_eq!(line(&explanation, "permits"), "read, add, update");
        assert_eq!(line(&explanation, "first key"), "(A, any)");
        assert_eq!(line(&explanation, "last key"), "(B, 9)");
        let forged = token.replace("sp=rau", "sp=raud");
        let explanation = explained(&forged, None);
        assert_eq!(explanation.signature, SignatureState::Invalid);
        assert!(explanation.is_refused());
    }

    #[test]
    fn a_token_for_an_account_before_and_after_its_time() {
        let sas = AccountSas {
            version: VERSION,
            services: "tq",
            resource_types: "so",
            permissions: "rl",
            start: "2026-11-18T00:00:00Z",
            expiry: EXPIRY,
            ..AccountSas::default()
        };
        let early = explained(&sas.token("acct", &signing_key()).unwrap(), None);
        assert_eq!((early.valid, early.signature), (Verdict::No, SignatureState::Valid));
        assert!(line(&early, "valid").contains("not valid before"), "{early:?}");
        let late = AccountSas { start: "", expiry: "2020-01-01", ..sas };
        let late = explained(&late.token("acct", &signing_key()).unwrap(), None);
        assert!(line(&late, "valid").contains("expired"), "{late:?}");
        assert_eq!(line(&late, "services"), "table, queue");
        assert_eq!(line(&late, "resource types"), "service, object");
    }

    #[test]
    fn a_token_for_a_queue_is_explained_with_its_queue() {
        let sas =
            QueueSas { version: VERSION, expiry: EXPIRY, permissions: "ap", ..QueueSas::default() };
        let token = sas.token("acct", "jobs", &signing_key()).unwrap();
        assert_eq!(explained(&token, Some("jobs")).valid, Verdict::Yes);
        assert_eq!(explained(&token, Some("other")).valid, Verdict::No);
        assert_eq!(explained(&token, None).signature, SignatureState::NotChecked);
        let url = format!("https://acct.queue.core.windows.net/jobs?{token}");
        assert_eq!(explained(&url, None).valid, Verdict::Yes);
    }

    #[test]
    fn a_policy_is_decoded_and_not_judged() {
        let policy = explained("?sv=2019-02-02&si=readers&tn=people&sig=AAAA", None);
        assert!(policy.is_refused(), "the signature is wrong");
        let stranger = "sv=2019-02-02&si=readers&tn=people&sig=AAAA";
        let stranger = Explanation::of(stranger, None, None, now()).unwrap();
        assert_eq!(stranger.valid, Verdict::Probably);
        assert_eq!(line(&stranger, "until"), "as the policy says");
    }

    #[test]
    fn a_token_for_a_blob_is_checked_with_its_url() {
        let sas = |resource| BlobSas {
            version: "2021-12-02",
            resource,
            expiry: EXPIRY,
            permissions: "rw",
            ..BlobSas::default()
        };
        let token = sas("b").token("acct", "pics/a b.txt", &signing_key()).unwrap();
        for (address, verdict) in [
            ("https://acct.blob.core.windows.net/pics/a%20b.txt", Verdict::Yes),
            ("http://127.0.0.1:10000/acct/pics/a%20b.txt", Verdict::Yes),
            ("https://acct.blob.core.windows.net/pics/c.txt", Verdict::No),
        ] {
            let explanation = explained(&format!("{address}?{token}"), None);
            assert_eq!((explanation.kind, explanation.valid), (Kind::Blob, verdict), "{address}");
            assert_eq!(line(&explanation, "permits"), "read, write");
        }
        assert_eq!(
            explained(&token, None).signature,
            SignatureState::NotChecked,
            "without its URL"
        );
        // A token for a container is valid for each of its blobs.
        let token = sas("c").token("acct", "pics", &signing_key()).unwrap();
        let url = format!("https://acct.blob.core.windows.net/pics/a/b?{token}");
        assert_eq!(explained(&url, None).valid, Verdict::Yes);
        let unknown =
            "https://a.blob.core.windows.net/c?sv=2021-12-02&sr=c&sp=q&se=2027-01-01&sig=A";
        assert_eq!(line(&explained(unknown, None), "permits"), "unknown (q)");
    }

    #[test]
    fn a_token_that_a_user_signed_ends_with_the_users_key() {
        let token = |expiry: &str| {
            let key =
                format!("skoid=oid&sktid=tid&skt=2026-11-01&ske={expiry}&sks=b&skv=2021-12-02");
            format!("sv=2021-12-02&sr=b&sp=r&se=2027-01-01&{key}&sig=AAAA")
        };
        let good = explained(&token("2026-11-18"), None);
        assert_eq!((good.kind, good.valid), (Kind::Blob, Verdict::Probably));
        assert_eq!([line(&good, "user"), line(&good, "key until")], ["oid", "2026-11-18"]);
        assert!(line(&good, "signature").contains("user's key"));
        let late = explained(&token("2026-11-16"), None);
        assert!(late.is_refused() && line(&late, "valid").contains("expired"), "{late:?}");
    }

    #[test]
    fn what_is_no_token_or_a_broken_one_is_said() {
        assert!(Explanation::of("sv=1", None, None, now()).is_err());
        assert!(Explanation::of("", None, None, now()).is_err());
        let broken = explained("sv=2019-02-02&tn=a&sp=r&se=tomorrow&sig=AAAA", None);
        assert!(broken.is_refused());
        let twice = explained("sv=2019-02-02&tn=a&tn=b&se=2027-01-01&sig=AAAA", None);
        assert!(line(&twice, "valid").contains("more than once"), "{twice:?}");
    }

    #[test]
    fn the_json_is_stable() {
        let token = "sv=2019-02-02&tn=people&sp=r&se=2027-01-01&sig=AAAA";
        let explanation = Explanation::of(token, None, None, now()).unwrap();
        assert_eq!(
            serde_json::to_string(&explanation).unwrap(),
            "{\"kind\":\"table\",\"resource\":\"people\",\"version\":\"2019-02-02\",\
             \"permissions\":[\"read\"],\"expiry\":\"2027-01-01\",\"signature\":\"notChecked\",\
             \"valid\":\"probably\"}"
        );
    }
}
