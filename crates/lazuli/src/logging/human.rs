//! Lines for people: access lines aligned in columns, all others in the subscriber's format.

use lazuli_server::ACCESS;
use std::fmt::{self, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

#[derive(Debug, Default)]
pub(super) struct HumanLines(Format<Full>);

impl<S, N> FormatEvent<S, N> for HumanLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if event.metadata().target() != ACCESS {
            return self.0.format_event(context, writer, event);
        }
        let mut line = AccessLine::default();
        event.record(&mut line);
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        // The time of day, to the millisecond, of `2026-11-16T12:31:04.123456Z`.
        writeln!(writer, "{}  {line}", time.get(11..23).unwrap_or(&time))
    }
}

/// The fields of an access line for people.
#[derive(Debug, Default)]
struct AccessLine {
    /// `None` if the request was cut before its response.
    status: Option<u64>,
    us: u64,
    service: String,
    op: String,
    resource: String,
    account: String,
    id: String,
    code: Option<String>,
    plan: Option<String>,
    examined: u64,
    returned: u64,
    ops: Option<u64>,
}

impl Visit for AccessLine {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "status" => self.status = Some(value),
            "us" => self.us = value,
            "examined" => self.examined = value,
            "returned" => self.returned = value,
            "ops" => self.ops = Some(value),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "service" => self.service = value.to_owned(),
            "op" => self.op = value.to_owned(),
            "resource" => self.resource = value.to_owned(),
            "account" => self.account = value.to_owned(),
            "id" => self.id = value.to_owned(),
            "code" => self.code = Some(value.to_owned()),
            "plan" => self.plan = Some(value.to_owned()),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// `200   412µs  table  QueryEntity            Orders  devstoreaccount1  id 3c1f…  plan Point 1/1`
impl fmt::Display for AccessLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{status}")?,
            None => f.write_str("cut")?,
        }
        write!(f, "  {:>7}  ", duration(self.us))?;
        let operation = if self.op.is_empty() { "-" } else { &self.op };
        write!(f, "{:5}  {operation:22}", self.service)?;
        let names = [&self.resource, &self.account].into_iter().filter(|name| !name.is_empty());
        for name in names {
            write!(f, "  {}", Visible(name))?;
        }
        write!(f, "  id {}", self.id)?;
        if let Some(code) = &self.code {
            write!(f, "  {code}")?;
        }
        if let Some(plan) = &self.plan {
            write!(f, "  plan {plan} {}/{}", self.returned, self.examined)?;
        }
        self.ops.map_or(Ok(()), |ops| write!(f, "  {ops} operations"))
    }
}

fn duration(us: u64) -> String {
    match us {
        0..10_000 => format!("{us}µs"),
        10_000..10_000_000 => format!("{}ms", us / 1000),
        _ => format!("{}s", us / 1_000_000),
    }
}

/// Client text without characters that control a terminal.
struct Visible<'a>(&'a str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| f.write_char(if c.is_control() { '?' } else { c }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_aligned() {
        let text = |value: &str| value.to_owned();
        let line = AccessLine {
            status: Some(200),
            us: 412,
            service: text("table"),
            op: text("QueryEntity"),
            resource: text("Orders"),
            account: text("devstoreaccount1"),
            id: text("3c1f"),
            plan: Some(text("Point")),
            examined: 1,
            returned: 1,
            ..AccessLine::default()
        };
        let expect = "200    412µs  table  QueryEntity             Orders  devstoreaccount1  id 3c1f  plan Point 1/1";
        assert_eq!(line.to_string(), expect);
        let failed = AccessLine {
            status: Some(503),
            us: 12_345_678,
            service: text("table"),
            resource: text("a\u{1b}[31m"),
            code: Some(text("ServerBusy")),
            ..AccessLine::default()
        };
        let expect = "503      12s  table  -                       a?[31m  id   ServerBusy";
        assert_eq!(failed.to_string(), expect);
        let cut = AccessLine { service: text("table"), op: text("InsertEntity"), ..failed };
        let cut = AccessLine { status: None, us: 7, code: None, ..cut };
        let expect = "cut      7µs  table  InsertEntity            a?[31m  id ";
        assert_eq!(cut.to_string(), expect);
    }
}
