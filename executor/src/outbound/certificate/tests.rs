//! A server that asks for a certificate, and whom it lets in.

use std::net::SocketAddr;

use tempfile::TempDir;
use test_support::CertificateAuthority;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::super::tests::{config, get, open};
use super::*;

/// Answers those who show a certificate that `authority` has signed.
async fn serve(authority: &CertificateAuthority) -> SocketAddr {
    let acceptor = TlsAcceptor::from(authority.mutual_tls(&[]));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let Ok(mut connection) = acceptor.accept(connection).await else { continue };
            let mut request = [0; 4_096];
            let _ = connection.read(&mut request).await;
            let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
            let _ = connection.write_all(answer).await;
            let _ = connection.shutdown().await;
        }
    });
    address
}

/// The certificate that `authority` signs, in files, for servers of `trusted`.
fn files(
    folder: &TempDir,
    authority: &CertificateAuthority,
    trusted: &CertificateAuthority,
) -> ClientCertificate {
    let (certificate, key) = authority.sign();
    let write = |name: &str, pem: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path
    };
    ClientCertificate {
        certificate: write("certificate.pem", certificate.pem()),
        key: write("key.pem", key.serialize_pem()),
        authorities: Some(write("authorities.pem", trusted.certificate.pem())),
    }
}

#[tokio::test]
async fn a_host_is_shown_its_certificate_and_lets_in_whom_it_knows() {
    let (known, unknown) = (CertificateAuthority::new(), CertificateAuthority::new());
    let port = serve(&known).await.port();
    let url = format!("https://localhost:{port}/");
    let status = async |files: Option<ClientCertificate>| {
        let mut config = config(None, "");
        config.allowed_addresses = vec!["localhost".to_owned()];
        let domain = Domain::new(&format!("localhost:{port}")).unwrap();
        config.client_certificates = files.map(|files| (domain, files)).into_iter().collect();
        get(&open(&config).unwrap(), &url).await.map(|response| response.status)
    };
    let folder = TempDir::new().unwrap();
    assert_eq!(status(Some(files(&folder, &known, &known))).await, Ok(200));
    // It does not know the client; the client does not know it; nobody shows anything.
    for files in
        [Some(files(&folder, &unknown, &known)), Some(files(&folder, &known, &unknown)), None]
    {
        assert!(status(files).await.is_err());
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let folder = TempDir::new().unwrap();
    let authority = CertificateAuthority::new();
    let good = files(&folder, &authority, &authority);
    let refused = |files: ClientCertificate| {
        let mut config = config(None, "");
        config.client_certificates.insert(Domain::new("api.example").unwrap(), files);
        let error = open(&config).map(|_| ()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration);
        error.message
    };
    let missing = folder.path().join("missing.pem");
    let told = refused(ClientCertificate { key: missing.clone(), ..good.clone() });
    assert!(told.contains("api.example") && told.contains("missing.pem"), "{told}");
    let told = refused(ClientCertificate { key: good.certificate.clone(), ..good.clone() });
    assert!(told.contains("must contain a key and a certificate"), "{told}");
    std::fs::write(&missing, "nothing").unwrap();
    let told = refused(ClientCertificate { authorities: Some(missing), ..good });
    assert!(told.contains("authorities"), "{told}");
}
