mod info;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use serde_json::value::to_raw_value;
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::circuit::CircuitBreaker;
use super::false_alarms::FalseAlarms;
use super::session_settings::SessionSettings;
use crate::close_signal::CloseSignal;
use crate::connect::OpenedSession;
use crate::dialect::ServerDialect;
use crate::opener::ConnectionOpener;
use crate::peer::Peer;
use crate::probe::ProbeSteps;
use crate::secrets::Secrets;
use crate::session::{RequestExtras, Session};
use crate::{
    AuthorizationResponse, Feature, Handshake, McpErrorKind, PendingAuthorization, ProbeStep,
    ServerConfig, TransportKind,
};
pub use info::{ConnectionInfo, OpenConnection};

/// The connection of a client. A client has at most one open connection, which is opened on demand.
pub(super) struct ClientConnection {
    config: Arc<ServerConfig>,
    /// The credentials of the client, which are removed from errors.
    pub(super) secrets: Arc<Secrets>,
    peer: Arc<Peer>,
    opener: OnceLock<Arc<ConnectionOpener>>,
    circuit: CircuitBreaker,
    /// Recent error responses that suggested a changed transport or revision, until a check found
    /// both unchanged.
    pub(super) false_alarms: FalseAlarms,
    pub(super) settings: SessionSettings,
    /// Set by `disconnect`: operations fail until the client is reopened.
    pub(super) close_signal: CloseSignal,
    /// The current connection. Written only with the lock of `running_attempt` held, but read
    /// without it, so that requests on an open connection do not wait.
    current_session: RwLock<Option<Arc<OpenSession>>>,
    running_attempt: Mutex<RunningAttempt>,
    /// Number of connections that this client has opened.
    opened_count: AtomicU64,
    /// Steps of the last connection attempt.
    attempt_steps: parking_lot::Mutex<ProbeSteps>,
}

/// The current connection attempt. If a waiting caller gives up, the next caller waits for the same
/// attempt.
type RunningAttempt = Option<AbortOnDropHandle<Result<OpenedSession, McpErrorKind>>>;

struct OpenSession {
    session: Arc<Session>,
    dialect: ServerDialect,
    steps: Vec<ProbeStep>,
    /// Number of connections that the client opened before this one.
    number: u64,
}

impl OpenSession {
    fn connection_info(&self) -> ConnectionInfo {
        ConnectionInfo {
            transport: self.dialect.transport,
            protocol_version: self.session.version(),
            server: self.session.handshake_result().map(ToOwned::to_owned),
            steps: self.steps.clone(),
        }
    }
}

impl ClientConnection {
    pub(super) fn new(config: Arc<ServerConfig>, peer: Arc<Peer>) -> Self {
        let secrets = Arc::new(Secrets::for_config(&config));
        Self {
            config,
            secrets,
            peer,
            opener: OnceLock::new(),
            circuit: CircuitBreaker::default(),
            false_alarms: FalseAlarms::default(),
            settings: SessionSettings::default(),
            close_signal: CloseSignal::default(),
            current_session: RwLock::default(),
            running_attempt: Mutex::default(),
            opened_count: AtomicU64::new(0),
            attempt_steps: parking_lot::Mutex::default(),
        }
    }

    /// Returns the open session, or opens one. Concurrent callers wait for the same attempt, each
    /// with its own deadline.
    pub(super) async fn session(&self) -> Result<Arc<Session>, McpErrorKind> {
        Ok(Arc::clone(&self.open_session().await?.session))
    }

    pub(super) async fn connection_info(&self) -> Result<ConnectionInfo, McpErrorKind> {
        let mut info = self.open_session().await?.connection_info();
        info.steps = self.redact_steps(info.steps);
        Ok(info)
    }

    /// Returns the sequence number and the protocol revision of the open connection; `None` if no
    /// connection is open.
    pub(super) fn open_connection(&self) -> Option<OpenConnection> {
        let open_session = self.current_session()?;
        Some(OpenConnection {
            number: open_session.number,
            protocol_version: open_session.session.version(),
        })
    }

    /// Returns the transport; `None` if the transport is neither configured nor detected yet.
    pub(super) fn transport(&self) -> Option<TransportKind> {
        let configured_transport = self.config.transport_kind();
        if configured_transport != TransportKind::Auto {
            return Some(configured_transport);
        }
        let open_dialect = self
            .current_session
            .read()
            .as_ref()
            .map(|open_session| open_session.dialect);
        let dialect = open_dialect.or_else(|| ServerDialect::find_cached(&self.config));
        dialect.map(|dialect| dialect.transport)
    }

    async fn open_session(&self) -> Result<Arc<OpenSession>, McpErrorKind> {
        if let Some(open_session) = self.current_session() {
            self.check_admission()?;
            return Ok(open_session);
        }
        // The future of connecting is boxed, because connecting is rare and would enlarge the
        // future of every exchange.
        Box::pin(async { self.close_signal.run_until_closed(self.connect()).await? }).await
    }

    async fn connect(&self) -> Result<Arc<OpenSession>, McpErrorKind> {
        let mut running_attempt = self.running_attempt.lock().await;
        self.check_admission()?;
        // No connection is opened if the previous holder of the lock has opened one.
        if let Some(open_session) = self.current_session() {
            return Ok(open_session);
        }
        let closed_session = self.current_session.write().take();
        drop(closed_session);
        let opened_session = self.open(&mut running_attempt).await?;
        if self.close_signal.is_set() {
            // The new session is closed, because `disconnect` was called during the connection
            // attempt.
            opened_session.session.close().await;
            return Err(McpErrorKind::Disconnected);
        }
        let open_session = Arc::new(OpenSession {
            session: Arc::new(opened_session.session),
            dialect: opened_session.dialect,
            steps: opened_session.steps,
            number: self.opened_count.fetch_add(1, Ordering::Relaxed),
        });
        self.restore_settings(&open_session.session);
        *self.current_session.write() = Some(Arc::clone(&open_session));
        Ok(open_session)
    }

    fn current_session(&self) -> Option<Arc<OpenSession>> {
        let current_session = self.current_session.read().clone();
        current_session.filter(|open_session| open_session.session.is_open())
    }

    /// Fails if the client must not send a request: the client is disconnected, or the backoff
    /// after failed connection attempts has not ended.
    fn check_admission(&self) -> Result<(), McpErrorKind> {
        if self.close_signal.is_set() {
            return Err(McpErrorKind::Disconnected);
        }
        self.circuit.check()
    }

    /// Waits for the running connection attempt, or starts one. A caller that joined another
    /// caller's attempt starts its own attempt if the joined one could not reach the server.
    async fn open(
        &self,
        running_attempt: &mut RunningAttempt,
    ) -> Result<OpenedSession, McpErrorKind> {
        let has_joined = running_attempt.is_some();
        match self.join(running_attempt).await {
            Err(error) if has_joined && is_unreachable(&error) => self.join(running_attempt).await,
            outcome => outcome,
        }
    }

    /// Waits for the running connection attempt, or starts one.
    async fn join(
        &self,
        running_attempt: &mut RunningAttempt,
    ) -> Result<OpenedSession, McpErrorKind> {
        let attempt = match running_attempt {
            Some(attempt) => attempt,
            None => {
                let opener = self.opener()?;
                let timeout = self.config.timeout;
                let steps = ProbeSteps::default();
                *self.attempt_steps.lock() = steps.clone();
                let task = tokio::spawn(async move { opener.open(steps, timeout).await });
                running_attempt.insert(AbortOnDropHandle::new(task))
            }
        };
        let joined_outcome = attempt.await;
        *running_attempt = None;
        // If the task was aborted or panicked, the attempt counts as failed, because the task has
        // opened no connection.
        let outcome = joined_outcome.unwrap_or(Err(McpErrorKind::StreamClosed));
        match &outcome {
            Err(error) if is_unreachable(error) => self.circuit.record_failure(error),
            _ => self.circuit.record_success(),
        }
        outcome
    }

    fn opener(&self) -> Result<Arc<ConnectionOpener>, McpErrorKind> {
        if let Some(opener) = self.opener.get() {
            return Ok(Arc::clone(opener));
        }
        let opener = ConnectionOpener::new(&self.config, &self.secrets, &self.peer)?;
        Ok(Arc::clone(self.opener.get_or_init(|| Arc::new(opener))))
    }

    /// Completes an authorization that another client started.
    pub(super) async fn finish_authorization(
        &self,
        pending: PendingAuthorization,
        response: AuthorizationResponse,
    ) -> Result<(), McpErrorKind> {
        self.opener()?.finish_authorization(pending, response).await
    }

    /// Sends the log level and the resource subscriptions again in a new session.
    fn restore_settings(&self, session: &Arc<Session>) {
        const RESTORE_TIMEOUT: Duration = Duration::from_secs(10);
        let requests = self.settings.build_requests();
        if requests.is_empty() || !session.has_feature(Feature::Handshake) {
            return;
        }
        let session = Arc::clone(session);
        tokio::spawn(tokio::time::timeout(RESTORE_TIMEOUT, async move {
            session.listen().await;
            for (method, params) in requests {
                let Ok(raw_params) = to_raw_value(&params) else {
                    continue;
                };
                let extras = RequestExtras::default();
                let outcome = session.exchange(method, &raw_params, extras).await;
                if let Err(error) = outcome.and_then(|outcome| Ok(outcome?)) {
                    tracing::debug!(
                        %error, method,
                        "Cannot restore a setting of the previous session"
                    );
                }
            }
        }));
    }

    /// Updates the circuit breaker with the outcome of a request.
    pub(super) fn update_circuit<T>(&self, outcome: &Result<T, McpErrorKind>) {
        match outcome {
            Err(error @ McpErrorKind::ConnectionFailed(_)) => self.circuit.record_failure(error),
            Err(_) => {}
            Ok(_) => self.circuit.record_success(),
        }
    }

    /// Drops a session that is no longer usable, unless another session replaced it.
    pub(super) async fn forget(&self, session: &Arc<Session>) {
        let _running_attempt = self.running_attempt.lock().await;
        let is_current = |current: &mut Arc<OpenSession>| Arc::ptr_eq(&current.session, session);
        let dropped_session = self.current_session.write().take_if(is_current);
        drop(dropped_session);
    }

    /// Drops a session and the cached transport and revision.
    pub(super) async fn forget_dialect(&self, session: &Arc<Session>) {
        if let Some(opener) = self.opener.get() {
            opener.forget_dialect();
        }
        self.forget(session).await;
    }

    /// Returns whether the client detected the transport or the revision, and can therefore detect
    /// them again.
    pub(super) fn detects_dialect(&self) -> bool {
        self.config.transport_kind() != TransportKind::PostSse
            && self.config.handshake == Handshake::Auto
            && self.config.protocol_version.is_none()
    }

    /// Returns whether the transport is stdio or a WebSocket, where a connection leads to a single
    /// process, whose transport and revision never change.
    pub(super) fn uses_channel(&self) -> bool {
        let transport = self.config.transport_kind();
        matches!(transport, TransportKind::Stdio | TransportKind::WebSocket)
    }

    /// Receives server-initiated messages on the current connection and on all later ones. Opens a
    /// connection if none is open.
    pub(super) async fn listen(&self) -> Result<Arc<Session>, McpErrorKind> {
        let session = self.session().await?;
        session.listen().await;
        Ok(session)
    }

    pub(super) fn attempt_steps(&self) -> Vec<ProbeStep> {
        let steps = self.attempt_steps.lock().snapshot();
        self.redact_steps(steps)
    }

    /// Removes the credentials of the client from the server's texts in `steps`.
    fn redact_steps(&self, mut steps: Vec<ProbeStep>) -> Vec<ProbeStep> {
        for step in &mut steps {
            let (Ok(text) | Err(text)) = &mut step.outcome;
            self.secrets.redact(text);
        }
        steps
    }

    /// Ends the backoff after failed connection attempts, so that the next operation connects at
    /// once.
    pub(super) fn end_backoff(&self) {
        self.circuit.end_backoff();
    }

    pub(super) fn reopen(&self) {
        self.close_signal.reset();
    }

    /// Closes the connection, or aborts the attempt to connect. Waiting callers get an error.
    pub(super) async fn close(&self) {
        self.close_signal.set();
        let mut running_attempt = self.running_attempt.lock().await;
        *running_attempt = None;
        let current_session = self.current_session.write().take();
        drop(running_attempt);
        if let Some(open_session) = current_session {
            open_session.session.close().await;
        }
    }
}

/// Returns whether an error means that the server could not be reached. An error response shows
/// that the server was reached.
fn is_unreachable(error: &McpErrorKind) -> bool {
    matches!(
        error,
        McpErrorKind::ConnectionFailed(_)
            | McpErrorKind::ConnectionBroken(_)
            | McpErrorKind::StreamClosed
            | McpErrorKind::Timeout { .. }
            | McpErrorKind::HttpStatus {
                status: 502..=504,
                ..
            }
    )
}
