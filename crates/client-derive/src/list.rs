//! `#[index_list(..)]`: lists of the entities with a value (P-4).

use crate::index::Of;
use crate::keys;
use crate::template::Template;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Error, Ident, LitInt, LitStr, Result};

/// The declaration of a list.
pub(crate) struct ListAttribute {
    name: Ident,
    option: u8,
    /// For a blob: the container.
    partition: Option<Template>,
    /// The row key of the list, or the name of its blob.
    row: Template,
    items: LitStr,
    item: Template,
    /// The container for lists that do not fit into an entity.
    overflow: Option<LitStr>,
}

/// Code generated for the lists of a type.
#[derive(Default)]
pub(crate) struct Lists {
    /// Expressions of type `ListDef`.
    pub(crate) definitions: Vec<TokenStream>,
    /// Arms of a match on the number of the list: the list of a value, and its item.
    pub(crate) entries: Vec<TokenStream>,
    /// Arms of a match on the number of the list: the key of an item.
    pub(crate) keys: Vec<TokenStream>,
    /// Functions of the type.
    pub(crate) functions: TokenStream,
}

/// The lists that a type declares.
pub(crate) fn parse(attributes: &[Attribute]) -> Result<Vec<ListAttribute>> {
    let mut lists: Vec<ListAttribute> = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("index_list")) {
        let list = parse_one(attribute)?;
        if lists.iter().any(|known| known.name == list.name) {
            return Err(Error::new(list.name.span(), "two lists have this name"));
        }
        lists.push(list);
    }
    Ok(lists)
}

fn parse_one(attribute: &Attribute) -> Result<ListAttribute> {
    let (mut name, mut option, mut partition, mut row) = (None, None, None, None);
    let (mut items, mut item, mut overflow) = (None, None, None::<LitStr>);
    attribute.parse_nested_meta(|meta| {
        let is = |word| meta.path.is_ident(word);
        if name.is_none() {
            name = Some(meta.path.require_ident()?.clone());
        } else if is("option") {
            let number: LitInt = meta.value()?.parse()?;
            option = Some(number.base10_parse::<u8>()?);
            if !matches!(option, Some(1..=3)) {
                let message = "1: a blob, 2: beside the entities, 3: another partition";
                return Err(Error::new(number.span(), message));
            }
        } else if is("partition") || is("container") {
            partition = Some(Template::parse(&meta.value()?.parse()?)?);
        } else if is("row") || is("blob") {
            row = Some(Template::parse(&meta.value()?.parse()?)?);
        } else if is("items") {
            items = Some(meta.value()?.parse()?);
        } else if is("item") {
            item = Some(Template::parse(&meta.value()?.parse()?)?);
        } else if is("overflow") {
            overflow = Some(meta.value()?.parse()?);
        } else {
            let message =
                "expected option, row, partition, items, item, overflow; or container and blob";
            return Err(meta.error(message));
        }
        Ok(())
    })?;
    let missing = |what: &str| Error::new_spanned(attribute, format!("a list has {what}"));
    let name: Ident = name.ok_or_else(|| missing("a name"))?;
    let option = option.ok_or_else(|| missing("an `option`: 1, 2 or 3"))?;
    if (option == 2) == partition.is_some() {
        let what = match option {
            1 => "a `container`",
            2 => "the partition of its entities with `option = 2`, and no other",
            _ => "a `partition`",
        };
        return Err(missing(what));
    }
    if let (1, Some(overflow)) = (option, &overflow) {
        return Err(Error::new(overflow.span(), "a list in a blob does not overflow"));
    }
    let row = row.ok_or_else(|| missing("a `row`, or the name of a `blob`"))?;
    let items = items.unwrap_or_else(|| LitStr::new("Items", name.span()));
    crate::names::check(&items.value(), items.span())?;
    let item = item.ok_or_else(|| missing("an `item`: what stands for an entity"))?;
    Ok(ListAttribute { name, option, partition, row, items, item, overflow })
}

pub(crate) fn lists(declared: &[ListAttribute], of: &Of<'_>) -> Result<Lists> {
    let mut lists = Lists::default();
    for (number, list) in declared.iter().enumerate() {
        lists.definitions.push(list.definition(of));
        lists.entries.push(list.entry(number, of)?);
        lists.keys.push(list.listed_key(number, of)?);
        lists.functions.extend(list.function(number, of)?);
    }
    Ok(lists)
}

impl ListAttribute {
    fn partition<'a>(&'a self, of: &Of<'a>) -> &'a Template {
        self.partition.as_ref().unwrap_or(&of.keys.partition)
    }

    fn definition(&self, of: &Of<'_>) -> TokenStream {
        let kind = of.kind.map_or_else(|| of.ident.to_string(), LitStr::value);
        let (name, mark) = (self.name.to_string(), format!("{kind}/{}", self.name));
        let (items, prefix) = (&self.items, self.row.prefix());
        let home = match self.option {
            1 => quote!(Blob),
            2 => quote!(Beside),
            _ => quote!(Elsewhere),
        };
        let definition = quote!(::lazuli_client::ListDef::new(
            #name, #mark, ::lazuli_client::ListHome::#home, #items, #prefix
        ));
        match &self.overflow {
            Some(container) => quote!(#definition.overflowing(#container)),
            None => definition,
        }
    }

    /// The arm of `list_entry`: the place of the list, and the item; `None` if a field of it is `None`.
    fn entry(&self, number: usize, of: &Of<'_>) -> Result<TokenStream> {
        let templates = [self.partition(of), &self.row, &self.item];
        keys::refuse_secrets(&templates, of.fields)?;
        let bindings = keys::arguments(&templates, of.fields)?.into_iter().map(|field| {
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
        let bindings: Vec<_> = bindings.collect();
        let write = |template| keys::write(template, of.fields, |ident| quote!(#ident));
        let (partition, row, item) =
            (write(self.partition(of))?, write(&self.row)?, write(&self.item)?);
        Ok(quote! {
            #number => {
                #(#bindings)*
                let partition = #partition?;
                let row = #row?;
                let item: ::std::string::String = #item?;
                let key = ::lazuli_client::EntityKey::parse(&partition, &row)?;
                ::core::result::Result::Ok(::core::option::Option::Some((key, item)))
            }
        })
    }

    /// The arm of `listed_key`: the key of the entity that an item of a list stands for.
    fn listed_key(&self, number: usize, of: &Of<'_>) -> Result<TokenStream> {
        let texts = [
            (self.partition(of), quote!(list.partition.as_str())),
            (&self.row, quote!(list.row.as_str())),
            (&self.item, quote!(item)),
        ];
        let (statements, known) = keys::parse_statements(&texts, of.fields)?;
        for (name, _) in of.keys.partition.fields().chain(of.keys.row.fields()) {
            if !known.iter().any(|ident| *ident == name) {
                let message =
                    format!("an item must tell the key of its entity: `{{{name}}}` is missing");
                return Err(Error::new(self.item.text.span(), message));
            }
        }
        let partition = keys::write(&of.keys.partition, of.fields, |ident| quote!(&#ident))?;
        let row = keys::write(&of.keys.row, of.fields, |ident| quote!(&#ident))?;
        Ok(quote! {
            #number => {
                #(#statements)*
                let partition: ::std::string::String = (|| #partition)().ok()?;
                let row: ::std::string::String = (|| #row)().ok()?;
                ::lazuli_client::EntityKey::parse(&partition, &row).ok()
            }
        })
    }

    /// `list_name(..)`.
    fn function(&self, number: usize, of: &Of<'_>) -> Result<TokenStream> {
        let (vis, function) = (of.vis, format_ident!("list_{}", self.name));
        let arguments = keys::arguments(&[self.partition(of), &self.row], of.fields)?;
        let (parameters, conversions) = keys::parameters(&arguments);
        let partition = keys::write(self.partition(of), of.fields, |ident| quote!(&#ident))?;
        let row = keys::write(&self.row, of.fields, |ident| quote!(&#ident))?;
        let doc = format!("The list `{}` of the entities with these values.", self.name);
        Ok(quote! {
            #[doc = #doc]
            #vis fn #function(#(#parameters),*) -> ::core::result::Result<
                ::lazuli_client::ListKey<Self>,
                ::lazuli_client::KeyError,
            > {
                #(#conversions)*
                let partition: ::std::string::String = #partition?;
                let row: ::std::string::String = #row?;
                ::core::result::Result::Ok(::lazuli_client::ListKey::new(
                    #number,
                    ::lazuli_client::EntityKey::parse(&partition, &row)?,
                ))
            }
        })
    }
}
