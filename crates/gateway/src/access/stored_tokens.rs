use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use pillion_core::digest::sha256_hex;
use pillion_core::store::{AccessToken, AccessTokenStore, StoreError, Timestamp};
use pillion_deadline::timeout;
use uuid::Uuid;

use super::{
    AccessGrant, AllowedTools, CheckFuture, GrantHolder, Scope, TokenCheck, TokenCheckError,
    TokenList, Users,
};

/// Minimum interval between two writes of a token's last use to the store.
const LAST_USED_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum time for looking up a token. The lookup has a separate timeout, because the deadline of
/// the request's calls is not known yet.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time that a request waits for the write of its token's last use.
const RECORDING_TIMEOUT: Duration = Duration::from_millis(100);

/// The prefix of all tokens, which makes a leaked token recognizable.
const TOKEN_PREFIX: &str = "pln_";

/// A new token, which is shown once and never stored.
pub struct NewToken(String);

impl NewToken {
    /// Generates a token with 244 random bits.
    pub fn generate() -> Self {
        let ids = [Uuid::new_v4(), Uuid::new_v4()];
        let text = BASE64_URL_SAFE_NO_PAD.encode(ids.map(Uuid::into_bytes).concat());
        Self(format!("{TOKEN_PREFIX}{text}"))
    }

    /// Returns the token in plain text, to show it to its owner once.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the hash of the token, which is stored instead of the token.
    pub fn hash(&self) -> String {
        sha256_hex(&self.0)
    }
}

/// Checks tokens against the tokens in the configuration and the tokens in the store.
///
/// A token is looked up by its hash, so the duration of the lookup reveals nothing about other
/// tokens. A revoked token is rejected from the next request on.
pub struct StoredTokens {
    list: TokenList,
    store: Arc<dyn AccessTokenStore>,
    /// The time at which the use of each token was last recorded, by the token's hash.
    last_recorded_uses: Mutex<HashMap<String, Timestamp>>,
}

impl StoredTokens {
    pub(crate) fn new(list: TokenList, store: Arc<dyn AccessTokenStore>) -> Self {
        Self {
            list,
            store,
            last_recorded_uses: Mutex::default(),
        }
    }

    async fn find(&self, token: &str) -> Result<Option<AccessGrant>, TokenCheckError> {
        let hash = sha256_hex(token);
        let lookup_result = timeout(LOOKUP_TIMEOUT, self.store.find_access_token(&hash)).await;
        let result = lookup_result.unwrap_or_else(|_| {
            let seconds = LOOKUP_TIMEOUT.as_secs();
            let message = format!("the store did not look up an access token within {seconds} s");
            Err(StoreError::unavailable(message))
        });
        let stored_token = result.map_err(|error| TokenCheckError(Box::new(error)))?;
        let now = Timestamp::now();
        let Some(record) = stored_token.filter(|token| {
            token.revoked_at.is_none() && token.expires_at.is_none_or(|expires_at| expires_at > now)
        }) else {
            return Ok(None);
        };
        let Some(grant) = AccessGrant::from_stored_token(&record) else {
            return Ok(None);
        };
        if self.should_record_use(&hash, now) {
            let store = Arc::clone(&self.store);
            let recording_task = tokio::spawn(async move {
                if let Err(error) = store.mark_access_token_used(&hash, now).await {
                    tracing::debug!(%error, "Cannot record when an access token was last used");
                }
            });
            // After the timeout, the request stops waiting, and the write of the token's last use
            // continues.
            drop(timeout(RECORDING_TIMEOUT, recording_task).await);
        }
        Ok(Some(grant))
    }

    fn should_record_use(&self, hash: &str, now: Timestamp) -> bool {
        let mut last_recorded_uses = self.last_recorded_uses.lock();
        match last_recorded_uses.get(hash) {
            Some(last_use) if last_use.plus(LAST_USED_INTERVAL) > now => false,
            _ => {
                // Entries of the map are never removed, because the map has at most one entry per
                // token.
                last_recorded_uses.insert(hash.to_owned(), now);
                true
            }
        }
    }
}

impl TokenCheck for StoredTokens {
    fn check<'a>(&'a self, token: &'a str) -> CheckFuture<'a> {
        Box::pin(async move {
            match self.list.check(token).await? {
                Some(grant) => Ok(Some(grant)),
                None => self.find(token).await,
            }
        })
    }

    fn configured_grants(&self) -> Vec<AccessGrant> {
        self.list.grants()
    }
}

impl AccessGrant {
    /// Returns the permission of a token of the store, even if the token has expired or is revoked;
    /// `None` if the record cannot be read. The sidecar rejects such a token: with an unreadable
    /// list of tools, for example, the token would otherwise allow all tools.
    #[must_use]
    pub fn from_stored_token(record: &AccessToken) -> Option<Self> {
        let words = || record.scopes.iter().map(String::as_str);
        let users = words().find_map(Users::parse);
        let tools = words().find_map(AllowedTools::parse).transpose().ok()?;
        Some(Self {
            name: record.name.clone(),
            holder: GrantHolder::StoredToken,
            scope: words().filter_map(Scope::parse).max()?,
            users: users.unwrap_or_default(),
            tools: tools.unwrap_or_default(),
        })
    }
}

impl fmt::Debug for StoredTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredTokens")
            .field("list", &self.list)
            .finish_non_exhaustive()
    }
}
