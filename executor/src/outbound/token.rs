//! Tokens of OAuth 2.0 (RFC 6749): fetched when they are needed, kept in memory alone.
//!
//! A client's secret goes to hosts that both sides name: the document in its `domains`, and the
//! person who stored the secret. The request for a token is derived from the permitted one, and goes
//! out by the same way with the same address rules. It runs in a task of its own: a refresh token
//! that the server has changed is stored, whatever becomes of the step that asked.
//!
//! A server that does not answer now, or says that it is busy, is asked again with the next attempt
//! of the step, as a service would be. One that refuses the client is not.

mod token_cache;
mod token_response;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use a2s::{Domain, Secret, SecurityRequirement};
use a2s_api::{ClientAuthentication, Credential, RequestPurpose};
use http::header::AUTHORIZATION;
use jiff::SignedDuration;
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::credentials::{
    RequestAuthorization, WireAdditions, basic_header, credential_gone, learn_credential,
};
use super::retry::retry_after;
use super::{AnnounceRequest, OutboundClient, SendError, current_tenant, with_tenant};
use crate::clock::milliseconds_between;
use crate::credential_requirements::{GrantType, replace_command};
use crate::error::{Error, ErrorKind};
use crate::gate::Permitted;
use crate::request::PreparedRequest;
use crate::request::authority;
use crate::secrets::RunSecrets;
use crate::vault::OpenedCredential;
use a2s::to_single_line;
pub(super) use token_cache::TokenCache;
use token_cache::{CachedToken, TokenKey, TokenSlot};
use token_response::{TokenError, parse_token_response};

/// The time before its end from which a token is not used any more, unless a tenth of its life is shorter.
const EXPIRY_MARGIN: SignedDuration = SignedDuration::from_secs(30);
/// The lifetime of a token for which the server states none. Without it, a service that refuses an old
/// token with another status than 401 would refuse it forever.
const DEFAULT_LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// A token that a request needs.
#[derive(Debug, Clone)]
pub(super) struct TokenNeed {
    /// The host that the credential is stored for.
    pub(super) host: Domain,
    /// The requirement in the document.
    pub(super) requirement: SecurityRequirement,
    /// The client.
    pub(super) credential: OpenedCredential,
}

/// A token that a request was sent with.
#[derive(Debug)]
pub(super) struct UsedToken {
    slot: Arc<TokenSlot>,
    token: Secret,
    /// Set when it was fetched for an earlier request.
    from_cache: bool,
}

/// The record of a token request.
#[derive(Debug, Clone)]
pub(crate) struct TokenFetch {
    /// Host and port of the authorization server.
    pub(crate) host: String,
    /// The name of the scheme that requires the token.
    pub(crate) scheme: String,
    /// Set when it replaces an earlier one.
    pub(crate) renewed: bool,
    /// The duration, in milliseconds.
    pub(crate) duration_ms: u64,
    /// The reason for which none came.
    pub(crate) failure: Option<Error>,
}

impl UsedToken {
    pub(super) fn token(&self) -> &Secret {
        &self.token
    }
}

impl RequestAuthorization<'_> {
    /// Discards the tokens of a request that the service has not authorized. Returns true when one of them
    /// came from the cache, so that a new token may help.
    pub(crate) async fn discard_tokens(&mut self) -> bool {
        let mut was_kept = false;
        for used in std::mem::take(&mut self.used) {
            was_kept |= used.from_cache;
            let mut state = used.slot.state.lock().await;
            if state.token.as_ref().is_some_and(|token| token.value == used.token) {
                state.token = None;
            }
        }
        was_kept
    }
}

/// The request that needs tokens, and the client that gets them.
pub(super) struct TokenFetcher<'a> {
    pub(super) outbound: &'a Arc<OutboundClient>,
    pub(super) request: &'a Permitted<PreparedRequest>,
    pub(super) secrets: &'a RunSecrets,
    /// Records a token request before it is sent.
    pub(super) announce: &'a dyn AnnounceRequest,
    /// Takes the record of each token request.
    pub(super) on_fetch: &'a (dyn Fn(TokenFetch) + Sync),
}

impl TokenFetcher<'_> {
    /// Gets a token for each of these needs.
    pub(super) async fn get_tokens(
        &self,
        needs: &[TokenNeed],
    ) -> Result<Vec<UsedToken>, SendError> {
        let mut used = Vec::new();
        for need in needs {
            used.push(self.get_token(need).await?);
        }
        Ok(used)
    }

    /// Returns the cached token for a need, or gets a new one.
    async fn get_token(&self, need: &TokenNeed) -> Result<UsedToken, SendError> {
        let outbound = self.outbound;
        let (request, _) = self.prepare_token_request(need).map_err(SendError::before_send)?;
        let slot = outbound.tokens.slot(TokenKey {
            host: need.host.clone(),
            scheme: need.requirement.name.clone(),
            set_at: need.credential.set_at,
            url: request.url().to_string(),
            scopes: need.requirement.scopes.clone(),
        });
        let before = slot.fetches.load(Ordering::Acquire);
        let mut state = Arc::clone(&slot.state).lock_owned().await;
        let began = outbound.clock.now();
        if let Some(token) = state.token.as_ref().filter(|token| token.is_usable(began)) {
            let token = token.value.clone();
            return Ok(UsedToken { slot, token, from_cache: true });
        }
        if before != slot.fetches.load(Ordering::Acquire)
            && let Some(failure) = &state.failure
        {
            // Another request has tried just now, while this one waited.
            return Err(failure.clone());
        }
        // A refresh token is good for one use with some servers, whatever it is used for: one after
        // another they read the newest one, and store what comes.
        let renewing = match &need.credential.credential {
            Credential::Oauth2 { refresh_token: Some(_), .. } => Some(
                outbound.tokens.refresh_lock(&need.host, &need.requirement.name).lock_owned().await,
            ),
            _ => None,
        };
        let need = self.reopen_credential(need).await.map_err(SendError::before_send)?;
        let (request, wire) = self.prepare_token_request(&need).map_err(SendError::before_send)?;
        let (host, scheme) = (authority(request.url()), need.requirement.name.clone());
        let renewed = state.had_token;
        let announced = self.announce.announce(RequestPurpose::Token, &request).await;
        announced.map_err(SendError::before_send)?;
        let (this, counted) = (Arc::clone(outbound), Arc::clone(&slot));
        let fetching = tokio::spawn(with_tenant(current_tenant(), async move {
            let fetched = fetch_token(&this, &request, &wire, &need).await;
            drop(renewing);
            counted.fetches.fetch_add(1, Ordering::AcqRel);
            state.had_token |= fetched.is_ok();
            state.token = fetched.as_ref().ok().cloned();
            state.failure = fetched.as_ref().err().cloned();
            fetched
        }));
        let fetched = fetching.await.unwrap_or_else(|_| {
            Err(SendError::before_send(Error::new(
                ErrorKind::Internal,
                "the token was not fetched",
            )))
        });
        (self.on_fetch)(TokenFetch {
            host,
            scheme,
            renewed,
            duration_ms: milliseconds_between(began, outbound.clock.now()),
            failure: fetched.as_ref().err().map(|failure| failure.error.clone()),
        });
        fetched.map(|token| UsedToken { slot, token: token.value, from_cache: false })
    }

    /// Opens the credential of a need again. Another request may have stored a new refresh token.
    async fn reopen_credential(&self, need: &TokenNeed) -> Result<TokenNeed, Error> {
        let newest =
            self.outbound.vault.open_credential(&need.host, &need.requirement.name).await?;
        let credential = newest
            .filter(|newest| newest.set_at == need.credential.set_at)
            .ok_or_else(|| credential_gone(&need.host, &need.requirement))?;
        learn_credential(&credential.credential, self.secrets)?;
        Ok(TokenNeed { credential, ..need.clone() })
    }

    /// Creates the request for a token, and the client's credentials for it.
    fn prepare_token_request(
        &self,
        need: &TokenNeed,
    ) -> Result<(Permitted<PreparedRequest>, WireAdditions), Error> {
        let Credential::Oauth2 {
            client_id,
            client_secret,
            refresh_token,
            token_hosts,
            client_authentication,
        } = &need.credential.credential
        else {
            return Err(Error::new(ErrorKind::Internal, "a token was requested without a client"));
        };
        let grant = if refresh_token.is_some() { GrantType::Refresh } else { GrantType::Client };
        let request = self.request.token_request(&need.requirement, grant)?;
        let url = request.url();
        let allowed = match token_hosts.as_slice() {
            [] => need.host.covers(url),
            hosts => hosts.iter().any(|host| host.covers(url)),
        };
        if !allowed {
            return Err(foreign(need, url));
        }
        self.outbound.check_target(url)?;
        let mut wire = WireAdditions::for_origin_of(url);
        match client_authentication {
            ClientAuthentication::Basic => {
                // Encoded as in a form first (RFC 6749, section 2.3.1).
                let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let header = basic_header(
                    &encode(client_id),
                    &encode(client_secret.expose_secret()),
                    self.secrets,
                )?;
                wire.add_header(AUTHORIZATION, header)?;
            }
            ClientAuthentication::Body => {
                wire.add_field("client_id", client_id);
                wire.add_field("client_secret", client_secret.expose_secret());
            }
        }
        if let Some(token) = refresh_token {
            wire.add_field("refresh_token", token.expose_secret());
        }
        Ok((request, wire))
    }
}

/// Fetches a token, and stores the refresh token that comes with it.
async fn fetch_token(
    outbound: &OutboundClient,
    request: &Permitted<PreparedRequest>,
    wire: &WireAdditions,
    need: &TokenNeed,
) -> Result<CachedToken, SendError> {
    let host = authority(request.url());
    tracing::debug!(%host, "fetching a token");
    // That a token was asked for changes nothing for the step: its own request has not left.
    let at = |failure: SendError| {
        let place = format_args!("the token for `{}`", to_single_line(&need.requirement.name, 100));
        SendError { error: failure.error.with_context(place), sent: false, ..failure }
    };
    let turn = outbound.acquire_permit(request.url(), None, &|_| {}).await.map_err(at)?;
    let reply = outbound.transmit(request, turn, wire, None).await;
    let response = reply.and_then(|reply| reply.into_response(request.url())).map_err(at)?;
    let now = outbound.clock.now();
    let granted = parse_token_response(&response).map_err(|refusal| SendError {
        error: explain(&refusal, need, &host),
        sent: false,
        retry_after: matches!(refusal, TokenError::Busy(_))
            .then(|| retry_after(&response.headers, now).unwrap_or_default()),
    })?;
    if let Some(token) = &granted.refresh_token {
        let name = &need.requirement.name;
        let stored =
            outbound.vault.replace_refresh_token(&need.host, name, &need.credential, token).await;
        if let Err(error) = stored {
            // The token is good all the same; the next one may not be to be had.
            tracing::error!(%error, %host, "the new refresh token could not be stored");
        }
    }
    let life = granted.life.unwrap_or(DEFAULT_LIFETIME);
    let until = now.checked_add(life - (life / 10).min(EXPIRY_MARGIN)).unwrap_or(now);
    Ok(CachedToken { value: granted.access_token, from: now, until })
}

/// The error when an authorization server gave no token, with the action that fixes it.
fn explain(refusal: &TokenError, need: &TokenNeed, host: &str) -> Error {
    let name = to_single_line(&need.requirement.name, 100);
    match refusal {
        TokenError::Busy(status) => {
            let message = format!(
                "the token for `{name}`: {host} returned no token, but the status {status}"
            );
            Error::new(ErrorKind::TokenUnavailable, message)
        }
        TokenError::Status(status) => {
            let message = format!(
                "the token for `{name}`: {host} responded with the status {status}, but a token comes with the status 200"
            );
            Error::new(ErrorKind::TokenRefused, message)
                .with_hint("Ask the author of the capability to check the address for tokens; if it is correct, report the status to the operator of the authorization server.")
        }
        TokenError::Unusable(why) => {
            Error::new(ErrorKind::TokenRefused, format!("the token for `{name}`: {host} {why}"))
                .with_hint("Ask the author of the capability to check the address for tokens.")
        }
        TokenError::Refused(status, code) => {
            let says = code.map_or_else(String::new, |code| format!(" and `{code}`"));
            let message = format!(
                "{host} rejected the credential `{name}` of {} with the status {status}{says}",
                need.host
            );
            let command =
                replace_command(&need.host, &need.requirement.name, &need.credential.credential);
            let hint = match *code {
                Some("invalid_scope") if need.requirement.scopes.is_empty() => format!(
                    "Ask the operator of {host} which scopes the client may have, and the author of the capability to name them: it asks for none."
                ),
                Some("invalid_scope") => {
                    let scopes = to_single_line(&need.requirement.scopes.join(" "), 200);
                    format!("Ask the operator of {host} to give the client these scopes: {scopes}.")
                }
                Some("unauthorized_client" | "unsupported_grant_type") => {
                    format!(
                        "Ask the operator of {host} to allow the client this kind of token request."
                    )
                }
                Some("invalid_grant") => {
                    format!("Get a new refresh token, and store it: `{command}`.")
                }
                _ => format!("Store the credential again: `{command}`."),
            };
            Error::new(ErrorKind::TokenRefused, message).with_hint(hint)
        }
    }
}

fn foreign(need: &TokenNeed, url: &Url) -> Error {
    let (host, name) = (authority(url), to_single_line(&need.requirement.name, 100));
    let message = format!(
        "the document gets tokens for `{name}` from {host}, but the client's secret was not stored for that host"
    );
    let hint = format!(
        "If you trust {host} with the secret, set the credential again with `--token-host {host}`."
    );
    Error::new(ErrorKind::CredentialRefused, message).with_hint(hint)
}
