//! A small XML document as a tree of elements.
//!
//! Bounded in bytes, depth and number of elements. A document type is refused, so nothing expands;
//! attributes and comments are ignored, and of text only that of leaves is used.

use super::XmlError;
use super::write::is_in_xml;
use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, Event};

const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
const DEPTH_MAX: usize = 8;
const ELEMENTS_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Element {
    name: String,
    text: String,
    pub(super) children: Vec<Self>,
}

impl Element {
    /// Parses a document and returns its root, which must be called `name`.
    pub(super) fn parse(document: &[u8], name: &str) -> Result<Self, XmlError> {
        if document.len() > DOCUMENT_BYTES_MAX {
            return Err(XmlError::TooLarge);
        }
        let text = std::str::from_utf8(document).map_err(|_| XmlError::Syntax)?;
        let mut builder = Builder::default();
        let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
        loop {
            match reader.read_event().map_err(|_| XmlError::Syntax)? {
                Event::Start(tag) => builder.open(tag.local_name().as_ref())?,
                Event::Empty(tag) => {
                    builder.open(tag.local_name().as_ref())?;
                    builder.close()?;
                }
                Event::End(_) => builder.close()?,
                Event::Text(text) => builder.text(&text.xml10_content())?,
                Event::CData(text) => builder.text(&text.xml10_content())?,
                Event::GeneralRef(reference) => {
                    builder.text(character(&reference)?.encode_utf8(&mut [0; 4]))?;
                }
                Event::DocType(_) => return Err(XmlError::Syntax),
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
                Event::Eof => break,
            }
        }
        builder.finish(name)
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.name == name
    }

    /// The text without the white space around it.
    pub(super) fn text(&self) -> &str {
        self.text.trim()
    }

    /// The one child called `name`, if there is one.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.is(name))
    }

    pub(super) fn required(&self, name: &str) -> Result<&Self, XmlError> {
        self.child(name).ok_or(XmlError::MissingNode)
    }

    /// The text of a child; `None` when it is absent or empty.
    pub(super) fn child_text(&self, name: &str) -> Option<&str> {
        self.child(name).map(Self::text).filter(|text| !text.is_empty())
    }

    /// Checks that every child is one of `names`, and none there twice.
    pub(super) fn expect_children(&self, names: &[&str]) -> Result<(), XmlError> {
        let known = |child: &&Self| names.contains(&child.name.as_str());
        let mut seen: Vec<_> = self.children.iter().take_while(known).map(|c| &c.name).collect();
        seen.sort_unstable();
        seen.dedup();
        if seen.len() == self.children.len() { Ok(()) } else { Err(XmlError::UnexpectedNode) }
    }
}

#[derive(Default)]
struct Builder {
    root: Option<Element>,
    /// The elements not yet closed, outermost first.
    open: Vec<Element>,
    elements: usize,
}

impl Builder {
    fn open(&mut self, name: &str) -> Result<(), XmlError> {
        self.elements += 1;
        if self.open.len() == DEPTH_MAX || self.elements > ELEMENTS_MAX {
            return Err(XmlError::TooLarge);
        }
        if self.root.is_some() {
            return Err(XmlError::Syntax);
        }
        self.open.push(Element { name: name.to_owned(), ..Element::default() });
        Ok(())
    }

    fn close(&mut self) -> Result<(), XmlError> {
        let element = self.open.pop().ok_or(XmlError::Syntax)?;
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), XmlError> {
        if !text.chars().all(is_in_xml) {
            return Err(XmlError::Syntax);
        }
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.trim().is_empty() => {}
            None => return Err(XmlError::Syntax),
        }
        Ok(())
    }

    fn finish(self, name: &str) -> Result<Element, XmlError> {
        match self.root {
            Some(root) if self.open.is_empty() && root.is(name) => Ok(root),
            Some(root) if self.open.is_empty() && !root.is(name) => Err(XmlError::UnexpectedNode),
            _ => Err(XmlError::Syntax),
        }
    }
}

/// The character a reference stands for: one by number, or one of the five that XML names.
fn character(reference: &BytesRef<'_>) -> Result<char, XmlError> {
    if let Some(character) = reference.resolve_char_ref().map_err(|_| XmlError::Syntax)? {
        return Ok(character);
    }
    let text = resolve_xml_entity(reference).ok_or(XmlError::Syntax)?;
    text.chars().next().ok_or(XmlError::Syntax)
}
