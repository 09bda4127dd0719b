//! Access tokens for requests over TCP: the tokens of the store and of the configuration, and the
//! rules by which tokens are created.
//!
//! A created token never grants more than its creator has: it has no further scope, acts for no
//! other users, uses no further tools, and is not valid for longer.

use std::sync::Arc;
use std::time::Duration;

use pillion_core::registry::RegisteredTool;
use pillion_core::store::{AccessToken, Store, StoreError, Timestamp};
use pillion_core::tool::CallContext;
use pillion_gateway::Gateway;
use pillion_gateway::access::{
    AccessGate, AccessGrant, AllowedTools, GrantHolder, MAX_USER_BYTES, NewToken, Scope, Users,
};
use pillion_gateway::client_text::truncate_input;
use pillion_gateway::timestamp::format_timestamp;
use pillion_gateway::visibility::Visibility;
use pillion_wire::UnavailableServer;

use crate::error::{
    CONFLICT, DENIED, INVALID_INPUT, MissingScope, NOT_FOUND, UNAVAILABLE, require_scope,
    route_error,
};

/// Maximum number of days for which a token that expires is valid.
pub const MAX_LIFETIME_DAYS: u32 = 36_500;

/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 100;

/// Maximum length of a list of tools, in bytes. Each request compares the tools with the list.
const MAX_TOOLS_BYTES: usize = 16 * 1024;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

route_error! {
    /// The reason why a token is not created, shown or revoked.
    #[derive(Debug, thiserror::Error)]
    pub enum TokenError {
        /// A value of the new token is invalid.
        #[error("{message}")]
        Invalid {
            /// The name of the value, such as `name`.
            field: &'static str,
            /// What is wrong with the value.
            message: String,
        } => INVALID_INPUT,
        /// The new token would grant more than its creator has.
        #[error("{message}")]
        ExceedsGrant {
            /// The name of the value that grants more, such as `tools`.
            field: &'static str,
            /// What the creator may grant.
            message: String,
        } => DENIED,
        /// A token of the configuration has the name.
        #[error("the configuration already has a token named '{name}'")]
        ConfiguredName {
            /// The requested name.
            name: String,
        } => CONFLICT,
        /// A token of the store has the name.
        #[error("a token named '{name}' already exists")]
        NameTaken {
            /// The requested name.
            name: String,
        } => CONFLICT,
        /// The store has no such token that the client may see.
        #[error("There is no access token '{}'", truncate_input(name))]
        Unknown {
            /// The requested name.
            name: String,
        } => NOT_FOUND,
        /// The client may not manage tokens.
        #[error(transparent)]
        MissingScope(#[from] MissingScope) => DENIED,
        /// The store cannot be read or written.
        #[error(transparent)]
        Store(#[from] StoreError) => UNAVAILABLE,
    }
}

impl TokenError {
    /// Returns the error for a value that a client has sent.
    pub fn invalid(field: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Invalid { field, message }
    }

    fn exceeds_grant(field: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::ExceedsGrant { field, message }
    }

    /// Returns the name of the rejected value, such as `name` or `expiry`.
    #[must_use]
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { field, .. } | Self::ExceedsGrant { field, .. } => Some(field),
            Self::ConfiguredName { .. } | Self::NameTaken { .. } => Some("name"),
            Self::Unknown { .. } | Self::MissingScope(_) | Self::Store(_) => None,
        }
    }
}

/// Returns the name of a new token if it is valid.
///
/// # Errors
/// The name is empty or too long, or contains white space or control characters.
pub fn parse_name(text: &str) -> Result<String, &'static str> {
    let is_valid = (1..=MAX_NAME_CHARS).contains(&text.chars().count())
        && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    let name = is_valid.then(|| text.to_owned());
    name.ok_or(
        "a token name must have 1 to 100 characters, without white space or control characters",
    )
}

/// Returns the name of the only user of a new token if it is valid.
///
/// # Errors
/// The name is empty or too long, or contains control characters.
pub fn parse_user(text: &str) -> Result<String, &'static str> {
    let is_valid = (1..=MAX_USER_BYTES).contains(&text.len()) && !text.contains(char::is_control);
    let user = is_valid.then(|| text.to_owned());
    user.ok_or("a user name must have 1 to 256 bytes, without control characters")
}

/// Returns the list of tools of a new token, such as `get_time,far_*`.
///
/// # Errors
/// The list is too long, or an entry is neither a tool name nor a prefix followed by `*`.
pub fn parse_tools(text: &str) -> Result<AllowedTools, String> {
    if text.len() > MAX_TOOLS_BYTES {
        return Err(format!("expected at most {MAX_TOOLS_BYTES} bytes"));
    }
    AllowedTools::parse_list(text).map_err(|error| error.to_string())
}

/// Returns the number of days until a new token expires.
///
/// # Errors
/// The text is not a number from 1 to [`MAX_LIFETIME_DAYS`].
pub fn parse_days(text: &str) -> Result<u32, String> {
    let days = text.parse::<u32>().ok();
    days.filter(|days| (1..=MAX_LIFETIME_DAYS).contains(days))
        .ok_or_else(|| format!("expected a number of days from 1 to {MAX_LIFETIME_DAYS}"))
}

/// Returns the time at which a token expires that is valid for this number of days.
#[must_use]
pub fn expiry_after_days(days: u32) -> Timestamp {
    Timestamp::now().plus(DAY * days)
}

/// Returns the status of a token: `valid`, `expired` or `revoked`.
#[must_use]
pub fn status(token: &AccessToken) -> &'static str {
    let now = Timestamp::now();
    let is_expired = token.expires_at.is_some_and(|expiry| expiry <= now);
    match (token.revoked_at, is_expired) {
        (Some(_), _) => "revoked",
        (None, true) => "expired",
        (None, false) => "valid",
    }
}

/// The name and the permission of a token that is to be created.
#[derive(Debug, Clone)]
pub struct NewAccessToken {
    /// The name, unique among all tokens, including revoked ones.
    pub name: String,
    /// The scope.
    pub scope: Scope,
    /// The users on whose behalf the holder may act.
    pub users: Users,
    /// The tools that the holder may see and call.
    pub tools: AllowedTools,
    /// When the token expires; `None` for never.
    pub expires_at: Option<Timestamp>,
}

/// A token that was created.
pub struct CreatedToken {
    /// The record in the store.
    pub record: AccessToken,
    /// The token itself, which cannot be read again.
    pub token: NewToken,
}

/// Creates a token in the store. `configured` are the permissions of the tokens of the
/// configuration.
///
/// # Errors
/// `creator` does not include the scope `admin`; the token would grant more than `creator` has; the
/// name, the user or the expiry is invalid; another token has the name; the store cannot be
/// written.
pub async fn create(
    store: &dyn Store,
    creator: &AccessGrant,
    configured: &[AccessGrant],
    new_token: NewAccessToken,
) -> Result<CreatedToken, TokenError> {
    let NewAccessToken {
        name: requested_name,
        scope,
        users,
        tools,
        expires_at,
    } = new_token;
    require_scope(creator, Scope::Admin)?;
    let name =
        parse_name(&requested_name).map_err(|message| TokenError::invalid("name", message))?;
    if let Users::SingleUser(user) = &users {
        parse_user(user).map_err(|message| TokenError::invalid("user", message))?;
    }
    // `admin` is the highest scope, so the creator has every scope.
    check_users(creator, &users)?;
    check_tools(creator, &tools)?;
    check_expiry(store, creator, expires_at).await?;
    if configured.iter().any(|grant| grant.name == name) {
        return Err(TokenError::ConfiguredName { name });
    }
    let token = NewToken::generate();
    let mut scopes = vec![scope.as_str().to_owned()];
    scopes.extend(users.to_entry_word());
    scopes.extend(tools.to_entry_word());
    let record = AccessToken {
        hash: token.hash(),
        name,
        scopes,
        created_at: Timestamp::now(),
        expires_at,
        last_used_at: None,
        revoked_at: None,
    };
    store.insert_access_token(&record).await.map_err(|error| {
        if error.is_conflict() {
            let name = record.name.clone();
            TokenError::NameTaken { name }
        } else {
            TokenError::Store(error)
        }
    })?;
    tracing::info!(
        token.name = record.name,
        %scope,
        created_by = %creator.principal(),
        "Created an access token"
    );
    Ok(CreatedToken { record, token })
}

/// Checks that the users of a new token are users for whom its creator may act. Without a
/// restriction to one user, a creator with the scope `admin` may act for every user.
fn check_users(creator: &AccessGrant, users: &Users) -> Result<(), TokenError> {
    match (creator.only_user(), users) {
        (None, _) => Ok(()),
        (Some(only_user), Users::SingleUser(user)) if user == only_user => Ok(()),
        (Some(only_user), _) => {
            let message = format!(
                "your access is for the user '{only_user}' only: the token must be for this user, \
                 too"
            );
            Err(TokenError::exceeds_grant("user", message))
        }
    }
}

fn check_tools(creator: &AccessGrant, tools: &AllowedTools) -> Result<(), TokenError> {
    if creator.tools.includes(tools) {
        return Ok(());
    }
    let message = "your access has a list of tools: list only tools that your list contains";
    Err(TokenError::exceeds_grant("tools", message))
}

async fn check_expiry(
    store: &dyn Store,
    creator: &AccessGrant,
    expires_at: Option<Timestamp>,
) -> Result<(), TokenError> {
    let Some(latest) = latest_expiry(store, creator).await? else {
        return Ok(());
    };
    if expires_at.is_some_and(|expiry| expiry <= latest) {
        return Ok(());
    }
    let message = format!(
        "your own access token expires at {}: the new token must not be valid for longer",
        format_timestamp(latest)
    );
    Err(TokenError::exceeds_grant("expiry", message))
}

/// Returns the latest time at which the tokens that `creator` creates may expire; `None` if they
/// may be valid forever.
///
/// # Errors
/// `creator` is a token of the store that no longer exists or is no longer valid; the store cannot
/// be read.
pub async fn latest_expiry(
    store: &dyn Store,
    creator: &AccessGrant,
) -> Result<Option<Timestamp>, TokenError> {
    match creator.holder {
        GrantHolder::LocalUser | GrantHolder::ConfiguredToken => Ok(None),
        GrantHolder::StoredToken => {
            // The token may have been revoked since the request was admitted.
            let own_token = find_by_name(store, &creator.name).await?;
            if status(&own_token) != "valid" {
                let name = own_token.name;
                return Err(TokenError::Unknown { name });
            }
            Ok(own_token.expires_at)
        }
    }
}

async fn find_by_name(store: &dyn Store, name: &str) -> Result<AccessToken, TokenError> {
    let tokens = store.access_tokens().await?;
    let found_token = tokens.into_iter().find(|token| token.name == name);
    found_token.ok_or_else(|| TokenError::Unknown {
        name: name.to_owned(),
    })
}

/// Returns whether `viewer` may see a token with the permission `grant`. A grant that is restricted
/// to one user sees the tokens for this user only.
fn may_see(viewer: &AccessGrant, grant: Option<&AccessGrant>) -> bool {
    viewer
        .only_user()
        .is_none_or(|only_user| grant.is_some_and(|grant| grant.only_user() == Some(only_user)))
}

fn may_see_stored(viewer: &AccessGrant, token: &AccessToken) -> bool {
    may_see(viewer, AccessGrant::from_stored_token(token).as_ref())
}

/// Lists the tokens of the store that `viewer` may see, ordered by name.
///
/// # Errors
/// `viewer` does not include the scope `admin`; the store cannot be read.
pub async fn list(store: &dyn Store, viewer: &AccessGrant) -> Result<Vec<AccessToken>, TokenError> {
    require_scope(viewer, Scope::Admin)?;
    let mut tokens = store.access_tokens().await?;
    tokens.retain(|token| may_see_stored(viewer, token));
    Ok(tokens)
}

/// Lists the permissions of the tokens of the configuration that `viewer` may see.
///
/// # Errors
/// `viewer` does not include the scope `admin`.
pub fn list_configured(
    gate: Option<&AccessGate>,
    viewer: &AccessGrant,
) -> Result<Vec<AccessGrant>, TokenError> {
    require_scope(viewer, Scope::Admin)?;
    let mut grants = gate.map(AccessGate::configured_grants).unwrap_or_default();
    grants.retain(|grant| may_see(viewer, Some(grant)));
    Ok(grants)
}

/// Returns the token of the store with this name.
///
/// # Errors
/// `viewer` does not include the scope `admin`, or sees no such token; the store cannot be read.
pub async fn find(
    store: &dyn Store,
    viewer: &AccessGrant,
    name: &str,
) -> Result<AccessToken, TokenError> {
    require_scope(viewer, Scope::Admin)?;
    let token = find_by_name(store, name).await?;
    if may_see_stored(viewer, &token) {
        Ok(token)
    } else {
        Err(TokenError::Unknown { name: token.name })
    }
}

/// Revokes the token of the store with this name. A revoked token stays revoked.
///
/// # Errors
/// `grant` does not include the scope `admin`, or sees no such token; the store cannot be written.
pub async fn revoke(store: &dyn Store, grant: &AccessGrant, name: &str) -> Result<(), TokenError> {
    let token = find(store, grant, name).await?;
    store
        .revoke_access_token(&token.name, Timestamp::now())
        .await?;
    tracing::info!(
        token.name = token.name,
        revoked_by = %grant.principal(),
        "Revoked an access token"
    );
    Ok(())
}

/// The tools that the holder of a token sees.
pub struct SeenTools {
    /// The tools.
    pub tools: Vec<SeenTool>,
    /// The MCP servers whose tools could not be listed.
    pub unavailable_servers: Vec<UnavailableServer>,
}

/// A tool that the holder of a token sees over the REST API.
pub struct SeenTool {
    /// The tool.
    pub tool: Arc<RegisteredTool>,
    /// Whether the tool is also offered to MCP clients (`mcp.tools`).
    pub is_offered: bool,
}

impl SeenTools {
    /// Returns the number of tools that are offered to MCP clients.
    #[must_use]
    pub fn count_offered(&self) -> usize {
        self.tools.iter().filter(|seen| seen.is_offered).count()
    }
}

/// Lists the tools that the holder of `grant` sees.
pub async fn list_seen_tools(gateway: &Gateway, grant: &AccessGrant) -> SeenTools {
    let visibility = Visibility::new(grant.tools.clone());
    let context = CallContext {
        may_use: Some(visibility.filter()),
        user: grant.only_user().map(str::to_owned),
        is_user_verified: grant.only_user().is_some(),
        principal: Some(grant.principal()),
        ..CallContext::default()
    };
    let user_visibility = visibility.restrict_to_user(grant.only_user());
    let listing = gateway.list_visible_tools(&context, &user_visibility);
    let mut visible_tools = Box::pin(listing).await;
    let offered_tools = gateway.upstreams().tools_for_clients().clone();
    let offered_visibility = user_visibility.restrict_to_offered(offered_tools);
    let seen_tool = |tool: Arc<RegisteredTool>| SeenTool {
        is_offered: offered_visibility.admits(&tool, tool.name().as_str()),
        tool,
    };
    let tools = std::mem::take(&mut visible_tools.tools);
    SeenTools {
        tools: tools.into_iter().map(seen_tool).collect(),
        unavailable_servers: visible_tools.unavailable_servers(),
    }
}

#[cfg(test)]
mod tests {
    use pillion_store::{SqlStore, StoreLocation, StoreOptions};

    use super::*;

    async fn memory_store() -> SqlStore {
        let options = StoreOptions::new(StoreLocation::Memory);
        SqlStore::open(&options).await.unwrap()
    }

    fn grant(name: &str, scope: Scope, users: Users, tools: &str) -> AccessGrant {
        let tools = match tools {
            "" => AllowedTools::default(),
            tools => AllowedTools::parse_list(tools).unwrap(),
        };
        AccessGrant {
            name: name.to_owned(),
            holder: GrantHolder::ConfiguredToken,
            scope,
            users,
            tools,
        }
    }

    fn new_token(name: &str, users: Users, tools: &str) -> NewAccessToken {
        let AccessGrant { scope, tools, .. } = grant(name, Scope::Execute, users.clone(), tools);
        NewAccessToken {
            name: name.to_owned(),
            scope,
            users,
            tools,
            expires_at: None,
        }
    }

    fn only(user: &str) -> Users {
        Users::SingleUser(user.to_owned())
    }

    /// Creates a token. Returns the name of the value that was rejected, or `""` for another error.
    async fn rejected_field(
        store: &SqlStore,
        creator: &AccessGrant,
        new_token: NewAccessToken,
    ) -> Option<&'static str> {
        let outcome = create(store, creator, &[], new_token).await;
        outcome.err().map(|error| error.field().unwrap_or_default())
    }

    #[tokio::test]
    async fn l3_a_created_token_grants_what_was_requested_and_is_stored_as_a_hash() {
        let store = memory_store().await;
        let operator = AccessGrant::for_local_user(0);
        let request = new_token("bot", only("alice"), "get_time,far_*");
        let created = create(&store, &operator, &[], request).await.ok().unwrap();
        let text = created.token.expose();
        assert!(text.starts_with("pln_"));
        let listed = list(&store, &operator).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert!(!format!("{listed:?}").contains(text));
        let words = ["execute", "user=alice", "tools=get_time,far_*"];
        assert_eq!(listed[0].scopes, words);
        assert_eq!(status(&listed[0]), "valid");
        let stored_grant = AccessGrant::from_stored_token(&listed[0]).unwrap();
        assert_eq!(stored_grant.only_user(), Some("alice"));
        assert!(stored_grant.tools.admits("far_roll") && !stored_grant.tools.admits("other"));
        revoke(&store, &operator, "bot").await.unwrap();
        assert_eq!(
            status(&find(&store, &operator, "bot").await.unwrap()),
            "revoked"
        );
        let unknown = revoke(&store, &operator, "unknown").await.unwrap_err();
        assert!(matches!(unknown, TokenError::Unknown { .. }), "{unknown}");
    }

    #[tokio::test]
    async fn l3_a_name_is_used_once() {
        let store = memory_store().await;
        let operator = AccessGrant::for_local_user(0);
        let configured = [grant("ci", Scope::Read, Users::NoUser, "")];
        for (name, message) in [
            (
                "ci",
                Some("the configuration already has a token named 'ci'"),
            ),
            ("bot", None),
            ("bot", Some("a token named 'bot' already exists")),
            ("a b", Some("a token name must have 1 to 100 characters")),
        ] {
            let request = new_token(name, Users::NoUser, "");
            let error = create(&store, &operator, &configured, request).await.err();
            match (error, message) {
                (None, None) => {}
                (Some(error), Some(message)) => {
                    assert!(error.to_string().starts_with(message), "{error}");
                    assert_eq!(error.field(), Some("name"));
                }
                (error, _) => panic!("{name}: {error:?}"),
            }
        }
    }

    #[tokio::test]
    async fn l3_a_token_creates_no_token_that_grants_more() {
        let store = memory_store().await;
        for scope in [Scope::Read, Scope::Execute, Scope::Approve] {
            let creator = grant("weak", scope, Users::AnyUser, "");
            let request = new_token("x", Users::NoUser, "");
            assert_eq!(rejected_field(&store, &creator, request).await, Some(""));
        }
        let hers = grant("hers", Scope::Admin, only("alice"), "");
        for users in [Users::NoUser, Users::AnyUser, only("bob")] {
            let request = new_token("x", users, "");
            assert_eq!(rejected_field(&store, &hers, request).await, Some("user"));
        }
        let request = new_token("alice-1", only("alice"), "");
        assert_eq!(rejected_field(&store, &hers, request).await, None);
        let few = grant("few", Scope::Admin, Users::NoUser, "get_time,far_*");
        for tools in ["", "*", "fa*", "get_time,roll_dice"] {
            let request = new_token("x", Users::NoUser, tools);
            assert_eq!(rejected_field(&store, &few, request).await, Some("tools"));
        }
        let request = new_token("few-1", Users::AnyUser, "far_r*,get_time");
        assert_eq!(rejected_field(&store, &few, request).await, None);
        assert_eq!(store_names(&store).await, ["alice-1", "few-1"]);
    }

    async fn store_names(store: &SqlStore) -> Vec<String> {
        let tokens = list(store, &AccessGrant::for_local_user(0)).await.unwrap();
        tokens.into_iter().map(|token| token.name).collect()
    }

    #[tokio::test]
    async fn l3_a_token_creates_no_token_that_is_valid_for_longer() {
        let store = memory_store().await;
        let operator = AccessGrant::for_local_user(0);
        let request = NewAccessToken {
            scope: Scope::Admin,
            expires_at: Some(expiry_after_days(10)),
            ..new_token("temporary", Users::NoUser, "")
        };
        let created = create(&store, &operator, &[], request).await.ok().unwrap();
        let creator = AccessGrant::from_stored_token(&created.record).unwrap();
        for expires_at in [None, Some(expiry_after_days(11))] {
            let request = NewAccessToken {
                expires_at,
                ..new_token("x", Users::NoUser, "")
            };
            assert_eq!(
                rejected_field(&store, &creator, request).await,
                Some("expiry")
            );
        }
        let request = NewAccessToken {
            expires_at: Some(expiry_after_days(9)),
            ..new_token("shorter", Users::NoUser, "")
        };
        assert_eq!(rejected_field(&store, &creator, request).await, None);
        revoke(&store, &operator, "temporary").await.unwrap();
        let request = NewAccessToken {
            expires_at: Some(expiry_after_days(9)),
            ..new_token("late", Users::NoUser, "")
        };
        assert_eq!(rejected_field(&store, &creator, request).await, Some(""));
    }

    #[tokio::test]
    async fn l3_a_token_for_one_user_sees_and_revokes_no_other_tokens() {
        let store = memory_store().await;
        let operator = AccessGrant::for_local_user(0);
        for (name, users) in [
            ("hers", only("alice")),
            ("his", only("bob")),
            ("all", Users::AnyUser),
        ] {
            let request = new_token(name, users, "");
            assert_eq!(rejected_field(&store, &operator, request).await, None);
        }
        let alice = grant("alice", Scope::Admin, only("alice"), "");
        let visible = list(&store, &alice).await.unwrap();
        assert_eq!(visible.len(), 1);
        for name in ["his", "all"] {
            assert!(find(&store, &alice, name).await.is_err());
            assert!(revoke(&store, &alice, name).await.is_err());
        }
        revoke(&store, &alice, "hers").await.unwrap();
        let reader = grant("reader", Scope::Approve, Users::NoUser, "");
        assert!(list(&store, &reader).await.is_err());
        assert!(list_configured(None, &reader).is_err());
        assert!(revoke(&store, &reader, "his").await.is_err());
    }

    #[test]
    fn l3_values_of_a_token_are_checked() {
        assert_eq!(parse_days("90"), Ok(90));
        for text in ["0", "36501", "-1", "1.5", "x", ""] {
            assert!(parse_days(text).is_err(), "{text}");
        }
        assert!(parse_tools("get_time,far_*").is_ok());
        let long_list = "a,".repeat(MAX_TOOLS_BYTES);
        assert!(parse_tools(&long_list).unwrap_err().contains("at most"));
        assert!(parse_user("Ada Lovelace").is_ok());
        assert!(parse_user(&"u".repeat(257)).is_err());
    }
}
