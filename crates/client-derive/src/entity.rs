//! `#[derive(TableEntity)]`.

use crate::attributes::{Container, KeySource};
use crate::field::{Field, Place, fields};
use crate::index::{self, Indexes};
use crate::keys::{self, Keys};
use crate::list::{self, Lists};
use crate::template::{Spec, Template};
use crate::{check, columns, names, ranges, summary};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Ident, Path, Result, Visibility};

const DISCRIMINATOR: &str = "EntityType";

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let container = Container::parse(&input.attrs)?;
    let mut fields = fields(input, &container)?;
    let source = key_source(&container, &input.ident)?;
    if let Source::Templates(keys) = &source {
        note_uses(keys, &mut fields)?;
    }
    let discriminator = discriminator(&container)?;
    let extra: Vec<_> = discriminator.as_deref().into_iter().collect();
    check::check(&fields, &extra, container.wide.is_some())?;
    let of_keys = match &source {
        Source::Templates(keys) => of_keys(keys, &fields, &container, &input.ident, &input.vis)?,
        Source::Functions { .. } => OfKeys::default(),
    };
    let declared = index::parse(&input.attrs)?;
    if container.wide.is_some() && !declared.is_empty() {
        return Err(Error::new(input.ident.span(), "a wide entity has no indexes"));
    }
    let indexes = match &source {
        Source::Templates(keys) => {
            let (ident, vis, kind) = (&input.ident, &input.vis, container.kind.as_ref());
            index::indexes(&declared, &index::Of { keys, fields: &fields, ident, vis, kind })?
        }
        Source::Functions { .. } if declared.is_empty() => Indexes::default(),
        Source::Functions { .. } => {
            return Err(Error::new(input.ident.span(), "a type with indexes has key templates"));
        }
    };
    let listed = list::parse(&input.attrs)?;
    let lists = match &source {
        _ if listed.is_empty() => Lists::default(),
        Source::Templates(keys) if declared.is_empty() && container.wide.is_none() => {
            let (ident, vis, kind) = (&input.ident, &input.vis, container.kind.as_ref());
            list::lists(&listed, &index::Of { keys, fields: &fields, ident, vis, kind })?
        }
        _ => {
            let message = "a type with lists has key templates, no indexes, and one row";
            return Err(Error::new(input.ident.span(), message));
        }
    };
    let discriminator = discriminator.as_deref();
    let implementation =
        implementation(input, &container, &fields, &source, discriminator, &indexes, &lists)?;
    let list_functions = &lists.functions;
    let parent = parent(&container, &fields, &source, &input.ident)?;
    let templates = match &source {
        Source::Templates(keys) => Some(keys),
        Source::Functions { .. } => None,
    };
    let summaries = summary::summaries(&fields, templates, &input.ident)?;
    let columns = columns::columns(&fields, &input.ident, &input.vis)?;
    let OfKeys { structure, functions, items } = of_keys;
    let (ident, vis) = (&input.ident, &input.vis);
    let costs = match container.wide {
        Some(parts) => quote!(::lazuli_client::Costs::of_parts(#parts)),
        None => quote!(::lazuli_client::Costs::of(INDEXES)),
    };
    let Indexes { definitions, rows, functions: index_functions, items: index_items, .. } = indexes;
    Ok(quote! {
        #structure
        #rows
        const _: () = {
            const INDEXES: &[::lazuli_client::IndexDef] = &[#(#definitions),*];
            #items
            #index_items
            #implementation
            #parent
            #summaries
            #[allow(dead_code, clippy::too_many_arguments)]
            impl #ident {
                #columns
                #functions
                #index_functions
                #list_functions

                /// The costs of writes and reads (P-0.6).
                #vis const COST: ::lazuli_client::Costs = #costs;
            }
        };
    })
}

/// The implementation of `HasParent`, if the type has one (P-12.1).
fn parent(
    container: &Container,
    fields: &[Field<'_>],
    source: &Source,
    ident: &Ident,
) -> Result<TokenStream> {
    let Some((parent, by)) = &container.parent else { return Ok(quote!()) };
    let found = by.iter().map(|name| {
        let field = fields.iter().find(|field| field.ident == name);
        field.ok_or_else(|| Error::new(name.span(), "there is no such field"))
    });
    let found = found.collect::<Result<Vec<_>>>()?;
    let is_told = matches!(source, Source::Templates(_))
        && found.iter().all(|field| matches!(field.place(), Place::Key | Place::Both));
    let of_key = if is_told {
        quote! {
            let key = parse_key(key.partition.as_str(), key.row.as_str())?;
            <#parent>::key(#(key.#by.clone()),*).map(::core::option::Option::Some)
        }
    } else {
        quote! {
            let _ = key;
            ::core::result::Result::Ok(::core::option::Option::None)
        }
    };
    Ok(quote! {
        #[automatically_derived]
        impl ::lazuli_client::HasParent for #ident {
            type Parent = #parent;

            fn parent_key(&self) -> ::core::result::Result<
                ::lazuli_client::Key<#parent>,
                ::lazuli_client::KeyError,
            > {
                <#parent>::key(#(self.#by.clone()),*)
            }

            fn parent_of_key(key: &::lazuli_client::EntityKey) -> ::core::result::Result<
                ::core::option::Option<::lazuli_client::Key<#parent>>,
                ::lazuli_client::KeyError,
            > {
                #of_key
            }
        }
    })
}

/// How the keys of a type are made.
enum Source {
    Templates(Keys),
    Functions { partition: TokenStream, row: TokenStream },
}

fn key_source(container: &Container, ident: &Ident) -> Result<Source> {
    let missing = |what| Error::new(ident.span(), format!("say `#[table({what} = \"..\")]`"));
    let partition = container.partition.as_ref().ok_or_else(|| missing("partition"))?;
    let row = container.row.as_ref().ok_or_else(|| missing("row"))?;
    let call = |path: &Path| quote!(#path(self)?);
    Ok(match (partition, row) {
        (KeySource::Template(partition), KeySource::Template(row)) => Source::Templates(Keys {
            partition: Template::parse(partition)?,
            row: Template::parse(row)?,
        }),
        (KeySource::With(partition), KeySource::With(row)) => {
            Source::Functions { partition: call(partition), row: call(row) }
        }
        (_, KeySource::Template(text)) | (KeySource::Template(text), _) => {
            return Err(Error::new(text.span(), "both keys are templates, or both are functions"));
        }
    })
}

/// Records in each field how keys use it.
pub(crate) fn note_uses(keys: &Keys, fields: &mut [Field<'_>]) -> Result<()> {
    for template in [&keys.partition, &keys.row] {
        for (name, spec) in template.fields() {
            keys::find(fields, name, template)?;
            for field in fields.iter_mut().filter(|field| field.ident == name) {
                field.key_specs.push(spec);
            }
        }
    }
    Ok(())
}

/// The name of the property with the kind, if the type has one.
fn discriminator(container: &Container) -> Result<Option<String>> {
    let Some(kind) = &container.kind else {
        let said = container.version.is_some() || container.discriminator.is_some();
        return match &container.name {
            Some(name) if said => {
                Err(Error::new(name.span(), "a version or a discriminator needs a `kind`"))
            }
            _ => Ok(None),
        };
    };
    if kind.value().is_empty() || kind.value().contains('.') {
        return Err(Error::new(kind.span(), "a kind has a name without dots"));
    }
    let version = container.version.unwrap_or(1);
    if container.upgrades.last().is_some_and(|(from, _)| *from + 1 != version) {
        return Err(Error::new(kind.span(), "the last upgrade leads to the version of the type"));
    }
    match &container.discriminator {
        None => Ok(Some(DISCRIMINATOR.to_owned())),
        Some(name) => {
            names::check(&name.value(), name.span())?;
            Ok(Some(name.value()))
        }
    }
}

/// Code generated from key templates.
#[derive(Default)]
struct OfKeys {
    structure: TokenStream,
    functions: TokenStream,
    items: TokenStream,
}

fn of_keys(
    keys: &Keys,
    fields: &[Field<'_>],
    container: &Container,
    ident: &Ident,
    vis: &Visibility,
) -> Result<OfKeys> {
    let (structure, parse) = keys::parse(keys, fields, ident, vis)?;
    let key_ident = quote::format_ident!("{ident}Key");
    let arguments = keys::arguments(&[&keys.partition, &keys.row], fields)?;
    let (parameters, conversions) = keys::parameters(&arguments);
    let partition = keys::write(&keys.partition, fields, |ident| quote!(&#ident))?;
    let row = keys::write(&keys.row, fields, |ident| quote!(&#ident))?;
    let (range, stages) = ranges::ranges(keys, fields, ident, vis)?;
    let checks = [keys::checks(&keys.partition, fields)?, keys::checks(&keys.row, fields)?];
    let warnings = keys::warnings(keys, fields, container.allow_append)?;
    let children = container.shared_prefix.then(|| {
        quote! {
            /// The entity with these parts, and all whose row keys extend its own (P-6.1).
            #vis fn with_children(#(#parameters),*) -> ::core::result::Result<
                ::lazuli_client::Filter,
                ::lazuli_client::KeyError,
            > {
                #(#conversions)*
                let partition = #partition?;
                let row = #row?;
                let key = ::lazuli_client::EntityKey::parse(&partition, &row)?;
                ::core::result::Result::Ok(
                    ::lazuli_client::partition(key.partition.as_str())
                        .and(::lazuli_client::row().starts_with(key.row.as_str())),
                )
            }
        }
    });
    let functions = quote! {
        #children

        /// The key of the entity with these parts.
        #vis fn key(#(#parameters),*) -> ::core::result::Result<
            ::lazuli_client::Key<Self>,
            ::lazuli_client::KeyError,
        > {
            #(#conversions)*
            let partition = #partition?;
            let row = #row?;
            ::core::result::Result::Ok(::lazuli_client::Key::new(
                ::lazuli_client::EntityKey::parse(&partition, &row)?,
            ))
        }

        /// Parses a key; an error if no value of the type has such a key.
        #vis fn parse_key(
            key: &::lazuli_client::Key<Self>,
        ) -> ::core::result::Result<#key_ident, ::lazuli_client::KeyError> {
            let key = key.as_entity_key();
            parse_key(key.partition.as_str(), key.row.as_str())
        }

        #range
    };
    Ok(OfKeys { structure, functions, items: quote!(#(#checks)* #warnings #parse #stages) })
}

fn implementation(
    input: &DeriveInput,
    container: &Container,
    fields: &[Field<'_>],
    source: &Source,
    discriminator: Option<&str>,
    indexes: &Indexes,
    lists: &Lists,
) -> Result<TokenStream> {
    let ident = &input.ident;
    let table = match &container.name {
        Some(name) => {
            check_table_name(name)?;
            quote!(::core::option::Option::Some(#name))
        }
        None => quote!(::core::option::Option::None),
    };
    let kind = match (&container.kind, discriminator) {
        (Some(kind), Some(property)) => {
            let version = container.version.unwrap_or(1);
            quote!(::core::option::Option::Some(::lazuli_client::Kind {
                property: #property, name: #kind, version: #version,
            }))
        }
        _ => quote!(::core::option::Option::None),
    };
    let key = match source {
        Source::Templates(keys) => {
            let partition = keys::write(&keys.partition, fields, |ident| quote!(&self.#ident))?;
            let row = keys::write(&keys.row, fields, |ident| quote!(&self.#ident))?;
            quote!(let partition: ::std::string::String = #partition?; let row: ::std::string::String = #row?;)
        }
        Source::Functions { partition, row } => {
            quote!(let partition: ::std::string::String = #partition; let row: ::std::string::String = #row;)
        }
    };
    let layout = layout(container, source);
    let definitions = fields.iter().map(|field| field.definition()).collect::<Result<Vec<_>>>()?;
    let definitions = definitions.into_iter().flatten();
    let writes = fields.iter().map(|field| field.write(None)).collect::<Result<Vec<_>>>()?;
    let read = read(container, fields, source)?;
    let write_kind = container.kind.as_ref().map(|_| quote! {
        if let ::core::option::Option::Some(kind) = <Self as ::lazuli_client::TableEntity>::KIND {
            out.push_text(kind.property, kind.text());
        }
    });
    let index_key = (!indexes.keys.is_empty()).then(|| {
        let arms = &indexes.keys;
        quote! {
            fn index_key(&self, index: usize) -> ::core::result::Result<
                ::core::option::Option<::lazuli_client::EntityKey>,
                ::lazuli_client::KeyError,
            > {
                match index {
                    #(#arms)*
                    _ => ::core::result::Result::Ok(::core::option::Option::None),
                }
            }
        }
    });
    let Lists { definitions: list_definitions, entries, keys: listed_keys, .. } = lists;
    let list_functions = (!entries.is_empty()).then(|| {
        quote! {
            fn list_entry(&self, list: usize) -> ::core::result::Result<
                ::core::option::Option<(::lazuli_client::EntityKey, ::std::string::String)>,
                ::lazuli_client::KeyError,
            > {
                match list {
                    #(#entries)*
                    _ => ::core::result::Result::Ok(::core::option::Option::None),
                }
            }

            fn listed_key(
                number: usize,
                list: &::lazuli_client::EntityKey,
                item: &str,
            ) -> ::core::option::Option<::lazuli_client::EntityKey> {
                match number {
                    #(#listed_keys)*
                    _ => ::core::option::Option::None,
                }
            }
        }
    });
    let key_types = match source {
        Source::Templates(keys) => keys::types(&[&keys.partition, &keys.row], fields)?,
        Source::Functions { .. } => Vec::new(),
    };
    let index_types = &indexes.types;
    let write_ids = container.write_ids;
    let parts = container.wide.unwrap_or(0);
    let check = match container.wide {
        Some(_) => quote! {
            ::lazuli_client::__private::check_names(
                <#ident as ::lazuli_client::TableEntity>::PROPERTIES,
            );
            ::lazuli_client::__private::check_wide(
                <#ident as ::lazuli_client::TableEntity>::PROPERTIES,
                <#ident as ::lazuli_client::TableEntity>::PARTS,
            );
        },
        None => quote! {
            ::lazuli_client::__private::check_properties(
                <#ident as ::lazuli_client::TableEntity>::PROPERTIES,
                <#ident as ::lazuli_client::TableEntity>::KIND,
            );
        },
    };
    let series = fields.iter().filter_map(|field| {
        let (points, inner) = (&field.attributes.series.as_ref()?.points, field.inner);
        Some(quote!(assert!(<#inner>::POINTS == #points, "the series has another number of points");))
    });
    let keeps_unknown = fields.iter().any(|field| field.place() == Place::Rest);
    Ok(quote! {
        #[automatically_derived]
        impl ::lazuli_client::TableEntity for #ident {
            const TABLE: ::core::option::Option<&'static str> = #table;
            const KIND: ::core::option::Option<::lazuli_client::Kind> = #kind;
            const LAYOUT: ::lazuli_client::Layout = #layout;
            const PROPERTIES: &'static [::lazuli_client::PropertyDef] = &[#(#definitions),*];
            const WRITE_IDS: usize = #write_ids;
            const INDEXES: &'static [::lazuli_client::IndexDef] = INDEXES;
            const KEY_TYPES: &'static [(&'static str, &'static str)] =
                &[#(#key_types,)* #(#index_types,)*];
            const KEEPS_UNKNOWN: bool = #keeps_unknown;
            const PARTS: usize = #parts;
            const LISTS: &'static [::lazuli_client::ListDef] = &[#(#list_definitions),*];

            fn key(&self) -> ::core::result::Result<
                ::lazuli_client::EntityKey,
                ::lazuli_client::KeyError,
            > {
                #key
                ::core::result::Result::Ok(::lazuli_client::EntityKey::parse(&partition, &row)?)
            }

            fn write(
                &self,
                out: &mut ::lazuli_client::Properties,
            ) -> ::core::result::Result<(), ::lazuli_client::EncodeError> {
                #write_kind
                #(#writes)*
                ::core::result::Result::Ok(())
            }

            #read

            #index_key

            #list_functions

            fn warned() -> ::core::option::Option<&'static ::core::sync::atomic::AtomicBool> {
                static WARNED: ::core::sync::atomic::AtomicBool =
                    ::core::sync::atomic::AtomicBool::new(false);
                ::core::option::Option::Some(&WARNED)
            }
        }

        const _: () = {
            #(#series)*
            #check
        };
        const _: () = ::lazuli_client::__private::check_prefixes(
            &<#ident as ::lazuli_client::TableEntity>::LAYOUT,
            INDEXES,
        );
        const _: () = ::lazuli_client::__private::check_lists(
            &<#ident as ::lazuli_client::TableEntity>::LAYOUT,
            <#ident as ::lazuli_client::TableEntity>::LISTS,
        );
        // Evaluating this checks a child's templates.
        const _: ::lazuli_client::Layout = <#ident as ::lazuli_client::TableEntity>::LAYOUT;
    })
}

fn layout(container: &Container, source: &Source) -> TokenStream {
    let Source::Templates(keys) = source else {
        return quote!(::lazuli_client::Layout::UNKNOWN);
    };
    let (partition, row, prefix) = (&keys.partition.text, &keys.row.text, keys.row.prefix());
    let row_fields = keys.row.fields().count();
    let layout = quote!(::lazuli_client::Layout::new(#partition, #row, #prefix, #row_fields));
    match &container.child_of {
        _ if container.shared_prefix => quote!(#layout.shared()),
        Some(parent) => {
            quote!(#layout.child_of(&<#parent as ::lazuli_client::TableEntity>::LAYOUT))
        }
        None => layout,
    }
}

fn read(container: &Container, fields: &[Field<'_>], source: &Source) -> Result<TokenStream> {
    let reads = |wanted: fn(Place) -> bool| -> Result<Vec<TokenStream>> {
        let chosen = fields.iter().filter(|field| wanted(field.place()));
        chosen
            .map(|field| {
                let (ident, ty, read) = (field.ident, field.ty, field.read(None)?);
                Ok(quote!(let #ident: #ty = #read;))
            })
            .collect()
    };
    // The rest is what all other fields have left over.
    let (first, last) =
        (reads(|place| place != Place::Rest)?, reads(|place| place == Place::Rest)?);
    let idents = fields.iter().map(|field| field.ident);
    let uses_key = fields
        .iter()
        .any(|field| matches!(field.place(), Place::Key | Place::Both | Place::KeyIfExact));
    let is_template = matches!(source, Source::Templates(_));
    let parse = (is_template && uses_key).then(|| {
        quote! {
            let (partition, row) = fields.keys();
            let key = parse_key(partition, row).map_err(|error| fields.key_error(error))?;
        }
    });
    let is_lossy = |spec: &Spec| spec.is_bucket() || spec.calendar().is_some();
    let check = fields.iter().any(|field| field.key_specs.iter().any(is_lossy)).then(|| {
        quote! {
            fields.check_key(&value)?;
        }
    });
    let upgrades = container.upgrades.iter().map(|(from, path)| quote!((#from, #path)));
    let kind = container.kind.as_ref().map(|_| quote! {
        if let ::core::option::Option::Some(kind) = <Self as ::lazuli_client::TableEntity>::KIND {
            const UPGRADES: &[(u32, ::lazuli_client::Upgrade)] = &[#(#upgrades),*];
            fields.check_kind(kind, UPGRADES)?;
        }
    });
    let deny = container.deny_unknown.then(|| quote!(fields.deny_unknown()?;));
    Ok(quote! {
        fn read(
            entity: ::lazuli_client::Entity,
        ) -> ::core::result::Result<Self, ::lazuli_client::DecodeError> {
            let fields = &mut ::lazuli_client::Fields::new(entity);
            #kind
            #parse
            #(#first)*
            #(#last)*
            #deny
            let value = Self { #(#idents),* };
            #check
            ::core::result::Result::Ok(value)
        }
    })
}

fn check_table_name(name: &syn::LitStr) -> Result<()> {
    let text = name.value();
    let is_name = (3..=63).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|character| character.is_ascii_alphanumeric());
    if is_name {
        Ok(())
    } else {
        Err(Error::new(name.span(), "a table name has 3 to 63 letters and digits, a letter first"))
    }
}
