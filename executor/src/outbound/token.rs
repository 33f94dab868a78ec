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

use a2s::api::{ClientAuthentication, Credential, RequestPurpose};
use a2s::{Domain, Secret, SecurityRequirement};
use http::header::AUTHORIZATION;
use jiff::SignedDuration;
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::credentials::{Authorization, Wire, basic, gone, learn};
use super::retry::retry_after;
use super::{Announce, Failure, Outbound, act_for, current_tenant};
use crate::clock::milliseconds_between;
use crate::credential_requirements::{Grant, client_command};
use crate::error::{Error, Kind};
use crate::gate::Permitted;
use crate::request::PreparedRequest;
use crate::request::authority;
use crate::secrets::Secrets;
use crate::vault::Opened;
use a2s::one_line;
pub(super) use token_cache::Tokens;
use token_cache::{Key, Slot, Token};
use token_response::{Refusal, read_grant};

/// How long before its end a token is not used any more, unless a tenth of its life is shorter.
const EARLY: SignedDuration = SignedDuration::from_secs(30);
/// The life of a token of which the server does not say how long it is: services that refuse an old
/// one with another status than 401 would refuse it for ever.
const UNTOLD_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// A token that a request needs.
#[derive(Debug, Clone)]
pub(super) struct Need {
    /// The host that the credential is stored for.
    pub(super) host: Domain,
    /// What the document says.
    pub(super) wanted: SecurityRequirement,
    /// The client.
    pub(super) opened: Opened,
}

/// A token that a request was sent with.
#[derive(Debug)]
pub(super) struct Used {
    slot: Arc<Slot>,
    token: Secret,
    /// Whether it had been fetched for an earlier request.
    kept: bool,
}

/// What is told of a token that was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Fetch {
    /// Host and port of the authorization server.
    pub(crate) host: String,
    /// The name of the scheme that wants it.
    pub(crate) scheme: String,
    /// Whether it takes the place of an earlier one.
    pub(crate) renewed: bool,
    /// How long it took, in milliseconds.
    pub(crate) duration_ms: u64,
    /// Why none came.
    pub(crate) failure: Option<Error>,
}

impl Used {
    pub(super) fn token(&self) -> &Secret {
        &self.token
    }
}

impl Authorization<'_> {
    /// The service answered that it does not let the request in: the tokens that it went with are
    /// forgotten. True when one of them was an older one, so that a new one may do better.
    pub(crate) async fn refused(&mut self) -> bool {
        let mut was_kept = false;
        for used in std::mem::take(&mut self.used) {
            was_kept |= used.kept;
            let mut state = used.slot.state.lock().await;
            if state.token.as_ref().is_some_and(|token| token.value == used.token) {
                state.token = None;
            }
        }
        was_kept
    }
}

impl Outbound {
    /// Gets every token that a request needs. `on_fetch` is told of those that were asked for.
    pub(super) async fn get_tokens(
        self: &Arc<Self>,
        request: &Permitted<PreparedRequest>,
        authorization: &mut Authorization<'_>,
        announce: &dyn Announce,
        on_fetch: &(dyn Fn(Fetch) + Sync),
    ) -> Result<(), Failure> {
        let mut used = Vec::new();
        for need in &authorization.needs {
            used.push(
                self.get_token(request, need, authorization.secrets, announce, on_fetch).await?,
            );
        }
        authorization.equip(used).map_err(Failure::before)
    }

    /// The token that is kept for a need, or a new one.
    async fn get_token(
        self: &Arc<Self>,
        permitted: &Permitted<PreparedRequest>,
        need: &Need,
        secrets: &Secrets,
        announce: &dyn Announce,
        on_fetch: &(dyn Fn(Fetch) + Sync),
    ) -> Result<Used, Failure> {
        let (request, _) = self.prepare(permitted, need, secrets).map_err(Failure::before)?;
        let slot = self.tokens.slot(Key {
            host: need.host.clone(),
            scheme: need.wanted.name.clone(),
            set_at: need.opened.set_at,
            url: request.url().to_string(),
            scopes: need.wanted.scopes.clone(),
        });
        let before = slot.fetches.load(Ordering::Acquire);
        let mut state = Arc::clone(&slot.state).lock_owned().await;
        let began = self.clock.now();
        if let Some(token) = state.token.as_ref().filter(|token| token.is_good(began)) {
            let token = token.value.clone();
            return Ok(Used { slot, token, kept: true });
        }
        if before != slot.fetches.load(Ordering::Acquire)
            && let Some(failure) = &state.failure
        {
            // Somebody has tried just now, while this request was waiting.
            return Err(failure.clone());
        }
        // A refresh token is good for one use with some servers, whatever it is used for: one after
        // another they read the newest one, and store what comes.
        let renewing = match &need.opened.credential {
            Credential::Oauth2 { refresh_token: Some(_), .. } => {
                Some(self.tokens.renewal(&need.host, &need.wanted.name).lock_owned().await)
            }
            _ => None,
        };
        let newest = self.vault.reveal(&need.host, &need.wanted.name).await;
        let newest = newest.map_err(Failure::before)?;
        let newest = newest.filter(|newest| newest.set_at == need.opened.set_at);
        let opened = newest.ok_or_else(|| Failure::before(gone(&need.host, &need.wanted)))?;
        let need = Need { opened, ..need.clone() };
        learn(&need.opened.credential, secrets).map_err(Failure::before)?;
        let (request, wire) = self.prepare(permitted, &need, secrets).map_err(Failure::before)?;
        let (host, scheme) = (authority(request.url()), need.wanted.name.clone());
        let renewed = state.had_one;
        let announced = announce.announce(RequestPurpose::Token, &request).await;
        announced.map_err(Failure::before)?;
        let (this, counted) = (Arc::clone(self), Arc::clone(&slot));
        let fetching = tokio::spawn(act_for(current_tenant(), async move {
            let fetched = this.fetch(&request, &wire, &need).await;
            drop(renewing);
            counted.fetches.fetch_add(1, Ordering::AcqRel);
            state.had_one |= fetched.is_ok();
            state.token = fetched.as_ref().ok().cloned();
            state.failure = fetched.as_ref().err().cloned();
            fetched
        }));
        let fetched = fetching.await.unwrap_or_else(|_| {
            Err(Failure::before(Error::new(Kind::Internal, "the token was not fetched")))
        });
        on_fetch(Fetch {
            host,
            scheme,
            renewed,
            duration_ms: milliseconds_between(began, self.clock.now()),
            failure: fetched.as_ref().err().map(|failure| failure.error.clone()),
        });
        fetched.map(|token| Used { slot, token: token.value, kept: false })
    }

    /// The request for a token, and the client's credentials for it.
    fn prepare(
        &self,
        request: &Permitted<PreparedRequest>,
        need: &Need,
        secrets: &Secrets,
    ) -> Result<(Permitted<PreparedRequest>, Wire), Error> {
        let Credential::Oauth2 {
            client_id,
            client_secret,
            refresh_token,
            token_hosts,
            client_authentication,
        } = &need.opened.credential
        else {
            return Err(Error::new(Kind::Internal, "a token was asked for without a client"));
        };
        let grant = if refresh_token.is_some() { Grant::Refresh } else { Grant::Client };
        let request = request.token_request(&need.wanted, grant)?;
        let url = request.url();
        let allowed = match token_hosts.as_slice() {
            [] => need.host.covers(url),
            hosts => hosts.iter().any(|host| host.covers(url)),
        };
        if !allowed {
            return Err(foreign(need, url));
        }
        self.check_target(url)?;
        let mut wire = Wire::to(url);
        match client_authentication {
            ClientAuthentication::Basic => {
                // Encoded as in a form first (RFC 6749, section 2.3.1).
                let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let header = basic(&encode(client_id), &encode(client_secret.reveal()), secrets)?;
                wire.add_header(AUTHORIZATION, header)?;
            }
            ClientAuthentication::Body => {
                wire.add_field("client_id", client_id);
                wire.add_field("client_secret", client_secret.reveal());
            }
        }
        if let Some(token) = refresh_token {
            wire.add_field("refresh_token", token.reveal());
        }
        Ok((request, wire))
    }

    /// Fetches a token, and stores the refresh token that comes with it.
    async fn fetch(
        &self,
        request: &Permitted<PreparedRequest>,
        wire: &Wire,
        need: &Need,
    ) -> Result<Token, Failure> {
        let host = authority(request.url());
        tracing::debug!(%host, "fetching a token");
        // That a token was asked for changes nothing for the step: its own request has not left.
        let at = |failure: Failure| {
            let place = format_args!("the token for `{}`", one_line(&need.wanted.name, 100));
            Failure { error: failure.error.at(place), sent: false, ..failure }
        };
        let turn = self.turn(request.url(), None, &|_| {}).await.map_err(at)?;
        let reply = self.transmit(request, turn, wire, None).await;
        let response = reply.and_then(|reply| reply.into_answer(request.url())).map_err(at)?;
        let now = self.clock.now();
        let granted = read_grant(&response).map_err(|refusal| Failure {
            error: explain(&refusal, need, &host),
            sent: false,
            busy: matches!(refusal, Refusal::Busy(_))
                .then(|| retry_after(&response.headers, now).unwrap_or_default()),
        })?;
        if let Some(token) = &granted.refresh_token {
            let name = &need.wanted.name;
            let stored = self.vault.rotate(&need.host, name, &need.opened, token).await;
            if let Err(error) = stored {
                // The token is good all the same; the next one may not be to be had.
                tracing::error!(%error, %host, "a new refresh token could not be stored");
            }
        }
        let life = granted.life.unwrap_or(UNTOLD_LIFE);
        let until = now.checked_add(life - (life / 10).min(EARLY)).unwrap_or(now);
        Ok(Token { value: granted.access_token, from: now, until })
    }
}

/// Why an authorization server gave no token, and what to do about it.
fn explain(refusal: &Refusal, need: &Need, host: &str) -> Error {
    let name = one_line(&need.wanted.name, 100);
    match refusal {
        Refusal::Busy(status) => {
            let message =
                format!("the token for `{name}`: {host} gave none now, but the status {status}");
            Error::new(Kind::TokenUnavailable, message)
        }
        Refusal::Unusable(why) => {
            Error::new(Kind::TokenRefused, format!("the token for `{name}`: {host} {why}"))
                .hint("Ask the author of the capability whether tokens are got there.")
        }
        Refusal::Refused(status, code) => {
            let says = code.map_or_else(String::new, |code| format!(" and `{code}`"));
            let message = format!(
                "{host} refused the credential `{name}` of {}, with the status {status}{says}",
                need.host
            );
            let command = client_command(&need.host, &need.wanted.name, &need.opened.credential);
            let hint = match *code {
                Some("invalid_scope") => {
                    let scopes = one_line(&need.wanted.scopes.join(" "), 200);
                    format!("Ask who runs {host} to give the client these scopes: {scopes}.")
                }
                Some("unauthorized_client" | "unsupported_grant_type") => {
                    format!("Ask who runs {host} to let the client get tokens in this way.")
                }
                Some("invalid_grant") => {
                    format!("Get a new refresh token, and store it: `{command}`.")
                }
                _ => format!("Store it anew: `{command}`."),
            };
            Error::new(Kind::TokenRefused, message).hint(hint)
        }
    }
}

fn foreign(need: &Need, url: &Url) -> Error {
    let (host, name) = (authority(url), one_line(&need.wanted.name, 100));
    let message = format!(
        "the document gets tokens for `{name}` from {host}, and the client's secret was not stored for that host"
    );
    let hint = format!(
        "If you trust {host} with it, set the credential again with `--token-host {host}`."
    );
    Error::new(Kind::CredentialRefused, message).hint(hint)
}
