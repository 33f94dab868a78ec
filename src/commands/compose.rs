//! `a2s compose`: a chain of capabilities for what none does alone.

use agent::Registry;
use agent::compose::{ChainProposal, compose as propose, gather};
use serde_json::json;

use crate::cli::ComposeArgs;
use crate::cli_error::{Exit, Failure, NO_CHAIN};
use crate::client::Client;
use crate::commands::publish_one;
use crate::output::{BOLD, DIM, GOOD, NAME, Output, plain};

pub(super) async fn compose(
    arguments: ComposeArgs,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let ComposeArgs { intent, author, publish } = arguments;
    let requests = gather(&Registry::new(client.clone()), &intent).await?;
    if requests.is_empty() {
        let message = "this does not ask for two to four things";
        return Err(Failure::new(Exit::Bad, NO_CHAIN, message)
            .with_hint("`a2s search` finds what does one thing; say what shall be done, one after another: \"get a joke and tweet it\"."));
    }
    let proposals = propose(&requests, &author);
    let Some(best) = proposals.first() else {
        let message = "nothing that is published for one part gives what the next one takes";
        return Err(Failure::new(Exit::Bad, NO_CHAIN, message)
            .with_hint("Say what goes where (\"tweet it\", \"the weather in its capital\"); `a2s graph NAME` tells what can feed what."));
    };
    let published = match publish {
        true => Some(publish_one(best.text.as_bytes(), client).await?),
        false => None,
    };
    if output.is_json() {
        output.json_line(&json!({"proposals": proposals, "published": published}));
        return Ok(());
    }
    print(best, output);
    if let Some(answer) = published {
        let word = if answer.created { "published" } else { "unchanged" };
        output.note(format_args!(
            "{GOOD}{word}{GOOD:#} {} {}  {}",
            answer.name, answer.version, answer.checksum
        ));
    }
    Ok(())
}

/// The document, which can be redirected into a file; why it is so stands beside it.
fn print(proposal: &ChainProposal, output: &mut Output) {
    output.note(format_args!("{BOLD}{}{BOLD:#}", proposal.name));
    for link in &proposal.links {
        output.note(format_args!(
            "  {NAME}{}{NAME:#}.{} -> {NAME}{}{NAME:#}.{}  {DIM}{:.2}, {}{DIM:#}",
            link.from,
            plain(&link.outputs.join("+")),
            link.to,
            plain(&link.input),
            link.sure,
            plain(&link.because)
        ));
    }
    output.raw(&proposal.text);
}
