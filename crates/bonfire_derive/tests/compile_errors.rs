//! Mistakes with the derive are compile errors that point at the place and say what to do.

#[test]
fn compile_errors_point_at_the_field_and_say_what_to_do() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
