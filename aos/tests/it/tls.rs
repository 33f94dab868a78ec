//! A guardian behind TLS: whom it lets in, whom the client believes, and which HTTP they speak.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use aos::{
    BuildError, ClientIdentity, FailMode, GuardianClient, Options, TrustRoots, Verdict,
    VerdictSource,
};
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::Version;
use axum::routing::post;
use serde_json::Value;
use test_support::{CertificateAuthority, allow, rpc_result};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use url::Url;

use crate::client::tool_call;

fn identity(authority: &CertificateAuthority) -> ClientIdentity {
    let (certificate, key) = authority.sign();
    ClientIdentity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
}

fn trusted(authority: &CertificateAuthority) -> TrustRoots {
    TrustRoots::from_pem(authority.certificate.pem().as_bytes()).unwrap()
}

/// Connections that have said who they are.
struct Listener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((connection, peer)) = self.tcp.accept().await else { continue };
            if let Ok(connection) = self.acceptor.accept(connection).await {
                return (connection, peer);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// A guardian that allows whoever shows a certificate of `authority`, and notes how it was asked.
async fn guardian(
    authority: &CertificateAuthority,
    protocols: &[&str],
    seen: Arc<Mutex<Vec<Version>>>,
) -> Url {
    let answer = move |request: Request| {
        let seen = Arc::clone(&seen);
        async move {
            seen.lock().unwrap().push(request.version());
            let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
            let question: Value = serde_json::from_slice(&body).unwrap();
            rpc_result(&question, allow())
        }
    };
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    let listener = Listener { tcp, acceptor: TlsAcceptor::from(authority.mutual_tls(protocols)) };
    let router = Router::new().route("/aos", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    Url::parse(&format!("https://localhost:{port}/aos")).unwrap()
}

fn client(
    url: &Url,
    identity: Option<ClientIdentity>,
    authorities: Option<TrustRoots>,
) -> GuardianClient {
    let options = Options { identity, trust_roots: authorities, ..Options::default() };
    GuardianClient::new(url.clone(), options).unwrap()
}

#[tokio::test]
async fn both_sides_show_who_they_are() {
    let (known, unknown) = (CertificateAuthority::new(), CertificateAuthority::new());
    let url = guardian(&known, &["h2", "http/1.1"], Arc::default()).await;
    let outcome =
        client(&url, Some(identity(&known)), Some(trusted(&known))).ask(&tool_call()).await;
    assert_eq!((outcome.verdict, outcome.origin), (Verdict::Allow, VerdictSource::Guardian));
    // It does not know the agent; the agent does not know it; nobody shows anything.
    for (identity, authorities) in [
        (Some(identity(&unknown)), Some(trusted(&known))),
        (Some(identity(&known)), Some(trusted(&unknown))),
        (Some(identity(&known)), None),
        (None, Some(trusted(&known))),
    ] {
        let outcome = client(&url, identity, authorities).ask(&tool_call()).await;
        assert_eq!(outcome.verdict, Verdict::Deny);
        assert_eq!(outcome.reason_codes, ["guardian_unreachable"]);
    }
}

#[tokio::test]
async fn http_2_is_spoken_where_it_is_offered() {
    let authority = CertificateAuthority::new();
    for (offered, spoken) in
        [(&["h2", "http/1.1"][..], Version::HTTP_2), (&["http/1.1"], Version::HTTP_11)]
    {
        let seen = Arc::<Mutex<Vec<Version>>>::default();
        let url = guardian(&authority, offered, Arc::clone(&seen)).await;
        let client = client(&url, Some(identity(&authority)), Some(trusted(&authority)));
        assert_eq!(client.ask(&tool_call()).await.verdict, Verdict::Allow);
        assert_eq!(*seen.lock().unwrap(), [spoken]);
    }
}

#[test]
fn what_is_no_certificate_is_told_and_not_shown() {
    let authority = CertificateAuthority::new();
    let (certificate, key) = authority.sign();
    let (certificate, key) = (certificate.pem(), key.serialize_pem());
    let refused = |certificate: &str, key: &str| {
        let identity = ClientIdentity::from_pem(certificate.as_bytes(), key.as_bytes());
        assert!(matches!(identity, Err(BuildError::Identity)), "{identity:?}");
    };
    refused("", &key);
    refused(&certificate, "s3cret");
    assert!(matches!(TrustRoots::from_pem(b"s3cret"), Err(BuildError::TrustRoots)));
    let identity = ClientIdentity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let options =
        Options { identity: Some(identity), fail_mode: FailMode::Open, ..Options::default() };
    assert!(!format!("{options:?}").contains("PRIVATE"), "{options:?}");
}
