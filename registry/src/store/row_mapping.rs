//! Reads rows, with one implementation for every engine: a column means the same in each.

use std::collections::{BTreeMap, BTreeSet};

use a2s::{CapabilityName, Complexity, Domain, Permission, TaskFormat};
use a2s_api::{
    AuditEntry, FailureClass, FailureCount, FaultAttribution, RegistryAction, ServiceSummary,
};
use a2s_api::{TokenScope, TokenSubject};
use database::Row;
use jiff::Timestamp;
use semver::Version;
use serde::de::DeserializeOwned;

use super::tokens::TokenRow;
use super::{CapabilityId, Error, RunOutcome, RunStats, VersionEntry, VersionId};
use crate::outcome_weighting::{ReporterWeights, RunWeight, sum_reporters};

/// The most titles and permissions of a service in a response.
const MAX_TITLES: usize = 5;
const MAX_PERMISSIONS: usize = 50;

/// The columns of a [`VersionEntry`]. They are a macro, because the text of a query must be constant.
macro_rules! concat_entry {
    ($($rest:expr),+ $(,)?) => {
        concat!(
            "SELECT capability.id AS capability, version.id AS id, capability.name AS name, \
             version.version AS version, digest, complexity, permissions, published_at, yanked, \
             deprecated, runs, \
             successes, faults, good, bad, used, weighed_at \
             FROM version JOIN capability ON capability.id = version.capability ",
            $($rest),+
        )
    };
}
pub(super) use concat_entry;

/// Reads a number that cannot be negative.
pub(super) fn count(row: &Row, column: &str) -> Result<u64, Error> {
    Ok(row.get::<i64>(column)?.max(0).unsigned_abs())
}

/// Reads a time in milliseconds since 1970.
fn time(row: &Row, column: &str) -> Result<Timestamp, Error> {
    Timestamp::from_millisecond(row.get(column)?).map_err(Error::unavailable)
}

/// Maps the rows that can be read. One row that was damaged by hand must not hide the others.
fn map_readable<T>(rows: &[Row], what: &str, read: impl Fn(&Row) -> Result<T, Error>) -> Vec<T> {
    let read = |row| {
        read(row)
            .inspect_err(|error| tracing::error!(%error, "{what} cannot be read and is left out"))
    };
    rows.iter().filter_map(|row| read(row).ok()).collect()
}

pub(super) fn to_entries(rows: &[Row]) -> Vec<VersionEntry> {
    map_readable(rows, "a version", to_entry)
}

pub(super) fn to_entry(row: &Row) -> Result<VersionEntry, Error> {
    Ok(VersionEntry {
        capability: CapabilityId(row.get::<i64>("capability")?),
        id: VersionId(row.get::<i64>("id")?),
        name: CapabilityName::new(&row.get::<String>("name")?).map_err(Error::unavailable)?,
        version: Version::parse(&row.get::<String>("version")?).map_err(Error::unavailable)?,
        digest: row.get::<String>("digest")?.parse().map_err(Error::unavailable)?,
        complexity: match row.get::<i64>("complexity")? {
            0 => Complexity::Low,
            1 => Complexity::Medium,
            _ => Complexity::High,
        },
        permissions: row.get::<i64>("permissions")?.try_into().map_err(Error::unavailable)?,
        published_at: time(row, "published_at")?,
        yanked: row.get("yanked")?,
        // Words that cannot be read say that there are some.
        deprecated: row
            .get::<Option<String>>("deprecated")?
            .map(|words| serde_json::from_str(&words).unwrap_or_default()),
        stats: RunStats {
            runs: count(row, "runs")?,
            successes: count(row, "successes")?,
            faults: count(row, "faults")?,
            weight: RunWeight {
                good: row.get("good")?,
                bad: row.get("bad")?,
                runs: row.get("used")?,
            },
            weighed_at: row.get::<i64>("weighed_at")?,
        },
    })
}

pub(super) fn complexity_to_number(complexity: Complexity) -> i64 {
    match complexity {
        Complexity::Low => 0,
        Complexity::Medium => 1,
        Complexity::High => 2,
    }
}

/// Returns the version for a user who requests none, of those that are not yanked: the newest stable one,
/// or, when there is none, the newest pre-release. Rows have `id` and `version`.
pub(super) fn find_newest_version(rows: &[Row]) -> Result<Option<i64>, Error> {
    let mut newest: Option<(bool, Version, i64)> = None;
    for row in rows {
        let Ok(version) = Version::parse(&row.get::<String>("version")?) else { continue };
        let candidate = (version.pre.is_empty(), version, row.get::<i64>("id")?);
        if newest.as_ref().is_none_or(|newest| *newest < candidate) {
            newest = Some(candidate);
        }
    }
    Ok(newest.map(|(_, _, id)| id))
}

pub(super) fn to_events(rows: &[Row]) -> Vec<AuditEntry> {
    map_readable(rows, "an event", to_event)
}

fn to_event(row: &Row) -> Result<AuditEntry, Error> {
    let action = row.get::<String>("action")?;
    let detail = row
        .get::<Option<String>>("detail")?
        .map(|detail| serde_json::from_str(&detail))
        .transpose();
    let name =
        row.get::<Option<String>>("name")?.map(|name| CapabilityName::new(&name)).transpose();
    let version =
        row.get::<Option<String>>("version")?.map(|text| Version::parse(&text)).transpose();
    let digest = row.get::<Option<String>>("digest")?.map(|digest| digest.parse()).transpose();
    Ok(AuditEntry {
        seq: count(row, "seq")?,
        at: time(row, "at")?,
        actor: row.get::<Option<String>>("actor")?.as_deref().map(to_subject).transpose()?,
        action: RegistryAction::from_name(&action)
            .ok_or_else(|| Error::unavailable(format!("unknown action `{action}`")))?,
        name: name.map_err(Error::unavailable)?,
        version: version.map_err(Error::unavailable)?,
        checksum: digest.map_err(Error::unavailable)?,
        subject: row.get::<Option<String>>("subject")?.as_deref().map(to_subject).transpose()?,
        detail: detail.map_err(Error::unavailable)?,
    })
}

fn to_subject(text: &str) -> Result<TokenSubject, Error> {
    TokenSubject::new(text).map_err(Error::unavailable)
}

pub(super) fn to_subjects(texts: &[String]) -> Result<Vec<TokenSubject>, Error> {
    texts.iter().map(|text| to_subject(text)).collect()
}

pub(super) fn to_token(row: &Row) -> Result<TokenRow, Error> {
    let (name, scopes) = (row.get::<String>("name")?, row.get::<String>("scopes")?);
    let scopes: Result<BTreeSet<TokenScope>, _> =
        scopes.split_whitespace().map(str::parse).collect();
    let expires_at = row.get::<Option<i64>>("expires_at")?.map(Timestamp::from_millisecond);
    Ok(TokenRow {
        name: to_subject(&name)?,
        scopes: scopes.map_err(Error::unavailable)?,
        created_at: time(row, "created_at")?,
        expires_at: expires_at.transpose().map_err(Error::unavailable)?,
    })
}

pub(super) fn to_failure(row: &Row) -> Result<FailureCount, Error> {
    let text =
        |column| Ok::<_, Error>(Some(row.get::<String>(column)?).filter(|text| !text.is_empty()));
    let (class, blame) = (text("class")?, text("blame")?);
    Ok(FailureCount {
        code: text("code")?,
        class: FailureClass::ALL.iter().copied().find(|c| class.as_deref() == Some(c.as_str())),
        attribution: FaultAttribution::ALL
            .iter()
            .copied()
            .find(|b| blame.as_deref() == Some(b.as_str())),
        count: count(row, "count")?,
    })
}

/// Adds a run to the weights of its executor, and returns those with the sum over all executors. The rows
/// are those of the version, with `reporter`, `sessions` and `at`.
pub(super) fn add_run(
    rows: &[Row],
    outcome: &RunOutcome,
) -> Result<(ReporterWeights, RunWeight), Error> {
    let now = outcome.at.as_millisecond();
    let mut own = ReporterWeights::default();
    let mut weights = Vec::with_capacity(rows.len() + 1);
    for row in rows {
        let sessions = parse(&row.get::<String>("sessions")?)?;
        let mut reporter = ReporterWeights { sessions, at: row.get::<i64>("at")? };
        if row.get::<i64>("reporter")? == i64::from(outcome.reporter_key.reporter) {
            own = reporter;
        } else {
            reporter.decay_to(now);
            weights.push(reporter.weight());
        }
    }
    let session = usize::from(outcome.reporter_key.session);
    own.count(session, outcome.run_end(), outcome.ended_at.as_millisecond(), now);
    weights.push(own.weight());
    let weight = sum_reporters(&weights);
    Ok((own, weight))
}

/// Builds the services of hosts from rows with the number of their capabilities (`host`, `capabilities`),
/// by host.
pub(super) fn to_services(rows: &[Row]) -> Result<BTreeMap<String, ServiceSummary>, Error> {
    let to_service = |row: &Row| {
        let host = row.get::<String>("host")?;
        let service = ServiceSummary {
            host: Domain::new(&host).map_err(Error::unavailable)?,
            titles: Vec::new(),
            capabilities: count(row, "capabilities")?,
            formats: Vec::new(),
            permissions: Vec::new(),
        };
        Ok((host, service))
    };
    rows.iter().map(to_service).collect()
}

/// Adds titles and formats (`host`, `title`, `format`), the most used first.
pub(super) fn add_titles(
    services: &mut BTreeMap<String, ServiceSummary>,
    rows: &[Row],
) -> Result<(), Error> {
    for row in rows {
        let Some(service) = services.get_mut(&row.get::<String>("host")?) else { continue };
        if let Some(title) = row.get::<Option<String>>("title")?
            && service.titles.len() < MAX_TITLES
            && !service.titles.contains(&title)
        {
            service.titles.push(title);
        }
        let format =
            row.get::<Option<String>>("format")?.and_then(|format| TaskFormat::from_name(&format));
        service.formats.extend(format);
        service.formats.sort_unstable();
        service.formats.dedup();
    }
    Ok(())
}

/// Adds permissions (`host`, `permission`) in the order of the rows.
pub(super) fn add_permissions(
    services: &mut BTreeMap<String, ServiceSummary>,
    rows: &[Row],
) -> Result<(), Error> {
    for row in rows {
        if let Some(service) = services.get_mut(&row.get::<String>("host")?)
            && service.permissions.len() < MAX_PERMISSIONS
            && let Ok(permission) = Permission::new(&row.get::<String>("permission")?)
        {
            service.permissions.push(permission);
        }
    }
    Ok(())
}

/// Parses JSON that the registry has written.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(Error::unavailable)
}

/// Converts a value to JSON.
pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(Error::unavailable)
}
