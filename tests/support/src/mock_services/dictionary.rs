//! `api.dictionaryapi.dev`: English words.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use super::MockServiceBuilder;

/// The dictionary. It contains the word `lighthouse`.
#[must_use]
pub fn dictionary() -> MockServiceBuilder {
    let router = Router::new().route("/api/v2/entries/en/{word}", get(define));
    MockServiceBuilder::for_host("api.dictionaryapi.dev", router)
}

async fn define(Path(word): Path<String>) -> Response {
    if word != "lighthouse" {
        let body = json!({ "title": "No Definitions Found", "message": "The word is not here." });
        return (StatusCode::NOT_FOUND, Json(body)).into_response();
    }
    let body = json!([{
        "word": word,
        "phonetic": "/ˈlaɪthaʊs/",
        "meanings": [
            {
                "partOfSpeech": "noun",
                "definitions": [
                    { "definition": "A tower with a lamp that guides ships.", "example": "Its beam swept the bay." },
                    { "definition": "Somebody or something that shows the way." }
                ],
                "synonyms": ["beacon"]
            },
            {
                "partOfSpeech": "verb",
                "definitions": [{ "definition": "To furnish a coast with such towers." }],
                "synonyms": []
            }
        ]
    }]);
    Json(body).into_response()
}
