//! `openlibrary.org`: a catalogue of books.

use axum::extract::Query;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::MockServiceBuilder;

/// The catalogue: three books, found by words of title or author.
#[must_use]
pub fn books() -> MockServiceBuilder {
    MockServiceBuilder::for_host(
        "openlibrary.org",
        Router::new().route("/search.json", get(search)),
    )
}

#[derive(Deserialize)]
struct BookQuery {
    q: String,
    #[serde(default)]
    fields: String,
    #[serde(default = "a_page")]
    limit: usize,
}

fn a_page() -> usize {
    100
}

async fn search(Query(search): Query<BookQuery>) -> Json<Value> {
    let catalogue = [
        ("/works/OL1W", "The Lighthouse Keeper", "Ada Quill", 1931),
        ("/works/OL2W", "A Keeper of Bees", "Ben Marrow", 1978),
        ("/works/OL3W", "Tides and Timber", "Ada Quill", 1944),
    ];
    let words: Vec<String> = search.q.split_whitespace().map(str::to_lowercase).collect();
    let matching = catalogue.into_iter().filter(|(_, title, author, _)| {
        let text = format!("{title} {author}").to_lowercase();
        words.iter().all(|word| text.contains(word))
    });
    let docs: Vec<Value> = matching
        .map(|(key, title, author, year)| {
            let book = json!({
                "key": key, "title": title, "author_name": [author],
                "first_publish_year": year, "edition_count": 3
            });
            match book {
                Value::Object(members) if !search.fields.is_empty() => members
                    .into_iter()
                    .filter(|(name, _)| search.fields.split(',').any(|field| field == name))
                    .collect::<Map<_, _>>()
                    .into(),
                whole => whole,
            }
        })
        .collect();
    let found = docs.len();
    let page: Vec<Value> = docs.into_iter().take(search.limit).collect();
    Json(json!({ "numFound": found, "start": 0, "q": search.q, "docs": page }))
}
