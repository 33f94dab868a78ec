//! The registry at the other end of HTTP: what fits an intent, and the documents themselves.

use a2s::{CapabilityName, Digest, Document};
use a2s_api::{
    BatchSearchResponse, CapabilityList, CapabilityVersions, ChangePage, DeprecateRequest,
    FindabilityReport, LifecycleResponse, MIRROR, MIRROR_CHECKSUM, PublishResponse, RegistryChange,
    SearchRequest, SearchResponse, VerifyRequest, VerifyResponse, YAML,
};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, RequestBuilder};
use semver::Version;
use url::Url;

use crate::client::{Error, ServiceClient, SseItem, SseStream};

/// A client of a registry, which publishes and finds capabilities: the `A2SRegistry` of the A2S text.
#[derive(Debug, Clone)]
pub struct RemoteRegistry {
    client: ServiceClient,
    /// The registry from which a mirror copies to this one.
    source: Option<String>,
}

impl RemoteRegistry {
    /// Creates a registry that uses `client`.
    #[must_use]
    pub fn new(client: ServiceClient) -> Self {
        Self { client, source: None }
    }

    /// Returns the client for a mirror of `source`. Its change requests state the source, so the registry
    /// rejects changes to versions that the mirror has not copied from there.
    #[must_use]
    pub fn with_mirror_source(self, source: &Url) -> Self {
        let mut source = source.clone();
        // Neither is a part of which registry it is. An address that can have none has none.
        let _ = source.set_username("");
        let _ = source.set_password(None);
        Self { source: Some(source.into()), ..self }
    }

    /// Creates a request that changes something. For a mirror, it contains the source and the checksum of
    /// the version.
    fn change_request(&self, path: &[&str], checksum: Option<Digest>) -> RequestBuilder {
        let mut request = self.client.request(Method::POST, path);
        if let Some(source) = &self.source {
            request = request.header(MIRROR, source);
            if let Some(checksum) = checksum {
                request = request.header(MIRROR_CHECKSUM, checksum.to_string());
            }
        }
        request
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &Url {
        self.client.url()
    }

    /// The capabilities that fit an intent, best first.
    ///
    /// # Errors
    /// When the registry rejects the request or does not respond.
    pub async fn search(&self, request: &SearchRequest) -> Result<SearchResponse, Error> {
        self.client.post(&["v1", "search"], request).await
    }

    /// The capabilities that fit each of several intents: `request.intents`, at most 16.
    ///
    /// # Errors
    /// When the registry rejects the request or does not respond.
    pub async fn search_all(&self, request: &SearchRequest) -> Result<BatchSearchResponse, Error> {
        self.client.post(&["v1", "search"], request).await
    }

    /// A page of all published capabilities, after the name `after`.
    ///
    /// # Errors
    /// When the registry rejects the request or does not respond.
    pub async fn list(&self, after: Option<&str>) -> Result<CapabilityList, Error> {
        let request = self.client.request(Method::GET, &["v1", "capabilities"]);
        let request = match after {
            Some(after) => request.query(&[("after", after)]),
            None => request,
        };
        self.client.json(request).await
    }

    /// Lists the versions of a capability, newest first.
    ///
    /// # Errors
    /// When the registry does not respond or rejects the request, for instance because the capability does
    /// not exist.
    pub async fn versions(&self, name: &CapabilityName) -> Result<CapabilityVersions, Error> {
        self.client.get(&["v1", "capabilities", name.as_str()]).await
    }

    /// Returns the document of a version, or of the newest in a range, with its source. It computes the
    /// digest again; it must equal the digest in the document and the `wanted` one.
    ///
    /// # Errors
    /// Returns [`Error::BadResponse`] when the document is not the expected one. Otherwise fails when the
    /// registry rejects the request or does not respond.
    pub async fn get_document(
        &self,
        name: &CapabilityName,
        version: &str,
        wanted: Option<Digest>,
    ) -> Result<(Document, Vec<u8>), Error> {
        let path = ["v1", "capabilities", name.as_str(), version];
        let request = self.client.request(Method::GET, &path).header(ACCEPT, YAML);
        let source = self.client.bytes(request).await?;
        let document = Document::open(&source).map_err(|diagnostics| {
            let first = diagnostics.first().map(|found| found.message.as_str());
            let why = first.unwrap_or("it has errors");
            Error::BadResponse {
                url: Box::new(self.url().clone()),
                what: format!("returned an invalid document of `{name}`: {why}"),
                diagnostics,
            }
        })?;
        let (capability, digest) = (document.capability(), document.digest());
        if capability.name != *name {
            let message = format!("returned `{}` instead of `{name}`", capability.name);
            return Err(self.client.bad_response(message));
        }
        if let Some(wanted) = wanted.filter(|wanted| *wanted != digest) {
            let message = format!(
                "returned `{name}` with the checksum {digest}, not {wanted}: its data was changed"
            );
            return Err(self.client.bad_response(message));
        }
        Ok((document, source))
    }

    /// Verifies that a published version matches its checksum.
    ///
    /// # Errors
    /// When the registry rejects the request or does not respond.
    pub async fn verify(&self, request: &VerifyRequest) -> Result<VerifyResponse, Error> {
        self.client.post(&["v1", "verify"], request).await
    }

    /// Yanks a version, or reverses that. A mirror passes the `checksum` that the version has at its
    /// source.
    ///
    /// # Errors
    /// When the registry rejects the request or does not respond.
    pub async fn yank(
        &self,
        name: &CapabilityName,
        version: &Version,
        yanked: bool,
        checksum: Option<Digest>,
    ) -> Result<LifecycleResponse, Error> {
        let verb = if yanked { "yank" } else { "unyank" };
        let version = version.to_string();
        let path = ["v1", "capabilities", name.as_str(), &version, verb];
        self.client.json(self.change_request(&path, checksum)).await
    }

    /// Yanks a version even if published versions break.
    ///
    /// # Errors
    /// When the registry rejects the request or does not respond.
    pub async fn force_yank(
        &self,
        name: &CapabilityName,
        version: &Version,
    ) -> Result<LifecycleResponse, Error> {
        let version = version.to_string();
        let path = ["v1", "capabilities", name.as_str(), &version, "yank"];
        self.client.json(self.change_request(&path, None).query(&[("force", true)])).await
    }

    /// Deprecates a version, or reverses that. A mirror passes the `checksum` that the version has at its
    /// source.
    ///
    /// # Errors
    /// When the registry rejects the request or does not respond.
    pub async fn deprecate(
        &self,
        name: &CapabilityName,
        version: &Version,
        request: &DeprecateRequest,
        checksum: Option<Digest>,
    ) -> Result<LifecycleResponse, Error> {
        let version = version.to_string();
        let path = ["v1", "capabilities", name.as_str(), &version, "deprecate"];
        self.client.json(self.change_request(&path, checksum).json(request)).await
    }

    /// A page of the changes after a number, in order.
    ///
    /// # Errors
    /// When the registry rejects the request or does not respond.
    pub async fn changes(&self, since: u64, limit: u32) -> Result<ChangePage, Error> {
        let request = self.client.request(Method::GET, &["v1", "changes"]);
        self.client.json(request.query(&[("since", since), ("limit", u64::from(limit))])).await
    }

    /// The changes after a number, as they happen.
    ///
    /// # Errors
    /// When the registry rejects the request or does not respond.
    pub async fn stream_changes(&self, since: u64) -> Result<RegistryChangeStream, Error> {
        let request = self.client.request(Method::GET, &["v1", "changes"]);
        let request = request.query(&[("since", since)]).header(ACCEPT, "text/event-stream");
        let response = self.client.send(request).await?;
        Ok(RegistryChangeStream {
            client: self.client.clone(),
            events: SseStream::from_response(response),
        })
    }

    /// Publishes a document. Needs the owner's token.
    ///
    /// # Errors
    /// When the registry rejects the document or does not respond. `diagnostics` of the problem has every
    /// error in the document.
    pub async fn publish(&self, source: Vec<u8>) -> Result<PublishResponse, Error> {
        let request = self.change_request(&["v1", "capabilities"], None);
        self.client.json(request.header(CONTENT_TYPE, YAML).body(source)).await
    }

    /// Reports the ranks of a document in searches for its example intents. Needs a token with the scope
    /// `publish`; publishes nothing.
    ///
    /// # Errors
    /// When the registry rejects the document or does not respond. A registry of an older version responds
    /// with the code of an unknown path.
    pub async fn report_findability(&self, source: Vec<u8>) -> Result<FindabilityReport, Error> {
        let request = self.client.request(Method::POST, &["v1", "findability"]);
        self.client.json(request.header(CONTENT_TYPE, YAML).body(source)).await
    }
}

/// The stream of changes as they happen.
#[derive(Debug)]
pub struct RegistryChangeStream {
    client: ServiceClient,
    events: SseStream,
}

impl RegistryChangeStream {
    /// The next change; none when the stream has ended or broken. To continue, ask again after the last
    /// number.
    ///
    /// # Errors
    /// When the stream has content that a registry never sends.
    pub async fn next(&mut self) -> Result<Option<RegistryChange>, Error> {
        match self.events.next(&self.client).await? {
            SseItem::Event(block) => serde_json::from_str(&block.data).map(Some).map_err(|error| {
                self.client.bad_response(format!("sent an invalid change: {error}"))
            }),
            SseItem::End | SseItem::Broken(_) => Ok(None),
        }
    }
}
