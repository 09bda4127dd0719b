use std::time::Duration;

use pillion_core::store::{ApprovalRecord, Timestamp};
use pillion_core::tool::{CallContext, ErrorCode, ToolOrigin};
use serde_json::{Value, json};

use super::ToolChanges;
use crate::echo::shortened;
use crate::moment::text_of;

/// Something that has happened.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// A call has come in.
    CallStarted { place: CallPlace<'a>, tool: &'a str },
    /// A call has ended, or was given up.
    CallEnded {
        place: CallPlace<'a>,
        tool: &'a str,
        success: bool,
        code: Option<ErrorCode>,
        /// What the call log knows it by.
        record: Option<Value>,
        elapsed: Duration,
    },
    /// An MCP server has another status (F3).
    ServerStatus {
        server: &'a str,
        status: &'static str,
        error: Option<&'a str>,
    },
    /// An MCP server offers other tools than before; without one, there are others of workers, of
    /// the configuration or of the folder of components.
    ToolsChanged {
        server: Option<&'a str>,
        changes: ToolChanges,
    },
    /// A call needs somebody's approval.
    ApprovalRequested(&'a ApprovalRecord),
    /// Somebody has decided on it.
    ApprovalDecided(&'a ApprovalRecord),
    /// A changed configuration was taken up, or refused.
    ConfigurationReloaded { error: Option<&'a str> },
}

/// Which call, and whose.
#[derive(Debug)]
pub(crate) struct CallPlace<'a> {
    id: &'a str,
    server: Option<&'a str>,
    context: &'a CallContext,
}

impl<'a> CallPlace<'a> {
    pub(crate) fn new(
        id: &'a str,
        origin: Option<&'a ToolOrigin>,
        context: &'a CallContext,
    ) -> Self {
        let server = match origin {
            Some(ToolOrigin::Mcp { server_label, .. }) => Some(server_label.as_str()),
            _ => None,
        };
        Self {
            id,
            server,
            context,
        }
    }

    fn data(&self) -> Value {
        json!({
            "call_id": self.id,
            "server": self.server,
            "user": self.context.user,
            "caller": self.context.caller,
        })
    }
}

impl Event<'_> {
    /// Every kind there is.
    pub(crate) const KINDS: [&'static str; 7] = [
        "call.started",
        "call.ended",
        "server.status",
        "tools.changed",
        "approval.requested",
        "approval.decided",
        "configuration.reloaded",
    ];

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::CallStarted { .. } => "call.started",
            Self::CallEnded { .. } => "call.ended",
            Self::ServerStatus { .. } => "server.status",
            Self::ToolsChanged { .. } => "tools.changed",
            Self::ApprovalRequested(_) => "approval.requested",
            Self::ApprovalDecided(_) => "approval.decided",
            Self::ConfigurationReloaded { .. } => "configuration.reloaded",
        }
    }

    /// On whose behalf it happened, if on anybody's.
    pub(super) fn user(&self) -> Option<&str> {
        match self {
            Self::CallStarted { place, .. } | Self::CallEnded { place, .. } => {
                place.context.user.as_deref()
            }
            Self::ApprovalRequested(record) | Self::ApprovalDecided(record) => {
                record.user.as_deref()
            }
            Self::ServerStatus { .. }
            | Self::ToolsChanged { .. }
            | Self::ConfigurationReloaded { .. } => None,
        }
    }

    /// What goes out: a line of JSON, with nothing in it that could be secret or long.
    pub(super) fn data(&self) -> Value {
        let mut data = match self {
            Self::CallStarted { place, tool } => {
                let mut data = place.data();
                data["tool"] = json!(shortened(tool));
                data
            }
            Self::CallEnded {
                place,
                tool,
                success,
                code,
                record,
                elapsed,
            } => {
                let mut data = place.data();
                data["tool"] = json!(shortened(tool));
                data["success"] = json!(success);
                data["error_code"] = json!(code.map(ErrorCode::as_str));
                data["duration_ms"] = json!((elapsed.as_secs_f64() * 1e6).round() / 1e3);
                if let Some(record) = record {
                    data["record_id"] = record.clone();
                }
                data
            }
            Self::ServerStatus {
                server,
                status,
                error,
            } => json!({"server": server, "status": status, "error": error}),
            Self::ToolsChanged {
                server,
                changes:
                    ToolChanges {
                        added,
                        removed,
                        changed,
                    },
            } => json!({
                "server": server, "added": added, "removed": removed, "changed": changed,
            }),
            Self::ApprovalRequested(record) | Self::ApprovalDecided(record) => approval(record),
            Self::ConfigurationReloaded { error } => {
                json!({"success": error.is_none(), "error": error})
            }
        };
        data["at"] = json!(text_of(Timestamp::now()));
        data
    }
}

/// An approval without the arguments, which may be long.
fn approval(record: &ApprovalRecord) -> Value {
    let decision = record.decision.as_ref();
    json!({
        "id": record.id,
        "tool": record.tool,
        "server": record.server,
        "user": record.user,
        "status": record.status(Timestamp::now()),
        "expires_at": text_of(record.expires_at),
        "decided_by": decision.map(|decision| &decision.by),
        "reason": decision.and_then(|decision| decision.reason.as_deref()),
    })
}
