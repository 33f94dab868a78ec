use a2s::compile_with_checksum;
use proptest::prelude::*;
use serde_json::json;

use super::super::mutate::{mangle, mistakes};
use super::super::{ImportResult, ImportWarning};
use super::*;

/// The service that the workflows use.
fn service() -> Value {
    let text = |name: &str, place: &str| json!({"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}});
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": "https://api.shop.example"}],
        "paths": {
            "/items": {"get": {
                "operationId": "findItems",
                "parameters": [
                    text("q", "query"),
                    {"name": "limit", "in": "query", "schema": {"type": "integer"}},
                    text("X-Trace", "header"),
                ],
                "responses": {"200": {"description": "", "content": {"application/json": {"schema": {
                    "type": "object",
                    "properties": {
                        "items": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string"}}}},
                        "total.count": {"type": "integer"},
                        "state": {"type": "string"},
                        "page": {"type": "object", "properties": {"next": {"type": "string"}}},
                    },
                }}}}},
            }},
            "/items/{id}": {"post": {
                "operationId": "orderItem",
                "parameters": [
                    text("id", "path"),
                    {"name": "region", "in": "query", "required": true, "schema": {"type": "string"}},
                ],
                "requestBody": {"required": true, "content": {"application/json": {"schema": {
                    "type": "object",
                    "required": ["count", "note"],
                    "properties": {"count": {"type": "integer"}, "note": {"type": "string"}, "tags": {"type": "array", "items": {}}},
                }}}},
                "responses": {"201": {"description": "", "content": {"application/json": {"schema": {
                    "type": "object", "properties": {"order": {"type": "string"}},
                }}}}},
            }},
        },
    })
}

fn import(workflows: &Value, components: &Value) -> ImportResult {
    let document = json!({
        "arazzo": "1.0.1",
        "info": {"title": "Flows", "version": "1.0.0"},
        "sourceDescriptions": [{"name": "shop", "url": "./shop.json", "type": "openapi"}],
        "workflows": workflows,
        "components": components,
    });
    let named = arazzo_sources(&document).unwrap();
    let expected = SourceDescription { name: "shop".to_owned(), url: "./shop.json".to_owned() };
    assert_eq!(named, [expected]);
    let source = ArazzoSource { description: service(), base: None };
    let sources = BTreeMap::from([("shop".to_owned(), source)]);
    import_arazzo(&document, &sources, &ArazzoOptions::default()).unwrap()
}

/// The only document, and its remarks.
#[track_caller]
fn import_one(workflow: &Value, components: &Value) -> (Value, String) {
    let imported = import(&json!([workflow]), components);
    assert_eq!(imported.refused, []);
    let document = &imported.documents[0];
    let compilation = compile_with_checksum(document.text.as_bytes());
    assert!(compilation.document.is_some(), "{:?}\n{}", compilation.diagnostics, document.text);
    let reasons: Vec<_> = document.remarks.iter().map(|remark| remark.reason.as_str()).collect();
    (a2s::parse_value(document.text.as_bytes()).unwrap(), reasons.join("\n"))
}

/// A workflow with something of everything.
fn order() -> Value {
    json!({
        "workflowId": "order-first-item",
        "summary": "Orders the first item that is found",
        "inputs": {"type": "object", "required": ["word"], "properties": {
            "word": {"type": "string", "description": "A word"},
            "limit": {"type": "string", "default": "5"},
            "unused": {"type": "string"},
        }},
        "parameters": [{"reference": "$components.parameters.trace"}],
        "steps": [
            {
                "stepId": "find",
                "operationId": "findItems",
                "parameters": [
                    {"name": "q", "in": "query", "value": "{$inputs.word} ${x}"},
                    {"name": "limit", "in": "query", "value": "$inputs.limit"},
                ],
                "successCriteria": [{"condition": "$statusCode == 200"}],
                "outputs": {
                    "first": "$response.body#/items/0/id",
                    "next": "$response.body#/page.next",
                    "count": "$response.body#/total.count",
                    "left": "$response.header.X-Left",
                    "status": "$statusCode",
                    "unread": "$response.body#/state",
                },
            },
            {
                "stepId": "order",
                "operationPath": "{$sourceDescriptions.shop.url}#/paths/~1items~1{id}/post",
                "parameters": [
                    {"name": "id", "in": "path", "value": "$steps.find.outputs.first"},
                    {"name": "region", "in": "query", "value": "eu"},
                    {"name": "nothing", "in": "query", "value": 1},
                ],
                "requestBody": {
                    "payload": {"count": "$inputs.count", "note": "for {$inputs.word}", "tags": ["a"]},
                    "replacements": [{"target": "/tags/0", "value": "$steps.find.outputs.next"}],
                },
                "outputs": {"order": "$response.body#/order"},
            },
        ],
        "outputs": {
            "order.id": "$steps.order.outputs.order",
            "count": "$steps.find.outputs.count",
            "left": "$steps.find.outputs.left",
            "status": "$steps.find.outputs.status",
            "odd": "$url",
        },
    })
}

#[test]
fn steps_hand_their_outputs_on() {
    let (document, remarks) = import_one(
        &order(),
        &json!({"parameters": {"trace": {"name": "X-Trace", "in": "header", "value": "t"}}}),
    );
    assert_eq!(document["name"], "OrderFirstItem");
    assert_eq!(document["domains"], json!(["api.shop.example"]));
    assert_eq!(
        document["parameters"],
        json!([
            {"name": "word", "description": "A word", "type": "string"},
            // The workflow does not declare it; the operation knows what it is.
            {"name": "count", "type": "integer"},
            // A text where the operation takes a number, with a default that is none.
            {"name": "limit", "type": "integer", "required": false},
        ])
    );
    let steps = &document["execution"]["steps"];
    assert_eq!(
        steps[0]["input_mapping"],
        json!({
            "queryParameters": {"q": "${word} $${x}", "limit": "${limit}"},
            "headerParameters": {"X-Trace": "t"},
        })
    );
    assert_eq!(
        steps[0]["output_mapping"],
        json!({
            "find.first": "$.items[0].id",
            "find.next": "$.page.next",
            "find.count": {"path": "$['total.count']", "optional": true},
            "find.left": {"from": "header", "path": "X-Left", "optional": true},
            "find.status": {"from": "status"},
        })
    );
    assert_eq!(
        steps[1]["input_mapping"],
        json!({
            "pathParameters": {"id": "${find.first}"},
            "queryParameters": {"region": "eu"},
            "body": {"count": "${count}", "note": "for ${word}", "tags": ["${find.next}"]},
        })
    );
    assert_eq!(
        document["output"],
        json!({
            "order_id": "${order.order}", "count": "${find.count}", "left": "${find.left}",
            "status": "${find.status}",
        })
    );
    for reason in [
        "no parameter `nothing`",
        "does not declare the input `count`",
        "uses `limit` as a whole number, not a string",
        "the import reads `#/page.next` as the path `$.page.next`",
        "`$url` is not available at this location",
    ] {
        assert!(remarks.contains(reason), "{reason} in {remarks}");
    }
}

#[test]
fn texts_that_are_no_expressions_stay_literals() {
    let (document, remarks) = import_one(
        &json!({
            "workflowId": "literals",
            "steps": [{
                "stepId": "order",
                "operationId": "orderItem",
                "parameters": [
                    {"name": "id", "in": "path", "value": "$5"},
                    {"name": "region", "in": "query", "value": "$filter"},
                ],
                "requestBody": {"payload": {
                    "count": 1,
                    "note": "$.items[*].attributes[?(@.type=='foo')]",
                    "tags": ["$5 and $inputs is text", "{$5}", "$", "$inputsX.a", "$.a.b"],
                }},
            }],
            "outputs": {"price": "$5"},
        }),
        &json!({}),
    );
    assert!(document.get("parameters").is_none(), "{document}");
    let mapping = &document["execution"]["steps"][0]["input_mapping"];
    assert_eq!(mapping["pathParameters"]["id"], "$5");
    assert_eq!(mapping["queryParameters"]["region"], "$filter");
    assert_eq!(mapping["body"]["note"], "$.items[*].attributes[?(@.type=='foo')]");
    let tags = json!(["$5 and $inputs is text", "{$5}", "$", "$inputsX.a", "$.a.b"]);
    assert_eq!(mapping["body"]["tags"], tags);
    assert_eq!(document["output"]["price"], "$5");
    assert_eq!(remarks, "");
}

#[test]
fn retries_are_carried_over_and_jumps_are_told() {
    let (document, remarks) = import_one(
        &json!({
            "workflowId": "find",
            "steps": [{
                "stepId": "find",
                "operationId": "findItems",
                "onFailure": [
                    {"reference": "$components.failureActions.again"},
                    {"name": "jump", "type": "goto", "stepId": "find"},
                    {"name": "stop", "type": "end"},
                ],
                "onSuccess": [{"name": "done", "type": "end"}],
            }],
        }),
        &json!({"failureActions": {"again": {
            "name": "again", "type": "retry", "retryAfter": 0.5, "retryLimit": 20,
            "criteria": [{"condition": "$statusCode == 503 || $statusCode == 429"}],
        }}}),
    );
    let retry = &document["execution"]["steps"][0]["retry"];
    assert_eq!(
        *retry,
        json!({"max_attempts": 10, "initial_delay": "500ms", "backoff": "constant", "on_status": [429, 503]})
    );
    for reason in ["at most 10 attempts, not 21", "`goto` to another step", "`end` after success"] {
        assert!(remarks.contains(reason), "{reason} in {remarks}");
    }
}

#[test]
fn criteria_about_values_guard_the_steps_behind_them() {
    let step = |id: &str, criteria: Value| json!({"stepId": id, "operationId": "findItems", "successCriteria": criteria, "outputs": {"state": "$response.body#/state"}});
    let (document, remarks) = import_one(
        &json!({
            "workflowId": "guarded",
            "inputs": {"properties": {"wanted": {"type": "string"}}},
            "steps": [
                step("one", json!([
                    {"condition": "$response.body#/state == $inputs.wanted && $statusCode == 200"},
                    {"context": "$response.body#/state", "type": "regex", "condition": "^op'en$"},
                    {"context": "$response.body", "type": "jsonpath", "condition": "$[?@.a]"},
                ])),
                step("two", json!([{"condition": "$statusCode == 404"}])),
                step("three", json!([{"condition": "$response.body#/state != 'x'"}])),
            ],
            "outputs": {"last": "$steps.three.outputs.state"},
        }),
        &json!({}),
    );
    let execution = &document["execution"];
    let shared = json!({"shared": {"two": "object", "three": "object"}});
    assert_eq!(execution["variables"], shared);
    let guard = &execution["steps"][1];
    assert_eq!(guard["type"], "condition");
    assert_eq!(
        guard["condition"],
        "(${one.criterion2} == ${wanted} && ${one.criterion3} == 200) && (string(${one.criterion4}).matches('^op\\'en\\u0024'))"
    );
    let ids: Vec<_> =
        guard["if_true"]["steps"].as_array().unwrap().iter().map(|s| &s["id"]).collect();
    assert_eq!(ids, ["two", "three"]);
    for reason in [
        "the steps after it do not run",
        "only with a status of 2xx",
        "the last step; its criterion is not checked",
        "`jsonpath` are not supported",
    ] {
        assert!(remarks.contains(reason), "{reason} in {remarks}");
    }
}

#[test]
fn a_workflow_that_uses_another_depends_on_its_document() {
    let imported = import(
        &json!([
            {
                "workflowId": "outer",
                "inputs": {"properties": {"what": {"type": "string"}}},
                "steps": [{
                    "stepId": "inner-step",
                    "workflowId": "inner",
                    "parameters": [{"name": "word", "value": "$inputs.what"}, {"name": "no", "value": 1}],
                }],
                "outputs": {"id": "$steps.inner-step.outputs.first"},
            },
            {
                "workflowId": "inner",
                "inputs": {"required": ["word"], "properties": {"word": {"type": "string"}}},
                "steps": [{
                    "stepId": "find",
                    "operationId": "findItems",
                    "parameters": [{"name": "q", "in": "query", "value": "$inputs.word"}],
                    "outputs": {"first": "$response.body#/items/0/id"},
                }],
                "outputs": {"first": "$steps.find.outputs.first"},
            },
            {"workflowId": "circle", "steps": [{"stepId": "a", "workflowId": "circle"}]},
            {"workflowId": "lost", "steps": [{"stepId": "a", "operationId": "nothing"}]},
        ]),
        &json!({}),
    );
    let [outer, inner] = imported.documents.as_slice() else { panic!("{:?}", imported.refused) };
    let content = a2s::parse_value(outer.text.as_bytes()).unwrap();
    assert_eq!(
        content["dependencies"],
        json!([{"capability": "Inner", "version": "^1.0.0", "checksum": inner.checksum}])
    );
    assert_eq!(content["domains"], json!(["api.shop.example"]));
    let step = &content["execution"]["steps"][0];
    assert_eq!(step["use"], "Inner");
    assert_eq!(step["input_mapping"], json!({"word": "${what}"}));
    let outputs = json!({"inner-step.first": {"path": "$.first", "optional": true}});
    assert_eq!(step["output_mapping"], outputs);
    assert!(outer.remarks.iter().any(|remark| remark.reason.contains("no input `no`")));
    let refused: Vec<_> = imported.refused.iter().map(|r| r.reason.as_str()).collect();
    assert!(
        refused[0].contains("in a cycle") || refused[0].contains("not imported"),
        "{refused:?}"
    );
    assert!(refused[1].contains("`nothing`"), "{refused:?}");
}

#[test]
fn what_has_no_value_becomes_an_input() {
    let (document, remarks) = import_one(
        &json!({
            "workflowId": "order",
            "steps": [
                {"stepId": "find", "operationId": "findItems", "outputs": {"all": "$response.body#/items"}},
                {
                    "stepId": "order",
                    "operationId": "orderItem",
                    "parameters": [{"name": "id", "in": "path", "value": "$steps.find.outputs.all"}],
                    "requestBody": {"payload": {"count": "$steps.gone.outputs.x", "tags": []}},
                },
            ],
        }),
        &json!({}),
    );
    let names: Vec<_> = document["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["order_id", "region", "order_count", "note"]);
    for reason in [
        "is a list, but the operation accepts a string",
        "requires `region`",
        "`gone`, which does not come earlier",
        "the body requires `note`",
    ] {
        assert!(remarks.contains(reason), "{reason} in {remarks}");
    }
}

#[test]
fn other_documents_are_refused() {
    let refuse = |document: Value| {
        import_arazzo(&document, &BTreeMap::new(), &ArazzoOptions::default()).unwrap_err().message
    };
    assert!(refuse(json!({"openapi": "3.0.0"})).contains("not an Arazzo document"));
    for version in [json!("2.0.0"), json!("1.1.0"), json!("1.2"), json!(1.1), json!("1.01")] {
        let message = refuse(json!({"arazzo": version, "workflows": []}));
        assert!(message.contains("only 1.0 is supported") && !message.contains('"'), "{message}");
    }
    assert!(refuse(json!({"arazzo": 1.0, "workflows": []})).contains("no workflows"));
    assert!(refuse(json!({"arazzo": "1.0.0", "workflows": []})).contains("no workflows"));
}

#[test]
fn fields_of_later_versions_are_reported() {
    let (_, remarks) = import_one(
        &json!({
            "workflowId": "later",
            "x-note": 1,
            "timeout": 5,
            "steps": [{
                "stepId": "find",
                "operationId": "findItems",
                "description": "Finds",
                "timeout": 6_000,
                "dependsOn": ["other"],
                "parameters": [{"name": "q", "in": "querystring", "value": "a=b"}],
                "outputs": {"first": {"context": "$response.body", "selector": "$.a", "type": "jsonpath"}},
            }],
        }),
        &json!({}),
    );
    for reason in [
        "Arazzo 1.0 does not have the field `timeout`; the import drops it",
        "Arazzo 1.0 does not have the field `dependsOn`; the import drops it",
        "a parameter in `querystring` is not supported; the import drops `q`",
        "the output `first` is not a runtime expression of Arazzo 1.0; the import drops it",
    ] {
        assert!(remarks.contains(reason), "{reason} in {remarks}");
    }
    assert!(!remarks.contains("x-note") && !remarks.contains("``"), "{remarks}");
    assert_eq!(remarks.matches("does not have the field").count(), 3, "{remarks}");
    let channel = json!([{"workflowId": "w", "steps": [{"stepId": "s", "channelPath": "a"}]}]);
    let refused = import(&channel, &json!({})).refused;
    assert!(refused[0].reason.contains("`channelPath`"), "{refused:?}");
}

#[test]
fn an_operation_id_that_names_two_operations_is_reported() {
    let mut described = service();
    let find = described["paths"]["/items"]["get"].clone();
    described["paths"]["/things"] = json!({ "get": find });
    let document = json!({
        "arazzo": "1.0.1",
        "info": {"title": "Flows", "version": "1.0.0"},
        "workflows": [
            {"workflowId": "find", "steps": [{"stepId": "find", "operationId": "findItems"}]},
            {"workflowId": "find-here", "steps": [{
                "stepId": "find", "operationPath": "{$sourceDescriptions.shop.url}#/paths/~1items/get",
            }]},
        ],
    });
    let source = |description| ArazzoSource { description, base: None };
    let sources = BTreeMap::from([
        ("shop".to_owned(), source(described)),
        ("store".to_owned(), source(service())),
    ]);
    let imported = import_arazzo(&document, &sources, &ArazzoOptions::default()).unwrap();
    assert_eq!(imported.refused, []);
    let [by_id, by_path] = imported.documents.as_slice() else { panic!("{imported:?}") };
    let warning = ImportWarning::new(
        "steps.find",
        "`findItems` names 3 operations: `GET /items` of `shop`, `GET /things` of `shop`, \
         `GET /items` of `store`; the import uses the first",
    );
    assert!(by_id.remarks.contains(&warning), "{:?}", by_id.remarks);
    assert!(by_id.text.contains("/items:"), "{}", by_id.text);
    assert!(!by_path.remarks.iter().any(|it| it.reason.contains("names")), "{:?}", by_path.remarks);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is wrong with a workflow, what comes out of it is good.
    #[test]
    fn mistakes_are_refused_or_mended(mistakes in mistakes()) {
        let workflow = mangle(order(), &mistakes);
        let imported = import(&json!([workflow]), &json!({}));
        for document in &imported.documents {
            let compiled = compile_with_checksum(document.text.as_bytes()).document;
            prop_assert!(compiled.is_some(), "{}", document.text);
        }
    }
}

#[test]
fn a_server_is_told_for_all_descriptions() {
    let document = json!({
        "arazzo": "1.0.1", "info": {"title": "Flows", "version": "1.0.0"},
        "sourceDescriptions": [{"name": "shop", "url": "./shop.json", "type": "openapi"}],
        "workflows": [{"workflowId": "find", "steps": [
            {"stepId": "find", "operationId": "findItems"},
        ]}],
    });
    let mut description = service();
    description["servers"] = json!([{"url": "/api"}]);
    let source = ArazzoSource { description, base: None };
    let sources = BTreeMap::from([("shop".to_owned(), source)]);
    let import = |options: &ArazzoOptions| import_arazzo(&document, &sources, options).unwrap();
    let refused = import(&ArazzoOptions::default()).refused.remove(0);
    assert!(refused.reason.contains("is relative"), "{refused:?}");
    assert!(refused.hint.unwrap().contains("--server"));
    let server = Some(Url::parse("https://api.elsewhere.example").unwrap());
    let imported = import(&ArazzoOptions { server, ..ArazzoOptions::default() });
    let content = a2s::parse_value(imported.documents[0].text.as_bytes()).unwrap();
    assert_eq!(content["domains"], json!(["api.elsewhere.example"]));
}

#[test]
fn unknown_body_member_is_dropped_with_warning() {
    let mut description = service();
    let body = "/paths/~1items~1{id}/post/requestBody/content/application~1json/schema";
    description.pointer_mut(body).unwrap()["additionalProperties"] = json!(false);
    let document = json!({
        "arazzo": "1.0.1", "info": {"title": "Flows", "version": "1.0.0"},
        "sourceDescriptions": [{"name": "shop", "url": "./shop.json", "type": "openapi"}],
        "workflows": [{"workflowId": "order", "steps": [{
            "stepId": "order", "operationId": "orderItem",
            "parameters": [{"name": "id", "in": "path", "value": "1"}, {"name": "region", "in": "query", "value": "x"}],
            "requestBody": {"payload": {"count": 1, "note": "n", "id": "1"}},
        }]}],
    });
    let source = ArazzoSource { description, base: None };
    let sources = BTreeMap::from([("shop".to_owned(), source)]);
    let imported = import_arazzo(&document, &sources, &ArazzoOptions::default()).unwrap();
    assert_eq!(imported.refused, []);
    let remarks = &imported.documents[0].remarks;
    let told = remarks
        .iter()
        .any(|it| it.reason == "the body does not accept a member `id`; the import drops it");
    assert!(told, "{remarks:?}");
    let content = a2s::parse_value(imported.documents[0].text.as_bytes()).unwrap();
    let body = &content["execution"]["steps"][0]["input_mapping"]["body"];
    assert_eq!(*body, json!({"count": 1, "note": "n"}));
}

#[test]
fn a_workflow_that_reads_what_no_step_gives_is_told_apart() {
    let workflow = |place: &str| {
        json!({"workflowId": "read", "steps": [
            {
                "stepId": "find", "operationId": "findItems",
                "outputs": {"it": format!("$response.body#{place}")},
            },
            {
                "stepId": "order", "operationId": "orderItem",
                "parameters": [
                    {"name": "id", "in": "path", "value": "$steps.find.outputs.it"},
                    {"name": "region", "in": "query", "value": "x"},
                ],
                "requestBody": {"payload": {"count": 1, "note": "n"}},
            },
        ]})
    };
    let can_work = |place: &str| {
        let imported = import(&json!([workflow(place)]), &json!({}));
        assert_eq!(imported.refused, []);
        imported.documents[0].can_work
    };
    assert!(can_work("/state"));
    assert!(!can_work("/page/nothing/at/all"));
}
