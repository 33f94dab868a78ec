//! `date.nager.at`: public holidays.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use super::MockServiceBuilder;

/// The holiday service. It knows the holidays of `DE`; other countries are not found.
#[must_use]
pub fn holidays() -> MockServiceBuilder {
    let route = "/api/v3/PublicHolidays/{year}/{country}";
    MockServiceBuilder::for_host("date.nager.at", Router::new().route(route, get(list_holidays)))
}

async fn list_holidays(Path((year, country)): Path<(u16, String)>) -> Response {
    if country != "DE" {
        return StatusCode::NOT_FOUND.into_response();
    }
    let holiday = |date: &str, local: &str, name: &str, global: bool| {
        json!({
            "date": format!("{year}-{date}"), "localName": local, "name": name,
            "countryCode": country, "global": global, "types": ["Public"]
        })
    };
    let body = json!([
        holiday("01-01", "Neujahr", "New Year's Day", true),
        holiday("01-06", "Heilige Drei Könige", "Epiphany", false),
        holiday("10-03", "Tag der Deutschen Einheit", "German Unity Day", true),
    ]);
    Json(body).into_response()
}
