use a2s::InputField;
use serde_json::{Value, json};

use super::{extract_inputs, extract_values};

fn field(name: &str, patterns: &[&str], schema: &Value) -> InputField {
    serde_json::from_value(json!({
        "name": name, "required": true, "patterns": patterns, "schema": schema
    }))
    .unwrap()
}

/// Checks what a sentence gives to one input with these patterns.
#[track_caller]
fn check(sentence: &str, patterns: &[&str], schema: &Value, expected: Option<&Value>) {
    let inputs = extract_values(sentence, &[field("thing", patterns, schema)]);
    assert_eq!(inputs.get("thing"), expected, "{sentence:?}");
}

#[track_caller]
fn check_text(sentence: &str, patterns: &[&str], expected: Option<&str>) {
    check(sentence, patterns, &json!({"type": "string"}), expected.map(Value::from).as_ref());
}

#[test]
fn a_value_ends_where_something_else_begins() {
    check_text("weather in Paris, France", &["in *"], Some("Paris"));
    check_text("weather in Paris for tomorrow", &["in *", "for *"], Some("Paris"));
    check_text("weather in Paris", &["in *"], Some("Paris"));
    check_text("weather in Paris on Friday", &["in *"], Some("Paris"));
    check_text("the river at Basel is dangerous", &["at *"], Some("Basel"));
    check_text("look in Marks and Spencer and tell me", &["in *"], Some("Marks and Spencer"));
    check_text("IN PARIS", &["in *"], Some("PARIS"));
    check_text("inside Paris", &["in *"], None);
    check_text("weather in", &["in *"], None);
    check_text("the weather in the city", &["in *", "city *"], None);
    check_text("what does ad hoc mean in law", &["what does * mean"], Some("ad hoc"));
    check_text("what does it mean", &["what does * mean"], None);
    check_text("show me the Berlin weather", &["* weather"], Some("show me the Berlin"));
}

#[test]
fn a_name_ends_before_a_time_and_goes_on_in_capital_letters() {
    check_text("weather in Paris tomorrow morning", &["in *"], Some("Paris"));
    check_text("weather in Oslo next Monday", &["in *"], Some("Oslo"));
    check_text("weather in Bourton On The Water", &["in *"], Some("Bourton On The Water"));
    check_text("weather in Bourton on Monday", &["in *"], Some("Bourton"));
}

#[test]
fn what_is_named_outright_may_be_any_word() {
    check_text("look it up, thing: or", &[], Some("or"));
    check_text("look it up, thing = thank you", &[], Some("thank you"));
    check_text("look it up, thing: Paris please.", &[], Some("Paris"));
    check_text("look it up, thing: .", &[], None);
}

#[test]
fn what_is_quoted_counts_before_what_is_only_said() {
    let patterns = ["tweet *", "say *"];
    check_text("tweet hello world saying 'Hi'", &patterns, Some("Hi"));
    check_text("tweet hello world", &patterns, Some("hello world"));
}

#[test]
fn the_first_pattern_that_gives_a_value_counts() {
    check_text("for tomorrow in Rome", &["for *", "in *"], Some("Rome"));
    check_text("for Oslo in Rome", &["for *", "in *"], Some("Oslo"));
    check_text("for Oslo in Rome", &["in *", "for *"], Some("Rome"));
    check_text("tell them that it rains", &["tell *", "that *"], Some("it rains"));
}

#[test]
fn words_that_point_at_something_are_no_value() {
    for sentence in [
        "tweet it",
        "tweet this on Twitter",
        "tweet the weather",
        "tweet about it",
        "tweet its name",
    ] {
        let fields = [field("thing", &["tweet *"], &json!({}))];
        let found = extract_inputs(sentence, &fields);
        assert_eq!(found.len(), 1, "{sentence}");
        assert_eq!(found[0].value, None, "{sentence}");
        assert!(sentence.ends_with(found[0].text), "{sentence}: {:?}", found[0].text);
    }
    check_text("tweet this is great", &["tweet *"], Some("this is great"));
    check_text("tweeting hello", &["tweet *"], Some("hello"));
    check_text("post the following: We are closed", &["post *"], Some("We are closed"));
    check_text("explain the moon", &["explain *"], Some("the moon"));
}

#[test]
fn values_are_of_the_type_or_absent() {
    let first = |sentence: &str, schema: Value, expected: Value| {
        check(sentence, &["first *"], &schema, Some(&expected).filter(|v| !v.is_null()));
    };
    first("first 5 books", json!({"type": "integer"}), json!(5));
    first("the first five", json!({"type": "integer"}), json!(5));
    first("first 5.5", json!({"type": "integer"}), Value::Null);
    first("first 5.5", json!({"type": "number"}), json!(5.5));
    first("first 1,000 of them", json!({"type": "integer"}), json!(1000));
    first("first 99999999999999999999", json!({"type": "integer"}), Value::Null);
    first("first inf", json!({"type": "number"}), Value::Null);
    first("first 500", json!({"type": "integer", "maximum": 100}), Value::Null);
    first("first book", json!({"type": "integer"}), Value::Null);
    first("first yes", json!({"type": "boolean"}), json!(true));
    first("first PIE chart", json!({"enum": ["bar", "pie"]}), json!("pie"));
    first("first cake", json!({"enum": ["bar", "pie"]}), Value::Null);
    first("first 2026-05-01", json!({"type": "string", "format": "date"}), json!("2026-05-01"));
    first("first of May", json!({"type": "string", "format": "date"}), Value::Null);
    first("first DE and so on", json!({"type": "string", "maxLength": 2}), json!("DE"));
    first("first Germany", json!({"type": "string", "maxLength": 2}), Value::Null);
    first("first a, b and 'c, d'", json!({"type": "array"}), json!(["a", "b", "c, d"]));
    first("first [1, 2]", json!({"type": "array"}), json!([1, 2]));
    first("first a, 2", json!({"type": "array", "items": {"type": "number"}}), Value::Null);
    first("first '{\"a\": 1}'", json!({"type": "object"}), json!({"a": 1}));
    first("first {\"a\": 1}", json!({"type": "object"}), Value::Null);
}

#[test]
fn a_value_keeps_what_its_schema_says() {
    let first = |words: &str, schema: Value, expected: Value| {
        let sentence = format!("first {words}");
        check(&sentence, &["first *"], &schema, Some(&expected).filter(|v| !v.is_null()));
    };
    for (bound, fits, breaks) in [
        ("minimum", 5.0, 5.5),
        ("maximum", 5.0, 4.5),
        ("exclusiveMinimum", 4.5, 5.0),
        ("exclusiveMaximum", 5.5, 5.0),
    ] {
        first("5", json!({"type": "integer", bound: fits}), json!(5));
        first("5", json!({"type": "integer", bound: breaks}), Value::Null);
    }
    for (bound, fits, breaks) in [("minItems", 2, 3), ("maxItems", 2, 1)] {
        first("a and b", json!({"type": "array", bound: fits}), json!(["a", "b"]));
        first("a and b", json!({"type": "array", bound: breaks}), Value::Null);
    }
    first("DE", json!({"type": "string", "minLength": 2}), json!("DE"));
    first("DE", json!({"type": "string", "minLength": 3}), Value::Null);
    let code = json!({"type": "string", "pattern": "^[A-Z]{3}$"});
    first("100 EUR", code.clone(), json!("EUR"));
    first("100 euros", code, Value::Null);
    let either = json!({"type": "integer", "anyOf": [{"maximum": 3}, {"minimum": 10}]});
    first("2", either.clone(), json!(2));
    first("5", either, Value::Null);
    let either = json!({"type": "string", "anyOf": [{"enum": ["bar"]}, {"const": "pie"}]});
    first("bar", either.clone(), json!("bar"));
    first("cake", either, Value::Null);
    for (format, fits, breaks) in [
        ("date", "2026-05-01", "20260501"),
        ("date-time", "2026-05-01T00:00:00Z", "2026-05-01"),
        ("uuid", "00000000-0000-0001-0000-000000000000", "00000000"),
        ("uri", "https://a.test/b", "a.test/b"),
        ("email", "jane@a.test", "jane"),
    ] {
        first(fits, json!({"type": "string", "format": format}), json!(fits));
        first(breaks, json!({"type": "string", "format": format}), Value::Null);
    }
}

#[test]
fn choices_numbers_and_truths_are_known_as_people_write_them() {
    let first = |words: &str, schema: Value, expected: Value| {
        let sentence = format!("first {words}");
        check(&sentence, &["first *"], &schema, Some(&expected).filter(|v| !v.is_null()));
    };
    let charts = json!({"enum": ["line-chart", "US", "us", 3, null]});
    first("Line Chart", charts.clone(), json!("line-chart"));
    first("US", charts.clone(), json!("US"));
    first("us", charts.clone(), json!("us"));
    first("3", charts.clone(), json!(3));
    first("null", charts, Value::Null);
    first("Pie", json!({"const": "pie"}), json!("pie"));
    first("cake", json!({"const": "pie"}), Value::Null);
    first("off", json!({"type": "boolean"}), json!(false));
    first("$5", json!({"type": "number"}), json!(5));
    first("-2.5°", json!({"type": "number"}), json!(-2.5));
    first("1,00", json!({"type": "number"}), Value::Null);
    first("'5'", json!({"type": "integer"}), json!(5));
    first("'five of them'", json!({"type": "integer"}), Value::Null);
    first("1, 2 and 3", json!({"type": "array"}), json!([1, 2, 3]));
    let texts = json!({"type": "array", "items": {"type": "string"}});
    first("1 or 2", texts, json!(["1", "2"]));
    first("1 and b", json!({"type": "array"}), json!(["1", "b"]));
    check_text("where's Oslo", &["where is *"], Some("Oslo"));
}

#[test]
fn a_name_before_a_colon_gives_a_value_to_any_input() {
    let fields = [field("country_code", &[], &json!({})), field("topic", &["in *"], &json!({}))];
    for sentence in
        ["country_code: DE", "Country Code: DE, please", "go, country_code=DE", "country_code='DE'"]
    {
        assert_eq!(extract_values(sentence, &fields)["country_code"], "DE", "{sentence}");
    }
    let inputs = extract_values("news in the garden, topic: home; country code = DE", &fields);
    assert_eq!(Value::Object(inputs), json!({"country_code": "DE", "topic": "home"}));
    assert!(extract_values("the country code DE", &fields).is_empty());
}

#[test]
fn the_longer_of_two_patterns_means_the_words_behind_it() {
    let fields =
        [field("owner", &["of *"], &json!({})), field("ministry", &["ministry of *"], &json!({}))];
    let inputs = extract_values("news from the ministry of health", &fields);
    assert_eq!(Value::Object(inputs), json!({"ministry": "health"}));
}

#[test]
fn no_words_are_the_value_of_two_inputs() {
    let fields = [field("from", &["in *"], &json!({})), field("to", &["in *"], &json!({}))];
    let inputs = extract_values("in Oslo and then in Rome", &fields);
    assert_eq!(Value::Object(inputs), json!({"from": "Oslo", "to": "Rome"}));
}
