mod lookups;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::{EgressError, EgressPolicy, HostName};

/// A function that looks up the addresses of a host name.
pub(super) type Lookup = Arc<
    dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> + Send + Sync,
>;

/// Returns a function that looks up host names with the system's resolver.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name| Box::pin(async move { lookups::for_process().lookup(name).await }))
}

/// A resolver that removes forbidden addresses. The client connects only to the returned addresses,
/// because the name is not looked up again.
pub(super) struct CheckingResolver {
    pub(super) policy: Arc<EgressPolicy>,
    /// Host names of the environment's proxies, whose addresses are not checked.
    pub(super) proxies: BTreeSet<HostName>,
    pub(super) lookup: Lookup,
}

impl Resolve for CheckingResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let lookup = (self.lookup)(name.as_str().to_owned());
        let host = HostName::from_name(name.as_str());
        let policy = (!self.proxies.contains(&host)).then(|| Arc::clone(&self.policy));
        Box::pin(async move {
            let mut addresses = lookup.await?;
            if let Some(policy) = policy {
                addresses = filter_addresses(&policy, host, addresses)?;
            }
            let socket_addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(socket_addresses) as Addrs)
        })
    }
}

/// Returns the addresses of `host` that `policy` allows, and logs the forbidden addresses.
///
/// # Errors
/// [`EgressError::Resolved`] if all addresses are forbidden.
pub(super) fn filter_addresses(
    policy: &EgressPolicy,
    host: HostName,
    addresses: Vec<IpAddr>,
) -> Result<Vec<IpAddr>, EgressError> {
    let mut first_forbidden = None;
    let mut allowed_addresses = Vec::with_capacity(addresses.len());
    for address in addresses {
        let class = match policy.check_resolved_address(host.as_str(), address) {
            Ok(()) => {
                allowed_addresses.push(address);
                continue;
            }
            Err(class) => class,
        };
        tracing::debug!(
            %host, %address, %class,
            "Skipped a resolved address to which connections are not allowed"
        );
        first_forbidden.get_or_insert((address, class));
    }
    match first_forbidden {
        Some((address, class)) if allowed_addresses.is_empty() => Err(EgressError::Resolved {
            host,
            address,
            class,
        }),
        _ => Ok(allowed_addresses),
    }
}
