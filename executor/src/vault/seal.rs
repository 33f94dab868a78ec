//! Sealing and opening. Pure but for the nonce.

use std::sync::Arc;

use a2s::{Digest, Domain};
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::key::SealingKey;
use crate::clock::RandomSource;

/// The length of a nonce, in bytes.
const NONCE: usize = 24;

/// A sealed value: it opens only with its key and at its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ciphertext {
    /// The id of the key that opens it; it reveals nothing about the key.
    pub(crate) key_id: String,
    /// The nonce.
    pub(crate) nonce: Vec<u8>,
    /// The ciphertext and the tag.
    pub(crate) bytes: Vec<u8>,
}

/// The location of a sealed value. It is authenticated with the value: moved elsewhere, the value does not
/// open.
#[derive(Debug, Clone, Copy)]
pub(super) enum SealContext<'p> {
    /// The credential of a host for a security scheme.
    Credential(&'p Domain, &'p str),
    /// The values that an event of a run leaves out.
    Event(Uuid, u64),
    /// The data that a plan was made from.
    Plan(Digest),
}

impl SealContext<'_> {
    /// Returns the bytes of the context. They differ for all contexts, because a host does not contain a
    /// line feed.
    fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Credential(host, scheme) => format!("a2s credential 1\n{host}\n{scheme}"),
            Self::Event(run, seq) => format!("a2s event 1\n{run}\n{seq}"),
            Self::Plan(id) => format!("a2s plan 1\n{id}"),
        }
        .into_bytes()
    }
}

/// Seals the data of a context. Returns `None` when it is longer than the cipher accepts.
pub(super) fn seal(
    key: &SealingKey,
    ids: &Arc<dyn RandomSource>,
    place: SealContext<'_>,
    plain: &[u8],
) -> Option<Ciphertext> {
    let mut nonce = [0; NONCE];
    let (first, second) = nonce.split_at_mut(16);
    first.copy_from_slice(&ids.random_bytes());
    second.copy_from_slice(&ids.random_bytes()[..NONCE - 16]);
    let bound = place.to_bytes();
    let payload = Payload { msg: plain, aad: &bound };
    let bytes = cipher(key).encrypt(&XNonce::from(nonce), payload).ok()?;
    Some(Ciphertext { key_id: key.id().to_owned(), nonce: nonce.to_vec(), bytes })
}

/// Opens a sealed value. `None` when anything has changed: key, location, nonce or sealed bytes.
pub(super) fn open(
    key: &SealingKey,
    place: SealContext<'_>,
    sealed: &Ciphertext,
) -> Option<Zeroizing<Vec<u8>>> {
    let nonce: [u8; NONCE] = sealed.nonce.as_slice().try_into().ok()?;
    let bound = place.to_bytes();
    let payload = Payload { msg: &sealed.bytes, aad: &bound };
    cipher(key).decrypt(&XNonce::from(nonce), payload).ok().map(Zeroizing::new)
}

fn cipher(key: &SealingKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.bytes().into())
}
