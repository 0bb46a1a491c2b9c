//! Tokens for an account.

use super::{SAS_VERSION, SasToken, Terms, sas_terms, signing_key};
use crate::account::Account;
use crate::error::Error;
use lazuli_wire::sas::{AccountSas, Permissions, ResourceTypes};

/// The services that a token covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SasServices {
    /// Tables.
    pub tables: bool,
    /// Queues.
    pub queues: bool,
    /// Blobs.
    pub blobs: bool,
}

impl SasServices {
    /// Tables only.
    pub const TABLES: Self = Self { tables: true, queues: false, blobs: false };
    /// Tables, queues and blobs.
    pub const ALL: Self = Self { tables: true, queues: true, blobs: true };

    fn letters(self) -> String {
        let all = [(self.blobs, 'b'), (self.queues, 'q'), (self.tables, 't')];
        all.iter().filter(|(is_in, _)| *is_in).map(|(_, letter)| letter).collect()
    }
}

impl Account {
    /// Begins a token for all tables of this account and their entities. It is signed locally, without a request.
    pub fn sas(&self, permissions: Permissions) -> AccountSasBuilder {
        AccountSasBuilder {
            account: self.clone(),
            permissions,
            services: SasServices::TABLES,
            resource_types: ResourceTypes::CONTAINER | ResourceTypes::OBJECT,
            terms: Terms::default(),
        }
    }
}

/// A token for an account, not signed yet.
///
/// ```
/// use lazuli_client::{Account, Permissions, ResourceTypes, SasServices};
/// use std::time::Duration;
///
/// # fn run() -> Result<(), lazuli_client::Error> {
/// let account = Account::from_connection_string("UseDevelopmentStorage=true")?;
/// let token = account
///     .sas(Permissions::READ | Permissions::LIST)
///     .services(SasServices { tables: true, queues: true, blobs: false })
///     .resource_types(ResourceTypes::SERVICE | ResourceTypes::CONTAINER | ResourceTypes::OBJECT)
///     .expires_in(Duration::from_secs(3600))
///     .build()?;
/// assert!(token.as_str().contains("ss=qt"));
/// # Ok(())
/// # }
/// # run().unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "no token is made before `build`"]
pub struct AccountSasBuilder {
    account: Account,
    permissions: Permissions,
    services: SasServices,
    resource_types: ResourceTypes,
    terms: Terms,
}

impl AccountSasBuilder {
    sas_terms!();

    /// The services that the token covers, by default tables.
    pub fn services(self, services: SasServices) -> Self {
        Self { services, ..self }
    }

    /// The types of resources that the token covers, by default containers (tables, queues) and objects (entities,
    /// messages). Service properties need [`ResourceTypes::SERVICE`].
    pub fn resource_types(self, resource_types: ResourceTypes) -> Self {
        Self { resource_types, ..self }
    }

    /// Signs the token.
    pub fn build(&self) -> Result<SasToken, Error> {
        let (account, key) = signing_key(&self.account)?;
        let (services, types) = (self.services.letters(), self.resource_types.letters());
        let fault = if self.permissions == Permissions::NONE {
            "a shared access signature without permissions allows nothing"
        } else if services.is_empty() {
            "a shared access signature needs a service"
        } else if types.is_empty() {
            "a shared access signature needs a type of resources"
        } else if self.terms.expiry.is_none() {
            "a shared access signature of an account needs an expiry"
        } else {
            ""
        };
        if !fault.is_empty() {
            return Err(Error::config(fault));
        }
        let texts = self.terms.texts()?;
        let sas = AccountSas {
            version: SAS_VERSION,
            services: &services,
            resource_types: &types,
            permissions: &ordered(self.permissions),
            start: &texts.start,
            expiry: &texts.expiry,
            addresses: &texts.addresses,
            protocol: texts.protocol,
            encryption_scope: "",
            signature: "",
        };
        let token = sas.token(&account, &key).map_err(|error| Error::config(error.to_string()))?;
        Ok(SasToken::new(token))
    }
}

/// The letters in the documented order.
fn ordered(permissions: Permissions) -> String {
    let letters = permissions.letters();
    "rwdlacup".chars().filter(|letter| letters.contains(*letter)).collect()
}
