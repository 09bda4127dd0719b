use std::fmt;

use rmcp::transport::auth::AuthError;

use super::{PromptError, TokenStoreError};
use crate::egress::EgressError;
use crate::tool::ErrorCode;

/// Why there is no token. No text here holds a credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// A person has to consent, and this client has no way to ask one.
    #[error("the server asks for an authorization, and there is nobody here to give it")]
    NobodyToAsk,
    /// The authorization server cannot be found, or what is published about it is wrong.
    #[error("no authorization server: {0}")]
    Discovery(#[source] SdkError),
    /// The authorization server does not say that it supports PKCE with S256, without
    /// which there is no authorization (security considerations).
    #[error("the authorization server does not support PKCE with S256")]
    PkceUnsupported,
    /// An endpoint that is named for the authorization may not be reached.
    #[error("an endpoint of the authorization server is refused: {0}")]
    Endpoint(#[from] EgressError),
    /// The configured client belongs to another authorization server than the one that the
    /// server names now.
    #[error("the configured client belongs to another authorization server than '{found}'")]
    ForeignClient {
        /// The issuer that the server names.
        found: String,
    },
    /// The MCP server names another authorization server than the configured `issuer`.
    #[error(
        "the server names the authorization server '{found}', and its 'issuer' is configured as '{configured}'"
    )]
    ForeignIssuer {
        /// The issuer that the MCP server names.
        found: String,
        /// The configured issuer.
        configured: String,
    },
    /// There is no client id and no way to get one.
    #[error("the authorization server registers no clients: configure a 'client_id'")]
    NoClient,
    /// The authorization server refused to register the client.
    #[error("the client was not registered: {0}")]
    Registration(#[source] SdkError),
    /// There is no address that the browser could be sent back to.
    #[error("configure a 'redirect_uri' for the authorization")]
    NoRedirectUri,
    /// The authorization request cannot be written.
    #[error("the authorization request cannot be made: {0}")]
    AuthorizationRequest(#[source] SdkError),
    /// The person could not be asked, or did not answer.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The browser came back without this client's `state`.
    #[error("the answer to the authorization request belongs to another request")]
    WrongState,
    /// The answer is of another issuer, or lacks the issuer that was announced (RFC 9207).
    #[error("the answer to the authorization request is not of the issuer that was asked")]
    WrongIssuer,
    /// The authorization was refused.
    #[error("the authorization was refused: {error}")]
    Refused {
        /// The error code, such as `access_denied`.
        error: String,
    },
    /// The answer has neither a code nor an error.
    #[error("the answer to the authorization request has no code")]
    NoCode,
    /// The authorization server cannot be reached, or its answer broke off.
    #[error("the authorization server cannot be reached: {0}")]
    Request(#[source] reqwest::Error),
    /// An answer is larger than any proper one.
    #[error("the answer of the authorization server is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The token endpoint refused (RFC 6749 section 5.2).
    #[error("no token: {error}{}", described(.description.as_ref()))]
    TokenRefused {
        /// The error code, such as `invalid_grant`.
        error: String,
        /// What the server says about it.
        description: Option<String>,
    },
    /// The token endpoint answered with a status and nothing that explains it.
    #[error("no token: HTTP {status}")]
    TokenStatus {
        /// The HTTP status.
        status: u16,
    },
    /// The token answer cannot be read.
    #[error("the token answer cannot be read: {0}")]
    TokenAnswer(#[source] serde_json::Error),
    /// A token of a kind that no request can carry.
    #[error("the token is of an unknown type")]
    TokenType,
    /// The identity provider gave something else than was asked for.
    #[error("the identity provider gave no identity assertion")]
    NoIdentityAssertion,
    /// The file with the assertion cannot be read.
    #[error("the assertion cannot be read: {0}")]
    Assertion(#[source] std::io::Error),
    /// Signing failed.
    #[error("the private key does not sign")]
    Signing,
    /// The tokens could not be stored or loaded.
    #[error(transparent)]
    Store(#[from] TokenStoreError),
    /// The prompt or the token store panicked.
    #[error("the authorization failed inside this program")]
    Panicked,
    /// The server publishes nothing about its authorization, and a client's own credentials
    /// are not sent to a guessed address.
    #[error("the server does not say who gives tokens for it")]
    Unpublished,
    /// It took too long.
    #[error("the authorization took too long")]
    TimedOut,
    /// The grant lacks a setting.
    #[error(transparent)]
    Config(#[from] crate::mcp::ServerConfigError),
}

impl OAuthError {
    /// Whether the authorization server said no, rather than being out of reach.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.code() == ErrorCode::Denied
    }

    /// Whether the authorization server may have forgotten the client: it says so, or the
    /// browser never came back, as it does not from a page that says so.
    pub(super) fn doubts_client(&self) -> bool {
        match self {
            Self::Prompt(PromptError::Deferred) => false,
            Self::Prompt(_) => true,
            Self::TokenRefused { error, .. } | Self::Refused { error } => {
                error.starts_with("invalid_client") || error.starts_with("unauthorized_client")
            }
            _ => false,
        }
    }

    /// The reason from the fixed set (C5).
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Request(_) | Self::Store(_) | Self::TooLarge { .. } => ErrorCode::Unavailable,
            Self::TokenStatus { status } if *status >= 500 || *status == 429 => {
                ErrorCode::Unavailable
            }
            Self::Discovery(error) if error.is_out_of_reach() => ErrorCode::Unavailable,
            Self::TimedOut => ErrorCode::Timeout,
            Self::Panicked => ErrorCode::InternalError,
            Self::Config(_) | Self::NoRedirectUri | Self::Assertion(_) | Self::Signing => {
                ErrorCode::InvalidInput
            }
            _ => ErrorCode::Denied,
        }
    }
}

/// What a server says for people, not longer than a line.
pub(super) fn short(text: &str) -> String {
    const LONGEST: usize = 300;
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.take(LONGEST).collect()
}

fn described(description: Option<&String>) -> String {
    description.map_or(String::new(), |text| format!(" ({text})"))
}

/// An error of the SDK's. Its text is cut to a line: it may repeat a whole answer.
pub struct SdkError(AuthError);

impl SdkError {
    pub(super) fn new(error: AuthError) -> Self {
        Self(error)
    }

    fn is_out_of_reach(&self) -> bool {
        let AuthError::DiscoveryRequestFailed { source, .. } = &self.0 else {
            return false;
        };
        // Ours, from below the SDK, or the SDK's own: a status of 500 and more.
        let ours = source.downcast_ref::<OAuthError>();
        ours.is_none_or(|error| error.code() == ErrorCode::Unavailable)
    }
}

impl fmt::Display for SdkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short(&self.0.to_string()))
    }
}

impl fmt::Debug for SdkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SdkError({self})")
    }
}

impl std::error::Error for SdkError {}
