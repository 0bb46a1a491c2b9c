//! Ranges of keys, field by field (C-4.9).

use crate::field::{self, Field};
use crate::keys::{self, Keys};
use crate::template::{Segment, Spec, Template};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Ident, Result, Visibility};

/// What a range selects.
pub(crate) struct Target {
    /// The entity type, or the index.
    pub(crate) marker: Ident,
    /// The function that starts a range.
    pub(crate) function: Ident,
    pub(crate) is_index: bool,
}

/// The function `range`, and a type for each field of the row key that can follow.
pub(crate) fn ranges(
    keys: &Keys,
    fields: &[Field<'_>],
    ident: &Ident,
    vis: &Visibility,
) -> Result<(TokenStream, TokenStream)> {
    let target =
        Target { marker: ident.clone(), function: format_ident!("range"), is_index: false };
    of_templates(&keys.partition, &keys.row, fields, &target, vis)
}

/// The function that starts a range of keys of two templates, and the types that continue it.
pub(crate) fn of_templates(
    partition: &Template,
    row: &Template,
    fields: &[Field<'_>],
    target: &Target,
    vis: &Visibility,
) -> Result<(TokenStream, TokenStream)> {
    let arguments = keys::arguments(&[partition], fields)?;
    let (parameters, conversions) = keys::parameters(&arguments);
    let partition = keys::write(partition, fields, |ident| quote!(&#ident))?;
    let prefix = row.prefix();
    let stages = stages(row, fields, &arguments, &target.marker)?;
    let first = match stages.first() {
        Some(stage) => stage.ident.clone(),
        None => format_ident!("{}Range", target.marker),
    };
    let types = stages.iter().map(|stage| stage.tokens(target, vis));
    let none = if stages.is_empty() { closed(&first, target, vis) } else { quote!() };
    let name = &target.function;
    let function = quote! {
        /// The entities of a partition. Add fields of the row key to narrow it.
        #vis fn #name(#(#parameters),*) -> #first {
            #(#conversions)*
            let partition = (|| #partition)();
            #first(::lazuli_client::KeyRange::new(partition, #prefix))
        }
    };
    Ok((function, quote!(#(#types)* #none)))
}

/// Expressions that fix the first fields of a row key in `range`, each to the variable with its name.
pub(crate) fn leading_parts(
    row: &Template,
    fields: &[Field<'_>],
    count: usize,
) -> Result<Vec<TokenStream>> {
    let stages = stages(row, fields, &[], &format_ident!("unused"))?;
    Ok(stages
        .iter()
        .take(count)
        .map(|stage| {
            let (part, ident) = (stage.part(), stage.field.ident);
            quote!(range.fix(&#part, &#ident))
        })
        .collect())
}

struct Stage<'a> {
    ident: Ident,
    next: TokenStream,
    field: &'a Field<'a>,
    spec: Spec,
    literal: String,
    separator: Option<char>,
    is_last: bool,
}

fn stages<'f>(
    row: &Template,
    fields: &'f [Field<'f>],
    of_partition: &[&Field<'_>],
    ident: &Ident,
) -> Result<Vec<Stage<'f>>> {
    let mut found: Vec<Stage<'f>> = Vec::new();
    for (index, segment) in row.segments.iter().enumerate() {
        let Segment::Field { name, spec } = segment else { continue };
        let field = keys::find(fields, name, row)?;
        let is_known = found.iter().any(|stage| stage.field.ident == field.ident)
            || of_partition.iter().any(|known| known.ident == field.ident);
        // The next field has a value already, so the range must end here.
        if is_known {
            break;
        }
        let literal = row.literal_after(index).to_owned();
        let after = if literal.is_empty() { index + 1 } else { index + 2 };
        found.push(Stage {
            ident: format_ident!("{ident}Range{}", found.len()),
            next: quote!(),
            field,
            spec: *spec,
            literal,
            separator: row.separator(index),
            is_last: after >= row.segments.len(),
        });
    }
    let idents: Vec<_> = found.iter().map(|stage| stage.ident.clone()).collect();
    for (index, stage) in found.iter_mut().enumerate() {
        stage.next = match idents.get(index + 1) {
            Some(next) => quote!(#next),
            None => quote!(::lazuli_client::KeyRange<#ident>),
        };
    }
    Ok(found)
}

impl Stage<'_> {
    /// The description of the field for a range.
    fn part(&self) -> TokenStream {
        let (ty, literal, is_last) = (self.field.inner, &self.literal, self.is_last);
        let is_reversed = self.spec == Spec::Rev;
        let write = self.spec.write(ty, &quote!(value), self.separator);
        quote! {
            ::lazuli_client::__private::Part::<#ty> {
                write: |value, out| { #write; ::core::result::Result::Ok(()) },
                literal: #literal,
                is_last: #is_last,
                is_reversed: #is_reversed,
            }
        }
    }

    fn tokens(&self, target: &Target, vis: &Visibility) -> TokenStream {
        let (stage, next, entity) = (&self.ident, &self.next, &target.marker);
        let (name, ty, is_last) = (self.field.ident, self.field.inner, self.is_last);
        let part = self.part();
        let is_sorted = match self.spec {
            Spec::Unsorted | Spec::Bucket(_) => false,
            Spec::Plain if field::is_integer(ty) => false,
            // Before a literal, texts sort by the literal too, not only by the field's value.
            Spec::Plain | Spec::Lower | Spec::Hex => is_last,
            _ => true,
        };
        let method = if is_sorted {
            let doc = format!("Only this value of `{name}`, or a range of values.");
            quote! {
                #[doc = #doc]
                #vis fn #name<B: ::lazuli_client::KeyBound<#ty>>(self, bound: B) -> B::Then<#entity, #next> {
                    bound.apply(self.0, &#part)
                }
            }
        } else if field::is_text(ty) {
            let doc = format!("Only this value of `{name}`.");
            quote! {
                #[doc = #doc]
                #vis fn #name(self, value: impl ::core::convert::AsRef<str>) -> #next {
                    let value: #ty = value.as_ref().into();
                    self.0.fix(&#part, &value).into()
                }
            }
        } else {
            let doc = format!("Only this value of `{name}`.");
            quote! {
                #[doc = #doc]
                #vis fn #name(self, value: #ty) -> #next {
                    self.0.fix(&#part, &value).into()
                }
            }
        };
        let prefix = if self.spec.is_text() && field::is_text(ty) {
            let method = format_ident!("{name}_prefix");
            let doc = format!("Only values of `{name}` that begin with a text.");
            quote! {
                #[doc = #doc]
                #vis fn #method(self, prefix: impl ::core::convert::AsRef<str>) -> ::lazuli_client::KeyRange<#entity> {
                    let prefix: #ty = prefix.as_ref().into();
                    self.0.starting(&#part, &prefix)
                }
            }
        } else {
            quote!()
        };
        let closed = closed(stage, target, vis);
        quote! {
            #closed
            impl #stage {
                #method
                #prefix
            }
        }
    }
}

/// A range that can be narrowed by more fields.
fn closed(stage: &Ident, target: &Target, vis: &Visibility) -> TokenStream {
    let entity = &target.marker;
    let doc = format!("A range of keys of [`{entity}`] that is being described.");
    let index = target.is_index.then(|| {
        quote! {
            impl ::lazuli_client::IndexQuery for #stage {
                type Index = #entity;

                fn into_range(self) -> ::lazuli_client::KeyRange<#entity> {
                    self.0
                }
            }
        }
    });
    quote! {
        #index
        #[doc = #doc]
        #[derive(Clone, Debug)]
        #[must_use = "a range does nothing by itself: give it to `query`"]
        #vis struct #stage(::lazuli_client::KeyRange<#entity>);

        impl #stage {
            /// Only entities for which this is true as well.
            #vis fn filter(self, filter: ::lazuli_client::Filter) -> ::lazuli_client::KeyRange<#entity> {
                self.0.filter(filter)
            }
        }

        impl ::core::convert::From<::lazuli_client::KeyRange<#entity>> for #stage {
            fn from(range: ::lazuli_client::KeyRange<#entity>) -> Self {
                Self(range)
            }
        }

        impl ::core::convert::From<#stage> for ::lazuli_client::KeyRange<#entity> {
            fn from(stage: #stage) -> Self {
                stage.0
            }
        }

        impl ::core::convert::From<#stage> for ::lazuli_client::Selection {
            fn from(stage: #stage) -> Self {
                stage.0.into()
            }
        }

        impl ::core::fmt::Display for #stage {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(&self.0, f)
            }
        }
    }
}
