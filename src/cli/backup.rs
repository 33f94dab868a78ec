//! The arguments of `a2s backup` and `a2s restore`.

use std::path::PathBuf;

use clap::Args;

pub(super) const AFTER_BACKUP: &str = "\
Services may run meanwhile. The copy has the documents, the runs, the audit log, the owner's token and
the key for stored credentials, when it is in a file; keep it as secret as the data folder. The search
index is left out: it is built again from the documents. With PostgreSQL or a key elsewhere, see
docs/operations.md.

Example:
  a2s backup /backups/2026-11-25";

pub(super) const AFTER_RESTORE: &str = "\
Every file, checksum, journal and the chain of the audit log are checked before the data folder is there.
Runs that had not ended wait for a person then: what they have sent since is not known
(`a2s runs --status waiting`).

Example:
  a2s restore /backups/2026-11-25 --data-dir ./data";

/// The folder of a copy, present or future.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The folder of the copy
    pub(crate) dir: PathBuf,
}
