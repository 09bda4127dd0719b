use std::sync::Arc;

use axum::body::Bytes;
use tokio::sync::watch;

use super::{Bus, BusPosition, Event, SerializedEvent};

/// Approximate size at which events are sent together, in bytes.
const BATCH_BYTES: usize = 16 * 1024;

/// The kinds of events that a listener receives; all by default.
#[derive(Debug, Clone, Default)]
pub struct EventKinds(Option<Vec<&'static str>>);

impl EventKinds {
    /// Parses a list of kinds, separated by commas; the first part of a name stands for all kinds
    /// with that part, such as `call` for `call.started`. Returns `None` for an unknown kind.
    pub fn parse(text: &str) -> Option<Self> {
        let mut selected = Vec::new();
        for name in text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            let is_meant = |kind: &&str| {
                let group = kind.split_once('.').map(|(group, _)| group);
                *kind == name || group == Some(name)
            };
            let before = selected.len();
            selected.extend(Event::KINDS.into_iter().filter(is_meant));
            if selected.len() == before {
                return None;
            }
        }
        Some(Self((!selected.is_empty()).then_some(selected)))
    }

    fn admit(&self, kind: &str) -> bool {
        let Self(selected) = self;
        selected
            .as_ref()
            .is_none_or(|selected| selected.contains(&kind))
    }
}

/// A listener of the bus. Pending events are stored only in the shared ring.
#[derive(Debug)]
pub struct Listener {
    bus: Arc<Bus>,
    types: EventKinds,
    /// The only user whose calls and approvals the listener receives; `None` for all.
    only_user: Option<String>,
    news: watch::Receiver<BusPosition>,
    /// The number of the next event.
    next: u64,
    /// The first message of the stream.
    first_message: Option<Bytes>,
}

impl Listener {
    pub(super) fn new(bus: Arc<Bus>, last: Option<&str>, types: EventKinds) -> Self {
        let news = bus.news.subscribe();
        let now = bus.ring.lock().next;
        let known = last.map(|last| parse_id(last, &bus.epoch).filter(|number| *number < now));
        let (next, first_message) = match known {
            // With this id, a client can resume before it has received an event.
            None => (now, ready(&bus.epoch, now)),
            Some(Some(number)) => (number + 1, Bytes::from_static(b": again\n\n")),
            Some(None) => {
                let first = bus.ring.lock().first();
                (first, reset(&bus.epoch, first, "unknown"))
            }
        };
        Self {
            bus,
            types,
            only_user: None,
            news,
            next,
            first_message: Some(first_message),
        }
    }

    /// Restricts the listener to the calls and approvals of one verified user, if set. Events
    /// without a user, such as a server's status, are for all listeners.
    pub fn for_user(mut self, only_user: Option<String>) -> Self {
        self.only_user = only_user;
        self
    }

    fn may_receive(&self, event: &SerializedEvent) -> bool {
        let concerns_caller =
            event.kind.starts_with("call.") || event.kind.starts_with("approval.");
        !concerns_caller || self.only_user.is_none() || self.only_user == event.verified_user
    }

    /// Waits for the next events, serialized; returns `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        if let Some(first_message) = self.first_message.take() {
            return Some(first_message);
        }
        loop {
            let seen = *self.news.borrow_and_update();
            if let Some(events) = self.take() {
                return Some(events);
            }
            if seen.is_closed {
                return None;
            }
            self.news.changed().await.ok()?;
        }
    }

    fn take(&mut self) -> Option<Bytes> {
        let ring = self.bus.ring.lock();
        let first = ring.first();
        if self.next < first {
            let reset = reset(&self.bus.epoch, first, "too_slow");
            self.next = first;
            return Some(reset);
        }
        let skipped = usize::try_from(self.next - first).unwrap_or(usize::MAX);
        let mut selected = Vec::new();
        for event in ring.events.iter().skip(skipped) {
            self.next = event.number + 1;
            if self.types.admit(event.kind) && self.may_receive(event) {
                selected.extend_from_slice(&event.text);
            }
            if selected.len() > BATCH_BYTES {
                break;
            }
        }
        (!selected.is_empty()).then(|| selected.into())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.bus.remove_listener();
    }
}

fn parse_id(id: &str, epoch: &str) -> Option<u64> {
    id.strip_prefix(epoch)?.strip_prefix('-')?.parse().ok()
}

fn ready(epoch: &str, next: u64) -> Bytes {
    let last = next - 1;
    format!("retry: 2000\nid: {epoch}-{last}\nevent: ready\ndata: {{}}\n\n").into()
}

/// Returns the event `reset`, which says that events are missing and that the stream continues with
/// the first available event.
fn reset(epoch: &str, first: u64, reason: &str) -> Bytes {
    let last = first - 1;
    format!("id: {epoch}-{last}\nevent: reset\ndata: {{\"reason\":\"{reason}\"}}\n\n").into()
}
