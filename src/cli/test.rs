//! The arguments of `a2s test`.

use clap::Args;

pub(super) const AFTER_TEST: &str = "\
Nothing is sent: each request gets the answer that the example has for its step, or else one that is
made up from what the operation declares. Documents among the targets are used by the others; for
what is not among them the registry is asked.

Exit codes:
  0  every example passed
  1  one failed, or a document has errors; with --require-examples: one has none
  2  usage error
  4  the registry was needed, and does not answer";

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    #[arg(
        required = true,
        value_name = "TARGET",
        help = "Files, folders (every .yaml, .yml and .json below), - for standard input, or NAME[@RANGE]"
    )]
    pub(crate) targets: Vec<String>,
    /// Only run examples with TEXT in their capability or title
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// A document without examples is bad, too
    #[arg(long)]
    pub(crate) require_examples: bool,
}
