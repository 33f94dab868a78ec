//! What a stand-in accepts, refuses and answers.

use std::collections::BTreeMap;

use a2s::{Document, Domain};
use serde_json::{Value, json};
use test_support::mock_services::MockService;

use super::Stage;
use crate::harness::RUNTIME;
use crate::http::send;

/// A stand-in for the steps of one document.
fn stand_in(text: &str, example: Option<usize>) -> (Stage, MockService) {
    let digest = a2s::compile(text.as_bytes()).digest.unwrap().to_string();
    let text = text.replacen("\nauthors:", &format!("\nchecksum: {digest}\nauthors:"), 1);
    let document = Document::open(text.as_bytes()).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let name = document.capability().name.to_string();
    let stage = Stage::default();
    let example = example.map(|index| document.capability().examples[index].clone());
    stage.set(&name, example.as_ref(), &BTreeMap::from([(name.clone(), document)]));
    let service = stage.services([Domain::new("api.example.com").unwrap()]).remove(0);
    let standin = RUNTIME.block_on(service.start());
    (stage, standin)
}

/// Sends a request, and gives the status and the value of the answer.
fn ask(
    standin: &MockService,
    method: &str,
    target: &str,
    body: Option<(&str, &str)>,
) -> (u16, Value) {
    let url = standin.url().join(target).unwrap();
    let headers: Vec<_> = body.iter().map(|(kind, _)| ("content-type", *kind)).collect();
    let body = body.map(|(_, text)| text.to_owned());
    let (status, text) = send(method, url.as_str(), &headers, body);
    (status, serde_json::from_str(&text).unwrap_or_default())
}

const SHOP: &str = r##"
a2s: 1.1.0
name: ShopForLamps
description: Looks at a shop
domains: [api.example.com]
version: "1.0.0"
authors: [{name: Jane Smith}]
parameters: [{name: room, type: string, default: hall}]
examples:
  - inputs: {}
    answers:
      list: {headers: {x-left: "3"}, body: [{id: 7, name: Lamp of the hall}]}
      order: {status: 418, body: {id: 1}}
execution:
  type: sequence
  steps:
    - id: list
      format: OpenAPI
      task:
        openapi: 3.0.3
        info: {title: Shop, version: "1"}
        servers: [{url: "https://api.example.com/v1"}]
        paths:
          /rooms/{room}/lamps:
            get:
              parameters:
                - {name: room, in: path, required: true, schema: {type: string, minLength: 2}}
                - {name: limit, in: query, required: true, schema: {type: integer, minimum: 1, maximum: 9}}
                - {name: kinds, in: query, explode: false, schema: {type: array, items: {type: string, enum: [desk, wall]}}}
                - {name: x-shop, in: header, schema: {type: string}}
              responses:
                200: {description: Lamps, content: {application/json: {schema: {type: array, items: {$ref: "#/components/schemas/Lamp"}}}}}
        components:
          schemas:
            Lamp:
              type: object
              required: [id, name]
              properties: {id: {type: integer, minimum: 5}, name: {type: string}, note: {type: string, nullable: true}}
      input_mapping: {room: "${room}", limit: 3, kinds: [desk]}
      output_mapping: {lamps: "$[*].id"}
    - id: order
      format: OpenAPI
      task:
        openapi: 3.1.0
        info: {title: Shop, version: "1"}
        servers: [{url: "https://api.example.com/v1"}]
        paths:
          /orders:
            post:
              requestBody:
                required: true
                content: {application/json: {schema: {type: object, required: [lamp], properties: {lamp: {type: integer}}, additionalProperties: false}}}
              responses:
                201: {description: Ordered, content: {application/json: {schema: {type: object}, example: {id: 12}}}}
      input_mapping: {body: {lamp: "${lamps[0]}"}}
      output_mapping: {order: "$.id"}
    - id: rate
      format: OpenAPI
      task:
        openapi: 3.0.3
        info: {title: Shop, version: "1"}
        servers: [{url: "https://api.example.com/v1"}]
        paths:
          /ratings:
            post:
              requestBody:
                required: true
                content: {application/x-www-form-urlencoded: {schema: {type: object, required: [stars], properties: {stars: {type: integer}, text: {type: string}}}}}
              responses: {204: {description: Rated}}
      input_mapping: {body: {stars: 5}}
"##;

#[test]
fn a_request_is_held_to_the_specification() {
    let (stage, standin) = stand_in(SHOP, None);
    let json = "application/json";
    let form = "application/x-www-form-urlencoded";
    let lamps = "/v1/rooms/hall/lamps";
    for (method, target, body, refused) in [
        ("GET", "/v1/rooms/hall/lamps?limit=3&kinds=desk", None, ""),
        ("GET", "/v1/rooms/H%C3%A4ll/lamps?kinds=desk&limit=3", None, ""),
        ("GET", lamps, None, "`limit` is missing"),
        ("GET", "/v1/rooms/hall/lamps?limit=three", None, "`limit`: \"three\" is not of type"),
        ("GET", "/v1/rooms/hall/lamps?limit=10", None, "`limit`: 10 is greater than"),
        ("GET", "/v1/rooms/hall/lamps?limit=3&limit=3", None, "`limit` is given 2 times"),
        ("GET", "/v1/rooms/hall/lamps?limit=3&kinds=desk,roof", None, "`kinds`: \"roof\" is not"),
        ("GET", "/v1/rooms/hall/lamps?limit=3&colour=red", None, "no query parameter `colour`"),
        ("GET", "/v1/rooms/h/lamps?limit=3", None, "`room`: \"h\" is shorter"),
        ("GET", "/v1/rooms/hall/lamps?limit=3", Some((json, "{}")), "does not accept a body"),
        (
            "GET",
            "/v1/rooms/hall/lamps?limit=4&kinds=desk",
            None,
            "queryParameters.limit should be 3",
        ),
        ("GET", "/v1/rooms/hall", None, "no step sends such a request"),
        ("GET", "/v2/rooms/hall/lamps?limit=3&kinds=desk", None, "no step sends such a request"),
        ("DELETE", "/v1/rooms/hall/lamps?limit=3&kinds=desk", None, "no step sends such a request"),
        ("POST", "/v1/orders", Some((json, r#"{"lamp": 7}"#)), ""),
        ("POST", "/v1/orders", None, "the body is missing"),
        (
            "POST",
            "/v1/orders",
            Some(("text/plain", r#"{"lamp": 7}"#)),
            "the body is \"text/plain\"",
        ),
        ("POST", "/v1/orders", Some((json, "lamp")), "the body is not JSON"),
        ("POST", "/v1/orders", Some((json, r#"{"lamp": "7"}"#)), "body: \"7\" is not of type"),
        (
            "POST",
            "/v1/orders",
            Some((json, r#"{"lamp": 7, "x": 1}"#)),
            "body: Additional properties",
        ),
        ("POST", "/v1/ratings", Some((form, "stars=5")), ""),
        ("POST", "/v1/ratings", Some((form, "stars=many")), "body: \"many\" is not of type"),
        ("POST", "/v1/ratings", Some((form, "stars=5&colour=red")), "no field `colour`"),
        ("POST", "/v1/ratings", Some((form, "stars=5&stars=5")), "`stars` is given twice"),
    ] {
        let before = stage.refusals().len();
        let (status, answer) = ask(&standin, method, target, body);
        let reason = answer["refused"].as_str().unwrap_or_default();
        if refused.is_empty() {
            assert!(status < 300, "{method} {target}: {reason}");
        } else {
            assert_eq!(status, 400, "{method} {target}");
            assert!(reason.contains(refused), "{method} {target}: {reason}");
        }
        assert_eq!(stage.refusals().len() - before, usize::from(!refused.is_empty()));
    }
    let reached: Vec<_> = stage.reached().into_iter().map(|(_, step)| step).collect();
    assert_eq!(reached, ["list", "order", "rate"]);
}

#[test]
fn document_example_wins_over_specification_example() {
    let order = Some(("application/json", r#"{"lamp": 7}"#));
    let lamps = "/v1/rooms/hall/lamps?limit=3&kinds=desk";

    let (_, standin) = stand_in(SHOP, None);
    assert_eq!(
        ask(&standin, "GET", lamps, None),
        (200, json!([{ "id": 5, "name": "name", "note": "note" }]))
    );
    assert_eq!(ask(&standin, "POST", "/v1/orders", order), (201, json!({ "id": 12 })));

    let (stage, standin) = stand_in(SHOP, Some(0));
    let listed = json!([{ "id": 7, "name": "Lamp of the hall" }]);
    assert_eq!(ask(&standin, "GET", lamps, None), (200, listed));
    assert_eq!(stage.answered().into_iter().collect::<Vec<_>>(), ["list"]);
    // What the example is given is known, so another room is none of its requests.
    assert_eq!(ask(&standin, "GET", "/v1/rooms/attic/lamps?limit=3&kinds=desk", None).0, 400);
    // A status that the specification does not know is a mistake of the example.
    let (status, answer) = ask(&standin, "POST", "/v1/orders", order);
    assert_eq!(status, 400);
    assert!(answer["refused"].as_str().unwrap().contains("knows no status 418"), "{answer}");
}

/// A document whose only request is answered with a value of this schema.
fn document_about(version: &str, schema: &Value) -> String {
    format!(
        r##"
a2s: 1.1.0
name: ReadAnything
description: Reads anything
domains: [api.example.com]
version: "1.0.0"
authors: [{{name: Jane Smith}}]
execution:
  type: sequence
  steps:
    - id: read
      format: OpenAPI
      task:
        openapi: {version}
        info: {{title: Anything, version: "1"}}
        servers: [{{url: "https://api.example.com"}}]
        paths:
          /:
            get:
              responses:
                200: {{description: Anything, content: {{application/json: {{schema: {schema}}}}}}}
        components:
          schemas:
            Node:
              type: object
              required: [name, nodes]
              properties:
                name: {{type: string}}
                nodes: {{type: array, items: {{$ref: "#/components/schemas/Node"}}}}
            Named: {{type: object, required: [name], properties: {{name: {{type: string}}}}}}
      output_mapping: {{it: "$"}}
"##
    )
}

/// The stand-in holds its own answer to the schema, so one that does not fit is a refusal.
#[test]
fn a_made_up_answer_fits_its_schema() {
    let both = ["3.0.3", "3.1.0"];
    let new = ["3.1.0"];
    let old = ["3.0.3"];
    for (versions, schema) in [
        (&both[..], json!({ "type": "string" })),
        (&both, json!({ "type": "string", "minLength": 30 })),
        (&both, json!({ "type": "string", "maxLength": 2 })),
        (&both, json!({ "type": "string", "pattern": "^[0-9a-f]{32}$" })),
        (&both, json!({ "type": "string", "enum": ["red", "green"] })),
        (&both, json!({ "type": "string", "format": "date" })),
        (&both, json!({ "type": "string", "format": "date-time" })),
        (&both, json!({ "type": "string", "format": "email" })),
        (&both, json!({ "type": "string", "format": "uri" })),
        (&both, json!({ "type": "string", "format": "uuid" })),
        (&both, json!({ "type": "string", "format": "ipv4" })),
        (&both, json!({ "type": "integer", "minimum": 12, "maximum": 20, "multipleOf": 7 })),
        (&both, json!({ "type": "integer", "maximum": -3 })),
        (&both, json!({ "type": "number", "minimum": 0.2, "maximum": 0.3 })),
        (&old, json!({ "type": "integer", "minimum": 1, "exclusiveMinimum": true })),
        (&new, json!({ "type": "integer", "exclusiveMinimum": 1 })),
        (&both, json!({ "type": "array", "minItems": 3, "items": { "type": "boolean" } })),
        (&both, json!({ "type": "array", "maxItems": 0, "items": { "type": "boolean" } })),
        (&both, json!({ "type": "object", "required": ["a"] })),
        (&both, json!({ "type": "object", "additionalProperties": { "type": "number" } })),
        (&old, json!({ "type": "object", "nullable": true, "properties": { "a": {} } })),
        (&new, json!({ "type": ["null", "integer"] })),
        (&new, json!({ "const": 5 })),
        (&both, json!({ "$ref": "#/components/schemas/Node" })),
        (
            &both,
            json!({ "allOf": [
            { "$ref": "#/components/schemas/Named" },
            { "type": "object", "required": ["age"], "properties": { "age": { "type": "integer" } } }
        ] }),
        ),
        (&both, json!({ "oneOf": [{ "type": "integer" }, { "type": "string" }] })),
        (&new, json!({ "anyOf": [{ "type": "null" }, { "$ref": "#/components/schemas/Named" }] })),
    ] {
        for version in versions {
            let (_, standin) = stand_in(&document_about(version, &schema), None);
            let first = ask(&standin, "GET", "/", None);
            assert_eq!(first.0, 200, "{version} {schema}: {}", first.1);
            assert_eq!(first, ask(&standin, "GET", "/", None), "{schema}");
        }
    }
    let nothing = json!({ "type": "string", "minLength": 3, "maxLength": 2 });
    let (stage, standin) = stand_in(&document_about("3.0.3", &nothing), None);
    assert_eq!(ask(&standin, "GET", "/", None).0, 400);
    assert!(stage.refusals()[0].contains("its own answer does not fit"), "{:?}", stage.refusals());
}

const POST: &str = r#"
a2s: 1.1.0
name: PostNote
description: Posts a note
domains: [api.example.com]
version: "1.0.0"
authors: [{name: Jane Smith}]
parameters: [{name: text, type: string}, {name: lamp, type: integer, required: false}]
execution:
  type: sequence
  steps:
    - id: post
      format: GraphQL
      task:
        endpoint: "https://api.example.com/graphql"
        query: "mutation Post($text: String!, $lamp: Int) { post(text: $text, lamp: $lamp) { id tags { name } ...More } } fragment More on Post { author: by { name } }"
      input_mapping: {variables: {text: "${text}", lamp: "${lamp}"}}
      output_mapping: {id: "$.data.post.id", tags: "$.data.post.tags[*].name"}
"#;

#[test]
fn a_graphql_request_is_held_to_its_query() {
    let (_, standin) = stand_in(POST, None);
    let document = a2s::parse_value(POST.as_bytes()).unwrap();
    let query = &document["execution"]["steps"][0]["task"]["query"];
    let post = |variables: Value, query: &Value| {
        let body = json!({ "query": query, "operationName": "Post", "variables": variables });
        ask(&standin, "POST", "/graphql", Some(("application/json", &body.to_string())))
    };
    let (status, answer) = post(json!({ "text": "a", "lamp": 3 }), query);
    assert_eq!(status, 200, "{answer}");
    let made_up = json!({ "id": "id", "tags": [{ "name": "name" }], "author": { "name": "name" } });
    assert_eq!(answer, json!({ "data": { "post": made_up } }));
    for (variables, query, refused) in [
        (json!({ "text": "a" }), query, ""),
        (json!({}), query, "the variable `text` is missing"),
        (json!({ "text": 5 }), query, "`text` is 5, but String! is wanted"),
        (json!({ "text": "a", "lamp": "3" }), query, "`lamp` is \"3\", but Int is wanted"),
        (json!({ "text": "a", "colour": "red" }), query, "no variable `colour`"),
        (json!({ "text": "a" }), &json!("mutation {"), "the query cannot be read"),
        (json!({ "text": "a" }), &json!("{ other }"), "no step sends such a request"),
    ] {
        let (status, answer) = post(variables.clone(), query);
        let reason = answer["refused"].as_str().unwrap_or_default();
        assert_eq!(status, if refused.is_empty() { 200 } else { 400 }, "{variables}: {answer}");
        assert!(reason.contains(refused), "{variables}: {reason}");
    }
    assert_eq!(ask(&standin, "GET", "/graphql", None).0, 400);
    assert_eq!(ask(&standin, "POST", "/graphql", Some(("text/plain", "{}"))).0, 400);
}
