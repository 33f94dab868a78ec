//! `/metrics`: its names are those of docs/metrics.md, its formats those that scrapers ask for.

use std::fmt::Write as _;

use regex::Regex;

use crate::harness::{RUNTIME, World, assert_page};
use crate::http;

const HEAD: &str = "\
# Metrics

`GET /metrics` of each service returns its metrics: in the text format 0.0.4 of Prometheus, or as
OpenMetrics 1.0 for a client that accepts `application/openmetrics-text`. On loopback it needs no token;
elsewhere it needs any token that the service knows. A process has the metrics of its services. Labels
never name capabilities, hosts or callers.

This page is generated: `UPDATE_DOCS=1 cargo test --test it`.
";
/// The services by the beginnings of their metrics, and what they are called here.
const SERVICES: [(&str, &str); 4] = [
    ("a2s_registry_", "Registry"),
    ("a2s_executor_", "Executor"),
    ("a2s_guardian_", "Guardian"),
    ("a2s_", "Every process"),
];

/// The labels of a metric, by its first sample.
fn labels(text: &str, name: &str) -> Vec<String> {
    let sample = text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let rest = rest.strip_prefix("_bucket").unwrap_or(rest);
        rest.split_once('{').filter(|(before, _)| before.is_empty())?.1.rsplit_once('}')
    });
    let label = Regex::new(r#"(\w+)="[^"]*""#).unwrap();
    let sample = sample.map_or("", |(labels, _)| labels);
    let names = label.captures_iter(sample).map(|found| format!("`{}`", &found[1]));
    names.filter(|name| name != "`le`").collect()
}

/// The page, from what a process with all services says.
fn page(text: &str) -> String {
    let described = |keyword: &str| -> Vec<(String, String)> {
        let prefix = format!("# {keyword} ");
        let lines = text.lines().filter_map(|line| line.strip_prefix(&prefix)?.split_once(' '));
        lines.map(|(name, rest)| (name.to_owned(), rest.to_owned())).collect()
    };
    let kinds = described("TYPE");
    let mut rest: Vec<_> = described("HELP");
    let mut page = HEAD.to_owned();
    for (prefix, service) in SERVICES {
        let (own, others) = rest.into_iter().partition(|(name, _)| name.starts_with(prefix));
        rest = others;
        let mut own: Vec<(String, String)> = own;
        own.sort();
        let head = "| metric | type | labels | meaning |\n|---|---|---|---|";
        write!(page, "\n## {service}\n\n{head}\n").unwrap();
        for (name, help) in own {
            let (_, kind) = kinds.iter().find(|(known, _)| *known == name).unwrap();
            let labels = labels(text, &name).join(", ");
            let help = help.trim_end_matches('.');
            writeln!(page, "| `{name}` | {kind} | {labels} | {help} |").unwrap();
        }
    }
    assert_eq!(rest, [], "the name of a metric begins with the program's");
    page
}

#[test]
fn metrics_page_is_current() {
    // A metric without a sample is not there: so there is one of each.
    let mut world = World::down(&[]);
    let policy = world.write("policy.yaml", "version: 1\ndefault: allow\nrules: []\n");
    let silent = "[[guardian]]\nurl = 'http://127.0.0.1:1/aos'\nfail = 'open'\nretry-for = '0s'\n";
    let config = format!("{silent}[[guardian]]\nurl = 'builtin'\n");
    let config = world.write("a2s.toml", &config);
    world.add_flags(&["--config", &config, "--policy", &policy, "--shadow", &policy]);
    world.start();
    world.a2s(&["run", "ListDogBreeds"]).exits(0);
    let aos = format!("{}aos", world.url());
    let shown = format!("Bearer {}", world.token());
    let headers = [("authorization", shown.as_str()), ("content-type", "application/json")];
    http::send("POST", &aos, &headers, Some("no message".to_owned()));
    let (status, text) = http::get(&format!("{}metrics", world.url()), &[]);
    assert_eq!(status, 200);
    for word in ["a2s", "registry", "executor", "guardian_guardian", "total_total"] {
        let doubled = |line: &&str| line.matches(&format!("{word}_")).count() > 1;
        assert_eq!(text.lines().filter(|line| !line.contains('{')).find(doubled), None, "{word}");
    }
    assert_page("docs/metrics.md", &page(&text));
}

#[test]
fn requests_are_counted_by_route_and_status() {
    let world = World::up(&[]);
    world.a2s(&["run", "ListDogBreeds"]).exits(0);
    http::get(&format!("{}no/such/route", world.url()), &[]);
    let (_, text) = http::get(&format!("{}metrics", world.url()), &[]);
    for line in [
        r#"a2s_http_requests_total{method="POST",route="/v1/executions",status="20"#,
        r#"a2s_http_requests_total{method="GET",route="none",status="404"} "#,
        r#"a2s_http_request_seconds_count{method="POST",route="/v1/executions"} "#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("no/such/route"), "{text}");
}

#[test]
fn a_scraper_gets_the_format_that_it_accepts() {
    let world = World::up(&["--no-examples"]);
    let ask = |accept: &str| {
        RUNTIME.block_on(async {
            let request = http::client().get(format!("{}metrics", world.url()));
            let response = request.header("accept", accept).send().await.unwrap();
            let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
            (kind, response.text().await.unwrap())
        })
    };
    // As Prometheus 2 and 3 ask.
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2";
    let (kind, text) = ask(accept);
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    assert!(
        text.ends_with("# EOF\n") && text.contains("# TYPE a2s_executor_runs counter"),
        "{text}"
    );
    for accept in ["text/plain;version=0.0.4", "*/*"] {
        let (kind, text) = ask(accept);
        assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
        assert!(!text.contains("# EOF"), "{text}");
        assert!(text.contains("# TYPE a2s_executor_runs_total counter"), "{text}");
    }
}
