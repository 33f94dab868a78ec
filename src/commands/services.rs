//! `a2s services`: the hosts that capabilities talk to.

use a2s::{Domain, Permission, TaskFormat};
use a2s_api::{
    SearchLevel, SearchRequest, ServiceCapabilities, ServiceList, ServiceSearchResponse,
    ServiceSummary,
};
use reqwest::Method;

use crate::cli::ServicesArgs;
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::output::{BOLD, CommandOutput, DIM, NAME, WARN, sanitize, shorten};

/// The maximum number of members in one page.
const MAX_PAGE_SIZE: usize = 100;
/// The most characters of the titles of a service in a row.
const MAX_TITLES: usize = 30;

pub(super) async fn services(
    arguments: ServicesArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let ServicesArgs { intent, host, limit, filters } = arguments;
    let filters = filters.into_filters();
    match (intent, host) {
        (Some(intent), _) => {
            let request = SearchRequest {
                intent,
                level: Some(SearchLevel::Services),
                limit: Some(limit.min(MAX_PAGE_SIZE)),
                filters,
                ..SearchRequest::default()
            };
            find(&request, client, output).await
        }
        (None, _) if filters.is_some() => {
            Err(CliError::invalid_argument("filters require an intent".to_owned())
                .with_hint("Add the intent: a2s services INTENT --read-only"))
        }
        (None, Some(host)) => show(&host, limit, client, output).await,
        (None, None) => list(limit, client, output).await,
    }
}

async fn find(
    request: &SearchRequest,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let answer: ServiceSearchResponse = client.post(&["v1", "search"], request).await?;
    if output.is_json() {
        output.json_line(&answer);
        return Ok(());
    }
    for hit in &answer.services {
        let matches: Vec<_> = hit.matches.iter().map(|one| one.name.as_str()).collect();
        let more = if hit.matching_capabilities > matches.len() { ", …" } else { "" };
        output.line(format_args!("{BOLD}{:.2}{BOLD:#}  {}", hit.score, heading(&hit.service)));
        output.line(format_args!("      {}{more}", matches.join(", ")));
        output.line(format_args!("      {DIM}{}{DIM:#}", about(&hit.service)));
    }
    if let Some(message) = &answer.metadata.message {
        output.line(format_args!("{WARN}{}{WARN:#}", sanitize(message)));
    }
    Ok(())
}

async fn list(
    limit: usize,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let mut all = ServiceList { services: Vec::new(), next: None };
    loop {
        let page: ServiceList =
            get(&["v1", "services"], limit - all.services.len(), all.next.as_deref(), client)
                .await?;
        all.next = page.next.filter(|_| !page.services.is_empty());
        all.services.extend(page.services);
        if all.next.is_none() || all.services.len() >= limit {
            break;
        }
    }
    if output.is_json() {
        output.json_line(&all);
        return Ok(());
    }
    let rows = all.services.iter().map(|service| {
        let host = format!("{NAME}{}{NAME:#}", service.host);
        let titles = shorten(&service.titles.join(", "), MAX_TITLES).into_owned();
        vec![host, titles, format!("{DIM}{}{DIM:#}", about(service))]
    });
    output.table(["HOST", "SERVICE", "CAPABILITIES"], &rows.collect::<Vec<_>>());
    if all.services.is_empty() {
        output.line(format_args!("no services"));
    }
    print_more(all.next.is_some(), output);
    Ok(())
}

async fn show(
    host: &Domain,
    limit: usize,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let path = ["v1", "services", host.as_str()];
    let mut all: ServiceCapabilities = get(&path, limit, None, client).await?;
    while all.next.is_some() && all.capabilities.len() < limit {
        let left = limit - all.capabilities.len();
        let page: ServiceCapabilities = get(&path, left, all.next.as_deref(), client).await?;
        all.next = page.next.filter(|_| !page.capabilities.is_empty());
        all.capabilities.extend(page.capabilities);
    }
    if output.is_json() {
        output.json_line(&all);
        return Ok(());
    }
    output.line(format_args!("{}", heading(&all.service)));
    output.line(format_args!("  {DIM}{}{DIM:#}", about(&all.service)));
    for capability in &all.capabilities {
        let (name, version) = (&capability.name, &capability.version);
        let description = sanitize(&capability.description);
        output.line(format_args!("  {NAME}{name}{NAME:#} {version}  {description}"));
    }
    print_more(all.next.is_some(), output);
    Ok(())
}

async fn get<T: serde::de::DeserializeOwned>(
    path: &[&str],
    limit: usize,
    after: Option<&str>,
    client: &ServiceClient,
) -> Result<T, CliError> {
    let limit = limit.min(MAX_PAGE_SIZE).to_string();
    let mut query = vec![("limit", limit.as_str())];
    query.extend(after.map(|after| ("after", after)));
    Ok(client.json(client.request(Method::GET, path).query(&query)).await?)
}

fn heading(service: &ServiceSummary) -> String {
    let titles = service.titles.join(", ");
    format!("{NAME}{}{NAME:#}  {}", service.host, sanitize(&titles))
}

fn about(service: &ServiceSummary) -> String {
    let capabilities = match service.capabilities {
        1 => "1 capability".to_owned(),
        more => format!("{more} capabilities"),
    };
    let formats = service.formats.iter().map(|format: &TaskFormat| format.to_string());
    let mut words: Vec<String> = std::iter::once(capabilities).chain(formats).collect();
    if !service.permissions.is_empty() {
        let needed: Vec<_> = service.permissions.iter().map(Permission::as_str).collect();
        words.push(format!("permissions {}", needed.join(" ")));
    }
    words.join(", ")
}

fn print_more(has_more: bool, output: &mut CommandOutput) {
    if has_more {
        output.line(format_args!("{DIM}there are more: raise --limit{DIM:#}"));
    }
}
