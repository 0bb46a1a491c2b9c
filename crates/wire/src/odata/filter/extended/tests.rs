use super::*;
use crate::odata::filter::{parse, parse_extended, parse_lenient, print, print_shape};
use lazuli_model::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;

fn term(name: &str, case: Case) -> Term {
    Term::new(Property::from_name(name), case)
}

fn text_test(function: TextFunction, term: Term, text: &str) -> Filter {
    Filter::Extended(Extended::Text(TextTest::new(function, term, text)))
}

fn is_in(name: &str, values: Vec<Value<'static>>) -> Filter {
    Filter::Extended(Extended::In { term: term(name, Case::AsIs), values })
}

/// Azure refuses the text, and with extensions it means `expect`.
#[track_caller]
fn check(text: &str, expect: Filter) {
    assert!(parse(text).is_err(), "{text}");
    assert_eq!(parse_extended(text), Ok(expect), "{text}");
}

///
#[test]
fn functions_of_text() {
    use TextFunction::{Contains, EndsWith, StartsWith, SubstringOf};
    let name = || term("Name", Case::AsIs);
    check("startswith(Name,'a')", text_test(StartsWith, name(), "a"));
    check(" endswith ( Name , 'O''Neill' ) ", text_test(EndsWith, name(), "O'Neill"));
    check("contains(Name,'')", text_test(Contains, name(), ""));
    check("substringof('a',Name)", text_test(SubstringOf, name(), "a"));
    let lower = term("Name", Case::Lower);
    check("startswith(tolower(Name),'a')", text_test(StartsWith, lower.clone(), "a"));
    check("substringof('a',toupper(Name))", text_test(SubstringOf, term("Name", Case::Upper), "a"));
    let compare = |operator| {
        Filter::Extended(Extended::Compare { term: lower.clone(), operator, text: "a".into() })
    };
    check("tolower(Name) eq 'a'", compare(Operator::Eq));
    check("'a' lt tolower(Name)", compare(Operator::Gt));
    check("(tolower(Name)) ne 'a'", compare(Operator::Ne));
}

/// a property may still be named like a function.
#[test]
fn names_of_functions_are_names_elsewhere() {
    for text in ["startswith eq 'a'", "in eq 1", "tolower ne 'x' or contains"] {
        assert_eq!(parse_extended(text), parse(text), "{text}");
    }
    let expect = text_test(TextFunction::Contains, term("tolower", Case::AsIs), "x");
    assert_eq!(parse_extended("contains(tolower,'x')"), Ok(expect));
}

///
#[test]
fn a_function_may_be_compared_with_true_and_false() {
    let function = || text_test(TextFunction::StartsWith, term("Name", Case::AsIs), "a");
    let not = || Filter::Not(function().into());
    check("startswith(Name,'a') eq true", function());
    check("startswith(Name,'a') eq false", not());
    check("startswith(Name,'a') ne true", not());
    check("true eq startswith(Name,'a')", function());
    check("not startswith(Name,'a')", not());
    check("not (startswith(Name,'a')) eq true", not());
    check(
        "startswith(Name,'a') and Age",
        function().and(Filter::IsTrue(Property::from_name("Age"))),
    );
}

///
#[test]
fn in_has_literals_of_one_type() {
    check("Name in ('a','b')", is_in("Name", vec!["a".into(), "b".into()]));
    check("Age in(1)", is_in("Age", vec![Value::Int32(1)]));
    check("Age in ( -1L , 2L )", is_in("Age", vec![Value::Int64(-1), Value::Int64(2)]));
    let time = Value::DateTime(Timestamp::UNIX_EPOCH);
    check("Timestamp in (datetime'1970-01-01T00:00:00Z')", is_in("Timestamp", vec![time]));
    let both = is_in("A", vec![Value::Int32(1)]).and(is_in("B", vec![Value::Int32(2)]));
    check("A in (1) and B in (2)", both);
    let lower = Extended::In { term: term("A", Case::Lower), values: vec!["x".into()] };
    check("tolower(A) in ('x')", Filter::Extended(lower));
    let many = |count: usize| format!("A in ({})", vec!["1"; count].join(","));
    check(&many(1000), is_in("A", vec![Value::Int32(1); 1000]));
    let error = |text: &str| parse_extended(text).unwrap_err();
    let problem = |text: &str| match error(text) {
        FilterError::Misused { problem, .. } => problem,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(problem(&many(1001)), TOO_MANY);
    assert_eq!(problem("A in (1,'1')"), SEVERAL_TYPES);
    assert_eq!(problem("1 in (1)"), NOT_A_PROPERTY);
    assert_eq!(error("A in (null)"), FilterError::Invalid);
    let keys = incompatible(EdmType::String, EdmType::Int32, "Equal");
    assert_eq!([error("RowKey in (1)"), error("tolower(A) in (1)")], [keys; 2]);
    for text in ["A in ()", "A in", "A in ('a'", "A in ('a',)", "A in 'a'", "A in ('a') in ('b')"] {
        assert!(parse_extended(text).is_err(), "{text}");
    }
}

///
#[test]
fn arguments_are_a_property_and_a_text() {
    for (text, problem, position) in [
        ("startswith('a',Name)", NOT_A_PROPERTY, 14),
        ("startswith(Name,5)", NOT_TEXT, 17),
        ("endswith(Name,Other)", NOT_TEXT, 19),
        ("substringof(Name,'a')", NOT_TEXT, 16),
        ("tolower('a') eq 'a'", NOT_A_PROPERTY, 11),
    ] {
        assert_eq!(parse_extended(text), Err(FilterError::Misused { problem, position }), "{text}");
    }
    for text in
        ["startswith(Name)", "startswith(Name,'a','b')", "startswith(Name,'a'", "contains()"]
    {
        assert!(parse_extended(text).is_err(), "{text}");
    }
    let folded = incompatible(EdmType::String, EdmType::Int32, "Equal");
    assert_eq!(parse_extended("tolower(Name) eq 5"), Err(folded));
    // Functions that Azure lacks and extensions do not add either.
    for text in ["length(Name) eq 1", "trim(Name) eq 'a'", "tolower(A) eq tolower(B)"] {
        assert_eq!(parse_extended(text), Err(FilterError::NotImplemented), "{text}");
    }
    assert!(parse_extended("tolower(toupper(Name)) eq 'a'").is_err());
}

#[test]
fn shapes_have_no_literals() {
    let text = "startswith(Name,'a') and Age in (1,2,3) and tolower(Mail) eq 'x'";
    let filter = parse_extended(text).unwrap();
    assert_eq!(print(&filter), text);
    let shape = "startswith(Name,?) and Age in (?) and tolower(Mail) eq ?";
    assert_eq!(print_shape(&filter), shape);
}

fn any_term() -> impl Strategy<Value = Term> {
    let case = select(vec![Case::AsIs, Case::Lower, Case::Upper]);
    ("p_[A-Za-z0-9_é]{0,6}", case).prop_map(|(name, case)| term(&name, case))
}

fn any_extended() -> impl Strategy<Value = Filter> {
    let function = select(TextFunction::ALL.to_vec());
    let texts = proptest::collection::vec(any::<String>(), 1..5);
    let texts = texts.prop_map(|t| t.into_iter().map(|t| Value::String(t.into())).collect());
    let numbers = proptest::collection::vec(any::<i64>().prop_map(Value::Int64), 1..5);
    let folded = any_term().prop_filter("as it is", |term| term.case != Case::AsIs);
    prop_oneof![
        (function, any_term(), any::<String>()).prop_map(|(f, t, text)| text_test(f, t, &text)),
        (any_term(), texts).prop_map(|(term, values)| Extended::In { term, values }.into_filter()),
        ("p_[a-z]{0,3}", numbers).prop_map(|(name, values)| is_in(&name, values)),
        (folded, select(Operator::ALL.to_vec()), any::<String>()).prop_map(
            |(term, operator, text)| {
                Extended::Compare { term, operator, text: text.into() }.into_filter()
            }
        ),
    ]
}

trait IntoFilter {
    fn into_filter(self) -> Filter;
}

impl IntoFilter for Extended {
    fn into_filter(self) -> Filter {
        Filter::Extended(self)
    }
}

proptest! {
    #[test]
    fn printed_filters_parse_back(parts in proptest::collection::vec(any_extended(), 2..5)) {
        for filter in [Filter::And(parts.clone()), Filter::Not(Filter::Or(parts).into())] {
            let text = print(&filter);
            prop_assert_eq!(parse_extended(&text), Ok(filter), "{}", text);
        }
    }

    /// what Azure accepts means the same with extensions, and what it does not accept is
    /// refused without them.
    #[test]
    fn the_extended_dialect_contains_the_other(
        words in proptest::collection::vec(select(vec![
            "a", "PartitionKey", "eq", "ne", "and", "or", "not", "(", ")", "'x'", "5", "in", ",",
            "startswith", "tolower", "contains", "true", "null",
        ]), 0..16),
    ) {
        let text = words.join(" ");
        if let Ok(filter) = parse(&text) {
            prop_assert_eq!(parse_extended(&text), Ok(filter));
        }
        if let Ok(filter) = parse_extended(&text) {
            prop_assert_eq!(parse(&text).is_ok(), filter.extended().is_empty());
            prop_assert_eq!(parse_extended(&print(&filter)), Ok(filter));
        }
        let _ = parse_lenient(&text);
    }
}
