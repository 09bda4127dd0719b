use std::fmt;
use std::time::Duration;

use rmcp::transport::auth::AuthError;

use super::{PromptError, TokenStoreError};
use crate::ErrorClass;
use pillion_egress::EgressError;

/// Why no token could be obtained. The messages contain no credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// The user's consent is required, but the client has no prompt.
    #[error("the server requires a user's authorization, but this client cannot prompt a user")]
    NoPrompt,
    /// The MCP server's protected resource metadata describes another resource (RFC 9728 section
    /// 3.3).
    #[error(
        "the server's protected resource metadata has the resource '{found_resource}', which is \
        not the server's URL"
    )]
    ForeignResource {
        /// The resource in the metadata; empty if missing.
        found_resource: String,
    },
    /// An issuer identifier is invalid (RFC 8414 section 2).
    #[error(
        "'{issuer}' is not an issuer identifier: expected an https URL in normal form, without \
        user, query, fragment and '/.well-known/'"
    )]
    InvalidIssuer {
        /// The invalid issuer identifier.
        issuer: String,
    },
    /// An authorization server has no metadata at its well-known addresses.
    #[error("the authorization server '{issuer}' publishes no valid metadata")]
    NoMetadata {
        /// The issuer without metadata.
        issuer: String,
    },
    /// The metadata names an issuer other than the issuer from whose address the metadata was
    /// fetched (RFC 8414 section 3.3).
    #[error(
        "the metadata of the authorization server '{expected_issuer}' has the issuer \
        '{found_issuer}'"
    )]
    IssuerMismatch {
        /// The issuer whose address the metadata was fetched from.
        expected_issuer: String,
        /// The issuer in the metadata; empty if missing.
        found_issuer: String,
    },
    /// The request for metadata failed with an HTTP error.
    #[error("the OAuth metadata cannot be fetched: HTTP {status}")]
    MetadataStatus {
        /// The HTTP status.
        status: u16,
    },
    /// The URL of the metadata redirects to another origin, or too many times.
    #[error("the URL of the OAuth metadata redirects to another origin or too many times")]
    MetadataRedirect,
    /// An endpoint in the metadata is invalid: it is not a URL, does not use `https` although the
    /// issuer does, or contains a user or a fragment.
    #[error(
        "the authorization server has an invalid '{name}': expected an https URL without user and \
        fragment"
    )]
    InvalidEndpoint {
        /// The metadata member that contains the endpoint, such as `token_endpoint`.
        name: &'static str,
    },
    /// The authorization server has no authorization endpoint, so it cannot ask a user.
    #[error("the authorization server has no 'authorization_endpoint'")]
    NoAuthorizationEndpoint,
    /// The authorization endpoint has another origin than the issuer, and responses do not name
    /// their issuer, so that a response from another server would not be noticed (RFC 9700 section
    /// 4.4).
    #[error(
        "the authorization endpoint of '{issuer}' has another origin, and the authorization server \
        does not send 'iss' in responses (RFC 9207): configure 'issuer' if this is intended"
    )]
    ForeignAuthorizationEndpoint {
        /// The issuer identifier of the authorization server.
        issuer: String,
    },
    /// The authorization server does not announce PKCE with S256, which the MCP specification
    /// requires (section "Security Considerations" of its authorization page).
    #[error("the authorization server does not support PKCE with S256")]
    PkceUnsupported,
    /// The egress policy does not allow requests to an endpoint of the authorization server.
    #[error("an endpoint of the authorization server is not allowed: {0}")]
    Endpoint(#[from] EgressError),
    /// The configured client belongs to another authorization server than the one that the MCP
    /// server names.
    #[error(
        "the configured OAuth client belongs to an authorization server other than '{found_issuer}'"
    )]
    ForeignClient {
        /// The issuer that the MCP server names.
        found_issuer: String,
    },
    /// The MCP server names another authorization server than the configured `issuer`.
    #[error(
        "the server names the authorization server '{found_issuer}', but 'issuer' is configured as \
        '{configured_issuer}'"
    )]
    ForeignIssuer {
        /// The issuer that the MCP server names.
        found_issuer: String,
        /// The configured issuer.
        configured_issuer: String,
    },
    /// The configuration has no client ID, and the authorization server does not register clients.
    #[error(
        "the authorization server does not support client registration: configure a 'client_id'"
    )]
    NoClient,
    /// The authorization server rejected the registration of the client.
    #[error("the OAuth client registration failed: {0}")]
    Registration(#[source] SdkError),
    /// Neither the configuration nor the prompt has a redirect URI for the browser.
    #[error("the authorization needs a 'redirect_uri': configure one")]
    NoRedirectUri,
    /// The authorization request cannot be built.
    #[error("the authorization request cannot be built: {0}")]
    AuthorizationRequest(#[source] SdkError),
    /// The prompt failed, or the user did not respond.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The authorization response does not contain the `state` of the authorization request.
    #[error("the authorization response belongs to another request (its 'state' does not match)")]
    WrongState,
    /// The authorization response has another issuer, or lacks the issuer that the server announces
    /// (RFC 9207).
    #[error(
        "the authorization response comes from an issuer other than the authorization server, or \
        names no issuer"
    )]
    WrongIssuer,
    /// The user or the authorization server denied the authorization.
    #[error("the authorization server denied the authorization: {error}")]
    Denied {
        /// The error code, such as `access_denied`.
        error: String,
    },
    /// The authorization response has neither a code nor an error.
    #[error("the authorization response has no code")]
    NoCode,
    /// The authorization server cannot be reached, or its response is incomplete.
    #[error("the request to the authorization server failed: {0}")]
    Request(#[source] reqwest::Error),
    /// A metadata or token response is larger than the maximum size.
    #[error("the authorization server's response is larger than {limit} bytes")]
    TooLarge {
        /// The maximum size of the response, in bytes.
        limit: usize,
    },
    /// The token endpoint returned an error (RFC 6749 section 5.2).
    #[error(
        "the authorization server rejected the token request: {error}{}",
        format_description_suffix(.description.as_ref())
    )]
    TokenRejected {
        /// The error code, such as `invalid_grant`.
        error: String,
        /// The authorization server's description of the error.
        description: Option<String>,
    },
    /// The token endpoint returned an error status without an error code.
    #[error("the authorization server rejected the token request: HTTP {status}")]
    TokenStatus {
        /// The HTTP status.
        status: u16,
    },
    /// The token response cannot be parsed.
    #[error("the token response is invalid at line {}, column {}", .0.line(), .0.column())]
    TokenResponse(serde_json::Error),
    /// The token type is not supported.
    #[error("the token response has no valid token of the type Bearer or DPoP")]
    TokenType,
    /// The identity provider did not return an identity assertion.
    #[error("the identity provider returned no identity assertion")]
    NoIdentityAssertion,
    /// The assertion file cannot be read.
    #[error("the file in 'assertion_file' cannot be read: {0}")]
    Assertion(#[source] std::io::Error),
    /// Signing with the private key failed.
    #[error("signing with the private key failed")]
    Signing,
    /// Storing or loading the tokens failed.
    #[error(transparent)]
    Store(#[from] TokenStoreError),
    /// The prompt or the token store panicked.
    #[error("the authorization failed, because the prompt or the token store panicked")]
    Panicked,
    /// The server publishes no authorization metadata, and client credentials are never sent to a
    /// guessed endpoint.
    #[error(
        "the server publishes no authorization metadata: Pillion sends client credentials only to \
        an endpoint from published metadata"
    )]
    NoPublishedMetadata,
    /// The authorization timed out.
    #[error("the authorization timed out after {} s", timeout.as_secs())]
    TimedOut {
        /// The time within which tokens must be obtained.
        timeout: Duration,
    },
    /// A setting that the grant requires is missing or invalid.
    #[error(transparent)]
    Config(#[from] crate::ServerConfigError),
}

impl OAuthError {
    /// Returns whether the authorization server rejected the request; `false` if it could not be
    /// reached.
    #[must_use]
    pub fn is_rejection(&self) -> bool {
        self.class() == ErrorClass::Denied
    }

    /// Returns whether the authorization server may have removed the client's registration:
    ///
    /// - The server sent the error code `invalid_client` or `unauthorized_client`.
    /// - The prompt failed: the server may have shown the user an error page.
    pub(super) fn may_be_unknown_client(&self) -> bool {
        match self {
            Self::Prompt(PromptError::Deferred) => false,
            Self::Prompt(_) => true,
            Self::TokenRejected { error, .. } | Self::Denied { error } => {
                error.starts_with("invalid_client") || error.starts_with("unauthorized_client")
            }
            _ => false,
        }
    }

    /// Returns the class of the error, which tells callers whether a retry can help.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Request(_)
            | Self::Store(_)
            | Self::TooLarge { .. }
            | Self::MetadataStatus { .. }
            | Self::MetadataRedirect => ErrorClass::Unavailable,
            Self::TokenStatus { status } if *status >= 500 || *status == 429 => {
                ErrorClass::Unavailable
            }
            Self::TimedOut { .. } => ErrorClass::Timeout,
            Self::Panicked => ErrorClass::Internal,
            Self::Config(_) | Self::NoRedirectUri | Self::Assertion(_) | Self::Signing => {
                ErrorClass::InvalidInput
            }
            _ => ErrorClass::Denied,
        }
    }
}

/// Truncates a server's text to one short line.
pub(super) fn shorten_to_line(text: &str) -> String {
    const MAX_DESCRIPTION_CHARS: usize = 300;
    text.replace(char::is_control, " ")
        .chars()
        .take(MAX_DESCRIPTION_CHARS)
        .collect()
}

fn format_description_suffix(description: Option<&String>) -> String {
    description.map_or(String::new(), |text| format!(" ({text})"))
}

/// An error of the OAuth SDK. The SDK's message is truncated to one line, because the message may
/// contain a whole response.
pub struct SdkError(AuthError);

impl SdkError {
    pub(super) fn new(error: AuthError) -> Self {
        Self(error)
    }
}

impl fmt::Display for SdkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shorten_to_line(&self.0.to_string()))
    }
}

impl fmt::Debug for SdkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SdkError({self})")
    }
}

impl std::error::Error for SdkError {}
