//! The sessions of clients that speak a revision with a handshake.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use parking_lot::Mutex;
use pillion_core::mcp::{ProtocolVersion, RpcError};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use uuid::Uuid;

use super::Owner;
use super::link::{LogThreshold, Question, Requester};
use super::message;
use super::subscriptions::Subscribed;

/// How many sessions there may be; then the one that was used least recently goes.
const MOST_SESSIONS: usize = 10_000;

/// How long a session may go unused while nobody listens.
const LONGEST_IDLE: Duration = Duration::from_secs(3600);

/// How many messages may wait on the stream of a session that is not read.
const MOST_WAITING: usize = 256;

/// Resources that one session may watch.
const MOST_RESOURCES: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Uuid, Arc<Session>>>);

/// One client's session. It holds nothing of the servers below but what the client watches.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: Uuid,
    pub(super) version: ProtocolVersion,
    owner: Owner,
    capabilities: Arc<Map<String, Value>>,
    log_level: LogThreshold,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last_used: Instant,
    /// The stream for what belongs to no request.
    stream: Option<mpsc::Sender<Bytes>>,
    /// Questions that the client has been asked, by their ids.
    asked: HashMap<String, oneshot::Sender<Result<Value, RpcError>>>,
    /// Before their numbers: a client may have questions of two sidecars at a time, the one
    /// that ends and the next.
    question_prefix: String,
    questions: u64,
    /// Requests of the client that are being answered, by their ids as it wrote them.
    running: HashMap<String, AbortHandle>,
    resources: HashMap<String, Subscribed>,
}

impl Sessions {
    pub(super) fn open(
        &self,
        version: ProtocolVersion,
        capabilities: Map<String, Value>,
        owner: Owner,
    ) -> Arc<Session> {
        let session = Arc::new(Session::new(version, capabilities, owner));
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| !session.is_forgotten());
        if sessions.len() >= MOST_SESSIONS {
            let oldest = sessions.values().min_by_key(|session| session.last_used());
            if let Some(id) = oldest.map(|session| session.id) {
                end(sessions.remove(&id));
            }
        }
        sessions.insert(session.id, Arc::clone(&session));
        session
    }

    /// The session of that id, if it is this one's.
    pub(super) fn get(&self, id: &str, owner: &Owner) -> Option<Arc<Session>> {
        let id = Uuid::parse_str(id).ok()?;
        let session = self.0.lock().get(&id).cloned()?;
        (session.owner == *owner).then(|| {
            session.state.lock().last_used = Instant::now();
            session
        })
    }

    pub(super) fn close(&self, session: &Session) {
        self.0.lock().remove(&session.id);
        session.end();
    }

    pub(super) fn end_all(&self) {
        let sessions = std::mem::take(&mut *self.0.lock());
        for session in sessions.into_values() {
            // What runs is drained with its connection.
            session.state.lock().stream = None;
        }
    }
}

fn end(session: Option<Arc<Session>>) {
    if let Some(session) = session {
        session.end();
    }
}

impl Session {
    pub(super) fn new(
        version: ProtocolVersion,
        capabilities: Map<String, Value>,
        owner: Owner,
    ) -> Self {
        Self {
            id: Uuid::new_v4(),
            version,
            owner,
            capabilities: Arc::new(capabilities),
            log_level: LogThreshold::new(None),
            state: Mutex::new(State {
                last_used: Instant::now(),
                stream: None,
                asked: HashMap::new(),
                question_prefix: format!("pillion-{}", Uuid::new_v4().simple()),
                questions: 0,
                running: HashMap::new(),
                resources: HashMap::new(),
            }),
        }
    }

    /// Who makes a request in this session.
    pub(super) fn requester(&self, hears: bool) -> Requester {
        Requester {
            owner: self.id,
            version: self.version,
            capabilities: Arc::clone(&self.capabilities),
            log_level: self.log_level.clone(),
            param_headers: None,
            hears,
        }
    }

    pub(super) fn log_level(&self) -> &LogThreshold {
        &self.log_level
    }

    /// Opens the stream for what belongs to no request; one that was open ends.
    pub(super) fn open_stream(&self) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        self.state.lock().stream = Some(sender);
        receiver
    }

    /// Says something that belongs to no request, if the client listens and keeps up.
    pub(super) fn push(&self, message: Bytes) {
        if let Some(stream) = &self.state.lock().stream {
            let _ = stream.try_send(message);
        }
    }

    /// The request that asks the client; its answer goes to the question.
    pub(super) fn ask(&self, question: Question) -> Bytes {
        let mut state = self.state.lock();
        state.asked.retain(|_, reply| !reply.is_closed());
        state.questions += 1;
        let id = format!("{}-{}", state.question_prefix, state.questions);
        state.asked.insert(id.clone(), question.reply);
        message::outgoing(Some(&id), &question.method, &question.params)
    }

    /// Takes the client's answer to a question; one that nobody asked is ignored.
    pub(super) fn answered(&self, id: &str, outcome: Result<Value, RpcError>) {
        let id: Result<String, _> = serde_json::from_str(id);
        let reply = id.ok().and_then(|id| self.state.lock().asked.remove(&id));
        if let Some(reply) = reply {
            // Whoever asked may have given up.
            let _ = reply.send(outcome);
        }
    }

    /// Notes that a request is being answered, so that the client can cancel it.
    pub(super) fn begin(&self, id: &str, handle: AbortHandle) {
        let mut state = self.state.lock();
        state.running.retain(|_, handle| !handle.is_finished());
        state.running.insert(id.to_owned(), handle);
    }

    pub(super) fn cancel(&self, id: &str) {
        if let Some(handle) = self.state.lock().running.remove(id) {
            handle.abort();
        }
    }

    /// Watches a resource; false if there are too many.
    pub(super) fn watch(&self, uri: String, subscribed: Subscribed) -> bool {
        let mut state = self.state.lock();
        let fits = state.resources.len() < MOST_RESOURCES || state.resources.contains_key(&uri);
        if fits {
            state.resources.insert(uri, subscribed);
        }
        fits
    }

    pub(super) fn unwatch(&self, uri: &str) {
        self.state.lock().resources.remove(uri);
    }

    fn last_used(&self) -> Instant {
        self.state.lock().last_used
    }

    fn is_forgotten(&self) -> bool {
        let mut state = self.state.lock();
        state.running.retain(|_, handle| !handle.is_finished());
        let listens = state
            .stream
            .as_ref()
            .is_some_and(|stream| !stream.is_closed());
        !listens && state.running.is_empty() && state.last_used.elapsed() > LONGEST_IDLE
    }

    /// Gives up what it has going.
    fn end(&self) {
        let mut state = self.state.lock();
        state.stream = None;
        state.asked.clear();
        state.resources.clear();
        for (_, handle) in state.running.drain() {
            handle.abort();
        }
    }
}
