//! Errors of the executor: one table of kinds with code, HTTP status, blame, next
//! action and exit class.
//!
//! An [`Error`] is safe to show: its message names steps, places and hosts, never values of
//! inputs. What only an operator may see (a database's own words) goes to the log where it happens.

use a2s::InputField;
use a2s_api::{
    FailureClass, FaultAttribution, GuardianPhase, NextAction, Problem, RunError, StepWarning,
};
use jiff::Timestamp;

use ExitClass::{Denied, Failed, Unreachable};
use FaultAttribution::{Caller, Capability, Executor, Guardian, Service};
use NextAction::{
    Approve, AskGuardian, AskOperator, ChangeRequest, CheckService, ChooseAnother, Nothing, Repeat,
};

/// The meaning of an exit code for a caller of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitClass {
    /// The run failed, or the request was wrong.
    Failed,
    /// A guardian denied it.
    Denied,
    /// The registry, executor or guardian did not respond.
    Unreachable,
}

a2s::error_table! {
    /// All codes of this crate, in order: A2S300 to A2S399.
    pub const CODES;
    /// The kinds of errors. Only the table that defines them contains their codes, statuses and blame.
    pub enum ErrorKind;
    /// The party at fault, the next action of the caller, and the class of the exit code.
    column consequences: (FaultAttribution, NextAction, ExitClass);
    // The request to this executor.
    BadRequest = "A2S300", 400, (Caller, ChangeRequest, Failed), "malformed request", "Send the JSON that `/openapi.json` describes.";
    Unauthorized = "A2S301", 401, (Caller, AskOperator, Failed), "token missing or wrong", "Send `Authorization: Bearer TOKEN`; the token is in the data folder, or set `A2S_TOKEN`.";
    RunNotFound = "A2S302", 404, (Caller, ChangeRequest, Failed), "unknown run", "List the runs, and use the id of one of them.";
    KeyReused = "A2S303", 422, (Caller, ChangeRequest, Failed), "idempotency key used for another request", "Use a new `Idempotency-Key` for a new request, or repeat the old request exactly.";
    BodyTooLarge = "A2S304", 413, (Caller, ChangeRequest, Failed), "request too large", "Send smaller inputs.";
    RunEnded = "A2S305", 409, (Caller, Nothing, Failed), "run has already ended", "No action is required; read the run for its result.";
    Busy = "A2S306", 429, (Executor, Repeat, Unreachable), "too many waiting runs", "Try again after the time in the header `Retry-After`. Raise `--limit max-tenant-queued` to let more runs wait, or `max-runs` and `max-tenant-runs` to let more runs run at once.";
    Closing = "A2S307", 503, (Executor, Repeat, Unreachable), "executor is shutting down", "Try again after the executor has started again.";
    StateNotFound = "A2S308", 404, (Caller, ChangeRequest, Failed), "unknown remembered value", "List the remembered values with `a2s state list`.";
    WrongState = "A2S309", 409, (Caller, Nothing, Failed), "run is in another state", "Read the run. You can resume a run that waits, and delete a run that has ended.";
    // Finding the capability.
    RegistryUnreachable = "A2S310", 502, (Executor, Repeat, Unreachable), "registry not reachable", "Start the registry, or correct its address.";
    RegistryAnswer = "A2S311", 502, (Executor, ChooseAnother, Failed), "response of the registry cannot be used", "See the registry's log; its version may not be compatible with this executor.";
    CapabilityNotFound = "A2S312", 404, (Caller, ChangeRequest, Failed), "capability not found", "Correct the name and the version; `a2s search` finds published capabilities.";
    DigestMismatch = "A2S313", 409, (Executor, ChooseAnother, Failed), "content without the expected checksum", "Do not run this version: the document was changed, or you meant another version. Check it with `a2s verify`.";
    DocumentRefused = "A2S314", 502, (Capability, ChooseAnother, Failed), "document has errors", "Ask its author to publish a corrected version.";
    BadRange = "A2S315", 400, (Caller, ChangeRequest, Failed), "malformed version", "Write a version such as 1.2.0 or a range such as ^1.2.";
    DependencyRefused = "A2S316", 422, (Capability, ChooseAnother, Failed), "dependency cannot be used", "Ask the author of the capability to correct `dependencies`.";
    LockRefused = "A2S317", 422, (Caller, ChangeRequest, Failed), "lock that cannot be used", "Write the lock again with `a2s lock`, or run without it.";
    // Who calls.
    Forbidden = "A2S318", 403, (Caller, AskOperator, Failed), "token without the required scope", "Use a token with the scope that the message names: `a2s tokens create NAME --scope SCOPE`.";
    CallerUnknown = "A2S319", 503, (Executor, Repeat, Unreachable), "tokens cannot be looked up", "Start the registry, which stores the tokens, or use the owner's token.";
    // Inputs and budgets.
    MissingInput = "A2S320", 422, (Caller, ChangeRequest, Failed), "input missing", "Give a value for each input that the message names.";
    UnknownInput = "A2S321", 422, (Caller, ChangeRequest, Failed), "input that the capability does not accept", "Remove the input, or correct its name; `a2s show` lists the inputs.";
    InvalidInput = "A2S322", 422, (Caller, ChangeRequest, Failed), "value that does not fit its location", "Give a value of the type that the task requires.";
    BudgetExceeded = "A2S323", 422, (Executor, AskOperator, Failed), "limit of a run exceeded", "Split the capability, or raise the limit.";
    WrongInput = "A2S324", 422, (Caller, ChangeRequest, Failed), "input of the wrong type", "Give a value that the parameter accepts; `a2s show` lists the types.";
    SecretsLost = "A2S325", 422, (Caller, ChangeRequest, Failed), "secret values cannot be unsealed", "The executor seals the secret values of a run with its key until the run ends, so keep the key. Check what this run did, then start a new run.";
    InputSchemaViolation = "A2S328", 422, (Caller, ChangeRequest, Failed), "value that its schema does not allow", "Give a value that matches the schema in the service's description; the executor sent nothing.";
    ExampleAnswer = "A2S329", 422, (Capability, ChangeRequest, Failed), "example without a usable response", "Write the response for the step under `answers` of the example.";
    // Evaluating the document.
    TemplateError = "A2S330", 500, (Capability, ChooseAnother, Failed), "reference without a value", "Map an output that sets the name in an earlier step, or give the name as an input.";
    ConditionError = "A2S331", 500, (Capability, ChooseAnother, Failed), "condition that cannot be evaluated", "Correct the condition, or the step that sets the values that the condition reads.";
    OutputMissing = "A2S332", 500, (Capability, ChooseAnother, Failed), "response without the mapped value", "Compare `output_mapping` with the response of the service.";
    ItemsRefused = "A2S333", 500, (Capability, ChooseAnother, Failed), "list that `for_each` cannot use", "Correct `for_each`, or the step that sets its list.";
    EvaluationTimeout = "A2S334", 500, (Capability, ChooseAnother, Failed), "expression that takes too long", "Simplify the pattern, filter or schema, request less data from the service, or raise `evaluation-timeout`.";
    // The guardian.
    GuardianDeniedRequest = "A2S340", 403, (Guardian, AskGuardian, Denied), "guardian denied the request", "The policy forbids this step; change the inputs, or ask the owner of the policy.";
    GuardianDeniedResult = "A2S341", 403, (Guardian, AskGuardian, Denied), "guardian denied the result", "The executor sent the request, but the policy forbids the use of its result; ask the owner of the policy.";
    GuardianUnreachable = "A2S342", 503, (Guardian, Repeat, Unreachable), "guardian without a usable response", "Start the guardian, or correct its address; without the guardian, the executor sends nothing.";
    GuardianModification = "A2S343", 403, (Guardian, AskGuardian, Denied), "guardian's modification cannot be used", "Correct the policy: the modified inputs do not match the task.";
    GuardianDeniedMemory = "A2S344", 403, (Guardian, AskGuardian, Denied), "guardian denied a remembered value", "The policy forbids the run to use or remember this value; give the value as an input of the run, or ask the owner of the policy.";
    GuardianDeniedTrigger = "A2S345", 403, (Guardian, AskGuardian, Denied), "guardian denied the event", "The policy forbids that this event starts a run; ask the owner of the policy.";
    ApprovalRequired = "A2S346", 403, (Guardian, Approve, Denied), "step that requires the approval of a person", "Approve the step with `a2s guardian approve ID`, or reject it; the run then continues without further action. `a2s guardian approvals` lists the pending approvals.";
    // Requests to services.
    AddressRefused = "A2S350", 403, (Capability, AskOperator, Failed), "address that is not allowed", "Allow private and local addresses in the configuration if the service needs them.";
    ConnectFailed = "A2S351", 502, (Executor, Repeat, Failed), "service not reachable from here", "Check that this machine has a network, that the name resolves, and that the service is up; then run the capability again.";
    ConnectionLost = "A2S352", 502, (Service, Repeat, Failed), "connection lost before the response was complete", "Find out whether the request took effect before you run it again.";
    Timeout = "A2S353", 504, (Service, Repeat, Failed), "no response in time", "Find out whether the request took effect before you run it again, or raise the limit.";
    RequestTooLarge = "A2S354", 422, (Caller, ChangeRequest, Failed), "request to the service too large", "Send smaller inputs.";
    ResponseTooLarge = "A2S355", 502, (Service, ChooseAnother, Failed), "response of the service too large", "Request less data from the service, or raise the limit.";
    RedirectRefused = "A2S356", 502, (Service, ChooseAnother, Failed), "redirect that is not followed", "If the service has moved, correct the address in the document; otherwise report the redirect to the operator of the service.";
    StatusError = "A2S357", 502, (Service, ChooseAnother, Failed), "service responded with an error", "See the documentation of the service for this status.";
    NotJson = "A2S358", 502, (Service, ChooseAnother, Failed), "response that cannot be read", "Compare the response with the description of the service; if the description is correct, report the error to the operator of the service.";
    GraphqlErrors = "A2S359", 502, (Service, ChooseAnother, Failed), "GraphQL response with errors", "Read the errors; they name the field and the reason.";
    HostPaused = "A2S360", 503, (Service, Repeat, Failed), "requests to the service paused after failures", "Wait until the executor tries the service again, and check the service for the cause.";
    McpToolFailed = "A2S361", 502, (Service, ChooseAnother, Failed), "MCP tool reported an error", "Read the message of the tool; other arguments may work.";
    McpError = "A2S362", 502, (Service, ChooseAnother, Failed), "MCP server rejected the call", "Compare the tool and its arguments with the current tool list of the server.";
    McpUnfinished = "A2S363", 502, (Service, ChooseAnother, Failed), "MCP server requires more than one call", "Use a tool that responds at once: a step cannot ask a person, call a model or wait for a task.";
    HostUnreachable = "A2S364", 503, (Executor, Repeat, Failed), "requests to the service paused, because it was not reachable from here", "Check the network of this machine and the name of the service, and wait until the executor tries the service again.";
    ResponseSchemaViolation = "A2S365", 502, (Service, ChooseAnother, Failed), "response that does not match its declared schema", "Compare the service's description with its response, or run the executor with `--check-answers warn`.";
    GraphqlVariable = "A2S366", 502, (Caller, ChangeRequest, Failed), "GraphQL variable that the service rejects", "Read the errors; they name the variable. Give a value that the variable accepts.";
    // The run itself.
    Cancelled = "A2S370", 409, (Caller, ChangeRequest, Failed), "run cancelled", "Start a new run if you still need the result.";
    UnknownOutcome = "A2S371", 500, (Executor, CheckService, Failed), "outcome of a request unknown", "Check at the service whether the request took effect; then continue with `a2s runs resume ID --repeat`, `--skip` or `--set NAME=VALUE`, or cancel the run.";
    StepTimeout = "A2S372", 504, (Service, Repeat, Failed), "step took longer than its timeout", "Find the request that took long, or give the step a longer timeout.";
    NotRecorded = "A2S373", 500, (Executor, Nothing, Failed), "response that was not recorded", "A replay cannot continue after a step without a recorded response. The executor records the responses of steps that ran, within the limit `keep-answer-bytes`.";
    TakenOverTooOften = "A2S374", 500, (Executor, AskOperator, Failed), "run taken over too often", "Check the logs of the executors that stopped, and the memory of their machines; then continue the run with `a2s runs resume ID --repeat`, or cancel it.";
    // Runs of plans.
    PlanNotFound = "A2S375", 404, (Caller, ChangeRequest, Failed), "unknown plan", "Use the token exactly as the plan returned it, or plan again.";
    PlanExpired = "A2S376", 410, (Caller, ChangeRequest, Failed), "plan has expired", "A plan is valid for 15 minutes: plan again, and run the new plan.";
    PlanUsed = "A2S377", 409, (Caller, ChangeRequest, Failed), "plan already used", "A plan starts one run only: read that run, or plan again.";
    PlanDiffers = "A2S378", 409, (Caller, ChangeRequest, Failed), "run differs from the plan", "Plan again, check the new plan, and run it.";
    RestoredFromBackup = "A2S379", 500, (Executor, CheckService, Failed), "run restored from a backup", "Check at the services whether a request of this run took effect after the backup; then continue the run with `a2s runs resume ID --repeat`, or cancel it.";
    // Credentials.
    CredentialMissing = "A2S380", 422, (Caller, AskOperator, Failed), "credential missing", "Store the credential with `a2s secrets set HOST SCHEME`; `a2s run --dry-run` shows the host and the scheme.";
    CredentialRefused = "A2S381", 403, (Capability, AskOperator, Failed), "credential not allowed for this request", "Compare the credential with the document: the executor sends a credential only to its own hosts, over https, in the form that the scheme requires.";
    TokenRefused = "A2S382", 502, (Service, AskOperator, Failed), "no token from the authorization server", "Check the client id, the client secret and the refresh token, and set them again with `a2s secrets set`.";
    VaultKey = "A2S383", 500, (Executor, AskOperator, Failed), "stored credentials cannot be unsealed", "Start the executor with the key that sealed them, or set them again with `a2s secrets set`.";
    CredentialNotFound = "A2S384", 404, (Caller, ChangeRequest, Failed), "unknown credential", "List the stored credentials with `a2s secrets list`.";
    TokenUnavailable = "A2S385", 503, (Service, Repeat, Failed), "authorization server does not respond", "Wait until the server issues tokens again, then run again: the executor has not sent the request of the step.";
    // The executor.
    Store = "A2S390", 500, (Executor, AskOperator, Failed), "run database failed", "See the executor's log; the disk may be full.";
    Internal = "A2S391", 500, (Executor, AskOperator, Failed), "internal error", "See the executor's log, and report the error.";
    LeaseLost = "A2S392", 500, (Executor, Nothing, Failed), "another executor drives this run", "No action is required; the other executor continues the run.";
    Configuration = "A2S393", 500, (Executor, AskOperator, Failed), "invalid configuration", "Correct the setting that the message names.";
    StoreAway = "A2S394", 503, (Executor, Repeat, Unreachable), "run database does not respond", "Try again when the database is available again; `docs/operations.md` describes what happens to runs until then.";
    ChecksumChanged = "A2S395", 409, (Executor, AskOperator, Failed), "version with another checksum than before", "Find out why the registry returns another document for this version; then accept it with `a2s trust accept NAME@VERSION --checksum CHECKSUM`, or run another version.";
    TooManyFollowers = "A2S396", 429, (Executor, Repeat, Unreachable), "too many streams of run events", "Close a stream of events, or read the run and its events without a stream.";
    DatabaseNewer = "A2S397", 500, (Executor, AskOperator, Failed), "run database from a newer version", "Use the newer version of the program, or restore a database from before the upgrade.";
    DatabaseMissing = "A2S398", 500, (Executor, AskOperator, Failed), "run database missing", "If you moved, replaced or removed the database on purpose, remove the lock file that the message names, and start again. Otherwise put back the database with its log (`-wal`), or restore a backup.";
}

impl ErrorKind {
    /// Returns the party at fault when a run ends with this error.
    #[must_use]
    pub fn blame(self) -> FaultAttribution {
        self.consequences().0
    }

    /// Returns the next action of a caller, when nothing was changed.
    fn next(self) -> NextAction {
        self.consequences().1
    }

    /// Returns the exit code class on the command line.
    #[must_use]
    pub fn exit(self) -> ExitClass {
        self.consequences().2
    }

    /// Returns the kind of a code; `None` when the code does not belong to this crate.
    #[must_use]
    pub fn from_code(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.code().id == id)
    }

    /// The party at fault when a service responded with `status`. A rejection of the request blames the
    /// caller's input or credentials. A service that does not support the request at all shows that the
    /// document is wrong.
    #[must_use]
    pub fn blame_for_status(self, status: Option<u16>) -> FaultAttribution {
        match (self, status) {
            (Self::StatusError, Some(405 | 406 | 410 | 415 | 426 | 501)) => Capability,
            // Too slow, too early, too often.
            (Self::StatusError, Some(408 | 425 | 429)) => Service,
            (Self::StatusError, Some(400..=499)) => Caller,
            _ => self.blame(),
        }
    }

    /// Returns the part of a run that the error belongs to. Codes are numbered by these parts.
    #[must_use]
    pub fn class(self) -> FailureClass {
        let digits = self.code().id.strip_prefix("A2S3").unwrap_or_default();
        match digits.as_bytes().first() {
            Some(b'0') => FailureClass::Request,
            Some(b'1') => FailureClass::Resolution,
            Some(b'2') => FailureClass::Input,
            Some(b'3') => FailureClass::Evaluation,
            Some(b'4') => FailureClass::Guardian,
            Some(b'5' | b'6') => FailureClass::Service,
            Some(b'7') => FailureClass::Run,
            Some(b'8') => FailureClass::Credential,
            _ => FailureClass::Executor,
        }
    }

    /// Returns true when a guardian stopped the step, by its decision or by its silence.
    #[must_use]
    pub fn is_denial(self) -> bool {
        self.blame() == Guardian
    }

    /// Returns true when `on_error` and `catch` of a document may handle the error. A denial is final, a
    /// cancellation always applies, and limits hold for the whole run. Errors of the executor itself would
    /// occur in other steps too. An unreachable service can be handled, because another service may be
    /// reachable.
    #[must_use]
    pub fn is_catchable(self) -> bool {
        if matches!(self, Self::ConnectFailed | Self::HostUnreachable) {
            return true;
        }
        !matches!(self.blame(), Guardian | Executor) && self != Self::Cancelled
    }
}

/// An error, with a message for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The row of the error table.
    pub kind: ErrorKind,
    /// The description of this occurrence.
    pub message: String,
    /// The action that fixes it.
    pub hint: String,
    /// The approval with which the step could continue. Only [`ErrorKind::ApprovalRequired`] has one.
    pub(crate) approval: Option<Box<RequestedApproval>>,
    /// The details for a program that gets the error.
    pub(crate) details: Option<Box<ErrorDetails>>,
}

/// The members of a problem that only some errors have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ErrorDetails {
    /// The inputs that are missing, of [`ErrorKind::MissingInput`].
    MissingInputs(Vec<InputField>),
    /// The differences from the plan, of [`ErrorKind::PlanDiffers`].
    PlanDifferences(Vec<String>),
}

/// An approval that a guardian requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestedApproval {
    /// The phase in which the guardian asked for it.
    pub(crate) phase: GuardianPhase,
    /// The guardian.
    pub(crate) guardian: String,
    /// The id that the guardian gave it.
    pub(crate) id: String,
    /// The time at which it expires, if the guardian states one.
    pub(crate) expires_at: Option<Timestamp>,
}

impl Error {
    /// Creates an error with the remedy of its kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: kind.code().remedy.to_owned(),
            approval: None,
            details: None,
        }
    }

    /// Adds details.
    #[must_use]
    pub(crate) fn with_details(self, details: ErrorDetails) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }

    /// Replaces the remedy with a more exact one.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Adds the location in front of the message.
    #[must_use]
    pub fn with_context(self, place: impl std::fmt::Display) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// Converts the error to a problem response.
    #[must_use]
    pub fn to_problem(&self) -> Problem {
        let mut problem = Problem::new(self.kind.status(), self.kind.code(), self.message.clone());
        problem.hint = Some(self.hint.clone()).filter(|hint| !hint.is_empty());
        match self.details.as_deref() {
            Some(ErrorDetails::MissingInputs(fields)) => problem.missing.clone_from(fields),
            Some(ErrorDetails::PlanDifferences(found)) => problem.differences.clone_from(found),
            None => {}
        }
        problem
    }

    /// Converts the error to a warning of a step that continues.
    #[must_use]
    pub(crate) fn into_step_warning(self) -> StepWarning {
        StepWarning { code: self.kind.code().id.to_owned(), message: self.message }
    }

    /// The error as the end of a step or run. `repeat_safe` is true when nothing that was sent has changed
    /// anything.
    #[must_use]
    pub fn to_run_error(
        &self,
        step: Option<&str>,
        attempt: Option<u32>,
        repeat_safe: bool,
    ) -> RunError {
        RunError {
            code: self.kind.code().id.to_owned(),
            step: step.map(str::to_owned),
            attempt,
            status: None,
            message: self.message.clone(),
            hint: self.hint.clone(),
            cause: Some(self.kind.blame()),
            next: Some(match self.kind.next() {
                // What went out may have had its effect, although no answer came.
                Repeat if !repeat_safe => CheckService,
                next => next,
            }),
            repeat_safe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ordered_complete_and_reversible() {
        assert!(CODES.is_sorted_by(|a, b| a.id < b.id));
        for kind in ErrorKind::ALL {
            let code = kind.code();
            assert!(("A2S300".."A2S400").contains(&code.id), "{}", code.id);
            assert!(!code.title.is_empty() && code.remedy.ends_with('.'), "{}", code.id);
            assert_eq!(ErrorKind::from_code(code.id), Some(*kind));
            assert!((400..600).contains(&kind.status()));
        }
    }

    /// A hint that names the wrong party sends people to look for a fault where there is none.
    #[test]
    fn hints_about_responses_name_the_party_at_fault() {
        let service = ErrorKind::ALL.iter().filter(|kind| kind.class() == FailureClass::Service);
        for kind in service {
            let expected: &[&str] = match kind {
                ErrorKind::AddressRefused => &["configuration"],
                ErrorKind::ConnectFailed | ErrorKind::HostUnreachable => &["this machine"],
                ErrorKind::ConnectionLost | ErrorKind::Timeout => &["took effect"],
                ErrorKind::RequestTooLarge => &["smaller inputs"],
                ErrorKind::ResponseTooLarge => &["from the service", "raise the limit"],
                ErrorKind::RedirectRefused => &["If the service has moved", "operator"],
                ErrorKind::StatusError => &["documentation of the service"],
                ErrorKind::NotJson => &["description of the service", "operator"],
                ErrorKind::GraphqlErrors | ErrorKind::GraphqlVariable => &["Read the errors"],
                ErrorKind::HostPaused => &["check the service"],
                ErrorKind::McpToolFailed => &["message of the tool"],
                ErrorKind::McpError => &["tool list of the server"],
                ErrorKind::McpUnfinished => &["tool"],
                ErrorKind::ResponseSchemaViolation => &["service's description"],
                other => panic!("{other:?}: add the party that its hint names"),
            };
            let remedy = kind.code().remedy;
            assert!(expected.iter().all(|words| remedy.contains(words)), "{kind:?}: {remedy}");
            // A service at fault is not corrected in the document.
            let begins = ["Correct", "Check that the address"];
            let blames_document = begins.iter().any(|word| remedy.starts_with(word));
            assert!(kind.blame() != Service || !blames_document, "{kind:?}: {remedy}");
        }
    }

    #[test]
    fn denials_are_what_guardians_stop() {
        assert!(ErrorKind::GuardianUnreachable.is_denial());
        assert_eq!(ErrorKind::GuardianUnreachable.exit(), Unreachable);
        assert_eq!(ErrorKind::GuardianDeniedRequest.exit(), Denied);
        assert!(!ErrorKind::StatusError.is_denial());
    }

    #[test]
    fn what_may_have_had_its_effect_is_not_simply_repeated() {
        let next = |kind: ErrorKind, repeat_safe: bool| {
            let error = Error::new(kind, "").to_run_error(None, None, repeat_safe);
            (error.cause.unwrap(), error.next.unwrap())
        };
        assert_eq!(next(ErrorKind::Timeout, true), (Service, Repeat));
        assert_eq!(next(ErrorKind::Timeout, false), (Service, CheckService));
        assert_eq!(next(ErrorKind::MissingInput, true), (Caller, ChangeRequest));
        assert_eq!(next(ErrorKind::StatusError, false), (Service, ChooseAnother));
    }

    #[test]
    fn only_failures_of_services_and_document_are_handled() {
        for kind in [
            ErrorKind::StatusError,
            ErrorKind::Timeout,
            ErrorKind::OutputMissing,
            ErrorKind::StepTimeout,
            ErrorKind::ConnectFailed,
            ErrorKind::HostUnreachable,
        ] {
            assert!(kind.is_catchable(), "{kind:?}");
        }
        let ends = [
            ErrorKind::GuardianDeniedRequest,
            ErrorKind::GuardianUnreachable,
            ErrorKind::Cancelled,
            ErrorKind::BudgetExceeded,
            ErrorKind::UnknownOutcome,
            ErrorKind::Store,
        ];
        for kind in ends {
            assert!(!kind.is_catchable(), "{kind:?}");
        }
    }
}
