//! The pages of the error codes, from the one table of each crate.

use axum::response::Html;

/// Every table of codes, in the order of the numbers.
fn tables() -> [(&'static str, &'static [a2s::Code]); 4] {
    [
        ("Documents", a2s::CODES),
        ("Registry", registry::CODES),
        ("Executor", executor::CODES),
        ("Command and services", crate::failure::CODES),
    ]
}

/// The page of one code.
pub(crate) fn page(id: &str) -> Option<Html<String>> {
    let (_, code) = all().find(|(_, code)| code.id.eq_ignore_ascii_case(id))?;
    Some(Html(format!(
        "<!doctype html><meta charset=utf-8><title>{id}</title>\
         <h1>{id}: {title}</h1><p>{remedy}</p><p><a href=/errors>All codes</a></p>\n",
        id = code.id,
        title = code.title,
        remedy = code.remedy
    )))
}

/// The page that lists all codes.
pub(crate) fn list_page() -> Html<String> {
    let rows: String = all()
        .map(|(_, code)| {
            format!(
                "<dt><a href=/errors/{0}>{0}</a> {1}<dd>{2}\n",
                code.id, code.title, code.remedy
            )
        })
        .collect();
    Html(format!(
        "<!doctype html><meta charset=utf-8><title>Errors</title><h1>Errors</h1><dl>{rows}</dl>\n"
    ))
}

/// `docs/errors.md`, which a test holds to these tables.
#[must_use]
pub fn markdown() -> String {
    let mut text = "# Error codes\n\nEvery error has a stable code. `GET /errors/CODE` of a running service shows the same.\n".to_owned();
    for (title, codes) in tables() {
        text += &section(title);
        for code in codes {
            text += &row(code);
        }
    }
    text
}

fn section(title: &str) -> String {
    format!("\n## {title}\n\n| code | what it means | what to do |\n|---|---|---|\n")
}

fn row(code: &a2s::Code) -> String {
    format!("| {} | {} | {} |\n", code.id, code.title, code.remedy)
}

fn all() -> impl Iterator<Item = (&'static str, &'static a2s::Code)> {
    tables().into_iter().flat_map(|(title, codes)| codes.iter().map(move |code| (title, code)))
}
