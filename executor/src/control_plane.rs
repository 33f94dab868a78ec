//! Clients of the control plane: the registry, and who gets spans. What goes to services leaves by
//! [`crate::outbound`] alone.

use std::time::Duration;

use reqwest::{ClientBuilder, redirect, retry};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A client that talks to the address it is given and to nobody else, and whose answers may take
/// `timeout`.
pub(crate) fn client(timeout: Duration) -> ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(timeout)
}
