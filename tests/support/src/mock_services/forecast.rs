//! `geocoding-api.open-meteo.com` and `api.open-meteo.com`: places by name, weather by place.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::MockServiceBuilder;

/// The known cities: name, country, latitude, longitude.
const PLACES: [(&str, &str, f64, f64); 3] = [
    ("Paris", "France", 48.85341, 2.3488),
    ("Oslo", "Norway", 59.91273, 10.74609),
    ("Nairobi", "Kenya", -1.28333, 36.81667),
];

/// Finds Paris, Oslo and Nairobi; the response for any other name has no `results`.
#[must_use]
pub fn geocoding() -> MockServiceBuilder {
    let router = Router::new().route("/v1/search", get(find_place));
    MockServiceBuilder::for_host("geocoding-api.open-meteo.com", router)
}

/// Weather anywhere: the further from the equator, the colder.
#[must_use]
pub fn forecast() -> MockServiceBuilder {
    MockServiceBuilder::for_host(
        "api.open-meteo.com",
        Router::new().route("/v1/forecast", get(show_forecast)),
    )
}

#[derive(Deserialize)]
struct PlaceQuery {
    name: String,
}

async fn find_place(Query(PlaceQuery { name }): Query<PlaceQuery>) -> Json<Value> {
    let found: Vec<Value> = PLACES
        .iter()
        .enumerate()
        .filter(|(_, (known, ..))| known.eq_ignore_ascii_case(&name))
        .map(|(id, (name, country, latitude, longitude))| {
            json!({
                "id": id + 1, "name": name, "country": country,
                "latitude": latitude, "longitude": longitude
            })
        })
        .collect();
    let mut answer = json!({ "generationtime_ms": 0.5 });
    if !found.is_empty() {
        answer["results"] = Value::Array(found);
    }
    Json(answer)
}

#[derive(Deserialize)]
struct ForecastQuery {
    latitude: f64,
    longitude: f64,
    #[serde(default)]
    current: String,
    #[serde(default)]
    daily: String,
    #[serde(default = "a_week")]
    forecast_days: usize,
}

fn a_week() -> usize {
    7
}

async fn show_forecast(Query(wanted): Query<ForecastQuery>) -> Response {
    let refuse = |reason: String| {
        let body = json!({ "error": true, "reason": reason });
        (StatusCode::BAD_REQUEST, Json(body)).into_response()
    };
    if wanted.latitude.abs() > 90.0 || wanted.longitude.abs() > 180.0 || wanted.forecast_days > 16 {
        return refuse("A value is out of range.".to_owned());
    }
    // From 30 °C at the equator down to -15 °C at the poles, in whole tenths of a degree.
    let tenths = (300.0 - wanted.latitude.abs() * 5.0).round();
    let degrees = |warmer: f64| (tenths + warmer) / 10.0;
    let mut answer = json!({
        "latitude": wanted.latitude, "longitude": wanted.longitude, "timezone": "GMT"
    });
    let mut current = Map::from_iter([("time".to_owned(), json!("2026-06-01T12:00"))]);
    for name in wanted.current.split(',').filter(|name| !name.is_empty()) {
        let value = match name {
            "temperature_2m" => json!(degrees(0.0)),
            "relative_humidity_2m" => json!(60),
            "wind_speed_10m" => json!(12.5),
            unknown => return refuse(format!("There is no variable {unknown}.")),
        };
        current.insert(name.to_owned(), value);
    }
    if !wanted.current.is_empty() {
        answer["current"] = Value::Object(current);
    }
    let days = 1..=wanted.forecast_days;
    let times: Vec<_> = days.clone().map(|day| format!("2026-06-{day:02}")).collect();
    let mut daily = Map::from_iter([("time".to_owned(), json!(times))]);
    for name in wanted.daily.split(',').filter(|name| !name.is_empty()) {
        let value = match name {
            "temperature_2m_max" => json!(vec![degrees(20.0); wanted.forecast_days]),
            "temperature_2m_min" => json!(vec![degrees(-80.0); wanted.forecast_days]),
            "precipitation_probability_max" => {
                json!(days.clone().map(|day| day * 5).collect::<Vec<_>>())
            }
            unknown => return refuse(format!("There is no variable {unknown}.")),
        };
        daily.insert(name.to_owned(), value);
    }
    if !wanted.daily.is_empty() {
        answer["daily"] = Value::Object(daily);
    }
    Json(answer).into_response()
}
