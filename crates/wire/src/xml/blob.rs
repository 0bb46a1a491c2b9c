//! What a client of the Blob service sends and reads: block lists, lists of blobs and of containers.

use super::fault::Fault;
use super::queue_answer::read_metadata;
use super::tree::Element;
use super::write::{leaf, node};
use super::{XmlError, XmlFault};
use crate::uri::percent_decode;
use lazuli_model::Timestamp;

/// Appends the body of Put Block List: the latest block of each id, in order (B-9.9).
pub fn write_block_list<'a>(out: &mut Vec<u8>, ids: impl IntoIterator<Item = &'a str>) {
    out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"utf-8\"?>");
    node(out, "BlockList", |out| ids.into_iter().for_each(|id| leaf(out, "Latest", id)));
}

/// A blob in a list. Services omit parts, especially for blobs without content (B-15.12).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnsweredBlob {
    pub name: String,
    /// In quotes, as in a header (B-2.10).
    pub etag: Option<String>,
    pub last_modified: Option<Timestamp>,
    pub created: Option<Timestamp>,
    pub bytes: u64,
    pub content_type: Option<String>,
    pub blob_type: Option<String>,
    /// Empty unless it was requested.
    pub metadata: Vec<(String, String)>,
}

/// One page of List Blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobPage {
    pub blobs: Vec<AnsweredBlob>,
    /// The prefixes that stand for blobs whose names contain the delimiter after the prefix (B-15.17).
    pub prefixes: Vec<String>,
    /// Where the next page begins; `None` on the last one.
    pub next_marker: Option<String>,
}

/// Reads the response to List Blobs.
pub fn read_blobs(document: &[u8]) -> Result<BlobPage, XmlFault> {
    let read = || {
        let root = Element::parse_answer(document, "EnumerationResults")?;
        let mut page = BlobPage { next_marker: next_marker(&root), ..BlobPage::default() };
        for child in &root.required("Blobs")?.children {
            match child.name() {
                "Blob" => page.blobs.push(read_blob(child)?),
                "BlobPrefix" => page.prefixes.push(name(child)?),
                _ => {}
            }
        }
        Ok(page)
    };
    read().map_err(|fault: Fault| fault.locate(document))
}

/// A container in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredContainer {
    pub name: String,
    pub metadata: Vec<(String, String)>,
}

/// One page of List Containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPage {
    pub containers: Vec<AnsweredContainer>,
    /// Where the next page begins; `None` on the last one.
    pub next_marker: Option<String>,
}

/// Reads the response to List Containers.
pub fn read_containers(document: &[u8]) -> Result<ContainerPage, XmlFault> {
    let read = || {
        let root = Element::parse_answer(document, "EnumerationResults")?;
        let container = |element: &Element| {
            Ok(AnsweredContainer { name: name(element)?, metadata: read_metadata(element) })
        };
        let containers = root.required("Containers")?.children.iter().map(container);
        Ok(ContainerPage {
            containers: containers.collect::<Result<_, XmlError>>()?,
            next_marker: next_marker(&root),
        })
    };
    read().map_err(|fault: Fault| fault.locate(document))
}

fn next_marker(root: &Element) -> Option<String> {
    root.child_text("NextMarker").map(str::to_owned)
}

fn read_blob(element: &Element) -> Result<AnsweredBlob, XmlError> {
    let none = Element::default();
    let properties = element.child("Properties").unwrap_or(&none);
    let text = |name| properties.child_text(name).map(str::to_owned);
    let time = |name| match properties.child_text(name) {
        Some(text) => Timestamp::parse_rfc1123(text).map(Some).ok_or(XmlError::InvalidValue),
        None => Ok(None),
    };
    let bytes = properties.child_text("Content-Length").map(str::parse).transpose();
    Ok(AnsweredBlob {
        name: name(element)?,
        // Without quotes on the wire (B-2.10), but some servers send them.
        etag: text("Etag").map(|etag| format!("\"{}\"", etag.trim_matches('"'))),
        last_modified: time("Last-Modified")?,
        created: time("Creation-Time")?,
        bytes: bytes.map_err(|_| XmlError::InvalidValue)?.unwrap_or_default(),
        content_type: text("Content-Type"),
        blob_type: text("BlobType"),
        metadata: read_metadata(element),
    })
}

/// The name, which is percent-encoded when XML cannot hold it (B-15.20).
fn name(element: &Element) -> Result<String, XmlError> {
    let name = element.required("Name")?;
    if !name.is_encoded {
        return Ok(name.raw_text().to_owned());
    }
    let decoded = percent_decode(name.raw_text()).map_err(|_| XmlError::InvalidValue)?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_list_names_the_latest_of_each_block_in_order() {
        let mut out = Vec::new();
        write_block_list(&mut out, ["MQ==", "Mg=="]);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList><Latest>MQ==</Latest>\
             <Latest>Mg==</Latest></BlockList>"
        );
    }

    /// The example of blob.md 15.2, shortened.
    #[test]
    fn a_page_of_blobs_is_read_with_prefixes_and_encoded_names() {
        let page = read_blobs(
            "\u{feff}<?xml version=\"1.0\"?><EnumerationResults ContainerName=\"pics\">\
             <Prefix>a</Prefix><Blobs><Blob><Name>a/ blob1 </Name><Properties>\
             <Last-Modified>Mon, 01 Aug 2022 23:12:47 GMT</Last-Modified>\
             <Etag>0x8DA741358DE4884</Etag><Content-Length>7</Content-Length>\
             <Content-Type>text/plain</Content-Type><Content-MD5 /><BlobType>BlockBlob</BlobType>\
             </Properties><Metadata><k>v</k></Metadata><OrMetadata /></Blob>\
             <Blob><Name Encoded=\"true\">dir1%2Ffile%EF%BF%BF.blob</Name><Properties />\
             </Blob><BlobPrefix><Name>a/b/</Name></BlobPrefix></Blobs>\
             <NextMarker>2!8!</NextMarker></EnumerationResults>"
                .as_bytes(),
        )
        .unwrap();
        let first = AnsweredBlob {
            name: "a/ blob1 ".into(),
            etag: Some("\"0x8DA741358DE4884\"".into()),
            last_modified: Timestamp::parse_rfc1123("Mon, 01 Aug 2022 23:12:47 GMT"),
            created: None,
            bytes: 7,
            content_type: Some("text/plain".into()),
            blob_type: Some("BlockBlob".into()),
            metadata: vec![("k".into(), "v".into())],
        };
        let second =
            AnsweredBlob { name: "dir1/file\u{ffff}.blob".into(), ..AnsweredBlob::default() };
        assert_eq!(page.blobs, [first, second]);
        assert_eq!(page.prefixes, ["a/b/"]);
        assert_eq!(page.next_marker.as_deref(), Some("2!8!"));
    }

    #[test]
    fn a_page_of_containers_is_read() {
        let page = read_containers(
            b"<EnumerationResults><Containers><Container><Name>$web</Name><Properties />\
              <Metadata><hello>world</hello></Metadata></Container></Containers><NextMarker />\
              </EnumerationResults>",
        )
        .unwrap();
        let metadata = vec![("hello".to_owned(), "world".to_owned())];
        assert_eq!(page.containers, [AnsweredContainer { name: "$web".into(), metadata }]);
        assert_eq!(page.next_marker, None);
    }

    #[test]
    fn other_documents_are_refused() {
        assert!(read_blobs(b"<EnumerationResults />").is_err());
        assert!(read_blobs(b"").is_err());
        assert!(read_containers(b"<Containers />").is_err());
    }
}
