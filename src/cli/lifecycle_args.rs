//! The arguments of `a2s yank`, `unyank`, `deprecate`, `owners`, `tokens`, `audit`, `usage` and `mirror`.

use std::path::PathBuf;

use a2s::CapabilityName;
use a2s_api::SuccessorRef;
use a2s_api::{TokenScope, TokenSubject, UsageUnit};
use clap::{Args, Subcommand};
use jiff::SignedDuration;
use url::Url;

pub(super) const AFTER_TOKENS: &str = "\
Scopes:
  publish  publish under free or own names; yank, deprecate, change owners
  execute  plan, start, read and cancel runs, talk with the agent
  admin    tokens, credentials, the audit, and the names of others
  delegate name the end user of a request
  service  another service: look up tokens, report outcomes
  guard    call a guardian

You can create a token only with scopes that your own token has.

The owner's token in the data folder has all scopes. The list does not contain it.
Pass a token to a command as A2S_TOKEN.";

pub(super) const AFTER_MIRROR: &str = "\
The copies go to the registry at --url. The command compiles every document and computes its checksum
again; it reports and skips a document that differs from the list of the other registry. The data
folder contains its position, so that it continues there after a restart.

A mirror needs a token with the scope publish, without admin: it can change only what
it has copied itself. Create a token, and pass it as A2S_TOKEN:
  a2s tokens create mirror --scope publish --expires 90d

Exit codes:
  0  everything is copied (without --once: ended by Ctrl-C)
  1  a change was rejected, or the other address is not a registry
  4  a registry does not respond";

#[derive(Debug, Args)]
pub(crate) struct YankArgs {
    #[arg(help = "NAME@VERSION")]
    pub(crate) target: String,
    /// Yank the version even if published versions break
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeprecateArgs {
    #[arg(help = "NAME@VERSION")]
    pub(crate) target: String,
    /// The replacement: NAME or NAME@RANGE
    #[arg(long, value_name = "NAME@RANGE", value_parser = parse_successor)]
    pub(crate) successor: Option<SuccessorRef>,
    /// The reason, or what to do about it
    #[arg(long, short)]
    pub(crate) message: Option<String>,
    /// Remove the deprecation
    #[arg(long, conflicts_with_all = ["successor", "message"])]
    pub(crate) undo: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OwnersArgs {
    /// The capability
    pub(crate) name: CapabilityName,
    #[command(flatten)]
    pub(crate) change: OwnerChangeArgs,
}

/// The change of the owners: at most one of these flags.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct OwnerChangeArgs {
    /// Add an owner, who may publish, too: the name of a token, or `owner`
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) add: Option<TokenSubject>,
    /// Remove an owner
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) remove: Option<TokenSubject>,
    /// Make this the only owner
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) transfer: Option<TokenSubject>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// Make a token, and show it once
    Create {
        /// The name of the token's holder
        name: TokenSubject,
        /// Its scopes: publish, execute, admin, delegate, service, guard
        #[arg(long = "scope", required = true, value_name = "SCOPE", value_delimiter = ',')]
        scopes: Vec<TokenScope>,
        /// The lifetime of the token: 90d, 12h; without this flag the token does not expire
        #[arg(long, value_parser = parse_life)]
        expires: Option<SignedDuration>,
        /// Write the token to a file that only you can read, and not to standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// List tokens with their names and scopes
    List,
    /// Revoke a token: services do not accept it any more
    Revoke {
        /// The name of the token
        name: TokenSubject,
    },
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: Option<RegistryAuditCommand>,
    /// Only entries about this capability
    pub(crate) name: Option<CapabilityName>,
    /// The most entries, the newest first
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Only entries older than the one with this number
    #[arg(long, value_name = "NUMBER")]
    pub(crate) before: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RegistryAuditCommand {
    /// Remove old entries; publishes, and the last change of each version, stay
    Trim {
        /// The age of the entries that are removed: 90d, 12h
        #[arg(long, value_name = "AGE", value_parser = parse_life)]
        older_than: SignedDuration,
    },
}

#[derive(Debug, Args)]
pub(crate) struct MirrorArgs {
    /// The address of the other registry
    #[arg(required_unless_present = "list")]
    pub(crate) source: Option<Url>,
    /// Show the registries that this one has copies of, and copy nothing
    #[arg(long, conflicts_with = "source")]
    pub(crate) list: bool,
    /// A file with a token for the other registry
    #[arg(long, value_name = "FILE")]
    pub(crate) source_token_file: Option<PathBuf>,
    /// Stop when all existing changes are copied
    #[arg(long)]
    pub(crate) once: bool,
    /// Start from the beginning: changes that were refused before are tried again
    #[arg(long)]
    pub(crate) again: bool,
    /// The maximum number of changes before the command stops
    #[arg(long, default_value_t = 1_000_000, value_name = "NUMBER")]
    pub(crate) most: u64,
}

fn parse_successor(text: &str) -> Result<SuccessorRef, String> {
    text.parse()
}

#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// The age of the oldest runs that are counted: 7d, 24h, 90m
    #[arg(long, value_name = "AGE", default_value = "24h", value_parser = parse_life)]
    pub(crate) within: SignedDuration,
    /// The length of an interval: minute, hour or day
    #[arg(long, value_name = "UNIT", default_value = "hour", value_parser = parse_unit)]
    pub(crate) unit: UsageUnit,
}

fn parse_unit(text: &str) -> Result<UsageUnit, String> {
    let unit = UsageUnit::ALL.into_iter().find(|unit| unit.as_str() == text);
    unit.ok_or_else(|| "write minute, hour or day".to_owned())
}

/// Parses a duration. A day has 24 hours, because a token does not depend on a calendar.
fn parse_life(text: &str) -> Result<SignedDuration, String> {
    let span: jiff::Span = text.parse().map_err(|_| "write it as 30d, 12h or 90m".to_owned())?;
    let days = jiff::SpanRelativeTo::days_are_24_hours();
    let life = span.to_duration(days).map_err(|error| error.to_string())?;
    if life < SignedDuration::from_secs(1) {
        return Err("a token must be valid for at least one second".to_owned());
    }
    Ok(life)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_read_as_people_write_them() {
        for (text, seconds) in
            [("30d", 2_592_000), ("12h", 43_200), ("1h30m", 5_400), ("2w", 1_209_600)]
        {
            assert_eq!(parse_life(text), Ok(SignedDuration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "30", "-1d", "0s", "1mo", "soon"] {
            assert!(parse_life(bad).is_err(), "{bad}");
        }
    }
}
