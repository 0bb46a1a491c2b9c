//! Service SAS for queues: a token for one queue, which the URL names (A-13.14 to A-13.18); and the same
//! signed with a user delegation key (A-13.29).

use super::terms::{ServiceTerms, terms_of};
use super::{Caller, Parse, Permissions, SasError, UserDelegationKey, verify, write_token};
use crate::shared_key::SigningKey;
use crate::uri::Query;
use lazuli_model::AccessPolicy;

/// The letter of the Queue service in `sks`.
pub const QUEUE_SERVICE: &str = "q";

/// A token for a queue: the texts of its parameters, decoded. Empty means absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueSas<'a> {
    /// `sv`
    pub version: &'a str,
    /// `st`
    pub start: &'a str,
    /// `se`
    pub expiry: &'a str,
    /// `sp`
    pub permissions: &'a str,
    /// `si`: the stored access policy that completes the token.
    pub policy: &'a str,
    /// `sip`
    pub addresses: &'a str,
    /// `spr`
    pub protocol: &'a str,
    /// `sig`; empty in a token not yet signed.
    pub signature: &'a str,
}

/// What a valid token for a queue permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueGrant {
    queue: String,
    permissions: Permissions,
}

impl<'a> Parse<'a> for QueueSas<'a> {
    fn parse(query: &'a Query<'_>) -> Result<Self, SasError> {
        let (terms, signature) = ServiceTerms::parse(query)?;
        terms.form()?;
        let ServiceTerms { version, start, expiry, permissions, policy, addresses, protocol } =
            terms;
        Ok(Self { version, start, expiry, permissions, policy, addresses, protocol, signature })
    }
}

impl<'a> QueueSas<'a> {
    /// The text that a token for `queue` signs, by its version (A-13.14).
    pub fn string_to_sign(&self, account: &str, queue: &str) -> Result<String, SasError> {
        self.terms().string_to_sign("/queue", account, queue, &[])
    }

    /// Checks that a key of the account made the signature for `queue`.
    pub fn verify(&self, account: &str, queue: &str, keys: &[SigningKey]) -> Result<(), SasError> {
        verify(&self.string_to_sign(account, queue)?, keys, self.signature)
    }

    /// What the token permits `caller` now on `queue`. `policy` is the stored policy named by
    /// [`QueueSas::policy`], if the queue has it. The signature must have been checked before.
    pub fn grant(
        &self,
        queue: &str,
        policy: Option<&AccessPolicy>,
        caller: &Caller,
    ) -> Result<QueueGrant, SasError> {
        let permissions = self.terms().grant(policy, caller, Permissions::parse_of_queue)?;
        Ok(QueueGrant { queue: queue.to_owned(), permissions })
    }

    /// Signs the token for `queue` and returns it as a query string.
    pub fn token(&self, account: &str, queue: &str, key: &SigningKey) -> Result<String, SasError> {
        let signature = key.sign(&[self.string_to_sign(account, queue)?.as_bytes()]);
        Ok(write_token(&self.terms().parameters(), &signature))
    }

    fn terms(&self) -> ServiceTerms<'a> {
        terms_of!(self)
    }
}

/// A token for a queue signed with a user delegation key.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueDelegationSas<'a> {
    /// What it has in common with every token for a queue.
    pub queue: QueueSas<'a>,
    pub key: UserDelegationKey<'a>,
    /// `skdutid` and `sduoid`: the one user who may use the token, together with a bearer token.
    pub delegate: [&'a str; 2],
}

impl<'a> Parse<'a> for QueueDelegationSas<'a> {
    fn parse(query: &'a Query<'_>) -> Result<Self, SasError> {
        let (key, delegate) = UserDelegationKey::parse(query)?;
        let queue = QueueSas::parse(query)?;
        // The first version whose tokens sign sip and spr; older forms would ignore them.
        if !queue.terms().form()?.has_account_sas() {
            return Err(SasError::Version);
        }
        Ok(Self { queue, key, delegate })
    }
}

impl<'a> QueueDelegationSas<'a> {
    /// The text that a token for `queue` signs (A-13.29).
    pub fn string_to_sign(&self, account: &str, queue: &str) -> Result<String, SasError> {
        let resource = format!("/queue/{account}/{queue}");
        self.key.string_to_sign(&self.queue.terms(), &resource, &self.delegate, &[])
    }

    /// Checks that the user delegation key made the signature for `queue`.
    pub fn verify(&self, account: &str, queue: &str, key: &SigningKey) -> Result<(), SasError> {
        let text = self.string_to_sign(account, queue)?;
        verify(&text, std::slice::from_ref(key), self.queue.signature)
    }

    /// What the token permits `caller` now on `queue`, as far as the owner of the key may grant it. The
    /// signature must have been checked before.
    pub fn grant(&self, queue: &str, caller: &Caller) -> Result<QueueGrant, SasError> {
        self.key.check(self.delegate, QUEUE_SERVICE, caller)?;
        self.queue.grant(queue, None, caller)
    }

    /// Signs the token for `queue` with a user delegation key and returns it as a query string.
    pub fn token(&self, account: &str, queue: &str, key: &SigningKey) -> Result<String, SasError> {
        let signature = key.sign(&[self.string_to_sign(account, queue)?.as_bytes()]);
        let owner = self.key.parameters(self.delegate);
        let parameters: Vec<_> = self.queue.terms().parameters().into_iter().chain(owner).collect();
        Ok(write_token(&parameters, &signature))
    }
}

impl QueueGrant {
    /// Whether the token is for the queue of this name (A-13.18).
    pub fn check_queue(&self, name: &str) -> Result<(), SasError> {
        if self.queue == name { Ok(()) } else { Err(SasError::Resource) }
    }

    /// Whether the token has all of `permissions`.
    pub fn check_permissions(&self, permissions: Permissions) -> Result<(), SasError> {
        if self.permissions.contains(permissions) { Ok(()) } else { Err(SasError::Permission) }
    }

    /// The same, without the permissions that are not among `others`.
    pub fn within(self, others: Permissions) -> Self {
        Self { permissions: self.permissions.intersection(others), ..self }
    }

    pub fn queue(&self) -> &str {
        &self.queue
    }

    pub fn permissions(&self) -> Permissions {
        self.permissions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sas::{AccountSas, QueueToken};
    use lazuli_model::Timestamp;
    use proptest::prelude::*;

    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const ACCOUNT: &str = "devstoreaccount1";
    const SAS: QueueSas<'_> = QueueSas {
        version: "2021-02-12",
        start: "",
        expiry: "2030-01-01T00:00:00Z",
        permissions: "raup",
        policy: "",
        addresses: "",
        protocol: "",
        signature: "",
    };

    fn key() -> SigningKey {
        SigningKey::from_base64(KEY).unwrap()
    }

    fn caller() -> Caller {
        let now = Timestamp::parse("2029-06-01T00:00:00Z").unwrap();
        Caller { now, address: "10.0.0.7".parse().unwrap(), https: true }
    }

    #[track_caller]
    fn check(sas: QueueSas<'_>, text: &str, signature: &str) {
        assert_eq!(sas.string_to_sign(ACCOUNT, "orders").unwrap(), text);
        let signed = QueueSas { signature, ..sas };
        assert_eq!(signed.verify(ACCOUNT, "orders", &[key()]), Ok(()));
        assert_eq!(signed.verify(ACCOUNT, "others", &[key()]), Err(SasError::Signature));
        let token = sas.token(ACCOUNT, "orders", &key()).unwrap();
        let query = Query::parse(&token).unwrap();
        let Some(QueueToken::Service(parsed)) = QueueToken::parse(&query).unwrap() else {
            panic!("{token}")
        };
        assert_eq!(parsed.verify(ACCOUNT, "orders", &[key()]), Ok(()));
    }

    #[test]
    fn av_17_to_av_20_queue_sas_by_version() {
        check(
            SAS,
            "raup\n\n2030-01-01T00:00:00Z\n/queue/devstoreaccount1/orders\n\n\n\n2021-02-12",
            "lpZjf5z+HwUkFAvNK57QVbJxZ9s5RCWIE+9ENyYq71Y=",
        );
        check(
            QueueSas {
                permissions: "p",
                start: "2029-01-01T00:00:00Z",
                addresses: "10.0.0.1-10.0.0.9",
                protocol: "https",
                ..SAS
            },
            "p\n2029-01-01T00:00:00Z\n2030-01-01T00:00:00Z\n/queue/devstoreaccount1/orders\n\n\
             10.0.0.1-10.0.0.9\nhttps\n2021-02-12",
            "72C8W/hEMtf/1Luk3oehY5/3GUwA2wQUXr/8oUi/XtE=",
        );
        check(
            QueueSas { permissions: "", expiry: "", policy: "pol", ..SAS },
            "\n\n\n/queue/devstoreaccount1/orders\npol\n\n\n2021-02-12",
            "UPf4pypNu77FndD+odCKAeghI4XnsTuQJMnSe5jt6gk=",
        );
        // TQ-57.
        check(
            QueueSas { version: "2014-02-14", permissions: "r", ..SAS },
            "r\n\n2030-01-01T00:00:00Z\n/devstoreaccount1/orders\n\n2014-02-14",
            "0TpCLxugjciYTMQtzvFm+vjEmzcOsktDAKtRxeWE2+0=",
        );
        let old = QueueSas { version: "2011-08-18", ..SAS };
        assert_eq!(old.string_to_sign(ACCOUNT, "orders"), Err(SasError::Version));
    }

    #[test]
    fn av_21_and_av_22_account_sas_for_queues() {
        let sas = AccountSas {
            version: "2021-02-12",
            services: "q",
            resource_types: "sco",
            permissions: "rwdlacup",
            expiry: "2030-01-01T00:00:00Z",
            protocol: "https,http",
            ..AccountSas::default()
        };
        let signature = "jdSJKG2h7ADzd83odi867w0v83yBJl9KrEX1/C4uZP4=";
        assert_eq!(AccountSas { signature, ..sas }.verify(ACCOUNT, &[key()]), Ok(()));
        let signature = "zbv+8pKh9Ww14V8rxG2R2icWnlO3ab4njQmIvbSCXxY=";
        let all = AccountSas { version: "2018-03-28", services: "bqtf", protocol: "", ..sas };
        assert_eq!(AccountSas { signature, ..all }.verify(ACCOUNT, &[key()]), Ok(()));
        let grant = sas.grant(&caller(), 'q').unwrap();
        assert!(grant.permissions().contains(Permissions::PROCESS));
        assert_eq!(sas.grant(&caller(), 't'), Err(SasError::Service));
    }

    #[test]
    fn av_23_user_delegation_sas() {
        let key = UserDelegationKey {
            object_id: "11111111-1111-1111-1111-111111111111",
            tenant_id: "22222222-2222-2222-2222-222222222222",
            start: "2029-12-31T00:00:00Z",
            expiry: "2030-01-02T00:00:00Z",
            service: "q",
            version: "2025-07-05",
        };
        let signature = "uk01We3V0AGeQ07Ur3usuoqw9znWlrHT60HFJcB0gkg=";
        let queue = QueueSas {
            version: "2025-07-05",
            permissions: "rp",
            protocol: "https",
            signature,
            ..SAS
        };
        let sas = QueueDelegationSas { queue, key, delegate: [""; 2] };
        let value = SigningKey::from_base64("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        assert_eq!(sas.verify(ACCOUNT, "orders", &value.unwrap()), Ok(()));
        assert!(matches!(sas.grant("orders", &caller()), Err(SasError::NotStarted(_))));
        let later = Timestamp::parse("2029-12-31T12:00:00Z").unwrap();
        let grant = sas.grant("orders", &Caller { now: later, ..caller() }).unwrap();
        assert_eq!(grant.permissions().letters(), "rp");
        let tables = QueueDelegationSas { key: UserDelegationKey { service: "t", ..key }, ..sas };
        let grant = tables.grant("orders", &Caller { now: later, ..caller() });
        assert_eq!(grant, Err(SasError::Service));
    }

    /// A-13.16.
    #[test]
    fn letters_may_come_in_any_order_but_must_be_the_queues() {
        let grant = |permissions| QueueSas { permissions, ..SAS }.grant("orders", None, &caller());
        assert_eq!(grant("pur").unwrap().permissions().letters(), "rup");
        assert_eq!(grant("rd"), Err(SasError::Malformed("sp")));
        let grant = grant("ra").unwrap();
        assert_eq!(grant.check_permissions(Permissions::PROCESS), Err(SasError::Permission));
        assert_eq!(grant.check_permissions(Permissions::ADD), Ok(()));
        assert_eq!(grant.check_queue("other"), Err(SasError::Resource));
    }

    /// A-6.3, Q-10.11, TQ-60.
    #[test]
    fn a_policy_completes_the_token() {
        let policy = AccessPolicy {
            id: "pol".to_owned(),
            start: None,
            expiry: Some(Timestamp::parse("2030-01-01").unwrap()),
            permissions: Some("p".to_owned()),
        };
        let sas = QueueSas { permissions: "", expiry: "", policy: "pol", ..SAS };
        let grant = sas.grant("orders", Some(&policy), &caller()).unwrap();
        assert_eq!(grant.permissions(), Permissions::PROCESS);
        let unknown = sas.grant("orders", None, &caller());
        assert_eq!(unknown, Err(SasError::UnknownPolicy));
    }

    proptest! {
        #[test]
        fn parse_never_panics(text in any::<String>()) {
            let _ = QueueToken::parse(&Query::parse(&text).unwrap_or_default());
            let signed = format!("sig=a&sv=2021-02-12&{text}");
            let _ = QueueToken::parse(&Query::parse(&signed).unwrap_or_default());
        }
    }
}
