//! Key templates: literals and fields (C-4.1, C-4.2).

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, LitStr, Result, Type};

/// A parsed template.
pub(crate) struct Template {
    pub(crate) text: LitStr,
    pub(crate) segments: Vec<Segment>,
}

#[derive(Clone)]
pub(crate) enum Segment {
    Literal(String),
    Field { name: String, spec: Spec },
}

/// The format of a field.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Spec {
    Plain,
    /// Plain; explicitly unsorted.
    Unsorted,
    Width(usize),
    Pad,
    Rev,
    Ticks,
    Month,
    Date,
    Hour,
    Minute,
    Iso,
    Hex,
    Lower,
    Bucket(u64),
}

/// The number of digits of the largest number.
const WIDTH_MAX: usize = 39;
const KEY_UNITS_MAX: usize = 512;

impl Template {
    pub(crate) fn parse(text: &LitStr) -> Result<Self> {
        let fault = |message: String| Error::new(text.span(), message);
        let value = text.value();
        let mut segments = Vec::new();
        let mut literal = String::new();
        let mut rest = value.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '{' | '}' if rest.peek() == Some(&character) => {
                    rest.next();
                    literal.push(character);
                }
                '}' => return Err(fault("`}` without `{`; a brace itself is `}}`".into())),
                '{' => {
                    let mut inside = String::new();
                    loop {
                        match rest.next() {
                            Some('}') => break,
                            Some(more) => inside.push(more),
                            None => return Err(fault(format!("`{{{inside}` is not closed"))),
                        }
                    }
                    if !literal.is_empty() {
                        segments.push(Segment::Literal(std::mem::take(&mut literal)));
                    }
                    segments.push(parse_field(&inside).map_err(fault)?);
                }
                other if is_forbidden(other) => {
                    return Err(fault(format!("a key may not hold {other:?}")));
                }
                other => literal.push(other),
            }
        }
        if !literal.is_empty() {
            segments.push(Segment::Literal(literal));
        }
        let units: usize = segments
            .iter()
            .map(|segment| match segment {
                Segment::Literal(literal) => literal.encode_utf16().count(),
                Segment::Field { spec: Spec::Width(width), .. } => *width,
                Segment::Field { .. } => 0,
            })
            .sum();
        if units > KEY_UNITS_MAX {
            return Err(fault(format!("every key would have {units} characters, more than 512")));
        }
        Ok(Self { text: text.clone(), segments })
    }

    /// The template without its last segment.
    pub(crate) fn without_last(&self) -> Self {
        let segments = self.segments.split_last().map_or(&[][..], |(_, rest)| rest);
        Self { text: self.text.clone(), segments: segments.to_vec() }
    }

    /// The literal prefix of all keys.
    pub(crate) fn prefix(&self) -> &str {
        match self.segments.first() {
            Some(Segment::Literal(literal)) => literal,
            _ => "",
        }
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, Spec)> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Field { name, spec } => Some((name.as_str(), *spec)),
            Segment::Literal(_) => None,
        })
    }

    /// Whether keys of this template say as much about a field as the format `spec`.
    pub(crate) fn tells(&self, field: &str, spec: Spec) -> bool {
        self.fields().any(|(name, own)| name == field && (own == spec || !own.is_lossy()))
    }

    /// The first character of the next literal after the segment at `index`.
    pub(crate) fn separator(&self, index: usize) -> Option<char> {
        self.segments.iter().skip(index + 1).find_map(|segment| match segment {
            Segment::Literal(literal) => literal.chars().next(),
            Segment::Field { .. } => None,
        })
    }

    /// The literal immediately after the segment at `index`.
    pub(crate) fn literal_after(&self, index: usize) -> &str {
        match self.segments.get(index + 1) {
            Some(Segment::Literal(literal)) => literal,
            _ => "",
        }
    }

    /// The fields that follow the segment at `index` before the next literal.
    pub(crate) fn run_after(&self, index: usize) -> impl Iterator<Item = (&str, Spec)> {
        self.segments.iter().skip(index + 1).map_while(|segment| match segment {
            Segment::Field { name, spec } => Some((name.as_str(), *spec)),
            Segment::Literal(_) => None,
        })
    }
}

fn is_forbidden(character: char) -> bool {
    matches!(character, '/' | '\\' | '#' | '?' | '\0'..='\u{1F}' | '\u{7F}'..='\u{9F}')
}

fn parse_field(inside: &str) -> std::result::Result<Segment, String> {
    let (name, spec) = match inside.split_once(':') {
        Some((name, spec)) => (name, parse_spec(spec)?),
        None => (inside, Spec::Plain),
    };
    if name.is_empty() {
        return Err("`{}` names no field".into());
    }
    Ok(Segment::Field { name: name.to_owned(), spec })
}

fn parse_spec(spec: &str) -> std::result::Result<Spec, String> {
    Ok(match spec {
        "pad" => Spec::Pad,
        "rev" => Spec::Rev,
        "ticks" => Spec::Ticks,
        "month" => Spec::Month,
        "date" => Spec::Date,
        "hour" => Spec::Hour,
        "minute" => Spec::Minute,
        "iso" => Spec::Iso,
        "hex" => Spec::Hex,
        "lower" => Spec::Lower,
        "unsorted" => Spec::Unsorted,
        other => {
            if let Some(width) = other.strip_prefix('0') {
                return match width.parse() {
                    Ok(width @ 1..=WIDTH_MAX) => Ok(Spec::Width(width)),
                    _ => Err(format!("`{other}` is not a width: `01` to `039`")),
                };
            }
            let buckets = other.strip_prefix("bucket(").and_then(|rest| rest.strip_suffix(')'));
            match buckets.map(str::parse) {
                Some(Ok(buckets @ 1..)) => Spec::Bucket(buckets),
                _ => return Err(format!("`{other}` is not a way to write a key field")),
            }
        }
    })
}

impl Spec {
    /// Whether equal texts may represent different values, for any type.
    pub(crate) fn is_bucket(self) -> bool {
        matches!(self, Self::Bucket(_))
    }

    /// Whether different values may have the same text.
    pub(crate) fn is_lossy(self) -> bool {
        self.is_bucket() || self == Self::Lower || self.calendar().is_some()
    }

    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Plain | Self::Lower)
    }

    pub(crate) fn is_time(self) -> bool {
        matches!(self, Self::Ticks | Self::Iso) || self.calendar().is_some()
    }

    /// How much of a moment is written, if it is a moment.
    pub(crate) fn calendar(self) -> Option<TokenStream> {
        let name = match self {
            Self::Month => quote!(Month),
            Self::Date => quote!(Date),
            Self::Hour => quote!(Hour),
            Self::Minute => quote!(Minute),
            _ => return None,
        };
        Some(quote!(::lazuli_client::key_part::Calendar::#name))
    }

    /// An expression: appends the text of `value`, a reference to a `ty`, to `out`.
    pub(crate) fn write(
        self,
        ty: &Type,
        value: &TokenStream,
        separator: Option<char>,
    ) -> TokenStream {
        let part = quote!(::lazuli_client::key_part);
        let separator = match separator {
            Some(separator) => quote!(::core::option::Option::Some(#separator)),
            None => quote!(::core::option::Option::None),
        };
        if let Some(calendar) = self.calendar() {
            return quote!(<#ty as #part::KeyCalendar>::write_calendar(#value, out, #calendar)?);
        }
        match self {
            Self::Plain | Self::Unsorted => {
                quote!(<#ty as #part::KeyText>::write_text(#value, out, #separator))
            }
            Self::Lower => quote!(<#ty as #part::KeyLower>::write_lower(#value, out, #separator)),
            Self::Width(width) => {
                quote!(<#ty as #part::KeyWidth>::write_width(#value, out, #width)?)
            }
            Self::Pad => quote!(<#ty as #part::KeyPad>::write_pad(#value, out)),
            Self::Rev => quote!(<#ty as #part::KeyRev>::write_rev(#value, out)?),
            Self::Ticks => quote!(#part::write_time_ticks::<#ty>(out, #value)?),
            Self::Iso => quote!(<#ty as #part::KeyIso>::write_iso(#value, out)?),
            Self::Hex => quote!(<#ty as #part::KeyHex>::write_hex(#value, out)),
            Self::Bucket(buckets) => {
                quote!(<#ty as #part::KeyText>::write_bucket(#value, out, #buckets))
            }
            Self::Month | Self::Date | Self::Hour | Self::Minute => quote!(()),
        }
    }

    /// A constant expression: the type's name in templates that are parsed at run time, if the text depends on more
    /// than the stored value.
    pub(crate) fn type_name(self, ty: &Type) -> Option<TokenStream> {
        let part = quote!(::lazuli_client::key_part);
        match self {
            Self::Pad => Some(quote!(<#ty as #part::KeyPad>::TYPE)),
            Self::Rev => Some(quote!(<#ty as #part::KeyRev>::TYPE)),
            _ => None,
        }
    }

    /// A constant expression: the length of the text in characters, if it is the same for all values of `ty`.
    pub(crate) fn width(self, ty: &Type) -> TokenStream {
        let part = quote!(::lazuli_client::key_part);
        let some = |width: TokenStream| quote!(::core::option::Option::Some(#width));
        if let Some(calendar) = self.calendar() {
            return some(quote!(#calendar.width()));
        }
        match self {
            Self::Plain | Self::Unsorted => quote!(<#ty as #part::KeyText>::WIDTH),
            Self::Lower => quote!(::core::option::Option::None),
            Self::Width(width) => some(quote!(#width)),
            Self::Pad => some(quote!(<#ty as #part::KeyPad>::PAD_WIDTH)),
            Self::Rev => some(quote!(<#ty as #part::KeyRev>::REV_WIDTH)),
            Self::Ticks => some(quote!(19)),
            Self::Iso => some(quote!(<#ty as #part::KeyIso>::ISO_WIDTH)),
            Self::Hex => quote!(<#ty as #part::KeyHex>::HEX_WIDTH),
            Self::Bucket(buckets) => {
                let width = (buckets - 1).checked_ilog10().unwrap_or(0) as usize + 1;
                some(quote!(#width))
            }
            Self::Month | Self::Date | Self::Hour | Self::Minute => {
                quote!(::core::option::Option::None)
            }
        }
    }

    /// An expression of type `Option<ty>`: the value of `text`. `None` if texts do not determine values.
    pub(crate) fn parse(self, ty: &Type, text: &TokenStream) -> Option<TokenStream> {
        let part = quote!(::lazuli_client::key_part);
        if let Some(calendar) = self.calendar() {
            return Some(quote!(<#ty as #part::KeyCalendar>::parse_calendar(#text, #calendar)));
        }
        Some(match self {
            Self::Plain | Self::Unsorted | Self::Lower => {
                quote!(<#ty as #part::KeyText>::parse_text(#text))
            }
            Self::Width(width) => quote!(<#ty as #part::KeyWidth>::parse_width(#text, #width)),
            Self::Pad => quote!(<#ty as #part::KeyPad>::parse_pad(#text)),
            Self::Rev => quote!(<#ty as #part::KeyRev>::parse_rev(#text)),
            Self::Ticks => quote!(#part::parse_time_ticks::<#ty>(#text)),
            Self::Iso => quote!(<#ty as #part::KeyIso>::parse_iso(#text)),
            Self::Hex => quote!(<#ty as #part::KeyHex>::parse_hex(#text)),
            Self::Bucket(_) | Self::Month | Self::Date | Self::Hour | Self::Minute => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_macro2::Span;

    fn parse(text: &str) -> Result<Template> {
        Template::parse(&LitStr::new(text, Span::call_site()))
    }

    #[test]
    fn templates_are_literals_and_fields() {
        let template = parse("a{{b}}_{id:06}{name:lower}!").unwrap();
        let fields: Vec<_> = template.fields().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(fields, ["id", "name"]);
        assert_eq!((template.prefix(), template.separator(1)), ("a{b}_", Some('!')));
        assert_eq!((template.literal_after(1), template.literal_after(2)), ("", "!"));
    }

    #[test]
    fn templates_that_no_key_has_are_refused() {
        let long = "x".repeat(513);
        for bad in ["{", "}", "{}", "{a:00}", "{a:040}", "{a:x}", "{a:bucket(0)}", "a/b", &long] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
