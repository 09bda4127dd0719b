use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an IP address, by the IANA special-purpose registries (RFC 6890).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressClass {
    /// A public address.
    Public,
    /// An address of a private network: RFC 1918, unique and site local (RFC 4193, 3879),
    /// carrier-grade NAT (RFC 6598), benchmarking (RFC 2544), local-use NAT64 (RFC 8215), protocol
    /// assignments (192.0.0.0/24) and reserved (240.0.0.0/4).
    Private,
    /// An address of this machine: 127.0.0.0/8, `::1`.
    Loopback,
    /// A link-local address, which includes most metadata services: 169.254.0.0/16, `fe80::/10`.
    LinkLocal,
    /// A metadata service of a cloud provider with an address that is not link-local.
    Metadata,
    /// An unspecified address: 0.0.0.0/8, `::`. Connecting to such an address reaches this machine.
    Unspecified,
    /// A multicast address: 224.0.0.0/4, `ff00::/8`.
    Multicast,
    /// The broadcast address 255.255.255.255.
    Broadcast,
}

/// Addresses of metadata services outside the link-local networks, by cloud provider.
const METADATA_SERVICES_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba Cloud
    Ipv4Addr::new(168, 63, 129, 16),   // Azure, also its DNS and health checks
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle Cloud
];
const METADATA_SERVICES_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), // AWS
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),  // Google Cloud
    Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe), // Oracle Cloud
];

impl AddressClass {
    /// Returns the class of an address. An IPv4-mapped address has the class of its IPv4 address.
    /// IPv4 addresses that are embedded in another form are ignored.
    #[must_use]
    pub fn from_ip(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => classify_v4(address),
            IpAddr::V6(address) => classify_v6(address),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
            Self::Metadata => "cloud metadata",
            Self::Unspecified => "unspecified",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
        }
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    if METADATA_SERVICES_V4.contains(&address) {
        return AddressClass::Metadata;
    }
    match address.octets() {
        [0, ..] => AddressClass::Unspecified,
        [127, ..] => AddressClass::Loopback,
        [169, 254, ..] => AddressClass::LinkLocal,
        [224..=239, ..] => AddressClass::Multicast,
        [255, 255, 255, 255] => AddressClass::Broadcast,
        [10, ..]
        | [172, 16..=31, ..]
        | [192, 168, ..]
        | [100, 64..=127, ..]
        | [198, 18..=19, ..]
        | [192, 0, 0, _]
        | [240..=255, ..] => AddressClass::Private,
        _ => AddressClass::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    if METADATA_SERVICES_V6.contains(&address) {
        return AddressClass::Metadata;
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressClass::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        // Site-local (RFC 3879), unique local (RFC 4193) and local-use NAT64 (RFC 8215) addresses.
        [0xfec0..=0xfeff, ..] | [0xfc00..=0xfdff, ..] | [0x64, 0xff9b, 1, ..] => {
            AddressClass::Private
        }
        _ => AddressClass::Public,
    }
}

/// Returns the IPv4 addresses to which a gateway may forward packets for an IPv6 address. Returns
/// no address for an IPv4 address.
pub(super) fn embedded_ipv4_addresses(address: IpAddr) -> impl Iterator<Item = Ipv4Addr> {
    let addresses = match address {
        IpAddr::V4(_) => [None, None],
        IpAddr::V6(address) => ipv4_addresses_in_ipv6(address),
    };
    addresses.into_iter().flatten()
}

fn ipv4_addresses_in_ipv6(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let to_ipv4 =
        |high: u16, low: u16| Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        // The addresses `::` and `::1` embed no IPv4 address.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None, None],
        // IPv4-compatible (RFC 4291, section 2.5.5.1), IPv4-translated (RFC 2765) and NAT64
        // (RFC 6052).
        [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => [to_ipv4(high, low), None],
        // Local-use NAT64: the operator chooses the prefix length, usually 48 or 96 bits.
        [0x64, 0xff9b, 1, first, second, third, high, low] => {
            // With a prefix of 48 bits, a zero octet separates the two halves of the IPv4 address.
            let candidates = [to_ipv4(first, second << 8 | third >> 8), to_ipv4(high, low)];
            // The prefix length is unknown, so both forms are decoded. A form that results in an
            // unspecified address is ignored, because that is not the form that the operator uses.
            candidates.map(|address| address.filter(|address| !address.is_unspecified()))
        }
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => [to_ipv4(high, low), None],
        // Teredo (RFC 4380): embeds the address of the server, and the client's address with all
        // bits inverted.
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            [to_ipv4(server_high, server_low), to_ipv4(!high, !low)]
        }
        // ISATAP (RFC 5214), under any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => [to_ipv4(high, low), None],
        _ => [None, None],
    }
}
