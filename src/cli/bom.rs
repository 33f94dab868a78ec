//! The arguments of `a2s bom`.

use std::path::PathBuf;

use clap::Args;

pub(super) const AFTER_BOM: &str = "\
The bill of materials is CycloneDX 1.6 in JSON: the capability, all its dependencies by checksum, the
tools, and the services that they use. The same capabilities give the same bytes.

Exit codes:
  0  written
  1  the document has errors, or a dependency is missing
  2  usage error
  4  the registry was needed, and does not respond";

#[derive(Debug, Args)]
pub(crate) struct BomArgs {
    #[arg(help = "NAME[@RANGE], a file, or - for standard input")]
    pub(crate) target: String,
    /// Take its dependencies from the documents of a folder, not from the registry
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Write the bill of materials into a file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Include the creation time; then each bill of materials is different
    #[arg(long)]
    pub(crate) timestamp: bool,
}
