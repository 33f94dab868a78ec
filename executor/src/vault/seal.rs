//! Sealing and opening. Pure.

use a2s::Domain;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use super::key::Key;

/// The length of a nonce, in bytes.
pub(super) const NONCE: usize = 24;

pub(super) fn seal(
    key: &Key,
    host: &Domain,
    scheme: &str,
    nonce: &[u8; NONCE],
    plain: &[u8],
) -> Option<Vec<u8>> {
    let bound = bind(host, scheme);
    let payload = Payload { msg: plain, aad: &bound };
    cipher(key).encrypt(&XNonce::from(*nonce), payload).ok()
}

/// None when anything is not what it was: key, host, scheme, nonce or what is sealed.
pub(super) fn open(
    key: &Key,
    host: &Domain,
    scheme: &str,
    nonce: &[u8],
    sealed: &[u8],
) -> Option<Zeroizing<Vec<u8>>> {
    let nonce: [u8; NONCE] = nonce.try_into().ok()?;
    let bound = bind(host, scheme);
    let payload = Payload { msg: sealed, aad: &bound };
    cipher(key).decrypt(&XNonce::from(nonce), payload).ok().map(Zeroizing::new)
}

fn cipher(key: &Key) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.bytes().into())
}

/// What is authenticated beside the credential: no two pairs of host and scheme have one spelling,
/// because no host holds a line feed.
fn bind(host: &Domain, scheme: &str) -> Vec<u8> {
    format!("a2s credential 1\n{host}\n{scheme}").into_bytes()
}
