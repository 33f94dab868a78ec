//! Telling the registry how runs end.

use std::collections::BTreeSet;

use a2s::{Digest, Domain};
use a2s_api::{EventKind, HostHealth, OutcomeReport, RunEvent, RunStatus};
use url::Url;

use crate::clock::milliseconds_between;
use crate::error::ErrorKind;
use crate::journal::run_state::RunHeader;
use crate::request::authority;

/// The most hosts in a report.
const MAX_HOSTS: usize = 64;
/// The number of hexadecimal digits of a name: 128 bits.
const NAME_LENGTH: usize = 32;

/// The identity of this executor towards a registry.
#[derive(Debug, Clone)]
pub(crate) struct OutcomeReporter {
    /// The secret key from which the reported names are derived.
    identity: String,
}

impl OutcomeReporter {
    pub(crate) fn new(identity: String) -> Self {
        Self { identity }
    }

    /// The report to the registry about the run of these events; `None` before the run has ended.
    pub(crate) fn build_report(&self, events: &[RunEvent]) -> Option<OutcomeReport> {
        let start = RunHeader::from_events(events)?;
        let last = events.last()?;
        let EventKind::RunFinished { status, error, .. } = &last.kind else { return None };
        let success = *status == RunStatus::Succeeded;
        let error = error.as_ref().filter(|_| !success);
        let kind = error.and_then(|error| ErrorKind::from_code(&error.code));
        // Without a session of the caller's, a run is one of its own.
        let session = Some(start.session).filter(|session| *session != last.run.to_string());
        Some(OutcomeReport {
            run: last.run,
            name: start.capability.name,
            version: start.capability.version,
            checksum: start.capability.checksum,
            success,
            code: error.map(|error| error.code.clone()),
            class: kind.map(ErrorKind::class),
            attribution: kind.zip(error).map(|(kind, error)| kind.blame_for_status(error.status)),
            duration_ms: milliseconds_between(start.at, last.at),
            finished_at: Some(last.at),
            reporter: Some(self.pseudonym(&["reporter"])),
            session: session.map(|session| self.pseudonym(&["session", &session])),
            intent: start.intent.filter(|_| success),
            hosts: Vec::new(),
        })
    }

    /// A name that reveals nothing about `parts`, and is always the same for the same `parts`.
    fn pseudonym(&self, parts: &[&str]) -> String {
        let text = serde_json::json!([self.identity, parts]).to_string();
        let mut name = Digest::of_bytes(text.as_bytes()).to_hex();
        name.truncate(NAME_LENGTH);
        name
    }
}

/// Selects, from the `known` health of hosts, the hosts that a run has sent requests to.
pub(crate) fn health_of_used_hosts(events: &[RunEvent], known: Vec<HostHealth>) -> Vec<HostHealth> {
    // Most requests of a run go to one host, whose name is read once.
    let origins: BTreeSet<&str> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Sending { url, .. } => Some(origin_of(url)),
            _ => None,
        })
        .collect();
    let host = |origin: &str| Domain::new(&authority(&origin.parse::<Url>().ok()?)).ok();
    let asked: BTreeSet<Domain> = origins.into_iter().filter_map(host).collect();
    known.into_iter().filter(|host| asked.contains(&host.host)).take(MAX_HOSTS).collect()
}

/// Returns an address without its path and everything after it.
fn origin_of(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at);
    &url[..end]
}

#[cfg(test)]
mod tests {
    use a2s_api::{FailureClass, FaultAttribution, RunError};
    use uuid::Uuid;

    use super::*;
    use crate::error::Error;
    use crate::journal::run_state::tests::started;

    const RUN: Uuid = Uuid::from_u128(7);

    fn event(seq: u64, at: &str, kind: EventKind) -> RunEvent {
        RunEvent { v: 1, seq, run: RUN, at: at.parse().unwrap(), kind }
    }

    fn begun(session: &str) -> RunEvent {
        event(1, "2025-01-01T00:00:00Z", started(session))
    }

    fn ended(session: &str, status: RunStatus, error: Option<RunError>) -> Vec<RunEvent> {
        let kind = EventKind::RunFinished { status, output: None, error, duration_ms: 1500 };
        vec![begun(session), event(2, "2025-01-01T00:00:01.5Z", kind)]
    }

    fn outcome(identity: &str, events: &[RunEvent]) -> Option<OutcomeReport> {
        OutcomeReporter::new(identity.to_owned()).build_report(events)
    }

    #[track_caller]
    fn check(kind: ErrorKind, status: Option<u16>, blame: FaultAttribution, class: FailureClass) {
        let error = Error::new(kind, "").to_run_error(None, None, true);
        let events = ended("s", RunStatus::Failed, Some(RunError { status, ..error }));
        let outcome = outcome("me", &events).unwrap();
        assert_eq!((outcome.attribution, outcome.class), (Some(blame), Some(class)));
        assert!(!outcome.success);
        assert_eq!(outcome.code.as_deref(), Some(kind.code().id));
    }

    #[test]
    fn a_failure_is_blamed_on_who_caused_it() {
        check(
            ErrorKind::OutputMissing,
            None,
            FaultAttribution::Capability,
            FailureClass::Evaluation,
        );
        check(ErrorKind::InvalidInput, None, FaultAttribution::Caller, FailureClass::Input);
        check(ErrorKind::Cancelled, None, FaultAttribution::Caller, FailureClass::Run);
        check(
            ErrorKind::GuardianUnreachable,
            None,
            FaultAttribution::Guardian,
            FailureClass::Guardian,
        );
        check(ErrorKind::BudgetExceeded, None, FaultAttribution::Executor, FailureClass::Input);
        check(
            ErrorKind::CredentialMissing,
            None,
            FaultAttribution::Caller,
            FailureClass::Credential,
        );
        check(ErrorKind::HostPaused, None, FaultAttribution::Service, FailureClass::Service);
        check(
            ErrorKind::GraphqlErrors,
            Some(200),
            FaultAttribution::Service,
            FailureClass::Service,
        );
        check(
            ErrorKind::GraphqlVariable,
            Some(200),
            FaultAttribution::Caller,
            FailureClass::Service,
        );
        // The name does not resolve, or no connection comes up: the network of this machine is as
        // likely as the service.
        check(ErrorKind::ConnectFailed, None, FaultAttribution::Executor, FailureClass::Service);
        check(ErrorKind::HostUnreachable, None, FaultAttribution::Executor, FailureClass::Service);
        check(ErrorKind::Store, None, FaultAttribution::Executor, FailureClass::Executor);
    }

    #[test]
    fn status_attributes_fault_to_caller_document_or_service() {
        for (status, blame) in [
            (400, FaultAttribution::Caller),
            (401, FaultAttribution::Caller),
            (404, FaultAttribution::Caller),
            (422, FaultAttribution::Caller),
            (405, FaultAttribution::Capability),
            (410, FaultAttribution::Capability),
            (415, FaultAttribution::Capability),
            (408, FaultAttribution::Service),
            (429, FaultAttribution::Service),
            (500, FaultAttribution::Service),
            (503, FaultAttribution::Service),
        ] {
            check(ErrorKind::StatusError, Some(status), blame, FailureClass::Service);
        }
        // Of an answer that cannot be read the status says nothing.
        check(ErrorKind::NotJson, Some(200), FaultAttribution::Service, FailureClass::Service);
    }

    #[test]
    fn success_has_no_blame_and_a_run_under_way_is_not_reported() {
        let good = outcome("me", &ended("s", RunStatus::Succeeded, None)).unwrap();
        assert_eq!((good.success, good.attribution, good.duration_ms), (true, None, 1500));
        assert_eq!(good.finished_at, Some("2025-01-01T00:00:01.5Z".parse().unwrap()));
        assert_eq!(outcome("me", &[begun("s")]), None);
    }

    #[test]
    fn the_intent_of_a_successful_run_is_reported() {
        let intent = |status, error| {
            let mut events = ended("s", status, error);
            let EventKind::RunStarted(started) = &mut events[0].kind else { panic!() };
            started.intent = Some("kinds of dogs".to_owned());
            outcome("me", &events).unwrap().intent
        };
        assert_eq!(intent(RunStatus::Succeeded, None).as_deref(), Some("kinds of dogs"));
        let error = Error::new(ErrorKind::OutputMissing, "").to_run_error(None, None, true);
        assert_eq!(intent(RunStatus::Failed, Some(error)), None);
    }

    #[test]
    fn names_are_stable_tell_nothing_and_are_told_apart() {
        let names = |identity: &str, session: &str| {
            let outcome = outcome(identity, &ended(session, RunStatus::Succeeded, None)).unwrap();
            (outcome.reporter.unwrap(), outcome.session)
        };
        let (reporter, session) = names("me", "alice@example.com");
        assert_eq!(names("me", "alice@example.com"), (reporter.clone(), session.clone()));
        assert_ne!(names("other", "alice@example.com").0, reporter);
        assert_ne!(names("other", "alice@example.com").1, session);
        assert_ne!(names("me", "bob").1, session);
        assert!(!session.unwrap().contains("alice"));
        // A run without a given session is its own session.
        assert_eq!(names("me", &RUN.to_string()).1, None);
    }

    #[test]
    fn hosts_are_those_that_the_run_has_spoken_to() {
        let sending = EventKind::Sending {
            step: "a".to_owned(),
            execution_id: RUN,
            attempt: 1,
            method: "GET".to_owned(),
            url: "https://api.example:8443/x".to_owned(),
            upstream: None,
            request_digest: Digest::of_bytes(b""),
            repeat_safe: true,
            redirect: None,
        };
        let host = |name: &str| HostHealth { host: Domain::new(name).unwrap(), health: 0.5 };
        let known = vec![host("other.example"), host("api.example:8443")];
        let events = [begun("s"), event(2, "2025-01-01T00:00:01Z", sending)];
        assert_eq!(health_of_used_hosts(&events, known), [host("api.example:8443")]);
    }
}
