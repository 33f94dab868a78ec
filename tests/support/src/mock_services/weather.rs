//! `api.weather.com`: current weather by city.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use super::MockServiceBuilder;

/// The weather service. Every city has the same weather, except three: `Atlantis` is unknown,
/// `Brokenville` breaks the service, and `Plaintown` gets a page instead of JSON.
#[must_use]
pub fn weather() -> MockServiceBuilder {
    MockServiceBuilder::for_host(
        "api.weather.com",
        Router::new().route("/current/{city}", get(show_weather)),
    )
}

async fn show_weather(Path(city): Path<String>) -> Response {
    match city.as_str() {
        "Atlantis" => {
            let error = json!({ "error": { "message": "There is no such city." } });
            (StatusCode::NOT_FOUND, Json(error)).into_response()
        }
        "Brokenville" => {
            let error = json!({ "error": { "message": "The station burned down." } });
            (StatusCode::INTERNAL_SERVER_ERROR, Json(error)).into_response()
        }
        "Plaintown" => Html("<h1>Fine weather in Plaintown</h1>").into_response(),
        _ => {
            let description = "Sunny with light clouds, high of 24 °C";
            Json(json!({ "city": city, "weather": { "description": description } })).into_response()
        }
    }
}
