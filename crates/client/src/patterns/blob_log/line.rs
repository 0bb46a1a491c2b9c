//! Lines of a log (T-9.34).

use lazuli_model::Timestamp;
use std::borrow::Cow;

/// One line of a log: a time, and fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub fields: Vec<String>,
}

impl LogLine {
    /// A line.
    pub fn new<F: Into<String>>(at: Timestamp, fields: impl IntoIterator<Item = F>) -> Self {
        Self { at, fields: fields.into_iter().map(Into::into).collect() }
    }

    /// Appends the text of the line with its line end.
    pub(super) fn write(&self, out: &mut String) {
        out.push_str(self.at.text(&mut [0; Timestamp::TEXT_BYTES_MAX]));
        for field in &self.fields {
            out.push(';');
            if field.contains([';', '"', '\n', '\r']) {
                out.push('"');
                encode(field, out);
                out.push('"');
            } else {
                out.push_str(field);
            }
        }
        out.push('\n');
    }

    /// Parses a line without its line end; `None` if it is malformed.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut fields = split(text).into_iter();
        let at = Timestamp::parse(&fields.next()?)?;
        Some(Self { at, fields: fields.map(Cow::into_owned).collect() })
    }
}

/// HTML entities for characters that a quoted field cannot contain.
fn encode(field: &str, out: &mut String) {
    for c in field.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            c => out.push(c),
        }
    }
}

fn decode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let known = after.split_once(';').and_then(|(name, after)| Some((entity(name)?, after)));
        rest = match known {
            Some((c, after)) => {
                out.push(c);
                after
            }
            None => {
                out.push('&');
                after
            }
        };
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "quot" => Some('"'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

/// The fields of a line, separated by `;` outside of quotes.
fn split(text: &str) -> Vec<Cow<'_, str>> {
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let quoted = rest.strip_prefix('"').and_then(|inside| inside.split_once('"'));
        let (field, after) = match quoted {
            Some((inside, after)) if after.is_empty() || after.starts_with(';') => {
                (Cow::Owned(decode(inside)), after.strip_prefix(';'))
            }
            _ => match rest.split_once(';') {
                Some((field, after)) => (Cow::Borrowed(field), Some(after)),
                None => (Cow::Borrowed(rest), None),
            },
        };
        fields.push(field);
        match after {
            Some(after) => rest = after,
            None => return fields,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(line: &LogLine) -> String {
        let mut out = String::new();
        line.write(&mut out);
        out
    }

    #[test]
    fn fields_are_separated_and_quoted_as_storage_analytics_does() {
        // PS-14.3, T-9.34.
        let at = Timestamp::parse("2014-07-31T18:00:05Z").unwrap();
        let line = LogLine::new(at, ["GetMessage", "a;b", "say \"hi\"", "two\nlines", "a&b", ""]);
        let expected = "2014-07-31T18:00:05Z;GetMessage;\"a;b\";\"say &quot;hi&quot;\";\"two&#10;lines\";a&b;\n";
        assert_eq!(text(&line), expected);
        assert_eq!(LogLine::parse(expected.trim_end_matches('\n')), Some(line));
        let foreign = "2014-07-31T18:00:05Z;\"/a?comp=list&amp;x=1&#x27;\";\"no end";
        let parsed = LogLine::parse(foreign).unwrap();
        assert_eq!(parsed.fields, ["/a?comp=list&x=1'", "\"no end"]);
        assert_eq!(LogLine::parse("1.0;not a time"), None);
    }

    proptest! {
        #[test]
        fn lines_read_back(fields in proptest::collection::vec("[a-z;\"&\r\n<>é#]{0,8}", 0..5)) {
            let line = LogLine::new(Timestamp::from_unix_seconds(1), fields);
            let text = text(&line);
            prop_assert_eq!(text.matches('\n').count(), 1);
            let parsed = LogLine::parse(text.trim_end_matches('\n'));
            // A line without fields has no separator.
            prop_assert_eq!(parsed, Some(line));
        }
    }
}
