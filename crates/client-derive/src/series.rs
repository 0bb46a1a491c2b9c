//! `#[derive(DataSeries)]`: one property for each time step, one row for each period (P-9).

use crate::attributes::{Container, KeySource};
use crate::field::{Field, fields};
use crate::keys::{self, Keys};
use crate::template::{Segment, Spec, Template};
use crate::{check, entity, names};
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Attribute, DeriveInput, Error, LitInt, LitStr, Result, Type};

/// Properties of a row: 252 minus `_WriteIds`.
const POINTS_MAX: usize = 251;

/// The content of `#[series(..)]`.
struct Declared {
    points: usize,
    points_span: Span,
    step_seconds: u64,
    prefix: LitStr,
    value: Type,
    shards: u32,
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let container = Container::parse(&input.attrs)?;
    let mut fields = fields(input, &container)?;
    let keys = templates(&container, input)?;
    entity::note_uses(&keys, &mut fields)?;
    check::check(&fields, &[], false)?;
    let declared = parse(&input.attrs, input)?;
    let has_kind = container.kind.is_some();
    let (time, spec) = check_keys(&keys, &fields)?;
    declared.check(spec, keys.row.text.span(), has_kind)?;
    let (structure, parse_key) = keys::parse(&keys, &fields, &input.ident, &input.vis)?;
    let functions = functions(input, &keys, &fields, time)?;
    let implementation = implementation(input, &container, &keys, &fields, &declared, spec)?;
    let (checks, ident) = ([&keys.partition, &keys.row], &input.ident);
    let checks = checks.map(|template| keys::checks(template, &fields));
    let checks = checks.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(quote! {
        #structure
        const _: () = {
            #(#checks)*
            #parse_key
            #implementation
            #[allow(dead_code, clippy::too_many_arguments)]
            impl #ident {
                #functions
            }
        };
    })
}

fn templates(container: &Container, input: &DeriveInput) -> Result<Keys> {
    let template = |source: &Option<KeySource>, what| match source {
        Some(KeySource::Template(text)) => Template::parse(text),
        _ => Err(Error::new(input.ident.span(), format!("say `#[table({what} = \"..\")]`"))),
    };
    Ok(Keys {
        partition: template(&container.partition, "partition")?,
        row: template(&container.row, "row")?,
    })
}

/// The time field, and how much of it the key contains.
fn check_keys<'f, 'a>(keys: &Keys, fields: &'f [Field<'a>]) -> Result<(&'f Field<'a>, Spec)> {
    let fault = |text: &str| Error::new(keys.row.text.span(), text);
    let Some(Segment::Field { name, spec }) = keys.row.segments.last() else {
        return Err(fault("the row template of a series ends with its time, such as `{day:date}`"));
    };
    if period_seconds(*spec).is_none() {
        return Err(fault("the row template of a series ends with `:date`, `:hour` or `:minute`"));
    }
    let time = keys::find(fields, name, &keys.row)?;
    let others = keys.partition.fields().chain(keys.row.fields());
    if others.filter(|(other, _)| other == name).count() > 1 {
        return Err(fault("the time of a series is in its keys once"));
    }
    for field in fields {
        let mut used = keys.partition.fields().chain(keys.row.fields());
        if !used.any(|(name, _)| field.ident == name) {
            return Err(field.error("the fields of a series are those of its keys"));
        }
    }
    Ok((time, *spec))
}

/// The length in seconds of a key's time format.
fn period_seconds(spec: Spec) -> Option<u64> {
    match spec {
        Spec::Date => Some(86_400),
        Spec::Hour => Some(3600),
        Spec::Minute => Some(60),
        _ => None,
    }
}

fn parse(attributes: &[Attribute], input: &DeriveInput) -> Result<Declared> {
    let (mut points, mut step, mut prefix, mut value, mut shards) = (None, None, None, None, 1);
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("series")) {
        attribute.parse_nested_meta(|meta| {
            let is = |word| meta.path.is_ident(word);
            if is("points") {
                let number: LitInt = meta.value()?.parse()?;
                points = Some((number.base10_parse()?, number.span()));
            } else if is("step") {
                step = Some(step_seconds(&meta.value()?.parse()?)?);
            } else if is("prefix") {
                prefix = Some(meta.value()?.parse()?);
            } else if is("value") {
                value = Some(meta.value()?.parse()?);
            } else if is("shards") {
                let number: LitInt = meta.value()?.parse()?;
                shards = number.base10_parse()?;
                if !(1..=100).contains(&shards) {
                    return Err(Error::new(number.span(), "1 to 100 shards"));
                }
            } else {
                return Err(meta.error("expected points, step, prefix, value or shards"));
            }
            Ok(())
        })?;
    }
    let missing =
        |what| Error::new(input.ident.span(), format!("`#[series({what} = ..)]` is missing"));
    let (points, points_span) = points.ok_or_else(|| missing("points"))?;
    Ok(Declared {
        points,
        points_span,
        step_seconds: step.ok_or_else(|| missing("step"))?,
        prefix: prefix.ok_or_else(|| missing("prefix"))?,
        value: value.ok_or_else(|| missing("value"))?,
        shards,
    })
}

/// `hour`, `minute`, `second`, or some of them: `15 minutes`.
fn step_seconds(text: &LitStr) -> Result<u64> {
    let value = text.value();
    let (count, unit) = value.split_once(' ').unwrap_or(("1", &value));
    let seconds = match unit.trim_end_matches('s') {
        "hour" => 3600,
        "minute" => 60,
        "second" => 1,
        _ => 0,
    };
    match count.parse::<u64>() {
        Ok(count @ 1..=86_400) if seconds > 0 => Ok(count * seconds),
        _ => Err(Error::new(text.span(), "expected `hour`, `minute`, `second`, or `15 minutes`")),
    }
}

impl Declared {
    fn check(&self, spec: Spec, row: Span, has_kind: bool) -> Result<()> {
        names::check(&self.prefix.value(), self.prefix.span())?;
        let room = POINTS_MAX - usize::from(has_kind);
        if self.points == 0 || self.points > room {
            let message = format!(
                "a row has room for {room} points: shorten the period, or use a wide entity (P-10), \
                 or a blob for a long series"
            );
            return Err(Error::new(self.points_span, message));
        }
        let period = period_seconds(spec).unwrap_or(0);
        if self.points as u64 * self.step_seconds != period {
            let message = format!(
                "{} points of {} s are not the {period} s of a row",
                self.points, self.step_seconds
            );
            return Err(Error::new(row, message));
        }
        Ok(())
    }
}

/// `series(..)` and `at(..)`.
fn functions(
    input: &DeriveInput,
    keys: &Keys,
    fields: &[Field<'_>],
    time: &Field<'_>,
) -> Result<TokenStream> {
    let vis = &input.vis;
    let arguments = keys::arguments(&[&keys.partition, &keys.row], fields)?;
    let arguments: Vec<_> =
        arguments.into_iter().filter(|field| field.ident != time.ident).collect();
    let (parameters, conversions) = keys::parameters(&arguments);
    let idents: Vec<_> = arguments.iter().map(|field| field.ident).collect();
    let partition = keys::write(&keys.partition, fields, |ident| quote!(&#ident))?;
    let prefix = keys::write(&keys.row.without_last(), fields, |ident| quote!(&#ident))?;
    let series = quote!(::lazuli_client::patterns::series);
    let error = quote!(::lazuli_client::KeyError);
    Ok(quote! {
        /// The series with these parts of its keys.
        #vis fn series(
            #(#parameters),*
        ) -> ::core::result::Result<#series::SeriesOf<Self>, #error> {
            #(#conversions)*
            let partition = #partition?;
            let prefix = #prefix?;
            ::core::result::Result::Ok(#series::SeriesOf::new(partition, prefix))
        }

        /// The point of a series for a time.
        #vis fn at(
            #(#parameters,)*
            time: ::lazuli_client::Timestamp,
        ) -> ::core::result::Result<#series::SeriesPoint<Self>, #error> {
            Self::series(#(#idents),*)?.at(time)
        }
    })
}

fn implementation(
    input: &DeriveInput,
    container: &Container,
    keys: &Keys,
    fields: &[Field<'_>],
    declared: &Declared,
    spec: Spec,
) -> Result<TokenStream> {
    let (ident, client) = (&input.ident, quote!(::lazuli_client));
    let some = quote!(::core::option::Option::Some);
    let none = quote!(::core::option::Option::None);
    let table = container.name.as_ref().map_or(none.clone(), |name| quote!(#some(#name)));
    let kind = match &container.kind {
        Some(kind) => quote!(#some(#client::Kind {
            property: #client::Kind::PROPERTY, name: #kind, version: 1,
        })),
        None => none,
    };
    let Declared { points, step_seconds, prefix, value, shards, .. } = declared;
    let period = spec.calendar();
    let partition = keys::write(&keys.partition, fields, |ident| quote!(&self.#ident))?;
    let row = keys::write(&keys.row, fields, |ident| quote!(&self.#ident))?;
    let idents: Vec<_> = fields.iter().map(|field| field.ident).collect();
    Ok(quote! {
        #[automatically_derived]
        impl #client::patterns::series::DataSeries for #ident {
            type Value = #value;
            type Row = [::core::option::Option<#value>; #points];
            const TABLE: ::core::option::Option<&'static str> = #table;
            const KIND: ::core::option::Option<#client::Kind> = #kind;
            const POINTS: usize = #points;
            const STEP_SECONDS: u64 = #step_seconds;
            const PREFIX: &'static str = #prefix;
            const PERIOD: #client::key_part::Calendar = #period;
            const SHARDS: u32 = #shards;

            fn key(&self) -> ::core::result::Result<#client::EntityKey, #client::KeyError> {
                let partition: ::std::string::String = #partition?;
                let row: ::std::string::String = #row?;
                ::core::result::Result::Ok(#client::EntityKey::parse(&partition, &row)?)
            }

            fn parse(
                key: &#client::EntityKey,
            ) -> ::core::result::Result<Self, #client::KeyError> {
                let key = parse_key(key.partition.as_str(), key.row.as_str())?;
                ::core::result::Result::Ok(Self { #(#idents: key.#idents),* })
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    fn fault(input: &DeriveInput) -> String {
        derive(input).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn series_that_no_row_holds_are_refused() {
        // PS-9.5: 252 points, and one more property.
        let many = fault(&parse_quote! {
            #[table(kind = "Count", partition = "p", row = "{day:date}")]
            #[series(points = 252, step = "hour", prefix = "H", value = i64)]
            struct Count { day: Timestamp }
        });
        assert!(many.contains("room for 250 points") && many.contains("P-10"), "{many}");
        let other = fault(&parse_quote! {
            #[table(partition = "p", row = "{day:date}")]
            #[series(points = 60, step = "minute", prefix = "M", value = i64)]
            struct Count { day: Timestamp }
        });
        assert!(other.contains("60 points of 60 s are not the 86400 s of a row"), "{other}");
        let early = fault(&parse_quote! {
            #[table(partition = "p", row = "{day:date}_{id:06}")]
            #[series(points = 24, step = "hour", prefix = "H", value = i64)]
            struct Count { day: Timestamp, id: u32 }
        });
        assert!(early.contains("ends with"), "{early}");
        let more = fault(&parse_quote! {
            #[table(partition = "p", row = "{day:date}")]
            #[series(points = 24, step = "hour", prefix = "H", value = i64)]
            struct Count { day: Timestamp, unit: String }
        });
        assert!(more.contains("those of its keys"), "{more}");
    }

    #[test]
    fn a_step_is_a_unit_or_some_of_them() {
        let seconds = |text| step_seconds(&LitStr::new(text, Span::call_site())).ok();
        assert_eq!(
            ["hour", "minute", "15 minutes", "2 hours", "1 second"].map(seconds),
            [Some(3600), Some(60), Some(900), Some(7200), Some(1)]
        );
        assert_eq!(["day", "0 hours", "x minutes", ""].map(seconds), [None; 4]);
    }
}
