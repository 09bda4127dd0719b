use std::fmt;
use std::future::Future;
use std::pin::Pin;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use super::token_store::{exposed, exposed_option};

/// What an [`AuthorizationPrompt`] gives back.
pub type PromptFuture<'a> =
    Pin<Box<dyn Future<Output = Result<AuthorizationResponse, PromptError>> + Send + 'a>>;

/// Lets a person authorise this client: shows an address in a browser and waits until the
/// authorization server sends the browser back (OAuth 2.1 section 4.1).
///
/// It may wait for minutes. The call that needed the authorization keeps its own deadline;
/// when that passes, the prompt goes on, and a later call waits for it or uses what came of
/// it. One prompt is shown at a time for each client.
///
/// ```
/// use pillion_core::mcp::{
///     AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse, PromptFuture,
/// };
/// struct Pasted;
/// impl AuthorizationPrompt for Pasted {
///     fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_> {
///         Box::pin(async move {
///             println!("Open {}", request.url);
///             let address = "http://127.0.0.1:8123/callback?code=c0de&state=x";
///             Ok(AuthorizationResponse::from_redirect(address)?)
///         })
///     }
///     fn redirect_uri(&self) -> Option<String> {
///         Some("http://127.0.0.1:8123/callback".to_owned())
///     }
/// }
/// ```
pub trait AuthorizationPrompt: Send + Sync {
    /// Shows `request.url` and waits for the browser's return.
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_>;

    /// Where the browser is to be sent, if this prompt listens there itself. It wins over
    /// the configured `redirect_uri`.
    fn redirect_uri(&self) -> Option<String> {
        None
    }
}

/// What a person is to open.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthorizationRequest {
    /// The address, at the authorization server.
    pub url: Url,
    /// Where the browser is sent afterwards.
    pub redirect_uri: String,
    /// The MCP server that this is for.
    pub server: Url,
    /// The scopes that are asked for.
    pub scopes: Vec<String>,
    /// For a program whose browser comes back to another process: it is kept until then, and
    /// the prompt answers with [`PromptError::Deferred`].
    pub pending: PendingAuthorization,
}

impl fmt::Debug for AuthorizationRequest {
    /// Without the query: `state` in it is what protects the answer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationRequest")
            .field("host", &self.url.host_str())
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// An authorization that has been asked for, until the browser comes back: then
/// [`McpClient::finish_authorization`](crate::mcp::McpClient::finish_authorization) takes
/// both. Its JSON holds the verifier of PKCE, and the client's secret if it has one: keep it
/// for this one person, as tokens are kept.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PendingAuthorization {
    /// What the browser has to come back with.
    pub state: String,
    /// The authorization server that was asked.
    pub issuer: String,
    pub(super) redirect_uri: String,
    pub(super) scopes: Vec<String>,
    pub(super) client_id: String,
    #[serde(default, serialize_with = "exposed_option")]
    pub(super) client_secret: Option<SecretString>,
    #[serde(serialize_with = "exposed")]
    pub(super) verifier: SecretString,
    /// Where the server's metadata is, as its challenge said.
    #[serde(default)]
    pub(super) resource_metadata: Option<String>,
    /// The server wants tokens that are bound to a key.
    #[serde(default)]
    pub(super) dpop: bool,
}

impl fmt::Debug for PendingAuthorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingAuthorization")
            .field("issuer", &self.issuer)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// What the browser came back with (OAuth 2.1 section 4.1.2, RFC 9207).
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthorizationResponse {
    pub(super) code: Option<SecretString>,
    pub(super) state: Option<SecretString>,
    pub(super) issuer: Option<String>,
    pub(super) error: Option<String>,
    pub(super) error_description: Option<String>,
}

/// The address that the browser came back to cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the address that the browser came back to is no URL")]
pub struct InvalidRedirect;

/// Why there is no answer to an authorization request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// The person said no, or closed the page.
    #[error("nobody answered the authorization request")]
    Abandoned,
    /// The browser will come back to another process.
    #[error("the authorization has been asked for and is not given yet")]
    Deferred,
    /// The browser came back with something that is no answer.
    #[error(transparent)]
    InvalidRedirect(#[from] InvalidRedirect),
    /// The browser cannot be opened, or nothing can listen for its return.
    #[error("the authorization request cannot be shown: {0}")]
    Unavailable(#[source] std::io::Error),
}

impl AuthorizationResponse {
    /// From the code and the state, for a program that has taken the address apart itself.
    /// `issuer` is the parameter `iss`, where there was one.
    #[must_use]
    pub fn new(code: impl Into<String>, state: impl Into<String>, issuer: Option<String>) -> Self {
        Self {
            code: Some(SecretString::from(code.into())),
            state: Some(SecretString::from(state.into())),
            issuer,
            error: None,
            error_description: None,
        }
    }

    /// From the whole address that the browser was sent to, with its query.
    ///
    /// # Errors
    /// [`InvalidRedirect`] when it is no absolute URL. What is missing in its query is
    /// found out later, with what is wrong.
    pub fn from_redirect(address: &str) -> Result<Self, InvalidRedirect> {
        let url = Url::parse(address).map_err(|_| InvalidRedirect)?;
        let parameter = |wanted: &str| {
            let mut pairs = url.query_pairs();
            pairs.find_map(|(name, value)| (name == wanted).then(|| value.into_owned()))
        };
        Ok(Self {
            code: parameter("code").map(SecretString::from),
            state: parameter("state").map(SecretString::from),
            issuer: parameter("iss"),
            error: parameter("error"),
            error_description: parameter("error_description"),
        })
    }

    /// The request that this is the answer to: [`PendingAuthorization::state`].
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.state.as_ref().map(ExposeSecret::expose_secret)
    }

    pub(super) fn has_state(&self, expected: &str) -> bool {
        let state = self.state.as_ref();
        state.is_some_and(|state| state.expose_secret() == expected)
    }
}

impl fmt::Debug for AuthorizationResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationResponse")
            .field("issuer", &self.issuer)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}
