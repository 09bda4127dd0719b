use crate::egress::EgressError;

/// Why a server cannot be configured as asked. No text here repeats a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerConfigError {
    /// The URL cannot be parsed, or is of another scheme than `http`, `https`, `ws` and `wss`.
    #[error(
        "Invalid server URL: use http:// or https:// (ws:// or wss:// for WebSocket) and a host"
    )]
    Url,
    /// Neither a URL nor a command, or both.
    #[error("A server has either a 'url' or a 'command'")]
    Endpoint,
    /// A key that only a command has stands beside a URL.
    #[error("'{key}' belongs to a 'command', not to a 'url'")]
    CommandKey {
        /// The key.
        key: &'static str,
    },
    /// An empty program or directory, a NUL, or a `=` in the name of a variable.
    #[error(
        "Invalid command: the program, the directory or the name of a variable is empty, there is a NUL, or a '=' in such a name"
    )]
    Command,
    /// A transport that this endpoint cannot be spoken to by.
    #[error(
        "The transport does not fit: a 'command' is spoken to over stdio, ws:// and wss:// over WebSocket, http:// and https:// over all others"
    )]
    Transport,
    /// The URL holds a user or a password.
    #[error("The server URL holds a user or password: put them into 'authentication'")]
    CredentialInUrl,
    /// A header's name is no header name, or its value has characters that no header has.
    #[error("Invalid header '{name}'")]
    Header {
        /// The header's name, as configured.
        name: String,
    },
    /// A header that the connection sets itself, such as `Content-Length`.
    #[error("Header '{name}' is the connection's own and cannot be set")]
    ConnectionHeader {
        /// The header's name, as configured.
        name: String,
    },
    /// A key of the `oauth` authentication is missing or cannot be used.
    #[error("The OAuth authentication needs a proper '{key}'{}", purpose(key))]
    OAuth {
        /// The key in the configuration.
        key: &'static str,
    },
    /// The URL is one that may not be requested.
    #[error(transparent)]
    Egress(#[from] EgressError),
}

/// Returns why a key of the `oauth` authentication is required, if the key's name does not tell.
fn purpose(key: &str) -> &'static str {
    match key {
        "issuer" => ": the URL of the only authorization server that may see the credentials",
        _ => "",
    }
}
