//! Opens sessions over stdio and WebSocket, where only the revision has to be detected.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{
    DiscoverOutcome, METHOD_NOT_FOUND, OpenedSession, find_stateless_version, interpret_response,
    rpc_error,
};
use crate::callbacks::empty_object;
use crate::dialect::{ServerDialect, SessionStart};
use crate::http::HttpLink;
use crate::peer::Peer;
use crate::probe::ProbeSteps;
use crate::session::{IdStyle, Session};
use crate::transport::{StdioLink, StdioTransport, Transport, WebSocketTransport};
use crate::{McpErrorKind, ProtocolVersion, ServerConfig, TransportKind};

/// Timeout for the response to `server/discover`. After the timeout, the client sends `initialize`:
/// some servers never respond to `server/discover`, and a program that starts slowly can still
/// respond to `initialize`.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of times that a program is started again, or a WebSocket is opened again, for one
/// connection.
const MAX_RESTARTS: usize = 3;

/// Opens connections over stdio and WebSocket.
pub(crate) struct ChannelConnector {
    config: Arc<ServerConfig>,
    link: ChannelLink,
    peer: Arc<Peer>,
    /// The revision that the last handshake requested, so that the next connection need not detect
    /// the revision. For a server without a handshake, each connection detects the revision again:
    /// the detection takes no longer than a handshake, and reveals a changed server.
    cached_version: Mutex<Option<ProtocolVersion>>,
}

/// The server at the other end of a stdio or WebSocket connection.
pub(crate) enum ChannelLink {
    /// A local program, over stdio.
    Stdio(StdioLink),
    /// A server at a URL, over a WebSocket. The connection starts with an HTTP request.
    WebSocket(Box<HttpLink>),
}

impl ChannelConnector {
    pub(crate) fn new(config: Arc<ServerConfig>, link: ChannelLink, peer: Arc<Peer>) -> Self {
        Self {
            config,
            link,
            peer,
            cached_version: Mutex::new(None),
        }
    }

    /// Returns the HTTP client that opens WebSockets; `None` for a local program.
    pub(crate) fn http_link(&self) -> Option<&HttpLink> {
        match &self.link {
            ChannelLink::Stdio(_) => None,
            ChannelLink::WebSocket(link) => Some(link),
        }
    }

    /// Opens a session; returns `None` if that takes longer than `timeout`.
    pub(crate) async fn open_with_timeout(
        &self,
        steps: ProbeSteps,
        timeout: Duration,
    ) -> Option<Result<OpenedSession, McpErrorKind>> {
        let open_operation = self.open_repeatedly(steps);
        match &self.link {
            ChannelLink::Stdio(_) => pillion_deadline::timeout(timeout, open_operation)
                .await
                .ok(),
            ChannelLink::WebSocket(link) => link.run_in_time(timeout, open_operation).await,
        }
    }

    /// Opens a session, and tries again if the server ends the connection during the handshake. A
    /// program is started again only if it has responded after an earlier start, because such a
    /// program was probably killed.
    async fn open_repeatedly(&self, steps: ProbeSteps) -> Result<OpenedSession, McpErrorKind> {
        let can_open_again = || match &self.link {
            ChannelLink::Stdio(link) => link.can_start_again(),
            ChannelLink::WebSocket(_) => true,
        };
        for _ in 0..MAX_RESTARTS {
            match self.open(steps.clone()).await {
                Err(error) if is_connection_end(&error) && can_open_again() => {
                    tracing::debug!(
                        %error,
                        "Connecting again to an MCP server that ended the connection during the \
                        handshake"
                    );
                }
                outcome => return outcome,
            }
        }
        self.open(steps).await
    }

    /// Opens a session with the configured or cached revision, or else detects the revision.
    async fn open(&self, mut steps: ProbeSteps) -> Result<OpenedSession, McpErrorKind> {
        if let Some(session_start) = SessionStart::from_config(&self.config) {
            let session = self.open_channel().await?;
            return self.open_with_start(session_start, session, steps).await;
        }
        let cached_version = self.cached_version.lock().take();
        if let Some(version) = cached_version {
            let start = SessionStart::Handshake(version);
            let session = self.open_channel().await?;
            match self.open_with_start(start, session, steps.clone()).await {
                Ok(opened_session) => {
                    self.remember(start);
                    return Ok(opened_session);
                }
                // After a JSON-RPC error, the revision is detected again, because the cached one
                // may be outdated.
                Err(error) if rpc_error(&error).is_some() => {
                    tracing::debug!(
                        %error,
                        "The cached protocol revision failed; detecting it again"
                    );
                }
                Err(error) => return Err(error),
            }
        }
        let (session, session_start) = self.detect(&mut steps).await?;
        self.remember(session_start);
        Ok(self.to_opened_session(session, session_start, steps))
    }

    fn remember(&self, session_start: SessionStart) {
        *self.cached_version.lock() = match session_start {
            SessionStart::Handshake(version) => Some(version),
            SessionStart::Stateless(_) | SessionStart::None => None,
        };
    }

    pub(crate) fn forget_dialect(&self) {
        *self.cached_version.lock() = None;
    }

    /// Detects the revision:
    ///
    /// 1. Send `server/discover`. If it returns a result, or an error that exists only since
    ///    revision 2026-07-28, the server has no handshake.
    /// 2. Otherwise send `initialize`, on a new connection if the server closed the first one.
    /// 3. If the server does not know the method, it has no handshake.
    async fn detect(
        &self,
        steps: &mut ProbeSteps,
    ) -> Result<(Session, SessionStart), McpErrorKind> {
        let mut requested_version = ProtocolVersion::LATEST_WITH_HANDSHAKE;
        let mut session = self.open_channel().await?;
        match self.discover(&mut session, steps).await? {
            DiscoverOutcome::Stateless(version) | DiscoverOutcome::OtherRevision(version) => {
                session.set_version(version);
                return Ok((session, SessionStart::Stateless(version)));
            }
            DiscoverOutcome::Handshake(version) => requested_version = version,
            DiscoverOutcome::Unsupported | DiscoverOutcome::NoResponse => {}
        }
        if !session.is_open() {
            if let ChannelLink::Stdio(link) = &self.link {
                link.undo_crash();
            }
            session = self.open_channel().await?;
        }
        session.clear_version();
        let outcome = session.initialize(requested_version).await;
        let attempt = format!("{} initialize ({requested_version})", self.transport_name());
        let description = outcome.as_ref().map(|()| session.describe_version());
        steps.record(attempt, description);
        let Err(error) = outcome else {
            return Ok((session, SessionStart::Handshake(requested_version)));
        };
        let Some(response_error) = rpc_error(&error) else {
            return Err(error);
        };
        if let Some(version) = find_stateless_version(response_error) {
            session.set_version(version);
            return Ok((session, SessionStart::Stateless(version)));
        }
        if response_error.code != METHOD_NOT_FOUND {
            return Err(error);
        }
        // `server/discover` is sent again, because the server may have no handshake, and may have
        // been too slow for the first request.
        let discover_outcome = self.discover(&mut session, steps).await?;
        if let DiscoverOutcome::Stateless(version) | DiscoverOutcome::OtherRevision(version) =
            discover_outcome
        {
            session.set_version(version);
            return Ok((session, SessionStart::Stateless(version)));
        }
        session.clear_version();
        Ok((session, SessionStart::None))
    }

    /// Sends `server/discover` in the newest supported revision. If the server rejects that
    /// revision and lists another supported revision without a handshake, sends `server/discover`
    /// once more in the listed revision.
    async fn discover(
        &self,
        session: &mut Session,
        steps: &mut ProbeSteps,
    ) -> Result<DiscoverOutcome, McpErrorKind> {
        match self
            .discover_in_revision(ProtocolVersion::LATEST, session, steps)
            .await?
        {
            DiscoverOutcome::OtherRevision(version) => {
                self.discover_in_revision(version, session, steps).await
            }
            outcome => Ok(outcome),
        }
    }

    async fn discover_in_revision(
        &self,
        version: ProtocolVersion,
        session: &mut Session,
        steps: &mut ProbeSteps,
    ) -> Result<DiscoverOutcome, McpErrorKind> {
        session.set_version(version);
        let timeout = DISCOVER_TIMEOUT.min(self.config.timeout / 4);
        let params = empty_object();
        let request = session.send_opening_request("server/discover", &params);
        let response = pillion_deadline::timeout(timeout, request).await;
        let outcome = response.unwrap_or(Err(McpErrorKind::timeout(timeout)));
        let discover_outcome = interpret_response(outcome, session);
        let attempt = format!("{} server/discover ({version})", self.transport_name());
        let description = discover_outcome.as_ref().map(DiscoverOutcome::describe);
        steps.record(attempt, description);
        discover_outcome
    }

    async fn open_with_start(
        &self,
        session_start: SessionStart,
        mut session: Session,
        mut steps: ProbeSteps,
    ) -> Result<OpenedSession, McpErrorKind> {
        let outcome = match session_start {
            SessionStart::Stateless(version) => {
                session.set_version(version);
                Ok(())
            }
            SessionStart::Handshake(version) => session.initialize(version).await,
            SessionStart::None => Ok(()),
        };
        let attempt = match session_start {
            SessionStart::Stateless(version) => format!("requests of revision {version}"),
            SessionStart::Handshake(version) => format!("initialize ({version})"),
            SessionStart::None => "requests without handshake".to_owned(),
        };
        let description = outcome.as_ref().map(|()| session.describe_version());
        steps.record(format!("{} {attempt}", self.transport_name()), description);
        outcome?;
        Ok(self.to_opened_session(session, session_start, steps))
    }

    fn to_opened_session(
        &self,
        session: Session,
        session_start: SessionStart,
        steps: ProbeSteps,
    ) -> OpenedSession {
        let transport = match &self.link {
            ChannelLink::Stdio(_) => TransportKind::Stdio,
            ChannelLink::WebSocket(_) => TransportKind::WebSocket,
        };
        steps.into_opened_session(session, ServerDialect::new(transport, session_start))
    }

    /// Opens a connection without sending anything.
    async fn open_channel(&self) -> Result<Session, McpErrorKind> {
        let peer = Arc::clone(&self.peer);
        let transport: Box<dyn Transport> = match &self.link {
            ChannelLink::Stdio(link) => {
                Box::new(StdioTransport::open(link, Arc::clone(&peer)).await?)
            }
            ChannelLink::WebSocket(link) => {
                Box::new(WebSocketTransport::open(link, Arc::clone(&peer)).await?)
            }
        };
        Ok(Session::new(transport, peer, IdStyle::Number))
    }

    fn transport_name(&self) -> &'static str {
        match &self.link {
            ChannelLink::Stdio(_) => "stdio",
            ChannelLink::WebSocket(_) => "WebSocket",
        }
    }
}

/// Returns whether an error means that the server has closed the connection.
fn is_connection_end(error: &McpErrorKind) -> bool {
    matches!(
        error,
        McpErrorKind::ProcessEnded { .. }
            | McpErrorKind::StreamClosed
            | McpErrorKind::ConnectionBroken(_)
    )
}
