//! Where requests may go: the rules, and the one place that makes an HTTP client under them.
//!
//! A request leaves in three steps, and each is checked:
//!
//! - **Its URL**, before anything is sent: `https`, or `http` to this machine or to a host
//!   that is [allowed by name](EgressPolicy::allow_http); an address that stands in the URL
//!   is checked at once, in whatever notation it is written.
//! - **The addresses that its host's name has.** Those that may not be reached are left out
//!   and the connection goes to one of the rest: the address that was checked is the one
//!   that is connected to, so that a name that changes its addresses in between (DNS
//!   rebinding) gains nothing.
//! - **A redirect** is followed within the origin only, so no credential travels elsewhere,
//!   and what it connects to is checked like any other request.
//!
//! Where the environment names a proxy (`HTTPS_PROXY` and similar variables), the proxy resolves
//! names, and only the URL can be checked here. The address of the proxy is the operator's choice
//! and is not checked. Requests to this machine (loopback addresses, `localhost`) never go through
//! a proxy, whatever `NO_PROXY` contains.

mod address;
mod client;
mod courier;
mod error;
mod host_name;
mod http_client;
mod network;
mod proxy;
mod redirect;
mod resolver;
mod shortcut;

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::Deserialize;
use url::{Host, Url};

pub use address::AddressClass;
pub(crate) use client::{EgressClient, Purpose, Trust};
pub use courier::Courier;
pub use error::EgressError;
pub(crate) use error::root_cause;
pub use host_name::{HostName, InvalidHostName};
pub use http_client::{HttpAnswer, HttpClient, HttpError, HttpRequest};
pub use network::{InvalidNetwork, Network};
pub(crate) use shortcut::{Sent, Shortcut};

/// Headers of a request, in small letters, that are the connection's own: no operator, tool or
/// component sets them.
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

/// Which hosts and addresses a client may talk to.
///
/// The default suits a URL that the operator has configured: public and private addresses
/// and this machine, in plain http this machine alone. Never reached, whatever is set here:
/// link-local addresses, the metadata services of cloud providers, unspecified, multicast
/// and broadcast addresses, and IPv6 addresses that wrap one of these (IPv4-mapped and
/// -compatible, NAT64, 6to4, Teredo, ISATAP).
///
/// ```
/// use pillion_core::egress::EgressPolicy;
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
    /// Hosts that may be spoken to in plain http, beside this machine: names, or addresses
    /// as they stand in a URL, without port. Default none.
    pub allow_http: BTreeSet<HostName>,
    /// Whether private addresses may be reached: RFC 1918, unique local, carrier-grade NAT,
    /// benchmarking and reserved ones. Default true: the URL is the operator's own, and
    /// most companies have their MCP servers there.
    pub allow_private: bool,
    /// Whether this machine may be reached. Default true.
    pub allow_loopback: bool,
    /// Networks that may be reached although they are private or loopback, as `10.1.0.0/16`,
    /// `fd12::/16` or one address. Default none.
    pub allow_networks: Vec<Network>,
    /// Networks that may not be reached. Where an address is in networks of both lists the
    /// narrower one decides; between two of one size, this. Default none.
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
    /// Checks what a URL alone can tell: the scheme, and the address if it holds one. Does
    /// no I/O; the addresses of a name are checked when it is connected to.
    ///
    /// # Errors
    /// [`EgressError::Scheme`], [`EgressError::PlainHttp`], [`EgressError::Address`].
    pub fn check_url(&self, url: &Url) -> Result<(), EgressError> {
        let host = url.host().ok_or(EgressError::Scheme)?;
        match url.scheme() {
            "https" => {}
            "http" => {
                if !is_this_machine(&host) && !self.allow_http.contains(&HostName::of(&host)) {
                    let host = HostName::of(&host);
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
                host: HostName::of(&host),
                address,
                class,
            })
    }

    /// Checks one address, and every IPv4 address that it wraps.
    ///
    /// # Errors
    /// The class that is refused.
    pub fn check_address(&self, address: IpAddr) -> Result<(), AddressClass> {
        let address = address.to_canonical();
        self.check_one(address)?;
        address::embedded(address).try_for_each(|inner| self.check_one(inner.into()))
    }

    /// Allows plain http to the host of a URL.
    pub fn allow_http_to(&mut self, url: &Url) {
        let host = url.host().as_ref().map(HostName::of);
        self.allow_http.extend(host);
    }

    /// These rules for a URL that a server announced rather than the operator: one that
    /// does not run on this machine cannot send requests to this machine.
    ///
    /// ```
    /// use pillion_core::egress::EgressPolicy;
    /// let policy = EgressPolicy::default().for_urls_of(&"https://mcp.example/".parse()?);
    /// assert!(policy.check_url(&"http://127.0.0.1:6379/".parse()?).is_err());
    /// # Ok::<(), url::ParseError>(())
    /// ```
    #[must_use]
    pub fn for_urls_of(&self, server: &Url) -> Self {
        let here = server.host().is_some_and(|host| is_this_machine(&host));
        Self {
            allow_loopback: self.allow_loopback && here,
            ..self.clone()
        }
    }

    fn check_one(&self, address: IpAddr) -> Result<(), AddressClass> {
        let class = AddressClass::of(address);
        let allowed_by_class = match class {
            AddressClass::Public => true,
            AddressClass::Private => self.allow_private,
            AddressClass::Loopback => self.allow_loopback,
            AddressClass::LinkLocal
            | AddressClass::Metadata
            | AddressClass::Unspecified
            | AddressClass::Multicast
            | AddressClass::Broadcast => return Err(class),
        };
        let allowed = network::narrowest(&self.allow_networks, address);
        let denied = network::narrowest(&self.deny_networks, address);
        match (allowed, denied) {
            (None, None) if allowed_by_class => Ok(()),
            (Some(allowed), denied) if denied.is_none_or(|denied| allowed > denied) => Ok(()),
            _ => Err(class),
        }
    }
}

/// Whether a host is this machine by its form: a loopback address, or the name `localhost`
/// or one below it, which the resolver holds to loopback addresses (RFC 6761, section 6.3).
fn is_this_machine(host: &Host<&str>) -> bool {
    match host {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.to_canonical().is_loopback(),
        Host::Domain(name) => is_localhost(name),
    }
}

fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or(name);
    last.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests;
