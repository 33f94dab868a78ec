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

#[test]
fn words_of_other_workflow_languages_are_explained() {
    let header = "a2s: 1.0.0\nname: M\ndescription: A\ndomains: [m]\nversion: '1.0'\n\
                  authors: [{name: t}]\nexecution:\n  type: sequence\n  steps:\n  - id: a\n    type: condition\n";
    for (word, field) in
        [("then", "if_true"), ("else", "if_false"), ("when", "condition"), ("foreach", "for_each")]
    {
        let source = format!("{header}    {word}: {{}}\n");
        let path = format!("execution.steps[0].{word}");
        let compilation = compile(source.as_bytes());
        let found = compilation.diagnostics.iter().find(|found| found.path == path).unwrap();
        let hint = found.hint.as_deref().unwrap_or_default();
        assert!(found.code == "A2S011" && hint.contains(&format!("`{field}`")), "{found:?}");
    }
}
