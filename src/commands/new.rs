//! `a2s new`: a document to begin with.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use a2s::CapabilityName;
use a2s_authoring::{StarterTemplate, starter_document, suggest_name};
use serde_json::json;

use crate::cli::NewArgs;
use crate::cli_error::{BAD_ARGUMENT, CliError, CliExitCode};
use crate::output::{CommandOutput, DIM, GOOD};

pub(super) fn new(arguments: &NewArgs, output: &mut CommandOutput) -> Result<(), CliError> {
    let name = CapabilityName::new(&arguments.name).map_err(|error| {
        let hint = match suggest_name(&arguments.name) {
            Some(close) => format!("Did you mean `{close}`?"),
            None => "Write a name such as GetWeather.".to_owned(),
        };
        CliError::invalid_argument(format!(
            "`{}` is not a capability name: {error}",
            arguments.name
        ))
        .with_hint(hint)
    })?;
    let starter = if arguments.starter.graphql {
        StarterTemplate::Graphql
    } else if arguments.starter.sequence {
        StarterTemplate::Sequence
    } else {
        StarterTemplate::OpenApi
    };
    let text = starter_document(&name, starter);
    let file = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.yaml")));
    if file == Path::new("-") {
        output.raw(&text);
        return Ok(());
    }
    // Creates only a file that did not exist: existing content is never lost.
    let created = std::fs::File::options().write(true).create_new(true).open(&file);
    created.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            let message = format!("{} exists already", file.display());
            return CliError::new(CliExitCode::Bad, BAD_ARGUMENT, message)
                .with_hint("Use another file with --out, or remove this file.");
        }
        CliError::file_error(&file, &error)
    })?;
    let shown = file.display();
    if output.is_json() {
        output.json_line(&json!({ "file": shown.to_string(), "name": name }));
    } else {
        output.line(format_args!("{GOOD}new{GOOD:#}   {shown}"));
        output.line(format_args!(
            "{DIM}Replace the example values, then: a2s validate {shown}{DIM:#}"
        ));
    }
    Ok(())
}
