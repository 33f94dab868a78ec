//! The settings of guardians: flags over environment over the TOML file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use a2s::{Diagnostic, Position, Secret, Severity};
use executor::{FailModes, GuardianConfig, GuardianEndpoint, Hook, HttpEndpoint, Identity};
use guardian::PolicyErrors;
use jiff::SignedDuration;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::identity::check_not_owner;
use crate::cli::{FailMode, GuardianChoice, GuardingArgs};
use crate::cli_error::{CANNOT_SERVE, Exit, Failure, POLICY};
use crate::client::TokenTransport;
use crate::output::count;

/// The longest time that a guardian may be given for one answer.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(5);
/// The longest time for which a guardian that is away is asked again.
const LONGEST_RETRY: SignedDuration = SignedDuration::from_mins(1);
/// The longest token, in bytes.
const MAX_TOKEN: u64 = 64 << 10;

/// Who is asked around every step.
#[derive(Debug, Clone)]
pub(crate) enum Guardians {
    Off,
    /// In this order; there is at least one.
    Asked(Vec<Guardian>),
}

#[derive(Debug, Clone)]
pub(crate) enum Guardian {
    /// The one of this process.
    Builtin { fail: FailModes, timeout: Option<Duration> },
    /// The owner's token is never sent there: a guardian gets a token of its own.
    At(Box<GuardianConfig>),
}

impl Guardians {
    /// The guardian of this process alone, whose silence means no.
    pub(crate) fn builtin() -> Self {
        Self::Asked(vec![Guardian::Builtin {
            fail: executor::FailMode::Closed.into(),
            timeout: None,
        }])
    }

    pub(crate) fn has_builtin(&self) -> bool {
        match self {
            Self::Off => false,
            Self::Asked(guardians) => {
                guardians.iter().any(|guardian| matches!(guardian, Guardian::Builtin { .. }))
            }
        }
    }

    /// Checks that the tokens of guardians go over protected connections, and that none is the
    /// `owner`'s.
    pub(super) fn check_tokens(
        &self,
        transport: TokenTransport,
        owner: &str,
    ) -> Result<(), Failure> {
        let Self::Asked(guardians) = self else { return Ok(()) };
        for guardian in guardians {
            let Guardian::At(config) = guardian else { continue };
            let GuardianEndpoint::Http(endpoint) = &config.endpoint else { continue };
            if endpoint.token.is_some() {
                transport
                    .check(&endpoint.url, &format!("the token of guardian {}", config.name))?;
            }
            check_not_owner(endpoint.token.as_ref(), "--guardian-token", owner)?;
        }
        Ok(())
    }

    /// As the executor is told, where `own` is the guardian of this process. All may be asked about
    /// responses of `max_response_bytes`.
    ///
    /// # Errors
    /// The guardian of this process is among them, and there is none.
    pub(super) fn into_config(
        self,
        own: Option<&guardian::App>,
        max_response_bytes: usize,
    ) -> Result<executor::Guardian, Failure> {
        let guardians = match self {
            Self::Off => return Ok(executor::Guardian::Off),
            Self::Asked(guardians) => guardians,
        };
        let config = |guardian| match guardian {
            Guardian::At(config) => Ok(GuardianConfig { max_response_bytes, ..*config }),
            Guardian::Builtin { fail, timeout } => {
                let own = own.ok_or_else(|| {
                    Failure::new(Exit::Bad, CANNOT_SERVE, "there is no guardian in this process")
                })?;
                let config = GuardianConfig::in_process(Arc::new(own.clone()));
                Ok(GuardianConfig {
                    fail,
                    timeout: timeout.unwrap_or(config.timeout),
                    max_response_bytes,
                    ..config
                })
            }
        };
        let configs = guardians.into_iter().map(config).collect::<Result<_, Failure>>();
        configs.map(executor::Guardian::At)
    }
}

/// `guardian` of the TOML file: one in a word, or a `[[guardian]]` for each.
#[derive(Debug, Default)]
pub(super) struct Section(Vec<Table>);

impl<'de> Deserialize<'de> for Section {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Section;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`builtin`, `off`, an http(s) URL, or [[guardian]] tables")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Section, E> {
                let choice = GuardianChoice::try_from(word.to_owned()).map_err(E::custom)?;
                Ok(Section(vec![Table::of(choice)]))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Section, A::Error> {
                Table::deserialize(MapAccessDeserializer::new(table))
                    .map(|table| Section(vec![table]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut tables: A) -> Result<Section, A::Error> {
                let mut section = Section::default();
                while let Some(table) = tables.next_element()? {
                    section.0.push(table);
                }
                Ok(section)
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// One `[[guardian]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    url: GuardianChoice,
    name: Option<String>,
    token: Option<Secret>,
    token_file: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    authorities: Option<PathBuf>,
    timeout: Option<SignedDuration>,
    retry_for: Option<SignedDuration>,
    fail: Option<FailMode>,
    #[serde(default)]
    fail_hooks: BTreeMap<String, FailMode>,
}

impl Table {
    /// A guardian of which nothing is said but where it is.
    fn of(url: GuardianChoice) -> Self {
        Self {
            url,
            name: None,
            token: None,
            token_file: None,
            certificate: None,
            key: None,
            authorities: None,
            timeout: None,
            retry_for: None,
            fail: None,
            fail_hooks: BTreeMap::new(),
        }
    }
}

impl Section {
    /// The guardians, `default` when nobody names any. `file_fail` is what the file says of all of
    /// them.
    pub(super) fn read(
        &self,
        arguments: &GuardingArgs,
        file_fail: Option<FailMode>,
        default: GuardianChoice,
    ) -> Result<Guardians, Failure> {
        let Self(tables) = self;
        let chosen = match arguments.guardians.as_slice() {
            [] if tables.is_empty() => vec![Table::of(default)],
            [] => tables.clone(),
            named => {
                let named = named.iter().map(|choice| {
                    let said = tables.iter().find(|table| table.url == *choice);
                    said.cloned().unwrap_or_else(|| Table::of(choice.clone()))
                });
                named.collect()
            }
        };
        if chosen.iter().any(|table| table.url == GuardianChoice::Off) {
            return match chosen.len() {
                1 => Ok(Guardians::Off),
                _ => Err(wrong("`off` is nobody, so it stands alone among guardians")),
            };
        }
        for (index, table) in chosen.iter().enumerate() {
            if chosen[..index].iter().any(|before| before.url == table.url) {
                return Err(wrong(format!("the guardian {} is named twice", shown(&table.url))));
            }
        }
        let remote = |table: &&Table| matches!(table.url, GuardianChoice::Url(_));
        if arguments.guardian_token.is_some() && chosen.iter().filter(remote).count() > 1 {
            let message = "one token for several guardians would tell each what opens the others";
            return Err(wrong(message).with_hint(
                "Give each a `token-file` in its `[[guardian]]` of the configuration.",
            ));
        }
        let guardians = chosen.into_iter().map(|table| {
            let name = shown(&table.url);
            let guardian = open(table, arguments, file_fail);
            guardian.map_err(|failure| Failure {
                message: format!("the guardian {name}: {}", failure.message),
                ..failure
            })
        });
        Ok(Guardians::Asked(guardians.collect::<Result<_, _>>()?))
    }
}

fn open(
    table: Table,
    arguments: &GuardingArgs,
    file_fail: Option<FailMode>,
) -> Result<Guardian, Failure> {
    let fail = match arguments.guardian_fail {
        // Who says it when starting means all of it.
        Some(fail) => FailModes::from(mode(fail)),
        None => {
            let default = table.fail.or(file_fail).unwrap_or(FailMode::Closed);
            let own = table.fail_hooks.iter().map(|(hook, fail)| {
                let hook: Hook = hook.parse().map_err(|error: String| wrong(error))?;
                Ok((hook, mode(*fail)))
            });
            FailModes { default: mode(default), own: own.collect::<Result<_, Failure>>()? }
        }
    };
    let timeout = table.timeout.map(timeout).transpose()?;
    let retry_for = table.retry_for.map(retry_for).transpose()?;
    let url = match table.url {
        GuardianChoice::Url(url) => url,
        // Nobody is not asked; the caller has looked.
        GuardianChoice::Builtin | GuardianChoice::Off => {
            let Table { name, token, token_file, certificate, key, authorities, .. } = &table;
            let files = [token_file, certificate, key, authorities];
            if name.is_some() || token.is_some() || files.iter().any(|file| file.is_some()) {
                let message = "it is in this process, and has no name, token or certificates";
                return Err(wrong(message));
            }
            if retry_for.is_some() {
                return Err(wrong("it is in this process, so it is never away (`retry-for`)"));
            }
            return Ok(Guardian::Builtin { fail, timeout });
        }
    };
    let identity = match (table.certificate, table.key) {
        (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
        (None, None) => None,
        (Some(_), None) => return Err(wrong("a `certificate` needs its `key`")),
        (None, Some(_)) => return Err(wrong("a `key` needs its `certificate`")),
    };
    let token = match (&arguments.guardian_token, table.token, table.token_file) {
        (None, Some(_), Some(_)) => {
            return Err(wrong("`token` and `token-file` say the same; one of them is enough"));
        }
        (Some(token), _, _) => Some(Secret::new(token.clone())),
        (None, Some(token), None) => Some(token),
        (None, None, Some(path)) => Some(read_token(&path)?),
        (None, None, None) => None,
    };
    let authorities = table.authorities;
    let config = GuardianConfig::at(HttpEndpoint { url, token, identity, authorities });
    let name = match table.name {
        Some(name) if name == GuardianConfig::BUILTIN => {
            return Err(wrong("`builtin` is the name of the one in this process"));
        }
        Some(name) => name,
        None => config.name.clone(),
    };
    let timeout = timeout.unwrap_or(config.timeout);
    let retry_for = retry_for.unwrap_or(config.retry_for);
    let config = GuardianConfig { name, fail, timeout, retry_for, ..config };
    Ok(Guardian::At(Box::new(config)))
}

fn mode(fail: FailMode) -> executor::FailMode {
    match fail {
        FailMode::Closed => executor::FailMode::Closed,
        FailMode::Open => executor::FailMode::Open,
    }
}

fn timeout(given: SignedDuration) -> Result<Duration, Failure> {
    let time = Duration::try_from(given).ok();
    time.filter(|time| !time.is_zero() && given <= LONGEST_WAIT)
        .ok_or_else(|| wrong("`timeout` is a time of 5 minutes at most, such as \"2s\""))
}

fn retry_for(given: SignedDuration) -> Result<Duration, Failure> {
    let time = Duration::try_from(given).ok();
    time.filter(|_| given <= LONGEST_RETRY)
        .ok_or_else(|| wrong("`retry-for` is a time of 1 minute at most, such as \"3s\""))
}

pub(crate) fn read_token(path: &Path) -> Result<Secret, Failure> {
    let unreadable = |error: &std::io::Error| wrong(format!("{}: {error}", path.display()));
    let length = std::fs::metadata(path).map_err(|error| unreadable(&error))?.len();
    if length > MAX_TOKEN {
        return Err(wrong(format!("{}: this is too long for a token", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(&error))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(wrong(format!("{}: there is no token in it", path.display())));
    }
    Ok(Secret::new(token))
}

/// How a guardian is told of: without user and password.
fn shown(choice: &GuardianChoice) -> String {
    match choice {
        GuardianChoice::Builtin => GuardianConfig::BUILTIN.to_owned(),
        GuardianChoice::Off => "off".to_owned(),
        GuardianChoice::Url(url) => GuardianConfig::new(url.clone()).name,
    }
}

fn wrong(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Usage, CANNOT_SERVE, message.into())
        .with_hint("docs/guardian.md says how guardians are put in front.")
}

/// The failure of a policy file that a guardian cannot use, with every error in it.
pub(crate) fn policy_failure(path: &Path, faults: &PolicyErrors) -> Failure {
    let message = format!("{} has {}", path.display(), count(faults.0.len(), "fault"));
    let hint = "docs/guardian.md says how policies and cases are written.";
    let failure = Failure::new(Exit::Bad, POLICY, message).with_hint(hint);
    let file = path.display().to_string();
    let diagnostics = faults.0.iter().map(|fault| {
        let number = |at: Option<u64>| at.and_then(|at| usize::try_from(at).ok()).unwrap_or(1);
        let (line, column) = (number(fault.line), number(fault.column));
        Diagnostic {
            code: POLICY.id.to_owned(),
            severity: Severity::Error,
            message: fault.message.clone(),
            path: file.clone(),
            position: Position { line, column },
            hint: None,
            related: Vec::new(),
        }
    });
    Failure { diagnostics: diagnostics.collect(), ..failure }
}

#[cfg(test)]
mod tests;
