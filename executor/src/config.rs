//! The configuration of an executor. Read from flags, environment and files elsewhere.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use a2s::{Domain, Secret, TokenIntrospector, TokenSubject};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::{Error, ErrorKind};

mod guardian;
mod span;

pub use guardian::{
    ExecutorCertificate, FailMode, FailModes, GuardianConfig, GuardianEndpoint, GuardianHook,
    GuardianSettings, HttpEndpoint,
};

/// The settings of one executor.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where runs, credentials and remembered values are kept.
    pub database: ExecutorDatabase,
    /// How safely events are written.
    pub durability: Durability,
    /// Where capabilities come from.
    pub registry: Url,
    /// The token of the scope `service` that outcomes are reported with. Documents are read with it
    /// where the registry asks for a token, and without any where it does not.
    pub registry_token: Option<Secret>,
    /// Who is asked before and after every tool step.
    pub guardian: GuardianSettings,
    /// Where connections for a host are sent instead: scheme, host and port.
    pub upstreams: BTreeMap<Domain, Url>,
    /// Private, loopback and link-local targets that may be reached all the same: an IP address
    /// or a network such as `127.0.0.0/8`.
    pub allowed_addresses: Vec<String>,
    /// What happens when an answer is not as its operation declares it.
    pub response_validation: ResponseValidation,
    /// The bounds of a run.
    pub limits: Limits,
    /// Tenants that have other limits than all have in common: those whose tokens stand for these names.
    pub tenants: BTreeMap<TokenSubject, TenantLimits>,
    /// How politely the hosts of services are treated.
    pub hosts: HostLimitSet,
    /// Where the key for stored credentials comes from.
    pub secret_key: SecretKeySource,
    /// The certificates that this executor shows to hosts (mutual TLS).
    pub client_certificates: BTreeMap<Domain, ClientCertificate>,
    /// The token that opens everything about runs; without one nobody needs any.
    pub token: Option<Secret>,
    /// Who knows other tokens, and what they open; without it there are none.
    pub introspector: Option<Arc<dyn TokenIntrospector>>,
    /// Who learns of runs, as traces and as security events.
    pub telemetry: TelemetryConfig,
}

impl Config {
    /// Settings for a database in a file and `registry`, with defaults for the rest: guardian `guardian`, no
    /// upstreams, no private targets, no certificates, no token, and a key file `secrets.key` beside
    /// the database.
    #[must_use]
    pub fn new(database: PathBuf, registry: Url, guardian: GuardianSettings) -> Self {
        let secret_key = SecretKeySource::File(database.with_file_name("secrets.key"));
        Self {
            database: ExecutorDatabase::File(database),
            secret_key,
            client_certificates: BTreeMap::new(),
            durability: Durability::default(),
            registry,
            registry_token: None,
            guardian,
            upstreams: BTreeMap::new(),
            allowed_addresses: Vec::new(),
            response_validation: ResponseValidation::default(),
            limits: Limits::default(),
            tenants: BTreeMap::new(),
            hosts: HostLimitSet::default(),
            token: None,
            introspector: None,
            telemetry: TelemetryConfig::default(),
        }
    }
}

/// Where an executor keeps runs, credentials and remembered values.
#[derive(Debug, Clone)]
pub enum ExecutorDatabase {
    /// An SQLite file; made when it is missing, as are its folders.
    File(PathBuf),
    /// The `postgres:` or `postgresql:` URL of a database, which has to be there and which several
    /// executors can share. It is never shown, as it may have a password.
    Postgres(Secret),
}

impl ExecutorDatabase {
    /// Reads an address: a `postgres:` or `postgresql:` URL, the path of an SQLite file, or that
    /// behind `sqlite:`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] for a URL of another kind.
    pub fn parse(address: &str) -> Result<Self, Error> {
        let path = match address.split_once(':') {
            Some(("postgres" | "postgresql", _)) => {
                return Ok(Self::Postgres(Secret::new(address)));
            }
            Some(("sqlite", path)) => path.strip_prefix("//").unwrap_or(path),
            // A letter alone is a drive, not a scheme.
            Some((scheme, _)) if scheme.len() > 1 && !scheme.contains(['/', '\\', '.']) => {
                let message = format!("no database is known for `{scheme}:`");
                return Err(Error::new(ErrorKind::Configuration, message));
            }
            _ => address,
        };
        Ok(Self::File(path.into()))
    }
}

/// Who learns of runs: as traces (OpenTelemetry), and as security events (OCSF).
#[derive(Debug, Clone)]
pub struct TelemetryConfig {
    /// Where the spans of runs are sent when they are over, by OTLP over HTTP, in protobuf; nowhere
    /// without it. Its whole address: `http://127.0.0.1:4318/v1/traces`.
    pub spans: Option<OtlpExport>,
    /// The file that security events are written to; none without it.
    pub ocsf_file: Option<OcsfFile>,
    /// Where security events are sent as JSON arrays; nowhere without it.
    pub ocsf_endpoint: Option<OtlpExport>,
    /// Where a small JSON object is sent when a run begins to wait for a person; nowhere without it.
    pub alarm: Option<OtlpExport>,
    /// What receivers call this service (`service.name`).
    pub service: String,
    /// Whether requests to services carry their place in the trace (`traceparent`, `tracestate`). A
    /// service then learns the id of the run, and what the run's caller has put into its `tracestate`.
    /// Questions to guardians carry it always.
    pub propagate: bool,
}

impl Default for TelemetryConfig {
    /// Nothing is exported, and no service learns of a trace.
    fn default() -> Self {
        Self {
            spans: None,
            ocsf_file: None,
            ocsf_endpoint: None,
            alarm: None,
            service: "a2s".to_owned(),
            propagate: false,
        }
    }
}

/// A receiver over HTTP.
#[derive(Debug, Clone)]
pub struct OtlpExport {
    /// Its whole address.
    pub endpoint: Url,
    /// Headers that it wants, such as a key.
    pub headers: Vec<(String, Secret)>,
}

/// A file of security events, one JSON object on each line, that its owner alone can read. When it
/// is full it is renamed to `FILE.1`, the one before that to `FILE.2`, and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OcsfFile {
    /// Where it is; made when it is missing.
    pub path: PathBuf,
    /// How large it becomes, in bytes.
    pub max_bytes: u64,
    /// How many full ones are kept beside it.
    pub keep: u32,
}

impl OcsfFile {
    /// A file of 64 MiB, beside which four full ones are kept: 320 MiB at the most.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, max_bytes: 64 << 20, keep: 4 }
    }
}

/// Where the key for stored credentials comes from.
#[derive(Debug, Clone)]
pub enum SecretKeySource {
    /// 32 bytes in base64.
    Given(Secret),
    /// The same in a file that its owner alone can read; made when it is first needed.
    File(PathBuf),
}

/// What a host is shown when a connection is made. The files are in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, with those that it is signed by.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities that the host's own certificate is checked by, instead of those that the
    /// system trusts.
    pub authorities: Option<PathBuf>,
}

/// What happens when the answer of a service is not as its operation declares it: another status
/// or media type, or a value that does not fit the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResponseValidation {
    /// Nobody looks.
    Off,
    /// The run says so, and goes on.
    #[default]
    Warn,
    /// The step fails.
    Error,
}

/// How safely events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Each commit is on the disk before a run goes on (`synchronous=FULL`): it survives a power
    /// cut.
    #[default]
    Full,
    /// Each commit is with the operating system (`synchronous=NORMAL`): it survives a crash of the
    /// process, but the last ones may be lost in a power cut.
    Normal,
    /// Runs are kept in memory, and a step does not wait for its events to be written: for
    /// measuring, and for runs that may be lost. Nothing is left of them when the process ends;
    /// credentials and remembered values stay in the file.
    Memory,
}

/// How politely hosts are treated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostLimitSet {
    /// Every host, unless it is named below. A host that is an upstream of the configuration has no
    /// rate then: what stands there is the operator's own.
    pub default: HostLimits,
    /// Hosts with limits of their own.
    pub by_host: BTreeMap<Domain, HostLimits>,
}

/// How politely one host is treated, by all runs of an executor together.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostLimits {
    /// Requests under way at the same time; more wait for their turn.
    pub max_concurrency: NonZeroU32,
    /// Requests per second; those that come faster wait. Without it they may come as fast as they
    /// do.
    pub requests_per_second: Option<NonZeroU32>,
    /// How many requests may come at once after a time without any, before the rate holds.
    pub burst: NonZeroU32,
    /// After so many failures in a row the host is left alone for a pause, and then tried with one
    /// request; 0 means never. A failure is no connection, no answer or a status from 500.
    pub breaker_failures: u32,
    /// How long it is left alone.
    #[serde(with = "span")]
    pub breaker_pause: Duration,
}

impl Default for HostLimits {
    fn default() -> Self {
        let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        Self {
            max_concurrency: number(64),
            requests_per_second: Some(number(50)),
            burst: number(100),
            breaker_failures: 20,
            breaker_pause: Duration::from_secs(30),
        }
    }
}

/// What one tenant has other limits for than all tenants have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TenantLimits {
    /// Runs under way at the same time, in the place of `max-tenant-runs`.
    pub max_runs: Option<NonZeroU32>,
    /// Runs that wait for room, in the place of `max-tenant-queued`.
    pub max_queued: Option<u32>,
}

/// The bounds of a run. Each is there so that a document or a service cannot take the machine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Runs under way at the same time; more wait for room.
    pub max_runs: usize,
    /// Runs of one tenant under way at the same time, at all executors of a database; more wait. Without
    /// it they are as many as there is room for.
    pub max_tenant_runs: Option<NonZeroU32>,
    /// Runs of one tenant that wait for room; more are refused.
    pub max_tenant_queued: u32,
    /// Task and capability steps of one run, those of its dependencies and every iteration
    /// included.
    pub max_steps: usize,
    /// What the outputs of one run's steps may come to, in bytes.
    pub max_variable_bytes: usize,
    /// What the bodies of one run's requests and answers may come to, in bytes; counted anew when it
    /// is resumed.
    pub max_traffic_bytes: usize,
    /// Events of one run; when there are so many, no further step begins.
    pub max_events: u64,
    /// Documents of one run.
    pub max_documents: usize,
    /// Plans that can be run and were not yet; more are shown without a token.
    pub max_plans: usize,
    /// The same of one principal.
    pub max_tenant_plans: usize,
    /// Values that are remembered, of all principals together; more are refused.
    pub max_values: u32,
    /// Values that are remembered for one principal, in all sessions and without one.
    pub max_tenant_values: u32,
    /// Steps that the guardian is asked about for one preview of a plan.
    pub max_previews: usize,
    /// How long one run may take; counted anew when it is resumed.
    #[serde(with = "span")]
    pub max_run_time: Duration,
    /// Children of one parallel step, or iterations of one step, at the same time.
    pub max_parallel: usize,
    /// How long a run belongs to an executor that is not heard of any more: then another one takes it
    /// over.
    #[serde(with = "span")]
    pub lease: Duration,
    /// How often a run is taken over from executors that are gone, without a step of it having
    /// finished in between; then it waits for a person.
    pub max_takeovers: u32,
    /// How long a connection may take to be made.
    #[serde(with = "span")]
    pub connect_timeout: Duration,
    /// How long a service may send nothing while an answer is awaited or read.
    #[serde(with = "span")]
    pub read_timeout: Duration,
    /// How long one request may take, its whole answer included.
    #[serde(with = "span")]
    pub request_timeout: Duration,
    /// Size of a request to a service, in bytes.
    pub max_request_bytes: usize,
    /// Size of an answer of a service, in bytes.
    pub max_response_bytes: usize,
    /// Size of an answer that is kept for replays, in bytes; with 0 none is.
    pub keep_answer_bytes: usize,
    /// Attempts of one task, where repeating is safe and the document says nothing.
    pub max_attempts: u32,
    /// Attempts of one task, whatever the document says.
    pub attempts_ceiling: u32,
    /// How long a run is kept when it is over; `forever` for without an end.
    #[serde(with = "span::option")]
    pub keep_runs: Option<Duration>,
    /// How long a value of a session is kept after it was set; `forever` for without an end.
    #[serde(with = "span::option")]
    pub keep_session_values: Option<Duration>,
    /// The longest pause between two attempts, whatever document and `Retry-After` say.
    #[serde(with = "span")]
    pub max_pause: Duration,
    /// The time for one expensive evaluation of an expression over an answer; with 0 each one fails.
    #[serde(with = "span")]
    pub evaluation_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_runs: 1_000,
            max_tenant_runs: None,
            max_tenant_queued: 1_000,
            max_steps: 2_000,
            max_variable_bytes: 64 << 20,
            max_traffic_bytes: 1 << 30,
            max_events: 100_000,
            max_documents: 64,
            max_plans: 1_000,
            max_tenant_plans: 250,
            max_values: 100_000,
            max_tenant_values: 10_000,
            max_previews: 50,
            max_run_time: Duration::from_secs(3_600),
            max_parallel: 16,
            lease: Duration::from_secs(30),
            max_takeovers: 5,
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(60),
            max_request_bytes: 4 << 20,
            max_response_bytes: 8 << 20,
            keep_answer_bytes: 256 << 10,
            keep_runs: Some(Duration::from_secs(30 * 24 * 60 * 60)),
            keep_session_values: Some(Duration::from_secs(30 * 24 * 60 * 60)),
            max_attempts: 3,
            attempts_ceiling: 10,
            max_pause: Duration::from_secs(30),
            evaluation_timeout: Duration::from_secs(10),
        }
    }
}
