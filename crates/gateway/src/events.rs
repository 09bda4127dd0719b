//! Events for listeners: calls, MCP servers, approvals, changed tools and changed configuration.
//!
//! All events are in one ring buffer, in which each listener has a position. A slow listener holds
//! no memory; if the ring has overwritten its next event, the listener gets a `reset` event. The
//! same applies to a client that resumes with the id of an event that is no longer in the ring.

mod event;
mod listener;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use parking_lot::{Mutex, RwLock};
use pillion_core::executor::{ObservedCall, Observer};
use pillion_core::store::CallStatus;
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolOrigin, ToolResult};
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

pub(crate) use event::NewToolObserver;
use event::serialize_limited;
pub use event::{Event, EventCall, ToolChanges, ToolListener};
pub use listener::{EventKinds, Listener};

/// Maximum number of events in the ring.
const MAX_EVENTS: usize = 4_096;

/// Maximum size of all events in the ring, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// How long calls are still recorded after the last listener has disconnected, because the listener
/// may resume.
const RESUME_TTL: Duration = Duration::from_secs(300);

/// Publishes events to all listeners, and stores the last ones for clients that reconnect.
#[derive(Debug)]
pub struct Bus {
    /// The prefix of the event ids of this process.
    epoch: String,
    ring: Mutex<EventRing>,
    /// The number of the next event, and whether the bus is closed.
    news: watch::Sender<BusPosition>,
    listeners: AtomicUsize,
    started_at: Instant,
    /// When the last listener disconnected, in seconds since `started_at`; 0 if there was none.
    last_left: AtomicU64,
    /// Whether calls were skipped since the last event.
    has_gap: AtomicBool,
    new_tools: RwLock<Option<Arc<dyn NewToolObserver>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct BusPosition {
    next: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct EventRing {
    events: VecDeque<SerializedEvent>,
    bytes: usize,
    /// The number of the next event.
    next: u64,
}

impl Default for EventRing {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            next: 1,
        }
    }
}

impl EventRing {
    /// Returns the number of the oldest event in the ring, or of the next event if the ring is
    /// empty.
    fn first(&self) -> u64 {
        self.events.front().map_or(self.next, |event| event.number)
    }
}

/// An event as it is stored and sent: its text in the format of server-sent events.
#[derive(Debug, Clone)]
struct SerializedEvent {
    number: u64,
    kind: &'static str,
    /// The verified user for whom the event happened.
    verified_user: Option<String>,
    text: Bytes,
}

impl Default for Bus {
    fn default() -> Self {
        let epoch = Uuid::new_v4().simple().to_string();
        Self {
            epoch: epoch[..8].to_owned(),
            ring: Mutex::default(),
            news: watch::Sender::default(),
            listeners: AtomicUsize::new(0),
            started_at: Instant::now(),
            last_left: AtomicU64::new(0),
            has_gap: AtomicBool::new(false),
            new_tools: RwLock::default(),
        }
    }
}

impl Bus {
    /// Sets the observer of new tools, in place of the previous one.
    pub(crate) fn set_new_tool_observer(&self, observer: Arc<dyn NewToolObserver>) {
        *self.new_tools.write() = Some(observer);
    }

    fn observe_added(&self, server: Option<&str>, names: &[String]) {
        let observer = self.new_tools.read().clone();
        if let Some(observer) = observer {
            observer.tools_added(server, names);
        }
    }

    /// Publishes an event, without waiting for listeners.
    pub(crate) fn publish(&self, event: &Event<'_>) {
        let kind = event.kind();
        let data = serialize_limited(event.data());
        let mut ring = self.ring.lock();
        let number = ring.next;
        ring.next += 1;
        let text = format!(
            "id: {}-{number}\nevent: {kind}\ndata: {data}\n\n",
            self.epoch
        );
        ring.bytes += text.len();
        ring.events.push_back(SerializedEvent {
            number,
            kind,
            verified_user: event.verified_user().map(str::to_owned),
            text: text.into(),
        });
        while ring.events.len() > MAX_EVENTS || ring.bytes > MAX_BYTES {
            let Some(oldest) = ring.events.pop_front() else {
                break;
            };
            ring.bytes -= oldest.text.len();
        }
        let next = ring.next;
        drop(ring);
        self.news.send_modify(|news| news.next = next);
    }

    /// Ends all listeners' streams at shutdown.
    pub fn close(&self) {
        self.news.send_modify(|news| news.is_closed = true);
    }

    /// Creates a listener that starts after the event `last`, or with the next event. If `last` is
    /// no longer in the ring, the listener starts with a `reset` event.
    pub fn listen(self: &Arc<Self>, last: Option<&str>, types: EventKinds) -> Listener {
        self.listeners.fetch_add(1, Ordering::Relaxed);
        if self.has_gap.swap(false, Ordering::Relaxed) {
            // A listener that resumes must notice that events are missing.
            let mut ring = self.ring.lock();
            ring.events.clear();
            ring.bytes = 0;
            ring.next += 1;
        }
        Listener::new(Arc::clone(self), last, types)
    }

    fn remove_listener(&self) {
        let seconds = self.started_at.elapsed().as_secs() + 1;
        self.last_left.store(seconds, Ordering::Relaxed);
        self.listeners.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether calls must be recorded, because there are listeners or one may resume;
    /// records that calls were skipped if not.
    fn has_listeners(&self) -> bool {
        let left = self.last_left.load(Ordering::Relaxed);
        let has_listeners = self.listeners.load(Ordering::Relaxed) > 0
            || (left > 0 && self.started_at.elapsed().as_secs() < left + RESUME_TTL.as_secs());
        if !has_listeners && !self.has_gap.load(Ordering::Relaxed) {
            self.has_gap.store(true, Ordering::Relaxed);
        }
        has_listeners
    }
}

impl Observer for Bus {
    fn on_started(&self, call: &ToolCall, origin: Option<&ToolOrigin>, context: &CallContext) {
        if self.has_listeners() {
            let call_context = EventCall::new(&call.id, origin, context);
            let tool = &call.name;
            self.publish(&Event::CallPending { call_context, tool });
        }
    }

    fn on_running(
        &self,
        call: &ObservedCall<'_>,
        origin: Option<&ToolOrigin>,
        context: &CallContext,
    ) {
        if self.has_listeners() {
            self.publish(&Event::CallStarted {
                call_context: EventCall::new(call.id, origin, context),
                tool: call.tool_name,
                record: call.record,
            });
        }
    }

    fn on_finished(
        &self,
        result: &ToolResult,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        if self.has_listeners() {
            self.publish(&Event::CallEnded {
                call_context: EventCall::new(&result.tool_call_id, origin, context),
                tool: &result.tool_name,
                status: CallStatus::from_result(result),
                code: result.error_code,
                record: result.metadata.get("record_id").cloned(),
                elapsed,
            });
        }
    }

    fn on_abandoned(
        &self,
        call: &ObservedCall<'_>,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        if self.has_listeners() {
            self.publish(&Event::CallEnded {
                call_context: EventCall::new(call.id, origin, context),
                tool: call.tool_name,
                status: CallStatus::Cancelled,
                code: Some(ErrorCode::Cancelled),
                record: call.record.map(|record| json!(record.to_string())),
                elapsed,
            });
        }
    }
}

/// Two observers of the same calls.
pub struct Both(pub Arc<dyn Observer>, pub Arc<dyn Observer>);

impl Observer for Both {
    fn on_started(&self, call: &ToolCall, origin: Option<&ToolOrigin>, context: &CallContext) {
        self.0.on_started(call, origin, context);
        self.1.on_started(call, origin, context);
    }

    fn on_running(
        &self,
        call: &ObservedCall<'_>,
        origin: Option<&ToolOrigin>,
        context: &CallContext,
    ) {
        self.0.on_running(call, origin, context);
        self.1.on_running(call, origin, context);
    }

    fn on_finished(
        &self,
        result: &ToolResult,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        self.0.on_finished(result, origin, elapsed, context);
        self.1.on_finished(result, origin, elapsed, context);
    }

    fn on_abandoned(
        &self,
        call: &ObservedCall<'_>,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        self.0.on_abandoned(call, origin, elapsed, context);
        self.1.on_abandoned(call, origin, elapsed, context);
    }
}

#[cfg(test)]
mod tests;
