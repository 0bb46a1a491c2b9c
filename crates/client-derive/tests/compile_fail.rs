//! Declarations that do not compile (section 21).

#[test]
fn wrong_declarations_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
}
