//! Descriptions from files and addresses, bounded in size and time.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use a2s_authoring::{ApiDescription, MAX_DESCRIPTION_BYTES, read_description};
use agent::root_cause;
use futures::StreamExt as _;
use reqwest::redirect::Policy;
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

    /// Resolves `reference` of the document at this location: to a file in the folder of the document or
    /// below it, to the host of the document, or to one of `hosts`. Who writes a document cannot make this
    /// machine read anything else.
    pub(super) fn resolve(&self, reference: &str, hosts: &[String]) -> Result<Self, String> {
        let is_address = reference.starts_with("http://") || reference.starts_with("https://");
        match self {
            Self::File(file) if !is_address => resolve_file(file, reference).map(Self::File),
            Self::File(_) => {
                let url = Url::parse(reference).map_err(|error| error.to_string())?;
                check_host(&url, None, hosts)?;
                Ok(Self::Address(url))
            }
            Self::Address(base) => {
                let url = base.join(reference).map_err(|error| error.to_string())?;
                if !matches!(url.scheme(), "http" | "https") {
                    return Err(format!("`{}:` is not an HTTP address", url.scheme()));
                }
                check_host(&url, Some(base), hosts)?;
                Ok(Self::Address(url))
            }
        }
    }
}

/// Resolves a path in the document `file` to a file in the folder of the document or below it.
fn resolve_file(file: &Path, reference: &str) -> Result<PathBuf, String> {
    let path = Path::new(reference);
    if path.is_absolute() || reference.contains("://") {
        return Err("only paths relative to the document are supported".to_owned());
    }
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let joined = folder.join(path);
    // Links count as their targets. A file that does not exist is reported when it is read.
    let is_inside = match (folder.canonicalize(), joined.canonicalize()) {
        (Ok(folder), Ok(target)) => target.starts_with(folder),
        _ => path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)),
    };
    if is_inside {
        Ok(joined)
    } else {
        Err(format!("`{reference}` is outside the folder of the document"))
    }
}

/// Checks that an address in a document is at the host of the document, or at a host that the user named.
fn check_host(url: &Url, document: Option<&Url>, hosts: &[String]) -> Result<(), String> {
    let host = url.host_str().unwrap_or_default();
    let is_named = hosts.iter().any(|named| named.eq_ignore_ascii_case(host));
    if is_named || document.is_some_and(|document| document.origin() == url.origin()) {
        return Ok(());
    }
    Err(format!("the document may not name the host `{host}`; allow it with --allow-host {host}"))
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

/// Reads the text at a location that the user named; `-` is standard input.
pub(super) async fn fetch(place: &SpecLocation) -> Result<FetchedText, CliError> {
    // An address of the user may lead to other servers with a certificate. Services of this machine and the
    // metadata service of a cloud have plain HTTP.
    fetch_with(place, |first, next| next.scheme() == "https" || first.origin() == next.origin())
        .await
}

async fn fetch_with(
    place: &SpecLocation,
    may_follow: impl Fn(&Url, &Url) -> bool + Send + Sync + 'static,
) -> Result<FetchedText, CliError> {
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
        SpecLocation::Address(url) => download(url, may_follow).await,
    }
}

/// Reads the description at a location, and returns it with its address if it was downloaded. With `hosts`, a
/// document named the location: redirects lead only to these hosts, or stay at the same one.
pub(super) async fn fetch_description(
    place: &SpecLocation,
    hosts: Option<&[String]>,
) -> Result<(ApiDescription, Option<Url>), CliError> {
    let FetchedText { bytes, base } = match hosts.map(<[String]>::to_vec) {
        None => fetch(place).await?,
        Some(hosts) => {
            let is_allowed =
                move |first: &Url, next: &Url| check_host(next, Some(first), &hosts).is_ok();
            fetch_with(place, is_allowed).await?
        }
    };
    let description = read_description(&bytes).map_err(|error| {
        CliError::new(
            CliExitCode::Bad,
            BAD_ARGUMENT,
            format!("{place} is not a description: {error}"),
        )
        .with_hint("Use a description in JSON or YAML.")
    })?;
    Ok((description, base))
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

async fn download(
    url: &Url,
    may_follow: impl Fn(&Url, &Url) -> bool + Send + Sync + 'static,
) -> Result<FetchedText, CliError> {
    let unreachable = |error: &reqwest::Error| {
        let message = format!("{url} does not respond: {}", root_cause(error));
        CliError::new(CliExitCode::Unreachable, NOT_REACHABLE, message)
            .with_hint("Check the address, or download the file and use its path.")
    };
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .timeout(TIMEOUT)
        .redirect(redirect_policy(url.clone(), may_follow))
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

fn redirect_policy(
    first: Url,
    may_follow: impl Fn(&Url, &Url) -> bool + Send + Sync + 'static,
) -> Policy {
    Policy::custom(move |attempt| {
        if MAX_REDIRECTS < attempt.previous().len() {
            return attempt.error("too many redirects");
        }
        if may_follow(&first, attempt.url()) {
            return attempt.follow();
        }
        let reason = format!("it redirects to {}, which is not allowed", attempt.url());
        attempt.error(reason)
    })
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
    fn documents_name_others_in_their_folder_or_at_named_hosts() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("specs")).unwrap();
        let outside = folder.path().join("outside.json");
        std::fs::write(&outside, "{}").unwrap();
        std::fs::write(folder.path().join("specs/api.json"), "{}").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&outside, folder.path().join("specs/link.json")).unwrap();
        let file = SpecLocation::File(folder.path().join("specs/flow.yaml"));
        for inside in ["api.json", "./api.json", "../specs/api.json", "missing.json"] {
            assert!(file.resolve(inside, &[]).is_ok(), "{inside}");
        }
        for foreign in
            ["/etc/passwd", "file:///etc/passwd", "../outside.json", "../../x", "link.json"]
        {
            let refused = if cfg!(unix) { file.resolve(foreign, &[]).is_err() } else { true };
            assert!(refused, "{foreign}");
        }
        let hosts = ["x.example".to_owned()];
        for named in ["https://x.example/a", "http://X.example:81/a"] {
            assert!(matches!(file.resolve(named, &hosts), Ok(SpecLocation::Address(_))), "{named}");
        }
        for foreign in ["http://127.0.0.1/a", "http://169.254.169.254/a", "https://y.example/a"] {
            let refused = file.resolve(foreign, &hosts).unwrap_err();
            assert!(refused.contains("--allow-host"), "{refused}");
        }
    }

    #[test]
    fn documents_of_a_server_name_files_of_this_server() {
        let address = SpecLocation::parse("https://x.example/specs/flow.yaml").unwrap();
        let joined = address.resolve("api.json", &[]).unwrap();
        assert_eq!(joined.to_string(), "https://x.example/specs/api.json");
        // A URL path is not a path of this machine.
        assert!(matches!(address.resolve("/etc/passwd", &[]), Ok(SpecLocation::Address(_))));
        for foreign in ["file:///etc/passwd", "http://x.example/a", "//localhost/a"] {
            assert!(address.resolve(foreign, &[]).is_err(), "{foreign}");
        }
    }

    #[test]
    fn redirect_of_a_document_address_stays_at_named_hosts() {
        let [first, other, inner] =
            ["https://x.example/a", "https://y.example/a", "http://127.0.0.1/a"]
                .map(|url| Url::parse(url).unwrap());
        assert!(check_host(&first, Some(&first), &[]).is_ok());
        assert!(check_host(&other, Some(&first), &["y.example".to_owned()]).is_ok());
        assert!(check_host(&other, Some(&first), &[]).is_err());
        assert!(check_host(&inner, Some(&first), &[]).is_err());
    }
}
