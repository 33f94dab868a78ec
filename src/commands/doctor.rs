//! `a2s doctor`: the problems on this machine that keep services from working, each with its remedy.

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::DATE;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use url::Url;

use crate::cli::DoctorArgs;
use crate::cli_error::{CliError, CliExitCode};
use crate::client::ServiceClient;
use crate::clock;
use crate::output::{BAD, CommandOutput, DIM, GOOD, WARN, sanitize};

/// The free space, in bytes, below which a service will soon stop writing, and the space below which the
/// command warns.
const MIN_SPACE: u64 = 64 << 20;
const WARN_SPACE: u64 = 1 << 30;
/// The minimum number of open files for a thousand simultaneous runs with their connections.
const MIN_OPEN_FILES: u64 = 4096;
/// The largest accepted difference between the clocks of two machines, in seconds.
const CLOCK_TOLERANCE: i64 = 5;
/// The timeout of one check of another service.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of a checked item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    Good,
    Warning,
    Bad,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct DoctorFinding {
    check: &'static str,
    state: CheckState,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl DoctorFinding {
    fn good(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, state: CheckState::Good, message: message.into(), remedy: None }
    }

    fn warning(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (message, remedy) = (message.into(), Some(remedy.into()));
        Self { check, state: CheckState::Warning, message, remedy }
    }

    fn bad(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { state: CheckState::Bad, ..Self::warning(check, message, remedy) }
    }
}

pub(super) async fn doctor(
    arguments: &DoctorArgs,
    data: &Path,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let mut findings = vec![check_folder(data), check_space(data), check_open_files()];
    findings.extend(check_service(client).await);
    for host in &arguments.resolve {
        findings.push(check_name(host).await);
    }
    for guardian in &arguments.guardian {
        findings.push(check_guardian(guardian).await);
    }
    let worst = findings.iter().any(|finding| finding.state == CheckState::Bad);
    if output.is_json() {
        output.json_line(&json!({ "findings": findings }));
    } else {
        findings.iter().for_each(|finding| print(finding, output));
    }
    if worst { Err(CliError::already_printed(CliExitCode::Bad)) } else { Ok(()) }
}

fn print(finding: &DoctorFinding, output: &mut CommandOutput) {
    let (sign, style) = match finding.state {
        CheckState::Good => ("✓", GOOD),
        CheckState::Warning => ("!", WARN),
        CheckState::Bad => ("✗", BAD),
    };
    let DoctorFinding { check, message, remedy, .. } = finding;
    output.line(format_args!("{style}{sign}{style:#} {check:<11} {}", sanitize(message)));
    if let Some(remedy) = remedy {
        output.line(format_args!("  {:<11} {DIM}{}{DIM:#}", "", sanitize(remedy)));
    }
}

/// Checks that the data folder is for its owner alone and can be written.
fn check_folder(data: &Path) -> DoctorFinding {
    const CHECK: &str = "data folder";
    let shown = data.display();
    let metadata = match std::fs::metadata(data) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return DoctorFinding::good(
                CHECK,
                format!("{shown} does not exist yet; a service creates it at its start"),
            );
        }
        Err(error) => {
            let remedy = "Run services as the user that owns the folder.";
            return DoctorFinding::bad(CHECK, format!("{shown}: {error}"), remedy);
        }
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = metadata.permissions().mode() & 0o777;
        let remedy = format!("chmod 700 '{shown}'");
        if mode & 0o022 != 0 {
            let message = format!("other users can write to {shown} ({mode:04o})");
            return DoctorFinding::bad(CHECK, message, remedy);
        }
        if mode & 0o077 != 0 {
            let message = format!("other users can read {shown} ({mode:04o})");
            return DoctorFinding::warning(CHECK, message, remedy);
        }
    }
    if !metadata.is_dir() {
        let message = format!("{shown} is not a folder");
        return DoctorFinding::bad(CHECK, message, "Use another folder with --data-dir.");
    }
    match tempfile::tempfile_in(data) {
        Ok(_) => DoctorFinding::good(CHECK, format!("only this user has access to {shown}")),
        Err(error) => DoctorFinding::bad(
            CHECK,
            format!("{shown} cannot be written: {error}"),
            "Run services as the user that owns the folder.",
        ),
    }
}

/// Checks that there is space for more data.
fn check_space(data: &Path) -> DoctorFinding {
    const CHECK: &str = "disk";
    let Some(free) = free_space(data) else {
        let remedy = "Check the free space with the tools of the system.";
        return DoctorFinding::warning(CHECK, "the free space is unknown on this system", remedy);
    };
    let message = format!("{} MiB are free for {}", free >> 20, data.display());
    match free {
        0..MIN_SPACE => {
            DoctorFinding::bad(CHECK, message, "Free some space, or move the data folder.")
        }
        MIN_SPACE..WARN_SPACE => DoctorFinding::warning(
            CHECK,
            message,
            "docs/operations.md describes the growth of the data; `keep-runs` deletes runs earlier.",
        ),
        _ => DoctorFinding::good(CHECK, message),
    }
}

/// Returns the number of bytes that can be written to the file system of a folder, even if the folder does
/// not exist yet.
#[cfg(unix)]
pub(super) fn free_space(path: &Path) -> Option<u64> {
    let path = std::path::absolute(path).ok()?;
    let there = path.ancestors().find(|path| path.exists())?;
    let space = rustix::fs::statvfs(there).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

#[cfg(not(unix))]
pub(super) fn free_space(_: &Path) -> Option<u64> {
    None
}

/// Checks that a service may open enough files and connections for much work.
fn check_open_files() -> DoctorFinding {
    const CHECK: &str = "open files";
    #[cfg(unix)]
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        let message = format!("a service can open at most {most} files and connections");
        if most < MIN_OPEN_FILES {
            let remedy = format!(
                "`ulimit -n {MIN_OPEN_FILES}` before it starts, or `LimitNOFILE={MIN_OPEN_FILES}` in its unit."
            );
            return DoctorFinding::warning(CHECK, message, remedy);
        }
        return DoctorFinding::good(CHECK, message);
    }
    DoctorFinding::good(CHECK, "the system sets no limit")
}

/// Checks that services answer, are ready, have this version, and agree about the time.
async fn check_service(client: &ServiceClient) -> Vec<DoctorFinding> {
    const CHECK: &str = "service";
    let url = client.url();
    let asked = timeout(CHECK_TIMEOUT, client.send(client.request(Method::GET, &["readyz"]))).await;
    let response = match asked {
        Ok(Ok(response)) => response,
        Ok(Err(agent::ClientError::Refused { problem })) => {
            let message = format!("{url} is not ready: {}", problem.detail);
            return vec![DoctorFinding::bad(
                CHECK,
                message,
                "See its log; `a2s ready` checks again.",
            )];
        }
        Ok(Err(_)) | Err(_) => return vec![check_port(url)],
    };
    let mut findings = vec![DoctorFinding::good(CHECK, format!("{url} is ready"))];
    let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
    findings.extend(date.and_then(check_time));
    let described = timeout(CHECK_TIMEOUT, client.get::<Value>(&["openapi.json"])).await;
    let version = described.ok().and_then(Result::ok);
    findings.push(check_version(version.as_ref().and_then(|it| it["info"]["version"].as_str())));
    findings
}

/// Checks that a service could listen at an address without one.
fn check_port(url: &Url) -> DoctorFinding {
    const CHECK: &str = "port";
    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default());
    let port = port.unwrap_or_default();
    if !agent::is_loopback(url) {
        let message = format!("no response at {url}");
        return DoctorFinding::bad(CHECK, message, "Start the service there, or set --url.");
    }
    match TcpListener::bind((host.trim_matches(['[', ']']), port)) {
        Ok(_) => DoctorFinding::good(CHECK, format!("{port} is free: `a2s up` can listen there")),
        Err(error) => DoctorFinding::bad(
            CHECK,
            format!("no a2s service responds at {url}, and a service cannot listen there: {error}"),
            "Stop the program that listens there, or use another port with --listen and --url.",
        ),
    }
}

fn check_time(date: &str) -> Option<DoctorFinding> {
    const CHECK: &str = "time";
    let there = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    let apart = clock::now().duration_since(there).as_secs();
    if apart.abs() <= CLOCK_TOLERANCE {
        return Some(DoctorFinding::good(CHECK, "this clock and the service's agree"));
    }
    let message = format!("this clock and the service's are {} s apart", apart.abs());
    Some(DoctorFinding::warning(
        CHECK,
        message,
        "Synchronize the clocks of both machines with a time server.",
    ))
}

fn check_version(there: Option<&str>) -> DoctorFinding {
    const CHECK: &str = "version";
    let here = env!("CARGO_PKG_VERSION");
    match there {
        Some(there) if there == here => {
            DoctorFinding::good(CHECK, format!("command and service have the version {here}"))
        }
        Some(there) => DoctorFinding::warning(
            CHECK,
            format!("the command has the version {here}, the service {there}"),
            "Use the same version for both.",
        ),
        None => DoctorFinding::warning(
            CHECK,
            "the service does not report its version",
            "Check that --url is the address of an a2s service.",
        ),
    }
}

async fn check_name(host: &str) -> DoctorFinding {
    const CHECK: &str = "name";
    let found = timeout(CHECK_TIMEOUT, lookup_host((host, 443))).await;
    let why = match found.map(|found| found.map(Iterator::count)) {
        Ok(Ok(1..)) => {
            return DoctorFinding::good(CHECK, format!("{host} resolves to an address"));
        }
        Ok(Ok(_)) => "it has no address".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no response within {} s", CHECK_TIMEOUT.as_secs()),
    };
    let remedy = "Check the name, and the name servers of this machine.";
    DoctorFinding::bad(CHECK, format!("{host} does not resolve: {why}"), remedy)
}

async fn check_guardian(url: &Url) -> DoctorFinding {
    const CHECK: &str = "guardian";
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(443);
    let remedy =
        "Start the guardian, or correct its address; without it, the executor denies every step.";
    match timeout(CHECK_TIMEOUT, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => DoctorFinding::good(CHECK, format!("{host}:{port} accepts connections")),
        Ok(Err(error)) => DoctorFinding::bad(CHECK, format!("{host}:{port}: {error}"), remedy),
        Err(_) => DoctorFinding::bad(CHECK, format!("{host}:{port} does not respond"), remedy),
    }
}
