use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A TLS server on 127.0.0.1 that only performs handshakes.
#[derive(Debug)]
pub struct TlsServer {
    /// The URL that clients connect to, with the scheme `https`.
    pub url: String,
    handshakes: Arc<AtomicUsize>,
}

/// A certificate authority. Clients that trust [`pem`](Self::pem) trust the certificates of its
/// servers.
pub struct CertificateAuthority(CertifiedIssuer<'static, KeyPair>);

/// Returns a new ES256 key in PEM, as a client has for its assertions.
///
/// # Panics
/// If the system has no random numbers.
#[must_use]
pub fn signing_key() -> String {
    KeyPair::generate().unwrap().serialize_pem()
}

impl TlsServer {
    /// Starts a server with a self-signed certificate, in a thread that runs until the process
    /// ends.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn untrusted() -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = params().self_signed(&key).unwrap();
        Self::start(certificate.der().clone(), &key)
    }

    fn start(certificate: CertificateDer<'static>, key: &KeyPair) -> Self {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/mcp", listener.local_addr().unwrap());
        let handshakes = Arc::new(AtomicUsize::new(0));
        let finished = Arc::clone(&handshakes);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut tls = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
                while tls.is_handshaking() {
                    if tls.complete_io(&mut stream).is_err() {
                        break;
                    }
                }
                if !tls.is_handshaking() {
                    finished.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        Self { url, handshakes }
    }

    /// Returns the number of clients that have accepted the certificate.
    #[must_use]
    pub fn handshakes(&self) -> usize {
        self.handshakes.load(Ordering::SeqCst)
    }
}

impl CertificateAuthority {
    /// Creates a certificate authority.
    ///
    /// # Panics
    /// If the operating system provides no randomness.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// Returns the certificate of the authority itself, in PEM format.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Starts a server with a certificate that is valid for many years.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn server(&self) -> TlsServer {
        self.start(&params())
    }

    /// Starts a server with a certificate that expired in 2021.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn expired_server(&self) -> TlsServer {
        let mut params = params();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.start(&params)
    }

    fn start(&self, params: &CertificateParams) -> TlsServer {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        TlsServer::start(certificate.der().clone(), &key)
    }
}

impl Default for CertificateAuthority {
    fn default() -> Self {
        Self::new()
    }
}

fn params() -> CertificateParams {
    CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap()
}
