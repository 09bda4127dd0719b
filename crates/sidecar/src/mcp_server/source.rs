//! Where the messages of an answer come from, one after the other.

use std::pin::Pin;

use axum::body::Bytes;
use serde_json::json;
use tokio::sync::mpsc;

use super::Caller;
use super::listening::{Change, Ear};
use super::sessions::Session;
use super::subscriptions::Subscribed;
use crate::app::App;
use crate::calling_client::message;

/// Where the messages of a stream come from.
pub(super) trait Source: Send + 'static {
    /// The next message; none at the end. Its future may be dropped, and nothing is lost.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// What a client listens to that belongs to no request: messages of its own, and changes of
/// what there is. It ends when the messages do, or the sidecar stops.
pub(super) struct Listener {
    pub(super) messages: mpsc::Receiver<Bytes>,
    pub(super) ear: Ear,
    /// The message that tells of a change, if the client wants to hear of it.
    pub(super) tell: Box<dyn Fn(Change) -> Option<Bytes> + Send>,
    pub(super) stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Said last, when the sidecar stops.
    pub(super) farewell: Option<Bytes>,
    /// What ends with the stream.
    pub(super) held: Vec<Subscribed>,
    /// Keeps the messages from ending.
    pub(super) _open: Option<mpsc::Sender<Bytes>>,
    pub(super) is_over: bool,
}

impl Listener {
    /// The stream of a session, for what belongs to no request of it.
    pub(super) fn of_session(app: &App, caller: &Caller, session: &Session) -> Self {
        Self {
            messages: session.open_stream(),
            ear: app.mcp().listening.listen(app, &caller.visibility),
            tell: Box::new(|change| Some(message::outgoing(None, change, &json!({})))),
            stopped: Box::pin(app.mcp().stopped()),
            farewell: None,
            held: Vec::new(),
            _open: None,
            is_over: false,
        }
    }
}

impl Source for Listener {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_over {
            tokio::select! {
                biased;
                () = &mut self.stopped => {
                    self.is_over = true;
                    self.held.clear();
                    return self.farewell.take();
                }
                message = self.messages.recv() => {
                    self.is_over = message.is_none();
                    return message;
                }
                change = self.ear.next() => if let Some(message) = (self.tell)(change) {
                    return Some(message);
                },
            }
        }
        None
    }
}
