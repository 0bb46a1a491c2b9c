//! The properties of a service, stored under one key per account and service.

use crate::error::StoreError;
use crate::store::Store;
use lazuli_engine::retry::Attempt;
use lazuli_engine::{BoxError, Commit, CommitError, Current, Key, Modify, Write};
use lazuli_layout::table as stored;
use lazuli_model::{ServiceProperties, ServicePropertiesPatch};
use std::sync::Arc;

impl Store {
    /// The properties under `key`; the defaults if none were set.
    pub async fn service_properties(&self, key: Vec<u8>) -> Result<ServiceProperties, StoreError> {
        match self.read_one(&key.into()).await? {
            Some(found) => Ok(stored::decode_service_properties(&found.value)?),
            None => Ok(ServiceProperties::default()),
        }
    }

    /// Changes the properties under `key`: sections missing from the patch keep their values
    /// (T-9.7, Q-9.2).
    pub async fn set_service_properties(
        &self,
        key: Vec<u8>,
        patch: ServicePropertiesPatch,
    ) -> Result<(), StoreError> {
        let key = Key::from(key);
        let function: Arc<dyn Modify> = Arc::new(PropertiesPatch::new(patch));
        self.retry(|| self.try_to_write(Write::Modify(key.clone(), Arc::clone(&function)))).await?
    }

    async fn try_to_write(&self, write: Write) -> Attempt<Result<(), StoreError>> {
        match self.engine.commit(Commit::new(self.now(), vec![write])).await {
            Ok(_) => Attempt::Done(Ok(())),
            Err(CommitError::Conflict) => Attempt::Again,
            Err(error) => Attempt::Done(Err(error.into())),
        }
    }
}

/// Changes the stored properties when the commit is ordered, so that two patches never undo each
/// other.
#[derive(Debug)]
struct PropertiesPatch {
    patch: ServicePropertiesPatch,
    held_bytes: usize,
}

impl PropertiesPatch {
    /// Its memory use is about the size of its CORS rules.
    fn new(patch: ServicePropertiesPatch) -> Self {
        let stored = ServiceProperties::default().patched(patch.clone());
        let held_bytes = stored::encode_service_properties(&stored).len();
        Self { patch, held_bytes }
    }
}

impl Modify for PropertiesPatch {
    fn modify(&self, current: Option<Current<'_>>) -> Result<Option<Vec<u8>>, BoxError> {
        let properties = match current {
            Some(current) => stored::decode_service_properties(current.value)?,
            None => ServiceProperties::default(),
        };
        let properties = properties.patched(self.patch.clone());
        Ok(Some(stored::encode_service_properties(&properties)))
    }

    fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}
