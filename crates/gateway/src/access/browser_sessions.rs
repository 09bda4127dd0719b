//! Sessions of the browsers that are signed in to the console.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pillion_core::digest::sha256_hex;
use pillion_core::store::Timestamp;
use secrecy::SecretString;
use uuid::Uuid;

use super::{AccessGrant, NewToken};

/// Time for which a sign-in link is valid.
pub const SIGN_IN_CODE_TTL: Duration = Duration::from_secs(60);

/// Maximum number of sessions. A new session replaces the session that was unused for longest.
const MAX_SESSIONS: usize = 1_000;

/// Maximum number of sessions of one principal, so that the holder of one token cannot end the
/// sessions of all others. A new session replaces the principal's least recently used session.
const MAX_SESSIONS_PER_PRINCIPAL: usize = 32;

/// Maximum number of unused sign-in codes. A new code replaces the oldest code.
const MAX_CODES: usize = 100;

/// On whose behalf a browser uses the console.
#[derive(Debug, Clone)]
pub struct SessionOwner {
    /// The permission of the client that created the sign-in link, or of the access token.
    pub grant: AccessGrant,
    /// The name of the person, which is recorded with decisions on approvals.
    pub user: Option<String>,
    /// The access token, if the browser signed in with one. A session ends when its token becomes
    /// invalid.
    pub token: Option<SecretString>,
}

/// A session of one browser.
pub struct BrowserSession {
    /// A random ID that identifies the session in lists. The ID does not sign a browser in.
    pub id: String,
    /// On whose behalf the browser uses the console.
    pub owner: SessionOwner,
    /// The value that each form of the session must repeat (protection against cross-site request
    /// forgery).
    pub csrf_token: String,
}

impl fmt::Debug for BrowserSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserSession")
            .field("id", &self.id)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// An entry of the list of sessions, without the secrets of the session.
#[derive(Debug, Clone)]
pub struct SessionSummary {
    /// The ID with which the session can be ended.
    pub id: String,
    /// The permission of the session.
    pub grant: AccessGrant,
    /// The name of the person, if known.
    pub user: Option<String>,
    /// When the browser signed in.
    pub began_at: Timestamp,
    /// When the browser sent its last request.
    pub last_used_at: Timestamp,
}

/// For how long a browser stays signed in.
#[derive(Debug, Clone, Copy)]
pub struct SessionLifetime {
    /// Time after the last request of the browser.
    pub idle: Duration,
    /// Time after the sign-in.
    pub absolute: Duration,
}

/// The sessions, and the codes of the sign-in links, by the hashes of their secrets: the duration of a
/// lookup by hash reveals nothing about other secrets. Both are in memory, so a restart of the sidecar
/// signs all browsers out.
#[derive(Default)]
pub struct BrowserSessions {
    codes: Mutex<HashMap<String, SignInCode>>,
    sessions: Mutex<HashMap<String, SessionEntry>>,
}

struct SignInCode {
    owner: SessionOwner,
    created_at: Instant,
}

struct SessionEntry {
    session: Arc<BrowserSession>,
    created_at: Instant,
    last_used_at: Instant,
}

impl SessionEntry {
    fn is_expired(&self, lifetime: SessionLifetime) -> bool {
        self.last_used_at.elapsed() >= lifetime.idle
            || self.created_at.elapsed() >= lifetime.absolute
    }

    fn summarize(&self, now: Timestamp) -> SessionSummary {
        let BrowserSession { id, owner, .. } = &*self.session;
        SessionSummary {
            id: id.clone(),
            grant: owner.grant.clone(),
            user: owner.user.clone(),
            began_at: now.minus(self.created_at.elapsed()),
            last_used_at: now.minus(self.last_used_at.elapsed()),
        }
    }
}

impl BrowserSessions {
    /// Creates the code of a sign-in link, which is good for one session within
    /// [`SIGN_IN_CODE_TTL`].
    pub fn create_code(&self, owner: SessionOwner) -> String {
        let code = NewToken::generate();
        let entry = SignInCode {
            owner,
            created_at: Instant::now(),
        };
        let mut codes = self.codes.lock();
        codes.retain(|_, code| code.created_at.elapsed() < SIGN_IN_CODE_TTL);
        insert_limited(&mut codes, MAX_CODES, code.hash(), entry, |code| {
            code.created_at
        });
        code.expose().to_owned()
    }

    /// Uses up the code of a sign-in link. Returns `None` if the code is unknown, used or expired.
    pub fn redeem_code(&self, code: &str) -> Option<SessionOwner> {
        let code = self.codes.lock().remove(&sha256_hex(code))?;
        (code.created_at.elapsed() < SIGN_IN_CODE_TTL).then_some(code.owner)
    }

    /// Begins a session. Returns the value of the browser's cookie. If the principal has the
    /// maximum number of sessions, ends the least recently used one.
    pub fn begin(&self, owner: SessionOwner) -> String {
        let cookie = NewToken::generate();
        let csrf_token = NewToken::generate().expose().to_owned();
        let now = Instant::now();
        let principal = owner.grant.principal();
        let entry = SessionEntry {
            session: Arc::new(BrowserSession {
                id: Uuid::new_v4().to_string(),
                owner,
                csrf_token,
            }),
            created_at: now,
            last_used_at: now,
        };
        let mut sessions = self.sessions.lock();
        limit_sessions(&mut sessions, &principal);
        insert_limited(&mut sessions, MAX_SESSIONS, cookie.hash(), entry, |entry| {
            entry.last_used_at
        });
        cookie.expose().to_owned()
    }

    /// Returns the session with this cookie if it has not expired, and marks the session as used.
    pub fn find(&self, cookie: &str, lifetime: SessionLifetime) -> Option<Arc<BrowserSession>> {
        let cookie_hash = sha256_hex(cookie);
        let mut sessions = self.sessions.lock();
        let entry = sessions.get_mut(&cookie_hash)?;
        if entry.is_expired(lifetime) {
            sessions.remove(&cookie_hash);
            return None;
        }
        entry.last_used_at = Instant::now();
        Some(Arc::clone(&entry.session))
    }

    /// Returns the session with this cookie like [`find`](Self::find), without marking the session as
    /// used.
    pub fn peek(&self, cookie: &str, lifetime: SessionLifetime) -> Option<Arc<BrowserSession>> {
        let sessions = self.sessions.lock();
        let entry = sessions.get(&sha256_hex(cookie))?;
        (!entry.is_expired(lifetime)).then(|| Arc::clone(&entry.session))
    }

    /// Ends the session with this cookie, if there is one.
    pub fn end(&self, cookie: &str) {
        self.sessions.lock().remove(&sha256_hex(cookie));
    }

    /// Returns the sessions that have not expired, the most recently used ones first.
    pub fn list(&self, lifetime: SessionLifetime) -> Vec<SessionSummary> {
        let now = Timestamp::now();
        let sessions = self.sessions.lock();
        let open_sessions = sessions
            .values()
            .filter(|entry| !entry.is_expired(lifetime));
        let mut list: Vec<_> = open_sessions.map(|entry| entry.summarize(now)).collect();
        list.sort_by(|a, b| {
            let by_use = b.last_used_at.cmp(&a.last_used_at);
            by_use.then_with(|| a.id.cmp(&b.id))
        });
        list
    }

    /// Ends the session with this ID. Returns whether there was one.
    pub fn end_by_id(&self, id: &str) -> bool {
        let mut sessions = self.sessions.lock();
        let previous_count = sessions.len();
        sessions.retain(|_, entry| entry.session.id != id);
        sessions.len() < previous_count
    }
}

impl fmt::Debug for BrowserSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserSessions").finish_non_exhaustive()
    }
}

/// Removes the least recently used session of a principal that has the maximum number of sessions.
fn limit_sessions(sessions: &mut HashMap<String, SessionEntry>, principal: &str) {
    let own_sessions = sessions
        .iter()
        .filter(|(_, entry)| entry.session.owner.grant.principal() == principal);
    let mut by_use: Vec<_> = own_sessions
        .map(|(key, entry)| (entry.last_used_at, key.clone()))
        .collect();
    if by_use.len() < MAX_SESSIONS_PER_PRINCIPAL {
        return;
    }
    by_use.sort_unstable();
    if let Some((_, key)) = by_use.first() {
        sessions.remove(key);
    }
}

/// Inserts an entry. If the map then has more than `max` entries, removes the entry with the
/// earliest `time`.
fn insert_limited<V>(
    entries: &mut HashMap<String, V>,
    max: usize,
    key: String,
    entry: V,
    time: impl Fn(&V) -> Instant,
) {
    entries.insert(key, entry);
    if entries.len() > max {
        let oldest_entry = entries.iter().min_by_key(|(_, entry)| time(entry));
        if let Some(oldest_key) = oldest_entry.map(|(key, _)| key.clone()) {
            entries.remove(&oldest_key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{AllowedTools, GrantHolder, Scope, Users};

    const LIFETIME: SessionLifetime = SessionLifetime {
        idle: Duration::from_secs(60),
        absolute: Duration::from_secs(60),
    };

    fn owner(name: &str) -> SessionOwner {
        SessionOwner {
            grant: AccessGrant {
                name: name.to_owned(),
                holder: GrantHolder::LocalUser,
                scope: Scope::Admin,
                users: Users::AnyUser,
                tools: AllowedTools::default(),
            },
            user: None,
            token: None,
        }
    }

    #[test]
    fn a_code_is_good_once() {
        let sessions = BrowserSessions::default();
        let code = sessions.create_code(owner("uid:1"));
        assert_eq!(sessions.redeem_code(&code).unwrap().grant.name, "uid:1");
        assert!(sessions.redeem_code(&code).is_none());
        assert!(sessions.redeem_code("").is_none());
    }

    #[test]
    fn a_session_ends_when_idle_at_its_maximum_age_and_at_sign_out() {
        let sessions = BrowserSessions::default();
        let cookie = sessions.begin(owner("uid:1"));
        let session = sessions.find(&cookie, LIFETIME).unwrap();
        assert_ne!(session.csrf_token, cookie);
        assert!(sessions.find(&session.csrf_token, LIFETIME).is_none());
        for lifetime in [
            SessionLifetime {
                idle: Duration::ZERO,
                ..LIFETIME
            },
            SessionLifetime {
                absolute: Duration::ZERO,
                ..LIFETIME
            },
        ] {
            let cookie = sessions.begin(owner("uid:1"));
            assert!(sessions.peek(&cookie, lifetime).is_none());
            assert!(sessions.find(&cookie, lifetime).is_none());
            assert!(sessions.find(&cookie, LIFETIME).is_none());
        }
        sessions.end(&cookie);
        assert!(sessions.find(&cookie, LIFETIME).is_none());
    }

    #[test]
    fn a_new_session_replaces_the_session_that_was_unused_for_longest() {
        let sessions = BrowserSessions::default();
        let cookies: Vec<_> = (0..MAX_SESSIONS)
            .map(|number| sessions.begin(owner(&format!("uid:{number}"))))
            .collect();
        assert!(sessions.find(&cookies[0], LIFETIME).is_some());
        sessions.begin(owner("uid:new"));
        assert!(sessions.peek(&cookies[0], LIFETIME).is_some());
        assert!(sessions.peek(&cookies[1], LIFETIME).is_none());
        assert_eq!(sessions.sessions.lock().len(), MAX_SESSIONS);
    }

    #[test]
    fn a_principal_has_a_limited_number_of_sessions() {
        let sessions = BrowserSessions::default();
        let other_cookie = sessions.begin(owner("uid:2"));
        let cookies: Vec<_> = (0..MAX_SESSIONS_PER_PRINCIPAL)
            .map(|_| sessions.begin(owner("uid:1")))
            .collect();
        assert!(sessions.find(&cookies[0], LIFETIME).is_some());
        let new_cookie = sessions.begin(owner("uid:1"));
        let is_open = |cookie: &str| sessions.peek(cookie, LIFETIME).is_some();
        assert!(is_open(&other_cookie) && is_open(&new_cookie) && is_open(&cookies[0]));
        assert!(!is_open(&cookies[1]) && is_open(&cookies[2]));
        let count = sessions.list(LIFETIME).len();
        assert_eq!(count, MAX_SESSIONS_PER_PRINCIPAL + 1);
    }

    #[test]
    fn a_session_is_listed_without_its_secrets_and_ended_by_its_id() {
        let sessions = BrowserSessions::default();
        let cookie = sessions.begin(owner("uid:1"));
        let other_cookie = sessions.begin(owner("uid:2"));
        let session = sessions.peek(&cookie, LIFETIME).unwrap();
        let list = sessions.list(LIFETIME);
        assert_eq!(list.len(), 2);
        let text = format!("{list:?}");
        for secret in [&cookie, &other_cookie, &session.csrf_token] {
            assert!(!text.contains(secret.as_str()), "{text}");
        }
        let expired = SessionLifetime {
            idle: Duration::ZERO,
            ..LIFETIME
        };
        assert!(sessions.list(expired).is_empty());
        assert!(sessions.find(&session.id, LIFETIME).is_none());
        assert!(!sessions.end_by_id(&cookie));
        assert!(sessions.end_by_id(&session.id));
        assert!(!sessions.end_by_id(&session.id));
        assert!(sessions.peek(&cookie, LIFETIME).is_none());
        assert!(sessions.peek(&other_cookie, LIFETIME).is_some());
    }

    #[test]
    fn no_secret_is_in_the_debug_output() {
        let sessions = BrowserSessions::default();
        let cookie = sessions.begin(owner("uid:1"));
        let session = sessions.find(&cookie, LIFETIME).unwrap();
        let text = format!("{sessions:?} {session:?}");
        assert!(
            !text.contains(&session.csrf_token) && !text.contains(&cookie),
            "{text}"
        );
    }
}
