//! The protocol from outside: the published schema, the documented forms, and a client against real servers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod examples;
mod generate;
mod hooks;
mod roundtrip;
mod schema;
mod several;
mod tls;
