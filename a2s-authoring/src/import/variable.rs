//! The parameters of imported documents.

use a2s::ValueType;
use serde_json::{Map, Value, json};

use super::ref_resolver::{MAX_PARTS, RefResolver};
use super::schema::is_exact;
use crate::sanitize;

/// The maximum length of a parameter's description, in characters.
const MAX_DESCRIPTION: usize = 300;
/// The maximum number of values of an `enum`.
const MAX_CHOICES: usize = 100;
/// The maximum memory for one pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// The depth to which the parts of combined schemas are searched for a type.
const MAX_COMBINED: usize = 8;

/// A parameter of a document.
#[derive(Debug, Clone)]
pub(super) struct DocumentParameter {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) kind: Option<ValueType>,
    pub(super) required: bool,
    pub(super) default: Option<Value>,
    pub(super) choices: Vec<Value>,
    pub(super) secret: bool,
    /// A value that the description gives as an example.
    pub(super) example: Option<Value>,
}

impl DocumentParameter {
    pub(super) fn new(name: String, description: Option<&str>, required: bool) -> Self {
        let description = description.and_then(|d| sanitize::description(d, MAX_DESCRIPTION));
        let (kind, default, choices) = (None, None, Vec::new());
        Self { name, description, kind, required, default, choices, secret: false, example: None }
    }

    /// Adds the facts that a schema states about its values.
    pub(super) fn with_schema(mut self, source: RefResolver<'_>, schema: &Value) -> Self {
        let schema = SchemaFacts::of(source, schema);
        self.kind = schema.kind;
        if self.description.is_none() {
            self.description =
                schema.description.and_then(|d| sanitize::description(d, MAX_DESCRIPTION));
        }
        self.choices = schema.choices;
        if !self.secret {
            self.default = schema.default;
            self.example = schema.example;
        }
        // The only value there is need not be given.
        if let ([only], None, true, false) =
            (self.choices.as_slice(), &self.default, self.required, self.secret)
        {
            self.default = Some(only.clone());
        }
        self
    }

    /// Returns the same parameter, which accepts any value.
    pub(super) fn without_restrictions(self) -> Self {
        Self { kind: None, default: None, choices: Vec::new(), example: None, ..self }
    }

    /// Returns the template that reads it.
    pub(super) fn template(&self) -> Value {
        json!(format!("${{{}}}", self.name))
    }

    /// Returns the parameter in the form that documents use.
    pub(super) fn to_value(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("name".to_owned(), json!(self.name));
        if let Some(description) = &self.description {
            fields.insert("description".to_owned(), json!(description));
        }
        if let Some(kind) = self.kind {
            fields.insert("type".to_owned(), json!(kind.as_str()));
        }
        match &self.default {
            Some(default) => {
                fields.insert("default".to_owned(), default.clone());
            }
            None if !self.required => {
                fields.insert("required".to_owned(), json!(false));
            }
            None => {}
        }
        if !self.choices.is_empty() {
            fields.insert("enum".to_owned(), json!(self.choices));
        }
        if self.secret {
            fields.insert("secret".to_owned(), json!(true));
        }
        let patterns = if self.secret { &[][..] } else { self.patterns() };
        if !patterns.is_empty() {
            fields.insert("patterns".to_owned(), json!(patterns));
        }
        Value::Object(fields)
    }

    /// Returns the patterns in which people usually write such an input; empty when its name is ambiguous.
    fn patterns(&self) -> &'static [&'static str] {
        let is_text = matches!(self.kind, None | Some(ValueType::String | ValueType::Array));
        if !is_text || !self.choices.is_empty() {
            return &[];
        }
        match self.name.to_ascii_lowercase().as_str() {
            "city" | "city_name" | "cityname" | "town" | "place" | "location" | "country"
            | "region" => &["in *", "for *"],
            "from" | "origin" | "source_language" | "from_currency" | "departure" => &["from *"],
            "destination" | "target_language" | "to_currency" | "arrival" => &["to *"],
            "q" | "query" | "search" | "search_query" | "term" | "search_term" | "keyword"
            | "keywords" => &["search for *", "look for *", "find *"],
            "topic" | "subject" => &["about *", "on *"],
            "author" | "artist" => &["by *"],
            _ => &[],
        }
    }

    /// Returns true when it uses features that language 1.0 does not have.
    pub(super) fn is_newer(&self) -> bool {
        self.kind.is_some()
            || self.default.is_some()
            || !self.required
            || !self.choices.is_empty()
            || self.secret
    }
}

/// The facts that a schema states about a value as a whole.
#[derive(Debug, Default)]
struct SchemaFacts<'a> {
    kind: Option<ValueType>,
    description: Option<&'a str>,
    default: Option<Value>,
    choices: Vec<Value>,
    example: Option<Value>,
    /// The number of examined schemas.
    parts: usize,
}

impl<'a> SchemaFacts<'a> {
    fn of(source: RefResolver<'a>, schema: &'a Value) -> Self {
        let mut facts = Self::default();
        facts.gather(source, schema, 0);
        let kind = facts.kind;
        let fits = |value: &Value| kind.is_none_or(|kind| kind.accepts(value));
        // Values that do not fit the type are a mistake of the description: neither is certain.
        let sound = facts.choices.iter().all(fits) && facts.choices.len() <= MAX_CHOICES;
        if !sound {
            facts.choices.clear();
        }
        let choices = &facts.choices;
        facts.example = facts
            .example
            .filter(|value| fits(value) && is_exact(value) && !value.is_null())
            .filter(|value| choices.is_empty() || choices.contains(value));
        facts.default = facts
            .default
            .filter(|value| fits(value) && is_exact(value) && !value.is_null())
            .filter(|value| choices.is_empty() || choices.contains(value));
        facts
    }

    fn gather(&mut self, source: RefResolver<'a>, schema: &'a Value, depth: usize) {
        let Ok(schema) = source.resolve(schema) else { return };
        self.parts += 1;
        if depth > MAX_COMBINED || self.parts > MAX_PARTS {
            return;
        }
        self.kind = self.kind.or_else(|| kind_of(schema));
        self.description = self.description.or_else(|| schema.get("description")?.as_str());
        if self.default.is_none() {
            self.default = schema.get("default").filter(|value| may_be(schema, value)).cloned();
        }
        if self.example.is_none() {
            let listed = schema.get("examples").and_then(|examples| examples.get(0));
            let given = schema.get("example").or(listed);
            self.example = given.filter(|value| may_be(schema, value)).cloned();
        }
        if self.choices.is_empty() {
            let constant = schema.get("const").map(std::slice::from_ref);
            let values = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice);
            for value in constant.or(values).into_iter().flatten() {
                // One more than a document holds: then it has none.
                if self.choices.len() > MAX_CHOICES {
                    break;
                }
                if !value.is_null() && is_exact(value) && !self.choices.contains(value) {
                    self.choices.push(value.clone());
                }
            }
        }
        let parts = |key: &str| schema.get(key).and_then(Value::as_array);
        for part in parts("allOf").into_iter().flatten() {
            self.gather(source, part, depth + 1);
        }
        // `anyOf: [X, {type: "null"}]` is X, which may be null.
        for key in ["anyOf", "oneOf"] {
            let mut others = parts(key).into_iter().flatten().filter(|part| !is_null(part));
            if let (Some(only), None) = (others.next(), others.next()) {
                self.gather(source, only, depth + 1);
            }
        }
    }
}

/// Returns true when the other rules of a schema allow its default. A default that they forbid would be
/// sent, and rejected by its own schema; without it, the service chooses a default of its own.
fn may_be(schema: &Value, default: &Value) -> bool {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let within = |size: f64, least: &str, most: &str| {
        bound(least).is_none_or(|least| least <= size)
            && bound(most).is_none_or(|most| size <= most)
    };
    match default {
        Value::String(text) => {
            let pattern = schema.get("pattern").and_then(Value::as_str);
            let pattern = pattern.and_then(|pattern| {
                regex::RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build().ok()
            });
            // No text is that long.
            let length = text.chars().count() as f64;
            pattern.is_none_or(|pattern| pattern.is_match(text))
                && within(length, "minLength", "maxLength")
        }
        Value::Number(number) => {
            number.as_f64().is_none_or(|number| within(number, "minimum", "maximum"))
        }
        _ => true,
    }
}

/// The type at a pointer, given as tokens; `None` when the schema does not state it.
pub(super) fn kind_at<'a>(
    source: RefResolver<'a>,
    schema: &'a Value,
    tokens: &[&str],
) -> Option<ValueType> {
    let mut at = schema;
    for token in tokens {
        at = member_at(source, at, token, (0, &mut 0))?;
    }
    SchemaFacts::of(source, at).kind
}

/// Finds the schema of a member or an item.
fn member_at<'a>(
    source: RefResolver<'a>,
    schema: &'a Value,
    token: &str,
    (depth, examined): (usize, &mut usize),
) -> Option<&'a Value> {
    *examined += 1;
    let schema = source.resolve(schema).ok()?;
    let member = schema.get("properties").and_then(|properties| properties.get(token));
    let is_index = !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit());
    let item = schema.get("items").filter(|_| is_index);
    let parts = schema
        .get("allOf")
        .and_then(Value::as_array)
        .filter(|_| depth < MAX_COMBINED && *examined < MAX_PARTS);
    member.or(item).or_else(|| {
        parts?.iter().find_map(|part| member_at(source, part, token, (depth + 1, &mut *examined)))
    })
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
}

/// Returns the type that a schema states, or the type that its keywords imply.
fn kind_of(schema: &Value) -> Option<ValueType> {
    let named = |name: &str| {
        ValueType::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    };
    match schema.get("type") {
        Some(Value::String(name)) => named(name),
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            match (names.next(), names.next()) {
                (Some(only), None) => named(only),
                _ => None,
            }
        }
        _ if schema.get("properties").is_some() => Some(ValueType::Object),
        _ if schema.get("items").is_some() => Some(ValueType::Array),
        _ => None,
    }
}

/// Returns true when a name in a request is that of a secret: a key, a token or a password.
pub(super) fn is_secret_name(name: &str, description: Option<&str>) -> bool {
    const WHOLE: [&str; 4] = ["token", "secret", "password", "passwd"];
    // Words that mean much else, too.
    const PERHAPS: [&str; 3] = ["key", "auth", "appid"];
    const PARTS: [&str; 12] = [
        "apikey",
        "accesstoken",
        "authtoken",
        "refreshtoken",
        "idtoken",
        "bearertoken",
        "secretkey",
        "clientsecret",
        "accesskey",
        "password",
        "privatekey",
        "authorization",
    ];
    let letters: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let letters = letters.strip_prefix('x').unwrap_or(&letters);
    let lower_description = description.unwrap_or_default().to_ascii_lowercase();
    let names_key = ["api key", "apikey", "api-key", "access key"]
        .iter()
        .any(|word| lower_description.contains(word));
    WHOLE.contains(&letters)
        || PARTS.iter().any(|part| letters.contains(part))
        || (names_key && PERHAPS.contains(&letters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &Value, required: bool, expected: &Value) {
        let root = json!({"components": {"schemas": {
            "Size": {"type": "integer", "enum": [1, 2], "description": "How big"},
            "Loop": {"allOf": [{"$ref": "#/components/schemas/Loop"}]},
        }}});
        let variable = DocumentParameter::new("v".to_owned(), None, required);
        let mut value = variable.with_schema(RefResolver::new(&root), schema).to_value();
        value.as_object_mut().unwrap().shift_remove("name");
        assert_eq!(value, *expected);
    }

    #[test]
    fn a_schema_gives_type_default_and_choices() {
        check(&json!({"type": "string"}), true, &json!({"type": "string"}));
        check(&json!({"type": "string"}), false, &json!({"type": "string", "required": false}));
        check(
            &json!({"type": ["integer", "null"], "default": 5}),
            false,
            &json!({"type": "integer", "default": 5}),
        );
        check(
            &json!({"allOf": [{"$ref": "#/components/schemas/Size"}], "default": 2}),
            true,
            &json!({"description": "How big", "type": "integer", "default": 2, "enum": [1, 2]}),
        );
        check(
            &json!({"anyOf": [{"type": "boolean"}, {"type": "null"}]}),
            true,
            &json!({"type": "boolean"}),
        );
        check(&json!({"anyOf": [{"type": "boolean"}, {"type": "string"}]}), true, &json!({}));
        check(&json!({"$ref": "#/components/schemas/Loop"}), true, &json!({}));
        check(&json!({"const": "a"}), true, &json!({"default": "a", "enum": ["a"]}));
    }

    #[test]
    fn a_default_that_its_own_schema_refuses_is_left_out() {
        let rules = [
            json!({"type": "string", "default": "2015-05-05", "pattern": "date-time"}),
            json!({"type": "string", "default": "", "minLength": 1}),
            json!({"type": "string", "default": "ab", "maxLength": 1}),
            json!({"type": "integer", "default": 0, "minimum": 1}),
            json!({"type": "number", "default": 1.5, "maximum": 1}),
        ];
        for schema in rules {
            check(&schema, true, &json!({"type": schema["type"]}));
        }
        // What cannot be read as a pattern says nothing.
        check(
            &json!({"type": "string", "default": "a", "pattern": "(?<=x)a"}),
            true,
            &json!({"type": "string", "default": "a"}),
        );
        check(
            &json!({"type": "string", "default": "ab", "pattern": "^a", "maxLength": 2}),
            true,
            &json!({"type": "string", "default": "ab"}),
        );
    }

    #[test]
    fn what_contradicts_itself_is_left_out() {
        check(
            &json!({"type": "integer", "enum": ["1", "2"], "default": "1"}),
            true,
            &json!({"type": "integer"}),
        );
        check(
            &json!({"type": "string", "enum": ["a", "b", "a", null], "default": "c"}),
            true,
            &json!({"type": "string", "enum": ["a", "b"]}),
        );
        check(
            &json!({"type": "integer", "default": 9_223_372_036_854_775_807_i64}),
            true,
            &json!({"type": "integer"}),
        );
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for name in ["X-API-Key", "api_key", "apikey", "access_token", "Token", "client-secret"] {
            assert!(is_secret_name(name, None), "{name}");
        }
        assert!(is_secret_name("key", Some("Your API key.")));
        for name in ["pageToken", "next_token", "key", "keys", "monkey", "author", "X-Request-Id"] {
            assert!(!is_secret_name(name, None), "{name}");
        }
    }
}
