//! The arguments of `a2s types`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub(super) const AFTER_TYPES: &str = "\
A program that uses these types does not compile any more when the new version of a capability has other
inputs or outputs. Examples:

  a2s types --lang ts GetCountry PostTweet@1.0.0 --output capabilities.ts
  a2s types --lang python --lock Weather.lock --output capabilities.py
  a2s types --lang go GetCountry --package trips --output capabilities.go --check

Exit codes:
  0  written, or --check found the file as it should be
  1  --check found another text, or a capability cannot be read";

#[derive(Debug, Args)]
pub(crate) struct TypesArgs {
    #[arg(
        value_name = "NAME",
        required_unless_present = "lock",
        help = "NAME[@VERSION] of each capability; the newest version without one"
    )]
    pub(crate) targets: Vec<String>,
    /// The language
    #[arg(long, value_enum)]
    pub(crate) lang: TypesLanguage,
    /// Take the capability of a lock and all its dependencies, in the locked versions
    #[arg(long, value_name = "FILE", conflicts_with = "targets")]
    pub(crate) lock: Option<PathBuf>,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Only check that the file has this text
    #[arg(long, requires = "output")]
    pub(crate) check: bool,
    /// The name of the package in Go
    #[arg(long, value_name = "NAME", default_value = "capabilities", value_parser = parse_package)]
    pub(crate) package: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TypesLanguage {
    #[value(name = "ts", alias = "typescript")]
    TypeScript,
    Python,
    Go,
}

fn parse_package(text: &str) -> Result<String, String> {
    let is_name = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_name { Ok(text.to_owned()) } else { Err("use lower-case letters and digits".to_owned()) }
}
