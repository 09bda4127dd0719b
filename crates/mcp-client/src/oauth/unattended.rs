use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use super::OAuthError;
use super::client::{Form, OAuthClient};
use super::config::{AssertionSource, GrantSettings};
use super::dpop::Dpop;
use super::enterprise::identity_assertion;
use super::flow::Shared;
use super::token_request::TokenEndpoint;
use super::tokens::LiveTokens;

/// Maximum size of an assertion file, in bytes.
const MAX_ASSERTION_LEN: u64 = 64 * 1024;

impl Shared {
    /// Obtains tokens by a grant that requires no user. Such a grant always has a configured
    /// `issuer`, and `endpoint` belongs to that issuer.
    pub(super) async fn obtain_without_user(
        &self,
        endpoint: &TokenEndpoint,
        scopes: &[String],
        dpop: Option<&Arc<Dpop>>,
    ) -> Result<(), OAuthError> {
        let jwt_bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer";
        let (mut form, client): (Form, Option<&OAuthClient>) = match &self.grant {
            // The authorization code grant requires a user.
            GrantSettings::AuthorizationCode => return Err(OAuthError::NoPrompt),
            GrantSettings::ClientCredentials(client) => {
                let form = vec![("grant_type", "client_credentials".to_owned())];
                (form, Some(client))
            }
            GrantSettings::JwtBearer { client, assertion } => {
                let assertion = assertion.read().await?;
                (assertion_form(jwt_bearer, &assertion), client.as_ref())
            }
            GrantSettings::Enterprise { client, provider } => {
                let assertion = identity_assertion(provider, &self.web, endpoint, scopes);
                (assertion_form(jwt_bearer, &assertion.await?), Some(client))
            }
        };
        if !scopes.is_empty() {
            form.push(("scope", scopes.join(" ")));
        }
        let proofs = dpop.map(Arc::as_ref);
        let response = endpoint.request(&self.web, client, proofs, &form).await?;
        let live = LiveTokens::granted(response, endpoint, scopes.to_vec(), dpop, None)?;
        self.keep(live).await;
        Ok(())
    }
}

fn assertion_form(grant_type: &str, assertion: &SecretString) -> Form {
    let assertion = assertion.expose_secret().to_owned();
    vec![
        ("grant_type", grant_type.to_owned()),
        ("assertion", assertion),
    ]
}

impl AssertionSource {
    async fn read(&self) -> Result<SecretString, OAuthError> {
        use tokio::io::AsyncReadExt;
        let path = match self {
            Self::Value(value) => return Ok(value.clone()),
            Self::File(path) => path,
        };
        let read = async {
            let file = tokio::fs::File::open(path).await?;
            let mut text = String::new();
            file.take(MAX_ASSERTION_LEN)
                .read_to_string(&mut text)
                .await?;
            Ok(SecretString::from(text.trim().to_owned()))
        };
        read.await.map_err(OAuthError::Assertion)
    }
}
