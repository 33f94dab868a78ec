//! The arguments of `a2s search`, `a2s services` and `a2s graph`.

use a2s::{Complexity, Domain, Permission, TaskFormat};
use a2s_api::SearchFilters;
use clap::{Args, ValueEnum};
use semver::VersionReq;

pub(crate) const AFTER_SEARCH: &str = "\
The filters include the dependencies of a capability: --read-only requires that the dependencies
are read-only too, and --permission names the permissions that callers have for all of them.

docs/search.md describes the search and the ranking.";

pub(crate) const AFTER_GRAPH: &str = "\
The graph shows the current versions: a range means its newest version that is not
yanked, and a pin means the version with its checksum.

  a2s graph GetWeather --dot | dot -Tsvg > graph.svg
  a2s graph GetWeather@1.2.0 --impact        the capabilities that would break if that version were yanked";

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// The task, in words
    pub(crate) intent: String,
    /// A further intent, with its own result; at most 15
    #[arg(long, value_name = "INTENT")]
    pub(crate) also: Vec<String>,
    /// The most hits (1 to 1,000)
    #[arg(long, default_value_t = 10, value_parser = parse_limit)]
    pub(crate) limit: usize,
    /// Continue after the end of a page: its `next`, as --json prints it
    #[arg(long, conflicts_with = "also")]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) strategy: StrategyArgs,
    /// Show how each rank score was calculated
    #[arg(long)]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StrategyArgs {
    /// The strategy for choosing: `highest_score` (default), `most_similar`, `most_reliable`, `most_used`,
    /// `simplest`, `least_privilege`, `healthiest`, or weights and minimum values such as
    /// `relevance=0.7,success_rate=0.3,score>=0.4`; give several to fall back through
    #[arg(long)]
    pub(crate) strategy: Vec<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArgs {
    /// Only capabilities that talk to this service; given several times: to one of them
    #[arg(long, visible_alias = "service", value_name = "HOST")]
    pub(crate) domain: Vec<Domain>,
    /// A permission that you have; the search leaves out capabilities that need other permissions
    #[arg(long, value_name = "PERMISSION")]
    pub(crate) permission: Vec<Permission>,
    /// You have no permissions
    #[arg(long, conflicts_with = "permission")]
    pub(crate) no_permissions: bool,
    /// Only capabilities that change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Only capabilities with a task in this format; given several times: in one of them
    #[arg(long, value_enum, ignore_case = true)]
    pub(crate) format: Vec<FormatName>,
    /// The highest complexity of a result
    #[arg(long, value_enum)]
    pub(crate) max_complexity: Option<ComplexityName>,
    /// Only capabilities with this author: a name, an organization or an account on GitHub
    #[arg(long)]
    pub(crate) author: Option<String>,
    /// Only capabilities with a live version in this range: ^1.2
    #[arg(long, value_name = "RANGE")]
    pub(crate) version: Option<VersionReq>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    #[value(name = "openapi")]
    OpenApi,
    #[value(name = "graphql")]
    Graphql,
    #[value(name = "mcp")]
    Mcp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ComplexityName {
    Low,
    Medium,
    High,
}

impl FilterArgs {
    /// Converts the arguments to filters; none when no filter is set.
    pub(crate) fn into_filters(self) -> Option<SearchFilters> {
        let held = !self.permission.is_empty() || self.no_permissions;
        let filters = SearchFilters {
            domains: self.domain.into_iter().map(String::from).collect(),
            permissions: held.then_some(self.permission),
            read_only: self.read_only,
            formats: self
                .format
                .into_iter()
                .map(|format| match format {
                    FormatName::OpenApi => TaskFormat::OpenApi,
                    FormatName::Graphql => TaskFormat::Graphql,
                    FormatName::Mcp => TaskFormat::Mcp,
                })
                .collect(),
            max_complexity: self.max_complexity.map(|most| match most {
                ComplexityName::Low => Complexity::Low,
                ComplexityName::Medium => Complexity::Medium,
                ComplexityName::High => Complexity::High,
            }),
            author: self.author,
            version: self.version,
        };
        (filters != SearchFilters::default()).then_some(filters)
    }
}

#[derive(Debug, Args)]
pub(crate) struct ServicesArgs {
    /// The task, in words: the services that can do it, best first
    pub(crate) intent: Option<String>,
    /// Show everything about one service: the capabilities that talk to it
    #[arg(long, conflicts_with = "intent")]
    pub(crate) host: Option<Domain>,
    /// The most results (1 to 1,000; with INTENT, to 100)
    #[arg(long, default_value_t = 50, value_parser = parse_limit)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) filters: FilterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    #[arg(help = "NAME[@RANGE]")]
    pub(crate) capability: String,
    /// The most steps to other versions (0 to 16)
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(0..=16))]
    pub(crate) depth: u8,
    /// Show which dependents would break, use their fallback or be unaffected if this version were yanked
    #[arg(long)]
    pub(crate) impact: bool,
    /// Print the dependencies in DOT, for Graphviz
    #[arg(long, conflicts_with_all = ["mermaid", "json"])]
    pub(crate) dot: bool,
    /// Print the dependencies as a Mermaid flowchart
    #[arg(long, conflicts_with = "json")]
    pub(crate) mermaid: bool,
}

fn parse_limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit @ 1..=1000) => Ok(limit),
        _ => Err("a number from 1 to 1000".to_owned()),
    }
}
