//! The egress policy, which decides which URLs and addresses requests may reach, and the HTTP
//! clients that enforce the policy.
//!
//! Each step of a request is checked:
//!
//! - **The URL**, before anything is sent: `https`, or `http` to this machine or to a host that is
//!   [allowed by name](EgressPolicy::allow_http). An IP address in the URL is checked at once, in
//!   any notation.
//! - **The addresses of the host name.** Forbidden addresses are removed, and the client connects
//!   to one of the other addresses. The client connects to exactly the address that was checked, so
//!   DNS rebinding has no effect.
//! - **Redirects** are followed only within the origin, so that credentials are not sent elsewhere,
//!   and the connections of redirects are checked like those of other requests.
//!
//! If the environment names a proxy (`HTTPS_PROXY` and similar variables), the proxy resolves
//! names, and only the URL can be checked here. The address of the proxy is the operator's choice
//! and is not checked. Requests to this machine (loopback addresses, `localhost`) never go through
//! a proxy, whatever `NO_PROXY` contains. An [invalid](InvalidProxy) proxy is an error, because
//! requests would otherwise be sent directly.

mod address;
mod client;
mod cooperative_stream;
mod endpoint_client;
mod error;
mod host_name;
mod http_client;
mod keep_alive;
mod network;
mod proxy;
mod reachability;
mod redirect;
mod resolver;
mod restarts;
mod shortcut;
mod stages;

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::Deserialize;
use url::{Host, Url};

pub use address::AddressClass;
pub use client::{EgressClient, EgressClientSettings, Trust};
pub use cooperative_stream::CooperativeStream;
pub use endpoint_client::EndpointClient;
pub use error::{ClientError, EgressError};
pub use error::{root_cause, suggests_restart};
pub use host_name::{HostName, InvalidHostName};
pub use http_client::{HttpClient, HttpError, HttpRequest, HttpResponse, LazyHttpClient};
pub use keep_alive::{ConnectionChoice, KeepAliveEstimate};
pub use network::{InvalidNetwork, Network};
pub use proxy::{InvalidProxy, Proxies};
pub use reachability::{Attempts, MAX_REPEATS, PoolUse, Reachability, SendFailure};
pub use restarts::{KnownDown, RestartPace, Restarts};
pub use shortcut::{DirectClient, DirectError, SendOutcome};
pub use stages::{TlsFailure, TlsFailureKind, look_up_host, start_tls};

/// Request headers, in lower case, that the HTTP client sets itself, because they describe the
/// connection. Tools and components cannot set these headers. Operators can set only `host`, and
/// only for MCP servers.
pub const CONNECTION_HEADERS: [&str; 8] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Which hosts and addresses a client may reach.
///
/// The default is for URLs that the operator configures: public and private addresses and this
/// machine are allowed, with plain `http` only to this machine. Always forbidden: link-local
/// addresses, the metadata services of cloud providers, unspecified, multicast and broadcast
/// addresses, and IPv6 addresses that embed one of these (IPv4-mapped and -compatible, NAT64, 6to4,
/// Teredo, ISATAP).
///
/// ```
/// use pillion_egress::EgressPolicy;
/// let policy: EgressPolicy = serde_json::from_str(r#"{
///     "allow_http": ["mcp.internal"],
///     "allow_private": false, "allow_networks": ["10.20.0.0/16"]
/// }"#)?;
/// assert!(policy.check_url(&"http://mcp.internal:8000/mcp".parse()?).is_ok());
/// assert!(policy.check_url(&"http://mcp.example/mcp".parse()?).is_err());
/// assert!(policy.check_url(&"https://10.20.1.1/mcp".parse()?).is_ok());
/// assert!(policy.check_url(&"https://10.21.1.1/mcp".parse()?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EgressPolicy {
    /// Hosts other than this machine to which plain `http` is allowed: names, or addresses as in a
    /// URL, without port. Default: none.
    pub allow_http: BTreeSet<HostName>,
    /// Whether private addresses are allowed: RFC 1918, unique local, carrier-grade NAT,
    /// benchmarking and reserved addresses. Default `true`, because operators configure the URLs,
    /// often of MCP servers in private networks.
    pub allow_private: bool,
    /// Whether addresses of this machine are allowed. Default `true`.
    pub allow_loopback: bool,
    /// Networks that are allowed although they are private or loopback, such as `10.1.0.0/16`,
    /// `fd12::/16` or a single address. Default: none.
    pub allow_networks: Vec<Network>,
    /// Forbidden networks. If an allowed network and a forbidden network both contain an address,
    /// the network with the longer prefix takes precedence; if the prefixes are equally long, the
    /// address is forbidden. Default: none.
    pub deny_networks: Vec<Network>,
}

impl Default for EgressPolicy {
    fn default() -> Self {
        Self {
            allow_http: BTreeSet::new(),
            allow_private: true,
            allow_loopback: true,
            allow_networks: Vec::new(),
            deny_networks: Vec::new(),
        }
    }
}

impl EgressPolicy {
    /// Checks a URL: the scheme, and the address if the URL contains one. Does no I/O; the
    /// addresses of a name are checked when connecting.
    ///
    /// # Errors
    /// - [`EgressError::Scheme`]: the scheme is neither `https` nor `http`.
    /// - [`EgressError::PlainHttp`]: `http` to a host that [`allow_http`](Self::allow_http) does not
    ///   contain, and that is not this machine.
    /// - [`EgressError::Address`]: the URL contains a forbidden IP address.
    pub fn check_url(&self, url: &Url) -> Result<(), EgressError> {
        let host = url.host().ok_or(EgressError::Scheme)?;
        match url.scheme() {
            "https" => {}
            "http" => {
                if !is_local_host(&host) && !self.allow_http.contains(&HostName::from_host(&host)) {
                    let host = HostName::from_host(&host);
                    return Err(EgressError::PlainHttp { host });
                }
            }
            _ => return Err(EgressError::Scheme),
        }
        let address = match host {
            Host::Ipv4(address) => IpAddr::from(address),
            Host::Ipv6(address) => IpAddr::from(address),
            Host::Domain(_) => return Ok(()),
        };
        self.check_address(address)
            .map_err(|class| EgressError::Address {
                host: HostName::from_host(&host),
                address,
                class,
            })
    }

    /// Checks an address, and all IPv4 addresses that the address embeds.
    ///
    /// # Errors
    /// The class of the forbidden address.
    pub fn check_address(&self, address: IpAddr) -> Result<(), AddressClass> {
        let address = address.to_canonical();
        self.classify_address(address)?;
        address::embedded_ipv4_addresses(address)
            .try_for_each(|embedded_address| self.classify_address(embedded_address.into()))
    }

    /// Checks an address to which a host name resolves, like
    /// [`check_address`](Self::check_address). A name such as `localhost` must resolve to this
    /// machine, because plain `http` to the name is allowed only on that condition.
    ///
    /// # Errors
    /// The class of the forbidden address.
    pub fn check_resolved_address(&self, name: &str, address: IpAddr) -> Result<(), AddressClass> {
        self.check_address(address)?;
        if is_localhost(name) && !address.to_canonical().is_loopback() {
            return Err(AddressClass::from_ip(address));
        }
        Ok(())
    }

    /// Allows plain `http` to the host of a URL.
    pub fn allow_http_for(&mut self, url: &Url) {
        let host = url.host().as_ref().map(HostName::from_host);
        self.allow_http.extend(host);
    }

    /// Returns the policy for URLs that `server`, not the operator, has chosen: a copy of this
    /// policy that allows this machine's own addresses only if `server` runs on this machine.
    ///
    /// ```
    /// use pillion_egress::EgressPolicy;
    /// let policy = EgressPolicy::default().for_urls_from(&"https://mcp.example/".parse()?);
    /// assert!(policy.check_url(&"http://127.0.0.1:6379/".parse()?).is_err());
    /// # Ok::<(), url::ParseError>(())
    /// ```
    #[must_use]
    pub fn for_urls_from(&self, server: &Url) -> Self {
        let is_local = server.host().is_some_and(|host| is_local_host(&host));
        Self {
            allow_loopback: self.allow_loopback && is_local,
            ..self.clone()
        }
    }

    fn classify_address(&self, address: IpAddr) -> Result<(), AddressClass> {
        let class = AddressClass::from_ip(address);
        let is_allowed_by_class = match class {
            AddressClass::Public => true,
            AddressClass::Private => self.allow_private,
            AddressClass::Loopback => self.allow_loopback,
            AddressClass::LinkLocal
            | AddressClass::Metadata
            | AddressClass::Unspecified
            | AddressClass::Multicast
            | AddressClass::Broadcast => return Err(class),
        };
        let allowed_prefix_len = network::longest_prefix_len(&self.allow_networks, address);
        let denied_prefix_len = network::longest_prefix_len(&self.deny_networks, address);
        match (allowed_prefix_len, denied_prefix_len) {
            (None, None) if is_allowed_by_class => Ok(()),
            (Some(allowed), denied) if denied.is_none_or(|denied| allowed > denied) => Ok(()),
            _ => Err(class),
        }
    }
}

/// Returns whether a host is this machine: a loopback address, `localhost`, or a name below
/// `localhost`, which the resolver restricts to loopback addresses (RFC 6761, section 6.3).
#[must_use]
pub fn is_local_host(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.to_canonical().is_loopback(),
        Host::Domain(name) => is_localhost(name),
    }
}

/// Returns whether a host name is `localhost`, or a name below `localhost`.
#[must_use]
pub fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last_label = name.rsplit('.').next().unwrap_or(name);
    last_label.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests;
