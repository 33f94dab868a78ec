//! The examples in the description of the API: each is a request that was sent to services under test and
//! their answer, and fits its schema.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::access::{Belongings, POLICY, doors, fill, make_belongings};
use crate::harness::{RUNTIME, World, assert_page, root};

/// The most items of a list in an example.
const ITEMS: usize = 2;
/// The most lines of a stream of events in an example.
const LINES: usize = 6;
/// Doors that use up what they are about.
const ENDING: [&str; 4] = [
    "/v1/executions/{id}/cancel",
    "/v1/executions/{id}/resume",
    "/v1/approvals/{id}/approve",
    "/v1/approvals/{id}/reject",
];

/// A body with more to see than the access matrix needs, or one that does something for the owner.
fn richer(method: &Method, path: &str, its: &Belongings, checksum: &Value) -> Option<Value> {
    let country = json!({"name": "GetCountry", "inputs": {"country_code": "FR"}});
    Some(match (method.as_str(), path) {
        ("POST", "/v1/search") => {
            json!({"intent": "list dog breeds", "limit": 2, "strategy": "most_reliable"})
        }
        ("POST", "/v1/executions") => {
            json!({"name": "GetCountry", "inputs": {"country_code": "FR"}, "wait": true})
        }
        ("POST", "/v1/plans") => country,
        ("POST", "/v1/triggers") => json!({
            "event": {"type": "schedule", "id": "daily-1"}, "execution": country,
        }),
        ("POST", "/v1/agent") => json!({"message": "tell me a joke"}),
        ("POST", "/v1/tokens") => {
            json!({"name": format!("{}-more", its.name), "scopes": ["execute", "publish"]})
        }
        ("POST", "/v1/capabilities/{name}/owners") => json!({"add": its.name}),
        ("POST", "/v1/capabilities/{name}/{version}/deprecate") => {
            json!({"message": "Use the newer one.", "successor": "GetJoke@^1"})
        }
        ("POST", "/v1/executions/{id}/resume") => json!({"decision": "repeat"}),
        ("POST", "/v1/outcomes") => json!({
            "run": its.run, "name": "ListDogBreeds", "version": "1.0.0", "success": true,
            "checksum": checksum, "duration_ms": 12,
        }),
        ("PUT", "/v1/secrets/{host}/{scheme}/users") => json!({"subjects": ["ci", "ci/ann"]}),
        ("POST", "/v1/approvals/{id}/approve" | "/v1/approvals/{id}/reject") => {
            json!({"decided_by": "ann", "reason": "It was asked for."})
        }
        _ => return None,
    })
}

/// What differs from run to run, by what it is replaced with.
#[derive(Default)]
pub(crate) struct Stable {
    ids: Vec<String>,
}

/// The rules: a pattern, and what replaces it.
static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let rules = [
        (r#""exp":\d+"#, r#""exp":1767322985"#),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "2026-01-02T03:04:05Z"),
        (r#""date":"[^"]+ GMT""#, r#""date":"Fri, 02 Jan 2026 03:04:05 GMT""#),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:8741"),
        (r"\d+(\.\d+)? ms", "12 ms"),
        (r#""(\w+_ms|complexity)":[0-9.]+"#, r#""$1":12"#),
        (r"\ba2s_[0-9A-Za-z]{16,}", "a2s_EXAMPLE"),
        (r"\b[0-9a-f]{32}\b", "0123456789abcdef0123456789abcdef"),
        (r#"("id":"|approval |approve |reject |approvals/)[0-9a-f]{12}\b"#, "${1}a1b2c3d4e5f6"),
        (
            r#""feed":"[0-9a-f]{64}""#,
            r#""feed":"314e2da59a1323e084a87a33f59ce3d2ee023304fc4c285956f2f1748e8d2a9e""#,
        ),
        // A run that waits asks again from time to time, so the log grows.
        (r#""(tried|unchanged|records)":\d+"#, r#""$1":8"#),
        (r#"("rule":"\w+","count":)\d+"#, "${1}8"),
        (r#""(next|cursor)":"A[\w-]{20,}""#, r#""$1":"AV6QS6NPjmABuNiElfPVlvQUCw""#),
        (
            r#""(digest|plan|consent|previous|head)":"sha256:[0-9a-f]{64}""#,
            r#""$1":"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08""#,
        ),
    ];
    rules.into_iter().map(|(pattern, with)| (Regex::new(pattern).unwrap(), with)).collect()
});
static ID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap()
});

impl Stable {
    pub(crate) fn text(&mut self, text: &str) -> String {
        let text = ID.replace_all(text, |found: &regex::Captures<'_>| {
            let known = self.ids.iter().position(|known| *known == found[0]);
            let at = known.unwrap_or_else(|| {
                self.ids.push(found[0].to_owned());
                self.ids.len() - 1
            });
            format!("0199c82c-c002-7100-8000-{at:012x}")
        });
        RULES.iter().fold(text.into_owned(), |text, (pattern, with)| {
            pattern.replace_all(&text, *with).into_owned()
        })
    }
}

/// The value with short lists and fractions: processors differ in the last digits.
fn shortened(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().take(ITEMS).map(shortened).collect(),
        Value::Number(number) if number.is_f64() => {
            json!(number.as_f64().map(|number| (number * 100.0).round() / 100.0))
        }
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, shortened(value)));
            Value::Object(members.collect())
        }
        other => other,
    }
}

#[test]
fn each_operation_has_a_recorded_example_that_fits() {
    // A decision about an approval holds for every run that asks for the same: one is for either.
    let [world, other] = [(); 2].map(|()| {
        let mut world = World::down(&[]);
        let policy = world.write("policy.yaml", POLICY);
        world.add_flags(&["--policy", &policy]);
        world.start();
        world
    });
    let description = std::fs::read(root().join("docs/openapi.json")).unwrap();
    let description: Value = serde_json::from_slice(&description).unwrap();
    let mut its = make_belongings(&world, 0);
    let mut stable = Stable::default();
    let dogs = crate::http::get(&format!("{}v1/capabilities/ListDogBreeds", world.url()), &[]).1;
    let dogs: Value = serde_json::from_str(&dogs).unwrap();
    let checksum = dogs["versions"][0]["checksum"].clone();
    let mut examples = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut doors = doors();
    doors.sort_by_key(|(_, path, _)| path.ends_with("/approve"));
    for (number, (method, path, body)) in doors.into_iter().enumerate() {
        let described = path.replace("{variable}", "{name}").replace("{token}", "{name}");
        let operation = &description["paths"][described][method.as_str().to_lowercase()];
        let Some(id) = operation["operationId"].as_str() else { continue };
        let world = if path.ends_with("/reject") { &other } else { &world };
        if ENDING.contains(&path) {
            its = make_belongings(world, number + 1);
        }
        let request = richer(&method, path, &its, &checksum).unwrap_or_else(|| body(&its));
        let query = if path == "/v1/guardian/records" { "?event=policy" } else { "" };
        let url = format!("{}{}{query}", world.url(), fill(path, &its).trim_start_matches('/'));
        let mut asking = crate::http::client().request(method, url).bearer_auth(world.token());
        asking = asking.header("accept", "application/json");
        if !request.is_null() {
            asking = asking.json(&request);
        }
        let (status, media_type, text) = RUNTIME.block_on(async {
            let answer = asking.send().await.unwrap();
            let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap());
            let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().to_owned();
            (answer.status().as_u16(), kind, answer.text().await.unwrap())
        });
        let text = stable.text(&text);
        let response = match media_type.as_str() {
            "application/json" => shortened(serde_json::from_str(&text).unwrap()),
            "" => Value::Null,
            _ => {
                json!(text.lines().take(LINES).map(|line| format!("{line}\n")).collect::<String>())
            }
        };
        let request: Value = serde_json::from_str(&stable.text(&request.to_string())).unwrap();
        let mut example = Map::new();
        if !request.is_null() {
            check(&description, &operation["requestBody"]["content"], "application/json", &request)
                .unwrap_or_else(|misfit| wrong.push(format!("{id}, request: {misfit}")));
            example.insert("request".to_owned(), request);
        }
        example.insert("status".to_owned(), json!(status));
        if !response.is_null() {
            let content = &operation["responses"][status.to_string()]["content"];
            check(&description, content, &media_type, &response)
                .unwrap_or_else(|misfit| wrong.push(format!("{id}, {status}: {misfit}")));
            example.insert("media_type".to_owned(), json!(media_type));
            example.insert("response".to_owned(), response);
        }
        if status >= 400 {
            wrong.push(format!("{id}: {status} {text}"));
        }
        examples.insert(id.to_owned(), Value::Object(example));
    }
    let text = serde_json::to_string_pretty(&examples).unwrap() + "\n";
    assert_page("src/serve/examples.json", &text);
    assert_eq!(wrong, [""; 0]);
    let operations = description["paths"].as_object().unwrap().values();
    let count: usize = operations.map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(examples.len(), count);
}

/// Whether a body fits the schema that the description has for its media type.
fn check(all: &Value, content: &Value, media_type: &str, body: &Value) -> Result<(), String> {
    let schema = &content[media_type]["schema"];
    if schema.is_null() {
        return Err(format!("`{media_type}` is not described"));
    }
    let whole = json!({"allOf": [schema], "components": all["components"]});
    let validator = jsonschema::validator_for(&whole).map_err(|error| error.to_string())?;
    let misfits = validator.iter_errors(body);
    let misfits: Vec<_> =
        misfits.map(|misfit| format!("{} at {}", misfit, misfit.instance_path())).collect();
    if misfits.is_empty() { Ok(()) } else { Err(misfits.join("; ")) }
}
