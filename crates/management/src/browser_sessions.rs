//! The sessions of the browsers that are signed in to the console.

use pillion_gateway::Gateway;
use pillion_gateway::access::{AccessGrant, Scope, SessionLifetime, SessionSummary};

use crate::error::{NOT_FOUND, Result, require_scope, route_error};

route_error! {
    /// No session that the client may see has the requested ID.
    #[derive(Debug, thiserror::Error)]
    #[error("There is no such session: it may have ended or expired")]
    pub struct UnknownSession => NOT_FOUND
}

/// Lists the sessions, the most recently used ones first. A grant that is restricted to one user
/// sees the sessions of grants that are restricted to the same user.
///
/// # Errors
/// The grant does not include the scope `admin`.
pub fn list(
    gateway: &Gateway,
    grant: &AccessGrant,
    lifetime: SessionLifetime,
) -> Result<Vec<SessionSummary>> {
    require_scope(grant, Scope::Admin)?;
    let mut sessions = gateway.process().browser_sessions.list(lifetime);
    if let Some(only_user) = grant.only_user() {
        sessions.retain(|session| session.grant.only_user() == Some(only_user));
    }
    Ok(sessions)
}

/// Ends the session with the ID `id`. The browser must sign in again.
///
/// # Errors
/// The grant does not include the scope `admin`, or sees no such session.
pub fn end(
    gateway: &Gateway,
    grant: &AccessGrant,
    lifetime: SessionLifetime,
    id: &str,
) -> Result<()> {
    let sessions = list(gateway, grant, lifetime)?;
    let session = sessions
        .iter()
        .find(|session| session.id == id)
        .ok_or(UnknownSession)?;
    if !gateway.process().browser_sessions.end_by_id(id) {
        return Err(UnknownSession.into());
    }
    tracing::info!(
        principal = %session.grant.principal(),
        ended_by = %grant.principal(),
        "Ended a session of the console"
    );
    Ok(())
}
