//! Files that their owner alone can read.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use crate::cli_error::CliError;

/// The maximum depth of folders to check below the data folder; the index has three levels.
const MAX_DEPTH: usize = 8;

/// Makes every file that this process creates readable only by its owner, also files that a library
/// creates.
pub(crate) fn set_private_umask() {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
}

/// Creates a folder and its missing parents; only the owner has access.
pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Returns the options for writing a file that only its owner can read. They do not follow a symbolic link.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let no_follow = rustix::fs::OFlags::NOFOLLOW.bits();
        options.mode(0o600).custom_flags(i32::try_from(no_follow).unwrap_or_default());
    }
    options
}

/// Writes a file that only its owner can read, whatever the umask is; the old file stays until the new one
/// is complete. Writes into what exists and is not a file, such as a pipe.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    // The file after a link is the one that is written.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(path).is_ok_and(|known| !known.is_file()) {
        return fs::write(path, content);
    }
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".a2s-new");
    let new = path.with_file_name(name);
    // One that a crash has left.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = options().create_new(true).open(&new)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
        // The half-written copy is of no use to anyone.
        let _ = fs::remove_file(&new);
    })
}

/// Removes the permissions of others from a data folder and its content.
///
/// # Errors
/// Others may write there: their changes cannot be found.
#[cfg(unix)]
pub(super) fn protect(path: &Path) -> Result<(), CliError> {
    let mut tightened = 0;
    protect_entry(path, MAX_DEPTH, &mut tightened)?;
    if tightened != 0 {
        tracing::warn!(
            folder = %path.display(),
            entries = tightened,
            "other users could read data; the service removed their permissions"
        );
    }
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn protect(_: &Path) -> Result<(), CliError> {
    Ok(())
}

#[cfg(unix)]
fn protect_entry(path: &Path, depth: usize, tightened: &mut usize) -> Result<(), CliError> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    let fail = |error: io::Error| CliError::file_error(path, &error);
    // The data folder itself may be a link; links inside it are not followed.
    let found = if depth == MAX_DEPTH { fs::metadata(path) } else { fs::symlink_metadata(path) };
    let metadata = match found {
        Ok(metadata) => metadata,
        // Another service of this folder may have removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(fail(error)),
    };
    let is_folder = metadata.is_dir();
    // The key file has a check of its own, which never repairs.
    if !(is_folder || metadata.is_file()) || path.ends_with("secrets.key") {
        return Ok(());
    }
    let mode = metadata.permissions().mode() & 0o777;
    let user = rustix::process::geteuid().as_raw();
    let refuse = |why: &str| {
        let message = format!("{}: {why}", path.display());
        let hint = format!(
            "Check that its content was not changed, then run: chown -R $(id -u) '{0}'; chmod -R go= '{0}'",
            path.display()
        );
        Err(CliError::cannot_serve(message).with_hint(hint))
    };
    if user != 0 && metadata.uid() != user {
        if metadata.uid() != 0 {
            return refuse("it belongs to another user");
        }
        // A volume of a container belongs to root; its mode is the operator's decision.
        if mode & 0o007 != 0 {
            tracing::warn!(path = %path.display(), "other users have access to the folder, which belongs to root");
        }
    } else if mode & 0o022 != 0 {
        return refuse("other users can write there");
    } else if mode & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700)).map_err(fail)?;
        *tightened += 1;
    }
    if is_folder && let Some(depth) = depth.checked_sub(1) {
        for entry in fs::read_dir(path).map_err(fail)? {
            protect_entry(&entry.map_err(fail)?.path(), depth, tightened)?;
        }
    }
    Ok(())
}
