//! Telling the registry how runs end.

use a2s::api::{OutcomeReport, Run, RunStatus};

use crate::clock::milliseconds_between;
use crate::error::Kind;

/// What the registry is told about a run; nothing before it has ended.
pub(crate) fn outcome_of(run: &Run) -> Option<OutcomeReport> {
    let finished_at = run.finished_at.filter(|_| run.status.is_final())?;
    let success = run.status == RunStatus::Succeeded;
    let error = run.error.as_ref().filter(|_| !success);
    let kind = error.and_then(|error| Kind::of_code(&error.code));
    Some(OutcomeReport {
        run: run.id,
        name: run.name.clone(),
        version: run.version.clone(),
        checksum: run.checksum,
        success,
        code: error.map(|error| error.code.clone()),
        blame: kind.map(Kind::blame),
        duration_ms: milliseconds_between(run.started_at, finished_at),
    })
}

#[cfg(test)]
mod tests {
    use a2s::CapabilityName;
    use a2s::api::Blame;

    use super::*;
    use crate::error::Error;

    fn run(status: RunStatus, kind: Option<Kind>) -> Run {
        Run {
            id: uuid::Uuid::from_u128(7),
            status,
            name: CapabilityName::new("Dogs").unwrap(),
            version: "1.0.0".parse().unwrap(),
            checksum: a2s::Digest::of_bytes(b""),
            plan: None,
            started_at: "2025-01-01T00:00:00Z".parse().unwrap(),
            finished_at: Some("2025-01-01T00:00:01.5Z".parse().unwrap()),
            output: None,
            error: kind.map(|kind| Error::new(kind, "").to_run_error(None, None, true)),
            steps: Vec::new(),
        }
    }

    #[track_caller]
    fn check(kind: Kind, status: RunStatus, blame: Blame) {
        let outcome = outcome_of(&run(status, Some(kind))).unwrap();
        assert_eq!(outcome.blame, Some(blame));
        assert!(!outcome.success);
        assert_eq!(outcome.code.as_deref(), Some(kind.code().id));
    }

    #[test]
    fn a_failure_is_blamed_on_who_caused_it() {
        check(Kind::StatusError, RunStatus::Failed, Blame::Service);
        check(Kind::OutputMissing, RunStatus::Failed, Blame::Capability);
        check(Kind::InvalidInput, RunStatus::Failed, Blame::Caller);
        check(Kind::Cancelled, RunStatus::Cancelled, Blame::Caller);
        check(Kind::GuardianUnreachable, RunStatus::Denied, Blame::Guardian);
        check(Kind::BudgetExceeded, RunStatus::Failed, Blame::Executor);
    }

    #[test]
    fn success_has_no_blame_and_a_run_under_way_is_not_reported() {
        let outcome = outcome_of(&run(RunStatus::Succeeded, None)).unwrap();
        assert_eq!((outcome.success, outcome.blame, outcome.duration_ms), (true, None, 1500));
        assert_eq!(outcome_of(&run(RunStatus::Waiting, Some(Kind::UnknownOutcome))), None);
        assert_eq!(outcome_of(&run(RunStatus::Running, None)), None);
    }
}
