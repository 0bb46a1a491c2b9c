//! The macros of `lazuli-client`, which re-exports them. Do not depend on this crate directly.

mod attributes;
mod check;
mod columns;
mod entity;
mod field;
mod filter;
mod index;
mod keys;
mod list;
mod names;
mod projection;
mod ranges;
mod series;
mod summary;
mod table_fields;
mod table_value;
mod template;
mod union;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct an entity type: keys from templates, properties from fields (C-4, C-5).
#[proc_macro_derive(TableEntity, attributes(table, index, index_list))]
pub fn table_entity(input: TokenStream) -> TokenStream {
    expand(parse_macro_input!(input), entity::derive)
}

/// Makes a struct a series of values: for example one row per day with a property for each hour (P-9).
#[proc_macro_derive(DataSeries, attributes(table, series))]
pub fn data_series(input: TokenStream) -> TokenStream {
    expand(parse_macro_input!(input), series::derive)
}

/// Makes a struct a group of properties that entities can include with `#[table(flatten)]`.
#[proc_macro_derive(TableFields, attributes(table))]
pub fn table_fields(input: TokenStream) -> TokenStream {
    expand(parse_macro_input!(input), table_fields::derive)
}

/// Makes an enum of entity types the rows of one table (C-6).
#[proc_macro_derive(TableUnion, attributes(table))]
pub fn table_union(input: TokenStream) -> TokenStream {
    expand(parse_macro_input!(input), union::derive)
}

/// Makes a fieldless enum usable as a property value and as a part of keys (C-5.2).
#[proc_macro_derive(TableValue, attributes(table))]
pub fn table_value(input: TokenStream) -> TokenStream {
    expand(parse_macro_input!(input), table_value::derive)
}

/// Makes a struct a selection of the columns of an entity type (C-7.20).
#[proc_macro_derive(Projection, attributes(table))]
pub fn projection(input: TokenStream) -> TokenStream {
    expand(parse_macro_input!(input), projection::derive)
}

/// A filter whose text is checked at compile time. Expressions in braces are values of any stored type: they are
/// bound, never pasted, so user input stays a value (C-7.1).
///
/// ```
/// use lazuli_client::filter;
///
/// let (name, age) = ("O'Neill", 30);
/// let wanted = filter!("LastName eq {name} and Age gt {age}");
/// assert_eq!(wanted.to_string(), "LastName eq 'O''Neill' and Age gt 30");
/// ```
///
/// ```compile_fail
/// # use lazuli_client::filter;
/// let wanted = filter!("LastName = 'x'");
/// ```
#[proc_macro]
pub fn filter(input: TokenStream) -> TokenStream {
    let text = parse_macro_input!(input as syn::LitStr);
    filter::expand(&text).unwrap_or_else(syn::Error::into_compile_error).into()
}

fn expand(
    input: DeriveInput,
    derive: fn(&DeriveInput) -> syn::Result<proc_macro2::TokenStream>,
) -> TokenStream {
    derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
