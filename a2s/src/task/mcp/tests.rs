//! MCP tasks, and what the compiler says of them.

use serde_json::{Value, json};

use super::{HeaderParameter, McpTask};
use crate::document::StepAction;
use crate::task::InputLocation;
use crate::task::Task;
use crate::{CapabilityInterface, compile};

/// A tool as `tools/list` shows it.
fn task(more: &Value) -> Value {
    let mut task = json!({
        "server": "https://mcp.example/mcp",
        "tool": "get_forecast",
        "inputSchema": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where"},
                "days": {"$ref": "#/$defs/Days"},
            },
            "required": ["city"],
            "$defs": {"Days": {"type": "integer", "minimum": 1}},
        },
        "outputSchema": {
            "type": "object",
            "properties": {"days": {"type": "array", "items": {"$ref": "#/$defs/Day"}}},
            "required": ["days"],
            "$defs": {"Day": {"type": "object", "properties": {"high": {"type": "number"}}}},
        },
    });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

fn document(more: &Value) -> Value {
    let mut document = json!({
        "a2s": "1.1.0",
        "name": "Forecast",
        "description": "A forecast",
        "domains": ["mcp.example"],
        "version": "1.0.0",
        "authors": [{"name": "A"}],
        "execution": {"type": "sequence", "steps": [{
            "id": "ask",
            "format": "MCP",
            "task": task(&json!({})),
            "input_mapping": {"arguments": {"city": "${city}", "days": 3}},
            "output_mapping": {"high": "$.days[0].high"},
        }]},
    });
    for (pointer, value) in more.as_object().unwrap() {
        *document.pointer_mut(pointer).unwrap() = value.clone();
    }
    document
}

const STEP: &str = "/execution/steps/0";

fn at(below: &str) -> String {
    format!("{STEP}/{below}")
}

/// What is wrong with a document: code, place and words.
fn found(document: &Value) -> Vec<String> {
    let found = compile(document.to_string().as_bytes()).diagnostics;
    let found = found.iter().filter(|one| one.code != "A2S030");
    found.map(|one| format!("{} {} {}", one.code, one.path, one.message)).collect()
}

#[track_caller]
fn refuses(pointer: &str, value: Value, expected: &str) {
    let changed = [(pointer.to_owned(), value)].into_iter().collect();
    let told = found(&document(&Value::Object(changed)));
    assert!(told.iter().any(|one| one.contains(expected)), "{told:#?}");
}

fn read(document: &Value) -> McpTask {
    let compilation = compile(document.to_string().as_bytes());
    let document = compilation.document.unwrap_or_else(|| panic!("{:#?}", compilation.diagnostics));
    let block = &document.capability().execution;
    let StepAction::Task { task, .. } = &block.children()[0].action else { panic!() };
    let Task::Mcp(task) = &**task else { panic!() };
    (**task).clone()
}

#[test]
fn a_tool_is_read_as_the_server_lists_it() {
    assert_eq!(found(&document(&json!({}))), Vec::<String>::new());
    let tool = read(&document(&json!({})));
    assert_eq!(tool.server.as_str(), "https://mcp.example/mcp");
    assert_eq!(tool.arguments().collect::<Vec<_>>(), ["city", "days"]);
    assert_eq!(tool.required().collect::<Vec<_>>(), ["city"]);
    let sample = tool.outputs().samples(&tool.output_schema).next();
    assert_eq!(sample, Some(json!({"days": [{"high": 1.5}]})));
    assert_eq!("arguments.a.b".parse(), Ok(InputLocation::Argument("a.b".to_owned())));
}

#[test]
fn without_a_word_of_the_document_a_call_changes_something() {
    let hints = |hints: Value| {
        let task = Task::Mcp(Box::new(read(&document(&json!({
            at("task"): task(&json!({"annotations": hints})),
        })))));
        (task.is_read_only(), task.is_idempotent())
    };
    let silent = Task::Mcp(Box::new(read(&document(&json!({})))));
    assert!(!silent.is_read_only() && !silent.is_idempotent());
    assert_eq!(hints(json!({"destructiveHint": false, "openWorldHint": true})), (false, false));
    assert_eq!(hints(json!({"idempotentHint": true, "title": "Set"})), (false, true));
    assert_eq!(hints(json!({"readOnlyHint": true})), (true, true));
    assert_eq!(hints(json!({"readOnlyHint": false, "idempotentHint": false})), (false, false));
}

#[test]
fn what_is_no_tool_is_refused_at_its_place() {
    let t = at("task");
    let broken = |more: Value| task(&more);
    for (more, expected) in [
        (json!({"server": "mcp.example/mcp"}), "A2S080 execution.steps[0].task.server"),
        (json!({"server": "stdio://mcp.example"}), "does not start with `https://`"),
        (json!({"server": "https://other.example/mcp"}), "A2S052 execution.steps[0].task.server"),
        (json!({"tool": ""}), "A2S080 execution.steps[0].task.tool"),
        (json!({"tool": "a\nb"}), "`a\\nb` is not a valid name of a tool"),
        (json!({"inputSchema": []}), "A2S012 execution.steps[0].task.inputSchema"),
        (
            json!({"inputSchema": {"type": "array"}}),
            "A2S080 execution.steps[0].task.inputSchema.type",
        ),
        (json!({"outputSchema": "string"}), "A2S012 execution.steps[0].task.outputSchema"),
        (json!({"headers": {"Mcp-Session-Id": "x"}}), "A2S080 execution.steps[0].task.headers"),
        (json!({"headers": {"Authorization": "x"}}), "must not set the header `Authorization`"),
        (json!({"annotations": {"readOnlyHint": "yes"}}), "A2S012"),
        (
            json!({"annotations": {"readOnlyHint": true, "destructiveHint": true}}),
            "a read-only tool cannot be destructive",
        ),
        (json!({"annotations": {"safe": true}}), "A2S011 execution.steps[0].task.annotations.safe"),
        (json!({"command": "npx"}), "A2S011 execution.steps[0].task.command"),
    ] {
        refuses(&t, broken(more), expected);
    }
    let mut nothing = document(&json!({}));
    nothing.pointer_mut(&t).unwrap().as_object_mut().unwrap().remove("tool");
    assert!(found(&nothing)[0].contains("an MCP task requires the field `tool`"));
}

#[test]
fn the_format_came_with_1_1() {
    refuses("/a2s", json!("1.0.0"), "A2S021 execution.steps[0].format the format `MCP` requires");
}

#[test]
fn formats_that_are_not_run_say_what_to_do() {
    refuses(
        &at("format"),
        json!("AsyncAPI"),
        "A2S056 execution.steps[0].format `AsyncAPI` is not supported",
    );
    refuses(&at("format"), json!("custom"), "`Custom` is not supported");
    refuses(
        &at("format"),
        json!("SOAP"),
        "A2S013 execution.steps[0].format `SOAP` is not a valid format",
    );
}

#[test]
fn arguments_are_held_to_the_schema() {
    let arguments = at("input_mapping");
    let map = |arguments: Value| json!({"arguments": arguments});
    refuses(
        &arguments,
        map(json!({"days": 1})),
        "A2S055 execution.steps[0] the step does not map `arguments.city`",
    );
    refuses(&arguments, map(json!({"city": "x", "day": 1})), "A2S053");
    refuses(
        &arguments,
        map(json!({"city": 3})),
        "A2S057 execution.steps[0].input_mapping.arguments.city",
    );
    refuses(&arguments, map(json!({"city": "x", "days": "soon"})), "A2S057");
    refuses(&arguments, json!({"city": "x"}), "an MCP step accepts `arguments`, not `city`");
    refuses(&at("output_mapping"), json!({"low": "$.days[0].low"}), "A2S058");
}

#[test]
fn arguments_are_free_where_the_schema_leaves_them_so() {
    for schema in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"city": {}}, "additionalProperties": true}),
        json!({"properties": {"city": {}}, "anyOf": [{}]}),
    ] {
        let open = document(&json!({at("task/inputSchema"): schema}));
        assert_eq!(found(&open), Vec::<String>::new());
    }
    let closed = json!({"type": "object", "additionalProperties": false});
    refuses(&at("task/inputSchema"), closed, "the task does not accept an input `city`");
}

#[test]
fn the_interface_is_that_of_the_tool() {
    let document = document(&json!({}));
    let document = compile(document.to_string().as_bytes()).document.unwrap();
    let interface = CapabilityInterface::from_capability(document.capability());
    let city = &interface.inputs[0];
    assert_eq!((city.name.as_str(), &city.schema["type"]), ("city", &json!("string")));
    assert_eq!(interface.outputs[0].schema["type"], "number");
}

#[test]
fn answers_of_examples_are_what_the_tool_gives() {
    let with = |answer: Value| {
        let mut document = document(&json!({}));
        document["examples"] =
            json!([{"inputs": {"city": "Bern"}, "answers": {"ask": {"body": answer}}}]);
        found(&document)
    };
    assert_eq!(with(json!({"days": [{"high": 3}]})), Vec::<String>::new());
    assert_eq!(with(json!({"isError": true, "content": []})), Vec::<String>::new());
    for (answer, expected) in [
        (json!({"days": "none"}), "A2S059 examples[0].answers.ask"),
        (json!({"days": []}), "A2S059 examples[0].answers.ask"),
    ] {
        let told = with(answer);
        assert!(told.iter().any(|one| one.starts_with(expected)), "{told:?}");
    }
}

#[test]
fn properties_that_go_into_headers_are_found() {
    let schema = |city: Value, more: Value| {
        let mut schema = json!({"type": "object", "properties": {
            "city": city,
            "place": {"type": "object", "properties": {"x-mcp-header": {"type": "boolean", "x-mcp-header": "Near"}}},
        }});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let pointer = at("task/inputSchema");
    let city = json!({"type": "string", "x-mcp-header": "City"});
    let good = document(&json!({&pointer: schema(city, json!({"default": {"x-mcp-header": 1}}))}));
    let mut good = good;
    good["execution"]["steps"][0]["input_mapping"]["arguments"] = json!({"city": "x"});
    let mirrored = |path: &[&str], header: &str| HeaderParameter {
        path: path.iter().map(|&name| name.to_owned()).collect(),
        header: header.to_owned(),
    };
    assert_eq!(
        read(&good).header_parameters,
        [mirrored(&["city"], "City"), mirrored(&["place", "x-mcp-header"], "Near")]
    );
    for (city, more, expected) in [
        (json!({"type": "string", "x-mcp-header": "a b"}), json!({}), "the end of a header name"),
        (json!({"type": "string", "x-mcp-header": ""}), json!({}), "the end of a header name"),
        (json!({"type": "number", "x-mcp-header": "A"}), json!({}), "a string, a whole number"),
        (json!({"type": "string", "x-mcp-header": "near"}), json!({}), "two properties use"),
        (json!({}), json!({"x-mcp-header": "A"}), "only a property can be sent as a header"),
        (json!({"items": {"type": "string", "x-mcp-header": "A"}}), json!({}), "only a property"),
        (
            json!({}),
            json!({"$defs": {"A": {"properties": {"b": {"x-mcp-header": "A"}}}}}),
            "only a property",
        ),
    ] {
        refuses(&pointer, schema(city, more), expected);
    }
}
