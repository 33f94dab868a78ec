//! `a2s runs exchanges`: the recorded requests and responses of a run.

use a2s_api::{ExchangeList, RecordedResponse, StepExchange};

use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::commands::run::format_value;
use crate::output::{BAD, BOLD, CommandOutput, DIM, GOOD, NAME, sanitize};

pub(super) async fn show_exchanges(
    run: &str,
    step: Option<&str>,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let mut list: ExchangeList = client.get(&["v1", "executions", run, "exchanges"]).await?;
    if let Some(step) = step {
        list.exchanges.retain(|exchange| exchange.step == step);
    }
    if output.is_json() {
        output.json_line(&list);
        return Ok(());
    }
    if list.exchanges.is_empty() {
        output.note(format_args!("{DIM}no request of it was recorded{DIM:#}"));
    }
    for StepExchange { step, operation, inputs, response } in &list.exchanges {
        output.line(format_args!(
            "{BOLD}{}{BOLD:#}  {NAME}{}{NAME:#}",
            sanitize(step),
            sanitize(operation)
        ));
        for (location, value) in inputs {
            output.line(format_args!("  {} = {}", sanitize(location), format_value(value)));
        }
        match response {
            Some(response) => print_response(response, output),
            None => output.line(format_args!("  {BAD}no response{BAD:#}")),
        }
    }
    Ok(())
}

fn print_response(response: &RecordedResponse, output: &mut CommandOutput) {
    let RecordedResponse { status, headers, body, left_out_bytes } = response;
    if let Some(bytes) = left_out_bytes {
        return output.line(format_args!("  {DIM}response of {bytes} bytes, not recorded{DIM:#}"));
    }
    if let Some(status) = status {
        let style = if *status < 400 { GOOD } else { BAD };
        output.line(format_args!("  {style}{status}{style:#}"));
    }
    for (name, value) in headers {
        output.line(format_args!("  {DIM}{}: {}{DIM:#}", sanitize(name), sanitize(value)));
    }
    if let Some(body) = body {
        output.line(format_args!("  {}", format_value(body)));
    }
}
