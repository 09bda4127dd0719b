use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use pillion_core::store::{AccessTokenStore, StoreError, Timestamp};
use pillion_deadline::timeout;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{
    AccessGrant, AllowedTools, CheckFuture, GrantHolder, Scope, TokenCheck, TokenCheckError,
    TokenList, Users,
};

/// Interval at which the last use of a token is recorded.
const LAST_USED_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum time for looking up a token. The deadline of the request's calls is not known yet.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time that a request waits until the use of its token is recorded.
const MAX_MARK_WAIT: Duration = Duration::from_millis(100);

/// The prefix of all tokens, which makes a leaked token recognizable.
const TOKEN_PREFIX: &str = "pln_";

/// A new token, which is shown once and never stored.
pub struct NewToken(String);

impl NewToken {
    /// Generates a token with 244 random bits.
    pub fn generate() -> Self {
        let mut bytes = Vec::with_capacity(32);
        bytes.extend_from_slice(Uuid::new_v4().as_bytes());
        bytes.extend_from_slice(Uuid::new_v4().as_bytes());
        Self(format!(
            "{TOKEN_PREFIX}{}",
            BASE64_URL_SAFE_NO_PAD.encode(bytes)
        ))
    }

    /// Returns the token, for its owner.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the hash that is stored.
    pub fn hash(&self) -> String {
        token_hash(&self.0)
    }
}

/// The tokens of the store, in addition to those of the configuration.
///
/// A token is looked up by its hash, so the time of the lookup reveals nothing about other tokens.
/// A revoked token is rejected from the next request on.
pub struct StoredTokens {
    list: TokenList,
    store: Arc<dyn AccessTokenStore>,
    /// For each token's hash, when its use was last recorded.
    noted: Mutex<HashMap<String, Timestamp>>,
}

impl StoredTokens {
    pub(crate) fn new(list: TokenList, store: Arc<dyn AccessTokenStore>) -> Self {
        Self {
            list,
            store,
            noted: Mutex::default(),
        }
    }

    async fn find(&self, token: &str) -> Result<Option<AccessGrant>, TokenCheckError> {
        let hash = token_hash(token);
        let lookup = timeout(LOOKUP_TIMEOUT, self.store.access_token(&hash)).await;
        let result = lookup.unwrap_or_else(|_| {
            let message = "the store did not respond to the lookup of a token";
            Err(StoreError::unavailable(message))
        });
        let found = result.map_err(|error| TokenCheckError(Box::new(error)))?;
        let now = Timestamp::now();
        let Some(found) = found.filter(|token| {
            token.revoked_at.is_none() && token.expires_at.is_none_or(|at| at > now)
        }) else {
            return Ok(None);
        };
        let users = found.scopes.iter().find_map(|word| Users::parse(word));
        let tools = found
            .scopes
            .iter()
            .find_map(|word| AllowedTools::parse(word));
        let scopes = found.scopes.iter().filter_map(|name| Scope::parse(name));
        // A token with an unreadable list of tools is rejected; otherwise it would allow all tools.
        let (Some(scope), Ok(tools)) = (scopes.max(), tools.transpose()) else {
            return Ok(None);
        };
        if self.should_record_use(&hash, now) {
            let store = Arc::clone(&self.store);
            let mark = tokio::spawn(async move {
                if let Err(error) = store.mark_access_token_used(&hash, now).await {
                    tracing::debug!(%error, "Cannot record when an access token was last used");
                }
            });
            // The write continues after the timeout; only the request stops waiting for it.
            drop(timeout(MAX_MARK_WAIT, mark).await);
        }
        Ok(Some(AccessGrant {
            name: found.name,
            holder: GrantHolder::StoredToken,
            scope,
            users: users.unwrap_or_default(),
            tools: tools.unwrap_or_default(),
        }))
    }

    fn should_record_use(&self, hash: &str, now: Timestamp) -> bool {
        let mut noted = self.noted.lock();
        match noted.get(hash) {
            Some(last) if last.plus(LAST_USED_INTERVAL) > now => false,
            _ => {
                // The map has at most one entry per token.
                noted.insert(hash.to_owned(), now);
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
}

impl fmt::Debug for StoredTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredTokens")
            .field("list", &self.list)
            .finish_non_exhaustive()
    }
}

fn token_hash(token: &str) -> String {
    let hash = Sha256::digest(token.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
