use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::source::Choices;
use crate::tests::world::{document, sequence, task};

/// A library of documents, the last of which runs; dependencies mean the document of their name.
fn library(sources: &[Vec<u8>]) -> Library {
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
    Library {
        root: documents.last().unwrap().digest(),
        choices: Choices(choices.collect()),
        documents: documents.iter().map(|d| (d.digest(), Arc::clone(d))).collect(),
        sources: BTreeMap::new(),
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
    let plan = Plan::new(&library(sources), 100).unwrap();
    assert_eq!(plan.missing(inputs.as_object().unwrap()), expected);
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
fn refuse(sources: &[Vec<u8>], max_steps: usize, kind: Kind, words: &[&str]) {
    let error = Plan::new(&library(sources), max_steps).unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    for word in words {
        assert!(error.message.contains(word), "{word:?} is not in {:?}", error.message);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let leaf = || leaf("Leaf", &["city"]);
    let unknown = user("Top", &[("Leaf", json!({"town": "x"}))]);
    refuse(&[leaf(), unknown], 100, Kind::DependencyRefused, &["`useLeaf`", "`town`", "`Leaf`"]);
    let one = user("One", &[("Two", json!({}))]);
    let two = user("Two", &[("One", json!({}))]);
    refuse(&[one, two], 100, Kind::DependencyRefused, &["itself", "`One`", "`Two`"]);
    refuse(&[user("Top", &[("Leaf", json!({}))])], 100, Kind::DependencyRefused, &["`Leaf`"]);
    let foreign = document(
        "Leaf",
        "1.0.0",
        &json!({"domains": ["api.example", "evil.example"],
            "execution": sequence(json!([task("a", "GET /echo/1", json!({}), json!({}))]))}),
    );
    let top = || user("Top", &[("Leaf", json!({}))]);
    refuse(&[foreign, top()], 100, Kind::DependencyRefused, &["evil.example"]);
    let newer = document(
        "Leaf",
        "2.0.0",
        &json!({"execution": sequence(json!([task("a", "GET /echo/1", json!({}), json!({}))]))}),
    );
    refuse(&[newer, top()], 100, Kind::DependencyRefused, &["2.0.0", "^1.0.0"]);
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
    let plan = Plan::new(&library(&chain(4)), 22).unwrap();
    assert_eq!(plan.dependencies.len(), 3);
    refuse(&chain(4), 21, Kind::BudgetExceeded, &["21 steps"]);
    assert!(Plan::new(&library(&chain(9)), usize::MAX).is_ok());
    refuse(&chain(10), usize::MAX, Kind::DependencyRefused, &["8 capabilities"]);
}

fn render(sources: &[Vec<u8>], inputs: &Value) -> PlanAnswer {
    let plan = Plan::new(&library(sources), 100).unwrap();
    let guarding = Guarding { guardian: "off".to_owned(), fail: "open".to_owned() };
    plan.render(inputs.as_object().unwrap(), guarding, |_| None)
}

#[test]
fn a_variable_that_steps_set_stays_a_template() {
    let source = document(
        "Top",
        "1.0.0",
        &json!({"execution": {
            "type": "condition",
            "variables": {"shared": {"level": "string"}},
            "condition": "${level} == 'x'",
            "if_true": {"steps": [
                task("a", "GET /echo/{word}", json!({"word": "${level}"}), json!({"level": "$.value"})),
            ]},
        }}),
    );
    let answer = render(&[source], &json!({"level": "given"}));
    // The execution itself is a condition: it stands for the run, whose path is empty.
    assert_eq!((answer.steps.len(), answer.steps[0].step.as_str()), (1, ""));
    let PlannedStepKind::Condition { condition, if_true, if_false } = &answer.steps[0].kind else {
        panic!("{:?}", answer.steps[0].kind);
    };
    assert_eq!((condition.as_str(), if_false.len()), ("${level} == 'x'", 0));
    let PlannedStepKind::Task { inputs, .. } = &if_true[0].kind else { panic!() };
    assert_eq!(inputs["pathParameters.word"], "${level}");
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
        let plan = Plan::new(&library(&sources), 100).unwrap();
        prop_assert_eq!(&plan, &Plan::new(&library(&sources), 100).unwrap());
        let rendered = render(&sources, &json!({}));
        prop_assert_eq!(&rendered, &render(&sources, &json!({})));
        prop_assert_eq!(rendered.missing.len() + inputs.len(), needs.len());
    }
}
