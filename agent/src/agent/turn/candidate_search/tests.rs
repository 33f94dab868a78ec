use serde_json::json;

use super::*;

fn hit(name: &str, score: f64) -> SearchHit {
    serde_json::from_value(json!({
        "id": name, "score": score, "match": "strong", "description": "", "usage_count": 0, "success_rate": null,
        "complexity": "low", "required_permissions": [], "name": name, "version": "1.0.0",
        "checksum": format!("sha256:{}", "0".repeat(64)), "parameters": [],
        "similarity": 0.5, "explanation": [],
    }))
    .unwrap()
}

/// Hits of one registry.
fn hits(names: &[&str]) -> RankedHits {
    names.iter().map(|name| (0, hit(name, 0.9))).collect()
}

#[track_caller]
fn check(found: &[&[&str]], expected: &[&[&str]]) {
    let intents = vec!["x".to_owned(); found.len()];
    let lists: Vec<_> = found.iter().map(|names| hits(names)).collect();
    let near: Vec<_> = lists.iter().map(near_identities).collect();
    let tasks = split_tasks(&intents, lists, &near);
    let names: Vec<Vec<_>> = tasks
        .iter()
        .map(|(_, choices)| choices.iter().map(|choice| choice.pin.name.as_str()).collect())
        .collect();
    assert_eq!(names, expected, "{found:?}");
}

#[test]
fn one_wish_is_one_task() {
    check(&[&["Joke", "Laugh"]], &[&["Joke", "Laugh"]]);
    check(&[&[]], &[]);
}

#[test]
fn what_does_every_part_does_it_alone() {
    // The whole, then its parts.
    let weather: &[&str] = &["Weather", "WeatherTweet"];
    let tweet: &[&str] = &["Tweet", "WeatherTweet"];
    check(&[&["Weather", "WeatherTweet"], weather, tweet], &[&["WeatherTweet"]]);
}

#[test]
fn else_each_part_is_a_task_in_its_order() {
    check(&[&["Dogs", "Joke"], &["Joke"], &["Dogs"]], &[&["Joke"], &["Dogs"]]);
    // What fits no part is no task, and one capability for two parts is one.
    check(&[&["Dogs"], &["Joke"], &[]], &[&["Joke"]]);
    check(&[&["Dogs"], &["Joke"], &["Joke", "Dogs"], &["Dogs"]], &[&["Joke"], &["Dogs"]]);
    // Nothing fits a part: what fits the whole may do.
    check(&[&["Dogs"], &[], &[]], &[&["Dogs"]]);
}

#[test]
fn what_is_far_behind_the_best_is_not_tried() {
    let mut hits: RankedHits = [("One", 0.9), ("Two", 0.46), ("Three", 0.44)]
        .into_iter()
        .map(|(name, score)| (0, hit(name, score)))
        .collect();
    keep_close(&mut hits);
    let names: Vec<_> = hits.iter().map(|(_, hit)| hit.name.as_str()).collect();
    assert_eq!(names, ["One", "Two"]);
}

#[test]
fn hits_of_registries_are_merged_by_score_once_each() {
    let answer = |names: &[(&str, f64)]| -> BatchSearchResponse {
        let hits: Vec<_> = names.iter().map(|(name, score)| hit(name, *score)).collect();
        let metadata = json!({"total_matches": 0, "search_time_ms": 1.0, "nearest": [
            {"name": "Near", "version": "1.0.0", "similarity": 0.2, "description": ""},
        ]});
        let answer = json!({"intent": "x", "capabilities": hits, "metadata": metadata});
        serde_json::from_value(json!({"responses": [answer]})).unwrap()
    };
    let answers = vec![
        (0, answer(&[("Own", 0.5), ("Both", 0.4), ("First", 0.9)])),
        (1, answer(&[("Other", 0.8), ("Both", 0.4), ("Last", 0.45)])),
    ];
    let (found, nearest) = merge_responses(&["x".to_owned()], answers);
    let names: Vec<_> = found[0].iter().map(|(source, hit)| (*source, hit.name.as_str())).collect();
    assert_eq!(names, [(1, "Other"), (0, "Own"), (0, "Both"), (0, "First"), (1, "Last")]);
    assert_eq!(nearest.len(), 1);
}

#[test]
fn what_was_asked_about_is_tried_first() {
    let found = vec![hits(&["Joke", "Laugh"])];
    let near = [near_identities(&found[0])];
    let mut tasks = split_tasks(&["x".to_owned()], found, &near);
    let asked = capability_ref(&hit("Laugh", 0.9));
    move_to_front(&mut tasks, &asked);
    assert_eq!(tasks[0].1[0].pin, asked);
    assert_eq!(tasks[0].1.len(), 2);
}

#[test]
fn of_nearly_equal_candidates_given_inputs_decide() {
    let order = |scores: &[(&str, f64)]| -> Vec<String> {
        let hits = scores.iter().map(|(name, score)| (0, hit(name, *score)));
        let mut choices: Vec<_> = hits.map(to_candidate).collect();
        for choice in &mut choices {
            choice.missing = if choice.pin.name.as_str().starts_with("Given") { 0 } else { 1 };
        }
        prefer_given_inputs(&mut choices);
        choices.iter().map(|choice| choice.pin.name.to_string()).collect()
    };
    assert_eq!(order(&[("Cities", 0.58), ("Given", 0.57)]), ["Given", "Cities"]);
    assert_eq!(order(&[("Cities", 0.58), ("Given", 0.4)]), ["Cities", "Given"]);
    // What is not nearly equal to the best separates the others.
    assert_eq!(
        order(&[("Cities", 0.58), ("Far", 0.3), ("Given", 0.57)]),
        ["Cities", "Far", "Given"]
    );
    assert_eq!(order(&[("One", 0.58), ("Two", 0.6)]), ["One", "Two"]);
}

#[test]
fn what_does_something_else_is_a_near_miss() {
    let contradiction = Some("the intent asks to delete, but the capability sends".to_owned());
    let mut found = vec![(0, SearchHit { contradiction, ..hit("PostTweet", 0.9) })];
    found.push((0, hit("DeleteTweet", 0.8)));
    let removed = remove_contradictions(&mut found);
    assert_eq!(removed.iter().map(|near| near.name.as_str()).collect::<Vec<_>>(), ["PostTweet"]);
    assert_eq!(found.len(), 1);
}
