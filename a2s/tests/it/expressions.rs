//! Templates and conditions: no text makes their parsers panic, they mean what they say, and what
//! was read is written so that it reads the same.

use a2s::{Condition, ConditionError, Template, compile};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::samples::{any_text, any_value};

/// What the compiler makes of a template: the one at `output`, in a document around it.
fn parse_template(template: &Value) -> Result<Template, Vec<a2s::Diagnostic>> {
    let document = json!({
        "a2s": "1.0.0", "name": "Tester", "description": "Tests", "domains": ["api.example.com"],
        "version": "1.0.0", "authors": [{"name": "Tester"}], "output": template,
        "execution": {"type": "sequence", "steps": [
            {"id": "ask", "format": "GraphQL", "output_mapping": {"given": "$.data"},
             "task": {"endpoint": "https://api.example.com/", "query": "{ x }"}}
        ]}
    });
    let compilation = compile(document.to_string().as_bytes());
    match compilation.document {
        Some(document) => Ok(document.capability().output.clone().unwrap()),
        None => Err(compilation.diagnostics),
    }
}

/// A part of a text: as it is written, and the way that it leads along or the text that it is.
#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Reference(Vec<String>),
}

impl Part {
    fn written(&self) -> String {
        match self {
            Self::Text(text) => text.replace("${", "$${"),
            Self::Reference(way) => {
                let (variable, way) = way.split_first().unwrap();
                let way = way.iter().map(|key| match key.parse::<usize>() {
                    Ok(index) => format!("[{index}]"),
                    Err(_) => format!(".{key}"),
                });
                format!("${{{variable}{}}}", way.collect::<String>())
            }
        }
    }

    fn value(&self, variables: &Value) -> Option<Value> {
        match self {
            Self::Text(text) => Some(json!(text)),
            Self::Reference(way) => way.iter().try_fold(variables.clone(), |value, key| {
                match (key.parse::<usize>(), &value) {
                    (Ok(index), Value::Array(items)) => items.get(index).cloned(),
                    (Err(_), Value::Object(members)) => members.get(key).cloned(),
                    _ => None,
                }
            }),
        }
    }
}

fn any_part() -> impl Strategy<Value = Part> {
    let way = ("[abc]", prop::collection::vec(prop_oneof!["[abc]", "[0-2]"], 0..3));
    prop_oneof![
        // A `$` right before a reference would be read with it.
        any_text().prop_filter("ends with $", |text| !text.ends_with('$')).prop_map(Part::Text),
        way.prop_map(|(variable, way)| Part::Reference([vec![variable], way].concat())),
    ]
}

/// Values under the names and indexes that parts use.
fn any_variables() -> impl Strategy<Value = Value> {
    let tree = any_value().prop_recursive(3, 20, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 1..4)
                .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    });
    [tree.clone(), tree.clone(), tree].prop_map(|[a, b, c]| json!({"a": a, "b": b, "c": c}))
}

/// CEL-like text: what authors write, what they might, and what they should not.
fn any_condition() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec![
        "${a}",
        "${b}",
        "${c}",
        "${a.b}",
        "${c[0]}",
        "${c[0].b}",
        "1",
        "0",
        "-1",
        "2.5",
        "1u",
        "0x1f",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "'x'",
        "\"é\"",
        "''",
        "b'x'",
        "r'\\d'",
        "true",
        "false",
        "null",
        "[]",
        "{}",
        "[1, 2]",
        "{'a': 1}",
        "{1: 2}",
        "x",
        "size",
        "type",
    ]);
    let operator = proptest::sample::select(vec![
        "==", "!=", "<", "<=", ">", ">=", "&&", "||", "+", "-", "*", "/", "%", "in",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(3, 16, 3, move |inner| {
        let one = inner.clone();
        prop_oneof![
            3 => (inner.clone(), operator.clone(), inner.clone()).prop_map(|(l, o, r)| format!("{l} {o} {r}")),
            1 => inner.clone().prop_map(|e| format!("({e})")),
            1 => inner.clone().prop_map(|e| format!("!{e}")),
            1 => inner.clone().prop_map(|e| format!("-{e}")),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("{a} ? {b} : {c}")),
            1 => (inner.clone(), inner.clone()).prop_map(|(e, i)| format!("{e}[{i}]")),
            1 => (inner.clone(), proptest::sample::select(vec!["all", "exists", "exists_one", "map", "filter"]), inner.clone())
                .prop_map(|(e, f, b)| format!("{e}.{f}(x, {b})")),
            1 => (proptest::sample::select(vec!["size", "string", "int", "uint", "double", "bytes", "has", "type", "bool", "max", "min", "duration", "timestamp"]), one)
                .prop_map(|(f, e)| format!("{f}({e})")),
            1 => (inner.clone(), proptest::sample::select(vec!["startsWith", "endsWith", "contains", "matches"]), inner)
                .prop_map(|(e, f, a)| format!("{e}.{f}({a})")),
        ]
    })
}

proptest! {
    #[test]
    fn a_template_means_what_it_says(
        parts in prop::collection::vec(any_part(), 1..6),
        variables in any_variables(),
    ) {
        let written: String = parts.iter().map(Part::written).collect();
        let template = parse_template(&json!(written));
        let template = template.map_err(|errors| TestCaseError::fail(format!("{written}: {errors:?}")))?;
        let values: Option<Vec<Value>> = parts.iter().map(|part| part.value(&variables)).collect();
        let parts: Vec<&Part> =
            parts.iter().filter(|part| !matches!(part, Part::Text(text) if text.is_empty())).collect();
        let rendered = template.render(variables.as_object().unwrap());
        match (values, parts.as_slice()) {
            (None, _) => prop_assert!(rendered.is_err(), "{}", written),
            (Some(_), [reference @ Part::Reference(_)]) => {
                prop_assert_eq!(rendered.ok(), reference.value(&variables), "{}", written);
            }
            (Some(values), _) => {
                let text = values.iter().map(|value| match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
                prop_assert_eq!(rendered.ok(), Some(json!(text.collect::<String>())), "{}", written);
            }
        }
    }

    #[test]
    fn a_reference_is_written_as_it_is_read(way in prop::collection::vec("[a-c0-2]", 0..5)) {
        let way = [vec!["a".to_owned()], way].concat();
        let written = Part::Reference(way).written();
        let template = parse_template(&json!(written)).unwrap();
        let references = template.references();
        prop_assert_eq!(references.len(), 1);
        prop_assert_eq!(format!("${{{}}}", references[0]), written);
    }

    #[test]
    fn no_value_makes_the_parser_of_templates_panic(value in any_value(), text in "[${}\\[\\].a0 ]{0,20}") {
        // What is refused is refused with the code of templates.
        for template in [value, json!(text), json!({ "in": [text] })] {
            if let Err(errors) = parse_template(&template) {
                let codes = errors.iter().filter(|error| error.is_error());
                prop_assert!(codes.clone().all(|error| error.code == "A2S040"), "{:?}", errors);
                prop_assert!(codes.count() > 0);
            }
        }
    }

    #[test]
    fn no_condition_makes_anything_panic(
        condition in prop_oneof![
            3 => any_condition(),
            1 => any::<String>(),
            1 => "[a-z0-9 ${}()\\[\\].,'\"<>=!&|+*/%?:-]{0,80}",
        ],
        variables in any_variables(),
    ) {
        let Ok(parsed) = Condition::parse(&condition) else { return Ok(()) };
        prop_assert_eq!(parsed.source(), &condition);
        let again = Condition::parse(parsed.source()).unwrap();
        prop_assert_eq!(again.references(), parsed.references());
        for reference in parsed.references() {
            let text = format!("${{{reference}}}");
            prop_assert!(Condition::parse(&text).unwrap().references() == [reference.clone()], "{}", text);
        }
        let variables = variables.as_object().unwrap();
        let outcome = parsed.evaluate(variables);
        prop_assert_eq!(&again.evaluate(variables), &outcome, "the same values, the same outcome");
        let missing = parsed.references().iter().any(|reference| reference.resolve(variables).is_err());
        prop_assert_eq!(matches!(outcome, Err(ConditionError::Missing(_))), missing);
    }

    #[test]
    fn a_value_is_never_code(text in any_text(), other in any_text()) {
        let holds = Condition::parse("${a} == ${b}").unwrap();
        let variables = json!({"a": text, "b": other});
        prop_assert_eq!(holds.evaluate(variables.as_object().unwrap()), Ok(text == other));
    }
}
