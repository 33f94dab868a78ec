//! Credentials, added to a permitted request just before it is sent.
//!
//! They are added only to the request on the wire: the permitted and recorded request stays without them.
//! Every value first becomes a secret of the run, so that neither an error nor a response can reveal it.

use a2s::{ApiKeyLocation, Domain, HttpScheme, Secret, SecurityRequirement, SecurityScheme};
use a2s_api::{Credential, KeyLocation};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE, HeaderName};
use http::{HeaderMap, HeaderValue};
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use url::{Host, Url};
use zeroize::Zeroizing;

use super::OutboundClient;
use super::token::{TokenNeed, UsedToken};
use crate::credential_requirements::{AvailableCredentials, CredentialRequirement};
use crate::error::{Error, ErrorKind};
use crate::gate::Permitted;
use crate::request::PreparedRequest;
use crate::request::authority;
use crate::secrets::{ADDRESS, RunSecrets};
use crate::vault::OpenedCredential;
use a2s::to_single_line;

/// The credentials that are sent with a permitted request.
#[derive(Debug)]
pub(crate) struct RequestAuthorization<'s> {
    /// The additions that are known already.
    base: WireAdditions,
    /// The same additions together with the obtained tokens.
    with_tokens: Option<WireAdditions>,
    /// The tokens to get when the request is sent.
    pub(super) needs: Vec<TokenNeed>,
    /// The tokens with which the request was last sent.
    pub(super) used: Vec<UsedToken>,
    /// The secrets of the run, which mask the credentials.
    pub(super) secrets: &'s RunSecrets,
    /// Set when the executor, and not the document, sets the trace of the request.
    may_add_trace: bool,
}

/// The additions to a request when it is sent.
#[derive(Clone, Default)]
pub(super) struct WireAdditions {
    /// The scheme, host and port to which these additions may be sent; `None` when they may not be sent.
    origin: Option<url::Origin>,
    /// The headers that name the span of the request.
    trace: HeaderMap,
    headers: Vec<(HeaderName, HeaderValue)>,
    query: Vec<(String, Zeroizing<String>)>,
    cookies: Vec<(String, Zeroizing<String>)>,
    form: Vec<(&'static str, Secret)>,
}

impl std::fmt::Debug for WireAdditions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wire")
    }
}

impl OutboundClient {
    /// Returns the available credentials for these requests. Asks the registry for the owners of a
    /// capability only if a grant to a publisher depends on them.
    ///
    /// # Errors
    /// Returns a [store error](ErrorKind::Store) when the database fails, and
    /// [`ErrorKind::RegistryUnreachable`] when the owners of a capability cannot be determined.
    pub(crate) async fn available_credentials<'a>(
        &self,
        accesses: impl IntoIterator<Item = &'a CredentialRequirement>,
    ) -> Result<AvailableCredentials, Error> {
        let certified = self.clients.certified_hosts().cloned();
        let mut held = AvailableCredentials::new(self.vault.list().await?, certified);
        for capability in held.unknown_publishers(accesses) {
            let owners = self.registry.list_owners(&capability).await?;
            held.add_owners(capability, owners);
        }
        Ok(held)
    }

    /// Chooses and opens the credentials that a request requires. Nothing is sent yet.
    ///
    /// # Errors
    /// Returns [`ErrorKind::CredentialMissing`] when no alternative is complete,
    /// [`ErrorKind::CredentialRefused`] when a credential may not be sent there, and
    /// [`ErrorKind::VaultKey`] when a credential cannot be opened.
    pub(crate) async fn authorize<'s>(
        &self,
        request: &Permitted<PreparedRequest>,
        secrets: &'s RunSecrets,
    ) -> Result<RequestAuthorization<'s>, Error> {
        let mut authorization = RequestAuthorization::new(request.url(), secrets);
        authorization.may_add_trace = !request.has_own_trace();
        let Some(access) = request.access() else { return Ok(authorization) };
        // Whatever an input may have made of the address, credentials are for one host.
        if !access.host().covers(request.url()) {
            let (to, host) = (authority(request.url()), access.host());
            let message = format!("the request goes to {to}, but its credentials are for {host}");
            return Err(Error::new(ErrorKind::CredentialRefused, message));
        }
        let held = self.available_credentials([access]).await?;
        for wanted in access.choose_alternative(&held).map_err(|lack| lack.into_error())? {
            // The certificate is the connection's.
            if wanted.scheme != Some(SecurityScheme::MutualTls) {
                self.check_target(request.url())?;
                let opened = self.vault.open_credential(access.host(), &wanted.name).await?;
                // It may have been removed just now.
                let opened = opened.ok_or_else(|| credential_gone(access.host(), wanted))?;
                authorization.add_credential(access, wanted, opened)?;
            }
        }
        Ok(authorization)
    }

    /// Chooses and opens the credentials for the request after a redirect of `first`. A request to another
    /// scheme, host or port gets no credentials.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::authorize`].
    pub(crate) async fn authorize_redirect<'s>(
        &self,
        request: &Permitted<PreparedRequest>,
        first: &PreparedRequest,
        secrets: &'s RunSecrets,
    ) -> Result<RequestAuthorization<'s>, Error> {
        if request.url().origin() == first.url().origin() {
            return self.authorize(request, secrets).await;
        }
        Ok(RequestAuthorization::new(request.url(), secrets))
    }

    /// Refuses to send a credential over a connection that others could read. An upstream is allowed,
    /// because it is configured.
    pub(super) fn check_target(&self, url: &Url) -> Result<(), Error> {
        let is_private =
            url.scheme() == "https" || is_loopback(url) || self.clients.upstream(url).is_some();
        if is_private {
            return Ok(());
        }
        let message = format!(
            "the executor does not send credentials to {} over http, where others can read them",
            authority(url)
        );
        let hint = "Ask the author of the capability for an https address, or set an upstream.";
        Err(Error::new(ErrorKind::CredentialRefused, message).with_hint(hint))
    }
}

impl<'s> RequestAuthorization<'s> {
    /// Creates the authorization of a request to `url` that needs no credentials.
    fn new(url: &Url, secrets: &'s RunSecrets) -> Self {
        Self {
            base: WireAdditions::for_origin_of(url),
            with_tokens: None,
            needs: Vec::new(),
            used: Vec::new(),
            secrets,
            may_add_trace: false,
        }
    }

    /// Adds the headers of a trace, unless the document sets its own.
    pub(crate) fn add_trace(&mut self, trace: HeaderMap) {
        if self.may_add_trace {
            self.base.trace = trace;
        }
    }

    /// The additions for the wire.
    pub(super) fn additions(&self) -> &WireAdditions {
        self.with_tokens.as_ref().unwrap_or(&self.base)
    }

    /// Adds these tokens.
    pub(super) fn add_tokens(&mut self, used: Vec<UsedToken>) -> Result<(), Error> {
        let mut wire = self.base.clone();
        for used in &used {
            self.secrets.learn_credential(used.token().expose_secret())?;
            let header = bearer_header(used.token()).ok_or_else(|| {
                Error::new(
                    ErrorKind::TokenRefused,
                    "the token has characters that are not allowed in a header",
                )
            })?;
            wire.add_header(AUTHORIZATION, header)?;
        }
        (self.with_tokens, self.used) = (Some(wire), used);
        Ok(())
    }

    fn add_credential(
        &mut self,
        access: &CredentialRequirement,
        wanted: &SecurityRequirement,
        opened: OpenedCredential,
    ) -> Result<(), Error> {
        learn_credential(&opened.credential, self.secrets)?;
        let name = to_single_line(&wanted.name, 100);
        let unfit = |what: &str| {
            let message =
                format!("the credential `{name}` has characters that are not allowed in a {what}");
            let hint = "Set the credential again without these characters.";
            Error::new(ErrorKind::CredentialRefused, message).with_hint(hint)
        };
        match (&wanted.scheme, &opened.credential) {
            (
                Some(SecurityScheme::ApiKey { location: place, name }),
                Credential::ApiKey { value, place: only },
            ) => {
                let asked = KeyLocation::new(*place, name);
                if let Some(only) = only.as_ref().filter(|only| !only.is_same_location(&asked)) {
                    return Err(wrong_key_location(&wanted.name, only, &asked));
                }
                let value = value.expose_secret();
                match place {
                    ApiKeyLocation::Header => {
                        let header = HeaderName::from_bytes(name.as_bytes());
                        let header = header.map_err(|_| unfit("header"))?;
                        let value = sensitive_header(value).ok_or_else(|| unfit("header"))?;
                        self.base.add_header(header, value)
                    }
                    ApiKeyLocation::Query => {
                        let value = utf8_percent_encode(value, ADDRESS).to_string();
                        let query = &mut self.base.query;
                        add_once(query, "query parameter", name, Zeroizing::new(value))
                    }
                    ApiKeyLocation::Cookie => {
                        // Cookie characters (RFC 6265, section 4.1.1).
                        let fits = |byte: u8| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte);
                        if !value.bytes().all(fits) {
                            return Err(unfit("cookie"));
                        }
                        let value = Zeroizing::new(value.to_owned());
                        add_once(&mut self.base.cookies, "cookie", name, value)
                    }
                }
            }
            (
                Some(SecurityScheme::Http { scheme: HttpScheme::Basic, .. }),
                Credential::Basic { user, password },
            ) => {
                let header = basic_header(user, password.expose_secret(), self.secrets)?;
                self.base.add_header(AUTHORIZATION, header)
            }
            (
                Some(
                    SecurityScheme::Http { scheme: HttpScheme::Bearer, .. }
                    | SecurityScheme::OAuth2(_)
                    | SecurityScheme::OpenIdConnect { .. },
                ),
                Credential::Bearer { token },
            ) => {
                let header = bearer_header(token).ok_or_else(|| unfit("header"))?;
                self.base.add_header(AUTHORIZATION, header)
            }
            (Some(SecurityScheme::OAuth2(_)), Credential::Oauth2 { .. }) => {
                let (host, wanted) = (access.host().clone(), wanted.clone());
                self.needs.push(TokenNeed { host, requirement: wanted, credential: opened });
                Ok(())
            }
            // A credential of another kind was set just now.
            _ => Err(credential_gone(access.host(), wanted)),
        }
    }
}

/// Creates the error for a chosen credential that is no longer available.
pub(super) fn credential_gone(host: &Domain, wanted: &SecurityRequirement) -> Error {
    let name = to_single_line(&wanted.name, 100);
    let message = format!("the credential `{name}` for {host} was removed or replaced just now");
    Error::new(ErrorKind::CredentialMissing, message)
        .with_hint("Run the capability again, or store the credential again.")
}

/// Adds a key at its location. Fails when the key is already set, because a service may use either of two.
fn add_once(
    keys: &mut Vec<(String, Zeroizing<String>)>,
    place: &str,
    name: &str,
    value: Zeroizing<String>,
) -> Result<(), Error> {
    if keys.iter().any(|(known, _)| known == name) {
        return Err(duplicate_key(place, name));
    }
    keys.push((name.to_owned(), value));
    Ok(())
}

/// Creates the error for a key at a location where it was not stored: there, a document could make it
/// public.
fn wrong_key_location(scheme: &str, only: &KeyLocation, asked: &KeyLocation) -> Error {
    let [scheme, only, asked] =
        [scheme, &only.to_string(), &asked.to_string()].map(|text| to_single_line(text, 220));
    let message = format!(
        "the credential `{scheme}` was stored for `{only}`, but the document sends it as `{asked}`"
    );
    let hint = "If the service accepts it there, store the credential again for that location with `--in`.";
    Error::new(ErrorKind::CredentialRefused, message).with_hint(hint)
}

fn duplicate_key(place: &str, name: &str) -> Error {
    let message = format!("two credentials use the {place} `{}`", to_single_line(name, 100));
    let hint = "Ask the author of the capability to correct its `security`.";
    Error::new(ErrorKind::CredentialRefused, message).with_hint(hint)
}

/// Marks every secret part of a credential as secret.
pub(super) fn learn_credential(credential: &Credential, secrets: &RunSecrets) -> Result<(), Error> {
    match credential {
        Credential::ApiKey { value: secret, .. }
        | Credential::Basic { password: secret, .. }
        | Credential::Bearer { token: secret } => secrets.learn_credential(secret.expose_secret()),
        Credential::Oauth2 { client_secret, refresh_token, .. } => {
            secrets.learn_credential(client_secret.expose_secret())?;
            let refresh_token = refresh_token.as_ref();
            refresh_token.map_or(Ok(()), |token| secrets.learn_credential(token.expose_secret()))
        }
    }
}

/// Creates the header for HTTP basic authentication: user and password in UTF-8 (RFC 7617).
pub(super) fn basic_header(
    user: &str,
    password: &str,
    secrets: &RunSecrets,
) -> Result<HeaderValue, Error> {
    let pair = Zeroizing::new(format!("{user}:{password}"));
    let encoded = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
    secrets.learn_credential(&encoded)?;
    let text = Zeroizing::new(format!("Basic {}", *encoded));
    sensitive_header(&text)
        .ok_or_else(|| Error::new(ErrorKind::Internal, "base64 does not fit into a header"))
}

/// Creates the header for a bearer token.
fn bearer_header(token: &Secret) -> Option<HeaderValue> {
    sensitive_header(&Zeroizing::new(format!("Bearer {}", token.expose_secret())))
}

/// Creates a header that the HTTP client hides in its logs.
fn sensitive_header(text: &str) -> Option<HeaderValue> {
    let visible = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let mut value = HeaderValue::from_str(text).ok().filter(|_| visible)?;
    value.set_sensitive(true);
    Some(value)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl WireAdditions {
    /// Creates empty additions for the origin of `url`.
    pub(super) fn for_origin_of(url: &Url) -> Self {
        Self { origin: Some(url.origin()), ..Self::default() }
    }

    /// Adds a header. Fails when it is already set, because one header cannot contain two credentials.
    pub(super) fn add_header(&mut self, name: HeaderName, value: HeaderValue) -> Result<(), Error> {
        if self.headers.iter().any(|(known, _)| *known == name) {
            return Err(duplicate_key("header", name.as_str()));
        }
        self.headers.push((name, value));
        Ok(())
    }

    /// Adds a field to the form that is posted.
    pub(super) fn add_field(&mut self, name: &'static str, value: &str) {
        self.form.push((name, Secret::new(value)));
    }

    /// Returns true when a request to `url`, an address in the document's terms, may carry the credentials:
    /// its origin is the one that they are for.
    fn applies_to(&self, url: &Url) -> bool {
        self.origin.as_ref() == Some(&url.origin())
    }

    /// The address for the connection: `target`, which replaces `url`, with the keys for the query. Query
    /// parameters with the name of a key are replaced.
    pub(super) fn address(&self, url: &Url, target: &Url) -> Url {
        let mut address = target.clone();
        if self.query.is_empty() || !self.applies_to(url) {
            return address;
        }
        let is_key = |pair: &&str| {
            let name = pair.split('=').next().unwrap_or_default().replace('+', " ");
            let name = percent_decode_str(&name).decode_utf8_lossy();
            self.query.iter().any(|(known, _)| *known == name)
        };
        let query = Zeroizing::new(target.query().unwrap_or_default().to_owned());
        let pairs = query.split('&').filter(|pair| !pair.is_empty() && !is_key(pair));
        let mut pairs: Vec<String> = pairs.map(str::to_owned).collect();
        let keys = self.query.iter();
        pairs.extend(
            keys.map(|(name, value)| format!("{}={}", utf8_percent_encode(name, ADDRESS), **value)),
        );
        address.set_query(Some(&Zeroizing::new(pairs.join("&"))));
        address
    }

    /// Returns the headers together with those of the credentials.
    pub(super) fn headers(&self, url: &Url, headers: &HeaderMap) -> HeaderMap {
        let mut all = headers.clone();
        if !self.applies_to(url) {
            return all;
        }
        for (name, value) in &self.trace {
            all.insert(name.clone(), value.clone());
        }
        for (name, value) in &self.headers {
            all.insert(name.clone(), value.clone());
        }
        if !self.cookies.is_empty() {
            let given = all.get(COOKIE).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let is_key = |pair: &&str| {
                let name = pair.split('=').next().unwrap_or_default();
                self.cookies.iter().any(|(known, _)| known == name)
            };
            let given = given.split("; ").filter(|pair| !pair.is_empty() && !is_key(pair));
            let mut pairs: Vec<String> = given.map(str::to_owned).collect();
            pairs.extend(self.cookies.iter().map(|(name, value)| format!("{name}={}", **value)));
            // Names and values were checked when they were added.
            if let Some(value) = sensitive_header(&Zeroizing::new(pairs.join("; "))) {
                all.insert(COOKIE, value);
            }
        }
        all
    }

    /// The body, followed by the form fields of credentials.
    pub(super) fn body(&self, url: &Url, body: Option<&Bytes>) -> Option<Bytes> {
        if self.form.is_empty() || !self.applies_to(url) {
            return body.cloned();
        }
        let given = body.map(|body| String::from_utf8_lossy(body).into_owned()).unwrap_or_default();
        let mut form = url::form_urlencoded::Serializer::new(given);
        for (name, value) in &self.form {
            form.append_pair(name, value.expose_secret());
        }
        Some(Bytes::from(form.finish()))
    }
}

#[cfg(test)]
mod tests;
