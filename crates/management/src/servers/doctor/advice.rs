//! Advice after a failure: what the failure means and what helps.

use std::io::ErrorKind;

use pillion_egress::TlsFailureKind;
use pillion_mcp_client::{McpErrorKind, OAuthError};

use super::{ServerError, StepKind};

pub(super) const EGRESS: &str = "The egress policy protects networks that no server of the sidecar \
    should reach. If the server is meant to be reached, allow its host or network: in \
    `servers.egress` for servers of the store, or in `egress` of the server's entry in the \
    configuration file. Link-local addresses and metadata services cannot be allowed.";

pub(super) const CREDENTIAL_UNREADABLE: &str = "Check that the key of the vault is the one with \
    which the credential was stored (`vault.key_file` or `vault.key_env`). Otherwise, set the \
    credential again.";

pub(super) const NAME_RESOLUTION: &str = "Check the spelling of the host in the server's URL. If it \
    is right, the DNS server of the sidecar's host does not know the name or cannot be reached: \
    try `getent hosts NAME` on the sidecar's host.";

pub(super) const PROXY: &str = "Correct the variable in the environment of the sidecar, and restart \
    the sidecar.";

const PROBE: &str = "Run `pillion mcp probe URL` on the sidecar's host, or set the log level to \
    `debug`, to see each request.";

const WRONG_URL: &str = "The host responds, but not as an MCP server at this path. Compare the \
    server's URL with the documentation of the server: the path is often `/mcp` or `/sse`.";

const SERVER_FAULT: &str = "The server failed. Look at the log of the server, or ask its operator.";

const INVALID_RESPONSE: &str = "The server's response violates the protocol. Check that the URL or \
    the command belongs to an MCP server, and update the server.";

const SLOW: &str = "The server is too slow or does not respond. Look at the log of the server; the \
    server may be overloaded or wait for another service.";

const LOG_IN: &str = "Log in: on the page of the server, or with `pillion auth login SERVER`.";

/// The phase of a session with an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The client connects: detects the transport, and performs the handshake.
    Connecting,
    /// The client lists the tools.
    Listing,
}

/// Returns the step to which a failure of a session belongs, and what helps.
pub(super) fn for_session(
    error: &McpErrorKind,
    phase: Phase,
    is_program: bool,
) -> (StepKind, &'static str) {
    let phase_step = match (phase, is_program) {
        (Phase::Connecting, false) => StepKind::Transport,
        (Phase::Connecting, true) => StepKind::Revision,
        (Phase::Listing, _) => StepKind::ToolList,
    };
    match error {
        McpErrorKind::Config(_) => (
            StepKind::Configuration,
            "Correct the setting: on the page of the server, or in the configuration file.",
        ),
        McpErrorKind::Setup(_) => (
            StepKind::Configuration,
            "Check the proxy variables in the environment of the sidecar, and that the sidecar's \
             host has CA certificates (the package `ca-certificates`).",
        ),
        McpErrorKind::Egress(_) => (StepKind::EgressPolicy, EGRESS),
        McpErrorKind::ConnectionFailed(_) => (
            phase_step,
            "No connection was established. If a proxy is configured, check that the proxy runs \
             and permits connections with this host. Otherwise, the server has just stopped, or \
             refuses further connections.",
        ),
        McpErrorKind::ConnectionBroken(_)
        | McpErrorKind::StreamClosed
        | McpErrorKind::ResponseLost(_)
        | McpErrorKind::NoResponse => (
            phase_step,
            "The server, or a proxy in between, closed the connection before the response was \
             complete. Look at the log of the server, and at the timeouts and buffers of the \
             proxy.",
        ),
        McpErrorKind::HttpStatus { status, .. } => match status {
            401 | 403 => (StepKind::Authorization, REJECTED),
            407 => (
                phase_step,
                "The proxy requires a user and a password: add both to the URL in the proxy \
                 variable of the sidecar's environment.",
            ),
            408 | 429 => (
                phase_step,
                "The server is overloaded or limits the rate of requests. Wait, and try again; set \
                 `rateLimit` of the server so that calls stay below the limit.",
            ),
            502..=504 => (
                phase_step,
                "The server, or a proxy in front of the server, responds that the server is not \
                 available or too slow. Start the server, or ask its operator.",
            ),
            500.. => (phase_step, SERVER_FAULT),
            _ => (phase_step, WRONG_URL),
        },
        McpErrorKind::Authorization(error) => (StepKind::Authorization, for_oauth(error)),
        McpErrorKind::Redirect => (
            phase_step,
            "The server redirects to another address, to which Pillion sends no credentials. Set \
             the server's URL to the address to which it redirects.",
        ),
        McpErrorKind::ForeignEndpoint => (
            phase_step,
            "The server names an endpoint on another host, to which Pillion sends no credentials. \
             If a proxy is in between, the server must know its public URL.",
        ),
        McpErrorKind::ContentType { .. } | McpErrorKind::NotWebSocket => (phase_step, WRONG_URL),
        McpErrorKind::NoCommonVersion { .. } => (
            StepKind::Revision,
            "Update the server or Pillion. If the server's setting `protocolVersion` is set, \
             remove it, so that Pillion chooses a revision that both support.",
        ),
        McpErrorKind::Spawn { .. } => (
            StepKind::Start,
            "Check that the sidecar's user may execute the program, that the interpreter in its \
             first line (`#!`) exists, and that the working directory exists.",
        ),
        McpErrorKind::ProcessEnded { .. } => (
            StepKind::Start,
            "The program ended by itself. Its last line of standard error says why, if it wrote \
             one; the sidecar's log has the other lines. Run the command as the sidecar's user, \
             with the variables of `env` and `inheritEnv` only.",
        ),
        McpErrorKind::Echo => (
            phase_step,
            "The program only repeats its input. Check the command and its arguments.",
        ),
        McpErrorKind::Timeout { .. } => (phase_step, for_timeout(phase_step)),
        McpErrorKind::Rpc(_) if phase == Phase::Listing => (
            phase_step,
            "The server responds to `tools/list` with an error. Look at the log of the server, and \
             check that the credential may list tools.",
        ),
        McpErrorKind::Rpc(_) => (
            StepKind::Revision,
            "The server rejects the handshake. If the server's setting `protocolVersion` is set, \
             remove it. Otherwise, update the server.",
        ),
        McpErrorKind::TooLarge { .. }
        | McpErrorKind::TooManyValues(_)
        | McpErrorKind::TooManyEvents { .. }
        | McpErrorKind::TooManyPages { .. }
        | McpErrorKind::ListTooLarge { .. } => (
            phase_step,
            "The response exceeds a limit that protects the sidecar. Reduce the number or the size \
             of the server's tools, or raise `limits` in the server's entry of the configuration \
             file.",
        ),
        McpErrorKind::ContentEncoding { .. }
        | McpErrorKind::Sse(_)
        | McpErrorKind::InvalidUtf8
        | McpErrorKind::InvalidMessage(_)
        | McpErrorKind::UnexpectedResult { .. }
        | McpErrorKind::UnknownResultType { .. } => (phase_step, INVALID_RESPONSE),
        _ => (phase_step, PROBE),
    }
}

/// The advice for a rejected request, before the server's challenge was examined.
const REJECTED: &str = "The server rejects the request. Set a credential with sufficient \
    permissions on the page of the server.";

/// Returns what helps if a server rejects a request with HTTP 401 or 403. `has_credential` says
/// whether the request carried a credential, and `has_metadata` whether the server publishes OAuth
/// metadata.
pub(super) fn for_rejection(status: u16, has_credential: bool, has_metadata: bool) -> &'static str {
    match (status, has_credential, has_metadata) {
        (403, true, _) => {
            "The server knows the credential, but the credential does not permit this request. \
             Obtain a credential with more permissions or scopes. Some servers also reject requests \
             from hosts that they do not know."
        }
        (_, true, false) => {
            "The server rejects the credential: it has expired, was revoked, or is of a type that \
             the server does not accept. Set the credential again on the page of the server."
        }
        (_, true, true) => {
            "The server rejects the credential: it has expired, was revoked, or is of a type that \
             the server does not accept. Set the credential again, or use OAuth, which the server \
             supports: set the authentication to `oauth`, and log in on the page of the server."
        }
        (_, false, true) => {
            "The server requires OAuth. Set the authentication of the server to `oauth`, and log in \
             on the page of the server, or with `pillion auth login SERVER`."
        }
        (_, false, false) => {
            "The server requires a credential. Set the authentication of the server to the type \
             that its operator names: a bearer token, an API key, or a user with a password."
        }
    }
}

/// Returns what helps if no OAuth token could be obtained.
fn for_oauth(error: &OAuthError) -> &'static str {
    match error {
        OAuthError::NoPrompt | OAuthError::Prompt(_) => LOG_IN,
        OAuthError::TokenRejected { .. } | OAuthError::Denied { .. } => {
            "The authorization server rejects the login: it has expired or was revoked, or the \
             client is unknown. Log in again: on the page of the server, or with `pillion auth \
             login SERVER`. If that fails, check `client_id` and `client_secret`."
        }
        OAuthError::NoClient | OAuthError::Registration(_) => {
            "The authorization server does not register clients by itself. Register Pillion there, \
             and set `client_id` (and `client_secret`) in the authentication of the server."
        }
        OAuthError::ForeignResource { .. }
        | OAuthError::InvalidIssuer { .. }
        | OAuthError::NoMetadata { .. }
        | OAuthError::NoPublishedMetadata
        | OAuthError::IssuerMismatch { .. }
        | OAuthError::MetadataStatus { .. }
        | OAuthError::MetadataRedirect
        | OAuthError::InvalidEndpoint { .. }
        | OAuthError::NoAuthorizationEndpoint
        | OAuthError::ForeignAuthorizationEndpoint { .. }
        | OAuthError::PkceUnsupported => {
            "The OAuth metadata of the server is missing or invalid, so Pillion sends no \
             credential. The operator of the server must correct the metadata. Check also that the \
             server's URL is the one that its documentation names."
        }
        OAuthError::ForeignClient { .. } | OAuthError::ForeignIssuer { .. } => {
            "The server names another authorization server than before or than configured. If the \
             change is right, correct `issuer` or `client_id`, and log in again."
        }
        OAuthError::Endpoint(_) => EGRESS,
        OAuthError::Request(_)
        | OAuthError::TooLarge { .. }
        | OAuthError::TokenStatus { .. }
        | OAuthError::TokenResponse(_)
        | OAuthError::TokenType
        | OAuthError::TimedOut { .. } => {
            "The authorization server cannot be reached or does not respond as OAuth requires. Try \
             again later, or ask its operator."
        }
        OAuthError::Store(_) => CREDENTIAL_UNREADABLE,
        _ => "Check the OAuth settings of the server, and log in again on the page of the server.",
    }
}

/// Returns what helps if the settings of a server cannot be used.
pub(super) fn for_settings(error: &ServerError) -> &'static str {
    match error {
        ServerError::Program => {
            "The server is a program, and nothing else would start it now. Enable the server first; \
             or run `pillion mcp probe` on the sidecar's host."
        }
        ServerError::Credential(_) | ServerError::Unreadable => CREDENTIAL_UNREADABLE,
        ServerError::Store(_) => {
            "Check that the store is available, and that the sidecar's user may read it."
        }
        _ => "Correct the setting: on the page of the server, or in the configuration file.",
    }
}

/// Returns what helps if no TCP connection can be opened.
pub(super) fn for_connect(error: ErrorKind) -> &'static str {
    match error {
        ErrorKind::ConnectionRefused => {
            "No program listens on this port. Start the server, or correct the port in the server's \
             URL. In a container, `localhost` is the container itself."
        }
        ErrorKind::TimedOut => {
            "The host does not respond. It may be off, or a firewall drops the packets: check the \
             rules of both hosts and of the networks in between."
        }
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            "The sidecar's host has no route to this address. Check the network, a VPN, and whether \
             the host has IPv6 if the address is an IPv6 address."
        }
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => {
            "The host, or a firewall in between, closed the connection at once. Check the rules of \
             the firewall and the log of the server."
        }
        _ => "Check the network of the sidecar's host, and the rules of firewalls.",
    }
}

/// Returns what helps if the TLS handshake fails.
pub(super) fn for_tls(failure: TlsFailureKind) -> &'static str {
    match failure {
        TlsFailureKind::Setup => {
            "Install CA certificates on the sidecar's host (the package `ca-certificates`)."
        }
        TlsFailureKind::Expired => {
            "The server's certificate has expired: its operator must renew it. If it has not \
             expired, check the clock of the sidecar's host."
        }
        TlsFailureKind::NotYetValid => {
            "Check the clock of the sidecar's host. If it is right, the operator of the server must \
             correct the certificate."
        }
        TlsFailureKind::UnknownIssuer => {
            "The sidecar's host does not trust the issuer of the certificate. If the certificate is \
             from your own authority or self-signed, add the authority to the certificates of the \
             host, for example with `update-ca-certificates`, and restart the sidecar. Otherwise, \
             the server must also send its intermediate certificates."
        }
        TlsFailureKind::WrongName => {
            "The certificate is for other names. Use one of these names in the server's URL, or \
             have the certificate issued for the name in the URL."
        }
        TlsFailureKind::NotTls => {
            "The server does not use TLS on this port. Correct the port; or use `http` in the URL, \
             and allow the host in `allow_http` of the egress policy."
        }
        TlsFailureKind::Rejected => {
            "The server supports neither TLS 1.2 nor TLS 1.3, requires a certificate of the client, \
             or does not serve this name. Update the TLS settings of the server."
        }
        _ => {
            "The operator of the server must correct its TLS settings. A firewall that inspects TLS \
             can cause this, too."
        }
    }
}

/// Returns what helps if a step does not end in time.
pub(super) fn for_timeout(step: StepKind) -> &'static str {
    match step {
        StepKind::Configuration => {
            "The store or the vault does not respond. Check that the store is available."
        }
        StepKind::Program => "The file system with the program does not respond.",
        StepKind::NameResolution => {
            "The DNS server of the sidecar's host does not respond. Check `/etc/resolv.conf` and \
             the network."
        }
        StepKind::TcpConnection => for_connect(ErrorKind::TimedOut),
        StepKind::Tls => {
            "The host accepts connections, but does not perform the TLS handshake. Check the port, \
             and the proxy in front of the server."
        }
        StepKind::Revision | StepKind::Start => {
            "The program does not respond to the handshake. It may still be starting, for example \
             while it downloads packages, or wait for a terminal: run the command as the sidecar's \
             user."
        }
        _ => SLOW,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use pillion_egress::EgressError;
    use pillion_mcp_client::{PromptError, RpcError, ServerConfigError};

    use super::*;

    fn status(status: u16) -> McpErrorKind {
        McpErrorKind::HttpStatus {
            status,
            retry_after: None,
            challenge: None,
            rpc_error: None,
        }
    }

    fn oauth(error: OAuthError) -> McpErrorKind {
        McpErrorKind::Authorization(Arc::new(error))
    }

    fn timeout() -> McpErrorKind {
        McpErrorKind::Timeout {
            timeout: Duration::from_secs(1),
            operation: None,
        }
    }

    fn check(
        phase: Phase,
        is_program: bool,
        failures: impl IntoIterator<Item = (McpErrorKind, StepKind, &'static str)>,
    ) {
        for (error, step, word) in failures {
            let (found_step, advice) = for_session(&error, phase, is_program);
            assert_eq!(found_step, step, "{error}");
            assert!(advice.contains(word), "{error}: {advice}");
        }
    }

    #[test]
    fn each_failure_to_connect_with_a_url_belongs_to_a_step_and_has_advice() {
        use StepKind::{Authorization, Configuration, EgressPolicy, Revision, Transport};
        let config = McpErrorKind::Config(ServerConfigError::Transport);
        let html = McpErrorKind::ContentType {
            content_type: "text/html".to_owned(),
        };
        let versions = McpErrorKind::NoCommonVersion {
            supported_versions: "1999-01-01".to_owned(),
        };
        let rpc = McpErrorKind::Rpc(RpcError::new(-32603, "x"));
        let abandoned = oauth(OAuthError::Prompt(PromptError::Abandoned));
        let failures = [
            (config, Configuration, "setting"),
            (EgressError::Scheme.into(), EgressPolicy, "allow"),
            (status(401), Authorization, "credential"),
            (status(404), Transport, "path"),
            (status(405), Transport, "path"),
            (status(407), Transport, "proxy"),
            (status(429), Transport, "rate"),
            (status(500), Transport, "log"),
            (status(502), Transport, "proxy"),
            (html, Transport, "path"),
            (McpErrorKind::Redirect, Transport, "redirects"),
            (versions, Revision, "protocolVersion"),
            (rpc, Revision, "handshake"),
            (oauth(OAuthError::NoPrompt), Authorization, "Log in"),
            (abandoned, Authorization, "Log in"),
            (oauth(OAuthError::NoClient), Authorization, "client_id"),
            (
                oauth(OAuthError::PkceUnsupported),
                Authorization,
                "metadata",
            ),
            (timeout(), Transport, "slow"),
            (McpErrorKind::SessionExpired, Transport, "probe"),
        ];
        check(Phase::Connecting, false, failures);
    }

    #[test]
    fn each_failure_to_start_a_program_belongs_to_a_step_and_has_advice() {
        let spawn = McpErrorKind::Spawn {
            program: "x".to_owned(),
            source: ErrorKind::PermissionDenied.into(),
        };
        let ended = McpErrorKind::ProcessEnded {
            status: None,
            last_stderr_line: "no module".to_owned(),
        };
        let failures = [
            (spawn, StepKind::Start, "execute"),
            (ended, StepKind::Start, "standard error"),
            (McpErrorKind::Echo, StepKind::Revision, "repeats"),
            (timeout(), StepKind::Revision, "terminal"),
        ];
        check(Phase::Connecting, true, failures);
    }

    #[test]
    fn each_failure_to_list_tools_belongs_to_a_step_and_has_advice() {
        let rpc = McpErrorKind::Rpc(RpcError::new(-32603, "x"));
        let broken = McpErrorKind::ConnectionBroken("x".into());
        let large = McpErrorKind::TooLarge { limit: 1 };
        let failures = [
            (status(403), StepKind::Authorization, "credential"),
            (status(429), StepKind::ToolList, "rate"),
            (rpc, StepKind::ToolList, "tools/list"),
            (broken, StepKind::ToolList, "closed"),
            (timeout(), StepKind::ToolList, "slow"),
            (large, StepKind::ToolList, "limits"),
            (McpErrorKind::InvalidUtf8, StepKind::ToolList, "protocol"),
        ];
        check(Phase::Listing, false, failures);
    }

    #[test]
    fn the_advice_for_a_rejection_depends_on_the_credential_and_the_metadata() {
        for (status, has_credential, has_metadata, word) in [
            (401, false, true, "requires OAuth"),
            (401, false, false, "bearer token"),
            (401, true, false, "Set the credential again"),
            (401, true, true, "use OAuth"),
            (403, true, true, "more permissions"),
            (403, false, false, "bearer token"),
        ] {
            let advice = for_rejection(status, has_credential, has_metadata);
            assert!(advice.contains(word), "{status}: {advice}");
        }
    }

    #[test]
    fn each_failure_of_a_connection_has_its_own_advice() {
        for (error, word) in [
            (ErrorKind::ConnectionRefused, "listens"),
            (ErrorKind::TimedOut, "firewall"),
            (ErrorKind::NetworkUnreachable, "route"),
            (ErrorKind::ConnectionReset, "closed"),
            (ErrorKind::Other, "network"),
        ] {
            assert!(for_connect(error).contains(word), "{error}");
        }
        for (failure, word) in [
            (TlsFailureKind::Setup, "ca-certificates"),
            (TlsFailureKind::Expired, "expired"),
            (TlsFailureKind::NotYetValid, "clock"),
            (TlsFailureKind::UnknownIssuer, "self-signed"),
            (TlsFailureKind::WrongName, "names"),
            (TlsFailureKind::NotTls, "port"),
            (TlsFailureKind::Rejected, "TLS 1.2"),
            (TlsFailureKind::Certificate, "operator"),
            (TlsFailureKind::Broken, "operator"),
        ] {
            assert!(for_tls(failure).contains(word), "{failure:?}");
        }
    }
}
