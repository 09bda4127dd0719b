use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A TLS server whose certificate it has signed itself. It only shakes hands.
#[derive(Debug)]
pub struct UntrustedServer {
    /// Where clients connect to: `https`.
    pub url: String,
    handshakes: Arc<AtomicUsize>,
}

impl UntrustedServer {
    /// Starts it, in a thread that lives as long as the process.
    ///
    /// # Panics
    /// When there is no free port.
    #[must_use]
    pub fn start() -> Self {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
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

    /// How many clients have accepted the certificate.
    #[must_use]
    pub fn handshakes(&self) -> usize {
        self.handshakes.load(Ordering::SeqCst)
    }
}
