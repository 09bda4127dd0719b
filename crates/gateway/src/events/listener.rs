use std::sync::Arc;

use axum::body::Bytes;
use tokio::sync::watch;

use super::{BusPosition, Event, EventBus, SerializedEvent};

/// Approximate maximum size of the events that [`Listener::next`] returns together, in bytes.
const BATCH_BYTES: usize = 16 * 1024;

/// The kinds of events that a client receives; all by default.
#[derive(Debug, Clone, Default)]
pub struct EventKinds(Option<Vec<&'static str>>);

impl EventKinds {
    /// Parses a list of kinds, separated by commas; the first part of a kind, such as `call`,
    /// selects all kinds that begin with that part, such as `call.started`. Returns `None` for an
    /// unknown kind.
    pub fn parse(text: &str) -> Option<Self> {
        let mut selected_kinds = Vec::new();
        let names = text.split(',').map(str::trim);
        for name in names.filter(|name| !name.is_empty()) {
            let is_selected = |kind: &&str| {
                let group = kind.split_once('.').map(|(group, _)| group);
                *kind == name || group == Some(name)
            };
            let previous_count = selected_kinds.len();
            selected_kinds.extend(Event::KINDS.into_iter().filter(is_selected));
            if selected_kinds.len() == previous_count {
                return None;
            }
        }
        Some(Self((!selected_kinds.is_empty()).then_some(selected_kinds)))
    }

    fn admits(&self, kind: &str) -> bool {
        self.0.as_ref().is_none_or(|kinds| kinds.contains(&kind))
    }
}

/// The position of one client in the events of the bus. Pending events are stored only in the
/// shared ring.
#[derive(Debug)]
pub struct Listener {
    bus: Arc<EventBus>,
    kinds: EventKinds,
    /// The only user whose calls, approvals and chats the client receives; `None` for all users.
    only_user: Option<String>,
    position: watch::Receiver<BusPosition>,
    /// The sequence number of the next event.
    next_number: u64,
    /// The first message of the stream; `None` after it was returned.
    first_message: Option<Bytes>,
}

impl Listener {
    pub(super) fn new(bus: Arc<EventBus>, last_id: Option<&str>, kinds: EventKinds) -> Self {
        let position = bus.position.subscribe();
        let end_number = bus.ring.lock().next_number;
        let last_number = last_id
            .map(|last_id| parse_id(last_id, &bus.epoch).filter(|number| *number < end_number));
        let (next_number, first_message) = match last_number {
            // The `ready` event contains an ID, so that a client can resume even if it has received
            // no other event.
            None => (end_number, ready_event(&bus.epoch, end_number)),
            Some(Some(number)) => (number + 1, Bytes::from_static(b": again\n\n")),
            Some(None) => {
                let first_number = bus.ring.lock().first_number();
                let event = reset_event(&bus.epoch, first_number, "unknown");
                (first_number, event)
            }
        };
        Self {
            bus,
            kinds,
            only_user: None,
            position,
            next_number,
            first_message: Some(first_message),
        }
    }

    /// Restricts the listener to the calls, approvals and chats of one verified user, if set.
    /// Events that belong to no user, such as the status of a server, are not restricted.
    pub fn for_user(mut self, only_user: Option<String>) -> Self {
        self.only_user = only_user;
        self
    }

    fn may_receive(&self, event: &SerializedEvent) -> bool {
        let mut user_groups = ["call.", "approval.", "chat."].iter();
        let belongs_to_user = user_groups.any(|group| event.kind.starts_with(group));
        !belongs_to_user || self.only_user.is_none() || self.only_user == event.verified_user
    }

    /// Waits for the next events, and returns them serialized; `None` after the bus was closed.
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        if let Some(first_message) = self.first_message.take() {
            return Some(first_message);
        }
        loop {
            let position = *self.position.borrow_and_update();
            if let Some(events) = self.take_events() {
                return Some(events);
            }
            if position.is_closed {
                return None;
            }
            self.position.changed().await.ok()?;
        }
    }

    fn take_events(&mut self) -> Option<Bytes> {
        let ring = self.bus.ring.lock();
        let first_number = ring.first_number();
        if self.next_number < first_number {
            self.next_number = first_number;
            return Some(reset_event(&self.bus.epoch, first_number, "too_slow"));
        }
        let skip_count = usize::try_from(self.next_number - first_number).unwrap_or(usize::MAX);
        let mut selected_text = Vec::new();
        for event in ring.events.iter().skip(skip_count) {
            self.next_number = event.number + 1;
            if self.kinds.admits(event.kind) && self.may_receive(event) {
                selected_text.extend_from_slice(&event.text);
            }
            if selected_text.len() > BATCH_BYTES {
                break;
            }
        }
        (!selected_text.is_empty()).then(|| selected_text.into())
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

fn ready_event(epoch: &str, next_number: u64) -> Bytes {
    let last_number = next_number - 1;
    format!("retry: 2000\nid: {epoch}-{last_number}\nevent: ready\ndata: {{}}\n\n").into()
}

/// Returns the event `reset`, which says that events are missing and that the stream continues with
/// the first available event.
fn reset_event(epoch: &str, first_number: u64, reason: &str) -> Bytes {
    let last_number = first_number - 1;
    format!("id: {epoch}-{last_number}\nevent: reset\ndata: {{\"reason\":\"{reason}\"}}\n\n").into()
}
