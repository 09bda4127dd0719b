use http::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use url::Url;

use super::OAuthError;
use super::client::{Form, OAuthClient};
use super::dpop::{DPOP, Dpop};
use super::error::short;
use super::tokens::TokenAnswer;
use super::web::{Web, WebAnswer};

/// A token endpoint and the parameters of its requests.
#[derive(Debug, Clone)]
pub(super) struct TokenEndpoint {
    /// The issuer of the endpoint, exactly as published.
    pub(super) issuer: String,
    pub(super) url: Url,
    /// The value of `token_endpoint_auth_methods_supported`.
    pub(super) auth_methods: Option<Vec<String>>,
    /// The resource for which every token is requested (RFC 8707), exactly as published.
    pub(super) resource: Option<String>,
}

impl TokenEndpoint {
    /// Makes one token request. With a DPoP key, the token is bound to the key; if the server
    /// requires a nonce, the request is repeated once (RFC 9449 section 8).
    pub(super) async fn request(
        &self,
        web: &Web,
        client: Option<&OAuthClient>,
        dpop: Option<&Dpop>,
        form: &Form,
    ) -> Result<TokenAnswer, OAuthError> {
        let answer = self.send(web, client, dpop, form).await?;
        let requires_nonce = refusal(&answer)
            .is_some_and(|refusal| refusal.error.as_deref() == Some("use_dpop_nonce"));
        let news = dpop.is_some_and(|dpop| dpop.note(&self.url, &answer.headers));
        let answer = if requires_nonce && news {
            self.send(web, client, dpop, form).await?
        } else {
            answer
        };
        read(&answer)
    }

    async fn send(
        &self,
        web: &Web,
        client: Option<&OAuthClient>,
        dpop: Option<&Dpop>,
        form: &Form,
    ) -> Result<WebAnswer, OAuthError> {
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

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    error_description: Option<String>,
}

fn refusal(answer: &WebAnswer) -> Option<Refusal> {
    let failed = answer.status != StatusCode::OK;
    failed.then(|| serde_json::from_slice(&answer.body).ok())?
}

fn read(answer: &WebAnswer) -> Result<TokenAnswer, OAuthError> {
    // Some servers return errors with status 200 or 201.
    let refused: Option<Refusal> = serde_json::from_slice(&answer.body).ok();
    if let Some(error) = refused.as_ref().and_then(|refusal| refusal.error.as_ref()) {
        let description = refused.as_ref().and_then(|r| r.error_description.as_ref());
        return Err(OAuthError::TokenRefused {
            error: short(error),
            description: description.map(|text| short(text)),
        });
    }
    if !answer.status.is_success() {
        let status = answer.status.as_u16();
        return Err(OAuthError::TokenStatus { status });
    }
    serde_json::from_slice(&answer.body).map_err(OAuthError::TokenAnswer)
}
