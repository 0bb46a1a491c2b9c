use super::*;
use lazuli_model::limits::{FILTER_COMPARISONS_MAX, FILTER_DEPTH_MAX};
use lazuli_model::{EdmType, Filter, Guid, Operator, Property, Timestamp, Value};
use proptest::prelude::*;

fn compare(name: &str, operator: Operator, value: Value<'static>) -> Filter {
    Filter::Compare { property: Property::from_name(name), operator, value }
}

fn is_true(name: &str) -> Filter {
    Filter::IsTrue(Property::from_name(name))
}

/// The text parses to `expect`.
#[track_caller]
fn check(text: &str, expect: Filter) {
    assert_eq!(parse(text), Ok(expect), "{text}");
}

#[track_caller]
fn check_literal(text: &str, value: Value<'static>) {
    check(&format!("a eq {text}"), compare("a", Operator::Eq, value));
}

#[track_caller]
fn check_error(text: &str, expect: FilterError) {
    assert_eq!(parse(text), Err(expect), "{text}");
}

#[track_caller]
fn check_syntax(text: &str, position: usize) {
    check_error(text, FilterError::Syntax { position });
}

#[track_caller]
fn check_lenient(text: &str, expect: Filter) {
    assert!(parse(text).is_err(), "{text}");
    assert_eq!(parse_lenient(text), Ok(expect), "{text}");
}

#[test]
fn tr_4_and_22_emulators_know_no_case_and_double_quotes() {
    let p = || compare("PartitionKey", Operator::Eq, "p".into());
    let r = || compare("RowKey", Operator::Ge, "r".into());
    check_lenient("PartitionKey EQ 'p'", p());
    check_lenient("PartitionKey eq 'p' AND RowKey Ge 'r'", Filter::And(vec![p(), r()]));
    check_lenient("PartitionKey eq 'p' Or RowKey ge 'r'", Filter::Or(vec![p(), r()]));
    check_lenient("NOT (PartitionKey eq 'p')", Filter::Not(p().into()));
    check_lenient(r#"PartitionKey eq "p""#, p());
    check_lenient(r#"a eq "it's ""it""""#, compare("a", Operator::Eq, "it's \"it\"".into()));
    check_lenient("a eq TRUE", compare("a", Operator::Eq, Value::Boolean(true)));
    check_lenient("a eq x'00'", compare("a", Operator::Eq, Value::Binary(vec![0].into())));
    let epoch = Value::DateTime(Timestamp::UNIX_EPOCH);
    check_lenient("a eq DateTime'1970-01-01T00:00:00Z'", compare("a", Operator::Eq, epoch));
    check_lenient("a EQ INF or b eq -5L", parse("a eq INF or b eq -5L").unwrap());
}

#[test]
fn tr_3_emulators_take_a_missing_property_for_null() {
    let present = || {
        let sides = [Operator::Eq, Operator::Ne].map(|operator| compare("a", operator, "".into()));
        Filter::Or(sides.into())
    };
    check_lenient("a eq null", Filter::Not(present().into()));
    check_lenient("null ne a", present());
    check_lenient("a gt null", Filter::Constant(false));
    check_lenient("RowKey ne null", Filter::Constant(true));
    check_lenient("RowKey eq null", Filter::Not(Filter::Constant(true).into()));
}

#[test]
fn tr_26_and_30_emulators_compare_anything_and_name_it_as_they_like() {
    check_lenient("PartitionKey eq 12345", Filter::Constant(false));
    check_lenient("Timestamp ne 'x'", Filter::Constant(true));
    check_lenient("my-name eq 1", compare("my-name", Operator::Eq, Value::Int32(1)));
    check_lenient("a.b@c eq 1", compare("a.b@c", Operator::Eq, Value::Int32(1)));
    check_lenient("1st eq 1", compare("1st", Operator::Eq, Value::Int32(1)));
    for refused in ["a eq b", "startswith(a,'b')", "a add 1 eq 2", "a eq", "(a eq 1", "a eq 'b"] {
        assert!(parse_lenient(refused).is_err(), "{refused}");
    }
}

#[test]
fn literals_of_every_type() {
    check_literal("'o''clock'", "o'clock".into());
    check_literal("''", "".into());
    check_literal("''''", "'".into());
    check_literal("true", Value::Boolean(true));
    check_literal("False", Value::Boolean(false));
    check_literal("40", Value::Int32(40));
    check_literal("-5", Value::Int32(-5));
    check_literal("1099511627776L", Value::Int64(1 << 40));
    check_literal("-9223372036854775808l", Value::Int64(i64::MIN));
    check_literal("4.1", Value::Double(4.1));
    check_literal("1e3", Value::Double(1000.0));
    check_literal("1.5E-3D", Value::Double(0.0015));
    check_literal("2d", Value::Double(2.0));
    check_literal("- 1.5", Value::Double(-1.5));
    check_literal("INF", Value::Double(f64::INFINITY));
    check_literal("-INF", Value::Double(f64::NEG_INFINITY));
    check_literal("datetime'1970-01-01T00:00:00.000000Z'", Value::DateTime(Timestamp::UNIX_EPOCH));
    check_literal(
        "guid'c9da6455-213d-42c9-9a79-3e9149a57833'",
        Value::Guid(Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap()),
    );
    check_literal("X'62696e617279'", Value::Binary(b"binary".to_vec().into()));
    check_literal("binary''", Value::Binary(vec![].into()));
    assert!(matches!(
        parse("a eq NaN"),
        Ok(Filter::Compare { value: Value::Double(v), .. }) if v.is_nan()
    ));
}

#[test]
fn integers_without_suffix_take_the_smallest_type_that_holds_them() {
    check_literal("2147483647", Value::Int32(i32::MAX));
    check_literal("-2147483648", Value::Int32(i32::MIN));
    check_literal("2147483648", Value::Int64(1 << 31));
    check_literal("18446744073709551616", Value::Double(18_446_744_073_709_551_616.0));
}

#[test]
fn recorded_filters_are_understood() {
    // python/test_table_entity.test_query_special_chars, test_table.test_query_tables_*.
    check(
        "PartitionKey eq ':@' and RowKey eq '+,$' and Chars eq '?''/!_^#'",
        Filter::And(vec![
            compare("PartitionKey", Operator::Eq, ":@".into()),
            compare("RowKey", Operator::Eq, "+,$".into()),
            compare("Chars", Operator::Eq, "?'/!_^#".into()),
        ]),
    );
    check(
        "TableName ge 'zzza' and TableName lt 'zzzb'",
        Filter::And(vec![
            compare("TableName", Operator::Ge, "zzza".into()),
            compare("TableName", Operator::Lt, "zzzb".into()),
        ]),
    );
}

#[test]
fn and_binds_tighter_than_or() {
    let [a, b, c] = ["a", "b", "c"].map(is_true);
    let grouped = Filter::And(vec![Filter::Or(vec![a.clone(), b.clone()]), c.clone()]);
    check("a or b and c", Filter::Or(vec![a, Filter::And(vec![b, c])]));
    check("(a or b) and c", grouped);
}

#[test]
fn chains_of_one_operator_are_one_node_however_enclosed() {
    let abc = Filter::Or(["a", "b", "c"].map(is_true).to_vec());
    for text in ["a or b or c", "(a or b) or c", "((a) or (b)) or (c)", "a or (b or c)"] {
        check(text, abc.clone());
    }
}

#[test]
fn a_thousand_combined_pairs_are_not_too_deep() {
    // TableQuery.CombineFilters of the .NET client encloses both sides each time.
    let mut text = "(a eq 0)".to_owned();
    for n in 1..1000 {
        text = format!("({text} or (a eq {n}))");
    }
    assert!(matches!(parse(&text), Ok(Filter::Or(parts)) if parts.len() == 1000));
}

#[test]
fn a_literal_on_the_left_turns_the_operator_around() {
    check("'p' eq PartitionKey", compare("PartitionKey", Operator::Eq, "p".into()));
    check("5 lt a", compare("a", Operator::Gt, Value::Int32(5)));
    check("5 ge a", compare("a", Operator::Le, Value::Int32(5)));
    check("(a) gt (5)", compare("a", Operator::Gt, Value::Int32(5)));
}

#[test]
fn conditions_may_be_bare() {
    check("active", is_true("active"));
    check("not active", Filter::Not(is_true("active").into()));
    check("not(not active)", Filter::Not(Filter::Not(is_true("active").into()).into()));
    check("true", Filter::Constant(true));
    check(" false ", Filter::Constant(false));
    check(
        "1 eq 1 or 'b' lt 'a'",
        Filter::Or(vec![Filter::Constant(true), Filter::Constant(false)]),
    );
    check("_x eq 1", compare("_x", Operator::Eq, Value::Int32(1)));
    check("ꀕ eq 'ô'", compare("ꀕ", Operator::Eq, "ô".into()));
}

#[test]
fn not_binds_tighter_than_comparison() {
    check(
        "not (a eq 1) and b",
        Filter::And(vec![
            Filter::Not(compare("a", Operator::Eq, Value::Int32(1)).into()),
            is_true("b"),
        ]),
    );
    check_error("not a eq 1", FilterError::NotImplemented);
    let not_a = || Filter::Not(is_true("a").into());
    check("not a eq true", not_a());
    check("true ne (not a)", Filter::Not(not_a().into()));
    check("(a) and (not a) ne false", Filter::And(vec![is_true("a"), not_a()]));
    check_error("(not a) gt false", FilterError::NotImplemented);
}

#[test]
fn syntax_errors_point_past_the_token_that_does_not_fit() {
    // Recorded, T-4.24.
    check_syntax("aaa bbb ccc", 7);
    check_syntax("", 0);
    check_syntax("a eq", 4);
    check_syntax("a eq 1 eq 2", 9);
    check_syntax("(a eq 1", 7);
    check_syntax("a eq 1)", 7);
    check_syntax("a/b eq 1", 2);
    check_syntax("a eq 12x", 8);
    check_syntax("a eq 1.", 7);
    check_syntax("a eq 1.e5", 9);
    check_syntax("a eq X'0'", 9);
    check_syntax("a eq guid'zz'", 13);
    check_syntax("ꀕ🦀 eq", 6);
}

#[test]
fn keywords_are_case_sensitive() {
    // TR-4.
    check_syntax("a eq 1 Or b eq 2", 9);
    check_syntax("a EQ 1", 4);
    check_syntax("a eq DateTime'2020-01-01T00:00:00Z'", 35);
}

#[test]
fn strings_have_single_quotes_and_an_end() {
    check_error("a eq 'b", FilterError::UnterminatedString { position: 7 });
    check_error("a eq 'b''", FilterError::UnterminatedString { position: 9 });
    check_error("a eq guid'1", FilterError::UnterminatedString { position: 11 });
    check_error("a eq \"b\"", FilterError::InvalidCharacter { character: '"', position: 5 });
}

#[test]
fn nulls_and_what_is_no_condition_are_invalid() {
    // TR-3.
    for text in ["a eq null", "null ne a", "PartitionKey", "not 5", "5", "a eq 1e400"] {
        check_error(text, FilterError::Invalid);
    }
}

#[test]
fn keys_go_together_with_their_own_type_only() {
    let check = |text, left, right, operator| {
        check_error(text, FilterError::IncompatibleOperands { left, right, operator });
    };
    // TR-26.
    check("PartitionKey eq 12345", EdmType::String, EdmType::Int32, "Equal");
    check("5L lt RowKey", EdmType::Int64, EdmType::String, "LessThan");
    check("Timestamp ge '2020'", EdmType::DateTime, EdmType::String, "GreaterThanOrEqual");
    // DoTableQueryWithInvalidQueryAsync of the .NET client.
    let joined = "(PartitionKey ) and (RowKey ge '000050')";
    check(joined, EdmType::String, EdmType::Boolean, "And");
    check("a or RowKey", EdmType::Boolean, EdmType::String, "Or");
    check("a or b and 'c'", EdmType::Boolean, EdmType::String, "And");
}

#[test]
fn functions_arithmetic_and_pairs_of_properties_are_not_implemented() {
    for text in [
        "startswith(a, 'b')",
        "not substringof('b', a) and c",
        "length (a) eq 3",
        "a add 1 eq 2",
        "a eq 2 mod 1",
        "-a eq 1",
        "a eq b",
        "PartitionKey eq RowKey",
        "(a eq 1) eq (b eq 2)",
    ] {
        check_error(text, FilterError::NotImplemented);
    }
}

/// T-4.23.
#[test]
fn a_name_that_is_no_function_before_a_parenthesis_is_a_syntax_error() {
    check_error("NOT (a eq 1)", FilterError::Syntax { position: 5 });
    check_error("b and Length(a) eq 1", FilterError::Syntax { position: 13 });
}

#[test]
fn complexity_is_bounded() {
    let comparisons = |n| vec!["a eq 1"; n].join(" or ");
    assert!(parse(&comparisons(FILTER_COMPARISONS_MAX)).is_ok());
    check_error(&comparisons(FILTER_COMPARISONS_MAX + 1), FilterError::TooComplex);
    let nots = |n| "not ".repeat(n) + "a";
    assert!(parse(&nots(FILTER_DEPTH_MAX)).is_ok());
    check_error(&nots(FILTER_DEPTH_MAX + 1), FilterError::TooComplex);
    check_error(&nots(100_000), FilterError::TooComplex);
    check_error(&"(".repeat(100_000), FilterError::TooComplex);
    let alternating = |n| "(a or b and ".repeat(n) + "c" + &")".repeat(n);
    assert!(parse(&alternating(FILTER_DEPTH_MAX / 2)).is_ok());
    check_error(&alternating(FILTER_DEPTH_MAX), FilterError::TooComplex);
}

#[test]
fn the_shape_of_a_filter_has_no_values() {
    let filter = parse(
        "(a eq 'secret' or b gt 17L) and not (c eq guid'c9da6455-213d-42c9-9a79-3e9149a57833')",
    );
    let shape = "(a eq ? or b gt ?) and not (c eq ?)";
    assert_eq!(print_shape(&filter.unwrap()), shape);
}

#[test]
fn printed_text_is_canonical() {
    let text = "PartitionKey eq 'o''clock' and (a gt -5 or b le 5L or not (c)) and d ne 1.0";
    assert_eq!(print(&parse(text).unwrap()), text);
    assert_eq!(print(&parse("((x eq X'0aFF'))or'a'eq y").unwrap()), "x eq X'0aff' or y eq 'a'");
}

fn any_value() -> impl Strategy<Value = Value<'static>> {
    let ticks = 0..=Timestamp::MAX.ticks();
    prop_oneof![
        any::<String>().prop_map(|v| Value::String(v.into())),
        any::<bool>().prop_map(Value::Boolean),
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        any::<f64>()
            .prop_filter("NaN is unequal to itself", |v| !v.is_nan())
            .prop_map(Value::Double),
        ticks.prop_map(|v| Value::DateTime(Timestamp::from_ticks(v).unwrap())),
        any::<[u8; 16]>().prop_map(|v| Value::Guid(Guid(v))),
        any::<Vec<u8>>().prop_map(|v| Value::Binary(v.into())),
    ]
}

fn any_leaf() -> impl Strategy<Value = Filter> {
    // The prefix keeps names apart from keywords.
    let name = "p_[A-Za-z0-9_é]{0,6}";
    let operator = proptest::sample::select(Operator::ALL.to_vec());
    let key = proptest::sample::select(vec!["PartitionKey", "RowKey"]);
    prop_oneof![
        any::<bool>().prop_map(Filter::Constant),
        name.prop_map(|name| is_true(&name)),
        (name, operator.clone(), any_value()).prop_map(|(name, op, v)| compare(&name, op, v)),
        (key, operator, any::<String>()).prop_map(|(name, op, v)| compare(
            name,
            op,
            Value::String(v.into())
        )),
    ]
}

/// Filters in which no junction contains one of its own kind.
fn any_filter() -> impl Strategy<Value = Filter> {
    any_leaf().prop_recursive(6, 64, 4, |inner| {
        let parts = proptest::collection::vec(inner.clone(), 2..5);
        let not_and = |f: &Filter| !matches!(f, Filter::And(_));
        let not_or = |f: &Filter| !matches!(f, Filter::Or(_));
        let at_least_two = "a junction has two parts";
        prop_oneof![
            inner.prop_map(|f| Filter::Not(f.into())),
            parts
                .clone()
                .prop_map(move |p| p.into_iter().filter(not_and).collect::<Vec<_>>())
                .prop_filter(at_least_two, |p| p.len() > 1)
                .prop_map(Filter::And),
            parts
                .prop_map(move |p| p.into_iter().filter(not_or).collect::<Vec<_>>())
                .prop_filter(at_least_two, |p| p.len() > 1)
                .prop_map(Filter::Or),
        ]
    })
}

proptest! {
    /// The lenient dialect reads every filter of Azure's, with the same meaning.
    #[test]
    fn the_lenient_dialect_contains_the_other(text in "[a-b() '0-9.eqnotrdLX-]{0,24}") {
        if let Ok(filter) = parse(&text) {
            let lenient = parse_lenient(&text);
            prop_assert!(lenient == Ok(filter) || text.contains('-') || text.contains('.'));
        }
    }


    #[test]
    fn printed_filters_parse_back(filter in any_filter()) {
        let text = print(&filter);
        prop_assert_eq!(parse(&text), Ok(filter), "{}", text);
    }

    #[test]
    fn parse_never_panics(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn parse_never_panics_on_near_filters(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "a", "PartitionKey", "eq", "lt", "and", "or", "not", "(", ")", "'x'", "'", "5", "-",
                "5L", "1.5", "1e", "null", "true", "datetime'2020-01-01T00:00:00Z'", "X'", "add", ",", " ", "é",
            ]),
            0..24,
        ),
        glue in proptest::sample::select(vec!["", " "]),
    ) {
        if let Ok(filter) = parse(&words.join(glue)) {
            prop_assert_eq!(parse(&print(&filter)), Ok(filter));
        }
    }
}
