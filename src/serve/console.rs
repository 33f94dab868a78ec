//! The console: the pages that the browser shows, and the sign-in of a browser.
//!
//! The pages use the same API as every other client. The browser keeps a session cookie instead of a token
//! ([`session`]); [`Console::add_token`] turns the cookie of a request into the header that the services
//! know.

mod files;
mod session;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2s::Secret;
use a2s_api::{AuthError, AuthGuard, CallerHeaders, TokenScope};
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, HOST, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use url::Url;

use self::session::{Session, SessionKey, SignInCodes};
use super::middleware::{auth_error_response, caller_headers, problem, text};
use crate::cli_error::BAD_HOST;
use crate::clock;

pub(crate) use self::files::run_page;
pub(crate) use self::session::SignInCode;

/// Returns the address that signs a browser in with a code. A browser does not send the part after `#`, so no
/// log contains the code.
pub(crate) fn sign_in_link(server: &Url, code: &SignInCode) -> String {
    format!("{server}sign-in#code={}", code.code)
}

/// The time until a browser has to sign in again.
const SESSION_HOURS: i64 = 12;

/// The console of one process.
#[derive(Debug)]
pub(super) struct Console {
    auth: AuthGuard,
    key: SessionKey,
    codes: Mutex<SignInCodes>,
    /// The name of the cookie. Cookies do not distinguish ports: each process of a host has its own name.
    cookie: String,
}

/// The means by which a browser signs in.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SignIn {
    /// The code of a link.
    Code(Secret),
    /// A token that a person pastes.
    Token(Secret),
}

/// The caller whom a browser is signed in as.
#[derive(Debug, Serialize)]
struct SignedIn {
    subject: String,
    scopes: Vec<TokenScope>,
    /// The time from which the browser has to sign in again.
    expires_at: Timestamp,
}

impl Console {
    /// Creates the console of the process with this owner's token and port. Sessions live as long as the
    /// token of the owner stays the same, over restarts.
    pub(super) fn new(auth: AuthGuard, owner_token: &str, port: u16) -> Self {
        Self {
            auth,
            key: SessionKey::from_token(owner_token),
            codes: Mutex::default(),
            cookie: format!("a2s_session_{port}"),
        }
    }

    /// Returns a code that signs one browser in with this token.
    pub(super) fn create_code(&self, token: &str) -> SignInCode {
        self.codes().create(Secret::new(token), clock::now())
    }

    fn codes(&self) -> MutexGuard<'_, SignInCodes> {
        self.codes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pages and the sign-in. No token is needed for them.
    pub(super) fn routes(self: &Arc<Self>) -> Router {
        let sessions = Router::new()
            .route("/session", get(show_session).post(sign_in).delete(sign_out))
            .route("/session/codes", post(create_code))
            .with_state(Arc::clone(self));
        files::routes().merge(sessions)
    }

    /// Gives a request of a signed-in browser the header with its token. A request with a token of its own
    /// stays as it is, and so does one that a page of another origin has caused.
    pub(super) fn add_token(&self, request: &mut Request) {
        let headers = request.headers();
        if headers.contains_key(AUTHORIZATION) || !is_same_origin(request.method(), headers) {
            return;
        }
        let Some(session) = self.session(headers) else { return };
        if let Ok(mut value) = HeaderValue::try_from(session.authorization()) {
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
    }

    /// Returns the session of a request's cookie.
    fn session(&self, headers: &HeaderMap) -> Option<Session> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let sealed = cookies.flat_map(|line| line.split(';')).find_map(|cookie| {
            let (name, value) = cookie.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        })?;
        self.key.open(sealed, clock::now())
    }

    /// Returns the header that sets the cookie, or removes it when `value` is empty. Over TLS it stays on
    /// TLS.
    fn cookie(&self, value: &str, headers: &HeaderMap) -> [(HeaderName, String); 2] {
        let is_secure = text(headers, ORIGIN).is_some_and(|origin| origin.starts_with("https://"));
        let secure = if is_secure { "; Secure" } else { "" };
        let age = if value.is_empty() { 0 } else { SESSION_HOURS * 3600 };
        let name = &self.cookie;
        let cookie =
            format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}");
        [(SET_COOKIE, cookie), (CACHE_CONTROL, "no-store".to_owned())]
    }
}

/// Returns true when the page that caused a request is one of this service. Another port of this host is
/// the same site for a cookie, and another origin here.
fn is_same_origin(method: &Method, headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        // A person who types an address has no origin.
        return site == "same-origin" || (site == "none" && method == Method::GET);
    }
    // Browsers without that header send the origin with everything that changes something.
    let origin = text(headers, ORIGIN).and_then(|origin| origin.split_once("://"));
    match (origin, text(headers, HOST)) {
        (Some((_, origin)), Some(host)) => origin == host,
        _ => method == Method::GET,
    }
}

async fn sign_in(State(console): State<Arc<Console>>, headers: HeaderMap, body: Bytes) -> Response {
    if !is_same_origin(&Method::POST, &headers) {
        let detail = "pages of other origins must not sign a browser in";
        return problem(StatusCode::FORBIDDEN, &BAD_HOST, detail);
    }
    let now = clock::now();
    let token = match serde_json::from_slice(&body) {
        Ok(SignIn::Token(token)) => token,
        Ok(SignIn::Code(code)) => match console.codes().redeem(code.expose_secret(), now) {
            Some(token) => token,
            None => {
                let detail = "the code of this link has been used, or is too old";
                return problem(
                    StatusCode::UNAUTHORIZED,
                    executor::ErrorKind::Unauthorized.code(),
                    detail,
                );
            }
        },
        Err(error) => {
            let detail = format!("the body must have `code` or `token`: {error}");
            return problem(
                StatusCode::BAD_REQUEST,
                executor::ErrorKind::BadRequest.code(),
                &detail,
            );
        }
    };
    let session = Session { token, expires_at: now + SignedDuration::from_hours(SESSION_HOURS) };
    let signed_in = match signed_in(&console, &session).await {
        Ok(signed_in) => signed_in,
        Err(refusal) => return refusal,
    };
    (console.cookie(&console.key.seal(&session), &headers), Json(signed_in)).into_response()
}

async fn show_session(State(console): State<Arc<Console>>, headers: HeaderMap) -> Response {
    // The first page of every visit asks; a visit without a session is no error.
    let Some(session) = console.session(&headers) else {
        return (StatusCode::NO_CONTENT, [(CACHE_CONTROL, "no-store")]).into_response();
    };
    match signed_in(&console, &session).await {
        Ok(signed_in) => ([(CACHE_CONTROL, "no-store")], Json(signed_in)).into_response(),
        Err(refusal) => refusal,
    }
}

async fn sign_out(State(console): State<Arc<Console>>, headers: HeaderMap) -> Response {
    (StatusCode::NO_CONTENT, console.cookie("", &headers)).into_response()
}

/// Makes a code for the token of the request, so that no token has to be in a link.
async fn create_code(State(console): State<Arc<Console>>, headers: HeaderMap) -> Response {
    let shown = caller_headers(&headers);
    if let Err(refusal) = console.auth.authenticate(None, shown).await {
        return auth_error_response(&refusal);
    }
    let Some(token) = shown.token() else {
        return auth_error_response(&AuthError::MissingToken);
    };
    ([(CACHE_CONTROL, "no-store")], Json(console.create_code(token))).into_response()
}

/// Returns the caller of a session, whose token may have been revoked since.
async fn signed_in(console: &Console, session: &Session) -> Result<SignedIn, Response> {
    let bearer = session.authorization();
    let shown =
        CallerHeaders::from_headers(|name| (name == "authorization").then_some(bearer.as_bytes()));
    let caller = console.auth.authenticate(None, shown).await;
    let caller = caller.map_err(|refusal| auth_error_response(&refusal))?;
    Ok(SignedIn {
        subject: caller.subject.to_string(),
        scopes: caller.scopes.into_iter().collect(),
        expires_at: session.expires_at,
    })
}
