//! The arguments of `a2s backup` and `a2s restore`.

use std::path::PathBuf;

use clap::Args;

pub(super) const AFTER_BACKUP: &str = "\
Services can keep running. The backup has documents, runs, the audit log, the owner's token and
the key for stored credentials, if it is in a file; keep it as secret as the data folder. The search
index is left out: the registry rebuilds it from the documents. For PostgreSQL or another key, see
docs/operations.md.

Example:
  a2s backup /backups/2026-11-25";

pub(super) const AFTER_RESTORE: &str = "\
The command checks files, checksums, journals and the audit chain before it creates the data folder.
Unfinished runs then wait for a person: the requests that they sent after the backup are unknown
(`a2s runs --status waiting`).

Example:
  a2s restore /backups/2026-11-25 --data-dir ./data";

/// The folder of a copy, present or future.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The folder of the copy
    pub(crate) dir: PathBuf,
}
