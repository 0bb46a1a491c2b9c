//! `#[index(..)]`: copies of an entity under other keys (P-1, P-2).

use crate::field::{Field, Place};
use crate::keys::{self, Keys};
use crate::names::Rename;
use crate::ranges::{self, Target};
use crate::template::{Spec, Template};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, Ident, LitStr, Result, Visibility};

/// The declaration of an index.
pub(crate) struct IndexAttribute {
    name: Ident,
    row: Template,
    partition: Option<Template>,
    table: Option<LitStr>,
    is_unique: bool,
    projection: Projection,
}

enum Projection {
    All,
    Fields(Vec<Ident>),
    Keys,
}

/// The indexes that a type declares.
pub(crate) fn parse(attributes: &[Attribute]) -> Result<Vec<IndexAttribute>> {
    let mut indexes: Vec<IndexAttribute> = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("index")) {
        let index = parse_one(attribute)?;
        if indexes.iter().any(|known| known.name == index.name) {
            return Err(Error::new(index.name.span(), "two indexes have this name"));
        }
        indexes.push(index);
    }
    Ok(indexes)
}

fn parse_one(attribute: &Attribute) -> Result<IndexAttribute> {
    let (mut name, mut row, mut partition, mut table) = (None, None, None, None);
    let (mut is_unique, mut projection) = (false, Projection::All);
    attribute.parse_nested_meta(|meta| {
        let is = |word| meta.path.is_ident(word);
        if name.is_none() {
            name = Some(meta.path.require_ident()?.clone());
        } else if is("row") {
            row = Some(Template::parse(&meta.value()?.parse()?)?);
        } else if is("partition") {
            partition = Some(Template::parse(&meta.value()?.parse()?)?);
        } else if is("table") {
            table = Some(meta.value()?.parse()?);
        } else if is("unique") {
            is_unique = true;
        } else if is("keys") {
            projection = Projection::Keys;
        } else if is("project") {
            projection = projected(&meta)?;
        } else {
            return Err(meta.error("expected row, partition, table, unique, keys or project"));
        }
        Ok(())
    })?;
    let missing = |what| Error::new_spanned(attribute, format!("an index has a {what}"));
    let name = name.ok_or_else(|| missing("name"))?;
    let row = row.ok_or_else(|| missing("row template: `row = \"..\"`"))?;
    Ok(IndexAttribute { name, row, partition, table, is_unique, projection })
}

fn projected(meta: &ParseNestedMeta<'_>) -> Result<Projection> {
    let mut fields = Vec::new();
    meta.parse_nested_meta(|inner| {
        fields.push(inner.path.require_ident()?.clone());
        Ok(())
    })?;
    let is_all = matches!(fields.as_slice(), [one] if one == "all");
    Ok(if is_all { Projection::All } else { Projection::Fields(fields) })
}

/// Code generated for the indexes of a type.
#[derive(Default)]
pub(crate) struct Indexes {
    /// Expressions of type `IndexDef`.
    pub(crate) definitions: Vec<TokenStream>,
    /// Arms of a match on the number of the index.
    pub(crate) keys: Vec<TokenStream>,
    /// The fields that key templates format by type.
    pub(crate) types: Vec<TokenStream>,
    /// Structs returned by queries.
    pub(crate) rows: TokenStream,
    /// Functions of the type.
    pub(crate) functions: TokenStream,
    /// Other items.
    pub(crate) items: TokenStream,
}

/// The type with the indexes.
pub(crate) struct Of<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) fields: &'a [Field<'a>],
    pub(crate) ident: &'a Ident,
    pub(crate) vis: &'a Visibility,
    pub(crate) kind: Option<&'a LitStr>,
}

pub(crate) fn indexes(declared: &[IndexAttribute], of: &Of<'_>) -> Result<Indexes> {
    let mut indexes = Indexes::default();
    for (number, index) in declared.iter().enumerate() {
        let (suffix, leading) = index.check(of)?;
        let _ = suffix;
        indexes.definitions.push(index.definition(of)?);
        indexes.keys.push(index.key(number, of)?);
        indexes.types.extend(keys::types(&[index.partition(of), &index.row], of.fields)?);
        let marker = index.marker(of);
        let (row, rows, read) = index.row_type(of)?;
        let (functions, items) = index.functions(of, &marker, &leading)?;
        indexes.rows.extend(rows);
        indexes.functions.extend(functions);
        let ident = of.ident;
        indexes.items.extend(quote! {
            #items

            impl ::lazuli_client::Index for #marker {
                type Entity = #ident;
                type Row = #row;
                const DEF: &'static ::lazuli_client::IndexDef = &INDEXES[#number];

                fn read(
                    copy: ::lazuli_client::Entity,
                ) -> ::core::result::Result<#row, ::lazuli_client::DecodeError> {
                    #read
                }
            }
        });
    }
    Ok(indexes)
}

impl IndexAttribute {
    /// The partition template of the copies.
    fn partition<'a>(&'a self, of: &Of<'a>) -> &'a Template {
        self.partition.as_ref().unwrap_or(&of.keys.partition)
    }

    fn marker(&self, of: &Of<'_>) -> Ident {
        format_ident!("{}{}Index", of.ident, Rename::Pascal.apply(&self.name.to_string()))
    }

    /// The number of leading fields in the row template, before those that identify the entity; and the leading fields.
    /// Fails if two entities could have the same copy (P-1.2).
    fn check<'f>(&self, of: &Of<'f>) -> Result<(usize, Vec<&'f Field<'f>>)> {
        let fields: Vec<_> = self.row.fields().map(|(name, _)| name.to_owned()).collect();
        keys::refuse_secrets(&[self.partition(of), &self.row], of.fields)?;
        let find = |name: &String| keys::find(of.fields, name, &self.row);
        if self.is_unique {
            return Ok((fields.len(), fields.iter().map(find).collect::<Result<_>>()?));
        }
        let own = of.keys.row.fields().chain(of.keys.partition.fields());
        // Fields in the copy's partition key need not be in its row key. A day, a bucket or a lowercased text has less
        // information than its field.
        let partition = self.partition(of);
        let identity: Vec<(&str, Spec)> =
            own.filter(|(name, spec)| !spec.is_bucket() && !partition.tells(name, *spec)).collect();
        let is_own = |name: &String| identity.iter().any(|(own, _)| own == name);
        let leading = fields.iter().rposition(|name| !is_own(name)).map_or(0, |at| at + 1);
        let identifies = |name: &str, spec: Spec| {
            fields.iter().skip(leading).any(|field| field == name) && self.row.tells(name, spec)
        };
        if let Some((missing, _)) = identity.iter().find(|(name, spec)| !identifies(name, *spec)) {
            let message = format!(
                "two entities could have one copy: end the row template with the fields of the key, \
                 `{{{missing}}}` is missing; or say `unique`"
            );
            return Err(Error::new(self.row.text.span(), message));
        }
        Ok((leading, fields.iter().take(leading).map(find).collect::<Result<_>>()?))
    }

    fn definition(&self, of: &Of<'_>) -> Result<TokenStream> {
        let client = quote!(::lazuli_client);
        let (name, row, prefix) = (self.name.to_string(), &self.row.text, self.row.prefix());
        let kind = of.kind.map_or_else(|| of.ident.to_string(), LitStr::value);
        let mark = format!("{kind}/{name}");
        let fields = self.row.fields().chain(self.partition(of).fields()).map(|(name, _)| name);
        let mut definition =
            quote!(#client::IndexDef::new(#name, #mark, #row, #prefix, &[#(#fields),*]));
        if self.is_unique {
            definition = quote!(#definition.unique());
        }
        if self.partition.is_some() || self.table.is_some() {
            let partition = &self.partition(of).text;
            let table = match &self.table {
                Some(table) => quote!(::core::option::Option::Some(#table)),
                None => quote!(::core::option::Option::None),
            };
            definition = quote!(#definition.elsewhere(#partition, #table));
        }
        Ok(match &self.projection {
            Projection::All => definition,
            Projection::Keys => quote!(#definition.projecting(#client::IndexProjection::Keys)),
            Projection::Fields(fields) => {
                for field in fields {
                    if !of.fields.iter().any(|known| known.ident == field) {
                        return Err(Error::new(field.span(), "there is no such field"));
                    }
                }
                let fields = fields.iter().map(Ident::to_string);
                quote!(#definition.projecting(#client::IndexProjection::Fields(&[#(#fields),*])))
            }
        })
    }

    /// The arm of `index_key`: the key of the copy; `None` if a field of it is `None` (P-1.9).
    fn key(&self, number: usize, of: &Of<'_>) -> Result<TokenStream> {
        let used = keys::arguments(&[self.partition(of), &self.row], of.fields)?;
        let bindings = used.iter().map(|field| {
            let ident = field.ident;
            if field.is_optional {
                quote! {
                    let ::core::option::Option::Some(#ident) = &self.#ident else {
                        return ::core::result::Result::Ok(::core::option::Option::None);
                    };
                }
            } else {
                quote!(let #ident = &self.#ident;)
            }
        });
        let partition = keys::write(self.partition(of), of.fields, |ident| quote!(#ident))?;
        let row = keys::write(&self.row, of.fields, |ident| quote!(#ident))?;
        Ok(quote! {
            #number => {
                #(#bindings)*
                let partition = #partition?;
                let row = #row?;
                let key = ::lazuli_client::EntityKey::parse(&partition, &row)?;
                ::core::result::Result::Ok(::core::option::Option::Some(key))
            }
        })
    }

    /// The type returned by queries, its struct unless it is the entity, and the code that reads it.
    fn row_type(&self, of: &Of<'_>) -> Result<(TokenStream, TokenStream, TokenStream)> {
        let entity = of.ident;
        let projected = match &self.projection {
            Projection::All => {
                let read = quote!(<#entity as ::lazuli_client::TableEntity>::read(copy));
                return Ok((quote!(#entity), quote!(), read));
            }
            Projection::Fields(fields) => fields.as_slice(),
            Projection::Keys => &[],
        };
        let with_own = !matches!(self.projection, Projection::Keys);
        let row = format_ident!("{entity}By{}", Rename::Pascal.apply(&self.name.to_string()));
        let is_held = |field: &&Field<'_>| {
            let is_key = matches!(field.place(), Place::Key | Place::Both);
            let is_own = || self.row.fields().any(|(name, _)| field.ident == name);
            is_key || projected.contains(field.ident) || (with_own && is_own())
        };
        let held: Vec<_> = of.fields.iter().filter(is_held).collect();
        let reads = held.iter().map(|field| {
            let (ident, ty) = (field.ident, field.ty);
            let read = match field.place() {
                Place::Key | Place::Both => quote!(key.#ident),
                _ => field.read(None)?,
            };
            Ok(quote!(let #ident: #ty = #read;))
        });
        let reads = reads.collect::<Result<Vec<_>>>()?;
        let idents: Vec<_> = held.iter().map(|field| field.ident).collect();
        let types = held.iter().map(|field| field.ty);
        let visibilities = held.iter().map(|field| field.vis);
        let docs = held.iter().map(|field| format!("The field `{}`.", field.ident));
        let (doc, vis) = (format!("What the index `{}` holds of [`{entity}`].", self.name), of.vis);
        let structure = quote! {
            #[doc = #doc]
            #[derive(Clone, Debug, PartialEq)]
            #[allow(dead_code)]
            #vis struct #row {
                #(#[doc = #docs] #visibilities #idents: #types,)*
            }
        };
        let read = quote! {
            let fields = &mut ::lazuli_client::Fields::new(copy);
            let (partition, row) = fields.keys();
            let key = parse_key(partition, row).map_err(|error| fields.key_error(error))?;
            #(#reads)*
            ::core::result::Result::Ok(#row { #(#idents),* })
        };
        Ok((quote!(#row), structure, read))
    }

    /// `by_name(..)` and `by_name_range(..)`.
    fn functions(
        &self,
        of: &Of<'_>,
        marker: &Ident,
        leading: &[&Field<'_>],
    ) -> Result<(TokenStream, TokenStream)> {
        let (vis, by) = (of.vis, format_ident!("by_{}", self.name));
        let partition_template = self.partition(of);
        let of_partition = keys::arguments(&[partition_template], of.fields)?;
        let mut arguments = of_partition.clone();
        for field in leading {
            if !arguments.iter().any(|known| known.ident == field.ident) {
                arguments.push(field);
            }
        }
        let (parameters, conversions) = keys::parameters(&arguments);
        let partition = keys::write(partition_template, of.fields, |ident| quote!(&#ident))?;
        let target = Target {
            marker: marker.clone(),
            function: format_ident!("by_{}_range", self.name),
            is_index: true,
        };
        let (range, stages) =
            ranges::of_templates(partition_template, &self.row, of.fields, &target, vis)?;
        let checks = keys::checks(&self.row, of.fields)?;
        let doc = format!("The key of an entity in the index `{}`.", self.name);
        let function = if self.is_unique {
            let row = keys::write(&self.row, of.fields, |ident| quote!(&#ident))?;
            quote! {
                #[doc = #doc]
                #vis fn #by(#(#parameters),*) -> ::core::result::Result<
                    ::lazuli_client::IndexKey<#marker>,
                    ::lazuli_client::KeyError,
                > {
                    #(#conversions)*
                    let partition = #partition?;
                    let row = #row?;
                    ::core::result::Result::Ok(::lazuli_client::IndexKey::new(
                        ::lazuli_client::EntityKey::parse(&partition, &row)?,
                    ))
                }
            }
        } else {
            let parts = ranges::leading_parts(&self.row, of.fields, leading.len())?;
            let prefix = self.row.prefix();
            let doc = format!("The entities with these values in the index `{}`.", self.name);
            quote! {
                #[doc = #doc]
                #vis fn #by(#(#parameters),*) -> ::core::result::Result<
                    ::lazuli_client::KeyRange<#marker>,
                    ::lazuli_client::KeyError,
                > {
                    #(#conversions)*
                    let partition = (|| #partition)();
                    let range = ::lazuli_client::KeyRange::<#marker>::new(partition, #prefix);
                    #(let range = #parts;)*
                    range.checked()
                }
            }
        };
        let items = quote! {
            #[doc = "An index."]
            #[derive(Clone, Copy, Debug)]
            #vis struct #marker;

            impl ::lazuli_client::Ranged for #marker {
                const OWN_AFTER: usize = 0;
                const KIND: ::core::option::Option<::lazuli_client::Kind> = ::core::option::Option::None;
            }

            #checks
            #stages
        };
        Ok((quote!(#function #range), items))
    }
}
