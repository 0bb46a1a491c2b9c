//! Tokens for a container or a blob (C-16.1).

use super::{Letters, SasToken, Signer, Terms, UserDelegationKey, sas_signer, sas_terms, signed};
use crate::account::Account;
use crate::blob::{Blob, Container};
use crate::error::Error;
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::sas::{BlobDelegationSas, BlobSas, Permissions};

/// The first version whose tokens say what they are for; it is also the version of this library's requests (C-17.6).
const VERSION: &str = "2021-12-02";

const OF_BLOB: Permissions = Permissions::READ
    .union(Permissions::ADD)
    .union(Permissions::CREATE)
    .union(Permissions::WRITE)
    .union(Permissions::DELETE);
const BLOB: Letters = Letters {
    of: "a blob",
    allowed: OF_BLOB,
    names: "READ, ADD, CREATE, WRITE and DELETE",
    order: "racwd",
};
const CONTAINER: Letters = Letters {
    of: "a container",
    allowed: OF_BLOB.union(Permissions::LIST),
    names: "READ, ADD, CREATE, WRITE, DELETE and LIST",
    order: "racwdl",
};

impl Container {
    /// Begins a token for this container and all its blobs. It is signed locally, without a request.
    pub fn sas(&self, permissions: Permissions) -> BlobSasBuilder {
        BlobSasBuilder::new(self.account(), self.name().to_owned(), &CONTAINER, permissions)
    }
}

impl Blob {
    /// Begins a token for this blob. It is signed locally, without a request.
    pub fn sas(&self, permissions: Permissions) -> BlobSasBuilder {
        let path = format!("{}/{}", self.container_name(), self.name());
        BlobSasBuilder::new(self.account(), path, &BLOB, permissions)
    }
}

/// A token for a blob or a container, not signed yet.
///
/// ```
/// # use lazuli_client::{Account, Permissions};
/// # use std::time::Duration;
/// # fn run() -> Result<(), lazuli_client::Error> {
/// let account = Account::from_connection_string("UseDevelopmentStorage=true")?;
/// let report = account.blobs().container("reports")?.blob("2026/q3.pdf")?;
/// let token = report
///     .sas(Permissions::READ)
///     .expires_in(Duration::from_secs(3600))
///     .content_disposition("attachment; filename=q3.pdf")
///     .build()?;
/// let link = format!("{}?{}", report.address()?, token.as_str());
/// # Ok(())
/// # }
/// # run().unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "no token is made before `build`"]
pub struct BlobSasBuilder {
    account: Account,
    path: String,
    letters: &'static Letters,
    permissions: Permissions,
    policy: String,
    terms: Terms,
    delegated: Option<UserDelegationKey>,
    content_disposition: String,
    content_type: String,
}

impl BlobSasBuilder {
    fn new(
        account: &Account,
        path: String,
        letters: &'static Letters,
        permissions: Permissions,
    ) -> Self {
        Self {
            account: account.clone(),
            path,
            letters,
            permissions,
            policy: String::new(),
            terms: Terms::default(),
            delegated: None,
            content_disposition: String::new(),
            content_type: String::new(),
        }
    }

    sas_terms!();
    sas_signer!();

    /// Responses get this Content-Type, regardless of the blob's own.
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.content_type = content_type.to_owned();
        self
    }

    /// Responses get this Content-Disposition, such as `attachment; filename=report.pdf`.
    pub fn content_disposition(mut self, content_disposition: &str) -> Self {
        self.content_disposition = content_disposition.to_owned();
        self
    }

    /// Signs the token.
    pub fn build(&self) -> Result<SasToken, Error> {
        let signer = Signer::of(&self.account, self.delegated.as_ref(), StorageService::Blob)?;
        let letters = self.letters.check(self.permissions, &self.policy, &self.terms, &signer)?;
        let texts = self.terms.texts()?;
        let sas = BlobSas {
            version: signer.sas_version(VERSION),
            resource: if self.path.contains('/') { "b" } else { "c" },
            start: &texts.start,
            expiry: &texts.expiry,
            permissions: &letters,
            policy: &self.policy,
            addresses: &texts.addresses,
            protocol: texts.protocol,
            encryption_scope: "",
            response_headers: ["", &self.content_disposition, "", "", &self.content_type],
            signature: "",
        };
        let token = match &signer {
            Signer::Account(account, key) => sas.token(account, &self.path, key),
            Signer::User(user) => {
                let sas = BlobDelegationSas { blob: sas, key: user.texts(), delegate: [""; 2] };
                sas.token(&user.account, &self.path, &user.value)
            }
        };
        signed(token)
    }
}
