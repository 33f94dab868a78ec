//! The arguments of `a2s backup` and `a2s restore`.

use std::path::PathBuf;

use clap::Args;

pub(super) const AFTER_BACKUP: &str = "\
Services can keep running. The backup has documents, runs and the audit log, and the command checks
that it can be restored. It does not have the owner's token, the key for stored credentials
(--with-key) and the search index, which the registry rebuilds. For PostgreSQL, see docs/operations.md.

Examples:
  a2s backup /backups/2026-11-25
  a2s backup /backups/2026-11-25 --with-key /media/safe/secrets.key";

pub(super) const AFTER_RESTORE: &str = "\
The command checks files, checksums, journals and the audit chain before it creates the data folder.
Unfinished runs then wait for a person: the requests that they sent after the backup are unknown
(`a2s runs --status waiting`). The next start creates a new token for the owner.

Examples:
  a2s restore /backups/2026-11-25 --data-dir ./data
  a2s restore /backups/2026-11-25 --data-dir ./data --with-key /media/safe/secrets.key";

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The folder of the copy
    pub(crate) dir: PathBuf,
    /// Copy the key for stored credentials to a new file outside the backup
    #[arg(long, value_name = "FILE")]
    pub(crate) with_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The folder of the copy
    pub(crate) dir: PathBuf,
    /// Also restore the key for stored credentials from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) with_key: Option<PathBuf>,
}
