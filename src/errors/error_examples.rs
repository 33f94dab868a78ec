//! A mistake and its repair for each code of a document.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// The lessons, and the document that they use.
#[derive(Debug, Deserialize)]
struct LessonFile {
    document: String,
    lessons: BTreeMap<String, LessonSource>,
}

/// A lesson in its source form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LessonSource {
    about: Option<String>,
    mistake: Option<String>,
    repair: Option<String>,
}

/// The explanation of an error code.
#[derive(Debug, PartialEq)]
pub(crate) struct ErrorLesson {
    /// The explanation that a few lines of a document cannot show.
    pub(crate) about: Option<String>,
    /// A few lines of a document that show the mistake.
    pub(crate) example: Option<MistakeExample>,
}

/// A mistake, the message of the compiler about it, and its fix.
#[derive(Debug, PartialEq)]
pub(crate) struct MistakeExample {
    /// Lines with the mistake.
    pub(crate) mistake: String,
    /// The same lines without it.
    pub(crate) repair: String,
    /// Message and hint, each a sentence.
    pub(crate) diagnosis: String,
}

static LESSONS: LazyLock<BTreeMap<String, ErrorLesson>> = LazyLock::new(|| {
    let LessonFile { document, lessons } = read();
    let teach = |(id, written): (String, LessonSource)| {
        let shown = written.mistake.zip(written.repair).map(|(mistake, repair)| {
            let said = compile(&document, &mistake, &repair)
                .and_then(|compilation| compilation.diagnostics.into_iter().find(|d| d.code == id))
                .map_or_else(String::new, |said| {
                    let hint = said.hint.unwrap_or_default();
                    format!("{}. {hint}", super::capitalise(&said.message))
                });
            MistakeExample { mistake, repair, diagnosis: said }
        });
        (id, ErrorLesson { about: written.about, example: shown })
    };
    lessons.into_iter().map(teach).collect()
});

/// Returns the explanation of a code, in addition to its remedy.
pub(crate) fn find_lesson(id: &str) -> Option<&'static ErrorLesson> {
    LESSONS.get(id)
}

/// The text is part of this program: a test reads all of it.
fn read() -> LessonFile {
    let value = a2s::parse_value(include_bytes!("lessons.yaml"));
    let value = value.unwrap_or_else(|errors| panic!("lessons.yaml: {}", errors[0]));
    serde_json::from_value(value).unwrap_or_else(|error| panic!("lessons.yaml: {error}"))
}

/// Compiles the document with `mistake` instead of `repair`.
fn compile(document: &str, mistake: &str, repair: &str) -> Option<a2s::Compilation> {
    // The document indents these lines.
    let at = find_indented(document, repair)?;
    let margin = at.1;
    let indent =
        |text: &str| -> String { text.lines().map(|line| format!("{margin}{line}\n")).collect() };
    let text = document.replacen(&indent(repair), &indent(mistake), 1);
    Some(a2s::compile(text.as_bytes()))
}

/// Finds the lines of `part` in `whole`, and the indentation that they have there.
fn find_indented<'t>(whole: &'t str, part: &str) -> Option<(usize, &'t str)> {
    let first = part.lines().next()?;
    whole.match_indices(first).find_map(|(at, _)| {
        let start = whole[..at].rfind('\n').map_or(0, |end| end + 1);
        let margin = whole.get(start..at).filter(|margin| margin.trim().is_empty())?;
        let lines: String = part.lines().map(|line| format!("{margin}{line}\n")).collect();
        whole[start..].starts_with(&lines).then_some((start, margin))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_no_mistake_but_the_placeholder() {
        let compilation = a2s::compile(read().document.as_bytes());
        let codes: Vec<_> = compilation.diagnostics.iter().map(ToString::to_string).collect();
        assert_eq!(codes.len(), 1, "{codes:#?}");
        assert_eq!(compilation.diagnostics[0].code, "A2S030");
    }

    #[test]
    fn every_lesson_shows_its_code_and_every_code_has_a_lesson() {
        let LessonFile { document, lessons } = read();
        for (id, written) in &lessons {
            assert!(a2s::CODES.iter().any(|code| code.id == id), "{id} is no code");
            assert!(written.about.is_some() || written.mistake.is_some(), "{id} says nothing");
            let (Some(mistake), Some(repair)) = (&written.mistake, &written.repair) else {
                assert!(written.mistake.is_none() && written.repair.is_none(), "{id} is half");
                continue;
            };
            let compilation = compile(&document, mistake, repair)
                .unwrap_or_else(|| panic!("the repair of {id} does not stand in the document"));
            let said: Vec<_> = compilation.diagnostics.iter().map(ToString::to_string).collect();
            let mut codes = compilation.diagnostics.iter();
            assert!(codes.any(|diagnostic| diagnostic.code == *id), "{id}: {said:#?}");
            let mut errors = compilation.diagnostics.iter().filter(|d| d.is_error());
            assert!(errors.all(|diagnostic| diagnostic.code == *id), "{id}: {said:#?}");
        }
        for code in a2s::CODES {
            assert!(lessons.contains_key(code.id), "{} has no lesson", code.id);
        }
    }
}
