use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use parking_lot::RwLock;
use tokio::runtime::{self, Handle};
use url::Url;

use super::resolver::{self, CheckingResolver, Lookup};
use super::{EgressError, EgressPolicy, proxy, redirect};

/// Longest time for one connection attempt; the operation's own deadline may be shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How every request names us.
pub(super) const PRODUCT: HeaderValue =
    HeaderValue::from_static(concat!("pillion/", env!("CARGO_PKG_VERSION")));

/// Which certificates a client trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Those of the system.
    System,
    /// None, for servers of plain http alone. Reading the system's certificates takes longer
    /// than a call on this machine.
    Nothing,
}

/// What a client is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Purpose {
    /// Which certificates count.
    pub(crate) trust: Trust,
    /// A WebSocket begins differently over HTTP/2, in a way that few servers know.
    pub(crate) http1_only: bool,
    /// Whether redirects within the origin are followed.
    pub(crate) redirects: bool,
    /// The longest time for one request; none where the caller sees to it.
    pub(crate) timeout: Option<Duration>,
}

impl Purpose {
    /// Requests to a server whose certificates are judged by `trust`.
    pub(crate) fn server(trust: Trust) -> Self {
        Self {
            trust,
            http1_only: false,
            redirects: true,
            timeout: None,
        }
    }
}

/// An HTTP client that requests nothing that the policy refuses. Cheap to clone; clones
/// share the connections.
///
/// A connection is served by the runtime that opened it, and ends with that. So each runtime
/// has connections of its own, and none waits for another's thread.
#[derive(Clone)]
pub(crate) struct EgressClient {
    shared: Arc<Shared>,
}

struct Shared {
    policy: Arc<EgressPolicy>,
    purpose: Purpose,
    lookup: Lookup,
    /// By runtime; the first is made before there is one, perhaps, and is that of the first
    /// that asks.
    clients: RwLock<Vec<(Option<runtime::Id>, reqwest::Client)>>,
}

impl EgressClient {
    /// Makes the client; does no I/O but for reading the system's certificates.
    ///
    /// # Errors
    /// When there are none.
    pub(crate) fn new(policy: &EgressPolicy, purpose: Purpose) -> Result<Self, reqwest::Error> {
        Self::with_lookup(policy, purpose, resolver::system())
    }

    fn with_lookup(
        policy: &EgressPolicy,
        purpose: Purpose,
        lookup: Lookup,
    ) -> Result<Self, reqwest::Error> {
        let policy = Arc::new(policy.clone());
        let client = make(&policy, purpose, &lookup)?;
        let shared = Shared {
            policy,
            purpose,
            lookup,
            clients: RwLock::new(vec![(None, client)]),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Begins a request with these headers. Every one begins here: the resolver is not asked
    /// about an address that stands in a URL.
    ///
    /// # Errors
    /// [`EgressError`] of [`EgressPolicy::check_url`].
    pub(crate) fn request(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
    ) -> Result<reqwest::RequestBuilder, EgressError> {
        self.shared.policy.check_url(url)?;
        let mut request = reqwest::Request::new(method, url.clone());
        *request.headers_mut() = headers;
        Ok(reqwest::RequestBuilder::from_parts(self.client(), request))
    }

    /// The client of the runtime that this is called in.
    fn client(&self) -> reqwest::Client {
        let here = Handle::try_current().ok().map(|runtime| runtime.id());
        let shared = &self.shared;
        let of_here = |clients: &[(Option<runtime::Id>, reqwest::Client)]| {
            let found = clients.iter().find(|(runtime, _)| *runtime == here);
            found.map(|(_, client)| client.clone())
        };
        if let Some(client) = of_here(&shared.clients.read()) {
            return client;
        }
        let mut clients = shared.clients.write();
        if let Some(client) = of_here(&clients) {
            return client;
        }
        if let Some((runtime @ None, client)) = clients.first_mut() {
            *runtime = here;
            return client.clone();
        }
        match make(&shared.policy, shared.purpose, &shared.lookup) {
            Ok(client) => {
                clients.push((here, client.clone()));
                client
            }
            // The certificates could be read once: another runtime's client does as well.
            Err(_) => clients[0].1.clone(),
        }
    }
}

/// A client with no connection yet.
fn make(
    policy: &Arc<EgressPolicy>,
    purpose: Purpose,
    lookup: &Lookup,
) -> Result<reqwest::Client, reqwest::Error> {
    // An error only says that a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(PRODUCT)
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(if purpose.redirects {
            redirect::same_origin_only()
        } else {
            reqwest::redirect::Policy::none()
        })
        .dns_resolver(CheckingResolver {
            policy: Arc::clone(policy),
            proxies: proxy::hosts(),
            lookup: Arc::clone(lookup),
        });
    if purpose.trust == Trust::Nothing {
        builder = builder.tls_backend_preconfigured(no_certificates());
    }
    if purpose.http1_only {
        builder = builder.http1_only();
    }
    if let Some(timeout) = purpose.timeout {
        builder = builder.timeout(timeout);
    }
    builder.build()
}

fn no_certificates() -> rustls::ClientConfig {
    rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

#[cfg(test)]
mod tests;
