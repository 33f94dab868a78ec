//! Copies of a registry database in a file: taken while a registry uses it, checked when they are put
//! back.

use std::path::Path;

use a2s::Digest;
use futures::TryStreamExt as _;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, SqliteConnection};

use crate::store::{DatabaseAddress, Error};

/// Copies a registry database as of one moment to a new file with SQLite's `VACUUM INTO`. A registry may
/// use the database at the same time.
///
/// # Errors
/// There is no such database, or the copy cannot be written.
pub async fn copy_documents(from: &Path, to: &Path) -> Result<(), Error> {
    let to = to.to_string_lossy();
    sqlx::query("VACUUM INTO $1").bind(to).execute(&mut connect(from).await?).await?;
    Ok(())
}

/// Checks a copy that no registry uses as [`check_documents`] does, and updates its schema.
///
/// # Errors
/// Fails when the database is damaged, or a newer version of the program created it.
pub async fn restore_documents(path: &Path) -> Result<u64, Error> {
    let database = DatabaseAddress::from(path.to_string_lossy().into_owned());
    crate::store::open(&database).await?.close().await;
    count_documents(connect(path).await?).await
}

/// Checks a copy that no registry uses: its pages, and each document against its checksum. Changes nothing, and
/// returns the number of documents.
///
/// # Errors
/// Fails when the database is damaged.
pub async fn check_documents(path: &Path) -> Result<u64, Error> {
    let options = SqliteConnectOptions::new().filename(path).immutable(true);
    count_documents(options.connect().await.map_err(Error::unusable)?).await
}

async fn count_documents(mut connection: SqliteConnection) -> Result<u64, Error> {
    let result: String =
        sqlx::query_scalar("PRAGMA integrity_check(1)").fetch_one(&mut connection).await?;
    if result != "ok" {
        return Err(Error::unusable(result));
    }
    const DOCUMENTS: &str =
        "SELECT capability.name, version.version, version.digest, document.source
         FROM version JOIN capability ON capability.id = version.capability
         LEFT JOIN document ON document.version = version.id";
    type Row = (String, String, String, Option<String>);
    let mut rows = sqlx::query_as::<_, Row>(DOCUMENTS).fetch(&mut connection);
    let mut count = 0;
    while let Some((name, version, recorded, source)) = rows.try_next().await? {
        let content = source.and_then(|source| a2s::parse_value(source.as_bytes()).ok());
        let digest = content.and_then(|content| Digest::of_document(&content).ok());
        if digest.map(|digest| digest.to_string()).as_ref() != Some(&recorded) {
            let message = format!("{name} {version} does not have the checksum {recorded}");
            return Err(Error::unusable(message));
        }
        count += 1;
    }
    Ok(count)
}

async fn connect(path: &Path) -> Result<SqliteConnection, Error> {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(false);
    options.connect().await.map_err(Error::unusable)
}
