//! OAuth 2.1 against a fake authorization server: the number of authorizations, the recipients of
//! credentials, and a misbehaving authorization server. The official conformance suite checks the
//! protocol itself (tests/conformance).

mod authorization;
mod faults;
mod grants;
mod peers;
mod renewal;
mod secrets;
mod stored;

use pillion_mcp_client::{
    AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse, OAuthError, PromptFuture,
};
use pillion_testkit::{FakeOAuth, OAuthRules};

use super::*;

const REDIRECT_URI: &str = "http://127.0.0.1:8123/callback";

/// A user who consents at once: the prompt builds the redirect URL from the authorization URL.
struct Consenting {
    prompts: AtomicUsize,
    thinks: Duration,
    redirect: fn(&AuthorizationRequest) -> String,
}

impl Consenting {
    fn new() -> Arc<Self> {
        Self::answering(|request| format!("{}&iss={}", redirect(request), issuer(request)))
    }

    fn answering(redirect: fn(&AuthorizationRequest) -> String) -> Arc<Self> {
        Arc::new(Self {
            prompts: AtomicUsize::new(0),
            thinks: Duration::ZERO,
            redirect,
        })
    }

    fn after(thinks: Duration) -> Arc<Self> {
        Arc::new(Self {
            prompts: AtomicUsize::new(0),
            thinks,
            redirect: Self::new().redirect,
        })
    }

    fn prompts(&self) -> usize {
        self.prompts.load(Ordering::Relaxed)
    }
}

impl AuthorizationPrompt for Consenting {
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_> {
        self.prompts.fetch_add(1, Ordering::Relaxed);
        let redirect = (self.redirect)(&request);
        Box::pin(async move {
            tokio::time::sleep(self.thinks).await;
            Ok(AuthorizationResponse::from_redirect(&redirect)?)
        })
    }
}

fn parameter(request: &AuthorizationRequest, key: &str) -> String {
    let mut pairs = request.url.query_pairs();
    let found = pairs.find(|(name, _)| name == key);
    found
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

fn issuer(request: &AuthorizationRequest) -> String {
    request.url.origin().ascii_serialization()
}

/// Returns a redirect with a code that the fake server accepts and that contains the scopes.
fn redirect(request: &AuthorizationRequest) -> String {
    let scopes = request.scopes.join("+");
    let state = parameter(request, "state");
    format!(
        "{}?code=hush-code-{scopes}&state={state}",
        request.redirect_uri
    )
}

fn oauth(server: &FakeOAuth, settings: &Value) -> ServerConfig {
    let mut authentication = json!({"type": "oauth", "redirect_uri": REDIRECT_URI});
    let settings = settings.as_object().unwrap().clone();
    authentication.as_object_mut().unwrap().extend(settings);
    let mut config = config(&server.url, TransportKind::PostSse);
    config.authentication = serde_json::from_value(authentication).unwrap();
    config
}

/// Starts a server with these rules, and a client of a user who consents.
fn consenting(rules: OAuthRules) -> (FakeOAuth, Arc<Consenting>, McpClient) {
    let server = FakeOAuth::start(rules);
    let person = Consenting::new();
    let client = asking(&server, &person);
    (server, person, client)
}

/// Starts a server with these members in the metadata of its authorization server.
fn with_metadata(metadata: Value) -> FakeOAuth {
    FakeOAuth::start(OAuthRules {
        metadata,
        ..OAuthRules::default()
    })
}

fn prompted(server: &FakeOAuth, settings: &Value, person: &Arc<Consenting>) -> ServerConfig {
    let mut config = oauth(server, settings);
    config.authorization.prompt = Some(Arc::<Consenting>::clone(person));
    config
}

/// Returns a client that registers itself and uses this prompt.
fn asking(server: &FakeOAuth, person: &Arc<Consenting>) -> McpClient {
    McpClient::new(prompted(server, &json!({}), person))
}

fn oauth_error(error: &McpError) -> &OAuthError {
    match error.kind() {
        McpErrorKind::Authorization(error) => error,
        other => panic!("{other:?}"),
    }
}

fn token(request: &Recorded) -> &str {
    request.header("authorization")
}
