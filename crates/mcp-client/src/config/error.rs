use pillion_egress::EgressError;

/// Why the configuration of a server is invalid. The messages contain no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerConfigError {
    /// The URL cannot be parsed, or its scheme is not `http`, `https`, `ws` or `wss`.
    #[error(
        "Invalid server URL: use http:// or https:// (ws:// or wss:// for WebSocket) and a host"
    )]
    Url,
    /// The configuration has neither a URL nor a command, or has both.
    #[error("A server needs either a 'url' or a 'command'")]
    Endpoint,
    /// A key that requires a command is used with a URL.
    #[error("'{key}' is only allowed with a 'command', not with a 'url'")]
    CommandKey {
        /// The name of the key.
        key: &'static str,
    },
    /// The program, the directory or a variable name is empty, a value contains a NUL, or a
    /// variable name contains a `=`.
    #[error(
        "Invalid command: the program, the working directory and the names of environment \
        variables must not be empty, nothing may contain a NUL byte, and no name a '='"
    )]
    Command,
    /// The endpoint does not support the transport.
    #[error(
        "The transport does not match the server: use stdio for a 'command', WebSocket for \
        ws:// and wss:// URLs, and any other transport for http:// and https:// URLs"
    )]
    Transport,
    /// The URL contains a user or a password.
    #[error("The server URL contains a user or password: put them into 'authentication'")]
    CredentialInUrl,
    /// The header's name or value is not valid in HTTP.
    #[error("Invalid header '{name}'")]
    Header {
        /// The configured name of the header.
        name: String,
    },
    /// The HTTP connection sets this header itself, as it does `Content-Length`.
    #[error("Header '{name}' is set by the client and cannot be configured")]
    ConnectionHeader {
        /// The configured name of the header.
        name: String,
    },
    /// A key of the `oauth` authentication is missing or invalid.
    #[error("The OAuth authentication needs a valid '{key}'{}", purpose(key))]
    OAuth {
        /// The name of the key in the configuration.
        key: &'static str,
    },
    /// The egress policy does not allow requests to the URL.
    #[error(transparent)]
    Egress(#[from] EgressError),
}

/// Returns the reason why a key of the `oauth` authentication is required, unless the key's name
/// explains it.
fn purpose(key: &str) -> &'static str {
    match key {
        "issuer" => ": the URL of the only authorization server that may receive the credentials",
        _ => "",
    }
}
