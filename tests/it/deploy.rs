//! What operators start services with: `docker-compose.yml`, the `Dockerfile` and the files of `deploy/`,
//! held to the program and to one another. Nothing of it is started here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{a2s, a2s_in, root};

/// A service of ours, as a file starts it.
#[derive(Debug)]
struct Started {
    name: String,
    arguments: Vec<String>,
    environment: BTreeMap<String, Given>,
}

/// The value of a variable, or the name of the secret that it comes from.
#[derive(Debug, Clone)]
enum Given {
    Value(String),
    Secret(String),
}

impl Started {
    /// The command without its flags: `serve registry`.
    fn command(&self) -> Vec<&str> {
        let words = self.arguments.iter().take_while(|word| !word.starts_with('-'));
        words.map(String::as_str).collect()
    }

    /// Where it listens.
    #[track_caller]
    fn port(&self) -> u16 {
        let line = self.arguments.join(" ");
        let found = Regex::new(r"--listen[= ]0\.0\.0\.0:(\d+)").unwrap().captures(&line);
        found.unwrap_or_else(|| panic!("{self:?}"))[1].parse().unwrap()
    }

    /// The hosts and ports that it is told of.
    fn addresses(&self) -> Vec<(String, u16)> {
        let values = self.environment.values().filter_map(|given| match given {
            Given::Value(value) => Some(value.as_str()),
            Given::Secret(_) => None,
        });
        let all: Vec<&str> = self.arguments.iter().map(String::as_str).chain(values).collect();
        let url = Regex::new(r"(https?|postgres)://(?:\w+@)?([\w.-]+)(?::(\d+))?").unwrap();
        let address = |found: regex::Captures<'_>| {
            let usual = || if &found[1] == "postgres" { 5432 } else { 443 };
            let port = found.get(3).map_or_else(usual, |port| port.as_str().parse().unwrap());
            (found[2].to_owned(), port)
        };
        all.iter().flat_map(|text| url.captures_iter(text)).map(address).collect()
    }
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap_or_else(|| panic!("{list}"));
    list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn compose() -> Value {
    serde_saphyr::from_str(&read("docker-compose.yml")).unwrap()
}

fn services(compose: &Value) -> impl Iterator<Item = (&String, &Value)> {
    compose["services"].as_object().unwrap().iter()
}

/// The services of docker-compose.yml that run our image.
fn composed(compose: &Value) -> Vec<Started> {
    let required = Regex::new(r"^\$\{(\w+):\?.+\}$").unwrap();
    let ours = services(compose).filter(|(_, service)| service.get("build").is_some());
    let started = ours.map(|(name, service)| {
        let environment = service["environment"].as_object().unwrap().iter().map(|(key, value)| {
            let value = value.as_str().unwrap();
            let given = match required.captures(value) {
                Some(secret) => Given::Secret(secret[1].to_owned()),
                None => Given::Value(value.to_owned()),
            };
            (key.clone(), given)
        });
        Started {
            name: name.clone(),
            arguments: texts(&service["command"]),
            environment: environment.collect(),
        }
    });
    started.collect()
}

fn manifests() -> Vec<Value> {
    serde_saphyr::from_multiple(&read("deploy/kubernetes.yaml")).unwrap()
}

/// The pods of deploy/kubernetes.yaml by the name of what makes them, each with its one container.
fn pods(manifests: &[Value]) -> Vec<(&Value, &Value)> {
    let containers = manifests.iter().filter_map(|manifest| {
        let containers = manifest.pointer("/spec/template/spec/containers")?.as_array()?;
        assert_eq!(containers.len(), 1, "{manifest}");
        Some((manifest, &containers[0]))
    });
    containers.collect()
}

fn deployed(manifests: &[Value]) -> Vec<Started> {
    let started = pods(manifests).into_iter().map(|(manifest, container)| {
        let environment = container["env"].as_array().unwrap().iter().map(|variable| {
            let given = match variable.get("valueFrom") {
                Some(from) => {
                    assert_eq!(from["secretKeyRef"]["name"], "a2s", "{variable}");
                    Given::Secret(from["secretKeyRef"]["key"].as_str().unwrap().to_owned())
                }
                None => Given::Value(variable["value"].as_str().unwrap().to_owned()),
            };
            (variable["name"].as_str().unwrap().to_owned(), given)
        });
        Started {
            name: manifest["metadata"]["name"].as_str().unwrap().to_owned(),
            arguments: texts(&container["args"]),
            environment: environment.collect(),
        }
    });
    started.collect()
}

/// The last stage of the Dockerfile, with each instruction on a line.
fn image() -> String {
    let text = read("Dockerfile").replace("\\\n", "");
    text[text.rfind("\nFROM ").unwrap()..].to_owned()
}

/// The words of the instruction of the image that begins so.
fn instruction(name: &str) -> Vec<String> {
    let image = image();
    let line = image.lines().find(|line| line.starts_with(name)).unwrap();
    texts(&serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap())
}

/// What a container of the image does when nobody says anything else.
fn imaged() -> Started {
    assert_eq!(instruction("ENTRYPOINT"), ["a2s"]);
    let image = image();
    let variables = image.lines().filter_map(|line| line.strip_prefix("ENV ")?.split_once('='));
    let given = |(name, value): (&str, &str)| (name.to_owned(), Given::Value(value.to_owned()));
    Started {
        name: "Dockerfile".to_owned(),
        arguments: instruction("CMD"),
        environment: variables.map(given).collect(),
    }
}

fn all() -> Vec<Started> {
    let mut all = composed(&compose());
    all.extend(deployed(&manifests()));
    all.push(imaged());
    assert_eq!(all.len(), 11, "{all:?}");
    all
}

/// The line of a command is read, and then what its variables say; a log filter that is none ends it
/// before anything is opened.
#[test]
fn services_understand_how_they_are_started() {
    for started in all() {
        let value = |given: &Given| match given {
            Given::Value(value) => value.clone(),
            Given::Secret(_) => "a-secret".to_owned(),
        };
        let environment: Vec<_> =
            started.environment.iter().map(|(name, given)| (name.as_str(), value(given))).collect();
        let environment: Vec<_> =
            environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let arguments = started.arguments.iter().map(String::as_str).chain(["--log", "["]);
        let ran = a2s_in(root(), &environment, &arguments.collect::<Vec<_>>()).exits(2);
        assert!(ran.stderr.contains("`[` is not a log filter"), "{started:?}\n{}", ran.stderr);
    }
}

#[test]
fn services_read_every_variable_that_they_are_given() {
    for started in all() {
        let help = a2s(&[&started.command()[..], &["--help"]].concat()).exits(0).stdout;
        let known: BTreeSet<&str> =
            help.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        for name in started.environment.keys() {
            assert!(known.contains(name.as_str()), "{}: {name}", started.name);
        }
    }
}

#[test]
fn secrets_are_named_and_not_written() {
    let made = secrets();
    for started in all() {
        for (name, given) in &started.environment {
            let is_secret = ["TOKEN", "KEY", "PASSWORD"].iter().any(|word| name.ends_with(word));
            match given {
                Given::Secret(from) => assert!(made.contains_key(from), "{}: {from}", started.name),
                Given::Value(_) => assert!(!is_secret, "{}: {name}", started.name),
            }
        }
    }
    // Whoever asks a guardian cannot approve what they ask for.
    let secret = |started: &Started, name: &str| match started.environment.get(name) {
        Some(Given::Secret(from)) => Some(from.clone()),
        _ => None,
    };
    let (guardians, others): (Vec<_>, Vec<_>) =
        all().into_iter().partition(|started| started.name == "guardian");
    for guardian in guardians {
        let approving = secret(&guardian, "A2S_TOKEN").unwrap();
        for other in &others {
            let has = |name: &String| secret(other, name).as_ref() == Some(&approving);
            assert!(!other.environment.keys().any(has), "{}", other.name);
        }
    }
    // Executors show a registry a token that it knows, and that is no owner's.
    for started in all() {
        let shown = [secret(&started, "A2S_REGISTRY_TOKEN"), secret(&started, "A2S_SERVICE_TOKEN")];
        match started.command().as_slice() {
            ["serve", "executor" | "agent"] => {
                assert_eq!(shown[0].as_deref(), Some("A2S_SERVICE_TOKEN"));
            }
            ["serve", "registry"] => assert_eq!(shown[1].as_deref(), Some("A2S_SERVICE_TOKEN")),
            _ => assert_eq!(shown, [None, None], "{}", started.name),
        }
    }
    let asked = Regex::new(r"\$\{(\w+):\?").unwrap();
    let compose = read("docker-compose.yml");
    let asked: BTreeSet<&str> =
        asked.captures_iter(&compose).map(|found| found.get(1).unwrap().as_str()).collect();
    assert!(made.keys().map(String::as_str).eq(asked), "{made:?}");
}

/// What `deploy/secrets` makes.
fn secrets() -> BTreeMap<String, String> {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(".env");
    let run = || {
        let mut script = Command::new(root().join("deploy/secrets"));
        script.arg(&file).output().unwrap().status.success()
    };
    assert!(run());
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!run(), "a file that is there is overwritten");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pair = |line: &str| line.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
    lines.map(|line| pair(line).unwrap()).collect()
}

#[test]
fn secrets_are_made_anew_and_fit() {
    let (one, other) = (secrets(), secrets());
    for (name, value) in &one {
        assert!(value.len() >= 43, "{name}");
        assert_ne!(value, &other[name], "{name}");
    }
    assert_eq!(STANDARD.decode(&one["A2S_SECRET_KEY"]).unwrap().len(), 32);
}

#[test]
fn health_checks_ask_where_services_listen() {
    let compose = compose();
    for started in composed(&compose) {
        let check = texts(&compose["services"][&started.name]["healthcheck"]["test"]);
        let url = format!("http://127.0.0.1:{}", started.port());
        assert_eq!(check, ["CMD", "a2s", "ready", "--url", &url], "{}", started.name);
    }
    assert_eq!(instruction("HEALTHCHECK"), ["a2s", "ready"]);
    let help = a2s(&["ready", "--help"]).exits(0).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("--url <URL>"), "{help}");
    assert!(help.contains(&format!("[default: http://127.0.0.1:{}]", imaged().port())), "{help}");

    let manifests = manifests();
    for ((_, container), started) in pods(&manifests).into_iter().zip(deployed(&manifests)) {
        let port = &container["ports"][0];
        assert_eq!(port["containerPort"], started.port(), "{}", started.name);
        for (probe, path) in
            [("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz")]
        {
            let asked = &container[format!("{probe}Probe")]["httpGet"];
            assert_eq!(asked["path"], path, "{}: {probe}", started.name);
            assert_eq!(asked["port"], port["name"], "{}: {probe}", started.name);
        }
    }
}

#[test]
fn services_of_compose_find_each_other() {
    let compose = compose();
    let ours = composed(&compose);
    let mut listening: BTreeMap<&str, u16> =
        ours.iter().map(|started| (started.name.as_str(), started.port())).collect();
    let front = read("deploy/haproxy.cfg");
    let bind = Regex::new(r"(?m)^ +bind :(\d+)$").unwrap().captures(&front).unwrap();
    let collector: Value = serde_saphyr::from_str(&read("deploy/collector.yaml")).unwrap();
    let collector = &collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"];
    let collector = collector.as_str().unwrap().strip_prefix("0.0.0.0:").unwrap();
    listening.insert("front", bind[1].parse().unwrap());
    listening.insert("collector", collector.parse().unwrap());
    // Their own defaults.
    listening.extend([("postgres", 5432), ("qdrant", 6334)]);
    for started in &ours {
        for (host, port) in started.addresses() {
            assert_eq!(listening.get(host.as_str()), Some(&port), "{}: {host}", started.name);
            let reachable = |name: &str| -> BTreeSet<String> {
                let networks = compose["services"][name].get("networks");
                networks.map_or_else(|| vec!["default".to_owned()], texts).into_iter().collect()
            };
            let (here, there) = (reachable(&started.name), reachable(&host));
            assert!(!here.is_disjoint(&there), "{} cannot reach {host}", started.name);
            let waits = &compose["services"][&started.name]["depends_on"];
            assert!(waits.get(&host).is_some(), "{} does not wait for {host}", started.name);
        }
    }
    for (name, service) in services(&compose) {
        let Some(before) = service.get("depends_on") else { continue };
        for (other, condition) in before.as_object().unwrap() {
            let checked = compose["services"][other].get("healthcheck").is_some();
            let expected = if checked { "service_healthy" } else { "service_started" };
            assert_eq!(condition["condition"], expected, "{name}: {other}");
        }
    }
    for (backend, servers) in Front::read(&front).servers {
        for (host, port) in servers {
            assert_eq!(listening.get(host.as_str()), Some(&port), "{backend}: {host}");
        }
    }
    let published = &compose["services"]["front"]["ports"];
    assert_eq!(texts(published), [format!("127.0.0.1:${{A2S_PORT:-8740}}:{}", &bind[1])]);
}

/// What deploy/haproxy.cfg leads where.
#[derive(Default)]
struct Front {
    /// Beginnings of paths, each with its backend.
    paths: Vec<(String, String)>,
    servers: BTreeMap<String, Vec<(String, u16)>>,
}

impl Front {
    fn read(text: &str) -> Self {
        let (mut front, mut section) = (Self::default(), String::new());
        let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for line in text.lines() {
            match line.split_whitespace().collect::<Vec<_>>().as_slice() {
                ["backend", name] => section = (*name).to_owned(),
                ["acl", name, "path_beg", paths @ ..] => {
                    named.insert(name, paths.to_vec());
                }
                ["use_backend", backend, "if", name] => {
                    let paths = named[name].iter();
                    front
                        .paths
                        .extend(paths.map(|path| ((*path).to_owned(), (*backend).to_owned())));
                }
                ["default_backend", backend] => {
                    front.paths.push(("/".to_owned(), (*backend).to_owned()));
                }
                ["server", _, address] => {
                    let (host, port) = address.split_once(':').unwrap();
                    let servers = front.servers.entry(section.clone()).or_default();
                    servers.push((host.to_owned(), port.parse().unwrap()));
                }
                _ => {}
            }
        }
        front
    }
}

/// Which service has which paths.
fn paths() -> Vec<(&'static str, Vec<String>)> {
    let paths = |document: utoipa::openapi::OpenApi| {
        let paths: Vec<String> = document.paths.paths.into_keys().collect();
        assert!(!paths.is_empty());
        // Every service has these.
        paths.into_iter().filter(|path| path != "/healthz" && path != "/readyz").collect()
    };
    vec![
        ("registry", paths(registry::App::openapi())),
        ("executor", paths(executor::App::openapi())),
        ("guardian", paths(guardian::App::openapi())),
        (
            "agent",
            [paths(agent::App::openapi()), paths(a2a::App::openapi()), vec!["/mcp".to_owned()]]
                .concat(),
        ),
    ]
}

#[test]
fn every_path_leads_to_the_service_that_has_it() {
    let front = Front::read(&read("deploy/haproxy.cfg"));
    let manifests = manifests();
    let ingress = manifests.iter().find(|manifest| manifest["kind"] == "Ingress").unwrap();
    let rules = ingress["spec"]["rules"][0]["http"]["paths"].as_array().unwrap();
    let rules: Vec<(&str, &str)> = rules
        .iter()
        .map(|rule| {
            assert_eq!(rule["pathType"], "Prefix");
            let service = &rule["backend"]["service"]["name"];
            (rule["path"].as_str().unwrap(), service.as_str().unwrap())
        })
        .collect();
    for (service, paths) in paths() {
        for path in paths {
            // The first that fits, as the last is the rest.
            let (_, backend) =
                front.paths.iter().find(|(begin, _)| path.starts_with(begin)).unwrap();
            let servers = &front.servers[backend];
            let fits = |(host, _): &(String, u16)| {
                host == service
                    || host.strip_prefix(service).is_some_and(|rest| rest.starts_with('-'))
            };
            assert!(!servers.is_empty() && servers.iter().all(fits), "{path}: {servers:?}");
            // The longest that fits, part by part.
            let fits = |begin: &str| {
                let rest = path.strip_prefix(begin.trim_end_matches('/'));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let fitting = rules.iter().filter(|(begin, _)| fits(begin));
            let (_, to) = fitting.max_by_key(|(begin, _)| begin.len()).unwrap();
            assert_eq!(*to, service, "{path}");
        }
    }
}

#[test]
fn compose_opens_and_allows_no_more_than_it_has_to() {
    let compose = compose();
    let pinned = Regex::new(r"^[\w./-]+:v?\d+\.\d+(\.\d+)?(-[a-z]+)?$").unwrap();
    for (name, service) in services(&compose) {
        let image = service["image"].as_str().unwrap();
        assert!(pinned.is_match(image), "{name}: {image}");
        if service.get("build").is_some() {
            assert_eq!(image, format!("a2s:{}", env!("CARGO_PKG_VERSION")), "{name}");
        }
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(texts(&service["cap_drop"]), ["ALL"], "{name}");
        assert_eq!(texts(&service["security_opt"]), ["no-new-privileges:true"], "{name}");
        for port in service.get("ports").map_or_else(Vec::new, texts) {
            assert!(port.starts_with("127.0.0.1:"), "{name}: {port}");
        }
        for volume in service.get("volumes").map_or_else(Vec::new, texts) {
            let (from, to) = volume.split_once(':').unwrap();
            match from.strip_prefix("./") {
                Some(path) => {
                    assert!(root().join(path).exists(), "{name}: {path}");
                    assert!(to.ends_with(":ro"), "{name}: {volume}");
                }
                None => assert!(compose["volumes"].get(from).is_some(), "{name}: {volume}"),
            }
        }
    }
}

#[test]
fn parts_of_the_kubernetes_file_fit_together() {
    let manifests = manifests();
    let of = |kind: &str| -> BTreeMap<&str, &Value> {
        let those = manifests.iter().filter(|manifest| manifest["kind"] == kind);
        those.map(|one| (one["metadata"]["name"].as_str().unwrap(), one)).collect()
    };
    let services = of("Service");
    let pods = pods(&manifests);
    for ((manifest, container), started) in pods.iter().zip(deployed(&manifests)) {
        let name = &started.name;
        let image = container["image"].as_str().unwrap();
        assert!(image.ends_with(&format!("/a2s:{}", env!("CARGO_PKG_VERSION"))), "{name}: {image}");
        let labels = &manifest["spec"]["template"]["metadata"]["labels"];
        assert_eq!(&manifest["spec"]["selector"]["matchLabels"], labels, "{name}");
        // Behind a service of its own name, at its own port.
        let service = &services[name.as_str()]["spec"];
        assert_eq!(&service["selector"], labels, "{name}");
        assert_eq!(service["ports"][0]["port"], started.port(), "{name}");
        assert_eq!(service["ports"][0]["targetPort"], container["ports"][0]["name"], "{name}");
        // Those of a machine that is emptied go one after another.
        if manifest["kind"] == "Deployment" {
            let budget = &of("PodDisruptionBudget")[name.as_str()]["spec"];
            assert_eq!(&budget["selector"]["matchLabels"], labels, "{name}");
        }
        // Addresses with dots are of others.
        for (host, port) in started.addresses().iter().filter(|(host, _)| !host.contains('.')) {
            let service = services.get(host.as_str()).unwrap_or_else(|| panic!("{name}: {host}"));
            assert_eq!(service["spec"]["ports"][0]["port"], *port, "{name}: {host}");
        }
        // What is waited for.
        let before = manifest["spec"]["template"]["spec"]["initContainers"].as_array();
        for before in before.into_iter().flatten() {
            assert_eq!(before["image"], image, "{name}");
            let url =
                format!("http://guardian:{}", services["guardian"]["spec"]["ports"][0]["port"]);
            assert_eq!(texts(&before["args"]), ["ready", "--url", &url], "{name}");
        }
        let volumes = manifest["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
        let claims = manifest["spec"]["volumeClaimTemplates"].as_array();
        let claims = claims.into_iter().flatten().map(|claim| &claim["metadata"]["name"]);
        let there: Vec<&Value> =
            volumes.iter().map(|volume| &volume["name"]).chain(claims).collect();
        for mount in container["volumeMounts"].as_array().unwrap() {
            assert!(there.contains(&&mount["name"]), "{name}: {mount}");
        }
    }
    for manifest in &manifests {
        let namespace = &manifest["metadata"]["namespace"];
        assert!(manifest["kind"] == "Namespace" || namespace == "a2s", "{manifest}");
    }
}

/// The rules that guardians are started with, and that they are where the guardians look for them.
#[test]
fn guardians_are_given_rules_without_faults() {
    let manifests = manifests();
    let map = manifests.iter().find(|manifest| manifest["kind"] == "ConfigMap").unwrap();
    let mounted = map["data"]["policy.yaml"].as_str().unwrap();
    for rules in [read("deploy/guardian/policy.yaml").as_str(), mounted] {
        assert!(guardian::Policy::parse(rules).is_ok(), "{rules}");
    }
    let guardians = all().into_iter().filter(|one| one.command() == ["serve", "guardian"]);
    let looked: Vec<_> = guardians.map(|one| one.arguments.join(" ")).collect();
    assert_eq!(looked.len(), 2);
    assert!(
        looked.iter().all(|line| line.ends_with("--policy /etc/a2s/policy.yaml")),
        "{looked:?}"
    );
    assert!(Path::new(root()).join("deploy/guardian/policy.yaml").is_file());
}
