//! Runs of the documents that can have no examples: those of a2s 1.0.

use serde_json::{Value, json};

/// What each capability is given, and what it has to give.
pub(super) fn samples() -> Vec<(&'static str, Value, Value)> {
    let tweet = |number: u32| (129_384_755 + number).to_string();
    vec![
        (
            "CompareCityWeather",
            json!({ "first_city": "Oslo", "second_city": "Nairobi" }),
            json!({ "cities": [
                { "city": "Oslo", "latitude": 59.91273, "longitude": 10.74609, "temperature": 0.0, "wind_speed": 12.5 },
                { "city": "Nairobi", "latitude": -1.28333, "longitude": 36.81667, "temperature": 29.4, "wind_speed": 12.5 }
            ] }),
        ),
        (
            "DefineWord",
            json!({ "word": "lighthouse" }),
            json!({
                "word": "lighthouse",
                "phonetics": ["/ˈlaɪthaʊs/"],
                "definitions": [
                    "A tower with a lamp that guides ships.",
                    "Somebody or something that shows the way.",
                    "To furnish a coast with such towers."
                ],
                "synonyms": ["beacon"]
            }),
        ),
        (
            "DescribePlace",
            json!({ "place": "Kyoto", "country_code": "JP" }),
            json!({
                "place": "Kyoto",
                "summary": "Kyoto is a subject that people like to read about.",
                "link": "https://en.wikipedia.org/wiki/Kyoto",
                "country": { "name": "Japan", "currency": "JPY", "languages": ["Japanese"] }
            }),
        ),
        (
            "FindEarthquakes",
            json!({ "magnitude": 5 }),
            json!({
                "earthquakes": [
                    {
                        "mag": 5.8, "place": "120 km W of Port Example", "time": 1_780_000_300_000_u64,
                        "url": "https://earthquake.usgs.gov/earthquakes/eventpage/1780000300000"
                    },
                    {
                        "mag": 6.4, "place": "south of the Placeholder Islands", "time": 1_780_000_100_000_u64,
                        "url": "https://earthquake.usgs.gov/earthquakes/eventpage/1780000100000"
                    }
                ],
                "places": ["120 km W of Port Example", "south of the Placeholder Islands"]
            }),
        ),
        (
            "GetCityWeather",
            json!({ "city": "Paris" }),
            json!({
                "place": "Paris, France",
                "temperature": 5.6,
                "wind_speed": 12.5,
                "forecast": {
                    "days": ["2026-06-01", "2026-06-02", "2026-06-03"],
                    "highs": [7.6, 7.6, 7.6],
                    "lows": [-2.4, -2.4, -2.4]
                }
            }),
        ),
        (
            "GetCountry",
            json!({ "country_code": "FR" }),
            json!({
                "name": "France", "native_name": "France", "capital": "Paris", "currency": "EUR",
                "calling_code": "33", "flag": "🇫🇷", "continent": "Europe", "languages": ["French"]
            }),
        ),
        (
            "GetExchangeRate",
            json!({ "from_currency": "EUR", "to_currency": "USD" }),
            json!({ "rate": 1.25, "date": "2026-06-01", "text": "1 EUR = 1.25 USD" }),
        ),
        (
            "GetJoke",
            json!({}),
            json!({ "joke": "Why did the borrow checker leave the party? Somebody else was still holding its drink." }),
        ),
        (
            "GetPublicHolidays",
            json!({ "country_code": "DE", "year": 2026 }),
            json!({
                "holidays": [
                    {
                        "date": "2026-01-01", "localName": "Neujahr", "name": "New Year's Day",
                        "countryCode": "DE", "global": true, "types": ["Public"]
                    },
                    {
                        "date": "2026-01-06", "localName": "Heilige Drei Könige", "name": "Epiphany",
                        "countryCode": "DE", "global": false, "types": ["Public"]
                    },
                    {
                        "date": "2026-10-03", "localName": "Tag der Deutschen Einheit", "name": "German Unity Day",
                        "countryCode": "DE", "global": true, "types": ["Public"]
                    }
                ],
                "names": ["New Year's Day", "Epiphany", "German Unity Day"],
                "nationwide_dates": ["2026-01-01", "2026-10-03"]
            }),
        ),
        (
            "GetRepository",
            json!({ "owner": "unlicensed", "repo": "thing" }),
            json!({
                "full_name": "unlicensed/thing",
                "description": "What unlicensed keeps in thing",
                "url": "https://github.com/unlicensed/thing",
                "language": "Rust", "stars": 1234, "forks": 56, "open_issues": 7,
                "last_push": "2026-05-04T03:02:01Z",
                "licences": []
            }),
        ),
        (
            "GetWeatherAlert",
            json!({ "state": "FL" }),
            json!({
                "events": ["Hurricane Warning", "Rip Current Statement"],
                "severities": ["Severe", "Minor"],
                "severe_headlines": ["Hurricane Warning for the Florida Keys"]
            }),
        ),
        (
            "GetWeatherForecast",
            json!({ "latitude": 10, "longitude": 20 }),
            json!({
                "temperature": 25.0, "humidity": 60, "wind_speed": 12.5,
                "days": ["2026-06-01", "2026-06-02", "2026-06-03"],
                "highs": [27.0, 27.0, 27.0],
                "lows": [17.0, 17.0, 17.0],
                "rain_chances": [5, 10, 15]
            }),
        ),
        (
            "GetWikipediaSummary",
            json!({ "topic": "Alan Turing/AC?" }),
            json!({
                "title": "Alan Turing/AC?",
                "summary": "Alan Turing/AC? is a subject that people like to read about.",
                "link": "https://en.wikipedia.org/wiki/Alan_Turing/AC?"
            }),
        ),
        (
            "PostTweet",
            json!({ "text": "Hello \"world\" ${text}" }),
            json!({ "tweet_id": tweet(1), "tweet_text": "Hello \"world\" ${text}" }),
        ),
        (
            "PostWeatherTweet",
            json!({ "location": "Central Park", "message": "Weekend picnic:" }),
            json!({ "WEATHER_TEXT": "Sunny with light clouds, high of 24 °C", "tweet_id": tweet(2) }),
        ),
        (
            "SearchBooks",
            json!({ "query": "ada keeper" }),
            json!({
                "found": 1,
                "books": [{
                    "key": "/works/OL1W", "title": "The Lighthouse Keeper",
                    "author_name": ["Ada Quill"], "first_publish_year": 1931
                }],
                "titles": ["The Lighthouse Keeper"]
            }),
        ),
        (
            "SendNotification",
            json!({ "topic": "test-topic", "title": "A title", "message": "Two\nlines" }),
            json!({ "message_id": "msg000000001", "sent_at": 1_780_000_001 }),
        ),
        (
            "ShareMessage",
            json!({ "message": "We are open", "audience": "public", "topic": "unused" }),
            json!({ "audience": "public", "message_id": tweet(3) }),
        ),
        (
            "ShareMessage",
            json!({ "message": "We are closed", "audience": "members", "topic": "club" }),
            json!({ "audience": "members", "message_id": "msg000000002" }),
        ),
        (
            "WeatherAlertCapability",
            json!({ "state": "FL", "ALERT_TOPIC": "storms" }),
            json!({
                "state": "FL",
                "severities": ["Severe", "Minor"],
                "headlines": ["Hurricane Warning for the Florida Keys"],
                "notifications": { "tweet": tweet(4), "push": "msg000000003" }
            }),
        ),
        (
            "WeatherAlertCapability",
            json!({ "state": "AK", "ALERT_TOPIC": "storms" }),
            json!({ "state": "AK", "severities": [], "headlines": [], "notifications": {} }),
        ),
    ]
}
