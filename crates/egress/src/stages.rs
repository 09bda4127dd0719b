//! The separate stages of a connection, for the diagnosis of a server that cannot be reached.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, ProtocolVersion};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::resolver;

/// Why a TLS handshake failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct TlsFailure {
    /// The kind of the failure.
    pub kind: TlsFailureKind,
    /// The error of the TLS library. May contain text from the server's certificate.
    pub message: String,
}

/// The kind of a [`TlsFailure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TlsFailureKind {
    /// This machine cannot use TLS, for example because it has no trusted certificates.
    Setup,
    /// The server's certificate has expired.
    Expired,
    /// The server's certificate is not valid yet.
    NotYetValid,
    /// The issuer of the server's certificate is not trusted, or the server did not send the
    /// certificate of an intermediate issuer.
    UnknownIssuer,
    /// The server's certificate is for other names.
    WrongName,
    /// The server's certificate is invalid for another reason.
    Certificate,
    /// The server's response is not TLS.
    NotTls,
    /// The server rejected the handshake, or supports no version of TLS that the client supports.
    Rejected,
    /// The connection was closed during the handshake, or the handshake is invalid.
    Broken,
}

/// Looks up the addresses of a host name like the HTTP clients.
///
/// # Errors
/// The system's resolver failed or does not know the name.
pub async fn look_up_host(name: &str) -> io::Result<Vec<IpAddr>> {
    let lookup = resolver::system_lookup();
    lookup(name.to_owned()).await
}

/// Performs a TLS handshake with the server `host`, a name or an IP address without brackets, and
/// checks the server's certificate like the HTTP clients. Returns the version of TLS.
///
/// # Errors
/// [`TlsFailure`] with the reason.
pub async fn start_tls(stream: TcpStream, host: &str) -> Result<&'static str, TlsFailure> {
    let setup_failure = |message: String| TlsFailure {
        kind: TlsFailureKind::Setup,
        message,
    };
    let server_name =
        ServerName::try_from(host.to_owned()).map_err(|error| setup_failure(error.to_string()))?;
    // Reading the system's certificates takes a while, so the work runs on another thread.
    let creation = tokio::task::spawn_blocking(create_config).await;
    let config = creation
        .map_err(|error| setup_failure(error.to_string()))?
        .map_err(|error| setup_failure(error.to_string()))?;
    let connector = TlsConnector::from(Arc::new(config));
    let tls_stream = connector
        .connect(server_name, stream)
        .await
        .map_err(|error| TlsFailure::from_io(&error))?;
    let (_, connection) = tls_stream.get_ref();
    Ok(match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
        Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
        _ => "TLS",
    })
}

fn create_config() -> Result<ClientConfig, rustls::Error> {
    // Installing the cryptography provider fails only if a provider is already installed, which
    // then applies.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = ClientConfig::builder().with_platform_verifier()?;
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

impl TlsFailure {
    fn from_io(error: &io::Error) -> Self {
        let tls_error = error.get_ref().and_then(|inner| inner.downcast_ref());
        Self {
            kind: tls_error.map_or(TlsFailureKind::Broken, TlsFailureKind::from_error),
            message: error.to_string(),
        }
    }
}

impl TlsFailureKind {
    fn from_error(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => Self::from_certificate_error(error),
            rustls::Error::InvalidMessage(_) => Self::NotTls,
            rustls::Error::AlertReceived(_) | rustls::Error::PeerIncompatible(_) => Self::Rejected,
            _ => Self::Broken,
        }
    }

    fn from_certificate_error(error: &CertificateError) -> Self {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotYetValid
            }
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::WrongName
            }
            _ => Self::Certificate,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::{AlertDescription, InvalidMessage};
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn failures_are_classified_by_the_error_of_the_tls_library() {
        let invalid_certificate = rustls::Error::InvalidCertificate;
        for (error, kind) in [
            (
                invalid_certificate(CertificateError::Expired),
                TlsFailureKind::Expired,
            ),
            (
                invalid_certificate(CertificateError::NotValidYet),
                TlsFailureKind::NotYetValid,
            ),
            (
                invalid_certificate(CertificateError::UnknownIssuer),
                TlsFailureKind::UnknownIssuer,
            ),
            (
                invalid_certificate(CertificateError::NotValidForName),
                TlsFailureKind::WrongName,
            ),
            (
                invalid_certificate(CertificateError::BadSignature),
                TlsFailureKind::Certificate,
            ),
            (
                rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType),
                TlsFailureKind::NotTls,
            ),
            (
                rustls::Error::AlertReceived(AlertDescription::HandshakeFailure),
                TlsFailureKind::Rejected,
            ),
            (rustls::Error::DecryptError, TlsFailureKind::Broken),
        ] {
            let io_error = io::Error::new(io::ErrorKind::InvalidData, error);
            assert_eq!(TlsFailure::from_io(&io_error).kind, kind, "{io_error}");
        }
        let closed = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(TlsFailure::from_io(&closed).kind, TlsFailureKind::Broken);
    }

    #[tokio::test]
    async fn a_server_without_tls_is_recognized() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let response = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(response).await.unwrap();
            stream
        });
        let stream = TcpStream::connect(address).await.unwrap();
        let failure = start_tls(stream, "localhost").await.unwrap_err();
        assert_eq!(failure.kind, TlsFailureKind::NotTls, "{failure}");
        drop(server.await.unwrap());
    }
}
