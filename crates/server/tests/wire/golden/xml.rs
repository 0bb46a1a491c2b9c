//! XML as a tree of names and texts, enough to compare two documents.

use quick_xml::events::Event;
use quick_xml::name::ResolveResult;
use quick_xml::reader::NsReader;

#[derive(Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) namespace: String,
    /// Without surrounding white space.
    pub(super) text: String,
    pub(super) children: Vec<Self>,
}

impl Element {
    /// Parses a document; `None` if it is not well-formed.
    pub(super) fn parse(document: &str) -> Option<Self> {
        let mut reader = NsReader::from_str(document.trim_start_matches('\u{FEFF}').trim());
        let mut open = vec![Self::default()];
        loop {
            let (namespace, event) = reader.read_resolved_event().ok()?;
            let namespace = match namespace {
                ResolveResult::Bound(namespace) => namespace.0.to_owned(),
                _ => String::new(),
            };
            let named = |name: &str| Self {
                name: name.to_owned(),
                namespace: namespace.clone(),
                ..Self::default()
            };
            match event {
                Event::Start(start) => open.push(named(start.local_name().as_ref())),
                Event::Empty(start) => {
                    let child = named(start.local_name().as_ref());
                    open.last_mut()?.children.push(child);
                }
                Event::End(_) => {
                    let mut closed = open.pop()?;
                    closed.text = closed.text.trim().to_owned();
                    open.last_mut()?.children.push(closed);
                }
                Event::Text(text) => open.last_mut()?.text.push_str(&text),
                Event::GeneralRef(reference) => {
                    let text = quick_xml::escape::resolve_xml_entity(&reference)?;
                    open.last_mut()?.text.push_str(text);
                }
                Event::Eof => return open.pop()?.children.pop(),
                _ => {}
            }
        }
    }
}
