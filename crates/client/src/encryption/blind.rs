//! Blind indexes: search an encrypted property for equality, without revealing its value (E-46).

use super::error::CryptoError;
use super::settings::blind_name;
use super::v2;
use crate::entity::TableEntity;
use crate::error::Error;
use crate::filter::{Filter, col};
use crate::table::Table;
use crate::value::{IntoValue, Value};
use aws_lc_rs::hmac;
use std::fmt;

/// Length of an index.
const INDEX_BYTES: usize = 16;
/// Minimum length of a key: that of the hash.
const KEY_BYTES_MIN: usize = 32;

/// The key of blind indexes. It is separate from other keys, because its holder can test guesses of values.
pub struct BlindKey(hmac::Key);

impl BlindKey {
    /// A key of 32 bytes or more.
    pub fn new(secret: &[u8]) -> Result<Self, CryptoError> {
        if secret.len() < KEY_BYTES_MIN {
            return Err(CryptoError::InvalidKey("a blind key has 32 bytes or more"));
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// The index of a value. Table names are lowercased, as they are case-insensitive.
    pub(super) fn index(&self, table: &str, property: &str, value: &Value) -> [u8; INDEX_BYTES] {
        let mut hmac = hmac::Context::with_key(&self.0);
        hmac.update(table.to_ascii_lowercase().as_bytes());
        hmac.update(&[0]);
        hmac.update(property.as_bytes());
        hmac.update(&[0]);
        hmac.update(&v2::plaintext(value));
        hmac.sign().as_ref().first_chunk().copied().unwrap_or_default()
    }
}

impl<T: TableEntity> Table<T> {
    /// The entities whose encrypted property has this value, by its blind index. Some of the results may not have it:
    /// different values can share an index, though that is very unlikely.
    ///
    /// ```no_run
    /// # async fn run(patients: lazuli_client::Table) -> Result<(), lazuli_client::Error> {
    /// use lazuli_client::partition;
    ///
    /// let ann = partition("Clinic").and(patients.eq_blind("Ssn", "078-05-1120")?);
    /// let found = patients.query(ann).collect_at_most(10).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn eq_blind(&self, property: &str, value: impl IntoValue) -> Result<Filter, Error> {
        let index = self.blind_bytes(property, value)?;
        Ok(col(&blind_name(property)).eq(index.to_vec()))
    }

    /// The blind index of a value as 32 hex digits, for use in a key.
    pub fn blind_text(&self, property: &str, value: impl IntoValue) -> Result<String, Error> {
        let index = self.blind_bytes(property, value)?;
        Ok(index.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn blind_bytes(
        &self,
        property: &str,
        value: impl IntoValue,
    ) -> Result<[u8; INDEX_BYTES], Error> {
        let encryption = self.account.1.encryption()?;
        Ok(encryption.blind_key()?.index(self.name(), property, &value.into_value()))
    }
}

impl fmt::Debug for BlindKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlindKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encryption::tests::hex;

    #[test]
    fn an_index_depends_on_key_table_property_and_value() {
        let key = BlindKey::new(&[7; 32]).unwrap();
        let ssn = Value::from("078-05-1120");
        let index = key.index("Patients", "Ssn", &ssn);
        // Computed independently: HMAC-SHA-256 of "patients\0Ssn\0078-05-1120" under 32 bytes of 7.
        assert_eq!(index[..], hex("ea872b4d75445532dcfdf5a4bf4fcb1c"));
        assert_eq!(key.index("patients", "Ssn", &ssn), index, "one table, whatever its case");
        assert_ne!(key.index("Patients", "ssn", &ssn), index);
        assert_ne!(key.index("Patient", "sSsn", &ssn), index);
        assert_ne!(key.index("Patients", "Ssn", &Value::from("078-05-1121")), index);
        assert_ne!(BlindKey::new(&[8; 32]).unwrap().index("Patients", "Ssn", &ssn), index);
        assert!(BlindKey::new(&[7; 31]).is_err());
        assert_eq!(format!("{key:?}"), "BlindKey(..)");
    }
}
