//! `#[derive(TableFields)]`: properties that other types include.

use crate::attributes::Container;
use crate::check;
use crate::field::{Place, fields};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Result};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let container = Container::parse(&input.attrs)?;
    let fields = fields(input, &container)?;
    check::check(&fields, &[], false)?;
    for field in &fields {
        if matches!(field.place(), Place::Rest | Place::ETag | Place::Timestamp) {
            return Err(field.error("only the entity itself has this"));
        }
        if field.attributes.series.is_some() {
            return Err(field.error("only the entity itself has a series"));
        }
        if field.attributes.kept.is_some() {
            return Err(field.error("only the entity itself keeps something of others"));
        }
    }
    let ident = &input.ident;
    let prefix = quote!(prefix);
    let writes =
        fields.iter().map(|field| field.write(Some(&prefix))).collect::<Result<Vec<_>>>()?;
    let reads = fields.iter().map(|field| field.read(Some(&prefix))).collect::<Result<Vec<_>>>()?;
    let idents = fields.iter().map(|field| field.ident);
    let definitions = fields.iter().map(|field| field.definition()).collect::<Result<Vec<_>>>()?;
    let definitions = definitions.into_iter().flatten();
    Ok(quote! {
        #[automatically_derived]
        impl ::lazuli_client::TableFields for #ident {
            const PROPERTIES: &'static [::lazuli_client::PropertyDef] = &[#(#definitions),*];

            fn write_fields(
                &self,
                prefix: &str,
                out: &mut ::lazuli_client::Properties,
            ) -> ::core::result::Result<(), ::lazuli_client::EncodeError> {
                #(#writes)*
                ::core::result::Result::Ok(())
            }

            fn read_fields(
                prefix: &str,
                fields: &mut ::lazuli_client::Fields,
            ) -> ::core::result::Result<Self, ::lazuli_client::DecodeError> {
                ::core::result::Result::Ok(Self { #(#idents: #reads),* })
            }
        }
    })
}
