//! The sessions of clients with a protocol revision that has a handshake.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Bytes;
use parking_lot::Mutex;
use pillion_mcp_client::{ProtocolVersion, RpcError};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{self, AbortHandle};
use tokio::time::Instant;
use uuid::Uuid;

use super::Owner;
use super::outbox::{Outbox, Outgoing};
use super::subscriptions::Subscribed;
use pillion_gateway::calling_client::capabilities;
use pillion_gateway::calling_client::link::{LogThreshold, Question, Requester};
use pillion_gateway::calling_client::message;

/// Maximum number of sessions. Above the limit, the principal with the most sessions loses one: the
/// least recently used session without an open stream or running requests, or else the least
/// recently used session.
const MAX_SESSIONS: usize = 10_000;

/// Maximum number of sessions of one principal. Above this limit, one of the principal's own
/// sessions is closed, which is chosen by the rule of [`MAX_SESSIONS`].
const MAX_SESSIONS_PER_PRINCIPAL: usize = 1_000;

/// Time after which an unused session without an open stream expires.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Maximum number of resource subscriptions per session.
const MAX_RESOURCES: usize = 1_000;

/// The sessions of HTTP clients. Sessions of clients with their own connection (stdio) are not in
/// this map and end with the connection.
#[derive(Debug)]
pub(super) struct Sessions {
    sessions: Mutex<HashMap<Uuid, Arc<Session>>>,
    max_sessions: usize,
    max_sessions_per_principal: usize,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            sessions: Mutex::default(),
            max_sessions: MAX_SESSIONS,
            max_sessions_per_principal: MAX_SESSIONS_PER_PRINCIPAL,
        }
    }
}

/// The session of one client. A session stores no state of upstream servers except resource
/// subscriptions.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: Uuid,
    pub(super) version: ProtocolVersion,
    owner: Owner,
    capabilities: Arc<Map<String, Value>>,
    log_level: LogThreshold,
    state: Mutex<State>,
}

/// A request of the client in progress.
#[derive(Debug)]
struct RunningRequest {
    task: AbortHandle,
    /// Can be upgraded as long as the client waits for the response.
    client: Weak<AwaitingClient>,
}

/// Held while the client of a request waits for the response.
#[derive(Debug, Default)]
pub(super) struct AwaitingClient;

/// How a client gets the responses to its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Responses {
    /// All responses arrive over one stream, so that only their ids distinguish them.
    OneStream,
    /// Each response arrives as the response of an HTTP request. Clients that several threads share
    /// send requests with equal ids at the same time, although MCP forbids this.
    Separate,
}

#[derive(Debug)]
struct State {
    last_used: Instant,
    /// The stream for messages that belong to no request.
    stream: Option<Outbox>,
    /// Requests that were sent to the client and await responses, by id.
    pending: HashMap<String, oneshot::Sender<Result<Value, RpcError>>>,
    /// The prefix of the ids of requests to the client. The prefix is unique because a client may
    /// have pending requests of two sidecar processes, one of which is shutting down.
    request_prefix: String,
    questions: u64,
    /// Requests of the client in progress, by id as the client wrote it. A client may have several
    /// requests with one id, each over its own connection.
    running: HashMap<String, Vec<RunningRequest>>,
    /// The tasks of requests that were aborted because the session ended.
    cut_off: HashSet<task::Id>,
    has_ended: bool,
    resources: HashMap<String, Subscribed>,
}

impl State {
    fn is_busy(&mut self) -> bool {
        self.forget_finished();
        let stream = self.stream.as_ref();
        stream.is_some_and(|stream| !stream.is_closed()) || !self.running.is_empty()
    }

    fn forget_finished(&mut self) {
        self.running.retain(|_, requests| {
            requests.retain(|request| !request.task.is_finished());
            !requests.is_empty()
        });
    }
}

impl Sessions {
    /// Stores a session until it is closed, expires, or is evicted because its principal or all
    /// principals have too many sessions.
    pub(super) fn insert(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| !session.is_expired());
        let holder = session.holder();
        let same_principal = sessions.values().filter(|other| other.holder() == holder);
        let evicted = if same_principal.count() >= self.max_sessions_per_principal {
            find_evictable_for(&sessions, holder)
        } else if sessions.len() >= self.max_sessions {
            find_evictable(&sessions)
        } else {
            None
        };
        if let Some(session) = evicted.and_then(|id| sessions.remove(&id)) {
            session.end();
        }
        sessions.insert(session.id, Arc::clone(session));
    }

    /// Returns the session with this id if it belongs to `owner`.
    pub(super) fn get(&self, id: &str, owner: &Owner) -> Option<Arc<Session>> {
        let id = Uuid::parse_str(id).ok()?;
        let session = self.sessions.lock().get(&id).cloned()?;
        (session.owner == *owner).then(|| {
            session.state.lock().last_used = Instant::now();
            session
        })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.sessions.lock().len()
    }

    pub(super) fn close(&self, session: &Session) {
        self.sessions.lock().remove(&session.id);
        session.end();
    }

    pub(super) fn end_all(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        for session in sessions.into_values() {
            // The requests in progress finish with their connections.
            session.state.lock().stream = None;
        }
    }
}

/// Returns the id of the session to evict when there are too many sessions in total.
fn find_evictable(sessions: &HashMap<Uuid, Arc<Session>>) -> Option<Uuid> {
    let mut numbers: HashMap<Option<&str>, usize> = HashMap::new();
    for session in sessions.values() {
        *numbers.entry(session.holder()).or_default() += 1;
    }
    let highest = numbers.values().copied().max()?;
    let heaviest = sessions
        .values()
        .filter(|session| numbers.get(&session.holder()) == Some(&highest));
    let evicted = heaviest.min_by_key(|session| session.usage())?;
    Some(evicted.id)
}

/// Returns the id of the session to evict when a principal has too many sessions.
fn find_evictable_for(
    sessions: &HashMap<Uuid, Arc<Session>>,
    holder: Option<&str>,
) -> Option<Uuid> {
    let same_principal = sessions.values().filter(|it| it.holder() == holder);
    let evicted = same_principal.min_by_key(|session| session.usage())?;
    Some(evicted.id)
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
            capabilities: capabilities::limit_size(capabilities),
            log_level: LogThreshold::new(None),
            state: Mutex::new(State {
                last_used: Instant::now(),
                stream: None,
                pending: HashMap::new(),
                request_prefix: format!("pillion-{}", Uuid::new_v4().simple()),
                questions: 0,
                running: HashMap::new(),
                cut_off: HashSet::new(),
                has_ended: false,
                resources: HashMap::new(),
            }),
        }
    }

    /// Returns the requester for a request in this session.
    pub(super) fn requester(&self, can_stream: bool) -> Requester {
        Requester {
            owner: self.id,
            version: self.version,
            capabilities: Arc::clone(&self.capabilities),
            log_level: self.log_level.clone(),
            param_headers: None,
            can_stream,
        }
    }

    pub(super) fn log_level(&self) -> &LogThreshold {
        &self.log_level
    }

    /// Opens the stream for messages that belong to no request, and ends the previous stream.
    pub(super) fn open_stream(&self) -> mpsc::Receiver<Outgoing> {
        let (outbox, receiver) = Outbox::for_notifications();
        self.state.lock().stream = Some(outbox);
        receiver
    }

    /// Sends a notification that belongs to no request, if there is a stream with room.
    pub(super) fn push(&self, message: Bytes) {
        if let Some(stream) = &self.state.lock().stream {
            stream.notify(message);
        }
    }

    /// Creates a request to the client for `question`, and registers where the response goes.
    pub(super) fn ask(&self, question: Question) -> Bytes {
        let mut state = self.state.lock();
        state.pending.retain(|_, reply| !reply.is_closed());
        state.questions += 1;
        let id = format!("{}-{}", state.request_prefix, state.questions);
        state.pending.insert(id.clone(), question.reply);
        message::outgoing(Some(&id), &question.method, &question.params)
    }

    /// Delivers the client's response to a request. An unexpected response is ignored.
    pub(super) fn deliver_response(&self, id: &str, outcome: Result<Value, RpcError>) {
        let id: Result<String, _> = serde_json::from_str(id);
        let reply = id.ok().and_then(|id| self.state.lock().pending.remove(&id));
        if let Some(reply) = reply {
            // The receiver no longer exists if the upstream server has given up.
            let _ = reply.send(outcome);
        }
    }

    /// Starts a request and registers it, so that the client can cancel the request. If the session
    /// has ended, aborts the request.
    ///
    /// # Errors
    /// A request with this id is running, and either the client gets all responses over one stream,
    /// or it no longer waits for the response to the running request. In the latter case, the
    /// client repeats a request whose connection it has lost, and the request must not run twice.
    pub(super) fn begin<T>(
        &self,
        id: &str,
        responses: Responses,
        client: &Arc<AwaitingClient>,
        start: impl FnOnce() -> (T, AbortHandle),
    ) -> Result<T, RpcError> {
        let mut state = self.state.lock();
        state.forget_finished();
        let mut others = state.running.get(id).into_iter().flatten();
        let is_ambiguous = |other: &RunningRequest| {
            responses == Responses::OneStream || other.client.strong_count() == 0
        };
        if others.any(is_ambiguous) {
            return Err(message::used_id());
        }
        let (request, task) = start();
        if state.has_ended {
            task.abort();
            state.cut_off.insert(task.id());
        } else {
            let client = Arc::downgrade(client);
            let running = state.running.entry(id.to_owned()).or_default();
            running.push(RunningRequest { task, client });
        }
        Ok(request)
    }

    /// Cancels all running requests with this id.
    pub(super) fn cancel(&self, id: &str) {
        let cancelled = self.state.lock().running.remove(id);
        for request in cancelled.iter().flatten() {
            request.task.abort();
        }
    }

    /// Returns whether the request in this task was aborted because the session ended. The client
    /// has not cancelled the request, and waits for a response.
    pub(super) fn has_aborted(&self, request: task::Id) -> bool {
        self.state.lock().cut_off.contains(&request)
    }

    /// Adds a resource subscription. Returns `false` if there are too many.
    pub(super) fn watch(&self, uri: String, subscribed: Subscribed) -> bool {
        let mut state = self.state.lock();
        let fits = state.resources.len() < MAX_RESOURCES || state.resources.contains_key(&uri);
        if fits {
            state.resources.insert(uri, subscribed);
        }
        fits
    }

    pub(super) fn unwatch(&self, uri: &str) {
        self.state.lock().resources.remove(uri);
    }

    /// Returns the principal whose number of sessions includes this session. Users are not counted,
    /// because a caller could claim any number of user names.
    fn holder(&self) -> Option<&str> {
        self.owner.principal.as_deref()
    }

    /// Returns whether the session has an open stream or running requests, and when it was last
    /// used.
    fn usage(&self) -> (bool, Instant) {
        let mut state = self.state.lock();
        (state.is_busy(), state.last_used)
    }

    fn is_expired(&self) -> bool {
        let (is_busy, last_used) = self.usage();
        !is_busy && last_used.elapsed() > SESSION_IDLE_TIMEOUT
    }

    /// Ends the session: its stream, subscriptions and running requests.
    pub(super) fn end(&self) {
        let state = &mut *self.state.lock();
        state.has_ended = true;
        state.stream = None;
        state.pending.clear();
        state.resources.clear();
        for request in state.running.drain().flat_map(|(_, requests)| requests) {
            request.task.abort();
            state.cut_off.insert(request.task.id());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens and stores a session of `principal`.
    fn open_session(sessions: &Sessions, principal: Option<&str>) -> Arc<Session> {
        let owner = Owner {
            principal: principal.map(str::to_owned),
            ..Owner::default()
        };
        let session = Session::new(ProtocolVersion::V2025_11_25, Map::new(), owner);
        let session = Arc::new(session);
        sessions.insert(&session);
        session
    }

    fn is_stored(sessions: &Sessions, session: &Session) -> bool {
        sessions.sessions.lock().contains_key(&session.id)
    }

    #[tokio::test]
    async fn an_evicted_session_knows_which_requests_it_aborted() {
        let sessions = Sessions {
            sessions: Mutex::default(),
            max_sessions: 2,
            max_sessions_per_principal: 2,
        };
        let open = || open_session(&sessions, None);
        let first = open();
        let endless = || tokio::spawn(std::future::pending::<()>());
        let (cancelled, running, late) = (endless(), endless(), endless());
        let (of_cancelled, of_running) = (cancelled.id(), running.id());
        let client = Arc::new(AwaitingClient);
        let begin = |session: &Session, id: &str, task: AbortHandle| {
            let start = || ((), task);
            let begun = session.begin(id, Responses::Separate, &client, start);
            begun.unwrap();
        };
        let again = endless();
        let of_again = again.id();
        begin(&first, "1", cancelled.abort_handle());
        begin(&first, "2", running.abort_handle());
        begin(&first, "2", again.abort_handle());
        first.cancel("1");
        let second = open();
        let other = endless();
        begin(&second, "1", other.abort_handle());
        let _third = open();
        assert!(running.await.unwrap_err().is_cancelled());
        assert!(again.await.unwrap_err().is_cancelled());
        assert!(first.has_aborted(of_running) && first.has_aborted(of_again));
        let is_aborted = first.has_aborted(of_cancelled);
        assert!(!is_aborted, "the client has cancelled it");
        let of_late = late.id();
        begin(&first, "3", late.abort_handle());
        assert!(late.await.unwrap_err().is_cancelled());
        assert!(first.has_aborted(of_late));
        assert_eq!(sessions.sessions.lock().len(), 2);
    }

    #[tokio::test]
    async fn an_id_may_be_used_again_if_every_client_waits_for_its_own_response() {
        let session = Session::new(ProtocolVersion::V2025_11_25, Map::new(), Owner::default());
        let begin = |responses, client: &Arc<AwaitingClient>| {
            let task = tokio::spawn(std::future::pending::<()>());
            let started = session.begin("1", responses, client, || ((), task.abort_handle()));
            if started.is_err() {
                task.abort();
            }
            started.map(|()| task)
        };
        let (first, second) = (Arc::default(), Arc::default());
        let running = [
            begin(Responses::OneStream, &first).unwrap(),
            begin(Responses::Separate, &second).unwrap(),
        ];
        begin(Responses::OneStream, &second).unwrap_err();
        // The client has lost the connection of the first request, and repeats the request.
        drop(first);
        begin(Responses::Separate, &second).unwrap_err();
        // A cancellation names only the id, so it cancels both requests.
        session.cancel("1");
        for cancelled in running {
            assert!(cancelled.await.unwrap_err().is_cancelled());
        }
        let task = begin(Responses::OneStream, &second).unwrap();
        assert!(!task.is_finished());
        task.abort();
    }

    #[tokio::test]
    async fn the_principal_with_the_most_sessions_loses_an_unused_one() {
        let sessions = Sessions {
            sessions: Mutex::default(),
            max_sessions: 4,
            max_sessions_per_principal: 4,
        };
        let open = |principal: &str| open_session(&sessions, Some(principal));
        let is_in_map = |session: &Arc<Session>| is_stored(&sessions, session);
        let alices = open("alice");
        let listens = open("eve");
        let stream = listens.open_stream();
        let runs = open("eve");
        let endless = tokio::spawn(std::future::pending::<()>());
        let (client, start) = (Arc::default(), || ((), endless.abort_handle()));
        runs.begin("1", Responses::Separate, &client, start)
            .unwrap();
        let idle = open("eve");
        let next = open("eve");
        assert!(!is_in_map(&idle), "it is unused");
        assert!(is_in_map(&alices) && is_in_map(&listens) && is_in_map(&runs) && is_in_map(&next));
        let bobs = open("bob");
        assert!(!is_in_map(&next));
        assert!(is_in_map(&alices), "Alice has fewer sessions");
        drop(stream);
        let carols = open("carol");
        assert!(!is_in_map(&listens), "its stream is closed");
        assert!([&alices, &bobs, &runs, &carols].into_iter().all(is_in_map));
        assert!(!endless.is_finished());
    }

    #[tokio::test]
    async fn a_principal_with_too_many_sessions_loses_its_least_recently_used_one() {
        let sessions = Sessions {
            max_sessions_per_principal: 2,
            ..Sessions::default()
        };
        let open = |principal: Option<&str>| open_session(&sessions, principal);
        let is_in_map = |session: &Arc<Session>| is_stored(&sessions, session);
        let alices = open(Some("alice"));
        let anonymous = open(None);
        let eves = [(); 3].map(|()| open(Some("eve")));
        assert_eq!(eves.each_ref().map(is_in_map), [false, true, true]);
        let listens = eves[1].open_stream();
        let next = open(Some("eve"));
        assert_eq!(eves.each_ref().map(is_in_map), [false, true, false]);
        assert!([&alices, &anonymous, &next].into_iter().all(is_in_map));
        drop(listens);
    }

    #[test]
    fn the_notifications_that_wait_on_the_stream_of_a_session_are_limited_in_bytes() {
        let session = Session::new(ProtocolVersion::V2025_11_25, Map::new(), Owner::default());
        let mut stream = session.open_stream();
        for _ in 0..200 {
            session.push(vec![b'x'; 60_000].into());
        }
        let waiting = std::iter::from_fn(|| stream.try_recv().ok());
        let bytes: usize = waiting.map(|it| it.message.len()).sum();
        assert_eq!(bytes, 240_000);
    }

    #[test]
    fn the_size_of_stored_client_capabilities_is_limited() {
        let long = Value::String("x".repeat(1024 * 1024));
        let declared = Map::from_iter([("junk".to_owned(), long)]);
        let session = Session::new(ProtocolVersion::V2025_11_25, declared, Owner::default());
        assert!(session.capabilities.is_empty());
    }
}
