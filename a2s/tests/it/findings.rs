//! What fuzzing found, each made small.

use a2s::compile;

/// Errors by code and place.
fn errors(source: &str) -> Vec<(String, String)> {
    let compilation = compile(source.as_bytes());
    let errors = compilation.diagnostics.into_iter().filter(a2s::Diagnostic::is_error);
    let errors: Vec<_> = errors.map(|error| (error.code, error.path)).collect();
    assert_eq!(compilation.document.is_none(), !errors.is_empty(), "{errors:?}");
    errors
}

#[test]
fn a_misspelt_type_of_the_execution_is_reported() {
    let header =
        "a2s: 1.0.0\nname: M\ndescription: A\ndomains: [m]\nversion: '1.0'\nauthors: [{name: t}]\n";
    let found = errors(&format!("{header}execution:\n  typ: sequence\n  steps: []\n"));
    assert!(found.contains(&("A2S011".to_owned(), "execution.typ".to_owned())), "{found:?}");
}
