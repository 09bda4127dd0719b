use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use parking_lot::RwLock;
use tokio::runtime::{self, Handle};
use url::Url;

use super::resolver::{self, CheckingResolver, Lookup};
use super::{ClientError, EgressError, EgressPolicy, PoolUse, Proxies, is_local_host, redirect};

/// Timeout of one connection attempt; the deadline of the request may be earlier.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Idle time after which a pool closes a connection, unless the request sets a shorter maximum idle
/// time.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Maximum number of clients whose pools close idle connections before [`POOL_IDLE_TIMEOUT`]. When
/// the number is exceeded, all of these limited clients are dropped.
const MAX_LIMITED_CLIENTS: usize = 64;

/// The `User-Agent` of every request that does not set this header.
pub(super) const USER_AGENT_PRODUCT: HeaderValue =
    HeaderValue::from_static(concat!("pillion/", env!("CARGO_PKG_VERSION")));

/// The certificates that a client trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The client trusts the certificates of the system.
    SystemCertificates,
    /// The client trusts no certificates, so it can only use plain `http`. Reading the system's
    /// certificates takes longer than a call to a server on this machine.
    NoCertificates,
}

/// The settings of an [`EgressClient`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressClientSettings {
    /// The certificates that the client trusts.
    pub trust: Trust,
    /// Whether to use HTTP/1.1 only, for WebSocket connections: few servers support WebSocket over
    /// HTTP/2.
    pub is_http1_only: bool,
    /// Whether to follow redirects within the origin.
    pub follows_redirects: bool,
    /// Timeout of one request; `None` if the caller enforces one.
    pub timeout: Option<Duration>,
}

impl EgressClientSettings {
    /// Returns the default settings for a client that trusts the certificates in `trust`.
    pub fn for_server(trust: Trust) -> Self {
        Self {
            trust,
            is_http1_only: false,
            follows_redirects: true,
            timeout: None,
        }
    }
}

/// An HTTP client that enforces an egress policy. Cheap to clone; clones share the connections.
/// Creates requests of `reqwest`, which the caller sends; [`HttpClient`](super::HttpClient) also
/// repeats requests and limits their time and size.
///
/// A connection makes progress only on the runtime that opened it, and ends with that runtime. Each
/// runtime therefore has separate connections, so that no runtime waits for the thread of another
/// runtime.
#[derive(Clone)]
pub struct EgressClient {
    shared: Arc<SharedEgressClients>,
}

struct SharedEgressClients {
    policy: Arc<EgressPolicy>,
    settings: EgressClientSettings,
    lookup: Lookup,
    proxies: Proxies,
    /// Clients that use the proxy that the environment names, if any.
    clients: Clients,
    /// Clients that close idle connections before [`POOL_IDLE_TIMEOUT`], or close each connection
    /// after one request.
    limited_clients: RwLock<Vec<LimitedClient>>,
    /// Clients for requests to this machine. They use no proxy, because a proxy would resolve
    /// `localhost` to the proxy's own machine. `None` if the environment names no proxy.
    direct_clients: Option<Clients>,
}

/// HTTP clients by tokio runtime. The first client may be created outside a runtime, and then
/// belongs to the first runtime that sends a request.
type Clients = RwLock<Vec<(Option<runtime::Id>, reqwest::Client)>>;

/// A client whose pool closes connections that have been idle for `max_idle`. If `max_idle` is
/// zero, the pool keeps no idle connections.
struct LimitedClient {
    /// The runtime of the connections; `None` if the client keeps no connections and can therefore
    /// be used on every runtime.
    runtime: Option<runtime::Id>,
    route: Route,
    max_idle: Duration,
    client: reqwest::Client,
}

/// Whether requests use the proxies that the environment names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    Environment,
    Direct,
}

impl Route {
    fn proxies(self, environment: &Proxies) -> Cow<'_, Proxies> {
        match self {
            Self::Environment => Cow::Borrowed(environment),
            Self::Direct => Cow::Owned(Proxies::default()),
        }
    }
}

impl EgressClient {
    /// Creates the client. Does no I/O except reading the system's certificates.
    ///
    /// # Errors
    /// [`ClientError`]: the environment names an invalid proxy, or the system has no certificates.
    pub fn new(policy: &EgressPolicy, settings: EgressClientSettings) -> Result<Self, ClientError> {
        Self::with_lookup(policy, settings, resolver::system_lookup())
    }

    fn with_lookup(
        policy: &EgressPolicy,
        settings: EgressClientSettings,
        lookup: Lookup,
    ) -> Result<Self, ClientError> {
        let proxies = Proxies::from_environment()?;
        let policy = Arc::new(policy.clone());
        let create_clients = |route: Route| {
            let proxies = route.proxies(&proxies);
            let client = build_client(&policy, settings, &lookup, &proxies, POOL_IDLE_TIMEOUT)?;
            Ok::<_, reqwest::Error>(RwLock::new(vec![(None, client)]))
        };
        let clients = create_clients(Route::Environment)?;
        let has_proxy = !proxies.is_empty();
        let creation_outcome = has_proxy.then(|| create_clients(Route::Direct));
        let direct_clients = creation_outcome.transpose()?;
        let shared = SharedEgressClients {
            clients,
            limited_clients: RwLock::default(),
            direct_clients,
            policy,
            settings,
            lookup,
            proxies,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Creates a request with the given headers, after checking `url` against the egress policy.
    /// Only this check covers an IP address in the URL: no name is resolved for such a URL, so the
    /// checking resolver is not called.
    ///
    /// # Errors
    /// The policy forbids the URL: see [`EgressPolicy::check_url`].
    pub fn request(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
    ) -> Result<reqwest::RequestBuilder, EgressError> {
        self.create_request(method, url, headers, self.client(url))
    }

    /// Creates a request like [`request`](Self::request) that is sent over a new connection.
    ///
    /// # Errors
    /// The policy forbids the URL: see [`EgressPolicy::check_url`].
    pub fn request_over_new_connection(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
    ) -> Result<reqwest::RequestBuilder, EgressError> {
        self.request_over_pool(PoolUse::New, method, url, headers)
    }

    /// Creates a request like [`request`](Self::request) that uses only the connections that
    /// `pool_use` allows. A new connection is reused for later requests with a similar maximum
    /// idle time, unless `pool_use` is [`PoolUse::New`].
    ///
    /// # Errors
    /// The policy forbids the URL: see [`EgressPolicy::check_url`].
    pub fn request_over_pool(
        &self,
        pool_use: PoolUse,
        method: Method,
        url: &Url,
        headers: HeaderMap,
    ) -> Result<reqwest::RequestBuilder, EgressError> {
        let client = match pool_use {
            PoolUse::New => self.limited_client(url, Duration::ZERO),
            PoolUse::Pooled { max_idle, .. } if max_idle >= POOL_IDLE_TIMEOUT => self.client(url),
            PoolUse::Pooled { max_idle, .. } => self.limited_client(url, max_idle),
        };
        self.create_request(method, url, headers, client)
    }

    fn create_request(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        client: reqwest::Client,
    ) -> Result<reqwest::RequestBuilder, EgressError> {
        self.shared.policy.check_url(url)?;
        let mut request = reqwest::Request::new(method, url.clone());
        *request.headers_mut() = headers;
        Ok(reqwest::RequestBuilder::from_parts(client, request))
    }

    /// Returns the clients for this URL, and whether they use the proxies of the environment.
    fn clients(&self, url: &Url) -> (&Clients, Route) {
        let is_local = url.host().is_some_and(|host| is_local_host(&host));
        match &self.shared.direct_clients {
            Some(direct_clients) if is_local => (direct_clients, Route::Direct),
            _ => (&self.shared.clients, Route::Environment),
        }
    }

    /// Returns the client of the current runtime for this URL whose pool closes connections that
    /// have been idle for `max_idle`. `max_idle` is rounded down, so that requests with similar
    /// idle times share a client.
    fn limited_client(&self, url: &Url, max_idle: Duration) -> reqwest::Client {
        let millis = u64::try_from(max_idle.as_millis()).unwrap_or(u64::MAX);
        let exponent = millis.checked_ilog2();
        let max_idle = exponent.map_or(Duration::ZERO, |exponent| {
            Duration::from_millis(1 << exponent)
        });
        let runtime = current_runtime_id().filter(|_| !max_idle.is_zero());
        let shared = &self.shared;
        let (_, route) = self.clients(url);
        let key = (runtime, route, max_idle);
        let fits = |client: &&LimitedClient| (client.runtime, client.route, client.max_idle) == key;
        let find = |clients: &[LimitedClient]| {
            let matching_client = clients.iter().find(fits);
            matching_client.map(|limited_client| limited_client.client.clone())
        };
        if let Some(client) = find(&shared.limited_clients.read()) {
            return client;
        }
        let mut clients = shared.limited_clients.write();
        if let Some(client) = find(&clients) {
            return client;
        }
        let (policy, lookup) = (&shared.policy, &shared.lookup);
        let proxies = route.proxies(&shared.proxies);
        let Ok(client) = build_client(policy, shared.settings, lookup, &proxies, max_idle) else {
            // Creating a client is unlikely to fail, because the first client was created with the
            // same certificates.
            return self.client(url);
        };
        if clients.len() >= MAX_LIMITED_CLIENTS {
            clients.clear();
        }
        clients.push(LimitedClient {
            runtime,
            route,
            max_idle,
            client: client.clone(),
        });
        client
    }

    /// Returns the client of the current runtime for this URL.
    fn client(&self, url: &Url) -> reqwest::Client {
        let runtime_id = current_runtime_id();
        let shared = &self.shared;
        let (shared_clients, route) = self.clients(url);
        let find = |clients: &[(Option<runtime::Id>, reqwest::Client)]| {
            let matching_client = clients.iter().find(|(runtime, _)| *runtime == runtime_id);
            matching_client.map(|(_, client)| client.clone())
        };
        if let Some(client) = find(&shared_clients.read()) {
            return client;
        }
        let mut clients = shared_clients.write();
        if let Some(client) = find(&clients) {
            return client;
        }
        if let Some((runtime @ None, client)) = clients.first_mut() {
            *runtime = runtime_id;
            return client.clone();
        }
        let (policy, lookup) = (&shared.policy, &shared.lookup);
        let proxies = route.proxies(&shared.proxies);
        match build_client(policy, shared.settings, lookup, &proxies, POOL_IDLE_TIMEOUT) {
            Ok(client) => {
                clients.push((runtime_id, client.clone()));
                client
            }
            // Creating a client is unlikely to fail, because the first client was created with the
            // same certificates. The first client works on every runtime.
            Err(_) => clients[0].1.clone(),
        }
    }
}

fn current_runtime_id() -> Option<runtime::Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

/// Creates a client with an empty pool, which keeps idle connections for `max_idle`.
fn build_client(
    policy: &Arc<EgressPolicy>,
    settings: EgressClientSettings,
    lookup: &Lookup,
    proxies: &Proxies,
    max_idle: Duration,
) -> Result<reqwest::Client, reqwest::Error> {
    // Installing the cryptography provider fails only if a provider is already installed, which is
    // fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(USER_AGENT_PRODUCT)
        .connect_timeout(CONNECT_TIMEOUT)
        // A client must accept folded header lines in responses (RFC 9112, section 5.2).
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        .redirect(if settings.follows_redirects {
            redirect::same_origin_only()
        } else {
            reqwest::redirect::Policy::none()
        })
        .dns_resolver(CheckingResolver {
            policy: Arc::clone(policy),
            // The host name of a proxy is exempt from the address check only in a client that uses
            // the proxy.
            proxies: proxies.hosts(),
            lookup: Arc::clone(lookup),
        });
    builder = if max_idle.is_zero() {
        builder.pool_max_idle_per_host(0)
    } else {
        builder.pool_idle_timeout(max_idle)
    };
    builder = proxies.configure_client(builder)?;
    if settings.trust == Trust::NoCertificates {
        builder = builder.tls_backend_preconfigured(tls_config_without_certificates());
    }
    if settings.is_http1_only {
        builder = builder.http1_only();
    }
    if let Some(timeout) = settings.timeout {
        builder = builder.timeout(timeout);
    }
    builder.build()
}

fn tls_config_without_certificates() -> rustls::ClientConfig {
    rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

#[cfg(test)]
mod tests;
