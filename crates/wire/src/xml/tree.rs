//! A small XML document as a tree of elements.
//!
//! Bounded in bytes, depth and number of elements; only the text of leaves is used. Requests have
//! tight bounds. Responses, which a client reads, have loose ones: the client bounds their bytes as
//! they arrive.

use super::XmlError;
use super::fault::Fault;
use super::walk::{Visit, walk};

const DEPTH_MAX: usize = 8;

#[derive(Clone, Copy)]
struct Bounds {
    bytes: usize,
    elements: usize,
}

const REQUEST: Bounds = Bounds { bytes: 256 * 1024, elements: 1000 };
/// 5,000 blobs with 40 elements each, and room to spare.
const ANSWER: Bounds = Bounds { bytes: 64 * 1024 * 1024, elements: 1_000_000 };

#[derive(Debug, Default)]
pub(super) struct Element {
    name: String,
    text: String,
    pub(super) children: Vec<Self>,
    /// Whether it is a single tag, like `<Name />`.
    pub(super) is_self_closing: bool,
    /// Whether it has the attribute `Encoded="true"` (B-15.20).
    pub(super) is_encoded: bool,
    /// The bytes of the document before what follows it.
    pub(super) end: usize,
}

impl Element {
    /// Parses a document and returns its root, which must be called `name`.
    pub(super) fn parse(document: &[u8], name: &str) -> Result<Self, Fault> {
        Self::parse_within(document, name, REQUEST)
    }

    /// Like [`Element::parse`], for a document that a service sent.
    pub(super) fn parse_answer(document: &[u8], name: &str) -> Result<Self, Fault> {
        Self::parse_within(document, name, ANSWER)
    }

    fn parse_within(document: &[u8], name: &str, bounds: Bounds) -> Result<Self, Fault> {
        if document.len() > bounds.bytes {
            return Err(XmlError::TooLarge.into());
        }
        let mut builder = Builder { root: None, open: Vec::new(), left: bounds.elements };
        let end = walk(document, &mut builder)?;
        match builder.root {
            Some(root) if builder.open.is_empty() && root.is(name) => Ok(root),
            Some(_) if builder.open.is_empty() => Err(XmlError::UnexpectedNode.into()),
            _ => Err(Fault::syntax(end)),
        }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.name == name
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The text without the white space around it.
    pub(super) fn text(&self) -> &str {
        self.text.trim()
    }

    /// The text, including white space.
    pub(super) fn raw_text(&self) -> &str {
        &self.text
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

    /// Checks that every child is one of `names`, without duplicates.
    pub(super) fn expect_children(&self, names: &[&str]) -> Result<(), XmlError> {
        let known = |child: &&Self| names.contains(&child.name.as_str());
        let mut seen: Vec<_> = self.children.iter().take_while(known).map(|c| &c.name).collect();
        seen.sort_unstable();
        seen.dedup();
        if seen.len() == self.children.len() { Ok(()) } else { Err(XmlError::UnexpectedNode) }
    }
}

struct Builder {
    root: Option<Element>,
    /// The elements not yet closed, outermost first.
    open: Vec<Element>,
    /// How many more elements may come.
    left: usize,
}

impl Visit for Builder {
    const READS_ATTRIBUTES: bool = true;

    fn attribute(&mut self, name: &str, value: &str) {
        if let Some(element) = self.open.last_mut() {
            element.is_encoded |= name == "Encoded" && value == "true";
        }
    }

    fn open(&mut self, name: &str, is_self_closing: bool, start: usize) -> Result<(), Fault> {
        self.left = match self.left.checked_sub(1) {
            Some(left) if self.open.len() < DEPTH_MAX => left,
            _ => return Err(XmlError::TooLarge.into()),
        };
        if self.root.is_some() {
            return Err(Fault::syntax(start));
        }
        self.open.push(Element { name: name.to_owned(), is_self_closing, ..Element::default() });
        Ok(())
    }

    fn close(&mut self, end: usize) -> Result<(), Fault> {
        let element = self.open.pop().ok_or_else(|| Fault::syntax(end))?;
        let element = Element { end, ..element };
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
        Ok(())
    }

    fn text(&mut self, text: &str, start: usize) -> Result<(), Fault> {
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.trim().is_empty() => {}
            None => return Err(Fault::syntax(start)),
        }
        Ok(())
    }
}
