//! An MCP server lies about its authorization server, in every known way, with every grant. No
//! secret reaches another host than the honest authorization server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillion_mcp_client::{
    AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse, InMemoryTokenStore,
    McpClient, McpError, PendingAuthorization, PromptError, PromptFuture, ServerConfig,
    TransportKind,
};
use pillion_testkit::{Fault, Lie, LyingServer, OAuthRules, signing_key};
use serde_json::{Value, json};

const REDIRECT_URI: &str = "http://127.0.0.1:8123/callback";

async fn roll(client: &McpClient) -> Result<(), McpError> {
    let rolled = client.call_tool("roll", &json!({"dice": "1d20"})).await;
    rolled.map(drop)
}

/// A user who knows the sign-in page of the honest authorization server, and signs in at no other.
struct Careful {
    honest: String,
    /// Whether the browser returns to another process.
    defers: bool,
    pending: Mutex<Option<(PendingAuthorization, AuthorizationResponse)>>,
}

impl Careful {
    fn new(honest: &str, defers: bool) -> Arc<Self> {
        Arc::new(Self {
            honest: honest.to_owned(),
            defers,
            pending: Mutex::default(),
        })
    }
}

impl AuthorizationPrompt for Careful {
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_> {
        let is_honest = request.url.origin().ascii_serialization() == self.honest;
        let mut pairs = request.url.query_pairs();
        let state = pairs.find(|(name, _)| name == "state").unwrap().1;
        let scopes = request.scopes.join("+");
        let iss = &self.honest;
        let address = format!("{REDIRECT_URI}?code=hush-code-{scopes}&state={state}&iss={iss}");
        let response = AuthorizationResponse::from_redirect(&address).unwrap();
        let result = match (is_honest, self.defers) {
            (true, false) => Ok(response),
            (true, true) => {
                *self.pending.lock().unwrap() = Some((request.pending, response));
                Err(PromptError::Deferred)
            }
            (false, _) => Err(PromptError::Abandoned),
        };
        Box::pin(async { result })
    }
}

/// A way to obtain tokens, as an operator configures it.
struct Grant {
    name: &'static str,
    /// JSON, with placeholders for the issuer and for a private key.
    settings: &'static str,
}

impl Grant {
    const fn new(name: &'static str, settings: &'static str) -> Self {
        Self { name, settings }
    }

    fn settings(&self, issuer: &str) -> Value {
        let key = json!(signing_key()).to_string();
        let settings = self.settings.replace("{issuer}", issuer);
        serde_json::from_str(&settings.replace(r#""{key}""#, &key)).unwrap()
    }

    fn needs_user(&self) -> bool {
        !self.settings.contains(r#""grant""#)
    }
}

static GRANTS: [Grant; 10] = [
    Grant::new(
        "client_credentials with a secret",
        r#"{"grant": "client_credentials", "client_id": "me", "client_secret": "hush-mine",
            "issuer": "{issuer}"}"#,
    ),
    Grant::new(
        "client_credentials with a key",
        r#"{"grant": "client_credentials", "client_id": "me", "private_key": "{key}",
            "issuer": "{issuer}"}"#,
    ),
    Grant::new(
        "jwt_bearer",
        r#"{"grant": "jwt_bearer", "assertion": "hush-jwt", "issuer": "{issuer}"}"#,
    ),
    Grant::new(
        "jwt_bearer with a client",
        r#"{"grant": "jwt_bearer", "assertion": "hush-jwt", "client_id": "me",
            "client_secret": "hush-mine", "issuer": "{issuer}"}"#,
    ),
    Grant::new(
        "enterprise",
        r#"{"grant": "enterprise", "client_id": "me", "client_secret": "hush-mine",
            "idp_client_id": "me", "idp_client_secret": "hush-idp", "id_token": "hush-id",
            "idp_token_endpoint": "{issuer}/token", "issuer": "{issuer}"}"#,
    ),
    Grant::new(
        "a user's consent, with an issuer",
        r#"{"issuer": "{issuer}"}"#,
    ),
    Grant::new(
        "a user's consent, with an issuer and a client",
        r#"{"client_id": "me", "client_secret": "hush-mine", "issuer": "{issuer}"}"#,
    ),
    Grant::new(
        "a user's consent, with a client",
        r#"{"client_id": "me", "client_secret": "hush-mine"}"#,
    ),
    Grant::new("a user's consent", "{}"),
    Grant::new(
        "a user's consent, with a metadata document",
        r#"{"client_metadata_url": "https://app.example/client.json"}"#,
    ),
];

/// One client with one grant, and a server that tells one lie.
struct Case {
    server: LyingServer,
    grant: &'static Grant,
    store: Arc<InMemoryTokenStore>,
}

impl Case {
    async fn start(grant: &'static Grant, expires_in: Option<u64>) -> Self {
        let rules = OAuthRules {
            refresh: true,
            expires_in,
            ..OAuthRules::default()
        };
        Self {
            server: LyingServer::start(rules).await,
            grant,
            store: Arc::default(),
        }
    }

    /// Returns a client like that of a new process: only the token store is shared.
    fn client(&self) -> McpClient {
        self.client_with(false).0
    }

    fn client_with(&self, defers: bool) -> (McpClient, Arc<Careful>) {
        let prompt = Careful::new(&self.server.honest.issuer, defers);
        let mut config = self.config();
        config.authorization.prompt = Some(Arc::<Careful>::clone(&prompt));
        config.authorization.token_store = Some(Arc::<InMemoryTokenStore>::clone(&self.store));
        (McpClient::new(config), prompt)
    }

    fn config(&self) -> ServerConfig {
        let mut settings = self.grant.settings(&self.server.honest.issuer);
        settings["type"] = "oauth".into();
        settings["redirect_uri"] = REDIRECT_URI.into();
        let mut config = ServerConfig::new("test", &self.server.url).unwrap();
        config.transport = TransportKind::PostSse;
        config.timeout = Duration::from_secs(20);
        config.authentication = serde_json::from_value(settings).unwrap();
        config
    }

    /// Fails if a host other than the honest one has received a secret, or if a bound client has
    /// asked the hostile host for anything but the MCP server's own metadata.
    fn check(&self, lie: &Lie, step: &str) {
        let context = format!("{}: {}: {step}", self.grant.name, lie.name);
        let leaks = self.server.leaks();
        assert!(leaks.is_empty(), "{context}: {leaks:#?}");
        let is_bound = self.grant.settings.contains(r#""issuer""#);
        for request in self.server.hostile_requests() {
            let is_resource = request.path.starts_with("/resource");
            let is_allowed = !is_bound || is_resource && request.method == "GET";
            assert!(is_allowed, "{context}: {request:?}");
        }
    }
}

/// Plays every lie, each with a quarter of the grants, which differ with `step`, so that every lie
/// is played with every grant at two of eight steps. With `PILLION_LONG_TESTS`, plays all
/// combinations.
async fn each<F: Future<Output = ()>>(step: &str, play: impl Fn(&'static Grant, Lie) -> F) {
    let is_long = std::env::var_os("PILLION_LONG_TESTS").is_some();
    let offset = STEPS.iter().position(|name| *name == step).unwrap();
    for (nth, lie) in Lie::all().into_iter().enumerate() {
        for (index, grant) in GRANTS.iter().enumerate() {
            if is_long || (nth + index + offset).is_multiple_of(4) {
                play(grant, lie.clone()).await;
            }
        }
    }
}

/// The steps at which the server lies.
const STEPS: [&str; 8] = [
    "first use",
    "revoked",
    "revoked, restarted",
    "expired",
    "expired, restarted",
    "step-up",
    "unknown client",
    "finish",
];

#[tokio::test]
async fn no_secret_leaves_the_issuer_when_a_server_lies_at_first_use() {
    each("first use", |grant, lie| async move {
        let case = Case::start(grant, None).await;
        case.server.lie(&lie);
        let outcome = roll(&case.client()).await;
        case.check(&lie, "first use");
        let message = format!("{}: {} is believed", grant.name, lie.name);
        assert!(lie.is_harmless || outcome.is_err(), "{message}");
    })
    .await;
}

/// Plays each lie after an honest authorization. `change` makes the client need another token.
async fn after_an_authorization(
    step: &'static str,
    expires_in: Option<u64>,
    is_restarted: bool,
    change: fn(&LyingServer),
) {
    each(step, |grant, lie| async move {
        let case = Case::start(grant, expires_in).await;
        let client = case.client();
        let honest = roll(&client).await;
        honest.unwrap_or_else(|error| panic!("{}: {error}", grant.name));
        case.server.lie(&lie);
        change(&case.server);
        let client = if is_restarted { case.client() } else { client };
        // The outcome depends on the lie: the honest server may still be known.
        let _ = roll(&client).await;
        let _ = roll(&client).await;
        case.check(&lie, step);
    })
    .await;
}

#[tokio::test]
async fn no_secret_leaves_the_issuer_when_tokens_are_revoked() {
    after_an_authorization("revoked", None, false, LyingServer::revoke).await;
}

#[tokio::test]
async fn no_secret_leaves_the_issuer_when_tokens_are_revoked_and_the_client_is_restarted() {
    after_an_authorization("revoked, restarted", None, true, LyingServer::revoke).await;
}

#[tokio::test]
async fn no_secret_leaves_the_issuer_when_tokens_expire() {
    // The client renews tokens that are always about to expire before each request.
    after_an_authorization("expired", Some(0), false, |_| {}).await;
}

#[tokio::test]
async fn no_secret_leaves_the_issuer_when_tokens_expire_and_the_client_is_restarted() {
    after_an_authorization("expired, restarted", Some(0), true, |_| {}).await;
}

#[tokio::test]
async fn no_secret_leaves_the_issuer_when_a_server_requires_more_scopes() {
    after_an_authorization("step-up", None, false, LyingServer::require_scope).await;
}

#[tokio::test]
async fn no_secret_leaves_the_issuer_when_the_client_is_unknown_there() {
    after_an_authorization("unknown client", None, false, |server| {
        server.revoke();
        let body = r#"{"error":"invalid_client"}"#;
        let unknown = Fault::response("401 X", "application/json", body);
        server.honest.change(|rules| {
            rules.faults.entry("/token".into()).or_insert(vec![unknown]);
        });
    })
    .await;
}

#[tokio::test]
async fn no_secret_leaves_the_issuer_when_another_process_finishes_an_authorization() {
    each("finish", |grant, lie| async move {
        if !grant.needs_user() {
            return;
        }
        let case = Case::start(grant, None).await;
        let (client, prompt) = case.client_with(true);
        roll(&client).await.unwrap_err();
        let started = prompt.pending.lock().unwrap().take();
        let (pending, response) = started.unwrap();
        case.server.lie(&lie);
        let client = case.client();
        let _ = client.finish_authorization(pending, response).await;
        let _ = roll(&client).await;
        case.check(&lie, "finish");
    })
    .await;
}

#[tokio::test]
async fn the_hosts_of_these_tests_notice_secrets() {
    // Proves that the tests above would notice a leak: a client without a binding, whose user signs
    // in at the MCP server's own authorization server, sends it a code.
    let case = Case::start(&GRANTS[8], None).await;
    case.server.lie(&Lie {
        claimed: vec!["{server}".to_owned()],
        ..Lie::default()
    });
    let mut config = case.config();
    let trusted = case.server.url.trim_end_matches("/sse");
    config.authorization.prompt = Some(Careful::new(trusted, false));
    let _ = roll(&McpClient::new(config)).await;
    let leaks = case.server.leaks();
    let has_leak = leaks.iter().any(|leak| leak.contains("code_verifier"));
    assert!(has_leak, "{leaks:?}");
}
