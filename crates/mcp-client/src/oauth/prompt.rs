use std::fmt;
use std::pin::Pin;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use super::secret_json::{serialize_exposed, serialize_exposed_option};

/// The future that an [`AuthorizationPrompt`] returns.
pub type PromptFuture<'a> =
    Pin<Box<dyn Future<Output = Result<AuthorizationResponse, PromptError>> + Send + 'a>>;

/// Asks a user to authorize this client: shows a URL in a browser and waits until the authorization
/// server redirects the browser back (OAuth 2.1 section 4.1).
///
/// An authorization may take minutes. The call that needs it keeps its own deadline; when the
/// deadline passes, the prompt continues, and a later call waits for the prompt or uses its
/// outcome. Each client shows one prompt at a time.
///
/// ```
/// use pillion_mcp_client::{
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
    /// Shows `request.url` and waits for the redirect of the browser.
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_>;

    /// Returns the redirect URI at which this prompt receives the response, if there is one. This
    /// redirect URI takes precedence over the configured `redirect_uri`.
    fn redirect_uri(&self) -> Option<String> {
        None
    }
}

/// An authorization request for a user.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthorizationRequest {
    /// The URL to open, at the authorization server.
    pub url: Url,
    /// The redirect URI to which the authorization server redirects the browser.
    pub redirect_uri: String,
    /// The URL of the MCP server that the authorization is for.
    pub server: Url,
    /// The scopes for which the client requests authorization.
    pub scopes: Vec<String>,
    /// The authorization to store if another process receives the redirect of the browser. The
    /// prompt then fails with [`PromptError::Deferred`].
    pub pending: PendingAuthorization,
}

impl fmt::Debug for AuthorizationRequest {
    /// Formats the URL without its query, which contains the secret `state`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationRequest")
            .field("host", &self.url.host_str())
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// A started authorization, to be stored until the browser returns, and then passed to
/// [`McpClient::finish_authorization`](crate::McpClient::finish_authorization). Its JSON
/// contains the PKCE verifier, and the client secret if there is one: store it for this user only,
/// like tokens.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PendingAuthorization {
    /// The `state` that the authorization response must contain.
    pub state: String,
    /// The issuer of the authorization server.
    pub issuer: String,
    pub(super) redirect_uri: String,
    pub(super) scopes: Vec<String>,
    pub(super) client_id: String,
    #[serde(default, serialize_with = "serialize_exposed_option")]
    pub(super) client_secret: Option<SecretString>,
    #[serde(serialize_with = "serialize_exposed")]
    pub(super) verifier: SecretString,
    /// The resource identifier of the MCP server (RFC 8707).
    pub(super) resource: Option<String>,
    /// Whether the server requires tokens that are bound to a DPoP key.
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

/// The authorization response from the browser (OAuth 2.1 section 4.1.2, RFC 9207).
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthorizationResponse {
    pub(super) code: Option<SecretString>,
    pub(super) state: Option<SecretString>,
    pub(super) issuer: Option<String>,
    pub(super) error: Option<String>,
    pub(super) error_description: Option<String>,
}

/// The URL of the redirect cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the redirect URL that the browser opened is not a valid URL")]
pub struct InvalidRedirect;

/// Why a prompt returned no authorization response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// The user declined the authorization, or closed the page.
    #[error("the user declined or did not answer the authorization request")]
    Abandoned,
    /// The browser will return to another process, which completes the authorization.
    #[error("the authorization was requested and is still pending")]
    Deferred,
    /// The URL to which the browser was redirected is not an authorization response.
    #[error(transparent)]
    InvalidRedirect(#[from] InvalidRedirect),
    /// The browser cannot be opened, or the redirect URI cannot be listened on.
    #[error("the authorization request cannot be shown: {0}")]
    Unavailable(#[source] std::io::Error),
}

impl AuthorizationResponse {
    /// Creates a response from the code and the state, for a program that parses the URL itself.
    /// `issuer` is the parameter `iss`, if present.
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

    /// Creates a response from the complete URL of the redirect, with its query.
    ///
    /// # Errors
    /// [`InvalidRedirect`] if `address` is not an absolute URL. A missing parameter is an error
    /// only when the response is used.
    pub fn from_redirect(address: &str) -> Result<Self, InvalidRedirect> {
        let url = Url::parse(address).map_err(|_| InvalidRedirect)?;
        let parameter = |expected: &str| {
            let mut pairs = url.query_pairs();
            pairs.find_map(|(name, value)| (name == expected).then(|| value.into_owned()))
        };
        Ok(Self {
            code: parameter("code").map(SecretString::from),
            state: parameter("state").map(SecretString::from),
            issuer: parameter("iss"),
            error: parameter("error"),
            error_description: parameter("error_description"),
        })
    }

    /// Returns the state, which identifies the authorization request:
    /// [`PendingAuthorization::state`]. `None` if the redirect contains no state.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.state.as_ref().map(ExposeSecret::expose_secret)
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
