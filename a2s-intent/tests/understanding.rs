//! Inputs that a sentence gives without patterns, from the shipped capabilities and from made fields.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its case has to fail")]

use a2s::{Document, InputField};
use a2s_intent::understand_inputs;
use jiff::civil::{Date, date};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A Thursday.
const TODAY: Date = date(2026, 11, 26);

fn shipped_fields(name: &str) -> Vec<InputField> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capabilities");
    let source = std::fs::read(format!("{folder}/{name}.yaml")).unwrap();
    Document::open(&source).unwrap().interface().inputs.clone()
}

fn fields(fields: &[(&str, &str, Value)]) -> Vec<InputField> {
    let to_field = |(name, description, schema): &(&str, &str, Value)| {
        serde_json::from_value(json!({
            "name": name, "required": true, "description": description, "schema": schema
        }))
        .unwrap()
    };
    fields.iter().map(to_field).collect()
}

#[track_caller]
fn check(fields: &[InputField], sentence: &str, expected: &Value) {
    let inputs = understand_inputs(sentence, fields, TODAY);
    assert_eq!(Value::Object(inputs.extracted), *expected, "{sentence:?}");
}

fn shipped_cases() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        // Repositories.
        (
            "GetLatestRelease",
            "latest release of rust-lang/rust",
            json!({"owner": "rust-lang", "repo": "rust"}),
        ),
        (
            "GetLatestRelease",
            "what is new in https://github.com/rust-lang/rust.git?",
            json!({"owner": "rust-lang", "repo": "rust"}),
        ),
        (
            "GetRepository",
            "how many stars has the repo tokio-rs/axum",
            json!({"owner": "tokio-rs", "repo": "axum"}),
        ),
        (
            "GetLatestRelease",
            "has microsoft/vscode released something new?",
            json!({"owner": "microsoft", "repo": "vscode"}),
        ),
        ("GetLatestRelease", "is it yes and/or no, 24/7?", json!({})),
        // Positions.
        (
            "GetWeatherForecast",
            "need the forecast at 52.5 north, 13.4 west",
            json!({"latitude": 52.5, "longitude": -13.4}),
        ),
        (
            "GetWeatherForecast",
            "how is the weather at 36.7, -4.4?",
            json!({"latitude": 36.7, "longitude": -4.4}),
        ),
        ("GetWeatherForecast", "forecast for 3, 4 or 5 days", json!({})),
        ("GetWeatherForecast", "forecast at 136.7, 14.4", json!({})),
        // Topics and messages.
        ("SearchBooks", "got any good novels on sailing?", json!({"query": "sailing"})),
        ("SearchBooks", "books about the sea please", json!({"query": "the sea"})),
        ("SearchBooks", "is there a book on Friday", json!({})),
        (
            "CheckGrammar",
            "proof read: Their going to the cinema tonight",
            json!({"text": "Their going to the cinema tonight"}),
        ),
        // One and several.
        (
            "ConvertIntoCurrencies",
            "Show me GBP against USD, CHF and AUD",
            json!({"from_currency": "GBP", "to_currencies": ["USD", "CHF", "AUD"]}),
        ),
        (
            "ListHolidaysOfYears",
            "French public holidays for 2026 through 2028",
            json!({"country_code": "FR", "years": [2026, 2027, 2028]}),
        ),
        ("GetPublicHolidays", "holidays of 2026 in French", json!({"year": 2026})),
        ("GetRepository", "is it about 24/v7", json!({})),
        // Countries and years.
        (
            "GetPublicHolidays",
            "public holidays in Germany next year",
            json!({"country_code": "DE", "year": 2027}),
        ),
        (
            "GetPublicHolidays",
            "public holidays in the Netherlands in 2027",
            json!({"country_code": "NL", "year": 2027}),
        ),
        (
            "GetPublicHolidays",
            "Germany's public holidays this year",
            json!({"country_code": "DE", "year": 2026}),
        ),
        (
            "GetPublicHolidays",
            "holidays in the UK during 2028",
            json!({"country_code": "GB", "year": 2028}),
        ),
        (
            "GetPublicHolidays",
            "holidays in south korea last year",
            json!({"country_code": "KR", "year": 2025}),
        ),
        ("GetPublicHolidays", "holidays in New Mexico", json!({})),
        ("GetPublicHolidays", "holidays of Michael Jordan", json!({})),
        (
            "ListHolidaysOfYears",
            "holidays of France in 2026 and 2027",
            json!({"country_code": "FR", "years": [2026, 2027]}),
        ),
        ("GetCountry", "tell me about Japan", json!({"country_code": "JP"})),
        (
            "DescribePlace",
            "visit Kyoto, which is in Japan",
            json!({"place": "Kyoto", "country_code": "JP"}),
        ),
        ("GetPublicHolidays", "holidays with turkey", json!({})),
        // Currencies.
        (
            "GetExchangeRate",
            "convert 100 dollars to euros",
            json!({"from_currency": "USD", "to_currency": "EUR"}),
        ),
        (
            "GetExchangeRate",
            "exchange rate from USD to Japanese yen",
            json!({"from_currency": "USD", "to_currency": "JPY"}),
        ),
        (
            "GetExchangeRate",
            "how many euros are 100 US dollars",
            json!({"from_currency": "USD", "to_currency": "EUR"}),
        ),
        (
            "GetExchangeRate",
            "what is $20 in Swiss francs",
            json!({"from_currency": "USD", "to_currency": "CHF"}),
        ),
        (
            "GetExchangeRate",
            "convert British pounds into €",
            json!({"from_currency": "GBP", "to_currency": "EUR"}),
        ),
        ("GetExchangeRate", "convert francs to pesos", json!({})),
        ("GetExchangeRate", "rate of dollars and euros", json!({})),
        ("GetExchangeRate", "who won the real match", json!({})),
        (
            "ConvertIntoCurrencies",
            "convert 100 dollars to euros, yen and pounds",
            json!({"from_currency": "USD", "to_currencies": ["EUR", "JPY", "GBP"]}),
        ),
        (
            "ConvertIntoCurrencies",
            "convert dollars into euros",
            json!({"from_currency": "USD", "to_currencies": ["EUR"]}),
        ),
        ("ListExchangeRates", "what are real exchange rates", json!({})),
        // Numbers.
        ("SearchDomainNames", "domains with rust, the 5", json!({"word": "rust"})),
        ("FindEarthquakes", "earthquakes over a magnitude of at least 4", json!({"magnitude": 4})),
        (
            "SearchDomainNames",
            "the 5 newest domains with rust",
            json!({"word": "rust", "limit": 5}),
        ),
        (
            "GetSunTimes",
            "sunrise at latitude 1, longitude 2 for 4 days",
            json!({"latitude": 1, "longitude": 2, "days": 4}),
        ),
        ("FindEarthquakes", "the 5 strongest earthquakes", json!({})),
        // Quotes.
        ("PostTweet", "publish 'We won!'", json!({"text": "We won!"})),
        ("SendNotification", "ping with 'hello'", json!({})),
        // Lists.
        (
            "GetWeatherOfCities",
            "weather in Athens, Cairo or Tunis",
            json!({"cities": ["Athens", "Cairo", "Tunis"]}),
        ),
        ("GetWeatherOfCities", "compare New York, Paris and Rio de Janeiro", json!({})),
        ("GetWeatherOfCities", "weather on Monday or Tuesday", json!({})),
        ("GetWeatherOfCities", "New York, Paris and Rome weather", json!({})),
        ("GetWeatherOfCities", "weather in Oslo", json!({})),
    ]
}

#[test]
fn shipped_capabilities_get_their_inputs() {
    let results = shipped_cases().into_iter().filter_map(|(capability, sentence, expected)| {
        let inputs = understand_inputs(sentence, &shipped_fields(capability), TODAY);
        let found = Value::Object(inputs.extracted);
        (found != expected)
            .then(|| format!("{capability}, {sentence:?}: {found} is not {expected}"))
    });
    let wrong: Vec<String> = results.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn missing_inputs_are_named() {
    let inputs = understand_inputs(
        "public holidays in Germany",
        &shipped_fields("GetPublicHolidays"),
        TODAY,
    );
    assert_eq!(inputs.missing, ["year"]);
    // An input with a default is not missing.
    let mut with_default =
        fields(&[("city", "", json!({"type": "string"})), ("day", "", json!({}))]);
    with_default[0].default = Some(json!("Oslo"));
    assert_eq!(understand_inputs("weather", &with_default, TODAY).missing, ["day"]);
}

#[test]
fn dates_are_relative_to_the_given_day() {
    let day = fields(&[("day", "The day", json!({"type": "string", "format": "date"}))]);
    for (sentence, expected) in [
        ("events on 2026-12-24", "2026-12-24"),
        ("events tomorrow", "2026-11-27"),
        ("today's news, for today", "2026-11-26"),
        ("events on 3 May", "2027-05-03"),
        ("events on December 1st", "2026-12-01"),
        ("events on the 24th of December 2030", "2030-12-24"),
        ("events on December 24, 2030", "2030-12-24"),
        ("events on Friday", "2026-11-27"),
    ] {
        check(&day, sentence, &json!({"day": expected}));
    }
    for sentence in [
        "events on Thursday",
        "events next Friday",
        "what happened on Monday",
        "events on 31 February",
        "events on Friday or Saturday",
        "the sun may set in march",
        "5 days",
    ] {
        check(&day, sentence, &json!({}));
    }
    let span = fields(&[
        ("from", "First day", json!({"type": "string", "format": "date"})),
        ("to", "Last day", json!({"type": "string", "format": "date"})),
    ]);
    check(&span, "events from 3 May to 10 May", &json!({"from": "2027-05-03", "to": "2027-05-10"}));
    check(&span[..1], "events from 3 May or from 10 May until today", &json!({}));
    check(&span, "events to 10 May from today", &json!({"from": "2026-11-26", "to": "2027-05-10"}));
}

#[test]
fn codes_follow_the_schema() {
    let text = || json!({"type": "string"});
    let alpha3 = fields(&[(
        "country",
        "ISO 3166 alpha-3 code",
        json!({"type": "string", "pattern": "^[A-Z]{3}$"}),
    )]);
    check(&alpha3, "population of Germany", &json!({"country": "DEU"}));
    check(&alpha3, "population of Germany and France", &json!({}));
    let list = fields(&[(
        "countries",
        "Two-letter country codes",
        json!({"type": "array", "items": text()}),
    )]);
    check(
        &list,
        "population of Germany, France and Italy",
        &json!({"countries": ["DE", "FR", "IT"]}),
    );
    // A field for names takes no codes.
    check(
        &fields(&[("country", "Name of the country", text())]),
        "population of Germany",
        &json!({}),
    );
    let state = fields(&[(
        "state",
        "Two-letter code of the US state",
        json!({"type": "string", "pattern": "^[A-Z]{2}$"}),
    )]);
    check(&state, "weather in Georgia", &json!({}));
    let choice = json!({"type": "string", "enum": ["EUR", "CHF"]});
    let choice = fields(&[("unit", "", choice)]);
    check(&choice, "price in Swiss francs", &json!({"unit": "CHF"}));
    check(&choice, "price in Japanese yen", &json!({}));
    let list = json!({"type": "array", "items": {"type": "string", "enum": ["EUR", "CHF"]}});
    let list = fields(&[("units", "", list)]);
    check(&list, "price in euros and Swiss francs", &json!({"units": ["EUR", "CHF"]}));
    check(&list, "price in euros and yen", &json!({}));
    let amount = fields(&[
        ("amount", "How much", json!({"type": "number"})),
        ("from", "Currency code", text()),
        ("to", "Currency code", text()),
    ]);
    check(&amount, "100 dollars to euros", &json!({"amount": 100, "from": "USD", "to": "EUR"}));
}

#[test]
fn secrets_are_never_filled() {
    let mut field = fields(&[("password", "", json!({"type": "string"}))]);
    field[0].secret = true;
    check(&field, "log in with 'hunter2'", &json!({}));
    let mut field = fields(&[("pin_year", "", json!({"type": "integer"}))]);
    field[0].secret = true;
    check(&field, "the safe of next year", &json!({}));
}

#[test]
fn hostile_sentences_are_read_in_time() {
    let mut all: Vec<InputField> =
        shipped_cases().iter().flat_map(|(name, ..)| shipped_fields(name)).collect();
    all.truncate(60);
    for part in [
        "9",
        "9 ",
        "Germany, ",
        "euros and ",
        "2026 and ",
        "May 3 ",
        "$",
        "É́ß ",
        "\u{202e}A, ",
        "a/b ",
        "'",
        "1 2026-01-01, ",
    ] {
        let sentence = part.repeat((32 << 10) / part.len());
        let started = std::time::Instant::now();
        let _ = understand_inputs(&sentence, &all, TODAY);
        assert!(started.elapsed().as_secs() < 10, "{part:?}: {:?}", started.elapsed());
    }
    let _ = understand_inputs("tomorrow or next year, 31 December", &all, Date::MAX);
    let _ = understand_inputs("yesterday or last year", &all, Date::MIN);
}

proptest! {
    #[test]
    fn values_fit_their_schemas(
        parts in prop::collection::vec(prop::sample::select(vec![
            "Germany", "the UK", "dollars", "euros", "100", "$5", "to", "from", "in", "and", ",", "or", "next year",
            "2027", "3 May", "Friday", "tomorrow", "rust-lang/rust", "'a b'", "Paris", "Rome", "magnitude", "the 5",
            "days", "books", "country", "É", "\u{0}", "limit:", "year", "convert", "repo",
        ]), 0..14),
        at in 0_usize..40,
    ) {
        let cases = shipped_cases();
        let fields = shipped_fields(cases[at % cases.len()].0);
        let inputs = understand_inputs(&parts.join(" "), &fields, TODAY);
        for field in &fields {
            if let Some(value) = inputs.extracted.get(&field.name) {
                prop_assert!(jsonschema::is_valid(&field.schema, value), "{} = {}", field.name, value);
            }
            let is_missing = field.required && field.default.is_none() && !inputs.extracted.contains_key(&field.name);
            prop_assert_eq!(inputs.missing.contains(&field.name), is_missing);
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = understand_inputs(&text, &shipped_fields("PrepareTrip"), TODAY);
    }
}
