//! A server with the tools, resources and prompts that the conformance suite has scenarios for,
//! behind the transport of ours.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ElicitRequestParams, ErrorData,
    GetPromptRequestParams, GetPromptResponse, ListPromptsResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, Prompt,
    ReadResourceRequestParams, ReadResourceResponse, Resource, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, Tool, UnsubscribeRequestParams,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::harness::RUNTIME;

/// Serves it for as long as the tests run, and says where.
pub(super) fn serve(limits: agent::mcp::Limits) -> String {
    RUNTIME.block_on(async {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = agent::mcp::over_http(|| Everything, limits, Default::default());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    })
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

/// JSON as the type that the server gives.
fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
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
        let tools = TOOLS.into_iter().chain([ENUMS]);
        let tools = tools.map(|name| Tool::new(name, format!("Tests {name}"), schema.clone()));
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = &*request.name;
        if let Some(content) = content(tool) {
            return Ok(of::<CallToolResult>(json!({ "content": content })).into());
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
            return Ok(of::<CallToolResult>(json!({ "content": words })).into());
        }
        if tool == "test_error_handling" {
            let words = [text("This tool intentionally returns an error for testing")];
            let result: CallToolResult = of(json!({"isError": true, "content": words}));
            return Ok(result.into());
        }
        if let Some(token) = context.meta.get_progress_token() {
            for progress in [0.0, 50.0, 100.0] {
                let progress = ProgressNotificationParam::new(token.clone(), progress);
                context.peer.notify_progress(progress.with_total(100.0)).await.unwrap();
            }
        }
        Ok(of::<CallToolResult>(json!({"content": [text("done")]})).into())
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
                let id =
                    other.strip_prefix("test://template/").unwrap().strip_suffix("/data").unwrap();
                let data = format!("Data for ID: {id}");
                let text = json!({"id": id, "templateTest": true, "data": data}).to_string();
                json!({"uri": uri, "mimeType": "application/json", "text": text})
            }
        };
        Ok(of::<rmcp::model::ReadResourceResult>(json!({"contents": [contents]})).into())
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

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let names = [
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
        Ok(of::<rmcp::model::GetPromptResult>(json!({ "messages": messages })).into())
    }
}
