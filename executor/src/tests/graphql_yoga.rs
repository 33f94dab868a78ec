//! GraphQL against a service of [graphql-yoga](https://github.com/graphql-hive/graphql-yoga), which
//! nobody here wrote.

use std::ffi::OsStr;
use std::path::Path;

use a2s_api::{EventKind, Run, RunStatus};
use serde_json::{Value, json};

use super::conformance::mock::{Process, packages};
use super::world::{World, events, output, run, sequence};
use crate::App;

const SCHEMA: &str = "
    enum Genre { NOVEL POEM }
    type Book { id: ID! title: String! genre: Genre! copies: Int! review: String }
    input NewBook { title: String! genre: Genre! copies: Int = 1 }
    type Query { books(genre: Genre, first: Int): [Book!]! book(id: ID!): Book secret: String! }
    type Mutation { addBook(input: NewBook!): Book! }
";

struct Library {
    world: World,
    app: App,
    _service: Process,
}

impl Library {
    /// A world with the service; none when it is not installed.
    async fn open() -> Option<Self> {
        let packages = packages()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/npm/yoga.mjs");
        let arguments: [&OsStr; 2] = [script.as_os_str(), packages.as_os_str()];
        let service = Process::start(arguments).unwrap();
        let mut world = World::new().await;
        let host = a2s::Domain::new("api.example").unwrap();
        world.config.upstreams.insert(host, service.url.parse().unwrap());
        let app = world.open().await;
        Some(Self { world, app, _service: service })
    }

    /// Runs one task with `inputs` as its variables.
    async fn ask(&self, name: &str, task: Value, variables: Value, inputs: Value) -> Run {
        let mut task = task;
        task["endpoint"] = json!("https://api.example/graphql");
        let step = json!({
            "id": "ask",
            "format": "GraphQL",
            "task": task,
            "input_mapping": {"variables": variables},
            "output_mapping": {"data": "$.data", "errors": {"path": "$.errors", "optional": true}},
        });
        self.world.registry.publish_newer(name, &json!({"execution": sequence(json!([step]))}));
        run(&self.app, name, inputs).await
    }
}

fn message(run: &Run) -> (&str, &str) {
    let error = run.error.as_ref().unwrap();
    (&error.code, &error.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_and_mutations_are_answered() {
    let Some(library) = Library::open().await else { return };
    let query =
        "query Novels($genre: Genre, $first: Int) { books(genre: $genre, first: $first) { title } }
                 query Other { __typename }";
    let task = json!({"query": query, "operationName": "Novels", "schema": SCHEMA});
    let variables = json!({"genre": "NOVEL", "first": "${first}"});
    let found = library.ask("Novels", task, variables, json!({"first": 1})).await;
    assert_eq!(output(&found)["data"], json!({"books": [{"title": "The Trial"}]}));

    let query = "mutation($input: NewBook!) { addBook(input: $input) { id copies } }";
    let task = json!({"query": query, "schema": SCHEMA});
    let variables = json!({"input": {"title": "${title}", "genre": "POEM"}});
    let added = library.ask("AddBook", task, variables, json!({"title": "\"}) { x }"})).await;
    assert_eq!(output(&added)["data"], json!({"addBook": {"id": "3", "copies": 1}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_told_with_path_and_code() {
    let Some(library) = Library::open().await else { return };
    let denied = library.ask("Secret", json!({"query": "{ secret }"}), json!({}), json!({})).await;
    let expected =
        "the GraphQL service responded with errors: not for you (at secret, code FORBIDDEN)";
    assert_eq!(message(&denied), ("A2S359", expected));

    // Without the schema, the service finds out by itself: 400 with a GraphQL answer.
    let wrong = json!({"query": "{ books { titel } }"});
    let wrong = library.ask("Misspelt", wrong, json!({}), json!({})).await;
    let (code, told) = message(&wrong);
    assert!(code == "A2S359" && told.contains("Cannot query field \"titel\""), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn partial_data_fails_unless_the_task_takes_it() {
    let Some(library) = Library::open().await else { return };
    let query = "{ books { id review } }";
    let failed = library.ask("Strict", json!({"query": query}), json!({}), json!({})).await;
    let expected = "the GraphQL service responded with partial data and errors: \
                    no review was written (at books.1.review)";
    assert_eq!(message(&failed), ("A2S359", expected));

    let task = json!({"query": query, "partial_data": true});
    let taken = library.ask("Lenient", task, json!({}), json!({})).await;
    assert_eq!(taken.status, RunStatus::Succeeded, "{:?}", taken.error);
    let output = output(&taken);
    assert_eq!(output["data"]["books"][1], json!({"id": "2", "review": null}));
    assert_eq!(output["errors"][0]["message"], "no review was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_that_the_service_would_refuse_are_not_sent() {
    let Some(library) = Library::open().await else { return };
    let query = "mutation($input: NewBook!) { addBook(input: $input) { id } }";
    let task = json!({"query": query, "schema": SCHEMA});
    let variables = json!({"input": {"title": "x", "genre": "${genre}"}});
    let refused = library.ask("Refused", task.clone(), variables, json!({"genre": "CRIME"})).await;
    let (code, told) = message(&refused);
    assert_eq!(code, "A2S328");
    assert!(told.contains("`.genre` is not one of [\"NOVEL\",\"POEM\"]"), "{told}");
    assert_eq!(refused.steps[0].attempts, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persisted_query_is_sent_whole_when_it_is_not_known() {
    let Some(library) = Library::open().await else { return };
    let query = "mutation($input: NewBook!) { addBook(input: $input) { title } }";
    let task = json!({"query": query, "persisted_query": true});
    let variables = json!({"input": {"title": "${title}", "genre": "POEM"}});
    let first = library.ask("Persist", task, variables, json!({"title": "A"})).await;
    assert_eq!(output(&first)["data"]["addBook"]["title"], "A");
    assert_eq!(first.steps[0].attempts, 2);
    let again = run(&library.app, "Persist", json!({"title": "B"})).await;
    assert_eq!(output(&again)["data"]["addBook"]["title"], "B");
    assert_eq!(again.steps[0].attempts, 1);
    let retried = events(&library.app, first.id).await;
    let asked = |kind: &EventKind| matches!(kind, EventKind::Retrying { reason, .. } if reason == "the service requires the full query");
    assert!(retried.iter().any(|event| asked(&event.kind)));
    let books =
        library.ask("All", json!({"query": "{ books { title } }"}), json!({}), json!({})).await;
    let titles = output(&books)["data"]["books"].as_array().unwrap().len();
    assert_eq!(titles, 4, "each mutation had its effect once");
}
