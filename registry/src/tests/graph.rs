use std::collections::{BTreeMap, BTreeSet};

use a2s::{DependencyIndex, Document, VersionInfo};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{World, document_of, http_step, use_step};

/// A document with a request of its own that uses others: name, range, and whether to pin what is
/// published under the version.
fn node(name: &str, version: &str, uses: &[(&str, &str, Option<a2s::Digest>)]) -> String {
    let mut steps = vec![http_step("own", "get", "api.example.com", "Things")];
    let used = (0..).zip(uses);
    steps.extend(used.map(|(index, (used, ..)): (usize, _)| use_step(&format!("u{index}"), used)));
    let dependencies: Vec<_> = uses
        .iter()
        .map(|(used, range, pin)| match pin {
            Some(pin) => json!({"capability": used, "version": range, "checksum": pin}),
            None => json!({"capability": used, "version": range}),
        })
        .collect();
    let more = json!({"version": version, "dependencies": dependencies});
    document_of(name, "Does something", &json!(steps), &more)
}

fn digest_of(document: &str) -> a2s::Digest {
    Document::open(document.as_bytes()).unwrap().digest()
}

/// Withdraws a version.
async fn yank(world: &World, name: &str, version: &str) {
    assert_eq!(world.turn(&format!("{name}/{version}"), "yank?force=true").await["changed"], true);
}

fn ids(nodes: &Value) -> Vec<&str> {
    nodes.as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap()).collect()
}

/// Base 1.0.0 and 1.1.0; Middle uses the newest, Pinned pins 1.1.0, Exact takes 1.1.0 alone, and Top
/// uses Middle and Exact.
async fn web() -> World {
    let world = World::new().await;
    let base = node("Base", "1.1.0", &[]);
    world.publish_all([node("Base", "1.0.0", &[]), base.clone()]).await;
    world
        .publish_all([
            node("Middle", "1.0.0", &[("Base", "^1.0.0", None)]),
            node("Pinned", "1.0.0", &[("Base", "^1.0.0", Some(digest_of(&base)))]),
            node("Exact", "1.0.0", &[("Base", "=1.1.0", None)]),
            node("Top", "1.0.0", &[("Middle", "^1.0.0", None), ("Exact", "^1.0.0", None)]),
            node("OverPinned", "1.0.0", &[("Pinned", "^1.0.0", None)]),
            node("Apart", "1.0.0", &[]),
        ])
        .await;
    world
}

#[tokio::test]
async fn a_graph_leads_down_and_up() {
    let world = web().await;
    let graph = world.get("/v1/capabilities/Base/graph").await.json();
    assert_eq!(graph["root"], "Base@1.1.0");
    assert_eq!(
        ids(&graph["nodes"]),
        [
            "Base@1.1.0",
            "Exact@1.0.0",
            "Middle@1.0.0",
            "OverPinned@1.0.0",
            "Pinned@1.0.0",
            "Top@1.0.0"
        ]
    );
    let edge = |from: &str, to: &str, uses: &str, range: &str, pinned: bool| json!({"from": from, "to": to, "uses": uses, "range": range, "pinned": pinned});
    assert_eq!(
        graph["edges"],
        json!([
            edge("Exact@1.0.0", "Base@1.1.0", "Base", "=1.1.0", false),
            edge("Middle@1.0.0", "Base@1.1.0", "Base", "^1.0.0", false),
            edge("OverPinned@1.0.0", "Pinned@1.0.0", "Pinned", "^1.0.0", false),
            edge("Pinned@1.0.0", "Base@1.1.0", "Base", "^1.0.0", true),
            edge("Top@1.0.0", "Exact@1.0.0", "Exact", "^1.0.0", false),
            edge("Top@1.0.0", "Middle@1.0.0", "Middle", "^1.0.0", false),
        ])
    );
    assert_eq!((&graph["truncated"], &graph["impact"]), (&json!(false), &Value::Null));

    let near = world.get("/v1/capabilities/Base/graph?depth=1").await.json();
    assert_eq!(ids(&near["nodes"]), ["Base@1.1.0", "Exact@1.0.0", "Middle@1.0.0", "Pinned@1.0.0"]);
    assert_eq!(near["truncated"], true);
    let down = world.get("/v1/capabilities/Top/1.0.0/graph").await.json();
    assert_eq!(ids(&down["nodes"]), ["Top@1.0.0", "Base@1.1.0", "Exact@1.0.0", "Middle@1.0.0"]);
    // Nobody uses the older version.
    let older = world.get("/v1/capabilities/Base/1.0.0/graph").await.json();
    assert_eq!(ids(&older["nodes"]), ["Base@1.0.0"]);
    assert_eq!(world.get("/v1/capabilities/Nobody/graph").await.code(), "A2S220");
    assert_eq!(world.get("/v1/capabilities/Base/7.0.0/graph").await.code(), "A2S221");
    assert_eq!(world.get("/v1/capabilities/Base/graph?depth=17").await.code(), "A2S206");
    assert_eq!(world.get("/v1/capabilities/Base/graph?width=1").await.code(), "A2S206");
}

#[tokio::test]
async fn a_yank_is_told_before_it_happens() {
    let world = web().await;
    let impact = async |target: &str| {
        let path = format!("/v1/capabilities/{target}/graph?impact=true");
        world.get(&path).await.json()["impact"].clone()
    };
    let told = impact("Base").await;
    assert_eq!(ids(&told["broken"]), ["Exact@1.0.0", "Top@1.0.0"]);
    let because = told["broken"][0]["reasons"][0].as_str().unwrap();
    assert!(because.contains("no live version of `Base` matches `=1.1.0`"), "{because}");
    assert_eq!(ids(&told["changed"]), ["Middle@1.0.0"]);
    assert_eq!(told["changed"][0]["replacements"][0]["version"], "1.0.0");
    assert_eq!(told["pinned"], json!(["OverPinned@1.0.0", "Pinned@1.0.0"]));
    assert_eq!(impact("Base/1.0.0").await, json!({"broken": [], "changed": [], "pinned": []}));

    yank(&world, "Base", "1.1.0").await;
    let graph = world.get("/v1/capabilities/Exact/graph").await.json();
    assert_eq!(graph["edges"][0]["to"], Value::Null, "nothing will do any more");
    let graph = world.get("/v1/capabilities/Middle/graph").await.json();
    assert_eq!(graph["edges"][0]["to"], "Base@1.0.0");
    // What is yanked breaks nothing more.
    assert_eq!(ids(&impact("Base/1.1.0").await["broken"]), [""; 0]);
}

#[tokio::test]
async fn what_pins_a_yanked_version_still_leads_through_it() {
    let world = World::new().await;
    let middle = node("Middle", "1.0.0", &[("Base", "^1.0.0", None)]);
    let pinned = Some(digest_of(&middle));
    let documents = [
        node("Base", "1.0.0", &[]),
        node("Base", "1.1.0", &[]),
        middle,
        node("Top", "1.0.0", &[("Middle", "*", pinned)]),
    ];
    for document in documents {
        assert_eq!(world.publish(document).await.status, 201);
    }
    yank(&world, "Middle", "1.0.0").await;
    let graph = world.get("/v1/capabilities/Base/1.1.0/graph?impact=true&depth=2").await.json();
    assert_eq!(ids(&graph["impact"]["changed"]), ["Top@1.0.0"]);
    assert_eq!(ids(&graph["nodes"]), ["Base@1.1.0", "Middle@1.0.0", "Top@1.0.0"]);
}

#[tokio::test]
async fn related_capabilities_are_listed() {
    let world = World::new().await;
    let describe = |name: &str, input: Value, output: (&str, Value), more: &Value| {
        let (given, schema) = output;
        let mut step = http_step(given, "get", "api.example.com", "Things");
        step["task"]["paths"]["/"]["get"] = json!({
            "parameters": [{"name": input["name"], "in": "query", "schema": input["schema"]}],
            "responses": {"200": {"description": "d", "content": {"application/json": {"schema":
                {"type": "object", "properties": {"data": schema}}}}}},
        });
        step["input_mapping"] = json!({input["name"].as_str().unwrap(): format!("${{{}}}", input["variable"].as_str().unwrap())});
        document_of(name, "Does something", &json!([step]), more)
    };
    let input =
        |name: &str, kind: &str| json!({"name": "q", "variable": name, "schema": {"type": kind}});
    world
        .publish_all([
            describe(
                "FindCity",
                input("query", "string"),
                ("city_name", json!({"type": "string"})),
                &json!({}),
            ),
            describe(
                "GetWeather",
                input("cityName", "string"),
                ("degrees", json!({"type": "number"})),
                &json!({}),
            ),
            describe(
                "CountPeople",
                input("cityName", "integer"),
                ("people", json!({})),
                &json!({}),
            ),
        ])
        .await;
    let graph = world.get("/v1/capabilities/FindCity/graph").await.json();
    assert_eq!(
        graph["consumers"],
        json!([{
            "capability": "GetWeather",
            "version": "1.0.0",
            "output": "city_name",
            "output_type": "string",
            "input": "cityName",
            "input_type": "string",
            "required": true,
        }])
    );
    assert_eq!(graph["producers"], json!([]));
    assert_eq!(
        graph["services"],
        json!([{"host": "api.example.com", "capabilities": ["CountPeople", "GetWeather"], "total": 3}])
    );
    let other = world.get("/v1/capabilities/GetWeather/graph").await.json();
    assert_eq!(other["producers"][0]["capability"], "FindCity");
    assert_eq!(other["producers"][0]["output"], "city_name");

    // Of the same type before those of which only the names are alike; what a run needs before what
    // it can do without; then by name.
    let untyped = json!({"name": "q", "variable": "cityName", "schema": {}});
    let optional =
        json!({"parameters": [{"name": "cityName", "type": "string", "required": false}]});
    let nothing = json!({});
    world
        .publish_all([
            describe("AboutCity", untyped, ("text", nothing.clone()), &nothing),
            describe("AddPlace", input("cityName", "string"), ("id", nothing.clone()), &optional),
            describe("BookHotel", input("cityName", "string"), ("room", nothing.clone()), &nothing),
        ])
        .await;
    let graph = world.get("/v1/capabilities/FindCity/graph").await.json();
    let fed: Vec<_> =
        graph["consumers"].as_array().unwrap().iter().map(|feed| &feed["capability"]).collect();
    assert_eq!(fed, ["BookHotel", "GetWeather", "AddPlace", "AboutCity"]);
}

/// What a version uses: the index of an earlier capability, a range, and whether it is pinned.
type Uses = Vec<(usize, usize, bool)>;

const RANGES: [&str; 5] = ["^1.0.0", "=1.1.0", "*", "^2.0.0", ">=1.1.0"];
const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0", "2.0.0"];

/// Up to six capabilities of up to three versions, of which each uses some of those before it; and
/// which of all versions are yanked already.
fn any_world() -> impl Strategy<Value = (Vec<Vec<Uses>>, Vec<prop::sample::Index>)> {
    let uses =
        prop::collection::vec((0usize..6, 0usize..RANGES.len(), prop::bool::weighted(0.3)), 0..3);
    let capability = prop::collection::vec(uses, 1..=3);
    (
        prop::collection::vec(capability, 2..=6),
        prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    )
}

/// Publishes what can be published, and gives the documents.
async fn publish(world: &World, plan: &[Vec<Uses>]) -> Vec<String> {
    let mut published: Vec<String> = Vec::new();
    let mut first: BTreeMap<usize, a2s::Digest> = BTreeMap::new();
    for (index, versions) in plan.iter().enumerate() {
        for (version, uses) in VERSIONS.iter().zip(versions) {
            let mut seen = BTreeSet::new();
            let names: Vec<_> = uses
                .iter()
                .map(|(used, range, pinned)| (used % index.max(1), *range, *pinned))
                .filter(|(used, ..)| index > 0 && seen.insert(*used))
                .map(|(used, range, pinned)| {
                    let pin = pinned.then(|| first.get(&used).copied()).flatten();
                    (format!("C{used}"), RANGES[range], pin)
                })
                .collect();
            let uses: Vec<_> =
                names.iter().map(|(name, range, pin)| (name.as_str(), *range, *pin)).collect();
            let document = node(&format!("C{index}"), version, &uses);
            // One whose range has nothing, or whose pin lies outside it, is refused, and not there.
            if world.publish(document.clone()).await.status == 201 {
                first.entry(index).or_insert_with(|| digest_of(&document));
                published.push(document);
            }
        }
    }
    published
}

/// Everything on one shelf, without asking what leads where.
fn shelf_of(documents: &[Document], yanked: &BTreeSet<a2s::Digest>) -> DependencyIndex {
    let mut shelf = DependencyIndex::default();
    for document in documents {
        shelf.add_document(document);
        let capability = document.capability();
        let listing = VersionInfo {
            version: capability.version.clone(),
            checksum: document.digest(),
            yanked: yanked.contains(&document.digest()),
            deprecated: None,
        };
        shelf.add_versions(&capability.name, [listing]);
    }
    shelf
}

/// Links every version that is not yanked before and after, and says what differs.
fn impact_by_force(
    documents: &[Document],
    yanked: &BTreeSet<a2s::Digest>,
    target: &Document,
) -> [BTreeSet<String>; 3] {
    let before = shelf_of(documents, yanked);
    let mut more = yanked.clone();
    more.insert(target.digest());
    let after = shelf_of(documents, &more);
    let [mut breaks, mut moves, mut keeps] = [const { BTreeSet::new() }; 3];
    for document in documents {
        let capability = document.capability();
        let id = format!("{}@{}", capability.name, capability.version);
        let leads = |shelf: &DependencyIndex| {
            let mut pins = shelf.closure(&capability.dependencies).into_iter();
            pins.any(|pin| pin.checksum == target.digest())
        };
        if yanked.contains(&document.digest()) || !leads(&before) {
            continue;
        }
        let errors = |shelf: &DependencyIndex| {
            let errors =
                shelf.check_dependencies(capability).into_iter().filter(a2s::Diagnostic::is_error);
            errors.filter(|error| error.code != "A2S065").count()
        };
        if errors(&after) > errors(&before) {
            breaks.insert(id);
        } else if leads(&after) {
            keeps.insert(id);
        } else {
            moves.insert(id);
        }
    }
    [breaks, moves, keeps]
}

#[test]
fn impact_is_what_linking_everything_again_says() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config =
        ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&any_world(), |(plan, yanks)| {
            runtime.block_on(async {
                let world = World::new().await;
                let sources = publish(&world, &plan).await;
                let documents: Vec<_> = sources
                    .iter()
                    .map(|source| Document::open(source.as_bytes()).unwrap())
                    .collect();
                let mut yanked = BTreeSet::new();
                for index in yanks {
                    let document = index.get(&documents);
                    let capability = document.capability();
                    if yanked.insert(document.digest()) {
                        let version = capability.version.to_string();
                        yank(&world, capability.name.as_str(), &version).await;
                    }
                }
                for target in &documents {
                    let (name, version) = (&target.capability().name, &target.capability().version);
                    let path = format!("/v1/capabilities/{name}/{version}/graph?impact=true");
                    let told = world.get(&path).await.json()["impact"].clone();
                    let set = |list: &Value| -> BTreeSet<String> {
                        let items = list.as_array().unwrap().iter();
                        let id = |item: &Value| {
                            item["id"].as_str().or(item.as_str()).unwrap().to_owned()
                        };
                        items.map(id).collect()
                    };
                    let told = [set(&told["broken"]), set(&told["changed"]), set(&told["pinned"])];
                    prop_assert_eq!(told, impact_by_force(&documents, &yanked, target), "{}", path);
                }
                world.app.close().await;
                Ok(())
            })
        })
        .unwrap();
}
