//! The authorization scenarios: the configuration of the grant, and a browser that follows
//! redirects.

use std::sync::Arc;

use pillion_mcp_client::{
    Authentication, AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse, McpClient,
    PromptError, PromptFuture,
};
use reqwest::Url;
use serde_json::{Value, json};

use super::{call, tools};
use crate::run::{Failure, Run};

const REDIRECT_URI: &str = "http://localhost:3000/callback";

/// The URL of the client ID metadata document. No server listens there; the suite's server only
/// compares the URL.
const CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";

/// Lists the tools and calls the tool that every authorization scenario has.
///
/// # Errors
/// The failure of the scenario.
pub async fn play(run: &Run) -> Result<(), Failure> {
    let mut config = run.server()?;
    config.authentication = authentication(run, issuer(config.url()).await)?;
    config.authorization.prompt = Some(Arc::new(Browser));
    let client = McpClient::new(config);
    tools(&client).await?;
    call(&client, "test-tool", &json!({})).await?;
    client.disconnect().await;
    Ok(())
}

/// Returns the configuration that a user would write, from the suite's context.
fn authentication(run: &Run, issuer: Option<String>) -> Result<Authentication, Failure> {
    let context = &run.context;
    let mut settings = match run.scenario.as_str() {
        "auth/client-credentials-basic" => json!({
            "grant": "client_credentials", "client_secret": context["client_secret"]}),
        "auth/client-credentials-jwt" => json!({
            "grant": "client_credentials", "private_key": context["private_key_pem"],
            "signing_algorithm": context["signing_algorithm"]}),
        "auth/wif-jwt-bearer" => json!({"grant": "jwt_bearer", "assertion": context["valid_jwt"]}),
        "auth/enterprise-managed-authorization" => json!({
            "grant": "enterprise", "client_secret": context["client_secret"],
            "idp_token_endpoint": context["idp_token_endpoint"],
            "idp_client_id": context["idp_client_id"], "id_token": context["idp_id_token"]}),
        "auth/pre-registration" => json!({
            "client_secret": context["client_secret"], "issuer": context["issuer"],
            "redirect_uri": REDIRECT_URI}),
        _ => json!({
            "redirect_uri": REDIRECT_URI, "client_metadata_url": CLIENT_METADATA_URL}),
    };
    settings["type"] = "oauth".into();
    // The suite's context does not contain the issuer of the client or assertion, which an operator
    // knows.
    if settings["grant"].is_string() {
        settings["issuer"] = issuer.into();
    }
    if let Value::String(id) = &context["client_id"] {
        settings["client_id"] = id.as_str().into();
    }
    serde_json::from_value(settings).map_err(Failure::Context)
}

/// Returns the authorization server that the server's protected resource metadata names (RFC 9728
/// section 3.1).
async fn issuer(server: Option<&Url>) -> Option<String> {
    let mut url = server?.clone();
    let path = format!("/.well-known/oauth-protected-resource{}", url.path());
    url.set_path(path.trim_end_matches('/'));
    // reqwest is built without a TLS provider; only one can be installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let metadata = reqwest::get(url).await.ok()?.bytes().await.ok()?;
    let metadata: Value = serde_json::from_slice(&metadata).ok()?;
    metadata["authorization_servers"][0]
        .as_str()
        .map(str::to_owned)
}

/// A browser whose user consents at once: the suite's authorization server redirects without
/// showing a page.
struct Browser;

impl AuthorizationPrompt for Browser {
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_> {
        Box::pin(async move {
            let location = redirect(request).await.map_err(|error| {
                PromptError::Unavailable(std::io::Error::other(error.without_url()))
            })?;
            let url = location.ok_or(PromptError::Abandoned)?;
            Ok(AuthorizationResponse::from_redirect(&url)?)
        })
    }
}

/// Returns the URL that the authorization server redirects to.
async fn redirect(request: AuthorizationRequest) -> reqwest::Result<Option<String>> {
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()?;
    let response = client.get(request.url).send().await?;
    let location = response.headers().get("location");
    Ok(location
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned))
}
