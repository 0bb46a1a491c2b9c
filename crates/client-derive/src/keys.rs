//! Keys from templates: formatted, made from parts, and parsed (C-4).

use crate::field::{self, Field};
use crate::template::{Segment, Spec, Template};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{Error, Ident, Result, Visibility};

/// The templates of a type.
pub(crate) struct Keys {
    pub(crate) partition: Template,
    pub(crate) row: Template,
}

pub(crate) fn find<'f, 'a>(
    fields: &'f [Field<'a>],
    name: &str,
    template: &Template,
) -> Result<&'f Field<'a>> {
    let found = fields.iter().find(|field| field.ident == name);
    found.ok_or_else(|| Error::new(template.text.span(), format!("there is no field `{name}`")))
}

/// A block of type `Result<String, KeyError>`: the key made of the values from `value`.
pub(crate) fn write(
    template: &Template,
    fields: &[Field<'_>],
    value: impl Fn(&Ident) -> TokenStream,
) -> Result<TokenStream> {
    let mut statements = Vec::new();
    for (index, segment) in template.segments.iter().enumerate() {
        statements.push(match segment {
            Segment::Literal(literal) => quote!(out.push_str(#literal);),
            Segment::Field { name, spec } => {
                let field = find(fields, name, template)?;
                let write = spec.write(field.inner, &value(field.ident), template.separator(index));
                quote!(#write;)
            }
        });
    }
    Ok(quote! {{
        // Room for most keys.
        let mut text = ::std::string::String::with_capacity(32);
        let out = &mut text;
        #(#statements)*
        ::core::result::Result::<::std::string::String, ::lazuli_client::KeyError>::Ok(text)
    }})
}

/// Compile-time checks that keys of the template can be parsed (C-4.4).
pub(crate) fn checks(template: &Template, fields: &[Field<'_>]) -> Result<TokenStream> {
    let span = template.text.span();
    let mut checks = Vec::new();
    for (index, segment) in template.segments.iter().enumerate() {
        let Segment::Field { name, spec } = segment else { continue };
        let field = find(fields, name, template)?;
        let width = spec.width(field.inner);
        for (other_name, other_spec) in template.run_after(index) {
            let other = other_spec.width(find(fields, other_name, template)?.inner);
            let message =
                format!("the key fields `{name}` and `{other_name}` need a literal between them");
            checks.push(
                quote_spanned!(span=> assert!(#width.is_some() || #other.is_some(), #message);),
            );
        }
        let separator = template.separator(index);
        if separator == Some('~') {
            return Err(Error::new(span, "`~` is for escaping and cannot follow a field"));
        }
        let is_digit =
            |separator: char| separator.is_ascii_alphanumeric() || "-:.".contains(separator);
        if template.run_after(index).next().is_some() && separator.is_some_and(is_digit) {
            let message = format!("the literal after `{name}` must not begin like a field");
            checks.push(quote_spanned!(span=> assert!(#width.is_some(), #message);));
        }
    }
    Ok(quote!(const _: () = { #(#checks)* };))
}

/// Fails if an encrypted field would be visible in a key outside the entity (E-50).
pub(crate) fn refuse_secrets(templates: &[&Template], fields: &[Field<'_>]) -> Result<()> {
    for template in templates {
        for (name, _) in template.fields() {
            if find(fields, name, template)?.attributes.encrypt {
                let message =
                    format!("everybody could read the encrypted field `{name}` in this key");
                return Err(Error::new(template.text.span(), message));
            }
        }
    }
    Ok(())
}

/// Expressions of type `(&str, &str)`: the fields that templates format by type, and the type's name.
pub(crate) fn types(templates: &[&Template], fields: &[Field<'_>]) -> Result<Vec<TokenStream>> {
    let mut types = Vec::new();
    for template in templates {
        for (name, spec) in template.fields() {
            let type_name = spec.type_name(find(fields, name, template)?.inner);
            types.extend(type_name.map(|type_name| quote!((#name, #type_name))));
        }
    }
    Ok(types)
}

/// Warnings about templates that sort badly (C-4.2, P-13.1).
pub(crate) fn warnings(
    keys: &Keys,
    fields: &[Field<'_>],
    allow_append: bool,
) -> Result<TokenStream> {
    let mut warnings = Vec::new();
    let mut warn = |span, note: String| {
        warnings.push(quote_spanned! {span=>
            const _: () = {
                #[deprecated(note = #note)]
                const fn keys_sort_badly() {}
                keys_sort_badly()
            };
        });
    };
    for template in [&keys.partition, &keys.row] {
        for (name, spec) in template.fields() {
            let field = find(fields, name, template)?;
            if spec == Spec::Plain && field::is_integer(field.inner) {
                warn(
                    template.text.span(),
                    format!(
                        "`{name}` is not padded, so that 10 sorts before 9: \
                     write `{{{name}:pad}}`, or `{{{name}:unsorted}}` if that is meant"
                    ),
                );
            }
        }
    }
    let mut specs = keys.partition.fields().map(|(_, spec)| spec).peekable();
    let is_time_only = specs.peek().is_some() && specs.all(Spec::is_time);
    if is_time_only && !allow_append {
        warn(keys.partition.text.span(),
            "a partition key of time alone sends every insert to the last partition: put what spreads \
             into it, or say `#[table(allow(append))]`".to_owned());
    }
    Ok(quote!(#(#warnings)*))
}

/// The distinct fields of templates, in order.
pub(crate) fn arguments<'f, 'a>(
    templates: &[&Template],
    fields: &'f [Field<'a>],
) -> Result<Vec<&'f Field<'a>>> {
    let mut arguments: Vec<&Field<'_>> = Vec::new();
    for template in templates {
        for (name, _) in template.fields() {
            let field = find(fields, name, template)?;
            if !arguments.iter().any(|known| known.ident == field.ident) {
                arguments.push(field);
            }
        }
    }
    Ok(arguments)
}

/// Parameters for fields, and statements that turn them into values of the fields' types.
pub(crate) fn parameters(arguments: &[&Field<'_>]) -> (Vec<TokenStream>, Vec<TokenStream>) {
    arguments
        .iter()
        .map(|field| {
            let (ident, ty) = (field.ident, field.inner);
            if field::is_text(ty) {
                let convert = quote!(let #ident: #ty = ::core::convert::AsRef::<str>::as_ref(&#ident).into(););
                (quote!(#ident: impl ::core::convert::AsRef<str>), convert)
            } else {
                (quote!(#ident: #ty), quote!())
            }
        })
        .unzip()
}

/// A struct of a key's fields, and the function that parses it.
pub(crate) fn parse(
    keys: &Keys,
    fields: &[Field<'_>],
    ident: &Ident,
    vis: &Visibility,
) -> Result<(TokenStream, TokenStream)> {
    let key_ident = format_ident!("{ident}Key");
    let held: Vec<&Field<'_>> = arguments(&[&keys.partition, &keys.row], fields)?
        .into_iter()
        .filter(|field| !field.key_specs.iter().all(|spec| spec.is_bucket()))
        .collect();
    let texts = [(&keys.partition, quote!(partition)), (&keys.row, quote!(row))];
    let (statements, _) = parse_statements(&texts, fields)?;
    let idents: Vec<_> = held.iter().map(|field| field.ident).collect();
    let types = held.iter().map(|field| field.inner);
    let docs = held.iter().map(|field| format!("The field `{}`.", field.ident));
    let visibilities = held.iter().map(|field| field.vis);
    let doc = format!("What a key of [`{ident}`] holds.");
    let template = format!("{}, {}", keys.partition.text.value(), keys.row.text.value());
    let structure = quote! {
        #[doc = #doc]
        #[derive(Clone, Debug, PartialEq)]
        #vis struct #key_ident {
            #(#[doc = #docs] #visibilities #idents: #types,)*
        }
    };
    let function = quote! {
        fn parse_key(
            partition: &str,
            row: &str,
        ) -> ::core::result::Result<#key_ident, ::lazuli_client::KeyError> {
            #[allow(clippy::needless_question_mark, clippy::let_unit_value)]
            fn parse(partition: &str, row: &str) -> ::core::option::Option<#key_ident> {
                #(#statements)*
                ::core::option::Option::Some(#key_ident { #(#idents),* })
            }
            parse(partition, row).ok_or_else(|| ::lazuli_client::KeyError::Foreign {
                text: ::std::format!("{partition}, {row}"),
                template: #template,
            })
        }
    };
    Ok((structure, function))
}

/// Statements that parse texts by their templates, and the fields they bind. They return `None` if a text does not
/// match its template.
pub(crate) fn parse_statements<'f>(
    texts: &[(&Template, TokenStream)],
    fields: &'f [Field<'_>],
) -> Result<(Vec<TokenStream>, Vec<&'f Ident>)> {
    let mut statements = Vec::new();
    let mut known: Vec<&Ident> = Vec::new();
    for (template, text) in texts {
        statements
            .push(quote!(let mut cursor = ::lazuli_client::__private::KeyCursor::new(#text);));
        for (index, segment) in template.segments.iter().enumerate() {
            statements.push(match segment {
                Segment::Literal(literal) => quote!(cursor.literal(#literal)?;),
                Segment::Field { name, spec } => {
                    let field = find(fields, name, template)?;
                    let (ident, ty) = (field.ident, field.inner);
                    let width = spec.width(ty);
                    let separator = match template.separator(index) {
                        Some(separator) => quote!(::core::option::Option::Some(#separator)),
                        None => quote!(::core::option::Option::None),
                    };
                    let after = template.run_after(index).map(|(name, spec)| {
                        let width = spec.width(find(fields, name, template)?.inner);
                        Ok(quote!(::lazuli_client::__private::width_or_zero(#width)))
                    });
                    let after = after.collect::<Result<Vec<_>>>()?;
                    let take = quote!(cursor.field(#width, #separator, 0 #(+ #after)*)?);
                    match spec.parse(ty, &take) {
                        None => quote!(let _ = #take;),
                        // If the key has a moment twice, one of them may be more precise.
                        Some(_) if known.contains(&ident) && spec.calendar().is_some() => {
                            quote!(let _ = #take;)
                        }
                        Some(parse) if known.contains(&ident) => quote! {
                            if #parse? != #ident {
                                return ::core::option::Option::None;
                            }
                        },
                        Some(parse) => {
                            known.push(ident);
                            quote!(let #ident: #ty = #parse?;)
                        }
                    }
                }
            });
        }
        statements.push(quote!(cursor.end()?;));
    }
    Ok((statements, known))
}
