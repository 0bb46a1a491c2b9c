//! The fields of a struct: how each is written and read.

use crate::attributes::{Container, FieldAttributes, Flatten};
use crate::template::Spec;
use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, Fields, GenericArgument, Ident, PathArguments, Result, Type,
    Visibility,
};

/// A field with its attributes.
pub(crate) struct Field<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) ty: &'a Type,
    pub(crate) vis: &'a Visibility,
    /// The type without `Option`.
    pub(crate) inner: &'a Type,
    pub(crate) is_optional: bool,
    pub(crate) attributes: FieldAttributes,
    /// The name of its property.
    pub(crate) name: String,
    /// How the keys of its entity format it.
    pub(crate) key_specs: Vec<Spec>,
}

/// Where a field is stored.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Place {
    Property,
    /// Only in the key.
    Key,
    /// Both in the key and as a property.
    Both,
    /// In the key if that stores the full value, else as a property.
    KeyIfExact,
    Flattened,
    ETag,
    Timestamp,
    Rest,
    Nowhere,
}

/// The named fields of a struct without type parameters.
pub(crate) fn fields<'a>(input: &'a DeriveInput, container: &Container) -> Result<Vec<Field<'a>>> {
    if !input.generics.params.is_empty() {
        return Err(Error::new(input.generics.span(), "a stored type has no parameters"));
    }
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => &fields.named,
            _ => return Err(Error::new(input.ident.span(), "expected named fields")),
        },
        _ => return Err(Error::new(input.ident.span(), "expected a struct")),
    };
    fields
        .iter()
        .filter_map(|field| Some((field, field.ident.as_ref()?)))
        .map(|(field, ident)| {
            let attributes = FieldAttributes::parse(&field.attrs)?;
            let (inner, is_optional) = match argument_of(&field.ty, "Option") {
                Some(inner) => (inner, true),
                None => (&field.ty, false),
            };
            let series = attributes.series.as_ref().map(|series| &series.prefix);
            let name = match attributes.name.as_ref().or(series) {
                Some(name) => name.value(),
                None => container.rename.apply(&ident.to_string()),
            };
            let (ty, vis, key_specs) = (&field.ty, &field.vis, Vec::new());
            Ok(Field { ident, ty, vis, inner, is_optional, attributes, name, key_specs })
        })
        .collect()
}

/// The argument of a generic type by its last name: `T` of `Option<T>`.
pub(crate) fn argument_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Whether a type is a string, judged by its name.
pub(crate) fn is_text(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let is_str = |ty: &Type| matches!(ty, Type::Path(path) if path.path.is_ident("str"));
    path.path.segments.last().is_some_and(|last| last.ident == "String")
        || ["Box", "Arc"].iter().any(|name| argument_of(ty, name).is_some_and(is_str))
}

/// Whether a type is an integer, judged by its name.
pub(crate) fn is_integer(ty: &Type) -> bool {
    const INTEGERS: [&str; 12] =
        ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize"];
    matches!(ty, Type::Path(path) if INTEGERS.iter().any(|name| path.path.is_ident(name)))
}

impl Field<'_> {
    pub(crate) fn error(&self, message: impl std::fmt::Display) -> Error {
        Error::new(self.ident.span(), message)
    }

    pub(crate) fn place(&self) -> Place {
        let attributes = &self.attributes;
        if attributes.skip {
            Place::Nowhere
        } else if attributes.etag {
            Place::ETag
        } else if attributes.timestamp {
            Place::Timestamp
        } else if attributes.rest {
            Place::Rest
        } else if attributes.flatten.is_some() || attributes.large.is_some() || self.is_link() {
            Place::Flattened
        } else if self.key_specs.is_empty() || self.key_specs.iter().all(|spec| spec.is_bucket()) {
            Place::Property
        } else if attributes.also_property {
            Place::Both
        } else if self.key_specs.iter().all(|spec| spec.is_bucket() || spec.calendar().is_some()) {
            Place::KeyIfExact
        } else {
            Place::Key
        }
    }

    /// Whether it is a `Link<T>`, which takes two properties.
    fn is_link(&self) -> bool {
        argument_of(self.inner, "Link").is_some()
    }

    /// Whether it has a property of its own.
    pub(crate) fn has_property(&self) -> bool {
        matches!(self.place(), Place::Property | Place::Both | Place::KeyIfExact)
    }

    /// A constant expression: whether the key stores the full value of the field.
    pub(crate) fn is_exact(&self) -> TokenStream {
        let ty = self.ty;
        let exact = self
            .key_specs
            .iter()
            .filter_map(|spec| spec.calendar().map(|calendar| (spec, calendar)));
        let exact = exact
            .filter(|(spec, _)| **spec != Spec::Month)
            .map(|_| quote!(<#ty as ::lazuli_client::key_part::KeyCalendar>::IS_DATE));
        quote!((false #(|| #exact)*))
    }

    /// The marker type of the form it is stored in.
    pub(crate) fn form(&self) -> Result<TokenStream> {
        let form = quote!(::lazuli_client::form);
        if self.attributes.json {
            return Ok(quote!(#form::Json));
        }
        let Some(text) = &self.attributes.form else { return Ok(quote!(#form::Plain)) };
        Ok(match text.value().as_str() {
            "int32" => quote!(#form::Int32),
            "bits" => quote!(#form::Bits),
            "text" => quote!(#form::Text),
            "iso" => quote!(#form::Iso),
            "double" => quote!(#form::Double),
            _ => {
                let message = "expected int32, bits, text, iso or double";
                return Err(Error::new(text.span(), message));
            }
        })
    }

    /// The prefix of its properties' names, if it is flattened.
    pub(crate) fn prefix(&self) -> String {
        match &self.attributes.flatten {
            Some(Flatten { prefix: Some(prefix), .. }) => prefix.value(),
            Some(Flatten { prefix: None, delimiter }) => format!("{}{delimiter}", self.name),
            None => self.name.clone(),
        }
    }

    /// A statement: appends the field of `self` to `out`. Names are prefixed with `prefix`, if given.
    pub(crate) fn write(&self, prefix: Option<&TokenStream>) -> Result<TokenStream> {
        let (ident, inner, name) = (self.ident, self.inner, &self.name);
        let private = quote!(::lazuli_client::__private);
        let name = match prefix {
            Some(prefix) => quote!(#private::prefixed(#prefix, #name)),
            None => quote!(#name),
        };
        let write = |value: TokenStream| -> Result<TokenStream> {
            let form = self.form()?;
            Ok(if self.attributes.chunked {
                quote! {
                    let stored = <#inner as ::lazuli_client::form::StoredAs<#form>>::store(#value)?;
                    #private::push_chunked(out, ::std::borrow::Cow::from(#name), stored);
                }
            } else {
                quote!(out.store::<#form, #inner>(#name, #value)?;)
            })
        };
        if self.attributes.series.is_some() {
            return Ok(quote!(self.#ident.write_points(&#name, out)?;));
        }
        let place = self.place();
        Ok(match place {
            Place::Property | Place::Both | Place::KeyIfExact => {
                let statement = if self.is_optional {
                    let write = write(quote!(value))?;
                    quote!(if let ::core::option::Option::Some(value) = &self.#ident { #write })
                } else {
                    let write = write(quote!(&self.#ident))?;
                    quote!({ #write })
                };
                let exact = self.is_exact();
                match place {
                    Place::KeyIfExact => quote!(if !#exact #statement),
                    _ => statement,
                }
            }
            Place::Flattened => {
                let inside = self.inner_prefix(prefix);
                let write = |value: TokenStream| quote!(<#inner as ::lazuli_client::TableFields>::write_fields(#value, #inside, out)?;);
                if self.is_optional {
                    let write = write(quote!(value));
                    quote!(if let ::core::option::Option::Some(value) = &self.#ident { #write })
                } else {
                    write(quote!(&self.#ident))
                }
            }
            Place::Rest => quote! {
                for (name, value) in &self.#ident {
                    out.push(name.clone(), value.clone());
                }
            },
            Place::Key | Place::ETag | Place::Timestamp | Place::Nowhere => quote!(),
        })
    }

    /// An expression: the field, read from `fields`. The parsed key is `key`.
    pub(crate) fn read(&self, prefix: Option<&TokenStream>) -> Result<TokenStream> {
        let (ident, inner, plain_name) = (self.ident, self.inner, &self.name);
        let name = match prefix {
            Some(prefix) => quote!(&*::lazuli_client::__private::prefixed(#prefix, #plain_name)),
            None => quote!(#plain_name),
        };
        Ok(match self.place() {
            Place::Property => self.read_property(&name)?,
            Place::KeyIfExact => {
                let (exact, read) = (self.is_exact(), self.read_property(&name)?);
                quote!(if #exact { key.#ident } else { #read })
            }
            Place::Both => {
                let form = self.form()?;
                quote! {{
                    let stored = fields.optional::<#form, #inner>(#name)?;
                    if stored.is_some_and(|stored| stored != key.#ident) {
                        return ::core::result::Result::Err(
                            fields.error(#name, ::lazuli_client::ValueError::KeyMismatch),
                        );
                    }
                    key.#ident
                }}
            }
            Place::Key => quote!(key.#ident),
            Place::Flattened => {
                let inside = self.inner_prefix(prefix);
                let fields = quote!(<#inner as ::lazuli_client::TableFields>);
                if self.is_optional {
                    quote! {
                        if fields.has_any(#inside, #fields::PROPERTIES) {
                            ::core::option::Option::Some(#fields::read_fields(#inside, fields)?)
                        } else {
                            ::core::option::Option::None
                        }
                    }
                } else {
                    quote!(#fields::read_fields(#inside, fields)?)
                }
            }
            Place::ETag => quote!(fields.etag()),
            Place::Timestamp => quote!(fields.timestamp()),
            Place::Rest => quote!(fields.rest().into_iter().collect()),
            Place::Nowhere => match &self.attributes.default {
                Some(Some(value)) => quote!(#value),
                _ => quote!(::core::default::Default::default()),
            },
        })
    }

    fn read_property(&self, name: &TokenStream) -> Result<TokenStream> {
        let (inner, form) = (self.inner, self.form()?);
        if self.attributes.series.is_some() {
            return Ok(quote!(<#inner>::read_points(#name, fields)?));
        }
        let optional = if self.attributes.chunked {
            quote!(fields.chunked::<#form, #inner>(#name)?)
        } else {
            quote!(fields.optional::<#form, #inner>(#name)?)
        };
        Ok(match (&self.attributes.default, self.is_optional) {
            (None, true) => optional,
            (Some(None), false) => quote!(#optional.unwrap_or_default()),
            (Some(Some(value)), false) => quote!(#optional.unwrap_or_else(|| #value)),
            (Some(Some(value)), true) => quote!(#optional.or_else(|| #value)),
            (Some(None), true) => optional,
            (None, false) if self.attributes.chunked => quote! {
                match #optional {
                    ::core::option::Option::Some(value) => value,
                    ::core::option::Option::None => return ::core::result::Result::Err(
                        fields.error(#name, ::lazuli_client::ValueError::Missing),
                    ),
                }
            },
            (None, false) => quote!(fields.required::<#form, #inner>(#name)?),
        })
    }

    fn inner_prefix(&self, prefix: Option<&TokenStream>) -> TokenStream {
        let own = self.prefix();
        match prefix {
            Some(prefix) => quote!(&*::std::format!("{}{}", #prefix, #own)),
            None => quote!(#own),
        }
    }

    /// The same for a value that may be in a blob.
    fn large_definition(&self) -> TokenStream {
        let (field, name) = (self.ident.to_string(), &self.name);
        let client = quote!(::lazuli_client);
        let rule = self.attributes.large.as_ref().map(|large| {
            let (container, chunked) = (&large.container, large.chunked_max);
            let inline = match large.inline_max {
                Some(bytes) => quote!(::core::option::Option::Some(#bytes)),
                None => quote!(::core::option::Option::None),
            };
            quote!(#client::LargeRule::new(#container, #inline, #chunked))
        });
        quote! {
            #client::PropertyDef::new(#field, #name, ::core::option::Option::None)
                .stored(#client::Storage::Large(#rule))
        }
    }

    /// An expression: the declaration of its property; `None` if it has none.
    pub(crate) fn definition(&self) -> Result<Option<TokenStream>> {
        let (field, inner, name) = (self.ident.to_string(), self.inner, &self.name);
        let client = quote!(::lazuli_client);
        Ok(Some(match self.place() {
            Place::Flattened if self.attributes.large.is_some() => self.large_definition(),
            Place::Flattened => {
                let (prefix, part) = (self.prefix(), self.attributes.part);
                quote! {
                    #client::PropertyDef::new(#field, #prefix, ::core::option::Option::None)
                        .stored(#client::Storage::Flattened(
                            <#inner as #client::TableFields>::PROPERTIES,
                        ))
                        .in_part(#part)
                }
            }
            Place::Property if self.attributes.series.is_some() => {
                let part = self.attributes.part;
                quote! {
                    #client::PropertyDef::new(#field, #name, ::core::option::Option::None)
                        .stored(#client::Storage::Series { points: <#inner>::POINTS })
                        .in_part(#part)
                }
            }
            Place::Property | Place::Both | Place::KeyIfExact => {
                let form = self.form()?;
                let edm = quote!(#client::__private::edm_of::<#form, #inner>());
                let mut definition = quote!(
                    #client::PropertyDef::new(#field, #name, ::core::option::Option::Some(#edm))
                );
                if self.attributes.chunked {
                    definition = quote!(#definition.stored(#client::Storage::Chunked));
                }
                if self.attributes.encrypt {
                    let (blind, pad) = (self.attributes.blind_index, self.attributes.pad);
                    definition = quote!(#definition.encrypted(#blind).padded(#pad));
                }
                if self.attributes.part > 0 {
                    let part = self.attributes.part;
                    definition = quote!(#definition.in_part(#part));
                }
                if self.place() == Place::KeyIfExact {
                    let exact = self.is_exact();
                    definition = quote!(
                        if #exact { #definition.stored(#client::Storage::Key) } else { #definition }
                    );
                }
                definition
            }
            _ => return Ok(None),
        }))
    }
}
