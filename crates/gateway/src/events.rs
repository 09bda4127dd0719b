//! The event stream for clients: calls, MCP servers, approvals, chats, changed tools and changed
//! configuration.
//!
//! All events are in one ring buffer, in which the [`Listener`] of each client has a position. A
//! slow client needs no further memory: if the ring has overwritten the client's next event, the
//! client gets a `reset` event. A client that resumes with the ID of an event that is no longer in
//! the ring gets a `reset` event as well.

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
const MAX_RING_BYTES: usize = 1 << 20;

/// Time for which events of calls are still recorded after the last client has disconnected,
/// because the client may resume.
const RESUME_TTL: Duration = Duration::from_secs(300);

/// Publishes events to all connected clients, and stores recent events for clients that reconnect.
#[derive(Debug)]
pub struct EventBus {
    /// The prefix of the event IDs of this process.
    epoch: String,
    ring: Mutex<EventRing>,
    /// The sequence number of the next event, and whether the bus is closed.
    position: watch::Sender<BusPosition>,
    listener_count: AtomicUsize,
    started_at: Instant,
    /// The time at which a client last disconnected, in seconds since `started_at`; 0 if no client
    /// has disconnected yet.
    last_disconnected_at: AtomicU64,
    /// Whether events of calls were skipped because no client was connected. Reset when a listener
    /// is created.
    has_gap: AtomicBool,
    new_tool_observer: RwLock<Option<Arc<dyn NewToolObserver>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct BusPosition {
    next_number: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct EventRing {
    events: VecDeque<SerializedEvent>,
    bytes: usize,
    /// The sequence number of the next event.
    next_number: u64,
}

impl Default for EventRing {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            next_number: 1,
        }
    }
}

impl EventRing {
    /// Returns the sequence number of the oldest event in the ring, or of the next event if the
    /// ring is empty.
    fn first_number(&self) -> u64 {
        self.events
            .front()
            .map_or(self.next_number, |event| event.number)
    }
}

/// An event with its text in the format of server-sent events.
#[derive(Debug, Clone)]
struct SerializedEvent {
    number: u64,
    kind: &'static str,
    /// The verified user for whom the event happened.
    verified_user: Option<String>,
    text: Bytes,
}

impl Default for EventBus {
    fn default() -> Self {
        let epoch = Uuid::new_v4().simple().to_string();
        Self {
            epoch: epoch[..8].to_owned(),
            ring: Mutex::default(),
            position: watch::Sender::default(),
            listener_count: AtomicUsize::new(0),
            started_at: Instant::now(),
            last_disconnected_at: AtomicU64::new(0),
            has_gap: AtomicBool::new(false),
            new_tool_observer: RwLock::default(),
        }
    }
}

impl EventBus {
    /// Sets the observer of new tools, in place of the previous one.
    pub(crate) fn set_new_tool_observer(&self, observer: Arc<dyn NewToolObserver>) {
        *self.new_tool_observer.write() = Some(observer);
    }

    fn notify_new_tool_observer(&self, server: Option<&str>, names: &[String]) {
        let observer = self.new_tool_observer.read().clone();
        if let Some(observer) = observer {
            observer.tools_added(server, names);
        }
    }

    /// Publishes an event, without waiting for clients.
    pub fn publish(&self, event: &Event<'_>) {
        let kind = event.kind();
        let data = serialize_limited(event.data());
        let mut ring = self.ring.lock();
        let number = ring.next_number;
        ring.next_number += 1;
        let epoch = &self.epoch;
        let text = format!("id: {epoch}-{number}\nevent: {kind}\ndata: {data}\n\n");
        ring.bytes += text.len();
        ring.events.push_back(SerializedEvent {
            number,
            kind,
            verified_user: event.verified_user().map(str::to_owned),
            text: text.into(),
        });
        while ring.events.len() > MAX_EVENTS || ring.bytes > MAX_RING_BYTES {
            let Some(oldest_event) = ring.events.pop_front() else {
                break;
            };
            ring.bytes -= oldest_event.text.len();
        }
        let next_number = ring.next_number;
        drop(ring);
        self.position
            .send_modify(|position| position.next_number = next_number);
    }

    /// Ends all listeners' streams at shutdown.
    pub fn close(&self) {
        self.position
            .send_modify(|position| position.is_closed = true);
    }

    /// Creates the listener of a client. Without `last_id`, the listener starts with the next
    /// event. With `last_id`, the listener starts after the event with this ID, or with a `reset`
    /// event if that event is no longer in the ring.
    pub fn listen(self: &Arc<Self>, last_id: Option<&str>, kinds: EventKinds) -> Listener {
        self.listener_count.fetch_add(1, Ordering::Relaxed);
        if self.has_gap.swap(false, Ordering::Relaxed) {
            // The ring is cleared, so that a client that resumes gets a `reset` event: the ring
            // lacks the skipped events.
            let mut ring = self.ring.lock();
            ring.events.clear();
            ring.bytes = 0;
            ring.next_number += 1;
        }
        Listener::new(Arc::clone(self), last_id, kinds)
    }

    fn remove_listener(&self) {
        let seconds = self.started_at.elapsed().as_secs() + 1;
        self.last_disconnected_at.store(seconds, Ordering::Relaxed);
        self.listener_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether a client is connected, or has disconnected so recently that it may resume.
    /// If not, records that events of calls are skipped.
    fn has_listeners(&self) -> bool {
        let disconnected_at = self.last_disconnected_at.load(Ordering::Relaxed);
        let has_listeners = self.listener_count.load(Ordering::Relaxed) > 0
            || (disconnected_at > 0
                && self.started_at.elapsed().as_secs() < disconnected_at + RESUME_TTL.as_secs());
        if !has_listeners && !self.has_gap.load(Ordering::Relaxed) {
            self.has_gap.store(true, Ordering::Relaxed);
        }
        has_listeners
    }
}

impl Observer for EventBus {
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

/// Two observers, both of which are notified of each call.
pub struct ObserverPair(pub Arc<dyn Observer>, pub Arc<dyn Observer>);

impl Observer for ObserverPair {
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
