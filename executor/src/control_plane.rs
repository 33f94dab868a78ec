//! Clients of the control plane: the registry, and who gets spans. What goes to services leaves by
//! [`crate::outbound`] alone.

use std::time::Duration;

use reqwest::{ClientBuilder, redirect, retry};

/// The timeout for making a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A client that connects only to the given address, with `timeout` as the limit for a response.
pub(crate) fn client(timeout: Duration) -> ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(timeout)
}
