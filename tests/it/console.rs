//! The console: its pages, and the sign-in of a browser.

#![expect(clippy::needless_pass_by_value, reason = "callers pass literals")]

use axum::extract::Request;
use axum::response::IntoResponse as _;
use axum::{Json, Router};
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{RUNTIME, World, serve};

/// The response to a browser.
struct Shown {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Shown {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The cookie that it sets, as a browser sends it back.
    fn cookie(&self) -> String {
        self.header("set-cookie").split(';').next().unwrap().to_owned()
    }
}

fn send(world: &World, method: Method, path: &str, headers: &[(&str, &str)], body: Value) -> Shown {
    RUNTIME.block_on(async {
        let url = format!("{}{path}", world.url());
        let mut request = crate::http::client().request(method, url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_null() {
            request = request.json(&body);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Shown { status, headers, body: response.bytes().await.unwrap().to_vec() }
    })
}

/// What a browser says about a request of the console's own page.
const OWN_PAGE: (&str, &str) = ("sec-fetch-site", "same-origin");

fn sign_in(world: &World, means: Value) -> Shown {
    send(world, Method::POST, "session", &[OWN_PAGE], means)
}

#[test]
fn a_link_signs_one_browser_in() {
    let world = World::up(&["--no-examples"]);
    let printed = world.a2s(&["console", "--print", "--json"]).exits(0).one();
    let link = printed["url"].as_str().unwrap();
    let (page, code) = link.split_once("#code=").unwrap();
    assert_eq!(page, format!("{}sign-in", world.url()));

    let signed_in = sign_in(&world, json!({ "code": code }));
    assert_eq!(signed_in.status, 200);
    assert_eq!(signed_in.json()["subject"], "owner");
    let set = signed_in.header("set-cookie");
    for property in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(set.contains(property), "{set}");
    }
    assert!(!set.contains(&world.token()), "a cookie reveals the token");
    assert_eq!(sign_in(&world, json!({ "code": code })).status, 401, "a code works twice");

    let cookie = signed_in.cookie();
    let own = [("cookie", cookie.as_str()), OWN_PAGE];
    assert_eq!(send(&world, Method::GET, "session", &own, Value::Null).json()["subject"], "owner");
    assert_eq!(send(&world, Method::GET, "v1/tokens", &own, Value::Null).status, 200);
    assert_eq!(send(&world, Method::GET, "v1/tokens", &[OWN_PAGE], Value::Null).status, 401);

    let unknown = send(&world, Method::GET, "session", &[OWN_PAGE], Value::Null);
    assert_eq!((unknown.status, unknown.body.len()), (204, 0));

    let left = send(&world, Method::DELETE, "session", &own, Value::Null);
    assert_eq!(left.status, 204);
    assert!(left.header("set-cookie").contains("Max-Age=0"));
}

#[test]
fn pages_of_other_origins_use_no_session() {
    let world = World::up(&["--no-examples"]);
    let cookie = sign_in(&world, json!({ "token": world.token() })).cookie();
    let token = json!({"name": "mine", "scopes": ["read"]});
    let host = world.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let own = format!("http://{host}");
    let make = |headers: &[(&str, &str)]| {
        let headers = [&[("cookie", cookie.as_str())], headers].concat();
        send(&world, Method::POST, "v1/tokens", &headers, token.clone()).status
    };
    // Another port of this host is the same site, so the browser sends the cookie.
    assert_eq!(make(&[("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:1")]), 401);
    assert_eq!(make(&[("origin", "http://127.0.0.1:1")]), 401);
    assert_eq!(make(&[("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")]), 403);
    assert_eq!(make(&[("sec-fetch-site", "none")]), 401);
    assert_eq!(make(&[]), 401);
    assert_eq!(make(&[("origin", &own)]), 400, "an unknown scope");
    let elsewhere = [("sec-fetch-site", "same-site")];
    let body = json!({ "token": world.token() });
    assert_eq!(send(&world, Method::POST, "session", &elsewhere, body).status, 403);
}

#[test]
fn a_session_outlives_a_restart_and_not_its_token() {
    let mut world = World::up(&["--no-examples"]);
    let made = world.a2s(&["tokens", "create", "ci", "--scope", "execute", "--json"]);
    let made = made.exits(0).one();
    let signed_in = sign_in(&world, json!({ "token": made["token"] }));
    assert_eq!(signed_in.json()["scopes"], json!(["execute"]));
    let cookie = signed_in.cookie();
    let (_, sealed) = cookie.split_once('=').unwrap();
    let status = |world: &World, path: &str| {
        // The name has the port, which is another one here after a restart.
        let port = world.url().trim_end_matches('/').rsplit(':').next().unwrap();
        let cookie = format!("a2s_session_{port}={sealed}");
        send(world, Method::GET, path, &[("cookie", &cookie), OWN_PAGE], Value::Null).status
    };
    assert_eq!(status(&world, "v1/executions"), 200);
    assert_eq!(status(&world, "v1/tokens"), 403);
    world.kill();
    world.start();
    assert_eq!(status(&world, "v1/executions"), 200);
    world.a2s(&["tokens", "revoke", "ci"]).exits(0);
    assert_eq!(status(&world, "session"), 401);
    assert_eq!(sign_in(&world, json!({ "token": made["token"] })).status, 401);
    for bad in [json!({}), json!({"code": 5}), json!({"token": "a", "code": "b"}), json!([])] {
        assert_eq!(sign_in(&world, bad).status, 400);
    }
}

#[test]
fn pages_load_nothing_from_elsewhere() {
    let world = World::up(&["--no-examples"]);
    let get = |path: &str, headers: &[(&str, &str)]| {
        send(&world, Method::GET, path, headers, Value::Null)
    };
    let page = get("", &[]);
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").to_owned();
    assert!(policy.contains("script-src 'self';") && !policy.contains("unsafe"), "{policy}");
    for path in ["runs", "runs/0199c82c-c002-7100-8000-000000000000?step=a", "approvals", "search"]
    {
        assert_eq!(get(path, &[]).body, page.body, "{path}");
    }
    let text = String::from_utf8(page.body).unwrap();
    let script = text.split("src=\"/").nth(1).unwrap().split('"').next().unwrap();
    let packed = get(script, &[("accept-encoding", "gzip, br")]);
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.header("cache-control").contains("immutable"));
    assert_eq!(&packed.body[..2], b"\x1f\x8b");
    assert!(packed.body.len() < 120_000, "the first load has {} bytes", packed.body.len());
    assert_eq!(get("assets/none.js", &[]).status, 404);
    assert_eq!(get("assets/../index.html", &[]).status, 404);
    assert_eq!(get("none", &[]).status, 404);
}

const POLICY: &str = "version: 1
default: allow
rules:
  - {id: grammar, on: toolCallRequest, tool: CheckGrammar.*, decision: deny, message: '</script><b>no</b>'}
";

/// A world with a denied run, and its id.
fn denied_run() -> (World, String) {
    let mut world = World::down(&[]);
    let policy = world.write("policy.yaml", POLICY);
    world.add_flags(&["--policy", &policy]);
    world.start();
    world.a2s(&["run", "CheckGrammar", "--input", "text=x"]).exits(3);
    let runs = world.a2s(&["runs", "--json"]).exits(0).one();
    let run = runs["executions"][0]["id"].as_str().unwrap().to_owned();
    (world, run)
}

/// What differs, by the output of `a2s runs verify --json`.
fn differences(verified: &Value) -> Vec<&str> {
    let checks = verified["checks"].as_array().unwrap().iter();
    let wrong = checks.filter(|one| !one["problem"].is_null());
    wrong.map(|one| one["what"].as_str().unwrap()).collect()
}

#[test]
fn a_run_becomes_a_file_that_is_checked() {
    let (world, run) = denied_run();
    let written = world.a2s(&["runs", "export", &run, "-o", "run.html", "--json"]).exits(0).one();
    assert_eq!(written["records"], 1, "{written}");
    let path = world.write("here", "").replace("here", "run.html");
    let page = std::fs::read_to_string(&path).unwrap();
    // Nothing of the run ends the element that it is in, and the page loads nothing.
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(page.contains("default-src 'none'") && !page.contains("src=\"http"), "{page}");
    assert!(page.len() < 300_000, "{}", page.len());

    let verified = world.a2s(&["runs", "verify", "run.html", "--json"]).exits(0).one();
    let whats: Vec<_> =
        verified["checks"].as_array().unwrap().iter().map(|one| &one["what"]).collect();
    assert_eq!(whats, ["page", "run", "events", "exchanges", "records", "audit log"]);
    for (from, to, what) in [
        ("CheckGrammar.check\",\"capability\"", "CheckGrammar.chuck\",\"capability\"", "records"),
        ("\"event\":\"decision\"", "\"event\":\"outcome\"", "records"),
        ("\"attempts\":0", "\"attempts\":1", "run"),
    ] {
        assert!(page.contains(from), "{from}");
        world.write("changed.html", &page.replacen(from, to, 1));
        let verified = world.a2s(&["runs", "verify", "changed.html", "--json"]).exits(1).one();
        assert_eq!(differences(&verified), [what], "{from}");
    }
    world.write("other.html", "<html></html>");
    let refused = world.a2s(&["runs", "verify", "other.html"]).exits(1);
    assert!(refused.stderr.contains("has no run"), "{refused:?}");
}

#[test]
fn a_run_file_with_a_changed_page_does_not_verify() {
    let (world, run) = denied_run();
    world.a2s(&["runs", "export", &run, "-o", "run.html"]).exits(0);
    let page = std::fs::read_to_string(world.folder().join("run.html")).unwrap();
    let data = r#"<script type="application/json" id="run">{"#;
    for (from, to) in [
        ("<div id=\"app\">", "<p hidden id=\"run\">{}</p><div id=\"app\">"),
        ("<title>A2S run</title>", "<title>Paid</title>"),
        ("</html>", "</html><p>Paid</p>"),
        (data, &*format!("{data} ")),
        (data, &*format!("{data}\"paid\":true,")),
    ] {
        assert!(page.contains(from), "{from}");
        world.write("forged.html", &page.replacen(from, to, 1));
        let verified = world.a2s(&["runs", "verify", "forged.html", "--json"]).exits(1).one();
        assert_eq!(differences(&verified), ["page"], "{to}");
    }
    // One of an older version, which did not state its page.
    let older = regex::Regex::new(r#""page":"sha256:[0-9a-f]{64}","#).unwrap().replace(&page, "");
    assert_ne!(older, page);
    world.write("older.html", &older);
    let verified = world.a2s(&["runs", "verify", "older.html"]).exits(1);
    assert!(verified.stdout.contains("page: another version has written it"), "{verified:?}");
    assert!(verified.stdout.contains("--data-only"), "{verified:?}");
    let verified = world.a2s(&["runs", "verify", "older.html", "--data-only"]).exits(0);
    assert!(verified.stdout.contains("only the data was compared"), "{verified:?}");
}

#[test]
fn exported_runs_and_new_tokens_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let (world, run) = denied_run();
    for (file, arguments) in [
        ("run.html", &["runs", "export", &run][..]),
        ("ci.token", &["tokens", "create", "ci", "--scope", "publish"]),
    ] {
        // One that others can read is there already.
        let path = world.write(file, "old");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let written = world.a2s(&[arguments, &["--output", file]].concat()).exits(0);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
        let content = std::fs::read_to_string(&path).unwrap();
        assert!(content != "old" && !written.stdout.contains(content.trim()), "{written:?}");
    }
    let token = std::fs::read_to_string(world.folder().join("ci.token")).unwrap();
    let listed = world.a2s(&["tokens", "list", "--token", token.trim()]);
    assert!(listed.stderr.contains("A2S209"), "{listed:?}");
}

/// Serves a world, but its response to requests for one path is a problem. Returns the address.
fn serve_with_problem(world: &World, path: &'static str, problem: Value) -> String {
    let (url, status) = (world.url().to_owned(), problem["status"].as_u64().unwrap());
    let status = StatusCode::from_u16(u16::try_from(status).unwrap()).unwrap();
    serve(Router::new().fallback(async move |request: Request| {
        if request.uri().path() == path {
            return (status, Json(problem.clone())).into_response();
        }
        let target = format!("{}{}", url.trim_end_matches('/'), request.uri());
        let token = request.headers()["authorization"].clone();
        let sent = crate::http::client().get(target).header("authorization", token).send().await;
        let response = sent.unwrap();
        (response.status(), response.bytes().await.unwrap()).into_response()
    }))
}

#[test]
fn only_a_missing_permission_hides_a_part_of_a_report() {
    let mut world = World::down(&[]);
    let policy = world.write("policy.yaml", POLICY);
    world.add_flags(&["--policy", &policy]);
    world.start();
    world.a2s(&["run", "CheckGrammar", "--input", "text=x"]).exits(3);
    let run = world.a2s(&["runs", "--json"]).exits(0).one()["executions"][0]["id"].clone();
    let run = run.as_str().unwrap();
    let reports: [(&str, &[&str], &str); 2] = [
        ("/v1/search-counts", &["usage", "--json"], "without searches"),
        (
            "/v1/guardian/records",
            &["runs", "export", run, "-o", "part.html", "--json"],
            "without records of the guardian",
        ),
    ];
    for (path, arguments, note) in reports {
        for (status, code, is_hidden) in
            [(403, "A2S222", true), (404, "A2S507", true), (500, "A2S220", false)]
        {
            let problem = json!({
                "type": format!("/errors/{code}"), "title": "title", "status": status, "code": code,
                "detail": "the disk is full",
            });
            let url = serve_with_problem(&world, path, problem);
            let ran = world.a2s(&[arguments, &["--url", &url]].concat()).exits(0);
            let report = ran.one();
            let part = report.get("searches").or_else(|| report.get("records"));
            assert_eq!(part, Some(&Value::Null), "{ran:?}");
            let reason = format!("{note}: the disk is full");
            assert_eq!(ran.stderr.contains(&reason), !is_hidden, "{path} {status}: {ran:?}");
        }
    }
}

#[test]
fn a_policy_is_tried_on_the_decisions_of_a_running_guardian() {
    let mut world = World::down(&[]);
    let policy = world.write("policy.yaml", POLICY);
    world.add_flags(&["--policy", &policy]);
    world.start();
    world.a2s(&["run", "CheckGrammar", "--input", "text=x"]).exits(3);
    assert!(world.a2s(&["guardian", "policy"]).exits(0).stdout.starts_with("version: 1\n"));
    let decisions =
        world.a2s(&["guardian", "decisions", "--rule", "grammar", "--json"]).exits(0).json();
    assert_eq!((decisions.len(), &decisions[0]["decision"]), (1, &json!("deny")));
    world.a2s(&["guardian", "try", "policy.yaml"]).exits(0);
    world.write("open.yaml", "version: 1\ndefault: allow\n");
    let tried = world.a2s(&["guardian", "try", "open.yaml"]).exits(1);
    assert!(tried.stdout.contains("deny → allow  CheckGrammar.check"), "{tried:?}");
    assert!(tried.stdout.contains("1 decision tried: 0 the same, 1 different"), "{tried:?}");
    world.write("wrong.yaml", "version: 1\n");
    world.a2s(&["guardian", "try", "wrong.yaml"]).exits(1);
    let usage = world.a2s(&["usage", "--json"]).exits(0).one();
    assert_eq!(
        (&usage["runs"]["total"]["denied"], &usage["searches"]["hours"]),
        (&json!(1), &json!([]))
    );
    assert!(world.a2s(&["usage"]).exits(0).stdout.starts_with("1 run since "));
}
