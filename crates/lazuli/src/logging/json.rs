//! One JSON object per line: `ts`, `level`, `msg`, the fields of the event in their order, the fields
//! of the spans it happened in as `span`, and `target`.
//!
//! A layer of its own, because the subscriber's formatter passes every few bytes through three writers:
//! with `--access-log all` that took a quarter of the instructions of a request.

use lazuli_model::digits::write_unsigned;
use lazuli_model::{Clock, SystemClock, Timestamp};
use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The field that holds an event's message.
const MESSAGE: &str = "message";

thread_local! {
    /// The buffer of the last line, reused.
    static LINE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Writes each event as one line, in one write.
#[derive(Debug)]
pub(super) struct JsonLines<W>(pub(super) W);

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields(Vec::new());
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        // Taken out, so that a value that logs while it is formatted gets its own line.
        let mut line = Fields(LINE.try_with(Cell::take).unwrap_or_default());
        line.0.clear();
        line.write_event(event, &context);
        // A log that cannot be written must not disturb requests (O-4.1).
        let _ = self.0.make_writer().write_all(&line.0);
        let _ = LINE.try_with(|kept| kept.set(line.0));
    }
}

/// Fields as `,"name":value`.
struct Fields(Vec<u8>);

impl Fields {
    fn write_event<S>(&mut self, event: &Event<'_>, context: &Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let mut time = [0; Timestamp::TEXT_BYTES_MAX];
        self.raw("{\"ts\":\"");
        self.raw(SystemClock.now().text_full(&mut time));
        self.raw("\",\"level\":\"");
        self.raw(event.metadata().level().as_str());
        self.raw("\"");
        event.record(self);
        self.write_spans(event, context);
        self.raw(",\"target\":");
        self.text(event.metadata().target());
        self.raw("}\n");
    }

    /// The fields of the spans around an event, the outermost first. Nested spans need different field
    /// names.
    fn write_spans<S>(&mut self, event: &Event<'_>, context: &Context<'_, S>)
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let mut is_open = false;
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            match extensions.get::<Self>().map(|fields| &fields.0[..]) {
                None | Some([]) => {}
                Some(fields) if is_open => self.0.extend_from_slice(fields),
                Some([_comma, fields @ ..]) => {
                    self.raw(",\"span\":{");
                    self.0.extend_from_slice(fields);
                    is_open = true;
                }
            }
        }
        if is_open {
            self.raw("}");
        }
    }

    fn name(&mut self, field: &Field) {
        self.raw(",\"");
        self.raw(match field.name() {
            MESSAGE => "msg",
            name => name,
        });
        self.raw("\":");
    }

    fn raw(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn text(&mut self, text: &str) {
        self.raw("\"");
        match is_plain(text) {
            true => self.raw(text),
            // Writing to memory does not fail.
            false => drop(Escaped(&mut self.0).write_str(text)),
        }
        self.raw("\"");
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.name(field);
        self.raw("\"");
        // A value whose formatting fails is truncated.
        let _ = write!(Escaped(&mut self.0), "{value:?}");
        self.raw("\"");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.name(field);
        self.text(value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.name(field);
        write_unsigned(&mut self.0, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.name(field);
        if value < 0 {
            self.raw("-");
        }
        write_unsigned(&mut self.0, value.unsigned_abs());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.name(field);
        self.raw(if value { "true" } else { "false" });
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.name(field);
        // JSON has no infinities. Writing to memory does not fail.
        let _ = match value.is_finite() {
            true => write!(self.0, "{value}"),
            false => write!(self.0, "\"{value}\""),
        };
    }
}

/// Whether no character needs an escape. Tests every byte, which takes fewer instructions than an early exit.
fn is_plain(text: &str) -> bool {
    let is_special = |byte: u8| !matches!(byte, b' '..=b'~') | (byte == b'"') | (byte == b'\\');
    !text.bytes().fold(false, |found, byte| found | is_special(byte))
}

/// Escapes the characters that a JSON string must not contain.
struct Escaped<'a>(&'a mut Vec<u8>);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(|c: char| c == '"' || c == '\\' || c.is_control()) {
            let mut plain = part.chars();
            let last = plain.next_back().filter(|c| matches!(c, '"' | '\\') || c.is_control());
            let Some(last) = last else {
                self.0.extend_from_slice(part.as_bytes());
                continue;
            };
            self.0.extend_from_slice(plain.as_str().as_bytes());
            // Writing to memory does not fail.
            let _ = match last {
                '"' | '\\' => write!(self.0, "\\{last}"),
                '\n' => write!(self.0, "\\n"),
                control => write!(self.0, "\\u{:04x}", u32::from(control)),
            };
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

    /// The lines that `act` logs, without their first field, the time.
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
        let layer = JsonLines(move || writer.clone());
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
        let expect = "\"code\":1,\"span\":{\"peer\":7,\"id\":\"r\",\"status\":503},\"target\"";
        assert!(line.contains(expect), "{line}");
    }

    #[test]
    fn numbers_that_json_lacks_are_text() {
        let line = logged(|| tracing::info!(rate = f64::NAN));
        assert!(line.contains("\"rate\":\"NaN\""), "{line}");
    }

    #[test]
    fn numbers_have_all_their_digits() {
        let line = logged(|| tracing::info!(least = i64::MIN, most = u64::MAX, none = 0));
        let expect = "\"least\":-9223372036854775808,\"most\":18446744073709551615,\"none\":0";
        assert!(line.contains(expect), "{line}");
    }
}
