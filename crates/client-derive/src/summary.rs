//! `#[table(count(..))]`, `sum`, `latest` and `copy` on fields: summaries of other entities in the partition (P-5.2).

use crate::field::Field;
use crate::keys::{self, Keys};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::{Error, Ident, LitInt, Path, Result, Token};

/// The most rows that may share counts.
const SHARDS_MAX: u32 = 100;

/// What a field summarizes of the entities of another type.
pub(crate) struct Kept {
    source: Path,
    what: What,
    shards: Option<(u32, LitInt)>,
}

enum What {
    Count,
    Sum(Ident),
    Latest(Ident),
    /// A field of the one entity that some fields refer to.
    Copy {
        of: Ident,
        by: Vec<Ident>,
    },
}

/// `count(Employee)`, `sum(Employee.salary)`, `latest(Employee.hired)`, `copy(Employee.email, by = manager_id)`; or `None` if
/// the word is none of these.
pub(crate) fn parse(meta: &ParseNestedMeta<'_>) -> Result<Option<Kept>> {
    let Some(word) = meta.path.get_ident().map(Ident::to_string) else { return Ok(None) };
    if !matches!(word.as_str(), "count" | "sum" | "latest" | "copy") {
        return Ok(None);
    }
    let content;
    syn::parenthesized!(content in meta.input);
    let source = content.call(Path::parse_mod_style)?;
    let mut what = match word.as_str() {
        "count" => What::Count,
        "sum" => What::Sum(field_of(&content)?),
        "latest" => What::Latest(field_of(&content)?),
        _ => What::Copy { of: field_of(&content)?, by: Vec::new() },
    };
    let mut shards = None;
    while !content.is_empty() {
        content.parse::<Token![,]>()?;
        let option: Ident = content.parse()?;
        match &mut what {
            What::Copy { by, .. } if option == "by" => *by = names(&content)?,
            What::Count | What::Sum(_) if option == "shards" => {
                content.parse::<Token![=]>()?;
                shards = Some(parse_shards(&content)?);
            }
            What::Copy { .. } => return Err(Error::new(option.span(), "expected `by`")),
            What::Latest(_) => return Err(Error::new(option.span(), "the latest has no options")),
            _ => return Err(Error::new(option.span(), "expected `shards`")),
        }
    }
    if matches!(&what, What::Copy { by, .. } if by.is_empty()) {
        return Err(
            meta.error("say by which field it is named: `copy(Employee.email, by = manager_id)`")
        );
    }
    Ok(Some(Kept { source, what, shards }))
}

fn field_of(content: ParseStream<'_>) -> Result<Ident> {
    content.parse::<Token![.]>().map_err(|error| {
        Error::new(error.span(), "expected a field of the type: `Employee.salary`")
    })?;
    content.parse()
}

/// `= manager_id`, or `(year, id)`.
fn names(content: ParseStream<'_>) -> Result<Vec<Ident>> {
    if content.peek(Token![=]) {
        content.parse::<Token![=]>()?;
        return Ok(vec![content.parse()?]);
    }
    let fields;
    syn::parenthesized!(fields in content);
    let fields = fields.parse_terminated(<Ident as syn::parse::Parse>::parse, Token![,])?;
    Ok(fields.into_iter().collect())
}

fn parse_shards(content: ParseStream<'_>) -> Result<(u32, LitInt)> {
    let number: LitInt = content.parse()?;
    match number.base10_parse()? {
        shards @ 1..=SHARDS_MAX => Ok((shards, number)),
        _ => Err(Error::new(number.span(), "1 to 100 shards")),
    }
}

/// A field that summarizes a source.
struct Keeper<'f> {
    field: &'f Field<'f>,
    kept: &'f Kept,
}

/// The implementations of `Summary`, one for each source type.
pub(crate) fn summaries(
    fields: &[Field<'_>],
    keys: Option<&Keys>,
    ident: &Ident,
) -> Result<TokenStream> {
    let mut groups: Vec<(String, Vec<Keeper<'_>>)> = Vec::new();
    for field in fields {
        let Some(kept) = &field.attributes.kept else { continue };
        check(field, kept, fields)?;
        let name = kept.source.to_token_stream().to_string();
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, group)) => group.push(Keeper { field, kept }),
            None => groups.push((name, vec![Keeper { field, kept }])),
        }
    }
    let Some((_, first)) = groups.first() else { return Ok(quote!()) };
    let Some(keys) = keys else {
        let field = first.first().map_or(ident.span(), |keeper| keeper.field.ident.span());
        return Err(Error::new(field, "a summary has key templates"));
    };
    let summaries = groups.iter().map(|(_, group)| summary(group, fields, keys, ident));
    Ok(summaries.collect::<Result<Vec<_>>>()?.into_iter().collect())
}

/// Fails if a field cannot store its summary.
fn check(field: &Field<'_>, kept: &Kept, fields: &[Field<'_>]) -> Result<()> {
    if !field.key_specs.is_empty() || field.attributes.encrypt {
        return Err(field.error("what is kept of others is a plain property"));
    }
    match &kept.what {
        What::Count | What::Sum(_) if field.is_optional => {
            Err(field.error("a count or a sum of nothing is 0: it is not optional"))
        }
        What::Latest(_) | What::Copy { .. } if !field.is_optional => {
            Err(field.error("there may be nothing to keep: it must be an `Option`"))
        }
        What::Copy { by, .. } => {
            for name in by {
                let found = fields.iter().find(|field| field.ident == name);
                let found =
                    found.ok_or_else(|| Error::new(name.span(), "there is no such field"))?;
                if !found.is_optional {
                    let message = "it may name nothing: it must be an `Option`";
                    return Err(Error::new(name.span(), message));
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn summary(
    group: &[Keeper<'_>],
    fields: &[Field<'_>],
    keys: &Keys,
    ident: &Ident,
) -> Result<TokenStream> {
    let Some(source) = group.first().map(|keeper| &keeper.kept.source) else { return Ok(quote!()) };
    let client = quote!(::lazuli_client);
    let of_key = keys::arguments(&[&keys.partition, &keys.row], fields)?;
    let key_fields: Vec<_> = of_key.iter().map(|field| field.ident).collect();
    let empty = fields.iter().map(|field| empty(field, &key_fields));
    let shards = shards(group)?;
    let search = search(group, shards, source)?;
    let follow = group.iter().filter_map(Keeper::follow);
    let clear = group.iter().filter_map(Keeper::clear);
    let combine = group.iter().filter_map(Keeper::combine);
    let link = link(group, fields, keys, source)?;
    Ok(quote! {
        #[automatically_derived]
        impl #client::patterns::summary::Summary<#source> for #ident {
            const SHARDS: u32 = #shards;

            fn key_of(
                source: &#source,
            ) -> ::core::result::Result<#client::Key<Self>, #client::KeyError> {
                Self::key(#(::core::clone::Clone::clone(&source.#key_fields)),*)
            }

            fn empty(source: &#source) -> Self {
                Self { #(#empty),* }
            }

            fn follow(
                &mut self,
                old: ::core::option::Option<&#source>,
                new: ::core::option::Option<&#source>,
            ) {
                let _ = (old, new);
                #(#follow)*
            }

            fn clear(&mut self) {
                #(#clear)*
            }

            fn combine(&mut self, shard: &Self) {
                let _ = shard;
                #(#combine)*
            }

            fn shard_of(source: &#source) -> u64 {
                #client::__private::shard_of(source)
            }

            #search
            #link
        }
    })
}

/// The initializer of a field in an empty summary.
fn empty(field: &Field<'_>, key_fields: &[&Ident]) -> TokenStream {
    let ident = field.ident;
    if key_fields.contains(&ident) {
        return quote!(#ident: ::core::convert::Into::into(::core::clone::Clone::clone(&source.#ident)));
    }
    match &field.attributes.default {
        Some(Some(value)) if field.attributes.kept.is_none() => quote!(#ident: #value),
        _ => quote!(#ident: ::core::default::Default::default()),
    }
}

/// The number of shards; all attributes that give it must agree.
fn shards(group: &[Keeper<'_>]) -> Result<u32> {
    let mut said: Option<u32> = None;
    for (shards, span) in group.iter().filter_map(|keeper| keeper.kept.shards.as_ref()) {
        if said.is_some_and(|said| said != *shards) {
            return Err(Error::new(span.span(), "what is kept of one type has the same shards"));
        }
        said = Some(*shards);
    }
    Ok(said.unwrap_or(1))
}

/// The functions that search the remaining sources for the latest value.
fn search(group: &[Keeper<'_>], shards: u32, source: &Path) -> Result<TokenStream> {
    let mut conditions = Vec::new();
    for keeper in group {
        let What::Latest(of) = &keeper.kept.what else { continue };
        if shards > 1 {
            return Err(keeper.field.error("the latest has no shards: no row knows it alone"));
        }
        let (ident, ty) = (keeper.field.ident, keeper.field.ty);
        let value = |side: TokenStream| {
            quote!(#side.and_then(|source| -> #ty {
                ::core::convert::Into::into(::core::clone::Clone::clone(&source.#of))
            }))
        };
        let (old, new) = (value(quote!(old)), value(quote!(new)));
        conditions.push(quote!(::lazuli_client::__private::is_overtaken(&self.#ident, #old, #new)));
    }
    if conditions.is_empty() {
        return Ok(quote!());
    }
    Ok(quote! {
        const SEARCHES: bool = true;

        fn must_search(
            &self,
            old: ::core::option::Option<&#source>,
            new: ::core::option::Option<&#source>,
        ) -> bool {
            false #(|| #conditions)*
        }
    })
}

/// The functions that copy from the source that the summary refers to.
fn link(
    group: &[Keeper<'_>],
    fields: &[Field<'_>],
    keys: &Keys,
    source: &Path,
) -> Result<TokenStream> {
    let mut named: Option<&Vec<Ident>> = None;
    let mut copies = Vec::new();
    for keeper in group {
        let What::Copy { of, by } = &keeper.kept.what else { continue };
        if named.is_some_and(|named| named != by) {
            return Err(keeper.field.error("a summary names one entity of a type"));
        }
        named = Some(by);
        let ident = keeper.field.ident;
        copies.push(quote! {
            self.#ident = linked.and_then(|source| {
                ::core::convert::Into::into(::core::clone::Clone::clone(&source.#of))
            });
        });
    }
    let Some(by) = named else { return Ok(quote!()) };
    let partition = keys::arguments(&[&keys.partition], fields)?;
    let partition = partition.iter().map(|field| field.ident);
    Ok(quote! {
        fn link(&self) -> ::core::result::Result<
            ::core::option::Option<::lazuli_client::Key<#source>>,
            ::lazuli_client::KeyError,
        > {
            #(
                let ::core::option::Option::Some(#by) = ::core::clone::Clone::clone(&self.#by) else {
                    return ::core::result::Result::Ok(::core::option::Option::None);
                };
            )*
            <#source>::key(#(::core::clone::Clone::clone(&self.#partition),)* #(#by),*)
                .map(::core::option::Option::Some)
        }

        fn fill(&mut self, linked: ::core::option::Option<&#source>) {
            #(#copies)*
            if linked.is_none() {
                #(self.#by = ::core::option::Option::None;)*
            }
        }
    })
}

impl Keeper<'_> {
    /// A statement that accounts for a change.
    fn follow(&self) -> Option<TokenStream> {
        let private = quote!(::lazuli_client::__private);
        let (ident, ty) = (self.field.ident, self.field.ty);
        match &self.kept.what {
            What::Count => Some(quote! {
                #private::tally(
                    &mut self.#ident,
                    i128::from(new.is_some()) - i128::from(old.is_some()),
                );
            }),
            What::Sum(of) => {
                let amount = quote!(|source| #private::Amount::amount(&source.#of));
                Some(quote! {
                    #private::tally(
                        &mut self.#ident,
                        new.map_or(0, #amount).wrapping_sub(old.map_or(0, #amount)),
                    );
                })
            }
            What::Latest(of) => Some(quote! {
                if let ::core::option::Option::Some(source) = new {
                    let value: #ty =
                        ::core::convert::Into::into(::core::clone::Clone::clone(&source.#of));
                    if value > self.#ident {
                        self.#ident = value;
                    }
                }
            }),
            What::Copy { .. } => None,
        }
    }

    /// A statement that resets the field.
    fn clear(&self) -> Option<TokenStream> {
        let ident = self.field.ident;
        match self.kept.what {
            What::Copy { .. } => None,
            _ => Some(quote!(self.#ident = ::core::default::Default::default();)),
        }
    }

    /// A statement that adds the value of a shard.
    fn combine(&self) -> Option<TokenStream> {
        let (private, ident) = (quote!(::lazuli_client::__private), self.field.ident);
        match self.kept.what {
            What::Count | What::Sum(_) => Some(quote! {
                #private::tally(&mut self.#ident, #private::Amount::amount(&shard.#ident));
            }),
            What::Latest(_) | What::Copy { .. } => None,
        }
    }
}
