//! Error messages about a server's options, with the option names of the PHP classes.

use pillion_egress::EgressError;
use pillion_mcp_client::ServerConfigError;

use super::ClientClass;
use crate::exception;
use crate::zend::Failure;

/// The options that both client classes have.
const OPTIONS: [&str; 10] = [
    "label",
    "transport",
    "handshake",
    "protocol_version",
    "authentication",
    "headers",
    "token_in_query",
    "limits",
    "allow_http",
    "egress",
];

/// The options that only `McpClient` has.
const CLIENT_OPTIONS: [&str; 11] = [
    "timeout",
    "api_key",
    "oauth",
    "roots",
    "description",
    "url",
    "command",
    "args",
    "env",
    "inherit_env",
    "cwd",
];

pub(super) fn unknown(key: &str, class: ClientClass) -> Failure {
    let own: &[&str] = match class {
        ClientClass::SseClient => &[],
        ClientClass::Client { .. } => &CLIENT_OPTIONS,
    };
    let options = [&OPTIONS, own].concat().join(", ");
    exception::invalid_input(format!("Unknown option '{key}', expected one of {options}"))
}

/// Returns the message of a configuration error, with PHP's option names in place of the engine's.
pub(super) fn with_php_option_names(error: &ServerConfigError) -> String {
    match error {
        ServerConfigError::Egress(EgressError::PlainHttp { host }) => format!(
            "plain http to '{host}' is not allowed: use https, or set the option 'allow_http' to true"
        ),
        error => error.to_string(),
    }
}

pub(super) fn invalid(key: &str, why: impl std::fmt::Display) -> Failure {
    exception::invalid_input(format!("Invalid MCP server option '{key}': {why}"))
}

/// Returns serde's message about an invalid value, without the value, because it may be a
/// credential. Unknown variant and field names stay only if they cannot be part of a credential.
pub fn without_value(is_secret: bool, why: &str) -> String {
    let expected = why.rsplit_once(", expected ").map(|(_, expected)| expected);
    let is_value = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .any(|start| why.starts_with(start));
    match expected {
        Some(expected) if is_value || is_secret => format!("expected {expected}"),
        None if why.starts_with("missing field") => why.to_owned(),
        None if is_value || is_secret => "it is not valid".to_owned(),
        _ => why.to_owned(),
    }
}
