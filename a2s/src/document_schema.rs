//! The JSON Schema of documents, for editors that complete and check during writing.
//!
//! It describes the structure: the fields, and the kind of value of each. It leaves open the parts that
//! only the compiler can check: references, hosts, data flow, and the content of tasks.

use serde_json::{Map, Value, json};

use crate::document::ValueType;
use crate::task::TaskFormat;

/// Returns the JSON Schema (draft 2020-12) of a document in a2s 1.0 or 1.1.
#[must_use]
pub fn json_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A2S capability",
        "description": "One task over OpenAPI, GraphQL and MCP services.",
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
                "description": "Variables that every branch can read, with their types.",
                "type": "object",
                "additionalProperties": {"enum": types()},
            },
            "inputs": {
                "description": "The values of the request: templates such as \"${city}\".",
                "type": "object",
            },
            "outputs": {
                "description": "The values taken from the response, by the name of the variable.",
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
                "description": "A duration: `500ms`, `10s`, `2m`.",
                "type": "string",
                "pattern": "^[0-9]+(ms|s|m)$",
            },
            "concurrency": {"type": "integer", "minimum": 1, "maximum": 64},
        },
    })
}

/// Returns the schema of an object with these fields and the author's own `x-…` fields, but no others.
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
                "description": "The purpose of the capability, in one sentence.",
                "type": "string", "minLength": 1, "maxLength": 200,
            },
            "charset": {"description": "utf-8, in upper or lower case.", "type": "string"},
            "domains": {
                "description": "The only hosts that its tasks may send requests to, optionally with a port.",
                "type": "array", "minItems": 1, "maxItems": 100, "uniqueItems": true,
                "items": {"type": "string"},
            },
            "version": {
                "description": "The version of the capability, a semantic version in quotes.",
                "type": "string",
            },
            "checksum": {
                "description": "The checksum of the content; `a2s checksum --write` writes it.",
                "anyOf": [{"$ref": "#/$defs/checksum"}, {"type": "null"}, {"const": ""}],
            },
            "authors": {
                "type": "array", "minItems": 1, "maxItems": 100,
                "items": {"$ref": "#/$defs/author"},
            },
            "permissions": {
                "description": "The permissions that a caller must have (1.1).",
                "type": "array", "minItems": 1, "maxItems": 100, "uniqueItems": true,
                "items": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._:/-]*$", "maxLength": 100},
            },
            "parameters": {
                "description": "The inputs of the capability.",
                "type": "array", "maxItems": 100, "items": {"$ref": "#/$defs/parameter"},
            },
            "dependencies": {
                "description": "The capabilities that its steps use.",
                "type": "array", "maxItems": 100, "items": {"$ref": "#/$defs/dependency"},
            },
            "examples": {
                "description": "Example runs of the capability (1.1).",
                "type": "array", "maxItems": 50, "items": {"$ref": "#/$defs/example"},
            },
            "tasks": {
                "description": "Tasks that several steps share with `$ref: \"#/tasks/NAME\"`.",
                "type": "object",
            },
            "execution": {"$ref": "#/$defs/execution"},
            "output": {"description": "The shape of the result; without it, the result contains every mapped variable."},
        }),
    )
}

fn author() -> Value {
    object(
        &["name"],
        json!({
            "name": text("Name of a person or team."),
            "email": text("Address for mail."),
            "organization": text("Organization of the author."),
            "github": text("Account on GitHub."),
        }),
    )
}

fn parameter() -> Value {
    object(
        &["name"],
        json!({
            "name": {"$ref": "#/$defs/name"},
            "description": text("Meaning of the input."),
            "patterns": {
                "description": "Words, and one `*` at the position of the value in an intent: \"in *\".",
                "type": "array", "maxItems": 100,
                "items": {"type": "string", "pattern": "^[^*]*\\*[^*]*$"},
            },
            "type": {"description": "The type of its values (1.1).", "enum": types()},
            "required": {
                "description": "True when a run requires a value; the default is true, or false for an input with a default value (1.1).",
                "type": "boolean",
            },
            "default": {"description": "The value of a run that does not set the input (1.1)."},
            "enum": {
                "description": "The only values that the input accepts (1.1).",
                "type": "array", "minItems": 1, "maxItems": 100,
            },
            "secret": {
                "description": "True when events, logs, guardians and errors must not contain the value (1.1).",
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
            "checksum": {"description": "The only content that is accepted.", "$ref": "#/$defs/checksum"},
        }),
    )
}

fn example() -> Value {
    object(
        &[],
        json!({
            "title": text("Title of the example."),
            "intent": text("A request in words that the capability fulfils."),
            "inputs": {"description": "A value for each input.", "type": "object"},
            "answers": {
                "description": "The responses of the services, by the id of the task step; for a step inside a used capability, by its path: `getWeather`, `readCities[0]`, `checkWeather/getWeather`.",
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

/// Returns the descriptions, required fields and properties of the three kinds of blocks.
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

/// Returns the schema of one kind of block or step. For a condition, exactly one of two fields must contain
/// the true branch.
fn kind(description: &str, required: &[&str], properties: Value) -> Value {
    let is_condition = properties.get("if_true").is_some();
    let mut kind = object(required, properties);
    kind["description"] = json!(description);
    if is_condition {
        kind["oneOf"] = json!([{"required": ["steps"]}, {"required": ["if_true"]}]);
    }
    kind
}

/// Returns the schema of a step of any kind: the fields of its kind, and the fields that every step has.
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
            "description": "The maximum time of the step, including attempts and pauses (1.1).",
            "$ref": "#/$defs/duration",
        },
        "on_error": {
            "description": "The reaction of the run to a failure of the step: stop or continue (1.1).",
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
        "optional": {"description": "True when a missing value gives null.", "type": "boolean"},
        "default": {"description": "The value of the output when the response does not have the value."},
    });
    let part = |required: &[&str], properties| object(required, merged(extra.clone(), properties));
    json!({
        "anyOf": [
            {"description": "A JSONPath (RFC 9535) into the response.", "$ref": "#/$defs/output/$defs/path"},
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
                "as": {"description": "The variable with the item; the default is `item`.", "$ref": "#/$defs/name"},
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
                "description": "The statuses after which the executor tries again.",
                "type": "array",
                "items": {"type": "integer", "minimum": 400, "maximum": 599},
            },
        }),
    );
    retry["description"] = json!("Repeats the request where a repetition is safe (1.1).");
    retry
}

fn catch() -> Value {
    let mut catch = object(
        &["steps"],
        json!({
            "as": {"description": "The variable with the error; the default is `error`.", "$ref": "#/$defs/name"},
            "steps": {"$ref": "#/$defs/steps"},
        }),
    );
    catch["description"] = json!("Steps that run when the step fails (1.1).");
    catch
}

fn task() -> Value {
    let security = json!({
        "security": {
            "description": "The security requirements, in the form of an OpenAPI operation (1.1).",
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "string"}},
            },
        },
        "securitySchemes": {
            "description": "The schemes that `security` names, in the form of `components.securitySchemes` of OpenAPI (1.1).",
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
                    "server": text("The address of the MCP server: https://mcp.example.com/mcp (1.1)."),
                    "tool": text("The name of the tool, as `tools/list` returns it (1.1)."),
                    "inputSchema": {
                        "description": "The schema of the tool's arguments, as `tools/list` returns it (1.1).",
                        "type": "object",
                    },
                    "outputSchema": {
                        "description": "The schema of the tool's result, as `tools/list` returns it (1.1).",
                        "type": ["object", "boolean"],
                    },
                    "annotations": {
                        "description": "The effects of a call, as stated by the author: `readOnlyHint`, `idempotentHint` (1.1).",
                        "type": "object",
                    },
                })),
            },
            {"required": ["$ref"], "maxProperties": 1},
        ],
    })
}

/// Merges the members of two objects.
fn merged(one: Value, other: Value) -> Value {
    let members = |value| match value {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    let mut all = members(one);
    all.extend(members(other));
    Value::Object(all)
}
