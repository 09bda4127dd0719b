//! Error messages about a server's options, with the option names of the PHP classes.

use pillion_egress::EgressError;
use pillion_mcp_client::ServerConfigError;

use super::ClientClass;
use crate::exception;
use crate::zend::Failure;

/// The options that `MCPSSEClient` and `McpClient` have in common.
const SHARED_OPTIONS: [&str; 10] = [
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

pub(super) fn unknown_option(key: &str, class: ClientClass) -> Failure {
    let class_options: &[&str] = match class {
        ClientClass::SseClient => &[],
        ClientClass::Client { .. } => &CLIENT_OPTIONS,
    };
    let options = [&SHARED_OPTIONS, class_options].concat().join(", ");
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

pub(super) fn invalid_option(key: &str, message: impl std::fmt::Display) -> Failure {
    exception::invalid_input(format!("Invalid MCP server option '{key}': {message}"))
}

/// Returns serde's message about an invalid value, without the value, because it may be a
/// credential. The message keeps an unknown variant or field name only if the name cannot be part
/// of a credential.
pub fn redact_message(is_secret: bool, message: &str) -> String {
    let expected = message
        .rsplit_once(", expected ")
        .map(|(_, expected)| expected);
    let has_value = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .any(|prefix| message.starts_with(prefix));
    match expected {
        Some(expected) if has_value || is_secret => format!("expected {expected}"),
        None if message.starts_with("missing field") => message.to_owned(),
        None if has_value || is_secret => {
            "the value is invalid (not shown, because it may be a credential)".to_owned()
        }
        _ => message.to_owned(),
    }
}
