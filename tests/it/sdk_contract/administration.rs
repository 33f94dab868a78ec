//! Calls that administer.

use super::*;

#[test]
fn administration() {
    let world = world();
    let mut recorder = Recorder::new(&world);
    secrets(&mut recorder);
    state(&mut recorder);
    tokens(&mut recorder);
    others(&mut recorder);
    recorder.finish("administration");
}

fn secrets(recorder: &mut Recorder<'_>) {
    let path = "/v1/secrets/api.weather.example/key";
    let its = json!({"host": "api.weather.example", "scheme": "key"});
    let with = |more: Value| {
        let mut all = its.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    for (name, credential) in [
        ("set a secret", json!({"kind": "api_key", "value": "key-12345", "place": "header:X-Key"})),
        ("set a secret again", json!({"kind": "bearer", "token": "token-12345"})),
    ] {
        let sent = Sent::new(Method::PUT, path, credential.clone());
        let arguments = with(json!({"credential": credential}));
        recorder.call(&format!("secrets/{name}"), "set_secret", arguments, &sent);
    }
    let users = json!({"subjects": ["batch"], "publishers": [], "capabilities": ["GetJoke"]});
    let users_path = format!("{path}/users");
    let sent = Sent::new(Method::PUT, &users_path, users.clone());
    recorder.call("secrets/set users", "set_secret_users", with(json!({"users": users})), &sent);
    let listed = recorder.exchange(&Sent::get("/v1/secrets"));
    let result = json!({"result": listed.body["secrets"]});
    recorder.record("secrets/list", "list_secrets", json!({}), &[&listed], result);
    let sent = Sent::new(Method::DELETE, path, Value::Null);
    recorder.call("secrets/delete", "delete_secret", its.clone(), &sent);
    recorder.fails(
        "secrets/delete an unknown one",
        "NotFound",
        ("delete_secret", its.clone()),
        &sent,
    );
    let wrong = json!({"kind": "api_key", "value": ""});
    let sent = Sent::new(Method::PUT, path, wrong.clone());
    let call = ("set_secret", with(json!({"credential": wrong})));
    recorder.fails("secrets/set an empty one", "InvalidInput", call, &sent);
}

fn state(recorder: &mut Recorder<'_>) {
    for (title, root, session) in [
        ("of a session", "/v1/sessions/s-1/state", json!({"session": "s-1"})),
        ("that stays", "/v1/state", json!({})),
    ] {
        let with = |more: Value| {
            let mut all = session.clone();
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        let path = format!("{root}/place");
        let value = json!({"city": "Rome", "zip": ["00100"]});
        let sent = Sent::new(Method::PUT, &path, value.clone());
        let arguments = with(json!({"name": "place", "value": value}));
        recorder.call(&format!("state/set a value {title}"), "set_state", arguments, &sent);
        let listed = recorder.exchange(&Sent::get(root));
        let result = json!({"result": listed.body["entries"]});
        recorder.record(
            &format!("state/list values {title}"),
            "list_state",
            session.clone(),
            &[&listed],
            result,
        );
        let name = with(json!({"name": "place"}));
        let sent = Sent::new(Method::DELETE, &path, Value::Null);
        recorder.call(
            &format!("state/delete a value {title}"),
            "delete_state",
            name.clone(),
            &sent,
        );
        let call = ("delete_state", name);
        recorder.fails(&format!("state/delete an unknown value {title}"), "NotFound", call, &sent);
    }
}

fn tokens(recorder: &mut Recorder<'_>) {
    let body = json!({"name": "ci", "scopes": ["publish", "execute"], "expires_in_s": 3600});
    let sent = Sent::post("/v1/tokens", body.clone());
    let made = recorder.call("tokens/create", "create_token", body.clone(), &sent);
    recorder.fails("tokens/create again", "Conflict", ("create_token", body), &sent);
    let listed = recorder.exchange(&Sent::get("/v1/tokens"));
    let result = json!({"result": listed.body["tokens"]});
    recorder.record("tokens/list", "list_tokens", json!({}), &[&listed], result);
    for (name, token) in [("a good one", made["token"].clone()), ("a bad one", json!("nobody"))] {
        let body = json!({"token": token});
        let sent = Sent::post("/v1/tokens/introspect", body.clone());
        recorder.call(&format!("tokens/introspect {name}"), "introspect_token", body, &sent);
    }
    // The new token may not administer.
    let owner = std::mem::replace(&mut recorder.token, made["token"].as_str().unwrap().to_owned());
    let sent = Sent::get("/v1/tokens");
    recorder.fails(
        "tokens/list without the scope",
        "Unauthorized",
        ("list_tokens", json!({})),
        &sent,
    );
    recorder.token = owner;
    let sent = Sent::new(Method::DELETE, "/v1/tokens/ci", Value::Null);
    let name = json!({"name": "ci"});
    recorder.call("tokens/revoke", "revoke_token", name.clone(), &sent);
    recorder.fails("tokens/revoke an unknown one", "NotFound", ("revoke_token", name), &sent);
}

fn others(recorder: &mut Recorder<'_>) {
    let joke = reference(recorder.world, "GetJoke");
    let mut report = joke.clone();
    report.as_object_mut().unwrap().extend(
        json!({
            "run": "0199c82c-c002-7100-8000-00000000abcd", "success": true, "duration_ms": 12,
            "intent": "tell me a joke",
        })
        .as_object()
        .unwrap()
        .clone(),
    );
    let sent = Sent::post("/v1/outcomes", report.clone());
    recorder.call("outcomes/report", "record_outcome", json!({"report": report}), &sent);

    let run = json!({"name": "GetCountry", "inputs": {"country_code": "FR"}, "wait": true});
    recorder.exchange(&Sent::post("/v1/executions", run));
    let path = "/v1/trust/GetJoke/1.0.0";
    let body = json!({"checksum": joke["checksum"]});
    let arguments = json!({"name": "GetJoke", "version": "1.0.0", "checksum": joke["checksum"]});
    recorder.call("trust/accept", "accept_trust", arguments, &Sent::new(Method::PUT, path, body));
    let (mut exchanges, mut versions) = (Vec::new(), Vec::new());
    let mut at = "/v1/trust?limit=1".to_owned();
    loop {
        let exchange = recorder.exchange(&Sent::get(&at));
        versions.extend(exchange.body["versions"].as_array().unwrap().clone());
        let next = exchange.body["next"].as_str().map(str::to_owned);
        exchanges.push(exchange);
        let Some(next) = next else { break };
        at = format!("/v1/trust?after={}&limit=1", next.replace('@', "%40"));
    }
    let exchanges: Vec<_> = exchanges.iter().collect();
    recorder.record(
        "trust/list",
        "list_trust",
        json!({"limit": 1}),
        &exchanges,
        json!({"result": versions}),
    );
    let sent = Sent::new(Method::DELETE, path, Value::Null);
    let version = json!({"name": "GetJoke", "version": "1.0.0"});
    recorder.call("trust/forget", "forget_trust", version, &sent);

    let hosts = recorder.exchange(&Sent::get("/v1/hosts"));
    let result = json!({"result": hosts.body["hosts"]});
    recorder.record("hosts/list", "list_hosts", json!({}), &[&hosts], result);
    let (mut exchanges, mut entries) = (Vec::new(), Vec::new());
    let mut at = "/v1/audit?limit=8".to_owned();
    loop {
        let exchange = recorder.exchange(&Sent::get(&at));
        entries.extend(exchange.body["entries"].as_array().unwrap().clone());
        let next = exchange.body["next"].as_u64();
        exchanges.push(exchange);
        let Some(next) = next else { break };
        at = format!("/v1/audit?before={next}&limit=8");
    }
    let exchanges: Vec<_> = exchanges.iter().collect();
    recorder.record(
        "audit/read",
        "read_audit",
        json!({"limit": 8}),
        &exchanges,
        json!({"result": entries}),
    );
    let page = recorder.exchange(&Sent::get("/v1/guardian/records?limit=50"));
    assert!(page.body["next"].is_null(), "{}", page.body);
    let result = json!({"result": page.body["records"]});
    recorder.record("guardian/records", "list_records", json!({"limit": 50}), &[&page], result);
    for (title, call, path) in [
        ("guardian/policy", "get_policy", "/v1/guardian/policy"),
        ("guardian/verify the log", "verify_log", "/v1/guardian/verification"),
        ("usage/searches", "count_searches", "/v1/search-counts"),
    ] {
        recorder.call(title, call, json!({}), &Sent::get(path));
    }
    let sent = Sent::get("/v1/usage?unit=day");
    recorder.call("usage/runs", "count_usage", json!({"unit": "day"}), &sent);
    let mirrors = recorder.exchange(&Sent::get("/v1/mirrors"));
    let result = json!({"result": mirrors.body["mirrors"]});
    recorder.record("mirrors/list", "list_mirrors", json!({}), &[&mirrors], result);
    let trial = json!({"policy": POLICY, "last": 10});
    let sent = Sent::post("/v1/guardian/trials", trial.clone());
    recorder.call("guardian/try a policy", "try_policy", trial, &sent);
    let wrong = json!({"policy": "version: 2\n"});
    let sent = Sent::post("/v1/guardian/trials", wrong.clone());
    let title = "guardian/try a policy with errors";
    recorder.fails(title, "InvalidInput", ("try_policy", wrong), &sent);
    let before = json!({"before": "2026-01-01T00:00:00Z"});
    let sent = Sent::post("/v1/audit/trim", before.clone());
    recorder.call("audit/trim", "trim_audit", before, &sent);
    for (call, path) in [("check_health", "/healthz"), ("check_readiness", "/readyz")] {
        let exchange = recorder.exchange(&Sent::get(path));
        recorder.record(
            &format!("health/{call}"),
            call,
            json!({}),
            &[&exchange],
            json!({"result": true}),
        );
    }
}
