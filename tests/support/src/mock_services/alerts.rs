//! `api.weather.gov`: weather alerts of the United States.

use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::MockServiceBuilder;

/// The alert service, in `GeoJSON`. There is a severe and a minor alert in Florida (`FL`) and none
/// elsewhere. An area that is not a code of two letters is refused, and so is a caller without a name.
#[must_use]
pub fn alerts() -> MockServiceBuilder {
    MockServiceBuilder::for_host(
        "api.weather.gov",
        Router::new().route("/alerts/active", get(list_alerts)),
    )
}

#[derive(Deserialize)]
struct AlertQuery {
    #[serde(default)]
    area: String,
    #[serde(default)]
    status: String,
}

async fn list_alerts(headers: HeaderMap, Query(filter): Query<AlertQuery>) -> Response {
    if !headers.contains_key(header::USER_AGENT) {
        return problem(StatusCode::FORBIDDEN, "Say who you are in the header User-Agent.");
    }
    let areas: Vec<&str> = filter.area.split(',').collect();
    if areas.iter().any(|area| area.len() != 2 || !area.bytes().all(|b| b.is_ascii_uppercase())) {
        return problem(StatusCode::BAD_REQUEST, "The area is no code of two letters.");
    }
    let actual = filter.status.is_empty() || filter.status.split(',').any(|s| s == "actual");
    let features = if actual && areas.contains(&"FL") {
        vec![
            alert(1, "Hurricane Warning", "Severe", "Hurricane Warning for the Florida Keys"),
            alert(2, "Rip Current Statement", "Minor", "Rip currents along the beaches"),
        ]
    } else {
        Vec::new()
    };
    let collection = json!({
        "type": "FeatureCollection", "features": features, "title": "Current watches and warnings"
    });
    ([(header::CONTENT_TYPE, "application/geo+json")], collection.to_string()).into_response()
}

fn alert(number: u32, event: &str, severity: &str, headline: &str) -> Value {
    let id = format!("urn:oid:2.49.0.1.840.0.{number}");
    json!({
        "id": format!("https://api.weather.gov/alerts/{id}"),
        "type": "Feature",
        "geometry": null,
        "properties": {
            "id": id, "areaDesc": "Florida Keys", "event": event, "severity": severity,
            "headline": headline, "expires": "2026-09-01T18:00:00-04:00"
        }
    })
}

fn problem(status: StatusCode, detail: &str) -> Response {
    let body =
        json!({ "title": status.canonical_reason(), "status": status.as_u16(), "detail": detail });
    (status, [(header::CONTENT_TYPE, "application/problem+json")], Json(body)).into_response()
}
