//! `#[derive(Projection)]`: some columns of a type (C-7.20).

use crate::attributes::Container;
use crate::field::fields;
use crate::names;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, Error, Result};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let container = Container::parse(&input.attrs)?;
    let of = container.of.as_ref();
    let of = of.ok_or_else(|| Error::new(input.ident.span(), "say `#[table(of = Type)]`"))?;
    let fields = fields(input, &container)?;
    let ident = &input.ident;
    let client = quote!(::lazuli_client);
    let columns: Vec<_> = fields
        .iter()
        .map(|field| {
            let mut constant = format_ident!("{}", names::constant(&field.ident.to_string()));
            constant.set_span(field.ident.span());
            constant
        })
        .collect();
    let idents = fields.iter().map(|field| field.ident);
    Ok(quote! {
        #[automatically_derived]
        impl #client::Projection for #ident {
            type Of = #of;

            fn names() -> ::std::vec::Vec<&'static str> {
                let mut names = ::std::vec::Vec::new();
                #(#client::Select::<#of>::names(&#of::#columns, &mut names);)*
                names
            }

            fn read(
                fields: &mut #client::Fields,
            ) -> ::core::result::Result<Self, #client::DecodeError> {
                ::core::result::Result::Ok(Self {
                    #(#idents: #client::Select::<#of>::read(&#of::#columns, fields)?),*
                })
            }
        }
    })
}
