//! The pages of the error codes, from the one table of each crate.

mod error_examples;

use std::fmt::Write as _;

use axum::response::Html;

pub(crate) use error_examples::{ErrorLesson, MistakeExample, find_lesson};

/// Returns all tables of codes, in the order of the numbers.
fn tables() -> [(&'static str, &'static [a2s::ErrorCode]); 5] {
    [
        ("Documents", a2s::CODES),
        ("Registry", registry::CODES),
        ("Executor", executor::CODES),
        ("Command and services", crate::cli_error::CODES),
        ("Agent", agent::CODES),
    ]
}

/// Finds the code `id`. Upper and lower case are equal, and the number alone is enough.
pub(crate) fn find(id: &str) -> Option<&'static a2s::ErrorCode> {
    let number =
        |code: &a2s::ErrorCode| code.id.strip_prefix("A2S").and_then(|n| n.parse::<u16>().ok());
    let meant = id.parse().ok();
    all()
        .find(|code| code.id.eq_ignore_ascii_case(id) || (meant.is_some() && number(code) == meant))
}

/// Returns the page of one code.
pub(crate) fn page(id: &str) -> Option<Html<String>> {
    let code = find(id)?;
    let mut text = format!(
        "<!doctype html><meta charset=utf-8><title>{id}</title>\
         <h1>{id}: {title}</h1><p>{remedy}</p>",
        id = code.id,
        title = escape(code.title),
        remedy = escape(code.remedy),
    );
    if let Some(lesson) = find_lesson(code.id) {
        if let Some(about) = &lesson.about {
            let _ = write!(text, "<p>{}</p>", escape(about));
        }
        if let Some(MistakeExample { mistake, repair, diagnosis: said }) = &lesson.example {
            let (mistake, repair, said) = (escape(mistake), escape(repair), escape(said));
            let _ = write!(
                text,
                "<h2>Mistake</h2><pre>{mistake}</pre><p>{said}</p>\
                 <h2>Fix</h2><pre>{repair}</pre>"
            );
        }
    }
    text += "<p><a href=/errors>All codes</a></p>\n";
    Some(Html(text))
}

/// Returns the page that lists all codes.
pub(crate) fn list_page() -> Html<String> {
    let rows: String = all()
        .map(|code| {
            format!(
                "<dt><a href=/errors/{0}>{0}</a> {1}<dd>{2}\n",
                code.id,
                escape(code.title),
                escape(code.remedy)
            )
        })
        .collect();
    Html(format!(
        "<!doctype html><meta charset=utf-8><title>Errors</title><h1>Errors</h1><dl>{rows}</dl>\n"
    ))
}

/// Returns the text of `docs/errors.md`; a test compares the file with it.
#[must_use]
pub fn markdown() -> String {
    let mut text = "# Error codes\n\nEvery error has a stable code. `a2s explain CODE` and `GET /errors/CODE` of a running service show the same text.\n".to_owned();
    for (title, codes) in tables() {
        let _ = write!(text, "\n## {title}\n");
        if codes.iter().any(|code| find_lesson(code.id).is_some()) {
            codes.iter().for_each(|code| text += &section(code));
        } else {
            text += "\n| code | meaning | fix |\n|---|---|---|\n";
            for code in codes {
                let _ = writeln!(text, "| {} | {} | {} |", code.id, code.title, code.remedy);
            }
        }
    }
    text
}

/// Returns the page of one code below a heading that links can use.
fn section(code: &a2s::ErrorCode) -> String {
    let mut text =
        format!("\n### {}\n\n**{}.** {}\n", code.id, capitalise(code.title), code.remedy);
    let Some(lesson) = find_lesson(code.id) else { return text };
    if let Some(about) = &lesson.about {
        let _ = write!(text, "\n{about}\n");
    }
    if let Some(MistakeExample { mistake, repair, diagnosis: said }) = &lesson.example {
        let _ = write!(text, "\n```yaml\n{mistake}```\n\n{said}\n\n```yaml\n{repair}```\n");
    }
    text
}

fn all() -> impl Iterator<Item = &'static a2s::ErrorCode> {
    tables().into_iter().flat_map(|(_, codes)| codes)
}

fn capitalise(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
