//! The services in other processes that those of this one work with, for `/readyz?deep`.

use std::sync::Arc;
use std::time::Duration;

use a2s::Secret;
use a2s_api::{IntrospectionRequest, IntrospectionResponse};
use agent::{ClientError, ServiceClient};
use aos::GuardianChain;
use aos::message::Ping;
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::clock;

/// The timeout for the response of one service.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which findings are cached: any client may ask for them, and each one costs requests.
const CACHE_TIME: SignedDuration = SignedDuration::from_secs(2);

/// The name of another service, and the reason why it cannot be used, if there is one.
pub(super) type DependencyFinding = (String, Option<String>);

/// The other services, with their state at the last check.
#[derive(Debug, Clone, Default)]
pub(super) struct RemoteDependencies(Arc<DependencyChecks>);

#[derive(Debug, Default)]
struct DependencyChecks {
    /// The clients of the services, each with the role of its service.
    services: Vec<(&'static str, ServiceClient)>,
    guardians: Option<GuardianChain>,
    last: Mutex<Option<(Timestamp, Vec<DependencyFinding>)>>,
}

impl RemoteDependencies {
    /// Creates the checks. Each client sends its token to its service, if it has one.
    pub(super) fn new(
        services: Vec<(&'static str, ServiceClient)>,
        guardians: Option<GuardianChain>,
    ) -> Self {
        Self(Arc::new(DependencyChecks { services, guardians, last: Mutex::default() }))
    }

    /// Returns the state of each of them.
    pub(super) async fn check_all(&self) -> Vec<DependencyFinding> {
        // Concurrent callers wait for the same findings.
        let mut last = self.0.last.lock().await;
        let now = clock::now();
        let known = last.as_ref().filter(|(at, _)| now.duration_since(*at).abs() < CACHE_TIME);
        if let Some((_, findings)) = known {
            return findings.clone();
        }
        let services = self.0.services.iter().map(async |(role, client)| {
            let checked = timeout(CHECK_TIMEOUT, check_service(client)).await;
            let lacking =
                checked.unwrap_or_else(|_| Some("it does not respond in time".to_owned()));
            (format!("{role} at {}", client.url()), lacking)
        });
        let guardians = self.0.guardians.iter().flat_map(GuardianChain::clients);
        let guardians = guardians.map(async |(name, client)| {
            let ping = Ping { timestamp: Some(now), ..Ping::default() };
            let answered = client.ping("ready", ping).await;
            (format!("guardian {name}"), answered.err().map(|error| error.to_string()))
        });
        let (mut findings, guardians) = futures::join!(
            futures::future::join_all(services),
            futures::future::join_all(guardians)
        );
        findings.extend(guardians);
        *last = Some((now, findings.clone()));
        findings
    }
}

/// Returns the reason why a service cannot be used; none when it can.
async fn check_service(client: &ServiceClient) -> Option<String> {
    let ready = client.with_token(None);
    if let Err(error) = ready.bytes(ready.request(Method::GET, &["readyz"])).await {
        return Some(reason(&error));
    }
    // A registry that does not take this token knows no caller and learns of no outcome.
    client.token()?;
    let request = IntrospectionRequest { token: Secret::new("ready") };
    let asked: Result<IntrospectionResponse, ClientError> =
        client.post(&["v1", "tokens", "introspect"], &request).await;
    asked
        .err()
        .map(|error| format!("it does not accept the token of this service: {}", reason(&error)))
}

/// Describes an error without the address, which the message shows before it.
fn reason(error: &ClientError) -> String {
    match error {
        ClientError::Unreachable { cause, .. } => format!("it does not respond: {cause}"),
        ClientError::BadResponse { what, .. } => format!("it {what}"),
        ClientError::Refused { problem } => problem.to_string(),
    }
}
