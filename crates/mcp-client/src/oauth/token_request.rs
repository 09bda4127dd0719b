use http::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use url::Url;

use super::OAuthError;
use super::client::{Form, OAuthClient};
use super::dpop::{DPOP, Dpop};
use super::error::short;
use super::tokens::TokenResponse;
use super::web::{Web, WebResponse};

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
        web: &Web,
        client: Option<&OAuthClient>,
        dpop: Option<&Dpop>,
        form: &Form,
    ) -> Result<TokenResponse, OAuthError> {
        let mut response = self.send(web, client, dpop, form).await?;
        let requires_nonce = response.status != StatusCode::OK
            && ErrorResponse::parse(&response)
                .is_some_and(|rejection| rejection.error == "use_dpop_nonce");
        let is_new = dpop.is_some_and(|dpop| dpop.note(&self.url, &response.headers));
        if requires_nonce && is_new {
            response = self.send(web, client, dpop, form).await?;
        }
        read(&response)
    }

    async fn send(
        &self,
        web: &Web,
        client: Option<&OAuthClient>,
        dpop: Option<&Dpop>,
        form: &Form,
    ) -> Result<WebResponse, OAuthError> {
        let mut headers = HeaderMap::new();
        let mut form = form.clone();
        if let Some(resource) = &self.resource {
            form.push(("resource", resource.clone()));
        }
        if let Some(client) = client {
            let methods = self.auth_methods.as_deref();
            client.authenticate(methods, &self.issuer, &mut headers, &mut form)?;
        }
        if let Some(dpop) = dpop {
            headers.insert(DPOP, dpop.proof(&Method::POST, &self.url, None)?);
        }
        let form: Vec<(&str, &str)> = form.iter().map(|(k, v)| (*k, v.as_str())).collect();
        web.post_form(&self.url, headers, &form).await
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

fn read(response: &WebResponse) -> Result<TokenResponse, OAuthError> {
    // Some servers return errors with status 200 or 201.
    if let Some(rejection) = ErrorResponse::parse(response) {
        return Err(OAuthError::TokenRejected {
            error: short(&rejection.error),
            description: rejection.error_description.as_deref().map(short),
        });
    }
    if !response.status.is_success() {
        let status = response.status.as_u16();
        return Err(OAuthError::TokenStatus { status });
    }
    serde_json::from_slice(&response.body).map_err(OAuthError::TokenResponse)
}
