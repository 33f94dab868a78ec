//! Tokens of OAuth 2.0 (RFC 6749): fetched when they are needed, kept in memory alone.
//!
//! A client's secret goes to hosts that both sides name: the document in its `domains`, and the
//! person who stored the secret. The request for a token is derived from the permitted one, and goes
//! out by the same way with the same address rules. It runs in a task of its own: a refresh token
//! that the server has changed is stored, whatever becomes of the step that asked.

mod grant;
mod kept;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use a2s::api::{ClientAuthentication, Credential};
use a2s::{Domain, Secret, SecurityRequirement};
use http::header::AUTHORIZATION;
use jiff::SignedDuration;
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::credentials::{Authorization, Wire, basic, learn};
use super::{Failure, Outbound, authority};
use crate::access::Grant;
use crate::error::{Error, Kind};
use crate::gate::Permitted;
use crate::request::{PreparedRequest, one_line};
use crate::secrets::Secrets;
use crate::vault::Opened;
use grant::read_grant;
pub(super) use kept::Tokens;
use kept::{Key, Slot, Token};

/// How long before its end a token is not used any more, unless a tenth of its life is shorter.
const EARLY: SignedDuration = SignedDuration::from_secs(30);

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
    /// Gets every token that a request needs.
    pub(super) async fn get_tokens(
        self: &Arc<Self>,
        request: &Permitted<PreparedRequest>,
        authorization: &mut Authorization<'_>,
    ) -> Result<(), Failure> {
        let mut used = Vec::new();
        for need in &authorization.needs {
            used.push(self.get_token(request, need, authorization.secrets).await?);
        }
        authorization.equip(used).map_err(|error| Failure { error, sent: false })
    }

    /// The token that is kept for a need, or a new one.
    async fn get_token(
        self: &Arc<Self>,
        permitted: &Permitted<PreparedRequest>,
        need: &Need,
        secrets: &Secrets,
    ) -> Result<Used, Failure> {
        let unsent = |error| Failure { error, sent: false };
        let (request, _) = self.prepare(permitted, need, secrets).map_err(unsent)?;
        let slot = self.tokens.slot(Key {
            host: need.host.clone(),
            scheme: need.wanted.name.clone(),
            set_at: need.opened.set_at,
            url: request.url().to_string(),
            scopes: need.wanted.scopes.clone(),
        });
        let before = slot.fetches.load(Ordering::Acquire);
        let mut state = Arc::clone(&slot.state).lock_owned().await;
        let now = self.clock.now();
        let good = |token: &&Token| token.until.is_none_or(|until| now < until);
        if let Some(token) = state.token.as_ref().filter(good) {
            let token = token.value.clone();
            return Ok(Used { slot, token, kept: true });
        }
        if before != slot.fetches.load(Ordering::Acquire)
            && let Some(failure) = &state.failure
        {
            // Somebody has tried just now, while this request was waiting.
            return Err(failure.clone());
        }
        // A refresh token is good for one use with some servers: the newest one is in the store.
        let newest = self.vault.reveal(&need.host, &need.wanted.name).await.map_err(unsent)?;
        let newest = newest.filter(|newest| newest.set_at == need.opened.set_at);
        let opened = newest.unwrap_or_else(|| need.opened.clone());
        let need = Need { opened, ..need.clone() };
        learn(&need.opened.credential, secrets).map_err(unsent)?;
        let (request, wire) = self.prepare(permitted, &need, secrets).map_err(unsent)?;
        let (this, counted) = (Arc::clone(self), Arc::clone(&slot));
        let fetching = tokio::spawn(async move {
            let fetched = this.fetch(&request, &wire, &need).await;
            counted.fetches.fetch_add(1, Ordering::AcqRel);
            state.token = fetched.as_ref().ok().cloned();
            state.failure = fetched.as_ref().err().cloned();
            fetched
        });
        let fetched = fetching
            .await
            .map_err(|_| unsent(Error::new(Kind::Internal, "the token was not fetched")))??;
        Ok(Used { slot, token: fetched.value, kept: false })
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
        let at = |error: Error| Failure {
            error: error.at(format_args!("the token for `{}`", one_line(&need.wanted.name, 100))),
            sent: false,
        };
        let turn = self.turn(request.url(), None, &|_| {}).await;
        let turn = turn.map_err(|failure| at(failure.error))?;
        let response = self.transmit(request, turn, wire, None, 0).await;
        let response = response.map_err(|failure| at(failure.error))?;
        let granted = read_grant(&response, &host).map_err(at)?;
        if let Some(token) = &granted.refresh_token {
            let name = &need.wanted.name;
            let stored = self.vault.rotate(&need.host, name, &need.opened, token).await;
            if let Err(error) = stored {
                // The token is good all the same; the next one may not be to be had.
                tracing::error!(%error, %host, "a new refresh token could not be stored");
            }
        }
        let until = granted.life.map(|life| {
            let early = (life / 10).min(EARLY);
            let now = self.clock.now();
            now.checked_add(life - early).unwrap_or(now)
        });
        Ok(Token { value: granted.access_token, until })
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
