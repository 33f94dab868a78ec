//! The reference guardian: an agent asks before and after each step, rules decide, and a log records the
//! decisions.
//!
//! It speaks AOS (crate [`aos`]) at `POST /aos`, and as [`aos::InProcessGuardian`] to an agent in the same process.
//! [`Policy`] documents how rules are written and evaluated, [`audit`] how the log is chained. It reads no
//! environment and no clock: the caller provides its [`Config`] and the time, serves its router and decides
//! when the policy is read again.
//!
//! # Example
//!
//! ```
//! use aos::message::{Limits, Request};
//! use guardian::Policy;
//!
//! let policy = Policy::parse(
//!     r#"
//! version: 1
//! default: deny
//! rules:
//!   - id: weather-is-fine
//!     on: [steps/toolCallRequest]
//!     tool: "weather.*"
//!     when: has(inputs.city) && inputs.city != "Atlantis"
//!     decision: allow
//! "#,
//! )?;
//! let message = |city: &str| {
//!     format!(
//!         r#"{{"jsonrpc": "2.0", "id": 1, "method": "steps/toolCallRequest", "params": {{
//!             "toolCallRequest": {{"executionId": "e", "toolId": "weather.now", "inputs": [{{"name": "city", "value": "{city}"}}]}},
//!             "context": {{
//!                 "agent": {{"id": "a", "name": "Agent", "instructions": "", "version": "1", "url": "https://agent.example",
//!                           "provider": {{"name": "Example", "url": "https://example.org"}}}},
//!                 "session": {{"id": "s"}}, "turnId": "t", "stepId": "st", "timestamp": "2026-01-02T03:04:05Z"
//!             }}
//!         }}}}"#
//!     )
//! };
//! let decide = |city: &str| {
//!     let request = Request::from_slice(message(city).as_bytes(), Limits::default()).unwrap();
//!     policy.decide(&request).response
//! };
//! assert_eq!(decide("Paris").decision.as_str(), "allow");
//! let denial = decide("Atlantis");
//! assert_eq!((denial.decision.as_str(), denial.reason_codes[0].as_str()), ("deny", "default_deny"));
//! # Ok::<(), guardian::PolicyErrors>(())
//! ```

pub mod audit;
pub mod policy_tests;

mod bearer_token;
mod error;
mod evaluate;
mod feed;
mod http;
mod log_reader;
mod metrics;
pub mod policy;
mod policy_trial;

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use aos::message::ApprovalWithdrawal;
use axum::Router;
use jiff::Timestamp;
use prometheus_client::registry::Registry;

use audit::{AuditRecord, AuditWriter, HashChain};
use error::{ApprovalError, RejectionCode};
use feed::ApprovalFeed;
use log_reader::LogReader;
use metrics::Metrics;
use policy::{ApprovalEffect, ApprovalSettlement, PolicyState};

pub use audit::RecordFilter;
pub use bearer_token::TokenDigest;
pub use error::Error;
pub use http::{GuardianRecordList, LogVerification};
pub use policy::{
    Approval, ApprovalDecision, ApprovalState, Policy, PolicyDecision, PolicyError, PolicyErrors,
};
pub use policy_trial::{PolicyTrial, RuleCount, TrialDecision, TrialDifference, TrialOutcome};

/// The configuration of a guardian.
#[derive(Clone, Debug)]
pub struct Config {
    /// The source of its rules.
    pub policy: PolicySource,
    /// The shadow policy, which is only tried: the log records its decisions next to the real ones.
    pub shadow: Option<PolicySource>,
    /// The token for approving and rejecting waiting acts. Without it, no caller may do so.
    pub token: Option<TokenDigest>,
    /// The token of the guardian's clients: they may read the status of an approval that they wait for.
    pub client_token: Option<TokenDigest>,
    /// The folder of the audit log `audit.jsonl`. The guardian creates it when it does not exist.
    pub data_dir: PathBuf,
    /// Set when a record is flushed to the disk before its response is sent. Without it a power cut may
    /// lose the last records; a crash of the guardian alone does not.
    pub sync: bool,
    /// The maximum size of the audit log in bytes, all segments together. When it is reached, the guardian
    /// denies every step.
    pub max_audit_bytes: Option<u64>,
    /// The length of a segment of the audit log before the next one begins, in bytes.
    pub max_segment_bytes: u64,
    /// The maximum length of a message, in bytes.
    pub max_body_bytes: usize,
}

impl Config {
    /// The default length of a segment of the audit log: 64 MiB.
    pub const SEGMENT_BYTES: u64 = 64 << 20;

    /// The default maximum length of a response that an executor reads, in bytes.
    const RESPONSE_BYTES: usize = 8 << 20;

    /// Returns the maximum size of a message about a response of `response_bytes` bytes. With this limit, a
    /// guardian can judge every response that an executor may read.
    pub const fn body_bytes(response_bytes: usize) -> usize {
        aos::message::Limits::for_response(response_bytes).bytes
    }

    /// Creates a configuration that flushes records to the disk, sets no limit for the log, and accepts
    /// messages about responses of up to 8 MiB.
    pub fn new(policy: PolicySource, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            policy,
            shadow: None,
            token: None,
            client_token: None,
            data_dir: data_dir.into(),
            sync: true,
            max_audit_bytes: None,
            max_segment_bytes: Self::SEGMENT_BYTES,
            max_body_bytes: Self::body_bytes(Self::RESPONSE_BYTES),
        }
    }

    /// The path of the current segment of the audit log; closed ones are in the same folder.
    pub fn audit_path(&self) -> PathBuf {
        self.data_dir.join("audit.jsonl")
    }
}

/// The source of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicySource {
    /// No rules: the guardian allows and records everything.
    AllowAll,
    /// A file, read again by [`App::reload_policy`].
    File(PathBuf),
    /// The text of a policy.
    Text(String),
}

impl PolicySource {
    /// Reads and checks the policy.
    ///
    /// # Errors
    /// Fails when the file cannot be read, or the policy has errors.
    pub fn read(&self) -> Result<Policy, Error> {
        let parse = |path: Option<&PathBuf>, text: &str| {
            Policy::parse(text)
                .map_err(|faults| Error::PolicyInvalid { path: path.cloned(), faults })
        };
        match self {
            Self::AllowAll => Ok(Policy::allow_all()),
            Self::Text(text) => parse(None, text),
            Self::File(path) => {
                let text = read_bounded(path)
                    .map_err(|source| Error::PolicyUnreadable { path: path.clone(), source })?;
                parse(Some(path), &text)
            }
        }
    }
}

/// Returns the text of a file, at most one byte more than the maximum size of a policy.
fn read_bounded(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(policy::MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// The source of the current time.
type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A guardian. Clones share one guardian; its log is closed when the last clone is dropped.
#[derive(Clone)]
pub struct App {
    config: Arc<Config>,
    clock: Clock,
    policy: Arc<RwLock<Arc<Policy>>>,
    shadow: Option<Arc<RwLock<Arc<Policy>>>>,
    policy_state: Arc<Mutex<PolicyState>>,
    /// The state of the shadow policy. It is lost at a restart.
    shadow_state: Arc<Mutex<PolicyState>>,
    /// The lock that is held during a decision about an approval, so that only one happens at a time.
    approval_lock: Arc<tokio::sync::Mutex<()>>,
    log_reader: Arc<LogReader>,
    feed: ApprovalFeed,
    audit: AuditWriter,
    /// Set when the last record could be written.
    is_log_writable: Arc<AtomicBool>,
    metrics: Metrics,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("config", &self.config).finish_non_exhaustive()
    }
}

impl App {
    /// Reads the policy, opens the audit log and registers the metrics.
    ///
    /// # Errors
    /// When the policy or the log cannot be used; [`Error`] states the reason.
    pub fn open(
        config: Config,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        registry: &mut Registry,
    ) -> Result<Self, Error> {
        let policy = config.policy.read()?;
        let shadow = config.shadow.as_ref().map(PolicySource::read).transpose()?;
        let path = config.audit_path();
        let unavailable = |source| Error::AuditUnavailable { path: path.clone(), source };
        std::fs::create_dir_all(&config.data_dir).map_err(unavailable)?;
        let options = audit::Options {
            sync: config.sync,
            max_bytes: config.max_audit_bytes,
            segment_bytes: config.max_segment_bytes,
        };
        let (mut chain, torn) = HashChain::open(&path, options)?;
        let now = clock();
        let memory = audit::restore_state(&path, now).map_err(|broken| Error::AuditBroken {
            path: path.clone(),
            reason: broken.to_string(),
        })?;
        chain.write_checkpoint();
        let mut entries = vec![AuditRecord::from_policy(now, &policy, false)];
        entries.extend(shadow.as_ref().map(|shadow| AuditRecord::from_policy(now, shadow, true)));
        if let Some(bytes) = torn {
            tracing::warn!(
                bytes,
                "a crash left an incomplete last line in the audit log; the guardian moved it to another file"
            );
            entries.insert(0, AuditRecord::new_recovery(now, bytes));
        }
        let is_audited = match chain.append(&entries) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, "the audit log cannot be written; the guardian denies all steps");
                false
            }
        };
        let audit = AuditWriter::start(chain).map_err(unavailable)?;
        Ok(Self {
            config: Arc::new(config),
            clock: Arc::new(clock),
            policy: Arc::new(RwLock::new(Arc::new(policy))),
            shadow: shadow.map(|shadow| Arc::new(RwLock::new(Arc::new(shadow)))),
            policy_state: Arc::new(Mutex::new(memory)),
            shadow_state: Arc::default(),
            approval_lock: Arc::default(),
            log_reader: Arc::new(LogReader::new(path)),
            feed: ApprovalFeed::new(now.as_millisecond()),
            audit,
            is_log_writable: Arc::new(AtomicBool::new(is_audited)),
            metrics: Metrics::register(registry),
        })
    }

    /// Returns the routes of a guardian on its own port: `POST /aos`, `/v1/approvals`, `GET /healthz` and
    /// `GET /readyz`. The caller has to authenticate the clients of `/aos`.
    pub fn router(&self) -> Router {
        http::router(self.clone())
    }

    /// Returns `POST /aos`, to be merged into the router of a larger service. That service has to
    /// authenticate the callers first: every response is a record of the audit log and may use up an
    /// approval or a limit.
    pub fn protocol_routes(&self) -> Router {
        http::protocol_routes(self.clone())
    }

    /// Returns the routes of `/v1/approvals` and `/v1/guardian`, which require the token of
    /// [`Config::token`].
    pub fn api_routes(&self) -> Router {
        http::api_routes(self.clone())
    }

    /// Returns the OpenAPI description of `/v1/approvals` and `/v1/guardian`.
    pub fn openapi() -> utoipa::openapi::OpenApi {
        http::openapi()
    }

    /// Waits until all decisions so far are in the log. Returns false when one cannot be written.
    pub async fn flush(&self) -> bool {
        let written = self.audit.append(Vec::new()).await.is_ok();
        // If there was nothing to write, the log may still be one that cannot be written.
        if !written {
            self.record_write_result(false);
        }
        written
    }

    /// Returns true when decisions can be recorded. Otherwise every step is denied.
    pub fn is_ready(&self) -> bool {
        self.is_log_writable.load(Ordering::Relaxed)
    }

    /// Returns the policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the policy that is only tried, if there is one.
    pub fn shadow_policy(&self) -> Option<Arc<Policy>> {
        let shadow = self.shadow.as_ref()?;
        Some(Arc::clone(&shadow.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Reads the policy and the shadow policy again and puts them in force, with a record in the log.
    /// Returns true when one of them has changed. The state of the rules stays.
    ///
    /// # Errors
    /// A new policy cannot be used. The one in force stays.
    pub async fn reload_policy(&self) -> Result<bool, Error> {
        let mut changed = self.reload(&self.config.policy, &self.policy, false).await?;
        if let (Some(source), Some(place)) = (&self.config.shadow, &self.shadow) {
            changed |= self.reload(source, place, true).await?;
        }
        Ok(changed)
    }

    async fn reload(
        &self,
        source: &PolicySource,
        place: &RwLock<Arc<Policy>>,
        is_shadow: bool,
    ) -> Result<bool, Error> {
        let source = source.clone();
        let policy = match tokio::task::spawn_blocking(move || source.read()).await {
            Ok(policy) => policy?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        let current = place.read().unwrap_or_else(PoisonError::into_inner).digest().to_owned();
        if policy.digest() == current {
            return Ok(false);
        }
        let entry = AuditRecord::from_policy(self.now(), &policy, is_shadow);
        let written = self.audit.append(vec![entry]).await.is_ok();
        self.record_write_result(written);
        *place.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
        Ok(true)
    }

    /// Returns the approvals that wait for a person, or that are decided and not used yet; the oldest
    /// first.
    pub fn approvals(&self) -> Vec<Approval> {
        self.lock_policy_state().open_approvals(self.now())
    }

    /// Returns the approvals in one state, or all known ones, with the latest used and expired ones; the
    /// oldest first.
    pub fn approval_history(&self, state: Option<ApprovalState>) -> Vec<Approval> {
        self.lock_policy_state().approvals_in_state(state, self.now())
    }

    /// Returns one approval in its current state.
    pub fn approval(&self, id: &str) -> Option<Approval> {
        let now = self.now();
        self.lock_policy_state().approval(id).map(|approval| approval.at_time(now))
    }

    /// Sends the followers the change that a decision made to an approval.
    fn publish_approval(&self, trace: Option<&ApprovalEffect>) {
        let id = match trace {
            Some(ApprovalEffect::Asked(asked)) => &asked.id,
            Some(ApprovalEffect::Used { id, again: false, .. }) => id,
            _ => return,
        };
        if let Some(approval) = self.approval(id) {
            self.feed.publish(approval);
        }
    }

    /// Applies the decision of a person about a pending approval. The guardian records it before it counts.
    /// The same decision again changes nothing.
    async fn decide_approval(
        &self,
        id: &str,
        decided: ApprovalDecision,
    ) -> Result<Approval, ApprovalError> {
        let _one = self.approval_lock.lock().await;
        let now = self.now();
        let settled = self.lock_policy_state().settle_approval(id, &decided, now);
        match settled.ok_or(RejectionCode::UnknownApproval)? {
            ApprovalSettlement::Decided(approval) => {
                self.replace_approvals(now, std::slice::from_ref(&approval)).await?;
                Ok(approval)
            }
            ApprovalSettlement::Repeated(approval) => Ok(approval),
            ApprovalSettlement::Conflicting(approval) => {
                Err(ApprovalError::NotPending(Box::new(approval)))
            }
        }
    }

    /// Closes approvals that their agents do not need any more.
    async fn withdraw_approvals(
        &self,
        notices: &[ApprovalWithdrawal],
    ) -> Result<(), RejectionCode> {
        let _one = self.approval_lock.lock().await;
        let now = self.now();
        let withdrawn = self.lock_policy_state().withdrawn_approvals(notices, now);
        self.replace_approvals(now, &withdrawn).await
    }

    /// Records changed approvals, then replaces them and sends them to the followers.
    async fn replace_approvals(
        &self,
        now: Timestamp,
        approvals: &[Approval],
    ) -> Result<(), RejectionCode> {
        if approvals.is_empty() {
            return Ok(());
        }
        let records = approvals.iter().map(|approval| AuditRecord::from_approval(now, approval));
        let written = self.audit.append(records.collect()).await.is_ok();
        self.record_write_result(written);
        if !written {
            return Err(RejectionCode::AuditUnavailable);
        }
        for approval in approvals {
            self.lock_policy_state().set_approval(approval.clone());
            self.feed.publish(approval.clone());
        }
        Ok(())
    }

    fn lock_policy_state(&self) -> MutexGuard<'_, PolicyState> {
        self.policy_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn record_write_result(&self, written: bool) {
        self.is_log_writable.store(written, Ordering::Relaxed);
        if !written {
            self.metrics.count_audit_failure();
        }
    }
}
