//! A constant for each property, and for each field of the key (C-7.11).

use crate::field::{Field, Place, argument_of};
use crate::names;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Ident, Result, Visibility};

pub(crate) fn columns(
    fields: &[Field<'_>],
    entity: &Ident,
    vis: &Visibility,
) -> Result<TokenStream> {
    let columns = fields.iter().map(|field| column(field, entity, vis));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(quote!(#(#columns)*))
}

fn column(field: &Field<'_>, entity: &Ident, vis: &Visibility) -> Result<TokenStream> {
    let constant = format_ident!("{}", names::constant(&field.ident.to_string()));
    let (ident, inner, name) = (field.ident, field.inner, &field.name);
    let client = quote!(::lazuli_client);
    let said = &field.attributes;
    Ok(match field.place() {
        Place::Key | Place::KeyIfExact => {
            let (doc, text) = (format!("The key field `{ident}`."), ident.to_string());
            quote! {
                #[doc = #doc]
                #vis const #constant: #client::KeyColumn<#entity, #inner> =
                    #client::KeyColumn::new(#text, |partition, row| {
                        ::core::result::Result::Ok(parse_key(partition, row)?.#ident)
                    });
            }
        }
        Place::Property if said.series.is_some() => {
            let value = argument_of(inner, "Series");
            let value = value.ok_or_else(|| field.error("a series is a `Series<V, N>`"))?;
            let doc = format!("The properties `{name}..`.");
            quote! {
                #[doc = #doc]
                #vis const #constant: #client::SeriesColumn<#entity, #value> =
                    #client::SeriesColumn::new(#name, <#inner>::POINTS);
            }
        }
        Place::Property | Place::Both => {
            let form = field.form()?;
            let access = if said.encrypt {
                quote!(#client::Encrypted)
            } else if said.chunked {
                quote!(#client::Scattered)
            } else if field.is_optional || said.default.is_some() {
                quote!(#client::Optional)
            } else {
                quote!(#client::Required)
            };
            let doc = format!("The property `{name}`.");
            quote! {
                #[doc = #doc]
                #vis const #constant: #client::TypedColumn<#entity, #inner, #form, #access> =
                    #client::TypedColumn::new(#name);
            }
        }
        _ => quote!(),
    })
}
