//! The arguments of `a2s doctor`.

use clap::Args;
use url::Url;

pub(super) const AFTER_DOCTOR: &str = "\
Checks this machine, the data folder and the service at --url. It contacts other hosts only if
--resolve or --guardian names them.

Examples:
  a2s doctor
  a2s doctor --resolve api.github.com --guardian https://guardian.example.com/aos

Exit codes:
  0  no errors; there may be warnings
  1  an error must be fixed";

/// The checks beyond this machine.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// A host name that has to resolve; may be given several times
    #[arg(long, value_name = "HOST")]
    pub(crate) resolve: Vec<String>,
    /// A guardian that has to respond; may be given several times
    #[arg(long, value_name = "URL")]
    pub(crate) guardian: Vec<Url>,
}
