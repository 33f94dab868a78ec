//! The settings of guardians: flags over environment over the TOML file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use a2s::Secret;
use clap::Args;
use executor::{
    ExecutorCertificate, FailMode, FailModes, GuardianConfig, GuardianEndpoint, GuardianHook,
    HttpEndpoint,
};
use jiff::SignedDuration;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use url::Url;

use super::{check_not_owner, choice, read_token, secret};
use crate::cli_error::CliError;
use crate::client::TokenTransport;

/// The maximum timeout for one response of a guardian.
const MAX_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
/// The maximum time for retries while a guardian is unavailable.
const MAX_RETRY_TIME: SignedDuration = SignedDuration::from_mins(1);
/// The hint for all errors in these settings.
pub(super) const HINT: &str = "docs/guardian.md describes how to configure guardians.";

const FAIL_MODES: [(&str, &str); 2] =
    [("closed", "The step is denied"), ("open", "The step passes, and the failure is recorded")];

/// The guardians to ask. Flags choose among the guardians of the file and change all of them, so the two are
/// not combined by field.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct GuardingSettings {
    /// The guardian that is asked around every step: an AOS guardian's URL, builtin (with `up` alone), or
    /// off. Given several times, or with commas between: all of them in this order, until one denies. The
    /// settings of a `[[guardian]]` of the configuration with the same URL apply [default: up builtin,
    /// executor /aos at port 8743 of this machine]
    #[arg(long = "guardian", env = "A2S_GUARDIAN", value_name = "URL", value_delimiter = ',')]
    #[serde(skip)]
    guardians: Vec<GuardianChoice>,
    /// The bearer token of the guardian, if only one has a URL; for several, set the tokens in the
    /// configuration
    #[arg(long, env = "A2S_GUARDIAN_TOKEN", hide_env_values = true, value_parser = secret())]
    #[serde(skip)]
    guardian_token: Option<Secret>,
    #[arg(skip)]
    #[serde(rename = "guardian")]
    tables: GuardianTables,
    /// The action when a guardian does not answer, whatever the configuration says of one or of a hook
    /// [default: closed]
    #[arg(long, env = "A2S_GUARDIAN_FAIL", value_parser = choice::<FailMode>(&FAIL_MODES))]
    guardian_fail: Option<FailMode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum GuardianChoice {
    Builtin,
    Off,
    Url(Url),
}

impl FromStr for GuardianChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "builtin" => Ok(Self::Builtin),
            "off" => Ok(Self::Off),
            text => Url::parse(text)
                .ok()
                .filter(|url| matches!(url.scheme(), "http" | "https"))
                .map(Self::Url)
                .ok_or_else(|| "write `builtin`, `off` or an http(s) URL".to_owned()),
        }
    }
}

impl TryFrom<String> for GuardianChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// The guardians that are asked around every step.
#[derive(Debug, Clone)]
pub(crate) enum GuardianSelection {
    Off,
    /// The guardians in this order; the list has at least one.
    Chain(Vec<ConfiguredGuardian>),
}

#[derive(Debug, Clone)]
pub(crate) enum ConfiguredGuardian {
    /// The guardian of this process.
    Builtin { fail: FailModes, timeout: Option<Duration> },
    /// A guardian at another address. It gets its own token; the owner's token is never sent to it.
    Remote(Box<GuardianConfig>),
}

impl GuardianSelection {
    /// The guardian of this process alone, which fails closed.
    pub(crate) fn builtin() -> Self {
        Self::Chain(vec![ConfiguredGuardian::Builtin {
            fail: FailMode::Closed.into(),
            timeout: None,
        }])
    }

    pub(crate) fn has_builtin(&self) -> bool {
        match self {
            Self::Off => false,
            Self::Chain(guardians) => guardians
                .iter()
                .any(|guardian| matches!(guardian, ConfiguredGuardian::Builtin { .. })),
        }
    }

    /// Checks that the tokens of guardians go over protected connections, and that none of them is the
    /// token of the `owner`.
    pub(crate) fn check_tokens(
        &self,
        transport: TokenTransport,
        owner: &str,
    ) -> Result<(), CliError> {
        let Self::Chain(guardians) = self else { return Ok(()) };
        for guardian in guardians {
            let ConfiguredGuardian::Remote(config) = guardian else { continue };
            let GuardianEndpoint::Http(endpoint) = &config.endpoint else { continue };
            if endpoint.token.is_some() {
                transport
                    .check(&endpoint.url, &format!("the token of guardian {}", config.name))?;
            }
            check_not_owner(endpoint.token.as_ref(), "--guardian-token", owner)?;
        }
        Ok(())
    }

    /// Converts the settings for the executor, where `own` is the guardian of this process. All may be
    /// asked about responses of `max_response_bytes`.
    ///
    /// # Errors
    /// The guardian of this process is among them, and there is none.
    pub(crate) fn into_config(
        self,
        own: Option<&guardian::App>,
        max_response_bytes: usize,
    ) -> Result<executor::GuardianSettings, CliError> {
        let guardians = match self {
            Self::Off => return Ok(executor::GuardianSettings::Off),
            Self::Chain(guardians) => guardians,
        };
        let config = |guardian| match guardian {
            ConfiguredGuardian::Remote(config) => {
                Ok(GuardianConfig { max_response_bytes, ..*config })
            }
            ConfiguredGuardian::Builtin { fail, timeout } => {
                let own =
                    own.ok_or_else(|| CliError::cannot_serve("this process has no guardian"))?;
                let config = GuardianConfig::in_process(Arc::new(own.clone()));
                Ok(GuardianConfig {
                    fail,
                    timeout: timeout.unwrap_or(config.timeout),
                    max_response_bytes,
                    ..config
                })
            }
        };
        let configs = guardians.into_iter().map(config).collect::<Result<_, CliError>>();
        configs.map(executor::GuardianSettings::Chain)
    }
}

/// `guardian` of the TOML file: one guardian as a word, or several as `[[guardian]]` tables.
#[derive(Debug, Default)]
struct GuardianTables(Vec<GuardianTable>);

impl<'de> Deserialize<'de> for GuardianTables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TablesVisitor;

        impl<'de> Visitor<'de> for TablesVisitor {
            type Value = GuardianTables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`builtin`, `off`, an http(s) URL, or [[guardian]] tables")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<GuardianTables, E> {
                let choice = word.parse().map_err(E::custom)?;
                Ok(GuardianTables(vec![GuardianTable::new(choice)]))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<GuardianTables, A::Error> {
                GuardianTable::deserialize(MapAccessDeserializer::new(table))
                    .map(|table| GuardianTables(vec![table]))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut tables: A,
            ) -> Result<GuardianTables, A::Error> {
                let mut section = GuardianTables::default();
                while let Some(table) = tables.next_element()? {
                    section.0.push(table);
                }
                Ok(section)
            }
        }

        deserializer.deserialize_any(TablesVisitor)
    }
}

/// One `[[guardian]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct GuardianTable {
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

impl GuardianTable {
    /// A guardian with its location and no other settings.
    fn new(url: GuardianChoice) -> Self {
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

impl GuardingSettings {
    /// Returns the guardians, `default` when none is named.
    pub(crate) fn resolve(
        &self,
        file: &Self,
        default: GuardianChoice,
    ) -> Result<GuardianSelection, CliError> {
        let GuardianTables(tables) = &file.tables;
        let chosen = match self.guardians.as_slice() {
            [] if tables.is_empty() => vec![GuardianTable::new(default)],
            [] => tables.clone(),
            named => {
                let named = named.iter().map(|choice| {
                    let said = tables.iter().find(|table| table.url == *choice);
                    said.cloned().unwrap_or_else(|| GuardianTable::new(choice.clone()))
                });
                named.collect()
            }
        };
        if chosen.iter().any(|table| table.url == GuardianChoice::Off) {
            return match chosen.len() {
                1 => Ok(GuardianSelection::Off),
                _ => Err(settings_error(
                    "`off` means no guardian, so it cannot be combined with guardians",
                )),
            };
        }
        for (index, table) in chosen.iter().enumerate() {
            if chosen[..index].iter().any(|before| before.url == table.url) {
                return Err(settings_error(format!(
                    "the guardian {} is configured twice",
                    display_name(&table.url)
                )));
            }
        }
        let remote = |table: &&GuardianTable| matches!(table.url, GuardianChoice::Url(_));
        if self.guardian_token.is_some() && chosen.iter().filter(remote).count() > 1 {
            let message =
                "one token for several guardians would give each guardian access to the others";
            return Err(settings_error(message).with_hint(
                "Give each guardian a `token-file` in its `[[guardian]]` of the configuration.",
            ));
        }
        let guardians = chosen.into_iter().map(|table| {
            let name = display_name(&table.url);
            let guardian = build_guardian(table, self, file.guardian_fail);
            guardian.map_err(|failure| CliError {
                message: format!("the guardian {name}: {}", failure.message),
                ..failure
            })
        });
        Ok(GuardianSelection::Chain(guardians.collect::<Result<_, _>>()?))
    }

    /// Returns the guardians of a service without a guardian in its own process.
    pub(crate) fn resolve_remote(
        &self,
        file: &Self,
        default: GuardianChoice,
    ) -> Result<GuardianSelection, CliError> {
        let guardians = self.resolve(file, default)?;
        if guardians.has_builtin() {
            let message = "the builtin guardian is only available in `a2s up`";
            return Err(CliError::invalid_argument(message).with_hint(
                "Start `a2s serve guardian` and give its address: --guardian \
                 http://127.0.0.1:8743/aos",
            ));
        }
        Ok(guardians)
    }
}

fn build_guardian(
    table: GuardianTable,
    flags: &GuardingSettings,
    file_fail: Option<FailMode>,
) -> Result<ConfiguredGuardian, CliError> {
    let fail = match flags.guardian_fail {
        // Who says it when starting means all of it.
        Some(fail) => FailModes::from(fail),
        None => {
            let default = table.fail.or(file_fail).unwrap_or_default();
            let own = table.fail_hooks.iter().map(|(hook, fail)| {
                let hook: GuardianHook =
                    hook.parse().map_err(|error: String| settings_error(error))?;
                Ok((hook, *fail))
            });
            FailModes { default, by_hook: own.collect::<Result<_, CliError>>()? }
        }
    };
    let timeout = table.timeout.map(timeout).transpose()?;
    let retry_for = table.retry_for.map(retry_for).transpose()?;
    let url = match table.url {
        GuardianChoice::Url(url) => url,
        // The caller has excluded `Off`.
        GuardianChoice::Builtin | GuardianChoice::Off => {
            let GuardianTable { name, token, token_file, certificate, key, authorities, .. } =
                &table;
            let files = [token_file, certificate, key, authorities];
            if name.is_some() || token.is_some() || files.iter().any(|file| file.is_some()) {
                let message =
                    "it is in this process, so it must not have a name, token or certificates";
                return Err(settings_error(message));
            }
            if retry_for.is_some() {
                return Err(settings_error(
                    "it is in this process, so it must not have `retry-for`",
                ));
            }
            return Ok(ConfiguredGuardian::Builtin { fail, timeout });
        }
    };
    let identity = match (table.certificate, table.key) {
        (Some(certificate), Some(key)) => Some(ExecutorCertificate { certificate, key }),
        (None, None) => None,
        (Some(_), None) => return Err(settings_error("a `certificate` requires its `key`")),
        (None, Some(_)) => return Err(settings_error("a `key` requires its `certificate`")),
    };
    let token = match (&flags.guardian_token, table.token, table.token_file) {
        (None, Some(_), Some(_)) => {
            return Err(settings_error(
                "`token` and `token-file` cannot be combined; remove one of the two",
            ));
        }
        (Some(token), _, _) => Some(token.clone()),
        (None, Some(token), None) => Some(token),
        (None, None, Some(path)) => Some(read_token(&path)?),
        (None, None, None) => None,
    };
    let authorities = table.authorities;
    let config = GuardianConfig::from_endpoint(HttpEndpoint { url, token, identity, authorities });
    let name = match table.name {
        Some(name) if name == GuardianConfig::BUILTIN => {
            return Err(settings_error("`builtin` is the name of the guardian in this process"));
        }
        Some(name) => name,
        None => config.name.clone(),
    };
    let timeout = timeout.unwrap_or(config.timeout);
    let retry_for = retry_for.unwrap_or(config.retry_for);
    let config = GuardianConfig { name, fail, timeout, retry_for, ..config };
    Ok(ConfiguredGuardian::Remote(Box::new(config)))
}

fn timeout(given: SignedDuration) -> Result<Duration, CliError> {
    let time = Duration::try_from(given).ok();
    time.filter(|time| !time.is_zero() && given <= MAX_TIMEOUT).ok_or_else(|| {
        settings_error("`timeout` must be a time of at most 5 minutes, such as \"2s\"")
    })
}

fn retry_for(given: SignedDuration) -> Result<Duration, CliError> {
    let time = Duration::try_from(given).ok();
    time.filter(|_| given <= MAX_RETRY_TIME).ok_or_else(|| {
        settings_error("`retry-for` must be a time of at most 1 minute, such as \"3s\"")
    })
}

/// The name of a guardian in messages, without user and password.
fn display_name(choice: &GuardianChoice) -> String {
    match choice {
        GuardianChoice::Builtin => GuardianConfig::BUILTIN.to_owned(),
        GuardianChoice::Off => "off".to_owned(),
        GuardianChoice::Url(url) => GuardianConfig::new(url.clone()).name,
    }
}

fn settings_error(message: impl Into<String>) -> CliError {
    super::settings_error(message).with_hint(HINT)
}

#[cfg(test)]
mod tests;
