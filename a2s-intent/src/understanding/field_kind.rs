//! The entities that fields take, by their schemas, names and descriptions.

use a2s::{InputField, JsonTypes};
use iso_currency::Currency;
use serde_json::{Value, json};

use super::country::alpha3_of;
use super::mention::{Mention, shape_value};
use crate::pattern::{fits, takes_list};

/// The maximum number of words of a description that count.
const MAX_WORDS: usize = 60;

/// The kind of entity that a field takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FieldKind {
    /// A two-letter or three-letter code of ISO 3166-1.
    Country { letters: usize },
    /// A code of ISO 4217.
    Currency,
    /// A day, as `YYYY-MM-DD`.
    Date,
    /// A year, as a whole number.
    Year,
}

impl FieldKind {
    /// Returns the kind of a field; nothing when its values are other things, or are not certain.
    pub(super) fn of(field: &InputField) -> Option<Self> {
        let item = item_schema(field);
        let name = name_words(&field.name);
        let description: Vec<String> =
            field.description.iter().flat_map(|text| name_words(text)).collect();
        let names = |options: &[&str]| name.iter().any(|word| options.contains(&word.as_str()));
        let describes = |options: &[&str]| {
            description.iter().take(MAX_WORDS).any(|word| options.contains(&word.as_str()))
        };
        let any = |options: &[&str]| names(options) || describes(options);
        let accepts = |value: Value| fits(&value, item, 0);
        let kinds = JsonTypes::from_schema(item);
        if names(&["year", "years"]) && kinds.overlaps(JsonTypes::NUMBER) && accepts(json!(2026)) {
            return Some(Self::Year);
        }
        if kinds.overlaps(JsonTypes::STRING)
            && (item.get("format").and_then(Value::as_str) == Some("date")
                || field.description.as_ref().is_some_and(|text| text.contains("YYYY-MM-DD")))
        {
            return accepts(json!("2026-01-31")).then_some(Self::Date);
        }
        let choices = item.get("enum").and_then(Value::as_array);
        let is_code = |choice: &Value| choice.as_str().and_then(Currency::from_code).is_some();
        if choices.is_some_and(|choices| choices.len() > 1 && choices.iter().all(is_code)) {
            return Some(Self::Currency);
        }
        let is_restricted = item.get("pattern").is_some() || choices.is_some();
        if !(is_restricted || any(&["code", "codes", "iso"])) {
            return None;
        }
        const CURRENCY: [&str; 2] = ["currency", "currencies"];
        const COUNTRY: [&str; 2] = ["country", "countries"];
        let is_currency = names(&CURRENCY) || (describes(&CURRENCY) && !any(&COUNTRY));
        if is_currency && (choices.is_some() || accepts(json!("USD"))) {
            return Some(Self::Currency);
        }
        let is_country = names(&COUNTRY) || (describes(&COUNTRY) && !any(&CURRENCY));
        let letters = match (accepts(json!("DE")), accepts(json!("DEU"))) {
            (true, false) => 2,
            (false, true) => 3,
            (true, true) if describes(&["two", "2", "alpha2"]) => 2,
            (true, true) if describes(&["three", "3", "alpha3"]) => 3,
            _ => return None,
        };
        (is_country && !is_currency).then_some(Self::Country { letters })
    }

    /// Returns the value of mentions for a field, if it fits the schema.
    pub(super) fn convert(self, field: &InputField, mentions: &[Mention]) -> Option<Value> {
        let item = item_schema(field);
        let to_item = |mention: &Mention| {
            let value = match (self, &mention.value) {
                (Self::Country { letters: 3 }, Value::String(code)) => json!(alpha3_of(code)?),
                (_, value) => value.clone(),
            };
            fits(&value, item, 0).then_some(value)
        };
        // A range of years is a mention with several values.
        let mentions = mentions.iter().flat_map(Mention::split);
        let items: Option<Vec<Value>> = mentions.map(|mention| to_item(&mention)).collect();
        shape_value(field, items?).filter(|value| fits(value, &field.schema, 0))
    }

    /// Returns true when a value is already what the field takes.
    pub(super) fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Array(items)) => items.iter().all(|item| self.accepts(item)),
            (Self::Country { letters: 2 }, Value::String(code)) => alpha3_of(code).is_some(),
            (Self::Currency, Value::String(code)) => Currency::from_code(code).is_some(),
            (Self::Country { .. } | Self::Date | Self::Year, _) | (Self::Currency, _) => true,
        }
    }
}

/// Returns the schema of one value of a field: that of the items of a list.
pub(super) fn item_schema(field: &InputField) -> &Value {
    static ANY: Value = Value::Bool(true);
    if takes_list(&field.schema) {
        field.schema.get("items").unwrap_or(&ANY)
    } else {
        &field.schema
    }
}

/// Returns the lower-case words of a name in any style, or of a text.
pub(super) fn name_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars().take(1_000) {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}
