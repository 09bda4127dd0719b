use super::error::shorten_to_line;
use super::issuer::Issuer;
use super::{OAuthConfig, OAuthCredentials, OAuthError};

/// The authorization server that may see the credentials of a client.
#[derive(Debug)]
pub(super) enum IssuerBinding {
    /// Any authorization server, because the client registers itself at each server.
    Unbound,
    /// The authorization server of the configured `issuer`.
    ConfiguredIssuer(Issuer),
    /// The authorization server that a configured client was first used with.
    FirstUsedIssuer(Issuer),
}

impl IssuerBinding {
    /// Determines to which authorization server a configured client is bound.
    ///
    /// # Errors
    /// [`OAuthError::InvalidIssuer`] if the issuer is invalid.
    pub(super) fn new(
        config: &OAuthConfig,
        credentials: &OAuthCredentials,
    ) -> Result<Self, OAuthError> {
        if let Some(issuer) = &config.issuer {
            return Ok(Self::ConfiguredIssuer(Issuer::parse(issuer)?));
        }
        let Some(client_id) = &config.client_id else {
            return Ok(Self::Unbound);
        };
        let mut registrations = credentials.registrations.iter();
        let registered_issuer = registrations
            .find(|(_, registration)| registration.client_id == *client_id)
            .map(|(issuer, _)| issuer);
        let tokens = credentials.tokens.as_ref();
        match registered_issuer.or(tokens.map(|tokens| &tokens.issuer)) {
            Some(issuer) => Ok(Self::FirstUsedIssuer(Issuer::parse(issuer)?)),
            None => Ok(Self::Unbound),
        }
    }

    /// Returns the only issuer that may see the client's credentials; `None` if every issuer may
    /// see them.
    pub(super) fn issuer(&self) -> Option<&Issuer> {
        match self {
            Self::Unbound => None,
            Self::ConfiguredIssuer(issuer) | Self::FirstUsedIssuer(issuer) => Some(issuer),
        }
    }

    /// Fails if the client must not be used with this authorization server. Issuers are compared as
    /// strings (RFC 8414 section 3.3).
    ///
    /// # Errors
    /// [`OAuthError::ForeignIssuer`] or [`OAuthError::ForeignClient`] if the client is bound to
    /// another issuer.
    pub(super) fn check(&self, issuer: &str) -> Result<(), OAuthError> {
        match self.issuer() {
            Some(bound_issuer) if bound_issuer.as_str() != issuer => {
                Err(self.rejection_error(issuer))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error for an MCP server that names the authorization server `issuer`, to which
    /// the client is not bound.
    pub(super) fn rejection_error(&self, issuer: &str) -> OAuthError {
        let found_issuer = shorten_to_line(issuer);
        match self {
            Self::ConfiguredIssuer(configured_issuer) => OAuthError::ForeignIssuer {
                found_issuer,
                configured_issuer: configured_issuer.as_str().to_owned(),
            },
            Self::FirstUsedIssuer(_) | Self::Unbound => OAuthError::ForeignClient { found_issuer },
        }
    }
}
