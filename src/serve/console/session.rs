//! Sessions of browsers, and the codes that begin them.
//!
//! A session is nothing that the server keeps: its cookie has the token and the end of the session, sealed
//! with a key that is derived from the owner's token. So it survives a restart, ends when a token is
//! revoked, and a stolen cookie does not reveal the token.

use std::collections::VecDeque;

use a2s::{Digest, Secret};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::clock;

/// The time in which a code has to be used.
const CODE_LIFE: SignedDuration = SignedDuration::from_mins(10);
/// The number of codes that wait to be used; the oldest makes room for a new one.
const MAX_CODES: usize = 16;
/// The length of a nonce, in bytes.
const NONCE: usize = 24;
/// The longest cookie that is opened, in bytes. A browser keeps 4,096.
const MAX_COOKIE: usize = 4096;
/// Separates the sealed sessions from all else that a key of the owner's token may ever seal.
const CONTEXT: &[u8] = b"a2s console session 1";

/// A browser that is signed in.
#[derive(Debug)]
pub(super) struct Session {
    /// The token of the person.
    pub(super) token: Secret,
    /// The time after which the session counts no more.
    pub(super) expires_at: Timestamp,
}

/// The key that seals sessions.
pub(super) struct SessionKey(XChaCha20Poly1305);

impl Session {
    /// Returns the header `Authorization` of the person (RFC 6750, section 2.1).
    pub(super) fn authorization(&self) -> String {
        format!("Bearer {}", self.token.expose_secret())
    }
}

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

impl SessionKey {
    pub(super) fn from_token(owner_token: &str) -> Self {
        let key = Digest::of_bytes(&[CONTEXT, b"\n", owner_token.as_bytes()].concat());
        Self(XChaCha20Poly1305::new(key.as_bytes().into()))
    }

    /// Returns the text of the cookie.
    pub(super) fn seal(&self, session: &Session) -> String {
        let nonce: [u8; NONCE] = clock::random_bytes();
        let mut plain = session.expires_at.as_second().to_be_bytes().to_vec();
        plain.extend_from_slice(session.token.expose_secret().as_bytes());
        let payload = Payload { msg: &plain, aad: CONTEXT };
        // Only a text of gigabytes cannot be sealed; an empty cookie opens no session.
        let sealed = self.0.encrypt(&XNonce::from(nonce), payload).unwrap_or_default();
        URL_SAFE_NO_PAD.encode([nonce.as_slice(), &sealed].concat())
    }

    /// Returns the session of a cookie that this key has sealed and that has not ended.
    pub(super) fn open(&self, cookie: &str, now: Timestamp) -> Option<Session> {
        let bytes = URL_SAFE_NO_PAD.decode((cookie.len() <= MAX_COOKIE).then_some(cookie)?).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE>()?;
        let payload = Payload { msg: sealed, aad: CONTEXT };
        let plain = self.0.decrypt(&XNonce::from(*nonce), payload).ok()?;
        let (seconds, token) = plain.split_first_chunk()?;
        let expires_at = Timestamp::from_second(i64::from_be_bytes(*seconds)).ok()?;
        let token = Secret::new(str::from_utf8(token).ok()?);
        (now < expires_at).then_some(Session { token, expires_at })
    }
}

/// A code that signs one browser in.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SignInCode {
    /// The code: it cannot be guessed.
    pub(crate) code: String,
    /// The time from which it counts no more.
    pub(crate) expires_at: Timestamp,
}

/// The unused codes, oldest first.
#[derive(Debug, Default)]
pub(super) struct SignInCodes(VecDeque<(Secret, Session)>);

impl SignInCodes {
    /// Returns a new code for a token.
    pub(super) fn create(&mut self, token: Secret, now: Timestamp) -> SignInCode {
        if self.0.len() == MAX_CODES {
            self.0.pop_front();
        }
        let code = clock::random_token();
        let expires_at = now + CODE_LIFE;
        self.0.push_back((Secret::new(code.as_str()), Session { token, expires_at }));
        SignInCode { code, expires_at }
    }

    /// Returns the token of a code, which is used up by this.
    pub(super) fn redeem(&mut self, code: &str, now: Timestamp) -> Option<Secret> {
        let at = self.0.iter().position(|(known, _)| known.matches(code))?;
        let (_, waiting) = self.0.remove(at)?;
        (now < waiting.expires_at).then_some(waiting.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        let expires_at = "2026-01-01T12:00:00Z".parse().unwrap();
        Session { token: Secret::new("a2s_token"), expires_at }
    }

    #[test]
    fn a_session_opens_with_its_key_until_it_ends() {
        let key = SessionKey::from_token("owner");
        let cookie = key.seal(&session());
        let before = "2026-01-01T11:59:59Z".parse().unwrap();
        for key in [&key, &SessionKey::from_token("owner")] {
            let opened = key.open(&cookie, before).unwrap();
            assert!(opened.token.matches("a2s_token"));
            assert_eq!(opened.expires_at, session().expires_at);
        }
        assert!(SessionKey::from_token("other").open(&cookie, before).is_none());
        assert!(key.open(&cookie, session().expires_at).is_none());
        assert!(!cookie.contains("a2s_token") && key.seal(&session()) != cookie);
    }

    #[test]
    fn a_changed_cookie_opens_nothing() {
        let key = SessionKey::from_token("owner");
        let cookie = key.seal(&session());
        for at in 0..cookie.len() {
            let mut bytes = cookie.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            let opened = key.open(&changed, Timestamp::UNIX_EPOCH);
            assert!(opened.is_none(), "{at}");
        }
        for bad in ["", "A", "====", &"A".repeat(MAX_COOKIE + 1), &cookie[..cookie.len() / 2]] {
            assert!(key.open(bad, Timestamp::UNIX_EPOCH).is_none());
        }
    }

    #[test]
    fn a_code_is_used_once_and_in_time() {
        let mut codes = SignInCodes::default();
        let now = Timestamp::UNIX_EPOCH;
        let code = codes.create(Secret::new("t"), now).code;
        assert!(codes.redeem("other", now).is_none());
        assert!(codes.redeem(&code, now).unwrap().matches("t"));
        assert!(codes.redeem(&code, now).is_none());
        let late = codes.create(Secret::new("t"), now).code;
        assert!(codes.redeem(&late, now + CODE_LIFE).is_none());
        let first = codes.create(Secret::new("t"), now).code;
        for _ in 0..MAX_CODES {
            codes.create(Secret::new("t"), now);
        }
        assert!(codes.redeem(&first, now).is_none());
    }
}
