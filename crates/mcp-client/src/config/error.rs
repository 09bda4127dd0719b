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
    #[error("A server needs exactly one of 'url' and 'command'")]
    Endpoint,
    /// A key that is valid only for a command, such as `env`, is used with a URL.
    #[error("'{key}' is only allowed with a 'command', not with a 'url'")]
    CommandKey {
        /// The name of the key that requires a command.
        key: &'static str,
    },
    /// The system cannot start a process with the command: the program, the directory or a variable
    /// name is empty, a string contains a NUL, or a variable name contains a `=`.
    #[error("Invalid command: {problem}")]
    Command {
        /// What is invalid in the command.
        problem: &'static str,
    },
    /// The configured endpoint does not support the configured transport.
    #[error(
        "The transport does not match the server: use stdio for a 'command', WebSocket for \
        ws:// and wss:// URLs, and any other transport for http:// and https:// URLs"
    )]
    Transport,
    /// The URL contains a user or a password.
    #[error("The server URL contains a user or password: put them into 'authentication'")]
    CredentialInUrl,
    /// The name or the value of a configured header is not valid in HTTP.
    #[error("Invalid header '{name}': the name or value has characters that HTTP does not allow")]
    Header {
        /// The name of the invalid header, as configured.
        name: String,
    },
    /// The header is one that the client sets itself, such as `Content-Length`.
    #[error("Header '{name}' is set by the client and cannot be configured")]
    ConnectionHeader {
        /// The configured name of the header.
        name: String,
    },
    /// A key of the `oauth` authentication is missing or invalid.
    #[error("The OAuth authentication needs a valid '{key}'{}", key_purpose(key))]
    OAuth {
        /// The name of the key in the configuration.
        key: &'static str,
    },
    /// The egress policy does not allow requests to the configured URL.
    #[error(transparent)]
    Egress(#[from] EgressError),
}

/// Returns what a key of the `oauth` authentication is for, as the end of a message; empty if the
/// key's name explains it.
fn key_purpose(key: &str) -> &'static str {
    match key {
        "issuer" => ": the URL of the only authorization server that may receive the credentials",
        "type" => ": only a server with the type 'oauth' can complete an authorization",
        _ => "",
    }
}
