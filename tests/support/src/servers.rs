//! HTTP servers on loopback.

use std::net::SocketAddr;

use axum::Router;
use tokio::net::TcpListener;

/// Serves `router` on a free port until the runtime ends, and returns its address.
pub async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// An address at which no server listens.
#[must_use]
pub fn unused_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
