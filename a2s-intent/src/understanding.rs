//! Inputs of a sentence by patterns and by the entities that it names.
//!
//! Patterns come first. Countries, currencies, dates, numbers, repositories, lists and quoted texts fill
//! only what they left open, and only where one field can be meant: a missing value can be asked for; a
//! wrong one would be used.

mod country;
mod currency;
mod date;
mod field_kind;
mod free;
mod mention;
mod phrases;

use std::collections::BTreeMap;

use a2s::InputField;
use jiff::civil::Date;
use serde_json::{Map, Value, json};

use crate::intent_text::{TextToken, tokenize};
use crate::pattern::{ExtractedInput, extract_inputs, fits, takes_list, truncate_sentence};
use field_kind::FieldKind;
use mention::{Mention, assign_mentions};

/// The maximum number of fields that are filled without patterns.
const MAX_FIELDS: usize = 100;
/// The maximum number of entities of one kind in a sentence.
const MAX_MENTIONS: usize = 64;

/// The inputs that a sentence gives, and those that are missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnderstoodInputs {
    /// The values by the name of the input. Each fits the schema of its input.
    pub extracted: Map<String, Value>,
    /// The names of required inputs without a value and without a default, in the order of the inputs.
    pub missing: Vec<String>,
}

/// Reads the inputs of a sentence by the patterns of the fields, and then by the entities that it names.
///
/// `today` is the current date in the user's time zone: "next year" and "tomorrow" are relative to it. The
/// bounds of [`extract_inputs`] hold, and only the first 100 fields are filled without patterns.
///
/// ```
/// # use a2s::InputField;
/// # use a2s_intent::understand_inputs;
/// # use serde_json::json;
/// let field = |name, schema| -> InputField {
///     serde_json::from_value(json!({"name": name, "required": true, "schema": schema})).expect("a field")
/// };
/// let fields = [
///     field("country_code", json!({"type": "string", "pattern": "^[A-Z]{2}$"})),
///     field("year", json!({"type": "integer"})),
///     field("kind", json!({"type": "string"})),
/// ];
/// let today = jiff::civil::date(2026, 11, 26);
/// let inputs = understand_inputs("public holidays in Germany next year", &fields, today);
/// assert_eq!(inputs.extracted["country_code"], "DE");
/// assert_eq!(inputs.extracted["year"], 2027);
/// assert_eq!(inputs.missing, ["kind"]);
/// ```
#[must_use]
pub fn understand_inputs(sentence: &str, fields: &[InputField], today: Date) -> UnderstoodInputs {
    let sentence = truncate_sentence(sentence);
    let words = tokenize(sentence, &|text| {
        fields.iter().any(|field| field.name.eq_ignore_ascii_case(text))
    });
    let taken = vec![false; words.len()];
    let mut reader = InputReader { sentence, words, today, fields, values: Map::new(), taken };
    reader.read_patterns();
    reader.read_repository();
    reader.read_entities();
    reader.read_position();
    reader.read_numbers();
    reader.read_lists_and_quotes();
    reader.read_topic_and_message();
    let extracted = reader.values;
    let missing = missing_inputs(fields, &extracted).map(|field| field.name.clone()).collect();
    UnderstoodInputs { extracted, missing }
}

/// Returns the required inputs without a value and without a default.
pub fn missing_inputs<'f>(
    fields: &'f [InputField],
    values: &Map<String, Value>,
) -> impl Iterator<Item = &'f InputField> {
    fields.iter().filter(|field| {
        field.required && field.default.is_none() && !values.contains_key(&field.name)
    })
}

/// A sentence that is being read, with the values so far.
struct InputReader<'s, 'f> {
    sentence: &'s str,
    words: Vec<TextToken<'s>>,
    today: Date,
    fields: &'f [InputField],
    values: Map<String, Value>,
    /// For each word, true when it belongs to a value: it means nothing else.
    taken: Vec<bool>,
}

impl<'f> InputReader<'_, 'f> {
    /// Takes the values of patterns. What is a name where a code belongs, is converted.
    fn read_patterns(&mut self) {
        let sentence = self.sentence;
        let found = extract_inputs(sentence, self.fields);
        for ExtractedInput { name, text, value, .. } in found {
            let Some(field) = self.fields.iter().find(|field| field.name == name) else { continue };
            let kind = FieldKind::of(field);
            let is_right = |value: &Value| kind.is_none_or(|kind| kind.accepts(value));
            let start = text.as_ptr().addr().wrapping_sub(sentence.as_ptr().addr());
            let span = (start, start.saturating_add(text.len()));
            let found = match value.map(|value| (value, span)) {
                Some(found) if is_right(&found.0) => Some(found),
                other => kind.and_then(|kind| self.convert_text(field, kind, span)).or(other),
            };
            if let Some((value, span)) = found.filter(|(value, _)| fits(value, &field.schema, 0)) {
                self.take_bytes(span);
                self.values.insert(name, value);
            }
        }
    }

    /// Converts the words that a pattern gives to a field. Returns the value, and the bytes of its words.
    fn convert_text(
        &self,
        field: &InputField,
        kind: FieldKind,
        (start, end): (usize, usize),
    ) -> Option<(Value, (usize, usize))> {
        let is_within = |word: &TextToken<'_>| start <= word.start && word.end <= end;
        let first = self.words.iter().position(is_within)?;
        let count = self.words.iter().skip(first).take_while(|word| is_within(word)).count();
        let mut mentions = self.find_mentions(&self.words, kind);
        mentions
            .retain(|mention| first <= mention.words.start && mention.words.end <= first + count);
        if mentions.is_empty() {
            // All the words are a name, even in lower case.
            let skipped = first + usize::from(self.words.get(first)?.is("the"));
            mentions = self.find_mentions(self.words.get(skipped..first + count)?, kind);
            mentions.retain(|mention| mention.words == (0..first + count - skipped));
            for mention in &mut mentions {
                mention.words = skipped..first + count;
            }
        }
        let start = self.words.get(mentions.first()?.words.start)?.start;
        let end = self.words.get(mentions.last()?.words.end.checked_sub(1)?)?.end;
        let is_clear = mentions.len() == 1 || takes_list(&field.schema);
        let value = kind.convert(field, &mentions).filter(|_| is_clear)?;
        Some((value, (start, end)))
    }

    fn find_mentions(&self, words: &[TextToken<'_>], kind: FieldKind) -> Vec<Mention> {
        let mentions = match kind {
            FieldKind::Country { .. } => country::find_countries(words),
            FieldKind::Currency => currency::find_currencies(words),
            FieldKind::Date => date::find_dates(words, self.today),
            FieldKind::Year => date::find_years(words, self.today),
        };
        // With so many, none is certain.
        if mentions.len() > MAX_MENTIONS { Vec::new() } else { mentions }
    }

    /// Fills or corrects the fields of an owner and a repository.
    fn read_repository(&mut self) {
        let owner = free::find_text_field(self.fields, &["owner", "org", "organization"]);
        let name = free::find_text_field(self.fields, &["repo", "repository"]);
        let (Some(owner), Some(name)) = (owner, name) else { return };
        if owner.name == name.name {
            return;
        }
        let known = |field: &InputField| self.values.get(&field.name).and_then(Value::as_str);
        let given =
            [name, owner].into_iter().find_map(|field| free::split_repository(known(field)?));
        let open = known(owner).is_none() && known(name).is_none();
        let found = given.or_else(|| free::find_repository(&self.words).filter(|_| open));
        let Some((owner_value, name_value)) = found else { return };
        for (field, value) in [(owner, json!(owner_value)), (name, json!(name_value))] {
            if fits(&value, &field.schema, 0) {
                self.values.insert(field.name.clone(), value);
            }
        }
    }

    /// Fills fields with countries, currencies, dates and years.
    fn read_entities(&mut self) {
        let mut kinds: BTreeMap<FieldKind, Vec<(&'f InputField, FieldKind)>> = BTreeMap::new();
        for field in self.open_fields() {
            if let Some(kind) = FieldKind::of(field) {
                // Fields with codes of two and of three letters take the same countries.
                let group = match kind {
                    FieldKind::Country { .. } => FieldKind::Country { letters: 2 },
                    other => other,
                };
                kinds.entry(group).or_default().push((field, kind));
            }
        }
        for (kind, fields) in kinds {
            let mut mentions = self.find_mentions(&self.words, kind);
            mentions.retain(|mention| !mention.words.clone().any(|at| self.is_taken(at)));
            let spans: Vec<_> = mentions.iter().map(|mention| mention.words.clone()).collect();
            let amount = mentions.iter().find_map(|mention| mention.amount.clone());
            for (field, value) in assign_mentions(&self.words, mentions, fields) {
                self.values.insert(field.name.clone(), value);
            }
            if let Some(amount) = amount {
                self.read_amount(&amount);
            }
            for span in spans {
                self.taken.get_mut(span).into_iter().flatten().for_each(|taken| *taken = true);
            }
        }
    }

    /// Marks the words within these bytes as parts of a value.
    fn take_bytes(&mut self, (start, end): (usize, usize)) {
        for (word, taken) in self.words.iter().zip(&mut self.taken) {
            *taken |= word.start < end && start < word.end;
        }
    }

    /// Fills the only field that is named as an amount with the number before a currency.
    fn read_amount(&mut self, amount: &Value) {
        let field = free::find_named_field(self.open_fields(), &["amount"])
            .filter(|field| fits(amount, &field.schema, 0));
        if let Some(field) = field {
            self.values.insert(field.name.clone(), amount.clone());
        }
    }

    /// Fills the fields of a latitude and a longitude.
    fn read_position(&mut self) {
        let open = self.open_fields();
        let named = |names| free::find_named_field(open.iter().copied(), names);
        let (Some(latitude), Some(longitude)) =
            (named(&["latitude", "lat"]), named(&["longitude", "lon", "lng", "long"]))
        else {
            return;
        };
        let Some((north, east)) = phrases::find_position(&self.words) else { return };
        let pair = [(latitude, json!(north)), (longitude, json!(east))];
        if pair.iter().all(|(field, value)| fits(value, &field.schema, 0)) {
            self.values.extend(pair.map(|(field, value)| (field.name.clone(), value)));
        }
    }

    /// Fills the only open text with the topic or the message that a word introduces.
    fn read_topic_and_message(&mut self) {
        let open = self.open_fields();
        let mut texts = open.iter().filter(|field| free::takes_quoted_text(field));
        let Some(field) = texts.next() else { return };
        let others: Vec<_> = texts.collect();
        let message = phrases::find_message(self.sentence, &self.words, field);
        let found = message.or_else(|| phrases::find_topic(&self.words, field));
        let Some((value, mut words)) = found.filter(|_| others.is_empty()) else { return };
        let is_free = !words.any(|at| self.is_taken(at)) && FieldKind::of(field).is_none();
        if is_free && fits(&value, &field.schema, 0) {
            self.values.insert(field.name.clone(), value);
        }
    }

    /// Fills the fields that a number's neighbours name.
    fn read_numbers(&mut self) {
        let open = self.open_fields();
        let find = |field: &&'f InputField| {
            let value = free::find_number(&self.words, field, &|at| self.is_taken(at))?;
            FieldKind::of(field).is_none().then(|| (field.name.clone(), value))
        };
        let found: Vec<_> = open.iter().filter_map(find).collect();
        let is_alone =
            |value: &Value| found.iter().filter(|(_, other)| other == value).count() == 1;
        let clear = found.iter().filter(|(_, value)| is_alone(value)).cloned();
        self.values.extend(clear.collect::<Vec<_>>());
    }

    /// Fills the only open list with the only list of names, and the only open text with the only quote.
    fn read_lists_and_quotes(&mut self) {
        let open: Vec<&InputField> =
            self.open_fields().into_iter().filter(|field| field.required).collect();
        let is_taken = |at: usize| self.is_taken(at);
        let texts: Vec<_> = open.iter().filter(|field| free::takes_quoted_text(field)).collect();
        let lists: Vec<_> = open.iter().filter(|field| takes_list(&field.schema)).collect();
        let found = match (texts.as_slice(), lists.as_slice()) {
            ([text], []) => free::find_quoted_text(self.sentence, &self.words, text, &is_taken)
                .filter(|_| FieldKind::of(text).is_none())
                .map(|value| (text.name.clone(), value)),
            ([], [list]) => free::find_name_list(&self.words, list, &is_taken)
                .filter(|_| FieldKind::of(list).is_none())
                .map(|value| (list.name.clone(), value)),
            _ => None,
        };
        self.values.extend(found);
    }

    /// Returns the fields without a value that a sentence may fill.
    fn open_fields(&self) -> Vec<&'f InputField> {
        let is_open = |field: &&InputField| !field.secret && !self.values.contains_key(&field.name);
        self.fields.iter().take(MAX_FIELDS).filter(is_open).collect()
    }

    /// Returns true when a word belongs to a value.
    fn is_taken(&self, at: usize) -> bool {
        self.taken.get(at).copied().unwrap_or(true)
    }
}
