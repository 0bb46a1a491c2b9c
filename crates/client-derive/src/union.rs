//! `#[derive(TableUnion)]`: several types in one table (C-6).

use crate::attributes::{Container, FieldAttributes};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Ident, Result, Type};

struct Variant<'a> {
    ident: &'a Ident,
    ty: &'a Type,
    is_other: bool,
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let container = Container::parse(&input.attrs)?;
    let variants = variants(input)?;
    let (others, typed): (Vec<_>, Vec<_>) = variants.iter().partition(|variant| variant.is_other);
    let other = match others.as_slice() {
        [] => None,
        [other] => Some(*other),
        [_, second, ..] => {
            return Err(Error::new(second.ident.span(), "one variant takes the others"));
        }
    };
    let ident = &input.ident;
    let client = quote!(::lazuli_client);
    let property = match &container.discriminator {
        Some(name) => quote!(#name),
        None => quote!(#client::Kind::PROPERTY),
    };
    let (idents, types): (Vec<_>, Vec<_>) = variants.iter().map(|v| (v.ident, v.ty)).unzip();
    let (typed_idents, typed_types): (Vec<_>, Vec<_>) =
        typed.iter().map(|v| (v.ident, v.ty)).unzip();
    let (by_row, is_model) = (container.by_row, container.model);
    let checks = checks(&types, &typed_types, &property, by_row);
    let fallback = match other {
        Some(other) => {
            let (variant, ty) = (other.ident, other.ty);
            quote!(<#ty as #client::TableEntity>::read(entity).map(Self::#variant))
        }
        None => quote! {
            ::core::result::Result::Err(#client::__private::foreign_kind(&entity, #property))
        },
    };
    let newer = match other {
        Some(_) => quote!(true),
        None => quote!(false),
    };
    let arms = typed_idents.iter().zip(&typed_types).enumerate().map(|(index, (variant, ty))| {
        quote! {
            ::core::option::Option::Some(#index) => {
                <#ty as #client::TableEntity>::read(entity).map(Self::#variant)
            }
        }
    });
    let shape_arms = typed_types.iter().enumerate().map(|(index, ty)| {
        quote! {
            ::core::option::Option::Some(#index) => {
                <#ty as #client::TableEntity>::shape_of(entity)
            }
        }
    });
    let other_shape = match other {
        Some(other) => {
            let ty = other.ty;
            quote!(<#ty as #client::TableEntity>::shape_of(entity))
        }
        None => quote!(#client::__private::Shape::of::<Self>()),
    };
    let vis = &input.vis;
    let model = container.model.then(|| model(ident, &typed_types));
    Ok(quote! {
        const _: () = {
            #checks

            const MEMBERS: &[#client::__private::Member] = &[
                #(#client::__private::Member::of::<#typed_types>()),*
            ];
            const PROPERTY_COUNT: usize =
                0 #(+ <#types as #client::TableEntity>::PROPERTIES.len())*;
            const PROPERTIES: [#client::PropertyDef; PROPERTY_COUNT] = #client::__private::concat(
                &[#(<#types as #client::TableEntity>::PROPERTIES),*],
                #client::PropertyDef::new("", "", ::core::option::Option::None),
            );
            const SHAPE_COUNT: usize = 0 #(+ <#types as #client::TableEntity>::SHAPES.len())*;
            const SHAPES: [#client::__private::Shape; SHAPE_COUNT] = #client::__private::concat(
                &[#(<#types as #client::TableEntity>::SHAPES),*],
                #client::__private::Shape::of::<#client::Entity>(),
            );

            #[automatically_derived]
            impl #client::TableEntity for #ident {
                const PROPERTIES: &'static [#client::PropertyDef] = &PROPERTIES;
                const SHAPES: &'static [#client::__private::Shape] = &SHAPES;
                const IS_MODEL: bool = #is_model;

                fn shape(&self) -> #client::__private::Shape {
                    match self {
                        #(Self::#idents(value) => <#types as #client::TableEntity>::shape(value),)*
                    }
                }

                fn shape_of(entity: &#client::Entity) -> #client::__private::Shape {
                    let found = #client::__private::member_of(entity, MEMBERS, #property, #by_row, #newer);
                    match found {
                        #(#shape_arms)*
                        // The property may be absent because of a projection.
                        _ if !#by_row && entity.value(#property).is_none() => {
                            #client::__private::Shape::of::<Self>()
                        }
                        _ => #other_shape,
                    }
                }

                fn index_key(
                    &self,
                    index: usize,
                ) -> ::core::result::Result<
                    ::core::option::Option<#client::EntityKey>,
                    #client::KeyError,
                > {
                    match self {
                        #(Self::#idents(value) => {
                            <#types as #client::TableEntity>::index_key(value, index)
                        })*
                    }
                }

                fn key(&self) -> ::core::result::Result<#client::EntityKey, #client::KeyError> {
                    match self {
                        #(Self::#idents(value) => <#types as #client::TableEntity>::key(value),)*
                    }
                }

                fn write(
                    &self,
                    out: &mut #client::Properties,
                ) -> ::core::result::Result<(), #client::EncodeError> {
                    match self {
                        #(Self::#idents(value) => <#types as #client::TableEntity>::write(value, out),)*
                    }
                }

                fn read(
                    entity: #client::Entity,
                ) -> ::core::result::Result<Self, #client::DecodeError> {
                    let found = #client::__private::member_of(&entity, MEMBERS, #property, #by_row, #newer);
                    match found {
                        #(#arms)*
                        _ => #fallback,
                    }
                }
            }

            #[automatically_derived]
            impl #client::Union for #ident {
                fn kind_of(entity: &#client::Entity) -> ::core::option::Option<&'static str> {
                    let found = #client::__private::member_of(entity, MEMBERS, #property, #by_row, #newer);
                    found.and_then(|index| MEMBERS.get(index)).and_then(|member| member.kind_name())
                }
            }

            #(
                impl ::core::convert::From<#typed_types> for #ident {
                    fn from(value: #typed_types) -> Self {
                        Self::#typed_idents(value)
                    }
                }
            )*

            #model

            #[allow(dead_code)]
            impl #ident {
                /// The kind of an entity, without decoding it (C-6.6).
                #vis fn kind_of(entity: &#client::Entity) -> ::core::option::Option<&'static str> {
                    <Self as #client::Union>::kind_of(entity)
                }
            }
        };
    })
}

/// The code for what the types of a model declare about each other (P-15.3).
fn model(ident: &Ident, types: &[&Type]) -> TokenStream {
    let client = quote!(::lazuli_client);
    let (private, summary) = (quote!(#client::__private), quote!(#client::patterns::summary));
    let members = types.iter().map(|member| {
        quote! {
            #[automatically_derived]
            impl #summary::MemberOf<#ident> for #member {
                const IS_SUMMARY: bool = {
                    #[allow(unused_imports)]
                    use #private::NoSummary as _;
                    false #(|| #private::Pair::<#types, #member>::IS_SUMMARY)*
                };

                fn follow<'a>(
                    table: &'a #client::Table<#client::Entity>,
                    tx: &'a #client::Transaction,
                    old: ::core::option::Option<&'a Self>,
                    new: ::core::option::Option<&'a Self>,
                ) -> #client::BoxFuture<'a, ::core::result::Result<(), #client::Error>> {
                    #[allow(unused_imports)]
                    use #private::{Related as _, Unrelated as _};
                    ::std::boxed::Box::pin(async move {
                        #((&#private::Pair::<#member, #types>::new()).follow(table, tx, old, new).await?;)*
                        ::core::result::Result::Ok(())
                    })
                }

                fn clear(&mut self) {
                    #[allow(unused_imports)]
                    use #private::{Related as _, Unrelated as _};
                    #((&#private::Pair::<#types, #member>::new()).clear(self);)*
                }

                fn fill<'a>(
                    &'a mut self,
                    tx: &'a #client::Transaction,
                ) -> #client::BoxFuture<'a, ::core::result::Result<(), #client::Error>> {
                    #[allow(unused_imports)]
                    use #private::{Related as _, Unrelated as _};
                    ::std::boxed::Box::pin(async move {
                        #((&#private::Pair::<#types, #member>::new()).fill(&mut *self, tx).await?;)*
                        ::core::result::Result::Ok(())
                    })
                }
            }
        }
    });
    quote! {
        #[automatically_derived]
        impl #summary::Model for #ident {}

        #(#members)*
    }
}

fn variants(input: &DeriveInput) -> Result<Vec<Variant<'_>>> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "a union is an enum of entity types"));
    };
    let variants = data.variants.iter().map(|variant| {
        let is_other = FieldAttributes::parse(&variant.attrs)?.other;
        let ty = match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => fields.unnamed.first(),
            _ => None,
        };
        let ty = ty.ok_or_else(|| Error::new(variant.ident.span(), "expected one entity type"))?;
        Ok(Variant { ident: &variant.ident, ty: &ty.ty, is_other })
    });
    variants.collect()
}

/// Compile-time checks that the types can be distinguished (C-6.2, P-0.4).
fn checks(all: &[&Type], types: &[&Type], property: &TokenStream, by_row: bool) -> TokenStream {
    let client = quote!(::lazuli_client);
    let rows = all.iter().map(|ty| {
        let wide = format!("{} is wide: a union takes types of one row", quote!(#ty));
        quote!(assert!(<#ty as #client::TableEntity>::PARTS == 0, #wide);)
    });
    let each = types.iter().map(|ty| {
        let name = quote!(#ty).to_string();
        let message = format!("{name} has no kind of this discriminator");
        let open = format!("the row template of {name} begins with no literal");
        if by_row {
            quote!(assert!(!<#ty as #client::TableEntity>::LAYOUT.row_prefix.is_empty(), #open);)
        } else {
            quote!(assert!(
                #client::__private::is_kind(<#ty as #client::TableEntity>::KIND, #property),
                #message
            );)
        }
    });
    let pairs = types
        .iter()
        .enumerate()
        .flat_map(|(index, first)| types.iter().skip(index + 1).map(move |second| (first, second)));
    let pairs = pairs.map(|(first, second)| {
        let (a, b) = (quote!(#first).to_string(), quote!(#second).to_string());
        let message =
            format!("row keys of {a} and {b} cannot be told apart by what they begin with");
        quote!(assert!(
            #client::__private::are_apart(
                &<#first as #client::TableEntity>::LAYOUT,
                &<#second as #client::TableEntity>::LAYOUT,
            ),
            #message
        );)
    });
    quote!(const _: () = { #(#rows)* #(#each)* #(#pairs)* };)
}
