mod info;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::RwLock;
use serde_json::value::to_raw_value;
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::circuit::Circuit;
use super::false_alarms::FalseAlarms;
use super::session_settings::SessionSettings;
use crate::close_signal::CloseSignal;
use crate::connect::OpenedSession;
use crate::dialect::ServerDialect;
use crate::opener::ConnectionOpener;
use crate::peer::Peer;
use crate::probe::Steps;
use crate::secrets::Secrets;
use crate::session::{RequestExtras, Session};
use crate::{
    AuthorizationResponse, Feature, Handshake, McpErrorKind, PendingAuthorization, ProbeStep,
    ServerConfig, TransportKind,
};
pub use info::{ConnectionInfo, OpenConnection};

/// The connection of a client: at most one, opened on demand.
pub(super) struct ClientConnection {
    config: Arc<ServerConfig>,
    /// The credentials of the client.
    pub(super) secrets: Arc<Secrets>,
    peer: Arc<Peer>,
    opener: OnceLock<Arc<ConnectionOpener>>,
    circuit: Circuit,
    /// Error responses for which a check found the server's transport and revision unchanged.
    pub(super) false_alarms: FalseAlarms,
    pub(super) settings: SessionSettings,
    /// Set by `disconnect`: operations fail until the client is reopened.
    pub(super) closed: CloseSignal,
    /// The current connection. Written only with the lock of `opening` held, but read without it,
    /// so that requests on an open connection do not wait.
    open: RwLock<Option<Arc<OpenSession>>>,
    opening: Mutex<RunningAttempt>,
    /// Number of connections that this client has opened.
    opened: AtomicU64,
    /// Steps of the last connection attempt.
    tried: parking_lot::Mutex<Steps>,
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
    fn info(&self) -> ConnectionInfo {
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
            circuit: Circuit::default(),
            false_alarms: FalseAlarms::default(),
            settings: SessionSettings::default(),
            closed: CloseSignal::default(),
            open: RwLock::default(),
            opening: Mutex::default(),
            opened: AtomicU64::new(0),
            tried: parking_lot::Mutex::default(),
        }
    }

    /// Returns the open session, or opens one. Concurrent callers wait for the same attempt, each
    /// with its own deadline.
    pub(super) async fn session(&self) -> Result<Arc<Session>, McpErrorKind> {
        let connected = self.connected().await?;
        Ok(Arc::clone(&connected.session))
    }

    pub(super) async fn info(&self) -> Result<ConnectionInfo, McpErrorKind> {
        self.connected().await.map(|connected| connected.info())
    }

    /// Returns the number and revision of the open connection.
    pub(super) fn open_connection(&self) -> Option<OpenConnection> {
        let connected = self.current()?;
        Some(OpenConnection {
            number: connected.number,
            protocol_version: connected.session.version(),
        })
    }

    /// Returns the transport, if it is configured or already detected.
    pub(super) fn transport(&self) -> Option<TransportKind> {
        let configured = self.config.transport_kind();
        if configured != TransportKind::Auto {
            return Some(configured);
        }
        let open = self.open.read().as_ref().map(|open| open.dialect);
        let dialect = open.or_else(|| ServerDialect::known(&self.config));
        dialect.map(|dialect| dialect.transport)
    }

    async fn connected(&self) -> Result<Arc<OpenSession>, McpErrorKind> {
        if let Some(connected) = self.current() {
            self.admit()?;
            return Ok(connected);
        }
        // Boxed, because connecting is rare and would enlarge the future of every exchange.
        Box::pin(async { self.closed.run_until_closed(self.connect()).await? }).await
    }

    async fn connect(&self) -> Result<Arc<OpenSession>, McpErrorKind> {
        let mut opening = self.opening.lock().await;
        self.admit()?;
        // The previous holder of the lock may have connected.
        if let Some(connected) = self.current() {
            return Ok(connected);
        }
        let stale = self.open.write().take();
        drop(stale);
        let opened = self.open(&mut opening).await?;
        if self.closed.is_set() {
            // `disconnect` was called during the connection attempt.
            opened.session.close().await;
            return Err(McpErrorKind::Disconnected);
        }
        let connected = Arc::new(OpenSession {
            session: Arc::new(opened.session),
            dialect: opened.dialect,
            steps: opened.steps,
            number: self.opened.fetch_add(1, Ordering::Relaxed),
        });
        self.restore_settings(&connected.session);
        *self.open.write() = Some(Arc::clone(&connected));
        Ok(connected)
    }

    fn current(&self) -> Option<Arc<OpenSession>> {
        let open = self.open.read().clone();
        open.filter(|connected| connected.session.is_open())
    }

    /// Admits a request, or fails if the client is disconnected or backs off.
    fn admit(&self) -> Result<(), McpErrorKind> {
        if self.closed.is_set() {
            return Err(McpErrorKind::Disconnected);
        }
        self.circuit.check()
    }

    /// Waits for the running connection attempt, or starts one. A caller that joined another
    /// caller's attempt starts its own attempt if the joined one could not reach the server.
    async fn open(&self, opening: &mut RunningAttempt) -> Result<OpenedSession, McpErrorKind> {
        let joined = opening.is_some();
        match self.attempt(opening).await {
            Err(error) if joined && is_unreachable(&error) => self.attempt(opening).await,
            outcome => outcome,
        }
    }

    async fn attempt(&self, opening: &mut RunningAttempt) -> Result<OpenedSession, McpErrorKind> {
        let attempt = match opening {
            Some(attempt) => attempt,
            None => {
                let opener = self.opener()?;
                let after = self.config.timeout;
                let steps = Steps::default();
                *self.tried.lock() = steps.clone();
                let attempt = tokio::spawn(async move { opener.open(steps, after).await });
                opening.insert(AbortOnDropHandle::new(attempt))
            }
        };
        let joined = attempt.await;
        *opening = None;
        // A task that was aborted or panicked has opened no connection.
        let outcome = joined.unwrap_or(Err(McpErrorKind::StreamClosed));
        match &outcome {
            Err(error) if is_unreachable(error) => self.circuit.failed(error),
            _ => self.circuit.succeeded(),
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
        let requests = self.settings.requests();
        if requests.is_empty() || !session.has(Feature::Handshake) {
            return;
        }
        let session = Arc::clone(session);
        tokio::spawn(tokio::time::timeout(RESTORE_TIMEOUT, async move {
            session.listen().await;
            for (method, params) in requests {
                let Ok(params) = to_raw_value(&params) else {
                    continue;
                };
                let outcome = session
                    .exchange(method, &params, RequestExtras::default())
                    .await;
                if let Err(error) = outcome.and_then(|outcome| Ok(outcome?)) {
                    tracing::debug!(
                        %error, method,
                        "The new session rejected a request that restores its state"
                    );
                }
            }
        }));
    }

    /// Updates the circuit breaker with the outcome of a request.
    pub(super) fn learn<T>(&self, outcome: &Result<T, McpErrorKind>) {
        match outcome {
            Err(error @ McpErrorKind::Connect(_)) => self.circuit.failed(error),
            Err(_) => {}
            Ok(_) => self.circuit.succeeded(),
        }
    }

    /// Drops a session that is no longer usable, unless another session replaced it.
    pub(super) async fn forget(&self, session: &Arc<Session>) {
        let _opening = self.opening.lock().await;
        let is_it = |connected: &mut Arc<OpenSession>| Arc::ptr_eq(&connected.session, session);
        let forgotten = self.open.write().take_if(is_it);
        drop(forgotten);
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
    pub(super) fn is_channel(&self) -> bool {
        matches!(
            self.config.transport_kind(),
            TransportKind::Stdio | TransportKind::WebSocket
        )
    }

    /// Receives server-initiated messages on this and later connections.
    pub(super) async fn listen(&self) -> Result<Arc<Session>, McpErrorKind> {
        let session = self.session().await?;
        session.listen().await;
        Ok(session)
    }

    pub(super) fn tried(&self) -> Vec<ProbeStep> {
        self.tried.lock().snapshot()
    }

    /// Ends the backoff after failed connection attempts: lets the next operation connect at once.
    pub(super) fn end_pause(&self) {
        self.circuit.end_pause();
    }

    pub(super) fn reopen(&self) {
        self.closed.reset();
    }

    /// Closes the connection, or aborts the attempt to connect. Waiting callers get an error.
    pub(super) async fn close(&self) {
        self.closed.set();
        let mut opening = self.opening.lock().await;
        *opening = None;
        let open = self.open.write().take();
        drop(opening);
        if let Some(connected) = open {
            connected.session.close().await;
        }
    }
}

/// Returns whether the server could not be reached, as opposed to a server that answered with an
/// error.
fn is_unreachable(error: &McpErrorKind) -> bool {
    matches!(
        error,
        McpErrorKind::Connect(_)
            | McpErrorKind::Broken(_)
            | McpErrorKind::StreamClosed
            | McpErrorKind::Timeout { .. }
            | McpErrorKind::HttpStatus {
                status: 502..=504,
                ..
            }
    )
}
