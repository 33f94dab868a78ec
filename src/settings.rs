//! The settings of the services: flags over environment variables over the TOML file over defaults.
//!
//! A setting is one field of one struct. `clap` makes its flag and variable of the field, `serde` its key in
//! the file, and the comment is its help and its row in `docs/configuration.md`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use a2s::Secret;
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use serde::de::value::Error as ValueError;
use serde::de::{DeserializeOwned, IntoDeserializer, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use toml::de::DeTable;
use url::Url;

use crate::cli_error::{CANNOT_SERVE, CliError, CliExitCode};

/// Declares settings that flags, variables and the file give. A value of the flags or variables has priority
/// over one of the file ([`Layer`]).
macro_rules! settings {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$attribute:meta])* $field_vis:vis $field:ident: $type:ty,)*
    }) => {
        #[derive(Debug, Default, clap::Args, serde::Deserialize)]
        #[serde(default, rename_all = "kebab-case")]
        $(#[$meta])*
        $vis struct $name {
            $($(#[$attribute])* $field_vis $field: $type,)*
        }

        impl $crate::settings::Layer for $name {
            fn over(self, file: Self) -> Self {
                Self { $($field: self.$field.over(file.$field),)* }
            }
        }
    };
}

mod agent;
mod config_error;
mod embedder;
mod executor;
mod guardian;
mod guarding;
#[cfg(feature = "keyring")]
mod keyring;
mod process;
mod qdrant;
mod registry;
mod telemetry;
mod tokens;

pub(crate) use self::agent::{
    AgentConfig, AgentSettings, ModelConfig, RemoteAddress, RemoteServices,
};
pub(crate) use self::executor::{ExecutorSettings, executor_config};
pub(crate) use self::guardian::{GuardianSettings, has_policy_files, policy_failure};
pub(crate) use self::guarding::{GuardianChoice, GuardianSelection, GuardingSettings};
pub(crate) use self::process::{ConnectionLimits, LogFormat, ProcessConfig, ProcessSettings};
pub(crate) use self::registry::{DatabaseSettings, RegistrySettings, run_database};
pub(crate) use self::tokens::{
    RegistryAccess, RegistryAccessSettings, ServiceTokenSettings, check_not_owner, is_given,
    read_token,
};

/// A setting, or settings, from the flags and variables.
trait Layer {
    /// Combines the setting with the same one of the file: the file counts where this one is not set. Lists
    /// have the entries of both.
    #[must_use]
    fn over(self, file: Self) -> Self;
}

impl<T> Layer for Option<T> {
    fn over(self, file: Self) -> Self {
        self.or(file)
    }
}

impl Layer for bool {
    fn over(self, file: Self) -> Self {
        self || file
    }
}

impl<T: ListEntry> Layer for Vec<T> {
    fn over(mut self, mut file: Self) -> Self {
        if T::FOLLOWS_FILE {
            file.extend(self);
            file
        } else {
            self.extend(file);
            self
        }
    }
}

/// An entry of a list.
trait ListEntry {
    /// True when the entries of flags come after those of the file. Of the entries for one name, the last
    /// has priority.
    const FOLLOWS_FILE: bool = false;
}

impl ListEntry for String {}

impl ListEntry for RemoteAddress {
    const FOLLOWS_FILE: bool = true;
}

impl<K, V> ListEntry for (K, V) {
    const FOLLOWS_FILE: bool = true;
}

/// The TOML file. Every service accepts the keys of all services.
#[derive(Debug, Default)]
pub(crate) struct SettingsFile {
    pub(crate) process: ProcessSettings,
    pub(crate) guarding: GuardingSettings,
    pub(crate) guardian: GuardianSettings,
    pub(crate) registry_access: RegistryAccessSettings,
    pub(crate) service_token: ServiceTokenSettings,
    pub(crate) database: DatabaseSettings,
    pub(crate) registry: RegistrySettings,
    pub(crate) executor: ExecutorSettings,
    pub(crate) agent: AgentSettings,
}

/// The part of the file with the section `[agent]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentSection {
    agent: AgentSettings,
}

impl SettingsFile {
    /// Reads the file that a flag names; without a file, all settings are empty.
    pub(crate) fn read(path: Option<&Path>) -> Result<Self, CliError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let text =
            std::fs::read_to_string(path).map_err(|error| CliError::file_error(path, &error))?;
        Self::parse(&text).map_err(|fault| settings_error(format!("{}:{fault}", path.display())))
    }

    /// Parses the text of a file. The error has its position and no value of the file.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut keys = Vec::new();
        let file = Self::parse_parts(text, &mut keys)
            .map_err(|error| config_error::describe_error(error.message(), error.span(), text))?;
        match unknown_key(text, &keys) {
            None => Ok(file),
            Some((key, span)) => {
                let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
                let message = format!("unknown field `{key}`, expected one of {}", keys.join(", "));
                Err(config_error::describe_error(&message, Some(span), text))
            }
        }
    }

    /// Each part takes its own keys, which `keys` collects.
    fn parse_parts(text: &str, keys: &mut Vec<&'static str>) -> Result<Self, toml::de::Error> {
        Ok(Self {
            process: parse_part(text, keys)?,
            guarding: parse_part(text, keys)?,
            guardian: parse_part(text, keys)?,
            registry_access: parse_part(text, keys)?,
            service_token: parse_part(text, keys)?,
            database: parse_part(text, keys)?,
            registry: parse_part(text, keys)?,
            executor: parse_part(text, keys)?,
            agent: parse_part::<AgentSection>(text, keys)?.agent,
        })
    }
}

/// Returns a key at the top of the file that is not among `keys`, and its position.
fn unknown_key(text: &str, keys: &[&str]) -> Option<(String, Range<usize>)> {
    let table = DeTable::parse(text).ok()?.into_inner();
    let unknown = table
        .into_iter()
        .map(|(key, _)| key)
        .find(|key| !keys.contains(&key.get_ref().as_ref()))?;
    let span = unknown.span();
    Some((unknown.into_inner().into_owned(), span))
}

fn parse_part<T: DeserializeOwned>(
    text: &str,
    keys: &mut Vec<&'static str>,
) -> Result<T, toml::de::Error> {
    T::deserialize(KeyRecorder { keys, inner: toml::Deserializer::parse(text)? })
}

/// A deserializer that records the keys of the struct that it reads.
struct KeyRecorder<'k, 'de> {
    keys: &'k mut Vec<&'static str>,
    inner: toml::Deserializer<'de>,
}

impl<'de> Deserializer<'de> for KeyRecorder<'_, 'de> {
    type Error = toml::de::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.keys.extend(fields);
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.inner.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Reads a table of the file as the entries that flags add to.
fn entries<'de, K, V, D>(deserializer: D) -> Result<Vec<(K, V)>, D::Error>
where
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(BTreeMap::deserialize(deserializer)?.into_iter().collect())
}

/// A parser of flags with one of some values, each with its help. The values are those that the file accepts
/// as well.
fn choice<T>(values: &'static [(&str, &str)]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let values = values.iter().map(|(name, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(values)
        .try_map(|name| T::deserialize(IntoDeserializer::<ValueError>::into_deserializer(name)))
}

/// A parser of flags with a secret.
pub(crate) fn secret() -> impl TypedValueParser<Value = Secret> {
    StringValueParser::new().map(Secret::new)
}

/// Parses `NAME=VALUE`; the value is a number, or else a text such as `90s`.
fn parse_limit(text: &str) -> Result<(String, toml::Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let value = match value.parse() {
        Ok(number) => toml::Value::Integer(number),
        Err(_) => toml::Value::String(value.to_owned()),
    };
    Ok((name.to_owned(), value))
}

/// Reads limits by name; error messages name the `section`.
fn read_limits<T: DeserializeOwned>(
    section: &str,
    limits: impl IntoIterator<Item = (String, toml::Value)>,
) -> Result<T, CliError> {
    let table: toml::Table = limits.into_iter().collect();
    table.try_into().map_err(|error: toml::de::Error| {
        // The problem, then its key, each on a line.
        let message = format!("`{section}`: {}", error.to_string().trim().replace('\n', " "));
        settings_error(message).with_hint("`docs/limits.md` lists the limits with their defaults.")
    })
}

/// Reads an environment variable with a secret.
#[expect(
    clippy::disallowed_methods,
    reason = "an argument, which others can see, is no place for a key; others are OpenTelemetry's own"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Reads a secret from an environment variable, without the spaces around it.
fn secret_variable(name: &str, variable: impl Fn(&str) -> Option<String>) -> Option<Secret> {
    let value = variable(name)?;
    let value = value.trim();
    (!value.is_empty()).then(|| Secret::new(value))
}

/// Returns the address of a service on this machine.
pub(crate) fn local_url(port: u16, path: &str) -> Result<Url, CliError> {
    Url::parse(&format!("http://127.0.0.1:{port}/{path}"))
        .map_err(|error| CliError::invalid_argument(error.to_string()))
}

/// Creates the error for settings that cannot be used.
fn settings_error(message: impl Into<String>) -> CliError {
    CliError::new(CliExitCode::Usage, CANNOT_SERVE, message.into())
}
