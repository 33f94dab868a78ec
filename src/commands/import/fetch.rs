//! Descriptions from files and addresses, bounded in size and time.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use a2s_authoring::{MAX_DESCRIPTION_BYTES, read_description};
use agent::root_cause;
use futures::StreamExt as _;
use reqwest::redirect::Policy;
use serde_json::Value;
use url::Url;

use crate::cli_error::{BAD_ARGUMENT, CliError, CliExitCode, FILE, NOT_REACHABLE};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time without data after which the command stops waiting for a response.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum total time for loading a description.
const TIMEOUT: Duration = Duration::from_secs(180);
const MAX_REDIRECTS: usize = 5;

/// The location of a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SpecLocation {
    File(PathBuf),
    Address(Url),
}

impl SpecLocation {
    /// Parses an address, if the text begins like one, or else a file path.
    pub(super) fn parse(text: &str) -> Result<Self, CliError> {
        if !text.starts_with("http://") && !text.starts_with("https://") {
            return Ok(Self::File(PathBuf::from(text)));
        }
        let url = Url::parse(text).map_err(|error| {
            CliError::invalid_argument(format!("`{text}` is not an address: {error}"))
        })?;
        Ok(Self::Address(url))
    }

    /// Resolves `reference` from this location: to an address, or to a file next to this one. A remote
    /// description names no files of this machine.
    pub(super) fn resolve(&self, reference: &str) -> Result<Self, String> {
        if reference.starts_with("http://") || reference.starts_with("https://") {
            let url = Url::parse(reference);
            return url.map(Self::Address).map_err(|error| error.to_string());
        }
        match self {
            Self::Address(base) => {
                let url = base.join(reference).map_err(|error| error.to_string())?;
                if matches!(url.scheme(), "http" | "https") {
                    Ok(Self::Address(url))
                } else {
                    Err(format!("`{}:` is not an HTTP address", url.scheme()))
                }
            }
            Self::File(file) => {
                let path = Path::new(reference);
                if path.is_absolute() || reference.contains("://") {
                    return Err("only paths relative to the document are supported".to_owned());
                }
                Ok(Self::File(file.parent().unwrap_or_else(|| Path::new("")).join(path)))
            }
        }
    }
}

impl std::fmt::Display for SpecLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Address(url) => url.fmt(f),
        }
    }
}

/// The bytes of a text, and its address if it was downloaded.
#[derive(Debug)]
pub(super) struct FetchedText {
    pub(super) bytes: Vec<u8>,
    pub(super) base: Option<Url>,
}

/// Reads the text at a location; `-` is standard input.
pub(super) async fn fetch(place: &SpecLocation) -> Result<FetchedText, CliError> {
    match place {
        SpecLocation::File(path) => {
            let bytes = read(path).map_err(|failure| match path.exists() {
                true => failure,
                false => {
                    failure.with_hint("Use a file, or an address that starts with `https://`.")
                }
            })?;
            Ok(FetchedText { bytes, base: None })
        }
        SpecLocation::Address(url) => download(url).await,
    }
}

/// Reads the description at a location, and returns it with its address if it was downloaded.
pub(super) async fn fetch_description(
    place: &SpecLocation,
) -> Result<(Value, Option<Url>), CliError> {
    let FetchedText { bytes, base } = fetch(place).await?;
    let value = read_description(&bytes).map_err(|error| {
        CliError::new(
            CliExitCode::Bad,
            BAD_ARGUMENT,
            format!("{place} is not a description: {error}"),
        )
        .with_hint("Use a description in JSON or YAML.")
    })?;
    Ok((value, base))
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    // One byte more than may be there, so that too many are noticed.
    let most = MAX_DESCRIPTION_BYTES as u64 + 1;
    let read = if path == Path::new("-") {
        std::io::stdin().take(most).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    read.map_err(|error| CliError::file_error(path, &error))?;
    if bytes.len() > MAX_DESCRIPTION_BYTES {
        return Err(too_large(&path.display().to_string()));
    }
    Ok(bytes)
}

async fn download(url: &Url) -> Result<FetchedText, CliError> {
    let unreachable = |error: &reqwest::Error| {
        let message = format!("{url} does not respond: {}", root_cause(error));
        CliError::new(CliExitCode::Unreachable, NOT_REACHABLE, message)
            .with_hint("Check the address, or download the file and use its path.")
    };
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .timeout(TIMEOUT)
        .redirect(Policy::limited(MAX_REDIRECTS))
        .user_agent(concat!("a2s/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| unreachable(&error))?;
    let response = client.get(url.clone()).send().await.map_err(|error| unreachable(&error))?;
    let (status, base) = (response.status(), response.url().clone());
    if !status.is_success() {
        let message = format!("{url} responded with status {status}");
        return Err(CliError::new(CliExitCode::Bad, FILE, message)
            .with_hint("Check the address, or download the file and use its path."));
    }
    let mut bytes = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.map_err(|error| unreachable(&error))?);
        if bytes.len() > MAX_DESCRIPTION_BYTES {
            return Err(too_large(url.as_str()));
        }
    }
    Ok(FetchedText { bytes, base: Some(base) })
}

fn too_large(name: &str) -> CliError {
    let most = MAX_DESCRIPTION_BYTES >> 20;
    CliError::new(CliExitCode::Bad, FILE, format!("{name} has more than {most} MiB"))
        .with_hint("Reduce it to the operations that you need.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_name_others_beside_them_or_by_address() {
        let file = SpecLocation::parse("specs/flow.yaml").unwrap();
        assert_eq!(file.resolve("./api.json"), Ok(SpecLocation::File("specs/./api.json".into())));
        assert!(matches!(file.resolve("https://x.example/a"), Ok(SpecLocation::Address(_))));
        for foreign in ["/etc/passwd", "file:///etc/passwd"] {
            assert!(file.resolve(foreign).is_err(), "{foreign}");
        }
        let address = SpecLocation::parse("https://x.example/specs/flow.yaml").unwrap();
        let joined = address.resolve("api.json").unwrap();
        assert_eq!(joined.to_string(), "https://x.example/specs/api.json");
        assert!(address.resolve("file:///etc/passwd").is_err());
        // A URL path is not a path of this machine.
        assert!(matches!(address.resolve("/etc/passwd"), Ok(SpecLocation::Address(_))));
    }
}
