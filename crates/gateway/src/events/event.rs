use std::time::Duration;

use pillion_core::registry::ToolRegistry;
use pillion_core::store::{ApprovalRecord, CallId, CallStatus, Timestamp};
use pillion_core::tool::{CallContext, ErrorCode, ToolOrigin};
use pillion_core::truncated;
use pillion_mcp_client::shortened;
use pillion_wire::MAX_ID_BYTES;
use serde_json::{Value, json};

use super::EventBus;
use crate::client_text::truncate_input;
use crate::timestamp::format_timestamp;

/// An event as published, before it is serialized.
#[derive(Debug)]
pub enum Event<'a> {
    /// The sidecar has received a call.
    CallPending {
        /// The ID, origin and user of the call.
        call_context: EventCall<'a>,
        /// The name of the called tool.
        tool: &'a str,
    },
    /// The tool of a call is about to run.
    CallStarted {
        /// The ID, origin and user of the call.
        call_context: EventCall<'a>,
        /// The name of the called tool.
        tool: &'a str,
        /// The ID of the call's record.
        record: Option<CallId>,
    },
    /// A call has finished or was abandoned.
    CallEnded {
        /// The ID, origin and user of the call.
        call_context: EventCall<'a>,
        /// The name of the called tool.
        tool: &'a str,
        /// The status of the call; `Pending` if it waits for an approval.
        status: CallStatus,
        /// The code of the error, if the call failed.
        code: Option<ErrorCode>,
        /// The ID of the call's record.
        record: Option<Value>,
        /// The duration of the call.
        elapsed: Duration,
    },
    /// The status of an MCP server has changed.
    ServerStatus {
        /// The label of the server.
        server: &'a str,
        /// The new status of the server.
        status: &'static str,
        /// The error of the last `tools/list` request to the server, if that request failed.
        error: Option<&'a str>,
    },
    /// The tools of an MCP server have changed. If `server` is `None`, the tools of workers, of the
    /// configuration, or of the folder of WebAssembly components have changed.
    ToolsChanged {
        /// The label of the server; `None` for tools of no server.
        server: Option<&'a str>,
        /// The names of added, removed and changed tools.
        changes: ToolChanges,
    },
    /// A call waits for an approval.
    ApprovalRequested(&'a ApprovalRecord),
    /// An operator or a user has decided an approval.
    ApprovalDecided(&'a ApprovalRecord),
    /// A request that ran a stored chat has ended: the model has responded, calls wait for
    /// approval, or the chat has failed.
    ChatStopped {
        /// The ID of the chat.
        chat: &'a str,
        /// The ID of the chat's model.
        model: &'a str,
        /// The status of the chat, as in the REST API.
        status: &'a str,
        /// The context of the chat's calls.
        context: &'a CallContext,
    },
    /// A changed configuration was applied, or rejected with an error.
    ConfigurationReloaded {
        /// Why the new configuration was rejected; `None` if it was applied.
        error: Option<&'a str>,
    },
}

/// The ID, server and context of a call.
#[derive(Debug)]
pub struct EventCall<'a> {
    id: &'a str,
    server: Option<&'a str>,
    context: &'a CallContext,
}

impl<'a> EventCall<'a> {
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
            id: truncated(id, MAX_ID_BYTES),
            server,
            context,
        }
    }

    fn data(&self, tool: &str, status: CallStatus) -> Value {
        json!({
            "tool": truncate_input(tool),
            "call_id": self.id,
            "server": self.server,
            "user": self.context.user,
            "user_is_verified": self.context.verified_user().is_some(),
            "principal": self.context.principal,
            "caller": self.context.caller,
            "status": status.as_str(),
        })
    }
}

impl Event<'_> {
    /// The names of all kinds of events.
    pub const KINDS: [&'static str; 9] = [
        "call.pending",
        "call.started",
        "call.ended",
        "server.status",
        "tools.changed",
        "approval.requested",
        "approval.decided",
        "chat.stopped",
        "configuration.reloaded",
    ];

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::CallPending { .. } => "call.pending",
            Self::CallStarted { .. } => "call.started",
            Self::CallEnded { .. } => "call.ended",
            Self::ServerStatus { .. } => "server.status",
            Self::ToolsChanged { .. } => "tools.changed",
            Self::ApprovalRequested(_) => "approval.requested",
            Self::ApprovalDecided(_) => "approval.decided",
            Self::ChatStopped { .. } => "chat.stopped",
            Self::ConfigurationReloaded { .. } => "configuration.reloaded",
        }
    }

    /// Returns the verified user for whom the event happened, if any.
    pub(super) fn verified_user(&self) -> Option<&str> {
        match self {
            Self::CallPending { call_context, .. }
            | Self::CallStarted { call_context, .. }
            | Self::CallEnded { call_context, .. } => call_context.context.verified_user(),
            Self::ChatStopped { context, .. } => context.verified_user(),
            Self::ApprovalRequested(record) | Self::ApprovalDecided(record) => {
                record.verified_user()
            }
            Self::ServerStatus { .. }
            | Self::ToolsChanged { .. }
            | Self::ConfigurationReloaded { .. } => None,
        }
    }

    /// Returns the event's data, including the current time. The data contains no secrets.
    pub(super) fn data(&self) -> Value {
        let mut data = match self {
            Self::CallPending { call_context, tool } => {
                call_context.data(tool, CallStatus::Pending)
            }
            Self::CallStarted {
                call_context,
                tool,
                record,
            } => {
                let mut data = call_context.data(tool, CallStatus::Running);
                if let Some(record) = record {
                    data["record_id"] = json!(record.to_string());
                }
                data
            }
            Self::CallEnded {
                call_context,
                tool,
                status,
                code,
                record,
                elapsed,
            } => {
                let mut data = call_context.data(tool, *status);
                data["success"] = json!(*status == CallStatus::Success);
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
            Self::ToolsChanged { server, changes } => json!({
                "server": server,
                "added": changes.added_names,
                "removed": changes.removed_names,
                "changed": changes.changed_names,
            }),
            Self::ApprovalRequested(record) | Self::ApprovalDecided(record) => {
                approval_data(record)
            }
            Self::ChatStopped {
                chat,
                model,
                status,
                context,
            } => json!({
                "id": chat,
                "model": model,
                "user": context.user,
                "user_is_verified": context.verified_user().is_some(),
                "principal": context.principal,
                "status": status,
            }),
            Self::ConfigurationReloaded { error } => {
                json!({"success": error.is_none(), "error": error})
            }
        };
        data["at"] = json!(format_timestamp(Timestamp::now()));
        data
    }
}

/// Returns an approval without its arguments, which may be long.
fn approval_data(record: &ApprovalRecord) -> Value {
    let decision = record.decision.as_ref();
    json!({
        "id": record.id,
        "tool": record.tool,
        "server": record.server,
        "user": record.user,
        "user_is_verified": record.user_is_verified,
        "principal": record.principal,
        "status": record.status(Timestamp::now()),
        "expires_at": format_timestamp(record.expires_at),
        "decided_by": decision.map(|decision| &decision.decider),
        "reason": decision.and_then(|decision| decision.reason.as_deref()),
    })
}

/// A listener that is notified synchronously when tools have changed.
pub trait ToolListener: std::fmt::Debug + Send + Sync {
    /// Called after each change of the tools.
    fn tools_changed(&self);
}

/// An observer that is notified of new tools before the listeners of the bus.
pub(crate) trait NewToolObserver: std::fmt::Debug + Send + Sync {
    /// Called with the names of added tools; `server` is their MCP server, if they have one.
    fn tools_added(&self, server: Option<&str>, names: &[String]);
}

/// The names of added, removed and changed tools.
#[derive(Debug, Default)]
pub struct ToolChanges {
    pub(crate) added_names: Vec<String>,
    pub(crate) removed_names: Vec<String>,
    pub(crate) changed_names: Vec<String>,
}

impl ToolChanges {
    pub(crate) fn is_empty(&self) -> bool {
        let lists = [&self.added_names, &self.removed_names, &self.changed_names];
        lists.iter().all(|names| names.is_empty())
    }

    /// Publishes the changes, if any; `server` is the MCP server of the tools, if they have one. A
    /// removed name counts as changed if `registry` already has another tool with that name.
    pub(crate) fn publish(mut self, server: Option<&str>, registry: &ToolRegistry, bus: &EventBus) {
        let has_new_tool = |name: &String| {
            let tool = registry.get(name);
            tool.is_some_and(|tool| tool.is_offered() && tool.name().as_str() == name)
        };
        let reused_names = self.removed_names.extract_if(.., |name| has_new_tool(name));
        self.changed_names.extend(reused_names);
        if !self.is_empty() {
            bus.notify_new_tool_observer(server, &self.added_names);
            let changes = self;
            bus.publish(&Event::ToolsChanged { server, changes });
        }
    }
}

/// Maximum size of the data of one event, in bytes.
const MAX_EVENT_BYTES: usize = 8 * 1024;

/// Maximum size of each text in the first attempt to shorten an event, in bytes. Each further
/// attempt halves this limit.
const MAX_TEXT_BYTES: usize = 2 * 1024;

/// The maximum number of items of a shortened list is the current limit on the size of texts
/// divided by this number.
const TEXT_BYTES_PER_ITEM: usize = 32;

/// Serializes the data of an event. If the data is too large, texts are shortened, lists have only
/// their first items, and `truncated` is true.
pub(super) fn serialize_limited(mut data: Value) -> String {
    let mut text = data.to_string();
    if text.len() <= MAX_EVENT_BYTES {
        return text;
    }
    data["truncated"] = json!(true);
    let mut max_text_bytes = MAX_TEXT_BYTES;
    while text.len() > MAX_EVENT_BYTES && max_text_bytes >= TEXT_BYTES_PER_ITEM {
        shorten_members(&mut data, max_text_bytes);
        text = data.to_string();
        max_text_bytes /= 2;
    }
    text
}

fn shorten_members(value: &mut Value, max_text_bytes: usize) {
    match value {
        Value::String(text) => *text = shortened(text, max_text_bytes).into_owned(),
        Value::Array(items) => {
            items.truncate(max_text_bytes / TEXT_BYTES_PER_ITEM);
            for item in items {
                shorten_members(item, max_text_bytes);
            }
        }
        Value::Object(members) => {
            for member in members.values_mut() {
                shorten_members(member, max_text_bytes);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_and_each_list_of_a_large_event_is_shortened() {
        let members = |value: &Value, count: usize| {
            let members = (0..count).map(|nth| (format!("m{nth}"), value.clone()));
            Value::Object(members.collect())
        };
        let values = [
            json!("x".repeat(1_000_000)),
            json!("\u{1b}".repeat(1_000_000)),
            json!("😀".repeat(1_000_000)),
            json!(vec!["name"; 100_000]),
            json!(vec!["x".repeat(10_000); 1_000]),
            json!({"inner": vec![vec!["\u{1}".repeat(1_000); 100]; 100]}),
        ];
        for value in values {
            for count in [1, 3, 15] {
                let mut data = members(&value, count);
                data["id"] = json!("7");
                let text = serialize_limited(data);
                assert!(text.len() <= MAX_EVENT_BYTES, "{} bytes", text.len());
                let data: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(data["truncated"], true);
                assert_eq!(data["id"], "7");
                assert!(!data["m0"].is_null());
            }
        }
        let small = json!({"error": "x".repeat(MAX_EVENT_BYTES - 20)});
        assert_eq!(serialize_limited(small.clone()), small.to_string());
    }
}
