use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method};
use url::Url;

use super::resolver::{self, CheckingResolver, Lookup};
use super::{EgressError, EgressPolicy, proxy, redirect};

/// Longest time for one connection attempt; the operation's own deadline may be shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

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
#[derive(Clone)]
pub(crate) struct EgressClient {
    client: reqwest::Client,
    policy: Arc<EgressPolicy>,
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
        // An error only says that a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("pillion/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(if purpose.redirects {
                redirect::same_origin_only()
            } else {
                reqwest::redirect::Policy::none()
            })
            .dns_resolver(CheckingResolver {
                policy: Arc::clone(&policy),
                proxies: proxy::hosts(),
                lookup,
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
        let client = builder.build()?;
        Ok(Self { client, policy })
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
        self.policy.check_url(url)?;
        let mut request = reqwest::Request::new(method, url.clone());
        *request.headers_mut() = headers;
        let client = self.client.clone();
        Ok(reqwest::RequestBuilder::from_parts(client, request))
    }
}

fn no_certificates() -> rustls::ClientConfig {
    rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

#[cfg(test)]
mod tests;
