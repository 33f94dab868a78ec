//! "Did you mean" for names of capabilities that are not published.

use a2s::did_you_mean;
use agent::RemoteRegistry;

use crate::cli_error::CliError;
use crate::client::ServiceClient;

/// The codes of registry and executor for a name that is not published.
const NOT_PUBLISHED: [&str; 2] = ["A2S220", "A2S312"];
/// The maximum number of pages of names that are searched.
const MAX_PAGES: usize = 40;

/// Adds a suggestion to an error about a name that is not published: the name that was probably meant.
/// Returns other errors unchanged.
pub(super) async fn with_suggestion(
    failure: CliError,
    client: impl FnOnce() -> Result<ServiceClient, CliError>,
) -> CliError {
    if failure.is_printed || !NOT_PUBLISHED.contains(&failure.code.as_str()) {
        return failure;
    }
    // Every message of these codes has the name in quotes first.
    let Some(wanted) = failure.message.split('`').nth(1).map(str::to_owned) else { return failure };
    let Ok(client) = client() else { return failure };
    match closest(&wanted, client).await {
        Some(close) if close != wanted => failure.with_hint(format!("Did you mean `{close}`?")),
        Some(_) | None => failure,
    }
}

/// Returns the published name that is most similar to `wanted`, if one is similar enough.
async fn closest(wanted: &str, client: ServiceClient) -> Option<String> {
    let registry = RemoteRegistry::new(client);
    let mut names: Vec<String> = Vec::new();
    let mut after: Option<String> = None;
    for _ in 0..MAX_PAGES {
        // A hint is not worth a second failure.
        let page = registry.list(after.as_deref()).await.ok()?;
        names.extend(page.capabilities.iter().map(|one| one.name.to_string()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    did_you_mean(wanted, names.iter().map(String::as_str)).map(str::to_owned)
}
