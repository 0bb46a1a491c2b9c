//! The error codes of the services: name, status and message of each, in one table.
//!
//! The texts are the services' own, spelling mistakes included (table.md 7.2 to 7.4, queue.md 8).
//! Messages with parameters, and codes with several messages, are in [`message`].

/// Declares the enum and its three columns from one table. A code is named like its variant unless
/// the row gives another name.
macro_rules! error_codes {
    (@name $variant:ident) => { stringify!($variant) };
    (@name $variant:ident $name:literal) => { $name };
    ($(
        $(#[$doc:meta])*
        $variant:ident $(= $name:literal)? $status:literal $message:literal
    )*) => {
        /// The error code in an error body.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code as the client reads it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => error_codes!(@name $variant $($name)?),)*
                }
            }

            /// The HTTP status of the code.
            pub const fn status(self) -> u16 {
                match self {
                    $(Self::$variant => $status,)*
                }
            }

            /// The default message of the code.
            pub const fn message(self) -> &'static str {
                match self {
                    $(Self::$variant => $message,)*
                }
            }
        }
    };
}

error_codes! {
    // The codes of the Table service.
    AtomFormatNotSupported 415 "Atom format is not supported."
    /// From an extension.
    ChangesDropped 410
        "Changes after this token are no longer kept."
    CommandsInBatchActOnDifferentPartitions 400
        "All commands in a batch must operate on same entity group."
    /// A weak etag that the service never issues (T-5.5).
    ConditionNotMet 412
        "The condition specified using HTTP conditional header(s) is not met."
    DuplicatePropertiesSpecified 400
        "A property is specified more than one time."
    EntityAlreadyExists 409 "The specified entity already exists."
    EntityTooLarge 400 "The entity is larger than the maximum allowed size (1MB)."
    HostInformationNotPresent 400
        "The required host information is not present in the request. You must send a non-empty \
         Host header or include the absolute URI in the request line."
    InvalidDuplicateRow 400
        "The batch request contains multiple changes with same row key. An entity can appear only \
         once in a batch request."
    /// The code of most request errors; see [`message`] for its many texts.
    InvalidInput 400 "One of the request inputs is not valid."
    JsonFormatNotSupported 415 "JSON format is not supported."
    /// The code is that of the official clients; the live text is not known (T-2.25).
    JsonVerboseFormatNotSupported 415 "JSON verbose format is not supported."
    /// The live text is not known (table.md 13); this one is modelled on that of property values.
    KeyValueTooLarge 400
        "The key value exceeds the maximum allowed size (1KB)."
    /// The live text lacks its full stop (T-2.15a).
    MediaTypeNotSupported 415
        "None of the provided media types are supported"
    MethodNotAllowed 405
        "The requested method is not allowed on the specified resource."
    NotImplemented 501
        "The requested operation is not implemented on the specified resource."
    /// For a resource name; for values see [`message::out_of_range`].
    OutOfRangeInput 400
        "The specified resource name length is not within the permissible limits."
    PropertiesNeedValue 400
        "The values are not specified for all properties in the entity."
    PropertyNameInvalid 400 "The property name is invalid."
    PropertyNameTooLong 400
        "The property name exceeds the maximum allowed length (255)."
    PropertyValueTooLarge 400
        "The property value exceeds the maximum allowed size (64KB). If the property value is a \
         string, it is UTF-16 encoded and the maximum number of characters should be 32K or less."
    /// From an extension.
    SnapshotEnded 410
        "The snapshot has ended or never was. Ask for another one with x-lazuli-snapshot: new."
    TableAlreadyExists 409 "The table specified already exists."
    TableBeingDeleted 409
        "The specified table is being deleted. Try operation later."
    TableNotFound 404 "The table specified does not exist."
    TooManyProperties 400
        "The entity contains more properties than allowed. Each entity can include up to 252 \
         properties to store data. Each entity also has 3 system properties."
    UpdateConditionNotSatisfied 412
        "The update condition specified in the request was not satisfied."
    XMethodIncorrectCount 400 "More than one X-HTTP-Method is specified."
    XMethodIncorrectValue 400 "The specified X-HTTP-Method is invalid."
    XMethodNotUsingPost 400
        "The request uses X-HTTP-Method with an HTTP verb other than POST."

    // The codes of the Queue service.
    /// With the value of the missing name.
    EmptyMetadataKey 400 "The key for one of the metadata key-value pairs is empty."
    InvalidMetadata 400
        "The metadata specified is invalid. It has characters that are not permitted."
    /// The code is documented; the live text is not known.
    MetadataTooLarge 400
        "The metadata specified exceeds the maximum permissible limit (8KB)."
    MessageNotFound 404 "The specified message does not exist."
    QueueAlreadyExists 409 "The specified queue already exists."
    QueueBeingDeleted 409 "The specified queue is being deleted."
    QueueNotFound 404 "The specified queue does not exist."

    // The codes common to all storage services.
    AuthenticationFailed 403
        "Server failed to authenticate the request. Make sure the value of Authorization header is \
         formed correctly including the signature."
    NoAuthenticationInformation 401
        "Server failed to authenticate the request. Please refer to the information in the \
         www-authenticate header."
    /// The Authorization header does not parse.
    InvalidAuthenticationInfo 400
        "Authentication information is not given in the correct format. Check the value of \
         Authorization header."
    /// The same code for a refused bearer token, with another status and text.
    InvalidBearerToken = "InvalidAuthenticationInfo" 401
        "Server failed to authenticate the request. Please refer to the information in the \
         www-authenticate header."
    AuthorizationFailure 403
        "This request is not authorized to perform this operation."
    AuthorizationPermissionMismatch 403
        "This request is not authorized to perform this operation using this permission."
    AuthorizationProtocolMismatch 403
        "This request is not authorized to perform this operation using this protocol."
    AuthorizationResourceTypeMismatch 403
        "This request is not authorized to perform this operation using this resource type."
    AuthorizationServiceMismatch 403
        "This request is not authorized to perform this operation using this service."
    /// With the address if it is known, see [`message::source_ip_mismatch`].
    AuthorizationSourceIPMismatch 403
        "This request is not authorized to perform this operation using this source IP."
    InsufficientAccountPermissions 403
        "The account being accessed does not have sufficient permissions to execute this operation."
    CorsPreflightFailure 403
        "CORS not enabled or no matching rule found for this request."
    ResourceNotFound 404 "The specified resource does not exist."
    InvalidHeaderValue 400
        "The value for one of the HTTP headers is not in the correct format."
    InvalidQueryParameterValue 400
        "Value for one of the query parameters specified in the request URI is invalid."
    /// The spelling is the live service's (T-3.5).
    InvalidResourceName 400
        "The specifed resource name contains invalid characters."
    InvalidUri 400 "The requested URI does not represent any resource on the server."
    InvalidXmlDocument 400 "XML specified is not syntactically valid."
    InvalidXmlNodeValue 400
        "The value provided for one of the XML nodes in the request body was not in the correct \
         format."
    MissingContentLengthHeader 411
        "The Content-Length header was not specified."
    MissingRequiredHeader 400
        "An HTTP header that's mandatory for this request is not specified."
    MissingRequiredQueryParameter 400
        "A query parameter that's mandatory for this request is not specified."
    OutOfRangeQueryParameterValue 400
        "One of the query parameters specified in the request URI is outside the permissible range."
    RequestBodyTooLarge 413
        "The request body is too large and exceeds the maximum permissible limit."
    RequestUrlFailedToParse 400
        "The url in the request could not be parsed."
    UnsupportedHttpVerb 405
        "The resource doesn't support the specified HTTP verb."
    InternalError 500
        "Server encountered an internal error. Please try again after some time."
    OperationTimedOut 500
        "Operation could not be completed within the specified time."
    ServerBusy 503
        "The server is currently unable to receive requests. Please retry your request."
}

/// Messages of codes that have more than one, or whose message has parameters (table.md 7.3).
pub mod message {
    use super::ErrorCode;
    use std::net::IpAddr;

    /// `InvalidInput`: the body is malformed or a value does not convert (T-3.31, T-5.32).
    pub const ERROR_WHILE_PROCESSING: &str = "An error occurred while processing this request.";
    /// `InvalidInput`: `eq null`, an empty `NextRowKey`, other faults of meaning (T-4.18, T-4.58).
    pub const INPUT_NOT_VALID: &str = ErrorCode::InvalidInput.message();
    /// `InvalidInput`: a key in the URL holds a forbidden character, or its predicate does not
    /// parse (T-1.27).
    pub const ERROR_IN_QUERY_SYNTAX: &str = "Bad Request - Error in query syntax.";
    /// `InvalidInput`: a change set of more than 100 operations (T-6.42).
    pub const TOO_MANY_CHANGES: &str =
        "The batch request operation exceeds the maximum 100 changes per change set.";
    /// `InvalidInput`: T-5.8.
    pub const IF_NONE_MATCH_ON_PUT: &str =
        "If-None-Match HTTP header cannot be specified for PUT operations.";
    /// `InvalidInput`: T-5.9.
    pub const IF_NONE_MATCH_ON_DELETE: &str =
        "If-None-Match HTTP header cannot be specified for DELETE operations.";
    /// `InvalidInput`: T-5.10.
    pub const IF_MATCH_AND_IF_NONE_MATCH: &str = "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please \
         specify either one of the headers or none of them.";
    /// `InvalidInput`: T-5.11.
    pub const TARGET_HAS_NO_ETAG: &str = "If-Match or If-None-Match headers cannot be specified if the target type does not have \
         etag properties defined.";
    /// `InvalidHeaderValue`: a preflight request without its headers (T-9.24).
    pub const CORS_HEADER_MISSING: &str = "A required CORS header is not present.";
    /// `InsufficientAccountPermissions`: T-1.4, in the words that the official Python client's
    /// tests expect.
    pub const WRITE_TO_SECONDARY: &str = "Write operations are not allowed.";
    /// `MissingRequiredQueryParameter` of the Queue service.
    pub const QUERY_PARAMETER_MISSING: &str =
        "A required query parameter was not specified for this request.";
    /// `UnsupportedHttpVerb` of the Queue service.
    pub const VERB_NOT_SUPPORTED: &str = "The resource doesn't support specified Http Verb.";
    /// `ServerBusy`: the account's rate is exceeded.
    pub const OVER_ACCOUNT_LIMIT: &str = "Operations per second is over the account limit.";

    /// `InvalidInput`: a filter breaks the grammar; `position` counts characters from zero
    /// (T-4.24).
    pub fn filter_syntax(position: usize, filter: &str) -> String {
        format!("Syntax error at position {position} in '{filter}'.")
    }

    /// `InvalidInput`: an extension that is used incorrectly.
    pub fn misused(problem: &str, position: usize, filter: &str) -> String {
        format!("{problem} at position {position} in '{filter}'.")
    }

    /// `InvalidInput`: filter operands with incompatible types (T-4.39).
    pub fn incompatible_operands(left: &str, right: &str, operator: &str) -> String {
        format!(
            "A binary operator with incompatible types was detected. Found operand types '{left}' \
             and '{right}' for operator kind '{operator}'."
        )
    }

    /// `InvalidInput`: a string literal of a filter or a key has no end (T-4.25).
    pub fn unterminated_string(position: usize, text: &str) -> String {
        format!("Unterminated string literal at position {position} in '{text}'.")
    }

    /// `InvalidInput`: a character in a key predicate begins no token (T-1.26).
    pub fn invalid_character(character: char, position: usize, text: &str) -> String {
        format!(
            "Syntax error: character '{character}' is not valid at position {position} in '{text}'."
        )
    }

    /// `InvalidInput`: T-1.13.
    pub fn number_of_keys(account: &str, table: &str) -> String {
        format!(
            "The number of keys specified in the URI does not match number of key properties for \
             the resource '{account}.{table}'."
        )
    }

    /// `InvalidInput`: an If-Match header that is not one tag (T-5.6).
    pub fn etag_not_valid(value: &str) -> String {
        format!(
            "The etag value '{value}' specified in one of the request headers is not valid. Please \
             make sure only one etag value is specified and is valid."
        )
    }

    /// `OutOfRangeInput`: T-3.17, T-3.40.
    pub fn out_of_range(name: &str, value: &str) -> String {
        format!("The '{name}' parameter of value '{value}' is out of range.")
    }

    /// `AuthorizationSourceIPMismatch`: the caller's address is outside `sip`.
    pub fn source_ip_mismatch(address: IpAddr) -> String {
        format!(
            "This request is not authorized to perform this operation using this source IP \
             {address}."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: ErrorCode, name: &str, status: u16, message: &str) {
        assert_eq!((code.name(), code.status(), code.message()), (name, status, message));
    }

    /// Texts as recorded by the official Python client's suites.
    #[test]
    fn codes_read_as_recorded() {
        check(
            ErrorCode::InvalidResourceName,
            "InvalidResourceName",
            400,
            "The specifed resource name contains invalid characters.",
        );
        check(
            ErrorCode::InvalidDuplicateRow,
            "InvalidDuplicateRow",
            400,
            "The batch request contains multiple changes with same row key. An entity can appear \
             only once in a batch request.",
        );
        check(
            ErrorCode::MediaTypeNotSupported,
            "MediaTypeNotSupported",
            415,
            "None of the provided media types are supported",
        );
        check(
            ErrorCode::InvalidBearerToken,
            "InvalidAuthenticationInfo",
            401,
            ErrorCode::NoAuthenticationInformation.message(),
        );
    }

    #[test]
    fn every_code_is_an_error_with_one_line_of_text() {
        for &code in ErrorCode::ALL {
            assert!((400..600).contains(&code.status()), "{code:?}");
            assert!(code.name().bytes().all(|b| b.is_ascii_alphabetic()), "{code:?}");
            assert!(!code.message().contains('\n') && !code.message().contains("  "), "{code:?}");
        }
    }

    #[test]
    fn messages_take_their_parameters() {
        assert_eq!(
            message::filter_syntax(7, "aaa bbb ccc"),
            "Syntax error at position 7 in 'aaa bbb ccc'."
        );
        assert_eq!(
            message::number_of_keys("acct1", "Orders"),
            "The number of keys specified in the URI does not match number of key properties for \
             the resource 'acct1.Orders'."
        );
        assert_eq!(
            message::out_of_range("RowKey", "a/b"),
            "The 'RowKey' parameter of value 'a/b' is out of range."
        );
    }
}
