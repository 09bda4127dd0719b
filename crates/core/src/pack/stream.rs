use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use super::{
    ChangeListener, Resource, ResourceChanges, ResourceContents, ResourceError, ResourceProvider,
    ResourceReader, split_query,
};

/// Maximum number of stored events of a stream.
const MAX_STORED_EVENTS: usize = 1_024;

/// Maximum size of the stored events of a stream, in bytes.
const MAX_STORED_BYTES: usize = 256 * 1024;

/// Maximum number of events in the resource of a stream.
const MAX_RESOURCE_EVENTS: usize = 100;

/// An event stream of a pack. The last events are stored in memory, so that a reconnecting client
/// can resume. Read as a resource, the stream returns the last 100 events.
#[derive(Debug)]
pub struct EventStream {
    name: String,
    uri: String,
    description: String,
    /// The prefix of event IDs of this process.
    epoch: String,
    ring: Mutex<StreamRing>,
    /// The number of the next event.
    next_number: watch::Sender<u64>,
    changes: ResourceChanges,
}

#[derive(Debug, Default)]
struct StreamRing {
    events: VecDeque<StreamEvent>,
    bytes: usize,
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEvent {
    number: u64,
    /// The ID of the event, from which a client can resume the stream with `Last-Event-ID`.
    pub id: String,
    /// The kind of event, which is the `event` field of a server-sent event.
    pub kind: String,
    /// The user that the event belongs to, if any.
    pub user: Option<String>,
    /// The data of the event, as JSON text.
    pub data: Arc<str>,
}

/// A message for a stream listener.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamMessage {
    /// The first message for a new listener, which contains an ID to resume from.
    Ready {
        /// The ID to resume from, for `Last-Event-ID`.
        id: String,
    },
    /// Events are missing, because the ID to resume from is unknown or the listener was too slow.
    Reset {
        /// The ID of the event before the first available event.
        id: String,
    },
    /// An event of the stream.
    Event(StreamEvent),
}

impl EventStream {
    /// Creates an empty stream, with its name in the API, its URI as a resource, and its
    /// description.
    pub fn new(
        name: impl Into<String>,
        uri: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        let epoch = Uuid::new_v4().simple().to_string();
        Self {
            name: name.into(),
            uri: uri.into(),
            description: description.into(),
            epoch: epoch[..8].to_owned(),
            ring: Mutex::default(),
            next_number: watch::Sender::new(1),
            changes: ResourceChanges::default(),
        }
    }

    /// Returns the name in the API.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the URI as a resource.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns what the stream contains, for people and models.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Sends an event, which belongs to `user` if given, to all listeners. The user must be
    /// verified ([`CallContext::verified_user`](crate::tool::CallContext::verified_user)): the
    /// event is sent to clients that may act for this user. `kind` consists of letters, digits,
    /// `.`, `_` and `-`. Never blocks.
    pub fn emit(&self, kind: &str, user: Option<&str>, data: &Value) {
        let json: Arc<str> = data.to_string().into();
        let mut ring = self.ring.lock();
        let number = *self.next_number.borrow();
        ring.bytes += json.len();
        ring.events.push_back(StreamEvent {
            number,
            id: self.id(number),
            kind: kind.to_owned(),
            user: user.map(str::to_owned),
            data: json,
        });
        while ring.events.len() > MAX_STORED_EVENTS || ring.bytes > MAX_STORED_BYTES {
            let Some(oldest) = ring.events.pop_front() else {
                break;
            };
            ring.bytes -= oldest.data.len();
        }
        // The number of the next event is updated while the lock is held, so that listeners get the
        // numbers in order.
        self.next_number.send_replace(number + 1);
        drop(ring);
        self.changes.notify_updated(&self.uri);
    }

    /// Creates a listener for the events after `last_event_id`; with `None`, for the events after
    /// this call.
    #[must_use]
    pub fn listen(self: &Arc<Self>, last_event_id: Option<&str>) -> StreamListener {
        let updates = self.next_number.subscribe();
        let ring = self.ring.lock();
        let end_number = *self.next_number.borrow();
        let first_number = ring.events.front().map_or(end_number, |event| event.number);
        let is_past = |number: &u64| *number < end_number;
        let resume_after = last_event_id.map(|id| self.parse_id(id).filter(is_past));
        let (next_number, first_message) = match resume_after {
            None => {
                let id = self.id(end_number - 1);
                (end_number, Some(StreamMessage::Ready { id }))
            }
            Some(Some(number)) => (number + 1, None),
            Some(None) => {
                let id = self.id(first_number - 1);
                (first_number, Some(StreamMessage::Reset { id }))
            }
        };
        drop(ring);
        StreamListener {
            stream: Arc::clone(self),
            updates,
            next_number,
            first_message,
        }
    }

    /// Returns the last events that the reader may see, oldest first.
    fn last_events(&self, reader: ResourceReader<'_>) -> Vec<Value> {
        let ring = self.ring.lock();
        let mut event_texts: Vec<_> = ring
            .events
            .iter()
            .rev()
            .filter(|event| reader.may_see(event.user.as_deref()))
            .take(MAX_RESOURCE_EVENTS)
            .map(|event| event.data.clone())
            .collect();
        drop(ring);
        event_texts.reverse();
        event_texts
            .iter()
            .filter_map(|data| serde_json::from_str(data).ok())
            .collect()
    }

    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.epoch)
    }

    fn parse_id(&self, id: &str) -> Option<u64> {
        let number = id.strip_prefix(&self.epoch)?.strip_prefix('-')?;
        number.parse().ok()
    }
}

#[async_trait]
impl ResourceProvider for EventStream {
    fn owns(&self, uri: &str) -> bool {
        split_query(uri).0 == self.uri
    }

    async fn list(&self, _reader: ResourceReader<'_>) -> Result<Vec<Resource>, ResourceError> {
        let resource = Resource::new(&self.uri, &self.name);
        Ok(vec![resource.describe(&self.description).with_json_type()])
    }

    async fn read(
        &self,
        _uri: &str,
        reader: ResourceReader<'_>,
    ) -> Result<ResourceContents, ResourceError> {
        let events = json!({"events": self.last_events(reader)});
        Ok(ResourceContents::json(&events))
    }

    fn changes(&self) -> Option<ChangeListener> {
        Some(self.changes.listen())
    }
}

/// A listener of a stream. All listeners read from the stream's one buffer, each at its own
/// position.
#[derive(Debug)]
pub struct StreamListener {
    stream: Arc<EventStream>,
    updates: watch::Receiver<u64>,
    /// The number of the event that the listener receives next.
    next_number: u64,
    first_message: Option<StreamMessage>,
}

impl StreamListener {
    /// Waits for the next message. Cancel-safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> StreamMessage {
        if let Some(message) = self.first_message.take() {
            return message;
        }
        loop {
            self.updates.mark_unchanged();
            if let Some(message) = self.take() {
                return message;
            }
            if self.updates.changed().await.is_err() {
                // Receiving cannot fail, because this listener holds a reference to the stream.
                std::future::pending::<()>().await;
            }
        }
    }

    fn take(&mut self) -> Option<StreamMessage> {
        let ring = self.stream.ring.lock();
        let first_number = ring.events.front()?.number;
        if self.next_number < first_number {
            self.next_number = first_number;
            let id = self.stream.id(first_number - 1);
            return Some(StreamMessage::Reset { id });
        }
        let index = usize::try_from(self.next_number - first_number).ok()?;
        let event = ring.events.get(index)?.clone();
        self.next_number = event.number + 1;
        Some(StreamMessage::Event(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::CallContext;

    fn stream() -> Arc<EventStream> {
        Arc::new(EventStream::new("s", "events://s", "What happens"))
    }

    async fn event(listener: &mut StreamListener) -> StreamEvent {
        match listener.next().await {
            StreamMessage::Event(event) => event,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn k2_a_reconnecting_listener_receives_all_stored_events() {
        let stream = stream();
        stream.emit("a", None, &json!(0));
        let mut listener = stream.listen(None);
        let StreamMessage::Ready { id: index } = listener.next().await else {
            panic!("no place");
        };
        stream.emit("a", None, &json!(1));
        stream.emit("b", Some("alice"), &json!(2));
        assert_eq!(&*event(&mut listener).await.data, "1");
        let second = event(&mut listener).await;
        assert_eq!((second.kind.as_str(), &*second.data), ("b", "2"));
        let mut again = stream.listen(Some(&index));
        assert_eq!(&*event(&mut again).await.data, "1");
        assert_eq!(event(&mut again).await, second);
        let mut last = stream.listen(Some(&second.id));
        let (message, ()) = tokio::join!(event(&mut last), async {
            stream.emit("c", None, &json!(3));
        });
        assert_eq!(&*message.data, "3");
        for unknown in ["", "x-1", &format!("{}-99", stream.epoch)] {
            let mut listener = stream.listen(Some(unknown));
            let message = listener.next().await;
            let is_reset = matches!(message, StreamMessage::Reset { .. });
            assert!(is_reset, "{message:?}");
            assert_eq!(&*event(&mut listener).await.data, "0");
        }
    }

    #[tokio::test]
    async fn k2_a_slow_listener_is_notified_of_lost_events_and_blocks_nothing() {
        let stream = stream();
        let mut slow = stream.listen(None);
        let large = "x".repeat(MAX_STORED_BYTES / 4);
        for number in 0..10 {
            stream.emit("a", None, &json!([number, &large]));
        }
        assert!(matches!(slow.next().await, StreamMessage::Ready { .. }));
        assert!(matches!(slow.next().await, StreamMessage::Reset { .. }));
        assert!(event(&mut slow).await.data.starts_with("[7,"));
        assert!(stream.ring.lock().bytes <= MAX_STORED_BYTES);
    }

    #[tokio::test]
    async fn l3_a_listener_of_one_user_receives_no_events_of_others() {
        let stream = stream();
        stream.emit("a", Some("alice"), &json!("hers"));
        stream.emit("a", Some("bob"), &json!("his"));
        let context = CallContext::default();
        let read = async |only_user| {
            let reader = ResourceReader {
                context: &context,
                only_user,
            };
            let read = stream.read("events://s", reader).await.unwrap();
            format!("{:?}", read.body)
        };
        let hers = read(Some("alice")).await;
        assert!(hers.contains("hers") && !hers.contains("his"), "{hers}");
        let all = read(None).await;
        assert!(all.contains("hers") && all.contains("his"), "{all}");
    }
}
