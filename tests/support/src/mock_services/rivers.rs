//! `www.pegelonline.wsv.de`: water levels of rivers.

use axum::extract::Query;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::MockServiceBuilder;

/// The gauge service. It has a gauge in Basel, where the water is high, and one in Bonn, where it is
/// not.
#[must_use]
pub fn rivers() -> MockServiceBuilder {
    let router = Router::new().route("/webservices/rest-api/v2/stations.json", get(list_gauges));
    MockServiceBuilder::for_host("www.pegelonline.wsv.de", router)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GaugeQuery {
    #[serde(default)]
    fuzzy_id: String,
    #[serde(default)]
    include_timeseries: bool,
    #[serde(default)]
    include_current_measurement: bool,
}

async fn list_gauges(Query(wanted): Query<GaugeQuery>) -> Json<Value> {
    let part = wanted.fuzzy_id.to_uppercase();
    let gauges = [("BASEL-RHEINHALLE", 812.0, "high"), ("BONN", 204.0, "normal")];
    let found = gauges.into_iter().filter(|(name, ..)| name.contains(&part));
    let stations = found.map(|(name, level, state)| {
        let mut gauge = json!({
            "longname": name,
            "shortname": name,
            "agency": "A2S",
            "water": { "shortname": "RHEIN", "longname": "RHEIN" }
        });
        if wanted.include_timeseries {
            let mut series =
                json!({ "shortname": "W", "longname": "WASSERSTAND ROHDATEN", "unit": "cm" });
            if wanted.include_current_measurement {
                series["currentMeasurement"] = json!({
                    "timestamp": "2026-09-01T12:00:00+02:00", "value": level,
                    "stateMnwMhw": state, "stateNswHsw": state
                });
            }
            gauge["timeseries"] = json!([series]);
        }
        gauge
    });
    Json(stations.collect())
}
