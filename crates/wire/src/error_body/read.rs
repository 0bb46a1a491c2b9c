//! Reads error bodies as a client: every form of the services, and bodies truncated by a proxy.

use crate::odata::json;
use crate::xml::{self, ErrorElements};

/// The content of an error body. Every part may be empty: bodies are optional, and proxies write
/// their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorText {
    /// The service's name of the fault, such as `EntityAlreadyExists`.
    pub code: String,
    /// The message without the trailing lines.
    pub message: String,
    pub request_id: Option<String>,
    /// The time of the response, as sent.
    pub time: Option<String>,
    /// Other details by name: why a credential was refused, which header was wrong.
    pub details: Vec<(String, String)>,
}

impl ErrorText {
    /// Reads a body of any form; `None` if it has none of them.
    pub fn read(body: &[u8]) -> Option<Self> {
        let first = body.iter().find(|byte| !byte.is_ascii_whitespace() && byte.is_ascii())?;
        let (mut error, message) = match first {
            b'{' => {
                let (code, message) = json::read_error(body).ok()?;
                (Self { code, ..Self::default() }, message)
            }
            b'<' => {
                let ErrorElements { code, message, others } = xml::read_error(body)?;
                (Self { code, details: others, ..Self::default() }, message)
            }
            _ => return None,
        };
        error.set_message(&message);
        Some(error)
    }

    /// Removes the lines that a service adds to every message (T-7.1). In JSON the details are
    /// there too.
    fn set_message(&mut self, text: &str) {
        let Some((message, trailer)) = text.split_once("\nRequestId:") else {
            self.message = text.to_owned();
            return;
        };
        self.message = message.to_owned();
        let (request_id, rest) = trailer.split_once('\n').unwrap_or((trailer, ""));
        self.request_id = Some(request_id.to_owned());
        let mut details: Vec<(String, String)> = Vec::new();
        for line in rest.lines() {
            match (line.split_once(':'), details.last_mut()) {
                (Some(("Time", time)), None) => self.time = Some(time.to_owned()),
                (Some((name, text)), None) if is_name(name) => {
                    details.push((name.to_owned(), text.to_owned()));
                }
                // A detail may have several lines.
                (_, Some((_, detail))) => detail.extend(["\n", line]),
                (_, None) => {}
            }
        }
        self.details.extend(details);
    }

    /// The index of the failed batch operation, removed from the front of the message (T-6.38).
    pub fn take_index(&mut self) -> Option<usize> {
        let (index, message) = self.message.split_once(':')?;
        let is_index = !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit());
        let index = is_index.then(|| index.parse().ok())??;
        self.message = message.to_owned();
        Some(index)
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::super::{AUTHENTICATION_DETAIL, Shape, with_index, write, write_detailed};
    use super::*;
    use crate::error_body::message_with_trailer;
    use lazuli_model::Timestamp;
    use proptest::prelude::*;

    const SHAPES: [Shape; 6] = [
        Shape::Json,
        Shape::PrefixedXml,
        Shape::CompactXml,
        Shape::IndentedXml,
        Shape::MarkedXml,
        Shape::PlainXml,
    ];

    #[test]
    fn every_shape_reads_back_with_its_details() {
        let time = Timestamp::parse("2022-05-06T02:09:08.7651490Z").unwrap();
        let message = message_with_trailer("a < b\nand more", "ac2da47f", time);
        let detail = (AUTHENTICATION_DETAIL, "first: line\nsecond".to_owned());
        for shape in SHAPES {
            let mut body = Vec::new();
            write_detailed(
                &mut body,
                shape,
                "AuthenticationFailed",
                &message,
                std::slice::from_ref(&detail),
            );
            let error = ErrorText::read(&body).unwrap();
            assert_eq!(error.code, "AuthenticationFailed", "{shape:?}");
            assert_eq!(error.message, "a < b\nand more", "{shape:?}");
            assert_eq!(error.request_id.as_deref(), Some("ac2da47f"), "{shape:?}");
            assert_eq!(error.time.as_deref(), Some("2022-05-06T02:09:08.7651490Z"), "{shape:?}");
            let details = [(AUTHENTICATION_DETAIL.to_owned(), "first: line\nsecond".to_owned())];
            assert_eq!(error.details, details, "{shape:?}");
        }
    }

    #[test]
    fn the_index_of_a_batch_is_taken_off() {
        // T-6.38.
        let mut body = Vec::new();
        write(&mut body, Shape::Json, "EntityAlreadyExists", &with_index(99, "It exists."));
        let mut error = ErrorText::read(&body).unwrap();
        assert_eq!(error.take_index(), Some(99));
        assert_eq!(error.message, "It exists.");
        assert_eq!(error.take_index(), None);
        for message in ["", ":a", "a:b", "+1:a", "99999999999999999999999:a"] {
            let mut error = ErrorText { message: message.into(), ..ErrorText::default() };
            assert_eq!(error.take_index(), None, "{message}");
            assert_eq!(error.message, message);
        }
    }

    #[test]
    fn other_bodies_are_none() {
        for body in ["", "  ", "no", "<html><body>Bad Gateway</body></html>", "{\"a\":1}", "{", "<"]
        {
            assert_eq!(ErrorText::read(body.as_bytes()), None, "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_body_makes_the_reader_panic(body in any::<Vec<u8>>(), text in any::<String>()) {
            let _ = ErrorText::read(&body);
            ErrorText::default().set_message(&text);
        }

        #[test]
        fn codes_and_messages_read_back(code in "[A-Z][a-z]{1,9}", message in "[ -~]{0,40}") {
            for shape in SHAPES {
                let mut body = Vec::new();
                write(&mut body, shape, &code, &message);
                let error = ErrorText::read(&body).unwrap();
                prop_assert_eq!(&error.code, &code);
                // White space around the text of an element is not kept.
                prop_assert_eq!(error.message.trim(), message.trim());
            }
        }
    }
}
