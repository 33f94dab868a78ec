//! `a2s owners`: who may publish under a name.

use a2s_api::{OwnerList, OwnerUpdate};

use crate::cli::{OwnerChangeArgs, OwnersArgs};
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::output::{CommandOutput, NAME};

pub(super) async fn owners(
    arguments: OwnersArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let OwnersArgs { name, change: OwnerChangeArgs { add, remove, transfer } } = arguments;
    let path = ["v1", "capabilities", name.as_str(), "owners"];
    let change = match (add, remove, transfer) {
        (Some(subject), _, _) => Some(OwnerUpdate::Add(subject)),
        (None, Some(subject), _) => Some(OwnerUpdate::Remove(subject)),
        (None, None, transfer) => transfer.map(OwnerUpdate::Transfer),
    };
    let answer: OwnerList = match change {
        Some(change) => client.post(&path, &change).await?,
        None => client.get(&path).await?,
    };
    if output.is_json() {
        output.json_line(&answer);
        return Ok(());
    }
    output.line(format_args!("{NAME}{}{NAME:#} belongs to", answer.name));
    for owner in &answer.owners {
        output.line(format_args!("  {owner}"));
    }
    Ok(())
}
