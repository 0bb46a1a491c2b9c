//! One JSON object per line: `ts`, `level`, `msg`, the fields of the event in their order, the fields
//! of the spans it happened in as `span`, and `target`.

use std::fmt::{self, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// The field that holds an event's message.
const MESSAGE: &str = "message";

#[derive(Debug)]
pub(super) struct JsonLines;

impl<S> FormatEvent<S, JsonFields> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str("{\"ts\":\"")?;
        SystemTime.format_time(&mut writer)?;
        writer.write_str("\",\"level\":\"")?;
        writer.write_str(event.metadata().level().as_str())?;
        writer.write_char('"')?;
        context.format_fields(writer.by_ref(), event)?;
        write_spans(context, &mut writer)?;
        writer.write_str(",\"target\":")?;
        write_str(&mut writer, event.metadata().target())?;
        writer.write_str("}\n")
    }
}

/// The fields of the spans around an event, the outermost first. Nested spans need different field
/// names.
fn write_spans<S>(context: &FmtContext<'_, S, JsonFields>, writer: &mut Writer<'_>) -> fmt::Result
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let mut is_open = false;
    for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
        let extensions = span.extensions();
        let fields = extensions.get::<FormattedFields<JsonFields>>();
        let fields = fields.map_or("", |fields| fields.fields.as_str());
        match is_open {
            true => writer.write_str(fields)?,
            false if fields.is_empty() => {}
            false => {
                write!(writer, ",\"span\":{{{}", fields.trim_start_matches(','))?;
                is_open = true;
            }
        }
    }
    if is_open { writer.write_char('}') } else { Ok(()) }
}

/// Fields as `,"name":value`.
#[derive(Debug)]
pub(super) struct JsonFields;

impl<'writer> FormatFields<'writer> for JsonFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = Fields { writer, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct Fields<'writer> {
    writer: Writer<'writer>,
    result: fmt::Result,
}

impl Fields<'_> {
    fn write(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        let name = match field.name() {
            MESSAGE => "msg",
            name => name,
        };
        if self.result.is_ok() {
            let writer = &mut self.writer;
            // Not by `write!`, which takes several times as long, for each field of each request.
            self.result = [",\"", name, "\":"]
                .into_iter()
                .try_for_each(|part| writer.write_str(part))
                .and_then(|()| value(writer));
        }
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write(field, |writer| write_text(writer, format_args!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, |writer| write_str(writer, value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, |writer| write!(writer, "{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, |writer| write!(writer, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write(field, |writer| write!(writer, "{value}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinities.
        self.write(field, |writer| match value.is_finite() {
            true => write!(writer, "{value}"),
            false => write!(writer, "\"{value}\""),
        });
    }
}

fn write_str(writer: &mut Writer<'_>, text: &str) -> fmt::Result {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if !text.bytes().all(is_plain) {
        return write_text(writer, format_args!("{text}"));
    }
    writer.write_char('"')?;
    writer.write_str(text)?;
    writer.write_char('"')
}

fn write_text(writer: &mut Writer<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
    writer.write_char('"')?;
    Escaped(writer).write_fmt(text)?;
    writer.write_char('"')
}

/// Escapes the characters that a JSON string must not contain.
struct Escaped<'a, 'writer>(&'a mut Writer<'writer>);

impl fmt::Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(|c: char| c == '"' || c == '\\' || c.is_control()) {
            let mut plain = part.chars();
            match plain.next_back() {
                Some(last @ ('"' | '\\')) => write!(self.0, "{}\\{last}", plain.as_str())?,
                Some('\n') => write!(self.0, "{}\\n", plain.as_str())?,
                Some(last) if last.is_control() => {
                    write!(self.0, "{}\\u{:04x}", plain.as_str(), u32::from(last))?;
                }
                _ => self.0.write_str(part)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::layer::SubscriberExt;

    /// What is logged by `act`, without its first field, the time.
    fn logged(act: impl FnOnce()) -> String {
        #[derive(Clone, Default)]
        struct Lines(Arc<Mutex<Vec<u8>>>);

        impl io::Write for Lines {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .fmt_fields(JsonFields)
            .event_format(JsonLines)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), act);
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let (time, rest) = text.split_once("\",").unwrap();
        assert!(time.starts_with("{\"ts\":\"2") && time.ends_with('Z'), "{time}");
        rest.to_owned()
    }

    #[test]
    fn an_event_is_one_object_with_its_fields_in_order() {
        let line = logged(|| {
            let cause = "a \"b\"\\\n\t\u{1}é";
            tracing::warn!(id = "x", status = 500, ok = false, share = 0.5, %cause, "failed");
        });
        assert_eq!(
            line,
            "\"level\":\"WARN\",\"msg\":\"failed\",\"id\":\"x\",\"status\":500,\"ok\":false,\
             \"share\":0.5,\"cause\":\"a \\\"b\\\"\\\\\\n\\u0009\\u0001é\",\
             \"target\":\"lazuli::logging::json::tests\"}\n"
        );
    }

    #[test]
    fn fields_of_spans_are_one_object() {
        let line = logged(|| {
            let _outer = tracing::info_span!("connection", peer = 7).entered();
            let _bare = tracing::info_span!("bare").entered();
            let inner = tracing::info_span!("request", id = "r", status = tracing::field::Empty);
            inner.record("status", 503);
            let _inner = inner.entered();
            tracing::error!(code = 1, "failed");
        });
        let expect = "\"code\":1,\"span\":{\"peer\":7,\"id\":\"r\" ,\"status\":503},\"target\"";
        assert!(line.contains(expect), "{line}");
    }

    #[test]
    fn numbers_that_json_lacks_are_text() {
        let line = logged(|| tracing::info!(rate = f64::NAN));
        assert!(line.contains("\"rate\":\"NaN\""), "{line}");
    }
}
