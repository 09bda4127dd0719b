use super::error::short;
use super::issuer::Issuer;
use super::{OAuthConfig, OAuthCredentials, OAuthError};

/// The authorization server that may see the credentials of a client.
#[derive(Debug)]
pub(super) enum Binding {
    /// Any authorization server: the client registers itself at each.
    Any,
    /// The authorization server of the configured `issuer`.
    Configured(Issuer),
    /// The authorization server that a configured client was first used with.
    FirstUse(Issuer),
}

impl Binding {
    /// Returns the binding of a client.
    ///
    /// # Errors
    /// [`OAuthError::InvalidIssuer`] if the issuer is invalid.
    pub(super) fn new(
        config: &OAuthConfig,
        credentials: &OAuthCredentials,
    ) -> Result<Self, OAuthError> {
        if let Some(issuer) = &config.issuer {
            return Ok(Self::Configured(Issuer::parse(issuer)?));
        }
        let Some(client_id) = &config.client_id else {
            return Ok(Self::Any);
        };
        let mut registrations = credentials.registrations.iter();
        let registered = registrations
            .find(|(_, known)| known.client_id == *client_id)
            .map(|(issuer, _)| issuer);
        let tokens = credentials.tokens.as_ref();
        match registered.or(tokens.map(|tokens| &tokens.issuer)) {
            Some(issuer) => Ok(Self::FirstUse(Issuer::parse(issuer)?)),
            None => Ok(Self::Any),
        }
    }

    /// Returns the only issuer that may see the client's credentials; `None` if any may.
    pub(super) fn issuer(&self) -> Option<&Issuer> {
        match self {
            Self::Any => None,
            Self::Configured(issuer) | Self::FirstUse(issuer) => Some(issuer),
        }
    }

    /// Fails if the client may not be used with this authorization server. Issuers are compared as
    /// strings (RFC 8414 section 3.3).
    ///
    /// # Errors
    /// [`OAuthError::ForeignIssuer`] or [`OAuthError::ForeignClient`] if the client is bound to
    /// another issuer.
    pub(super) fn check(&self, issuer: &str) -> Result<(), OAuthError> {
        match self.issuer() {
            Some(bound) if bound.as_str() != issuer => Err(self.rejection(issuer)),
            _ => Ok(()),
        }
    }

    /// Returns the error for a server that names another authorization server.
    pub(super) fn rejection(&self, found: &str) -> OAuthError {
        let found = short(found);
        match self {
            Self::Configured(issuer) => OAuthError::ForeignIssuer {
                found,
                configured: issuer.as_str().to_owned(),
            },
            Self::FirstUse(_) | Self::Any => OAuthError::ForeignClient { found },
        }
    }
}
