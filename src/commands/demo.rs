//! `a2s demo`: the whole loop on this machine, with real servers on loopback and no network. Every part
//! states a claim and checks it.

mod mock_services;

use std::collections::BTreeMap;
use std::sync::Arc;

use a2s::{CapabilityName, Domain};
use a2s_api::{
    DecisionRecord, ExecutionRequest, PlanRequest, PlanResponse, Run, RunStatus, SearchRequest,
    SearchResponse, VerifyRequest, VerifyResponse,
};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use self::mock_services::MockService;
use crate::cli::DemoArgs;
use crate::cli_error::{CliError, CliExitCode, DEMO_BROKEN};
use crate::client::{ServiceClient, client};
use crate::commands::{
    print_plan, print_response, print_result, publish_document, start_and_watch,
};
use crate::output::{BAD, BOLD, CommandOutput, DIM, GOOD, NAME, count};
use crate::serve::{DataFolder, ExecutorPart, RunningServices, ServiceSettings, bundled_documents};
use crate::settings::{ConnectionLimits, GuardianSelection, executor_config};

/// The most items of a long list that are shown.
const MAX_SHOWN: usize = 3;
const INTENT: &str = "check the weather in Paris and tweet it";

/// The rules of the demo's guardian.
const POLICY: &str = r#"
version: 1
default: allow
rules:
  - id: no-secrets-in-public
    on: [steps/toolCallRequest]
    tool: PostWeatherTweet.postTweet
    when: inputs["variables.text"].contains("password")
    decision: deny
    message: A post must not mention passwords.
    reason_codes: [secret_in_post]
  - id: no-addresses-in-public
    on: [steps/toolCallRequest]
    tool: PostWeatherTweet.postTweet
    decision: modify
    when: inputs["variables.text"].contains("@")
    message: E-mail addresses are removed from posts.
    reason_codes: [address_in_post]
    modify:
      redact:
        - pattern: email
"#;

/// Runs the demo.
pub(crate) async fn demo(arguments: &DemoArgs, output: &mut CommandOutput) -> Result<(), CliError> {
    let folder = tempfile::tempdir().map_err(|error| cannot_start(&error))?;
    let mut demo = Demo::start(folder.path(), arguments.verbose, output).await?;
    let played = demo.play().await;
    let Demo { stack, claims, .. } = demo;
    stack.stop().await;
    played?;
    let broken: Vec<&DemoClaim> = claims.iter().filter(|claim| !claim.holds).collect();
    if output.is_json() {
        let parts: Vec<Value> = claims
            .iter()
            .map(|claim| json!({ "claim": claim.text, "holds": claim.holds, "seen": claim.seen }))
            .collect();
        output.json_line(&json!({ "good": broken.is_empty(), "claims": parts }));
    } else {
        let total = count(claims.len(), "claim");
        output.line(format_args!(""));
        if broken.is_empty() {
            output.line(format_args!("{GOOD}all {total} confirmed{GOOD:#}"));
            output.line(format_args!(
                "{DIM}next: a2s up, then a2s search \"dog breeds\" in another terminal{DIM:#}"
            ));
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    let list: Vec<&str> = broken.iter().map(|claim| claim.text.as_str()).collect();
    let failure =
        CliError::new(CliExitCode::Bad, DEMO_BROKEN, format!("failed claims: {}", list.join("; ")));
    Err(CliError { is_printed: output.is_json(), ..failure })
}

/// A claim of the demo, and its result.
struct DemoClaim {
    text: String,
    holds: bool,
    seen: Value,
}

struct Demo<'o> {
    stack: RunningServices,
    client: ServiceClient,
    weather: MockService,
    social: MockService,
    claims: Vec<DemoClaim>,
    /// Set when long lists are shown completely.
    is_verbose: bool,
    output: &'o mut CommandOutput,
}

impl<'o> Demo<'o> {
    async fn start(
        folder: &std::path::Path,
        is_verbose: bool,
        output: &'o mut CommandOutput,
    ) -> Result<Self, CliError> {
        let weather = MockService::start_weather().await.map_err(|error| cannot_start(&error))?;
        let social = MockService::start_social().await.map_err(|error| cannot_start(&error))?;
        let policy = folder.join("policy.yaml");
        std::fs::write(&policy, POLICY).map_err(|error| cannot_start(&error))?;
        let upstreams: BTreeMap<Domain, _> = [&weather, &social]
            .into_iter()
            .map(|service| (service.host.clone(), service.url.clone()))
            .collect();
        let listener =
            TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| cannot_start(&error))?;
        let data = DataFolder::open(&folder.join("data"), "registry")?;
        let token = data.token(None)?;
        let parts = ServiceSettings {
            registry: Some(registry::Config::in_folder(data.path(), None)),
            executor: Some(ExecutorPart {
                config: executor::Config { upstreams, ..executor_config(data.path())? },
                registry: None,
                guardians: GuardianSelection::builtin(),
                builtin_guardian: Some(guardian::Config::new(
                    guardian::PolicySource::File(policy),
                    data.path(),
                )),
            }),
            ..ServiceSettings::default()
        };
        let limits = ConnectionLimits::default();
        let starting =
            RunningServices::start(listener, Arc::new(data), parts, token.clone(), &[], limits);
        let stack = Box::pin(starting).await?;
        let client = client(stack.url(), Some(token), None)?;
        Ok(Self { stack, client, weather, social, claims: Vec::new(), is_verbose, output })
    }

    async fn play(&mut self) -> Result<(), CliError> {
        self.title("Services on this machine");
        for (what, at) in [
            ("registry, executor, guardian", self.stack.url()),
            ("mock of api.weather.com (REST)", &self.weather.url),
            ("mock of api.twitter.com (GraphQL)", &self.social.url),
        ] {
            if !self.output.is_json() {
                self.output.line(format_args!("{what:<40} {DIM}{at}{DIM:#}"));
            }
        }
        self.publish().await?;
        let (name, digest) = self.search_and_verify().await?;
        self.plan(&name, digest).await?;
        self.run_allowed(&name, digest).await?;
        self.run_denied(&name, digest).await?;
        self.run_modified(&name, digest).await?;
        self.publish_tampered().await?;
        self.run_failing(&name, digest).await
    }

    async fn publish(&mut self) -> Result<(), CliError> {
        self.title("Publish the shipped capabilities");
        let documents = bundled_documents();
        let mut names = Vec::with_capacity(documents.len());
        for (_, source) in &documents {
            let answer = publish_document(source, &self.client).await?;
            let a2s_api::PublishResponse { name, version, checksum, .. } = &answer;
            if self.is_verbose && !self.output.is_json() {
                self.output
                    .line(format_args!("{NAME}{name}{NAME:#} {version}  {DIM}{checksum}{DIM:#}"));
            }
            names.push(name.to_string());
        }
        let published = documents.len();
        if !self.is_verbose && !self.output.is_json() {
            let first =
                names.iter().take(MAX_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = published.saturating_sub(MAX_SHOWN);
            self.output.line(format_args!("{first} {DIM}and {more} more (--verbose){DIM:#}"));
        }
        let unchanged = match documents.first() {
            Some((_, source)) => !publish_document(source, &self.client).await?.created,
            None => false,
        };
        self.check_claim(
            format!(
                "{published} documents are published, and publishing one again changes nothing"
            ),
            unchanged,
            json!({ "published": published }),
        );
        Ok(())
    }

    async fn search_and_verify(&mut self) -> Result<(CapabilityName, a2s::Digest), CliError> {
        self.title(&format!("Search: {INTENT}"));
        let limit = Some(if self.is_verbose { MAX_SHOWN } else { 1 });
        let request =
            SearchRequest { intent: INTENT.to_owned(), limit, ..SearchRequest::default() };
        let answer: SearchResponse = self.client.post(&["v1", "search"], &request).await?;
        if !self.output.is_json() {
            print_response(&answer, true, self.output);
        }
        let first = answer.capabilities.first().ok_or_else(|| {
            CliError::new(CliExitCode::Bad, DEMO_BROKEN, "the search found nothing")
        })?;
        let (name, digest) = (first.name.clone(), first.checksum);
        self.check_claim(
            "the intent finds PostWeatherTweet".to_owned(),
            name.as_str() == "PostWeatherTweet",
            json!(answer),
        );

        self.title("Verify the hit");
        let request = VerifyRequest { name: name.clone(), version: Some(first.version.clone()) };
        let answer: VerifyResponse = self.client.post(&["v1", "verify"], &request).await?;
        if !self.output.is_json() {
            self.output.line(format_args!("{digest}"));
        }
        self.check_claim(
            "the document in the registry has the checksum of the hit".to_owned(),
            answer.valid && answer.computed == Some(digest),
            json!(answer),
        );
        Ok((name, digest))
    }

    async fn plan(&mut self, name: &CapabilityName, digest: a2s::Digest) -> Result<(), CliError> {
        self.title("Plan without sending anything");
        let request = PlanRequest {
            name: name.clone(),
            version: None,
            digest: Some(digest),
            lock: None,
            inputs: inputs("Paris", "Weekend picnic weather update for Paris:"),
            session: None,
            preview: false,
        };
        let plan: PlanResponse = self.client.post(&["v1", "plans"], &request).await?;
        if !self.output.is_json() {
            print_plan(&plan, self.output);
        }
        let sent = self.count_requests();
        self.check_claim(
            "the plan has two steps and two hosts, no input is missing, and nothing was sent"
                .to_owned(),
            plan.steps.len() == 2
                && plan.hosts.len() == 2
                && plan.missing.is_empty()
                && sent == (0, 0),
            json!(plan),
        );
        Ok(())
    }

    async fn run_allowed(
        &mut self,
        name: &CapabilityName,
        digest: a2s::Digest,
    ) -> Result<(), CliError> {
        self.title("Run it: the guardian checks each step before and after it");
        let run =
            self.run(name, digest, "Paris", "Weekend picnic weather update for Paris:").await?;
        let decisions = decisions(&run);
        let tweet = run.output.as_ref().and_then(|output| output.get("tweet_id")).cloned();
        self.check_claim(
            "both steps ran, allowed before and after, and created a tweet".to_owned(),
            run.status == RunStatus::Succeeded
                && decisions == ["allow"; 4]
                && tweet.is_some_and(|id| !id.is_null())
                && self.count_requests() == (1, 1),
            json!(run),
        );
        Ok(())
    }

    async fn run_denied(
        &mut self,
        name: &CapabilityName,
        digest: a2s::Digest,
    ) -> Result<(), CliError> {
        self.title("A policy denies");
        let before = self.count_requests();
        let run = self.run(name, digest, "Paris", "My password is hunter2.").await?;
        self.check_claim(
            "the guardian denied the post, and nothing was posted".to_owned(),
            run.status == RunStatus::Denied
                && decisions(&run) == ["allow", "allow", "deny"]
                && self.count_requests() == (before.0 + 1, before.1),
            json!(run),
        );
        Ok(())
    }

    async fn run_modified(
        &mut self,
        name: &CapabilityName,
        digest: a2s::Digest,
    ) -> Result<(), CliError> {
        self.title("A policy modifies");
        let run = self.run(name, digest, "Paris", "Ask ann@example.com for a seat.").await?;
        let posted = self.social.last_body();
        self.check_claim(
            "the post went out without the e-mail address".to_owned(),
            run.status == RunStatus::Succeeded
                && decisions(&run) == ["allow", "allow", "modify", "allow", "allow"]
                && posted.contains("for a seat")
                && !posted.contains("ann@example.com"),
            json!({ "run": run, "posted": posted }),
        );
        Ok(())
    }

    async fn publish_tampered(&mut self) -> Result<(), CliError> {
        self.title("A tampered document");
        let documents = bundled_documents();
        let source = documents.iter().find(|(name, _)| *name == "ListDogBreeds");
        let source =
            source.map_or_else(String::new, |(_, s)| String::from_utf8_lossy(s).into_owned());
        let tampered = source.replacen("list of dog", "lust of dog", 1);
        let refused = publish_document(tampered.as_bytes(), &self.client).await.err();
        if let Some(failure) = &refused
            && !self.output.is_json()
        {
            let (text, remarks) = (tampered.as_bytes(), &failure.diagnostics);
            self.output.print_diagnostics("tampered.yaml", text, remarks);
        }
        let mismatch = refused.as_ref().is_some_and(|failure| {
            failure.diagnostics.iter().any(|diagnostic| diagnostic.code == "A2S031")
        });
        self.check_claim(
            "one letter changed, and the registry rejects the document".to_owned(),
            mismatch && tampered != source,
            json!(refused.map(|failure| failure.to_json())),
        );
        Ok(())
    }

    async fn run_failing(
        &mut self,
        name: &CapabilityName,
        digest: a2s::Digest,
    ) -> Result<(), CliError> {
        self.title("A step fails");
        let before = self.count_requests();
        let run = self.run(name, digest, "Atlantis", "Bad weather ahead?").await?;
        let error = run.error.clone();
        let named = error.as_ref().is_some_and(|error| {
            error.step.as_deref() == Some("getWeather") && !error.hint.is_empty()
        });
        self.check_claim(
            "the error names the step and the fix, and the next step did not run".to_owned(),
            run.status == RunStatus::Failed && named && self.count_requests().1 == before.1,
            json!(run),
        );
        Ok(())
    }

    async fn run(
        &mut self,
        name: &CapabilityName,
        digest: a2s::Digest,
        location: &str,
        message: &str,
    ) -> Result<Run, CliError> {
        let request = ExecutionRequest {
            name: Some(name.clone()),
            plan: None,
            version: None,
            digest: Some(digest),
            lock: None,
            inputs: inputs(location, message),
            session: Some("demo".to_owned()),
            wait: false,
            intent: None,
        };
        let run = start_and_watch(&request, &self.client, self.output).await?;
        if !self.output.is_json() {
            print_result(&run, self.output);
        }
        Ok(run)
    }

    /// Returns the numbers of requests to the weather service and the social service.
    fn count_requests(&self) -> (usize, usize) {
        (self.weather.requests(), self.social.requests())
    }

    fn title(&mut self, title: &str) {
        if !self.output.is_json() {
            self.output.lines(&format!("\n{BOLD}── {title}{BOLD:#}"));
        }
    }

    fn check_claim(&mut self, text: String, holds: bool, seen: Value) {
        if !self.output.is_json() {
            let (style, mark) = if holds { (GOOD, "✓") } else { (BAD, "✗") };
            self.output.line(format_args!("{style}{mark} {text}{style:#}"));
        }
        self.claims.push(DemoClaim { text, holds, seen });
    }
}

fn inputs(location: &str, message: &str) -> Map<String, Value> {
    Map::from_iter([
        ("location".to_owned(), json!(location)),
        ("message".to_owned(), json!(message)),
    ])
}

/// Returns the guardian's decisions of a run, in order.
fn decisions(run: &Run) -> Vec<&str> {
    run.steps
        .iter()
        .flat_map(|step| &step.decisions)
        .map(|DecisionRecord { decision, .. }| &**decision)
        .collect()
}

fn cannot_start(error: &std::io::Error) -> CliError {
    CliError::cannot_serve(error.to_string())
}
