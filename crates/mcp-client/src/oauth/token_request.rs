use http::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use url::Url;

use super::OAuthError;
use super::client::{OAuthClient, RequestForm};
use super::dpop::{DPOP_HEADER, DpopKey};
use super::error::shorten_to_line;
use super::tokens::TokenResponse;
use super::web::{WebClient, WebResponse};

/// A token endpoint and the parameters of its requests.
#[derive(Debug, Clone)]
pub(super) struct TokenEndpoint {
    /// The issuer that the endpoint belongs to, exactly as published.
    pub(super) issuer: String,
    pub(super) url: Url,
    /// The value of `token_endpoint_auth_methods_supported` in the metadata.
    pub(super) auth_methods: Option<Vec<String>>,
    /// The resource for which every token is requested (RFC 8707), exactly as published.
    pub(super) resource: Option<String>,
}

impl TokenEndpoint {
    /// Makes one token request. With a DPoP key, the token is bound to the key; if the server
    /// requires a nonce, the request is sent once more (RFC 9449 section 8).
    pub(super) async fn request(
        &self,
        web_client: &WebClient,
        client: Option<&OAuthClient>,
        dpop: Option<&DpopKey>,
        form: &RequestForm,
    ) -> Result<TokenResponse, OAuthError> {
        let mut response = self.send(web_client, client, dpop, form).await?;
        let requires_nonce = response.status != StatusCode::OK
            && ErrorResponse::parse(&response)
                .is_some_and(|rejection| rejection.error == "use_dpop_nonce");
        let is_new_nonce = dpop.is_some_and(|dpop| dpop.store_nonce(&self.url, &response.headers));
        if requires_nonce && is_new_nonce {
            response = self.send(web_client, client, dpop, form).await?;
        }
        parse_response(&response)
    }

    async fn send(
        &self,
        web_client: &WebClient,
        client: Option<&OAuthClient>,
        dpop: Option<&DpopKey>,
        form: &RequestForm,
    ) -> Result<WebResponse, OAuthError> {
        let mut headers = HeaderMap::new();
        let mut full_form = form.clone();
        if let Some(resource) = &self.resource {
            full_form.push(("resource", resource.clone()));
        }
        if let Some(client) = client {
            let methods = self.auth_methods.as_deref();
            client.authenticate(methods, &self.issuer, &mut headers, &mut full_form)?;
        }
        if let Some(dpop) = dpop {
            let proof = dpop.create_proof(&Method::POST, &self.url, None)?;
            headers.insert(DPOP_HEADER, proof);
        }
        web_client.post_form(&self.url, headers, &full_form).await
    }
}

/// An error response of a token endpoint (RFC 6749 section 5.2).
#[derive(Deserialize)]
struct ErrorResponse {
    error: String,
    error_description: Option<String>,
}

impl ErrorResponse {
    fn parse(response: &WebResponse) -> Option<Self> {
        serde_json::from_slice(&response.body).ok()
    }
}

fn parse_response(response: &WebResponse) -> Result<TokenResponse, OAuthError> {
    // The body is checked for an error whatever the status, because some servers return errors with
    // status 200 or 201.
    if let Some(rejection) = ErrorResponse::parse(response) {
        return Err(OAuthError::TokenRejected {
            error: shorten_to_line(&rejection.error),
            description: rejection.error_description.as_deref().map(shorten_to_line),
        });
    }
    if !response.status.is_success() {
        let status = response.status.as_u16();
        return Err(OAuthError::TokenStatus { status });
    }
    serde_json::from_slice(&response.body).map_err(OAuthError::TokenResponse)
}
