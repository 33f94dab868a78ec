//! Calls that search.

use super::*;

#[test]
fn searches() {
    let world = world();
    let mut recorder = Recorder::new(&world);
    let search = |recorder: &mut Recorder<'_>, name: &str, body: Value| {
        let exchange = recorder.exchange(&Sent::post("/v1/search", body.clone()));
        assert_eq!(exchange.status, 200, "{name}: {}", exchange.body);
        let ending = json!({"result": hits(&exchange.body)});
        recorder.record(
            &format!("search/{name}"),
            "search_capabilities",
            body,
            &[&exchange],
            ending,
        );
        exchange.body
    };
    for (name, body) in [
        ("one intent", json!({"intent": "list dog breeds"})),
        (
            "an input that the sentence gives",
            json!({"intent": "read the sky over the city Rome", "limit": 1}),
        ),
        ("an effect that contradicts", json!({"intent": "delete my tweet", "limit": 2})),
        (
            "a strategy by name",
            json!({"intent": "tell me a joke", "limit": 1, "strategy": "most_reliable"}),
        ),
        (
            "own weights",
            json!({"intent": "tell me a joke", "limit": 1, "strategy": {
                "vectorSimilarity": 0.75, "successRate": 0.25, "minimum": {"similarity": 0.125},
            }}),
        ),
        (
            "a list of strategies",
            json!({"intent": "tell me a joke", "limit": 1, "strategy": [
                {"successRate": 1, "minimum": {"success_rate": 0.5}}, "most_similar",
            ]}),
        ),
        (
            "filters",
            json!({"intent": "country facts", "limit": 1, "filters": {
                "domains": ["countries.trevorblades.com"], "formats": ["GraphQL"], "max_complexity": "medium",
                "read_only": true, "permissions": [],
            }}),
        ),
        ("nothing fits", json!({"intent": "prove the Riemann hypothesis"})),
        (
            "a strategy that nothing meets",
            json!({"intent": "tell me a joke", "strategy": {"usageCount": 1, "minimum": {"usage": 0.5}}}),
        ),
        ("another language", json!({"intent": "quel temps fait-il demain dans cette ville"})),
    ] {
        search(&mut recorder, name, body);
    }
    let first =
        search(&mut recorder, "a first page", json!({"intent": "call a service", "limit": 1}));
    let cursor = first["next"].clone();
    assert!(cursor.is_string(), "{first}");
    search(
        &mut recorder,
        "a next page",
        json!({"intent": "call a service", "limit": 1, "cursor": cursor}),
    );

    let several =
        json!({"intents": ["tell me a joke", "prove the Riemann hypothesis"], "limit": 1});
    let exchange = recorder.exchange(&Sent::post("/v1/search", several.clone()));
    let lists = exchange.body["responses"].as_array().unwrap().iter().map(hits).collect::<Vec<_>>();
    let arguments = json!({"intent": several["intents"], "limit": 1});
    let ending = json!({"result": lists});
    recorder.record(
        "search/several intents",
        "search_capabilities",
        arguments,
        &[&exchange],
        ending,
    );

    let services = json!({"intent": "facts about countries", "level": "services", "limit": 2});
    let arguments = json!({"intent": "facts about countries", "limit": 2});
    recorder.call(
        "search/services",
        "search_services",
        arguments,
        &Sent::post("/v1/search", services),
    );

    for (name, body) in [
        ("an intent that is empty", json!({"intent": ""})),
        ("an unknown strategy", json!({"intent": "tell me a joke", "strategy": "cheapest"})),
        ("a limit that is too large", json!({"intent": "tell me a joke", "limit": 100_000})),
        (
            "a filter that cannot be read",
            json!({"intent": "x", "filters": {"domains": ["not a host"]}}),
        ),
        (
            "a cursor of another search",
            json!({"intent": "x", "cursor": "AV6QS6NPjmABuNiElfPVlvQUCw"}),
        ),
    ] {
        let call = ("search_capabilities", body.clone());
        let sent = Sent::post("/v1/search", body);
        recorder.fails(&format!("search/{name}"), "InvalidInput", call, &sent);
    }
    recorder.finish("searches");
}
