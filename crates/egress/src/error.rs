use std::io::ErrorKind;
use std::net::IpAddr;

use super::{AddressClass, HostName, InvalidProxy};

/// Why a request is forbidden. Messages contain only the host of a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// The URL's scheme is neither `https` nor `http`.
    #[error("only https:// and http:// URLs are allowed")]
    Scheme,
    /// Plain `http` to a host that is neither this machine nor allowed by name.
    #[error(
        "plain http to '{host}' is not allowed: use https, or name the host in egress.allow_http"
    )]
    PlainHttp {
        /// The host of the URL.
        host: HostName,
    },
    /// The URL contains a forbidden address.
    #[error("connections to the {class} address {address} are not allowed")]
    Address {
        /// The host of the URL: the canonical text of the address, IPv6 without brackets.
        host: HostName,
        /// The forbidden address.
        address: IpAddr,
        /// The class of the forbidden address.
        class: AddressClass,
    },
    /// A host name resolves only to forbidden addresses.
    #[error(
        "'{host}' resolves to the {class} address {address}, to which connections are not allowed"
    )]
    Resolved {
        /// The host whose name was looked up.
        host: HostName,
        /// The first address to which the name resolves.
        address: IpAddr,
        /// The class of the first address.
        class: AddressClass,
    },
}

/// Why an HTTP client cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The value of an environment variable does not name a valid proxy.
    #[error(transparent)]
    Proxy(#[from] InvalidProxy),
    /// The client cannot be set up, for example because there are no trusted certificates.
    #[error("{}", root_cause(.0))]
    Setup(#[from] reqwest::Error),
}

impl EgressError {
    /// Returns the egress error that caused an error, if any.
    pub fn cause_of<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(egress_error) = error.downcast_ref() {
                return Some(egress_error);
            }
            cause = error.source();
        }
        None
    }
}

/// The TLS library's error message if the server's response is not a TLS record.
const NO_TLS_MESSAGE: &str = "received corrupt message of type InvalidContentType";

/// Returns the innermost cause of an error, such as `Connection refused (os error 111)`. The outer
/// errors are omitted, because they contain the URL, which may contain a token.
pub fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if std::ptr::addr_eq(cause, error) {
        return "the request failed".to_owned();
    }
    match cause.to_string() {
        text if text == NO_TLS_MESSAGE => "the server does not use TLS on this port".to_owned(),
        text => text,
    }
}

/// Returns whether a request failed because the server refused the connection, or closed the
/// connection before any byte of the request was sent, as a restarting server does.
pub fn suggests_restart(error: &reqwest::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error_cause) = cause {
        // A request that hyper reports as canceled was never sent, because its connection was
        // closed first.
        if let Some(hyper_error) = error_cause.downcast_ref::<hyper::Error>()
            && hyper_error.is_canceled()
        {
            return true;
        }
        if let Some(io_error) = error_cause.downcast_ref::<std::io::Error>()
            && error.is_connect()
            && is_connection_loss(io_error.kind())
        {
            return true;
        }
        cause = error_cause.source();
    }
    false
}

fn is_connection_loss(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
    )
}
