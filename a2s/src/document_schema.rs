//! The JSON Schema of documents, for editors that complete and check during writing.
//!
//! It describes the structure: the fields, and the kind of value of each. It leaves open the parts that
//! only the compiler can check: references, hosts, data flow, and the content of tasks.

use serde_json::{Map, Value, json};

use crate::document::ValueType;
use crate::task::TaskFormat;

/// The JSON Schema (draft 2020-12) of a document in a2s 1.0 or 1.1.
#[must_use]
pub fn json_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A2S capability",
        "description": "One thing to do over OpenAPI, GraphQL and MCP services.",
        "$ref": "#/$defs/capability",
        "$defs": {
            "capability": capability(),
            "author": author(),
            "parameter": parameter(),
            "dependency": dependency(),
            "example": example(),
            "answer": answer(),
            "execution": execution(),
            "step": step(),
            "branch": object(&["steps"], json!({"steps": {"$ref": "#/$defs/steps"}})),
            "steps": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/step"}},
            "variables": {
                "description": "Variables that every branch may read, with their types.",
                "type": "object",
                "additionalProperties": {"enum": types()},
            },
            "inputs": {
                "description": "What fills the request: templates such as \"${city}\".",
                "type": "object",
            },
            "outputs": {
                "description": "What is taken from the answer, by the name of the variable.",
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/output"},
            },
            "output": output(),
            "for_each": for_each(),
            "retry": retry(),
            "catch": catch(),
            "task": task(),
            "name": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_-]*$"},
            "capability_name": {"type": "string", "pattern": "^[A-Z][A-Za-z0-9]*$", "maxLength": 100},
            "checksum": {"type": "string", "pattern": "^(sha256:)?[0-9a-fA-F]{64}$|^<.*>$"},
            "duration": {
                "description": "A length of time: `500ms`, `10s`, `2m`.",
                "type": "string",
                "pattern": "^[0-9]+(ms|s|m)$",
            },
            "concurrency": {"type": "integer", "minimum": 1, "maximum": 64},
        },
    })
}

/// An object with these fields, the author's own `x-…` fields, and no others.
fn object(required: &[&str], properties: Value) -> Value {
    let mut object = json!({ "type": "object", "required": required });
    object["properties"] = properties;
    object["patternProperties"] = json!({ "^x-": {} });
    object["additionalProperties"] = json!(false);
    object
}

fn types() -> Vec<&'static str> {
    ValueType::NAMES.iter().map(|(name, _)| *name).collect()
}

fn text(description: &str) -> Value {
    json!({"description": description, "type": "string", "minLength": 1})
}

fn capability() -> Value {
    let required = ["a2s", "name", "description", "domains", "version", "authors", "execution"];
    object(
        &required,
        json!({
            "a2s": {
                "description": "Version of the language.",
                "type": "string",
                "pattern": "^1\\.[01](\\.[0-9]+)?$",
                "examples": ["1.1.0", "1.0.0"],
            },
            "name": {
                "description": "Unique in a registry; PascalCase.",
                "$ref": "#/$defs/capability_name",
            },
            "description": {
                "description": "What it does, in one sentence.",
                "type": "string", "minLength": 1, "maxLength": 200,
            },
            "charset": {"description": "utf-8, in any letters.", "type": "string"},
            "domains": {
                "description": "The only hosts that its tasks may address, optionally with a port.",
                "type": "array", "minItems": 1, "maxItems": 100, "uniqueItems": true,
                "items": {"type": "string"},
            },
            "version": {
                "description": "Its own version, a semantic version in quotes.",
                "type": "string",
            },
            "checksum": {
                "description": "Of the content; `a2s checksum --write` fills it in.",
                "anyOf": [{"$ref": "#/$defs/checksum"}, {"type": "null"}, {"const": ""}],
            },
            "authors": {
                "type": "array", "minItems": 1, "maxItems": 100,
                "items": {"$ref": "#/$defs/author"},
            },
            "permissions": {
                "description": "What a caller must hold (1.1).",
                "type": "array", "minItems": 1, "maxItems": 100, "uniqueItems": true,
                "items": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._:/-]*$", "maxLength": 100},
            },
            "parameters": {
                "description": "The inputs that people are asked for.",
                "type": "array", "maxItems": 100, "items": {"$ref": "#/$defs/parameter"},
            },
            "dependencies": {
                "description": "The capabilities that its steps use.",
                "type": "array", "maxItems": 100, "items": {"$ref": "#/$defs/dependency"},
            },
            "examples": {
                "description": "Runs that show what it does (1.1).",
                "type": "array", "maxItems": 50, "items": {"$ref": "#/$defs/example"},
            },
            "tasks": {
                "description": "Tasks that several steps share by `$ref: \"#/tasks/NAME\"`.",
                "type": "object",
            },
            "execution": {"$ref": "#/$defs/execution"},
            "output": {"description": "Shapes the result; without it, every mapped variable is returned."},
        }),
    )
}

fn author() -> Value {
    object(
        &["name"],
        json!({
            "name": text("Name of a person or team."),
            "email": text("Where to write to."),
            "organization": text("Who they work for."),
            "github": text("Account on GitHub."),
        }),
    )
}

fn parameter() -> Value {
    object(
        &["name"],
        json!({
            "name": {"$ref": "#/$defs/name"},
            "description": text("What it means."),
            "patterns": {
                "description": "Words and one `*` where the value stands in a query: \"in *\".",
                "type": "array", "maxItems": 100,
                "items": {"type": "string", "pattern": "^[^*]*\\*[^*]*$"},
            },
            "type": {"description": "The type of its values (1.1).", "enum": types()},
            "required": {
                "description": "Whether a run needs a value; true unless there is a default (1.1).",
                "type": "boolean",
            },
            "default": {"description": "The value when none is given (1.1)."},
            "enum": {
                "description": "The only values that it takes (1.1).",
                "type": "array", "minItems": 1, "maxItems": 100,
            },
            "secret": {
                "description": "Kept from events, logs, guardians and errors (1.1).",
                "type": "boolean",
            },
        }),
    )
}

fn dependency() -> Value {
    object(
        &["capability", "version"],
        json!({
            "capability": {"$ref": "#/$defs/capability_name"},
            "version": text("A range of versions, such as \"^1.0.0\"."),
            "checksum": {"description": "The one content that will do.", "$ref": "#/$defs/checksum"},
        }),
    )
}

fn example() -> Value {
    object(
        &[],
        json!({
            "title": text("What it shows."),
            "intent": text("How somebody would ask for it."),
            "inputs": {"description": "A value for each input.", "type": "object"},
            "answers": {
                "description": "What the services answer, by the id of the task step; inside of a capability that is used by the way there: `getWeather`, `readCities[0]`, `checkWeather/getWeather`.",
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_-]*(\\[[0-9]+\\])?(/[A-Za-z_][A-Za-z0-9_-]*(\\[[0-9]+\\])?)*$"},
                "additionalProperties": {"$ref": "#/$defs/answer"},
            },
            "output": {"description": "The result."},
        }),
    )
}

fn answer() -> Value {
    object(
        &[],
        json!({
            "status": {"type": "integer", "minimum": 200, "maximum": 599},
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
            "body": {},
        }),
    )
}

fn execution() -> Value {
    let variables = object(&[], json!({"shared": {"$ref": "#/$defs/variables"}}));
    let shared = json!({ "variables": variables });
    let kinds: Vec<_> = blocks()
        .into_iter()
        .map(|(description, required, properties)| {
            kind(description, &required, merged(shared.clone(), properties))
        })
        .collect();
    json!({ "description": "The steps.", "oneOf": kinds })
}

/// The form of an object: its description, its required fields, and all its allowed fields.
type Form = (&'static str, Vec<&'static str>, Value);

/// The blocks that steps form.
fn blocks() -> [Form; 3] {
    [
        (
            "Steps one after another.",
            vec!["type", "steps"],
            json!({"type": {"const": "sequence"}, "steps": {"$ref": "#/$defs/steps"}}),
        ),
        (
            "Steps at the same time.",
            vec!["type", "steps"],
            json!({
                "type": {"const": "parallel"},
                "steps": {"$ref": "#/$defs/steps"},
                "max_concurrency": {"$ref": "#/$defs/concurrency"},
            }),
        ),
        (
            "One of two branches.",
            vec!["type", "condition"],
            json!({
                "type": {"const": "condition"},
                "condition": text("A CEL expression over references: \"${severity} == 'high'\"."),
                "steps": {"$ref": "#/$defs/steps"},
                "if_true": {"$ref": "#/$defs/branch"},
                "if_false": {"$ref": "#/$defs/branch"},
            }),
        ),
    ]
}

/// The schema of a kind of thing. A condition has one of its two ways to write the true branch.
fn kind(description: &str, required: &[&str], properties: Value) -> Value {
    let is_condition = properties.get("if_true").is_some();
    let mut kind = object(required, properties);
    kind["description"] = json!(description);
    if is_condition {
        kind["oneOf"] = json!([{"required": ["steps"]}, {"required": ["if_true"]}]);
    }
    kind
}

/// A step of any kind: the fields of its kind, and those that every step has.
fn step() -> Value {
    let mapped = json!({
        "input_mapping": {"$ref": "#/$defs/inputs"},
        "input_template": {"$ref": "#/$defs/inputs"},
        "output_mapping": {"$ref": "#/$defs/outputs"},
    });
    let tasks: [Form; 2] = [
        (
            "A request to a service.",
            vec!["format"],
            merged(
                mapped.clone(),
                json!({
                    "format": {"enum": TaskFormat::ALL},
                    "task": {"$ref": "#/$defs/task"},
                    "definition": {"$ref": "#/$defs/task"},
                    "retry": {"$ref": "#/$defs/retry"},
                }),
            ),
        ),
        (
            "Another capability.",
            vec!["type", "use"],
            merged(
                mapped,
                json!({"type": {"const": "capability"}, "use": {"$ref": "#/$defs/capability_name"}}),
            ),
        ),
    ];
    let control = json!({
        "id": {"description": "Unique in the document.", "$ref": "#/$defs/name"},
        "for_each": {"$ref": "#/$defs/for_each"},
        "timeout": {
            "description": "How long it may take, attempts and pauses included (1.1).",
            "$ref": "#/$defs/duration",
        },
        "on_error": {
            "description": "Whether the run goes on when the step fails (1.1).",
            "enum": ["stop", "continue"],
        },
        "catch": {"$ref": "#/$defs/catch"},
    });
    let kinds: Vec<_> = tasks
        .into_iter()
        .chain(blocks())
        .map(|(description, mut required, properties)| {
            required.push("id");
            kind(description, &required, merged(control.clone(), properties))
        })
        .collect();
    json!({ "oneOf": kinds })
}

fn output() -> Value {
    let path = json!({"type": "string", "pattern": "^\\$", "examples": ["$.data[0].id"]});
    let extra = json!({
        "optional": {"description": "A miss gives null.", "type": "boolean"},
        "default": {"description": "A miss gives this."},
    });
    let part = |required: &[&str], properties| object(required, merged(extra.clone(), properties));
    json!({
        "anyOf": [
            {"description": "A JSONPath (RFC 9535) into the answer.", "$ref": "#/$defs/output/$defs/path"},
            part(&["path"], json!({
                "path": {"$ref": "#/$defs/output/$defs/path"},
                "from": {"const": "body"},
            })),
            part(&["path", "from"], json!({
                "path": text("Name of the header."),
                "from": {"const": "header"},
            })),
            part(&["from"], json!({"from": {"const": "status"}})),
        ],
        "$defs": {"path": path},
    })
}

fn for_each() -> Value {
    json!({
        "description": "Runs the step once for each item of a list (1.1).",
        "anyOf": [
            {"type": "string", "pattern": "^\\$\\{[^}]*\\}$"},
            {"type": "array"},
            object(&["in"], json!({
                "in": {
                    "description": "The list: \"${cities}\".",
                    "anyOf": [{"type": "string", "pattern": "^\\$\\{[^}]*\\}$"}, {"type": "array"}],
                },
                "as": {"description": "The variable with the item: `item` unless said otherwise.", "$ref": "#/$defs/name"},
                "max_items": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
                "max_concurrency": {"$ref": "#/$defs/concurrency"},
            })),
        ],
    })
}

fn retry() -> Value {
    let mut retry = object(
        &["max_attempts"],
        json!({
            "max_attempts": {"type": "integer", "minimum": 1, "maximum": 10},
            "initial_delay": {"$ref": "#/$defs/duration"},
            "max_delay": {"$ref": "#/$defs/duration"},
            "backoff": {"enum": ["exponential", "constant"]},
            "on_status": {
                "description": "The statuses that are worth another attempt.",
                "type": "array",
                "items": {"type": "integer", "minimum": 400, "maximum": 599},
            },
        }),
    );
    retry["description"] = json!("Sends the request again where that is safe (1.1).");
    retry
}

fn catch() -> Value {
    let mut catch = object(
        &["steps"],
        json!({
            "as": {"description": "The variable that tells what happened: `error` unless said otherwise.", "$ref": "#/$defs/name"},
            "steps": {"$ref": "#/$defs/steps"},
        }),
    );
    catch["description"] = json!("Steps that run when the step fails (1.1).");
    catch
}

fn task() -> Value {
    let security = json!({
        "security": {
            "description": "The ways to be let in, as an OpenAPI operation has them (1.1).",
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "string"}},
            },
        },
        "securitySchemes": {
            "description": "What `security` names, as `components.securitySchemes` of OpenAPI has it (1.1).",
            "type": "object",
        },
    });
    json!({
        "description": "One path and operation of an OpenAPI specification, a GraphQL query, a tool of an MCP server, or `$ref: \"#/tasks/NAME\"`.",
        "type": "object",
        "anyOf": [
            {"required": ["openapi", "info", "paths"]},
            {
                "required": ["endpoint", "query"],
                "properties": security,
            },
            {
                "required": ["server", "tool"],
                "properties": merged(security, json!({
                    "server": text("Where the MCP server is: https://mcp.example.com/mcp (1.1)."),
                    "tool": text("The name of the tool, as `tools/list` has it (1.1)."),
                    "inputSchema": {
                        "description": "What the tool takes, as `tools/list` has it (1.1).",
                        "type": "object",
                    },
                    "outputSchema": {
                        "description": "What the tool gives, as `tools/list` has it (1.1).",
                        "type": ["object", "boolean"],
                    },
                    "annotations": {
                        "description": "What a call does, for which the author stands: `readOnlyHint`, `idempotentHint` (1.1).",
                        "type": "object",
                    },
                })),
            },
            {"required": ["$ref"], "maxProperties": 1},
        ],
    })
}

/// The members of both.
fn merged(one: Value, other: Value) -> Value {
    let members = |value| match value {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    let mut all = members(one);
    all.extend(members(other));
    Value::Object(all)
}
