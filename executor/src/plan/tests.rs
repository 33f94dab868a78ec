use proptest::prelude::*;
use serde_json::json;

use a2s_api::{PlannedStep, PlannedStepKind};

use super::*;
use crate::registry_client::ResolvedDependencies;
use crate::tests::world::{document, sequence, task};

/// A library of documents, the last of which runs; dependencies mean the document of their name.
fn library(sources: &[Vec<u8>]) -> RunDocuments {
    let documents: Vec<_> =
        sources.iter().map(|source| Arc::new(Document::open(source).unwrap())).collect();
    let digest_of = |name: &CapabilityName| {
        let mut named = documents.iter().filter(|d| d.capability().name == *name);
        named.next().map(|document| document.digest())
    };
    let choices = documents.iter().map(|document| {
        let names = document.capability().dependencies.iter().map(|d| d.capability.clone());
        let chosen = names.filter_map(|name| Some((name.clone(), digest_of(&name)?)));
        (document.digest(), chosen.collect())
    });
    RunDocuments {
        root: documents.last().unwrap().digest(),
        resolved: ResolvedDependencies(choices.collect()),
        documents: documents.iter().map(|d| (d.digest(), Arc::clone(d))).collect(),
        sources: BTreeMap::new(),
        notices: Vec::new(),
        unknown: Vec::new(),
    }
}

/// A capability that uses others, one step each, with these inputs.
fn user(name: &str, uses: &[(&str, Value)]) -> Vec<u8> {
    let dependencies: Vec<_> =
        uses.iter().map(|(name, _)| json!({"capability": name, "version": "^1.0.0"})).collect();
    let steps: Vec<_> = uses
        .iter()
        .map(|(name, inputs)| {
            json!({"id": format!("use{name}"), "type": "capability", "use": name, "input_mapping": inputs})
        })
        .collect();
    document(
        name,
        "1.0.0",
        &json!({"dependencies": dependencies, "execution": sequence(json!(steps))}),
    )
}

fn leaf(name: &str, inputs: &[&str]) -> Vec<u8> {
    let steps: Vec<_> = inputs
        .iter()
        .map(|input| {
            let value = json!({"word": format!("${{{input}}}")});
            task(&format!("send-{input}"), "GET /echo/{word}", value, json!({}))
        })
        .collect();
    document(name, "1.0.0", &json!({"execution": sequence(json!(steps))}))
}

#[track_caller]
fn check_missing(sources: &[Vec<u8>], inputs: &Value, expected: &[&str]) {
    let plan = ExecutionPlan::new(&library(sources), 100).unwrap();
    assert_eq!(plan.missing_inputs(inputs.as_object().unwrap()), expected);
}

#[test]
fn needs_that_are_not_mapped_become_the_users() {
    let leaf = || leaf("Leaf", &["city", "unit"]);
    check_missing(&[leaf()], &json!({"unit": 1}), &["city"]);
    check_missing(&[leaf(), user("Top", &[("Leaf", json!({}))])], &json!({}), &["city", "unit"]);
    let mapped = user("Top", &[("Leaf", json!({"city": "${place}"}))]);
    check_missing(&[leaf(), mapped], &json!({}), &["place", "unit"]);
    // Through two levels, and once for all that need it.
    let middle = user("Middle", &[("Leaf", json!({"unit": "c"}))]);
    let top = user("Top", &[("Middle", json!({})), ("Leaf", json!({"unit": "${u}"}))]);
    check_missing(&[leaf(), middle, top], &json!({"u": 1}), &["city"]);
}

#[test]
fn a_need_that_a_step_sets_is_not_asked_for() {
    let top = document(
        "Top",
        "1.0.0",
        &json!({
            "dependencies": [{"capability": "Leaf", "version": "^1.0.0"}],
            "execution": sequence(json!([
                task("find", "GET /echo/1", json!({}), json!({"city": "$.value"})),
                {"id": "use", "type": "capability", "use": "Leaf"},
            ])),
        }),
    );
    check_missing(&[leaf("Leaf", &["city"]), top], &json!({}), &[]);
}

#[track_caller]
fn refuse(sources: &[Vec<u8>], max_steps: usize, kind: ErrorKind, words: &[&str]) {
    let error = ExecutionPlan::new(&library(sources), max_steps).unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    for word in words {
        assert!(error.message.contains(word), "{word:?} is not in {:?}", error.message);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let leaf = || leaf("Leaf", &["city"]);
    let unknown = user("Top", &[("Leaf", json!({"town": "x"}))]);
    refuse(
        &[leaf(), unknown],
        100,
        ErrorKind::DependencyRefused,
        &["`useLeaf`", "`town`", "`Leaf`"],
    );
    let one = user("One", &[("Two", json!({}))]);
    let two = user("Two", &[("One", json!({}))]);
    refuse(&[one, two], 100, ErrorKind::DependencyRefused, &["itself", "`One`", "`Two`"]);
    refuse(&[user("Top", &[("Leaf", json!({}))])], 100, ErrorKind::DependencyRefused, &["`Leaf`"]);
    let foreign = document(
        "Leaf",
        "1.0.0",
        &json!({"domains": ["api.example", "evil.example"],
            "execution": sequence(json!([task("a", "GET /echo/1", json!({}), json!({}))]))}),
    );
    let top = || user("Top", &[("Leaf", json!({}))]);
    refuse(&[foreign, top()], 100, ErrorKind::DependencyRefused, &["evil.example"]);
    let newer = document(
        "Leaf",
        "2.0.0",
        &json!({"execution": sequence(json!([task("a", "GET /echo/1", json!({}), json!({}))]))}),
    );
    refuse(&[newer, top()], 100, ErrorKind::DependencyRefused, &["2.0.0", "^1.0.0"]);
}

#[test]
fn chains_and_steps_are_bounded() {
    let chain = |length: usize| -> Vec<Vec<u8>> {
        let mut sources = vec![leaf("C0", &["x"])];
        for index in 1..length {
            let below = format!("C{}", index - 1);
            // Each uses the one below twice: the steps double with each level.
            let steps: Vec<_> =
                ["a", "b"].map(|id| json!({"id": id, "type": "capability", "use": below})).to_vec();
            sources.push(document(
                &format!("C{index}"),
                "1.0.0",
                &json!({"dependencies": [{"capability": below, "version": "*"}],
                    "execution": sequence(json!(steps))}),
            ));
        }
        sources
    };
    // 1 at the bottom, then twice as many and two more on each level: 1, 4, 10, 22.
    let plan = ExecutionPlan::new(&library(&chain(4)), 22).unwrap();
    assert_eq!(plan.dependencies.len(), 3);
    refuse(&chain(4), 21, ErrorKind::BudgetExceeded, &["21 steps"]);
    assert!(ExecutionPlan::new(&library(&chain(9)), usize::MAX).is_ok());
    refuse(&chain(10), usize::MAX, ErrorKind::DependencyRefused, &["8 capabilities"]);
}

fn render(sources: &[Vec<u8>], inputs: &Value) -> PlanResponse {
    let plan = ExecutionPlan::new(&library(sources), 100).unwrap();
    let inputs = inputs.as_object().unwrap();
    plan.to_response(inputs, BTreeMap::new(), Vec::new(), &PlanCredentials::default(), |_| None)
        .unwrap()
}

/// Collects the value of each task's `word` in a plan, by the path of the step.
fn words_of(steps: &[PlannedStep], words: &mut BTreeMap<String, Value>) {
    for step in steps {
        if let PlannedStepKind::Task { inputs, .. } = &step.kind {
            words.insert(step.step.clone(), inputs["pathParameters.word"].clone());
        }
        step.kind.children().into_iter().for_each(|below| words_of(below, words));
        words_of(&step.catch, words);
    }
}

#[test]
fn a_variable_is_known_until_a_step_sets_it() {
    let read = |id: &str| task(id, "GET /echo/{word}", json!({"word": "${level}"}), json!({}));
    let set = |id: &str| {
        let output = json!({"level": "$.value"});
        task(id, "GET /echo/{word}", json!({"word": "${level}"}), output)
    };
    let mut caught = set("caught");
    caught["catch"] = json!({"as": "error", "steps": [read("after-error")]});
    let source = document(
        "Top",
        "1.0.0",
        &json!({"a2s": "1.1.0", "execution": {
            "type": "condition",
            "variables": {"shared": {"level": "string"}},
            "condition": "${level} == 'x'",
            "if_true": {"steps": [
                {"id": "both", "type": "parallel", "steps": [set("first"), read("second")]},
                read("third"),
            ]},
            "if_false": {"steps": [caught]},
        }}),
    );
    let inputs = json!({"level": "given"});
    let answer = render(std::slice::from_ref(&source), &inputs);
    // The execution itself is a condition: it stands for the run, whose path is empty.
    assert_eq!((answer.steps.len(), answer.steps[0].step.as_str()), (1, ""));
    let PlannedStepKind::Condition { condition, .. } = &answer.steps[0].kind else {
        panic!("{:?}", answer.steps[0].kind);
    };
    assert_eq!(condition, "${level} == 'x'");
    let mut words = BTreeMap::new();
    words_of(&answer.steps, &mut words);
    let expected = [
        ("both/first", true),
        ("both/second", true),
        ("caught", true),
        ("caught/after-error", false),
        ("third", false),
    ];
    let expected = expected.map(|(step, is_known)| (step.to_owned(), is_known));
    let known = words.into_iter().map(|(step, word)| (step, word == "given"));
    assert_eq!(known.collect::<Vec<_>>(), expected);

    let plan = ExecutionPlan::new(&library(&[source]), 100).unwrap();
    let steps =
        plan.list_previewable_steps(inputs.as_object().unwrap(), &RunSecrets::default()).unwrap();
    let known = steps.into_iter().map(|step| (step.step, step.needs.is_empty()));
    assert_eq!(known.collect::<BTreeMap<_, _>>(), BTreeMap::from(expected));
}

proptest! {
    // Each case compiles two documents.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_plan_is_the_same_every_time(
        needs in prop::collection::vec("[a-z]{1,4}", 1..4),
        mapped in prop::collection::vec(any::<bool>(), 4),
        value in "\\PC{0,8}",
    ) {
        let needs: BTreeSet<&str> = needs.iter().map(String::as_str).collect();
        let needs: Vec<&str> = needs.into_iter().collect();
        let inputs: Map<String, Value> = needs
            .iter()
            .zip(&mapped)
            .filter(|(_, mapped)| **mapped)
            .map(|(name, _)| ((*name).to_owned(), json!(value.replace('$', ""))))
            .collect();
        let sources =
            [leaf("Leaf", &needs), user("Top", &[("Leaf", Value::Object(inputs.clone()))])];
        let plan = ExecutionPlan::new(&library(&sources), 100).unwrap();
        prop_assert_eq!(&plan, &ExecutionPlan::new(&library(&sources), 100).unwrap());
        let rendered = render(&sources, &json!({}));
        prop_assert_eq!(&rendered, &render(&sources, &json!({})));
        prop_assert_eq!(rendered.missing.len() + inputs.len(), needs.len());
    }
}

#[test]
fn what_a_step_brings_itself_is_not_asked_for() {
    let top = document(
        "Top",
        "1.0.0",
        &json!({
            "a2s": "1.1.0",
            "dependencies": [{"capability": "Leaf", "version": "^1.0.0"}],
            "execution": sequence(json!([
                {"id": "each", "type": "capability", "use": "Leaf", "for_each": {"in": "${cities}", "as": "city"}},
                {"id": "try", "type": "capability", "use": "Leaf", "input_mapping": {"city": "x", "error": "y"},
                 "catch": {"steps": [{"id": "fall", "type": "capability", "use": "Leaf", "input_mapping": {"city": "${error.code}"}}]}},
            ])),
        }),
    );
    let leaf = || leaf("Leaf", &["city", "error"]);
    // The first use needs `error`, where no `catch` brings it.
    check_missing(&[leaf(), top], &json!({}), &["cities", "error"]);
}

#[test]
fn optional_parameters_are_not_missing() {
    let parameters = json!([
        {"name": "city"}, {"name": "unit", "default": "c"}, {"name": "lang", "required": false},
    ]);
    let step =
        task("say", "POST /say", json!({"body": ["${city}", "${unit}", "${lang}"]}), json!({}));
    let rest =
        json!({"a2s": "1.1.0", "parameters": parameters, "execution": sequence(json!([step]))});
    let leaf = || document("Leaf", "1.0.0", &rest);
    check_missing(&[leaf()], &json!({}), &["city"]);
    check_missing(&[leaf(), user("Top", &[("Leaf", json!({}))])], &json!({}), &["city"]);
}

#[test]
fn a_user_must_declare_the_permissions_of_what_it_uses() {
    let step = task("a", "GET /echo/1", json!({}), json!({}));
    let rest = json!({"a2s": "1.1.0", "permissions": ["weather.read"], "execution": sequence(json!([step]))});
    let leaf = document("Leaf", "1.0.0", &rest);
    let top = user("Top", &[("Leaf", json!({}))]);
    refuse(&[leaf, top], 100, ErrorKind::DependencyRefused, &["`weather.read`", "`Top`", "`Leaf`"]);
}

#[test]
fn a_plan_names_a_long_value_only_so_often() {
    let many: Vec<_> = ["${text}"; 100].to_vec();
    let step = task("say", "POST /say", json!({"body": many}), json!({}));
    let source = document("Long", "1.0.0", &json!({"execution": sequence(json!([step]))}));
    let text = "x".repeat(plan_view::MAX_FILLED_BYTES / 10);
    let answer = render(&[source], &json!({"text": text}));
    let shown = json!(answer.steps[0])["inputs"]["body"].as_array().unwrap().clone();
    assert_eq!(shown.iter().filter(|item| **item == json!(text)).count(), 10);
    assert_eq!(shown[99], "${text}");
}

/// Steps as somebody may write them: often wrong, and often right.
fn any_step(depth: u32) -> BoxedStrategy<Value> {
    let word = || prop::sample::select(&["a", "b", "c.d", "c.e", "item", "error", "n", "list"][..]);
    let reference = move || {
        prop_oneof![
            word().prop_map(|name| json!(format!("${{{name}}}"))),
            word().prop_map(|name| json!(format!("text ${{{name}}} and $${{x}}"))),
            word().prop_map(|name| json!({"k": [format!("${{{name}}}"), null, 1]})),
            Just(json!(7)),
        ]
    };
    let output = prop_oneof![
        Just(json!("$.value")),
        Just(json!({"path": "$..x[?@ > 1]", "optional": true})),
        Just(json!({"path": "$.a", "default": [1]})),
        Just(json!({"from": "status"})),
        Just(json!({"from": "header", "path": "X-Id", "optional": true})),
    ];
    let outputs = move || {
        prop::collection::btree_map(word(), output.clone(), 0..3).prop_map(|outputs| json!(outputs))
    };
    let tool =
        (reference(), outputs(), any::<bool>()).prop_map(|(input, outputs, get)| match get {
            true => task("s", "GET /echo/{word}", json!({"word": input}), outputs),
            false => task("s", "POST /say", json!({"body": input}), outputs),
        });
    let using = (reference(), prop::option::of(reference())).prop_map(|(city, unit)| {
        let mut inputs = json!({"city": city});
        inputs.as_object_mut().unwrap().extend(unit.map(|unit| ("unit".to_owned(), unit)));
        json!({"id": "s", "type": "capability", "use": "Leaf", "input_mapping": inputs, "output_mapping": {"b": "$"}})
    });
    let leaf = prop_oneof![3 => tool, 1 => using];
    let Some(below) = depth.checked_sub(1) else { return leaf.boxed() };
    let steps = || prop::collection::vec(any_step(below), 1..3);
    let step = prop_oneof![
        3 => leaf,
        1 => steps().prop_map(|steps| json!({"id": "s", "type": "sequence", "steps": steps})),
        1 => (steps(), prop::option::of(1..5_usize)).prop_map(|(steps, width)| {
            let mut block = json!({"id": "s", "type": "parallel", "steps": steps});
            let more = width.map(|width| ("max_concurrency".to_owned(), json!(width)));
            block.as_object_mut().unwrap().extend(more);
            block
        }),
        1 => (word(), steps(), steps()).prop_map(|(name, yes, no)| json!({
            "id": "s", "type": "condition", "condition": format!("${{{name}}} == 1"),
            "if_true": {"steps": yes}, "if_false": {"steps": no},
        })),
    ];
    let for_each = prop_oneof![
        word().prop_map(|name| json!(format!("${{{name}}}"))),
        word()
            .prop_map(|name| json!({"in": [1, format!("${{{name}}}")], "as": "n", "max_items": 5})),
        Just(json!({"in": "${list}", "max_concurrency": 3})),
    ];
    let caught = any_step(0);
    let control = (
        prop::option::weighted(0.3, for_each),
        prop::option::weighted(0.3, Just(json!("5s"))),
        prop::option::weighted(
            0.5,
            prop_oneof![
                1 => Just(("on_error", json!("continue"))),
                1 => caught.prop_map(|step| ("catch", json!({"steps": [step]}))),
            ],
        ),
    );
    (step, control)
        .prop_map(|(mut step, (for_each, timeout, on_error))| {
            let fields = step.as_object_mut().unwrap();
            fields.extend(for_each.map(|value| ("for_each".to_owned(), value)));
            fields.extend(timeout.map(|value| ("timeout".to_owned(), value)));
            fields.extend(on_error.map(|(name, value)| (name.to_owned(), value)));
            step
        })
        .boxed()
}

/// Gives every step an id of its own.
fn number(value: &mut Value, next: &mut usize) {
    match value {
        Value::Object(members) => {
            if let Some(id) = members.get_mut("id") {
                *id = json!(format!("s{next}"));
                *next += 1;
            }
            let inside = members.iter_mut().filter(|(name, _)| *name != "task");
            inside.for_each(|(_, member)| number(member, next));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| number(item, next)),
        _ => {}
    }
}

#[test]
fn no_document_that_is_accepted_makes_the_planner_panic() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;

    let parameters = json!([
        {"name": "a", "type": "string", "required": false},
        {"name": "list", "type": "array", "default": [1, 2]},
        {"name": "secret", "secret": true, "required": false},
    ]);
    let inner_parameters =
        json!([{"name": "city", "secret": true}, {"name": "unit", "required": false}]);
    let inner = json!({
        "a2s": "1.1.0",
        "parameters": inner_parameters,
        "execution": sequence(json!([
            task("say", "POST /say", json!({"body": {"c": "${city}", "u": "${unit}"}}), json!({"x": "$.body"})),
        ])),
    });
    let inner = document("Leaf", "1.0.0", &inner);
    let mut runner = TestRunner::deterministic();
    let (mut accepted, mut planned) = (0, 0);
    for _ in 0..400 {
        let steps = prop::collection::vec(any_step(2), 1..3);
        let mut steps = json!(steps.new_tree(&mut runner).unwrap().current());
        number(&mut steps, &mut 0);
        let uses = steps.to_string().contains("\"Leaf\"");
        let dependencies =
            if uses { json!([{"capability": "Leaf", "version": "*"}]) } else { json!([]) };
        let content = json!({
            "a2s": "1.1.0", "name": "Any", "description": "Any steps", "domains": ["api.example"],
            "version": "1.0.0", "checksum": "<checksum>", "authors": [{"name": "Test"}],
            "parameters": parameters, "dependencies": dependencies,
            "execution": {"type": "sequence", "variables": {"shared": {"b": "string", "c": "object"}}, "steps": steps},
        });
        let compilation = a2s::compile(content.to_string().as_bytes());
        if compilation.document.is_none() {
            continue;
        }
        accepted += 1;
        let mut content = content;
        content["checksum"] = json!(compilation.digest.unwrap());
        let library = library(&[inner.clone(), content.to_string().into_bytes()]);
        // It may be refused, but only in words.
        let Ok(plan) = ExecutionPlan::new(&library, 1_000) else { continue };
        planned += 1;
        for inputs in [json!({}), json!({"a": "x", "secret": "s3cret", "list": ["s3cret"]})] {
            let inputs = inputs.as_object().unwrap();
            let answer = plan
                .to_response(
                    inputs,
                    BTreeMap::new(),
                    Vec::new(),
                    &PlanCredentials::default(),
                    |_| None,
                )
                .unwrap();
            let text = json!(answer).to_string();
            assert!(!text.contains("s3cret"), "{text}");
            assert_eq!(json!(answer), json!(serde_json::from_str::<PlanResponse>(&text).unwrap()));
        }
    }
    assert!(accepted > 100 && planned > 100, "{accepted} accepted, {planned} planned");
}

#[test]
fn catch_step_belongs_to_the_capability_with_the_catch() {
    let top = document(
        "Top",
        "1.0.0",
        &json!({
            "a2s": "1.1.0",
            "dependencies": [
                {"capability": "Leaf", "version": "^1.0.0"},
                {"capability": "Other", "version": "^1.0.0"},
            ],
            "execution": sequence(json!([{"id": "around", "type": "sequence", "steps": [{
                "id": "push", "type": "capability", "use": "Leaf", "input_mapping": {"city": "x"},
                "catch": {"steps": [
                    {"id": "tweet", "type": "capability", "use": "Other", "input_mapping": {"city": "x"}},
                ]},
            }]}])),
        }),
    );
    let sources = [leaf("Leaf", &["city"]), leaf("Other", &["city"]), top];
    let plan = ExecutionPlan::new(&library(&sources), 100).unwrap();
    let of = |path: &str| plan.find_step(path).map(|(unit, _)| unit.pin.name.to_string());
    assert_eq!(of("around/push/send-city").as_deref(), Some("Leaf"));
    assert_eq!(of("around/push/tweet").as_deref(), Some("Top"));
    assert_eq!(of("around/push/tweet/send-city").as_deref(), Some("Other"));
    assert_eq!(of("around/push/tweet/other"), None);

    let whole = |way: &str| {
        let pieces = plan.full_path(&way.parse().unwrap())?;
        Some(pieces.iter().map(|piece| piece.id.as_str()).collect::<Vec<_>>().join("/"))
    };
    assert_eq!(whole("push/send-city").as_deref(), Some("around/push/send-city"));
    assert_eq!(whole("tweet/send-city").as_deref(), Some("around/push/tweet/send-city"));
    for way in ["send-city", "push", "around", "push[0]/send-city", "tweet/send-city/more"] {
        assert_eq!(whole(way), None, "{way}");
    }
}
