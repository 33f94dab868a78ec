//! Every operation and workflow of the data sets: what share becomes a document, and why the rest
//! does not. The figures stand in `docs/import.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use a2s::compile_with_checksum;
use a2s::{CapabilityName, Parameter, ValueType};
use a2s_authoring::{
    ArazzoOptions, ArazzoSource, GraphqlOptions, ImportRejection, ImportResult, OpenApiOptions,
    arazzo_sources, format_document, import_arazzo, import_graphql, import_openapi,
    read_description,
};
use serde_json::{Map, Value, json};
use url::Url;

use crate::harness::{World, root};
use crate::http;

const BEGIN: &str = "<!-- figures: begin -->\n";
const END: &str = "<!-- figures: end -->\n";
/// One document in so many is laid out again, to see that nothing changes.
const SAMPLE: usize = 20;

/// The folder with data sets; says so when there is none.
#[expect(clippy::print_stderr, reason = "a skip has to be seen")]
fn data() -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("A2S_TEST_DATA") else {
        eprintln!("SKIPPED: A2S_TEST_DATA names no folder, so no description was imported");
        return None;
    };
    let folder = PathBuf::from(folder);
    assert!(folder.is_dir(), "A2S_TEST_DATA is set, but {} is no folder", folder.display());
    Some(folder)
}

fn read(path: &Path) -> Value {
    let source = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    read_description(&source).unwrap_or_else(|error| panic!("{}: {error}", path.display())).value
}

/// The entries of a folder, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths
}

/// What became of everything of one kind.
#[derive(Default)]
struct Tally {
    descriptions: usize,
    all: usize,
    imported: usize,
    /// Those that were imported once they were told where the service is.
    told: usize,
    /// Those that could be published and planned with made-up inputs.
    planned: usize,
    unplanned: BTreeMap<String, usize>,
    reasons: BTreeMap<String, usize>,
    remarks: BTreeMap<String, usize>,
}

impl Tally {
    fn add(&mut self, origin: &Path, imported: &ImportResult, world: &World) {
        self.imported += imported.documents.len();
        for (index, document) in imported.documents.iter().enumerate() {
            let compiled = compile_with_checksum(document.text.as_bytes()).document;
            let compiled =
                compiled.unwrap_or_else(|| panic!("{} {}", origin.display(), document.source));
            assert_eq!(compiled.digest(), document.checksum, "{}", document.source);
            let capability = compiled.capability();
            match dry_run(world, &capability.name, &document.text, &capability.parameters) {
                Ok(()) => self.planned += 1,
                Err(reason) => *self.unplanned.entry(kind_of(&reason)).or_default() += 1,
            }
            if index % SAMPLE == 0 {
                let again = format_document(document.text.as_bytes());
                assert_eq!(again.as_ref(), Ok(&document.text), "{}", document.source);
            }
            for remark in &document.remarks {
                *self.remarks.entry(kind_of(&remark.reason)).or_default() += 1;
            }
        }
        for refusal in &imported.refused {
            *self.reasons.entry(kind_of(&refusal.reason)).or_default() += 1;
        }
    }
}

/// Publishes a document and plans a run of it with made-up inputs.
fn dry_run(
    world: &World,
    name: &CapabilityName,
    text: &str,
    parameters: &[Parameter],
) -> Result<(), String> {
    let token = format!("Bearer {}", world.token());
    let post = |path: &str, media_type: &str, body: String| {
        let url = format!("{}{path}", world.url());
        let headers = [("authorization", token.as_str()), ("content-type", media_type)];
        let (status, answer) = http::send("POST", &url, &headers, Some(body));
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        if (200..300).contains(&status) {
            Ok(answer)
        } else {
            Err(format!("{} {}", answer["code"], answer["detail"]))
        }
    };
    post("v1/capabilities", "application/yaml", text.to_owned())?;
    let required = parameters.iter().filter(|parameter| parameter.required);
    let inputs: Map<String, Value> =
        required.map(|parameter| (parameter.name.clone(), make_up(parameter))).collect();
    let request = json!({ "name": name, "inputs": inputs });
    let plan = post("v1/plans", "application/json", request.to_string())?;
    let missing = plan["missing"].as_array().is_some_and(|missing| !missing.is_empty());
    if missing { Err("inputs are missing".to_owned()) } else { Ok(()) }
}

/// A value that a parameter takes.
fn make_up(parameter: &Parameter) -> Value {
    if let Some(choice) = parameter.choices.first() {
        return choice.clone();
    }
    match parameter.kind {
        Some(ValueType::Number | ValueType::Integer) => json!(1),
        Some(ValueType::Boolean) => json!(true),
        Some(ValueType::Object) => json!({}),
        Some(ValueType::Array) => json!(["x"]),
        Some(ValueType::String) | None => json!("x"),
    }
}

/// A reason without what it says of one case: what stands in backquotes.
fn kind_of(reason: &str) -> String {
    reason.split('`').step_by(2).collect::<Vec<_>>().join("…")
}

fn is_about_address(refusal: &ImportRejection) -> bool {
    refusal.hint.as_deref().is_some_and(|hint| hint.contains("--server"))
}

fn import_operations(folder: &Path, world: &World) -> Tally {
    let mut tally = Tally::default();
    for (index, path) in entries(folder).into_iter().enumerate() {
        let description = read(&path);
        tally.descriptions += 1;
        // One registry takes them all: each description has names of its own.
        let prefix = Some(format!("D{index}"));
        let options = OpenApiOptions { prefix, ..OpenApiOptions::default() };
        let mut imported = import_openapi(&description, &options).unwrap();
        tally.all += imported.documents.len() + imported.refused.len();
        if imported.refused.iter().any(is_about_address) {
            let server = Url::parse("https://service.example/").ok();
            let options = OpenApiOptions { server, ..options };
            let before = imported.documents.len();
            imported = import_openapi(&description, &options).unwrap();
            tally.told += imported.documents.len() - before;
        }
        tally.add(&path, &imported, world);
    }
    tally
}

fn import_workflows(folder: &Path, world: &World) -> Tally {
    let mut tally = Tally::default();
    for (index, path) in entries(folder).into_iter().enumerate() {
        let file = path.join("workflows.arazzo.json");
        let document = read(&file);
        tally.descriptions += 1;
        let base = Url::parse("https://service.example/openapi.json").ok();
        let source = |named: a2s_authoring::SourceDescription| {
            let description = read(&path.join(&named.url));
            (named.name, ArazzoSource { description, base: base.clone() })
        };
        let sources = arazzo_sources(&document).unwrap().into_iter().map(source).collect();
        let options =
            ArazzoOptions { prefix: Some(format!("W{index}")), author: None, server: None };
        let imported = import_arazzo(&document, &sources, &options).unwrap();
        tally.all += imported.documents.len() + imported.refused.len();
        tally.add(&file, &imported, world);
    }
    tally
}

/// A query or mutation for each field at the top of a schema, with a variable for each argument.
fn operations_of(schema: &str) -> String {
    const TEXT: &str = "\"\"\"";
    let composite: BTreeSet<&str> = schema
        .lines()
        .filter_map(|line| {
            let (word, rest) = line.split_once(' ')?;
            let is_composite = matches!(word, "type" | "interface" | "union");
            rest.split([' ', '{']).next().filter(|_| is_composite)
        })
        .collect();
    let mut operations = String::new();
    let mut root = None;
    let mut in_text = false;
    let (mut field, mut arguments) = (String::new(), Vec::new());
    for line in schema.lines() {
        in_text ^= line.matches(TEXT).count() == 1;
        if in_text || line.contains(TEXT) {
            continue;
        }
        match line.split([' ', '{']).collect::<Vec<_>>()[..] {
            ["type", "Query", ..] => root = Some("query"),
            ["type", "Mutation", ..] => root = Some("mutation"),
            ["}", ..] => root = None,
            _ => {}
        }
        let Some(word) = root else { continue };
        let indent = line.len() - line.trim_start().len();
        let Some((name, kind)) = line.trim().split_once(':') else {
            if indent == 2 && line.ends_with('(') {
                field = line.trim().trim_end_matches('(').to_owned();
            }
            continue;
        };
        let kind = kind.trim().split([' ', '=']).next().unwrap_or_default();
        if indent == 4 {
            arguments.push((name, kind));
            continue;
        }
        if name != ")" {
            name.clone_into(&mut field);
        }
        let declared: Vec<_> = arguments.iter().map(|(n, kind)| format!("${n}: {kind}")).collect();
        let given: Vec<_> = arguments.iter().map(|(n, _)| format!("{n}: ${n}")).collect();
        let list = |items: &[String]| match items {
            [] => String::new(),
            items => format!("({})", items.join(", ")),
        };
        let named = kind.trim_matches(['[', ']', '!']);
        let selection = if composite.contains(named) { "{ __typename }" } else { "" };
        let (declared, given) = (list(&declared), list(&given));
        let _ = writeln!(operations, "{word} {field}{declared} {{ {field}{given} {selection} }}");
        arguments.clear();
    }
    operations
}

fn import_queries(file: &Path, world: &World) -> Tally {
    let schema = std::fs::read_to_string(file).unwrap();
    let operations = operations_of(&schema);
    let endpoint = Url::parse("https://api.github.com/graphql").unwrap();
    let options = GraphqlOptions { endpoint, prefix: Some("G".to_owned()), author: None };
    let imported = import_graphql(&schema, Some(&operations), &options).unwrap();
    let mut tally = Tally { descriptions: 1, all: operations.lines().count(), ..Tally::default() };
    assert_eq!(tally.all, imported.documents.len() + imported.refused.len());
    tally.add(file, &imported, world);
    tally
}

fn table(title: &str, counts: &BTreeMap<String, usize>, markdown: &mut String) {
    if counts.is_empty() {
        return;
    }
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), *reason));
    let _ = writeln!(markdown, "| {title} | times |\n|---|---:|");
    for (reason, count) in counts {
        let _ = writeln!(markdown, "| {} | {count} |", reason.replace('|', "\\|"));
    }
    let _ = writeln!(markdown);
}

fn figures(operations: &Tally, workflows: &Tally, queries: &Tally) -> String {
    let share = |tally: &Tally| 100.0 * tally.imported as f64 / tally.all as f64;
    let mut markdown = String::new();
    let _ = writeln!(
        markdown,
        "OpenAPI: {} descriptions with {} operations; {} became documents ({:.2} %), {} of them with `--server`, because their description names no address. {} of them were published and planned with made-up inputs.\n",
        operations.descriptions,
        operations.all,
        operations.imported,
        share(operations),
        operations.told,
        operations.planned,
    );
    table("Why a document was not planned", &operations.unplanned, &mut markdown);
    table("Why an operation became none", &operations.reasons, &mut markdown);
    table("What was remarked about operations", &operations.remarks, &mut markdown);
    let _ = writeln!(
        markdown,
        "Arazzo: {} documents with {} workflows; {} became documents ({:.2} %). {} of them were published and planned with made-up inputs.\n",
        workflows.descriptions,
        workflows.all,
        workflows.imported,
        share(workflows),
        workflows.planned,
    );
    table("Why a document was not planned", &workflows.unplanned, &mut markdown);
    table("Why a workflow became none", &workflows.reasons, &mut markdown);
    table("What was remarked about workflows", &workflows.remarks, &mut markdown);
    let _ = writeln!(
        markdown,
        "GraphQL: {} schema, a query or mutation for each of its {} fields at the top; {} became documents ({:.2} %). {} of them were published and planned with made-up inputs.\n",
        queries.descriptions,
        queries.all,
        queries.imported,
        share(queries),
        queries.planned,
    );
    table("Why a document was not planned", &queries.unplanned, &mut markdown);
    table("Why a field became none", &queries.reasons, &mut markdown);
    table("What was remarked about fields", &queries.remarks, &mut markdown);
    markdown
}

#[test]
fn all_that_the_descriptions_allow_becomes_documents() {
    let Some(data) = data() else { return };
    let world = World::up(&[]);
    let operations = import_operations(&data.join("openapi"), &world);
    let workflows = import_workflows(&data.join("arazzo"), &world);
    let queries = import_queries(&data.join("graphql/github.graphql"), &world);
    assert!(queries.all > 200 && queries.reasons.is_empty(), "{:?}", queries.reasons);
    // What is refused refers to what is not there: no description allows more.
    let faults = ["… does not exist in the description", "… refers to another file"];
    for reason in operations.reasons.keys().chain(workflows.reasons.keys()) {
        assert!(faults.iter().any(|fault| reason.starts_with(fault)), "{reason}");
    }
    assert!(operations.all > 2_000 && workflows.all > 150);

    let path = root().join("docs/import.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let current =
        format!("{before}{BEGIN}\n{}{END}{after}", figures(&operations, &workflows, &queries));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == current,
        "docs/import.md is stale: A2S_TEST_DATA=… UPDATE_DOCS=1 cargo test --test it everything"
    );
}

#[test]
fn a_large_schema_takes_queries() {
    const OPERATIONS: &str = "
        query Newest($owner: String!, $name: String!, $states: [IssueState!], $order: IssueOrder) {
          repository(owner: $owner, name: $name) {
            id
            issues(first: 5, states: $states, orderBy: $order) { nodes { ...Line } }
          }
        }
        mutation Star($input: AddStarInput!) { addStar(input: $input) { starrable { id } } }
        query Me { viewer { login } rateLimit { remaining } }
        fragment Line on Issue { number title author { login } }
    ";
    let Some(data) = data() else { return };
    let schema = std::fs::read_to_string(data.join("graphql/github.graphql")).unwrap();
    let endpoint = Url::parse("https://api.github.com/graphql").unwrap();
    let options = GraphqlOptions { endpoint, prefix: None, author: None };
    let imported = import_graphql(&schema, Some(OPERATIONS), &options).unwrap();
    assert_eq!(imported.refused, []);
    let names: Vec<_> = imported.documents.iter().map(|document| &document.name).collect();
    assert_eq!(names, ["Newest", "Star", "Me"]);
    for document in &imported.documents {
        assert!(compile_with_checksum(document.text.as_bytes()).document.is_some());
    }
}
