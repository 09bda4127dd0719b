use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

/// A credential that does not change (E8). `Debug` hides every secret.
///
/// In JSON: `{"type": "bearer", "token": "..."}`, `{"type": "api-key", "key": "...",
/// "header": "x-api-key"}`, `{"type": "basic", "username": "...", "password": "..."}`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Authentication {
    /// None at all.
    #[default]
    None,
    /// `Authorization: Bearer <token>`.
    Bearer {
        /// The token.
        token: SecretString,
    },
    /// A key in a header of its own.
    ApiKey {
        /// The key.
        key: SecretString,
        /// The header's name. Default `x-api-key`.
        #[serde(default = "default_header")]
        header: String,
    },
    /// `Authorization: Basic <base64 of user:password>`.
    Basic {
        /// The user name.
        username: String,
        /// The password.
        password: SecretString,
    },
}

fn default_header() -> String {
    "x-api-key".to_owned()
}

impl Authentication {
    /// A bearer token.
    #[must_use]
    pub fn bearer(token: impl Into<String>) -> Self {
        Self::Bearer {
            token: SecretString::from(token.into()),
        }
    }

    /// The header that carries the credential: name and value.
    pub(super) fn header(&self) -> Option<(String, String)> {
        let authorization = "authorization".to_owned();
        match self {
            Self::None => None,
            Self::Bearer { token } => {
                Some((authorization, format!("Bearer {}", token.expose_secret())))
            }
            Self::ApiKey { key, header } => Some((header.clone(), key.expose_secret().to_owned())),
            Self::Basic { username, password } => {
                let pair = format!("{username}:{}", password.expose_secret());
                Some((
                    authorization,
                    format!("Basic {}", BASE64_STANDARD.encode(pair)),
                ))
            }
        }
    }
}
