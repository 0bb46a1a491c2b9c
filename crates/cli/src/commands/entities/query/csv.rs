//! CSV by RFC 4180: a header, fields quoted where needed, CRLF.

use super::{KEYS, columns_of, value};
use crate::failure::with_hint;
use anyhow::Result;
use lazuli_client::{Entity, Loaded};

pub(super) struct CsvWriter {
    /// `None` until the first page with entities.
    columns: Option<Vec<String>>,
    is_fixed: bool,
    has_header: bool,
}

impl CsvWriter {
    pub(super) fn new(columns: Option<Vec<String>>) -> Self {
        Self { is_fixed: columns.is_some(), columns, has_header: false }
    }

    /// Appends a page. The first one with entities determines the columns, unless they are given: a header cannot be
    /// changed later.
    pub(super) fn page(&mut self, out: &mut Vec<u8>, entities: &[Loaded<Entity>]) -> Result<()> {
        if entities.is_empty() {
            return Ok(());
        }
        let columns = self.columns.get_or_insert_with(|| columns_of(entities)).clone();
        self.header(out);
        for entity in entities {
            let unknown = entity.properties().find(|(name, _)| !columns.iter().any(|c| c == name));
            if let Some((name, _)) = unknown.filter(|_| !self.is_fixed) {
                return Err(with_hint(
                    format!("property {name} first appears after the header was printed"),
                    "name the columns with --select",
                ));
            }
            let values = columns.iter().map(|name| value(entity, name));
            let keys = [entity.partition_key().to_owned(), entity.row_key().to_owned()];
            record(out, keys.into_iter().chain(values));
        }
        Ok(())
    }

    /// Appends what a file without entities still needs.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        self.header(out);
    }

    fn header(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_header, true) {
            let columns = self.columns.iter().flatten().cloned();
            record(out, KEYS.into_iter().map(str::to_owned).chain(columns));
        }
    }
}

fn record(out: &mut Vec<u8>, fields: impl Iterator<Item = String>) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if field.contains(['"', ',', '\r', '\n']) {
            out.extend_from_slice(format!("\"{}\"", field.replace('"', "\"\"")).as_bytes());
        } else {
            out.extend_from_slice(field.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_needed() {
        let mut out = Vec::new();
        record(
            &mut out,
            ["a", "b,c", "say \"x\"", "two\nlines", ""].map(str::to_owned).into_iter(),
        );
        assert_eq!(out, b"a,\"b,c\",\"say \"\"x\"\"\",\"two\nlines\",\r\n");
    }

    #[test]
    fn no_entities_are_a_header() {
        let mut out = Vec::new();
        CsvWriter::new(Some(vec!["Age".to_owned()])).end(&mut out);
        assert_eq!(out, b"PartitionKey,RowKey,Age\r\n");
    }
}
