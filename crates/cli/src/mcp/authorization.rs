//! User authorization in a browser (OAuth 2.1 section 4.1), with a redirect to a loopback address
//! (RFC 8252 section 7.3).

mod redirect;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use pillion_mcp_client::{
    Authentication, AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse, OAuthConfig,
    OAuthGrant, PromptError, PromptFuture, ServerConfig,
};
use redirect::ExpectedRedirect;
use tokio::net::TcpListener;
use url::Url;

use super::credential;
use super::error::{McpCommandError, McpUsageError};
use super::options::Options;
use super::plain;
use super::progress::ProgressDisplay;
use super::terminal::PromptDuration;
use crate::output::eprint;

const REDIRECT_PATH: &str = "/callback";

/// Shows the authorization page's URL and waits for the redirect.
pub(super) struct BrowserPrompt {
    listener: TcpListener,
    redirect_uri: String,
    /// The path of `redirect_uri`.
    path: String,
    /// The `state` values of all authorization requests so far.
    states: Mutex<Vec<String>>,
    prompt_stopwatch: PromptDuration,
    progress: Arc<ProgressDisplay>,
}

/// Applies `--oauth` and its related options.
pub(super) fn apply(server: &mut ServerConfig, options: &Options) -> Result<(), McpUsageError> {
    let has_oauth_options = options.oauth_port.is_some()
        || options.client_id.is_some()
        || options.client_secret_env.is_some()
        || options.client_metadata_url.is_some()
        || !options.scopes.is_empty();
    if !options.oauth {
        if has_oauth_options {
            return Err(McpUsageError::MisplacedOptions {
                options: "--oauth-port, --client-id, --client-secret-env, --client-metadata-url and --scope",
                requirement: "--oauth",
            });
        }
        return Ok(());
    }
    if server.url().is_none() {
        return Err(McpUsageError::MisplacedOptions {
            options: "--oauth and its options",
            requirement: "a server that has a URL (a command takes --env)",
        });
    }
    let mut oauth = match std::mem::take(&mut server.authentication) {
        Authentication::OAuth(configured_oauth) => configured_oauth,
        _ => Box::<OAuthConfig>::default(),
    };
    oauth.grant = OAuthGrant::AuthorizationCode;
    if let Some(id) = &options.client_id {
        oauth.client_id = Some(id.clone());
        // The configured secret and private key are removed, because they belong to the configured
        // client ID.
        oauth.client_secret = None;
        oauth.private_key = None;
    }
    if let Some(variable) = &options.client_secret_env {
        oauth.client_secret = Some(credential::from_variable(variable)?);
    }
    if oauth.client_secret.is_some() && oauth.client_id.is_none() {
        return Err(McpUsageError::MisplacedOptions {
            options: "--client-secret-env",
            requirement: "--client-id",
        });
    }
    if let Some(url) = &options.client_metadata_url {
        oauth.client_metadata_url = Some(url.clone());
    }
    if !options.scopes.is_empty() {
        let scopes = options
            .scopes
            .iter()
            .flat_map(|list| list.split_whitespace());
        oauth.scopes = scopes.map(str::to_owned).collect();
    }
    server.authentication = Authentication::OAuth(oauth);
    Ok(())
}

impl BrowserPrompt {
    /// Listens for the redirect at the port of `--oauth-port`, else at the port of a configured
    /// loopback `redirect_uri`, else at any free port.
    pub(super) async fn listen(
        oauth: &OAuthConfig,
        requested_port: Option<u16>,
        progress: Arc<ProgressDisplay>,
    ) -> Result<Self, McpCommandError> {
        let configured_redirect = match (requested_port, &oauth.redirect_uri) {
            (None, Some(uri)) => parse_loopback_redirect(uri).map(|(port, path)| (uri, port, path)),
            _ => None,
        };
        let port = match &configured_redirect {
            Some((_, port, _)) => *port,
            None => requested_port.unwrap_or_default(),
        };
        let listen_error = |source| McpCommandError::Listen { port, source };
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            .await
            .map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let (redirect_uri, path) = match configured_redirect {
            Some((uri, _, path)) => (uri.clone(), path),
            None => (
                format!("http://{address}{REDIRECT_PATH}"),
                REDIRECT_PATH.to_owned(),
            ),
        };
        Ok(Self {
            listener,
            redirect_uri,
            path,
            states: Mutex::default(),
            prompt_stopwatch: PromptDuration::default(),
            progress,
        })
    }

    /// Returns the total time that the user has spent on authorization.
    pub(super) fn prompt_stopwatch(&self) -> &PromptDuration {
        &self.prompt_stopwatch
    }

    async fn ask_user(
        &self,
        request: AuthorizationRequest,
    ) -> Result<AuthorizationResponse, PromptError> {
        let _timer = self.prompt_stopwatch.begin();
        self.progress.finish();
        // A failure to print the prompt is ignored, because the user may already have opened the
        // authorization page.
        eprint(&format_question(&request));
        let request_state = find_request_state(&request.url);
        let past_states = {
            let mut states = self.states.lock();
            let past_states = states.clone();
            states.push(request_state.clone());
            past_states
        };
        let expected_redirect = ExpectedRedirect {
            path: &self.path,
            state: &request_state,
            past_states: &past_states,
        };
        let redirect = redirect::wait_for_redirect(&self.listener, &expected_redirect).await;
        self.progress.begin();
        let target = redirect.map_err(PromptError::Unavailable)?;
        let origin = self.redirect_uri.strip_suffix(&self.path);
        let redirect_url = format!("{}{target}", origin.unwrap_or_default());
        Ok(AuthorizationResponse::from_redirect(&redirect_url)?)
    }
}

impl AuthorizationPrompt for BrowserPrompt {
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_> {
        Box::pin(self.ask_user(request))
    }

    fn redirect_uri(&self) -> Option<String> {
        Some(self.redirect_uri.clone())
    }
}

/// Returns the text with the page's URL. The user opens the page: this program never opens a URL
/// from a server.
fn format_question(request: &AuthorizationRequest) -> String {
    const MAX_SCOPES_CHARS: usize = 1000;
    let mut server = request.server.clone();
    server.set_query(None);
    let server_url = plain::to_one_line(server.as_str());
    let mut text = format!("\n{server_url} requires authorization");
    if !request.scopes.is_empty() {
        let scopes = plain::to_one_line(&request.scopes.join(" "));
        let shown_scopes = plain::truncate(&scopes, MAX_SCOPES_CHARS);
        text.push_str(&format!(", for the scopes {shown_scopes}"));
    }
    text.push_str(&format!(
        ".\nTo cancel, press Ctrl-C. Open this page in a browser on this machine:\n  {}\n\n",
        plain::to_one_line(request.url.as_str())
    ));
    text
}

/// Returns the `state` of an authorization request, which the response must repeat.
fn find_request_state(url: &Url) -> String {
    url.query_pairs()
        .find_map(|(name, value)| (name == "state").then(|| value.into_owned()))
        .unwrap_or_default()
}

/// Returns the port and the path of a loopback redirect URI.
fn parse_loopback_redirect(redirect_uri: &str) -> Option<(u16, String)> {
    let uri = Url::parse(redirect_uri).ok()?;
    let is_loopback = uri.scheme() == "http"
        && matches!(uri.host_str(), Some("127.0.0.1" | "localhost"))
        && uri.query().is_none()
        // The parsed path must equal the written path, because the authorization server compares
        // redirect URIs as strings.
        && redirect_uri.ends_with(uri.path());
    is_loopback.then(|| Some((uri.port()?, uri.path().to_owned())))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_bound_to_a_loopback_redirect_uri() {
        for (redirect_uri, path) in [
            ("http://127.0.0.1:8123/callback", "/callback"),
            ("http://localhost:8123/a/b", "/a/b"),
        ] {
            let redirect = parse_loopback_redirect(redirect_uri);
            assert_eq!(redirect, Some((8123, path.to_owned())));
        }
        for redirect_uri in [
            "http://127.0.0.1/callback",
            "https://127.0.0.1:8123/callback",
            "http://example.com:8123/callback",
            "http://127.0.0.1:8123",
            "http://127.0.0.1:8123/callback?a=b",
            "com.example:/callback",
        ] {
            let redirect = parse_loopback_redirect(redirect_uri);
            assert_eq!(redirect, None, "{redirect_uri}");
        }
    }
}
