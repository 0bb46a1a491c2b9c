//! Typed columns: properties that a type declares, for filters, merges and projections (C-7.11, C-7.20).

use crate::codec::{Decoded, INDEX_MARK};
use crate::entity::Entity;
use crate::fields::Fields;
use crate::filter::{Column, Filter, col, comparisons, property};
use crate::form::{Plain, StoredAs};
use crate::key::KeyError;
use crate::query::Query;
use crate::value::{DecodeError, EncodeError, IntoValue, TableValue, Value};
use lazuli_model::{EdmType, Operator, Property};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Names the type parameters of a column that no field uses.
type Marks<E, V, F, A> = fn() -> (E, V, F, A);

/// A property of `E` that holds a `V` in the form `F`; `A` determines what can be done with it.
///
/// The derive makes one for each property: `Employee::AGE`.
///
/// ```
/// use lazuli_client::prelude::*;
/// use lazuli_client::{Filter, Optional, Required, TypedColumn};
/// use lazuli_client::form::{Plain, Text};
///
/// #[derive(TableEntity)]
/// #[table(partition = "{team}", row = "{number:03}", rename_all = "PascalCase")]
/// struct Player {
///     team: String,
///     number: u32,
///     active: bool,
///     nick: Option<String>,
///     #[table(as = "text")]
///     goals: u64,
/// }
///
/// // What the derive makes: type, form and presence of each property are in its type.
/// let nick: TypedColumn<Player, String, Plain, Optional> = Player::NICK;
/// let goals: TypedColumn<Player, u64, Text, Required> = Player::GOALS;
/// let filter = Player::ACTIVE.is_true().and(nick.one_of(["JJ", "Don"]).or(goals.ge(10_u64)));
/// assert_eq!(
///     filter.to_string(),
///     "Active and (Nick eq 'JJ' or Nick eq 'Don' or Goals ge '00000000000000000010')"
/// );
/// ```
pub struct TypedColumn<E, V, F = Plain, A = Required> {
    name: &'static str,
    of: PhantomData<Marks<E, V, F, A>>,
}

/// A property that all entities of the type have.
#[derive(Clone, Copy, Debug)]
pub struct Required;

/// A property that may be missing.
#[derive(Clone, Copy, Debug)]
pub struct Optional;

/// An encrypted property: no filter, no merge (C-7.15, C-15.3).
#[derive(Clone, Copy, Debug)]
pub struct Encrypted;

/// A value spread over several properties or stored in a blob: no filter, no merge (C-5.14).
///
/// ```compile_fail,E0599
/// use lazuli_client::prelude::*;
/// use lazuli_client::{Scattered, TypedColumn};
///
/// #[derive(TableEntity)]
/// #[table(partition = "{user}", row = "{id:08}")]
/// struct Note { user: String, id: u32, #[table(chunked)] text: String }
///
/// let text: TypedColumn<Note, String, _, Scattered> = Note::TEXT;
/// let filter = text.eq("milk"); // the text may be longer than a property
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Scattered;

/// Columns that filters and merges may name.
pub trait Open {}
impl Open for Required {}
impl Open for Optional {}

impl<E, V, F, A> TypedColumn<E, V, F, A> {
    #[doc(hidden)]
    pub const fn new(name: &'static str) -> Self {
        Self { name, of: PhantomData }
    }

    /// The name of the property.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

impl<E, V, F, A> Clone for TypedColumn<E, V, F, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, V, F, A> Copy for TypedColumn<E, V, F, A> {}

impl<E, V, F, A> fmt::Debug for TypedColumn<E, V, F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What a column of type `V` can be compared with, or set to.
pub trait ColumnArg<V> {
    /// The value.
    #[doc(hidden)]
    fn into_arg(self) -> V;
}

impl<V> ColumnArg<V> for V {
    fn into_arg(self) -> V {
        self
    }
}

macro_rules! text_args {
    ($($text:ty),*) => {$(
        impl ColumnArg<$text> for &str {
            fn into_arg(self) -> $text {
                self.into()
            }
        }
    )*};
}

text_args!(String, Box<str>, Arc<str>);

impl ColumnArg<String> for &String {
    fn into_arg(self) -> String {
        self.clone()
    }
}

impl<E, V: StoredAs<F>, F, A: Open> TypedColumn<E, V, F, A> {
    comparisons!(|self, value: impl ColumnArg<V>| self.property(), value.into_arg().store());

    /// Equal to one of several values: a disjunction (C-7.12). Never true if there are none.
    #[must_use]
    pub fn one_of<I: ColumnArg<V>>(self, values: impl IntoIterator<Item = I>) -> Filter {
        let any = values.into_iter().map(|value| self.eq(value)).reduce(Filter::or);
        any.unwrap_or(Filter(lazuli_model::Filter::Constant(false), None))
    }

    fn property(self) -> Result<Property, EncodeError> {
        property(self.name)
    }
}

impl<E, A: Open> TypedColumn<E, bool, Plain, A> {
    /// The Boolean `true`.
    #[must_use]
    pub fn is_true(self) -> Filter {
        col(self.name).is_true()
    }
}

impl<E, V: TableValue + AsRef<str>, A: Open> TypedColumn<E, V, Plain, A> {
    /// A string that begins with `prefix`: a range, which an index can serve (C-7.12).
    #[must_use]
    pub fn starts_with(self, prefix: &str) -> Filter {
        col(self.name).starts_with(prefix)
    }
}

impl<E, V, F, A> From<TypedColumn<E, V, F, A>> for Column
where
    A: Open,
{
    fn from(column: TypedColumn<E, V, F, A>) -> Self {
        col(column.name)
    }
}

/// A field that is part of the key and not a property: it can be selected, and used in key ranges.
///
/// ```no_run
/// # use lazuli_client::prelude::*;
/// # use lazuli_client::{Error, KeyColumn};
/// #[derive(TableEntity)]
/// #[table(partition = "{team}", row = "{number:03}", rename_all = "PascalCase")]
/// struct Player { team: String, number: u32, goals: i32 }
///
/// # async fn run(players: Table<Player>) -> Result<(), Error> {
/// let number: KeyColumn<Player, u32> = Player::NUMBER;
/// let reds = players.query(Player::range("Reds")).select((number, Player::GOALS));
/// for row in reds.collect_at_most(30).await? {
///     let (number, goals) = *row;
///     println!("{number}: {goals}");
/// }
/// # Ok(())
/// # }
/// ```
pub struct KeyColumn<E, V> {
    field: &'static str,
    read: fn(&str, &str) -> Result<V, KeyError>,
    of: PhantomData<fn() -> E>,
}

impl<E, V> KeyColumn<E, V> {
    #[doc(hidden)]
    pub const fn new(field: &'static str, read: fn(&str, &str) -> Result<V, KeyError>) -> Self {
        Self { field, read, of: PhantomData }
    }
}

impl<E, V> Clone for KeyColumn<E, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E, V> Copy for KeyColumn<E, V> {}

impl<E, V> fmt::Debug for KeyColumn<E, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.field)
    }
}

/// Columns of `E` that a query can return: one, or a tuple of several.
pub trait Select<E>: Send + Sync + 'static {
    /// The type of each row.
    type Output: Send + 'static;

    #[doc(hidden)]
    fn names(&self, out: &mut Vec<&'static str>);

    #[doc(hidden)]
    fn read(&self, fields: &mut Fields) -> Result<Self::Output, DecodeError>;
}

impl<E: 'static, V: StoredAs<F> + Send + 'static, F: 'static> Select<E>
    for TypedColumn<E, V, F, Required>
{
    type Output = V;

    fn names(&self, out: &mut Vec<&'static str>) {
        out.push(self.name);
    }

    fn read(&self, fields: &mut Fields) -> Result<V, DecodeError> {
        fields.required::<F, V>(self.name)
    }
}

impl<E: 'static, V: StoredAs<F> + Send + 'static, F: 'static> Select<E>
    for TypedColumn<E, V, F, Optional>
{
    type Output = Option<V>;

    fn names(&self, out: &mut Vec<&'static str>) {
        out.push(self.name);
    }

    fn read(&self, fields: &mut Fields) -> Result<Option<V>, DecodeError> {
        fields.optional::<F, V>(self.name)
    }
}

impl<E: 'static, V: Send + 'static> Select<E> for KeyColumn<E, V> {
    type Output = V;

    fn names(&self, _: &mut Vec<&'static str>) {}

    fn read(&self, fields: &mut Fields) -> Result<V, DecodeError> {
        let (partition, row) = fields.keys();
        (self.read)(partition, row).map_err(|error| fields.key_error(error))
    }
}

macro_rules! tuples {
    ($(($($column:ident $index:tt),+);)*) => {$(
        impl<E, $($column: Select<E>),+> Select<E> for ($($column,)+) {
            type Output = ($($column::Output,)+);

            fn names(&self, out: &mut Vec<&'static str>) {
                $(self.$index.names(out);)+
            }

            fn read(&self, fields: &mut Fields) -> Result<Self::Output, DecodeError> {
                Ok(($(self.$index.read(fields)?,)+))
            }
        }
    )*};
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, G 4);
    (A 0, B 1, C 2, D 3, G 4, H 5);
    (A 0, B 1, C 2, D 3, G 4, H 5, I 6);
    (A 0, B 1, C 2, D 3, G 4, H 5, I 6, J 7);
}

/// A smaller struct with some columns of a type, derived with `#[derive(Projection)]` (C-7.20).
///
/// It is not an entity type, so it cannot be written back: that would drop the other properties (C-7.22).
pub trait Projection: Sized + Send + 'static {
    /// The type that has these columns.
    type Of;

    /// The properties to select.
    fn names() -> Vec<&'static str>;

    /// Reads the columns.
    fn read(fields: &mut Fields) -> Result<Self, DecodeError>;
}

impl<T: Send + 'static> Query<T> {
    /// Only these columns, as a tuple. Keys and Timestamp are fetched too (C-7.21).
    pub fn select<S: Select<T>>(self, columns: S) -> Query<S::Output> {
        let mut names = Vec::new();
        columns.names(&mut names);
        self.projected(names, move |fields| columns.read(fields))
    }

    /// Only the columns of a smaller struct.
    pub fn select_as<P: Projection<Of = T>>(self) -> Query<P> {
        self.projected(P::names(), P::read)
    }

    /// Some properties of each entity. A typed query leaves out rows that are not entities of the type (P-0.3), so
    /// the properties that show this are read too.
    fn projected<R: Send + 'static>(
        self,
        names: Vec<&'static str>,
        read: impl Fn(&mut Fields) -> Result<R, DecodeError> + Send + Sync + 'static,
    ) -> Query<R> {
        let is_typed = self.is_typed();
        let mut selected = selected(names);
        if is_typed {
            selected.push(INDEX_MARK.to_owned());
        }
        let decode = move |mut entity: Entity| {
            let is_other = is_typed && entity.remove(INDEX_MARK).is_some();
            if is_other {
                return Ok(None);
            }
            Ok(Some(Decoded::plain(read(&mut Fields::new(entity))?)))
        };
        self.decoded(selected, Arc::new(decode))
    }
}

/// The properties in `$select`; only the keys if no property is selected.
fn selected(names: Vec<&'static str>) -> Vec<String> {
    match &*names {
        [] => vec!["RowKey".to_owned()],
        names => names.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// What a merge of `E` can set to a `V`: a typed column or, for untyped entities, a name.
pub trait Settable<E, V> {
    #[doc(hidden)]
    fn property(self, value: V) -> (Cow<'static, str>, Result<Value, EncodeError>);
}

impl<E, V: StoredAs<F>, F, A: Open, I: ColumnArg<V>> Settable<E, I> for TypedColumn<E, V, F, A> {
    fn property(self, value: I) -> (Cow<'static, str>, Result<Value, EncodeError>) {
        (Cow::Borrowed(self.name), value.into_arg().store())
    }
}

macro_rules! named {
    ($($name:ty),*) => {$(
        impl<V: IntoValue> Settable<Entity, V> for $name {
            fn property(self, value: V) -> (Cow<'static, str>, Result<Value, EncodeError>) {
                (self.into(), Ok(value.into_value()))
            }
        }
    )*};
}

named!(&'static str, String, Cow<'static, str>);

/// The Edm type of a column, for declarations.
#[doc(hidden)]
pub const fn edm_of<F, V: StoredAs<F>>() -> EdmType {
    V::EDM_TYPE
}
