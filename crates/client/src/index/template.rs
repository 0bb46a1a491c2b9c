//! Key templates parsed at run time (C-4.1, C-4.2): the same syntax, for programs without the type.
//!
//! The derive macro parses templates at compile time and knows the type of each field. Here the type is that of
//! the stored property, so the two formats that need the Rust type name it: `{n:pad(u32)}`, `{n:rev(u32)}`.

mod integer;
mod part;
mod spec;

pub(crate) use part::Part;

use lazuli_model::key::is_forbidden;
use lazuli_model::key_text::split_escaped;
use spec::Spec;
use std::collections::BTreeMap;
use std::fmt;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Field { name: String, spec: Spec },
}

/// The `KeyRev::TYPE` of moments.
pub(crate) const TIME: &str = "time";

/// The fields of a key, by name.
pub(crate) type Parts = BTreeMap<String, Part>;

impl Template {
    /// Parses a template; `Err` says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut segments = Vec::new();
        let mut literal = String::new();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '{' | '}' if rest.peek() == Some(&character) => {
                    rest.next();
                    literal.push(character);
                }
                '}' => return Err("`}` without `{`; a brace itself is `}}`".into()),
                '{' => {
                    let mut inside = String::new();
                    loop {
                        match rest.next() {
                            Some('}') => break,
                            Some(more) => inside.push(more),
                            None => return Err(format!("`{{{inside}` is not closed")),
                        }
                    }
                    if !literal.is_empty() {
                        segments.push(Segment::Literal(std::mem::take(&mut literal)));
                    }
                    let (name, spec) = inside.split_once(':').unwrap_or((&inside, ""));
                    if name.is_empty() {
                        return Err("`{}` names no field".into());
                    }
                    segments
                        .push(Segment::Field { name: name.to_owned(), spec: Spec::parse(spec)? });
                }
                other if is_forbidden(other) => {
                    return Err(format!("a key may not hold {other:?}"));
                }
                other => literal.push(other),
            }
        }
        if !literal.is_empty() {
            segments.push(Segment::Literal(literal));
        }
        let template = Self { segments };
        template.check().map(|()| template)
    }

    /// Fails if keys of this template cannot be parsed (C-4.4).
    fn check(&self) -> Result<(), String> {
        for (at, segment) in self.segments.iter().enumerate() {
            let Segment::Field { name, spec } = segment else { continue };
            if spec.width().is_some() {
                continue;
            }
            let mut run = self.run_after(at);
            if let Some((other, _)) = run.find(|(_, spec)| spec.width().is_none()) {
                return Err(format!("`{name}` and `{other}` need a literal between them"));
            }
            if self.separator(at) == Some('~') {
                return Err("`~` is for escaping and cannot follow a field".into());
            }
        }
        Ok(())
    }

    /// The same with renamed fields; `typed` returns the type for `pad` and `rev`.
    pub(crate) fn renamed(
        text: &str,
        name: impl Fn(&str) -> String,
        typed: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<Self, String> {
        let mut renamed = String::new();
        let mut rest = text;
        // Literal braces come in pairs and stay unchanged.
        while let Some((before, after)) = rest.split_once(['{', '}']) {
            renamed.push_str(before);
            let brace = rest.get(before.len()..=before.len()).unwrap_or_default();
            if let Some(more) = after.strip_prefix(brace) {
                renamed.push_str(brace);
                renamed.push_str(brace);
                rest = more;
                continue;
            }
            let (inside, more) = after.split_once('}').unwrap_or((after, ""));
            let (field, spec) = inside.split_once(':').unwrap_or((inside, ""));
            let ty = typed(field).unwrap_or_default();
            let spec = match spec {
                "unsorted" => String::new(),
                "rev" if ty == TIME => "rev".to_owned(),
                "pad" | "rev" => format!("{spec}({ty})"),
                other => other.to_owned(),
            };
            let colon = if spec.is_empty() { "" } else { ":" };
            renamed.push_str(&format!("{{{}{colon}{spec}}}", name(field)));
            rest = more;
        }
        renamed.push_str(rest);
        Self::parse(&renamed)
    }

    /// The literal prefix of all keys.
    pub(crate) fn prefix(&self) -> &str {
        match self.segments.first() {
            Some(Segment::Literal(literal)) => literal,
            _ => "",
        }
    }

    /// The names of the fields, in order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Field { name, .. } => Some(name.as_str()),
            Segment::Literal(_) => None,
        })
    }

    /// The first field of this template about which neither of two other keys says as much (P-1.2).
    pub(crate) fn untold<'a>(&'a self, by: [&Self; 2]) -> Option<&'a str> {
        self.parts().find_map(|(name, spec)| {
            let is_told = by.iter().any(|key| key.tells(name, spec));
            (!is_told && !matches!(spec, Spec::Bucket(_))).then_some(name)
        })
    }

    /// Whether keys of this template say as much about a field as the format `spec`.
    fn tells(&self, field: &str, spec: Spec) -> bool {
        self.parts().any(|(name, own)| name == field && (own == spec || !own.is_lossy()))
    }

    fn parts(&self) -> impl Iterator<Item = (&str, Spec)> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Field { name, spec } => Some((name.as_str(), *spec)),
            Segment::Literal(_) => None,
        })
    }

    /// The key made of these parts; `Ok(None)` if one is absent, `Err` names one that does not fit.
    pub(crate) fn write<'a>(
        &self,
        part: impl Fn(&str) -> Result<Option<&'a Part>, String>,
    ) -> Result<Option<String>, String> {
        let mut out = String::new();
        for (at, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Literal(literal) => out.push_str(literal),
                Segment::Field { name, spec } => {
                    let Some(part) = part(name)? else { return Ok(None) };
                    spec.write(&mut out, part, self.separator(at))
                        .ok_or_else(|| format!("`{name}` cannot be written as `{spec}`"))?;
                }
            }
        }
        Ok(Some(out))
    }

    /// The parts of a key; `None` if it does not match this template.
    pub(crate) fn read(&self, key: &str) -> Option<Parts> {
        let mut parts = Parts::new();
        let mut rest = key;
        for (at, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
                Segment::Field { name, spec } => {
                    let (text, after) = match spec.width() {
                        Some(width) => split_characters(rest, width)?,
                        None => self.split_variable(at, rest)?,
                    };
                    rest = after;
                    if let Some(part) = spec.read(text)? {
                        parts.insert(name.clone(), part);
                    }
                }
            }
        }
        rest.is_empty().then_some(parts)
    }

    /// Splits after a field of variable width: before the next literal or the end, and before the fixed-width fields
    /// in front of that.
    fn split_variable<'t>(&self, at: usize, text: &'t str) -> Option<(&'t str, &'t str)> {
        let end = match self.separator(at) {
            Some(separator) => split_escaped(text, separator)?.0.len(),
            None => text.len(),
        };
        let run: usize = self.run_after(at).filter_map(|(_, spec)| spec.width()).sum();
        let field = text.get(..end)?;
        let count = field.chars().count().checked_sub(run)?;
        split_characters(text, count)
    }

    /// The first character of the next literal after the segment at `index`.
    fn separator(&self, index: usize) -> Option<char> {
        self.segments.iter().skip(index + 1).find_map(|segment| match segment {
            Segment::Literal(literal) => literal.chars().next(),
            Segment::Field { .. } => None,
        })
    }

    /// The fields that follow the segment at `index` before the next literal.
    fn run_after(&self, index: usize) -> impl Iterator<Item = (&str, Spec)> {
        self.segments.iter().skip(index + 1).map_while(|segment| match segment {
            Segment::Field { name, spec } => Some((name.as_str(), *spec)),
            Segment::Literal(_) => None,
        })
    }
}

fn split_characters(text: &str, count: usize) -> Option<(&str, &str)> {
    let at = text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(count)?;
    text.split_at_checked(at)
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.iter().try_for_each(|segment| match segment {
            Segment::Literal(literal) => {
                f.write_str(&literal.replace('{', "{{").replace('}', "}}"))
            }
            Segment::Field { name, spec: Spec::Plain } => write!(f, "{{{name}}}"),
            Segment::Field { name, spec } => write!(f, "{{{name}:{spec}}}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_model::Timestamp;

    fn parts(parts: &[(&str, Part)]) -> Parts {
        parts.iter().map(|(name, part)| ((*name).to_owned(), part.clone())).collect()
    }

    #[track_caller]
    fn check(template: &str, known: &[(&str, Part)], key: &str) {
        let template = Template::parse(template).unwrap();
        let known = parts(known);
        let written = template.write(|name| Ok(known.get(name))).unwrap();
        assert_eq!(written.as_deref(), Some(key), "{template}");
        assert_eq!(template.read(key), Some(known), "{template}");
        assert_eq!(Template::parse(&template.to_string()), Ok(template));
    }

    #[test]
    fn keys_are_written_and_read_as_the_derive_macro_does() {
        // C-4.2, C-4.5, C-4.8.
        let text = |text: &str| Part::Text(text.to_owned());
        let number = Part::Number;
        let time = Part::Time(Timestamp::parse("2014-08-22T00:50:32Z").unwrap());
        check("empid_{id:06}", &[("id", number(223))], "empid_000223");
        let both = [("department", text("R_D")), ("id", number(7))];
        check("{department}_{id:06}", &both, "R~5FD_000007");
        check("{name}{id:03}", &[("name", text("a_b")), ("id", number(7))], "a_b007");
        check("{n:pad(u32)}", &[("n", number(9))], "0000000009");
        check("{n:pad(i32)}", &[("n", number(-1))], "2147483647");
        check("{n:rev(u8)}x", &[("n", number(5))], "250x");
        check("{t:rev}", &[("t", time.clone())], "2519936321679999999");
        check("{t:ticks}_", &[("t", time.clone())], "0635442654320000000_");
        check("{t:iso}", &[("t", time)], "2014-08-22T00:50:32.0000000Z");
        check("{{{a}}}", &[("a", text("x"))], "{x}");
        check("{b:hex}", &[("b", Part::Bytes(vec![1, 255]))], "01ff");
        check("{d:bucket(16)}_{d}", &[("d", text("Sales"))], "07_Sales");
    }

    #[test]
    fn what_a_key_holds_less_of_is_written_and_not_read() {
        let template = Template::parse("{t:date}").unwrap();
        let time = Part::Time(Timestamp::parse("2014-08-22T00:50:32Z").unwrap());
        assert_eq!(template.write(|_| Ok(Some(&time))), Ok(Some("20140822".to_owned())));
        let read = template.read("20140822").unwrap();
        let month = Template::parse("{t:month}").unwrap();
        assert_eq!(month.write(|name| Ok(read.get(name))), Ok(Some("201408".to_owned())));
        let lower = Template::parse("{n:lower}").unwrap();
        let name = Part::Text("Jones".into());
        assert_eq!(lower.write(|_| Ok(Some(&name))), Ok(Some("jones".to_owned())));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let template = Template::parse("x_{id:03}").unwrap();
        assert_eq!(template.write(|_| Ok(None)), Ok(None));
        for part in [Part::Number(1000), Part::Number(-1), Part::Text("a".into())] {
            let error = template.write(|_| Ok(Some(&part))).unwrap_err();
            assert_eq!(error, "`id` cannot be written as `03`");
        }
        for key in ["x_", "x_12", "x_1234", "y_123", "x_12a", ""] {
            assert_eq!(template.read(key), None, "{key}");
        }
    }

    #[test]
    fn templates_that_no_key_has_are_refused() {
        for bad in [
            "{",
            "}",
            "{}",
            "{a:00}",
            "{a:040}",
            "{a:x}",
            "{a:bucket(0)}",
            "a/b",
            "{a}{b}",
            "{a}~",
            "{a:pad}",
            "{a:pad(f64)}",
            "{a:rev(x)}",
            "{a:pad(u32}",
        ] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_declared_template_is_told_the_names_and_types_of_the_table() {
        let name =
            |field: &str| if field == "last_name" { "LastName".into() } else { field.into() };
        let renamed = Template::renamed("{{x{last_name:lower}_{id:pad}", name, |_| Some("u32"));
        assert_eq!(renamed.unwrap().to_string(), "{{x{LastName:lower}_{id:pad(u32)}");
        let renamed = Template::renamed("{id:rev}", name, |_| Some(TIME)).unwrap();
        assert_eq!(renamed.to_string(), "{id:rev}");
    }
}
