//! What happens, for whoever listens (requirements F4, F5): calls, MCP servers, approvals,
//! changed tools, changed configuration.
//!
//! There is one ring of the last events, and each listener has its place in it: one that is slow
//! holds nothing but that number, and is told when the ring has gone on without it. So is one
//! that comes back with the id of an event that is no longer there.

mod event;
mod listener;
mod tool_changes;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use parking_lot::Mutex;
use pillion_core::executor::{AbandonedCall, Observer};
use pillion_core::tool::{CallContext, ErrorCode, ToolCall, ToolOrigin, ToolResult};
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

pub(crate) use event::{CallPlace, Event};
pub(crate) use listener::{Hearing, Listener, Types};
pub(crate) use tool_changes::{ToolChanges, ToolListener};

/// Events that are kept.
const MOST_EVENTS: usize = 4_096;

/// Bytes of the events that are kept.
const MOST_BYTES: usize = 1 << 20;

/// How long calls are still kept in the ring when the last listener has gone: it may come back.
const REMEMBERED: Duration = Duration::from_secs(300);

/// Tells whoever listens what happens.
#[derive(Debug)]
pub(crate) struct Bus {
    /// What the ids of this process begin with.
    epoch: String,
    ring: Mutex<Ring>,
    /// The number of the next event; closed for listeners by the last value.
    news: watch::Sender<News>,
    listeners: AtomicUsize,
    began: Instant,
    /// When the last listener went, in seconds since the beginning; 0 when there was none.
    last_left: AtomicU64,
    /// Calls were left out since the last event.
    has_gap: AtomicBool,
}

#[derive(Debug, Clone, Copy, Default)]
struct News {
    next: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<Kept>,
    bytes: usize,
    /// The number of the next event.
    next: u64,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            next: 1,
        }
    }
}

impl Ring {
    /// The number of the oldest event that is kept, or of the next.
    fn first(&self) -> u64 {
        self.events.front().map_or(self.next, |kept| kept.number)
    }
}

/// An event as it goes out.
#[derive(Debug, Clone)]
struct Kept {
    number: u64,
    kind: &'static str,
    /// On whose behalf it happened.
    user: Option<String>,
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
            began: Instant::now(),
            last_left: AtomicU64::new(0),
            has_gap: AtomicBool::new(false),
        }
    }
}

impl Bus {
    /// Keeps an event, and wakes whoever listens. It never waits for any of them.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        let kind = event.kind();
        let data = event.data().to_string();
        let mut ring = self.ring.lock();
        let number = ring.next;
        ring.next += 1;
        let text = format!(
            "id: {}-{number}\nevent: {kind}\ndata: {data}\n\n",
            self.epoch
        );
        ring.bytes += text.len();
        ring.events.push_back(Kept {
            number,
            kind,
            user: event.user().map(str::to_owned),
            text: text.into(),
        });
        while ring.events.len() > MOST_EVENTS || ring.bytes > MOST_BYTES {
            let Some(oldest) = ring.events.pop_front() else {
                break;
            };
            ring.bytes -= oldest.text.len();
        }
        let next = ring.next;
        drop(ring);
        self.news.send_modify(|news| news.next = next);
    }

    /// Ends every listener's stream: the sidecar stops.
    pub(crate) fn close(&self) {
        self.news.send_modify(|news| news.is_closed = true);
    }

    /// Listens from the event after `last` on, or from now on. One that is not known here any
    /// more makes a listener begin with `reset`.
    pub(crate) fn listen(self: &Arc<Self>, last: Option<&str>, types: Types) -> Listener {
        self.listeners.fetch_add(1, Ordering::Relaxed);
        if self.has_gap.swap(false, Ordering::Relaxed) {
            // Nobody goes on as if nothing were missing.
            let mut ring = self.ring.lock();
            ring.events.clear();
            ring.bytes = 0;
            ring.next += 1;
        }
        Listener::new(Arc::clone(self), last, types)
    }

    fn left(&self) {
        let seconds = self.began.elapsed().as_secs() + 1;
        self.last_left.store(seconds, Ordering::Relaxed);
        self.listeners.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there is anybody for whom so frequent a thing as a call is to be kept; notes that
    /// one is left out if not.
    fn has_audience(&self) -> bool {
        let left = self.last_left.load(Ordering::Relaxed);
        let has_audience = self.listeners.load(Ordering::Relaxed) > 0
            || (left > 0 && self.began.elapsed().as_secs() < left + REMEMBERED.as_secs());
        if !has_audience && !self.has_gap.load(Ordering::Relaxed) {
            self.has_gap.store(true, Ordering::Relaxed);
        }
        has_audience
    }
}

impl Observer for Bus {
    fn started(&self, call: &ToolCall, origin: Option<&ToolOrigin>, context: &CallContext) {
        if self.has_audience() {
            let place = CallPlace::new(&call.id, origin, context);
            let tool = &call.name;
            self.tell(&Event::CallStarted { place, tool });
        }
    }

    fn finished(
        &self,
        result: &ToolResult,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        if self.has_audience() {
            self.tell(&Event::CallEnded {
                place: CallPlace::new(&result.tool_call_id, origin, context),
                tool: &result.tool_name,
                success: result.success,
                code: result.error_code,
                record: result.metadata.get("record_id").cloned(),
                elapsed,
            });
        }
    }

    fn abandoned(
        &self,
        call: &AbandonedCall<'_>,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        if self.has_audience() {
            self.tell(&Event::CallEnded {
                place: CallPlace::new(call.id, origin, context),
                tool: call.tool_name,
                success: false,
                code: Some(ErrorCode::Cancelled),
                record: call.record.map(|record| json!(record.to_string())),
                elapsed,
            });
        }
    }
}

/// Two that see the same calls.
pub(crate) struct Both(pub(crate) Arc<dyn Observer>, pub(crate) Arc<dyn Observer>);

impl Observer for Both {
    fn started(&self, call: &ToolCall, origin: Option<&ToolOrigin>, context: &CallContext) {
        self.0.started(call, origin, context);
        self.1.started(call, origin, context);
    }

    fn finished(
        &self,
        result: &ToolResult,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        self.0.finished(result, origin, elapsed, context);
        self.1.finished(result, origin, elapsed, context);
    }

    fn abandoned(
        &self,
        call: &AbandonedCall<'_>,
        origin: Option<&ToolOrigin>,
        elapsed: Duration,
        context: &CallContext,
    ) {
        self.0.abandoned(call, origin, elapsed, context);
        self.1.abandoned(call, origin, elapsed, context);
    }
}

#[cfg(test)]
mod tests;
