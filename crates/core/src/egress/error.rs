use std::net::IpAddr;

use super::{AddressClass, HostName};

/// Why a request may not leave. No text holds more of a URL than its host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// A URL that is neither `https` nor `http`.
    #[error("only https:// and http:// URLs may be requested")]
    Scheme,
    /// Plain http to a host that is not this machine and not allowed by name.
    #[error(
        "plain http to '{host}' is not allowed: use https, or name the host in egress.allow_http"
    )]
    PlainHttp {
        /// The host.
        host: HostName,
    },
    /// An address that may not be reached stands in the URL.
    #[error("the {class} address {address} may not be reached")]
    Address {
        /// The host, as the address is usually written.
        host: HostName,
        /// The address.
        address: IpAddr,
        /// What is refused about it.
        class: AddressClass,
    },
    /// None of the addresses of a name may be reached.
    #[error("'{host}' has the {class} address {address}, which may not be reached")]
    Resolved {
        /// The name.
        host: HostName,
        /// Its first address.
        address: IpAddr,
        /// What is refused about it.
        class: AddressClass,
    },
}

impl EgressError {
    /// The refusal that is the cause of an error, if one is.
    pub(crate) fn cause_of<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(refusal) = error.downcast_ref() {
                return Some(refusal);
            }
            cause = error.source();
        }
        None
    }
}

/// The innermost cause, such as `Connection refused (os error 111)`: what is around it
/// names the URL, and a URL may hold a token.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if std::ptr::addr_eq(cause, error) {
        return "the request failed".to_owned();
    }
    cause.to_string()
}
