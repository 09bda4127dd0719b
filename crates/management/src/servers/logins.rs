//! Logins at authorization servers (OAuth 2.1 section 4.1) in the browser of a person who uses the
//! console. The sidecar stores the tokens in the vault.
//!
//! A login has two steps. [`Servers::begin_login`] returns the URL of the authorization page, and
//! keeps the authorization request in memory. After the consent, the authorization server redirects
//! the browser to the console, and [`Servers::finish_login`] exchanges the code for tokens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pillion_core::store::Timestamp;
use pillion_deadline::timeout;
use pillion_egress::is_local_host;
use pillion_mcp_client::{
    AuthorizationPrompt, AuthorizationRequest, AuthorizationResponse, InMemoryTokenStore,
    McpClient, McpError, OAuthCredentials, PendingAuthorization, PromptError, PromptFuture,
    ServerConfig, TokenKey, TokenStore, TokenStoreError,
};
use pillion_store::{Vault, VaultTokenStore};
use url::Url;

use super::users::check_user;
use super::{ChangeAuthor, Result, Server, ServerError, Servers};
use pillion_config::Config;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::credentials::{Account, CredentialError, UserCredential, format_identity};
use pillion_gateway::timestamp::format_timestamp;

/// Time within which a login must be completed.
pub const LOGIN_TTL: Duration = Duration::from_secs(10 * 60);

/// Maximum number of logins that are not completed. A new login replaces the oldest one.
const MAX_LOGINS: usize = 100;

/// Maximum number of such logins of one browser session.
const MAX_LOGINS_PER_SESSION: usize = 8;

/// Maximum length of the URL of an authorization page, in bytes.
const MAX_URL_BYTES: usize = 8 * 1024;

/// Maximum time for ending the session with the MCP server.
const SESSION_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A login to begin.
#[derive(Debug, Clone, Copy)]
pub struct NewLogin<'a> {
    /// The ID or name of the server.
    pub server: &'a str,
    /// The user who logs in; `None` if the tokens are for the calls of all users.
    pub user: Option<&'a str>,
    /// The key of the browser session. Only this session can finish the login.
    pub session: &'a str,
    /// The URL of the console to which the authorization server redirects the browser.
    pub redirect_uri: &'a str,
}

/// A login that has begun: the browser must open `url`.
#[derive(Debug, Clone)]
pub struct StartedLogin {
    /// The URL of the authorization page, over TLS or on this machine.
    pub url: String,
    /// The scheme, host and port of the authorization page.
    pub origin: String,
    /// The scopes that the authorization request names.
    pub scopes: Vec<String>,
}

/// A completed login.
#[derive(Debug, Clone)]
pub struct FinishedLogin {
    /// The ID of the server.
    pub server_id: String,
}

/// The state of the OAuth tokens that the vault stores for a server or a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorizationState {
    /// There are no tokens.
    Missing,
    /// The access token has expired, and there is no refresh token.
    Expired,
    /// There are tokens that may be valid: only the MCP server knows whether they were revoked.
    Active {
        /// Whether the sidecar can obtain another access token without a login.
        is_renewable: bool,
        /// When the current access token expires, if known.
        expires_at: Option<String>,
    },
}

/// The authorization requests that browsers have not completed, by their `state`.
#[derive(Default)]
pub(super) struct PendingLogins(Mutex<HashMap<String, PendingLogin>>);

/// An authorization request that the browser has not completed.
struct PendingLogin {
    session: String,
    server_id: String,
    user: Option<String>,
    /// The account for which the authorization was requested. Changed settings of the server
    /// invalidate the login.
    account: Account,
    authorization: PendingAuthorization,
    created_at: Instant,
}

impl PendingLogin {
    fn is_expired(&self) -> bool {
        self.created_at.elapsed() >= LOGIN_TTL
    }

    fn is_of(&self, session: &str, server_id: &str, user: Option<&str>) -> bool {
        self.session == session && self.server_id == server_id && self.user.as_deref() == user
    }
}

impl PendingLogins {
    /// Returns whether the session has begun the same login before and has not completed it.
    fn contains(&self, session: &str, server_id: &str, user: Option<&str>) -> bool {
        let logins = self.0.lock();
        let mut entries = logins.values();
        entries.any(|login| !login.is_expired() && login.is_of(session, server_id, user))
    }

    /// Adds a login, which replaces an earlier login of the session for the same account.
    fn insert(&self, login: PendingLogin) {
        let mut logins = self.0.lock();
        logins.retain(|_, other| {
            let is_replaced = other.is_of(&login.session, &login.server_id, login.user.as_deref());
            !other.is_expired() && !is_replaced
        });
        let is_of_session = |other: &PendingLogin| other.session == login.session;
        if logins.values().filter(|other| is_of_session(other)).count() >= MAX_LOGINS_PER_SESSION {
            remove_oldest(&mut logins, is_of_session);
        }
        if logins.len() >= MAX_LOGINS {
            remove_oldest(&mut logins, |_| true);
        }
        logins.insert(login.authorization.state.clone(), login);
    }

    /// Removes and returns the login with this `state`, if it has not expired. A login of another
    /// session stays.
    fn take(&self, session: &str, state: &str) -> Option<PendingLogin> {
        let mut logins = self.0.lock();
        logins.get(state).filter(|login| login.session == session)?;
        logins.remove(state).filter(|login| !login.is_expired())
    }
}

fn remove_oldest(
    logins: &mut HashMap<String, PendingLogin>,
    is_candidate: impl Fn(&PendingLogin) -> bool,
) {
    let candidates = logins.iter().filter(|(_, login)| is_candidate(login));
    let oldest_login = candidates.min_by_key(|(_, login)| login.created_at);
    if let Some(state) = oldest_login.map(|(state, _)| state.clone()) {
        logins.remove(&state);
    }
}

/// Records the authorization request instead of showing it, because the browser returns in another
/// request to the console.
struct RecordingPrompt {
    redirect_uri: String,
    request: Mutex<Option<AuthorizationRequest>>,
}

impl AuthorizationPrompt for RecordingPrompt {
    fn authorize(&self, request: AuthorizationRequest) -> PromptFuture<'_> {
        Box::pin(async move {
            *self.request.lock() = Some(request);
            Err(PromptError::Deferred)
        })
    }

    fn redirect_uri(&self) -> Option<String> {
        Some(self.redirect_uri.clone())
    }
}

/// The account of a login.
struct LoginTarget {
    server_id: String,
    server: ServerConfig,
    account: Account,
    /// The user who logs in; `None` if the tokens are for the calls of all users.
    user: Option<String>,
    vault: Arc<Vault>,
}

impl LoginTarget {
    fn token_store(&self) -> VaultTokenStore {
        let to_identity = |user: &String| format_identity(&self.server_id, user);
        let identity = self.user.as_ref().map(to_identity).unwrap_or_default();
        VaultTokenStore::new(Arc::clone(&self.vault), identity)
    }

    /// Returns a token store in memory with the stored registrations of the client. The store
    /// contains no tokens, so that the MCP server requires a login.
    ///
    /// A configured client is bound to the registered authorization server. For the first login of
    /// a user, the authorization server of the shared login applies, so that the MCP server cannot
    /// make the sidecar send the client's secret to another authorization server.
    async fn copy_registrations(&self) -> Result<InMemoryTokenStore> {
        let key = &self.account.key;
        let tokens = InMemoryTokenStore::default();
        let to_failure = |error: TokenStoreError| self.store_failure(&error);
        let own_credentials = self.token_store().load(key).await.map_err(to_failure)?;
        let bound_credentials = match own_credentials {
            None if self.user.is_some() && !key.client.is_empty() => {
                let shared_store = VaultTokenStore::new(Arc::clone(&self.vault), String::new());
                shared_store.load(key).await.map_err(to_failure)?
            }
            credentials => credentials,
        };
        if let Some(mut credentials) = bound_credentials {
            credentials.tokens = None;
            tokens.save(key, credentials).await.map_err(to_failure)?;
        }
        Ok(tokens)
    }

    /// Returns an MCP client whose tokens are stored in `tokens`.
    fn create_client(
        &self,
        tokens: Arc<InMemoryTokenStore>,
        prompt: Option<Arc<RecordingPrompt>>,
    ) -> McpClient {
        let mut server = self.server.clone();
        server.authorization.token_store = Some(tokens);
        server.authorization.prompt = prompt.map(|prompt| prompt as Arc<dyn AuthorizationPrompt>);
        McpClient::new(server)
    }

    fn failure(&self, reason: impl Into<String>) -> ServerError {
        ServerError::LoginFailed {
            name: self.server.label.clone(),
            reason: reason.into(),
        }
    }

    fn store_failure(&self, error: &TokenStoreError) -> ServerError {
        self.failure(error.to_string())
    }
}

impl Servers {
    /// Begins a login at the authorization server of an MCP server: sends a request to the MCP
    /// server without a token, and requests an authorization as the MCP server demands.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server; [`ServerError::NoConsent`] if the
    /// server does not use OAuth with the consent of a user; [`ServerError::NotOfUsers`] if the
    /// login is for a user, and the server does not use credentials of users;
    /// [`ServerError::OtherUser`] if the caller may not manage the user's credentials;
    /// [`ServerError::Credential`] without a vault; [`ServerError::NoLoginNeeded`] if the server
    /// requires no authorization; [`ServerError::LoginFailed`] if the authorization cannot be
    /// requested.
    pub async fn begin_login(
        &self,
        grant: &AccessGrant,
        login: NewLogin<'_>,
    ) -> Result<StartedLogin> {
        let target_search = self.find_target(grant, login.server, login.user);
        let target = Box::pin(target_search).await?;
        let is_repeated = self
            .logins
            .contains(login.session, &target.server_id, login.user);
        // If the browser has not returned from an earlier attempt, the authorization server may
        // have forgotten the client. A client without a configured ID then registers again.
        let registers_again = is_repeated && target.account.key.client.is_empty();
        let tokens = if registers_again {
            InMemoryTokenStore::default()
        } else {
            target.copy_registrations().await?
        };
        let request_future = self.request_authorization(&target, tokens, login.redirect_uri);
        let request = Box::pin(request_future).await?;
        let url = &request.url;
        if !is_safe_target(url) || url.as_str().len() > MAX_URL_BYTES {
            return Err(target.failure(
                "the URL of the authorization page must use https or lead to this machine, and \
                 must not be longer than 8 KiB",
            ));
        }
        let started_login = StartedLogin {
            url: url.as_str().to_owned(),
            origin: url.origin().ascii_serialization(),
            scopes: request.scopes,
        };
        self.logins.insert(PendingLogin {
            session: login.session.to_owned(),
            server_id: target.server_id,
            user: target.user,
            account: target.account,
            authorization: request.pending,
            created_at: Instant::now(),
        });
        Ok(started_login)
    }

    async fn request_authorization(
        &self,
        target: &LoginTarget,
        tokens: InMemoryTokenStore,
        redirect_uri: &str,
    ) -> Result<AuthorizationRequest> {
        let prompt = Arc::new(RecordingPrompt {
            redirect_uri: redirect_uri.to_owned(),
            request: Mutex::default(),
        });
        let client = target.create_client(Arc::new(tokens), Some(Arc::clone(&prompt)));
        // Some servers accept the handshake without a token, and require a token for `tools/list`.
        let outcome = Box::pin(timeout(target.server.timeout, client.list_tools())).await;
        drop(timeout(SESSION_CLOSE_TIMEOUT, client.disconnect()).await);
        let request = prompt.request.lock().take();
        match (request, outcome) {
            (Some(request), _) => Ok(request),
            (None, Ok(Ok(_))) => Err(ServerError::NoLoginNeeded {
                name: target.server.label.clone(),
            }),
            (None, Ok(Err(error))) => Err(target.failure(error.to_string())),
            (None, Err(_)) => Err(target.failure("the server did not respond in time")),
        }
    }

    /// Finishes a login: exchanges the code for tokens and stores the tokens. `query` is the query
    /// with which the authorization server has redirected the browser.
    ///
    /// # Errors
    /// [`ServerError::UnknownLogin`] if the session has begun no such login, the login has expired,
    /// or the server's settings have changed; [`ServerError::LoginFailed`] if the authorization was
    /// denied or the tokens cannot be obtained; otherwise the same errors as
    /// [`begin_login`](Self::begin_login).
    pub async fn finish_login(
        &self,
        grant: &AccessGrant,
        session: &str,
        query: &str,
    ) -> Result<FinishedLogin> {
        let response = AuthorizationResponse::from_redirect(&format!("http://localhost/?{query}"))
            .map_err(|_| ServerError::UnknownLogin)?;
        let state = response.state().unwrap_or_default();
        let taken_login = self.logins.take(session, state);
        let login = taken_login.ok_or(ServerError::UnknownLogin)?;
        let user = login.user.as_deref();
        let target = Box::pin(self.find_target(grant, &login.server_id, user)).await?;
        if target.account != login.account {
            return Err(ServerError::UnknownLogin);
        }
        let tokens = Arc::new(target.copy_registrations().await?);
        let client = target.create_client(Arc::clone(&tokens), None);
        let exchange = client.finish_authorization(login.authorization, response);
        let to_failure = |error: McpError| target.failure(error.to_string());
        Box::pin(exchange).await.map_err(to_failure)?;
        let load_outcome = tokens.load(&target.account.key).await;
        let credentials = load_outcome
            .map_err(|error| target.store_failure(&error))?
            .filter(|credentials| credentials.tokens.is_some())
            .ok_or_else(|| target.failure("the authorization server sent no token"))?;
        Box::pin(self.store_login(&target, credentials)).await?;
        tracing::info!(
            server.label = target.server.label,
            user = target.user,
            "The tokens of a login in a browser were stored"
        );
        Ok(FinishedLogin {
            server_id: target.server_id,
        })
    }

    /// Stores the tokens of a login in place of the previous tokens.
    async fn store_login(&self, target: &LoginTarget, tokens: OAuthCredentials) -> Result<()> {
        // The lock prevents the server from being changed while the tokens are stored.
        let file_config = self.file_config.lock().await;
        let server = self.find(&target.server_id)?;
        let config = self.load_config(&file_config, &server).await?;
        if Account::from_server(&config).as_ref() != Some(&target.account) {
            return Err(ServerError::UnknownLogin);
        }
        let credentials = &self.user_credentials;
        let save = async {
            let outcome = target.token_store().save(&target.account.key, tokens).await;
            outcome.map_err(|error| target.store_failure(&error))
        };
        // The token stores of running clients are closed first, so that no client replaces the new
        // tokens with a renewal of the previous ones.
        match &target.user {
            Some(user) => {
                let origin = server.credential_address()?;
                let id = &target.server_id;
                credentials.close_tokens_of_user(id, user).await;
                save.await?;
                let credential = UserCredential::for_oauth(origin);
                credentials.put(id, user, &credential).await?;
                self.forget_user(&server, user);
                Ok(())
            }
            None => {
                let label = server.name();
                let is_own = |name: &str, _: &TokenKey| name == label;
                credentials.close_tokens_of_servers(is_own).await;
                let outcome = save.await;
                drop(file_config);
                // Also reconnects after an error, because the token stores are closed.
                self.reconnect(&target.server_id).await?;
                outcome
            }
        }
    }

    /// Removes the tokens that the calls of all users of the server with this ID or name share.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server; [`ServerError::NoConsent`] if the
    /// server does not use OAuth with the consent of a user; [`ServerError::Credential`] if the
    /// tokens cannot be removed.
    pub async fn remove_login(&self, key: &str) -> Result<()> {
        let server = self.find(key)?;
        let consent_account = server.account().filter(Account::needs_consent);
        let account = consent_account.ok_or_else(|| no_consent_error(&server))?;
        let credentials = &self.user_credentials;
        credentials.forget_tokens_of_server(&account.key).await?;
        tracing::info!(
            server.label = server.name(),
            "The OAuth tokens of an MCP server were removed"
        );
        self.reconnect(&server.id()).await
    }

    /// Returns the state of the tokens that the calls of all users of the server with this ID or
    /// name share; `None` if the server does not use OAuth with the consent of a user.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server; [`ServerError::Credential`] if the
    /// tokens cannot be read.
    pub async fn login_state(&self, key: &str) -> Result<Option<AuthorizationState>> {
        let server = self.find(key)?;
        match server.account().filter(Account::needs_consent) {
            Some(account) => Ok(Some(self.load_state(String::new(), &account).await?)),
            None => Ok(None),
        }
    }

    /// Returns whether the server with this ID or name uses OAuth with the consent of a user.
    ///
    /// # Errors
    /// [`ServerError::NotFound`] if there is no such server.
    pub fn needs_login(&self, key: &str) -> Result<bool> {
        let account = self.find(key)?.account();
        Ok(account.is_some_and(|account| account.needs_consent()))
    }

    /// Returns the state of the tokens of an identity in the format of [`VaultTokenStore`].
    pub(super) async fn load_state(
        &self,
        identity: String,
        account: &Account,
    ) -> Result<AuthorizationState> {
        let vault = self.user_credentials.vault();
        let tokens = VaultTokenStore::new(vault.ok_or(CredentialError::NoKey)?, identity);
        // Tokens that cannot be read are useless, and a login replaces them.
        let credentials = tokens.load(&account.key).await.ok().flatten();
        Ok(AuthorizationState::from_credentials(
            credentials.as_ref(),
            Timestamp::now(),
        ))
    }

    async fn find_target(
        &self,
        grant: &AccessGrant,
        key: &str,
        user: Option<&str>,
    ) -> Result<LoginTarget> {
        let server = self.find(key)?;
        if let Some(user) = user {
            check_user(grant, user)?;
            server.credential_address()?;
        }
        let file_config = self.file_config.lock().await;
        let config = self.load_config(&file_config, &server).await?;
        drop(file_config);
        let account = Account::from_server(&config).filter(Account::needs_consent);
        let vault = self.user_credentials.vault();
        Ok(LoginTarget {
            server_id: server.id(),
            server: config,
            account: account.ok_or_else(|| no_consent_error(&server))?,
            user: user.map(str::to_owned),
            vault: vault.ok_or(CredentialError::NoKey)?,
        })
    }

    /// Returns the configuration of a server for an MCP client.
    async fn load_config(&self, file_config: &Config, server: &Server) -> Result<ServerConfig> {
        match server {
            Server::FromFile(section) => Ok(section.server.clone()),
            Server::FromStore(catalog_server, _) => {
                let catalog = self.catalog(file_config, ChangeAuthor::Caller);
                let loaded_server = catalog.load(catalog_server.record.clone()).await;
                Ok(loaded_server.section?.server)
            }
        }
    }
}

impl AuthorizationState {
    fn from_credentials(credentials: Option<&OAuthCredentials>, now: Timestamp) -> Self {
        let Some(tokens) = credentials.and_then(|credentials| credentials.tokens.as_ref()) else {
            return Self::Missing;
        };
        let to_timestamp = |seconds: u64| {
            let millis = i64::try_from(seconds.saturating_mul(1_000));
            Timestamp::from_millis(millis.unwrap_or(i64::MAX))
        };
        let expires_at = tokens.expires_at.map(to_timestamp);
        let is_renewable = tokens.refresh_token.is_some();
        let is_expired = expires_at.is_some_and(|time| time.as_millis() <= now.as_millis());
        if is_expired && !is_renewable {
            return Self::Expired;
        }
        Self::Active {
            is_renewable,
            expires_at: expires_at.map(format_timestamp),
        }
    }
}

fn no_consent_error(server: &Server) -> ServerError {
    ServerError::NoConsent {
        name: server.name().to_owned(),
    }
}

/// Returns whether a browser may be sent to a URL: over TLS, or on this machine.
fn is_safe_target(url: &Url) -> bool {
    match url.scheme() {
        "https" => true,
        "http" => url.host().is_some_and(|host| is_local_host(&host)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn account() -> Account {
        let server: ServerConfig = serde_json::from_value(json!({
            "label": "a", "url": "https://mcp.example/", "authentication": {"type": "oauth"}
        }))
        .unwrap();
        Account::from_server(&server).unwrap()
    }

    fn login(session: &str, state: &str, user: Option<&str>) -> PendingLogin {
        PendingLogin {
            session: session.to_owned(),
            server_id: "a".to_owned(),
            user: user.map(str::to_owned),
            account: account(),
            authorization: serde_json::from_value(json!({
                "state": state, "issuer": "https://as.example", "redirect_uri": "http://x/",
                "scopes": [], "client_id": "c", "verifier": "v", "resource": null
            }))
            .unwrap(),
            created_at: Instant::now(),
        }
    }

    #[test]
    fn a_login_is_finished_once_and_only_by_its_session() {
        let logins = PendingLogins::default();
        logins.insert(login("one", "s1", None));
        assert!(logins.take("two", "s1").is_none());
        assert!(logins.take("one", "s2").is_none());
        assert!(logins.take("one", "").is_none());
        assert!(logins.take("one", "s1").is_some());
        assert!(logins.take("one", "s1").is_none());
    }

    #[test]
    fn a_login_replaces_an_earlier_one_for_the_same_account() {
        let logins = PendingLogins::default();
        logins.insert(login("one", "s1", Some("ada")));
        logins.insert(login("one", "s2", None));
        assert!(logins.contains("one", "a", Some("ada")));
        assert!(!logins.contains("two", "a", Some("ada")));
        logins.insert(login("one", "s3", Some("ada")));
        assert!(logins.take("one", "s1").is_none());
        assert!(logins.take("one", "s2").is_some());
        assert!(logins.take("one", "s3").is_some());
    }

    #[test]
    fn the_number_of_logins_is_limited_in_each_session_and_in_total() {
        let logins = PendingLogins::default();
        logins.insert(login("other", "other", None));
        for number in 0..20 {
            let user = format!("user{number}");
            let mut later_login = login("one", &format!("s{number}"), Some(&user));
            later_login.created_at += Duration::from_millis(number);
            logins.insert(later_login);
        }
        assert_eq!(logins.0.lock().len(), MAX_LOGINS_PER_SESSION + 1);
        assert!(logins.take("one", "s11").is_none());
        assert!(logins.take("one", "s12").is_some());
        assert!(logins.take("other", "other").is_some());
        for number in 0..2 * MAX_LOGINS {
            let session = format!("session{number}");
            logins.insert(login(&session, &format!("t{number}"), None));
        }
        assert_eq!(logins.0.lock().len(), MAX_LOGINS);
    }

    #[test]
    fn a_browser_is_sent_only_over_tls_or_to_this_machine() {
        for (url, is_safe) in [
            ("https://login.example/", true),
            ("http://127.0.0.1:1/", true),
            ("http://[::1]/", true),
            ("http://localhost/", true),
            ("http://login.example/", false),
            ("http://127.0.0.1.example/", false),
            ("http://localhost.example/", false),
            ("javascript:alert(1)", false),
            ("data:text/html,a", false),
        ] {
            assert_eq!(is_safe_target(&url.parse().unwrap()), is_safe, "{url}");
        }
    }

    #[test]
    fn the_state_says_whether_a_login_is_needed() {
        let state = |tokens: serde_json::Value| {
            let json = json!({"registrations": {}, "tokens": tokens});
            let credentials: OAuthCredentials = serde_json::from_value(json).unwrap();
            AuthorizationState::from_credentials(Some(&credentials), Timestamp::from_millis(5_000))
        };
        let tokens = |expires_at: u64, refresh_token: Option<&str>| {
            json!({"issuer": "https://as.example", "resource": null, "access_token": "a",
                "refresh_token": refresh_token, "expires_at": expires_at})
        };
        assert_eq!(state(json!(null)), AuthorizationState::Missing);
        assert_eq!(state(tokens(5, None)), AuthorizationState::Expired);
        let expires_at = Some("1970-01-01T00:00:06.000Z".to_owned());
        assert_eq!(
            state(tokens(6, None)),
            AuthorizationState::Active {
                is_renewable: false,
                expires_at
            }
        );
        assert!(matches!(
            state(tokens(1, Some("r"))),
            AuthorizationState::Active {
                is_renewable: true,
                ..
            }
        ));
    }
}
