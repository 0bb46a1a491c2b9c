//! A streaming reader of documents.
//!
//! A document type is refused, so nothing expands. Comments and instructions are ignored, and so are
//! attributes unless a visitor asks for them.

use super::fault::Fault;
use super::write::is_in_xml;
use crate::words::{below, or_not_ascii, plain_prefix};
use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

/// The events of a document. Positions are bytes of the document, not counting a byte-order mark.
pub(super) trait Visit {
    /// Whether attributes are reported.
    const READS_ATTRIBUTES: bool = false;

    /// An element begins; a single tag also ends immediately.
    fn open(&mut self, name: &str, is_self_closing: bool, start: usize) -> Result<(), Fault>;
    /// An attribute of the element last opened. The value is as it stands in the document.
    fn attribute(&mut self, _name: &str, _value: &str) {}
    /// The element last opened ends.
    fn close(&mut self, end: usize) -> Result<(), Fault>;
    /// Text of the open element, with references resolved and only valid XML characters. Text may
    /// arrive in several pieces.
    fn text(&mut self, text: &str, start: usize) -> Result<(), Fault>;
}

/// Reads a document and returns its length. A byte-order mark may begin it.
pub(super) fn walk(document: &[u8], visit: &mut impl Visit) -> Result<usize, Fault> {
    let text = std::str::from_utf8(document).map_err(|error| Fault::syntax(error.valid_up_to()))?;
    let text = text.trim_start_matches('\u{feff}');
    let mut reader = Reader::from_str(text);
    loop {
        let start = place(reader.buffer_position());
        let event = reader.read_event();
        let event = event.map_err(|_| Fault::syntax(place(reader.error_position())))?;
        let end = place(reader.buffer_position());
        match event {
            Event::Start(tag) => {
                visit.open(tag.local_name().as_ref(), false, start)?;
                read_attributes(&tag, visit);
            }
            Event::Empty(tag) => {
                visit.open(tag.local_name().as_ref(), true, start)?;
                read_attributes(&tag, visit);
                visit.close(end)?;
            }
            Event::End(_) => visit.close(end)?,
            Event::Text(text) => {
                check_characters(&text, start)?;
                // The end marker of a CDATA section is allowed only to end one.
                if let Some(at) = text.find("]]>") {
                    return Err(Fault::syntax(start + at));
                }
                visit.text(&text.xml10_content(), start)?;
            }
            Event::CData(text) => {
                check_characters(&text, start + "<![CDATA[".len())?;
                visit.text(&text.xml10_content(), start)?;
            }
            Event::GeneralRef(reference) => {
                let found = character(&reference).filter(|character| is_in_xml(*character));
                let found = found.ok_or_else(|| Fault::syntax(start))?;
                visit.text(found.encode_utf8(&mut [0; 4]), start)?;
            }
            Event::DocType(_) => return Err(Fault::syntax(start)),
            // A declaration is valid only at the start of the document.
            Event::Decl(_) if start > 0 => return Err(Fault::syntax(start)),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof => return Ok(text.len()),
        }
    }
}

fn read_attributes<V: Visit>(tag: &BytesStart<'_>, visit: &mut V) {
    if V::READS_ATTRIBUTES {
        for attribute in tag.attributes().flatten() {
            visit.attribute(attribute.key.local_name().as_ref(), &attribute.value);
        }
    }
}

fn place(position: u64) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}

/// Refuses a text with a character that XML does not allow, such as U+0001 (Q-6.17, TQ-31).
fn check_characters(text: &str, start: usize) -> Result<(), Fault> {
    // Nearly every text is printable ASCII.
    let plain = plain_prefix(text.as_bytes(), |word| or_not_ascii(word, below(word, b' ')));
    let (_, rest) = text.split_at_checked(plain).unwrap_or(("", text));
    // For nearly every other one the bytes alone suffice: U+FFFE and U+FFFF begin with 0xEF.
    let is_plain = |byte: u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=0xEE | 0xF0..);
    if rest.bytes().all(is_plain) {
        return Ok(());
    }
    match rest.char_indices().find(|(_, character)| !is_in_xml(*character)) {
        Some((at, _)) => Err(Fault::syntax(start + plain + at)),
        None => Ok(()),
    }
}

/// The character a reference stands for: one by number, or one of the five that XML names.
fn character(reference: &BytesRef<'_>) -> Option<char> {
    match reference.resolve_char_ref() {
        Ok(Some(character)) => Some(character),
        Ok(None) => resolve_xml_entity(reference)?.chars().next(),
        Err(_) => None,
    }
}
