//! The command `a2s`: the only crate that reads arguments, environment and clock, and prints.
//!
//! Its commands are thin: [`a2s`] compiles documents, the services answer everything about published
//! capabilities and runs over HTTP, and `up`, `serve` and `demo` run the services of [`registry`],
//! [`executor`] and [`guardian`] on a listener.

mod cli;
mod cli_error;
mod client;
mod clock;
mod commands;
mod errors;
mod output;
mod publish_order;
mod serve;
mod settings;

pub use crate::cli::configuration_markdown;
pub use crate::errors::markdown as error_codes_markdown;

use std::process::ExitCode;

use clap::Parser as _;

/// Runs the command with the arguments of this process.
#[must_use]
pub fn main() -> ExitCode {
    match cli::CliArguments::try_parse() {
        Ok(arguments) => commands::run(arguments),
        Err(error) => commands::reject_arguments(&error, std::env::args_os().skip(1)),
    }
}
