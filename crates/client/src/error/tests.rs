use super::*;

fn conflict() -> Error {
    let key = EntityKey::parse("Sales", "empid_000223").unwrap();
    let answer = ErrorAnswer {
        status: StatusCode::CONFLICT,
        code: "EntityAlreadyExists".into(),
        message: "The specified entity already exists.".into(),
        request_id: Some("123ec98d".into()),
        details: Vec::new(),
    };
    Error::new(ErrorKind::Conflict).with(|context| context.answer = Some(answer)).at(
        "insert into",
        Some("Employees"),
        Some(&key),
    )
}

#[test]
fn an_error_is_one_line_for_people() {
    // C-14.3.
    assert_eq!(
        conflict().to_string(),
        "insert into Employees (Sales, empid_000223): 409 EntityAlreadyExists: The specified \
         entity already exists. [request 123ec98d]"
    );
    let cause =
        Error::new(ErrorKind::Transport).with(|context| context.source = Some("refused".into()));
    assert_eq!(format!("{cause:#}"), "the server could not be reached: refused");
    // What `main` prints, and all that is known.
    assert_eq!(format!("{cause:?}"), format!("{cause:#}"));
    assert!(format!("{cause:#?}").contains("kind: Transport"), "{cause:#?}");
}

#[test]
fn an_error_is_small_and_goes_anywhere() {
    // C-14.1.
    fn anywhere<T: Send + Sync + 'static>() {}
    anywhere::<Error>();
    assert!(size_of::<Result<(), Error>>() <= 16);
}

#[test]
fn kinds_are_asked_by_name() {
    let error = conflict();
    assert!(error.is_conflict() && !error.is_not_found() && !error.is_retryable());
    assert_eq!((error.code(), error.attempts()), (Some("EntityAlreadyExists"), 0));
    assert!(Error::new(ErrorKind::Throttled).is_retryable());
    // What is sent again may succeed later too (C-13.2).
    for (status, code, expect) in [
        (500, "InternalError", true),
        (500, "", true),
        (500, "Other", false),
        (502, "", true),
        (504, "", true),
        (501, "NotImplemented", false),
        (400, "InvalidInput", false),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        let answer = ErrorAnswer { status, code: code.into(), ..ErrorAnswer::default() };
        let error = Error::new(ErrorKind::Service).with(|c| c.answer = Some(answer));
        assert_eq!(error.is_retryable(), expect, "{status} {code}");
        assert!(!error.with_kind(ErrorKind::OutcomeUnknown).is_retryable());
    }
    let lost = Error::new(ErrorKind::Timeout).with(|c| c.may_have_been_applied = true);
    assert!(!lost.is_retryable() && lost.may_have_been_applied());
    assert!(Error::new(ErrorKind::OutcomeUnknown).may_have_been_applied());
}
