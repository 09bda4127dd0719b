use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer};

/// A network, such as `10.1.0.0/16` or `fd12:3456::/32`; a single address is a network with one
/// member.
///
/// ```
/// use pillion_egress::Network;
/// let network: Network = "10.1.0.0/16".parse()?;
/// assert!(network.contains("10.1.2.3".parse().unwrap()));
/// assert!("10.1.0.0/33".parse::<Network>().is_err());
/// # Ok::<(), pillion_egress::InvalidNetwork>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

/// Why a text is not a valid network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidNetwork {
    /// The text is neither an address nor an address with a prefix length.
    #[error("a network must be written like '10.1.0.0/16' or 'fd12::/16', or as a single address")]
    NotANetwork,
    /// The network is IPv4-mapped. Addresses are compared in IPv4 form, so the network would match
    /// no address.
    #[error("write an IPv4 network in IPv4 notation, not as IPv4-mapped addresses (::ffff:0:0/96)")]
    Ipv4Mapped,
}

impl Network {
    /// Returns whether the network contains the address. An IPv4-mapped address counts as an IPv4
    /// address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let network = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => text.parse().map_err(|_| InvalidNetwork::NotANetwork)?,
        };
        match network {
            IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some() && v6.prefix_len() >= 96 => {
                Err(InvalidNetwork::Ipv4Mapped)
            }
            _ => Ok(Self(network)),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Returns the prefix length of the smallest of `networks` that contains the address; `None` if no
/// network contains the address.
pub(super) fn longest_prefix_len(networks: &[Network], address: IpAddr) -> Option<u8> {
    let containing_networks = networks.iter().filter(|network| network.contains(address));
    let lengths = containing_networks.map(|network| network.0.prefix_len());
    lengths.max()
}
