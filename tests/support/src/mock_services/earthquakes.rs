//! `earthquake.usgs.gov`: earthquakes.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::MockServiceBuilder;

/// The catalogue of earthquakes, in `GeoJSON`, newest first.
#[must_use]
pub fn earthquakes() -> MockServiceBuilder {
    let router = Router::new().route("/fdsnws/event/1/query", get(query));
    MockServiceBuilder::for_host("earthquake.usgs.gov", router)
}

#[derive(Deserialize)]
struct EarthquakeQuery {
    format: String,
    #[serde(default)]
    minmagnitude: f64,
    #[serde(default = "all")]
    limit: usize,
}

fn all() -> usize {
    20_000
}

async fn query(Query(wanted): Query<EarthquakeQuery>) -> Response {
    if wanted.format != "geojson" {
        return (StatusCode::BAD_REQUEST, "Error 400: only geojson is spoken here").into_response();
    }
    let catalogue = [
        (5.8, "120 km W of Port Example", 1_780_000_300_000_u64),
        (4.9, "15 km N of Sampleton", 1_780_000_200_000),
        (6.4, "south of the Placeholder Islands", 1_780_000_100_000),
    ];
    let features: Vec<Value> = catalogue
        .iter()
        .filter(|(magnitude, ..)| *magnitude >= wanted.minmagnitude)
        .take(wanted.limit)
        .map(|(magnitude, place, time)| {
            let url = format!("https://earthquake.usgs.gov/earthquakes/eventpage/{time}");
            json!({
                "type": "Feature",
                "id": time.to_string(),
                "properties": { "mag": magnitude, "place": place, "time": time, "url": url }
            })
        })
        .collect();
    Json(json!({ "type": "FeatureCollection", "features": features })).into_response()
}
