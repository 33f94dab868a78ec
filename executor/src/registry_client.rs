//! The client of the registry, and the checks of the documents that it sends.
//!
//! The executor does not trust a registry. The digest in the list of versions, the digest in the `ETag`,
//! the checksum in the document and the digest of the received bytes must all be the same.

mod verified_documents;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use a2s::{CapabilityName, Dependency, Diagnostic, Digest, Document, Secret};
use a2s_api::TokenSubject;
use a2s_api::{
    CapabilityRef, CapabilitySummary, CapabilityVersions, OutcomeReport, OwnerList, PlanRequest,
    Problem, RunNotice, YAML,
};
use reqwest::header::{ACCEPT, ETAG};
use reqwest::{RequestBuilder, Response, StatusCode};
use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::control_plane;
use crate::error::{Error, ErrorKind};
use verified_documents::{VerifiedDocument, VerifiedDocuments};

/// The maximum size of a list of versions, in bytes.
const MAX_LIST_BYTES: usize = 4 << 20;
/// The maximum size of a document, in bytes (design of the language: 1 MiB).
const MAX_DOCUMENT_BYTES: usize = 1 << 20;
/// The timeout for one response of the registry.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The documents of one run.
#[derive(Debug, Clone)]
pub(crate) struct RunDocuments {
    /// The document that runs.
    pub(crate) root: Digest,
    /// The root and all documents that it uses, directly or not.
    pub(crate) documents: BTreeMap<Digest, Arc<Document>>,
    /// The same documents, as the registry sent them.
    pub(crate) sources: BTreeMap<Digest, Arc<[u8]>>,
    /// The document that each dependency of each document resolves to.
    pub(crate) resolved: ResolvedDependencies,
    /// The documents that were yanked or are deprecated, in order of name and version.
    pub(crate) notices: Vec<RunNotice>,
    /// The pins with a checksum that the executor does not remember yet.
    pub(crate) unknown: Vec<CapabilityRef>,
}

impl RunDocuments {
    /// Starts with no documents.
    pub(crate) fn new(root: Digest) -> Self {
        Self {
            root,
            documents: BTreeMap::new(),
            sources: BTreeMap::new(),
            resolved: ResolvedDependencies::default(),
            notices: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// Returns the pins of all documents, as the documents state them.
    pub(crate) fn pins(&self) -> Vec<CapabilityRef> {
        let pin = |(checksum, document): (&Digest, &Arc<Document>)| {
            let capability = document.capability();
            let (name, version) = (capability.name.clone(), capability.version.clone());
            CapabilityRef { name, version, checksum: *checksum }
        };
        self.documents.iter().map(pin).collect()
    }
}

/// The digest that each dependency resolves to, by the digest of the document that declares it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResolvedDependencies(
    pub(crate) BTreeMap<Digest, BTreeMap<CapabilityName, Digest>>,
);

/// The capability that a caller wants to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResolveRequest<'a> {
    /// The name.
    pub(crate) name: &'a CapabilityName,
    /// A version or range.
    pub(crate) version: Option<&'a str>,
    /// The digest that the document must have.
    pub(crate) digest: Option<Digest>,
    /// The only contents that its dependencies may have.
    pub(crate) lock: Option<&'a [CapabilityRef]>,
}

impl<'a> From<&'a PlanRequest> for ResolveRequest<'a> {
    fn from(request: &'a PlanRequest) -> Self {
        let PlanRequest { name, version, digest, lock, .. } = request;
        Self { name, version: version.as_deref(), digest: *digest, lock: lock.as_deref() }
    }
}

/// The result of sending a report.
#[derive(Debug)]
pub(crate) enum ReportResult {
    /// The report counts.
    Taken,
    /// The report will never count: the version is gone, or the registry has another digest for it.
    Refused(Error),
}

/// The client of a registry. It belongs to the control plane: it connects only to the configured registry.
#[derive(Debug)]
pub(crate) struct RegistryClient {
    base: Url,
    token: Option<Secret>,
    /// Set when the registry has asked for a token to read documents.
    needs_read_token: AtomicBool,
    http: reqwest::Client,
    /// The documents that were fetched last. The list of versions is fetched for every run, so that another
    /// checksum in the registry is noticed.
    verified: VerifiedDocuments,
}

impl RegistryClient {
    /// Creates a client of the registry at `base`.
    ///
    /// # Errors
    /// Fails when the address is not an HTTP address.
    pub(crate) fn new(base: &Url, token: Option<Secret>) -> Result<Self, Error> {
        let unusable =
            |why: String| Error::new(ErrorKind::Configuration, format!("registry `{base}`: {why}"));
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(unusable("it is not an HTTP address".to_owned()));
        }
        if !base.username().is_empty() || base.password().is_some() {
            let message =
                "the registry's address contains a user name or password; set a token instead";
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        let mut base = base.clone();
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let http = control_plane::client(TIMEOUT).build();
        let http = http.map_err(|error| unusable(error.to_string()))?;
        let needs_read_token = AtomicBool::new(false);
        Ok(Self { base, token, needs_read_token, http, verified: VerifiedDocuments::default() })
    }

    /// Resolves the wanted capability and all its dependencies.
    ///
    /// # Errors
    /// When a document is missing, does not match the request, or does not match its digest.
    pub(crate) async fn resolve(
        &self,
        wanted: ResolveRequest<'_>,
        max_documents: usize,
    ) -> Result<RunDocuments, Error> {
        if let Some(pins) = wanted.lock {
            a2s::check_pins(pins).map_err(|error| lock_error(&error))?;
        }
        let mut listed = BTreeMap::new();
        let versions = self.list_versions(wanted.name, &mut listed).await?;
        let chosen = to_ref(choose_version(wanted, versions)?);
        let mut library = RunDocuments::new(chosen.checksum);
        let mut waiting = VecDeque::from([chosen]);
        while let Some(pin) = waiting.pop_front() {
            if library.documents.contains_key(&pin.checksum) {
                continue;
            }
            if library.documents.len() == max_documents {
                return Err(Error::new(
                    ErrorKind::BudgetExceeded,
                    format!("`{}` requires more than {max_documents} documents", wanted.name),
                ));
            }
            let VerifiedDocument { document, source } = self.fetch(&pin).await?;
            let mut choices = BTreeMap::new();
            for dependency in &document.capability().dependencies {
                let chosen = match wanted.lock {
                    Some(pins) => a2s::choose_pin(dependency, pins)
                        .cloned()
                        .map_err(|error| lock_error(&error)),
                    None => self.find_version(dependency, &mut listed).await,
                };
                let chosen = chosen.map_err(|error| dependency_error(&pin, error))?;
                choices.insert(dependency.capability.clone(), chosen.checksum);
                waiting.push_back(chosen);
            }
            library.resolved.0.insert(pin.checksum, choices);
            library.documents.insert(pin.checksum, document);
            library.sources.insert(pin.checksum, source);
        }
        library.notices = self.collect_notices(&library, &mut listed, wanted.lock.is_some()).await;
        Ok(library)
    }

    /// The documents that were yanked or are deprecated, according to the lists of versions. With a lock,
    /// the lists are fetched only here; a list that the registry does not return gives no notices.
    async fn collect_notices(
        &self,
        library: &RunDocuments,
        listed: &mut BTreeMap<CapabilityName, Vec<CapabilitySummary>>,
        is_locked: bool,
    ) -> Vec<RunNotice> {
        if is_locked {
            for document in library.documents.values() {
                let name = &document.capability().name;
                if let Err(error) = self.list_versions(name, listed).await {
                    tracing::debug!(%error, %name, "the list of versions is not available");
                }
            }
        }
        let summaries = listed.values().flatten();
        let noteworthy = summaries.filter(|summary| {
            let is_used = library.documents.contains_key(&summary.checksum);
            is_used && (summary.yanked || summary.deprecated.is_some())
        });
        let to_notice = |summary: &CapabilitySummary| RunNotice {
            capability: to_ref(summary),
            yanked: summary.yanked,
            deprecated: summary.deprecated.clone(),
        };
        let mut notices: Vec<_> = noteworthy.map(to_notice).collect();
        notices.sort_by(|a, b| {
            let key = |notice: &RunNotice| {
                (notice.capability.name.clone(), notice.capability.version.clone())
            };
            key(a).cmp(&key(b))
        });
        notices
    }

    /// Returns the published version that a dependency refers to.
    async fn find_version(
        &self,
        dependency: &Dependency,
        listed: &mut BTreeMap<CapabilityName, Vec<CapabilitySummary>>,
    ) -> Result<CapabilityRef, Error> {
        let name = &dependency.capability;
        let versions = self.list_versions(name, listed).await?;
        dependency.select_version(versions).map(to_ref).ok_or_else(|| {
            let message = match dependency.checksum {
                Some(pin) => format!("no version of `{name}` has the pinned checksum {pin}"),
                None => format!("no live version of `{name}` matches `{}`", dependency.range),
            };
            Error::new(ErrorKind::DependencyRefused, message)
        })
    }

    /// Reports to the registry how a run ended.
    ///
    /// # Errors
    /// When it does not respond, or cannot accept reports now: it may do so later.
    pub(crate) async fn send_report(&self, outcome: &OutcomeReport) -> Result<ReportResult, Error> {
        let request = self.http.post(self.address(&["v1", "outcomes"])).json(outcome);
        let response = self.send(request, self.token.as_ref()).await?;
        match response.status() {
            status if status.is_success() => Ok(ReportResult::Taken),
            // The token may be fixed, and there may be room later.
            StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS => Err(self.to_rejection(response).await),
            status if status.is_client_error() => {
                Ok(ReportResult::Refused(self.to_rejection(response).await))
            }
            _ => Err(self.to_rejection(response).await),
        }
    }

    async fn list_versions<'l>(
        &self,
        name: &CapabilityName,
        listed: &'l mut BTreeMap<CapabilityName, Vec<CapabilitySummary>>,
    ) -> Result<&'l [CapabilitySummary], Error> {
        if !listed.contains_key(name) {
            let address = self.address(&["v1", "capabilities", name.as_str()]);
            let response = self.get(address, "application/json").await?;
            if response.status() == StatusCode::NOT_FOUND {
                return Err(Error::new(
                    ErrorKind::CapabilityNotFound,
                    format!("`{name}` is not published in {}", self.base),
                ));
            }
            if !response.status().is_success() {
                return Err(self.to_rejection(response).await);
            }
            let body = self.read(response, MAX_LIST_BYTES).await?;
            let answer: CapabilityVersions = serde_json::from_slice(&body).map_err(|error| {
                Error::new(
                    ErrorKind::RegistryAnswer,
                    format!("the versions of `{name}` cannot be read: {error}"),
                )
            })?;
            listed.insert(name.clone(), answer.versions);
        }
        Ok(listed.get(name).map_or(&[], Vec::as_slice))
    }

    /// Returns the owners of a capability's name; an empty list when the registry does not know it.
    ///
    /// # Errors
    /// Fails when the registry does not respond, or does not respond as expected.
    pub(crate) async fn list_owners(
        &self,
        name: &CapabilityName,
    ) -> Result<Vec<TokenSubject>, Error> {
        let address = self.address(&["v1", "capabilities", name.as_str(), "owners"]);
        let response = self.get(address, "application/json").await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(Vec::new());
        }
        if !response.status().is_success() {
            return Err(self.to_rejection(response).await);
        }
        let body = self.read(response, MAX_LIST_BYTES).await?;
        let answer: OwnerList = serde_json::from_slice(&body).map_err(|error| {
            let message = format!("the owners of `{name}` cannot be read: {error}");
            Error::new(ErrorKind::RegistryAnswer, message)
        })?;
        Ok(answer.owners)
    }

    /// Fetches a document and checks that it matches `pin`, unless this was done lately.
    async fn fetch(&self, pin: &CapabilityRef) -> Result<VerifiedDocument, Error> {
        if let Some(verified) = self.verified.get(pin) {
            return Ok(verified);
        }
        let CapabilityRef { name, version, checksum } = pin;
        let address = self.address(&["v1", "capabilities", name.as_str(), &version.to_string()]);
        let response = self.get(address, YAML).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Err(Error::new(
                ErrorKind::CapabilityNotFound,
                format!("`{name}` {version} is not published in {}", self.base),
            ));
        }
        if !response.status().is_success() {
            return Err(self
                .to_rejection(response)
                .await
                .with_context(format_args!("`{name}` {version}")));
        }
        let etag = response.headers().get(ETAG).and_then(|etag| etag.to_str().ok());
        if let Some(stated) = etag.and_then(parse_etag)
            && stated != *checksum
        {
            return Err(mismatch(pin, &format!("its `ETag` states {stated}")));
        }
        let source = self.read(response, MAX_DOCUMENT_BYTES).await?;
        let verified = compile(source, pin).await?;
        verify_document(&verified.document, pin)?;
        self.verified.insert(verified.clone());
        Ok(verified)
    }

    /// Returns the document of a pin if it was fetched lately.
    pub(crate) fn verified(&self, pin: &CapabilityRef) -> Option<Arc<Document>> {
        self.verified.get(pin).map(|verified| verified.document)
    }

    /// Compiles the document of a pin from a copy that was stored with a run.
    ///
    /// # Errors
    /// Returns [`ErrorKind::DigestMismatch`] when the copy has another checksum.
    pub(crate) async fn open_stored(
        &self,
        source: Vec<u8>,
        pin: &CapabilityRef,
    ) -> Result<Arc<Document>, Error> {
        let verified = compile(source, pin).await?;
        let found = verified.document.digest();
        if found != pin.checksum {
            let CapabilityRef { name, version, checksum } = pin;
            let message = format!(
                "`{name}` {version} was started with {checksum}, but the stored document has {found}"
            );
            return Err(Error::new(ErrorKind::DigestMismatch, message));
        }
        self.verified.insert(verified.clone());
        Ok(verified.document)
    }

    fn address(&self, path: &[&str]) -> Url {
        let mut address = self.base.clone();
        if let Ok(mut segments) = address.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        address
    }

    async fn get(&self, address: Url, accept: &str) -> Result<Response, Error> {
        let request = || self.http.get(address.clone()).header(ACCEPT, accept);
        let Some(token) = &self.token else { return self.send(request(), None).await };
        if self.needs_read_token.load(Ordering::Relaxed) {
            return self.send(request(), Some(token)).await;
        }
        let response = self.send(request(), None).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        // A registry that others reach asks for a token where documents are read, too.
        self.needs_read_token.store(true, Ordering::Relaxed);
        self.send(request(), Some(token)).await
    }

    async fn send(
        &self,
        mut request: RequestBuilder,
        token: Option<&Secret>,
    ) -> Result<Response, Error> {
        if let Some(token) = token {
            request = request.bearer_auth(token.expose_secret());
        }
        request.send().await.map_err(|error| self.unreachable(&error))
    }

    async fn read(&self, mut response: Response, limit: usize) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            if body.len() + chunk.len() > limit {
                return Err(Error::new(
                    ErrorKind::RegistryAnswer,
                    format!("the registry's response has more than {limit} bytes"),
                ));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Error {
        let why = if error.is_timeout() {
            "no response in time"
        } else if error.is_connect() {
            "no connection"
        } else {
            "the response ended early"
        };
        tracing::warn!(%error, "the registry did not respond");
        Error::new(ErrorKind::RegistryUnreachable, format!("the registry at {}: {why}", self.base))
    }

    /// Converts an error response, with the message of the registry if there is one.
    async fn to_rejection(&self, response: Response) -> Error {
        let status = response.status();
        let body = self.read(response, MAX_LIST_BYTES).await.unwrap_or_default();
        let Ok(problem) = serde_json::from_slice::<Problem>(&body) else {
            return Error::new(
                ErrorKind::RegistryAnswer,
                format!("the registry responded with status {}", status.as_u16()),
            );
        };
        let kind = match problem.code.as_str() {
            DOCUMENT_DAMAGED => ErrorKind::DigestMismatch,
            _ => ErrorKind::RegistryAnswer,
        };
        let error = Error::new(kind, format!("the registry reports {problem}"));
        match problem.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

/// Compiles the document of a pin.
async fn compile(source: Vec<u8>, pin: &CapabilityRef) -> Result<VerifiedDocument, Error> {
    let CapabilityRef { name, version, .. } = pin;
    let source = Arc::<[u8]>::from(source);
    // A large document keeps a processor busy for a while: not one that serves others.
    let opened = tokio::task::spawn_blocking({
        let source = Arc::clone(&source);
        move || Document::open(&source)
    });
    let opened = opened.await.map_err(|_| {
        Error::new(ErrorKind::Internal, format!("the compiler failed on `{name}` {version}"))
    })?;
    let document = opened.map_err(|found| to_document_error(name, version, &found))?;
    Ok(VerifiedDocument { document: Arc::new(document), source })
}

/// The code of a document with a stated checksum that is not its digest.
const CHECKSUM_MISMATCH: &str = "A2S031";
/// The registry's code for a stored document that was changed outside the registry.
const DOCUMENT_DAMAGED: &str = "A2S222";

/// Returns the requested version from all available versions.
fn choose_version<'v>(
    wanted: ResolveRequest<'_>,
    versions: &'v [CapabilitySummary],
) -> Result<&'v CapabilitySummary, Error> {
    let name = wanted.name;
    let not_found = |what: String| {
        let known: Vec<_> = versions.iter().map(|v| v.version.to_string()).collect();
        Error::new(
            ErrorKind::CapabilityNotFound,
            format!("`{name}` has no {what}; published versions: {}", known.join(", ")),
        )
    };
    let exact = wanted.version.and_then(|text| Version::parse(text).ok());
    let chosen = if let Some(version) = exact {
        let of_version = versions.iter().find(|v| v.version == version);
        of_version.ok_or_else(|| not_found(format!("version {version}")))?
    } else {
        let text = wanted.version.unwrap_or("*");
        let range = VersionReq::parse(text).map_err(|error| {
            Error::new(ErrorKind::BadRange, format!("`{text}` is not a version or range: {error}"))
        })?;
        if let Some(digest) = wanted.digest {
            let pinned = versions.iter().find(|v| v.checksum == digest);
            let pinned = pinned.ok_or_else(|| {
                Error::new(
                    ErrorKind::DigestMismatch,
                    format!("no version of `{name}` has the checksum {digest}"),
                )
            })?;
            if wanted.version.is_some() && !range.matches(&pinned.version) {
                return Err(Error::new(
                    ErrorKind::DigestMismatch,
                    format!(
                        "{digest} is the checksum of `{name}` {}, which does not match `{text}`",
                        pinned.version
                    ),
                ));
            }
            pinned
        } else {
            let live = versions.iter().filter(|v| !v.yanked && range.matches(&v.version));
            live.max_by_key(|v| (v.version.pre.is_empty(), &v.version))
                .ok_or_else(|| not_found(format!("live version that matches `{text}`")))?
        }
    };
    match wanted.digest {
        Some(digest) if digest != chosen.checksum => {
            Err(mismatch(&to_ref(chosen), &format!("the caller requested {digest}")))
        }
        _ => Ok(chosen),
    }
}

/// The exact content that an entry of a list names.
fn to_ref(CapabilitySummary { name, version, checksum, .. }: &CapabilitySummary) -> CapabilityRef {
    CapabilityRef { name: name.clone(), version: version.clone(), checksum: *checksum }
}

/// Creates the error for a lock that cannot be used.
fn lock_error(error: &a2s::PinError) -> Error {
    Error::new(ErrorKind::LockRefused, format!("the lock cannot be used: {error}"))
}

/// The error for a document that cannot be used. A wrong checksum is not a mistake of the author: it means
/// that the document was changed.
fn to_document_error(name: &CapabilityName, version: &Version, found: &[Diagnostic]) -> Error {
    let errors: Vec<_> = found.iter().filter(|diagnostic| diagnostic.is_error()).collect();
    if let Some(changed) = errors.iter().find(|error| error.code == CHECKSUM_MISMATCH) {
        let message = format!("`{name}` {version} was changed: {}", changed.message);
        return Error::new(ErrorKind::DigestMismatch, message);
    }
    let message = match errors.first() {
        Some(first) => format!("`{name}` {version} has {} errors, first: {first}", errors.len()),
        None => format!("`{name}` {version} cannot be compiled"),
    };
    Error::new(ErrorKind::DocumentRefused, message)
}

/// Checks that the received document is the announced one.
fn verify_document(document: &Document, pin: &CapabilityRef) -> Result<(), Error> {
    let computed = document.digest();
    if computed != pin.checksum {
        return Err(mismatch(pin, &format!("the received document has {computed}")));
    }
    let capability = document.capability();
    if capability.name != pin.name || capability.version != pin.version {
        let arrived =
            format!("the received document is `{}` {}", capability.name, capability.version);
        return Err(mismatch(pin, &arrived));
    }
    Ok(())
}

fn mismatch(CapabilityRef { name, version, checksum }: &CapabilityRef, but: &str) -> Error {
    Error::new(
        ErrorKind::DigestMismatch,
        format!("the registry lists `{name}` {version} with {checksum}, but {but}"),
    )
}

/// Creates the error of a dependency. A dependency that cannot be found or used is a fault of the
/// capability that declares it; a registry that does not respond is not.
fn dependency_error(parent: &CapabilityRef, error: Error) -> Error {
    let kind = match error.kind {
        ErrorKind::CapabilityNotFound => ErrorKind::DependencyRefused,
        other => other,
    };
    Error { kind, ..error }
        .with_context(format_args!("dependency of `{}` {}", parent.name, parent.version))
}

/// Returns the digest in a weak or strong entity tag.
fn parse_etag(text: &str) -> Option<Digest> {
    text.trim().trim_start_matches("W/").trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(version: &str, yanked: bool) -> CapabilitySummary {
        CapabilitySummary {
            name: CapabilityName::new("Dogs").unwrap(),
            version: version.parse().unwrap(),
            checksum: Digest::of_bytes(version.as_bytes()),
            description: String::new(),
            domains: Vec::new(),
            published_at: "2025-01-01T00:00:00Z".parse().unwrap(),
            yanked,
            deprecated: None,
        }
    }

    #[track_caller]
    fn check(version: Option<&str>, digest_of: Option<&str>, expected: Result<&str, ErrorKind>) {
        let versions = [
            summary("2.0.0-beta.1", false),
            summary("1.10.0", true),
            summary("1.9.0", false),
            summary("1.2.0", false),
        ];
        let name = CapabilityName::new("Dogs").unwrap();
        let digest = digest_of.map(|text| Digest::of_bytes(text.as_bytes()));
        let chosen =
            choose_version(ResolveRequest { name: &name, version, digest, lock: None }, &versions);
        let chosen = chosen.map(|summary| summary.version.to_string()).map_err(|e| e.kind);
        assert_eq!(chosen.as_deref().map_err(|kind| *kind), expected, "{version:?} {digest_of:?}");
    }

    #[test]
    fn newest_stable_live_version_is_the_default() {
        check(None, None, Ok("1.9.0"));
        check(Some("^1.2"), None, Ok("1.9.0"));
        check(Some("~1.2.0"), None, Ok("1.2.0"));
        check(Some("1.2.0"), None, Ok("1.2.0"));
        check(Some("2.0.0-beta.1"), None, Ok("2.0.0-beta.1"));
        check(Some(">=2.0.0-beta.1"), None, Ok("2.0.0-beta.1"));
        // Withdrawn versions are there for those who name them exactly.
        check(Some("1.10.0"), None, Ok("1.10.0"));
        check(None, Some("1.10.0"), Ok("1.10.0"));
        check(Some(">=1.10"), None, Err(ErrorKind::CapabilityNotFound));
        check(Some("3.0.0"), None, Err(ErrorKind::CapabilityNotFound));
        check(Some("new"), None, Err(ErrorKind::BadRange));
    }

    #[test]
    fn a_digest_must_be_that_of_the_version() {
        check(Some("1.2.0"), Some("1.2.0"), Ok("1.2.0"));
        check(Some("^1"), Some("1.2.0"), Ok("1.2.0"));
        check(Some("1.2.0"), Some("1.9.0"), Err(ErrorKind::DigestMismatch));
        check(Some("^2"), Some("1.9.0"), Err(ErrorKind::DigestMismatch));
        check(None, Some("never published"), Err(ErrorKind::DigestMismatch));
    }

    #[test]
    fn entity_tags_are_read_weak_and_strong() {
        let digest = Digest::of_bytes(b"x");
        for text in
            [format!("W/\"{digest}\""), format!("\"{digest}\""), format!("\"{}\"", digest.to_hex())]
        {
            assert_eq!(parse_etag(&text), Some(digest));
        }
        assert_eq!(parse_etag("\"abc\""), None);
    }
}
