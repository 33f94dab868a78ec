use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use a2s::{Digest, Document};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ExampleFailure, ExampleResult, ExampleRunner, OutputDifference};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind};
use crate::request::test_fixtures::Still;

/// A document of one name with its own steps, more fields and examples.
fn document(name: &str, rest: &str) -> Arc<Document> {
    let source = format!(
        "a2s: 1.1.0\nname: {name}\ndescription: tries\ndomains: [api.example]\nversion: 1.0.0\n\
         authors: [{{name: A}}]\n{rest}"
    );
    let compilation = a2s::compile(source.as_bytes());
    Arc::new(compilation.document.unwrap_or_else(|| panic!("{:#?}", compilation.diagnostics)))
}

/// A task step that reads a thing by its number, with what its answers are declared as.
fn step(id: &str, answers: &str, rest: &str) -> String {
    format!(
        "    - id: {id}\n      format: OpenAPI\n      task:\n        openapi: 3.1.0\n        info: {{title: a, version: '1'}}\n\
         \x20       servers: [{{url: 'https://api.example'}}]\n        paths: {{'/things/{{id}}': {{get: {{\n\
         \x20         parameters: [{{name: id, in: path, required: true, schema: {{type: integer, maximum: 99}}}}],\n\
         \x20         responses: {answers}}}}}}}\n{rest}"
    )
}

const THING: &str = "{'200': {description: a, content: {application/json: {schema: {type: object, \
     required: [id], properties: {id: {type: integer, maximum: 50}, name: {type: string}}}}}}, \
     '404': {description: b, content: {application/json: {schema: {type: object, required: [why]}}}}}";
const UNDECLARED: &str = "{'200': {description: a}}";

/// A capability with one step, `read`, and further fields of that.
fn reader(answers: &str, rest: &str, examples: &str) -> Arc<Document> {
    let step = step(
        "read",
        answers,
        &format!(
            "      input_mapping: {{id: '${{id}}'}}\n      output_mapping: {{name: '$.name'}}\n{rest}"
        ),
    );
    document(
        "Read",
        &format!("execution:\n  type: sequence\n  steps:\n{step}examples:\n{examples}"),
    )
}

fn try_new(documents: &[Arc<Document>]) -> Result<ExampleRunner, Error> {
    let by_digest: BTreeMap<Digest, _> =
        documents.iter().map(|document| (document.digest(), Arc::clone(document))).collect();
    ExampleRunner::new(&documents[0], &by_digest, |dependency| {
        let named = documents.iter().find(|one| one.capability().name == dependency.capability);
        named.map(|document| document.digest())
    })
}

/// Tries every example of the first document.
async fn run(documents: &[Arc<Document>]) -> Vec<ExampleResult> {
    let trial = try_new(documents).unwrap();
    let mut outcomes = Vec::new();
    for example in &documents[0].capability().examples {
        outcomes.push(trial.run(example, Arc::new(Still), Arc::new(Still)).await);
    }
    outcomes
}

async fn run_one(documents: &[Arc<Document>]) -> ExampleResult {
    run(documents).await.pop().unwrap()
}

/// What an example failed with: step, code and message.
fn told(outcome: &ExampleResult) -> Vec<String> {
    let tell = |fault: &ExampleFailure| match fault {
        ExampleFailure::Error(error) => {
            let step = error.step.as_deref().unwrap_or("-");
            format!("{step} {} {}", error.code, error.message)
        }
        ExampleFailure::Output(differences) => {
            let differences =
                differences.iter().map(|OutputDifference { path, expected, found }| {
                    let write = |value: &Option<Value>| {
                        value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string)
                    };
                    format!("{path}: {}, not {}", write(expected), write(found))
                });
            differences.collect::<Vec<_>>().join("; ")
        }
    };
    outcome.failures.iter().map(tell).collect()
}

#[track_caller]
fn check(outcome: &ExampleResult, failures: &[&str]) {
    assert_eq!(told(outcome), failures);
    assert_eq!(outcome.is_success(), failures.is_empty());
}

#[tokio::test]
async fn an_example_passes_when_its_answers_lead_to_its_output() {
    let examples = "  - {inputs: {id: 1}, answers: {read: {body: {id: 1, name: one}}}, output: {name: one}}\n\
                    \x20 - {inputs: {id: 1}, answers: {read: {body: {id: 1, name: one}}}, output: {name: two}}\n\
                    \x20 - {inputs: {id: 1}, answers: {read: {body: {id: 1, name: one}}}}\n";
    let outcomes = run(&[reader(THING, "", examples)]).await;
    check(&outcomes[0], &[]);
    check(&outcomes[1], &["$.name: \"two\", not \"one\""]);
    check(&outcomes[2], &[]);
    assert_eq!(outcomes[0].output(), Some(&json!({"name": "one"})));
    assert_eq!(outcomes[0].generated_steps, [""; 0]);
    let steps = outcomes[0]
        .events
        .iter()
        .filter(|event| matches!(event.kind, a2s_api::EventKind::StepFinished { .. }));
    assert_eq!(steps.count(), 1);
}

/// A capability that calls a tool, with what its task says besides.
fn caller(schema: &str, examples: &str) -> Arc<Document> {
    let task = format!("{{server: 'https://api.example/mcp', tool: look{schema}}}");
    document(
        "Call",
        &format!(
            "execution:\n  type: sequence\n  steps:\n    - id: call\n      format: MCP\n      task: {task}\n\
             \x20     input_mapping: {{arguments: {{city: Bern}}}}\n      output_mapping: {{high: '$.high'}}\n\
             examples:\n{examples}"
        ),
    )
}

#[tokio::test]
async fn a_tool_gives_what_the_example_or_its_schema_says() {
    let schema = ", outputSchema: {type: object, properties: {high: {type: integer, minimum: 7}}, required: [high]}";
    let examples = "  - {inputs: {}, answers: {call: {body: {high: 9}}}, output: {high: 9}}\n\
                    \x20 - {inputs: {}, output: {high: 7}}\n\
                    \x20 - {inputs: {}, answers: {call: {body: {isError: true, content: [{type: text, text: no}]}}}}\n\
                    \x20 - {inputs: {}, answers: {call: {status: 503}}}\n";
    let outcomes = run(&[caller(schema, examples)]).await;
    check(&outcomes[0], &[]);
    check(&outcomes[1], &[]);
    assert_eq!(outcomes[1].generated_steps, ["call"]);
    check(&outcomes[2], &["call A2S361 the tool reported an error: no"]);
    check(&outcomes[3], &["call A2S357 the service responded with status 503"]);
    // Nothing is known of what the tool gives.
    let outcome = run_one(&[caller("", "  - {inputs: {}}\n")]).await;
    assert!(told(&outcome)[0].starts_with("call A2S329 no answer can be generated"), "{outcome:?}");
}

#[tokio::test]
async fn inputs_are_held_to_the_capability_and_to_the_request() {
    let examples = "  - {inputs: {id: 100}, answers: {read: {body: {id: 1, name: one}}}}\n";
    let outcome = run_one(&[reader(THING, "", examples)]).await;
    let failures = told(&outcome);
    assert!(
        failures[0].starts_with("read A2S328 the value of `pathParameters.id`"),
        "{failures:?}"
    );
}

#[tokio::test]
async fn an_input_that_only_a_used_capability_needs_has_to_be_given() {
    let steps = "dependencies: [{capability: Read, version: ^1.0.0}]\nexecution:\n  type: sequence\n  steps:\n\
        \x20   - {id: use, type: capability, use: Read, output_mapping: {name: '$.name'}}\n";
    let user = document(
        "User",
        &format!("{steps}examples:\n  - {{inputs: {{}}}}\n  - {{inputs: {{id: 1}}}}\n"),
    );
    let child = reader(THING, "", "  - {inputs: {id: 1}}\n");
    let outcomes = run(&[user, child]).await;
    check(&outcomes[0], &["- A2S320 `User` requires `id`"]);
    assert!(outcomes[0].events.is_empty());
    check(&outcomes[1], &[]);
}

#[tokio::test]
async fn behind_a_wrong_answer_no_result_is_judged() {
    let answers = "{read: {status: 404, body: {}}}";
    let examples =
        format!("  - {{inputs: {{id: 1}}, answers: {answers}, output: {{name: other}}}}\n");
    let handled = "      on_error: continue\n";
    let outcome = run_one(&[reader(THING, handled, &examples)]).await;
    assert!(matches!(outcome.failures[..], [ExampleFailure::Error(_)]), "{:?}", told(&outcome));
}

#[tokio::test]
async fn undeclared_example_response_fails_the_example() {
    let answers = "{read: {body: {id: 51, name: one}}}";
    for handled in ["", "      on_error: continue\n"] {
        let shared =
            "execution:\n  type: sequence\n  variables: {shared: {name: string}}\n  steps:\n";
        let step = step(
            "read",
            THING,
            &format!(
                "      input_mapping: {{id: 1}}\n      output_mapping: {{name: '$.name'}}\n{handled}"
            ),
        );
        let example = format!("examples:\n  - answers: {answers}\n");
        let outcome = run_one(&[document("Read", &format!("{shared}{step}{example}"))]).await;
        let failures = told(&outcome);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(
            failures[0].starts_with("read A2S365 ") && failures[0].contains("`.id`"),
            "{failures:?}"
        );
    }
    for (answer, expected) in [
        ("{}", "is empty, which is not declared"),
        ("{headers: {content-type: text/plain}, body: text}", "media type text/plain"),
        ("{status: 404, body: {}}", "it lacks the member"),
    ] {
        let examples = format!("  - {{inputs: {{id: 1}}, answers: {{read: {answer}}}}}\n");
        let handled = "      on_error: continue\n";
        let failures = told(&run_one(&[reader(THING, handled, &examples)]).await);
        assert!(failures[0].starts_with("read A2S365 "), "{answer}: {failures:?}");
        assert!(failures[0].contains(expected), "{answer}: {failures:?}");
    }
}

#[tokio::test]
async fn example_can_try_a_handled_service_failure() {
    let handled = "      catch: {as: error, steps: [{id: instead, format: OpenAPI, input_mapping: {id: 2}, output_mapping: {name: '$.name'}, task: {openapi: 3.1.0, info: {title: a, version: '1'}, servers: [{url: 'https://api.example'}], paths: {'/other/{id}': {get: {parameters: [{name: id, in: path, required: true, schema: {type: integer}}], responses: {'200': {description: a}}}}}}}]}\n";
    // A status that is not declared may come all the same, and a declared one need not say more.
    for status in [503, 404] {
        let answers = format!("{{read: {{status: {status}}}, instead: {{body: {{name: other}}}}}}");
        let examples =
            format!("  - {{inputs: {{id: 1}}, answers: {answers}, output: {{name: other}}}}\n");
        check(&run_one(&[reader(THING, handled, &examples)]).await, &[]);
        let examples =
            format!("  - {{inputs: {{id: 1}}, answers: {{read: {{status: {status}}}}}}}\n");
        let outcome = run_one(&[reader(THING, "", &examples)]).await;
        check(&outcome, &[&format!("read A2S357 the service responded with status {status}")]);
        let ExampleFailure::Error(error) = &outcome.failures[0] else { panic!() };
        assert_eq!(error.status, Some(status));
    }
}

#[tokio::test]
async fn what_is_not_answered_is_made_up() {
    let outcome =
        run_one(&[reader(THING, "", "  - {inputs: {id: 1}, output: {name: name}}\n")]).await;
    check(&outcome, &[]);
    assert_eq!(outcome.generated_steps, ["read"]);

    let outcome = run_one(&[reader(UNDECLARED, "", "  - {inputs: {id: 1}}\n")]).await;
    check(
        &outcome,
        &[
            "read A2S329 no answer can be generated from the declaration of the operation: output `name`: `$.name` finds nothing: `$` is null",
        ],
    );
    let ExampleFailure::Error(error) = &outcome.failures[0] else { panic!() };
    assert_eq!(error.hint, "Write an answer in the example: `answers: {read: {body: …}}`.");
}

#[tokio::test]
async fn iterations_have_answers_of_their_own_or_share_one() {
    let each = "      for_each: '${ids}'\n      on_error: continue\n      input_mapping: {id: '${item}'}\n      output_mapping: {names: '$.name'}\n";
    let steps =
        format!("execution:\n  type: sequence\n  steps:\n{}", step("read", UNDECLARED, each));
    let examples = "examples:\n\
        \x20 - inputs: {ids: [7, 8, 9]}\n    answers: {read: {body: {name: any}}, 'read[1]': {status: 404}, 'read[2]': {body: {name: last}}}\n    output: {names: [any, null, last]}\n\
        \x20 - inputs: {ids: [7, 8]}\n    answers: {read: {body: {name: any}}, 'read[9]': {body: {name: nobody}}}\n    output: {names: [any, any]}\n";
    let outcomes = run(&[document("Each", &format!("{steps}{examples}"))]).await;
    check(&outcomes[0], &[]);
    assert!(outcomes[0].unused_answers.is_empty());
    check(&outcomes[1], &[]);
    let unused: Vec<_> = outcomes[1].unused_answers.iter().map(ToString::to_string).collect();
    assert_eq!(unused, ["read[9]"]);
}

/// A capability that uses `Read` for each of several things, inside of a block.
fn user(examples: &str) -> Arc<Document> {
    let steps = "dependencies: [{capability: Read, version: ^1.0.0}]\nexecution:\n  type: sequence\n  steps:\n\
        \x20   - id: around\n      type: sequence\n      steps:\n        - id: each\n          type: capability\n          use: Read\n\
        \x20         for_each: '${ids}'\n          input_mapping: {id: '${item}'}\n          output_mapping: {names: '$.name'}\n";
    document("User", &format!("{steps}examples:\n{examples}"))
}

#[tokio::test]
async fn steps_of_used_capabilities_are_answered_by_the_way_to_them() {
    let child = reader(THING, "", "  - {inputs: {id: 1}}\n");
    let ways = [
        ("{each/read: {body: {id: 1, name: a}}}", "[a, a]"),
        ("{around/each/read: {body: {id: 1, name: a}}}", "[a, a]"),
        (
            "{each/read: {body: {id: 1, name: a}}, 'each[1]/read': {body: {id: 1, name: b}}}",
            "[a, b]",
        ),
        ("{}", "[name, name]"),
    ];
    for (answers, names) in ways {
        let examples = format!(
            "  - {{inputs: {{ids: [1, 2]}}, answers: {answers}, output: {{names: {names}}}}}\n"
        );
        let outcome = run_one(&[user(&examples), Arc::clone(&child)]).await;
        check(&outcome, &[]);
        let made_up: &[&str] = if answers == "{}" { &["around/each/read"] } else { &[] };
        assert_eq!(outcome.generated_steps, made_up);
    }
    for key in ["each/other", "each/read/more", "each/'read[0]'"] {
        let key = key.replace('\'', "");
        let examples =
            format!("  - {{inputs: {{ids: [1]}}, answers: {{'{key}': {{body: {{}}}}}}}}\n");
        let outcome = run_one(&[user(&examples), Arc::clone(&child)]).await;
        check(&outcome, &[&format!("- A2S329 unknown task step `{key}`")]);
    }
    let missing = try_new(&[user("  - {inputs: {ids: [1]}}\n")]).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::DependencyRefused);
}

#[tokio::test]
async fn answers_are_read_by_their_media_type() {
    let read = |answers: &str, answer: &str, query: &str, expected: &str| {
        let step = step(
            "read",
            answers,
            &format!("      input_mapping: {{id: 1}}\n      output_mapping: {{it: '{query}'}}\n"),
        );
        let example =
            format!("examples:\n  - answers: {{read: {answer}}}\n    output: {{it: {expected}}}\n");
        document("Read", &format!("execution:\n  type: sequence\n  steps:\n{step}{example}"))
    };
    let text = "{'200': {description: a, content: {text/plain: {schema: {type: string}}}}}";
    let bytes = "{'200': {description: a, content: {image/png: {}}}}";
    for document in [
        read(UNDECLARED, "{body: text}", "$", "text"),
        read(UNDECLARED, "{body: [1]}", "$[0]", "1"),
        read(text, "{body: text}", "$", "text"),
        read(text, "{headers: {Content-Type: text/plain; charset=iso-8859-1}, body: ä}", "$", "ä"),
        read(bytes, "{body: {base64: aGk=}}", "$.base64", "aGk="),
        read(bytes, "{body: {base64: aGk=}}", "$.content_type", "image/png"),
        read(
            UNDECLARED,
            "{headers: {content-type: application/problem+json}, body: {a: 1.0}}",
            "$.a",
            "1",
        ),
    ] {
        let outcome = run_one(&[document]).await;
        check(&outcome, &[]);
    }
    for (answer, reason) in [
        ("{headers: {content-type: nothing}, body: x}", "`content-type` is not a media type"),
        ("{headers: {'a b': x}}", "`a b` is not a header with a value"),
        ("{headers: {content-type: image/png}, body: {base64: '!'}}", "`base64` cannot be decoded"),
    ] {
        let outcome = run_one(&[read(UNDECLARED, answer, "$", "1")]).await;
        let failures = told(&outcome);
        assert!(failures[0].starts_with(&format!("read A2S329 {reason}")), "{failures:?}");
    }
}

#[tokio::test]
async fn secrets_are_told_by_no_event_of_an_example() {
    let text = "parameters: [{name: id, type: string, secret: true}]\n";
    let step = step(
        "read",
        "{'200': {description: a}}",
        "      input_mapping: {id: 1}\n      output_mapping: {name: '$.name'}\n",
    );
    let output = "output: {name: '${name}', id: '${id}'}\n";
    let example = "examples:\n  - {inputs: {id: canary-of-an-example}, answers: {read: {body: {name: canary-of-an-example}}}}\n";
    let outcome = run_one(&[document(
        "Read",
        &format!("{text}execution:\n  type: sequence\n  steps:\n{step}{output}{example}"),
    )])
    .await;
    check(&outcome, &[]);
    let events = serde_json::to_string(&outcome.events).unwrap();
    assert!(!events.contains("canary"), "{events}");
}

/// Each look at it is ten minutes later.
#[derive(Debug, Default)]
struct Late(AtomicI64);

impl Clock for Late {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.fetch_add(600, Ordering::Relaxed)).unwrap()
    }
}

#[tokio::test]
async fn an_example_takes_no_longer_than_it_may() {
    let handled = "      on_error: continue\n";
    let document = {
        let step = step(
            "read",
            UNDECLARED,
            &format!(
                "      input_mapping: {{id: 1}}\n      output_mapping: {{name: '$.name'}}\n{handled}"
            ),
        );
        document(
            "Read",
            &format!(
                "execution:\n  type: sequence\n  steps:\n{step}examples:\n  - answers: {{read: {{body: {{name: a}}}}}}\n"
            ),
        )
    };
    let trial = try_new(&[Arc::clone(&document)]).unwrap();
    let example = &document.capability().examples[0];
    let outcome = trial.run(example, Arc::new(Late::default()), Arc::new(Still)).await;
    check(&outcome, &["read A2S323 the example exceeded its time limit"]);
    assert!(outcome.duration_ms > 600_000);
}

#[tokio::test]
async fn a_vast_example_ends_at_the_limits_of_a_run() {
    let each = "      for_each: {in: '${ids}', max_items: 1000, max_concurrency: 64}\n      input_mapping: {id: 1}\n      output_mapping: {all: '$'}\n";
    let steps =
        format!("execution:\n  type: sequence\n  steps:\n{}", step("read", UNDECLARED, each));
    let ids = format!("[{}]", vec!["1"; 1000].join(","));
    let body = format!("[{}]", vec!["'0123456789012345678901234567890123456789'"; 2_000].join(","));
    let examples =
        format!("examples:\n  - inputs: {{ids: {ids}}}\n    answers: {{read: {{body: {body}}}}}\n");
    let failures = told(&run_one(&[document("Vast", &format!("{steps}{examples}"))]).await);
    assert_eq!(failures.len(), 1, "{}", failures.len());
    assert!(failures[0].contains("A2S323") && failures[0].contains("variables"), "{failures:?}");

    let deep = "[".repeat(55) + &"]".repeat(55);
    let examples =
        format!("  - {{inputs: {{id: 1}}, answers: {{read: {{body: {{name: {deep}}}}}}}}}\n");
    check(&run_one(&[reader(UNDECLARED, "", &examples)]).await, &[]);
}
