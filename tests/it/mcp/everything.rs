//! A server with the tools, resources and prompts that the conformance suite has scenarios for,
//! behind the transport of ours.

mod rounds;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities,
    ElicitRequestParams, ErrorData, GetPromptRequestParams, GetPromptResponse, ListPromptsResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    Prompt, ReadResourceRequestParams, ReadResourceResponse, Resource, ServerCapabilities,
    ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::harness::RUNTIME;

/// Serves it for as long as the tests run, and says where.
pub(super) fn serve(limits: mcp::Limits) -> String {
    // Its sessions end with a task of the runtime.
    let _entered = RUNTIME.enter();
    let router = mcp::over_http(|| Everything, limits, Default::default());
    format!("{}/mcp", crate::harness::serve(router))
}

#[derive(Debug, Clone)]
struct Everything;

const TOOLS: [&str; 9] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_error_handling",
    "test_tool_with_progress",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
];
const ENUMS: &str = "test_elicitation_sep1330_enums";
/// It needs sampling, and says so to a client without.
const NEEDY: &str = "test_missing_capability";
/// A call with a stream that asks nothing on it.
const STREAMING: &str = "test_streaming_elicitation";
/// A call that could log.
const LOGGING: &str = "test_logging_tool";
/// A tool whose schema has what the newest JSON Schema has.
const SCHEMA: &str = "json_schema_2020_12_tool";

/// JSON as the type that the server gives.
fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A result that is complete, which answers of 2026-07-28 say.
fn complete<T: DeserializeOwned>(mut value: Value) -> T {
    value["resultType"] = json!("complete");
    of(value)
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// One red pixel.
fn image() -> Value {
    json!({"type": "image", "data": pixel(), "mimeType": "image/png"})
}

fn pixel() -> String {
    const PNG: [u8; 16] = *b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    BASE64_STANDARD.encode(PNG)
}

fn resource(uri: &str, kind: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}})
}

/// What a tool answers that asks nobody.
fn content(tool: &str) -> Option<Value> {
    Some(match tool {
        "test_simple_text" => json!([text("This is a simple text response for testing.")]),
        "test_image_content" => json!([image()]),
        "test_audio_content" => {
            let data = BASE64_STANDARD.encode(b"RIFF\x24\0\0\0WAVEfmt ");
            json!([{"type": "audio", "data": data, "mimeType": "audio/wav"}])
        }
        "test_embedded_resource" => json!([resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content."
        )]),
        "test_multiple_content_types" => json!([
            text("Multiple content types test:"),
            image(),
            resource(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#
            ),
        ]),
        _ => return None,
    })
}

/// The form that a tool shows.
fn form(tool: &str) -> Option<Value> {
    let choices = ["option1", "option2", "option3"];
    let titled = |first: &str| json!([{"const": "value1", "title": first}, {"const": "value2", "title": "Second"}]);
    let properties = match tool {
        "test_elicitation" => json!({
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        }),
        "test_elicitation_sep1034_defaults" => json!({
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {
                "type": "string", "enum": ["active", "inactive", "pending"], "default": "active",
            },
            "verified": {"type": "boolean", "default": true},
        }),
        ENUMS => json!({
            "untitledSingle": {"type": "string", "enum": choices},
            "titledSingle": {"type": "string", "oneOf": titled("First Option")},
            "legacyEnum": {
                "type": "string", "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": choices}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled("First Choice")}},
        }),
        _ => return None,
    };
    Some(json!({"type": "object", "properties": properties, "required": []}))
}

/// The schema of the suite for keywords of JSON Schema 2020-12.
fn newest() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {
            "properties": {"contactMethod": {"const": "phone"}},
            "required": ["contactMethod"],
        },
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

impl ServerHandler for Everything {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(
            ServerCapabilities::builder()
                .enable_tools()
                .enable_resources()
                .enable_resources_subscribe()
                .enable_prompts()
                .enable_completions()
                .build(),
        )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = rmcp::model::JsonObject::from_iter([("type".to_owned(), json!("object"))]);
        let tools = TOOLS.into_iter().chain([ENUMS, NEEDY, STREAMING, LOGGING]);
        let tools = tools.chain(rounds::TOOLS);
        let tools = tools.map(|name| Tool::new(name, format!("Tests {name}"), schema.clone()));
        let newest =
            Tool::new(SCHEMA, "Tests JSON Schema", of::<rmcp::model::JsonObject>(newest()));
        Ok(ListToolsResult::with_all_items(tools.chain([newest]).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if rounds::TOOLS.contains(&&*request.name) {
            return rounds::call(&request, &context);
        }
        let tool = &*request.name;
        if tool == NEEDY {
            let needed: ClientCapabilities = of(json!({"sampling": {}}));
            return Err(ErrorData::missing_required_client_capability(needed));
        }
        if !TOOLS.contains(&tool) && ![ENUMS, STREAMING, LOGGING, SCHEMA].contains(&tool) {
            return Err(ErrorData::invalid_params("there is no such tool", None));
        }
        if let Some(content) = content(tool) {
            return Ok(complete::<CallToolResult>(json!({ "content": content })).into());
        }
        if let Some(form) = form(tool) {
            let message = request.arguments.and_then(|arguments| arguments.get("message").cloned());
            let message = message.unwrap_or_else(|| json!("Please answer"));
            let asked: ElicitRequestParams =
                of(json!({"mode": "form", "message": message, "requestedSchema": form}));
            let answer = context.peer.create_elicitation_with_timeout(asked, None).await.unwrap();
            let answer = json!(answer);
            let words = format!(
                "action={}, content={}",
                answer["action"].as_str().unwrap(),
                answer["content"]
            );
            let words = [text(&format!("Elicitation completed: {words}"))];
            return Ok(complete::<CallToolResult>(json!({ "content": words })).into());
        }
        if tool == "test_error_handling" {
            let words = [text("This tool intentionally returns an error for testing")];
            let result: CallToolResult = complete(json!({"isError": true, "content": words}));
            return Ok(result.into());
        }
        if let Some(token) = context.meta.get_progress_token() {
            for progress in [0.0, 50.0, 100.0] {
                let progress = ProgressNotificationParam::new(token.clone(), progress);
                context.peer.notify_progress(progress.with_total(100.0)).await.unwrap();
            }
        }
        Ok(complete::<CallToolResult>(json!({"content": [text("done")]})).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let uris = ["test://static-text", "test://static-binary", "test://watched-resource"];
        let resources = uris.map(|uri| Resource::new(uri, uri).with_description("A test"));
        Ok(ListResourcesResult::with_all_items(resources.into()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = &request.uri;
        let contents = match uri.as_str() {
            "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": pixel()}),
            "test://static-text" => json!({
                "uri": uri, "mimeType": "text/plain",
                "text": "This is the content of the static text resource.",
            }),
            other => {
                let id = other.strip_prefix("test://template/");
                let id = id.and_then(|rest| rest.strip_suffix("/data")).ok_or_else(|| {
                    ErrorData::resource_not_found("there is none", Some(json!({ "uri": uri })))
                })?;
                let data = format!("Data for ID: {id}");
                let text = json!({"id": id, "templateTest": true, "data": data}).to_string();
                json!({"uri": uri, "mimeType": "application/json", "text": text})
            }
        };
        let read = json!({"contents": [contents], "ttlMs": 0, "cacheScope": "private"});
        Ok(complete::<rmcp::model::ReadResourceResult>(read).into())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    /// Nothing that it lists ever changes.
    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::default())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        context.cancelled().await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let names = [
            rounds::PROMPT,
            "test_simple_prompt",
            "test_prompt_with_arguments",
            "test_prompt_with_embedded_resource",
            "test_prompt_with_image",
        ];
        let prompts = names.map(|name| Prompt::new(name, Some("A test"), None));
        Ok(ListPromptsResult::with_all_items(prompts.into()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name == rounds::PROMPT {
            return Ok(rounds::prompt(&request));
        }
        let given = json!(request.arguments);
        let content = match request.name.as_str() {
            "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
            "test_prompt_with_image" => vec![image(), text("Please analyze the image above.")],
            "test_prompt_with_embedded_resource" => {
                let uri = given["resourceUri"].as_str().unwrap();
                vec![
                    resource(uri, "text/plain", "Embedded resource content for testing."),
                    text("Please process the embedded resource above."),
                ]
            }
            _ => {
                let [one, two] = ["arg1", "arg2"].map(|name| given[name].as_str().unwrap());
                vec![text(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
            }
        };
        let messages: Vec<_> = content
            .into_iter()
            .map(|content| json!({"role": "user", "content": content}))
            .collect();
        Ok(complete::<rmcp::model::GetPromptResult>(json!({ "messages": messages })).into())
    }
}
