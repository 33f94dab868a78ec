//! Two guardians that are processes of their own, one of them behind mutual TLS.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use test_support::CertificateAuthority;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::harness::{RUNTIME, Server, World, a2s_in};

/// Paris is too far away.
const COMPANY: &str = "version: 1
default: allow
rules:
  - id: not-so-far
    on: toolCallRequest
    tool: \"*.getWeather\"
    when: inputs[\"pathParameters.city\"] == \"Paris\"
    decision: modify
    message: Rome is nicer.
    modify: {set: {pathParameters.city: Rome}}
";

/// And Rome is not allowed.
const TEAM: &str = "version: 1
default: allow
rules:
  - id: no-rome
    on: toolCallRequest
    tool: \"*.getWeather\"
    when: inputs[\"pathParameters.city\"] == \"Rome\"
    decision: deny
    message: Not Rome.
    reason_codes: rome
";

/// The protocols that connections have agreed on.
type Spoken = Arc<Mutex<Vec<Option<Vec<u8>>>>>;

/// Stands before a guardian, and lets in who shows a certificate of `authority`.
fn shield(authority: &CertificateAuthority, guardian: &str, spoken: &Spoken) -> String {
    let acceptor = TlsAcceptor::from(authority.mutual_tls(&["http/1.1"]));
    let behind = url::Url::parse(guardian).unwrap().socket_addrs(|| None).unwrap()[0];
    let spoken = Arc::clone(spoken);
    RUNTIME.block_on(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (acceptor, spoken) = (acceptor.clone(), Arc::clone(&spoken));
                tokio::spawn(async move {
                    let Ok(mut outer) = acceptor.accept(connection).await else { return };
                    let protocol = outer.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
                    spoken.lock().unwrap().push(protocol);
                    let Ok(mut inner) = TcpStream::connect(behind).await else { return };
                    // Whoever ends it, it is over.
                    let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
                });
            }
        });
        format!("https://localhost:{port}/aos")
    })
}

fn run(world: &World, city: &str, json: bool) -> crate::harness::Ran {
    let location = format!("location={city}");
    let mut arguments =
        vec!["run", "PostWeatherTweet", "--input", &location, "--input", "message=Now:"];
    arguments.extend(json.then_some("--json"));
    world.a2s(&arguments)
}

/// Guardian, decision and source of each decision of a run.
fn decisions(run: &Value) -> Vec<String> {
    let steps = run["steps"].as_array().unwrap().iter();
    let decisions = steps.flat_map(|step| step["decisions"].as_array().unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let told = decisions.map(|decision| {
        let [name, what, source] =
            ["guardian", "decision", "source"].map(|member| text(&decision[member]));
        format!("{name} {what} {source}")
    });
    told.collect()
}

/// The decisions in the audit log of a data folder.
fn audited(data: &Path) -> Vec<Value> {
    let environment = [("A2S_DATA_DIR", data.to_str().unwrap())];
    let show = ["guardian", "audit", "show", "--event", "decision", "--json"];
    a2s_in(Path::new("."), &environment, &show).exits(0).json()
}

/// A world whose executor asks both, and the two of them.
struct Guarded {
    world: World,
    company: Server,
    team: Server,
    spoken: Spoken,
}

/// `identity` says what the executor shows to the company's guardian; `fail` what the silence of
/// the team's means.
fn start(identity: &str, fail: &str) -> Guarded {
    let mut world = World::down(&[]);
    let guardian = |world: &World, name: &str, policy: &str| {
        let policy = world.write(&format!("{name}.yaml"), policy);
        Server::alone(
            "guardian",
            world.folder().join(name),
            &["--policy", &policy, "--guardian-token", "of-agents"],
        )
    };
    let company = guardian(&world, "company", COMPANY);
    let team = guardian(&world, "team", TEAM);
    let authority = CertificateAuthority::new();
    let spoken = Spoken::default();
    let shielded = shield(&authority, company.url(), &spoken);
    let (certificate, key) = authority.sign();
    world.write("ca.pem", &authority.certificate.pem());
    world.write("agent.pem", &certificate.pem());
    world.write("agent.key", &key.serialize_pem());
    let folder = world.folder().display().to_string();
    let config = format!(
        "[[guardian]]
        name = 'company'
        url = '{shielded}'
        token = 'of-agents'
        authorities = '{folder}/ca.pem'
        {}

        [[guardian]]
        name = 'team'
        url = '{}aos'
        token = 'of-agents'
        {fail}",
        identity.replace("DIR", &folder),
        team.url(),
    );
    let config = world.write("a2s.toml", &config);
    world.add_flags(&["--config", &config]);
    world.start();
    Guarded { world, company, team, spoken }
}

const IDENTITY: &str = "certificate = 'DIR/agent.pem'\nkey = 'DIR/agent.key'";

#[test]
fn the_second_judges_what_the_first_has_made_of_it() {
    let Guarded { world, company: _company, team: _team, spoken } = start(IDENTITY, "");
    let denied = run(&world, "Paris", true).exits(3).one();
    assert_eq!(denied["error"]["code"], "A2S340");
    assert_eq!(denied["error"]["message"], "the guardian `team` denied the request: Not Rome.");
    let before = ["company modify guardian", "team deny guardian"];
    assert_eq!(decisions(&denied), before);
    assert_eq!(world.standin("api.weather.com").requests(), 0);
    // Each has written down what it was asked.
    let city = |record: &Value| record["content"]["toolCallRequest"]["inputs"][0]["value"].clone();
    let company = audited(&world.folder().join("company"));
    let team = audited(&world.folder().join("team"));
    assert_eq!((company.len(), city(&company[0])), (1, "Paris".into()), "{company:?}");
    assert_eq!((team.len(), city(&team[0])), (1, "Rome".into()), "{team:?}");
    assert_eq!((&company[0]["decision"], &team[0]["decision"]), (&"modify".into(), &"deny".into()));

    let allowed = run(&world, "Oslo", true).exits(0).one();
    let each = ["company allow guardian", "team allow guardian"];
    assert_eq!(decisions(&allowed), [each; 4].concat());
    assert_eq!(world.standin("api.weather.com").received()[0].target, "/current/Oslo");
    // Whoever comes next is written down, too.
    let spoken = spoken.lock().unwrap().clone();
    assert!(
        !spoken.is_empty() && spoken.iter().all(|spoken| spoken.as_deref() == Some(b"http/1.1"))
    );

    // A person sees who it was.
    let shown = run(&world, "Paris", false).exits(3).stdout;
    assert!(shown.contains("modify by company: Rome is nicer."), "{shown}");
    assert!(shown.contains("deny by team: Not Rome."), "{shown}");
    let id = denied["id"].as_str().unwrap();
    let shown = world.a2s(&["runs", id]).exits(0).stdout;
    assert!(shown.contains("request modify by company, request deny by team"), "{shown}");
    let plan = ["run", "PostWeatherTweet", "--dry-run", "--preview"];
    let inputs = ["--input", "location=Paris", "--input", "message=Now:"];
    let shown = world.a2s(&[&plan[..], &inputs].concat()).exits(0).stdout;
    for line in [
        "guardian company, fails closed  policy sha256:",
        "guardian team, fails closed  policy sha256:",
        "guardian would modify by company: Rome is nicer.",
        "guardian would deny by team: Not Rome.",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn killed_guardian_is_skipped_at_fail_open_hooks() {
    let hooks = "fail-hooks = {toolCallRequest = 'open'}";
    let Guarded { world, company: _company, team, .. } = start(IDENTITY, hooks);
    run(&world, "Oslo", true).exits(0);
    drop(team);
    let ended = run(&world, "Bern", true).exits(4).one();
    assert_eq!(ended["error"]["code"], "A2S342");
    let expected = [
        "company allow guardian",
        "team allow failed_open",
        "company allow guardian",
        "team deny failed_closed",
    ];
    assert_eq!(decisions(&ended), expected);
    let received = world.standin("api.weather.com").received();
    let targets: Vec<_> = received.iter().map(|received| received.target.as_str()).collect();
    assert_eq!(targets, ["/current/Oslo", "/current/Bern"]);
    let shown = run(&world, "Bern", false).exits(4).stdout;
    assert!(shown.contains("(team: closed, open for steps/toolCallRequest)"), "{shown}");
    assert!(shown.contains("allow by team (no usable response, failed open)"), "{shown}");
    let metrics = RUNTIME.block_on(async {
        let client = crate::http::client();
        let request = client.get(format!("{}metrics", world.url())).bearer_auth(world.token());
        request.send().await.unwrap().text().await.unwrap()
    });
    let hook = |hook: &str| format!("hook=\"steps/{hook}\",guardian=\"team\"");
    for line in [
        format!(
            "guardian_failures_total{{{},reason=\"guardian_unreachable\"}} 2",
            hook("toolCallRequest")
        ),
        format!(
            "decisions_total{{{},decision=\"deny\",source=\"failed_closed\"}} 2",
            hook("toolCallResult")
        ),
    ] {
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}

#[test]
fn who_shows_no_certificate_is_told_nothing() {
    let Guarded { world, company: _company, team: _team, .. } = start("", "");
    let ended = run(&world, "Oslo", true).exits(4).one();
    assert_eq!(decisions(&ended), ["company deny failed_closed"]);
    assert_eq!(world.standin("api.weather.com").requests(), 0);
    assert!(audited(&world.folder().join("company")).is_empty());
}
