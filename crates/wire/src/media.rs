//! Payload formats: which one a client requests, and how a response names it.

/// How much OData control information a JSON payload carries (section 2.5 of the specification).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataLevel {
    None,
    Minimal,
    Full,
}

/// The two forms of Atom (T-2.64a).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomForm {
    /// Before 2013-08-15: one element per line.
    Indented,
    /// From 2013-08-15 on: all on one line.
    Compact,
}

/// The format of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json(MetadataLevel),
    Atom(AtomForm),
}

impl Format {
    /// The `Content-Type` of one entity or table, and in JSON of an error (T-2.21, T-7.2).
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Json(MetadataLevel::None) => {
                "application/json;odata=nometadata;streaming=true;charset=utf-8"
            }
            Self::Json(MetadataLevel::Minimal) => {
                "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"
            }
            Self::Json(MetadataLevel::Full) => {
                "application/json;odata=fullmetadata;streaming=true;charset=utf-8"
            }
            Self::Atom(AtomForm::Indented) => "application/atom+xml;charset=utf-8",
            Self::Atom(AtomForm::Compact) => "application/atom+xml;type=entry;charset=utf-8",
        }
    }

    /// The `Content-Type` of a query response (T-2.64).
    pub const fn collection_content_type(self) -> &'static str {
        match self {
            Self::Atom(AtomForm::Compact) => "application/atom+xml;type=feed;charset=utf-8",
            format => format.content_type(),
        }
    }
}

/// What a client accepts. The server decides whether the version of the request allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    Json(MetadataLevel),
    Atom,
    /// `*/*` or `application/*`.
    Any,
    /// The JSON of OData 2, which the service does not support (T-2.25).
    JsonVerbose,
    /// The request accepts only unsupported formats.
    Unsupported,
    /// The request does not say.
    Absent,
}

/// Reads the `Accept` header and the `$format` option, which overrides it (T-2.23, T-2.24).
///
/// In a list, the supported entry with the highest `q` wins, the first of equals (T-2.26).
pub fn negotiate(accept: Option<&str>, dollar_format: Option<&str>) -> Accepted {
    let asked = |text: &&str| !text.trim().is_empty();
    if let Some(format) = dollar_format.filter(asked) {
        return short_name(format.trim()).unwrap_or_else(|| parse_entry(format).0);
    }
    let Some(accept) = accept.filter(asked) else {
        return Accepted::Absent;
    };
    if let Some(level) = exact_level(accept) {
        return Accepted::Json(level);
    }
    let mut best = (Accepted::Unsupported, 0);
    for entry in accept.split(',') {
        let (accepted, quality) = parse_entry(entry);
        match accepted {
            Accepted::Unsupported => {}
            // Reported only when nothing else is acceptable.
            Accepted::JsonVerbose if best.1 == 0 => best.0 = Accepted::JsonVerbose,
            Accepted::JsonVerbose => {}
            _ if quality > best.1 => best = (accepted, quality),
            _ => {}
        }
    }
    best.0
}

/// A fast path for what nearly every client sends: the header is read several times per request.
fn exact_level(accept: &str) -> Option<MetadataLevel> {
    match accept {
        "application/json;odata=minimalmetadata" | "application/json" => {
            Some(MetadataLevel::Minimal)
        }
        "application/json;odata=nometadata" => Some(MetadataLevel::None),
        "application/json;odata=fullmetadata" => Some(MetadataLevel::Full),
        _ => None,
    }
}

/// The abbreviations `$format` may use instead of a media type.
fn short_name(text: &str) -> Option<Accepted> {
    if text.eq_ignore_ascii_case("json") {
        Some(Accepted::Json(MetadataLevel::Minimal))
    } else if text.eq_ignore_ascii_case("atom") {
        Some(Accepted::Atom)
    } else {
        None
    }
}

/// One entry of an Accept list, and its `q` in thousandths. Parameters other than `odata` and `q`
/// change nothing.
fn parse_entry(entry: &str) -> (Accepted, u16) {
    let mut parts = entry.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    let mut json = Accepted::Json(MetadataLevel::Minimal);
    let mut quality = 1000;
    for (name, value) in parts.filter_map(|p| p.split_once('=')) {
        let value = value.trim().trim_matches('"');
        if name.trim_end().eq_ignore_ascii_case("odata") {
            json = parse_level(value);
        } else if name.trim_end().eq_ignore_ascii_case("q") {
            quality = parse_quality(value);
        }
    }
    let is = |name: &str| media_type.eq_ignore_ascii_case(name);
    let accepted = if is("application/json") {
        json
    } else if is("application/atom+xml") {
        Accepted::Atom
    } else if is("*/*") || is("application/*") {
        Accepted::Any
    } else {
        Accepted::Unsupported
    };
    (accepted, quality)
}

fn parse_level(text: &str) -> Accepted {
    [
        ("nometadata", Accepted::Json(MetadataLevel::None)),
        ("minimalmetadata", Accepted::Json(MetadataLevel::Minimal)),
        ("fullmetadata", Accepted::Json(MetadataLevel::Full)),
        ("verbose", Accepted::JsonVerbose),
    ]
    .into_iter()
    .find(|(name, _)| text.eq_ignore_ascii_case(name))
    .map_or(Accepted::Unsupported, |(_, accepted)| accepted)
}

/// `q` in thousandths; a value that is not a number is ignored.
fn parse_quality(text: &str) -> u16 {
    match text.parse::<f32>() {
        Ok(quality) if quality.is_finite() => (quality.clamp(0.0, 1.0) * 1000.0).round() as u16,
        _ => 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(accept: &str, expect: Accepted) {
        assert_eq!(negotiate(Some(accept), None), expect, "{accept}");
    }

    #[test]
    fn the_odata_parameter_sets_the_json_level() {
        check("application/json;odata=nometadata", Accepted::Json(MetadataLevel::None));
        check("application/json; odata=minimalmetadata", Accepted::Json(MetadataLevel::Minimal));
        check(
            "application/json;streaming=true;odata=fullmetadata;charset=utf-8",
            Accepted::Json(MetadataLevel::Full),
        );
        check("application/json", Accepted::Json(MetadataLevel::Minimal));
        check("application/json;odata=nonsense", Accepted::Unsupported);
    }

    /// T-2.25.
    #[test]
    fn verbose_json_is_reported_when_nothing_else_is_acceptable() {
        check("application/json;odata=verbose", Accepted::JsonVerbose);
        check("text/html, application/json; odata=Verbose;q=0.5", Accepted::JsonVerbose);
        let plain = Accepted::Json(MetadataLevel::Minimal);
        check("application/json;odata=verbose, application/json;q=0.1", plain);
        check("application/json, application/json;odata=verbose", plain);
    }

    #[test]
    fn others_are_atom_anything_or_nothing() {
        check("application/atom+xml,application/xml", Accepted::Atom);
        check("*/*", Accepted::Any);
        check("application/xml", Accepted::Unsupported);
        check("", Accepted::Absent);
        assert_eq!(negotiate(None, None), Accepted::Absent);
    }

    #[test]
    fn lists_go_by_quality_then_order() {
        let full = Accepted::Json(MetadataLevel::Full);
        check("application/json;odata=fullmetadata, application/atom+xml", full);
        check("application/atom+xml;q=0.5, application/json;odata=fullmetadata;q=0.8", full);
        check("text/html, */*;q=0.1, application/json;odata=fullmetadata;q=0.2", full);
        check("application/json;q=0", Accepted::Unsupported);
    }

    #[test]
    fn format_overrides_accept() {
        // python/test_table_entity.test_query_entities_full_metadata sends both.
        let both = negotiate(
            Some("application/json;odata=minimalmetadata"),
            Some("application/json;odata=fullmetadata"),
        );
        assert_eq!(both, Accepted::Json(MetadataLevel::Full));
        assert_eq!(negotiate(Some("*/*"), Some("atom")), Accepted::Atom);
        assert_eq!(negotiate(Some("application/json"), Some("xml")), Accepted::Unsupported);
        assert_eq!(negotiate(Some("*/*"), Some("")), Accepted::Any);
    }

    proptest! {
        #[test]
        fn negotiate_never_panics(accept in any::<String>(), format in any::<Option<String>>()) {
            let _ = negotiate(Some(&accept), format.as_deref());
        }
    }
}
