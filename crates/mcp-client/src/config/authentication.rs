use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::{AuthorizationPrompt, OAuthConfig, TokenStore};

/// The credential for a server: a fixed one, or with `oauth` the settings to obtain one. `Debug`
/// hides all secrets.
///
/// In JSON: `{"type": "bearer", "token": "..."}`, `{"type": "api-key", "key": "...",
/// "header": "x-api-key"}`, `{"type": "basic", "username": "...", "password": "..."}`,
/// `{"type": "oauth"}` with the keys of [`OAuthConfig`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Authentication {
    /// Requests carry no credential.
    #[default]
    None,
    /// Requests carry `Authorization: Bearer <token>`.
    Bearer {
        /// The bearer token.
        token: SecretString,
    },
    /// Requests carry an API key in a separate header.
    ApiKey {
        /// The API key.
        key: SecretString,
        /// The name of the API key's header. Default `x-api-key`.
        #[serde(default = "default_header")]
        header: String,
    },
    /// Requests carry `Authorization: Basic <base64 of user:password>`.
    Basic {
        /// The user name of HTTP Basic authentication.
        username: String,
        /// The password of HTTP Basic authentication.
        password: SecretString,
    },
    /// Requests carry an access token that an authorization server issued.
    #[serde(rename = "oauth")]
    OAuth(Box<OAuthConfig>),
}

/// The prompt and the token store that [`Authentication::OAuth`] uses.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct AuthorizationServices {
    /// Asks a user for an authorization. If `None`, a server that requires the user's authorization
    /// fails with [`OAuthError::NoPrompt`](crate::OAuthError::NoPrompt).
    pub prompt: Option<Arc<dyn AuthorizationPrompt>>,
    /// Stores tokens. If `None`, each client stores its tokens in memory.
    pub token_store: Option<Arc<dyn TokenStore>>,
}

impl fmt::Debug for AuthorizationServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationServices")
            .field("prompt", &self.prompt.is_some())
            .field("token_store", &self.token_store.is_some())
            .finish()
    }
}

fn default_header() -> String {
    "x-api-key".to_owned()
}

impl Authentication {
    /// Creates a bearer token credential.
    #[must_use]
    pub fn bearer(token: impl Into<String>) -> Self {
        let token = SecretString::from(token.into());
        Self::Bearer { token }
    }

    /// Returns the name and value of the credential's header; `None` for [`Authentication::None`]
    /// and [`Authentication::OAuth`]. The value contains the secret in plain text.
    #[must_use]
    pub fn header(&self) -> Option<(String, String)> {
        let name = "authorization".to_owned();
        match self {
            Self::None | Self::OAuth(_) => None,
            Self::Bearer { token } => Some((name, format!("Bearer {}", token.expose_secret()))),
            Self::ApiKey { key, header } => Some((header.clone(), key.expose_secret().to_owned())),
            Self::Basic { username, password } => {
                let login = format!("{username}:{}", password.expose_secret());
                Some((name, format!("Basic {}", BASE64_STANDARD.encode(login))))
            }
        }
    }
}
