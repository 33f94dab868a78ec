//! The arguments of `a2s trust`.

use clap::Subcommand;

pub(super) const AFTER_TRUST: &str = "\
The executor remembers the checksum that each version had in its first run or plan. It rejects
a version with another checksum with A2S395, and sends nothing.

Examples:
  a2s trust list
  a2s trust accept GetWeather@1.2.0 --checksum sha256:…
  a2s trust forget GetWeather@1.2.0";

/// The commands for remembered checksums.
#[derive(Debug, Subcommand)]
pub(crate) enum TrustCommand {
    /// List the checksums that the executor remembers
    List,
    /// Accept another checksum for a version
    Accept {
        #[arg(help = "NAME@VERSION")]
        target: String,
        /// The checksum that the executor accepts for the version from now on
        #[arg(long)]
        checksum: a2s::Digest,
    },
    /// Remove the remembered checksum of a version; the executor remembers the checksum of the next run or
    /// plan
    Forget {
        #[arg(help = "NAME@VERSION")]
        target: String,
    },
}
