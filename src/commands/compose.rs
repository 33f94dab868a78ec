//! `a2s compose`: a chain of capabilities for what none does alone.

use agent::RemoteRegistry;
use agent::compose::{ChainProposal, collect_candidates, compose as propose};
use serde_json::json;

use crate::cli::ComposeArgs;
use crate::cli_error::{CliError, CliExitCode, NO_CHAIN};
use crate::client::ServiceClient;
use crate::commands::publish_document;
use crate::output::{BOLD, CommandOutput, DIM, GOOD, NAME, sanitize};

pub(super) async fn compose(
    arguments: ComposeArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let ComposeArgs { intent, author, publish } = arguments;
    let requests = collect_candidates(&RemoteRegistry::new(client.clone()), &intent).await?;
    if requests.is_empty() {
        let message = "the request does not contain two to four tasks, and no capability for it takes an id \
                       that another one finds";
        return Err(CliError::new(CliExitCode::Bad, NO_CHAIN, message)
            .with_hint("For one task, use `a2s search`. Name the tasks one after another: \"get a joke and tweet it\"."));
    }
    let proposals = propose(&requests, &author);
    let Some(best) = proposals.first() else {
        let message =
            "the outputs of the published capabilities do not match the inputs of the next ones";
        return Err(CliError::new(CliExitCode::Bad, NO_CHAIN, message)
            .with_hint("Name the input of each task (\"tweet it\", \"the weather in its capital\"); `a2s graph NAME` lists the matching outputs and inputs."));
    };
    let published = match publish {
        true => Some(publish_document(best.text.as_bytes(), client).await?),
        false => None,
    };
    if output.is_json() {
        output.json_line(&json!({"proposals": proposals, "published": published}));
        return Ok(());
    }
    print_proposal(best, output);
    if let Some(answer) = published {
        let word = if answer.created { "published" } else { "unchanged" };
        output.note(format_args!(
            "{GOOD}{word}{GOOD:#} {} {}  {}",
            answer.name, answer.version, answer.checksum
        ));
    }
    Ok(())
}

/// Prints the document, which can be redirected into a file, and the reasons for it on standard error.
fn print_proposal(proposal: &ChainProposal, output: &mut CommandOutput) {
    output.note(format_args!("{BOLD}{}{BOLD:#}", proposal.name));
    for link in &proposal.links {
        output.note(format_args!(
            "  {NAME}{}{NAME:#}.{} -> {NAME}{}{NAME:#}.{}  {DIM}{:.2}, {}{DIM:#}",
            link.from,
            sanitize(&link.outputs.join("+")),
            link.to,
            sanitize(&link.input),
            link.sure,
            sanitize(&link.because)
        ));
    }
    output.raw(&proposal.text);
}
