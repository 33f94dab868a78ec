//! The arguments of `a2s test`.

use clap::Args;

pub(super) const AFTER_TEST: &str = "\
The command sends nothing: each request gets the response of the example for its step, or one
generated from the declaration of the operation. Targets can use each other as dependencies; other
dependencies come from the registry.

Exit codes:
  0  every example passed
  1  an example failed, or a document has errors; with --require-examples: a document has no examples
  2  usage error
  4  the registry was needed, and does not respond";

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
    /// Report documents without examples as bad, too
    #[arg(long)]
    pub(crate) require_examples: bool,
}
