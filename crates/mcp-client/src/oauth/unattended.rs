use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use super::OAuthError;
use super::client::{OAuthClient, RequestForm};
use super::config::{AssertionSource, GrantSettings};
use super::dpop::DpopKey;
use super::enterprise::request_identity_assertion;
use super::flow::OAuthState;
use super::token_request::TokenEndpoint;
use super::tokens::ActiveTokens;

/// Maximum size of an assertion file, in bytes.
const MAX_ASSERTION_BYTES: u64 = 64 * 1024;

impl OAuthState {
    /// Obtains tokens by a grant that requires no user. Such a grant always has a configured
    /// `issuer`, and `endpoint` belongs to that issuer.
    pub(super) async fn obtain_without_user(
        &self,
        endpoint: &TokenEndpoint,
        scopes: &[String],
        dpop: Option<&Arc<DpopKey>>,
    ) -> Result<(), OAuthError> {
        let (mut form, client): (RequestForm, Option<&OAuthClient>) = match &self.grant {
            // The authorization code grant fails here, because it requires a user.
            GrantSettings::AuthorizationCode => return Err(OAuthError::NoPrompt),
            GrantSettings::ClientCredentials(client) => {
                let form = vec![("grant_type", "client_credentials".to_owned())];
                (form, Some(client))
            }
            GrantSettings::JwtBearer { client, assertion } => {
                let jwt = assertion.read().await?;
                (build_assertion_form(&jwt), client.as_ref())
            }
            GrantSettings::Enterprise { client, provider } => {
                let assertion =
                    request_identity_assertion(provider, &self.web_client, endpoint, scopes);
                (build_assertion_form(&assertion.await?), Some(client))
            }
        };
        if !scopes.is_empty() {
            form.push(("scope", scopes.join(" ")));
        }
        let request = endpoint.request(&self.web_client, client, dpop.map(Arc::as_ref), &form);
        let response = request.await?;
        let active_tokens =
            ActiveTokens::from_response(response, endpoint, scopes.to_vec(), dpop, None)?;
        self.store_tokens(active_tokens).await;
        Ok(())
    }
}

fn build_assertion_form(assertion: &SecretString) -> RequestForm {
    let grant_type = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    vec![
        ("grant_type", grant_type.to_owned()),
        ("assertion", assertion.expose_secret().to_owned()),
    ]
}

impl AssertionSource {
    async fn read(&self) -> Result<SecretString, OAuthError> {
        use tokio::io::AsyncReadExt;
        let path = match self {
            Self::Value(value) => return Ok(value.clone()),
            Self::File(path) => path,
        };
        let read_operation = async {
            let file = tokio::fs::File::open(path).await?;
            let mut text = String::new();
            let mut limited_file = file.take(MAX_ASSERTION_BYTES);
            limited_file.read_to_string(&mut text).await?;
            Ok(SecretString::from(text.trim().to_owned()))
        };
        read_operation.await.map_err(OAuthError::Assertion)
    }
}
