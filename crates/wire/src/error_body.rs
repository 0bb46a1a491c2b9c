//! Error bodies: the same code and message in the services' six shapes.

mod read;

pub use read::ErrorText;

use crate::odata::json;
use crate::xml::{BYTE_ORDER_MARK, write_leaf, write_text};
use lazuli_model::Timestamp;

/// The forms of error bodies in the live service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `{"odata.error":..}`, if JSON was negotiated.
    Json,
    /// `<m:error>`: access policies, service properties and statistics, authentication.
    PrefixedXml,
    /// `<error>` on one line: entities and tables, if JSON was not negotiated (T-7.4a i).
    CompactXml,
    /// The same, indented: before 2013-08-15, when Atom was indented too (T-7.4c).
    IndentedXml,
    /// `<error>` indented, after a byte-order mark: an unknown version (T-7.4a ii).
    MarkedXml,
    /// `<Error>` on one line, after a byte-order mark: every error of the Queue service.
    PlainXml,
}

impl Shape {
    /// The Content-Type of the form itself. A negotiated JSON format uses its own type with its
    /// parameters instead (T-7.2, T-7.3).
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::PrefixedXml | Self::MarkedXml | Self::PlainXml => "application/xml",
            Self::CompactXml | Self::IndentedXml => "application/xml;charset=utf-8",
        }
    }
}

/// The message as in a body: the text, the request id and the time, one per line (T-7.1).
pub fn message_with_trailer(text: &str, request_id: &str, time: Timestamp) -> String {
    let mut buffer = [0; Timestamp::TEXT_BYTES_MAX];
    format!("{text}\nRequestId:{request_id}\nTime:{}", time.text_full(&mut buffer))
}

/// The text of an error inside a batch: it begins with the index of the failed operation (T-6.38).
pub fn with_index(index: usize, text: &str) -> String {
    format!("{index}:{text}")
}

/// A detail of an error besides code and message: the name of an element, and its text.
pub type Detail = (&'static str, String);

/// The element with the reason why a credential was refused.
pub const AUTHENTICATION_DETAIL: &str = "AuthenticationErrorDetail";

/// Appends the body; `message` is complete, see [`message_with_trailer`].
pub fn write(out: &mut Vec<u8>, shape: Shape, code: &str, message: &str) {
    write_detailed(out, shape, code, message, &[]);
}

/// The same with details after the message. JSON allows no other member (T-7.6), so there they are
/// appended to the message.
pub fn write_detailed(
    out: &mut Vec<u8>,
    shape: Shape,
    code: &str,
    message: &str,
    details: &[Detail],
) {
    let frame = match shape {
        Shape::Json => {
            let mut message = message.to_owned();
            for (name, text) in details {
                message.extend(["\n", name, ":", text]);
            }
            return json::write_error(out, code, &message);
        }
        Shape::PrefixedXml => &PREFIXED,
        Shape::CompactXml => &COMPACT,
        Shape::IndentedXml => &INDENTED,
        Shape::MarkedXml => {
            out.extend_from_slice(BYTE_ORDER_MARK);
            &INDENTED
        }
        Shape::PlainXml => {
            out.extend_from_slice(BYTE_ORDER_MARK);
            &PLAIN
        }
    };
    write_xml(out, frame, code, message, details);
}

/// The text before the code, between code and message, after the message and at the end; finally
/// the name prefix.
type Frame = [&'static str; 5];

const PREFIXED: Frame = [
    "<?xml version=\"1.0\" encoding=\"utf-8\"?><m:error \
     xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"><m:code>",
    "</m:code><m:message xml:lang=\"en-US\">",
    "</m:message>",
    "</m:error>",
    "m:",
];
const COMPACT: Frame = [
    "<?xml version=\"1.0\" encoding=\"utf-8\"?><error \
     xmlns=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"><code>",
    "</code><message xml:lang=\"en-US\">",
    "</message>",
    "</error>",
    "",
];
const INDENTED: Frame = [
    "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\r\n<error \
     xmlns=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\r\n  <code>",
    "</code>\r\n  <message xml:lang=\"en-US\">",
    "</message>",
    "\r\n</error>",
    "",
];

const PLAIN: Frame = [
    "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>",
    "</Code><Message>",
    "</Message>",
    "</Error>",
    "",
];

fn write_xml(
    out: &mut Vec<u8>,
    [before, between, after, end, prefix]: &Frame,
    code: &str,
    message: &str,
    details: &[Detail],
) {
    out.extend_from_slice(before.as_bytes());
    write_text(out, code);
    out.extend_from_slice(between.as_bytes());
    write_text(out, message);
    out.extend_from_slice(after.as_bytes());
    for (name, text) in details {
        write_leaf(out, &[prefix, *name].concat(), text);
    }
    out.extend_from_slice(end.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_code::ErrorCode;

    #[track_caller]
    fn check(shape: Shape, code: ErrorCode, id: &str, time: &str, expect: &str) {
        let time = Timestamp::parse(time).unwrap();
        let message = message_with_trailer(code.message(), id, time);
        let mut out = Vec::new();
        write(&mut out, shape, code.name(), &message);
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }

    /// Recorded in python test_table_aad.test_aad_access_policy_error.
    #[test]
    fn access_policies_answer_with_prefixed_xml() {
        check(
            Shape::PrefixedXml,
            ErrorCode::ResourceNotFound,
            "ac2da47f-b002-00b2-6dee-601a51000000",
            "2022-05-06T02:09:08.7651498Z",
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><m:error xmlns:m=\"http://schemas.microsoft.\
             com/ado/2007/08/dataservices/metadata\"><m:code>ResourceNotFound</m:code><m:message \
             xml:lang=\"en-US\">The specified resource does not exist.\nRequestId:ac2da47f-b002-\
             00b2-6dee-601a51000000\nTime:2022-05-06T02:09:08.7651498Z</m:message></m:error>",
        );
    }

    /// Recorded in python test_table_entity.test_get_entity_if_match_wrong_etag@3.
    #[test]
    fn entities_answer_with_compact_xml_without_json() {
        check(
            Shape::CompactXml,
            ErrorCode::UpdateConditionNotSatisfied,
            "19f78e3e-6002-0030-7bb1-8038cd000000",
            "2020-09-01T22:47:23.9939039Z",
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><error xmlns=\"http://schemas.microsoft.com/\
             ado/2007/08/dataservices/metadata\"><code>UpdateConditionNotSatisfied</code><message \
             xml:lang=\"en-US\">The update condition specified in the request was not satisfied.\n\
             RequestId:19f78e3e-6002-0030-7bb1-8038cd000000\nTime:2020-09-01T22:47:23.9939039Z\
             </message></error>",
        );
    }

    /// Recorded in python test_table_client.test_table_name_errors.
    #[test]
    fn json_escapes_the_line_feeds() {
        check(
            Shape::Json,
            ErrorCode::OutOfRangeInput,
            "3e6aada5-7002-008b-179a-33ec3f000000",
            "2022-03-09T09:45:05.7885523Z",
            "{\"odata.error\":{\"code\":\"OutOfRangeInput\",\"message\":{\"lang\":\"en-US\",\
             \"value\":\"The specified resource name length is not within the permissible limits.\
             \\nRequestId:3e6aada5-7002-008b-179a-33ec3f000000\\nTime:2022-03-09T09:45:05.7885523Z\
             \"}}}",
        );
    }

    /// TQ-3. Recorded in java QueueApiTests.getAccessPolicyError.
    #[test]
    fn queues_answer_on_one_line_after_a_byte_order_mark() {
        check(
            Shape::PlainXml,
            ErrorCode::QueueNotFound,
            "cf232b49-2003-000e-7b41-718783000000",
            "2023-04-17T15:28:22.0920883Z",
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>QueueNotFound</Code>\
             <Message>The specified queue does not exist.\nRequestId:cf232b49-2003-000e-7b41-\
             718783000000\nTime:2023-04-17T15:28:22.0920883Z</Message></Error>",
        );
    }

    /// TQ-13.
    #[test]
    fn details_follow_the_message_and_empty_ones_keep_their_space() {
        let mut out = Vec::new();
        let details = [("LineNumber", "0".to_owned()), ("Reason", String::new())];
        write_detailed(&mut out, Shape::PlainXml, "InvalidXmlDocument", "m", &details);
        let end = "m</Message><LineNumber>0</LineNumber><Reason /></Error>";
        assert!(String::from_utf8(out).unwrap().ends_with(end));
    }

    #[test]
    fn a_bad_version_answers_indented_after_a_byte_order_mark() {
        let mut out = Vec::new();
        write(&mut out, Shape::MarkedXml, "InvalidHeaderValue", "m");
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\" standalone"));
        assert!(text.contains("\r\n  <code>InvalidHeaderValue</code>\r\n"));
    }

    /// T-7.4c, recorded by the Node.js client of 2013.
    #[test]
    fn version_2011_08_18_answers_indented() {
        check(
            Shape::IndentedXml,
            ErrorCode::TableAlreadyExists,
            "d20863c0-c6b2-41d4-ba6a-1566ffe071ff",
            "2013-02-26T13:20:00.6033414Z",
            "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\r\n<error xmlns=\"http://\
             schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\r\n  \
             <code>TableAlreadyExists</code>\r\n  <message xml:lang=\"en-US\">The table specified \
             already exists.\nRequestId:d20863c0-c6b2-41d4-ba6a-1566ffe071ff\n\
             Time:2013-02-26T13:20:00.6033414Z</message>\r\n</error>",
        );
    }

    #[test]
    fn messages_are_escaped_and_hold_no_control_characters() {
        let mut out = Vec::new();
        write(&mut out, Shape::CompactXml, "InvalidInput", "a < b & 'c' \u{0}\u{1F}\n");
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(">a &lt; b &amp; 'c' \u{FFFD}\u{FFFD}\n</message>"), "{text}");
    }

    #[test]
    fn a_detail_stands_after_the_message_or_ends_it() {
        let written = |shape| {
            let mut out = Vec::new();
            let detail = (AUTHENTICATION_DETAIL, "a < b\nc".to_owned());
            write_detailed(&mut out, shape, "AuthenticationFailed", "m", &[detail]);
            String::from_utf8(out).unwrap()
        };
        let json = "\"value\":\"m\\nAuthenticationErrorDetail:a < b\\nc\"}}}";
        assert!(written(Shape::Json).ends_with(json));
        let prefixed = "m</m:message><m:AuthenticationErrorDetail>a &lt; b\nc\
                        </m:AuthenticationErrorDetail></m:error>";
        assert!(written(Shape::PrefixedXml).ends_with(prefixed));
        let compact = "m</message><AuthenticationErrorDetail>a &lt; b\nc\
                       </AuthenticationErrorDetail></error>";
        assert!(written(Shape::CompactXml).ends_with(compact));
    }

    #[test]
    fn times_keep_their_zeros_and_indexes_stand_before_the_text() {
        let time = Timestamp::parse("2021-12-09T00:24:39.5555550Z").unwrap();
        let text = with_index(99, "m");
        let expect = "99:m\nRequestId:id\nTime:2021-12-09T00:24:39.5555550Z";
        assert_eq!(message_with_trailer(&text, "id", time), expect);
    }
}
