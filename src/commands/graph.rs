//! `a2s graph`: how capabilities hang together.

mod draw;

use std::collections::BTreeSet;

use a2s_api::{CapabilityGraph, CompatibleIo, GraphEdge, PrerequisiteSearch, YankImpact};
use reqwest::Method;

use super::version_spec::VersionSpec;
use crate::cli::GraphArgs;
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::output::{BAD, BOLD, CommandOutput, DIM, GOOD, NAME, WARN, sanitize};

pub(super) async fn graph(
    arguments: &GraphArgs,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let VersionSpec { name, range } = VersionSpec::parse(&arguments.capability)?;
    let range = range.as_deref().unwrap_or("latest");
    let path = ["v1", "capabilities", name.as_str(), range, "graph"];
    let (depth, impact) = (arguments.depth.to_string(), arguments.impact.to_string());
    let query = [("depth", &depth), ("impact", &impact)];
    let graph: CapabilityGraph =
        client.json(client.request(Method::GET, &path).query(&query)).await?;
    if arguments.dot {
        output.raw(&draw::dot(&graph));
    } else if arguments.mermaid {
        output.raw(&draw::mermaid(&graph));
    } else if output.is_json() {
        output.json_line(&graph);
    } else {
        print(&graph, output);
    }
    Ok(())
}

fn print(graph: &CapabilityGraph, output: &mut CommandOutput) {
    let yanked = graph.nodes.iter().any(|node| node.id == graph.root && node.yanked);
    let yanked = if yanked { "  yanked" } else { "" };
    output.line(format_args!("{NAME}{}{NAME:#}{WARN}{yanked}{WARN:#}", graph.root));
    print_tree("uses", graph, true, output);
    print_tree("used by", graph, false, output);
    output.line(format_args!("  {BOLD}services{BOLD:#}"));
    for service in &graph.services {
        let named: Vec<_> = service.capabilities.iter().map(a2s::CapabilityName::as_str).collect();
        let more = if service.total > named.len() as u64 + 1 { ", …" } else { "" };
        let with = if named.is_empty() { "no others" } else { "also" };
        let (host, named) = (&service.host, named.join(", "));
        output.line(format_args!("    {host}  {DIM}{with}{DIM:#} {named}{more}"));
    }
    print_compatible("can feed", &graph.consumers, output);
    print_compatible("can be fed by", &graph.producers, output);
    print_prerequisites(&graph.prerequisites, output);
    if let Some(impact) = &graph.impact {
        print_impact("if it were yanked", impact, output);
    }
    if graph.truncated {
        output.line(format_args!("{DIM}the list is not complete{DIM:#}"));
    }
}

fn print_tree(heading: &str, graph: &CapabilityGraph, is_down: bool, output: &mut CommandOutput) {
    let mut printed = BTreeSet::from([graph.root.as_str()]);
    let lines = tree_lines(graph, &graph.root, is_down, 2, &mut printed);
    let none = match (lines.is_empty(), is_down) {
        (false, _) => "",
        (true, true) => "  nothing",
        (true, false) => "  nobody",
    };
    output.line(format_args!("  {BOLD}{heading}{BOLD:#}{DIM}{none}{DIM:#}"));
    lines.iter().for_each(|line| output.line(format_args!("{line}")));
}

/// Returns the lines below a node. A node that was listed before is not followed again.
fn tree_lines<'g>(
    graph: &'g CapabilityGraph,
    at: &str,
    is_down: bool,
    depth: usize,
    printed: &mut BTreeSet<&'g str>,
) -> Vec<String> {
    let mut lines = Vec::new();
    let indent = "  ".repeat(depth);
    for edge in &graph.edges {
        let (near, far) = match is_down {
            true => (Some(&edge.from), edge.to.as_ref()),
            false => (edge.to.as_ref(), Some(&edge.from)),
        };
        if near.is_none_or(|near| near != at) {
            continue;
        }
        let how = describe_edge(edge);
        let Some(far) = far else {
            lines.push(format!(
                "{indent}{BAD}{}{BAD:#}  {DIM}{how}{DIM:#}  no matching version",
                edge.uses
            ));
            continue;
        };
        let is_new = printed.insert(far);
        let again = if is_new { "" } else { "  …" };
        lines.push(format!("{indent}{far}  {DIM}{how}{again}{DIM:#}"));
        if is_new {
            lines.extend(tree_lines(graph, far, is_down, depth + 1, printed));
        }
    }
    lines
}

fn describe_edge(edge: &GraphEdge) -> String {
    let pinned = if edge.pinned { " pinned" } else { "" };
    format!("{}{pinned}", edge.range)
}

fn print_compatible(heading: &str, feeds: &[CompatibleIo], output: &mut CommandOutput) {
    let lines = feeds.iter().map(|feed| {
        let CompatibleIo { capability, output: given, input, .. } = feed;
        let kind = feed.output_type.as_deref().or(feed.input_type.as_deref()).unwrap_or("any type");
        let (given, input) = (sanitize(given), sanitize(input));
        format!("{capability}  {given} → {input}  {DIM}{kind}{DIM:#}")
    });
    print_section(heading, lines, output);
}

fn print_prerequisites(searches: &[PrerequisiteSearch], output: &mut CommandOutput) {
    let lines = searches.iter().map(|search| {
        let PrerequisiteSearch { capability, input, .. } = search;
        format!("{capability}  id → {}", sanitize(input))
    });
    print_section("needs an id from", lines, output);
}

/// Prints lines below a heading; nothing without lines.
fn print_section(
    heading: &str,
    lines: impl ExactSizeIterator<Item = String>,
    output: &mut CommandOutput,
) {
    if lines.len() == 0 {
        return;
    }
    output.line(format_args!("  {BOLD}{heading}{BOLD:#}"));
    lines.for_each(|line| output.line(format_args!("    {line}")));
}

pub(super) fn print_impact(heading: &str, impact: &YankImpact, output: &mut CommandOutput) {
    output.line(format_args!("  {BOLD}{heading}{BOLD:#}"));
    for broken in &impact.broken {
        output.line(format_args!("    {BAD}breaks{BAD:#}  {}", broken.id));
        for why in &broken.because {
            output.line(format_args!("            {DIM}{}{DIM:#}", sanitize(why)));
        }
    }
    for moved in &impact.changed {
        let instead = moved.replacements.iter().map(|pin| format!("{}@{}", pin.name, pin.version));
        let instead = instead.collect::<Vec<_>>().join(", ");
        output
            .line(format_args!("    {WARN}moves{WARN:#}   {}  {DIM}to {instead}{DIM:#}", moved.id));
    }
    for id in &impact.pinned {
        output.line(format_args!("    {GOOD}keeps{GOOD:#}   {id}  {DIM}by a pin{DIM:#}"));
    }
    if *impact == YankImpact::default() {
        output.line(format_args!("    {GOOD}nothing{GOOD:#} depends on it"));
    }
}
