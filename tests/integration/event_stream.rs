//! Server-sent events of the sidecar, read as they arrive.

use crate::prelude::*;

/// An open stream of events.
pub struct EventStream(BufReader<UnixStream>);

#[derive(Debug, PartialEq)]
pub struct Event {
    pub id: String,
    pub kind: String,
    pub data: Value,
}

impl EventStream {
    /// Opens the stream at `target`. The request is HTTP/1.0, so the body has no chunks.
    pub fn open(socket: &Path, target: &str, headers: &str) -> Self {
        let mut stream = socket.connect();
        write!(stream, "GET {target} HTTP/1.0\r\nhost: x\r\n{headers}\r\n").unwrap();
        let mut lines = BufReader::new(stream);
        let mut status = String::new();
        lines.read_line(&mut status).unwrap();
        assert_contains!(status, " 200 ");
        Self(lines)
    }

    /// Opens the stream of the sidecar's events. Returns also the ID of its first event, `ready`.
    pub fn from_now(socket: &Path, query: &str) -> (Self, String) {
        let mut stream = Self::open(socket, &format!("/api/v1/events{query}"), "");
        let ready = stream.expect("ready");
        (stream, ready.id)
    }

    /// Opens the stream of the sidecar's events after the event with this ID.
    pub fn after(socket: &Path, id: &str) -> Self {
        Self::open(
            socket,
            "/api/v1/events",
            &format!("last-event-id: {id}\r\n"),
        )
    }

    /// Returns the next event, or `None` at the end.
    pub fn next(&mut self) -> Option<Event> {
        let (mut id, mut kind) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", text)) => text.clone_into(&mut id),
                Some(("event", text)) => text.clone_into(&mut kind),
                Some(("data", text)) => {
                    let data = serde_json::from_str(text).unwrap();
                    return Some(Event { id, kind, data });
                }
                _ => {}
            }
        }
    }

    /// Returns the next event, which has to be of this kind.
    pub fn expect(&mut self, kind: &str) -> Event {
        let event = self.next().unwrap();
        assert_eq!(event.kind, kind, "{event:?}");
        event
    }
}
