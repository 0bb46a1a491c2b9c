//! Properties to be written.

use crate::encryption::{CryptoError, declares_secrets};
use crate::entity::TableEntity;
use crate::error::Error;
use crate::form::StoredAs;
use crate::property::PropertyDef;
use crate::shape::Rule;
use crate::value::{EncodeError, TableValue, Value};
use lazuli_model::{EntityKey, PropertyLimits};
use std::borrow::Cow;

/// Properties to be written: names and values, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties(Vec<(Cow<'static, str>, Value)>, Secrecy, Ids);

/// How many write ids a row keeps; may be zero (C-13.6).
type Ids = usize;

/// What has to be encrypted before properties are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Secrecy {
    /// Not known from the type: the account's settings decide.
    #[default]
    Untold,
    /// Nothing, by the type's declaration: other types in its table have secrets.
    Clear,
    /// Some of what the type declares.
    Declared(&'static [PropertyDef]),
    /// Nothing: it is encrypted already.
    Sealed,
}

impl Properties {
    /// Adds a property.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: Value) {
        self.0.push((name.into(), value));
    }

    /// Adds a property of any type.
    pub fn add<T: TableValue>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: &T,
    ) -> Result<(), EncodeError> {
        self.push(name, value.to_value()?);
        Ok(())
    }

    /// Adds a property in a form other than the default of its type.
    pub fn store<F, T: StoredAs<F>>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: &T,
    ) -> Result<(), EncodeError> {
        self.push(name, value.store()?);
        Ok(())
    }

    /// Adds a text.
    pub fn push_text(&mut self, name: impl Into<Cow<'static, str>>, text: Cow<'static, str>) {
        self.push(name, Value::String(text));
    }

    /// The number of properties.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no properties.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a property: replaces an existing one in place, else appends it.
    pub(crate) fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, place)) => *place = value,
            None => self.push(name, value),
        }
    }

    /// Has a transaction write its id into the row, which keeps up to `ids` of them.
    pub(crate) fn keep_ids(&mut self, ids: usize) {
        self.2 = self.2.max(ids);
    }

    /// How many write ids the row keeps.
    pub(crate) fn ids_kept(&self) -> usize {
        self.2
    }

    /// Takes a property out.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Names and mutable values, in order.
    #[cfg(feature = "encryption")]
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = (&str, &mut Value)> {
        self.0.iter_mut().map(|(name, value)| (&**name, value))
    }

    /// Names and values, in the order they are sent.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, lazuli_model::ValueRef<'_>)> + Clone {
        self.0.iter().map(|(name, value)| (&**name, value.as_ref()))
    }

    /// The properties of a value. An untyped entity in a union is given what all its types declare: it may be a later
    /// version of one of them.
    pub(crate) fn of_value<T: TableEntity>(value: &T) -> Self {
        let shape = value.shape();
        match shape.is_dynamic {
            true => Self::told(T::PROPERTIES, const { declares_secrets(T::PROPERTIES) }),
            false => {
                let mut properties = Self::told(shape.properties, shape.has_secrets);
                properties.keep_ids(shape.write_ids);
                properties.settle(const { Rule::of::<T>() }.secrets, false);
                properties
            }
        }
    }

    /// Empty properties of a type with this declaration.
    pub(crate) fn of(declared: &'static [PropertyDef]) -> Self {
        Self::told(declared, declares_secrets(declared))
    }

    fn told(declared: &'static [PropertyDef], is_secret: bool) -> Self {
        let properties = Vec::with_capacity(declared.len());
        Self(properties, if is_secret { Secrecy::Declared(declared) } else { Secrecy::Untold }, 0)
    }

    /// Sets the declarations of the table's types, unless the entity's own type was known. Untyped entities may be
    /// of any of these types; those of a type without secrets stay in clear text.
    pub(crate) fn settle(&mut self, declared: Option<&'static [PropertyDef]>, is_dynamic: bool) {
        if let (Secrecy::Untold, Some(declared)) = (self.1, declared) {
            self.1 = if is_dynamic { Secrecy::Declared(declared) } else { Secrecy::Clear };
        }
    }

    /// Whether the type is known, in tables whose types have secrets.
    #[cfg(feature = "encryption")]
    pub(crate) fn is_told(&self) -> bool {
        self.1 != Secrecy::Untold
    }

    /// Sets the type of the properties, unless it is known.
    pub(crate) fn declare(&mut self, declared: &'static [PropertyDef]) {
        if self.1 == Secrecy::Untold && declares_secrets(declared) {
            self.1 = Secrecy::Declared(declared);
        }
    }

    /// The type's declaration, if some properties have yet to be encrypted.
    #[cfg(feature = "encryption")]
    pub(crate) fn declared(&self) -> &'static [PropertyDef] {
        match self.1 {
            Secrecy::Declared(declared) => declared,
            Secrecy::Untold | Secrecy::Clear | Secrecy::Sealed => &[],
        }
    }

    /// Whether everything that must be encrypted is encrypted.
    pub(crate) fn is_sealed(&self) -> bool {
        self.1 == Secrecy::Sealed
    }

    /// Marks the properties as encrypted.
    pub(crate) fn mark_sealed(&mut self) {
        self.1 = Secrecy::Sealed;
    }

    /// Checks that nothing is still to be encrypted (E-22), that no text holds U+0000 (C-5.12), and the
    /// limits of the service, key and all (C-5.13).
    pub(crate) fn check(&self, key: &EntityKey) -> Result<(), Error> {
        self.check_secrecy()?;
        if let Err(fault) = PropertyLimits::Service.check(&self.0) {
            let is_alone = |pair: &&(_, _)| {
                PropertyLimits::Service.check(std::slice::from_ref(*pair)).is_err()
            };
            let property = self.0.iter().find(is_alone).map(|(name, _)| name.clone());
            return Err(Error::from(fault).with(|context| {
                context.hint = property.map(|name| format!("it is the property {name}"));
            }));
        }
        let has_nul =
            |(_, value): &&(_, Value)| matches!(value, Value::String(text) if text.contains('\0'));
        if let Some((name, _)) = self.0.iter().find(has_nul) {
            let hint = format!("it is the property {name}");
            return Err(Error::from(EncodeError::Nul).with(|context| context.hint = Some(hint)));
        }
        Ok(lazuli_model::entity::check_size(key, self.iter())?)
    }

    /// Checks that nothing is left to encrypt (E-22).
    pub(crate) fn check_secrecy(&self) -> Result<(), Error> {
        match self.1 {
            Secrecy::Declared(_) => Err(CryptoError::NoKey.into()),
            Secrecy::Untold | Secrecy::Clear | Secrecy::Sealed => Ok(()),
        }
    }
}
