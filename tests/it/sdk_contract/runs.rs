//! Calls that plan, run and follow.

use super::*;

const START: &str = "/v1/executions";

/// The start of a run, with the header that each start has.
pub(super) fn start(body: Value) -> Sent<'static> {
    Sent::post(START, body).with("idempotency-key", "*")
}

/// The exchange that follows a run from its start, or after an event.
pub(super) fn follow(recorder: &Recorder<'_>, run: &str, after: Option<u64>) -> Exchange {
    let path = format!("{START}/{run}/events");
    let after = after.map(|after| after.to_string());
    let mut sent = Sent::get(&path).with("accept", "text/event-stream");
    if let Some(after) = &after {
        sent = sent.with("last-event-id", after);
    }
    let exchange = recorder.exchange(&sent);
    // A stream from the start shows that it has no such header.
    let Exchange { mut recorded, status, body } = exchange;
    if after.is_none() {
        recorded["request"]["headers"]["last-event-id"] = Value::Null;
    }
    Exchange { recorded, status, body }
}

/// Records a start with the exchanges that wait for the end of the run, and returns the run.
fn finish(recorder: &mut Recorder<'_>, name: &str, arguments: Value, sent: &Sent<'_>) -> Value {
    let started = recorder.exchange(sent);
    let id = id_of(&started.body);
    let (stream, ended) = (follow(recorder, &id, None), read_run(recorder, &id));
    assert_eq!(ended.body["status"], "succeeded", "{name}: {}", ended.body);
    let ending = json!({"result": ended.body});
    recorder.record(name, "run", arguments, &[&started, &stream, &ended], ending);
    ended.body
}

/// The same exchange, whose stream is cut after so many events.
pub(super) fn cut_after(exchange: &Exchange, count: usize) -> Exchange {
    let Exchange { recorded, status, body } = exchange;
    let (mut recorded, text) = (recorded.clone(), body.as_str().unwrap());
    let shown: String = text.split_inclusive("\n\n").take(count).collect();
    let half = text.split_inclusive("\n\n").nth(count).unwrap();
    // The text from the time on has another length in each run.
    let (half, _) = half.split_once("\"at\"").unwrap();
    recorded["response"]["text"] = json!(format!("{shown}{half}"));
    recorded["response"]["cut"] = json!(true);
    Exchange { recorded, status: *status, body: json!(shown) }
}

pub(super) fn read_run(recorder: &Recorder<'_>, run: &str) -> Exchange {
    recorder.exchange(&Sent::get(&format!("{START}/{run}")))
}

pub(super) fn id_of(run: &Value) -> String {
    run["id"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned()
}

/// The id of the approval that a run waits for.
fn approval_of(run: &Value) -> String {
    run["approvals"][0]["id"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned()
}

#[test]
fn runs() {
    let world = world();
    let mut recorder = Recorder::new(&world);
    plan(&mut recorder);
    run(&mut recorder);
    watch(&mut recorder);
    end(&mut recorder);
    approve(&mut recorder);
    recorder.finish("runs");
}

fn plan(recorder: &mut Recorder<'_>) {
    let inputs = json!({"country_code": "FR"});
    let country = reference(recorder.world, "GetCountry");
    let named = json!({"name": "GetCountry", "inputs": inputs});
    let sent = Sent::post("/v1/plans", named);
    let planned = recorder.call(
        "runs/plan by name",
        "plan",
        json!({"capability": "GetCountry", "inputs": inputs}),
        &sent,
    );
    let mut pinned = country.clone();
    pinned["inputs"] = inputs.clone();
    pinned["preview"] = json!(true);
    let arguments = json!({"capability": country, "inputs": inputs, "preview": true});
    let sent = Sent::post("/v1/plans", pinned);
    recorder.call("runs/plan a reference with a preview", "plan", arguments, &sent);

    let body = json!({"plan": planned["token"]});
    let arguments = json!({"capability": planned});
    finish(recorder, "runs/run a plan", arguments.clone(), &start(body.clone()));
    recorder.fails("runs/run a plan again", "Conflict", ("run", arguments), &start(body));

    let sent = Sent::post("/v1/plans", json!({"name": "GetCountry"}));
    let exchange = recorder.exchange(&sent);
    let mut ending = json!({"result": exchange.body});
    ending["then"] = json!([then(
        "run",
        json!({}),
        &[],
        json!({"error": {
            "class": "MissingInput", "code": "A2S320", "missing": [{"name": "country_code"}],
        }})
    )]);
    let arguments = json!({"capability": "GetCountry"});
    recorder.record("runs/a plan without an input", "plan", arguments, &[&exchange], ending);

    // A newer version comes between the plan and the run.
    let sky = json!({"name": "ReadSky", "inputs": {"city": "Rome"}});
    let exchange = recorder.exchange(&Sent::post("/v1/plans", sky));
    let newer =
        capability("ReadSky", "1.1.0", "Reads the sky", "GET /sky/{city}", json!({"sky": "$.sky"}));
    recorder.world.publish(&newer);
    let body = json!({"plan": exchange.body["token"]});
    let call = ("run", json!({"capability": exchange.body}));
    recorder.fails("runs/a plan that does not hold", "Drifted", call, &start(body));

    let body = json!({"name": "NoSuchThing"});
    let call = ("plan", json!({"capability": "NoSuchThing"}));
    recorder.fails(
        "runs/plan an unknown capability",
        "NotFound",
        call,
        &Sent::post("/v1/plans", body),
    );
}

fn run(recorder: &mut Recorder<'_>) {
    let country = reference(recorder.world, "GetCountry");
    let inputs = json!({"country_code": "FR"});
    let arguments = json!({"capability": "GetCountry", "inputs": inputs});
    let body = json!({"name": "GetCountry", "inputs": inputs});
    finish(recorder, "runs/run by name", arguments.clone(), &start(body.clone()));

    let found = recorder.exchange(&Sent::post(
        "/v1/search",
        json!({"intent": "facts about a country", "limit": 1}),
    ));
    let hit = found.body["capabilities"][0].clone();
    assert_eq!(hit["name"], "GetCountry");
    let mut pinned = country.clone();
    pinned["inputs"] = inputs.clone();
    pinned["session"] = json!("s-1");
    pinned["intent"] = json!("facts about France");
    let with_words = json!({
        "capability": hit, "inputs": inputs, "session": "s-1", "intent": "facts about France",
    });
    finish(recorder, "runs/run a hit", with_words, &start(pinned));

    let sent = Sent::post(START, body.clone()).with("idempotency-key", "order-17");
    let mut keyed = arguments;
    keyed["idempotency_key"] = json!("order-17");
    let first = finish(recorder, "runs/run with a key", keyed.clone(), &sent);
    let again = recorder.call("runs/run with the same key", "run", keyed.clone(), &sent);
    assert_eq!(first["id"], again["id"]);
    keyed["inputs"] = json!({"country_code": "DE"});
    let mut other = body;
    other["inputs"] = json!({"country_code": "DE"});
    let sent = Sent::post(START, other).with("idempotency-key", "order-17");
    recorder.fails("runs/another run with the same key", "Conflict", ("run", keyed), &sent);

    let refused =
        |recorder: &mut Recorder<'_>, name: &str, class: &str, capability: &str, inputs: Value| {
            let body = json!({"name": capability, "inputs": inputs});
            let call = ("run", json!({"capability": capability, "inputs": inputs}));
            recorder.fails(name, class, call, &start(body));
        };
    refused(recorder, "runs/an input is missing", "MissingInput", "GetCountry", json!({}));
    refused(
        recorder,
        "runs/an input is unknown",
        "InvalidInput",
        "GetJoke",
        json!({"colour": "red"}),
    );
    refused(
        recorder,
        "runs/an input of the wrong type",
        "InvalidInput",
        "ReadSky",
        json!({"city": 5}),
    );
    refused(recorder, "runs/an unknown capability", "NotFound", "NoSuchThing", json!({}));
    let mut changed = country;
    changed["checksum"] = json!(format!("sha256:{}", "0".repeat(64)));
    let mut body = changed.clone();
    body["inputs"] = inputs.clone();
    let call = ("run", json!({"capability": changed, "inputs": inputs}));
    recorder.fails("runs/other content than the hit", "Drifted", call, &start(body));

    for (name, class, capability, inputs) in [
        ("runs/the guardian denies", "Denied", "CheckGrammar", json!({"text": "me like it"})),
        ("runs/a service that fails", "RunFailed", "CallBroken", json!({})),
        ("runs/a service that is away", "NotReachable", "CallDeadHost", json!({})),
    ] {
        let arguments = json!({"capability": capability, "inputs": inputs});
        let sent = start(json!({"name": capability, "inputs": inputs}));
        let started = recorder.exchange(&sent);
        let id = id_of(&started.body);
        let (stream, ended) = (follow(recorder, &id, None), read_run(recorder, &id));
        let error = json!({"error": run_error(class, &ended.body)});
        recorder.record(name, "run", arguments, &[&started, &stream, &ended], error);
    }
    recorder.token = "none".to_owned();
    refused(recorder, "runs/run without a token", "Unauthorized", "GetJoke", json!({}));
    recorder.token = recorder.world.token();
}

fn watch(recorder: &mut Recorder<'_>) {
    let inputs = json!({"country_code": "FR"});
    let arguments = json!({"capability": "GetCountry", "inputs": inputs, "wait": false});
    let begin = |recorder: &Recorder<'_>| {
        recorder.exchange(&start(json!({"name": "GetCountry", "inputs": inputs})))
    };
    let started = begin(recorder);
    let id = id_of(&started.body);
    let stream = follow(recorder, &id, None);
    let ended = read_run(recorder, &id);
    let wait = then("wait", json!({}), &[&stream, &ended], json!({"result": ended.body}));
    let ending = json!({"result": started.body, "then": [wait]});
    recorder.record("runs/start and wait", "run", arguments.clone(), &[&started], ending);

    let started = begin(recorder);
    let id = id_of(&started.body);
    let stream = follow(recorder, &id, None);
    let all = events(&stream.body);
    let listed = then("events", json!({}), &[&stream], json!({"result": all}));
    let ending = json!({"result": started.body, "then": [listed]});
    recorder.record("runs/start and follow", "run", arguments.clone(), &[&started], ending);

    // The connection is lost twice, once within an event.
    let (first, second) = (cut_after(&stream, 2), follow(recorder, &id, Some(2)));
    let (second, third) = (cut_after(&second, 1), follow(recorder, &id, Some(3)));
    let listed = then("events", json!({}), &[&first, &second, &third], json!({"result": all}));
    let ending = json!({"result": started.body, "then": [listed]});
    recorder.record("runs/follow over lost connections", "run", arguments, &[&started], ending);
    let lost = cut(&stream);
    let arguments = json!({"id": id});
    recorder.record(
        "runs/follow after a connection that failed",
        "events",
        arguments.clone(),
        &[&lost, &stream],
        json!({"result": all}),
    );

    recorder.record(
        "runs/events of a run",
        "events",
        arguments,
        &[&stream],
        json!({"result": all}),
    );
    let later = follow(recorder, &id, Some(4));
    let arguments = json!({"id": id, "after": 4});
    let ending = json!({"result": events(&later.body)});
    recorder.record("runs/events after a number", "events", arguments, &[&later], ending);
    let last = all.last().unwrap()["seq"].as_u64().unwrap();
    let none = follow(recorder, &id, Some(last));
    assert_eq!(none.status, 204);
    let arguments = json!({"id": id, "after": last});
    recorder.record("runs/no more events", "events", arguments, &[&none], json!({"result": []}));

    let known = read_run(recorder, &id);
    let wait = then("wait", json!({}), &[], json!({"result": known.body}));
    let ending = json!({"result": known.body, "then": [wait]});
    recorder.record("runs/read a run", "get_run", json!({"id": id}), &[&known], ending);
    let path = format!("{START}/{id}/replay");
    let sent = Sent::post(&path, json!({}));
    recorder.call("runs/replay", "replay_run", json!({"id": id}), &sent);
    let exchange = recorder.exchange(&Sent::get(&format!("{START}/{id}/exchanges")));
    recorder.record(
        "runs/requests and responses of a run",
        "list_exchanges",
        json!({"id": id}),
        &[&exchange],
        json!({"result": exchange.body["exchanges"]}),
    );
    let against = json!({"against": {"name": "GetCountry", "version": "1.0.0"}});
    let arguments = json!({"id": id, "against": against["against"]});
    recorder.call(
        "runs/replay against a version",
        "replay_run",
        arguments,
        &Sent::post(&path, against),
    );

    let (mut exchanges, mut runs) = (Vec::new(), Vec::new());
    let mut path = format!("{START}?limit=3&name=GetCountry&status=succeeded");
    loop {
        let exchange = recorder.exchange(&Sent::get(&path));
        runs.extend(exchange.body["executions"].as_array().unwrap().clone());
        let next = exchange.body["next"].as_str().map(str::to_owned);
        exchanges.push(exchange);
        let Some(next) = next else { break };
        path = format!("{START}?before={next}&limit=3&name=GetCountry&status=succeeded");
    }
    assert!(exchanges.len() > 1);
    let exchanges: Vec<_> = exchanges.iter().collect();
    let arguments = json!({"limit": 3, "name": "GetCountry", "status": "succeeded"});
    recorder.record("runs/list runs", "list_runs", arguments, &exchanges, json!({"result": runs}));

    let event = json!({"type": "schedule", "id": "daily-1"});
    let execution = json!({"name": "GetCountry", "inputs": {"country_code": "FR"}});
    let sent = Sent::post("/v1/triggers", json!({"event": event, "execution": execution}));
    let arguments = json!({
        "event": event, "capability": "GetCountry", "inputs": {"country_code": "FR"},
    });
    let started = recorder.exchange(&sent);
    let id = id_of(&started.body);
    let (stream, ended) = (follow(recorder, &id, None), read_run(recorder, &id));
    let exchanges = [&started, &stream, &ended];
    let ending = json!({"result": ended.body});
    recorder.record("runs/an event starts a run", "trigger", arguments, &exchanges, ending);
}

fn end(recorder: &mut Recorder<'_>) {
    let started = recorder.exchange(&start(json!({"name": "CallSlowly"})));
    let id = id_of(&started.body);
    recorder.wait_for_service("GET");
    let path = format!("{START}/{id}/cancel");
    let cancelled = recorder.exchange(&Sent::new(Method::POST, &path, Value::Null));
    let stream = follow(recorder, &id, None);
    let ended = read_run(recorder, &id);
    let error = json!({"error": run_error("RunFailed", &ended.body)});
    let ending = json!({"result": started.body, "then": [
        then("cancel", json!({}), &[&cancelled], json!({"result": cancelled.body})),
        then("wait", json!({}), &[&stream, &ended], error),
    ]});
    let arguments = json!({"capability": "CallSlowly", "wait": false});
    recorder.record("runs/cancel", "run", arguments, &[&started], ending);

    let its = json!({"id": id});
    let sent = Sent::new(Method::POST, &path, Value::Null);
    recorder.fails(
        "runs/cancel a run that has ended",
        "Conflict",
        ("cancel_run", its.clone()),
        &sent,
    );
    let path = format!("{START}/{id}/resume");
    let call = ("resume_run", json!({"id": id, "decision": "repeat"}));
    let sent = Sent::post(&path, json!({"decision": "repeat"}));
    recorder.fails("runs/resume a run that has ended", "Conflict", call, &sent);
    let path = format!("{START}/{id}");
    let sent = Sent::new(Method::DELETE, &path, Value::Null);
    recorder.call("runs/delete a run", "delete_run", its.clone(), &sent);
    recorder.fails("runs/an unknown run", "NotFound", ("get_run", its), &Sent::get(&path));
}

fn approve(recorder: &mut Recorder<'_>) {
    let body = json!({"name": "ListDogBreeds"});
    let arguments = json!({"capability": "ListDogBreeds"});
    let started = recorder.exchange(&start(body.clone()));
    let id = id_of(&started.body);
    let (stops, asked) = (follow(recorder, &id, None), read_run(recorder, &id));
    let approval = approval_of(&asked.body);
    let error = run_error("NeedsApproval", &asked.body);
    let asking = [&started, &stops, &asked];
    let waiting = recorder.exchange(&Sent::get("/v1/approvals?status=pending"));
    let path = format!("/v1/approvals/{approval}");
    let seen = recorder.exchange(&Sent::get(&path));

    let still = read_run(recorder, &id);
    let yes = json!({"decided_by": "ann", "reason": "Dogs are fine."});
    let approved = recorder.exchange(&Sent::post(&format!("{path}/approve"), yes.clone()));
    let resumed = recorder
        .exchange(&Sent::post(&format!("{START}/{id}/resume"), json!({"decision": "repeat"})));
    let stream = follow(recorder, &id, None);
    let ended = read_run(recorder, &id);
    assert_eq!(ended.body["status"], "succeeded", "{}", ended.body);
    let wait = then("wait", json!({}), &[&still, &ended], json!({"result": ended.body}));
    let ending = json!({"error": error, "then": [wait]});
    recorder.record("runs/a run needs an approval", "run", arguments.clone(), &asking, ending);

    let status = json!({"status": "pending"});
    let result = json!({"result": waiting.body["approvals"]});
    recorder.record("approvals/list", "list_approvals", status, &[&waiting], result);
    let its = json!({"id": approval});
    recorder.record(
        "approvals/read",
        "get_approval",
        its.clone(),
        &[&seen],
        json!({"result": seen.body}),
    );
    let mut arguments_of_yes = its;
    arguments_of_yes.as_object_mut().unwrap().extend(yes.as_object().unwrap().clone());
    let result = json!({"result": approved.body});
    recorder.record("approvals/approve", "approve", arguments_of_yes, &[&approved], result);
    let call = json!({"id": id, "decision": "repeat"});
    let wait = then("wait", json!({}), &[&stream, &ended], json!({"result": ended.body}));
    let ending = json!({"result": resumed.body, "then": [wait]});
    recorder.record("runs/resume", "resume_run", call, &[&resumed], ending);

    let started = recorder.exchange(&start(body));
    let id = id_of(&started.body);
    let (stops, asked) = (follow(recorder, &id, None), read_run(recorder, &id));
    let approval = approval_of(&asked.body);
    // A further approval than the one that was waited for is an error of its own.
    let mut further = asked.body.clone();
    further["approvals"][0]["id"] = json!("further");
    let other = served(&asked, &further);
    let wait =
        then("wait", json!({}), &[&other], json!({"error": run_error("NeedsApproval", &further)}));
    let ending = json!({"error": run_error("NeedsApproval", &asked.body), "then": [wait]});
    let asking = [&started, &stops, &asked];
    let title = "runs/a further approval is wanted";
    recorder.record(title, "run", arguments.clone(), &asking, ending);
    let path = format!("/v1/approvals/{approval}/reject");
    let no = json!({"reason": "No dogs today."});
    let arguments_of_no = json!({"id": approval, "reason": no["reason"]});
    recorder.call("approvals/reject", "reject", arguments_of_no, &Sent::post(&path, no));
    recorder.exchange(&Sent::post(&format!("{START}/{id}/resume"), json!({"decision": "repeat"})));
    follow(recorder, &id, None);
    let ended = read_run(recorder, &id);
    let error = json!({"error": run_error("Denied", &ended.body)});
    let ending = json!({
        "error": run_error("NeedsApproval", &asked.body),
        "then": [then("wait", json!({}), &[&ended], error)],
    });
    recorder.record("runs/an approval is rejected", "run", arguments, &asking, ending);
    let sent = Sent::get("/v1/approvals/000000000000");
    recorder.fails(
        "approvals/an unknown one",
        "NotFound",
        ("get_approval", json!({"id": "000000000000"})),
        &sent,
    );
}
