//! Everything under `/api/v1/tool-calls`: the call log (requirement F4).

mod entry;
pub(super) mod list;
pub(super) mod show;
pub(super) mod statistics;

use pillion_core::store::{CallFilter, CallStatus, Timestamp};
use serde::Deserialize;

use super::caller::CallerError;
use super::error::RequestError;
use super::parameters::parsed;
use crate::app::App;
use pillion_gateway::access::AccessGrant;
use pillion_gateway::credentials::file_id;

/// The filters of a list of calls.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CallQuery {
    /// Only calls to tools of this MCP server, by id or name.
    server: Option<String>,
    /// Only calls of this tool.
    tool: Option<String>,
    /// Only calls on behalf of this user.
    user: Option<String>,
    /// Only calls made by the composed tool's call with this id.
    #[param(pattern = "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")]
    parent: Option<String>,
    /// Only calls of this status: `pending`, `running`, `success`, `error`, `cancelled`,
    /// `interrupted` or `denied`.
    #[param(inline, value_type = Option<StatusName>)]
    status: Option<String>,
    /// Only calls that came in at this time (RFC 3339) or later.
    #[param(format = DateTime)]
    from: Option<String>,
    /// Only calls that came in before this time (RFC 3339).
    #[param(format = DateTime)]
    until: Option<String>,
}

/// The names and ids of the MCP servers. The call log has the names.
pub(super) struct ServerIds(Vec<(String, String)>);

impl ServerIds {
    fn of(app: &App) -> Self {
        let servers = app.servers();
        Self(servers.map(|servers| servers.names()).unwrap_or_default())
    }

    /// Returns the id of a server. A server that no longer exists was in the configuration file, so
    /// its id is derived from its name.
    fn id_of(&self, name: &str) -> String {
        let known = self.0.iter().find(|(_, known)| known == name);
        known.map_or_else(|| file_id(name), |(id, _)| id.clone())
    }

    /// Returns the name of the server with this id or name.
    fn name_of(&self, key: String) -> String {
        let known = self.0.iter().find(|(id, _)| *id == key);
        known.map_or(key, |(_, name)| name.clone())
    }
}

/// The names of the statuses.
#[derive(utoipa::ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes a parameter, and is never made")]
enum StatusName {
    Pending,
    Running,
    Success,
    Error,
    Cancelled,
    Interrupted,
    Denied,
}

impl CallQuery {
    /// Returns the filter, limited to the calls that `grant` may see.
    fn filter(self, grant: &AccessGrant, servers: &ServerIds) -> Result<CallFilter, RequestError> {
        let known = || RequestError::word("status", CallStatus::ALL.map(CallStatus::as_str));
        let status = match self.status {
            None => None,
            Some(name) => Some(CallStatus::from_name(&name).ok_or_else(known)?),
        };
        let id = "the ID of a call";
        Ok(CallFilter {
            server: self.server.map(|server| servers.name_of(server)),
            tool: self.tool,
            only_verified: grant.only_user().is_some(),
            user: only_of(grant.only_user(), self.user)?,
            parent: parsed("parent", self.parent.as_deref(), id)?,
            status,
            from: parse_time("from", self.from.as_deref())?,
            until: parse_time("until", self.until.as_deref())?,
        })
    }
}

/// Returns the user whose records are requested. `own` is the only visible user, if set.
pub(super) fn only_of(
    own: Option<&str>,
    requested: Option<String>,
) -> Result<Option<String>, CallerError> {
    match (own, requested) {
        (Some(own), Some(requested)) if own != requested => Err(CallerError::OtherUser),
        (Some(own), _) => Ok(Some(own.to_owned())),
        (None, requested) => Ok(requested),
    }
}

fn parse_time(name: &'static str, text: Option<&str>) -> Result<Option<Timestamp>, RequestError> {
    let time: Option<jiff::Timestamp> = parsed(name, text, "a time such as 2026-11-21T18:00:00Z")?;
    Ok(time.map(|time| Timestamp::from_millis(time.as_millisecond())))
}
