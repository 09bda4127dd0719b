use std::sync::Arc;

use pillion_core::pack::{Counters, EventStream, ResourceChanges};
use pillion_core::store::Timestamp;
use pillion_core::tool::CallContext;
use serde_json::{Value, json};

use crate::timestamp::format_timestamp;

pub(crate) const COUNTERS_URI: &str = "metrics://counters";

/// Names of the counters. The share of accepted actions is `ACCEPTED` divided by the sum of
/// `ACCEPTED` and `REJECTED`.
pub(crate) mod count {
    pub(crate) const ENQUEUED: &str = "llm.request.enqueued";
    pub(crate) const RECEIVED: &str = "llm.response.received";
    pub(crate) const PARSE_FAILED: &str = "llm.parse.failed";
    pub(crate) const DEFENSE_REJECTED: &str = "llm.defense.rejected";
    pub(crate) const FORMAT_SENT: &str = "orchestrator.format.sent";
    pub(crate) const ACCEPTED: &str = "orchestrator.action.accepted";
    pub(crate) const REJECTED: &str = "orchestrator.action.rejected";
    pub(crate) const DUPLICATE: &str = "orchestrator.action.duplicate";
    pub(super) const ALL: [&str; 8] = [
        ENQUEUED,
        RECEIVED,
        PARSE_FAILED,
        DEFENSE_REJECTED,
        FORMAT_SENT,
        ACCEPTED,
        REJECTED,
        DUPLICATE,
    ];
}

/// The severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Warning,
}

/// The context of a log line or event.
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
            counters: Arc::new(Counters::new(count::ALL)),
            orchestrator: Arc::new(stream(
                "orchestrator",
                "events://orchestrator",
                "What becomes of players' actions: llm.enqueued, llm.received, defense.rejected, \
                 format.sent",
            )),
            log: Arc::new(stream(
                "app",
                "logs://app",
                "What the tabletop pack logs, with level, module and ids",
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
        self.changes.updated(COUNTERS_URI);
    }

    /// Emits an event of `events://orchestrator`.
    pub(crate) fn event(&self, kind: &str, log_context: LogContext<'_>, extra: &Value) {
        let data = json!({
            "scene_id": log_context.scene,
            "type": kind,
            "ts": format_timestamp(Timestamp::now()),
            "extra": extra,
        });
        let user = log_context.context.verified_user();
        self.orchestrator.emit(kind, user, &data);
    }

    /// Emits a line of `logs://app` and of the program's log. Must not contain text of players or
    /// models.
    pub(crate) fn log(
        &self,
        level: Level,
        module: &str,
        message: &str,
        log_context: LogContext<'_>,
    ) {
        let LogContext {
            scene,
            tool,
            context,
        } = log_context;
        let call = context.call_id.as_str();
        let name = match level {
            Level::Info => {
                tracing::info!(
                    scene_id = scene,
                    tool_name = tool,
                    call_id = call,
                    "{message}"
                );
                "info"
            }
            Level::Warning => {
                tracing::warn!(
                    scene_id = scene,
                    tool_name = tool,
                    call_id = call,
                    "{message}"
                );
                "warning"
            }
        };
        let trace = context.trace.as_ref().map(|trace| trace.trace_id());
        let line = json!({
            "level": name,
            "module": module,
            "message": message,
            "scene_id": scene,
            "tool_name": tool,
            "call_id": call,
            "trace_id": trace,
            "ts": format_timestamp(Timestamp::now()),
        });
        self.log.emit("log", context.verified_user(), &line);
    }
}
