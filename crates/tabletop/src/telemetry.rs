use std::sync::Arc;

use pillion_core::pack::{Counters, EventStream, ResourceChanges};
use pillion_core::store::Timestamp;
use pillion_core::tool::CallContext;
use serde_json::{Value, json};

use crate::timestamp::format_timestamp;

pub(crate) const COUNTERS_URI: &str = "metrics://counters";

/// Names of the counters. The share of accepted actions is `ACTION_ACCEPTED` divided by the sum of
/// `ACTION_ACCEPTED` and `ACTION_REJECTED`.
pub(crate) mod counter {
    pub(crate) const REQUEST_ENQUEUED: &str = "llm.request.enqueued";
    pub(crate) const RESPONSE_RECEIVED: &str = "llm.response.received";
    pub(crate) const PARSE_FAILED: &str = "llm.parse.failed";
    pub(crate) const DEFENSE_REJECTED: &str = "llm.defense.rejected";
    pub(crate) const FORMAT_SENT: &str = "orchestrator.format.sent";
    pub(crate) const ACTION_ACCEPTED: &str = "orchestrator.action.accepted";
    pub(crate) const ACTION_REJECTED: &str = "orchestrator.action.rejected";
    pub(crate) const ACTION_DUPLICATE: &str = "orchestrator.action.duplicate";
    pub(super) const ALL: [&str; 8] = [
        REQUEST_ENQUEUED,
        RESPONSE_RECEIVED,
        PARSE_FAILED,
        DEFENSE_REJECTED,
        FORMAT_SENT,
        ACTION_ACCEPTED,
        ACTION_REJECTED,
        ACTION_DUPLICATE,
    ];
}

/// The severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogLevel {
    Info,
    Warning,
}

/// The scene and the call that a log line or an event belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogContext<'a> {
    pub(crate) scene: &'a str,
    pub(crate) tool: &'static str,
    pub(crate) context: &'a CallContext,
}

/// Emits counters, events, log lines and resource changes.
#[derive(Debug)]
pub(crate) struct TabletopTelemetry {
    counters: Arc<Counters>,
    orchestrator: Arc<EventStream>,
    log: Arc<EventStream>,
    pub(crate) changes: ResourceChanges,
}

impl Default for TabletopTelemetry {
    fn default() -> Self {
        let stream = |name, uri, description: &str| EventStream::new(name, uri, description);
        Self {
            counters: Arc::new(Counters::new(counter::ALL)),
            orchestrator: Arc::new(stream(
                "orchestrator",
                "events://orchestrator",
                "The progress of players' actions: llm.enqueued, llm.received, defense.rejected, \
                 format.sent",
            )),
            log: Arc::new(stream(
                "app",
                "logs://app",
                "The log lines of the tabletop pack, with level, module and ids",
            )),
            changes: ResourceChanges::default(),
        }
    }
}

impl TabletopTelemetry {
    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    pub(crate) fn streams(&self) -> Vec<Arc<EventStream>> {
        vec![Arc::clone(&self.orchestrator), Arc::clone(&self.log)]
    }

    pub(crate) fn count(&self, name: &'static str) {
        self.counters.add(name);
        self.changes.notify_updated(COUNTERS_URI);
    }

    /// Emits an event of `events://orchestrator`.
    pub(crate) fn emit_event(&self, kind: &str, log_context: LogContext<'_>, extra: &Value) {
        let data = json!({
            "scene_id": log_context.scene,
            "type": kind,
            "ts": format_timestamp(Timestamp::now()),
            "extra": extra,
        });
        let user = log_context.context.verified_user();
        self.orchestrator.emit(kind, user, &data);
    }

    /// Emits a line of `logs://app` and of the program's log. The line must not contain text of
    /// players or models.
    pub(crate) fn emit_log_line(
        &self,
        level: LogLevel,
        module: &str,
        message: &str,
        log_context: LogContext<'_>,
    ) {
        let LogContext {
            scene,
            tool,
            context,
        } = log_context;
        let call_id = context.call_id.as_str();
        let level_name = match level {
            LogLevel::Info => {
                tracing::info!(scene_id = scene, tool_name = tool, call_id, "{message}");
                "info"
            }
            LogLevel::Warning => {
                tracing::warn!(scene_id = scene, tool_name = tool, call_id, "{message}");
                "warning"
            }
        };
        let trace_id = context.trace.as_ref().map(|trace| trace.trace_id());
        let line = json!({
            "level": level_name,
            "module": module,
            "message": message,
            "scene_id": scene,
            "tool_name": tool,
            "call_id": call_id,
            "trace_id": trace_id,
            "ts": format_timestamp(Timestamp::now()),
        });
        self.log.emit("log", context.verified_user(), &line);
    }
}
