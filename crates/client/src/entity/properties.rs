//! Properties on their way out.

use crate::encryption::{CryptoError, declares_secrets};
use crate::entity::TableEntity;
use crate::error::Error;
use crate::form::StoredAs;
use crate::property::PropertyDef;
use crate::shape::Rule;
use crate::value::{EncodeError, TableValue, Value};
use lazuli_model::{EntityKey, PropertyLimits};
use std::borrow::Cow;

/// Properties on their way out: names and values, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties(Vec<(Cow<'static, str>, Value)>, Secrecy, Ids);

/// How many ids of writes a row keeps; none if it is zero (C-13.6).
type Ids = usize;

/// What is to be encrypted before properties are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Secrecy {
    /// What the account says.
    #[default]
    Untold,
    /// Nothing, as the type declares: others in its table have secrets.
    Clear,
    /// Some of what the type declares.
    Declared(&'static [PropertyDef]),
    /// Nothing: it is encrypted.
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

    /// Adds a property in a form that its type does not have by itself.
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a property: in its place if it is there, else at the end.
    pub(crate) fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, place)) => *place = value,
            None => self.push(name, value),
        }
    }

    /// Has a transaction write an id of its own into the row, which keeps so many.
    pub(crate) fn keep_ids(&mut self, ids: usize) {
        self.2 = self.2.max(ids);
    }

    /// How many ids of writes the row keeps.
    pub(crate) fn ids_kept(&self) -> usize {
        self.2
    }

    /// Takes a property out.
    #[cfg(feature = "patterns")]
    pub(crate) fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// Names, and values to change, in order.
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

    /// The properties of a value. An entity of any shape in a union is what all its types declare: it may be of a later
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

    /// The properties of a type that declares these.
    pub(crate) fn of(declared: &'static [PropertyDef]) -> Self {
        Self::told(declared, declares_secrets(declared))
    }

    fn told(declared: &'static [PropertyDef], is_secret: bool) -> Self {
        let properties = Vec::with_capacity(declared.len());
        Self(properties, if is_secret { Secrecy::Declared(declared) } else { Secrecy::Untold }, 0)
    }

    /// Says what the types of the table declare whose entity this is, unless its own type said it. Entities of any shape are
    /// taken for any of them; those of a type without secrets are clear.
    pub(crate) fn settle(&mut self, declared: Option<&'static [PropertyDef]>, is_dynamic: bool) {
        if let (Secrecy::Untold, Some(declared)) = (self.1, declared) {
            self.1 = if is_dynamic { Secrecy::Declared(declared) } else { Secrecy::Clear };
        }
    }

    /// Whether it is known of which type they are, where types with secrets are.
    #[cfg(feature = "encryption")]
    pub(crate) fn is_told(&self) -> bool {
        self.1 != Secrecy::Untold
    }

    /// Says which type the properties are of, unless that is known.
    pub(crate) fn declare(&mut self, declared: &'static [PropertyDef]) {
        if self.1 == Secrecy::Untold && declares_secrets(declared) {
            self.1 = Secrecy::Declared(declared);
        }
    }

    /// What the type declares, if some of it is to be encrypted and is not yet.
    #[cfg(feature = "encryption")]
    pub(crate) fn declared(&self) -> &'static [PropertyDef] {
        match self.1 {
            Secrecy::Declared(declared) => declared,
            Secrecy::Untold | Secrecy::Clear | Secrecy::Sealed => &[],
        }
    }

    /// Whether what is to be encrypted is encrypted.
    pub(crate) fn is_sealed(&self) -> bool {
        self.1 == Secrecy::Sealed
    }

    /// Says that what is to be encrypted is encrypted.
    pub(crate) fn mark_sealed(&mut self) {
        self.1 = Secrecy::Sealed;
    }

    /// Checks that nothing is still to be encrypted (E-22), and the limits of the service, key and all
    /// (C-5.13).
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
        Ok(lazuli_model::entity::check_size(key, self.iter())?)
    }

    /// Checks that nothing is still to be encrypted (E-22).
    pub(crate) fn check_secrecy(&self) -> Result<(), Error> {
        match self.1 {
            Secrecy::Declared(_) => Err(CryptoError::NoKey.into()),
            Secrecy::Untold | Secrecy::Clear | Secrecy::Sealed => Ok(()),
        }
    }
}
