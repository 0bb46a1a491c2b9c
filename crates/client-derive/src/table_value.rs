//! `#[derive(TableValue)]`: enums as properties and parts of keys (C-5.2).

use crate::attributes::{Container, FieldAttributes};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Result};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let container = Container::parse(&input.attrs)?;
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "expected an enum"));
    };
    let mut idents = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(variant.ident.span(), "a stored enum has no fields"));
        }
        let said = FieldAttributes::parse(&variant.attrs)?;
        let name = match said.name {
            Some(name) => name.value(),
            None => container.rename.apply(&variant.ident.to_string()),
        };
        if names.contains(&name) {
            return Err(Error::new(
                variant.ident.span(),
                format!("two variants are called `{name}`"),
            ));
        }
        names.push(name);
        idents.push(&variant.ident);
    }
    let ident = &input.ident;
    let client = quote!(::lazuli_client);
    let text = ident.to_string();
    let value = match container.form.as_ref().map(|form| (form.value(), form)) {
        None => quote! {
            const EDM_TYPE: #client::EdmType = #client::EdmType::String;

            fn to_value(&self) -> ::core::result::Result<#client::Value, #client::EncodeError> {
                let name: &'static str = match self { #(Self::#idents => #names),* };
                ::core::result::Result::Ok(#client::Value::String(::std::borrow::Cow::Borrowed(name)))
            }

            fn from_value(value: &#client::Value) -> ::core::result::Result<Self, #client::ValueError> {
                match value {
                    #client::Value::String(text) => match &**text {
                        #(#names => ::core::result::Result::Ok(Self::#idents),)*
                        _ => ::core::result::Result::Err(#client::ValueError::OutOfRange { expected: #text }),
                    },
                    other => ::core::result::Result::Err(
                        #client::__private::wrong_type(#client::EdmType::String, other),
                    ),
                }
            }
        },
        Some((form, _)) if form == "int32" => quote! {
            const EDM_TYPE: #client::EdmType = #client::EdmType::Int32;

            fn to_value(&self) -> ::core::result::Result<#client::Value, #client::EncodeError> {
                let number: i32 = match self { #(Self::#idents => Self::#idents as i32),* };
                ::core::result::Result::Ok(#client::Value::Int32(number))
            }

            fn from_value(value: &#client::Value) -> ::core::result::Result<Self, #client::ValueError> {
                let number = <i32 as #client::TableValue>::from_value(value)?;
                #(if number == Self::#idents as i32 {
                    return ::core::result::Result::Ok(Self::#idents);
                })*
                ::core::result::Result::Err(#client::ValueError::OutOfRange { expected: #text })
            }
        },
        Some((_, form)) => return Err(Error::new(form.span(), "expected \"int32\"")),
    };
    Ok(quote! {
        #[automatically_derived]
        impl #client::TableValue for #ident {
            #value
        }

        #[automatically_derived]
        impl #client::key_part::KeyText for #ident {
            fn write_text(
                &self,
                out: &mut ::std::string::String,
                separator: ::core::option::Option<char>,
            ) {
                let name: &'static str = match self { #(Self::#idents => #names),* };
                #client::__private::escape(out, name, separator);
            }

            fn parse_text(text: &str) -> ::core::option::Option<Self> {
                let text = <::std::string::String as #client::key_part::KeyText>::parse_text(text)?;
                match &*text {
                    #(#names => ::core::option::Option::Some(Self::#idents),)*
                    _ => ::core::option::Option::None,
                }
            }
        }

        #[automatically_derived]
        impl #client::IntoValue for #ident {
            fn into_value(self) -> #client::Value {
                // The name of a variant, or its number, always fits.
                #client::TableValue::to_value(&self)
                    .unwrap_or(#client::Value::String(::std::borrow::Cow::Borrowed("")))
            }
        }
    })
}
