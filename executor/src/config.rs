//! The configuration of an executor. Read from flags, environment and files elsewhere.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use a2s::{Domain, Secret};
use a2s_api::{TokenIntrospector, TokenSubject};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::{Error, ErrorKind};

mod guardian;
mod span;

pub use aos::FailMode;
pub use guardian::{
    ExecutorCertificate, FailModes, GuardianConfig, GuardianEndpoint, GuardianHook,
    GuardianSettings, HttpEndpoint,
};

/// The settings of one executor.
#[derive(Debug, Clone)]
pub struct Config {
    /// The database for runs, credentials and remembered values.
    pub database: ExecutorDatabase,
    /// The durability of written events.
    pub durability: Durability,
    /// The registry that capabilities come from.
    pub registry: Url,
    /// The token of the scope `service` for reports of outcomes. The executor also reads documents with it
    /// if the registry requires a token, and without a token otherwise.
    pub registry_token: Option<Secret>,
    /// The guardians to ask before and after every tool step.
    pub guardian: GuardianSettings,
    /// The replacement address for connections to a host: scheme, host and port.
    pub upstreams: BTreeMap<Domain, Url>,
    /// Private, loopback and link-local targets that the executor may reach anyway: an IP address or a
    /// network such as `127.0.0.0/8`.
    pub allowed_addresses: Vec<String>,
    /// The reaction to a response that does not match the declaration of its operation.
    pub response_validation: ResponseValidation,
    /// The limits of a run.
    pub limits: Limits,
    /// Limits of single tenants, which replace the limits for all tenants. The key is the name that the
    /// tokens of the tenant belong to.
    pub tenants: BTreeMap<TokenSubject, TenantLimits>,
    /// The request limits of the hosts of services.
    pub hosts: HostLimitSet,
    /// The source of the key for stored credentials.
    pub secret_key: SecretKeySource,
    /// The certificates that this executor presents to hosts (mutual TLS).
    pub client_certificates: BTreeMap<Domain, ClientCertificate>,
    /// The token with full access to runs; without it, no request needs a token.
    pub token: Option<Secret>,
    /// The service that knows other tokens and their scopes; without it, there are no other tokens.
    pub introspector: Option<Arc<dyn TokenIntrospector>>,
    /// The receivers of traces and security events about runs.
    pub telemetry: TelemetryConfig,
}

impl Config {
    /// Settings for a database in a file and `registry`, with the guardian `guardian` and defaults for the
    /// rest: no upstreams, no private targets, no certificates, no token, and a key file `secrets.key` next
    /// to the database.
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

/// The database in which an executor keeps runs, credentials and remembered values.
#[derive(Debug, Clone)]
pub enum ExecutorDatabase {
    /// An SQLite file. The executor creates the file and its folders when they are missing.
    File(PathBuf),
    /// The `postgres:` or `postgresql:` URL of an existing database, which several executors can share. It
    /// is never shown, because it may contain a password.
    Postgres(Secret),
}

impl ExecutorDatabase {
    /// Reads an address: a `postgres:` or `postgresql:` URL, the path of an SQLite file, or such a path
    /// after `sqlite:`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Configuration`] for a URL of another kind.
    pub fn parse(address: &str) -> Result<Self, Error> {
        let path = match address.split_once(':') {
            Some(("postgres" | "postgresql", _)) => {
                return Ok(Self::Postgres(Secret::new(address)));
            }
            Some(("sqlite", path)) => path.strip_prefix("//").unwrap_or(path),
            // A letter alone is a drive, not a scheme.
            Some((scheme, _)) if scheme.len() > 1 && !scheme.contains(['/', '\\', '.']) => {
                let message = format!("unknown kind of database `{scheme}:`");
                return Err(Error::new(ErrorKind::Configuration, message));
            }
            _ => address,
        };
        Ok(Self::File(path.into()))
    }
}

/// The receivers of traces (OpenTelemetry) and security events (OCSF) about runs.
#[derive(Debug, Clone)]
pub struct TelemetryConfig {
    /// The receiver of spans, by OTLP over HTTP in protobuf; without it, the executor sends no spans. The
    /// spans of a run are sent when it ends. The full address, such as `http://127.0.0.1:4318/v1/traces`.
    pub spans: Option<OtlpExport>,
    /// The file for security events; without it, the executor writes no such file.
    pub ocsf_file: Option<OcsfFile>,
    /// The receiver of security events as JSON arrays; without it, the executor sends no events.
    pub ocsf_endpoint: Option<OtlpExport>,
    /// The receiver of a small JSON object when a run begins to wait for a person; without it, the executor
    /// sends none.
    pub alarm: Option<OtlpExport>,
    /// The name of this service for receivers (`service.name`).
    pub service: String,
    /// Set when requests to services carry their place in the trace (`traceparent`, `tracestate`). A
    /// service then learns the id of the run, and the `tracestate` of the run's caller. Questions to
    /// guardians always carry it.
    pub propagate: bool,
}

impl Default for TelemetryConfig {
    /// Creates settings that export nothing and add no trace headers to requests to services.
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

/// A receiver of telemetry over HTTP.
#[derive(Debug, Clone)]
pub struct OtlpExport {
    /// The full URL.
    pub endpoint: Url,
    /// The headers that it requires, such as a key.
    pub headers: Vec<(String, Secret)>,
}

/// A file of security events, one JSON object per line. Only its owner can read it. A full file is renamed
/// to `FILE.1`, the previous one to `FILE.2`, and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OcsfFile {
    /// The path of the file; the executor creates the file when it is missing.
    pub path: PathBuf,
    /// The maximum size of the file, in bytes.
    pub max_bytes: u64,
    /// The number of full files that are kept next to it.
    pub max_rotated_files: u32,
}

impl OcsfFile {
    /// A file of 64 MiB with four full files next to it: 320 MiB at the most.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, max_bytes: 64 << 20, max_rotated_files: 4 }
    }
}

/// The source of the key for stored credentials.
#[derive(Debug, Clone)]
pub enum SecretKeySource {
    /// The key itself: 32 bytes in base64.
    Given(Secret),
    /// A file with such a key, which only its owner can read. The executor creates it when it first needs
    /// the key.
    File(PathBuf),
}

/// The certificate that the executor presents to a host when it connects. The files are in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// The certificate with its chain of issuers.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities for checking the certificate of the host, instead of those that the system trusts.
    pub authorities: Option<PathBuf>,
}

/// The reaction to a response of a service that does not match the declaration of its operation: another
/// status or media type, or a value that does not fit the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResponseValidation {
    /// Responses are not checked.
    Off,
    /// The run records a warning and continues.
    #[default]
    Warn,
    /// The step fails.
    Error,
}

/// The durability of written events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Each commit is on the disk before the run continues (`synchronous=FULL`): it survives a power cut.
    #[default]
    Full,
    /// Each commit is written to the operating system (`synchronous=NORMAL`): it survives a crash of the
    /// process, but a power cut may lose the last commits.
    Normal,
    /// Runs are stored only in memory, and a step does not wait until its events are written. This is for
    /// measurements, and for runs that may be lost: they are gone when the process ends. Credentials and
    /// remembered values are still stored in the file.
    Memory,
}

/// The request limits of hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostLimitSet {
    /// The limits of every host that is not in `by_host`. For a host that is an upstream of the
    /// configuration, they have no rate: its service belongs to the operator.
    pub default: HostLimits,
    /// The hosts with different limits.
    pub by_host: BTreeMap<Domain, HostLimits>,
}

/// The request limits of one host, for all runs of an executor together.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostLimits {
    /// The maximum number of concurrent requests; further requests wait for their turn.
    pub max_concurrency: NonZeroU32,
    /// The maximum number of requests per second; faster requests wait. Without it, the rate is not
    /// limited.
    pub requests_per_second: Option<NonZeroU32>,
    /// The number of requests that may be sent at once after an idle time, before the rate applies.
    pub burst: NonZeroU32,
    /// The number of failures in a row after which the executor sends the host no requests for a pause.
    /// Then it tries one request. 0 means never. A failure is a missing connection, a missing response or a
    /// status from 500.
    pub breaker_failures: u32,
    /// The time without requests after too many failures.
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

/// The limits of one tenant where they differ from the limits of all tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TenantLimits {
    /// The maximum number of concurrent runs, instead of `max-tenant-runs`.
    pub max_runs: Option<NonZeroU32>,
    /// The maximum number of waiting runs, instead of `max-tenant-queued`.
    pub max_queued: Option<u32>,
}

/// The limits of the runs of an executor. They prevent that a document or a service uses up the machine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// The maximum number of concurrent runs; further runs wait.
    pub max_runs: usize,
    /// The maximum number of concurrent runs of one tenant, at all executors of a database; further runs
    /// wait. Without it, only the total number of runs is limited.
    pub max_tenant_runs: Option<NonZeroU32>,
    /// The maximum number of waiting runs of one tenant; further runs are refused.
    pub max_tenant_queued: u32,
    /// The maximum number of task and capability steps of one run, including the steps of its dependencies
    /// and every iteration.
    pub max_steps: usize,
    /// The maximum size of the outputs of one run's steps, in bytes.
    pub max_variable_bytes: usize,
    /// The maximum size of the bodies of one run's requests and responses, in bytes; counted from zero when
    /// the run is resumed.
    pub max_traffic_bytes: usize,
    /// The maximum number of events of one run; then no further step begins.
    pub max_events: u64,
    /// The maximum number of documents of one run.
    pub max_documents: usize,
    /// The maximum number of plans that can still be run; further plans have no token.
    pub max_plans: usize,
    /// The maximum number of such plans of one principal.
    pub max_tenant_plans: usize,
    /// The maximum number of remembered values of all principals together; further values are refused.
    pub max_values: u32,
    /// The maximum number of remembered values of one principal, with and without a session.
    pub max_tenant_values: u32,
    /// The maximum number of steps in one preview of a plan that the guardian is asked about.
    pub max_previews: usize,
    /// The maximum time of one run; counted from zero when it is resumed.
    #[serde(with = "span")]
    pub max_run_time: Duration,
    /// The maximum number of concurrent children of one parallel step, or concurrent iterations of one
    /// step.
    pub max_parallel: usize,
    /// The lease of a run: the time for which it belongs to an executor that does not renew the lease.
    /// After that, another executor takes the run over.
    #[serde(with = "span")]
    pub lease: Duration,
    /// The number of takeovers of a run from executors that are gone, without a finished step in between.
    /// After that, the run waits for a person.
    pub max_takeovers: u32,
    /// The timeout for making a connection.
    #[serde(with = "span")]
    pub connect_timeout: Duration,
    /// The time for which a service may send nothing while the executor waits for a response or reads it.
    #[serde(with = "span")]
    pub read_timeout: Duration,
    /// The timeout for one request, with its full response.
    #[serde(with = "span")]
    pub request_timeout: Duration,
    /// The maximum size of a request to a service, in bytes.
    pub max_request_bytes: usize,
    /// The maximum size of a response of a service, in bytes.
    pub max_response_bytes: usize,
    /// The maximum size of a response that is kept for replays, in bytes; with 0, none is kept.
    pub keep_answer_bytes: usize,
    /// The maximum number of attempts of one task, if a repetition is safe and the document sets no number.
    pub max_attempts: u32,
    /// The maximum number of attempts of one task, even if the document sets a higher number.
    pub attempts_ceiling: u32,
    /// The time for which an ended run is kept; `forever` for no end.
    #[serde(with = "span::option")]
    pub keep_runs: Option<Duration>,
    /// The time for which a value of a session is kept after it was set; `forever` for no end.
    #[serde(with = "span::option")]
    pub keep_session_values: Option<Duration>,
    /// The maximum pause between two attempts, even if the document or `Retry-After` states a longer one.
    #[serde(with = "span")]
    pub max_pause: Duration,
    /// The timeout for one expensive evaluation of an expression on a response; with 0, each one fails.
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
