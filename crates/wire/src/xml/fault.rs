//! Why a document is refused, and where the error is.

use crate::error_body::Detail;
use crate::error_code::ErrorCode;

/// Why a document is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    #[error("the document is not well-formed")]
    Syntax,
    #[error("the document is too long, too deep or has too many elements")]
    TooLarge,
    #[error("the root element is empty")]
    EmptyRoot,
    #[error("the document holds an element that does not belong there")]
    UnexpectedNode,
    #[error("the document lacks an element that is required")]
    MissingNode,
    #[error("a value lies outside its range")]
    OutOfRange,
    #[error("the days of a retention policy are not 1 to 365")]
    RetentionDays,
    #[error("the id of an access policy is empty or longer than 64 characters")]
    PolicyId,
    #[error("a value is not of its type")]
    InvalidValue,
    #[error("a list in a CORS rule is too long or holds what it may not")]
    CorsList,
}

impl XmlError {
    /// One code for nearly all (T-9.4): the service checks a document against its schema, for which a
    /// sixth rule, a retention of 366 days and an invalid number are the same fault. The lists within a
    /// CORS rule are checked later: the tests of the .NET client want the other code for a 65th origin
    /// or header and a third prefix.
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::CorsList => ErrorCode::InvalidXmlNodeValue,
            Self::Syntax
            | Self::TooLarge
            | Self::EmptyRoot
            | Self::UnexpectedNode
            | Self::MissingNode
            | Self::OutOfRange
            | Self::RetentionDays
            | Self::PolicyId
            | Self::InvalidValue => ErrorCode::InvalidXmlDocument,
        }
    }
}

/// An [`XmlError`] and its place: line and position count from one, and are zero where the service gives
/// no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error} (line {line}, position {position})")]
pub struct XmlFault {
    pub error: XmlError,
    pub line: usize,
    pub position: usize,
}

impl XmlFault {
    /// The details that the Queue service adds after the message.
    pub fn details(&self) -> Vec<Detail> {
        vec![
            ("LineNumber", self.line.to_string()),
            ("LinePosition", self.position.to_string()),
            ("Reason", self.reason()),
        ]
    }

    fn reason(&self) -> String {
        let Self { error, line, position } = self;
        let text = match error {
            XmlError::Syntax => "Error parsing Xml content",
            XmlError::EmptyRoot => {
                return format!(
                    "Error parsing Xml content: 'None' is an invalid XmlNodeType. Line {line}, \
                     position {position}."
                );
            }
            XmlError::RetentionDays => {
                "Retention days must be greater than 0 and less than or equal to 365 days."
            }
            XmlError::PolicyId => {
                "Signed identifier ID cannot be empty or over 64 characters in length"
            }
            _ => "",
        };
        text.to_owned()
    }
}

impl From<XmlError> for XmlFault {
    fn from(error: XmlError) -> Self {
        Self { error, line: 0, position: 0 }
    }
}

/// An error while its document is available: its position is the number of bytes before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    error: XmlError,
    at: Option<usize>,
}

impl Fault {
    pub(super) const fn at(error: XmlError, at: usize) -> Self {
        Self { error, at: Some(at) }
    }

    pub(super) fn syntax(at: usize) -> Self {
        Self::at(XmlError::Syntax, at)
    }

    /// Converts bytes to line and position. The service counts as .NET does: in UTF-16 units; for a
    /// tag it reports the position of the name.
    pub(super) fn locate(self, document: &[u8]) -> XmlFault {
        let Self { error, at: Some(at) } = self else { return self.error.into() };
        let document = document.strip_prefix(super::BYTE_ORDER_MARK).unwrap_or(document);
        let (before, after) = document.split_at_checked(at).unwrap_or((document, b""));
        let in_tag = match after {
            [b'<', b'/', ..] => 2,
            [b'<', ..] => 1,
            _ => 0,
        };
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = before.get(line_start..).unwrap_or_default();
        XmlFault {
            error,
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            position: String::from_utf8_lossy(line).encode_utf16().count() + in_tag + 1,
        }
    }
}

impl From<XmlError> for Fault {
    fn from(error: XmlError) -> Self {
        Self { error, at: None }
    }
}
