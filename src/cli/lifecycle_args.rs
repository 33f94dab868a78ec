//! The arguments of `a2s yank`, `unyank`, `deprecate`, `owners`, `tokens`, `audit` and `mirror`.

use std::path::PathBuf;

use a2s::api::SuccessorRef;
use a2s::{CapabilityName, TokenScope, TokenSubject};
use clap::{Args, Subcommand};
use jiff::SignedDuration;
use url::Url;

pub(super) const AFTER_TOKENS: &str = "\
Scopes:
  publish  publish under names that are free or one's own; yank, deprecate, change owners
  execute  plan, start, read and cancel runs, talk with the agent
  admin    tokens, credentials, the audit, and the names of others
  delegate name the end user that a request is made for
  service  another service: ask what tokens open, report outcomes
  guard    ask a guardian

A token can be made with scopes that the maker's own token has.

The owner's token in the data folder opens everything, and is no entry of the list.
Give a token to a command as A2S_TOKEN.";

pub(super) const AFTER_MIRROR: &str = "\
Copies go to the registry that --url names. Every document is compiled and its digest computed
again; one that is not what the other registry said is refused, told, and left out. How far it
came is kept in the data folder, so that it goes on there when it is started again.

A mirror needs a token of the scope publish, and none with admin: it changes names and versions that it
has copied itself, and the registry refuses everything else. Make one, and give it as A2S_TOKEN:
  a2s tokens create mirror --scope publish --expires 90d

Exit codes:
  0  all there was is copied (without --once: ended by Ctrl-C)
  1  something was refused, or the other registry is none
  4  a registry does not answer";

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
    /// The version is not deprecated any more
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

/// At most one of them.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct OwnerChangeArgs {
    /// Let one more publish: the name of a token, or `owner`
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) add: Option<TokenSubject>,
    /// Let one publish no more
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) remove: Option<TokenSubject>,
    /// Let this one alone publish from now on
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
        /// In how long it ends: 90d, 12h; without it the token never ends
        #[arg(long, value_parser = parse_life)]
        expires: Option<SignedDuration>,
    },
    /// List tokens: what they are called and what they open
    List,
    /// Let a token open nothing from now on
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
    pub(crate) source: Url,
    /// A file with a token for the other registry
    #[arg(long, value_name = "FILE")]
    pub(crate) source_token_file: Option<PathBuf>,
    /// Stop when everything that there is was copied
    #[arg(long)]
    pub(crate) once: bool,
    /// Start from the beginning: changes that were refused before are tried again
    #[arg(long)]
    pub(crate) again: bool,
    /// Stop after so many changes
    #[arg(long, default_value_t = 1_000_000, value_name = "NUMBER")]
    pub(crate) most: u64,
}

fn parse_successor(text: &str) -> Result<SuccessorRef, String> {
    text.parse()
}

/// A day has 24 hours here: a token knows no calendar.
fn parse_life(text: &str) -> Result<SignedDuration, String> {
    let span: jiff::Span = text.parse().map_err(|_| "write it as 30d, 12h or 90m".to_owned())?;
    let days = jiff::SpanRelativeTo::days_are_24_hours();
    let life = span.to_duration(days).map_err(|error| error.to_string())?;
    if life < SignedDuration::from_secs(1) {
        return Err("a token lasts a second at least".to_owned());
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
