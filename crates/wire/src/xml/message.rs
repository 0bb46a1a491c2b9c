//! The body of Put Message and Update Message.

use super::fault::Fault;
use super::walk::{Visit, walk};
use super::{XmlError, XmlFault};

/// Maximum nesting of elements. Our limit: a message has two levels, and its text may contain
/// markup (Q-6.17b).
const DEPTH_MAX: usize = 64;
const ROOT: &str = "QueueMessage";
const TEXT: &str = "MessageText";

/// Reads the text of a message: the character content of `MessageText`, including white space, without
/// markup (Q-6.12, Q-6.14, Q-6.17b). The caller checks its length; the request limit bounds the document.
pub fn read_message_text(document: &[u8]) -> Result<String, XmlFault> {
    let mut reader = MessageReader::default();
    let text = walk(document, &mut reader).and_then(|end| reader.finish(end));
    text.map_err(|fault| fault.locate(document))
}

#[derive(Default)]
struct MessageReader {
    /// The elements not yet closed.
    depth: usize,
    /// The depth of the text's element while it is open.
    in_text: Option<usize>,
    has_root: bool,
    text: Option<String>,
}

impl MessageReader {
    fn finish(self, end: usize) -> Result<String, Fault> {
        if self.depth > 0 || !self.has_root {
            return Err(Fault::syntax(end));
        }
        self.text.ok_or_else(|| XmlError::MissingNode.into())
    }
}

impl Visit for MessageReader {
    /// Other elements are ignored (Q-6.2).
    fn open(&mut self, name: &str, _: bool, start: usize) -> Result<(), Fault> {
        match self.depth {
            0 if self.has_root => return Err(Fault::syntax(start)),
            0 if name != ROOT => return Err(XmlError::UnexpectedNode.into()),
            0 => self.has_root = true,
            1 if name == TEXT && self.text.is_some() => {
                return Err(XmlError::UnexpectedNode.into());
            }
            1 if name == TEXT => {
                self.text = Some(String::new());
                self.in_text = Some(self.depth + 1);
            }
            DEPTH_MAX => return Err(XmlError::TooLarge.into()),
            _ => {}
        }
        self.depth += 1;
        Ok(())
    }

    fn close(&mut self, end: usize) -> Result<(), Fault> {
        if self.in_text == Some(self.depth) {
            self.in_text = None;
        }
        self.depth = self.depth.checked_sub(1).ok_or_else(|| Fault::syntax(end))?;
        Ok(())
    }

    fn text(&mut self, text: &str, start: usize) -> Result<(), Fault> {
        match (&mut self.text, self.in_text) {
            (Some(message), Some(_)) => message.push_str(text),
            _ if self.depth == 0 && !text.trim().is_empty() => return Err(Fault::syntax(start)),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(document: &str, expect: &str) {
        assert_eq!(read_message_text(document.as_bytes()).as_deref(), Ok(expect), "{document}");
    }

    fn message(text: &str) -> String {
        format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>")
    }

    /// Q-6.1, as the clients of five languages send it.
    #[test]
    fn declarations_marks_and_white_space_do_not_matter() {
        let plain = message("message1");
        for before in [
            "",
            "<?xml version='1.0' encoding='utf-8'?>\n",
            "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>",
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n",
            "<!-- a --> <?pi?>",
        ] {
            check(&format!("{before}{plain}\n"), "message1");
        }
        let apart =
            "<QueueMessage>\n  <MessageText>a</MessageText>\n  <Other>b</Other></QueueMessage>";
        check(apart, "a");
    }

    /// Q-6.12 to Q-6.16, TQ-42, TQ-45.
    #[test]
    fn the_text_is_kept_as_it_is() {
        check(&message(" \t a \n"), " \t a \n");
        check(&message(" "), " ");
        check(&message("&lt;a&gt; &amp;&#98;&#x1F980; '\""), "<a> &b\u{1F980} '\"");
        check(&message("<![CDATA[<b>&amp;]]>c"), "<b>&amp;c");
        check(&message("a\r\nb\rc&#13;"), "a\nb\nc\r");
        check(&message("VGVzdA=="), "VGVzdA==");
        check(&message(""), "");
        check("<QueueMessage><MessageText/></QueueMessage>", "");
    }

    /// Q-6.17b.
    #[test]
    fn markup_in_the_text_is_removed() {
        check(&message("<a/>x<b c='d'>y<e>z</e></b>"), "xyz");
        check(&message("a<MessageText>b</MessageText>c"), "abc");
    }

    #[track_caller]
    fn check_refused(document: &str, error: XmlError, line: usize, position: usize) {
        let expect = Err(XmlFault { error, line, position });
        assert_eq!(read_message_text(document.as_bytes()), expect, "{document:?}");
    }

    /// Recorded in python test_queue_encodings.test_message_text_xml_invalid_chars (Q-6.17, TQ-31).
    #[test]
    fn forbidden_characters_are_refused_with_their_place() {
        let document = format!("<?xml version='1.0' encoding='utf-8'?>\n{}", message("\u{1}"));
        check_refused(&document, XmlError::Syntax, 2, 28);
        check_refused(&message("é🦀\u{fffe}"), XmlError::Syntax, 1, 31);
        check_refused(&message("&#1;"), XmlError::Syntax, 1, 28);
        check_refused(&message("&e;"), XmlError::Syntax, 1, 28);
        let fault = read_message_text(document.as_bytes()).unwrap_err();
        let details = fault.details();
        let [line, position, reason] = &details[..] else { panic!("{details:?}") };
        assert_eq!((line.1.as_str(), position.1.as_str()), ("2", "28"));
        assert_eq!(*reason, ("Reason", "Error parsing Xml content".to_owned()));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        check_refused("", XmlError::Syntax, 1, 1);
        check_refused("text", XmlError::Syntax, 1, 1);
        check_refused("<QueueMessage><MessageText>a</QueueMessage>", XmlError::Syntax, 1, 31);
        check_refused("<QueueMessage><MessageText>a", XmlError::Syntax, 1, 29);
        check_refused(&message("a").repeat(2), XmlError::Syntax, 1, 59);
        check_refused("<!DOCTYPE a><QueueMessage/>", XmlError::Syntax, 1, 2);
        let late = format!(" <?xml version=\"1.0\"?>{}", message("a"));
        assert_eq!(read_message_text(late.as_bytes()).unwrap_err().error, XmlError::Syntax);
        let section = read_message_text(message("a ]]> b").as_bytes());
        assert_eq!(section.unwrap_err().error, XmlError::Syntax);
        check(&message("a ]]&gt; b"), "a ]]> b");
        check_refused(
            "<Other><MessageText>a</MessageText></Other>",
            XmlError::UnexpectedNode,
            0,
            0,
        );
        check_refused("<QueueMessage></QueueMessage>", XmlError::MissingNode, 0, 0);
        let twice = "<QueueMessage><MessageText/><MessageText/></QueueMessage>";
        check_refused(twice, XmlError::UnexpectedNode, 0, 0);
        check_refused(&message(&"<a>".repeat(70)), XmlError::TooLarge, 0, 0);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(document in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read_message_text(&document);
        }

        #[test]
        fn every_text_that_xml_can_hold_is_read_as_it_was_written(text in any::<String>()) {
            let is_in_xml = text.chars().all(super::super::write::is_in_xml);
            let mut document = b"<QueueMessage><MessageText>".to_vec();
            super::super::write_text(&mut document, &text);
            document.extend_from_slice(b"</MessageText></QueueMessage>");
            let read = read_message_text(&document).unwrap();
            prop_assert!(read == text || !is_in_xml);
        }
    }
}
