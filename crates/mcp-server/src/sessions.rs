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
use super::subscriptions::ResourceSubscription;
use pillion_gateway::calling_client::capabilities;
use pillion_gateway::calling_client::link::{LogThreshold, Question, Requester};
use pillion_gateway::calling_client::message;

/// Maximum number of sessions. Above this maximum, the principal with the most sessions loses one
/// session: the least recently used session without an open stream or running requests, or else the
/// least recently used session.
const MAX_SESSIONS: usize = 10_000;

/// Maximum number of sessions of one principal. Above this maximum, one session of the principal is
/// closed. The rule of [`MAX_SESSIONS`] selects the session.
const MAX_SESSIONS_PER_PRINCIPAL: usize = 1_000;

/// Time after which an unused session without an open stream expires.
const SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Maximum number of resource subscriptions per session.
pub(super) const MAX_RESOURCES: usize = 1_000;

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
    state: Mutex<SessionState>,
}

/// A request of the client in progress.
#[derive(Debug)]
struct RunningRequest {
    task: AbortHandle,
    /// A weak pointer that can be upgraded to an `Arc` only as long as the client waits for the
    /// response.
    client: Weak<AwaitingClient>,
}

/// A marker that exists as long as the client of a request waits for the response.
#[derive(Debug, Default)]
pub(super) struct AwaitingClient;

/// The way in which a client gets the responses to its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Responses {
    /// All responses arrive over one stream, so that only their IDs distinguish them.
    SharedStream,
    /// Each response arrives as the response of an HTTP request. Clients that are shared by several
    /// threads may send requests with equal IDs at the same time, although MCP forbids this.
    PerRequest,
}

#[derive(Debug)]
struct SessionState {
    last_used_at: Instant,
    /// The stream for messages that belong to no request.
    stream: Option<Outbox>,
    /// Requests that were sent to the client and await responses, by ID.
    pending_questions: HashMap<String, oneshot::Sender<Result<Value, RpcError>>>,
    /// The prefix of the IDs of requests to the client. The prefix is unique because a client may
    /// have pending requests of two sidecar processes, one of which is shutting down.
    request_prefix: String,
    question_count: u64,
    /// Requests of the client in progress, by ID as the client wrote it. A client may have several
    /// requests with one ID, each over its own connection.
    running_requests: HashMap<String, Vec<RunningRequest>>,
    /// The tasks of requests that were aborted because the session ended.
    aborted_tasks: HashSet<task::Id>,
    has_ended: bool,
    subscriptions: HashMap<String, ResourceSubscription>,
}

impl SessionState {
    fn is_busy(&mut self) -> bool {
        self.remove_finished();
        let stream = self.stream.as_ref();
        stream.is_some_and(|stream| !stream.is_closed()) || !self.running_requests.is_empty()
    }

    fn remove_finished(&mut self) {
        self.running_requests.retain(|_, requests| {
            requests.retain(|request| !request.task.is_finished());
            !requests.is_empty()
        });
    }
}

impl Sessions {
    /// Stores a session until the session is closed or expires, or is evicted because its
    /// principal, or all principals together, have too many sessions.
    pub(super) fn insert(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| !session.is_expired());
        let principal = session.counted_principal();
        let principal_sessions = sessions
            .values()
            .filter(|other| other.counted_principal() == principal);
        let evictable_id = if principal_sessions.count() >= self.max_sessions_per_principal {
            find_evictable_for(&sessions, principal)
        } else if sessions.len() >= self.max_sessions {
            find_evictable(&sessions)
        } else {
            None
        };
        if let Some(session) = evictable_id.and_then(|id| sessions.remove(&id)) {
            session.end();
        }
        sessions.insert(session.id, Arc::clone(session));
    }

    /// Returns the session with this ID if it belongs to `owner`.
    pub(super) fn get(&self, id: &str, owner: &Owner) -> Option<Arc<Session>> {
        let id = Uuid::parse_str(id).ok()?;
        let session = self.sessions.lock().get(&id).cloned()?;
        (session.owner == *owner).then(|| {
            session.state.lock().last_used_at = Instant::now();
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
            // Ends only the stream of the session. The requests in progress finish with their
            // connections.
            session.state.lock().stream = None;
        }
    }
}

/// Returns the ID of the session to evict when there are too many sessions in total.
fn find_evictable(sessions: &HashMap<Uuid, Arc<Session>>) -> Option<Uuid> {
    let mut session_counts: HashMap<Option<&str>, usize> = HashMap::new();
    for session in sessions.values() {
        let principal = session.counted_principal();
        *session_counts.entry(principal).or_default() += 1;
    }
    let max_count = session_counts.values().copied().max()?;
    let candidates = sessions
        .values()
        .filter(|session| session_counts.get(&session.counted_principal()) == Some(&max_count));
    let evicted_session = candidates.min_by_key(|session| session.eviction_rank())?;
    Some(evicted_session.id)
}

/// Returns the ID of the session to evict when a principal has too many sessions.
fn find_evictable_for(
    sessions: &HashMap<Uuid, Arc<Session>>,
    principal: Option<&str>,
) -> Option<Uuid> {
    let principal_sessions = sessions
        .values()
        .filter(|session| session.counted_principal() == principal);
    let evicted_session = principal_sessions.min_by_key(|session| session.eviction_rank())?;
    Some(evicted_session.id)
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
            state: Mutex::new(SessionState {
                last_used_at: Instant::now(),
                stream: None,
                pending_questions: HashMap::new(),
                request_prefix: format!("pillion-{}", Uuid::new_v4().simple()),
                question_count: 0,
                running_requests: HashMap::new(),
                aborted_tasks: HashSet::new(),
                has_ended: false,
                subscriptions: HashMap::new(),
            }),
        }
    }

    /// Returns the properties of the client that upstream servers need for a request in this
    /// session, such as the protocol revision and the capabilities.
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

    /// Registers a server-initiated request to the client, so that the client's response can be
    /// delivered, and returns the serialized request.
    pub(super) fn register_question(&self, question: Question) -> Bytes {
        let mut state = self.state.lock();
        state
            .pending_questions
            .retain(|_, reply| !reply.is_closed());
        state.question_count += 1;
        let id = format!("{}-{}", state.request_prefix, state.question_count);
        state.pending_questions.insert(id.clone(), question.reply);
        message::outgoing(Some(&id), &question.method, &question.params)
    }

    /// Delivers the client's response to a request. An unexpected response is ignored.
    pub(super) fn deliver_response(&self, id: &str, outcome: Result<Value, RpcError>) {
        let id = serde_json::from_str::<String>(id).ok();
        let response_sender = id.and_then(|id| self.state.lock().pending_questions.remove(&id));
        if let Some(response_sender) = response_sender {
            // The error is ignored, because sending fails only if the upstream server no longer
            // waits for the response.
            let _ = response_sender.send(outcome);
        }
    }

    /// Starts a request and registers it, so that the client can cancel the request. If the session
    /// has ended, aborts the request.
    ///
    /// # Errors
    /// A request with this ID is already running, and one of these conditions holds.
    ///
    /// - The client gets all responses over one stream, where equal IDs are ambiguous.
    /// - The client has lost the connection of the running request and repeats the request, which
    ///   must not run twice.
    pub(super) fn start_request<T>(
        &self,
        id: &str,
        responses: Responses,
        client: &Arc<AwaitingClient>,
        start: impl FnOnce() -> (T, AbortHandle),
    ) -> Result<T, RpcError> {
        let mut state = self.state.lock();
        state.remove_finished();
        let mut same_id_requests = state.running_requests.get(id).into_iter().flatten();
        let is_ambiguous = |request: &RunningRequest| {
            responses == Responses::SharedStream || request.client.strong_count() == 0
        };
        if same_id_requests.any(is_ambiguous) {
            return Err(message::used_id_error());
        }
        let (request, task) = start();
        if state.has_ended {
            task.abort();
            state.aborted_tasks.insert(task.id());
        } else {
            let client = Arc::downgrade(client);
            let same_id_requests = state.running_requests.entry(id.to_owned()).or_default();
            same_id_requests.push(RunningRequest { task, client });
        }
        Ok(request)
    }

    /// Cancels all running requests with this ID.
    pub(super) fn cancel(&self, id: &str) {
        let cancelled_requests = self.state.lock().running_requests.remove(id);
        for request in cancelled_requests.iter().flatten() {
            request.task.abort();
        }
    }

    /// Returns whether the request in this task was aborted because the session ended. The client
    /// has not cancelled the request, and waits for a response.
    pub(super) fn has_aborted(&self, task_id: task::Id) -> bool {
        self.state.lock().aborted_tasks.contains(&task_id)
    }

    /// Adds a resource subscription. Returns `false` if the session already has the maximum number.
    pub(super) fn add_subscription(&self, uri: String, subscription: ResourceSubscription) -> bool {
        let mut state = self.state.lock();
        let has_room =
            state.subscriptions.len() < MAX_RESOURCES || state.subscriptions.contains_key(&uri);
        if has_room {
            state.subscriptions.insert(uri, subscription);
        }
        has_room
    }

    pub(super) fn remove_subscription(&self, uri: &str) {
        self.state.lock().subscriptions.remove(uri);
    }

    /// Returns the principal toward whose maximum number of sessions this session counts. There is
    /// no maximum per user, because a caller could claim any number of user names.
    fn counted_principal(&self) -> Option<&str> {
        self.owner.principal.as_deref()
    }

    /// Returns whether the session has an open stream or running requests, and the time of its last
    /// use.
    fn eviction_rank(&self) -> (bool, Instant) {
        let mut state = self.state.lock();
        (state.is_busy(), state.last_used_at)
    }

    fn is_expired(&self) -> bool {
        let (is_busy, last_used_at) = self.eviction_rank();
        !is_busy && last_used_at.elapsed() > SESSION_IDLE_TIMEOUT
    }

    /// Ends the session with its stream, its subscriptions and its running requests.
    pub(super) fn end(&self) {
        let state = &mut *self.state.lock();
        state.has_ended = true;
        state.stream = None;
        state.pending_questions.clear();
        state.subscriptions.clear();
        let running_requests = std::mem::take(&mut state.running_requests);
        for request in running_requests.into_values().flatten() {
            request.task.abort();
            state.aborted_tasks.insert(request.task.id());
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
        let first_session = open();
        let endless = || tokio::spawn(std::future::pending::<()>());
        let (cancelled, running, late) = (endless(), endless(), endless());
        let (cancelled_id, running_id) = (cancelled.id(), running.id());
        let client = Arc::new(AwaitingClient);
        let start_in = |session: &Session, id: &str, task: AbortHandle| {
            let start = || ((), task);
            let start_result = session.start_request(id, Responses::PerRequest, &client, start);
            start_result.unwrap();
        };
        let repeated = endless();
        let repeated_id = repeated.id();
        start_in(&first_session, "1", cancelled.abort_handle());
        start_in(&first_session, "2", running.abort_handle());
        start_in(&first_session, "2", repeated.abort_handle());
        first_session.cancel("1");
        let second_session = open();
        let other_task = endless();
        start_in(&second_session, "1", other_task.abort_handle());
        let _third = open();
        assert!(running.await.unwrap_err().is_cancelled());
        assert!(repeated.await.unwrap_err().is_cancelled());
        assert!(first_session.has_aborted(running_id) && first_session.has_aborted(repeated_id));
        let is_aborted = first_session.has_aborted(cancelled_id);
        assert!(!is_aborted, "the client has cancelled it");
        let late_id = late.id();
        start_in(&first_session, "3", late.abort_handle());
        assert!(late.await.unwrap_err().is_cancelled());
        assert!(first_session.has_aborted(late_id));
        assert_eq!(sessions.sessions.lock().len(), 2);
    }

    #[tokio::test]
    async fn an_id_may_be_used_again_if_every_client_waits_for_its_own_response() {
        let session = Session::new(ProtocolVersion::V2025_11_25, Map::new(), Owner::default());
        let start_request = |responses, client: &Arc<AwaitingClient>| {
            let task = tokio::spawn(std::future::pending::<()>());
            let start_result =
                session.start_request("1", responses, client, || ((), task.abort_handle()));
            if start_result.is_err() {
                task.abort();
            }
            start_result.map(|()| task)
        };
        let (first_client, second_client) = (Arc::default(), Arc::default());
        let running = [
            start_request(Responses::SharedStream, &first_client).unwrap(),
            start_request(Responses::PerRequest, &second_client).unwrap(),
        ];
        start_request(Responses::SharedStream, &second_client).unwrap_err();
        // The client has lost the connection of the first request, and repeats the request.
        drop(first_client);
        start_request(Responses::PerRequest, &second_client).unwrap_err();
        // A cancellation names only the ID, so it cancels both requests.
        session.cancel("1");
        for cancelled in running {
            assert!(cancelled.await.unwrap_err().is_cancelled());
        }
        let task = start_request(Responses::SharedStream, &second_client).unwrap();
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
        let alice = open("alice");
        let listening = open("eve");
        let stream = listening.open_stream();
        let running = open("eve");
        let endless = tokio::spawn(std::future::pending::<()>());
        let (client, start) = (Arc::default(), || ((), endless.abort_handle()));
        let start_result = running.start_request("1", Responses::PerRequest, &client, start);
        start_result.unwrap();
        let idle = open("eve");
        let next = open("eve");
        assert!(!is_in_map(&idle), "it is unused");
        let mut used_sessions = [&alice, &listening, &running, &next].into_iter();
        assert!(used_sessions.all(is_in_map));
        let bob = open("bob");
        assert!(!is_in_map(&next));
        assert!(is_in_map(&alice), "Alice has fewer sessions");
        drop(stream);
        let carol = open("carol");
        assert!(!is_in_map(&listening), "its stream is closed");
        let mut remaining_sessions = [&alice, &bob, &running, &carol].into_iter();
        assert!(remaining_sessions.all(is_in_map));
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
        let alice_session = open(Some("alice"));
        let anonymous_session = open(None);
        let eve_sessions = [(); 3].map(|()| open(Some("eve")));
        assert_eq!(eve_sessions.each_ref().map(is_in_map), [false, true, true]);
        let listening_session = eve_sessions[1].open_stream();
        let next_session = open(Some("eve"));
        assert_eq!(eve_sessions.each_ref().map(is_in_map), [false, true, false]);
        let mut other_sessions = [&alice_session, &anonymous_session, &next_session].into_iter();
        assert!(other_sessions.all(is_in_map));
        drop(listening_session);
    }

    #[test]
    fn the_notifications_that_wait_on_the_stream_of_a_session_are_limited_in_bytes() {
        let session = Session::new(ProtocolVersion::V2025_11_25, Map::new(), Owner::default());
        let mut stream = session.open_stream();
        for _ in 0..200 {
            session.push(vec![b'x'; 60_000].into());
        }
        let waiting = std::iter::from_fn(|| stream.try_recv().ok());
        let bytes: usize = waiting.map(|outgoing| outgoing.message.len()).sum();
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
