//! The attributes `#[table(..)]` of a type and of a field (C-5.2).

use crate::names::Rename;
use crate::summary;
use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprCall, ExprLit, Lit, LitInt, LitStr, Path, Result, Token};

/// Where a key comes from.
pub(crate) enum KeySource {
    Template(LitStr),
    /// A function that returns it for a value.
    With(Path),
}

/// The attributes of a type.
#[derive(Default)]
pub(crate) struct Container {
    pub(crate) name: Option<LitStr>,
    pub(crate) partition: Option<KeySource>,
    pub(crate) row: Option<KeySource>,
    pub(crate) kind: Option<LitStr>,
    pub(crate) version: Option<u32>,
    pub(crate) upgrades: Vec<(u32, Path)>,
    pub(crate) rename: Rename,
    pub(crate) discriminator: Option<LitStr>,
    pub(crate) deny_unknown: bool,
    /// How many write ids an entity keeps.
    pub(crate) write_ids: usize,
    pub(crate) shared_prefix: bool,
    pub(crate) child_of: Option<Path>,
    pub(crate) allow_append: bool,
    /// Rows of a wide entity (P-10).
    pub(crate) wide: Option<usize>,
    /// The parent type, and the fields with its key.
    pub(crate) parent: Option<(Path, Vec<syn::Ident>)>,
    /// For a union: kinds are distinguished by row keys.
    pub(crate) by_row: bool,
    /// For a union: writes update what the types declare about each other (P-15.3).
    pub(crate) model: bool,
    /// For a projection: the whole type.
    pub(crate) of: Option<Path>,
    /// For an enum: how values are stored.
    pub(crate) form: Option<LitStr>,
}

const WRITE_IDS: usize = 8;

impl Container {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut container = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("table")) {
            attribute.parse_nested_meta(|meta| container.set(&meta))?;
        }
        Ok(container)
    }

    fn set(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let is = |name| meta.path.is_ident(name);
        if is("name") {
            self.name = Some(meta.value()?.parse()?);
        } else if is("partition") {
            self.partition = Some(key_source(meta)?);
        } else if is("row") {
            self.row = Some(key_source(meta)?);
        } else if is("kind") {
            self.kind = Some(meta.value()?.parse()?);
        } else if is("version") {
            self.version = Some(positive(&meta.value()?.parse()?)?);
        } else if is("upgrade") {
            self.upgrades = upgrades(meta)?;
        } else if is("rename_all") {
            self.rename = Rename::parse(&meta.value()?.parse()?)?;
        } else if is("discriminator") {
            self.discriminator = Some(meta.value()?.parse()?);
        } else if is("deny_unknown") {
            self.deny_unknown = true;
        } else if is("write_id") {
            self.write_ids = write_ids(meta)?;
        } else if is("shared_prefix") {
            self.shared_prefix = true;
        } else if is("child_of") {
            self.child_of = Some(in_parentheses(meta)?);
        } else if is("parent") {
            self.parent = Some(parent(meta)?);
        } else if is("allow") {
            let what: Path = in_parentheses(meta)?;
            if !what.is_ident("append") {
                return Err(Error::new(what.span(), "expected `append`"));
            }
            self.allow_append = true;
        } else if is("wide") {
            self.wide = Some(wide(meta)?);
        } else if is("by") {
            let by: LitStr = meta.value()?.parse()?;
            if by.value() != "row" {
                return Err(Error::new(by.span(), "expected \"row\""));
            }
            self.by_row = true;
        } else if is("model") {
            self.model = true;
        } else if is("of") {
            self.of = Some(meta.value()?.parse()?);
        } else if is("as") {
            self.form = Some(meta.value()?.parse()?);
        } else {
            return Err(meta.error("unknown attribute of a type"));
        }
        Ok(())
    }
}

/// How a field includes the fields of another type.
pub(crate) struct Flatten {
    pub(crate) prefix: Option<LitStr>,
    pub(crate) delimiter: String,
}

/// A value that is stored in a blob if it is large (P-11).
pub(crate) struct Large {
    pub(crate) container: LitStr,
    /// The largest value for one property; `None` if all values go to the blob.
    pub(crate) inline_max: Option<usize>,
    /// The largest value for several properties.
    pub(crate) chunked_max: usize,
}

/// A field with many values, one property each (P-10).
pub(crate) struct SeriesField {
    pub(crate) prefix: LitStr,
    pub(crate) points: LitInt,
}

/// The attributes of a field.
#[derive(Default)]
pub(crate) struct FieldAttributes {
    pub(crate) name: Option<LitStr>,
    pub(crate) default: Option<Option<Expr>>,
    pub(crate) skip: bool,
    pub(crate) also_property: bool,
    pub(crate) form: Option<LitStr>,
    pub(crate) json: bool,
    pub(crate) flatten: Option<Flatten>,
    pub(crate) chunked: bool,
    pub(crate) large: Option<Large>,
    pub(crate) series: Option<SeriesField>,
    /// The part of a wide entity that stores it; 0 if it is assigned automatically.
    pub(crate) part: u8,
    pub(crate) encrypt: bool,
    /// Texts are padded to a multiple of this many bytes before they are encrypted.
    pub(crate) pad: u16,
    pub(crate) blind_index: bool,
    pub(crate) etag: bool,
    pub(crate) timestamp: bool,
    pub(crate) rest: bool,
    /// What it summarizes of the entities of another type (P-5.2).
    pub(crate) kept: Option<summary::Kept>,
    /// For a variant: it takes every row that no other variant takes.
    pub(crate) other: bool,
}

impl FieldAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut field = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("table")) {
            attribute.parse_nested_meta(|meta| field.set(&meta))?;
        }
        Ok(field)
    }

    fn set(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let is = |name| meta.path.is_ident(name);
        if is("name") {
            self.name = Some(meta.value()?.parse()?);
        } else if is("default") {
            let has_value = meta.input.peek(Token![=]);
            self.default = Some(if has_value { Some(meta.value()?.parse()?) } else { None });
        } else if is("skip") {
            self.skip = true;
        } else if is("also_property") {
            self.also_property = true;
        } else if is("as") {
            self.form = Some(meta.value()?.parse()?);
        } else if is("json") {
            self.json = true;
        } else if is("flatten") {
            self.flatten = Some(flatten(meta)?);
        } else if is("chunked") {
            self.chunked = true;
        } else if is("large") {
            self.large = Some(large(meta)?);
        } else if is("series") {
            self.series = Some(series(meta)?);
        } else if is("part") {
            let part: LitInt = meta.value()?.parse()?;
            self.part = part.base10_parse()?;
            if !(1..=99).contains(&self.part) {
                return Err(Error::new(part.span(), "parts count from 1 to 99"));
            }
        } else if is("encrypt") {
            self.encrypt = true;
            self.pad = pad(meta)?;
        } else if is("blind_index") {
            self.blind_index = true;
        } else if is("etag") {
            self.etag = true;
        } else if is("timestamp") {
            self.timestamp = true;
        } else if is("rest") {
            self.rest = true;
        } else if is("other") {
            self.other = true;
        } else if let Some(kept) = summary::parse(meta)? {
            self.kept = Some(kept);
        } else {
            return Err(meta.error("unknown attribute of a field"));
        }
        Ok(())
    }
}

/// `encrypt`, or `encrypt(pad = 256)`.
fn pad(meta: &ParseNestedMeta<'_>) -> Result<u16> {
    let mut pad = 0;
    if meta.input.peek(syn::token::Paren) {
        meta.parse_nested_meta(|inner| {
            if !inner.path.is_ident("pad") {
                return Err(inner.error("expected `pad`"));
            }
            pad = inner.value()?.parse::<LitInt>()?.base10_parse()?;
            Ok(())
        })?;
    }
    Ok(pad)
}

fn key_source(meta: &ParseNestedMeta<'_>) -> Result<KeySource> {
    match meta.value()?.parse()? {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(KeySource::Template(text)),
        Expr::Call(ExprCall { func, args, .. }) => match (&*func, args.first()) {
            (Expr::Path(function), Some(Expr::Path(with)))
                if function.path.is_ident("with") && args.len() == 1 =>
            {
                Ok(KeySource::With(with.path.clone()))
            }
            _ => Err(Error::new(func.span(), "expected a template, or `with(function)`")),
        },
        other => Err(Error::new(other.span(), "expected a template, or `with(function)`")),
    }
}

fn upgrades(meta: &ParseNestedMeta<'_>) -> Result<Vec<(u32, Path)>> {
    let content;
    syn::parenthesized!(content in meta.input);
    let mut upgrades: Vec<(u32, Path)> = Vec::new();
    while !content.is_empty() {
        let from: LitInt = content.parse()?;
        content.parse::<Token![=>]>()?;
        let version = positive(&from)?;
        if upgrades.last().is_some_and(|(last, _)| last + 1 != version) {
            return Err(Error::new(from.span(), "upgrades are in order, without gaps"));
        }
        upgrades.push((version, content.parse()?));
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    Ok(upgrades)
}

fn write_ids(meta: &ParseNestedMeta<'_>) -> Result<usize> {
    if !meta.input.peek(syn::token::Paren) {
        return Ok(WRITE_IDS);
    }
    let mut ids = WRITE_IDS;
    meta.parse_nested_meta(|inner| {
        if !inner.path.is_ident("window") {
            return Err(inner.error("expected `window`"));
        }
        let window: LitInt = inner.value()?.parse()?;
        ids = window.base10_parse()?;
        // Sixteen bytes each, in a property of at most 64 KiB.
        if (1..=4096).contains(&ids) {
            Ok(())
        } else {
            Err(Error::new(window.span(), "1 to 4096 ids"))
        }
    })?;
    Ok(ids)
}

fn flatten(meta: &ParseNestedMeta<'_>) -> Result<Flatten> {
    let mut flatten = Flatten { prefix: None, delimiter: "_".to_owned() };
    if meta.input.peek(syn::token::Paren) {
        meta.parse_nested_meta(|inner| {
            if inner.path.is_ident("prefix") {
                flatten.prefix = Some(inner.value()?.parse()?);
            } else if inner.path.is_ident("delimiter") {
                flatten.delimiter = inner.value()?.parse::<LitStr>()?.value();
            } else {
                return Err(inner.error("expected `prefix` or `delimiter`"));
            }
            Ok(())
        })?;
    }
    Ok(flatten)
}

fn large(meta: &ParseNestedMeta<'_>) -> Result<Large> {
    let (mut container, mut inline_max, mut chunked_max) = (None, Some(INLINE_MAX), 0);
    meta.parse_nested_meta(|inner| {
        if inner.path.is_ident("container") {
            container = Some(inner.value()?.parse()?);
        } else if inner.path.is_ident("always") {
            inline_max = None;
        } else if inner.path.is_ident("inline_max") {
            inline_max = Some(bytes_below(&inner, INLINE_MAX)?);
        } else if inner.path.is_ident("chunked_max") {
            chunked_max = bytes_below(&inner, CHUNKED_MAX)?;
        } else {
            let expected = "expected `container`, `always`, `inline_max` or `chunked_max`";
            return Err(inner.error(expected));
        }
        Ok(())
    })?;
    let container =
        container.ok_or_else(|| meta.error("name the container: `large(container = \"..\")`"))?;
    if inline_max.is_none() && chunked_max > 0 {
        return Err(meta.error("always and chunked_max exclude each other"));
    }
    Ok(Large { container, inline_max, chunked_max })
}

/// The longest binary property.
const INLINE_MAX: usize = 64 * 1024;
/// The greatest total of several properties; leaves room for others in an entity of 1 MiB.
const CHUNKED_MAX: usize = 512 * 1024;

fn bytes_below(meta: &ParseNestedMeta<'_>, max: usize) -> Result<usize> {
    let number: LitInt = meta.value()?.parse()?;
    match number.base10_parse()? {
        bytes if bytes <= max => Ok(bytes),
        _ => Err(Error::new(number.span(), format!("at most {max} bytes"))),
    }
}

/// `wide(parts = 2)`.
fn wide(meta: &ParseNestedMeta<'_>) -> Result<usize> {
    let mut parts = None;
    meta.parse_nested_meta(|inner| {
        if !inner.path.is_ident("parts") {
            return Err(inner.error("expected `parts`"));
        }
        parts = Some(inner.value()?.parse::<LitInt>()?.base10_parse()?);
        Ok(())
    })?;
    parts.ok_or_else(|| meta.error("say how many rows: `wide(parts = 2)`"))
}

/// `series(prefix = "D", points = 365)`.
fn series(meta: &ParseNestedMeta<'_>) -> Result<SeriesField> {
    let (mut prefix, mut points) = (None, None);
    meta.parse_nested_meta(|inner| {
        if inner.path.is_ident("prefix") {
            prefix = Some(inner.value()?.parse()?);
        } else if inner.path.is_ident("points") {
            points = Some(inner.value()?.parse()?);
        } else {
            return Err(inner.error("expected `prefix` or `points`"));
        }
        Ok(())
    })?;
    let missing = || meta.error("say `series(prefix = \"..\", points = ..)`");
    Ok(SeriesField { prefix: prefix.ok_or_else(missing)?, points: points.ok_or_else(missing)? })
}

/// `parent(Department, by = department)`, or `by(department, region)` for a key of several fields.
fn parent(meta: &ParseNestedMeta<'_>) -> Result<(Path, Vec<syn::Ident>)> {
    let content;
    syn::parenthesized!(content in meta.input);
    let parent = content.parse()?;
    content.parse::<Token![,]>()?;
    let by: syn::Ident = content.parse()?;
    if by != "by" {
        return Err(Error::new(by.span(), "expected `by`"));
    }
    if content.peek(Token![=]) {
        content.parse::<Token![=]>()?;
        return Ok((parent, vec![content.parse()?]));
    }
    let fields;
    syn::parenthesized!(fields in content);
    let fields = fields.parse_terminated(syn::Ident::parse, Token![,])?;
    Ok((parent, fields.into_iter().collect()))
}

fn in_parentheses<T: syn::parse::Parse>(meta: &ParseNestedMeta<'_>) -> Result<T> {
    let content;
    syn::parenthesized!(content in meta.input);
    content.parse()
}

fn positive(number: &LitInt) -> Result<u32> {
    match number.base10_parse()? {
        0 => Err(Error::new(number.span(), "versions count from 1")),
        number => Ok(number),
    }
}
